//! Checks the contract at every call of a driver.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use breme_base::Instant;
use breme_node::{Accepted, Action, Actions, CloseReason, ConnectResult, ConnectTicket, ConnectionId, Node, Received};

/// Limit of the recorded violations: further ones are consequences of the first.
const VIOLATIONS_MAX: usize = 8;

/// Wraps a node and checks the calls of its driver.
pub struct ContractChecker<N> {
    node: N,
    lent_bytes_max: usize,
    record: CallRecord,
    open: BTreeMap<ConnectionId, ConnectionRecord>,
    closed_ids: BTreeSet<ConnectionId>,
    pending_connects: BTreeSet<u64>,
    now: Instant,
    started: bool,
    is_under_pressure: bool,
    exited: bool,
    /// The deadline as last read by the driver, which uses a shared reference.
    deadline: Cell<Option<Instant>>,
}

/// Observations, for assertions.
#[derive(Clone, Debug, Default)]
pub struct CallRecord {
    /// Breaches of the contract by the driver or the node.
    pub violations: Vec<String>,
    pub accepted_count: usize,
    pub connected_count: usize,
    /// In order.
    pub closed: Vec<CloseReason>,
    /// Times a send queue became long.
    pub long_count: usize,
    /// Times a long queue drained.
    pub drained_count: usize,
    /// Ends reported together with bytes.
    pub ended_with_bytes_count: usize,
    /// Ends reported alone.
    pub ended_alone_count: usize,
    /// Calls with bytes not consumed before.
    pub lent_again_count: usize,
    /// Most bytes lent at once.
    pub lent_bytes_peak: usize,
    /// Consumed bytes.
    pub taken_bytes: u64,
    pub deadline_count: usize,
    /// In order.
    pub woken: Vec<u64>,
    /// Times the pressure rose.
    pub pressure_count: usize,
    pub stopping_count: usize,
}

#[derive(Default)]
struct ConnectionRecord {
    untaken: Vec<u8>,
    ended: bool,
    is_paused: bool,
    is_closing: bool,
    queue_is_long: bool,
    is_accepted: bool,
}

impl<N> ContractChecker<N> {
    /// `lent_bytes_max`: most bytes that may be lent at once.
    pub fn new(node: N, lent_bytes_max: usize) -> Self {
        Self {
            node,
            lent_bytes_max,
            record: CallRecord::default(),
            open: BTreeMap::new(),
            closed_ids: BTreeSet::new(),
            pending_connects: BTreeSet::new(),
            now: Instant::ZERO,
            started: false,
            is_under_pressure: false,
            exited: false,
            deadline: Cell::new(None),
        }
    }

    pub fn node(&self) -> &N {
        &self.node
    }

    pub fn record(&self) -> &CallRecord {
        &self.record
    }

    /// All violations after the run, including connections without a close, unless the node exited before.
    pub fn final_violations(&self) -> Vec<String> {
        let mut violations = self.record.violations.clone();
        if !self.exited {
            violations.extend(self.open.keys().map(|open| format!("{open:?} never got its handle_closed")));
            violations
                .extend(self.pending_connects.iter().map(|ticket| format!("connect {ticket} never had an outcome")));
        }
        if !self.started {
            violations.push(String::from("handle_started never came"));
        }
        violations
    }

    fn require(&mut self, holds: bool, rule: impl FnOnce() -> String) {
        if !holds && self.record.violations.len() < VIOLATIONS_MAX {
            self.record.violations.push(format!("at {} ns: {}", self.now.as_nanos(), rule()));
        }
    }

    fn enter(&mut self, now: Instant, call: &str) {
        let (last, started, exited) = (self.now, self.started, self.exited);
        self.require(now >= last, || format!("{call}: the instant went back from {last:?} to {now:?}"));
        self.now = now;
        self.require(started, || format!("{call} before handle_started"));
        self.require(!exited || call == "handle_closed", || format!("{call} after exit"));
    }

    /// Records the actions of a call.
    fn record_actions(&mut self, actions: &Actions, from: usize) {
        for index in from..actions.len() {
            match actions.get(index) {
                Some(Action::Pause(id)) => self.change(*id, |state| state.is_paused = true),
                Some(Action::Resume(id)) => self.change(*id, |state| state.is_paused = false),
                Some(Action::Close(id, _)) => self.change(*id, |state| state.is_closing = true),
                Some(Action::Connect(ticket, _) | Action::StartTls(_, ticket, _)) => {
                    self.pending_connects.insert(ticket.0);
                }
                Some(Action::Exit) => self.exited = true,
                _ => {}
            }
        }
    }

    fn change(&mut self, connection: ConnectionId, change: impl FnOnce(&mut ConnectionRecord)) {
        if let Some(state) = self.open.get_mut(&connection) {
            change(state);
        }
    }

    fn record_opened(&mut self, connection: ConnectionId, is_accepted: bool) {
        let is_new = !self.closed_ids.contains(&connection) && !self.open.contains_key(&connection);
        let index_is_free = self.open.keys().all(|open| open.index() != connection.index());
        self.require(is_new, || format!("the id {connection:?} came twice"));
        self.require(index_is_free, || format!("the index of {connection:?} belongs to an open connection"));
        self.open.insert(connection, ConnectionRecord { is_accepted, ..ConnectionRecord::default() });
    }

    fn record_lent(&mut self, connection: ConnectionId, received: Received<'_>, is_full_duplex: bool) {
        let (bytes, most) = (received.bytes, self.lent_bytes_max);
        self.record.lent_bytes_peak = self.record.lent_bytes_peak.max(bytes.len());
        self.require(bytes.len() <= most, || format!("{connection:?}: {} bytes lent at once, of {most}", bytes.len()));
        self.require(received.ended || !bytes.is_empty(), || format!("{connection:?}: neither bytes nor the end"));
        let Some(state) = self.open.get_mut(&connection) else {
            self.require(false, || format!("received on {connection:?}, which is not open"));
            return;
        };
        let again = !state.untaken.is_empty();
        let rules = [
            (bytes.starts_with(&state.untaken), "bytes that were not taken were not lent again from the first"),
            (!state.ended || bytes.len() <= state.untaken.len(), "more bytes after the end"),
            (!state.ended || received.ended, "the end was taken back"),
            (!state.is_paused, "lent while paused"),
            (!state.is_closing, "lent after close"),
            (
                !(state.is_accepted && state.queue_is_long) || is_full_duplex,
                "lent, accepted as it is, while the send queue was long",
            ),
        ];
        let first_end = received.ended && !std::mem::replace(&mut state.ended, received.ended);
        for (holds, rule) in rules {
            self.require(holds, || format!("{connection:?}: {rule}"));
        }
        self.record.lent_again_count += usize::from(again);
        self.record.ended_with_bytes_count += usize::from(first_end && !bytes.is_empty());
        self.record.ended_alone_count += usize::from(first_end && bytes.is_empty());
    }

    fn record_consumed(&mut self, connection: ConnectionId, bytes: &[u8], consumed: usize) {
        self.record.taken_bytes += consumed as u64;
        self.require(consumed <= bytes.len(), || {
            format!("{connection:?}: the node took {consumed} of {} bytes lent", bytes.len())
        });
        let untaken = bytes.get(consumed..).unwrap_or_default();
        self.change(connection, |state| {
            state.untaken.clear();
            state.untaken.extend_from_slice(untaken);
        });
    }
}

impl<N: Node> Node for ContractChecker<N> {
    fn handle_started(&mut self, now: Instant, actions: &mut Actions) {
        let first = !std::mem::replace(&mut self.started, true);
        self.enter(now, "handle_started");
        self.require(first, || String::from("handle_started came twice"));
        let from = actions.len();
        self.node.handle_started(now, actions);
        self.record_actions(actions, from);
    }

    fn handle_accepted(&mut self, now: Instant, id: ConnectionId, accepted: Accepted, actions: &mut Actions) {
        self.enter(now, "handle_accepted");
        let is_stopping = self.record.stopping_count > 0;
        self.require(!is_stopping, || format!("{id:?} accepted after handle_stopping"));
        self.record.accepted_count += 1;
        self.record_opened(id, true);
        let from = actions.len();
        self.node.handle_accepted(now, id, accepted, actions);
        self.record_actions(actions, from);
    }

    fn handle_connected(&mut self, now: Instant, ticket: ConnectTicket, result: ConnectResult, actions: &mut Actions) {
        self.enter(now, "handle_connected");
        let was_dialled = self.pending_connects.remove(&ticket.0);
        self.require(was_dialled, || format!("an outcome of {ticket:?}, which is not under way"));
        if let Ok(connected) = result {
            self.record.connected_count += 1;
            self.record_opened(connected.connection, false);
        }
        let from = actions.len();
        self.node.handle_connected(now, ticket, result, actions);
        self.record_actions(actions, from);
    }

    fn handle_received(&mut self, now: Instant, id: ConnectionId, input: Received<'_>, actions: &mut Actions) -> usize {
        self.enter(now, "handle_received");
        self.record_lent(id, input, self.node.is_full_duplex());
        let from = actions.len();
        let consumed = self.node.handle_received(now, id, input, actions);
        self.record_consumed(id, input.bytes, consumed);
        self.record_actions(actions, from);
        consumed
    }

    fn handle_sent(&mut self, now: Instant, id: ConnectionId, unsent_bytes: u64, actions: &mut Actions) {
        self.enter(now, "handle_sent");
        let is_long = unsent_bytes > 0;
        self.record.long_count += usize::from(is_long);
        self.record.drained_count += usize::from(!is_long);
        let Some(state) = self.open.get_mut(&id) else {
            self.require(false, || format!("handle_sent of {id:?}, which is not open"));
            return;
        };
        let was_long = std::mem::replace(&mut state.queue_is_long, is_long);
        self.require(was_long || is_long, || format!("{id:?}: a queue drained that was never long"));
        let from = actions.len();
        self.node.handle_sent(now, id, unsent_bytes, actions);
        self.record_actions(actions, from);
    }

    fn handle_closed(&mut self, now: Instant, id: ConnectionId, reason: CloseReason, actions: &mut Actions) {
        self.enter(now, "handle_closed");
        let state = self.open.remove(&id);
        let is_first = self.closed_ids.insert(id);
        self.require(state.is_some(), || format!("{id:?} closed without having been open"));
        self.require(is_first, || format!("{id:?} closed twice"));
        let was_requested = state.is_some_and(|state| state.is_closing);
        self.require(was_requested || reason != CloseReason::Requested, || {
            format!("{id:?} closed as requested, which it was not")
        });
        self.record.closed.push(reason);
        let from = actions.len();
        self.node.handle_closed(now, id, reason, actions);
        self.record_actions(actions, from);
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        self.enter(now, "handle_deadline");
        let requested = self.deadline.get();
        self.require(requested.is_some_and(|at| at <= now), || {
            format!("a deadline too early: {requested:?} was requested")
        });
        self.record.deadline_count += 1;
        let from = actions.len();
        self.node.handle_deadline(now, actions);
        self.record_actions(actions, from);
    }

    fn handle_woken(&mut self, now: Instant, message: u64, actions: &mut Actions) {
        self.enter(now, "handle_woken");
        self.record.woken.push(message);
        let from = actions.len();
        self.node.handle_woken(now, message, actions);
        self.record_actions(actions, from);
    }

    fn handle_pressure(&mut self, now: Instant, is_under_pressure: bool, actions: &mut Actions) {
        self.enter(now, "handle_pressure");
        let was_under_pressure = std::mem::replace(&mut self.is_under_pressure, is_under_pressure);
        self.require(is_under_pressure != was_under_pressure, || {
            format!("handle_pressure repeated {is_under_pressure}")
        });
        self.record.pressure_count += usize::from(is_under_pressure);
        let from = actions.len();
        self.node.handle_pressure(now, is_under_pressure, actions);
        self.record_actions(actions, from);
    }

    fn handle_stopping(&mut self, now: Instant, actions: &mut Actions) {
        self.enter(now, "handle_stopping");
        self.record.stopping_count += 1;
        let is_first = self.record.stopping_count == 1;
        self.require(is_first, || String::from("handle_stopping came twice"));
        let from = actions.len();
        self.node.handle_stopping(now, actions);
        self.record_actions(actions, from);
    }

    fn is_full_duplex(&self) -> bool {
        self.node.is_full_duplex()
    }

    fn next_deadline(&self) -> Option<Instant> {
        let deadline = self.node.next_deadline();
        self.deadline.set(deadline);
        deadline
    }
}

#[cfg(test)]
mod tests {
    use breme_node::{Close, ListenerId};

    use super::*;
    use crate::{ConsumePolicy, Echo, ResumePolicy};

    const FIRST: ConnectionId = ConnectionId::new(0, 0);
    const OTHER: ConnectionId = ConnectionId::new(1, 0);

    /// A driver that can break every rule.
    struct Driver {
        watched: ContractChecker<Echo>,
        actions: Actions,
    }

    impl Driver {
        fn new() -> Self {
            let echo = Echo::slow(ConsumePolicy::AtMost(2), ResumePolicy::Never);
            Self { watched: ContractChecker::new(echo, 8), actions: Actions::new() }
        }

        /// A driver with one open connection.
        fn open() -> Self {
            let mut driver = Self::new();
            driver.start(0);
            driver.accept(FIRST);
            driver
        }

        fn start(&mut self, nanos: u64) {
            self.watched.handle_started(Instant::from_nanos(nanos), &mut self.actions);
        }

        fn pressure(&mut self, is_under_pressure: bool) {
            self.watched.handle_pressure(self.watched.now, is_under_pressure, &mut self.actions);
        }

        fn accept(&mut self, id: ConnectionId) {
            let accepted = Accepted { listener: ListenerId(0), peer: None };
            self.watched.handle_accepted(self.watched.now, id, accepted, &mut self.actions);
        }

        fn lend(&mut self, bytes: &[u8], ended: bool) {
            let received = Received { bytes, ended, arrived_at: self.watched.now };
            self.watched.handle_received(self.watched.now, FIRST, received, &mut self.actions);
        }

        fn sent(&mut self, unsent_bytes: u64) {
            self.watched.handle_sent(self.watched.now, FIRST, unsent_bytes, &mut self.actions);
        }

        fn close(&mut self, id: ConnectionId, reason: CloseReason) {
            self.watched.handle_closed(self.watched.now, id, reason, &mut self.actions);
        }

        fn deadline(&mut self) {
            self.watched.handle_deadline(self.watched.now, &mut self.actions);
        }

        /// As if requested by the node.
        fn request(&mut self, request: impl FnOnce(&mut Actions)) {
            let from = self.actions.len();
            request(&mut self.actions);
            self.watched.record_actions(&self.actions, from);
        }
    }

    #[track_caller]
    fn check(mut driver: Driver, wrong: impl FnOnce(&mut Driver), expected: &str) {
        assert_eq!(driver.watched.record().violations, [""; 0], "right so far");
        wrong(&mut driver);
        let violations = driver.watched.final_violations();
        assert!(violations.iter().any(|violation| violation.contains(expected)), "{expected}: {violations:?}");
    }

    #[test]
    fn accepts_correct_calls() {
        let mut driver = Driver::open();
        driver.lend(b"abc", false);
        driver.lend(b"cd", true);
        driver.sent(5);
        driver.sent(0);
        driver.close(FIRST, CloseReason::Requested);
        driver.accept(ConnectionId::new(0, 1));
        driver.close(ConnectionId::new(0, 1), CloseReason::Reset);
        assert_eq!(driver.watched.final_violations(), [""; 0]);
        let record = driver.watched.record();
        assert_eq!((record.lent_again_count, record.ended_with_bytes_count, record.taken_bytes), (1, 1, 4));
    }

    #[test]
    fn detects_wrong_lending() {
        let lent = |bytes: &[u8]| {
            let mut driver = Driver::open();
            driver.lend(bytes, false);
            driver
        };
        check(Driver::open(), |driver| driver.lend(b"123456789", false), "9 bytes lent at once, of 8");
        check(Driver::open(), |driver| driver.lend(b"", false), "neither bytes nor the end");
        check(lent(b"abc"), |driver| driver.lend(b"d", false), "not lent again from the first");
        check(lent(b"abc"), |driver| driver.lend(b"abcd", false), "not lent again from the first");
        let ended = || {
            let mut driver = Driver::open();
            driver.lend(b"abcde", true);
            driver
        };
        check(ended(), |driver| driver.lend(b"cdef", true), "more bytes after the end");
        check(ended(), |driver| driver.lend(b"cde", false), "the end was taken back");
    }

    #[test]
    fn detects_lending_at_wrong_time() {
        let requested = |request: fn(&mut Actions)| {
            let mut driver = Driver::open();
            driver.request(request);
            driver
        };
        check(Driver::new(), |driver| driver.lend(b"a", false), "before handle_started");
        check(requested(|actions| actions.pause(FIRST)), |driver| driver.lend(b"a", false), "lent while paused");
        check(
            requested(|actions| actions.close(FIRST, Close::Graceful)),
            |driver| driver.lend(b"a", false),
            "after close",
        );
        check(requested(Actions::exit), |driver| driver.lend(b"a", false), "after exit");
        let mut long = Driver::open();
        long.sent(1);
        check(long, |driver| driver.lend(b"a", false), "while the send queue was long");
    }

    #[test]
    fn detects_wrong_open_and_close() {
        check(Driver::open(), |driver| driver.start(0), "handle_started came twice");
        check(Driver::open(), |driver| driver.accept(FIRST), "came twice");
        check(Driver::open(), |driver| driver.accept(ConnectionId::new(0, 1)), "belongs to an open connection");
        check(Driver::open(), |_| (), "never got its handle_closed");
        check(Driver::open(), |driver| driver.close(OTHER, CloseReason::Reset), "without having been open");
        check(Driver::open(), |driver| driver.close(FIRST, CloseReason::Requested), "which it was not");
        let mut closed = Driver::open();
        closed.close(FIRST, CloseReason::Reset);
        check(closed, |driver| driver.close(FIRST, CloseReason::Reset), "closed twice");
        let mut pending_connects = Driver::open();
        pending_connects.request(|actions| {
            let address = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
            actions.connect(ConnectTicket(4), breme_node::Endpoint::tcp(address));
        });
        check(pending_connects, |_| (), "connect 4 never had an outcome");
    }

    #[test]
    fn detects_wrong_deadlines_and_queues() {
        check(Driver::open(), Driver::deadline, "a deadline too early");
        check(Driver::open(), |driver| driver.sent(0), "that was never long");
        let mut late = Driver::open();
        late.watched.now = Instant::from_nanos(9);
        check(late, |driver| driver.start(3), "the instant went back");
        check(Driver::open(), |driver| driver.pressure(false), "repeated false");
    }
}
