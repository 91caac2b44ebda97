//! Subjects, the systems under test: started, supervised, stopped, and measured by instruments while they run.
//!
//! | module | what |
//! |---|---|
//! | `keeping` | supervised processes, which cannot outlive the laboratory |
//! | `control_group` | resource limits, where the system permits them |
//! | `subject` | starting and stopping subjects |
//! | `instruments` | what subjects, generators and the machine use while they run |
//! | `discovery` | the address at which a command serves, found by starting it once; ports that listen |
//! | `folder` | the working folders of processes |
//! | `process_table` | `/proc` |
//!
//! ```no_run
//! # use breme_subject::*;
//! # fn trial(spec: &breme_experiment::trial::SubjectSpec, folder: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
//! let launcher = Launcher::new(Keeper::this_program(&["keep"]), std::env::current_exe()?, Hierarchy::find());
//! let mut subject = launcher.start(spec, folder, &[0], &PlaceholderNames::default())?;
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
//! It leaves HTTP to `breme-http-client`, and knows neither the order of trials nor the results of loads. Linux only:
//! other systems can neither supervise nor measure processes like this.
#![cfg(target_os = "linux")]

mod control_group;
mod discovery;
mod folder;
mod instruments;
mod keeping;
mod process_table;
mod subject;

pub use control_group::{FreezeError, GroupError, Hierarchy, LimitError};
pub use discovery::{DiscoveryError, ERROR_STATUS_MIN, listening_ports, status_of};
pub use folder::{FolderError, write as write_file};
pub use instruments::{
    ExpositionError, ExternalLocator, ExternalProcesses, ExternalUsage, HEADER as INSTRUMENTS_HEADER, INTERVAL,
    Instruments, Readings, ScrapeError, Window, machine, scrape,
};
pub use keeping::{
    ExitInfo, Keeper, SpawnError, SpawnSpec, StopError, SupervisedProcess, find_program, keep,
    missing as missing_program,
};
pub use subject::{
    CommandError, FaultError, FillError, Launcher, NoPort, PlaceholderNames, Ports, ResetActionError, ResetError,
    RestartError, StartError, Subject, TokenError, TokenFileProblem, UnknownSignal, accepts_connections, pick_ports,
};
