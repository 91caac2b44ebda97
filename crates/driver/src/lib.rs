//! Drivers: they move bytes between sockets and nodes.
//!
//! | driver | threads | a thread serves | waits by |
//! |---|---|---|---|
//! | [`DriverKind::Uring`] | one per shard | many connections | completion (io_uring, Linux) |
//! | [`DriverKind::Events`] | one per shard | many connections | readiness, edge-triggered (epoll, kqueue) |
//! | [`DriverKind::Threads`] | a pool and an acceptor | one accepted connection at a time, and those that its node opens | poll(2) |
//!
//! A pool thread serves one accepted connection at a time, a shard of the others up to
//! [`DriverSettings::connections_max`]. At that limit idle connections block new ones, so drivers notify their nodes
//! while connections wait ([`handle_pressure`](breme_node::Node::handle_pressure)).
//!
//! All drivers implement the contract of [`breme_node`] and pass the same tests. They know neither HTTP nor roles, and
//! share the engine, so that only the I/O architecture differs:
//!
//! ```text
//!   uring.rs    ┐
//!   events.rs   ├─ engine.rs ──── connection.rs ── transport.rs ── (tls/) ── the kernel
//!   threads.rs  ┘      │                  └ send_queue.rs
//!                 the node        (io_backend.rs: the I/O that differs between the drivers)
//!   handle.rs: start, stop, wake, join ── control.rs: state shared by threads
//! ```
//!
//! A request on `events`: `events.rs: run` → `engine.rs: handle_readiness` → `receive` → `lend` → the node →
//! `run_actions` → `send` → `connection.rs: send_directly`. On `uring`: `uring.rs: run` →
//! `engine/receive_completion.rs: handle_receive_completion` → `lend` → the node → `run_actions` → `send` →
//! `engine/send_batch.rs: batch_send`, submitted with the next turn.
//!
//! ```
//! use breme_driver::{Clock, DriverKind, DriverSettings, Listener, start};
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
//! let settings = DriverSettings { threads: 1, ..DriverSettings::default() };
//! let listener = Listener::bind(std::net::SocketAddr::from(([127, 0, 0, 1], 0)), &settings)?;
//! let address = listener.address().tcp().ok_or("no address")?;
//! let driver = start(DriverKind::Events, vec![listener], &settings, Clock::start(), |_shard| Echo)?;
//!
//! let mut client = std::net::TcpStream::connect(address)?;
//! std::io::Write::write_all(&mut client, b"hello")?;
//! client.shutdown(std::net::Shutdown::Write)?;
//! assert_eq!(std::io::read_to_string(&client)?, "hello");
//!
//! driver.stopper().drain();
//! assert!(driver.join().iter().all(Result::is_ok));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "completion is for Linux only"))]

mod accept;
mod connection;
mod control;
mod counters;
mod engine;
mod events;
mod handle;
mod heap_trim;
mod io_backend;
mod listener;
mod read_rate;
mod send_queue;
mod settings;
mod socket;
mod threads;
mod tls;
mod transport;
mod unix_sockets;
#[cfg(target_os = "linux")]
mod uring;
mod wake_fd;

pub use breme_sys::uring::{UringUnavailable, probe_uring};
pub use breme_sys::{Address, Clock};
pub use control::MailboxFull;
pub use counters::{CloseKind, ShardCounters};
pub use handle::{CounterReader, DriverHandle, ShardPanic, StartError, Stopper, Waker, check, start};
pub use listener::{BindError, Listener};
pub use settings::{DriverKind, DriverSettings, RECEIVE_CHUNK_BYTES_MAX, UnknownDriver};
pub use tls::{
    CertificateValidity, ClientOptions, ClientTls, Identity, IdentityError, Negotiated, ServerTls, TlsClients,
    TlsSetupError, TlsVersion, Trust,
};
pub use unix_sockets::UnixSockets;
