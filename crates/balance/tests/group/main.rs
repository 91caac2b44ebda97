//! Groups as used by shards: through their public interface, in virtual time.
#![allow(clippy::unwrap_used)]

mod affinity;
mod concurrency;
mod health;
mod histories;
mod latencies;
mod membership;
mod policies;
mod world;
