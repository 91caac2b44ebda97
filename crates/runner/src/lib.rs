//! The world of an experiment: systems under test that are started and kept, and the instruments that watch them.
//!
//! | module | what |
//! |---|---|
//! | `keeping` | a process, with all that it starts, that cannot be left behind |
//! | `control_group` | what a subject may use, where the system lets us limit it |
//! | `subject` | from what the plan says to a subject that is ready, and back |
//! | `placement` | who runs on which processors |
//! | `instruments` | what subjects, generators and the machine use meanwhile |
//! | [`journal`] | the folder of a run, to which is only added |
//! | `discovery` | the address at which a command serves, found by starting it once |
//! | `conduct` | all of it together: trial after trial |
//! | `asking` | single requests: is it ready, what does it count |
//! | `process_table` | `/proc` |
//!
//! ```no_run
//! # use breme_runner::*;
//! # fn trial(spec: &breme_experiment::trial::SubjectSpec, folder: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
//! let launcher = Launcher::new(Keeper::this_program(&["keep"]), std::env::current_exe()?, Hierarchy::find());
//! let mut subject = launcher.start(spec, folder, &[0], &Names::default())?;
//! let instruments = Instruments::start(&folder.join("instruments.csv"), INTERVAL)?;
//! instruments.watch_subject(subject.name(), subject.kept(), subject.metrics_url())?;
//! instruments.begin(1, INTERVAL);
//! // … the load …
//! let readings = instruments.end();
//! let (from_ns, to_ns) = readings.span_ns();
//! println!("{:?}", readings.window(from_ns, to_ns).subjects[subject.name()]);
//! subject.stop()?;
//! # Ok(())
//! # }
//! ```
//!
//! It knows no HTTP but what a client library does for it, and nothing of what an experiment shows. Linux only: other
//! systems can neither keep nor measure processes like this.
#![cfg(target_os = "linux")]

mod asking;
mod conduct;
mod control_group;
mod discovery;
mod folder;
mod instruments;
pub mod journal;
mod keeping;
mod placement;
mod preflight;
mod process_table;
mod subject;
mod versions;

pub use asking::{fetch, post, post_json};
pub use conduct::{Progress, RunFault, conduct};
pub use control_group::Hierarchy;
pub use instruments::{
    ExternalLocator, ExternalProcesses, ExternalUsage, HEADER as INSTRUMENTS_HEADER, INTERVAL, Instruments, Readings,
    Window, machine, scrape,
};
pub use keeping::{Ending, Keeper, Kept, Order, StartFault, keep};
pub use placement::{GeneratorPlace, Placement, place};
pub use preflight::{CheckFiles, preflight};
pub use subject::{Launcher, Names, Ports, Subject};
pub use versions::subject_versions;
