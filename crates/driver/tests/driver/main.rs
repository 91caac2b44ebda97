//! What every driver must do, with real sockets. Tests that lower a limit of the process are programs of their own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what fails here is the test")]

mod close;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod lifecycle;
mod pressure;
mod receive;
mod send;
mod start_tls;
mod suite;
mod tls;
