//! The load generator's node: a closed loop of users over the connections of one shard.
//!
//! ```text
//!              ramp, think, pause                 answered (and thinking done)
//!                 ┌────────┐                            ┌──────────┐
//!   handle_started│        ▼                            │          ▼
//!   ───────────► Waiting ──► Queued ──► Connecting ──► Open ──► send the window full
//!                 ▲ claim: a request's number            │
//!                 └──────── connection lost ◄────────────┘
//! ```
//!
//! - A user **claims** a request's number before it opens a connection or sends, so that with `-n` there are never more or fewer
//!   requests than asked for. Every claimed request ends as answered, failed by a kind, or unfinished.
//! - The clock is read by the driver, for each event: *sent* is the instant of the call that produced the request, *first byte* and
//!   *done* the instants of the calls that brought the bytes. No stamp is taken after waiting for something else.
//! - One call's answers are all read before anything is sent, so a pipeline is refilled with one send.
//! - At the end (time over, or asked to stop) nothing new is sent; what is under way is waited for, for a bounded time.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use breme_base::{Instant, Random, Timers};
use breme_http1::{ClientConnection, ClientError, ClientProgress, FieldStorage, Limits};
use breme_node::{
    Accepted, Actions, Close, CloseReason, ConnectError, ConnectTicket, Connected, ConnectionId, Endpoint, Node,
    Received, Shard, TlsClientId, TlsFailure,
};

use crate::request::Variables;
use crate::run::Run;
use crate::series::Interval;
use crate::tally::{ErrorKind, Span, Tally};
use crate::user::{Owner, Owners, State, User};
use crate::window::Slot;

/// Connections of one shard that are being opened at the same time: a server's backlog is not to be flooded.
pub const CONNECTING_MAX: usize = 256;
/// What is under way at the end of the duration is waited for this long (or for the time-out, if that is shorter).
pub const DRAIN_MAX: Duration = Duration::from_secs(5);
/// The same when the user interrupts the run.
pub const DRAIN_INTERRUPTED_MAX: Duration = Duration::from_secs(1);
/// If no connection could be opened in this time, the run ends.
pub const CONNECT_GIVE_UP: Duration = Duration::from_secs(2);
/// The pause after the first failed connection of a user; it doubles with each further one …
pub const PAUSE_MIN: Duration = Duration::from_millis(50);
/// … up to this, or to [`PAUSE_SPACING`] for each user of the shard, if that is longer.
pub const PAUSE_MAX: Duration = Duration::from_secs(1);
/// A shard tries a dead target no more often than this.
pub const PAUSE_SPACING: Duration = Duration::from_millis(1);
/// A server that announced the end of a connection is left this long to end it, so that the port stays busy on its side, not here.
pub const LINGER_MAX: Duration = Duration::from_secs(1);

/// The driver knows one server: that of the plan.
pub const TLS_CLIENT: TlsClientId = TlsClientId(0);

const SECOND: Duration = Duration::from_secs(1);

/// The users of one shard. See the crate's documentation.
#[derive(Debug)]
pub struct Load {
    run: Arc<Run>,
    shard: Shard,
    limits: Limits,
    users: Vec<User>,
    owners: Owners,
    timers: Timers,
    /// Users that wait until fewer than [`CONNECTING_MAX`] connections are being opened.
    queue: VecDeque<u32>,
    connecting: usize,
    open: usize,
    /// Connections that the server is to end, and until when. At most as many as there are users.
    lingering: VecDeque<(Instant, ConnectionId)>,
    claims: Range<u64>,
    /// Users that are not done.
    active: usize,
    phase: Phase,
    window_ends: Instant,
    pub(crate) tally: Tally,
    interval: Interval,
    interval_second: u64,
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
    Running,
    /// Nothing new is sent; what is under way is waited for until then.
    Draining(Instant),
    Over,
}

/// What became of a connection's input.
enum Reading {
    /// All was read; the connection stays.
    Idle,
    /// The connection is not the user's any more.
    Lost,
}

impl Load {
    /// The node of one shard.
    #[must_use]
    pub fn new(run: Arc<Run>, shard: Shard) -> Self {
        let random = Random::stream(run.plan().settings().seed, shard.id.0 as u64);
        Self {
            run,
            shard,
            limits: client_limits(),
            users: Vec::new(),
            owners: Owners::default(),
            timers: Timers::new(),
            queue: VecDeque::new(),
            connecting: 0,
            open: 0,
            lingering: VecDeque::new(),
            claims: 0..0,
            active: 0,
            phase: Phase::Running,
            window_ends: Instant::FAR,
            tally: Tally::new(),
            interval: Interval::default(),
            interval_second: 0,
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

    // ---- users: claiming, connecting ----------------------------------------------------------------------------------------

    fn start_users(&mut self, now: Instant, epoch: Instant) {
        let plan = self.run.plan();
        let settings = plan.settings();
        let (depth, cookies) = (settings.pipeline_depth, settings.cookies);
        let reads_content = settings.expectations.reads_content();
        // The users are dealt to the shards in turn, so that a ramp loads all shards alike.
        let (connections, ramp) = (settings.connections, settings.ramp);
        let numbers = (self.shard.id.0..connections).step_by(self.shard.count.max(1));
        self.users = numbers.clone().map(|_| User::new(depth, cookies, reads_content)).collect();
        self.active = self.users.len();
        for (index, number) in numbers.enumerate() {
            let starts = epoch + ramp.mul_f64(number as f64 / connections as f64);
            self.timers.set(index as u32, starts.max(now));
        }
    }

    /// The number of the next request; none if the run is to send no more.
    fn claim(&mut self) -> Option<u64> {
        if self.phase != Phase::Running {
            return None;
        }
        if self.claims.is_empty() {
            self.claims = self.run.claim();
        }
        self.claims.next()
    }

    /// The user wants a connection: for the requests that wait, or for a new one.
    fn want_connection(&mut self, now: Instant, index: u32, actions: &mut Actions) {
        if self.phase != Phase::Running {
            return self.retire(now, index, actions);
        }
        if self.users[index as usize].window.is_empty() {
            let Some(ordinal) = self.claim() else {
                return self.retire(now, index, actions);
            };
            self.users[index as usize].window.push(Slot::new(ordinal));
        }
        self.timers.clear(index);
        self.users[index as usize].state = State::Queued;
        self.queue.push_back(index);
        self.open_queued(now, actions);
    }

    fn open_queued(&mut self, now: Instant, actions: &mut Actions) {
        while self.connecting < CONNECTING_MAX
            && let Some(index) = self.queue.pop_front()
        {
            let user = &mut self.users[index as usize];
            if user.state == State::Queued {
                user.address_index = self.run.preferred_address() as u32;
                self.connect(now, index, actions);
            }
        }
    }

    fn connect(&mut self, now: Instant, index: u32, actions: &mut Actions) {
        let user = &mut self.users[index as usize];
        let Some(&address) = self.run.addresses().get(user.address_index as usize) else {
            return self.connect_failed(now, index, ErrorKind::ConnectFailed, actions);
        };
        user.attempt = user.attempt.wrapping_add(1);
        user.state = State::Connecting(now);
        self.connecting += 1;
        let is_tls = self.run.plan().authority().is_tls;
        let endpoint = if is_tls { Endpoint::tls(address, TLS_CLIENT) } else { Endpoint::tcp(address) };
        actions.connect(ticket(index, user.attempt), endpoint);
    }

    fn connected(&mut self, now: Instant, index: u32, since: Instant, connected: Connected, actions: &mut Actions) {
        let connection = connected.connection;
        let user = &mut self.users[index as usize];
        self.run.note_connected(user.address_index as usize);
        user.state = State::Open(connection);
        user.protocol = ClientConnection::new();
        user.due = now;
        self.owners.set(connection, Owner::User(index));
        self.open += 1;
        self.tally.connections_opened += 1;
        self.tally.reconnects += u64::from(std::mem::replace(&mut user.was_connected, true));
        user.failures = user.failures.saturating_add(1); // until it brings an answer
        self.tally.note_opening(now.since(since), connected.handshake);
        for place in 0..self.users[index as usize].window.len() {
            self.send(now, index, place, connection, actions);
        }
        self.refill(now, index, connection, actions);
    }

    /// The request that the connection was for fails; after a pause the user tries the next.
    fn connect_failed(&mut self, now: Instant, index: u32, kind: ErrorKind, actions: &mut Actions) {
        let address_count = self.run.addresses().len();
        let user = &mut self.users[index as usize];
        // A name may have several addresses of which only some work: `localhost` is often one of them.
        if !self.run.is_connected() && (user.address_index as usize) + 1 < address_count {
            user.address_index += 1;
            return self.connect(now, index, actions);
        }
        if let Some(slot) = user.window.pop() {
            self.tally.issued += u64::from(slot.sent == Instant::FAR);
            self.count_error(kind);
        }
        if !self.run.is_connected() && now.since(self.span.started) >= CONNECT_GIVE_UP {
            self.run.give_up();
        }
        if self.run.gave_up() {
            return self.finish(now, actions);
        }
        let user = &mut self.users[index as usize];
        user.failures = user.failures.saturating_add(1);
        self.pause(now, index);
    }

    fn pause(&mut self, now: Instant, index: u32) {
        let longest = PAUSE_MAX.max(PAUSE_SPACING * self.users.len() as u32);
        let user = &mut self.users[index as usize];
        user.state = State::Waiting; // it may have been connecting
        let doublings = user.failures.saturating_sub(1).min(16);
        self.timers.set(index, now + (PAUSE_MIN * (1 << doublings)).min(longest));
    }

    /// The user has nothing more to do.
    fn retire(&mut self, now: Instant, index: u32, actions: &mut Actions) {
        let user = &mut self.users[index as usize];
        let state = std::mem::replace(&mut user.state, State::Done);
        if state == State::Done {
            return;
        }
        self.drop_window(index);
        self.timers.clear(index);
        self.active -= 1;
        if self.active == 0 {
            return self.finish(now, actions);
        }
        if let State::Open(connection) = state {
            self.owners.set(connection, Owner::Nobody);
            self.open -= 1;
            actions.close(connection, Close::Graceful);
        }
    }

    /// What was sent and is not answered is unfinished; what was only claimed never began.
    fn drop_window(&mut self, index: u32) {
        while let Some(slot) = self.users[index as usize].window.pop() {
            self.tally.unfinished += u64::from(slot.sent != Instant::FAR);
        }
    }

    /// The connection is not the user's any more.
    fn detach(&mut self, index: u32, connection: ConnectionId) {
        self.users[index as usize].state = State::Waiting;
        self.owners.set(connection, Owner::Nobody);
        self.open -= 1;
    }

    // ---- sending ------------------------------------------------------------------------------------------------------------

    /// Fills the user's window, as far as there are requests.
    fn refill(&mut self, now: Instant, index: u32, connection: ConnectionId, actions: &mut Actions) {
        while !self.users[index as usize].window.is_full() {
            let Some(ordinal) = self.claim() else { break };
            let user = &mut self.users[index as usize];
            user.window.push(Slot::new(ordinal));
            let place = user.window.len() - 1;
            self.send(now, index, place, connection, actions);
        }
        self.watch(now, index, actions);
    }

    /// Sets the timer for the oldest request; without one there is nothing more to do.
    fn watch(&mut self, now: Instant, index: u32, actions: &mut Actions) {
        let timeout = self.run.plan().settings().timeout;
        match self.users[index as usize].window.oldest() {
            Some(oldest) => self.timers.set(index, oldest.sent + timeout),
            None => self.retire(now, index, actions),
        }
    }

    #[inline]
    fn send(&mut self, now: Instant, index: u32, place: usize, connection: ConnectionId, actions: &mut Actions) {
        let user = &mut self.users[index as usize];
        let due = user.due;
        let Some(slot) = user.window.get_mut(place) else { return };
        let is_again = slot.sent != Instant::FAR;
        *slot = Slot { sent: now, first: Instant::FAR, ..*slot };
        let ordinal = slot.ordinal;
        let request = self.run.plan().request(ordinal);
        user.protocol.sent(request.method());
        let variables = Variables {
            sequence: ordinal + 1,
            random: &mut self.random,
            scratch: &mut self.scratch,
            jar: user.jar.as_deref_mut(),
            now,
        };
        self.tally.bytes_sent += request.send(connection, variables, actions) as u64;
        self.tally.lateness_max = self.tally.lateness_max.max(now.since(due));
        self.tally.resent += u64::from(is_again);
        self.tally.issued += u64::from(!is_again);
        self.tally.sent += u64::from(!is_again);
    }

    // ---- receiving ----------------------------------------------------------------------------------------------------------

    fn read(
        &mut self,
        now: Instant,
        index: u32,
        connection: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> (usize, Reading) {
        let mut rest = received.bytes;
        let mut storage;
        loop {
            let user = &mut self.users[index as usize];
            if !rest.is_empty()
                && let Some(oldest) = user.window.oldest()
                && oldest.first == Instant::FAR
            {
                oldest.first = now;
            }
            storage = FieldStorage::new();
            let taken = match user.protocol.receive(rest, received.ended, &self.limits, &mut storage) {
                Ok(ClientProgress::NeedMore { .. }) if received.ended => {
                    self.lose(now, index, connection, Loss::ClosedEarly, actions);
                    return (received.bytes.len(), Reading::Lost);
                }
                Ok(ClientProgress::NeedMore { taken }) => {
                    return (received.bytes.len() - rest.len() + taken, Reading::Idle);
                }
                Ok(ClientProgress::Interim { taken, .. }) => taken,
                Ok(ClientProgress::Head { head, taken }) => {
                    user.answer.status = head.status;
                    user.answer.content_bytes = 0;
                    let expectations = &self.run.plan().settings().expectations;
                    if let Some(check) = &mut user.answer.check {
                        expectations.begin(check);
                    }
                    if let Some(jar) = &mut user.jar {
                        let (host, wall) = (&self.run.plan().authority().host, self.run.wall().at(now));
                        head.fields.all("Set-Cookie").for_each(|value| jar.store(value, host, now, wall));
                    }
                    taken
                }
                Ok(ClientProgress::Content { bytes, taken }) => {
                    user.answer.content_bytes += bytes.len() as u64;
                    if let Some(check) = &mut user.answer.check {
                        self.run.plan().settings().expectations.feed(check, bytes);
                    }
                    taken
                }
                Ok(ClientProgress::End { taken, keep_alive }) => {
                    self.complete_oldest(now, index);
                    if !keep_alive {
                        self.close_announced(now, index, connection, received.ended, actions);
                        return (received.bytes.len(), Reading::Lost);
                    }
                    if taken == rest.len() && !received.ended {
                        return (received.bytes.len(), Reading::Idle);
                    }
                    taken
                }
                Ok(ClientProgress::Over) => {
                    self.lose(now, index, connection, Loss::Over, actions);
                    return (received.bytes.len(), Reading::Lost);
                }
                Err(error) => {
                    self.lose(now, index, connection, error.into(), actions);
                    return (received.bytes.len(), Reading::Lost);
                }
            };
            rest = &rest[taken..];
        }
    }

    /// The oldest request has its answer.
    #[inline]
    fn complete_oldest(&mut self, now: Instant, index: u32) {
        let user = &mut self.users[index as usize];
        let Some(slot) = user.window.pop() else { return };
        user.failures = 0;
        self.interval.service.record(now.nanos_since(slot.sent));
        self.interval.first_byte.record(slot.first.nanos_since(slot.sent));
        self.interval.answered += 1;
        self.tally.answered += 1;
        self.tally.answered_late += u64::from(now > self.window_ends);
        let (status, content_bytes) = (user.answer.status, user.answer.content_bytes);
        self.tally.content_bytes += content_bytes;
        self.tally.statuses[usize::from(status).min(999)] += 1;
        let expectations = &self.run.plan().settings().expectations;
        if !expectations.accepts_status(status) {
            self.count_error(ErrorKind::Status);
        } else if !expectations.accepts_content(user.answer.check.as_deref(), content_bytes) {
            self.count_error(ErrorKind::Assertion);
        }
    }

    fn count_error(&mut self, kind: ErrorKind) {
        self.tally.count(kind);
        self.interval.errors += 1;
    }

    /// After answers: the next requests, or a time to think.
    fn go_on(&mut self, now: Instant, index: u32, connection: ConnectionId, actions: &mut Actions) {
        let is_empty = self.users[index as usize].window.is_empty();
        match self.think() {
            Some(_) if !is_empty => self.watch(now, index, actions),
            Some(pause) if self.phase == Phase::Running => {
                let due = now + pause;
                self.users[index as usize].due = due;
                self.timers.set(index, due);
            }
            _ => {
                self.users[index as usize].due = now;
                self.refill(now, index, connection, actions);
            }
        }
    }

    fn think(&mut self) -> Option<Duration> {
        let think = self.run.plan().settings().think?;
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Some(Duration::from_nanos(self.random.between(nanos(think.min), nanos(think.max))))
    }

    // ---- connections that end -----------------------------------------------------------------------------------------------

    /// The last answer said that the connection ends with it. The requests behind it were not processed (RFC 9112, 9.6): they go
    /// out again on the next connection.
    fn close_announced(
        &mut self,
        now: Instant,
        index: u32,
        connection: ConnectionId,
        ended: bool,
        actions: &mut Actions,
    ) {
        self.detach(index, connection);
        if ended || self.lingering.len() >= self.users.len() {
            actions.close(connection, Close::Graceful);
        } else {
            self.owners.set(connection, Owner::Lingering);
            self.lingering.push_back((now + LINGER_MAX, connection));
        }
        self.reconnect(now, index, actions);
    }

    /// Opens the next connection: at once, or when the user has thought.
    fn reconnect(&mut self, now: Instant, index: u32, actions: &mut Actions) {
        match self.think() {
            Some(pause) if self.phase == Phase::Running && self.users[index as usize].window.is_empty() => {
                self.timers.set(index, now + pause);
            }
            _ => self.want_connection(now, index, actions),
        }
    }

    /// The connection is lost, by the peer's fault or its right.
    fn lose(&mut self, now: Instant, index: u32, connection: ConnectionId, loss: Loss, actions: &mut Actions) {
        let is_idle = self.users[index as usize].window.is_empty();
        self.tally.unexpected += u64::from(is_idle && matches!(loss, Loss::Malformed));
        self.fail_window(index, loss);
        self.detach(index, connection);
        let how = if matches!(loss, Loss::Malformed) { Close::Abort } else { Close::Graceful };
        actions.close(connection, how);
        self.after_loss(now, index, is_idle, actions);
    }

    /// Every request of the window fails. Behind one whose answer was no HTTP, the others go with the connection.
    fn fail_window(&mut self, index: u32, loss: Loss) {
        let (first, others) = match loss {
            Loss::Over | Loss::ClosedEarly => (ErrorKind::ClosedEarly, ErrorKind::ClosedEarly),
            Loss::Reset => (ErrorKind::Reset, ErrorKind::Reset),
            Loss::Malformed => (ErrorKind::Malformed, ErrorKind::Aborted),
            Loss::Tls(failure) => (failure.into(), failure.into()),
        };
        let mut kind = first;
        while self.users[index as usize].window.pop().is_some() {
            self.count_error(kind);
            kind = others;
        }
    }

    fn after_loss(&mut self, now: Instant, index: u32, was_idle: bool, actions: &mut Actions) {
        if self.phase != Phase::Running {
            return self.retire(now, index, actions);
        }
        let user = &self.users[index as usize];
        if was_idle && user.due > now {
            // It was thinking, and goes on with it; its timer stands.
        } else if user.failures == 0 {
            self.reconnect(now, index, actions);
        } else {
            // A server that takes connections and drops them is not to be hammered either.
            self.pause(now, index);
        }
    }

    fn timed_out(&mut self, now: Instant, index: u32, connection: ConnectionId, actions: &mut Actions) {
        let timeout = self.run.plan().settings().timeout;
        while let Some(slot) = self.users[index as usize].window.pop() {
            if slot.sent + timeout <= now {
                self.interval.service.record(timeout.as_nanos() as u64);
                self.count_error(ErrorKind::Timeout);
            } else {
                self.count_error(ErrorKind::Aborted);
            }
        }
        self.detach(index, connection);
        actions.close(connection, Close::Abort);
        self.reconnect(now, index, actions);
    }

    // ---- time ---------------------------------------------------------------------------------------------------------------

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
            State::Queued | State::Connecting(_) | State::Done => {}
        }
    }

    fn end_lingering(&mut self, now: Instant, actions: &mut Actions) {
        while let Some(&(until, connection)) = self.lingering.front()
            && (until <= now || self.owners.of(connection) != Owner::Lingering)
        {
            self.lingering.pop_front();
            if self.owners.of(connection) == Owner::Lingering {
                self.owners.set(connection, Owner::Nobody);
                actions.close(connection, Close::Graceful);
            }
        }
    }

    /// Sends nothing more; waits for what is under way until `bound` has passed.
    fn drain(&mut self, now: Instant, bound: Duration, actions: &mut Actions) {
        if self.phase != Phase::Running {
            return;
        }
        self.window_ends = self.window_ends.min(now);
        self.interval_ends = Instant::FAR;
        self.phase = Phase::Draining(now + bound);
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

    /// Closes the books, also where the driver ended the shard without asking.
    pub(crate) fn close(&mut self) {
        if self.phase == Phase::Over {
            return;
        }
        self.phase = Phase::Over;
        self.interval_ends = Instant::FAR;
        (0..self.users.len() as u32).for_each(|index| self.drop_window(index));
        self.open = 0;
        self.span.ended = self.last_seen;
        self.interval.received_bytes = self.tally.bytes_received - self.bytes_received_before;
        self.run.series().finish_shard(self.shard.id.0, self.interval_second, &self.interval);
        self.publish();
    }

    /// Hands in the second that is over.
    fn tick(&mut self, now: Instant) {
        self.last_seen = now;
        if now < self.interval_ends || now >= self.window_ends {
            return; // what is waited for at the end belongs to the last second
        }
        let second = now.since(self.interval_ends).as_secs() + self.interval_second + 1;
        self.interval.received_bytes = self.tally.bytes_received - self.bytes_received_before;
        self.run.series().hand_in(self.shard.id.0, self.interval_second, second, &self.interval);
        self.interval.clear();
        self.bytes_received_before = self.tally.bytes_received;
        self.interval_ends = self.interval_ends + SECOND * (second - self.interval_second) as u32;
        self.interval_second = second;
        self.note_cpu();
    }

    fn note_cpu(&mut self) {
        self.span.cpu = self.run.thread_cpu().map(|cpu| cpu.saturating_sub(self.cpu_before));
    }

    fn publish(&self) {
        if let Some(progress) = self.run.shard_progress(self.shard.id.0) {
            progress.answered.store(self.tally.answered, Ordering::Relaxed);
            progress.errors.store(self.tally.errors(), Ordering::Relaxed);
            progress.open.store(self.open as u64, Ordering::Relaxed);
            progress.bytes_received.store(self.tally.bytes_received, Ordering::Relaxed);
        }
    }
}

/// How a connection was lost.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// Closed by the peer while nothing was due.
    Over,
    ClosedEarly,
    Reset,
    Malformed,
    /// By a breach of TLS, or the server's refusal to go on with it.
    Tls(TlsFailure),
}

impl From<ClientError> for Loss {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::ClosedEarly => Self::ClosedEarly,
            _ => Self::Malformed,
        }
    }
}

const fn ticket(index: u32, attempt: u32) -> ConnectTicket {
    ConnectTicket((attempt as u64) << 32 | index as u64)
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
        let epoch = self.run.begin(now);
        self.span.started = now;
        self.cpu_before = self.run.thread_cpu().unwrap_or_default();
        self.interval_ends = epoch + SECOND;
        if let Some(duration) = self.run.plan().settings().duration {
            self.window_ends = epoch + duration;
        }
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
            (Ok(connected), Some(since)) => self.connected(now, index, since, connected, actions),
            (Err(error), Some(_)) => {
                self.run.note_connect_error(error);
                self.connect_failed(now, index, error.into(), actions);
            }
            (Ok(connected), None) => actions.close(connected.connection, Close::Abort), // too late: the user is done
            (Err(_), None) => {}
        }
        self.open_queued(now, actions);
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
        let answered_before = self.tally.answered;
        let (taken, reading) = self.read(now, index, connection, received, actions);
        self.tally.bytes_received += taken as u64;
        if matches!(reading, Reading::Idle) && self.tally.answered != answered_before {
            self.go_on(now, index, connection, actions);
        }
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
        self.publish();
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        self.tick(now);
        match self.phase {
            Phase::Running if now >= self.window_ends => {
                let bound = DRAIN_MAX.min(self.run.plan().settings().timeout);
                self.drain(now, bound, actions);
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
        self.publish();
    }

    fn handle_stopping(&mut self, now: Instant, actions: &mut Actions) {
        self.tick(now);
        self.drain(now, DRAIN_INTERRUPTED_MAX, actions);
        self.publish();
    }

    fn next_deadline(&self) -> Option<Instant> {
        let phase_ends = match self.phase {
            Phase::Running => self.window_ends,
            Phase::Draining(until) => until,
            Phase::Over => return None,
        };
        let lingering = self.lingering.front().map_or(Instant::FAR, |(until, _)| *until);
        let timer = self.timers.next().unwrap_or(Instant::FAR);
        Some(phase_ends.min(timer).min(lingering).min(self.interval_ends))
    }
}
