//! One run of a plan: the state shared by its shards.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use breme_base::{Instant, WallClock};
use breme_load_plan::{OpenLoop, Plan, Scenarios, Settings};
use breme_node::{ConnectError, TlsFailure};
use parking_lot::{Mutex, MutexGuard};

use crate::arrivals::{ArrivalQueue, Bounds};
use crate::availability::LatestOutcomes;
use crate::counts::Counts;
use crate::pairs::SessionIds;
use crate::series::{Observer, Series};
use crate::tally::Tally;
use crate::versions::Versions;

/// Request numbers that a shard claims at a time: enough to make the cost of the shared counter negligible.
const CLAIM_MAX: u64 = 64;

/// Why a proxy opened no tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedTunnel {
    /// Status of the response to CONNECT.
    pub status: u16,
    /// The first line of its content; may be empty.
    pub words: String,
}

impl std::fmt::Display for RefusedTunnel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "the proxy refused the tunnel with {}", self.status)?;
        if self.words.is_empty() { Ok(()) } else { write!(formatter, ": {}", self.words) }
    }
}

/// The state shared by the shards of a run. It is created once and passed to each [`crate::Load`].
#[derive(Debug)]
pub struct Run {
    plan: Plan,
    hosts: Vec<Host>,
    wall: WallClock,
    /// The CPU time of the calling thread, if available.
    thread_cpu: Option<fn() -> Duration>,
    started: AtomicU64,
    /// Of an open loop: when the first shard began to open connections, before the schedule starts.
    opening_since: AtomicU64,
    /// Users for which the schedule waits and that have not tried to connect yet.
    opening: AtomicUsize,
    /// When the run was stopped from outside.
    stopped: AtomicU64,
    claimed: AtomicU64,
    claim_size: u64,
    /// Of scenarios: requests, which are not counted by claims.
    sequence: AtomicU64,
    /// Of an open loop: its arrivals.
    queue: Option<ArrivalQueue>,
    /// Of a run that writes versions.
    versions: Option<Versions>,
    /// Of a run that checks the pairs of sessions.
    session_ids: Option<SessionIds>,
    is_connected: AtomicBool,
    gave_up: AtomicBool,
    latest_outcomes: LatestOutcomes,
    tls_failure: OnceLock<TlsFailure>,
    refused_tunnel: OnceLock<RefusedTunnel>,
    shards: Box<[ShardProgress]>,
    /// Of each shard, as of its last interval.
    counts: Box<[Mutex<Counts>]>,
    series: Mutex<Series>,
}

/// Progress of one shard. On a cache line of its own, to avoid false sharing.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ShardProgress {
    pub answered: AtomicU64,
    pub errors: AtomicU64,
    pub open: AtomicU64,
    pub bytes_received: AtomicU64,
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Responses so far.
    pub answered: u64,
    pub errors: u64,
    /// Open connections.
    pub open: u64,
    pub bytes_received: u64,
}

impl Run {
    /// A run of `plan` by `shard_count` shards. `addresses` are those of each of its peers; the first that accepts a
    /// connection is used.
    #[must_use]
    pub fn new(plan: Plan, addresses: Vec<Vec<SocketAddr>>, shard_count: usize, wall: WallClock) -> Self {
        let claim_size = match plan.settings().requests {
            // Small enough that no shard is left with much more work than another at the end.
            Some(total) => (total / (plan.settings().connections as u64 * 8)).clamp(1, CLAIM_MAX),
            None => CLAIM_MAX,
        };
        let settings = plan.settings();
        let (connections, interval) = (settings.connections, settings.interval);
        let versions = plan.writes_versions().then(|| Versions::new(settings.run_number));
        let session_ids = plan.scenarios().is_some_and(Scenarios::checks_pairs).then(SessionIds::default);
        let queue = settings.open_loop.as_ref().map(|open_loop| queue(settings, open_loop, shard_count));
        Self {
            plan,
            hosts: addresses.into_iter().map(Host::new).collect(),
            wall,
            thread_cpu: None,
            started: AtomicU64::new(u64::MAX),
            opening_since: AtomicU64::new(u64::MAX),
            opening: AtomicUsize::new(connections),
            stopped: AtomicU64::new(u64::MAX),
            claimed: AtomicU64::new(0),
            claim_size,
            sequence: AtomicU64::new(0),
            queue,
            versions,
            session_ids,
            is_connected: AtomicBool::new(false),
            gave_up: AtomicBool::new(false),
            latest_outcomes: LatestOutcomes::default(),
            tls_failure: OnceLock::new(),
            refused_tunnel: OnceLock::new(),
            shards: (0..shard_count).map(|_| ShardProgress::default()).collect(),
            counts: (0..shard_count).map(|_| Mutex::default()).collect(),
            series: Mutex::new(Series::new(interval, shard_count, None)),
        }
    }

    /// Passes every interval of the run to `observer`.
    #[must_use]
    pub fn observed_by(mut self, observer: Observer) -> Self {
        let interval = self.plan.settings().interval;
        self.series = Mutex::new(Series::new(interval, self.shards.len(), Some(observer)));
        self
    }

    /// Enables the shards to read the CPU time of their own thread.
    #[must_use]
    pub fn with_thread_cpu(mut self, thread_cpu: fn() -> Duration) -> Self {
        self.thread_cpu = Some(thread_cpu);
        self
    }

    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The addresses of all hosts.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.hosts.iter().flat_map(|host| host.addresses.iter().copied())
    }

    /// The peer of the plan with this index.
    pub(crate) fn host(&self, place: usize) -> &Host {
        &self.hosts[place]
    }

    #[must_use]
    pub const fn shard_count(&self) -> usize {
        self.shards.len()
    }

    #[must_use]
    pub fn progress(&self) -> Progress {
        self.shards.iter().fold(Progress::default(), |sum, shard| Progress {
            answered: sum.answered + shard.answered.load(Ordering::Relaxed),
            errors: sum.errors + shard.errors.load(Ordering::Relaxed),
            open: sum.open + shard.open.load(Ordering::Relaxed),
            bytes_received: sum.bytes_received + shard.bytes_received.load(Ordering::Relaxed),
        })
    }

    /// Totals as of the shards' last intervals; complete when the shards have ended.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.counts.iter().for_each(|counts| sum.merge(&counts.lock()));
        sum
    }

    pub(crate) fn set_counts(&self, shard: usize, tally: &Tally) {
        if let Some(counts) = self.counts.get(shard) {
            counts.lock().set(tally);
        }
    }

    /// Whether the run ended because no connection could be opened at all.
    pub(crate) fn gave_up(&self) -> bool {
        self.gave_up.load(Ordering::Relaxed)
    }

    pub(crate) fn shard_progress(&self, shard: usize) -> Option<&ShardProgress> {
        self.shards.get(shard)
    }

    pub(crate) const fn wall(&self) -> &WallClock {
        &self.wall
    }

    pub(crate) fn thread_cpu(&self) -> Option<Duration> {
        self.thread_cpu.map(|read| read())
    }

    /// The start of the first shard: the same for all.
    pub(crate) fn begin(&self, now: Instant) -> Instant {
        let epoch = first_of(&self.started, now);
        self.series().begin(epoch);
        if let Some(queue) = &self.queue {
            queue.begin(epoch);
        }
        epoch
    }

    /// The instant at which the first shard began to open connections.
    pub(crate) fn begin_opening(&self, now: Instant) -> Instant {
        first_of(&self.opening_since, now)
    }

    /// The instant at which the first shard was stopped: nothing is due after it, for any of them.
    pub(crate) fn stop(&self, now: Instant) -> Instant {
        first_of(&self.stopped, now)
    }

    /// A user has tried to connect. Returns whether it was the last one.
    pub(crate) fn note_tried(&self) -> bool {
        self.opening.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// The start of the run; none before it.
    #[must_use]
    pub fn started(&self) -> Option<Instant> {
        let started = Instant::from_nanos(self.started.load(Ordering::Relaxed));
        (started != Instant::FAR).then_some(started)
    }

    /// The numbers of the next requests, at most a few; empty when there are no more.
    pub(crate) fn claim(&self) -> Range<u64> {
        let start = self.claimed.fetch_add(self.claim_size, Ordering::Relaxed);
        let end = self.plan.settings().requests.unwrap_or(u64::MAX);
        start.min(end)..start.saturating_add(self.claim_size).min(end)
    }

    /// Whether every number has been claimed.
    pub(crate) fn is_claimed(&self) -> bool {
        self.plan.settings().requests.is_some_and(|total| self.claimed.load(Ordering::Relaxed) >= total)
    }

    /// The numbers of the next requests of sessions, at most a few.
    pub(crate) fn claim_sequence(&self) -> Range<u64> {
        let start = self.sequence.fetch_add(CLAIM_MAX, Ordering::Relaxed);
        start..start + CLAIM_MAX
    }

    pub(crate) const fn latest_outcomes(&self) -> &LatestOutcomes {
        &self.latest_outcomes
    }

    pub(crate) const fn queue(&self) -> Option<&ArrivalQueue> {
        self.queue.as_ref()
    }

    #[inline]
    pub(crate) const fn versions(&self) -> Option<&Versions> {
        self.versions.as_ref()
    }

    pub(crate) const fn session_ids(&self) -> Option<&SessionIds> {
        self.session_ids.as_ref()
    }

    pub(crate) fn note_connected(&self, host: usize, address_index: usize) {
        let host = &self.hosts[host];
        if !host.is_connected() {
            host.preferred_address.store(address_index, Ordering::Relaxed);
            host.is_connected.store(true, Ordering::Relaxed);
            self.is_connected.store(true, Ordering::Relaxed);
        }
    }

    /// Whether any connection was opened so far.
    pub(crate) fn is_connected(&self) -> bool {
        self.is_connected.load(Ordering::Relaxed)
    }

    /// The first TLS failure, if any.
    #[must_use]
    pub fn tls_failure(&self) -> Option<TlsFailure> {
        self.tls_failure.get().copied()
    }

    pub(crate) fn note_connect_error(&self, error: ConnectError) {
        if let ConnectError::Tls(failure) = error
            && self.tls_failure.get().is_none()
        {
            let _ = self.tls_failure.set(failure); // another shard may have been first
        }
    }

    /// The proxy's first refusal of a tunnel.
    #[must_use]
    pub fn refused_tunnel(&self) -> Option<&RefusedTunnel> {
        self.refused_tunnel.get()
    }

    pub(crate) fn note_refused_tunnel(&self, status: u16, words: &[u8]) {
        if self.refused_tunnel.get().is_none() {
            let words = String::from_utf8_lossy(words);
            // They are printed on a terminal, so control characters must not reach it.
            let words = words.lines().next().unwrap_or_default().replace(char::is_control, " ").trim().to_owned();
            let _ = self.refused_tunnel.set(RefusedTunnel { status, words }); // another shard may have been first
        }
    }

    pub(crate) fn give_up(&self) {
        self.gave_up.store(true, Ordering::Relaxed);
    }

    pub(crate) fn series(&self) -> MutexGuard<'_, Series> {
        self.series.lock()
    }
}

/// A peer of the plan: a name may have several addresses.
#[derive(Debug)]
pub(crate) struct Host {
    addresses: Vec<SocketAddr>,
    is_connected: AtomicBool,
    preferred_address: AtomicUsize,
}

impl Host {
    const fn new(addresses: Vec<SocketAddr>) -> Self {
        Self { addresses, is_connected: AtomicBool::new(false), preferred_address: AtomicUsize::new(0) }
    }

    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Whether any connection to it was opened so far.
    pub(crate) fn is_connected(&self) -> bool {
        self.is_connected.load(Ordering::Relaxed)
    }

    /// The index of the address that accepted a connection, or else of the first.
    pub(crate) fn preferred_address(&self) -> usize {
        self.preferred_address.load(Ordering::Relaxed)
    }
}

/// The first caller's instant.
fn first_of(instant: &AtomicU64, now: Instant) -> Instant {
    match instant.compare_exchange(u64::MAX, now.as_nanos(), Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => now,
        Err(first) => Instant::from_nanos(first),
    }
}

fn queue(settings: &Settings, open_loop: &OpenLoop, shard_count: usize) -> ArrivalQueue {
    let places = (settings.connections * settings.pipeline_depth) as u64;
    let bounds = Bounds {
        waiting_max: open_loop.waiting_max,
        in_flight_max: open_loop.in_flight_max.filter(|&max| max < places),
        count_max: settings.requests.unwrap_or(u64::MAX),
        duration: settings.duration,
    };
    ArrivalQueue::new(&open_loop.pace, settings.seed, shard_count, bounds)
}

#[cfg(test)]
mod tests {
    use breme_base::UnixSeconds;

    use super::*;

    #[test]
    fn exactly_the_configured_number_is_claimed() {
        for total in [1, 63, 64, 65, 1_000, 100_000] {
            let settings = Settings { requests: Some(total), ..Settings::new("http://a/") };
            let run = Run::new(Plan::new(settings).unwrap(), Vec::new(), 1, WallClock::starting_at(UnixSeconds(0)));
            let claims: Vec<u64> =
                std::iter::repeat_with(|| run.claim()).take_while(|claim| !claim.is_empty()).flatten().collect();
            assert!(claims.iter().copied().eq(0..total));
            assert!(run.claim().is_empty());
        }
    }

    #[test]
    fn the_first_shard_sets_the_start() {
        let plan = Plan::new(Settings::new("http://a/")).unwrap();
        let run = Run::new(plan, Vec::new(), 2, WallClock::starting_at(UnixSeconds(0)));
        assert_eq!(run.started(), None);
        assert_eq!(run.begin(Instant::from_nanos(7)), Instant::from_nanos(7));
        assert_eq!(run.begin(Instant::from_nanos(9)), Instant::from_nanos(7));
    }
}
