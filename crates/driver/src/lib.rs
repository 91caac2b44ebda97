//! Drivers: they move bytes between sockets and nodes.
//!
//! | driver | threads | a thread serves | waits by |
//! |---|---|---|---|
//! | [`Kind::Uring`] | one per shard | many connections | completion (io_uring, Linux) |
//! | [`Kind::Events`] | one per shard | many connections | readiness, edge-triggered (epoll, kqueue) |
//! | [`Kind::Threads`] | a pool and an acceptor | one accepted connection at a time, and those that its node opens | poll(2) |
//!
//! A thread of a pool has a place for one connection, a shard of the others for [`Settings::connections_max`]. Where
//! all places are taken, idle connections shut others out: so the drivers tell their nodes while connections wait
//! ([`handle_pressure`](breme_node::Node::handle_pressure)).
//!
//! All keep the rules of [`breme_node`] and pass the same tests. They know no HTTP and no role; what they share is
//! the engine, so that only the architecture differs:
//!
//! ```text
//!   uring.rs    ┐              ┌ connection.rs ── transport.rs ── (tls/) ── the kernel
//!   events.rs   ├─ engine.rs ──┤       └ queue.rs
//!   threads.rs  ┘      │       └ table.rs
//!                 the node        (port.rs: what the engine asks of the driver that carries it)
//!   running.rs: start, stop, wake, join ── control.rs: what threads share
//! ```
//!
//! A request, on `events`: `events.rs: run` → `engine.rs: handle_readiness` → `receive` → `lend` → the node →
//! `run_actions` → `send` → `connection.rs: send_directly`. On `uring`: `uring.rs: run` →
//! `engine/arrivals.rs: handle_arrival` → `lend` → the node → `run_actions` → `send` → `engine/gathering.rs: gather`,
//! and with the next turn to the kernel.
//!
//! ```
//! use breme_driver::{Clock, Kind, Listener, Settings, start};
//! use breme_node::{Accepted, Actions, Close, CloseReason, ConnectionId, Node, Received};
//! use breme_base::Instant;
//!
//! struct Echo;
//!
//! impl Node for Echo {
//!     fn handle_accepted(&mut self, _: Instant, _: ConnectionId, _: Accepted, _: &mut Actions) {}
//!     fn handle_received(&mut self, _: Instant, id: ConnectionId, received: Received<'_>, actions: &mut Actions) -> usize {
//!         actions.send(id).extend_from_slice(received.bytes);
//!         if received.ended {
//!             actions.close(id, Close::Graceful);
//!         }
//!         received.bytes.len()
//!     }
//!     fn handle_closed(&mut self, _: Instant, _: ConnectionId, _: CloseReason, _: &mut Actions) {}
//!     fn handle_stopping(&mut self, _: Instant, _: &mut Actions) {}
//! }
//!
//! let settings = Settings { threads: 1, ..Settings::default() };
//! let listener = Listener::bind("127.0.0.1:0".parse()?, &settings)?;
//! let address = listener.address();
//! let running = start(Kind::Events, vec![listener], &settings, Clock::start(), |_shard| Echo)?;
//!
//! let mut client = std::net::TcpStream::connect(address)?;
//! std::io::Write::write_all(&mut client, b"hello")?;
//! client.shutdown(std::net::Shutdown::Write)?;
//! assert_eq!(std::io::read_to_string(&client)?, "hello");
//!
//! running.stopper().drain();
//! assert!(running.join().iter().all(Result::is_ok));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "completion is for Linux only"))]

mod acceptance;
mod bell;
mod connection;
mod control;
mod engine;
mod events;
mod exactness;
mod listener;
mod memory_return;
mod outside;
mod port;
mod queue;
mod running;
mod settings;
mod socket;
mod table;
mod threads;
mod tls;
mod transport;
#[cfg(target_os = "linux")]
mod uring;

pub use breme_sys::Clock;
pub use breme_sys::uring::{UringLack, probe_uring};
pub use control::{End, MailboxFull, ShardCounters};
pub use engine::RECEIPT_BYTES_MAX;
pub use listener::{BindError, Listener};
pub use running::{Counting, Running, ShardPanic, StartError, Stopper, Waker, check, start};
pub use settings::{Kind, Settings, UnknownKind};
pub use tls::{
    ClientOptions, ClientTls, Identity, IdentityError, Negotiated, ServerTls, TlsClients, TlsSetupError, TlsVersion,
    Trust, Validity,
};
