//! Tests of the protocol's requirements on each engine.

#![allow(clippy::unwrap_used)]

mod contract;
mod embedded;
mod nats;
mod nats_engine;
mod nats_servers;
