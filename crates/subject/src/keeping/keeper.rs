//! The keeper: a process that waits until something must be killed.
//!
//! It has one thread, because its child is killed when **the thread** that started it exits. It must not fail: on any
//! error it kills everything that it started.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use super::message::{Lines, Program, Report, Wish, send};
use crate::control_group;
use crate::process_table::{descendants_of, everyone};

/// Time limit of killing. Only a process that waits in the kernel for a dead disk takes longer.
const KILL_WITHIN: Duration = Duration::from_secs(10);
/// Interval between attempts: a process may fork between being found and being killed.
const KILL_EVERY: Duration = Duration::from_millis(10);

/// Runs as a keeper: reads what to start from standard input, a socket, and returns when all of it has exited.
#[must_use]
pub fn keep() -> ExitCode {
    // A name other than the laboratory's, so that `pkill -9 breme` leaves it alive to clean up.
    breme_sys::rename_current_thread(c"subject-keeper");
    match Keeper::begin().and_then(Keeper::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // For users who run it by hand; the laboratory sees that the channel is closed.
            breme_base::error_line!("the supervisor of a subject's processes failed: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Keeper {
    channel: UnixStream,
    lines: Lines,
    /// Receives a byte when a child has exited, or when the keeper is to stop.
    wake: UnixStream,
    must_end: Arc<AtomicBool>,
    program: Program,
    main: Option<Pid>,
    /// The main process's exit status, until it is reported.
    ended: Option<WaitStatus>,
    is_end_reported: bool,
    stopping: Option<Stopping>,
}

/// It is stopping.
struct Stopping {
    signal: Signal,
    kill_at: Instant,
    /// Process groups that got the signal: a second one has another meaning for many programs.
    signalled: BTreeSet<u32>,
}

/// Remaining processes.
#[derive(PartialEq, Eq)]
enum Left {
    Some,
    None,
}

impl Keeper {
    fn begin() -> io::Result<Self> {
        breme_sys::adopt_orphans()?;
        let mut channel = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let (wake, must_end) = wait_for_signals()?;
        let mut lines = Lines::default();
        let program = loop {
            if let Some(program) = lines.next()? {
                break program;
            }
            if !lines.receive(&mut channel)? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let (main, ended, is_end_reported, stopping) = (None, None, false, None);
        Ok(Self { channel, lines, wake, must_end, program, main, ended, is_end_reported, stopping })
    }

    fn run(mut self) -> io::Result<()> {
        let started = self.start();
        let outcome = match started {
            Ok(pid) => self.report(&Report::Started { pid }).and_then(|()| self.wait()),
            Err(error) => self.report(&Report::Failed { errno: error.raw_os_error(), what: error.to_string() }),
        };
        // Nothing may remain, whatever has happened.
        let stuck = self.kill_all();
        let usage = control_group::usage(&self.program.control_groups).unwrap_or_else(|| {
            let usage = breme_sys::cpu_time_of_ended_children();
            (usage.user, usage.system)
        });
        control_group::remove(&self.program.control_groups);
        if self.report_ending(stuck, usage).is_err() || outcome.is_err() {
            // The laboratory is gone and will not remove its own folder.
            control_group::remove_runs(&self.program.control_groups);
        }
        outcome
    }

    fn report_ending(&mut self, stuck: Vec<u32>, (user, system): (Duration, Duration)) -> io::Result<()> {
        self.report_end()?;
        if !stuck.is_empty() {
            self.report(&Report::Stuck { pids: stuck })?;
        }
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.report(&Report::Gone { cpu_user_us: micros(user), cpu_system_us: micros(system) })
    }

    fn start(&mut self) -> io::Result<u32> {
        let program = &self.program;
        let (name, arguments) = program.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(name);
        command.args(arguments).current_dir(&program.folder).stdin(Stdio::null());
        command.envs(program.environment.iter().map(|(name, value)| (name, value)));
        let confinement = breme_sys::Confinement {
            cpus: program.cpus.clone(),
            open_files: program.open_files,
            processes: program.processes,
            control_groups: control_group::open_doors(&program.control_groups)?,
        };
        let child = breme_sys::confine_within(&mut command, confinement).spawn();
        close_output()?;
        let pid = child?.id();
        self.main = i32::try_from(pid).ok().and_then(Pid::from_raw);
        Ok(pid)
    }

    /// Waits until all have exited, or must be killed.
    fn wait(&mut self) -> io::Result<()> {
        loop {
            if self.reap() == Left::None {
                return Ok(());
            }
            self.signal_groups();
            let left =
                self.stopping.as_ref().map(|stopping| stopping.kill_at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(());
            }
            self.sleep(left)?;
            if self.must_end.load(Ordering::Relaxed) {
                return Ok(());
            }
            while let Some(wish) = self.lines.next()? {
                match wish {
                    Wish::Kill => return Ok(()),
                    Wish::Stop { signal, within_ms } => self.stop(signal, Duration::from_millis(within_ms)),
                }
            }
        }
    }

    /// Waits for the laboratory or a child's exit. An error means that the laboratory is gone.
    fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut watched = [PollFd::new(&self.channel, PollFlags::IN), PollFd::new(&self.wake, PollFlags::IN)];
        match rustix::event::poll(&mut watched, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [from_laboratory, wake] = watched.map(|watched| !watched.revents().is_empty());
        if wake {
            let mut bytes = [0; 64];
            let _ = self.wake.read(&mut bytes);
        }
        if from_laboratory && !self.lines.receive(&mut self.channel)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// Reaps exited children. Returns what remains.
    fn reap(&mut self) -> Left {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.handle_ended(pid, status),
                Ok(None) => return Left::Some,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => {
                    let _ = self.report_end();
                    return Left::None;
                }
            }
        }
    }

    fn handle_ended(&mut self, pid: Pid, status: WaitStatus) {
        if self.main != Some(pid) {
            return;
        }
        self.ended = Some(status);
        // A program that exited with code 0 may have left a daemon.
        if status.exit_status() != Some(0) {
            let _ = self.report_end();
        }
    }

    fn report_end(&mut self) -> io::Result<()> {
        let Some(status) = self.ended.filter(|_| !self.is_end_reported) else { return Ok(()) };
        self.is_end_reported = true;
        let out_of_memory_kills = control_group::out_of_memory_kills(&self.program.control_groups);
        self.report(&Report::Ended {
            code: status.exit_status(),
            signal: status.terminating_signal(),
            out_of_memory_kills,
        })
    }

    fn report(&self, report: &Report) -> io::Result<()> {
        send(report, &self.channel)
    }

    fn stop(&mut self, signal: i32, within: Duration) {
        let signal = Signal::from_named_raw(signal).unwrap_or(Signal::TERM);
        self.stopping = Some(Stopping { signal, kill_at: Instant::now() + within, signalled: BTreeSet::new() });
    }

    /// Signals the process groups of its children: that of the program, and those of its daemons. Orphans become
    /// children of the keeper and get the signal too.
    fn signal_groups(&mut self) {
        let Some(stopping) = &mut self.stopping else { return };
        let me = std::process::id();
        for stat in everyone().iter().filter(|stat| stat.parent == me && !stat.is_zombie()) {
            let Some(group) = as_pid(stat.group).filter(|_| stopping.signalled.insert(stat.group)) else { continue };
            // It may have exited meanwhile.
            let _ = rustix::process::kill_process_group(group, stopping.signal);
            // A suspended process would not handle the signal.
            let _ = rustix::process::kill_process_group(group, Signal::CONT);
        }
    }

    /// Kills until no process is left. Returns those that could not be killed.
    fn kill_all(&mut self) -> Vec<u32> {
        let until = Instant::now() + KILL_WITHIN;
        while self.reap() == Left::Some {
            control_group::kill(&self.program.control_groups);
            let me = std::process::id();
            // Suspended first, so that none forks while the next is killed.
            for signal in [Signal::STOP, Signal::KILL] {
                let everyone = everyone();
                for pid in descendants_of(me, &everyone).iter().filter_map(|stat| as_pid(stat.pid)) {
                    let _ = rustix::process::kill_process(pid, signal);
                }
            }
            if Instant::now() > until {
                return descendants_of(me, &everyone()).iter().map(|stat| stat.pid).collect();
            }
            self.sleep_a_little();
        }
        Vec::new()
    }

    fn sleep_a_little(&mut self) {
        let mut watched = [PollFd::new(&self.wake, PollFlags::IN)];
        let _ = rustix::event::poll(&mut watched, Timespec::try_from(KILL_EVERY).ok().as_ref());
        let mut bytes = [0; 64];
        if !watched[0].revents().is_empty() {
            let _ = self.wake.read(&mut bytes);
        }
    }
}

fn as_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// A socket that receives a byte for each signal, and whether one of them requests the keeper to stop.
fn wait_for_signals() -> io::Result<(UnixStream, Arc<AtomicBool>)> {
    use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

    let (wake, ringer) = UnixStream::pair()?;
    wake.set_nonblocking(true)?;
    let must_end = Arc::default();
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&must_end))?;
        signal_hook::low_level::pipe::register(signal, ringer.try_clone()?)?;
    }
    signal_hook::low_level::pipe::register(SIGCHLD, ringer)?;
    Ok((wake, must_end))
}

/// Closes the output, whose end informs the laboratory that nothing more is written; and leaves the folder.
fn close_output() -> io::Result<()> {
    let nothing = OwnedFd::from(std::fs::OpenOptions::new().write(true).open("/dev/null")?);
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    std::env::set_current_dir("/")
}
