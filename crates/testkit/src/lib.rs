//! Test nodes for drivers, and the **suite** that every driver passes.
//!
//! Several drivers implement the contract of `breme-node`: threads, readiness, completion, and the simulation. A node
//! must not be able to distinguish them. So the cases are written once, with all assertions, and each driver only
//! implements how to run a server and a client node ([`World`]).
//!
//! ```text
//!   suite::all()        one Case = server node + client scripts + assertions
//!      │
//!      ├── ContractChecker<N>   around both nodes: does the driver keep the contract in every call?
//!      ├── Echo, FixedResponder, PausingServer …      servers
//!      └── Client       runs Scripts: connect, send, expect, finish, pause, close …, with a timeout
//!             │
//!           World       threads · events · uring · sim
//! ```
//!
//! This crate depends on no driver and no HTTP. A driver's test file is some ten lines: an implementation
//! of [`World`], and
//!
//! ```text
//! breme_testkit::suite_tests!(MyWorld::new());
//! ```
//!
//! which generates one test per case. [`ContractChecker`] is also useful around a role in a simulation: it shows
//! whether a failure is the driver's.

mod client;
mod content;
mod contract_checker;
mod echo;
mod fixed_responder;
mod published_schema;
mod reserved_address;
mod script;
mod slow_servers;
pub mod suite;
mod wakes;
mod world;

pub use client::Client;
pub use content::TestContent;
pub use contract_checker::{CallRecord, ContractChecker};
pub use echo::{ConsumePolicy, Echo, ResumePolicy};
pub use fixed_responder::{AfterResponse, FixedResponder, ResponsePart, ResponseTrigger};
pub use published_schema::check_published;
pub use reserved_address::reserved_address;
pub use script::{Ending, Gate, Script};
pub use slow_servers::{LineServer, PausingServer};
pub use wakes::Wakes;
pub use world::{NodeCounts, Played, Surroundings, World, WorldLimits};
