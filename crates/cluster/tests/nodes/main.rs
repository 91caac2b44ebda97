//! Nodes with an application over real sockets, each in a runtime of its own, on one embedded engine. What clients saw
//! is judged by `breme_session::history`.

#![allow(clippy::unwrap_used)]

mod application;
mod client;
mod host;
mod one;
mod several;
mod trust;
