//! The server's side of accepted connections, common to origin, proxy and admin: timeouts of idle and slow clients,
//! eviction under connection pressure, graceful shutdown. The roles decide what is served: they call a [`Connection`]
//! and their [`ServerShard`], and are never called by them.
//!
//! ```text
//!                  ┌──────────────── response complete ─────────────────┐
//!                  ▼                                                    │
//!   accepted ──► Idle ──► Head ──► Exchange, with the role's deadlines ─┤
//!                           ▲                                           │
//!                           └────────────────── Drained ◄───────────────┘ content is left
//! ```
//!
//! | event of the node | here | then the role |
//! |---|---|---|
//! | accepted | [`Connection::new`], [`ServerShard::wait_for_more`] | |
//! | received | [`Connection::begin_receiving`], then [`receive`](Connection::receive) and [`wait_for_more`] | handles the items; [`begin_exchange`](Connection::begin_exchange) at each head |
//! | a response is to begin | [`ServerShard::announce_close`] | writes it |
//! | … is complete, later | [`ServerShard::continue_connection`] | |
//! | sent | [`ServerShard::handle_queue`] | pauses or continues its exchange |
//! | deadline | [`ServerShard::expire`]; [`Pressure::rise`](breme_node::Pressure::rise) | handles those of its exchange |
//! | pressure | [`ServerShard::change_pressure`] | adapts the deadlines of exchanges |
//! | closed | [`ServerShard::handle_closed`] | |
//! | stopping | [`ServerShard::stop`], then [`wait_for_more`] | |
//!
//! What the role must do next is a [`NextStep`]. This crate knows neither what is served, nor clocks, sockets and
//! threads.
//!
//! [`wait_for_more`]: ServerShard::wait_for_more

mod cached_date;
mod connection;
mod connections;
mod content_progress;
mod shard;

pub use cached_date::CachedDate;
pub use connection::{Connection, is_turn_over};
pub use connections::Connections;
pub use content_progress::ContentProgress;
pub use shard::{NextStep, ServerShard};
