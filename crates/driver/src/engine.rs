//! What both drivers have in common: one node, its connections, and what becomes of each event.
//!
//! A driver's loop finds out what the kernel has to say and tells the engine ([`Engine::handle_readiness`]). The engine reads,
//! lends, carries out the actions and writes. What does not fit into the turn of a connection, or is a consequence of an
//! action, waits in the list `ready` for [`Engine::handle_turn`]; so no node call happens inside another.

mod handshaking;

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use breme_base::{Instant, Timers};
use breme_node::{
    Accepted, Action, Actions, Close, CloseReason, ConnectError, ConnectTicket, Connected, ConnectionId, Endpoint,
    Node, Received, ShardId, TlsFailure,
};
use breme_sys::Clock;

use crate::Settings;
use crate::connection::{Connection, Finish, Phase, QueueLength};
use crate::control::{Control, Counters, Mailbox, Stop};
use crate::table::Table;
use crate::transport::{Receipt, Transport};

/// The buffer that a shard receives into; one call to the node sees at most so much that is new.
const RECEIVE_BUFFER_BYTES: usize = 64 * 1024;
/// Receipts of one connection before the others have their turn.
const RECEIVES_PER_TURN: usize = 4;
/// Calls about a deadline that has passed, one after another, before the connections have their turn.
const DEADLINES_PER_TURN: usize = 16;
/// Memory of the log of actions that is kept for the next call.
const ACTION_BYTES_KEPT: usize = 256 * 1024;
/// Wake-ups to shards with a full mailbox that are kept to be tried again.
const WAKES_DELAYED_MAX: usize = 4_096;
/// After how long they are tried again.
const WAKE_RETRY: Duration = Duration::from_millis(1);

/// Where a new socket is made known to whatever tells its readiness.
pub(crate) trait Register {
    /// From now on the readiness of `socket` is told under `id`; closing it ends that.
    fn register(&mut self, socket: BorrowedFd<'_>, id: ConnectionId) -> std::io::Result<()>;
}

/// What the kernel has said of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Readiness {
    pub(crate) is_readable: bool,
    pub(crate) is_writable: bool,
    /// The peer's end, or the end of both sides.
    pub(crate) is_end_near: bool,
    pub(crate) is_broken: bool,
}

pub(crate) struct Engine<N, R> {
    node: N,
    id: ShardId,
    pub(crate) register: R,
    clock: Clock,
    /// The last reading of the clock.
    now: Instant,
    settings: Arc<Settings>,
    control: Arc<Control>,
    actions: Actions,
    table: Table,
    timers: Timers,
    /// Connections that want a turn without the kernel having said so. Each stands in it at most once.
    ready: VecDeque<ConnectionId>,
    connects_failed: VecDeque<(ConnectTicket, ConnectError)>,
    wakes_delayed: VecDeque<(ShardId, u64)>,
    messages: VecDeque<u64>,
    receive_buffer: Box<[u8]>,
    /// Accepted connections whose handshake is not done.
    handshaking_count: usize,
    /// When what is left is dropped; known from the moment at which the node was told to stop.
    stop_deadline: Option<Instant>,
    /// How late the node's deadline may be, beyond what waking takes.
    slack: Duration,
    /// The node has been told.
    has_told_stop: bool,
    /// The shard ends: nothing but the end of its connections is told to the node any more.
    is_exiting: bool,
    /// The node asked for it.
    has_exited: bool,
}

impl<N: Node, R: Register> Engine<N, R> {
    pub(crate) fn new(node: N, id: ShardId, register: R, clock: Clock, shared: (Arc<Settings>, Arc<Control>)) -> Self {
        Self {
            node,
            id,
            register,
            clock,
            now: clock.now(),
            settings: shared.0,
            control: shared.1,
            actions: Actions::new(),
            table: Table::default(),
            timers: Timers::new(),
            ready: VecDeque::new(),
            connects_failed: VecDeque::new(),
            wakes_delayed: VecDeque::new(),
            messages: VecDeque::new(),
            receive_buffer: vec![0; RECEIVE_BUFFER_BYTES].into_boxed_slice(),
            handshaking_count: 0,
            stop_deadline: None,
            slack: Duration::ZERO,
            has_told_stop: false,
            is_exiting: false,
            has_exited: false,
        }
    }

    /// The node's first call.
    pub(crate) fn handle_started(&mut self) {
        self.read_clock();
        self.node.handle_started(self.now, &mut self.actions);
        self.run_actions();
    }

    /// Takes an accepted socket. None if it could not be registered: then it is closed.
    pub(crate) fn handle_accepted(&mut self, socket: OwnedFd, accepted: Accepted) -> Option<ConnectionId> {
        let tls = self.control.tls_of(accepted.listener).cloned();
        let inserted = match &tls {
            None => self.insert(Transport::new(socket), Phase::Open).ok(),
            Some(tls) => self.begin_server_handshake(socket, tls, accepted),
        };
        let Some(id) = inserted else {
            Counters::add(&self.counters().accepts_failed);
            return None;
        };
        Counters::add(&self.counters().accepted);
        if tls.is_some() {
            return Some(id); // the node is told when the handshake is done
        }
        self.read_clock();
        self.node.handle_accepted(self.now, id, accepted, &mut self.actions);
        self.run_actions();
        Some(id)
    }

    /// The kernel has something to say of a connection.
    pub(crate) fn handle_readiness(&mut self, id: ConnectionId, readiness: Readiness) {
        let Some(connection) = self.table.get_mut(id) else { return };
        connection.is_readable |= readiness.is_readable;
        connection.is_writable |= readiness.is_writable;
        if readiness.is_end_near {
            connection.is_readable = true;
            connection.is_end_near = true;
        }
        if readiness.is_broken && !matches!(connection.phase, Phase::Connecting(_)) {
            connection.fail(CloseReason::Reset);
        }
        self.serve(id);
    }

    /// Somebody rang: there may be messages.
    pub(crate) fn handle_alarm(&mut self) {
        let mut messages = std::mem::take(&mut self.messages);
        if let Some(mailbox) = self.control.mailbox(self.id) {
            mailbox.take(&mut messages);
        }
        while let Some(message) = messages.pop_front() {
            if self.is_exiting {
                break;
            }
            self.read_clock();
            self.node.handle_woken(self.now, message, &mut self.actions);
            self.run_actions();
        }
        self.messages = messages;
    }

    /// Tells the node to stop, once, when those who are shaking hands are in; the listeners are closed already.
    pub(crate) fn handle_stopping(&mut self) {
        if self.stop_deadline.is_none() && !self.is_exiting {
            self.read_clock();
            self.stop_deadline = Some(self.now + self.settings.stopping_timeout);
            self.hurry_handshakes();
            self.tell_stop_if_due();
        }
    }

    fn tell_stop_if_due(&mut self) {
        let is_due = self.stop_deadline.is_some() && !self.has_told_stop && self.handshaking_count == 0;
        if is_due && !self.is_exiting {
            self.has_told_stop = true;
            self.read_clock();
            self.node.handle_stopping(self.now, &mut self.actions);
            self.run_actions();
        }
    }

    /// What is due after the events of a turn: connections that wait for one, deadlines, wake-ups.
    pub(crate) fn handle_turn(&mut self) {
        self.report_failed_connects();
        for _ in 0..self.ready.len() {
            let Some(id) = self.ready.pop_front() else { break };
            if let Some(connection) = self.table.get_mut(id) {
                connection.is_listed = false;
                self.serve(id);
            }
        }
        self.handle_deadlines();
        self.retry_wakes();
        self.tell_stop_if_due();
    }

    fn report_failed_connects(&mut self) {
        for _ in 0..self.connects_failed.len() {
            let Some((ticket, error)) = self.connects_failed.pop_front() else { break };
            self.tell_connected(ticket, Err(error));
        }
    }

    fn handle_deadlines(&mut self) {
        self.read_clock();
        while let Some(index) = self.timers.pop_due(self.now) {
            if let Some(id) = self.table.id_at(index) {
                self.handle_timeout(id);
            }
        }
        if self.stop_deadline.is_some_and(|deadline| deadline <= self.now) || self.control.stop() == Stop::Abort {
            self.is_exiting = true;
        }
        for _ in 0..DEADLINES_PER_TURN {
            if self.is_exiting || self.node.next_deadline().is_none_or(|deadline| deadline > self.now) {
                break;
            }
            self.node.handle_deadline(self.now, &mut self.actions);
            self.run_actions();
            self.read_clock();
        }
    }

    /// The one deadline of a connection has passed; which one it was follows from its phase.
    fn handle_timeout(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        match connection.phase {
            Phase::Connecting(_) => return self.fail_connecting(id, ConnectError::TimedOut),
            Phase::Handshaking(_) => {
                self.fail_handshaking(id, TlsFailure::TimedOut);
                return self.release_if_ended(id);
            }
            Phase::Lingering { .. } => connection.end(CloseReason::Dropped),
            Phase::Open | Phase::Flushing { .. } => {
                connection.transport.reset_on_close();
                connection.end(CloseReason::Failed(std::io::ErrorKind::TimedOut));
            }
            Phase::Ended(_) => {}
        }
        Counters::add(&self.counters().dropped);
        self.release_if_ended(id);
    }

    fn retry_wakes(&mut self) {
        while let Some(&(shard, message)) = self.wakes_delayed.front() {
            if self.control.mailbox(shard).is_some_and(|mailbox| mailbox.post(message).is_err()) {
                return;
            }
            self.wakes_delayed.pop_front();
        }
    }

    /// Whether the node's deadlines are to be met more exactly than the kernel's usual waiting does. What they may be late all the same
    /// is added to each wait.
    pub(crate) fn begin_exactness(&mut self) -> bool {
        let slack = self.node.deadline_slack();
        let is_exact = slack < breme_node::DEADLINE_SLACK;
        self.slack = if is_exact { slack } else { Duration::ZERO };
        is_exact
    }

    /// How long the driver may wait for events; none: until there is one.
    pub(crate) fn time_to_wait(&mut self, also: Option<Instant>) -> Option<Duration> {
        if !self.ready.is_empty() || !self.connects_failed.is_empty() || self.is_exiting {
            return Some(Duration::ZERO);
        }
        let retry = (!self.wakes_delayed.is_empty()).then(|| self.now + WAKE_RETRY);
        let of_node = self.node.next_deadline().map(|deadline| deadline + self.slack);
        let deadlines = [self.timers.next(), of_node, self.stop_deadline, retry, also];
        let nearest = deadlines.into_iter().flatten().min()?;
        self.read_clock();
        Some(nearest.since(self.now))
    }

    /// Whether the node has no more to do here.
    pub(crate) fn is_done(&self) -> bool {
        self.is_exiting || (self.has_told_stop && self.table.len() == 0 && self.connects_failed.is_empty())
    }

    pub(crate) fn is_exiting(&self) -> bool {
        self.is_exiting
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop_deadline.is_some()
    }

    pub(crate) fn connection_count(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn contains(&self, id: ConnectionId) -> bool {
        self.table.contains(id)
    }

    pub(crate) fn connections(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        self.table.iter()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn control(&self) -> &Control {
        &self.control
    }

    pub(crate) fn read_clock(&mut self) -> Instant {
        self.now = self.clock.now();
        self.now
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.mailbox().counters
    }

    fn mailbox(&self) -> &Mailbox {
        self.control.mailbox(self.id).expect("every shard has a mailbox from the start")
    }

    /// Drops what is open, tells the node so, and hands it back.
    pub(crate) fn into_node(mut self) -> N {
        self.is_exiting = true;
        while let Some((ticket, error)) = self.connects_failed.pop_front() {
            self.tell_connected(ticket, Err(error));
        }
        let left: Vec<ConnectionId> = self.table.iter().map(|(id, _)| id).collect();
        for id in left {
            self.drop_connection(id);
        }
        self.node
    }

    fn drop_connection(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        match connection.phase {
            Phase::Connecting(_) => return self.fail_connecting(id, ConnectError::TimedOut),
            Phase::Handshaking(_) => self.fail_handshaking(id, TlsFailure::TimedOut),
            Phase::Ended(_) => {}
            _ => {
                connection.end(CloseReason::Dropped);
                Counters::add(&self.counters().dropped);
            }
        }
        self.release_if_ended(id);
    }

    // ── One connection's turn ────────────────────────────────────────────────────────────────────────────────

    fn serve(&mut self, id: ConnectionId) {
        if self.is_exiting {
            return;
        }
        let Some(connection) = self.table.get_mut(id) else { return };
        match connection.phase {
            Phase::Open => self.serve_open(id),
            Phase::Connecting(ticket) => self.serve_connecting(id, ticket),
            Phase::Handshaking(opening) => self.serve_handshaking(id, opening),
            Phase::Flushing { .. } | Phase::Lingering { .. } => self.serve_closing(id),
            Phase::Ended(_) => {}
        }
        self.release_if_ended(id);
    }

    fn serve_open(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.queue.is_some() || connection.length != QueueLength::Short {
            self.serve_queue(id);
        }
        self.relend_if_due(id);
        self.receive(id);
        self.send_pending(id);
        self.end_if_broken(id);
    }

    /// What receiving has left to be sent, a ticket or an answer to a change of keys, and what has not left with anything of the node's.
    fn send_pending(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.queue.is_none() && connection.transport.pending_bytes() > 0 {
            connection.queue_pending();
            self.flush(id);
        }
    }

    /// Sends what waits, and tells the node when the queue became long or empty.
    fn serve_queue(&mut self, id: ConnectionId) {
        self.tell_if_long(id);
        self.flush(id);
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.queue.is_some() {
            return self.note_if_long(id);
        }
        connection.is_relend_due |= !connection.retained.is_empty();
        let was_told = connection.length == QueueLength::LongAndTold;
        connection.length = QueueLength::Short;
        if was_told && connection.phase == Phase::Open && connection.failure.is_none() {
            self.tell_sent(id, 0);
        }
    }

    /// From the moment at which the queue is long nothing more is lent; the node is told in the connection's next turn.
    fn note_if_long(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id)
            && connection.length == QueueLength::Short
            && connection.unsent_bytes() > self.settings.send_queue_high_bytes
        {
            connection.length = QueueLength::Long;
            self.list(id);
        }
    }

    fn tell_if_long(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id)
            && connection.length == QueueLength::Long
            && connection.failure.is_none()
        {
            connection.length = QueueLength::LongAndTold;
            let unsent_bytes = connection.unsent_bytes();
            self.tell_sent(id, unsent_bytes);
        }
    }

    fn tell_sent(&mut self, id: ConnectionId, unsent_bytes: u64) {
        if !self.is_exiting {
            self.read_clock();
            self.node.handle_sent(self.now, id, unsent_bytes, &mut self.actions);
            self.run_actions();
        }
    }

    fn relend_if_due(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.is_relend_due && connection.may_lend() {
            connection.is_relend_due = false;
            if !connection.retained.is_empty() {
                self.lend(id, 0);
            }
        }
    }

    fn receive(&mut self, id: ConnectionId) {
        for _ in 0..RECEIVES_PER_TURN {
            let Some(connection) = self.table.get_mut(id) else { return };
            let wants_bytes =
                connection.phase == Phase::Open && connection.wants_bytes(self.settings.receive_bytes_max);
            if !connection.is_readable || !wants_bytes || self.is_exiting {
                return;
            }
            let limit = connection.room(self.settings.receive_bytes_max).min(self.receive_buffer.len());
            let buffer = &mut self.receive_buffer[..limit];
            match connection.transport.receive(buffer) {
                Ok(Receipt::Bytes { count, is_all }) => {
                    connection.is_readable = !is_all || connection.is_end_near || connection.failure.is_some();
                    self.lend(id, count);
                }
                Ok(Receipt::End) => {
                    connection.has_ended = true;
                    connection.is_readable = false;
                    if connection.failure.is_some() {
                        return; // this end is not the peer's: the connection broke
                    }
                    self.lend(id, 0);
                }
                Ok(Receipt::Nothing) => connection.is_readable = false,
                Err(reason) => {
                    connection.is_readable = false;
                    connection.end(reason);
                }
            }
        }
        self.list_if_readable(id);
    }

    /// Shows the node what it has not taken and the first `count` bytes of the receive buffer.
    fn lend(&mut self, id: ConnectionId, count: usize) {
        if self.is_exiting {
            return;
        }
        self.read_clock();
        let Some(connection) = self.table.get_mut(id) else { return };
        let ended = connection.has_ended;
        let fresh = &self.receive_buffer[..count];
        if connection.retained.is_empty() {
            let received = Received { bytes: fresh, ended };
            let taken = self.node.handle_received(self.now, id, received, &mut self.actions);
            connection.retained.extend_from_slice(fresh.get(taken..).unwrap_or_default());
        } else {
            connection.retained.extend_from_slice(fresh);
            let received = Received { bytes: &connection.retained, ended };
            let taken = self.node.handle_received(self.now, id, received, &mut self.actions);
            if taken < connection.retained.len() {
                bytes::Buf::advance(&mut connection.retained, taken);
            } else {
                connection.retained = bytes::BytesMut::new();
            }
        }
        self.run_actions();
    }

    fn list_if_readable(&mut self, id: ConnectionId) {
        let receive_bytes_max = self.settings.receive_bytes_max;
        if let Some(connection) = self.table.get_mut(id)
            && connection.is_readable
            && connection.wants_bytes(receive_bytes_max)
        {
            self.list(id);
        }
    }

    /// A broken connection lives only as long as there is something to read that the node wants.
    fn end_if_broken(&mut self, id: ConnectionId) {
        let receive_bytes_max = self.settings.receive_bytes_max;
        if let Some(connection) = self.table.get_mut(id)
            && let Some(reason) = connection.failure
            && !(connection.is_readable && connection.wants_bytes(receive_bytes_max))
        {
            connection.end(reason);
        }
    }

    fn serve_connecting(&mut self, id: ConnectionId, ticket: ConnectTicket) {
        let Some(connection) = self.table.get_mut(id) else { return };
        match breme_sys::connect_outcome(&connection.transport) {
            None => {}
            Some(Err(error)) => self.fail_connecting(id, connect_error(&error)),
            Some(Ok(())) => {
                connection.is_writable = true;
                if let Some(client) = connection.tls_client {
                    return self.begin_client_handshake(id, ticket, client);
                }
                connection.phase = Phase::Open;
                connection.is_known = true;
                self.timers.clear(id.key());
                Counters::add(&self.counters().connected);
                self.tell_connected(ticket, Ok(Connected::plain(id)));
                self.list_if_readable(id);
            }
        }
    }

    fn fail_connecting(&mut self, id: ConnectionId, error: ConnectError) {
        self.timers.clear(id.key());
        let Some(connection) = self.table.remove(id) else { return };
        if let Phase::Connecting(ticket) = connection.phase {
            drop(connection);
            self.tell_connected(ticket, Err(error));
        }
    }

    fn tell_connected(&mut self, ticket: ConnectTicket, outcome: Result<Connected, ConnectError>) {
        if !self.has_exited {
            self.read_clock();
            self.node.handle_connected(self.now, ticket, outcome, &mut self.actions);
            self.run_actions();
        }
    }

    /// Sends the rest, and reads what comes into nothing.
    fn serve_closing(&mut self, id: ConnectionId) {
        self.flush(id);
        self.discard(id);
        let Some(connection) = self.table.get_mut(id) else { return };
        if let Some(reason) = connection.failure {
            connection.end(reason);
        }
    }

    fn discard(&mut self, id: ConnectionId) {
        for _ in 0..RECEIVES_PER_TURN {
            let Some(connection) = self.table.get_mut(id) else { return };
            if !connection.is_readable || !connection.wants_bytes(0) {
                return;
            }
            match connection.transport.receive(&mut self.receive_buffer) {
                Ok(Receipt::Bytes { count, is_all }) => {
                    connection.is_readable = !is_all || connection.is_end_near;
                    if connection.discard(count as u64) > self.settings.closing_bytes_max {
                        return self.give_up_discarding(id);
                    }
                }
                // Who has been told the end need not say it too.
                Ok(Receipt::End) | Err(CloseReason::Truncated) => {
                    connection.has_ended = true;
                    if let Phase::Lingering { .. } = connection.phase {
                        connection.end(CloseReason::Requested);
                    }
                }
                Ok(Receipt::Nothing) => connection.is_readable = false,
                Err(reason) => connection.end(reason),
            }
        }
        self.list(id);
    }

    /// The peer sends more than is worth reading. If all has left, that is the end; else it only stops being read.
    fn give_up_discarding(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        match connection.phase {
            Phase::Lingering { .. } => {
                connection.end(CloseReason::Dropped);
                Counters::add(&self.counters().dropped);
            }
            _ => connection.has_ended = true,
        }
    }

    fn flush(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.queue.is_none() {
            return;
        }
        let has_progressed = connection.flush() > 0;
        self.handle_progress(id, has_progressed);
    }

    /// What follows from a send that did not leave at once, or from the leaving of what waited.
    fn handle_progress(&mut self, id: ConnectionId, has_progressed: bool) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.queue.is_none() {
            self.timers.clear(id.key());
            connection.finish_if_due();
        }
        if connection.queue.is_none() {
            return self.linger(id);
        }
        if has_progressed {
            self.timers.set(id.key(), self.now + self.settings.send_timeout);
        }
        if connection.is_writable {
            self.list(id);
        }
    }

    fn linger(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.linger_if_flushed() {
            self.timers.set(id.key(), self.now + self.settings.closing_timeout);
        }
    }

    fn release_if_ended(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id)
            && matches!(connection.phase, Phase::Ended(_))
        {
            self.read_clock();
            self.release(id);
            self.run_actions();
        }
    }

    /// Closes the socket and tells the node.
    fn release(&mut self, id: ConnectionId) {
        self.timers.clear(id.key());
        let Some(connection) = self.table.remove(id) else { return };
        if let Phase::Ended(reason) = connection.phase {
            let is_known = connection.is_known;
            drop(connection);
            Counters::add(&self.counters().closed);
            if is_known {
                self.node.handle_closed(self.now, id, reason, &mut self.actions);
            }
        }
    }

    fn list(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id)
            && !connection.is_listed
        {
            connection.is_listed = true;
            self.ready.push_back(id);
        }
    }

    fn insert(&mut self, transport: Transport, phase: Phase) -> std::io::Result<ConnectionId> {
        self.register.register(std::os::fd::AsFd::as_fd(&transport), self.table.next_id())?;
        Ok(self.table.insert(Connection::new(transport, phase)))
    }

    // ── The node's wishes ────────────────────────────────────────────────────────────────────────────────────

    /// Carries out the log of the last call, in order.
    fn run_actions(&mut self) {
        if self.actions.is_empty() {
            return;
        }
        if self.is_exiting {
            return self.actions.clear(ACTION_BYTES_KEPT);
        }
        let mut actions = std::mem::take(&mut self.actions);
        let mut index = 0;
        while let Some(action) = actions.get(index) {
            index = match action {
                Action::Send(id, _) | Action::SendShared(id, _) | Action::SendFile(id, _) => {
                    self.send(&actions, index, *id)
                }
                other => {
                    self.run_action(other);
                    index + 1
                }
            };
            if self.is_exiting {
                break;
            }
        }
        actions.clear(ACTION_BYTES_KEPT);
        self.actions = actions;
    }

    fn run_action(&mut self, action: &Action) {
        match *action {
            Action::Send(..) | Action::SendShared(..) | Action::SendFile(..) => {}
            Action::Finish(id) => self.finish(id),
            Action::Close(id, Close::Graceful) => self.close(id),
            Action::Close(id, Close::Abort) => self.abort(id),
            Action::Pause(id) => self.pause(id),
            Action::Resume(id) => self.resume(id),
            Action::Connect(ticket, endpoint) => self.connect(ticket, endpoint),
            Action::Wake(shard, message) => self.wake(shard, message),
            Action::Exit => {
                self.is_exiting = true;
                self.has_exited = true;
            }
        }
    }

    /// Sends all consecutive segments for one connection, and returns the index behind them.
    fn send(&mut self, actions: &Actions, start: usize, id: ConnectionId) -> usize {
        let end = end_of_run(actions, start, id);
        let Some(connection) = self.table.get_mut(id) else { return end };
        let had_queue = connection.queue.is_some();
        connection.send(actions, start..end);
        if connection.queue.is_some() {
            if !had_queue {
                self.handle_progress(id, true);
            }
            self.note_if_long(id);
        } else if connection.failure.is_some() {
            self.list(id);
        }
        end
    }

    fn finish(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.phase == Phase::Open && connection.finish == Finish::NotAsked {
            connection.finish = Finish::Asked;
            connection.finish_if_due();
            if connection.failure.is_some() {
                self.list(id);
            } else if connection.queue.is_some() {
                self.handle_progress(id, true);
            }
        }
    }

    fn close(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.phase != Phase::Open {
            return;
        }
        connection.begin_closing();
        self.linger(id);
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.is_readable || connection.failure.is_some() || matches!(connection.phase, Phase::Ended(_)) {
            self.list(id);
        }
    }

    fn abort(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if !matches!(connection.phase, Phase::Connecting(_) | Phase::Ended(_)) {
            connection.transport.reset_on_close();
            connection.end(CloseReason::Requested);
            self.list(id);
        }
    }

    fn pause(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id) {
            connection.is_paused = true;
        }
    }

    fn resume(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        connection.is_paused = false;
        connection.is_relend_due |= !connection.retained.is_empty();
        if connection.phase == Phase::Open && (connection.is_relend_due || connection.is_readable) {
            self.list(id);
        }
    }

    fn connect(&mut self, ticket: ConnectTicket, endpoint: Endpoint) {
        let begun = breme_sys::connect(endpoint.address)
            .and_then(|socket| self.insert(Transport::new(socket), Phase::Connecting(ticket)));
        match begun {
            Ok(id) => {
                if let Some(connection) = self.table.get_mut(id) {
                    connection.tls_client = endpoint.tls;
                }
                self.timers.set(id.key(), self.now + self.settings.connect_timeout);
            }
            Err(error) => self.connects_failed.push_back((ticket, connect_error(&error))),
        }
    }

    fn wake(&mut self, shard: ShardId, message: u64) {
        let Some(mailbox) = self.control.mailbox(shard) else { return };
        // Those that wait already go first.
        if self.wakes_delayed.is_empty() && mailbox.post(message).is_ok() {
            return;
        }
        if self.wakes_delayed.len() < WAKES_DELAYED_MAX {
            Counters::add(&self.counters().wakes_delayed);
            self.wakes_delayed.push_back((shard, message));
        } else {
            Counters::add(&self.counters().wakes_lost);
        }
    }
}

fn end_of_run(actions: &Actions, start: usize, connection: ConnectionId) -> usize {
    let mut end = start + 1;
    while let Some(Action::Send(id, _) | Action::SendShared(id, _) | Action::SendFile(id, _)) = actions.get(end) {
        if *id != connection {
            break;
        }
        end += 1;
    }
    end
}

fn connect_error(error: &std::io::Error) -> ConnectError {
    use std::io::ErrorKind;

    use rustix::io::Errno;
    match Errno::from_io_error(error) {
        // No descriptor, no port, no memory.
        Some(Errno::MFILE | Errno::NFILE | Errno::ADDRNOTAVAIL | Errno::NOBUFS | Errno::NOMEM | Errno::NOSPC) => {
            return ConnectError::NoResources;
        }
        // Linux says so when it has no free port that fits.
        Some(Errno::AGAIN) => return ConnectError::NoResources,
        _ => {}
    }
    match error.kind() {
        ErrorKind::ConnectionRefused => ConnectError::Refused,
        ErrorKind::TimedOut => ConnectError::TimedOut,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => {
            ConnectError::Unreachable
        }
        kind => ConnectError::Other(kind),
    }
}
