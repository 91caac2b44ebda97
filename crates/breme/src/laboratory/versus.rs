//! `breme versus`: an experiment with servers and variants from the command line.
//!
//! ```text
//!  arguments ──► contenders ──► experiment (TOML) ──► as `breme run`
//! ```

mod contender;
mod experiment;

use std::fs;
use std::path::{Path, PathBuf};

use breme_command::failure::Failure;
use breme_subject::Launcher;

use self::contender::{Contender, ContenderSource, Start};
use self::experiment::{Load, Variation};
use super::run::{self, Storage};

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
    #[arg(short, long, value_name = "N", default_value = "10")]
    connections: u64,

    /// Send at this rate (requests per second), whatever the responses do
    #[arg(short = 'R', long, value_name = "RATE")]
    rate: Option<f64>,

    /// Requests in flight on each connection (HTTP/1.1 pipelining)
    #[arg(short, long, value_name = "DEPTH", default_value = "1")]
    pipeline: u64,

    /// Header of each request, NAME:VALUE; repeatable
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    headers: Vec<String>,

    /// Duration of a trial; each server is measured in 6 to 12 trials
    #[arg(short, long, value_name = "TIME", default_value = "1s")]
    duration: String,

    /// Measure that decides: rate, mean, p50, p99, cpu, … [default: rate; p99 with --rate]
    #[arg(short, long, value_name = "MEASURE")]
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
  breme versus 'breme site . --listen 127.0.0.1:${port}' --vary server.driver=threads,events

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
    let sources = contender::parse_all(&args.servers).map_err(Failure::usage)?;
    experiment::check_variations(&args.variations, &sources).map_err(Failure::usage)?;
    let load = load(args, &sources);
    let launcher = run::launcher()?;
    let contenders = sources
        .into_iter()
        .map(|source| ready(source, &load.path, &args.variations, &folder, &launcher))
        .collect::<Result<Vec<_>, _>>()?;
    let text = experiment::text(&contenders, &load, &args.variations, &folder);
    if let Some(path) = &args.save {
        fs::write(path, &text)
            .map_err(|error| Failure::run(format!("{}: cannot be written: {error}", path.display())))?;
    }
    let code = run::run_text(&args.storage, &text, "versus", &folder)?;
    // It is a question, not a claim: "practically equal" is a valid result.
    Ok(if code == breme_command::failure::AGAINST { 0 } else { code })
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
    path: &str,
    variations: &[Variation],
    folder: &Path,
    launcher: &Launcher,
) -> Result<Contender, Failure> {
    let url = match &source.start {
        Start::Running(url) => url.clone(),
        Start::Command(command) if command.contains("${port}") => String::from("http://127.0.0.1:${port}"),
        Start::Command(command) => {
            let command = experiment::first_variant(command, variations);
            let scratch = tempfile::tempdir()
                .map_err(|error| Failure::run(format!("no temporary folder can be created: {error}")))?;
            let discovered = launcher.discover_url(&experiment::shell(&command, folder), scratch.path(), path);
            discovered.map_err(|problem| Failure::run(format!("{}: {problem}", source.name)))?
        }
    };
    Ok(Contender { name: source.name, start: source.start, url })
}
