//! The output of the result: standard output, and files in formats by extension.
//!
//! Files are created before the run, so that a wrong path costs no measurement. A `.hlog` is written during the run, by
//! a thread of its own: it has the histograms of every interval, which would not fit into memory for a long run.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use breme_base::terminal::Style;
use breme_command::checks::{self, Checks};
use breme_command::failure::Failure;
use breme_command::output::has_colours;
use breme_driver::Clock;
use breme_load::{Interval, Run, render_text, write_bench, write_csv, write_steps_csv};
use breme_load_plan::Plan;
use breme_load_result::LoadOutcome;
use breme_stats::jtl::{JtlInterval, JtlWriter};
use breme_stats::log;

use super::feed::{Feed, Times};
use super::page;

/// The extensions of the formats.
const ENDINGS: &str = ".html, .json, .csv, .steps.csv, .hlog, .hgrm, .jtl or .bench.txt";

/// The formats of the result on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ResultFormat {
    Text,
    Json,
    Markdown,
    Junit,
}

/// The requested files.
#[derive(Debug)]
pub struct Outputs {
    files: Vec<Output>,
}

#[derive(Debug)]
struct Output {
    path: PathBuf,
    format: FileFormat,
    file: File,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileFormat {
    Html,
    Json,
    Csv,
    /// The steps of scenarios by name.
    StepsCsv,
    Log,
    /// JMeter's result log.
    Jtl,
    /// The Go benchmark format.
    Bench,
    Quantiles,
}

impl Outputs {
    /// Creates the files; `page` is a page whatever its extension. If one cannot be written, all keep their content.
    pub(super) fn create(paths: &[PathBuf], page: Option<&PathBuf>) -> Result<Self, Failure> {
        let formats: Vec<FileFormat> = paths.iter().map(|path| format_of(path)).collect::<Result<_, _>>()?;
        let all = paths.iter().zip(formats).chain(page.map(|path| (path, FileFormat::Html)));
        let files = all.map(|(path, format)| {
            let file = File::options().write(true).create(true).truncate(false).open(path);
            Ok(Output { path: path.clone(), format, file: file.map_err(|error| cannot_write(path, &error))? })
        });
        let files = files.collect::<Result<Vec<_>, Failure>>()?;
        truncate(&files)?;
        Ok(Self { files })
    }

    /// Starts writing the logs, from these feeds.
    pub(super) fn start_logs(&self, plan: &Plan, clock: Clock) -> Result<(Vec<Feed>, LogWriters), Failure> {
        let mut feeds = Vec::new();
        let mut threads = Vec::new();
        for output in self.files.iter().filter(|output| output.format.is_log()) {
            let write = output.format.log_writer(plan, clock);
            let mut file = output.file.try_clone().map_err(|error| cannot_write(&output.path, &error))?;
            let (feed, receiver) = Feed::new();
            let thread = std::thread::Builder::new()
                .name("log".to_owned())
                .spawn(move || write(&mut file, receiver))
                .map_err(|error| Failure::run(format!("cannot start a thread: {error}")))?;
            feeds.push(feed);
            threads.push((output.path.clone(), thread));
        }
        Ok((feeds, LogWriters { threads }))
    }

    /// Writes every file that can be written; the first failure counts.
    pub(super) fn write(&self, run: &Run, outcome: &LoadOutcome) -> Result<(), Failure> {
        let written = self.files.iter().map(|output| {
            let mut writer = BufWriter::new(&output.file);
            let written = match output.format {
                FileFormat::Html => writer.write_all(page::html(outcome).as_bytes()),
                FileFormat::Json => write_json(&mut writer, outcome),
                FileFormat::Csv => write_csv(&mut writer, outcome),
                FileFormat::StepsCsv => write_steps_csv(&mut writer, outcome),
                FileFormat::Quantiles => breme_stats::write_quantile_text(&mut writer, &run.response_histogram()),
                FileFormat::Bench => write_bench(&mut writer, outcome),
                FileFormat::Log | FileFormat::Jtl => Ok(()),
            };
            written.and_then(|()| writer.flush()).map_err(|error| cannot_write(&output.path, &error))
        });
        written.fold(Ok(()), Result::and)
    }
}

/// Empties the regular files, unless two results would overwrite each other.
fn truncate(outputs: &[Output]) -> Result<(), Failure> {
    let mut files = HashMap::new();
    for Output { path, file, .. } in outputs {
        let metadata = file.metadata().map_err(|error| cannot_write(path, &error))?;
        let other = metadata.is_file().then(|| files.insert((metadata.dev(), metadata.ino()), (path, file))).flatten();
        if let Some((first, _)) = other {
            let (first, path) = (first.display(), path.display());
            return Err(Failure::usage(format!(
                "--output {first} and {path} are one file; name another for one of them"
            )));
        }
    }
    files.into_values().try_for_each(|(path, file)| file.set_len(0).map_err(|error| cannot_write(path, &error)))
}

type LogWriter = Box<dyn FnOnce(&mut File, Receiver<Times>) -> io::Result<()> + Send>;

impl FileFormat {
    /// Whether it is written during the run.
    const fn is_log(self) -> bool {
        matches!(self, Self::Log | Self::Jtl)
    }

    fn log_writer(self, plan: &Plan, clock: Clock) -> LogWriter {
        if self == Self::Log {
            return Box::new(move |file, intervals| write_log(file, clock, intervals));
        }
        let (url, users) = (plan.url().to_owned(), plan.settings().connections);
        let label = format!("{} {url}", plan.method_name());
        Box::new(move |file, intervals| {
            write_jtl(JtlWriter::begin(BufWriter::new(file), &label, &url, users)?, clock, intervals)
        })
    }
}

/// The log begins with the run, whose start is known with the first interval.
fn write_log(file: &mut File, clock: Clock, intervals: Receiver<Times>) -> io::Result<()> {
    let mut intervals = intervals.into_iter().peekable();
    let started =
        intervals.peek().map_or_else(SystemTime::now, |first| UNIX_EPOCH + clock.unix_time(first.run_started));
    log::write(file, started, intervals.flat_map(rows))
}

/// A row for each kind of time.
fn rows(times: Times) -> [log::Interval; 4] {
    let Times { start, length, interval, .. } = times;
    let Interval { service, first_byte, response, connect, .. } = interval;
    let row = |tag: &str, histogram| log::Interval { tag: Some(tag.to_owned()), start, length, histogram };
    [row("service", service), row("first-byte", first_byte), row("response", response), row("connect", connect)]
}

fn write_jtl(mut writer: JtlWriter<BufWriter<&mut File>>, clock: Clock, intervals: Receiver<Times>) -> io::Result<()> {
    let mut started = None;
    for Times { run_started, start, length, interval } in intervals {
        // Once: the calendar may be set during the run.
        let started = *started.get_or_insert_with(|| clock.unix_time(run_started));
        writer.write(&JtlInterval {
            start: started + start,
            length,
            times: &interval.response,
            wrong: &interval.wrong,
            first_byte: &interval.first_byte,
            lost: interval.lost(),
            received_bytes: interval.received_bytes,
        })?;
    }
    writer.into_inner().flush()
}

fn format_of(path: &Path) -> Result<FileFormat, Failure> {
    if path.to_str().is_some_and(|path| path.ends_with(".steps.csv")) {
        return Ok(FileFormat::StepsCsv);
    }
    if path.to_str().is_some_and(|path| path.ends_with(".bench.txt")) {
        return Ok(FileFormat::Bench);
    }
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("html") => Ok(FileFormat::Html),
        Some("json") => Ok(FileFormat::Json),
        Some("csv") => Ok(FileFormat::Csv),
        Some("hlog") => Ok(FileFormat::Log),
        Some("jtl") => Ok(FileFormat::Jtl),
        Some("hgrm") => Ok(FileFormat::Quantiles),
        _ => Err(Failure::usage(format!("--output {}: the extension must be {ENDINGS}", path.display()))),
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::run(format!("--output {}: cannot be written: {error}", path.display()))
}

#[derive(Debug)]
pub struct LogWriters {
    threads: Vec<(PathBuf, JoinHandle<io::Result<()>>)>,
}

impl LogWriters {
    /// Waits until all is written; the run must have dropped its observer. The first failure counts.
    pub(super) fn join(self) -> Result<(), Failure> {
        let joined = self.threads.into_iter().map(|(path, thread)| {
            let written =
                thread.join().unwrap_or_else(|_| Err(io::Error::other("internal error: its thread panicked")));
            written.map_err(|error| cannot_write(&path, &error))
        });
        joined.fold(Ok(()), Result::and)
    }
}

/// Prints the result.
pub(super) fn print(outcome: &LoadOutcome, checks: &Checks, format: ResultFormat) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    // Only a terminal has a width.
    let width = terminal_size::terminal_size_of(&out).map(|(width, _)| usize::from(width.0));
    let colours = has_colours(&out);
    let printed = match format {
        ResultFormat::Text => out.write_all(render_text(outcome, Style { colours, width }).as_bytes()),
        ResultFormat::Json => write_json(&mut out, outcome),
        ResultFormat::Markdown => out.write_all(checks::markdown(checks).as_bytes()),
        ResultFormat::Junit => out.write_all(checks::junit(checks).as_bytes()),
    };
    printed.and_then(|()| out.flush()).map_err(|error| Failure::run(format!("cannot print the result: {error}")))
}

fn write_json(out: &mut impl Write, outcome: &LoadOutcome) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, outcome)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_name_the_format() {
        assert_eq!(format_of(Path::new("a.b/x.hlog")).unwrap(), FileFormat::Log);
        assert_eq!(format_of(Path::new("x.csv")).unwrap(), FileFormat::Csv);
        assert_eq!(format_of(Path::new("x.steps.csv")).unwrap(), FileFormat::StepsCsv);
        assert_eq!(format_of(Path::new("x.bench.txt")).unwrap(), FileFormat::Bench);
        assert_eq!(format_of(Path::new("x.jtl")).unwrap(), FileFormat::Jtl);
        let failure = format_of(Path::new("result")).unwrap_err();
        assert!(failure.code == breme_command::failure::USAGE && failure.message.contains(ENDINGS));
    }

    #[test]
    fn a_refused_output_empties_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let (old, linked) = (folder.path().join("old.json"), folder.path().join("linked.csv"));
        std::fs::write(&old, "old").unwrap();
        std::os::unix::fs::symlink(&old, &linked).unwrap();
        let missing = folder.path().join("missing").join("x.csv");
        let refused = |paths: &[&PathBuf], page| {
            let paths: Vec<PathBuf> = paths.iter().copied().cloned().collect();
            let failure = Outputs::create(&paths, page).unwrap_err();
            assert_eq!(std::fs::read_to_string(&old).unwrap(), "old");
            failure.message
        };
        assert!(refused(&[&old, &missing], None).contains("cannot be written"));
        assert!(refused(&[&old], Some(&old)).contains("are one file"));
        assert!(refused(&[&old, &linked], None).contains("are one file"));
        Outputs::create(std::slice::from_ref(&old), Some(&PathBuf::from("/dev/null"))).unwrap();
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "");
    }
}
