//! The instruments: what subjects, generators and the machine use while a trial runs, in the same clock as the load.
//!
//! ```text
//!  every interval ──► machine, processes ──► instruments.csv
//!  (own thread)   └─► wakes the scrapers └─► tracks ──► Readings ──► window(from, to)
//! ```
//!
//! | file | what |
//! |---|---|
//! | `process.rs`, `members.rs` | one process; all of a subject |
//! | `machine.rs` | the machine |
//! | `external.rs` | the processes of a server that breme did not start |
//! | `kernel_file.rs` | files of the kernel, opened once and read repeatedly |
//! | `scraper.rs`, `exposition.rs`, `counters.rs` | the subject's own counters |
//! | `track.rs`, `readings.rs` | samples of a trial in bounded memory, and any part of it |
//! | `memory_leak.rs` | whether memory grows without end |
//! | `rows.rs` | the file |

mod counters;
mod exposition;
mod external;
mod kernel_file;
mod machine;
mod members;
mod memory_leak;
mod process;
mod readings;
mod rows;
mod scraper;
mod track;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use machine::{MachineFiles, time_of_others_ns};
use members::{Members, Root, Round, Use, as_ns};
use readings::{Counted, WatchedReadings};
use rows::Rows;
use scraper::{Scrape, Scraper};

use crate::keeping::SupervisedProcess;
use crate::process_table::everyone;

pub use exposition::ExpositionError;
pub use external::{ExternalLocator, ExternalProcesses, ExternalUsage};
pub use machine::machine;
pub use readings::{Readings, Window};
pub use rows::HEADER;
pub use scraper::{ScrapeError, scrape};

/// The default sampling interval.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// The shortest interval: below it the instruments would cost as much as they measure.
const INTERVAL_MIN: Duration = Duration::from_millis(50);
/// How long the start and the end of a trial wait for the subjects' own counters: for a response that is in progress,
/// and for the one that counts.
const COUNTERS_WITHIN: Duration = Duration::from_secs(2 * scraper::ANSWER_WITHIN.as_secs() + 1);

/// The instruments of a run. They stop on drop.
#[derive(Debug)]
pub struct Instruments {
    shared: Arc<SharedInstrumentsState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct SharedInstrumentsState {
    state: Mutex<InstrumentsState>,
    changed: Condvar,
}

#[derive(Debug)]
struct InstrumentsState {
    interval: Duration,
    next: Instant,
    is_over: bool,
    watched: BTreeMap<String, Watched>,
    machine: MachineFiles,
    rows: Rows,
    buffer: Vec<u8>,
    /// Of the running trial.
    readings: Option<Readings>,
}

/// A watched subject or generator.
#[derive(Debug)]
struct Watched {
    is_generator: bool,
    /// None if it runs elsewhere.
    members: Option<Members>,
    scraper: Option<Arc<Scraper>>,
}

impl Instruments {
    /// Starts to sample every `interval` into this file.
    ///
    /// # Errors
    /// If the file cannot be written or the thread cannot be started.
    pub fn start(path: &Path, interval: Duration) -> io::Result<Self> {
        let interval = interval.max(INTERVAL_MIN);
        let state = InstrumentsState {
            interval,
            next: Instant::now() + interval,
            is_over: false,
            watched: BTreeMap::new(),
            machine: MachineFiles::open(),
            rows: Rows::append(path)?,
            buffer: Vec::new(),
            readings: None,
        };
        let shared = Arc::new(SharedInstrumentsState { state: Mutex::new(state), changed: Condvar::new() });
        let sampled = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name(String::from("instruments")).spawn(move || run(&sampled))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Watches a subject, replacing one of the same name: its processes if they run here, and its counters if it
    /// exposes them.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn watch_subject(
        &self,
        name: &str,
        kept: Option<&SupervisedProcess>,
        metrics_url: Option<&str>,
    ) -> io::Result<()> {
        let scraper = metrics_url.map(|url| Scraper::start(url.to_owned())).transpose()?.map(Arc::new);
        self.watch(name, Watched { is_generator: false, members: kept.map(members_of), scraper });
        Ok(())
    }

    /// Watches a generator, replacing one of the same name.
    pub fn watch_generator(&self, name: &str, kept: &SupervisedProcess) {
        self.watch(name, Watched { is_generator: true, members: Some(members_of(kept)), scraper: None });
    }

    fn watch(&self, name: &str, watched: Watched) {
        let mut state = self.shared.state.lock();
        if let Some(readings) = &mut state.readings {
            // It begins within the trial, with nothing used.
            let mut begun = WatchedReadings { is_generator: watched.is_generator, ..WatchedReadings::default() };
            begun.track.push(Use { at_ns: breme_sys::monotonic_ns(), ..Use::default() });
            readings.watched.insert(name.to_owned(), begun);
        }
        state.watched.insert(name.to_owned(), watched);
    }

    /// Stops watching; readings in this trial are kept. An exited process knows best what it has used
    /// ([`SupervisedProcess::cpu_time`]).
    pub fn forget(&self, name: &str, cpu_time: Option<(Duration, Duration)>) {
        let mut state = self.shared.state.lock();
        let Some(Watched { members: Some(members), .. }) = state.watched.remove(name) else { return };
        let mut used = Use { at_ns: breme_sys::monotonic_ns(), ..members.used() };
        if let Some((user, system)) = cpu_time {
            used.cpu_user_ns = used.cpu_user_ns.max(as_ns(user));
            used.cpu_system_ns = used.cpu_system_ns.max(as_ns(system));
        }
        if let Some(readings) = state.readings.as_mut().and_then(|readings| readings.watched.get_mut(name)) {
            readings.track.push(used);
        }
    }

    /// Begins a trial: samples immediately, then every `interval`.
    pub fn begin(&self, trial: u32, interval: Duration) {
        self.begin_from(self.scrape_counters(), trial, interval);
    }

    /// With counters that were just read.
    fn begin_from(&self, counted: BTreeMap<String, Counted>, trial: u32, interval: Duration) {
        let others_ns = time_of_others_ns();
        let mut state = self.shared.state.lock();
        let watched = state.watched.iter().map(|(name, watched)| (name.clone(), watched.begin_readings())).collect();
        state.readings = Some(Readings { watched, others_ns: (others_ns, others_ns), ..Readings::default() });
        state.interval = interval.max(INTERVAL_MIN);
        state.next = Instant::now() + state.interval;
        let at_ns = breme_sys::monotonic_ns();
        state.rows.begin_trial(trial, at_ns);
        // Counters read before a trial are valid until its load begins. They are added first: the sample may contain
        // newer ones, after which these would be rejected.
        let held = |counted: Counted| counted.map(|scrape| Scrape { at_ns, ..scrape });
        if let Some(readings) = &mut state.readings {
            readings.take_counted(counted.into_iter().map(|(name, counted)| (name, held(counted))));
        }
        state.sample(at_ns, true);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Ends the trial with a last sample, and returns its readings.
    #[must_use]
    pub fn end(&self) -> Readings {
        let counted = self.scrape_counters();
        let mut state = self.shared.state.lock();
        state.sample(breme_sys::monotonic_ns(), true);
        state.rows.begin_trial(0, breme_sys::monotonic_ns());
        let mut readings = state.readings.take().unwrap_or_default();
        readings.faults.extend(state.rows.fault().map(str::to_owned));
        drop(state);
        readings.take_counted(counted);
        readings.leave_out_uncounted();
        readings.others_ns.1 = time_of_others_ns();
        readings
    }

    /// Scrapes all subjects at the same time, without blocking the sampling thread, which may take the results first.
    fn scrape_counters(&self) -> BTreeMap<String, Counted> {
        let scraper = |(name, watched): (&String, &Watched)| Some((name.clone(), watched.scraper.clone()?));
        let scrapers: Vec<_> = self.shared.state.lock().watched.iter().filter_map(scraper).collect();
        std::thread::scope(|scope| {
            let scrape = |(name, scraper): (String, Arc<Scraper>)| {
                scope.spawn(move || (name, scraper.request_and_wait(COUNTERS_WITHIN)))
            };
            let scrapes: Vec<_> = scrapers.into_iter().map(scrape).collect();
            scrapes.into_iter().filter_map(|scrape| scrape.join().ok()).collect()
        })
    }
}

impl Drop for Instruments {
    fn drop(&mut self) {
        self.shared.state.lock().is_over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn members_of(kept: &SupervisedProcess) -> Members {
    Members::new(Root::from_process(kept))
}

impl Watched {
    fn begin_readings(&self) -> WatchedReadings {
        let restarts_before = self.members.as_ref().map_or(0, |members| members.used().restarts);
        WatchedReadings { is_generator: self.is_generator, restarts_before, ..WatchedReadings::default() }
    }
}

/// Samples at multiples of the interval after the first sample, so that it does not drift; missed instants are skipped.
fn run(shared: &SharedInstrumentsState) {
    let mut state = shared.state.lock();
    while !state.is_over {
        let left = state.next.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            shared.changed.wait_for(&mut state, left);
            continue;
        }
        state.sample(breme_sys::monotonic_ns(), false);
        state.plan_next();
    }
}

impl InstrumentsState {
    fn plan_next(&mut self) {
        let late = Instant::now().saturating_duration_since(self.next);
        let missed = u32::try_from(late.as_nanos() / self.interval.as_nanos().max(1)).unwrap_or(0);
        self.next += self.interval * (missed + 1);
    }

    /// `is_thorough`: at a trial's start and end.
    fn sample(&mut self, at_ns: u64, is_thorough: bool) {
        let needs_table =
            self.watched.values().any(|watched| watched.members.as_ref().is_some_and(Members::needs_table));
        let round = Round::new(at_ns, is_thorough, if needs_table { everyone() } else { Vec::new() });
        let is_written = self.rows.begin_sample(at_ns);
        let machine = self.machine.sample(at_ns, &mut self.buffer);
        if is_written {
            self.rows.machine(&machine);
        }
        if let Some(readings) = &mut self.readings {
            readings.machine.push(machine);
        }
        for (name, watched) in &mut self.watched {
            let readings = self.readings.as_mut().and_then(|readings| readings.watched.get_mut(name));
            let rows = is_written.then_some(&mut self.rows);
            watched.sample(name, &round, &mut self.buffer, readings, rows);
        }
        if is_written {
            self.rows.end_sample();
        }
    }
}

impl Watched {
    fn sample(
        &mut self,
        name: &str,
        round: &Round,
        buffer: &mut Vec<u8>,
        mut readings: Option<&mut WatchedReadings>,
        mut rows: Option<&mut Rows>,
    ) {
        if let Some(members) = &mut self.members {
            let used = members.sample(round, buffer);
            if let Some(rows) = &mut rows {
                members.seen().for_each(|(pid, seen)| rows.process(name, pid, seen));
                rows.total(name, &used);
            }
            if let Some(readings) = &mut readings {
                readings.track.push(used);
            }
        }
        let Some(scraper) = &self.scraper else { return };
        if let Some(scrape) = scraper.take() {
            rows.iter_mut().for_each(|rows| rows.metrics(name, &scrape.exposed));
            readings.iter_mut().for_each(|readings| readings.counters.push(&scrape));
        }
        scraper.request();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    /// A server whose counter and gauge are its number of requests.
    fn counting_its_questions() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for (number, stream) in (1..).zip(listener.incoming()) {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
                let content = format!("# TYPE asked counter\nasked_total {number}\nnumber {number}\n# EOF\n");
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close", content.len());
                let _ = write!(stream, "{head}\r\n\r\n{content}");
            }
        });
        url
    }

    /// Between the scrape for a trial's start and the start itself, a regular sample may take the new result.
    #[test]
    fn a_trial_begins_with_what_was_read_for_it_also_when_that_was_sampled_before() {
        const SELDOM: Duration = Duration::from_secs(3600);
        let folder = tempfile::tempdir().unwrap();
        let instruments = Instruments::start(&folder.path().join("instruments.csv"), SELDOM).unwrap();
        instruments.watch_subject("it", None, Some(&counting_its_questions())).unwrap();
        let counted = instruments.scrape_counters();
        let first = counted["it"].as_ref().unwrap().exposed["number"].value;
        instruments.shared.state.lock().sample(breme_sys::monotonic_ns(), false);
        instruments.begin_from(counted, 1, SELDOM);
        let readings = instruments.end();
        let (from, to) = readings.span_ns();
        let counters = &readings.window(from, to).subjects["it"].counters;
        assert_eq!(counters["asked_total"], counters["number"] - first, "{counters:?}");
        assert!(counters["asked_total"] >= 2.0, "the end was asked for too: {counters:?}");
    }
}
