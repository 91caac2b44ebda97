//! Nodes to test drivers with, and the **suite** that every driver passes.
//!
//! The contract of `breme-node` is kept by several drivers: threads, readiness, completion, and the simulation. They
//! are worth having only if a node cannot tell them apart. So the cases are written once, here, with all their
//! assertions, and each driver only says how it runs a server node and a client node ([`World`]).
//!
//! ```text
//!   suite::all()        one Case = server node + client scripts + what must hold afterwards
//!      │
//!      ├── Watched<N>   around both nodes: is every call that the driver makes allowed by the contract?
//!      ├── Echo, Answering, Reluctant …      the servers
//!      └── Client       plays Scripts: connect, send, expect, finish, pause, close …, bounded by its own deadline
//!             │
//!           World       threads · events · uring · sim
//! ```
//!
//! This crate knows no driver, no sockets and no HTTP. A driver's test file is some ten lines: an implementation of
//! [`World`], and
//!
//! ```text
//! breme_testkit::suite_tests!(MyWorld::new());
//! ```
//!
//! which makes one test of each case. [`Watched`] is of use beyond the suite: around a role in a simulation, it shows
//! whether a failure is the driver's.

mod answering;
mod client;
mod content;
mod echo;
mod gate;
mod published;
mod reluctant;
mod script;
pub mod suite;
mod wakes;
mod watched;
mod world;

pub use answering::{Answering, Part, Then, When};
pub use client::Client;
pub use content::Content;
pub use echo::{Echo, Pace, Taking};
pub use gate::Gate;
pub use published::check_published;
pub use reluctant::{Holding, Reluctant};
pub use script::{Ending, Script};
pub use wakes::Wakes;
pub use watched::{Record, Watched};
pub use world::{Limits, Played, Shape, Surroundings, World};
