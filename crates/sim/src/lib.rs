//! A driver without sockets: nodes in a world of virtual time, in which everything that a network does is drawn from
//! one seed.
//!
//! The same nodes that work on threads or on readiness work here, by the same contract (`breme-node`); but a run of
//! minutes takes milliseconds, segments are cut and joined anywhere, windows are small, readers slow, connections
//! refused, reset and silenced, and a failure comes again whenever its seed is played again.
//!
//! ```text
//!   seed ──► Random ──┬── delays, cuts, windows, rates, short reads, lateness
//!                     └── refusals, resets, silence
//!
//!   agenda: the next event ──► time jumps to it ──► what it moves ──► the node that it concerns ──► its actions ──► more events
//!
//!   node ─► queue ─► [ wire: a bounded window ] ─► inbox ─► node
//!           calls.rs          wire.rs              wire.rs
//! ```
//!
//! It knows no HTTP and no role, opens nothing and reads no clock (of files, it reads the ranges that a node sends). It
//! is stricter than the other drivers: a node that takes more than it was lent, sends after it has finished its
//! sending, or wakes a shard that is not there, ends the run with a panic that names it. A run in which nothing is due
//! while somebody still waits, or that does not end, is reported ([`Stuck`]). When a test fails while its
//! [`Simulation`] is alive, the last events are printed.
//!
//! | preset | what it shows |
//! |---|---|
//! | [`Network::calm`] | that it works at all |
//! | [`Network::rough`] | that no cut, delay, small window or slow reader matters: nothing is lost, so nothing may fail |
//! | [`Network::bytewise`] | the same, with each byte alone |
//! | [`Network::nasty`] | that refused, reset and silent connections are borne: each ends once, and nobody waits for ever |
//!
//! # Example
//!
//! A test of a client against a server is a closure that builds a world from a seed, runs it, and asserts on the nodes
//! that come back:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use breme_sim::{Network, Simulation, seeds};
//! use breme_testkit::{Client, Echo, Script, Surroundings, Watched};
//!
//! seeds(20, |seed| {
//!     let network = Network::rough();
//!     let lent_bytes_max = network.lent_bytes_max;
//!     let mut simulation = Simulation::new(seed, network);
//!
//!     // Any node: here the echo of the test kit, watched for broken rules.
//!     let server = simulation.serve("server", 1, |_shard| Watched::new(Echo::new(), lent_bytes_max));
//!     let surroundings = Surroundings {
//!         server: simulation.address(server).into(),
//!         nobody: Simulation::nobody(),
//!         stop_server: Arc::new({
//!             let stopper = simulation.stopper(server);
//!             move || stopper.stop()
//!         }),
//!     };
//!     // A client is a host that does not listen; the run lasts until all of them have exited.
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
//! [`seeds`] prints the seed that fails. `BREME_SIM_SEED=17 cargo test …` plays that seed alone, `BREME_SIM_SEEDS=5000`
//! plays more.

mod agenda;
mod calls;
mod dial;
mod host;
mod link;
mod network;
mod seeds;
mod simulation;
mod trace;
mod wire;

pub use host::{Host, Stopper};
pub use network::{Amounts, Cuts, Faults, Network, Times};
pub use seeds::{ONE_SEED, SEED_COUNT, seeds};
pub use simulation::{Simulation, Stuck, Summary};
pub use trace::Trace;
