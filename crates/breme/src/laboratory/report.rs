//! `breme report`: the report of a stored run.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use breme_base::terminal::Style;
use breme_command::checks::{self, Checks};
use breme_command::failure::Failure;
use breme_command::output;
use breme_report::{Histograms, Run};
use breme_runner::journal;
use clap::ValueEnum;

use super::stored_run::{self, ClaimKind};

/// Print the result of a stored run, and rewrite its report.html
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct ReportArgs {
    /// Run to report: its folder, or its name in `runs`
    #[arg(value_name = "RUN")]
    run: PathBuf,

    /// Format of the output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: ReportFormat,

    /// File to write to [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const AFTER_HELP: &str = "Examples:
  breme report experiment-1
  breme report experiment-1 --format markdown
  breme report experiment-1 --format csv --output trials.csv";

/// The formats of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For a terminal.
    Text,
    /// One file with charts, readable offline.
    Html,
    /// For a pull request.
    Markdown,
    /// Run, judgement and every trial; schema: breme schema report.
    Json,
    /// A test case for each hypothesis, for CI servers.
    Junit,
    /// One row per trial and workload.
    Csv,
    /// One row per measure and combination of levels.
    MeasuresCsv,
    /// JMeter result log.
    Jtl,
    /// For benchstat.
    GoBench,
}

pub(super) fn report(args: &ReportArgs) -> Result<u8, Failure> {
    let judged = stored_run::read(&args.run)?;
    let instruments = judged.instruments()?;
    let run = judged.shown(&instruments);
    let checks = judged.checks(false, ClaimKind::Claim);
    match &args.output {
        Some(path) => {
            let failed = |error| Failure::run(format!("{}: cannot be written: {error}", path.display()));
            let mut file = BufWriter::new(File::create(path).map_err(failed)?);
            write(&run, &checks, args.format, &mut file).and_then(|()| file.flush()).map_err(failed)?;
        }
        None => output::write(|out| write(&run, &checks, args.format, out))?,
    }
    // The folder may belong to another user, or its disk may be full.
    if let Err(failure) = write_page(&breme_report::html(&run), &journal::report_path(&judged.run.folder)) {
        breme_base::error_line!("breme report: {}", failure.message);
    }
    Ok(0)
}

/// Replaces the page atomically.
pub(super) fn write_page(page: &str, path: &Path) -> Result<(), Failure> {
    let unfinished = path.with_extension("html.unfinished");
    let written = fs::write(&unfinished, page).and_then(|()| fs::rename(&unfinished, path));
    written.map_err(|error| Failure::run(format!("{}: cannot be written: {error}", path.display())))
}

pub(super) fn write(run: &Run<'_>, checks: &Checks, format: ReportFormat, out: &mut impl Write) -> io::Result<()> {
    let text = match format {
        ReportFormat::Text => breme_report::text(run, style()),
        ReportFormat::Html => breme_report::html(run),
        ReportFormat::Markdown => breme_report::markdown(run),
        ReportFormat::Json => breme_report::json(run, Histograms::Kept).map_err(io::Error::other)?,
        ReportFormat::Junit => checks::junit(checks),
        ReportFormat::Csv => breme_report::csv_trials(run),
        ReportFormat::MeasuresCsv => breme_report::csv_measures(run),
        ReportFormat::Jtl => {
            note_loads_without_times(run);
            return breme_report::jtl(run, out);
        }
        ReportFormat::GoBench => {
            note_loads_without_times(run);
            breme_report::go_bench(run)
        }
    };
    out.write_all(text.as_bytes())
}

fn note_loads_without_times(run: &Run<'_>) {
    let count = breme_report::loads_without_times(run);
    if count > 0 {
        let loads = breme_base::plural(count as u64, "load");
        breme_base::error_line!(
            "breme report: {loads} left out: this format needs the distribution of times, which other load generators \
             do not report"
        );
    }
}

/// According to the terminal.
pub(super) fn style() -> Style {
    let width = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    Style { colours: output::has_colours(&io::stdout()), width }
}
