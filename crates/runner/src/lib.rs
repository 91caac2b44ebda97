//! Runs experiments: conducts their trials, one after another ([`conduct()`]), and keeps the journal of the run.
//!
//! | module | what |
//! |---|---|
//! | `preflight` | what would keep the trials from starting |
//! | `conduct` | the run, trial by trial |
//! | `placement` | assignment of CPUs |
//! | [`journal`] | the folder of a run, append-only |
//! | `versions`, `revision` | what is measured: versions of programs, the commit of the working tree |
//!
//! It leaves processes and instruments to `breme-subject`, and does not interpret the results of an experiment. Linux
//! only, as they are.
#![cfg(target_os = "linux")]

mod conduct;
pub mod journal;
mod placement;
mod preflight;
mod program_output;
mod revision;
mod versions;

pub use conduct::{PrepareError, Progress, RunError, conduct};
pub use placement::PlacementError;
pub use preflight::{CheckFiles, preflight};
pub use revision::revision;
pub use versions::subject_versions;
