//! Name resolution. The operating system's resolver blocks, so a few threads call it: for a forward proxy, whose
//! results they cache, and for lists of upstreams ([`look_up_all`]).
//!
//! The system does not report the TTL, so a name is cached for a fixed time: short enough to follow a host that moves,
//! long enough that a page with a hundred parts needs one query. Concurrent requests for a name share one query.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use breme_driver::Waker;
use breme_proxy::{Requester, Resolution, ResolveError, Resolver};
use parking_lot::{Condvar, Mutex};

/// Resolver threads; each waits for one query at a time.
const THREADS: usize = 8;
/// Queued names; beyond it a query fails.
const QUERIES_MAX: usize = 1024;
/// Cached names; beyond it the one that expires next is removed.
const NAMES_MAX: usize = 4096;
/// How long addresses are cached.
const CACHED_FOR: Duration = Duration::from_secs(30);
/// How long a failure is cached.
const FAILURE_CACHED_FOR: Duration = Duration::from_secs(5);
/// Addresses of one name that are used.
const ADDRESSES_MAX: usize = 16;
/// Pause before a shard whose mailbox is full is woken again.
const MAILBOX_PAUSE: Duration = Duration::from_millis(1);

/// Names with their addresses.
pub type Found = BTreeMap<String, LookupResult>;
type LookupResult = Result<Vec<IpAddr>, ResolveError>;
type Lookup = Box<dyn Fn(&str) -> LookupResult + Send + Sync>;
/// Wakes a requester; false if it must be tried again.
type Wake = Box<dyn Fn(Requester) -> bool + Send + Sync>;

/// Clones share everything; the threads end with the last clone.
#[derive(Clone, Debug)]
pub struct NameResolver {
    shared: Arc<SharedResolver>,
    _end: Arc<StopOnDrop>,
}

struct SharedResolver {
    state: Mutex<ResolverState>,
    changed: Condvar,
    lookup: Lookup,
    wake: OnceLock<Wake>,
}

impl fmt::Debug for SharedResolver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SharedResolver")
    }
}

#[derive(Default)]
struct ResolverState {
    cache: HashMap<String, CacheEntry>,
    queue: VecDeque<String>,
    /// The requesters of each name being resolved.
    waiting: HashMap<String, Vec<(Requester, u16)>>,
    results: HashMap<Requester, Result<Vec<SocketAddr>, ResolveError>>,
    is_stopped: bool,
}

struct CacheEntry {
    outcome: LookupResult,
    until: Instant,
}

/// Ends the threads when the last clone is dropped.
#[derive(Debug)]
struct StopOnDrop(Arc<SharedResolver>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.state.lock().is_stopped = true;
        self.0.changed.notify_all();
    }
}

impl NameResolver {
    pub fn start() -> io::Result<Self> {
        Self::start_with(Box::new(look_up))
    }

    fn start_with(lookup: Lookup) -> io::Result<Self> {
        let shared = Arc::new(SharedResolver {
            state: Mutex::default(),
            changed: Condvar::new(),
            lookup,
            wake: OnceLock::new(),
        });
        let resolver = Self { _end: Arc::new(StopOnDrop(Arc::clone(&shared))), shared };
        for index in 0..THREADS {
            let shared = Arc::clone(&resolver.shared);
            thread::Builder::new().name(format!("names-{index}")).spawn(move || shared.work())?;
        }
        Ok(resolver)
    }

    /// Sets how shards are woken. Until then, results wait.
    pub fn wake_by(&self, waker: Waker) {
        self.wake_with(Box::new(move |requester| waker.wake(requester.shard, requester.message).is_ok()));
    }

    fn wake_with(&self, wake: Wake) {
        let _ = self.shared.wake.set(wake); // it is set once
    }
}

impl SharedResolver {
    fn work(&self) {
        while let Some(name) = self.next_query() {
            let outcome = (self.lookup)(&name);
            for requester in self.state.lock().store(&name, &outcome, Instant::now()) {
                let wake = self.wake.wait();
                while !wake(requester) && !self.state.lock().is_stopped {
                    thread::sleep(MAILBOX_PAUSE);
                }
            }
        }
    }

    fn next_query(&self) -> Option<String> {
        let is_idle = |state: &mut ResolverState| state.queue.is_empty() && !state.is_stopped;
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, is_idle);
        if state.is_stopped { None } else { state.queue.pop_front() }
    }
}

impl ResolverState {
    fn known(&self, name: &str, now: Instant) -> Option<&LookupResult> {
        self.cache.get(name).filter(|known| known.until > now).map(|known| &known.outcome)
    }

    fn enqueue(&mut self, name: &str, port: u16, requester: Requester) -> bool {
        if let Some(waiting) = self.waiting.get_mut(name) {
            waiting.push((requester, port));
            return true;
        }
        if self.queue.len() >= QUERIES_MAX {
            return false;
        }
        self.queue.push_back(name.to_owned());
        self.waiting.insert(name.to_owned(), vec![(requester, port)]);
        true
    }

    /// Caches a result, and returns its requesters.
    fn store(&mut self, name: &str, outcome: &LookupResult, now: Instant) -> Vec<Requester> {
        if self.cache.len() >= NAMES_MAX && !self.cache.contains_key(name) {
            let first = self.cache.iter().min_by_key(|(_, known)| known.until).map(|(name, _)| name.clone());
            first.and_then(|first| self.cache.remove(&first));
        }
        let until = now + if outcome.is_ok() { CACHED_FOR } else { FAILURE_CACHED_FOR };
        self.cache.insert(name.to_owned(), CacheEntry { outcome: outcome.clone(), until });
        let waiting = self.waiting.remove(name).unwrap_or_default();
        for &(requester, port) in &waiting {
            self.results.insert(requester, with_port(outcome, port));
        }
        waiting.into_iter().map(|(requester, _)| requester).collect()
    }
}

impl Resolver for NameResolver {
    fn resolve(&self, host: &str, port: u16, requester: Requester) -> Resolution {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Resolution::Known(vec![SocketAddr::new(address, port)]);
        }
        let name = host.to_ascii_lowercase();
        let mut state = self.shared.state.lock();
        if let Some(outcome) = state.known(&name, Instant::now()) {
            return with_port(outcome, port).map_or_else(Resolution::Failed, Resolution::Known);
        }
        if !state.enqueue(&name, port, requester) {
            return Resolution::Failed(ResolveError::Busy);
        }
        drop(state);
        self.shared.changed.notify_one();
        Resolution::Pending
    }

    fn fetch(&self, requester: Requester) -> Option<Result<Vec<SocketAddr>, ResolveError>> {
        self.shared.state.lock().results.remove(&requester)
    }

    fn forget(&self, requester: Requester) {
        let mut state = self.shared.state.lock();
        state.results.remove(&requester);
        for waiting in state.waiting.values_mut() {
            waiting.retain(|(one, _)| *one != requester);
        }
    }
}

fn with_port(outcome: &LookupResult, port: u16) -> Result<Vec<SocketAddr>, ResolveError> {
    let addresses = outcome.as_ref().map_err(Clone::clone)?;
    Ok(addresses.iter().map(|&address| SocketAddr::new(address, port)).collect())
}

/// Queries the operating system, including its hosts file. It can take seconds.
pub fn look_up(name: &str) -> LookupResult {
    let found = breme_sys::resolve(name, 0).map_err(|error| resolve_error(&error))?;
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in found.iter().map(SocketAddr::ip) {
        if !addresses.contains(&address) && addresses.len() < ADDRESSES_MAX {
            addresses.push(address);
        }
    }
    if addresses.is_empty() { Err(ResolveError::NoSuchName) } else { Ok(addresses) }
}

/// Queries the operating system for all names, several at a time, so that a slow one does not delay the others.
pub fn look_up_all(names: &BTreeSet<&str>, look_up: impl Fn(&str) -> LookupResult + Sync) -> Found {
    let (waiting, found) = (Mutex::new(names.iter()), Mutex::new(Found::new()));
    // A function, so that the lock is released before the query.
    let next = || waiting.lock().next();
    let work = || {
        while let Some(name) = next() {
            let addresses = look_up(name);
            found.lock().insert((*name).to_owned(), addresses);
        }
    };
    thread::scope(|scope| {
        for _ in 1..names.len().min(THREADS) {
            // If a thread cannot be started, the others take its share.
            let _ = thread::Builder::new().name("look-up".to_owned()).spawn_scoped(scope, work);
        }
        work();
    });
    found.into_inner()
}

/// The system reports errors as text only.
fn resolve_error(error: &io::Error) -> ResolveError {
    let text = error.to_string();
    if ["not known", "No address associated", "nodename nor servname"].iter().any(|words| text.contains(words)) {
        ResolveError::NoSuchName
    } else if text.contains("Temporary failure") {
        ResolveError::TimedOut
    } else {
        ResolveError::Other(text)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::mpsc::{Receiver, channel};

    use breme_node::ShardId;

    use super::*;

    const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

    /// The first name gets an address when the last has one.
    #[test]
    fn a_slow_name_does_not_delay_the_others() {
        let names: Vec<String> = (0..3 * THREADS).map(|number| format!("{number:02}.example")).collect();
        let (sender, receiver) = channel();
        let receiver = Mutex::new(receiver);
        let look_up = |name: &str| {
            if name == names[0] {
                receiver.lock().recv_timeout(Duration::from_secs(60)).map_err(|_| ResolveError::TimedOut)?;
            } else if *name == names[names.len() - 1] {
                sender.send(()).unwrap();
            }
            Ok(vec![ADDRESS])
        };
        let found = look_up_all(&names.iter().map(String::as_str).collect(), look_up);
        assert_eq!(found, names.iter().map(|name| (name.clone(), Ok(vec![ADDRESS]))).collect());
        assert_eq!(look_up_all(&BTreeSet::new(), look_up), Found::new());
    }

    fn requester(message: u64) -> Requester {
        Requester { shard: ShardId(0), message }
    }

    /// A resolver with a table of names, which answers one query per permission; and the woken requesters.
    fn resolver(permissions: Receiver<()>) -> (NameResolver, Receiver<Requester>) {
        let permissions = Mutex::new(permissions);
        let lookup = move |name: &str| {
            let _ = permissions.lock().recv();
            if name == "here.example" { Ok(vec![ADDRESS]) } else { Err(ResolveError::NoSuchName) }
        };
        let resolver = NameResolver::start_with(Box::new(lookup)).unwrap();
        let (wakes, woken) = channel();
        let wakes = Mutex::new(wakes);
        resolver.wake_with(Box::new(move |requester| wakes.lock().send(requester).is_ok()));
        (resolver, woken)
    }

    #[test]
    fn a_name_is_looked_up_once_and_then_known() {
        let (permit, permissions) = channel();
        let (resolver, woken) = resolver(permissions);
        for message in 0..3 {
            assert_eq!(resolver.resolve("Here.Example", 80 + message as u16, requester(message)), Resolution::Pending);
        }
        assert_eq!(resolver.fetch(requester(0)), None);
        resolver.forget(requester(2));
        permit.send(()).unwrap();
        let mut messages = [woken.recv().unwrap().message, woken.recv().unwrap().message];
        messages.sort_unstable();
        assert_eq!(messages, [0, 1]);
        assert_eq!(resolver.fetch(requester(1)), Some(Ok(vec![SocketAddr::new(ADDRESS, 81)])));
        assert_eq!(resolver.fetch(requester(1)), None, "it is told once");
        let known = Resolution::Known(vec![SocketAddr::new(ADDRESS, 443)]);
        assert_eq!(resolver.resolve("HERE.example", 443, requester(9)), known);
    }

    #[test]
    fn a_name_without_an_address_is_remembered_too() {
        let (permit, permissions) = channel();
        let (resolver, woken) = resolver(permissions);
        assert_eq!(resolver.resolve("nowhere.example", 80, requester(1)), Resolution::Pending);
        permit.send(()).unwrap();
        assert_eq!(woken.recv(), Ok(requester(1)));
        let failed = Resolution::Failed(ResolveError::NoSuchName);
        assert_eq!(resolver.resolve("nowhere.example", 80, requester(2)), failed);
        let literal = Resolution::Known(vec!["[::1]:80".parse().unwrap()]);
        assert_eq!(resolver.resolve("::1", 80, requester(3)), literal, "an address needs nobody");
    }

    #[test]
    fn queue_and_cache_are_bounded() {
        let (_permit, permissions) = channel();
        let (resolver, _woken) = resolver(permissions);
        let outcome_of = |number: usize| resolver.resolve(&format!("{number}.example"), 80, requester(number as u64));
        let busy = (0..QUERIES_MAX + 2 * THREADS).map(outcome_of).filter(|outcome| *outcome != Resolution::Pending);
        let busy: Vec<Resolution> = busy.collect();
        assert!((THREADS..=2 * THREADS).contains(&busy.len()), "{}", busy.len());
        assert_eq!(busy[0], Resolution::Failed(ResolveError::Busy));

        let (mut state, now) = (ResolverState::default(), Instant::now());
        for number in 0..NAMES_MAX + 10 {
            state.store(&number.to_string(), &Ok(vec![ADDRESS]), now + Duration::from_nanos(number as u64));
        }
        assert_eq!(state.cache.len(), NAMES_MAX);
        assert!(state.known("9", now).is_none() && state.known("10", now).is_some());
        assert!(state.known("10", now + CACHED_FOR * 2).is_none());
    }
}
