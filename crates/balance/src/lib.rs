//! Which upstream a request goes to: policies, affinity, health.
//!
//! A [`Group`] is shared by all shards. For each request it is asked for a [`Choice`] and told how the request ended:
//!
//! ```text
//!                       choose (hints)
//!   request ──────────────────────────────────► Group
//!           ◄──────────────────────────────────   │ reads: Roster, a picture made anew at each change (no lock, no allocation)
//!             Choice (upstream, address, cookie)  │ counts: Upstream, atomics
//!                       finished (outcome)        │
//!           ──────────────────────────────────►   │ seldom: Registry, behind a lock
//!                                                 │   list, drain, checks, ejection, slow start ─► a new Roster
//!   health checks ◄── checks_due, check_done ──►  │
//!   logs, /metrics ◄── take_changes, states ───   │
//! ```
//!
//! Pure: the instant and the random number are arguments; it opens no connection. Whoever performs the checks asks what
//! is due and tells what came.
//!
//! ```
//! use breme_balance::{Group, GroupSettings, Hints, Outcome, UpstreamSettings};
//! use breme_base::{Instant, Random};
//! use std::time::Duration;
//!
//! let upstream = |port: u16| UpstreamSettings {
//!     name: format!("127.0.0.1:{port}"),
//!     tls: false,
//!     addresses: vec![([127, 0, 0, 1], port).into()],
//!     weight: 1,
//!     route: None,
//! };
//! let group = Group::new(GroupSettings::default(), vec![upstream(8081), upstream(8082)])?;
//! let (now, mut random) = (Instant::ZERO, Random::new(1));
//! let choice = group.choose(now, &Hints::default(), &mut random).expect("both are up");
//! assert_eq!(&*choice.name, "127.0.0.1:8081");
//! group.finished(now, choice.upstream, Outcome::Answered { status: 200, latency: Duration::from_millis(1) });
//! # Ok::<(), breme_balance::GroupError>(())
//! ```

mod affinity;
mod changes;
mod checks;
mod choice;
mod control;
mod ejection;
mod error;
mod group;
mod latency;
mod policy;
mod registry;
mod roster;
mod rotation;
mod settings;
mod status_set;
mod stickiness;
mod upstream;

pub use affinity::{Affinity, AffinityKey};
pub use changes::{CHANGES_MAX, Change, EjectionReason, Event};
pub use checks::{CHECKS_MAX, Check, CheckId, CheckOutcome, CheckTotals};
pub use choice::{Choice, Hints, NoChoice};
pub use control::{Standing, UpstreamState};
pub use error::{GroupError, UPSTREAMS_MAX, WEIGHT_MAX};
pub use group::Group;
pub use registry::{LEAVING_MAX, Replaced};
pub use settings::{EjectionSettings, GroupSettings, HealthSettings, Policy, UpstreamSettings};
pub use status_set::{StatusSet, StatusSetError};
pub use stickiness::OwnCookie;
pub use upstream::{Outcome, UpstreamId, UpstreamTotals};
