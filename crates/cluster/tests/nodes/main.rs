//! Nodes with an application over real sockets, each in its own runtime, on one embedded engine.
//! `breme_session::history` checks what clients saw.

#![allow(clippy::unwrap_used)]

mod application;
mod client;
mod held;
mod host;
mod one;
mod several;
mod trust;
