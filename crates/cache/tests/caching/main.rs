//! The cache through its public interface: requests and answers as text, time as a number.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what fails here is the test")]

mod bounds;
mod collapsing;
mod eviction;
mod freshness;
mod interleaving;
mod invalidating;
mod parts;
mod posting;
mod reusing;
mod stale;
mod world;
