//! The driver by completion: one thread, one node, one ring, many connections (Linux).
//!
//! A turn is one system call: it hands over the wishes of the turn before (sends, mostly) and brings what has happened
//! meanwhile. Listeners accept and connections receive by one wish each, for their whole life; received bytes lie in
//! buffers that the kernel takes when there is something to put in, and go back when the node has been called. Measured
//! with 100 connections and 13-byte answers, small sends that leave together with the next turn cost 8 % less than a
//! `send(2)` each; asking for their completions would cost about the same as not asking, but would keep their memory
//! busy; registered descriptors gained nothing, since a receive looks its descriptor up once in its life.
//!
//! A segment that is shared, and all of a send, leaves from where it lies: for 10 kB that costs 7 % less than a copy of
//! it.
//!
//! What TLS has sealed leaves in the same way: measured with 1 kB over TLS 1.3 and 100 connections, that costs 6 % less
//! than a `send(2)` each.
//!
//! Long sends and files go by `sendmsg` and `sendfile`, as on `events`: there the copying is what counts.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use breme_base::Instant;
use breme_node::{Accepted, CloseReason, ConnectionId, ListenerId, Node, ShardId};
use breme_sys::uring::{Completion, Key, Lease, Operation, Ring, RingSizes, Watched};
use bytes::Bytes;
use rustix::event::PollFlags;
use rustix::io::Errno;

use crate::acceptance::{ACCEPT_PAUSE, AcceptFailure};
use crate::connection::{Connection, Phase, Receive};
use crate::control::{Alarm, Control, Counters, Stop};
use crate::engine::{Arrival, Engine, Readiness};
use crate::exactness::Exactness;
use crate::outside::{Outside, has_waiting};
use crate::port::Port;
use crate::socket::{Socket, reason};
use crate::transport::Transport;

/// 64 buffers of 64 kB: 4 MB a shard, touched only as far as bytes come. Few and long is better than many and short:
/// what is received in pieces of 8 kB costs twice as much when it is long, and short requests touch only the first page
/// of a buffer. They suffice for any number of connections, since a turn brings few completions at a time (Linux 6.13
/// and later: about 20); a lack costs one wish more.
///
/// One wish to receive fills buffer after buffer, up to all of the ring's in a turn, before a node that has enough can
/// say so. So it ends when as much as a buffer holds has come; a wish more for each 64 kB costs nothing that could be
/// measured.
const SIZES: RingSizes =
    RingSizes { submissions: 512, completions: 4096, buffers: 64, buffer_bytes: 64 * 1024, receive_bytes: 64 * 1024 };
/// Before Linux 6.17 it cannot be told to end. Who brings a whole buffer at a time has more. Where a long answer begins
/// all buffers may be filled once; from then on its connection receives piece by piece, until little comes again.
const LONG_BYTES: usize = SIZES.buffer_bytes;
const SHORT_BYTES: usize = LONG_BYTES / 4;
/// Sends that leave together. More would be cheaper by little, and would make the first of them wait for the last.
const SENDS_PER_SUBMISSION: usize = 16;

/// The one descriptor besides connections and listeners that is watched.
const BELL: Key = Key::new(0);
/// Bits of a key that hold the index of a connection; the generation has the others.
const INDEX_BITS: u32 = Key::BITS - u32::BITS;

fn key_of(id: ConnectionId) -> Key {
    Key::new(u64::from(id.generation()) << INDEX_BITS | u64::from(id.key()))
}

fn id_of(key: Key) -> ConnectionId {
    let index = key.value() & ((1 << INDEX_BITS) - 1);
    ConnectionId::new(index as u32, (key.value() >> INDEX_BITS) as u32)
}

/// The engine's side of a ring.
pub(crate) struct RingPort {
    ring: Ring,
}

impl RingPort {
    /// To be made on the thread that uses it.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { ring: Ring::new(SIZES)? })
    }

    fn begin_receiving(&mut self, id: ConnectionId, connection: &mut Connection) {
        let is_long = connection.operations.is_long;
        connection.operations.receive = if is_long { Receive::ArmedOnce } else { Receive::Armed };
        let socket = connection.transport.as_fd();
        match operation(connection) {
            _ if is_long => self.ring.receive_once(socket, key_of(id), connection.receipt_bytes_max()),
            Operation::ReceiveWithStamps => self.ring.receive_with_stamps(socket, key_of(id)),
            _ => self.ring.receive(socket, key_of(id)),
        }
    }

    fn end_receiving(&mut self, id: ConnectionId, connection: &mut Connection) {
        connection.operations.receive = Receive::Cancelled;
        self.ring.cancel(operation(connection), key_of(id));
    }

    fn watch(&mut self, id: ConnectionId, connection: &Connection, watched: Watched) {
        self.ring.watch(connection.transport.as_fd(), watched, key_of(id));
    }
}

/// Gathering.
impl RingPort {
    fn note_gathered(&self, connection: &mut Connection, is_taken: bool) -> bool {
        if is_taken {
            connection.operations.gathered_in = self.ring.submission();
        }
        is_taken
    }
}

/// How a connection receives.
fn operation(connection: &Connection) -> Operation {
    if connection.transport.socket.has_stamps() { Operation::ReceiveWithStamps } else { Operation::Receive }
}

/// A key has fewer bits for the index than an id.
fn check_index(id: ConnectionId) -> io::Result<()> {
    if id.index() < 1 << INDEX_BITS { Ok(()) } else { Err(io::ErrorKind::OutOfMemory.into()) }
}

impl Port for RingPort {
    const GATHERS: bool = true;

    fn accepted(&mut self, socket: OwnedFd, id: ConnectionId) -> io::Result<Transport> {
        check_index(id)?;
        Ok(Transport::new(Socket::brought(socket)))
    }

    fn connect(&mut self, address: SocketAddr, id: ConnectionId) -> io::Result<Transport> {
        check_index(id)?;
        let socket = breme_sys::new_unconnected(address)?;
        self.ring.connect(socket.as_fd(), address, key_of(id));
        Ok(Transport::new(Socket::brought(socket)))
    }

    fn close(&mut self, id: ConnectionId, connection: Connection) {
        let operations = connection.operations;
        let in_flight = [
            (matches!(connection.phase, Phase::Connecting(_)), Operation::Connect),
            (matches!(operations.receive, Receive::Armed | Receive::ArmedOnce), operation(&connection)),
            (operations.is_watching_room, Operation::Watch(Watched::Writable)),
            (operations.is_watching_break, Operation::Watch(Watched::Broken)),
        ];
        for (_, operation) in in_flight.into_iter().filter(|(is_in_flight, _)| *is_in_flight) {
            self.ring.cancel(operation, key_of(id));
        }
        self.ring.close(connection.transport.socket.into_descriptor());
    }

    fn keep_in_step(&mut self, id: ConnectionId, connection: &mut Connection, receive_bytes_max: usize) {
        if matches!(connection.phase, Phase::Connecting(_) | Phase::Ended(_)) {
            return;
        }
        let wants_bytes = connection.wants_bytes(receive_bytes_max);
        let kept_bytes = connection.transport.socket.kept_bytes();
        match connection.operations.receive {
            Receive::Idle if wants_bytes && kept_bytes == 0 && connection.failure.is_none() => {
                self.begin_receiving(id, connection);
            }
            // While nothing is received, only this tells of a reset.
            Receive::Idle if !wants_bytes && !connection.has_ended && !connection.operations.is_watching_break => {
                connection.operations.is_watching_break = true;
                self.watch(id, connection, Watched::Broken);
            }
            Receive::Armed | Receive::ArmedOnce if connection.has_ended || connection.failure.is_some() => {
                self.end_receiving(id, connection);
            }
            Receive::Armed
                if connection.operations.is_long
                    || (kept_bytes > 0 && !wants_bytes)
                    || kept_bytes > receive_bytes_max =>
            {
                self.end_receiving(id, connection);
            }
            _ => {}
        }
        if connection.wants_to_send() && !connection.is_writable && !connection.operations.is_watching_room {
            connection.operations.is_watching_room = true;
            self.watch(id, connection, Watched::Writable);
        }
    }

    fn gather(&mut self, id: ConnectionId, connection: &mut Connection, pieces: &[&[u8]]) -> bool {
        let is_taken = self.ring.send(connection.transport.as_fd(), key_of(id), pieces);
        self.note_gathered(connection, is_taken)
    }

    fn gather_shared(&mut self, id: ConnectionId, connection: &mut Connection, segment: &Bytes) -> bool {
        let is_taken = self.ring.send_shared(connection.transport.as_fd(), key_of(id), segment);
        self.note_gathered(connection, is_taken)
    }

    fn has_gathered(&self, connection: &Connection) -> bool {
        self.ring.sends_waiting() > 0 && connection.operations.gathered_in == self.ring.submission()
    }

    fn is_full(&self) -> bool {
        self.ring.sends_waiting() >= SENDS_PER_SUBMISSION
    }

    fn submit(&mut self) {
        work(self.ring.submit());
    }

    fn next_unsent(&mut self) -> Option<(ConnectionId, Result<Bytes, CloseReason>)> {
        let unsent = self.ring.next_unsent()?;
        let outcome = unsent.error.map_or_else(|| Ok(unsent.rest), |error| Err(close_reason(&error)));
        Some((id_of(unsent.key), outcome))
    }
}

/// Without its ring a shard can do nothing: it ends, and says so.
fn work(outcome: io::Result<()>) {
    if let Err(error) = outcome {
        panic!("the kernel refuses to work on a ring: {error}");
    }
}

fn close_reason(error: &io::Error) -> CloseReason {
    Errno::from_io_error(error).map_or(CloseReason::Failed(error.kind()), reason)
}

/// What one shard needs besides its engine.
pub(crate) struct Uring {
    shard: ShardId,
    control: Arc<Control>,
    listeners: Vec<Listening>,
    /// Accepted by the kernel before it could be told that there are enough. Few: accepting ends when the last place is
    /// taken.
    waiting: VecDeque<(OwnedFd, ListenerId)>,
    /// Nothing is accepted before.
    accept_again: Option<Instant>,
    outside: Outside,
    /// The program is to end: what stands in the backlog is accepted, and then nothing more.
    is_draining: bool,
}

struct Listening {
    socket: TcpListener,
    id: ListenerId,
    accepting: Receive,
}

impl Uring {
    pub(crate) fn new(shard: ShardId, sockets: Vec<TcpListener>, control: Arc<Control>) -> Self {
        let listening = |(index, socket)| Listening { socket, id: ListenerId(index), accepting: Receive::Idle };
        let listeners = sockets.into_iter().enumerate().map(listening).collect();
        Self {
            shard,
            control,
            listeners,
            waiting: VecDeque::new(),
            accept_again: None,
            outside: Outside::default(),
            is_draining: false,
        }
    }

    /// Runs the node to its end.
    pub(crate) fn run<N: Node>(mut self, mut engine: Engine<N, RingPort>) -> N {
        self.watch_bell(&mut engine);
        engine.handle_started();
        // The kernel's timer for a wait is fine; only the time that waking takes is made up for.
        let spin = Exactness::wanted_by(&mut engine).map_or(Duration::ZERO, |exactness| exactness.spin);
        while !engine.is_done() {
            self.admit(&mut engine);
            self.keep_accepting(&mut engine);
            let also = self.accept_again.into_iter().chain(self.outside.next_look()).min();
            let timeout = engine.time_to_wait(also);
            work(match timeout.map(|timeout| timeout.saturating_sub(spin)) {
                Some(timeout) if engine.may_gather(timeout) => engine.port.ring.submit_and_gather(timeout),
                _ => engine.port.ring.submit_and_wait(timeout),
            });
            engine.handle_unsent();
            let (mut is_woken, mut is_idle) = (false, true);
            while let Some(completion) = engine.port.ring.next_completion() {
                is_idle = false;
                is_woken |= self.handle_completion(&mut engine, completion);
            }
            engine.note_spin(timeout, spin, is_idle);
            if is_woken {
                engine.handle_alarm();
            }
            self.handle_stop(&mut engine);
            self.look_outside(&mut engine);
            engine.handle_turn();
        }
        engine.into_node()
    }

    fn watch_bell<N: Node>(&self, engine: &mut Engine<N, RingPort>) {
        if let Some(Alarm::Bell(bell)) = self.control.mailbox(self.shard).map(|mailbox| &mailbox.alarm) {
            engine.port.ring.watch(bell.as_fd(), Watched::Readable, BELL);
        }
    }

    /// Returns whether it was the bell.
    fn handle_completion<N: Node>(&mut self, engine: &mut Engine<N, RingPort>, completion: Completion) -> bool {
        match completion {
            Completion::Received { key, outcome, goes_on } => receive(engine, id_of(key), outcome, goes_on),
            Completion::Accepted { key, outcome, goes_on } => self.accept(engine, key, outcome, goes_on),
            Completion::Connected { key, outcome } => engine.handle_connect_outcome(id_of(key), outcome),
            Completion::Seen { watched: Watched::Readable, goes_on, .. } => {
                self.hear(engine, goes_on);
                return true;
            }
            Completion::Seen { key, watched, outcome, .. } => see(engine, id_of(key), watched, &outcome),
        }
        false
    }

    fn hear<N: Node>(&self, engine: &mut Engine<N, RingPort>, goes_on: bool) {
        if let Some(Alarm::Bell(bell)) = self.control.mailbox(self.shard).map(|mailbox| &mailbox.alarm) {
            bell.hear();
        }
        if !goes_on {
            self.watch_bell(engine);
        }
    }

    fn accept<N: Node>(
        &mut self,
        engine: &mut Engine<N, RingPort>,
        key: Key,
        outcome: io::Result<OwnedFd>,
        goes_on: bool,
    ) {
        let Some(listener) = self.listeners.get_mut(key.value() as usize) else { return };
        if !goes_on {
            listener.accepting = Receive::Idle;
        }
        match outcome {
            Ok(socket) => {
                self.waiting.push_back((socket, listener.id));
                self.admit(engine);
            }
            Err(error) if error.raw_os_error() == Some(Errno::CANCELED.raw_os_error()) => {}
            Err(error) => {
                if AcceptFailure::of(&error) == AcceptFailure::Pause {
                    Counters::add(&engine.counters().accepts_failed);
                    self.accept_again = Some(engine.read_clock() + ACCEPT_PAUSE);
                }
            }
        }
    }

    /// Lets in who was accepted, as far as there is room; at the end, all of them.
    fn admit<N: Node>(&mut self, engine: &mut Engine<N, RingPort>) {
        while !engine.is_exiting() && (self.is_draining || engine.has_room()) {
            let Some((socket, listener)) = self.waiting.pop_front() else { return };
            // Who has gone already is not counted.
            if let Ok(peer) = breme_sys::peer_of(&socket) {
                engine.handle_accepted(socket, Accepted { listener, peer });
            }
        }
    }

    /// Accepts while there is room, and not otherwise.
    fn keep_accepting<N: Node>(&mut self, engine: &mut Engine<N, RingPort>) {
        if self.listeners.is_empty() {
            return;
        }
        if self.accept_again.is_some_and(|again| again <= engine.read_clock()) {
            self.accept_again = None;
        }
        let may_accept =
            !self.is_draining && self.accept_again.is_none() && self.waiting.is_empty() && engine.has_room();
        for listener in &mut self.listeners {
            let key = Key::new(listener.id.0 as u64);
            match listener.accepting {
                Receive::Idle if may_accept => {
                    listener.accepting = Receive::Armed;
                    engine.port.ring.accept(listener.socket.as_fd(), key);
                }
                Receive::Armed if !may_accept => {
                    listener.accepting = Receive::Cancelled;
                    engine.port.ring.cancel(Operation::Accept, key);
                }
                _ => {}
            }
        }
    }

    fn look_outside<N: Node>(&mut self, engine: &mut Engine<N, RingPort>) {
        let Self { outside, listeners, waiting, .. } = self;
        let is_somebody = || !waiting.is_empty() || listeners.iter().any(|listener| has_waiting(&listener.socket));
        outside.look(engine, listeners.is_empty(), is_somebody);
    }

    /// A drain takes as many turns as it takes the kernel to end its accepting.
    fn handle_stop<N: Node>(&mut self, engine: &mut Engine<N, RingPort>) {
        if engine.control().stop() != Stop::Drain || engine.is_stopping() {
            return; // an abort ends the loop by itself
        }
        self.is_draining = true;
        self.keep_accepting(engine);
        if self.listeners.iter().all(|listener| listener.accepting == Receive::Idle) {
            self.admit(engine);
            self.accept_backlog(engine);
            self.listeners.clear();
            engine.handle_stopping();
        }
    }

    /// Who stands in the backlog has connected to us: serve them, since closing the listener would reset them.
    fn accept_backlog<N: Node>(&self, engine: &mut Engine<N, RingPort>) {
        for listener in &self.listeners {
            for _ in 0..engine.settings().backlog {
                match breme_sys::accept(&listener.socket) {
                    Ok((socket, peer)) => {
                        engine.handle_accepted(socket, Accepted { listener: listener.id, peer });
                    }
                    Err(error) if AcceptFailure::of(&error) == AcceptFailure::One => {}
                    // Nobody more; or a lack of descriptors, which is for good now: there will be no later.
                    Err(_) => break,
                }
            }
        }
    }
}

fn receive<N: Node>(
    engine: &mut Engine<N, RingPort>,
    id: ConnectionId,
    outcome: io::Result<Option<Lease>>,
    goes_on: bool,
) {
    match outcome {
        Ok(Some(lease)) => {
            note_length(engine, id, lease.len());
            engine.handle_arrival(id, Arrival::Bytes(&lease, lease.stamp()), goes_on);
        }
        Ok(None) => engine.handle_arrival(id, Arrival::End, goes_on),
        Err(error) => match Errno::from_io_error(&error) {
            // The buffers are back when this turn is over, and it receives again.
            Some(Errno::NOBUFS | Errno::CANCELED) => engine.handle_arrival(id, Arrival::Nothing, goes_on),
            _ => engine.handle_arrival(id, Arrival::Failure(close_reason(&error)), goes_on),
        },
    }
}

/// Whether the connection receives piece by piece from here on: pieces must be short, or receiving cannot be bounded.
/// Stamped bytes have less room in their buffer, and so are never long: who asks for stamps wants all that comes.
fn note_length<N: Node>(engine: &mut Engine<N, RingPort>, id: ConnectionId, length: usize) {
    let is_bounded = engine.port.ring.bounds_receiving();
    if let Some(connection) = engine.connection(id) {
        let is_short = connection.receipt_bytes_max() < LONG_BYTES && length >= SHORT_BYTES;
        let is_long = &mut connection.operations.is_long;
        let is_unbounded = !is_bounded && (length >= LONG_BYTES || (*is_long && length > SHORT_BYTES));
        *is_long = is_short || is_unbounded;
    }
}

fn see<N: Node>(engine: &mut Engine<N, RingPort>, id: ConnectionId, watched: Watched, outcome: &io::Result<u32>) {
    let Some(connection) = engine.connection(id) else { return };
    match watched {
        Watched::Writable => connection.operations.is_watching_room = false,
        _ => connection.operations.is_watching_break = false,
    }
    let Ok(events) = outcome else { return };
    let events = PollFlags::from_bits_truncate(*events as u16);
    let readiness = Readiness {
        is_writable: watched == Watched::Writable,
        is_broken: events.contains(PollFlags::ERR),
        ..Readiness::default()
    };
    engine.handle_readiness(id, readiness);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_holds_an_id() {
        for id in [ConnectionId::new(0, 0), ConnectionId::new((1 << INDEX_BITS) - 1, u32::MAX), ConnectionId::new(7, 3)]
        {
            assert_eq!(id_of(key_of(id)), id);
            assert!(check_index(id).is_ok());
        }
        assert!(check_index(ConnectionId::new(1 << INDEX_BITS, 0)).is_err());
    }
}
