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
/// The beginning of a gzip file (RFC 1952, 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];
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

    /// File for the scenario; - for standard output [default: -]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RecordingFormat {
    /// HTTP Archive, as browsers export it: one session with the times between its requests.
    Har,
    /// curl commands as for bash ("Copy as cURL").
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
    text_of(&text)
}

fn text_of(text: &[u8]) -> io::Result<String> {
    if text.len() as u64 > INPUT_BYTES_MAX {
        return Err(io::Error::other(format!("it is larger than {} MiB; import a part of it", INPUT_BYTES_MAX >> 20)));
    }
    if text.starts_with(&GZIP) {
        return Err(io::Error::other("it is compressed; decompress it first: zcat FILE | breme import FORMAT -"));
    }
    // A log may contain any bytes that clients have sent.
    Ok(String::from_utf8_lossy(text).into_owned())
}

fn write(path: Option<&Path>, text: &str) -> Result<(), Failure> {
    match path.filter(|path| *path != Path::new("-")) {
        Some(path) => std::fs::write(path, text)
            .map_err(|error| Failure::run(format!("{}: cannot be written: {error}", path.display()))),
        None => output::print(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hyphen_is_standard_output() {
        write(Some(Path::new("-")), "").unwrap();
        assert!(!Path::new("-").exists());
    }

    #[test]
    fn compressed_files_are_refused() {
        assert!(text_of(&[0x1f, 0x8b, 8]).unwrap_err().to_string().contains("zcat"));
        assert_eq!(text_of(&[b'a', 0xe9]).unwrap(), "a\u{fffd}");
    }
}
