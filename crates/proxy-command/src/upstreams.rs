//! The upstreams of a reverse proxy for operators: a list that can be changed, names that are resolved periodically,
//! and messages on standard error about changes of state.
//!
//! A name without an address at the start is no error: in a system whose parts start together, the proxy is often
//! first. The upstream gets no requests until it has an address.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use breme_balance::{Group, GroupError, GroupSettings, ListChange, UpstreamSettings, UpstreamState};
use breme_driver::{Address, Clock, UnixSockets};
use breme_proxy::ResolveError;
use parking_lot::{Condvar, Mutex};

use super::name_resolver::{self, Found, look_up};
use super::upstream::{self, Location, Upstream};
use super::upstream_tls::Clients;

/// Interval at which changes of an upstream are reported.
const TICK: Duration = Duration::from_millis(200);
/// How long a new list waits for the addresses of its new names; later ones are handled as any other change.
const NEW_NAMES_PATIENCE: Duration = Duration::from_secs(2);

/// The upstreams, for the shards, the admin API and signals. Clones share everything.
#[derive(Clone, Debug)]
pub struct Upstreams {
    shared: Arc<SharedUpstreams>,
}

#[derive(Debug)]
struct SharedUpstreams {
    group: Arc<Group>,
    clock: Clock,
    clients: Clients,
    sockets: UnixSockets,
    /// Where the proxy listens, once it does.
    listening: OnceLock<Vec<SocketAddr>>,
    state: Mutex<UpstreamsState>,
    called: Condvar,
}

#[derive(Debug)]
struct UpstreamsState {
    list: Vec<Upstream>,
    /// The last addresses of each name.
    known: HashMap<String, Vec<IpAddr>>,
    /// Interval of name resolution; 0: only new names.
    interval: Duration,
    /// Names are to be resolved now.
    is_stale: bool,
    is_over: bool,
}

/// Why a list of upstreams was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListError {
    Group(GroupError),
    /// TLS is impossible with one of them.
    Tls(String),
    /// The limit of Unix sockets is exceeded.
    Socket(String),
    /// This one is the proxy itself: requests would loop.
    Own(String),
}

impl std::fmt::Display for ListError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Group(error) => error.fmt(formatter),
            Self::Tls(problem) => formatter.write_str(problem),
            Self::Socket(name) => write!(
                formatter,
                "{name}: {} Unix sockets have been used since the start, which is the limit; restart the proxy",
                UnixSockets::PATHS_MAX
            ),
            Self::Own(name) => write!(formatter, "{name} is this proxy itself; name the server that it forwards to"),
        }
    }
}

impl From<GroupError> for ListError {
    fn from(error: GroupError) -> Self {
        Self::Group(error)
    }
}

impl Upstreams {
    /// Resolves the names once.
    pub fn new(
        settings: GroupSettings,
        list: Vec<Upstream>,
        interval: Duration,
        clock: Clock,
        clients: Clients,
        sockets: UnixSockets,
    ) -> Result<Self, ListError> {
        clients.prepare(&list).map_err(ListError::Tls)?;
        let known = usable(look_up_all(&list)).into_iter().collect();
        let members = list.iter().map(|upstream| member(upstream, &known, &sockets)).collect::<Result<_, _>>()?;
        let group = Arc::new(Group::new(settings, members)?);
        let state = UpstreamsState { list, known, interval, is_stale: false, is_over: false };
        Ok(Self {
            shared: Arc::new(SharedUpstreams {
                group,
                clock,
                clients,
                sockets,
                listening: OnceLock::new(),
                state: Mutex::new(state),
                called: Condvar::new(),
            }),
        })
    }

    /// The group used by the shards.
    pub fn group(&self) -> Arc<Group> {
        Arc::clone(&self.shared.group)
    }

    /// Starts the thread that resolves names periodically and reports changes of state.
    pub fn follow(&self) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        std::thread::Builder::new().name("upstreams".to_owned()).spawn(move || shared.follow()).map(drop)
    }

    /// Ends the thread, which first reports pending changes.
    pub fn end(&self) {
        self.shared.state.lock().is_over = true;
        self.shared.called.notify_all();
        self.shared.print_changes();
    }

    /// Rejects upstreams that are the proxy itself, which listens here: those in the list, and in every later one.
    pub fn reject_own<'a>(&self, listening: impl IntoIterator<Item = &'a Address>) -> Result<(), ListError> {
        let of_upstream = |address: &Address| match address {
            Address::Tcp(address) => Some(*address),
            Address::Unix(path) => self.shared.sockets.address_of(path),
        };
        let listening: Vec<SocketAddr> = listening.into_iter().filter_map(of_upstream).collect();
        let states = self.states();
        let named = states.iter().map(|state| (&*state.name, &*state.addresses));
        let own = find_own(named, &listening);
        let _ = self.shared.listening.set(listening); // where it listens does not change
        own.map_or(Ok(()), |name| Err(ListError::Own(name)))
    }

    pub fn states(&self) -> Vec<UpstreamState> {
        self.shared.group.states(self.shared.clock.now())
    }

    /// Returns whether there is one with this name.
    pub fn drain(&self, name: &str) -> bool {
        self.shared.group.drain(self.shared.clock.now(), name)
    }

    /// Returns whether there is one with this name.
    pub fn undrain(&self, name: &str) -> bool {
        self.shared.group.undrain(self.shared.clock.now(), name)
    }

    /// Replaces the list, and the rules if there are any. Requests in progress are not affected.
    pub fn replace(
        &self,
        list: Vec<Upstream>,
        rules: Option<(GroupSettings, Duration)>,
    ) -> Result<ListChange, ListError> {
        let SharedUpstreams { group, clock, clients, sockets, listening, called, .. } = &*self.shared;
        // Before any shard may select them.
        clients.prepare(&list).map_err(ListError::Tls)?;
        let found = self.look_up_new(&list);
        let mut state = self.shared.state.lock();
        let known: HashMap<_, _> = state.known.clone().into_iter().chain(found).collect();
        let members: Vec<_> =
            list.iter().map(|upstream| member(upstream, &known, sockets)).collect::<Result<_, _>>()?;
        let named = members.iter().map(|member| (&*member.name, &*member.addresses));
        if let Some(name) = find_own(named, listening.get().map_or(&[], Vec::as_slice)) {
            return Err(ListError::Own(name));
        }
        let replaced = match rules {
            None => group.replace(clock.now(), members)?,
            Some((settings, interval)) => {
                let replaced = group.reconfigure(clock.now(), settings, members)?;
                state.interval = interval;
                replaced
            }
        };
        state.list = list;
        state.known = known;
        state.is_stale = true;
        called.notify_all();
        Ok(replaced)
    }
}

impl Upstreams {
    /// Resolves names that were in no list before, within a time limit; otherwise, after a replacement of the whole
    /// list, the proxy would briefly have no upstream.
    fn look_up_new(&self, list: &[Upstream]) -> Vec<(String, Vec<IpAddr>)> {
        let known: Vec<String> = self.shared.state.lock().known.keys().cloned().collect();
        let is_known = |host: &str| known.iter().any(|known| known == host);
        let is_new = |upstream: &&Upstream| upstream.host_name().is_some_and(|(host, _)| !is_known(host));
        let new: Vec<Upstream> = list.iter().filter(is_new).cloned().collect();
        let names: Vec<String> = new.iter().filter_map(|new| Some(new.host_name()?.0.to_owned())).collect();
        let (sender, receiver) = std::sync::mpsc::channel();
        let looking = std::thread::Builder::new().name("new-upstreams".to_owned());
        // If it is too late, nothing receives it.
        let begun = looking.spawn(move || drop(sender.send(look_up_all(&new))));
        let found = begun.ok().and_then(|_| receiver.recv_timeout(NEW_NAMES_PATIENCE).ok());
        usable(found.unwrap_or_else(|| names.into_iter().map(|host| (host, Err(ResolveError::TimedOut))).collect()))
    }
}

impl SharedUpstreams {
    fn follow(&self) {
        let mut looked = Instant::now();
        loop {
            let waits = |state: &mut UpstreamsState| !state.is_over && !state.is_stale;
            let mut state = self.state.lock();
            self.called.wait_while_for(&mut state, waits, TICK);
            if state.is_over {
                return;
            }
            let is_due = !state.interval.is_zero() && looked.elapsed() >= state.interval;
            let list = (is_due || std::mem::take(&mut state.is_stale)).then(|| state.list.clone());
            drop(state);
            if let Some(list) = list {
                looked = Instant::now();
                self.learn(&list, look_up_all(&list));
            }
            self.print_changes();
        }
    }

    /// An upstream whose name no longer resolves keeps its address: resolution fails more often than servers vanish.
    fn learn(&self, list: &[Upstream], found: Found) {
        for (host, addresses) in found {
            let Ok(addresses) = addresses else { continue };
            for upstream in list {
                if let Some((_, port)) = upstream.host_name().filter(|(name, _)| *name == host) {
                    let addresses = with_port(&addresses, port);
                    self.group.move_to(self.clock.now(), &upstream.name(), &addresses);
                }
            }
            self.state.lock().known.insert(host, addresses);
        }
        let is_listed =
            |host: &str| list.iter().any(|upstream| upstream.host_name().is_some_and(|(name, _)| name == host));
        self.state.lock().known.retain(|host, _| is_listed(host));
    }

    fn print_changes(&self) {
        for change in self.group.take_changes() {
            breme_base::error_line!("breme proxy: {change}");
        }
    }
}

/// The names that have addresses; the others are reported.
fn usable(found: Found) -> Vec<(String, Vec<IpAddr>)> {
    let report = |host: &str, error: &ResolveError| {
        breme_base::error_line!("breme proxy: warning: cannot use the upstream {host} yet: {error}");
    };
    let each = found.into_iter();
    each.filter_map(|(host, found)| {
        let addresses = found.map_err(|error| report(&host, &error)).ok()?;
        Some((host, addresses))
    })
    .collect()
}

/// Resolves the names of a list.
fn look_up_all(list: &[Upstream]) -> Found {
    let names = list.iter().filter_map(Upstream::host_name);
    name_resolver::look_up_all(&names.map(|(host, _)| host).collect(), look_up)
}

fn member(
    upstream: &Upstream,
    known: &HashMap<String, Vec<IpAddr>>,
    sockets: &UnixSockets,
) -> Result<UpstreamSettings, ListError> {
    let name = upstream.name();
    let addresses = match (&upstream.location, upstream.literal()) {
        (Location::Unix(path), _) => {
            vec![sockets.address_of(path).ok_or_else(|| ListError::Socket(name.clone()))?]
        }
        (Location::Host { .. }, Some(address)) => vec![address],
        (Location::Host { host, port }, None) => known.get(host).map_or_else(Vec::new, |found| with_port(found, *port)),
    };
    let Upstream { is_tls, weight, route, .. } = upstream.clone();
    Ok(UpstreamSettings { name, tls: is_tls, addresses, weight, route })
}

/// The name of an upstream with an address at which the proxy listens.
fn find_own<'a>(
    mut named: impl Iterator<Item = (&'a str, &'a [SocketAddr])>,
    listening: &[SocketAddr],
) -> Option<String> {
    let is_own = |address: &SocketAddr| {
        let is_here = |ip: IpAddr| ip == address.ip() || (ip.is_unspecified() && address.ip().is_loopback());
        listening.iter().any(|own| own.port() == address.port() && is_here(own.ip()))
    };
    let own = named.find(|(_, addresses)| addresses.iter().any(is_own));
    own.map(|(name, _)| name.to_owned())
}

fn with_port(addresses: &[IpAddr], port: u16) -> Vec<SocketAddr> {
    addresses.iter().map(|&address| SocketAddr::new(address, port)).collect()
}

pub fn url(state: &UpstreamState) -> String {
    upstream::url(state.tls, &state.name)
}

/// The addresses of an upstream; of a Unix socket its name.
pub fn addresses(state: &UpstreamState) -> Vec<String> {
    match state.name.starts_with(Address::UNIX) {
        true => vec![state.name.to_string()],
        false => state.addresses.iter().map(ToString::to_string).collect(),
    }
}

pub fn scheme(state: &UpstreamState) -> &'static str {
    if state.tls { "https" } else { "http" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(texts: &[&str]) -> Vec<Upstream> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn upstreams(texts: &[&str]) -> Upstreams {
        let (rules, clients, sockets) = (GroupSettings::default(), Clients::default(), UnixSockets::default());
        Upstreams::new(rules, list(texts), Duration::ZERO, Clock::start(), clients, sockets).unwrap()
    }

    fn address(text: &str) -> Address {
        Address::Tcp(text.parse().unwrap())
    }

    fn statuses(upstreams: &Upstreams) -> Vec<(String, &'static str, bool)> {
        let states = upstreams.states().into_iter();
        states.map(|state| (state.name.to_string(), state.status.name(), state.is_draining)).collect()
    }

    #[test]
    fn a_list_is_changed_and_drained_at_run_time() {
        let upstreams = upstreams(&["http://127.0.0.1:1", "https://127.0.0.1:2"]);
        assert!(upstreams.drain("127.0.0.1:1") && !upstreams.drain("127.0.0.1:9"));
        let replaced = upstreams.replace(list(&["http://127.0.0.1:1", "http://127.0.0.1:3"]), None);
        assert_eq!(replaced, Ok(ListChange { added: 1, removed: 1, kept: 1 }));
        let expected = [("127.0.0.1:1".to_owned(), "up", true), ("127.0.0.1:3".to_owned(), "up", false)];
        assert_eq!(statuses(&upstreams), expected);
        assert!(upstreams.undrain("127.0.0.1:1"));
        assert!(!statuses(&upstreams)[0].2);
    }

    #[test]
    fn a_list_that_cannot_be_leaves_the_old_one() {
        let upstreams = upstreams(&["https://127.0.0.1:2"]);
        assert_eq!(upstreams.replace(Vec::new(), None), Err(ListError::Group(GroupError::NoUpstream)));
        let twice = list(&["http://localhost:3", "http://localhost:3"]);
        let rules = (GroupSettings::default(), Duration::from_secs(9));
        assert!(matches!(upstreams.replace(twice, Some(rules)), Err(ListError::Group(GroupError::NamedTwice(_)))));
        let state = upstreams.shared.state.lock();
        assert_eq!((state.known.len(), state.interval), (0, Duration::ZERO), "nothing of it is kept");
        drop(state);
        assert_eq!(statuses(&upstreams).len(), 1);
    }

    #[test]
    fn a_new_upstream_may_speak_tls() {
        let upstreams = upstreams(&["http://127.0.0.1:1", "https://127.0.0.1:2"]);
        let ids = upstreams.shared.clients.ids.clone();
        let before = ids.client("127.0.0.1:2");
        assert!(before.is_some() && ids.client("127.0.0.1:3").is_none());
        let replaced = upstreams.replace(list(&["https://127.0.0.1:3", "https://127.0.0.1:2"]), None);
        assert_eq!(replaced, Ok(ListChange { added: 1, removed: 1, kept: 1 }));
        assert!(ids.client("127.0.0.1:3").is_some() && ids.client("127.0.0.1:2") == before);
        assert_eq!(ids.count(), 2);
    }

    #[test]
    fn a_circle_is_seen() {
        let own = |address: &str| {
            let upstreams = upstreams(&["http://127.0.0.1:80", "http://127.0.0.1:81", "http://here.localhost:83"]);
            upstreams.reject_own(&[self::address(address)]).err()
        };
        let named = |name: &str| Some(ListError::Own(name.to_owned()));
        assert_eq!([own("127.0.0.1:81"), own("0.0.0.0:80")], [named("127.0.0.1:81"), named("127.0.0.1:80")]);
        assert_eq!([own("127.0.0.1:82"), own("127.0.0.2:81")], [None, None]);
        assert_eq!([own("127.0.0.1:83"), own("[::1]:83")], [named("here.localhost:83"), named("here.localhost:83")]);
    }

    #[test]
    fn unix_sockets_are_upstreams_and_their_own_circle() {
        let upstreams = upstreams(&["unix:/run/a.sock", "http://127.0.0.1:1"]);
        let state = &upstreams.states()[0];
        assert_eq!(
            (url(state), addresses(state)),
            ("unix:/run/a.sock".to_owned(), vec!["unix:/run/a.sock".to_owned()])
        );
        assert_eq!(statuses(&upstreams)[0].1, "up");
        let path = |path: &str| Address::from(std::path::Path::new(path));
        upstreams.reject_own(&[path("/run/b.sock")]).unwrap();
        let circle = upstreams.replace(list(&["unix:/run/b.sock"]), None);
        assert_eq!(circle, Err(ListError::Own("unix:/run/b.sock".to_owned())));
        assert_eq!(
            upstreams.replace(list(&["unix:/run/c.sock"]), None),
            Ok(ListChange { added: 1, removed: 2, kept: 0 })
        );
    }

    #[test]
    fn a_later_list_may_not_name_the_proxy_either() {
        let upstreams = upstreams(&["http://127.0.0.1:80"]);
        upstreams.reject_own(&[address("127.0.0.1:81")]).unwrap();
        let circle = list(&["http://127.0.0.1:82", "http://127.0.0.1:81"]);
        assert_eq!(upstreams.replace(circle, None), Err(ListError::Own("127.0.0.1:81".to_owned())));
        assert_eq!(statuses(&upstreams).len(), 1, "the old list stays");
        assert!(upstreams.replace(list(&["http://127.0.0.1:82"]), None).is_ok());
    }

    #[test]
    fn a_name_without_an_address_is_waited_for() {
        let upstreams = upstreams(&["http://nowhere.invalid", "http://localhost:8"]);
        let found = statuses(&upstreams);
        assert_eq!([found[0].1, found[1].1], ["unresolved", "up"]);
        let addresses = vec!["127.0.0.1".parse().unwrap()];
        let found = Found::from([("nowhere.invalid".to_owned(), Ok(addresses))]);
        let list = upstreams.shared.state.lock().list.clone();
        upstreams.shared.learn(&list, found);
        assert_eq!(upstreams.states()[0].addresses, ["127.0.0.1:80".parse().unwrap()]);
        let gone = Found::from([("nowhere.invalid".to_owned(), Err(ResolveError::NoSuchName))]);
        upstreams.shared.learn(&list, gone);
        assert_eq!(upstreams.states()[0].addresses.len(), 1, "it stays where it was");
    }
}
