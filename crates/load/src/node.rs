//! The load generator's node: the users of one shard, each with a connection.
//!
//! ```text
//!              ramp, think, pause                 answered (and thinking done)
//!                 ┌────────┐                            ┌──────────┐
//!   handle_started│        ▼                            │          ▼
//!   ───────────► Waiting ──► Queued ──► Connecting ──► Open ──► send what there is to do
//!                 ▲ something to do                     │
//!                 └──────── connection lost ◄───────────┘
//! ```
//!
//! Where the loops differ is **what a free user does next** (`take_next`):
//!
//! | | a free user |
//! |---|---|
//! | closed loop | claims the next request's number and sends it, after its time to think |
//! | open loop (`open`) | is listed as free; an arrival takes it when it is due |
//! | with scenarios (`sessions`) | goes on to the next step of its session; between sessions it is free as above |
//!
//! The rest is the same for both: `connections` opens, loses and closes, `exchange` sends and reads answers, `books` counts.
//!
//! - In a closed loop a user **claims** a request's number before it opens a connection or sends, so that with `-n` there are never
//!   more or fewer requests than asked for. Every claimed request ends as answered, failed by a kind, or unfinished.
//! - The clock is read by the driver, for each event: *sent* is the instant of the call that produced the request, *first byte* and
//!   *done* the instants of the calls that brought the bytes. No stamp is taken after waiting for something else.
//! - One call's answers are all read before anything is sent, so a pipeline is refilled with one send.
//! - At the end (time over, or asked to stop) nothing new is sent; what is under way is waited for, for a bounded time.

mod books;
mod connections;
mod exchange;
mod open;
mod sessions;
mod tunnels;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use breme_base::{Instant, Random, Timers};
use breme_http1::{FamiliarHead, FieldStorage, Limits};
use breme_node::{
    Accepted, Actions, Close, CloseReason, ConnectError, ConnectTicket, Connected, ConnectionId, Node, Received, Shard,
};
use connections::Loss;
pub use connections::{
    CONNECT_GIVE_UP, CONNECTING_MAX, LINGER_MAX, PAUSE_MAX, PAUSE_MIN, PAUSE_SPACING, TLS_CLIENT, TLS_STRANGER,
};
use exchange::Reading;
use open::Open;
pub use open::{OPENING_MAX, TOGETHER_MAX};

use breme_stats::Histogram;

use crate::run::Run;
use crate::scenario::Scenarios;
use crate::series::Interval;
use crate::session::Session;
use crate::tally::{ErrorKind, Span, Tally};
use crate::user::{Owner, Owners, State, User};

/// What is under way at the end of the duration is waited for this long (or for the time-out, if that is shorter).
pub const DRAIN_MAX: Duration = Duration::from_secs(5);
/// The same when the user interrupts the run.
pub const DRAIN_INTERRUPTED_MAX: Duration = Duration::from_secs(1);

/// The users of one shard. See the crate's documentation.
#[derive(Debug)]
pub struct Load {
    run: Arc<Run>,
    shard: Shard,
    limits: Limits,
    /// What is asked of a proxy on each new connection, if it is to open tunnels.
    tunnel_request: Option<Vec<u8>>,
    /// What the server's answers look like at the moment.
    familiar: FamiliarHead,
    users: Vec<User>,
    owners: Owners,
    timers: Timers,
    /// Users that wait until fewer than [`CONNECTING_MAX`] connections are being opened.
    queue: VecDeque<u32>,
    connecting: usize,
    open_count: usize,
    /// Connections that the server is to end, and until when. At most as many as there are users.
    lingering: VecDeque<(Instant, ConnectionId)>,
    claims: Range<u64>,
    /// Numbers for the requests of sessions.
    sequence: Range<u64>,
    /// Of an open loop: who is free, and the arrival that a free one is kept for.
    open: Option<Open>,
    /// Users that are not done.
    active: usize,
    phase: Phase,
    pub(crate) window_ends: Instant,
    pub(crate) tally: Tally,
    interval: Interval,
    /// Times of those requests of the interval that left when they were due and whose answer came in one piece: they are response time,
    /// service time and time to the first byte at once, and so most requests are recorded once and not three times.
    prompt: Histogram,
    /// Which interval of the run it is, from 0.
    interval_index: u64,
    interval_ends: Instant,
    bytes_received_before: u64,
    pub(crate) span: Span,
    /// The instant of the latest call.
    last_seen: Instant,
    /// CPU time that the thread had used before the run.
    cpu_before: Duration,
    random: Random,
    scratch: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Of an open loop: connections are opened, at most until then; the schedule has not begun.
    Opening(Instant),
    Running,
    /// Nothing new is sent; what is under way is waited for until then.
    Draining(Instant),
    Over,
}

impl Load {
    /// The node of one shard.
    #[must_use]
    pub fn new(run: Arc<Run>, shard: Shard) -> Self {
        let random = Random::stream(run.plan().settings().seed, shard.id.0 as u64);
        let open = Open::of(&run);
        let tally = Tally::of_scenarios(run.plan().scenarios());
        Self {
            tunnel_request: run.plan().tunnel_request(),
            run,
            shard,
            limits: client_limits(),
            familiar: FamiliarHead::new(),
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

    /// Complete answers of this shard, whatever their status.
    #[must_use]
    pub const fn answered(&self) -> u64 {
        self.tally.answered
    }

    /// Requests of this shard that failed for this reason.
    #[must_use]
    pub const fn errors_of(&self, kind: ErrorKind) -> u64 {
        self.tally.errors_of(kind)
    }

    /// Requests of this shard that were under way at its end.
    #[must_use]
    pub const fn unfinished(&self) -> u64 {
        self.tally.unfinished
    }

    /// The clock of the workload starts.
    fn begin(&mut self, now: Instant) -> Instant {
        let epoch = self.run.begin(now);
        self.phase = Phase::Running;
        self.interval_ends = epoch + self.run.plan().settings().interval;
        if let Some(duration) = self.run.plan().settings().duration {
            self.window_ends = epoch + duration;
        }
        epoch
    }

    fn start_users(&mut self, now: Instant, epoch: Instant) {
        let plan = self.run.plan();
        let settings = plan.settings();
        let (depth, cookies) = (settings.pipeline_depth, settings.cookies);
        let scenarios = plan.scenarios();
        let reads_content = settings.expectations.reads_content() || scenarios.is_some_and(Scenarios::reads_content);
        // The users are dealt to the shards in turn, so that a ramp loads all shards alike.
        let (connections, ramp) = (settings.connections, settings.ramp);
        let numbers = (self.shard.id.0..connections).step_by(self.shard.count.max(1));
        self.users = numbers.clone().map(|_| User::new(depth, cookies, reads_content)).collect();
        if let Some(scenarios) = scenarios {
            self.users.iter_mut().for_each(|user| user.session = Some(Box::new(Session::new(scenarios))));
        }
        self.active = self.users.len();
        for (index, number) in numbers.enumerate() {
            let starts = epoch + ramp.mul_f64(number as f64 / connections as f64);
            self.timers.set(index as u32, starts.max(now));
        }
    }

    /// Nothing new is begun.
    const fn is_ending(&self) -> bool {
        matches!(self.phase, Phase::Draining(_) | Phase::Over)
    }

    /// The user has nothing more to do.
    fn retire(&mut self, now: Instant, index: u32, actions: &mut Actions) {
        let user = &mut self.users[index as usize];
        let state = std::mem::replace(&mut user.state, State::Done);
        if state == State::Done {
            return;
        }
        self.drop_window(index);
        self.leave_session(index);
        self.timers.clear(index);
        self.active -= 1;
        if self.active == 0 {
            return self.finish(now, actions);
        }
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

    fn on_timer(&mut self, now: Instant, index: u32, actions: &mut Actions) {
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

    fn drain_max(&self) -> Duration {
        DRAIN_MAX.min(self.run.plan().settings().timeout)
    }

    /// Sends nothing more; waits for what is under way until `bound` has passed.
    fn drain(&mut self, now: Instant, bound: Duration, actions: &mut Actions) {
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

    /// The shard is done.
    fn finish(&mut self, now: Instant, actions: &mut Actions) {
        if self.phase != Phase::Over {
            self.last_seen = now;
            self.note_cpu(); // here, on the shard's own thread
            self.close();
            actions.exit();
        }
    }
}

/// A generator takes whatever the server sends, of any length; only heads are bounded.
fn client_limits() -> Limits {
    Limits {
        content_bytes_max: u64::MAX,
        head_bytes_max: 64 * 1024,
        field_count_max: FieldStorage::CAPACITY,
        ..Limits::default()
    }
}

impl Node for Load {
    fn handle_started(&mut self, now: Instant, actions: &mut Actions) {
        self.cpu_before = self.run.thread_cpu().unwrap_or_default();
        self.span.started = now;
        let opens_first = self.open.as_ref().is_some_and(|open| open.opens_first);
        let epoch = if opens_first { self.begin_opening(now) } else { self.begin(now) };
        self.start_users(now, epoch);
        if self.users.is_empty() {
            return self.finish(now, actions);
        }
        self.handle_deadline(now, actions);
    }

    fn handle_accepted(&mut self, _now: Instant, connection: ConnectionId, _accepted: Accepted, actions: &mut Actions) {
        actions.close(connection, Close::Abort); // a generator listens nowhere
    }

    fn handle_connected(
        &mut self,
        now: Instant,
        ticket: ConnectTicket,
        outcome: Result<Connected, ConnectError>,
        actions: &mut Actions,
    ) {
        self.tick(now);
        self.connecting = self.connecting.saturating_sub(1);
        let (index, attempt) = (ticket.0 as u32, (ticket.0 >> 32) as u32);
        let since = match self.users.get(index as usize) {
            Some(User { state: State::Connecting(since), attempt: current, .. }) if *current == attempt => Some(*since),
            _ => None,
        };
        match (outcome, since) {
            (Ok(connected), Some(since)) if connected.handshake.is_none() && self.tunnel_request.is_some() => {
                self.ask_for_tunnel(now, index, since, connected.connection, actions);
            }
            (Ok(connected), Some(since)) => self.connected(now, index, since, connected, actions),
            (Err(error), Some(_)) => {
                self.run.note_connect_error(error);
                self.connect_failed(now, index, error.into(), actions);
            }
            (Ok(connected), None) => actions.close(connected.connection, Close::Abort), // too late: the user is done
            (Err(_), None) => {}
        }
        self.open_queued(now, actions);
        self.dispatch(now, actions);
        self.publish();
    }

    fn handle_received(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> usize {
        self.tick(now);
        let index = match self.owners.of(connection) {
            Owner::User(index) => index,
            Owner::Lingering if received.ended => {
                self.owners.set(connection, Owner::Nobody);
                actions.close(connection, Close::Graceful);
                return received.bytes.len();
            }
            Owner::Lingering | Owner::Nobody => return received.bytes.len(),
        };
        if let State::Tunnelling(since, _) = self.users[index as usize].state {
            let taken = self.read_tunnel(now, index, since, connection, received, actions);
            self.tally.bytes_received += taken as u64;
            self.publish();
            return taken;
        }
        let answered_before = self.tally.answered;
        let (taken, reading) = self.read(now, index, connection, received, actions);
        self.tally.bytes_received += taken as u64;
        if matches!(reading, Reading::Idle) && self.tally.answered != answered_before {
            self.go_on(now, index, connection, actions);
        }
        self.dispatch(now, actions);
        self.publish();
        taken
    }

    fn handle_closed(&mut self, now: Instant, connection: ConnectionId, reason: CloseReason, actions: &mut Actions) {
        self.tick(now);
        let owner = self.owners.of(connection);
        let Owner::User(index) = owner else {
            return self.owners.set(connection, Owner::Nobody);
        };
        if self.phase == Phase::Over {
            return; // the books are closed; the driver drops what was open
        }
        if let State::Tunnelling(..) = self.users[index as usize].state {
            return self.tunnel_failed(now, index, connection, ErrorKind::ProxyRefused, actions);
        }
        self.detach(index, connection);
        let is_idle = self.users[index as usize].window.is_empty();
        let loss = match reason {
            CloseReason::Requested | CloseReason::Truncated => Loss::ClosedEarly,
            CloseReason::Tls(failure) => {
                self.run.note_connect_error(ConnectError::Tls(failure));
                Loss::Tls(failure)
            }
            CloseReason::Reset | CloseReason::Dropped | CloseReason::Failed(_) => Loss::Reset,
        };
        self.fail_window(index, loss);
        self.after_loss(now, index, is_idle, actions);
        self.dispatch(now, actions);
        self.publish();
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        self.tick(now);
        match self.phase {
            Phase::Opening(until) if now >= until => {
                self.begin(now);
            }
            Phase::Running if now >= self.window_ends => {
                self.dispatch_rest(now, actions);
                self.drain(now, self.drain_max(), actions);
            }
            Phase::Draining(until) if now >= until => self.finish(now, actions),
            _ => {}
        }
        self.end_lingering(now, actions);
        while self.phase != Phase::Over
            && let Some(index) = self.timers.pop_due(now)
        {
            self.on_timer(now, index, actions);
        }
        self.dispatch(now, actions);
        self.publish();
    }

    /// Another shard: the schedule begins, or there is room for an arrival that was turned away.
    fn handle_woken(&mut self, now: Instant, _message: u64, actions: &mut Actions) {
        self.tick(now);
        if let Phase::Opening(_) = self.phase {
            self.begin(now);
        }
        self.dispatch(now, actions);
        self.publish();
    }

    fn handle_stopping(&mut self, now: Instant, actions: &mut Actions) {
        self.tick(now);
        if self.phase == Phase::Running {
            self.window_ends = self.window_ends.min(self.run.stop(now));
            self.dispatch_rest(now, actions);
        }
        let is_regular = self.run.plan().settings().until_stopped;
        let bound = if is_regular { self.drain_max() } else { DRAIN_INTERRUPTED_MAX };
        self.drain(now, bound, actions);
        self.publish();
    }

    fn next_deadline(&self) -> Option<Instant> {
        let phase_ends = match self.phase {
            Phase::Running => self.window_ends,
            Phase::Opening(until) | Phase::Draining(until) => until,
            Phase::Over => return None,
        };
        let lingering = self.lingering.front().map_or(Instant::FAR, |(until, _)| *until);
        let timer = self.timers.next().unwrap_or(Instant::FAR);
        let arrival = self.open.as_ref().map_or(Instant::FAR, Open::next_due);
        Some(phase_ends.min(timer).min(lingering).min(self.interval_ends).min(arrival))
    }

    fn times_arrivals(&self) -> bool {
        true
    }

    fn deadline_slack(&self) -> Duration {
        match &self.open {
            Some(open) => open.slack,
            None if self.run.plan().has_users_that_think() => Duration::ZERO,
            None => breme_node::DEADLINE_SLACK,
        }
    }
}
