//! The node behind `breme link`: a TCP relay that behaves as a network path with a delay, jitter, a bandwidth for each
//! direction, and loss.
//!
//! ```text
//!                 ┌ connection ─ flow to the server: waiting ┐                      in transit: arrives at …
//!   client ──────►│                                          ├─► line: one segment ─────────────► server
//!                 │ another connection … waiting ────────────┘   after another, at the bandwidth
//!                 └ flow to the client: the same in the other direction
//! ```
//!
//! - **Bandwidth.** Each direction is one line that all connections share. Bytes wait in the flow of their connection;
//!   the line takes a segment ([`SEGMENT_BYTES`]) of each flow in turn and is busy for the time that follows from the
//!   bandwidth.
//! - **Delay.** A segment arrives one delay (± jitter) after its last bit has left the line. Segments of a connection
//!   keep their order, as TCP delivers them.
//! - **Handshake.** The connection to the server is opened one delay after the client's was accepted, and the client's
//!   first bytes enter the line when the handshake's response would have reached the client: one round trip after its
//!   start. So a response to the first request comes after two round trips, as on a real path.
//! - **Ends.** The end of one direction (FIN) and resets travel as data do. A reset discards what waits, not what is in
//!   transit. Half-closed connections continue in the other direction.
//! - **Loss.** A lost segment arrives after a retransmission time-out, twice as late for each further loss, and
//!   everything after it on its connection waits for it. Alternatively, the path resets the connection.
//! - **Bounds.** A flow holds [`Settings::window`] bytes, all flows [`HELD_BYTES_MAX`]; beyond that the source is
//!   paused.
//!
//! Every instant follows from the instants of receipts and the seed, not from when a timer fired: a late deadline
//! delays only what is due.
//!
//! This crate knows no sockets, no clock and no HTTP.

mod counters;
mod flow;
mod line;
mod node;
mod settings;

use std::sync::Arc;

use counters::Counters;
pub use counters::{DirectionCounts, LinkCounts};
pub use node::LinkNode;
pub use settings::{Bandwidth, HELD_BYTES_MAX, SEGMENT_BYTES, Settings, SettingsError};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From clients.
    ToServer,
    /// From the server.
    ToClient,
}

impl Direction {
    /// Both, by index.
    pub const ALL: [Self; 2] = [Self::ToServer, Self::ToClient];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    pub(crate) const fn reverse(self) -> Self {
        match self {
            Self::ToServer => Self::ToClient,
            Self::ToClient => Self::ToServer,
        }
    }
}

/// A path between clients and a server.
#[derive(Clone, Debug)]
pub struct Link {
    settings: Arc<Settings>,
    counters: Arc<Counters>,
}

impl Link {
    /// # Errors
    /// An invalid setting.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        Ok(Self { settings: Arc::new(settings), counters: Arc::default() })
    }

    /// There is one node, on one shard: all connections share its lines.
    #[must_use]
    pub fn node(&self) -> LinkNode {
        LinkNode::new(self.settings.clone(), self.counters.clone())
    }

    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    #[must_use]
    pub fn counts(&self) -> LinkCounts {
        self.counters.counts()
    }
}
