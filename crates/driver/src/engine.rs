//! What all drivers have in common: one node, its connections, and what becomes of each event.
//!
//! A driver's loop finds out what the kernel has to say and tells the engine: that a socket is ready
//! ([`Engine::handle_readiness`]), or what has come of it ([`Engine::handle_arrival`]). The engine reads, lends,
//! carries out the actions and writes. What does not fit into the turn of a connection, or is a consequence of an
//! action, waits in the list `ready` for [`Engine::handle_turn`]; so no node call happens inside another.
//!
//! | file | what |
//! |---|---|
//! | `serving` | the turn of an open connection: sending what waits, receiving, lending |
//! | `arrivals` | bytes that the kernel brings by itself |
//! | `gathering` | small sends that leave together |
//! | `connecting`, `handshaking`, `closing` | the beginning and the end of connections |
//! | `reading` | peers that read too slowly while others wait |
//! | `wishes` | the log of actions |

mod arrivals;
mod closing;
mod connecting;
mod gathering;
mod handshaking;
mod reading;
mod serving;
mod wishes;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use arrivals::Arrival;
use breme_base::{Instant, Timers};
use breme_node::{
    Accepted, Actions, CloseReason, ConnectError, ConnectTicket, ConnectionId, Node, PRESSURE_TURN, Pressure, ShardId,
    TlsFailure,
};
use breme_sys::{Clock, Stamps};
pub(crate) use reading::Reading;

use crate::Settings;
use crate::connection::{Connection, Phase};
use crate::control::{Control, Counters, Stop};
use crate::memory_return::MemoryReturn;
use crate::port::Port;
use crate::table::Table;
use crate::transport::Transport;

/// One call to the node sees at most so much that is new, and so much may wait for a peer beyond
/// [`Settings::send_queue_high_bytes`](crate::Settings::send_queue_high_bytes) if it is passed on.
pub const RECEIPT_BYTES_MAX: usize = 64 * 1024;
/// Calls about a deadline that has passed, one after another, before the connections have their turn.
const DEADLINES_PER_TURN: usize = 16;
/// What comes may wait so long for the node's next deadline.
const GATHERING_MAX: Duration = Duration::from_micros(100);
/// After how long they are tried again.
const WAKE_RETRY: Duration = Duration::from_millis(1);
/// When the program is to end, handshakes that are under way have so long.
const STOPPING_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(1);

/// What the kernel has said of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Readiness {
    pub(crate) is_readable: bool,
    pub(crate) is_writable: bool,
    /// The peer's end, or the end of both sides.
    pub(crate) is_end_near: bool,
    pub(crate) is_broken: bool,
}

/// What a shard receives into. It has memory from the first receipt on.
#[derive(Default)]
struct ReceiveBuffer(Box<[u8]>);

impl ReceiveBuffer {
    fn memory(&mut self) -> &mut [u8] {
        if self.0.is_empty() {
            self.0 = vec![0; RECEIPT_BYTES_MAX].into_boxed_slice();
        }
        &mut self.0
    }
}

pub(crate) struct Engine<N, P> {
    /// First, so that it is dropped before the sockets that its wishes name are closed.
    pub(crate) port: P,
    node: N,
    id: ShardId,
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
    /// Connections whose queues became long, of which the node is told before anything more is received.
    lengthened: Vec<ConnectionId>,
    connects_failed: VecDeque<(ConnectTicket, ConnectError)>,
    wakes_delayed: VecDeque<(ShardId, u64)>,
    messages: VecDeque<u64>,
    receive_buffer: ReceiveBuffer,
    memory: MemoryReturn,
    /// Accepted connections whose handshake is not done.
    handshaking_count: usize,
    /// When what is left is dropped; known from the moment at which the node was told to stop.
    stop_deadline: Option<Instant>,
    /// How late the node's deadline may be, beyond what waking takes.
    slack: Duration,
    /// For a node that wants to know when bytes came.
    stamps: Option<Stamps>,
    /// The node wants the bytes of accepted connections also while their send queues are long.
    is_full_duplex: bool,
    /// What the node was told last: whether connections wait that nobody can serve.
    pressure: Pressure,
    /// When to look which peers read too slowly.
    look_again: Option<Instant>,
    /// The node has been told.
    has_told_stop: bool,
    /// The shard ends: nothing but the end of its connections is told to the node any more.
    is_exiting: bool,
    /// The node asked for it.
    has_exited: bool,
}

impl<N: Node, P: Port> Engine<N, P> {
    pub(crate) fn new(node: N, id: ShardId, port: P, clock: Clock, shared: (Arc<Settings>, Arc<Control>)) -> Self {
        let stamps = node.times_arrivals().then(|| Stamps::new(clock));
        let is_full_duplex = node.is_full_duplex();
        Self {
            port,
            node,
            id,
            clock,
            now: clock.now(),
            settings: shared.0,
            control: shared.1,
            actions: Actions::new(),
            table: Table::default(),
            timers: Timers::new(),
            ready: VecDeque::new(),
            lengthened: Vec::new(),
            connects_failed: VecDeque::new(),
            wakes_delayed: VecDeque::new(),
            messages: VecDeque::new(),
            receive_buffer: ReceiveBuffer::default(),
            memory: MemoryReturn::default(),
            handshaking_count: 0,
            stop_deadline: None,
            slack: Duration::ZERO,
            stamps,
            is_full_duplex,
            pressure: Pressure::default(),
            look_again: None,
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
        let Ok(transport) = self.port.accepted(socket, self.table.next_id()) else {
            Counters::add(&self.counters().accepts_failed);
            return None;
        };
        Counters::add(&self.counters().accepted);
        if let Some(tls) = tls {
            return self.begin_server_handshake(transport, &tls, accepted); // the node is told when the handshake is done
        }
        let id = self.insert_accepted(transport, Phase::Open);
        self.read_clock();
        self.node.handle_accepted(self.now, id, accepted, &mut self.actions);
        self.run_actions();
        self.keep_in_step(id);
        Some(id)
    }

    fn insert_accepted(&mut self, transport: Transport, phase: Phase) -> ConnectionId {
        let mut connection = Connection::new(transport, phase);
        connection.is_full_duplex = self.is_full_duplex;
        self.table.insert(connection)
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

    /// Whether connections wait that nobody can serve. The node is told when that changes.
    pub(crate) fn set_pressure(&mut self, is_high: bool) {
        if is_high != self.pressure.is_high() && !self.is_exiting {
            self.read_clock();
            self.pressure.set(self.now, is_high);
            self.look_again = is_high.then_some(self.now);
            if is_high {
                self.hurry_handshakes(PRESSURE_TURN);
            }
            self.node.handle_pressure(self.now, is_high, &mut self.actions);
            self.run_actions();
        }
    }

    /// What the node was told last of those who wait.
    pub(crate) fn is_under_pressure(&self) -> bool {
        self.pressure.is_high()
    }

    /// Tells the node to stop, once, when those who are shaking hands are in; the listeners are closed already.
    pub(crate) fn handle_stopping(&mut self) {
        if self.stop_deadline.is_none() && !self.is_exiting {
            self.read_clock();
            self.stop_deadline = Some(self.now + self.settings.stopping_timeout);
            self.hurry_handshakes(STOPPING_HANDSHAKE_TIMEOUT);
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
        if self.memory.is_due(self.table.len(), self.now) {
            breme_sys::return_unused_memory();
        }
        if let Some(stamps) = &mut self.stamps {
            stamps.begin_batch();
        }
    }

    fn handle_deadlines(&mut self) {
        self.read_clock();
        while let Some(index) = self.timers.pop_due(self.now) {
            if let Some(id) = self.table.id_at(index) {
                self.handle_timeout(id);
            }
        }
        self.evict_slow_readers();
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
            Phase::Lingering { .. } => {
                self.end_lingering(id);
                return self.release_if_ended(id);
            }
            Phase::Open | Phase::Flushing { .. } => {
                connection.transport.reset_on_close();
                connection.end(CloseReason::Failed(std::io::ErrorKind::TimedOut));
            }
            Phase::Ended(_) => {}
        }
        Counters::add(&self.counters().dropped);
        self.release_if_ended(id);
    }

    /// Whether the node's deadlines are to be met more exactly than the kernel's usual waiting does. What they may be
    /// late all the same is added to each wait.
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
        let own = [self.timers.next(), self.stop_deadline, retry, self.memory.deadline(), self.next_look()];
        let nearest = own.into_iter().chain([of_node, also]).flatten().min()?;
        self.read_clock();
        Some(nearest.since(self.now))
    }

    /// After a wait of `timeout` that began at the last reading of the clock: if it was too short to sleep
    /// (`timeout ≤ spin`) and nothing came, the thread has spun since then.
    pub(crate) fn note_spin(&mut self, timeout: Option<Duration>, spin: Duration, is_idle: bool) {
        if is_idle && timeout.is_some_and(|timeout| !timeout.is_zero() && timeout <= spin) {
            let began = self.now;
            let spun = self.read_clock().since(began);
            self.counters().add_spun(spun);
        }
    }

    /// Gives up the memory that the next event can have anew: nothing happens for a while.
    pub(crate) fn give_up_buffers(&mut self) {
        self.receive_buffer = ReceiveBuffer::default();
        self.actions = Actions::new();
    }

    /// Whether [`give_up_buffers`](Self::give_up_buffers) would give up anything.
    pub(crate) fn has_buffers(&self) -> bool {
        !self.receive_buffer.0.is_empty()
    }

    /// Whether so short a wait is not worth being woken from: the node is to act soon, by a deadline that may be late,
    /// and will know all the same when things came.
    pub(crate) fn may_gather(&self, timeout: Duration) -> bool {
        self.stamps.is_some() && !self.slack.is_zero() && timeout <= GATHERING_MAX
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

    /// Whether one more may be accepted.
    pub(crate) fn has_room(&self) -> bool {
        self.connection_count() < self.settings.connections_max
    }

    /// Connections that are over but for what their peers still send, which is read into nothing.
    pub(crate) fn lingering_count(&self) -> usize {
        self.table.iter().filter(|(_, connection)| connection.is_lingering()).count()
    }

    pub(crate) fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.table.get_mut(id)
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
        self.control.counters(self.id)
    }

    /// Drops what is open, tells the node so, and hands it back.
    pub(crate) fn into_node(mut self) -> N {
        self.submit();
        self.is_exiting = true;
        while let Some((ticket, error)) = self.connects_failed.pop_front() {
            self.tell_connected(ticket, Err(error));
        }
        let left: Vec<ConnectionId> = self.table.iter().map(|(id, _)| id).collect();
        for id in left {
            self.drop_connection(id);
        }
        self.port.submit();
        self.node
    }

    fn list(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id)
            && !connection.is_listed
        {
            connection.is_listed = true;
            self.ready.push_back(id);
        }
    }

    /// Lets the kernel know what the connection now wants of it.
    fn keep_in_step(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id) {
            self.port.keep_in_step(id, connection, self.settings.receive_bytes_max);
        }
    }
}
