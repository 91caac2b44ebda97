//! The contract between a **node** and its **driver**.
//!
//! A node is a deterministic state machine: a server, a proxy, a load generator. A driver owns the sockets, the clock
//! and the threads, and moves bytes. Nodes know no sockets, clocks or threads; drivers know no HTTP.
//!
//! ```text
//!          accepted, connected, received, sent, closed, deadline, woken, pressure, stopping
//!   driver  ───────────────────────────────────────────────────────────────────────►  node
//!           ◄───────────────────────────────────────────────────────────────────────
//!              Actions: send, connect, pause, resume, finish, close, wake, exit  +  next_deadline
//! ```
//!
//! The shape is that of completion, which readiness can imitate, not the reverse:
//!
//! - **Receiving.** The driver lends bytes for one call. The node returns how many it took. The rest waits in the
//!   driver and is lent again, from its first byte, with what comes after it: when more bytes or the end arrive, when
//!   the node [resumes](Actions::resume) the connection, or when its send queue has drained. That is the back-pressure:
//!   a driver keeps a bounded number of bytes and then stops reading. A node takes all that it can in one call.
//! - **Sending.** The node appends to one buffer that the driver owns ([`Actions::send`]) or hands over shared
//!   segments, file ranges, and parts of what it was just lent ([`Actions::send_received`]). Nothing leaves before the
//!   call returns; all that one call produced for a connection leaves in one system call where the kernel allows. What
//!   the kernel does not take stays in the driver's queue of that connection. While that queue is long, an *accepted*
//!   connection is lent no more bytes: a peer that does not read its responses may not send more requests, unless the
//!   node's connections are [full duplex](Node::is_full_duplex). A connection that the node *opened* is always lent:
//!   were both sides to wait until their queues are empty, neither would ever read. A node that must hold back a peer
//!   it connected to [pauses](Actions::pause) that connection.
//! - **Closing.** Every connection that was accepted or connected gets exactly one [`Node::handle_closed`], also when
//!   the node itself closed it. After [`Actions::close`] nothing more is lent.
//! - **Time.** Each call carries the instant of its event, read for that event. It never goes back. The arrival of
//!   bytes may be earlier ([`Received::arrived_at`]). [`Node::next_deadline`] is queried after each batch of events;
//!   [`Node::handle_deadline`] is called at that instant or a little later.
//! - **Pressure.** Only the driver sees connections that wait to be accepted; only the node knows which of its clients
//!   have no request in progress. So the driver reports when connections begin and cease to wait
//!   ([`Node::handle_pressure`]), and the node closes clients that are idle or slow to send. The driver closes clients
//!   that are slow to read ([`CloseReason::Evicted`]).
//!
//! Nodes of several shards share state through a `Send + Sync` handle from the node factory. A node can
//! [wake](Actions::wake) that of another shard.
//!
//! A node never sees TLS. [`Node::handle_accepted`] and [`Node::handle_connected`] are called after the handshake. A
//! failed handshake is not reported to a node that accepts; one that connects gets the reason. Only a node that has
//! requested a tunnel on a connection determines where TLS begins on it: [`Actions::start_tls`].

mod actions;
mod connection_table;
mod ids;
mod pressure;
mod tls;

use std::time::Duration;

pub use actions::{Action, Actions, COPIED_BYTES_MAX, Close, Endpoint, FileRange, Log, SendRange};
use breme_base::Instant;
pub use connection_table::ConnectionTable;
pub use ids::{ConnectTicket, ConnectionId, ListenerId, Shard, ShardId};
pub use pressure::{PRESSURE_GRACE, PRESSURE_IDLE_TIMEOUT, PRESSURE_RATE_MIN, PRESSURE_TURN, Pressure};
pub use tls::{Handshake, TlsClientId, TlsFailure};

/// How late [`Node::handle_deadline`] may be unless a node requires more precision: the kernel's timers have a
/// resolution of a millisecond.
pub const DEADLINE_SLACK: Duration = Duration::from_millis(1);

/// A deterministic state machine over connections. See the crate's documentation for the rules.
pub trait Node {
    /// The first call. A client opens its connections here.
    fn handle_started(&mut self, _now: Instant, _actions: &mut Actions) {}

    /// A peer connected to one of the listeners.
    fn handle_accepted(&mut self, now: Instant, id: ConnectionId, accepted: Accepted, actions: &mut Actions);

    /// The result of [`Actions::connect`] or [`Actions::start_tls`].
    fn handle_connected(
        &mut self,
        _now: Instant,
        _ticket: ConnectTicket,
        _result: ConnectResult,
        _actions: &mut Actions,
    ) {
    }

    /// Bytes, or the end of the peer's sending, or both. Returns the number of bytes taken.
    fn handle_received(&mut self, now: Instant, id: ConnectionId, input: Received<'_>, actions: &mut Actions) -> usize;

    /// The send queue of a connection became long (`unsent_bytes` above 0: stop producing) or empty again (0).
    ///
    /// A send that left at once is not reported.
    fn handle_sent(&mut self, _now: Instant, _id: ConnectionId, _unsent_bytes: u64, _actions: &mut Actions) {}

    /// The connection is closed; its id is not used again.
    fn handle_closed(&mut self, now: Instant, id: ConnectionId, reason: CloseReason, actions: &mut Actions);

    /// [`Node::next_deadline`] has passed.
    fn handle_deadline(&mut self, _now: Instant, _actions: &mut Actions) {}

    /// Another shard, or the program, woke this node with this message.
    fn handle_woken(&mut self, _now: Instant, _message: u64, _actions: &mut Actions) {}

    /// Connections wait that cannot be served while the open ones remain; or (`is_high` is false) none does any more.
    ///
    /// A server then closes clients that are idle or slow, and others after a turn: it can keep a [`Pressure`] for
    /// that. The call may be slightly late, or missing if the pressure was short; the first has `is_high`, and no two
    /// consecutive calls are the same.
    fn handle_pressure(&mut self, _now: Instant, _is_high: bool, _actions: &mut Actions) {}

    /// The program is to exit: finish what was accepted, close what is idle, start nothing new. The listeners are
    /// closed already. The driver returns when the last connection is closed (or at its own time limit), or at
    /// [`Actions::exit`].
    fn handle_stopping(&mut self, now: Instant, actions: &mut Actions);

    /// When the node wants [`Node::handle_deadline`] next.
    ///
    /// If it has passed when a call returns, the driver makes the call again, with a new reading of the clock and
    /// without waiting in between (but not indefinitely: connections have their turn).
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Whether the node needs the time at which bytes [arrived](Received::arrived_at), not only that of the call. Then
    /// the kernel timestamps them, on connections that the node opens.
    ///
    /// If such a node also has a deadline slack, it gets all bytes received until its deadline together, and is not
    /// woken for each arrival.
    fn needs_arrival_times(&self) -> bool {
        false
    }

    /// Whether the two directions of an accepted connection are independent: then its bytes are lent also while its
    /// send queue is long, and the node bounds what it takes. The driver calls it once, before
    /// [`Node::handle_started`].
    fn is_full_duplex(&self) -> bool {
        false
    }

    /// How late [`Node::handle_deadline`] may be without harm. The driver calls it once, after
    /// [`Node::handle_started`]; below [`DEADLINE_SLACK`] it waits with the kernel's finest timers. The deadline is
    /// never early.
    fn deadline_slack(&self) -> Duration {
        DEADLINE_SLACK
    }
}

/// Bytes lent for one call.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// All bytes of the connection that the node has not taken yet.
    pub bytes: &'a [u8],
    /// The peer has ended its sending after these bytes (it may still receive).
    pub ended: bool,
    /// When the last of the bytes arrived: the instant of the call, or before it if the driver
    /// [knows](Node::needs_arrival_times).
    pub arrived_at: Instant,
}

/// Where an accepted connection comes from.
#[derive(Clone, Copy, Debug)]
pub struct Accepted {
    pub listener: ListenerId,
    /// None: the client of a Unix socket, which has no address.
    pub peer: Option<std::net::SocketAddr>,
}

/// A connection that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Connected {
    pub connection: ConnectionId,
    /// None without TLS.
    pub handshake: Option<Handshake>,
}

impl Connected {
    /// A connection without TLS.
    #[must_use]
    pub const fn plain(connection: ConnectionId) -> Self {
        Self { connection, handshake: None }
    }
}

/// The result of [`Actions::connect`] or [`Actions::start_tls`].
pub type ConnectResult = Result<Connected, ConnectError>;

/// Why a connection could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectError {
    /// Nobody listens at the address.
    Refused,
    /// The peer or the network did not respond in time.
    TimedOut,
    /// No route to the address.
    Unreachable,
    /// Out of file descriptors, ports or memory.
    NoResources,
    /// The TLS handshake failed.
    Tls(TlsFailure),
    /// Another transport error.
    Other(std::io::ErrorKind),
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// The node closed it, and everything it had sent was delivered to the kernel.
    Requested,
    /// The peer reset it.
    Reset,
    /// The peer closed it without close_notify (RFC 8446, 6.1): data may be missing.
    Truncated,
    /// The driver closed it: the timeout of closing passed, or the program stops.
    Dropped,
    /// The driver closed it under pressure: its peer read less than [`PRESSURE_RATE_MIN`].
    Evicted,
    /// A violation of TLS, or an alert of the peer.
    Tls(TlsFailure),
    /// Another transport error.
    Failed(std::io::ErrorKind),
}
