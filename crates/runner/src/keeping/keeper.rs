//! The keeper: a process that does nothing but wait, until there is something to be killed.
//!
//! One thread, because what it starts is to be killed when **the thread** that started it ends. It knows no HTTP and no
//! experiment, and it must not fail: whatever goes wrong ends in killing all that it has started.

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

/// How long killing may take. Only a process that waits in the kernel for a dead disk takes longer.
const KILL_WITHIN: Duration = Duration::from_secs(10);
/// How often killing is repeated: a process may fork between being seen and being killed.
const KILL_EVERY: Duration = Duration::from_millis(10);

/// Runs as a keeper: reads what to start from standard input, a socket, and ends when all of it has ended.
#[must_use]
pub fn keep() -> ExitCode {
    // Its name is not that of the laboratory: `pkill -9 breme` must leave it alive to clean up.
    breme_sys::rename_current_thread(c"subject-keeper");
    match Keeper::begin().and_then(Keeper::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Whoever runs it by hand reads this; the laboratory sees that the channel is closed.
            eprintln!("the supervisor of a subject's processes failed: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Keeper {
    channel: UnixStream,
    lines: Lines,
    /// A byte comes when a child has ended, or when the keeper itself is asked to end.
    wake: UnixStream,
    is_asked_to_end: Arc<AtomicBool>,
    program: Program,
    main: Option<Pid>,
    /// How the main process ended, if it has and that was not told yet.
    ended: Option<WaitStatus>,
    is_end_told: bool,
    stopping: Option<Stopping>,
}

/// It was asked to end.
struct Stopping {
    signal: Signal,
    kill_at: Instant,
    /// The process groups that have got the signal: a second one means something else to many programs.
    told: BTreeSet<u32>,
}

/// Who is left.
#[derive(PartialEq, Eq)]
enum Left {
    Some,
    None,
}

impl Keeper {
    fn begin() -> io::Result<Self> {
        breme_sys::adopt_orphans()?;
        let mut channel = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let (wake, is_asked_to_end) = wait_for_signals()?;
        let mut lines = Lines::default();
        let program = loop {
            if let Some(program) = lines.next()? {
                break program;
            }
            if !lines.receive(&mut channel)? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let (main, ended, is_end_told, stopping) = (None, None, false, None);
        Ok(Self { channel, lines, wake, is_asked_to_end, program, main, ended, is_end_told, stopping })
    }

    fn run(mut self) -> io::Result<()> {
        let started = self.start();
        let outcome = match started {
            Ok(pid) => self.tell(&Report::Started { pid }).and_then(|()| self.wait()),
            Err(error) => self.tell(&Report::Failed { errno: error.raw_os_error(), what: error.to_string() }),
        };
        // Whatever has happened, nothing stays.
        let stuck = self.kill_all();
        let usage = control_group::usage(&self.program.control_groups).unwrap_or_else(|| {
            let usage = breme_sys::cpu_time_of_ended_children();
            (usage.user, usage.system)
        });
        control_group::remove(&self.program.control_groups);
        if self.tell_ending(stuck, usage).is_err() || outcome.is_err() {
            // The laboratory has gone, and will not clear away its own folder.
            control_group::remove_runs(&self.program.control_groups);
        }
        outcome
    }

    fn tell_ending(&mut self, stuck: Vec<u32>, (user, system): (Duration, Duration)) -> io::Result<()> {
        self.tell_end()?;
        if !stuck.is_empty() {
            self.tell(&Report::Stuck { pids: stuck })?;
        }
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.tell(&Report::Gone { cpu_user_us: micros(user), cpu_system_us: micros(system) })
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
            ..breme_sys::Confinement::default()
        };
        let child = breme_sys::confine_within(&mut command, confinement).spawn();
        let_go_of_output()?;
        let pid = child?.id();
        self.main = i32::try_from(pid).ok().and_then(Pid::from_raw);
        Ok(pid)
    }

    /// Until all has ended, or is to end at once.
    fn wait(&mut self) -> io::Result<()> {
        loop {
            if self.reap() == Left::None {
                return Ok(());
            }
            self.tell_to_stop();
            let left =
                self.stopping.as_ref().map(|stopping| stopping.kill_at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(());
            }
            self.sleep(left)?;
            if self.is_asked_to_end.load(Ordering::Relaxed) {
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

    /// Waits for the laboratory or the end of a child. An error means that the laboratory has gone.
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

    /// Takes notice of everyone who has ended; who is left.
    fn reap(&mut self) -> Left {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.handle_ended(pid, status),
                Ok(None) => return Left::Some,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => {
                    let _ = self.tell_end();
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
        // One that ended well may have left a daemon.
        if status.exit_status() != Some(0) {
            let _ = self.tell_end();
        }
    }

    fn tell_end(&mut self) -> io::Result<()> {
        let Some(status) = self.ended.filter(|_| !self.is_end_told) else { return Ok(()) };
        self.is_end_told = true;
        let out_of_memory_kills = control_group::out_of_memory_kills(&self.program.control_groups);
        self.tell(&Report::Ended {
            code: status.exit_status(),
            signal: status.terminating_signal(),
            out_of_memory_kills,
        })
    }

    fn tell(&self, report: &Report) -> io::Result<()> {
        send(report, &self.channel)
    }

    fn stop(&mut self, signal: i32, within: Duration) {
        let signal = Signal::from_named_raw(signal).unwrap_or(Signal::TERM);
        self.stopping = Some(Stopping { signal, kill_at: Instant::now() + within, told: BTreeSet::new() });
    }

    /// Asks the process groups of its children to end: that of the program, and those of daemons that it has left. What
    /// loses its parent by that is a child of the keeper then, and gets the signal too.
    fn tell_to_stop(&mut self) {
        let Some(stopping) = &mut self.stopping else { return };
        let me = std::process::id();
        for stat in everyone().iter().filter(|stat| stat.parent == me && !stat.is_zombie()) {
            let Some(group) = as_pid(stat.group).filter(|_| stopping.told.insert(stat.group)) else { continue };
            // It may have ended by itself in this moment.
            let _ = rustix::process::kill_process_group(group, stopping.signal);
            // One that was stopped would not notice.
            let _ = rustix::process::kill_process_group(group, Signal::CONT);
        }
    }

    /// Kills all that is left, again and again until none is; those that could not be killed.
    fn kill_all(&mut self) -> Vec<u32> {
        let until = Instant::now() + KILL_WITHIN;
        while self.reap() == Left::Some {
            control_group::kill(&self.program.control_groups);
            let me = std::process::id();
            // First they are stopped, so that none forks while the next is killed.
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

/// A socket that gets a byte for each signal, and whether one of them asks the keeper to end.
fn wait_for_signals() -> io::Result<(UnixStream, Arc<AtomicBool>)> {
    use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

    let (wake, ringer) = UnixStream::pair()?;
    wake.set_nonblocking(true)?;
    let is_asked_to_end = Arc::default();
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&is_asked_to_end))?;
        signal_hook::low_level::pipe::register(signal, ringer.try_clone()?)?;
    }
    signal_hook::low_level::pipe::register(SIGCHLD, ringer)?;
    Ok((wake, is_asked_to_end))
}

/// Lets go of the output, whose end tells the laboratory that nobody can write to it any more; and of the folder.
fn let_go_of_output() -> io::Result<()> {
    let nothing = OwnedFd::from(std::fs::OpenOptions::new().write(true).open("/dev/null")?);
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    std::env::set_current_dir("/")
}
