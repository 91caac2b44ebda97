//! Everything that is started here, so that nothing is left behind: a forgotten server would take the processor from
//! every later measurement. Each process leads a session of its own and is killed with all that it started when its
//! value is dropped (an error, a panic), on Ctrl-C, SIGTERM and SIGHUP, and by the kernel if this program is killed.

use std::collections::BTreeSet;
use std::io::Read;
use std::process::{Child, ChildStdout, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::instruments;

/// The running ones, shared with the thread that waits for signals.
#[derive(Clone, Default)]
pub(crate) struct Processes(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    interrupted_by: Option<i32>,
    /// By the leader of their group.
    groups: BTreeSet<u32>,
}

/// A process with all that it starts.
pub(crate) struct Running {
    child: Option<Child>,
    pid: u32,
    processes: Processes,
}

/// What a process left.
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) output: String,
    pub(crate) errors: String,
    /// The most memory that it was seen to hold, if that was asked for.
    pub(crate) peak_bytes: u64,
}

/// How often the memory of a process is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Processes {
    /// Makes this program kill what it started when it is interrupted.
    pub(crate) fn end_on_signals() -> Result<Self, String> {
        let processes = Self::default();
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])
            .map_err(|error| format!("cannot wait for signals: {error}"))?;
        let shared = processes.clone();
        std::thread::spawn(move || signals.forever().for_each(|signal| shared.interrupt(signal)));
        Ok(processes)
    }

    /// The first signal ends what runs, so that whoever waits for it goes on and cleans up; a second one ends at once.
    fn interrupt(&self, signal: i32) {
        let mut table = self.lock();
        table.groups.iter().for_each(|&leader| kill_group(leader));
        if table.interrupted_by.replace(signal).is_some() {
            std::process::exit(128 + signal);
        }
    }

    /// The signal that ended the work, if one did.
    pub(crate) fn interrupted_by(&self) -> Option<i32> {
        self.lock().interrupted_by
    }

    /// Starts `command`, on this processor only if one is named. Must be called on the main thread: the process ends
    /// with the thread that started it.
    pub(crate) fn start(&self, command: &mut Command, cpu: Option<usize>) -> Result<Running, String> {
        let mut table = self.lock();
        if table.interrupted_by.is_some() {
            return Err(String::from("interrupted"));
        }
        let name = command.get_program().to_string_lossy().into_owned();
        let child = breme_sys::confine(command, cpu.as_slice()).spawn();
        let child = child.map_err(|error| format!("{name} cannot be started: {error}"))?;
        let pid = child.id();
        table.groups.insert(pid);
        Ok(Running { child: Some(child), pid, processes: self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.as_mut()?.stdout.take()
    }

    /// How it ended, if it has.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().ok().flatten()
    }

    /// Waits for its end and reads what it printed to its pipes; kills it after `limit`. With `look_at_memory` its
    /// memory is looked at meanwhile.
    pub(crate) fn finish(mut self, limit: Duration, look_at_memory: bool) -> Result<Finished, String> {
        let Some(mut child) = self.child.take() else { return Err(String::from("already waited for")) };
        let pid = self.pid;
        let (ended, wait) = channel();
        std::thread::scope(|scope| {
            let watching = scope.spawn(move || watch(pid, &wait, limit, look_at_memory));
            let errors = child.stderr.take();
            let reading = scope.spawn(move || errors.map(read_to_end).unwrap_or_default());
            let output = child.stdout.take().map(read_to_end).unwrap_or_default();
            let status = child.wait().map_err(|error| format!("cannot wait for process {pid}: {error}"));
            drop::<std::sync::mpsc::Sender<()>>(ended);
            let (peak_bytes, overdue) = watching.join().map_err(|_| String::from("the watching thread panicked"))?;
            if overdue {
                return Err(format!("did not end within {limit:?}"));
            }
            Ok(Finished { status: status?, output, errors: reading.join().unwrap_or_default(), peak_bytes })
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut table = self.processes.lock();
        // Also when the leader has been waited for: what it started may live on, and keeps the group's number taken.
        kill_group(self.pid);
        if let Some(child) = &mut self.child {
            let _ = child.wait();
        }
        table.groups.remove(&self.pid);
    }
}

fn read_to_end(mut pipe: impl Read) -> String {
    let mut bytes = Vec::new();
    // What was read before an error is what there is.
    let _ = pipe.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Until the other end of `ended` is dropped: the most memory, and whether the process had to be killed.
fn watch(pid: u32, ended: &Receiver<()>, limit: Duration, look_at_memory: bool) -> (u64, bool) {
    let begun = Instant::now();
    let mut peak_bytes = 0;
    let interval = if look_at_memory { LOOK_EVERY } else { limit };
    while begun.elapsed() < limit {
        match ended.recv_timeout(interval) {
            Err(RecvTimeoutError::Timeout) if look_at_memory => {
                peak_bytes = instruments::peak_bytes(pid).unwrap_or(0).max(peak_bytes);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return (peak_bytes, false),
        }
    }
    kill_group(pid);
    (peak_bytes, true)
}

fn kill_group(leader: u32) {
    if let Some(leader) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
        // It may have ended by itself.
        let _ = kill_process_group(leader, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    #[test]
    fn what_a_process_prints_is_read_whole() {
        let mut command = shell("echo out; echo err >&2; exit 3");
        let finished = Processes::default().start(&mut command, None).unwrap();
        let finished = finished.finish(Duration::from_secs(60), false).unwrap();
        assert_eq!((finished.output.as_str(), finished.errors.as_str()), ("out\n", "err\n"));
        assert_eq!(finished.status.code(), Some(3));
    }

    #[test]
    fn what_a_process_started_ends_with_it() {
        let mut running = Processes::default().start(&mut shell("sleep 1000 & echo $!; wait"), None).unwrap();
        let mut output = std::io::BufReader::new(running.take_stdout().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        let folder = format!("/proc/{}/fd", line.trim());
        assert!(std::fs::exists(&folder).unwrap());
        drop(running);
        // Both held the pipe: it ends when both have.
        assert_eq!(output.read_to_end(&mut Vec::new()).unwrap(), 0);
    }

    #[test]
    fn an_interruption_ends_what_runs_and_lets_nothing_start() {
        let processes = Processes::default();
        let running = processes.start(&mut shell("sleep 1000"), None).unwrap();
        processes.interrupt(SIGINT);
        let finished = running.finish(Duration::from_secs(60), false).unwrap();
        assert!(!finished.status.success());
        assert_eq!(processes.interrupted_by(), Some(SIGINT));
        assert!(processes.start(&mut shell("true"), None).is_err());
    }

    #[test]
    fn one_that_does_not_end_is_killed() {
        let running = Processes::default().start(&mut shell("sleep 1000"), None).unwrap();
        let message = running.finish(Duration::from_millis(20), true).err().unwrap();
        assert!(message.contains("20ms"), "{message}");
    }
}
