//! Simulated weeks in virtual time: sizes, outages to the probe, kills at random, findings and false alarms.

#![allow(clippy::unwrap_used, reason = "a fault of the test ends it")]

mod judging;
mod keeping;
mod world;
