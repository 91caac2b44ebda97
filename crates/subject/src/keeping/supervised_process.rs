//! A supervised process, as seen by the laboratory.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use breme_experiment::trial::ResourceLimits;
use thiserror::Error;

use super::captured_output::CapturedOutput;
use super::exit::ExitInfo;
use super::message::{Program, Wish, send};
use super::program::{find_program, missing};
use super::watcher::{SharedProcessState, Watcher};
use crate::control_group::{self, Group, GroupError, Hierarchy, RunFolders};

/// Time limit of the keeper to start a program.
const START_WITHIN: Duration = Duration::from_secs(20);
/// Time limit of the keeper to kill; its own limit is slightly shorter.
const KILL_WITHIN: Duration = Duration::from_secs(12);
/// The standard input of a program; a minimal root file system may lack it.
const NULL: &str = "/dev/null";

/// The keeper's program: this one with a hidden command, or another.
#[derive(Clone, Debug)]
pub struct Keeper {
    program: PathBuf,
    arguments: Vec<String>,
}

/// What to start.
#[derive(Clone, Debug, Default)]
pub struct SpawnSpec {
    /// Its name in messages.
    pub name: String,
    pub command: Vec<String>,
    /// In addition to this process's own.
    pub environment: Vec<(String, String)>,
    /// Its working folder.
    pub folder: PathBuf,
    /// The file for its output: stdout and stderr interleaved, bounded.
    pub output: PathBuf,
    /// A separate file for stdout, unbounded.
    pub standard_output: Option<PathBuf>,
    /// Its CPUs; empty: all.
    pub cpus: Vec<usize>,
    /// Its resource limits.
    pub limits: ResourceLimits,
    /// Texts to look for in its output.
    pub wanted_lines: Vec<String>,
}

/// Why a program could not be started.
#[derive(Debug, Error)]
pub enum SpawnError {
    /// With a remedy.
    #[error("could not be started: {0}")]
    Missing(String),
    /// A soft limit may be raised to the hard one; only root may exceed it.
    #[error(
        "could not be started: it requires {wanted} open files, but only {hard} are allowed; raise the limit with `ulimit -Hn {wanted}` as root"
    )]
    OpenFiles { wanted: u64, hard: u64 },
    #[error("could not be started: {0}")]
    Group(#[from] GroupError),
    #[error("could not be started: {0}")]
    Io(#[from] io::Error),
    #[error("could not be started: its supervising process ({0}) ended or did not respond")]
    Keeper(PathBuf),
    #[error("could not be started: there is no folder {0}")]
    NoFolder(PathBuf),
    #[error("could not be started: there is no {NULL}, its standard input; mount /dev")]
    NoNull,
    #[error("could not be started: {0} exists, but the interpreter in its first line does not")]
    NoInterpreter(PathBuf),
    #[error("could not be started: {0} is not an executable; a script needs a first line like #!/bin/sh")]
    NotExecutable(PathBuf),
    #[error("could not be started: {program}: none of the processors {cpus:?} can be used ({what})")]
    Cpus { program: PathBuf, cpus: Vec<usize>, what: String },
    /// Any other reason of the system.
    #[error("could not be started: {program}: {what}")]
    Refused { program: PathBuf, what: String },
}

/// Processes that could not be killed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StopError {
    #[error("{name} could not be ended within {} s", .within.as_secs())]
    TooLate { name: String, within: Duration },
    #[error("processes of {name} could not be killed: {processes:?}")]
    Stuck { name: String, processes: Vec<u32> },
}

/// A running process with its descendants, killed on drop.
#[derive(Debug)]
pub struct SupervisedProcess {
    name: String,
    pid: u32,
    keeper: Child,
    channel: UnixStream,
    shared: Arc<SharedProcessState>,
    watcher: Option<JoinHandle<()>>,
    group: Vec<PathBuf>,
    /// Held as long as the group is in these folders.
    _run: Arc<RunFolders>,
}

impl Keeper {
    /// This program with these arguments.
    #[must_use]
    pub fn this_program(arguments: &[&str]) -> Self {
        // Remains the same program if the file is replaced meanwhile.
        Self {
            program: PathBuf::from("/proc/self/exe"),
            arguments: arguments.iter().map(|&text| text.to_owned()).collect(),
        }
    }

    /// Another program, whose main function is [`keep`](super::keep).
    #[must_use]
    pub fn program(path: &Path) -> Self {
        Self { program: path.to_owned(), arguments: Vec::new() }
    }

    /// Starts a program under a keeper.
    ///
    /// # Errors
    /// If the program cannot be started, or a limit cannot be set.
    pub fn start(&self, order: &SpawnSpec, hierarchy: &Hierarchy) -> Result<SupervisedProcess, SpawnError> {
        let command = order.command.first().map_or("", String::as_str);
        let Some(program) = find_program(command, &order.folder) else {
            return Err(SpawnError::Missing(missing(command, &order.folder)));
        };
        check_open_files(&order.limits)?;
        let group = hierarchy.make(&order.name, &order.limits)?;
        let kept = self.start_in(order, &program, &group);
        if kept.is_err() {
            control_group::remove(&group.folders);
        }
        let mut kept = kept?;
        match kept.shared.wait(START_WITHIN, |state| state.started.clone().or_else(|| state.is_gone.then_some(Ok(0)))) {
            Some(Ok(pid)) if pid > 0 => {
                kept.pid = pid;
                Ok(kept)
            }
            Some(Err((errno, what))) => Err(explain(errno, what, program, order)),
            _ => Err(SpawnError::Keeper(self.program.clone())),
        }
    }

    fn start_in(&self, order: &SpawnSpec, program: &Path, group: &Group) -> io::Result<SupervisedProcess> {
        let (channel, keepers_end) = UnixStream::pair()?;
        let (output, output_writer) = io::pipe()?;
        let standard_output = match &order.standard_output {
            Some(path) => Stdio::from(File::create(path)?),
            None => Stdio::from(output_writer.try_clone()?),
        };
        let printed = CapturedOutput::new(order.output.clone(), &order.wanted_lines)?;
        let mut command = Command::new(&self.program);
        command.arg0("subject-keeper").args(&self.arguments).process_group(0);
        command.stdin(OwnedFd::from(keepers_end)).stdout(standard_output).stderr(output_writer);
        let keeper = command.spawn()?;
        // Closes our copies of the keeper's files; otherwise the end of the output would not be seen.
        drop(command);
        let shared = Arc::new(SharedProcessState::new(printed));
        let mut kept = SupervisedProcess {
            name: order.name.clone(),
            pid: 0,
            keeper,
            channel,
            shared,
            watcher: None,
            group: group.folders.clone(),
            _run: Arc::clone(&group.run),
        };
        send(&order.program(program, group), &kept.channel)?;
        let (shared, reports) = (Arc::clone(&kept.shared), kept.channel.try_clone()?);
        let watch = move || Watcher::new(shared, reports, output).run();
        kept.watcher = Some(std::thread::Builder::new().name(format!("keeps {}", order.name)).spawn(watch)?);
        Ok(kept)
    }
}

impl SpawnSpec {
    fn program(&self, program: &Path, group: &Group) -> Program {
        let mut command = self.command.clone();
        if let (Some(first), Some(path)) = (command.first_mut(), program.to_str()) {
            path.clone_into(first);
        }
        Program {
            command,
            environment: self.environment.clone(),
            folder: self.folder.clone(),
            cpus: self.cpus.clone(),
            open_files: self.limits.open_files,
            processes: self.limits.processes.filter(|_| group.needs_process_limit),
            control_groups: group.folders.clone(),
        }
    }
}

fn check_open_files(limits: &ResourceLimits) -> Result<(), SpawnError> {
    let hard = breme_sys::descriptor_limit().hard;
    match limits.open_files {
        Some(wanted) if wanted > hard && !rustix::process::geteuid().is_root() => {
            Err(SpawnError::OpenFiles { wanted, hard })
        }
        _ => Ok(()),
    }
}

fn explain(errno: Option<i32>, what: String, program: PathBuf, order: &SpawnSpec) -> SpawnError {
    match errno.map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::NOENT) if !order.folder.is_dir() => SpawnError::NoFolder(order.folder.clone()),
        Some(rustix::io::Errno::NOENT) if !Path::new(NULL).exists() => SpawnError::NoNull,
        Some(rustix::io::Errno::NOENT) => SpawnError::NoInterpreter(program),
        Some(rustix::io::Errno::NOEXEC) => SpawnError::NotExecutable(program),
        Some(rustix::io::Errno::INVAL) if !order.cpus.is_empty() => {
            SpawnError::Cpus { program, cpus: order.cpus.clone(), what }
        }
        _ => SpawnError::Refused { program, what },
    }
}

impl SupervisedProcess {
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The keeper, ancestor of all its processes.
    #[must_use]
    pub fn keeper_pid(&self) -> u32 {
        self.keeper.id()
    }

    /// Its control group folders, version 2 first; empty if none could be created.
    #[must_use]
    pub fn control_groups(&self) -> &[PathBuf] {
        &self.group
    }

    /// Its exit, if it has exited.
    #[must_use]
    pub fn ended(&self) -> Option<ExitInfo> {
        self.shared.state.lock().ended.clone()
    }

    /// Waits for its exit.
    #[must_use]
    pub fn wait_ended(&self, timeout: Duration) -> Option<ExitInfo> {
        self.shared.wait(timeout, |state| state.ended.clone())
    }

    /// Waits for a line with the wanted text at this index, or for the exit.
    pub(crate) fn wait_line(&self, position: usize, timeout: Duration) -> Option<Result<String, ExitInfo>> {
        self.shared.wait(timeout, |state| {
            let line = state.printed.found(position).map(Ok);
            line.or_else(|| state.ended.clone().map(Err))
        })
    }

    /// The end of its output so far.
    #[must_use]
    pub fn printed(&self) -> String {
        self.shared.state.lock().printed.last_lines()
    }

    /// CPU time (user, system) of all its processes, once none is left.
    #[must_use]
    pub fn cpu_time(&self) -> Option<(Duration, Duration)> {
        self.shared.state.lock().cpu
    }

    /// Sends a signal to its process group, and kills what is left after `within`.
    ///
    /// # Errors
    /// If a process could not be killed.
    pub fn stop(&mut self, signal: i32, within: Duration) -> Result<ExitInfo, StopError> {
        let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        // If the keeper is gone, nothing is left to stop.
        let _ = send(&Wish::Stop { signal, within_ms }, &self.channel);
        self.wait_gone(within + KILL_WITHIN)
    }

    /// Kills it and its descendants.
    ///
    /// # Errors
    /// If a process could not be killed.
    pub(crate) fn kill(&mut self) -> Result<ExitInfo, StopError> {
        let _ = send(&Wish::Kill, &self.channel);
        self.wait_gone(KILL_WITHIN)
    }

    fn wait_gone(&mut self, within: Duration) -> Result<ExitInfo, StopError> {
        let gone = self.shared.wait(within, |state| state.is_gone.then(|| (state.ended.clone(), state.stuck.clone())));
        let Some((ending, stuck)) = gone else {
            return Err(StopError::TooLate { name: self.name.clone(), within });
        };
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
        let _ = self.keeper.wait();
        if !stuck.is_empty() {
            return Err(StopError::Stuck { name: self.name.clone(), processes: stuck });
        }
        Ok(ending.unwrap_or_else(|| self.shared.state.lock().lost()))
    }
}

impl Drop for SupervisedProcess {
    fn drop(&mut self) {
        if self.watcher.is_some() {
            let _ = self.kill();
        }
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
        control_group::kill(&self.group);
        control_group::remove(&self.group);
    }
}
