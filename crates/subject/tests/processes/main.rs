//! Real processes: started, watched, and stopped so that none is left.

#![allow(clippy::unwrap_used)] // in a test, a panic with its place is the report

mod faults;
mod instruments;
mod launch;
mod limits;
mod orphans;
mod tokens;
mod world;
