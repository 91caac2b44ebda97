//! Experiment files: what is read, refused with its remedy, planned and derived.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what fails here is the test")]

mod examples;
mod faults;
mod mistakes;
mod plan;
mod resets;
mod world;
