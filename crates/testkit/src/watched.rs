//! The contract's rules for drivers, checked at every call: whatever a case is about, a driver that breaks one is
//! found.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use breme_base::Instant;
use breme_node::{
    Accepted, Action, Actions, CloseReason, ConnectError, ConnectTicket, Connected, ConnectionId, Node, Received,
};

/// How many violations are kept; the first tell the story.
const VIOLATIONS_MAX: usize = 8;

/// A node, and what its driver did to it.
pub struct Watched<N> {
    node: N,
    lent_bytes_max: usize,
    record: Record,
    open: BTreeMap<ConnectionId, Seen>,
    gone: BTreeSet<ConnectionId>,
    dialled: BTreeSet<u64>,
    now: Instant,
    started: bool,
    is_under_pressure: bool,
    exited: bool,
    /// What was answered when the driver last asked. It asks by shared reference, hence the cell.
    deadline: Cell<Option<Instant>>,
}

/// What happened, to be asserted on.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Rules that the driver broke, or the node.
    pub violations: Vec<String>,
    /// How many connections were accepted.
    pub accepted_count: usize,
    /// How many were opened.
    pub connected_count: usize,
    /// Why each ended, in order.
    pub closed: Vec<CloseReason>,
    /// How often a send queue became long.
    pub long_count: usize,
    /// How often one became empty again.
    pub drained_count: usize,
    /// The end was reported together with bytes.
    pub ended_with_bytes_count: usize,
    /// The end was reported alone.
    pub ended_alone_count: usize,
    /// Calls that lent again bytes which were not taken before.
    pub lent_again_count: usize,
    /// The most bytes that were lent at once.
    pub lent_bytes_peak: usize,
    /// All that was taken.
    pub taken_bytes: u64,
    /// Deadlines that came.
    pub deadline_count: usize,
    /// Messages of wake-ups, in order.
    pub woken: Vec<u64>,
    /// How often the pressure rose.
    pub pressure_count: usize,
    /// Calls of `handle_stopping`.
    pub stopping_count: usize,
}

/// One open connection.
#[derive(Default)]
struct Seen {
    untaken: Vec<u8>,
    ended: bool,
    is_paused: bool,
    is_closing: bool,
    queue_is_long: bool,
    is_accepted: bool,
}

impl<N> Watched<N> {
    /// Watches `node`, to which at most `lent_bytes_max` bytes may be lent at once.
    pub fn new(node: N, lent_bytes_max: usize) -> Self {
        Self {
            node,
            lent_bytes_max,
            record: Record::default(),
            open: BTreeMap::new(),
            gone: BTreeSet::new(),
            dialled: BTreeSet::new(),
            now: Instant::ZERO,
            started: false,
            is_under_pressure: false,
            exited: false,
            deadline: Cell::new(None),
        }
    }

    /// The node.
    pub fn node(&self) -> &N {
        &self.node
    }

    /// What happened so far.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The violations, after the run: also connections whose end was never told, unless the node exited before.
    pub fn final_violations(&self) -> Vec<String> {
        let mut violations = self.record.violations.clone();
        if !self.exited {
            violations.extend(self.open.keys().map(|open| format!("{open:?} never got its handle_closed")));
            violations.extend(self.dialled.iter().map(|ticket| format!("connect {ticket} never had an outcome")));
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

    /// Notes what the node asked for in this call.
    fn note_actions(&mut self, actions: &Actions, from: usize) {
        for index in from..actions.len() {
            match actions.get(index) {
                Some(Action::Pause(id)) => self.change(*id, |seen| seen.is_paused = true),
                Some(Action::Resume(id)) => self.change(*id, |seen| seen.is_paused = false),
                Some(Action::Close(id, _)) => self.change(*id, |seen| seen.is_closing = true),
                Some(Action::Connect(ticket, _) | Action::Secure(_, ticket, _)) => {
                    self.dialled.insert(ticket.0);
                }
                Some(Action::Exit) => self.exited = true,
                _ => {}
            }
        }
    }

    fn change(&mut self, connection: ConnectionId, change: impl FnOnce(&mut Seen)) {
        if let Some(seen) = self.open.get_mut(&connection) {
            change(seen);
        }
    }

    fn note_opened(&mut self, connection: ConnectionId, is_accepted: bool) {
        let is_new = !self.gone.contains(&connection) && !self.open.contains_key(&connection);
        let index_is_free = self.open.keys().all(|open| open.index() != connection.index());
        self.require(is_new, || format!("the id {connection:?} came twice"));
        self.require(index_is_free, || format!("the index of {connection:?} belongs to an open connection"));
        self.open.insert(connection, Seen { is_accepted, ..Seen::default() });
    }

    fn note_lent(&mut self, connection: ConnectionId, received: Received<'_>, is_full_duplex: bool) {
        let (bytes, most) = (received.bytes, self.lent_bytes_max);
        self.record.lent_bytes_peak = self.record.lent_bytes_peak.max(bytes.len());
        self.require(bytes.len() <= most, || format!("{connection:?}: {} bytes lent at once, of {most}", bytes.len()));
        self.require(received.ended || !bytes.is_empty(), || format!("{connection:?}: neither bytes nor the end"));
        let Some(seen) = self.open.get_mut(&connection) else {
            self.require(false, || format!("received on {connection:?}, which is not open"));
            return;
        };
        let again = !seen.untaken.is_empty();
        let rules = [
            (bytes.starts_with(&seen.untaken), "bytes that were not taken were not lent again from the first"),
            (!seen.ended || bytes.len() <= seen.untaken.len(), "more bytes after the end"),
            (!seen.ended || received.ended, "the end was taken back"),
            (!seen.is_paused, "lent while paused"),
            (!seen.is_closing, "lent after close"),
            (
                !(seen.is_accepted && seen.queue_is_long) || is_full_duplex,
                "lent, accepted as it is, while the send queue was long",
            ),
        ];
        let first_end = received.ended && !std::mem::replace(&mut seen.ended, received.ended);
        for (holds, rule) in rules {
            self.require(holds, || format!("{connection:?}: {rule}"));
        }
        self.record.lent_again_count += usize::from(again);
        self.record.ended_with_bytes_count += usize::from(first_end && !bytes.is_empty());
        self.record.ended_alone_count += usize::from(first_end && bytes.is_empty());
    }

    fn note_taken(&mut self, connection: ConnectionId, bytes: &[u8], taken: usize) {
        self.record.taken_bytes += taken as u64;
        self.require(taken <= bytes.len(), || {
            format!("{connection:?}: the node took {taken} of {} bytes lent", bytes.len())
        });
        let untaken = bytes.get(taken..).unwrap_or_default();
        self.change(connection, |seen| {
            seen.untaken.clear();
            seen.untaken.extend_from_slice(untaken);
        });
    }
}

impl<N: Node> Node for Watched<N> {
    fn handle_started(&mut self, now: Instant, actions: &mut Actions) {
        let first = !std::mem::replace(&mut self.started, true);
        self.enter(now, "handle_started");
        self.require(first, || String::from("handle_started came twice"));
        let from = actions.len();
        self.node.handle_started(now, actions);
        self.note_actions(actions, from);
    }

    fn handle_accepted(&mut self, now: Instant, connection: ConnectionId, accepted: Accepted, actions: &mut Actions) {
        self.enter(now, "handle_accepted");
        let is_stopping = self.record.stopping_count > 0;
        self.require(!is_stopping, || format!("{connection:?} accepted after handle_stopping"));
        self.record.accepted_count += 1;
        self.note_opened(connection, true);
        let from = actions.len();
        self.node.handle_accepted(now, connection, accepted, actions);
        self.note_actions(actions, from);
    }

    fn handle_connected(
        &mut self,
        now: Instant,
        ticket: ConnectTicket,
        outcome: Result<Connected, ConnectError>,
        actions: &mut Actions,
    ) {
        self.enter(now, "handle_connected");
        let was_dialled = self.dialled.remove(&ticket.0);
        self.require(was_dialled, || format!("an outcome of {ticket:?}, which is not under way"));
        if let Ok(connected) = outcome {
            self.record.connected_count += 1;
            self.note_opened(connected.connection, false);
        }
        let from = actions.len();
        self.node.handle_connected(now, ticket, outcome, actions);
        self.note_actions(actions, from);
    }

    fn handle_received(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> usize {
        self.enter(now, "handle_received");
        self.note_lent(connection, received, self.node.is_full_duplex());
        let from = actions.len();
        let taken = self.node.handle_received(now, connection, received, actions);
        self.note_taken(connection, received.bytes, taken);
        self.note_actions(actions, from);
        taken
    }

    fn handle_sent(&mut self, now: Instant, connection: ConnectionId, unsent_bytes: u64, actions: &mut Actions) {
        self.enter(now, "handle_sent");
        let is_long = unsent_bytes > 0;
        self.record.long_count += usize::from(is_long);
        self.record.drained_count += usize::from(!is_long);
        let Some(seen) = self.open.get_mut(&connection) else {
            self.require(false, || format!("handle_sent of {connection:?}, which is not open"));
            return;
        };
        let was_long = std::mem::replace(&mut seen.queue_is_long, is_long);
        self.require(was_long || is_long, || format!("{connection:?}: a queue drained that was never long"));
        let from = actions.len();
        self.node.handle_sent(now, connection, unsent_bytes, actions);
        self.note_actions(actions, from);
    }

    fn handle_closed(&mut self, now: Instant, connection: ConnectionId, reason: CloseReason, actions: &mut Actions) {
        self.enter(now, "handle_closed");
        let seen = self.open.remove(&connection);
        let is_first = self.gone.insert(connection);
        self.require(seen.is_some(), || format!("{connection:?} closed without having been open"));
        self.require(is_first, || format!("{connection:?} closed twice"));
        let was_asked = seen.is_some_and(|seen| seen.is_closing);
        self.require(was_asked || reason != CloseReason::Requested, || {
            format!("{connection:?} closed as requested, which nobody did")
        });
        self.record.closed.push(reason);
        let from = actions.len();
        self.node.handle_closed(now, connection, reason, actions);
        self.note_actions(actions, from);
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        self.enter(now, "handle_deadline");
        let asked = self.deadline.get();
        self.require(asked.is_some_and(|at| at <= now), || format!("a deadline too early: {asked:?} was asked for"));
        self.record.deadline_count += 1;
        let from = actions.len();
        self.node.handle_deadline(now, actions);
        self.note_actions(actions, from);
    }

    fn handle_woken(&mut self, now: Instant, message: u64, actions: &mut Actions) {
        self.enter(now, "handle_woken");
        self.record.woken.push(message);
        let from = actions.len();
        self.node.handle_woken(now, message, actions);
        self.note_actions(actions, from);
    }

    fn handle_pressure(&mut self, now: Instant, is_under_pressure: bool, actions: &mut Actions) {
        self.enter(now, "handle_pressure");
        let was_under_pressure = std::mem::replace(&mut self.is_under_pressure, is_under_pressure);
        self.require(is_under_pressure != was_under_pressure, || {
            format!("handle_pressure told {is_under_pressure} again")
        });
        self.record.pressure_count += usize::from(is_under_pressure);
        let from = actions.len();
        self.node.handle_pressure(now, is_under_pressure, actions);
        self.note_actions(actions, from);
    }

    fn handle_stopping(&mut self, now: Instant, actions: &mut Actions) {
        self.enter(now, "handle_stopping");
        self.record.stopping_count += 1;
        let is_first = self.record.stopping_count == 1;
        self.require(is_first, || String::from("handle_stopping came twice"));
        let from = actions.len();
        self.node.handle_stopping(now, actions);
        self.note_actions(actions, from);
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
    use crate::{Echo, Pace, Taking};

    const FIRST: ConnectionId = ConnectionId::new(0, 0);
    const OTHER: ConnectionId = ConnectionId::new(1, 0);

    /// A driver that can do everything wrong.
    struct Driver {
        watched: Watched<Echo>,
        actions: Actions,
    }

    impl Driver {
        fn new() -> Self {
            let echo = Echo::slow(Taking::AtMost(2), Pace::AsLent);
            Self { watched: Watched::new(echo, 8), actions: Actions::new() }
        }

        /// With one connection open.
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
            let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
            let accepted = Accepted { listener: ListenerId(0), peer };
            self.watched.handle_accepted(self.watched.now, id, accepted, &mut self.actions);
        }

        fn lend(&mut self, bytes: &[u8], ended: bool) {
            let received = Received { bytes, ended, came: self.watched.now };
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

        /// As if the node had asked for it.
        fn ask(&mut self, ask: impl FnOnce(&mut Actions)) {
            let from = self.actions.len();
            ask(&mut self.actions);
            self.watched.note_actions(&self.actions, from);
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
    fn what_is_right_is_not_reported() {
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
    fn what_is_lent_wrongly_is_found() {
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
    fn what_is_lent_at_the_wrong_time_is_found() {
        let asked = |ask: fn(&mut Actions)| {
            let mut driver = Driver::open();
            driver.ask(ask);
            driver
        };
        check(Driver::new(), |driver| driver.lend(b"a", false), "before handle_started");
        check(asked(|actions| actions.pause(FIRST)), |driver| driver.lend(b"a", false), "lent while paused");
        check(asked(|actions| actions.close(FIRST, Close::Graceful)), |driver| driver.lend(b"a", false), "after close");
        check(asked(Actions::exit), |driver| driver.lend(b"a", false), "after exit");
        let mut long = Driver::open();
        long.sent(1);
        check(long, |driver| driver.lend(b"a", false), "while the send queue was long");
    }

    #[test]
    fn wrong_beginnings_and_ends_are_found() {
        check(Driver::open(), |driver| driver.start(0), "handle_started came twice");
        check(Driver::open(), |driver| driver.accept(FIRST), "came twice");
        check(Driver::open(), |driver| driver.accept(ConnectionId::new(0, 1)), "belongs to an open connection");
        check(Driver::open(), |_| (), "never got its handle_closed");
        check(Driver::open(), |driver| driver.close(OTHER, CloseReason::Reset), "without having been open");
        check(Driver::open(), |driver| driver.close(FIRST, CloseReason::Requested), "which nobody did");
        let mut closed = Driver::open();
        closed.close(FIRST, CloseReason::Reset);
        check(closed, |driver| driver.close(FIRST, CloseReason::Reset), "closed twice");
        let mut dialled = Driver::open();
        dialled.ask(|actions| {
            let address = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
            actions.connect(ConnectTicket(4), breme_node::Endpoint::tcp(address));
        });
        check(dialled, |_| (), "connect 4 never had an outcome");
    }

    #[test]
    fn wrong_times_and_queues_are_found() {
        check(Driver::open(), Driver::deadline, "a deadline too early");
        check(Driver::open(), |driver| driver.sent(0), "that was never long");
        let mut late = Driver::open();
        late.watched.now = Instant::from_nanos(9);
        check(late, |driver| driver.start(3), "the instant went back");
        check(Driver::open(), |driver| driver.pressure(false), "told false again");
    }
}
