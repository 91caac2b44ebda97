//! The thread that listens to a keeper and reads its program's output.

use std::io::{PipeReader, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::captured_output::CapturedOutput;
use super::exit::ExitInfo;
use super::message::{Lines, Report};

/// Bytes of output read at once.
const OUTPUT_BYTES: usize = 64 << 10;
/// Reads after the writer has exited; a pipe holds no more.
const DRAINS_MAX: usize = 32;

/// State shared with the watching thread.
#[derive(Debug)]
pub(super) struct SharedProcessState {
    pub(super) state: Mutex<ProcessState>,
    pub(super) changed: Condvar,
}

/// State guarded by [`SharedProcessState`].
#[derive(Debug)]
pub(super) struct ProcessState {
    pub(super) printed: CapturedOutput,
    pub(super) started: Option<Result<u32, (Option<i32>, String)>>,
    pub(super) ended: Option<ExitInfo>,
    pub(super) stuck: Vec<u32>,
    pub(super) cpu: Option<(Duration, Duration)>,
    pub(super) is_gone: bool,
}

impl SharedProcessState {
    /// Waits until `look` returns something, or for `timeout`.
    pub(super) fn wait<T>(&self, timeout: Duration, mut look: impl FnMut(&ProcessState) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + timeout;
        let mut state = self.state.lock();
        loop {
            if let Some(found) = look(&state) {
                return Some(found);
            }
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                return look(&state);
            }
        }
    }
}

impl ProcessState {
    pub(super) fn lost(&self) -> ExitInfo {
        ExitInfo { code: None, signal: None, is_out_of_memory: false, printed: self.printed.last_lines() }
    }
}

/// The watching thread.
pub(super) struct Watcher {
    shared: Arc<SharedProcessState>,
    reports: UnixStream,
    lines: Lines,
    output: Option<PipeReader>,
}

impl SharedProcessState {
    pub(super) fn new(printed: CapturedOutput) -> Self {
        let state = ProcessState { printed, started: None, ended: None, stuck: Vec::new(), cpu: None, is_gone: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }
}

impl Watcher {
    pub(super) fn new(shared: Arc<SharedProcessState>, reports: UnixStream, output: PipeReader) -> Self {
        Self { shared, reports, lines: Lines::default(), output: Some(output) }
    }

    pub(super) fn run(mut self) {
        let mut buffer = vec![0; OUTPUT_BYTES];
        while self.turn(&mut buffer) {}
        // The last output may still be in the pipe; no process is left to write more.
        self.drain_output(&mut buffer);
        let mut state = self.shared.state.lock();
        if state.ended.is_none() {
            state.ended = Some(state.lost());
        }
        state.is_gone = true;
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Waits for either source. Returns whether the keeper is still there.
    fn turn(&mut self, buffer: &mut [u8]) -> bool {
        let mut watched = vec![PollFd::new(&self.reports, PollFlags::IN)];
        watched.extend(self.output.as_ref().map(|output| PollFd::new(output, PollFlags::IN)));
        if rustix::event::poll(&mut watched, None).is_err_and(|error| error != rustix::io::Errno::INTR) {
            return false;
        }
        let is_ready: Vec<bool> = watched.iter().map(|watched| !watched.revents().is_empty()).collect();
        // Output first: an exit message shows what was printed before.
        if is_ready.get(1) == Some(&true) {
            self.read_output(buffer);
        }
        !is_ready[0] || self.handle_reports()
    }

    /// Reads what is available. A remaining process may continue to write, so this is bounded.
    fn drain_output(&mut self, buffer: &mut [u8]) {
        let _ = (0..DRAINS_MAX).take_while(|_| self.turn_output(buffer)).count();
    }

    /// Reads once if something is available. Returns whether it was.
    fn turn_output(&mut self, buffer: &mut [u8]) -> bool {
        let Some(output) = &self.output else { return false };
        let mut watched = [PollFd::new(output, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if !matches!(rustix::event::poll(&mut watched, Some(&now)), Ok(1..)) {
            return false;
        }
        self.read_output(buffer);
        true
    }

    fn read_output(&mut self, buffer: &mut [u8]) {
        let Some(output) = &mut self.output else { return };
        match output.read(buffer) {
            Ok(0) | Err(_) => self.output = None,
            Ok(count) => {
                self.shared.state.lock().printed.push(&buffer[..count]);
                self.shared.changed.notify_all();
            }
        }
    }

    fn handle_reports(&mut self) -> bool {
        if !matches!(self.lines.receive(&mut self.reports), Ok(true)) {
            return false;
        }
        while let Ok(Some(report)) = self.lines.next() {
            self.handle(report);
        }
        self.shared.changed.notify_all();
        true
    }

    fn handle(&mut self, report: Report) {
        if matches!(report, Report::Ended { .. }) {
            self.drain_output(&mut vec![0; OUTPUT_BYTES]);
        }
        let mut state = self.shared.state.lock();
        match report {
            Report::Started { pid } => state.started = Some(Ok(pid)),
            Report::Failed { errno, what } => state.started = Some(Err((errno, what))),
            Report::Ended { code, signal, out_of_memory_kills } => {
                let printed = state.printed.last_lines();
                state.ended = Some(ExitInfo { code, signal, is_out_of_memory: out_of_memory_kills > 0, printed });
            }
            Report::Stuck { pids } => state.stuck = pids,
            Report::Gone { cpu_user_us, cpu_system_us } => {
                state.cpu = Some((Duration::from_micros(cpu_user_us), Duration::from_micros(cpu_system_us)));
            }
        }
    }
}
