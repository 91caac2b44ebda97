//! The simulation passes the suite of all drivers, plays alike from the same seed, and finds nodes that are wrong.

mod determinism;
mod faults;
mod securing;
mod suite;
mod world;
mod wrong_nodes;
