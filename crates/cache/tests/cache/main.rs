//! The cache through its public interface, with requests and responses as text and a simulated clock.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what fails here is the test")]

mod admission;
mod bounds;
mod collapse;
mod concurrency;
mod eviction;
mod freshness;
mod invalidation;
mod partial_content;
mod post;
mod reuse;
mod stale;
mod world;
