//! `breme versus`: an experiment with servers and variants from the command line.
//!
//! ```text
//!  arguments ──► contenders ──► experiment (TOML) ──► as `breme run`
//! ```

mod contender;
mod experiment;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use breme_base::has_user_info;
use breme_command::failure::Failure;
use breme_command::server::at_least_one;
use breme_command::units;
use breme_expression::{MeasuredOn, Quantity};
use breme_load_command::{is_field_name, parse_rate};
use breme_subject::{DiscoveryError, ERROR_STATUS_MIN, Launcher, status_of};

use self::contender::{Contender, ContenderSource, Start};
use self::experiment::{Load, Variation};
use super::run::{self, Storage};
use super::stored_run::ClaimKind;

/// Time limit of the request before the first trial.
const RESPONSE_WITHIN: Duration = Duration::from_secs(2);

/// Compare two or more servers, or variants of one, and say which is faster
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct VersusArgs {
    /// URL of a running server, or command that starts one; NAME=… sets the name under which it is reported
    #[arg(value_name = "SERVER", required = true)]
    servers: Vec<String>,

    /// Path to request [default: the path of the URL, or /]
    #[arg(long, value_name = "PATH")]
    get: Option<String>,

    /// Number of concurrent connections; in a closed loop each is one user
    #[arg(short, long, value_name = "N", default_value = "10", value_parser = at_least_one)]
    connections: usize,

    /// Send at this rate (requests per second), whatever the responses do
    #[arg(short = 'R', long, value_name = "RATE", value_parser = positive_rate)]
    rate: Option<f64>,

    /// Requests in flight on each connection (HTTP/1.1 pipelining)
    #[arg(short, long, value_name = "DEPTH", default_value = "1", value_parser = at_least_one)]
    pipeline: usize,

    /// Header of each request, NAME:VALUE; repeatable
    #[arg(short = 'H', long = "header", value_name = "HEADER", value_parser = header)]
    headers: Vec<(String, String)>,

    /// Duration of a trial; each server is measured in 6 to 12 trials
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = positive_time)]
    duration: String,

    /// Measure that decides: rate, mean, p50, p99, cpu, … [default: rate; p99 with --rate]
    #[arg(short, long, value_name = "MEASURE", value_parser = measure)]
    measure: Option<String>,

    /// Vary a setting of the load (connections=1,10,100), a flag of the server (server.threads=1,2), or ${NAME} in its
    /// command; repeatable
    #[arg(long = "vary", value_name = "NAME=A,B", value_parser = Variation::parse)]
    variations: Vec<Variation>,

    /// Write the experiment file that does the same with `breme run`
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    #[command(flatten)]
    storage: Storage,
}

const AFTER_HELP: &str = "Examples:
  breme versus http://127.0.0.1:8080/ http://127.0.0.1:8081/
  breme versus 'nginx -c $PWD/a.conf' 'caddy run' --get /x -c 50
  breme versus old='./server-1.0 --port ${port}' new='./server-1.1 --port ${port}' -m p99
  breme versus 'breme site . --listen 127.0.0.1:${port}' --get /x --vary server.threads=1,2

A command runs in the current folder, through sh. ${port} in it is replaced by a free port; without
it, the command is started once to find the port on which it listens.

Exit status:
  0    a verdict: a difference, or practically equal
  1    no trial counts, or the run failed
  2    wrong usage
  4    undecided
  130  interrupted by SIGINT (143: SIGTERM)";

pub(super) fn versus(args: &VersusArgs) -> Result<u8, Failure> {
    let folder =
        std::env::current_dir().map_err(|error| Failure::run(format!("the current folder cannot be read: {error}")))?;
    // Neither an experiment nor the record of a subject can name other paths.
    let Some(folder_name) = folder.to_str() else {
        return Err(Failure::usage("the path of the current folder is not UTF-8; start breme versus in another one"));
    };
    let sources = contender::parse_all(&args.servers).map_err(Failure::usage)?;
    check_headers(&args.headers).map_err(Failure::usage)?;
    experiment::check_variations(&args.variations, &sources).map_err(Failure::usage)?;
    let load = load(args, &sources);
    check_measure(&load.measure, &sources).map_err(Failure::usage)?;
    let launcher = run::launcher()?;
    let contenders = sources
        .into_iter()
        .map(|source| ready(source, &load, &args.variations, folder_name, &launcher))
        .collect::<Result<Vec<_>, _>>()?;
    let text = experiment::text(&contenders, &load, &args.variations, folder_name);
    if let Some(path) = &args.save {
        fs::write(path, &text)
            .map_err(|error| Failure::run(format!("{}: cannot be written: {error}", path.display())))?;
    }
    run::run_text(&args.storage, &text, "versus", &folder, ClaimKind::Question)
}

fn positive_rate(text: &str) -> Result<f64, String> {
    let rate = parse_rate(text).map_err(|error| error.to_string())?;
    if rate.is_finite() && rate > 0.0 { Ok(rate) } else { Err(String::from("it must be more than 0")) }
}

fn positive_time(text: &str) -> Result<String, String> {
    let time = units::duration(text).map_err(|error| error.to_string())?;
    if time.is_zero() { Err(String::from("it must be more than 0")) } else { Ok(text.to_owned()) }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = units::field(text)?;
    if !is_field_name(&name) {
        return Err(format!("{name:?} is not a header name; use letters, digits and '-'"));
    }
    if value.contains(['\r', '\n', '\0']) {
        return Err(String::from("the value contains a line break"));
    }
    Ok((name, value))
}

fn measure(text: &str) -> Result<String, String> {
    Quantity::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// An experiment has each header once.
fn check_headers(headers: &[(String, String)]) -> Result<(), String> {
    let is_again =
        |position: usize, name: &str| headers[..position].iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    match headers.iter().enumerate().find(|(position, (name, _))| is_again(*position, name)) {
        Some((_, (name, _))) => Err(format!("--header {name} is given twice; join its values by a comma")),
        None => Ok(()),
    }
}

/// What a server uses is known only if breme starts it.
fn check_measure(measure: &str, sources: &[ContenderSource]) -> Result<(), String> {
    let is_of_server = Quantity::parse(measure).is_ok_and(|quantity| quantity.measured_on() == MeasuredOn::Subject);
    let running = sources.iter().find(|source| matches!(source.start, Start::Running(_)));
    match running.filter(|_| is_of_server) {
        Some(ContenderSource { name, .. }) => Err(format!(
            "--measure {measure} is unknown of {name}, which breme does not start; give the command that starts it"
        )),
        None => Ok(()),
    }
}

fn load(args: &VersusArgs, sources: &[ContenderSource]) -> Load {
    let path = args.get.clone().or_else(|| sources.iter().find_map(|source| source.path.clone()));
    let measure = args.measure.clone();
    Load {
        path: path.unwrap_or_else(|| String::from("/")),
        connections: args.connections,
        rate: args.rate,
        pipeline: args.pipeline,
        headers: args.headers.clone(),
        duration: args.duration.clone(),
        measure: measure.unwrap_or_else(|| String::from(if args.rate.is_some() { "p99" } else { "rate" })),
    }
}

/// A contender with a known address; a server without `${port}` is started once to discover it.
fn ready(
    source: ContenderSource,
    load: &Load,
    variations: &[Variation],
    folder: &str,
    launcher: &Launcher,
) -> Result<Contender, Failure> {
    let only_errors = |url: &str, status: u16| {
        Failure::run(format!(
            "{}: GET {url} returned status {status}, and errors are not worth comparing; name another path with \
             --get, or the header that is missing with --header",
            source.name
        ))
    };
    let url = match &source.start {
        Start::Running(url) => {
            // A server that does not respond, and one with a password, is left to the generator.
            let status =
                if has_user_info(url) { None } else { status_of(url, &load.path, &load.headers, RESPONSE_WITHIN) };
            if let Some(status) = status.filter(|&status| status >= ERROR_STATUS_MIN) {
                return Err(only_errors(&format!("{url}{}", load.path), status));
            }
            url.clone()
        }
        Start::Command(command) if command.contains("${port}") => String::from("http://127.0.0.1:${port}"),
        Start::Command(command) => {
            let command = experiment::first_variant(command, variations);
            let scratch = tempfile::tempdir()
                .map_err(|error| Failure::run(format!("no temporary folder can be created: {error}")))?;
            let command = experiment::shell(&command, folder);
            let discovered = launcher.discover_url(&command, scratch.path(), &load.path, &load.headers);
            discovered.map_err(|problem| match problem {
                DiscoveryError::Status { url, status } => only_errors(&url, status),
                problem => Failure::run(format!("{}: {problem}", source.name)),
            })?
        }
    };
    Ok(Contender { name: source.name, start: source.start, url })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        args: VersusArgs,
    }

    /// Everything that is checked before a server is started.
    fn check(arguments: &[&str]) -> Result<(), String> {
        let flags = Flags::try_parse_from(["versus", "http://a", "./b"].iter().chain(arguments));
        let args = flags.map_err(|error| error.to_string())?.args;
        let sources = contender::parse_all(&args.servers)?;
        check_headers(&args.headers)?;
        experiment::check_variations(&args.variations, &sources)?;
        check_measure(&load(&args, &sources).measure, &sources)
    }

    #[test]
    fn a_wrong_value_is_an_error_of_its_flag() {
        for (arguments, flag) in [
            (&["-H", "nocolon"][..], "--header"),
            (&["-H", "a(: b"], "--header"),
            (&["-H", "A: b\nc"], "--header"),
            (&["-H", "A: b", "-H", "a: c"], "--header"),
            (&["-R", "nan"], "--rate"),
            (&["-R", "0"], "--rate"),
            (&["-c", "0"], "--connections"),
            (&["-p", "0"], "--pipeline"),
            (&["-d", "0s"], "--duration"),
            (&["-d", "1 year"], "--duration"),
            (&["-m", "speed"], "--measure"),
            (&["-m", "cpu"], "--measure"),
            (&["-m", "memory"], "--measure"),
            (&["--vary", "connections=0,1"], "--vary"),
            (&["--vary", "rate=1,nan"], "--vary"),
            (&["--vary", "server.x=it's,b"], "--vary"),
            (&["--vary", "port=1,2"], "--vary"),
            (&["--vary", "server.folder=1,2"], "--vary"),
            (&["--vary", "breme=1,2"], "--vary"),
            (&["--vary", "experiment=1,2"], "--vary"),
            (&["--vary", "shared=1,2"], "--vary"),
        ] {
            let problem = check(arguments).unwrap_err();
            assert!(problem.contains(flag), "{arguments:?}: {problem}");
        }
        for right in [
            &["-H", "A: b", "-H", "C: d"][..],
            &["-R", "20k"],
            &["-c", "1k"],
            &["-m", "p99"],
            &["--vary", "rate=1,20k", "--vary", "think=1ms,2ms"],
        ] {
            assert_eq!(check(right), Ok(()), "{right:?}");
        }
    }
}
