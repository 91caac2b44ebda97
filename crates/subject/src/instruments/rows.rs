//! `instruments.csv`: the samples, one value or process per line; the columns are in [`HEADER`].
//!
//! | what | name | columns |
//! |---|---|---|
//! | `process` | subject or generator | all but `value`; a line for each process |
//! | `total` | subject or generator | CPU time of all its processes, exited ones too; sums of memory, threads, descriptors, switches |
//! | `metric` | subject, a space, series | `value`, when it has changed |
//! | `machine` | name of a value | `value` |
//!
//! Times and counts are cumulative, so each line can be understood alone. Every sample of a trial's first
//! [hour](DENSE_NS) is written, then one per [ten seconds](SPARSE_NS): a week of ten processes is about 130 MB instead
//! of 1.2 GB.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::SystemTime;

use breme_base::CsvField;

use super::exposition::Exposed;
use super::machine::MachineSample;
use super::members::{Use, as_ns, duration_from_ticks};
use super::process::Seen;

pub const HEADER: &str = "monotonic_ns,unix_ms,trial,what,name,pid,cpu_user_ns,cpu_system_ns,resident_bytes,threads,descriptors,\
descriptors_limit,switches_voluntary,switches_forced,value";

/// How long every sample is written.
const DENSE_NS: u64 = 3_600_000_000_000;
/// Interval of the samples written after that.
const SPARSE_NS: u64 = 10_000_000_000;
/// The most series whose last value is kept.
const SERIES_MAX: usize = 10_000;

#[derive(Debug)]
pub(super) struct Rows {
    file: BufWriter<File>,
    trial: u32,
    began_ns: u64,
    written_ns: u64,
    at: (u64, u64),
    metrics: BTreeMap<String, f64>,
    /// Why writing has stopped.
    fault: Option<String>,
}

impl Rows {
    /// Appends to an existing file. A partial last line, left by a killed run, is ended so that it does not damage the
    /// next.
    pub(super) fn append(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).create(true).append(true).open(path)?;
        if file.metadata()?.len() == 0 {
            writeln!(file, "{HEADER}")?;
        } else if last_byte(&mut file)? != b'\n' {
            writeln!(file)?;
        }
        let file = BufWriter::new(file);
        let metrics = BTreeMap::new();
        Ok(Self { file, trial: 0, began_ns: 0, written_ns: 0, at: (0, 0), metrics, fault: None })
    }

    /// The following rows belong to this trial; 0: to none.
    pub(super) fn begin_trial(&mut self, trial: u32, at_ns: u64) {
        (self.trial, self.began_ns) = (trial, at_ns);
    }

    /// Begins a sample. Returns whether it is to be written.
    pub(super) fn begin_sample(&mut self, at_ns: u64) -> bool {
        let is_dense = at_ns.saturating_sub(self.began_ns) < DENSE_NS;
        if self.fault.is_some() || !(is_dense || at_ns.saturating_sub(self.written_ns) >= SPARSE_NS) {
            return false;
        }
        self.written_ns = at_ns;
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.at = (at_ns, u64::try_from(unix.as_millis()).unwrap_or(0));
        true
    }

    /// Flushes to the system. A full disk ends the writing and nothing else.
    pub(super) fn end_sample(&mut self) {
        if let Err(error) = self.file.flush() {
            self.fault = Some(format!("cannot write instruments.csv: {error}"));
        }
    }

    pub(super) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    pub(super) fn process(&mut self, name: &str, pid: u32, seen: &Seen) {
        let stat = &seen.stat;
        let (user, system) =
            (as_ns(duration_from_ticks(stat.user_ticks)), as_ns(duration_from_ticks(stat.system_ticks)));
        let resident = stat.resident_pages * rustix::param::page_size() as u64;
        let Seen { descriptors, descriptors_limit, switches, .. } = seen;
        let limit = if *descriptors_limit == u64::MAX { String::new() } else { descriptors_limit.to_string() };
        self.line(
            "process",
            name,
            format_args!(
                "{pid},{user},{system},{resident},{},{descriptors},{limit},{},{},",
                stat.threads, switches.voluntary, switches.forced
            ),
        );
    }

    pub(super) fn total(&mut self, name: &str, used: &Use) {
        let Use { cpu_user_ns, cpu_system_ns, resident_bytes, threads, descriptors, .. } = used;
        let (voluntary, forced) = (used.switches_voluntary, used.switches_forced);
        self.line(
            "total",
            name,
            format_args!(
                ",{cpu_user_ns},{cpu_system_ns},{resident_bytes},{threads},{descriptors},,{voluntary},{forced},"
            ),
        );
    }

    pub(super) fn metrics(&mut self, subject: &str, exposed: &Exposed) {
        for (series, value) in exposed {
            let name = format!("{subject} {series}");
            if self.metrics.get(&name) == Some(&value.value) {
                continue;
            }
            self.line("metric", &name, format_args!(",,,,,,,,,{}", value.value));
            if self.metrics.len() < SERIES_MAX || self.metrics.contains_key(&name) {
                self.metrics.insert(name, value.value);
            }
        }
    }

    pub(super) fn machine(&mut self, sample: &MachineSample) {
        let values = [
            ("cpu_user_ns", sample.user_ns),
            ("cpu_system_ns", sample.system_ns),
            ("cpu_interrupts_ns", sample.interrupts_ns),
            ("cpu_idle_ns", sample.idle_ns),
            ("cpu_steal_ns", sample.steal_ns),
            ("memory_available_bytes", sample.available_bytes),
            ("tcp_sockets", sample.tcp_sockets),
            ("tcp_time_wait", sample.tcp_time_wait),
        ];
        for (name, value) in values {
            self.line("machine", name, format_args!(",,,,,,,,,{value}"));
        }
    }

    fn line(&mut self, what: &str, name: &str, rest: std::fmt::Arguments<'_>) {
        let (at_ns, unix_ms) = self.at;
        let name = CsvField(name);
        // A write error is reported at the end of the sample.
        let _ = writeln!(self.file, "{at_ns},{unix_ms},{},{what},{name},{rest}", self.trial);
    }
}

fn last_byte(file: &mut File) -> io::Result<u8> {
    let mut byte = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut byte)?;
    Ok(byte[0])
}

#[cfg(test)]
mod tests {
    use super::super::exposition::parse;
    use super::*;

    #[test]
    fn every_line_has_the_columns_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("instruments.csv");
        for trial in 1..3 {
            let mut rows = Rows::append(&path).unwrap();
            rows.begin_trial(trial, 5);
            assert!(rows.begin_sample(10));
            rows.process("edge", 7, &Seen::default());
            rows.total("edge", &Use::default());
            rows.metrics("edge", &parse("hits 5\n").unwrap());
            rows.metrics("edge", &parse("hits 5\n").unwrap());
            rows.machine(&MachineSample::default());
            rows.end_sample();
        }
        let text = std::fs::read_to_string(path).unwrap();
        let columns = HEADER.split(',').count();
        assert!(text.lines().all(|line| line.split(',').count() == columns), "{text}");
        assert_eq!(text.matches("monotonic_ns").count(), 1);
        assert_eq!(text.matches(",metric,edge hits,").count(), 2, "once in each: {text}");
    }

    #[test]
    fn half_a_line_does_not_spoil_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("instruments.csv");
        std::fs::write(&path, format!("{HEADER}\n17,1,3,total,ed")).unwrap();
        let mut rows = Rows::append(&path).unwrap();
        assert!(rows.begin_sample(10));
        rows.total("edge", &Use::default());
        rows.end_sample();
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[1]), (3, "17,1,3,total,ed"), "{text}");
        assert!(lines[2].starts_with("10,"));
    }

    #[test]
    fn after_an_hour_samples_are_written_sparsely() {
        let folder = tempfile::tempdir().unwrap();
        let mut rows = Rows::append(&folder.path().join("x")).unwrap();
        rows.begin_trial(1, 0);
        let week = (0..604_800).filter(|second| rows.begin_sample(second * 1_000_000_000)).count();
        assert_eq!(week, 3_600 + (604_800 - 3_600) / 10);
    }
}
