//! `breme load`: converts flags to a plan, and runs it on a driver ([`run`]).
//!
//! | module | content |
//! |---|---|
//! | `arguments` | the flags, and their conversion to a plan |
//! | `tls` | trusted certificates, and the client's identity |
//! | `drive` | the load on a driver, and how many descriptors it needs |
//! | `stdin`, `attendant` | control by a parent program; signals and progress while the load runs |
//! | `feed`, `view` | intervals for other threads; the live view, a feature |
//! | `live`, `export` | the metrics of a running load, and where they go |
//! | `origin_counter`, `fail_if` | requests by the origin's count; conditions on the result |
//! | `output`, `page` | the result: on standard output, in files, as a page |
//! | `measurement`, `timed_call` | a load without output, for other commands; blocking calls with a time limit |
//!
//! It does what `breme-load` cannot: name resolution, file input and output, signals, the terminal, descriptors, and
//! measurement of the generator's own CPU time.

// `eprintln!` panics if the log cannot be written: `breme_base::error_line!` does not.
#![cfg_attr(not(test), warn(clippy::print_stderr))]
// Texts of help are doc comments, but no Markdown: `[http[s]://]HOST` is no link.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags, rustdoc::bare_urls)]

mod arguments;
mod attendant;
mod drive;
mod export;
mod fail_if;
mod feed;
mod live;
#[cfg(target_os = "linux")]
mod measurement;
mod origin_counter;
mod output;
mod page;
mod stdin;
#[cfg(target_os = "linux")]
mod timed_call;
mod tls;
#[cfg_attr(not(feature = "view"), path = "no_view.rs")]
mod view;

use std::process::ExitCode;
use std::sync::Arc;

pub use arguments::LoadArgs;
use arguments::Peers;
use attendant::{Interruption, ShownProgress, Watched};
use breme_command::checks::{self, Checks};
use breme_command::failure::{FAILED, Failure, exit};
use breme_driver::Clock;
use breme_load::{ErrorKind, Run};
use breme_load_plan::Plan;
pub use breme_load_plan::{SCENARIO_COUNT_MAX, STEP_COUNT_MAX, is_field_name, parse_rate};
use breme_load_result::LoadOutcome;
use drive::{check_descriptors, drive};
use export::Prepared;
use feed::Feed;
#[cfg(target_os = "linux")]
pub use measurement::{Cancellation, Measurement, MeasurementError, MeasurementResult};
use origin_counter::OriginCounter;
use output::{Outputs, ResultFormat};
#[cfg(target_os = "linux")]
pub use timed_call::TimedCall;

/// Carries out the command.
pub fn run(args: &LoadArgs) -> ExitCode {
    exit("load", measure(args))
}

fn measure(args: &LoadArgs) -> Result<ExitCode, Failure> {
    args.conceal_credentials();
    let plan = Plan::new(args.settings()?).map_err(|error| Failure::usage(args.locate(&error)))?;
    let threads = args.thread_count(&plan);
    check_descriptors(&plan, args)?;
    let export = Prepared::new(args)?;
    // They are always read, so that an invalid one is detected.
    let tls_files = tls::flags(args).read()?;
    let tls = tls::clients(args, &tls_files, plan.hosts())?;
    let Peers { addresses, unix_sockets } = args.connection.resolve(&plan)?;
    args.connection.unused(&plan).for_each(|remark| breme_base::error_line!("breme load: note: {remark}"));
    let outputs = Outputs::create(&args.output, args.html.as_ref())?;
    let clock = Clock::start();
    let (mut feeds, log_writers) = outputs.start_logs(&plan, clock)?;
    let progress = ShownProgress::new(args.quiet, args.no_tui);
    let intervals = (progress == ShownProgress::View || export.is_some()).then(|| {
        let (feed, intervals) = Feed::new();
        feeds.push(feed);
        intervals
    });
    let mut run = Run::new(plan, addresses, threads, clock.wall_clock())
        .with_thread_cpu(|| breme_sys::cpu_time_of_thread().total());
    if !feeds.is_empty() {
        run = run.observed_by(Box::new(move |observed| feeds.iter_mut().for_each(|feed| feed.offer(observed))));
    }
    let run = Arc::new(run);
    let export = export.map(|export| export.start(&run, clock)).transpose()?.map(Arc::new);
    if args.start_on_line {
        stdin::wait_for_line()?;
    }
    let origin = args.origin_counter.as_deref().map(OriginCounter::begin).transpose()?;
    let watched = Watched { progress, intervals, export: export.clone() };
    let (mut shards, generator, interruption) = drive(&run, args, (&tls, unix_sockets), clock, watched)?;
    let mut outcome = run.outcome(&mut shards, &generator);
    export.iter().for_each(|export| export.set_final(&run));
    if let Some(address) = args.connection.address_text() {
        outcome.settings.address = Some(address);
    }
    // The measurement is over: whatever fails from here on, the result is printed.
    let origin_count = origin.map(|origin| origin.count()).transpose();
    if let Ok(Some(count)) = &origin_count {
        outcome.count_origin(*count);
    }
    outcome.conditions = fail_if::judge(&args.fail_if, &run, &outcome);
    let logs = log_writers.join();
    let files = outputs.write(&run, &outcome);
    let checks = fail_if::checks(&run, &outcome);
    output::print(&outcome, &checks, if args.json { ResultFormat::Json } else { args.format })?;
    // The attendant, which has the other clone, has ended.
    if let Some(export) = export.and_then(Arc::into_inner) {
        export.end();
    }
    // In an experiment the generator has no conditions; its results are judged by the experiment.
    if !args.fail_if.is_empty() {
        checks::annotate(&checks);
    }
    origin_count.and(logs).and(files)?;
    Ok(exit_code(&run, &outcome, &checks, interruption))
}

impl LoadArgs {
    /// Checks the files of its TLS flags.
    pub fn check_files(&self) -> Result<(), Failure> {
        tls::flags(self).check()
    }
}

/// An error with the server, the outcome of the requests, and what to check.
fn nothing_answered(run: &Run, outcome: &LoadOutcome) -> String {
    let socket = outcome.settings.address.as_ref().filter(|address| address.starts_with("unix:"));
    let addresses: Vec<String> =
        socket.map_or_else(|| run.addresses().map(|address| address.to_string()).collect(), |it| vec![it.clone()]);
    let kinds: Vec<String> = outcome.errors.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let remedy = match (run.refused_tunnel(), run.tls_failure()) {
        (Some(refused), _) => format!("{refused}; load a target that the proxy allows, or remove --proxy"),
        (None, Some(failure)) => format!("{failure}; {}", tls::remedy(failure)),
        (None, None) => remedy(outcome, socket.is_some()).to_owned(),
    };
    format!(
        "no response from {} ({}); {remedy}",
        addresses.join(", "),
        if kinds.is_empty() { String::from("no request completed") } else { kinds.join(", ") }
    )
}

/// What to check, by the most frequent error.
fn remedy(outcome: &LoadOutcome, is_unix_socket: bool) -> &'static str {
    let count = |kind: &ErrorKind| outcome.errors.get(kind.name()).copied().unwrap_or(0);
    match ErrorKind::ALL.into_iter().max_by_key(count).filter(|kind| count(kind) > 0) {
        Some(ErrorKind::Malformed) => "check that the port is one for HTTP/1.1: these responses are not valid",
        Some(ErrorKind::ClosedEarly | ErrorKind::Reset) if outcome.tls.is_some() => {
            "the server closed the connections; see its log"
        }
        Some(ErrorKind::ClosedEarly | ErrorKind::Reset) => {
            "the server closed the connections; see its log, and check whether the port is one for https://"
        }
        Some(ErrorKind::Timeout) => "the server accepts connections; see its log, or raise --timeout",
        Some(ErrorKind::NoResources) => "this machine has too few descriptors, ports or memory; lower --connections",
        _ if is_unix_socket => "check that the server runs and listens on this socket",
        _ => "check that the server runs there and that the address and port are right",
    }
}

fn exit_code(run: &Run, outcome: &LoadOutcome, checks: &Checks, interruption: Option<Interruption>) -> ExitCode {
    if let Some(interruption) = interruption {
        return ExitCode::from(interruption.exit_code());
    }
    if outcome.requests.answered == 0 {
        breme_base::error_line!("breme load: {}", nothing_answered(run, outcome));
        return ExitCode::from(FAILED);
    }
    ExitCode::from(checks.exit_status())
}
