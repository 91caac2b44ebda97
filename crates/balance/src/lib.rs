//! Load balancing: policies, affinity, health.
//!
//! A [`Group`] is shared by all shards. It makes a [`Choice`] for each request and receives its [`UpstreamOutcome`]:
//!
//! ```text
//!                       choose (hints)
//!   request ──────────────────────────────────► Group
//!           ◄──────────────────────────────────   │ reads: Snapshot, replaced at each change (no lock, no allocation)
//!             Choice (upstream, address, cookie)  │ counts: Upstream, atomics
//!                       finished (outcome)        │
//!           ──────────────────────────────────►   │ rarely: GroupState, behind a lock
//!                                                 │   list, drain, checks, ejection, slow start ─► a new Snapshot
//!   health checks ◄── checks_due, check_done ──►  │
//!   logs, /metrics ◄── take_changes, states ───   │
//! ```
//!
//! It performs no I/O: instants and random numbers are arguments. The proxy performs health checks.
//!
//! | file | contents |
//! |---|---|
//! | `settings`, `error`, `status_set` | settings, their validation, sets of status codes |
//! | `group`, `choice` | choosing an upstream for a request, and the report of its outcome |
//! | `policy`, `rotation` | the policies; the cycle of round robin |
//! | `affinity`, `affinity_cookies` | cookies by which clients return to an upstream |
//! | `upstream`, `latency` | what each request changes: counters and the latency estimate |
//! | `health_checks`, `check_state`, `ejection`, `slow_start` | active and passive health checks; growing weights |
//! | `control`, `changes` | new lists and draining; events for logs |
//! | `group_state`, `snapshot` | the state behind the lock; what requests read of it |
//!
//! ```
//! use breme_balance::{Group, GroupSettings, Hints, UpstreamOutcome, UpstreamSettings};
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
//! group.finished(now, choice.upstream, UpstreamOutcome::Responded { status: 200, latency: Duration::from_millis(1) });
//! # Ok::<(), breme_balance::GroupError>(())
//! ```

mod affinity;
mod affinity_cookies;
mod changes;
mod check_state;
mod choice;
mod control;
mod ejection;
mod error;
mod group;
mod group_state;
mod health_checks;
mod latency;
mod policy;
mod rotation;
mod settings;
mod slow_start;
mod snapshot;
mod status_set;
mod upstream;

pub use affinity::{Affinity, AffinityKey};
pub use affinity_cookies::OwnCookie;
pub use changes::{CHANGES_MAX, Change, EjectionReason, Event};
pub use check_state::{CheckOutcome, CheckTotals};
pub use choice::{Choice, Hints, NoChoice};
pub use control::{UpstreamState, UpstreamStatus};
pub use error::{GroupError, UPSTREAMS_MAX, WEIGHT_MAX};
pub use group::Group;
pub use group_state::{LEAVING_MAX, ListChange};
pub use health_checks::{CHECKS_MAX, Check, CheckId};
pub use settings::{EjectionSettings, GroupSettings, HealthSettings, Policy, UpstreamSettings};
pub use status_set::{StatusSet, StatusSetError};
pub use upstream::{UpstreamId, UpstreamOutcome, UpstreamTotals};
