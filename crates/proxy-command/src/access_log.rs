//! The access log: a line per exchange, written by a thread of its own.
//!
//! The shards only append lines to a buffer, without allocation or disk access. The writer takes all lines and writes
//! them at once. If the disk is slower than the requests, the buffer fills up, and lines are dropped and counted: a log
//! must not slow down the proxy.

mod format;

use std::cell::RefCell;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use breme_proxy::{AccessLog, ExchangeRecord};
pub use format::LogFormat;
use parking_lot::{Condvar, Mutex};

/// Limit of buffered lines; beyond it lines are dropped.
const BUFFER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// From this size on the writer is woken at once, without waiting for more.
const BATCH_BYTES: usize = 64 * 1024;
/// How long the writer waits for more lines, to write them together.
const BATCH_DELAY: Duration = Duration::from_millis(50);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    Output,
    File(PathBuf),
}

impl Destination {
    pub fn from_path(path: &Path) -> Self {
        if path.as_os_str() == "-" { Self::Output } else { Self::File(path.to_owned()) }
    }

    fn open(&self) -> io::Result<Box<dyn Write + Send>> {
        match self {
            Self::Output => Ok(Box::new(io::stdout())),
            Self::File(path) => Ok(Box::new(append(path)?)),
        }
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

impl fmt::Display for Destination {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Output => formatter.write_str("standard output"),
            Self::File(path) => path.display().fmt(formatter),
        }
    }
}

/// The buffer to which the shards append.
#[derive(Debug)]
pub struct Log {
    format: LogFormat,
    buffer: Mutex<LogBuffer>,
    called: Condvar,
    counts: LogCounts,
}

#[derive(Debug, Default)]
struct LogBuffer {
    bytes: Vec<u8>,
    lines: u64,
    /// Reopen the file before the next write.
    is_rotated: bool,
    is_finished: bool,
}

/// What the writer takes from the buffer.
struct Taken {
    lines: u64,
    is_rotated: bool,
    is_finished: bool,
}

#[derive(Debug, Default)]
struct LogCounts {
    written: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// The number of lines by outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineCounts {
    pub written: u64,
    /// Because the buffer was full.
    pub dropped: u64,
    /// After write errors.
    pub failed: u64,
}

impl Log {
    fn new(format: LogFormat) -> Self {
        Self { format, buffer: Mutex::default(), called: Condvar::new(), counts: LogCounts::default() }
    }

    pub fn counts(&self) -> LineCounts {
        let LogCounts { written, dropped, failed } = &self.counts;
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        LineCounts { written: load(written), dropped: load(dropped), failed: load(failed) }
    }

    /// The file was renamed: reopens it before the next line.
    pub fn reopen(&self) {
        self.buffer.lock().is_rotated = true;
        self.called.notify_one();
    }

    fn push(&self, line: &[u8]) {
        let mut buffer = self.buffer.lock();
        let before = buffer.bytes.len();
        if before + line.len() > BUFFER_BYTES_MAX {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        buffer.bytes.extend_from_slice(line);
        buffer.lines += 1;
        let is_full = before < BATCH_BYTES && buffer.bytes.len() >= BATCH_BYTES;
        drop(buffer);
        if before == 0 || is_full {
            self.called.notify_one();
        }
    }

    /// Waits for lines, and then briefly for more. Swaps them with the empty `bytes`.
    fn take(&self, bytes: &mut Vec<u8>) -> Taken {
        let is_idle = |buffer: &mut LogBuffer| buffer.bytes.is_empty() && !buffer.is_rotated && !buffer.is_finished;
        let mut buffer = self.buffer.lock();
        self.called.wait_while(&mut buffer, is_idle);
        let may_batch =
            |buffer: &mut LogBuffer| buffer.bytes.len() < BATCH_BYTES && !buffer.is_rotated && !buffer.is_finished;
        self.called.wait_while_for(&mut buffer, may_batch, BATCH_DELAY);
        std::mem::swap(&mut buffer.bytes, bytes);
        Taken {
            lines: std::mem::take(&mut buffer.lines),
            is_rotated: std::mem::take(&mut buffer.is_rotated),
            is_finished: buffer.is_finished,
        }
    }
}

impl AccessLog for Log {
    fn record(&self, exchange: &ExchangeRecord<'_>) {
        thread_local! {
            static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        LINE.with_borrow_mut(|line| {
            line.clear();
            self.format.write(exchange, line);
            self.push(line);
        });
    }
}

/// The thread that writes the log.
#[derive(Debug)]
pub struct AccessLogWriter {
    log: Arc<Log>,
    thread: JoinHandle<()>,
}

impl AccessLogWriter {
    /// Opens the destination and starts to write the lines of [`AccessLogWriter::log`].
    pub fn start(destination: Destination, format: LogFormat) -> Result<Self, String> {
        let fault = |error: io::Error| {
            format!(
                "--access-log {destination}: cannot be opened: {error}; name a file in a writable folder, or - for standard output"
            )
        };
        let sink = destination.open().map_err(fault)?;
        let log = Arc::new(Log::new(format));
        let writer = WriterThread { log: Arc::clone(&log), destination, sink, is_error_reported: false };
        let thread = std::thread::Builder::new().name("access-log".to_owned()).spawn(move || writer.run());
        let thread = thread.map_err(|error| format!("cannot start a thread for the access log: {error}"))?;
        Ok(Self { log, thread })
    }

    pub fn log(&self) -> Arc<Log> {
        Arc::clone(&self.log)
    }

    /// Writes what is buffered, and ends the thread.
    pub fn finish(self) {
        self.log.buffer.lock().is_finished = true;
        self.log.called.notify_one();
        let _ = self.thread.join(); // if it panicked, its lines are lost, and it said so
    }
}

struct WriterThread {
    log: Arc<Log>,
    destination: Destination,
    sink: Box<dyn Write + Send>,
    /// Only the first error is printed, until the log is reopened.
    is_error_reported: bool,
}

impl WriterThread {
    fn run(mut self) {
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let Taken { lines, is_rotated, is_finished } = self.log.take(&mut bytes);
            if is_rotated {
                self.reopen();
            }
            self.write(&bytes, lines);
            if is_finished {
                return;
            }
        }
    }

    fn reopen(&mut self) {
        match self.destination.open() {
            Ok(sink) => {
                self.sink = sink;
                self.is_error_reported = false;
            }
            Err(error) => {
                breme_base::error_line!(
                    "breme proxy: --access-log {}: cannot be reopened: {error}; keeping the old file",
                    self.destination
                );
            }
        }
    }

    fn write(&mut self, bytes: &[u8], lines: u64) {
        if bytes.is_empty() {
            return;
        }
        match self.sink.write_all(bytes).and_then(|()| self.sink.flush()) {
            Ok(()) => drop(self.log.counts.written.fetch_add(lines, Ordering::Relaxed)),
            Err(error) => {
                self.log.counts.failed.fetch_add(lines, Ordering::Relaxed);
                if !std::mem::replace(&mut self.is_error_reported, true) {
                    breme_base::error_line!(
                        "breme proxy: --access-log {}: cannot be written: {error}; lines are lost until it can",
                        self.destination
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Log {
        Log::new(LogFormat::Combined)
    }

    #[test]
    fn lines_that_do_not_fit_are_dropped_and_counted() {
        let log = log();
        let line = [b'x'; 1024];
        for _ in 0..BUFFER_BYTES_MAX / line.len() + 3 {
            log.push(&line);
        }
        assert_eq!(log.counts(), LineCounts { written: 0, dropped: 3, failed: 0 });
        let mut taken = Vec::new();
        log.take(&mut taken);
        assert_eq!(taken.len(), BUFFER_BYTES_MAX);
        log.push(&line);
        assert_eq!(log.counts().dropped, 3, "there is room again");
    }

    #[test]
    fn all_lines_are_there_at_the_end_and_a_rotated_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("log"), folder.path().join("log.1"));
        let writer = AccessLogWriter::start(Destination::from_path(&path), LogFormat::Combined).unwrap();
        let log = writer.log();
        log.push(b"first\n");
        while log.counts().written == 0 {
            std::thread::yield_now();
        }
        std::fs::rename(&path, &old).unwrap();
        log.reopen();
        while !path.exists() {
            std::thread::yield_now();
        }
        log.push(b"second\n");
        log.push(b"third\n");
        writer.finish();
        assert_eq!(std::fs::read(&old).unwrap(), b"first\n");
        assert_eq!(std::fs::read(&path).unwrap(), b"second\nthird\n");
        assert_eq!(log.counts(), LineCounts { written: 3, dropped: 0, failed: 0 });
    }

    #[test]
    fn a_folder_that_is_not_there_is_named_with_a_remedy() {
        let problem = AccessLogWriter::start(Destination::from_path(Path::new("/nowhere/at/all")), LogFormat::Combined)
            .unwrap_err();
        assert!(
            problem.starts_with("--access-log /nowhere/at/all: ") && problem.contains("standard output"),
            "{problem}"
        );
    }

    #[test]
    fn a_full_disk_is_counted() {
        let writer =
            AccessLogWriter::start(Destination::from_path(Path::new("/dev/full")), LogFormat::Combined).unwrap();
        let log = writer.log();
        log.push(b"a\n");
        log.push(b"b\n");
        writer.finish();
        assert_eq!(log.counts().failed, 2);
    }
}
