//! A driver without sockets: nodes in virtual time, on a network whose behaviour is drawn from one seed.
//!
//! The same nodes run as on the other drivers, under the same contract (`breme-node`), but minutes take milliseconds,
//! segments are split and joined anywhere, windows are small, readers slow, connections refused, reset or silent, and
//! each failure can be reproduced from its seed.
//!
//! ```text
//!   seed ──► Random ──┬── delays, cuts, windows, rates, short reads, lateness
//!                     └── refusals, resets, silence
//!
//!   event queue: next event ──► time jumps to it ──► what it moves ──► its node ──► actions ──► more events
//!
//!   node ─► queue ─► [ wire: a bounded window ] ─► inbox ─► node
//!        node_calls.rs        wire.rs              wire.rs
//! ```
//!
//! It knows no HTTP and no role, opens nothing and reads no clock (of files, it reads the ranges that nodes send). It
//! is stricter than other drivers: a node that consumes more than it was lent, sends after finishing, or wakes a shard
//! that does not exist, panics with its name. A run without a due event while a node is not done, or without end, is
//! reported ([`Stuck`]). If a test fails while its [`Simulation`] exists, the last events are printed.
//!
//! | preset | tests |
//! |---|---|
//! | [`Network::calm`] | the basic function |
//! | [`Network::rough`] | cuts, delays, small windows and slow readers: nothing is lost, so nothing may fail |
//! | [`Network::bytewise`] | the same, byte by byte |
//! | [`Network::nasty`] | refused, reset and silent connections: each ends once, and nothing waits forever |
//!
//! # Example
//!
//! A test is a closure that builds hosts from a seed, runs them, and checks the returned nodes:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use breme_sim::{Network, Simulation, seeds};
//! use breme_testkit::{Client, ContractChecker, Echo, Script, Surroundings};
//!
//! seeds(20, |seed| {
//!     let network = Network::rough();
//!     let lent_bytes_max = network.lent_bytes_max;
//!     let mut simulation = Simulation::new(seed, network);
//!
//!     // Any node: here the echo of the test kit, checked against the contract.
//!     let server = simulation.serve("server", 1, |_shard| ContractChecker::new(Echo::new(), lent_bytes_max));
//!     let surroundings = Surroundings {
//!         server: simulation.address(server).into(),
//!         nobody: Simulation::nobody(),
//!         stop_server: Arc::new({
//!             let stopper = simulation.stopper(server);
//!             move || stopper.stop()
//!         }),
//!     };
//!     // A client is a host without a listener; the run lasts until all of them have exited.
//!     let client = simulation.client("client", 1, |_shard| {
//!         let script = Script::new().connect().send("hello").expect("hello").part();
//!         Client::new(&surroundings, Duration::from_secs(60), vec![script])
//!     });
//!
//!     simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
//!
//!     assert_eq!(simulation.take(client)[0].failures(), [""; 0]);
//!     assert_eq!(simulation.take(server)[0].final_violations(), [""; 0]);
//! });
//! ```
//!
//! [`seeds`] prints the seed that fails. `BREME_SIM_SEED=17 cargo test …` runs that seed only, `BREME_SIM_SEEDS=5000`
//! runs more.

mod connect;
mod event_queue;
mod host;
mod link;
mod network;
mod node_calls;
mod seeds;
mod simulation;
mod trace;
mod wire;

pub use host::{Host, Stopper};
pub use network::{AmountRange, Cuts, DurationRange, Faults, Network};
pub use seeds::{ONE_SEED, SEED_COUNT, seeds};
pub use simulation::{Simulation, Stuck, Summary};
pub use trace::Trace;
