//! Real processes: started, watched, and stopped so that none is left.

#![allow(clippy::unwrap_used)] // in a test, a panic with its place is the report

mod ending;
mod faults;
mod instruments;
mod limits;
mod starting;
mod tokens;
mod world;
