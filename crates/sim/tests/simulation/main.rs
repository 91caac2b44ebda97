//! The simulation passes the suite of all drivers, is deterministic, and detects wrong nodes.

mod determinism;
mod faults;
mod start_tls;
mod suite;
mod world;
mod wrong_nodes;
