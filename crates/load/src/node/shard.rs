//! The users of one shard, and the phases of a run: start, drain, end.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use breme_base::{Instant, Random, Timers};
use breme_http::{FIELD_COUNT_MAX, Limits};
use breme_http1::ReplayHead;
use breme_load_plan::Scenarios;
use breme_node::{Actions, Close, ConnectionId, Shard};
use breme_stats::Histogram;

use super::open_loop::OpenLoop;
use crate::error_kind::ErrorKind;
use crate::run::Run;
use crate::series::Interval;
use crate::session::Session;
use crate::tally::{Span, Tally};
use crate::user::{Hosts, Owner, Owners, State, User};

/// How long requests in flight are waited for at the end of the duration (or the time-out, if that is shorter).
pub const DRAIN_MAX: Duration = Duration::from_secs(5);
/// The same after an interruption by the user.
pub const DRAIN_INTERRUPTED_MAX: Duration = Duration::from_secs(1);

/// The node of one shard. See the crate's documentation.
#[derive(Debug)]
pub struct Load {
    pub(super) run: Arc<Run>,
    pub(super) shard: Shard,
    pub(super) limits: Limits,
    /// The CONNECT request sent to a proxy on each new connection, if tunnels are needed.
    pub(super) tunnel_request: Option<Vec<u8>>,
    /// The cached response head of the server.
    pub(super) cached_head: ReplayHead,
    pub(super) users: Vec<User>,
    pub(super) owners: Owners,
    pub(super) timers: Timers,
    /// Users that wait until fewer than [`CONNECTING_MAX`](super::CONNECTING_MAX) connections are being opened.
    pub(super) queue: VecDeque<u32>,
    pub(super) connecting: usize,
    pub(super) open_count: usize,
    /// Connections that the server is to close, and until when. At most as many as there are users.
    pub(super) lingering: VecDeque<(Instant, ConnectionId)>,
    pub(super) claims: Range<u64>,
    /// Numbers for the requests of sessions.
    pub(super) sequence: Range<u64>,
    /// None in a closed loop.
    pub(super) open: Option<OpenLoop>,
    /// Users that are not done.
    pub(super) active: usize,
    pub(super) phase: Phase,
    pub(super) epoch: Instant,
    pub(crate) window_ends: Instant,
    pub(crate) tally: Tally,
    pub(super) interval: Interval,
    /// Times of those requests of the interval that were sent when due and whose response arrived in one piece: they
    /// are response time, service time and time to first byte at once, so most requests are recorded once instead of
    /// three times.
    pub(super) prompt: Histogram,
    /// Index of the current interval in the run.
    pub(super) interval_index: u64,
    pub(super) interval_ends: Instant,
    pub(super) bytes_received_before: u64,
    pub(crate) span: Span,
    pub(super) last_seen: Instant,
    /// CPU time of the thread before the run.
    pub(super) cpu_before: Duration,
    pub(super) random: Random,
    pub(super) scratch: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Of an open loop: connections are opened, at most until then; the schedule has not begun.
    Opening(Instant),
    Running,
    /// Nothing new is sent; requests in flight are waited for until then.
    Draining(Instant),
    Over,
}

impl Load {
    #[must_use]
    pub fn new(run: Arc<Run>, shard: Shard) -> Self {
        let random = Random::stream(run.plan().settings().seed, shard.id.0 as u64);
        let open = OpenLoop::from_run(&run);
        let tally = Tally::for_scenarios(run.plan().scenarios());
        Self {
            tunnel_request: run.plan().tunnel_request(),
            run,
            shard,
            limits: client_limits(),
            cached_head: ReplayHead::new(),
            users: Vec::new(),
            owners: Owners::default(),
            timers: Timers::new(),
            queue: VecDeque::new(),
            connecting: 0,
            open_count: 0,
            lingering: VecDeque::new(),
            claims: 0..0,
            sequence: 0..0,
            open,
            active: 0,
            phase: Phase::Running,
            epoch: Instant::ZERO,
            window_ends: Instant::FAR,
            tally,
            interval: Interval::default(),
            prompt: Histogram::new(),
            interval_index: 0,
            interval_ends: Instant::FAR,
            bytes_received_before: 0,
            span: Span { started: Instant::ZERO, ended: Instant::ZERO, cpu: None },
            last_seen: Instant::ZERO,
            cpu_before: Duration::ZERO,
            random,
            scratch: Vec::new(),
        }
    }

    /// Requests of this shard that were begun: sent, or failed because no connection could be opened for them.
    #[must_use]
    pub const fn issued(&self) -> u64 {
        self.tally.issued
    }

    /// Complete responses to this shard, whatever their status.
    #[must_use]
    pub const fn answered(&self) -> u64 {
        self.tally.answered
    }

    /// Errors of this kind.
    #[must_use]
    pub const fn errors_of(&self, kind: ErrorKind) -> u64 {
        self.tally.errors_of(kind)
    }

    /// Requests of this shard in flight at its end.
    #[must_use]
    pub const fn unfinished(&self) -> u64 {
        self.tally.unfinished
    }

    /// Starts the run.
    pub(super) fn begin(&mut self, now: Instant) -> Instant {
        let epoch = self.run.begin(now);
        self.epoch = epoch;
        self.phase = Phase::Running;
        self.interval_ends = epoch + self.run.plan().settings().interval;
        if let Some(duration) = self.run.plan().settings().duration {
            self.window_ends = epoch + duration;
        }
        self.tally.availability.begin(epoch + self.run.plan().settings().gaps_after);
        epoch
    }

    pub(super) fn start_users(&mut self, now: Instant, epoch: Instant) {
        let plan = self.run.plan();
        let settings = plan.settings();
        let (depth, cookies) = (settings.pipeline_depth, settings.cookies);
        let scenarios = plan.scenarios();
        let reads_content = settings.expectations.reads_content() || scenarios.is_some_and(Scenarios::reads_content);
        // Users are assigned to shards round-robin, so that a ramp loads all shards alike.
        let (connections, ramp) = (settings.connections, settings.ramp);
        let numbers = (self.shard.id.0..connections).step_by(self.shard.count.max(1));
        self.users = numbers.clone().map(|_| User::new(depth, cookies, reads_content)).collect();
        if let Some(scenarios) = scenarios {
            self.users.iter_mut().for_each(|user| user.session = Some(Box::new(Session::new(scenarios))));
        }
        let host_count = plan.peers().len();
        if host_count > 1 {
            self.users.iter_mut().for_each(|user| user.hosts = Some(Box::new(Hosts::new(host_count))));
        }
        if settings.redirects_max > 0 {
            self.users.iter_mut().for_each(|user| user.redirects = Some(Box::default()));
        }
        let counts_caches = plan.counts_caches();
        self.users.iter_mut().for_each(|user| user.counts_caches = counts_caches);
        self.active = self.users.len();
        // In an open loop the arrivals determine when users begin.
        let first_think = self.run.plan().first_think().filter(|_| self.open.is_none());
        for (index, number) in numbers.enumerate() {
            let starts = (epoch + ramp.mul_f64(number as f64 / connections as f64)).max(now);
            let thinks = first_think.map_or(Duration::ZERO, |think| think.draw_rest(&mut self.random));
            self.begin_thinking(index as u32, starts, starts + thinks);
            self.timers.set(index as u32, starts + thinks);
        }
    }

    /// Whether nothing new is begun.
    pub(super) const fn is_ending(&self) -> bool {
        matches!(self.phase, Phase::Draining(_) | Phase::Over)
    }

    /// The user has nothing more to do.
    pub(super) fn retire(&mut self, now: Instant, index: u32, actions: &mut Actions) {
        let user = &mut self.users[index as usize];
        let state = std::mem::replace(&mut user.state, State::Done);
        if state == State::Done {
            return;
        }
        self.end_thinking(index);
        self.drop_window(index);
        self.end_wait(now, index);
        self.leave_session(index);
        self.timers.clear(index);
        self.active -= 1;
        if self.active == 0 {
            return self.finish(now, actions);
        }
        self.close_idle(index, actions);
        match state {
            State::Open(connection) => {
                self.owners.set(connection, Owner::Nobody);
                self.open_count -= 1;
                actions.close(connection, Close::Graceful);
            }
            State::Tunnelling(_, connection) => {
                self.owners.set(connection, Owner::Nobody);
                self.connecting = self.connecting.saturating_sub(1);
                actions.close(connection, Close::Graceful);
            }
            _ => {}
        }
    }

    /// There will be no more arrivals: users with nothing outstanding are done.
    pub(super) fn retire_idle(&mut self, now: Instant, actions: &mut Actions) {
        for index in 0..self.users.len() as u32 {
            let user = &self.users[index as usize];
            if user.window.is_empty() && !user.in_session() {
                self.retire(now, index, actions);
            }
        }
    }

    pub(super) fn on_timer(&mut self, now: Instant, index: u32, actions: &mut Actions) {
        self.end_thinking(index);
        let user = &self.users[index as usize];
        if user.window.is_empty() && !user.in_session() && self.is_exhausted() {
            return self.retire_idle(now, actions);
        }
        match self.users[index as usize].state {
            State::Waiting => self.want_connection(now, index, actions),
            State::Open(connection) => {
                let timeout = self.run.plan().settings().timeout;
                match self.users[index as usize].window.oldest() {
                    Some(oldest) if oldest.sent + timeout <= now => self.timed_out(now, index, connection, actions),
                    Some(oldest) => self.timers.set(index, oldest.sent + timeout),
                    None => self.refill(now, index, connection, actions),
                }
            }
            State::Tunnelling(_, connection) => {
                self.tunnel_failed(now, index, connection, ErrorKind::ConnectTimeout, actions);
            }
            State::Queued | State::Connecting(_) | State::Done => {}
        }
    }

    pub(super) fn drain_max(&self) -> Duration {
        DRAIN_MAX.min(self.run.plan().settings().timeout)
    }

    /// Sends nothing more; waits for requests in flight until `bound` has passed.
    pub(super) fn drain(&mut self, now: Instant, bound: Duration, actions: &mut Actions) {
        if self.is_ending() {
            return;
        }
        if let Phase::Opening(_) = self.phase {
            self.begin(now);
        }
        self.window_ends = self.window_ends.min(now);
        self.interval_ends = Instant::FAR;
        self.phase = Phase::Draining(now + bound);
        self.end_schedule(self.window_ends);
        for index in 0..self.users.len() as u32 {
            let user = &self.users[index as usize];
            let waits_for_answers = matches!(user.state, State::Open(_)) && !user.window.is_empty();
            if !waits_for_answers {
                self.retire(now, index, actions);
            }
        }
    }

    pub(super) fn finish(&mut self, now: Instant, actions: &mut Actions) {
        if self.phase != Phase::Over {
            self.last_seen = now;
            self.note_cpu(); // here, on the shard's own thread
            self.close();
            actions.exit();
        }
    }
}

/// A generator accepts responses of any length; only heads are bounded.
fn client_limits() -> Limits {
    Limits {
        content_bytes_max: u64::MAX,
        head_bytes_max: 64 * 1024,
        field_count_max: FIELD_COUNT_MAX,
        ..Limits::default()
    }
}
