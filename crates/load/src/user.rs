//! One user: a connection, its outstanding requests, and its cookies.

use breme_base::Instant;
use breme_http1::ClientConnection;
use breme_load_plan::{CheckState, Spread};
use breme_node::ConnectionId;

use crate::cache_use::CacheUse;
use crate::cookies::Jar;
use crate::redirect::Redirects;
use crate::session::Session;
use crate::versions::Search;
use crate::window::Window;

/// Small, since there is one per connection: with a pipeline depth of 1 it needs no other memory.
#[derive(Debug)]
pub(crate) struct User {
    pub state: State,
    pub protocol: ClientConnection,
    /// Its last request asks the server to close the connection; some servers do so without announcing it. No other
    /// request is outstanding then.
    pub closes: bool,
    /// On an open connection: requests that were sent. Else: requests that wait for one.
    pub window: Window,
    pub response: IncomingResponse,
    /// When it began, or will begin, to want its next request. Of a closed loop.
    pub wants: Instant,
    /// Since when it thinks; [`Instant::FAR`] if it does not. Of a closed loop.
    pub thinks_since: Instant,
    /// When it could send its next request, or will be able to.
    pub ready: Instant,
    /// Since when it wants a successful response; [`Instant::FAR`]: no request has failed since its last one.
    pub unserved_since: Instant,
    /// Consecutive connections that failed or had no response, including the current one.
    pub failures: u32,
    pub was_connected: bool,
    /// It has tried to connect, with or without success.
    pub has_tried: bool,
    /// Of an open loop: the list of free users that includes it.
    pub listed: Listed,
    /// The number of connection attempts; distinguishes the result of an old attempt from that of the current one.
    pub attempt: u32,
    /// The index of the address that is tried.
    pub address_index: u32,
    pub jar: Option<Box<Jar>>,
    /// Of a scenario.
    pub session: Option<Box<Session>>,
    /// The Cache-Status of every response is counted.
    pub counts_caches: bool,
    /// If there are several.
    pub hosts: Option<Box<Hosts>>,
    /// If they are followed.
    pub redirects: Option<Box<Redirects>>,
}

/// Several hosts, each with a connection at most.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// That of the next request, or of the one that was sent last.
    pub next: usize,
    /// That of the connection in use.
    pub current: usize,
    /// Connections to the others.
    pub idle: Vec<Option<(ConnectionId, ClientConnection)>>,
    /// Those to which the user had a connection.
    known: Vec<bool>,
}

impl Hosts {
    pub(crate) fn new(count: usize) -> Self {
        Self { next: 0, current: 0, idle: (0..count).map(|_| None).collect(), known: vec![false; count] }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No connection; waits for its timer: the ramp, thinking, or a pause after a failure.
    Waiting,
    /// No connection; waits in the queue for one to be opened.
    Queued,
    /// Its connection is being opened, since then.
    Connecting(Instant),
    /// … to a proxy, to which a CONNECT request was sent; since the beginning.
    Tunnelling(Instant, ConnectionId),
    Open(ConnectionId),
    /// It has nothing more to do.
    Done,
}

/// The list of a user that may take an arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Listed {
    #[default]
    No,
    /// Among those with nothing outstanding.
    Idle,
    /// Among those with outstanding requests, and room for more.
    Busy,
}

/// The response being read.
#[derive(Debug, Default)]
pub(crate) struct IncomingResponse {
    pub status: u16,
    pub content_bytes: u64,
    /// If the content is checked.
    pub check: Option<Box<CheckState>>,
    /// The search for its versions; only of a page that the run has written.
    pub search: Option<Box<Search>>,
    /// Its Cache-Status, if counted.
    pub cache_use: Option<CacheUse>,
}

impl User {
    pub(crate) fn new(depth: usize, has_jar: bool, reads_content: bool) -> Self {
        Self {
            state: State::Waiting,
            protocol: ClientConnection::new(),
            closes: false,
            window: Window::new(depth),
            response: IncomingResponse { check: reads_content.then(Box::default), ..IncomingResponse::default() },
            wants: Instant::ZERO,
            thinks_since: Instant::FAR,
            ready: Instant::ZERO,
            unserved_since: Instant::FAR,
            failures: 0,
            was_connected: false,
            has_tried: false,
            listed: Listed::No,
            attempt: 0,
            address_index: 0,
            jar: has_jar.then(Box::default),
            session: None,
            counts_caches: false,
            hosts: None,
            redirects: None,
        }
    }

    /// The host index of its next request.
    #[inline]
    pub(crate) fn host(&self) -> usize {
        self.hosts.as_ref().map_or(0, |hosts| hosts.next)
    }

    /// Its next request goes to another host than that of its connection.
    #[inline]
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.hosts.as_ref().is_some_and(|hosts| hosts.next != hosts.current)
    }

    /// Sets the host of its next request.
    #[inline]
    pub(crate) fn set_host(&mut self, host: usize) {
        if let Some(hosts) = &mut self.hosts {
            hosts.next = host;
        }
    }

    /// Chooses the host of the next request of its session.
    pub(crate) fn choose_host(&mut self, spread: Spread) {
        let (Some(hosts), Some(session)) = (&mut self.hosts, &mut self.session) else { return };
        let count = hosts.idle.len() as u64;
        let next = match spread {
            Spread::Random => session.random.below(count),
            Spread::User => session.number % count,
        };
        hosts.next = next as usize;
    }

    /// Records a connection to its host. Returns whether it had one before.
    pub(crate) fn note_connected(&mut self) -> bool {
        let known = match &mut self.hosts {
            Some(hosts) => &mut hosts.known[hosts.next],
            None => &mut self.was_connected,
        };
        std::mem::replace(known, true)
    }

    /// The fields of its responses are needed: by its scenario, by its cookies, or for Cache-Status.
    #[inline]
    pub(crate) fn wants_fields(&self) -> bool {
        self.session.is_some() || self.jar.is_some() || self.counts_caches
    }

    #[inline]
    pub(crate) fn in_session(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_active)
    }

    /// A user unknown to the server: of a scenario, and without a request so far.
    pub(crate) fn is_stranger(&self) -> bool {
        let is_new_to_host = self.hosts.as_ref().is_some_and(|hosts| !hosts.known[hosts.next]);
        let is_new = self.session.as_ref().is_some_and(|session| !session.is_active || session.since == Instant::FAR);
        is_new || is_new_to_host
    }

    /// The index of its step, if it is in a session.
    #[inline]
    pub(crate) fn step(&self) -> Option<usize> {
        self.session.as_ref().filter(|session| session.is_active).map(|session| session.step)
    }
}

/// The users of connections, by connection index.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    entries: Vec<OwnerEntry>,
}

#[derive(Clone, Copy, Debug)]
struct OwnerEntry {
    generation: u32,
    owner: Owner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    User(u32),
    /// The same, but not in use: the user is at another host.
    Idle(u32),
    /// Its last response announced that the server closes it; the server has a moment to do so.
    Lingering,
    /// Not ours any more.
    Nobody,
}

impl Owners {
    pub(crate) fn set(&mut self, connection: ConnectionId, owner: Owner) {
        if connection.index() >= self.entries.len() {
            self.entries.resize(connection.index() + 1, OwnerEntry { generation: 0, owner: Owner::Nobody });
        }
        self.entries[connection.index()] = OwnerEntry { generation: connection.generation(), owner };
    }

    #[inline]
    pub(crate) fn get(&self, connection: ConnectionId) -> Owner {
        match self.entries.get(connection.index()) {
            Some(entry) if entry.generation == connection.generation() => entry.owner,
            _ => Owner::Nobody,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_is_used_again_is_another_connection() {
        let mut owners = Owners::default();
        let (old, new) = (ConnectionId::new(3, 0), ConnectionId::new(3, 1));
        assert_eq!(owners.get(old), Owner::Nobody);
        owners.set(old, Owner::User(5));
        owners.set(new, Owner::Lingering);
        assert_eq!((owners.get(old), owners.get(new)), (Owner::Nobody, Owner::Lingering));
    }

    #[test]
    fn a_user_is_small() {
        assert!(size_of::<User>() <= 512, "{}", size_of::<User>());
    }
}
