//! `breme import`: converts recorded or described traffic to a scenario of `breme load`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use breme_command::failure::{Failure, exit};
use breme_command::output;
use breme_import::{Limits, read_access_log, read_curl, read_har, read_openapi};
use breme_load_command::{SCENARIO_COUNT_MAX, STEP_COUNT_MAX};
use clap::ValueEnum;

const INPUT_BYTES_MAX: u64 = 256 << 20;
/// What `breme load` accepts.
const LIMITS: Limits = Limits { scenarios: SCENARIO_COUNT_MAX, steps: STEP_COUNT_MAX };

/// Turn recorded traffic or an OpenAPI description into a scenario for `breme load`
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct ImportArgs {
    /// Format of the file
    #[arg(value_name = "FORMAT")]
    format: RecordingFormat,

    /// File with the recording or description; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// File for the scenario [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RecordingFormat {
    /// HTTP Archive, as browsers export it: one session with the times between its requests.
    Har,
    /// curl commands, one per line or with `\` at line ends ("Copy as cURL").
    Curl,
    /// Access log in the common or combined format of nginx and Apache: a session for each visit of a client.
    AccessLog,
    /// OpenAPI 3 description in JSON or YAML: a step for each operation, those that change something as comments.
    #[value(name = "openapi")]
    OpenApi,
}

const AFTER_HELP: &str = "Examples:
  breme import har shop.har -o shop.scenario.toml
  breme load --scenario shop.scenario.toml -c 20 -d 1m
  breme import access-log /var/log/nginx/access.log -o visits.scenario.toml
  breme load --scenario visits.scenario.toml -R 5 -d 10m http://staging:8080
  breme import openapi openapi.yaml -o api.scenario.toml
  breme load --scenario api.scenario.toml -c 10 -d 10s --var petId=7 http://staging:8080

Cookies are omitted, since each session of a load keeps those that it receives. Values of
headers, query parameters and body fields whose names mark them as secret (authorization,
password, token, …) become variables without a value; set them with --var NAME=VALUE.";

pub fn run(args: &ImportArgs) -> ExitCode {
    exit("import", import(args).map(|()| ExitCode::SUCCESS))
}

fn import(args: &ImportArgs) -> Result<(), Failure> {
    let named = |problem: String| Failure::run(format!("{}: {problem}", args.file.display()));
    let text = read(&args.file).map_err(|error| named(format!("cannot be read: {error}")))?;
    let recording = match args.format {
        RecordingFormat::Har => read_har(&text, LIMITS),
        RecordingFormat::Curl => read_curl(&text, LIMITS),
        RecordingFormat::AccessLog => read_access_log(&text, LIMITS),
        RecordingFormat::OpenApi => read_openapi(&text, LIMITS),
    };
    let recording = recording.map_err(named)?;
    write(args.output.as_deref(), &recording.scenario())?;
    for note in recording.notes() {
        breme_base::error_line!("breme import: {note}");
    }
    Ok(())
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = Vec::new();
    let input: Box<dyn Read> = if path == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
    input.take(INPUT_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > INPUT_BYTES_MAX {
        return Err(io::Error::other(format!("it is larger than {} MiB; import a part of it", INPUT_BYTES_MAX >> 20)));
    }
    // A log may contain any bytes that clients have sent.
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn write(path: Option<&Path>, text: &str) -> Result<(), Failure> {
    match path {
        Some(path) => std::fs::write(path, text)
            .map_err(|error| Failure::run(format!("{}: cannot be written: {error}", path.display()))),
        None => output::print(text),
    }
}
