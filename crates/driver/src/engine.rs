//! The part common to all drivers: one node, its connections, and the handling of each event.
//!
//! A driver's event loop collects kernel events and passes them on: readiness ([`Engine::handle_readiness`]) or
//! completions ([`Engine::handle_receive_completion`]). The engine receives, lends to the node, runs the node's actions
//! and sends. Work beyond a connection's turn, or caused by an action, waits in `ready` for [`Engine::handle_turn`]; so
//! node calls never nest.
//!
//! | file | contents |
//! |---|---|
//! | `turn` | an open connection: sending the queue, receiving, lending |
//! | `receive_completion` | bytes delivered by completions |
//! | `send_batch` | small sends submitted together |
//! | `connect`, `handshake`, `close` | start and end of connections |
//! | `slow_readers` | eviction of slow readers under pressure |
//! | `actions` | the node's actions |

mod actions;
mod close;
mod connect;
mod handshake;
mod receive_completion;
mod send_batch;
mod slow_readers;
mod turn;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use breme_base::{Instant, Timers};
use breme_node::{
    Accepted, Actions, CloseReason, ConnectError, ConnectTicket, ConnectionId, ConnectionTable, Node, PRESSURE_TURN,
    Pressure, ShardId, TlsFailure,
};
use breme_sys::{Clock, TimestampConverter};
pub(crate) use receive_completion::ReceiveCompletion;

use crate::connection::{Connection, ConnectionPhase};
use crate::control::{Control, StopMode};
use crate::counters::LiveCounters;
use crate::heap_trim::HeapTrim;
use crate::io_backend::IoBackend;
use crate::settings::{DriverSettings, RECEIVE_CHUNK_BYTES_MAX};
use crate::transport::Transport;

/// Consecutive calls of [`Node::handle_deadline`] before connections get their turn.
const DEADLINES_PER_TURN: usize = 16;
/// Maximum wait for which events are delayed until the node's next deadline.
const COALESCE_MAX: Duration = Duration::from_micros(100);
/// Retry interval for messages to full mailboxes.
const WAKE_RETRY: Duration = Duration::from_millis(1);
/// Timeout of handshakes in progress when the driver stops.
const STOPPING_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(1);

/// Kernel events of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Readiness {
    pub(crate) is_readable: bool,
    pub(crate) is_writable: bool,
    /// The peer closed its side, or both sides.
    pub(crate) has_hangup: bool,
    pub(crate) is_broken: bool,
}

/// The receive buffer of a shard, of [`RECEIVE_CHUNK_BYTES_MAX`] bytes, allocated at first use.
#[derive(Default)]
struct ReceiveBuffer(Box<[u8]>);

impl ReceiveBuffer {
    fn memory(&mut self) -> &mut [u8] {
        if self.0.is_empty() {
            self.0 = vec![0; RECEIVE_CHUNK_BYTES_MAX].into_boxed_slice();
        }
        &mut self.0
    }
}

pub(crate) struct Engine<N, B> {
    /// First, so that it is dropped before the sockets that its operations use.
    pub(crate) backend: B,
    node: N,
    id: ShardId,
    clock: Clock,
    /// The last reading of the clock.
    now: Instant,
    settings: Arc<DriverSettings>,
    control: Arc<Control>,
    actions: Actions,
    table: ConnectionTable<Connection>,
    timers: Timers,
    /// Connections that need a turn without a kernel event, each at most once.
    ready: VecDeque<ConnectionId>,
    /// Connections whose queues have become long; the node is notified before more is received.
    long_queues: Vec<ConnectionId>,
    connects_failed: VecDeque<(ConnectTicket, ConnectError)>,
    wakes_delayed: VecDeque<(ShardId, u64)>,
    messages: VecDeque<u64>,
    receive_buffer: ReceiveBuffer,
    heap_trim: HeapTrim,
    /// Accepted connections in their handshake.
    handshaking_count: usize,
    /// When remaining connections are dropped; set on stop.
    stop_deadline: Option<Instant>,
    /// Tolerated lateness of the node's deadline, in addition to wake-up latency.
    slack: Duration,
    /// For a node that [needs arrival times](Node::needs_arrival_times).
    timestamps: Option<TimestampConverter>,
    /// See [`Node::is_full_duplex`].
    is_full_duplex: bool,
    /// As last reported to the node.
    pressure: Pressure,
    /// When to check for slow readers.
    check_readers_at: Option<Instant>,
    has_notified_stop: bool,
    /// The shard is ending: the node is only notified of closed connections.
    is_exiting: bool,
    /// The node requested the exit: it is not even called for failed connects.
    has_exited: bool,
}

impl<N: Node, B: IoBackend> Engine<N, B> {
    pub(crate) fn new(
        node: N,
        id: ShardId,
        backend: B,
        clock: Clock,
        shared: (Arc<DriverSettings>, Arc<Control>),
    ) -> Self {
        let timestamps = node.needs_arrival_times().then(|| TimestampConverter::new(clock));
        let is_full_duplex = node.is_full_duplex();
        Self {
            backend,
            node,
            id,
            clock,
            now: clock.now(),
            settings: shared.0,
            control: shared.1,
            actions: Actions::new(),
            table: ConnectionTable::default(),
            timers: Timers::new(),
            ready: VecDeque::new(),
            long_queues: Vec::new(),
            connects_failed: VecDeque::new(),
            wakes_delayed: VecDeque::new(),
            messages: VecDeque::new(),
            receive_buffer: ReceiveBuffer::default(),
            heap_trim: HeapTrim::default(),
            handshaking_count: 0,
            stop_deadline: None,
            slack: Duration::ZERO,
            timestamps,
            is_full_duplex,
            pressure: Pressure::default(),
            check_readers_at: None,
            has_notified_stop: false,
            is_exiting: false,
            has_exited: false,
        }
    }

    pub(crate) fn handle_started(&mut self) {
        self.read_clock();
        self.node.handle_started(self.now, &mut self.actions);
        self.run_actions();
    }

    /// None if the socket could not be registered; it is closed.
    pub(crate) fn handle_accepted(&mut self, socket: OwnedFd, accepted: Accepted) -> Option<ConnectionId> {
        let tls = self.control.tls_of(accepted.listener).cloned();
        let Ok(transport) = self.backend.accepted(socket, self.table.next_id()) else {
            LiveCounters::add(&self.counters().accepts_failed);
            return None;
        };
        LiveCounters::add(&self.counters().accepted);
        if let Some(tls) = tls {
            return self.begin_server_handshake(transport, &tls, accepted); // the node is called after the handshake
        }
        let id = self.insert_accepted(transport, ConnectionPhase::Open);
        self.read_clock();
        self.node.handle_accepted(self.now, id, accepted, &mut self.actions);
        self.run_actions();
        self.update_interest(id);
        Some(id)
    }

    fn insert_accepted(&mut self, transport: Transport, phase: ConnectionPhase) -> ConnectionId {
        let mut connection = Connection::new(transport, phase);
        connection.is_full_duplex = self.is_full_duplex;
        self.table.insert(connection)
    }

    pub(crate) fn handle_readiness(&mut self, id: ConnectionId, readiness: Readiness) {
        let Some(connection) = self.table.get_mut(id) else { return };
        connection.is_readable |= readiness.is_readable;
        connection.is_writable |= readiness.is_writable;
        if readiness.has_hangup {
            connection.is_readable = true;
            connection.has_hangup = true;
        }
        if readiness.is_broken && !matches!(connection.phase, ConnectionPhase::Connecting(_)) {
            connection.fail(CloseReason::Reset);
        }
        self.serve(id);
    }

    /// Delivers the messages in the mailbox.
    pub(crate) fn handle_wake(&mut self) {
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

    /// Sets whether connections wait that cannot be served, and notifies the node of changes.
    pub(crate) fn set_pressure(&mut self, is_high: bool) {
        if is_high != self.pressure.is_high() && !self.is_exiting {
            self.read_clock();
            self.pressure.set(self.now, is_high);
            self.check_readers_at = is_high.then_some(self.now);
            if is_high {
                self.shorten_handshakes(PRESSURE_TURN);
                self.shorten_lingering();
            }
            self.node.handle_pressure(self.now, is_high, &mut self.actions);
            self.run_actions();
        }
    }

    pub(crate) fn is_under_pressure(&self) -> bool {
        self.pressure.is_high()
    }

    /// Notifies the node once to stop, after handshakes in progress. The listeners are closed already.
    pub(crate) fn handle_stopping(&mut self) {
        if self.stop_deadline.is_none() && !self.is_exiting {
            self.read_clock();
            self.stop_deadline = Some(self.now + self.settings.stopping_timeout);
            self.shorten_handshakes(STOPPING_HANDSHAKE_TIMEOUT);
            self.notify_stop_if_due();
        }
    }

    fn notify_stop_if_due(&mut self) {
        let is_due = self.stop_deadline.is_some() && !self.has_notified_stop && self.handshaking_count == 0;
        if is_due && !self.is_exiting {
            self.has_notified_stop = true;
            self.read_clock();
            self.node.handle_stopping(self.now, &mut self.actions);
            self.run_actions();
        }
    }

    /// Runs what is due after the events of a turn: scheduled connections, deadlines, retries.
    pub(crate) fn handle_turn(&mut self) {
        self.report_failed_connects();
        for _ in 0..self.ready.len() {
            let Some(id) = self.ready.pop_front() else { break };
            if let Some(connection) = self.table.get_mut(id) {
                connection.is_scheduled = false;
                self.serve(id);
            }
        }
        self.handle_deadlines();
        self.retry_wakes();
        self.notify_stop_if_due();
        if self.heap_trim.is_due(self.table.len(), self.now) {
            breme_sys::trim_heap();
        }
        if let Some(timestamps) = &mut self.timestamps {
            timestamps.begin_batch();
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
        if self.stop_deadline.is_some_and(|deadline| deadline <= self.now)
            || self.control.stop_mode() == StopMode::Abort
        {
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

    /// Each connection has one deadline, whose meaning follows from its phase.
    fn handle_timeout(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        match connection.phase {
            ConnectionPhase::Connecting(_) => return self.fail_connecting(id, ConnectError::TimedOut),
            ConnectionPhase::Handshaking(_) => {
                self.fail_handshaking(id, TlsFailure::TimedOut);
                return self.release_if_ended(id);
            }
            ConnectionPhase::Lingering { .. } => {
                self.end_lingering(id);
                return self.release_if_ended(id);
            }
            ConnectionPhase::Open | ConnectionPhase::Flushing { .. } => {
                connection.transport.reset_on_close();
                connection.end(CloseReason::Failed(std::io::ErrorKind::TimedOut));
            }
            ConnectionPhase::Ended(_) => {}
        }
        LiveCounters::add(&self.counters().dropped);
        self.release_if_ended(id);
    }

    /// Enables precise timers if the node's deadlines need them: returns how long before a deadline to busy-poll. The
    /// node's tolerance is added to each wait.
    pub(crate) fn enable_precise_deadlines(&mut self) -> Option<Duration> {
        let slack = self.node.deadline_slack();
        if slack >= breme_node::DEADLINE_SLACK {
            return None;
        }
        self.slack = slack;
        // Otherwise timers are up to 50 µs late, which is not worth failing.
        let _ = breme_sys::set_min_timer_slack();
        Some(self.settings.spin_before_deadline)
    }

    /// How long to wait for events; None: until one occurs. `also`: another instant at which the caller has to act.
    pub(crate) fn time_to_wait(&mut self, also: Option<Instant>) -> Option<Duration> {
        if !self.ready.is_empty() || !self.connects_failed.is_empty() || self.is_exiting {
            return Some(Duration::ZERO);
        }
        let retry = (!self.wakes_delayed.is_empty()).then(|| self.now + WAKE_RETRY);
        let of_node = self.node.next_deadline().map(|deadline| deadline + self.slack);
        let own = [self.timers.next(), self.stop_deadline, retry, self.heap_trim.deadline(), self.next_reader_check()];
        let nearest = own.into_iter().chain([of_node, also]).flatten().min()?;
        self.read_clock();
        Some(nearest.since(self.now))
    }

    /// Counts a busy-polled wait: it began at the last clock reading, was too short to sleep (`timeout ≤ spin`), and
    /// had no event.
    pub(crate) fn count_spin(&mut self, timeout: Option<Duration>, spin: Duration, is_idle: bool) {
        if is_idle && timeout.is_some_and(|timeout| !timeout.is_zero() && timeout <= spin) {
            let began = self.now;
            let spun = self.read_clock().since(began);
            self.counters().add_spun(spun);
        }
    }

    /// Frees buffers that are only needed with the next event.
    pub(crate) fn release_buffers(&mut self) {
        self.receive_buffer = ReceiveBuffer::default();
        self.actions = Actions::new();
    }

    pub(crate) fn has_buffers(&self) -> bool {
        !self.receive_buffer.0.is_empty()
    }

    /// Whether events may be delayed for such a short wait: the node will act soon, its deadline may be late, and the
    /// kernel timestamps arrivals.
    pub(crate) fn may_coalesce(&self, timeout: Duration) -> bool {
        self.timestamps.is_some() && !self.slack.is_zero() && timeout <= COALESCE_MAX
    }

    pub(crate) fn is_done(&self) -> bool {
        self.is_exiting || (self.has_notified_stop && self.table.is_empty() && self.connects_failed.is_empty())
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

    /// Whether another connection may be accepted.
    pub(crate) fn has_capacity(&self) -> bool {
        self.capacity() > 0
    }

    /// How many more connections may be accepted.
    pub(crate) fn capacity(&self) -> usize {
        self.settings.connections_max.saturating_sub(self.connection_count())
    }

    pub(crate) fn lingering_count(&self) -> usize {
        self.table.iter().filter(|(_, connection)| connection.is_lingering()).count()
    }

    pub(crate) fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.table.get_mut(id)
    }

    pub(crate) fn connections(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        self.table.iter()
    }

    pub(crate) fn settings(&self) -> &DriverSettings {
        &self.settings
    }

    pub(crate) fn control(&self) -> &Control {
        &self.control
    }

    pub(crate) fn read_clock(&mut self) -> Instant {
        self.now = self.clock.now();
        self.now
    }

    pub(crate) fn counters(&self) -> &LiveCounters {
        self.control.counters(self.id)
    }

    /// Closes all connections, notifies the node, and returns it.
    pub(crate) fn into_node(mut self) -> N {
        self.submit();
        self.is_exiting = true;
        while let Some((ticket, error)) = self.connects_failed.pop_front() {
            self.notify_connected(ticket, Err(error));
        }
        let left: Vec<ConnectionId> = self.table.iter().map(|(id, _)| id).collect();
        for id in left {
            self.drop_connection(id);
        }
        self.backend.submit();
        self.node
    }

    fn schedule(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id)
            && !connection.is_scheduled
        {
            connection.is_scheduled = true;
            self.ready.push_back(id);
        }
    }

    /// Updates the kernel's interest in the connection.
    fn update_interest(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id) {
            self.backend.update_interest(id, connection, self.settings.receive_bytes_max);
        }
    }
}
