//! Nodes with an application over real sockets, each in its own runtime, on one embedded engine, or on NATS servers
//! that fail. `breme_session::history` checks what clients saw.

#![allow(clippy::unwrap_used)]

mod application;
mod client;
mod held;
mod host;
mod nats;
#[path = "../engines/nats_engine.rs"]
mod nats_engine;
#[path = "../engines/nats_servers.rs"]
#[allow(dead_code)] // the engines' tests use what these do not
mod nats_servers;
mod one;
mod several;
mod trust;
