//! Turns the text of an experiment file into all trials of a run.
//!
//! ```text
//!  text ──► tree ──► profile laid over ──► for every combination: levels filled in ──► subjects, workloads, resets checked
//!                                    └──► hypotheses, measures, published figures, models, search
//! ```
//!
//! Every combination is resolved when the file is read, so that all errors are reported at once and before anything
//! starts. A trial is resolved again when it is due; the same text results in the same trial.

mod blocks;
mod combinations;
mod document;
mod estimate;
mod factors;
mod faults;
mod foreign;
mod gate;
mod measures;
mod model;
mod names;
mod order;
mod questions;
mod quick;
mod read;
mod repeats;
mod request;
mod resets;
mod resolve;
mod resolver;
mod roles;
mod run;
mod subject;
mod warnings;
mod workload;
mod workload_draft;

pub use self::blocks::{Blocks, ExtensionError};
pub use self::estimate::Estimate;
pub use self::factors::{COMBINATION_COUNT_MAX, LevelRange};
pub use self::gate::{Gate, GateError, GatedMeasure, MARGIN_DEFAULT};
pub use self::measures::PlanMeasure;
pub use self::model::{Plan, PlanFactor, SearchLength};
pub use self::questions::{ModelKind, PlanHypothesis, PlanModel, PlanPublished, PlanSearch};
pub use self::read::EXPERIMENT_BYTES_MAX;
pub use self::repeats::{Attempts, Repeat};
pub use self::resolver::Surroundings;
pub use self::roles::{Flag, Role, RoleReset, Roles};
#[cfg(test)]
pub(crate) use self::subject::KEYS as SUBJECT_KEYS;
pub use crate::file::schema::schema;
pub use breme_toml::Diagnostics;
