//! `breme run`: plans, runs and judges an experiment.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use breme_admin::{Admin, AdminListener, ProcessMetrics, Readiness, application_registry};
use breme_base::plural;
use breme_command::checks::{self, Checks};
use breme_command::failure::{AGAINST, FAILED, Failure, NO_VERDICT};
use breme_command::output;
use breme_command::server::{AdminFlag, ListenPlace};
use breme_driver::{Address, Clock};
use breme_experiment::plan::{Estimate, Plan};
use breme_experiment::record::{Purpose, Revision, RunEnd, RunHead, TrialEnd, TrialRecord, VERSION};
use breme_judge::head_differences;
use breme_runner::journal::{self, Journal, JournalError};
use breme_runner::{conduct, preflight, revision, subject_versions};
use breme_subject::{Hierarchy, Keeper, Launcher, machine};
use indicatif::{HumanCount, HumanDuration};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::progress::Show;
use super::report::{self, ReportFormat};
use super::status::RunStatus;
use super::stored_run::{self, ClaimKind, Judged, RUNS_FOLDER};
use super::{experiment, roles};

/// The hidden command that supervises a subject's processes.
const KEEP: &str = "keep";

/// Run experiments and judge their hypotheses
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct RunArgs {
    /// Experiment files (TOML), run one after another; see docs/EXPERIMENTS.md
    #[arg(value_name = "EXPERIMENT", required_unless_present_any = ["resume", "blocks"])]
    experiments: Vec<PathBuf>,

    /// Apply this profile of the experiment
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,

    /// Apply the profile `quick`; without one, run 6 to 12 blocks with trials of 1s
    #[arg(long, conflicts_with = "profile")]
    quick: bool,

    /// Check the experiment, print the plan and its duration, and start nothing
    #[arg(long)]
    check: bool,

    /// Continue an interrupted run: its folder, or its name in `runs`
    #[arg(long, value_name = "RUN", conflicts_with_all = ["experiments", "profile", "quick", "check", "runs", "name"])]
    resume: Option<PathBuf>,

    /// Extend the resumed run to N blocks in total
    #[arg(long, value_name = "N", requires = "resume", conflicts_with = "experiments")]
    blocks: Option<u32>,

    #[command(flatten)]
    admin: AdminFlag,

    #[command(flatten)]
    storage: Storage,
}

/// Where a run is stored, and what is printed of it.
#[derive(Debug, clap::Args)]
pub(super) struct Storage {
    /// Folder in which runs are stored
    #[arg(long, value_name = "DIR", default_value = RUNS_FOLDER)]
    runs: PathBuf,

    /// Name of the run's folder [default: that of the experiment and a number]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Format of the result on standard output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: ReportFormat,

    /// Exit with status 0 instead of 4 if a hypothesis is undecided or has no data, or a search found nothing
    #[arg(long)]
    allow_undecided: bool,

    /// Show no progress and no messages about single trials
    #[arg(short, long)]
    quiet: bool,
}

const AFTER_HELP: &str = "Examples:
  breme run experiment.toml
  breme run --check --quick experiment.toml
  breme run experiment.toml --name main-1 --format junit > result.xml

Exit status:
  0    every hypothesis is supported
  1    no trial counts, or the run failed
  2    wrong usage
  3    a hypothesis is refuted, or a claimed difference is practically equal
  4    no verdict: a hypothesis is undecided or has no data, or a search found nothing
  130  interrupted by SIGINT (143: SIGTERM)";

pub(super) fn run(args: &RunArgs) -> Result<u8, Failure> {
    let process = ProcessMetrics::starting_now();
    if let Some(run) = &args.resume {
        return resume(args, &stored_run::folder_of(run), process);
    }
    if args.storage.name.is_some() && args.experiments.len() > 1 {
        return Err(Failure::usage("--name is the name of one run; omit it to run several experiments"));
    }
    if args.storage.format == ReportFormat::Junit && args.experiments.len() > 1 {
        return Err(Failure::usage("--format junit writes one document; run the experiments one by one"));
    }
    if let Some(script) = args.experiments.iter().find(|path| path.extension().is_some_and(|end| end == "js")) {
        let path = script.display();
        let remedy = "write its requests as a scenario, and run them with breme load --scenario FILE";
        return Err(Failure::usage(format!("{path}: JavaScript is not supported; {remedy}")));
    }
    let profile = if args.quick { Some("quick") } else { args.profile.as_deref() };
    // All are read first: an error in the last one must not be detected after hours.
    let read = |path: &PathBuf| experiment::read(path, profile).map(|plan| (path.clone(), plan));
    let plans = args.experiments.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    check_name(&args.storage)?;
    for (path, plan) in &plans {
        check_before_start(&path.display().to_string(), plan)?;
    }
    let admin = start_admin(if args.check { None } else { args.admin.address()? }, process)?;
    let mut worst = 0;
    for (path, plan) in &plans {
        plan.warnings.iter().for_each(|warning| breme_base::error_line!("{}: {warning}", path.display()));
        if args.check {
            output::print(&plan_in_short(path, plan))?;
            continue;
        }
        let status = admin.as_ref().map(|(_, status)| status);
        let code = begin(&args.storage, path, plan, ClaimKind::Claim, status)?;
        if severity(code).is_none() {
            return Ok(code); // interrupted
        }
        worst = if severity(code) > severity(worst) { code } else { worst };
    }
    Ok(worst)
}

/// Runs an experiment given as text; `name` is that of its runs, `folder` the base of its relative paths.
pub(super) fn run_text(
    storage: &Storage,
    text: &str,
    name: &str,
    folder: &Path,
    claims: ClaimKind,
) -> Result<u8, Failure> {
    check_name(storage)?;
    let plan = experiment::read_text(text, folder)?;
    check_before_start("the experiment", &plan)?;
    begin(storage, Path::new(name), &plan, claims, None)
}

/// The admin server, which runs until the program exits, and its status.
fn start_admin(address: Option<Address>, process: ProcessMetrics) -> Result<Option<(Admin, RunStatus)>, Failure> {
    let Some(listener) = address.map(AdminListener::bind).transpose()? else { return Ok(None) };
    let status = RunStatus::default();
    let registry = application_registry("run", process, [Box::new(status.clone())]);
    // Standard output is for the result.
    breme_base::error_line!("admin on {}", ListenPlace::plain(listener.address().clone()));
    let admin = listener.start(Clock::start(), Vec::new(), registry, Readiness::default(), None)?;
    Ok(Some((admin, status)))
}

fn check_name(storage: &Storage) -> Result<(), Failure> {
    match storage.name.as_deref().filter(|name| !is_name(name)) {
        Some(name) => Err(Failure::usage(format!(
            "--name {name:?} is not a valid folder name; set the parent folder with --runs"
        ))),
        None => Ok(()),
    }
}

/// Checks programs, ports, folders and certificates before the first trial, and reports all problems at once.
fn check_before_start(what: &str, plan: &Plan) -> Result<(), Failure> {
    let problems = preflight(plan, &roles::check_files);
    if problems.is_empty() {
        return Ok(());
    }
    Err(Failure::run(format!("{what} cannot run here:\n  {}", problems.join("\n  "))))
}

/// Whether it stays within the folder of runs.
fn is_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name)
}

fn plan_in_short(path: &Path, plan: &Plan) -> String {
    let mut text = format!("{}: {}\n", path.display(), plan.title);
    let trials = plan.trials().len();
    if trials > 0 {
        text += &format!("  {}\n", size_in_short(plan, trials));
    }
    if let Some(search) = &plan.search {
        text += &format!("  searches for the {} at which {}\n", search.factor, search.until);
    }
    let most = time_in_short(plan.estimate());
    text += &match plan.ends_when_decided() {
        true => format!(
            "  {} with {} blocks; {most} with {}",
            time_in_short(plan.estimate_of(plan.blocks.least)),
            plan.blocks.least,
            plan.blocks.most
        ),
        false => format!("  {most}"),
    };
    if plan.repeats > 0 && trials > 0 {
        let more = match plan.estimate_of_repeats() {
            Estimate { known, requests: 0 } => HumanDuration(known).to_string(),
            _ => format!("{} times that", plan.repeats),
        };
        text += &format!("; up to {more} more if INVALID trials are repeated");
    }
    text + "\n"
}

/// `3 combinations of levels, 6 to 24 blocks (until every hypothesis has a verdict), 24 to 96 trials`.
fn size_in_short(plan: &Plan, trials: usize) -> String {
    let combinations = plural(plan.combinations().len() as u64, "combination");
    let blocks = plan.blocks.to_run();
    if !plan.ends_when_decided() {
        return format!("{combinations} of levels, {}, {trials} trials", plural(u64::from(blocks), "block"));
    }
    let least = plan.blocks.least;
    let fewest = trials / blocks as usize * least as usize;
    format!(
        "{combinations} of levels, {least} to {blocks} blocks (until every hypothesis has a verdict), {fewest} to {trials} trials"
    )
}

/// The rate is unknown in advance: the times at two common rates show the order of magnitude. A scenario counts
/// sessions.
fn time_in_short(estimate: Estimate) -> String {
    let known = HumanDuration(estimate.known);
    if estimate.requests == 0 {
        return format!("about {known}");
    }
    let [slow, fast] = [1_000, 10_000].map(|rate| HumanDuration(estimate.time_of_requests(rate)));
    let requests = HumanCount(estimate.requests);
    format!(
        "at least {known}, plus the time of {requests} requests or sessions: {slow} at 1,000 per second, {fast} at 10,000"
    )
}

fn begin(
    args: &Storage,
    path: &Path,
    plan: &Plan,
    claims: ClaimKind,
    status: Option<&RunStatus>,
) -> Result<u8, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let head = RunHead {
        version: VERSION,
        title: plan.title.clone(),
        profile: plan.profile.clone(),
        seed: plan.seed,
        started_unix_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        ..RunHead::default()
    };
    let head = with_surroundings(head, plan);
    let journal = create_journal(args, path, &head, &plan.to_toml()).map_err(Failure::run)?;
    carry_out(args, plan, journal, Vec::new(), claims, status)
}

/// Creates a run with the given name, or with the experiment's name and the first free number.
fn create_journal(args: &Storage, path: &Path, head: &RunHead, plan: &str) -> Result<Journal, JournalError> {
    let create = |name: &str| {
        let head = RunHead { run: name.to_owned(), ..head.clone() };
        Journal::create(&args.runs.join(name), &head, plan)
    };
    if let Some(name) = &args.name {
        return create(name);
    }
    let mut number = 1;
    loop {
        let name = run_name(path, number);
        let folder = args.runs.join(&name);
        number += 1;
        if folder.exists() {
            continue;
        }
        // Another breme may have created the same folder in the meantime.
        match create(&name) {
            Err(error) if error.is_of_existing_folder() && folder.is_dir() => {}
            created => return created,
        }
    }
}

/// The head with the machine, the versions and the revision of this moment.
fn with_surroundings(head: RunHead, plan: &Plan) -> RunHead {
    RunHead {
        breme_version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: machine(),
        subject_versions: subject_versions(plan),
        revision: revision(Path::new(".")),
        ..head
    }
}

/// Refuses to add trials of another machine or of other versions to a run. Returns a warning about another revision.
fn check_surroundings(head: &RunHead, now: &RunHead, folder: &Path) -> Result<Option<String>, Failure> {
    let folder = folder.display();
    // A container that starts again has another host name.
    let mut here = now.clone();
    here.machine.host.clone_from(&head.machine.host);
    let differences = head_differences(head, &here);
    if !differences.is_empty() {
        let differences = differences.join("\n  ");
        return Err(Failure::run(format!(
            "{folder} cannot be resumed, because its blocks would not be comparable:\n  {differences}\n\
             restore this, or start a new run with: breme run {folder}/plan.toml"
        )));
    }
    let [before, after] = [head, now].map(|head| head.revision.as_ref());
    let state = |revision: Option<&Revision>| revision.map(|revision| (revision.commit.clone(), revision.is_modified));
    let text = |revision: Option<&Revision>| revision.map_or_else(|| "unknown".to_owned(), Revision::to_string);
    Ok((state(before) != state(after))
        .then(|| format!("{folder}: the git revision differs: {} → {}", text(before), text(after))))
}

fn resume(args: &RunArgs, folder: &Path, process: ProcessMetrics) -> Result<u8, Failure> {
    let (mut journal, run) = Journal::resume(folder).map_err(Failure::run)?;
    if let Some(damage) = &run.damage {
        breme_base::error_line!("{}: {damage}", folder.display());
    }
    let mut plan = experiment::read_stored(&run.plan, folder)?;
    let warning = check_surroundings(&run.head, &with_surroundings(run.head.clone(), &plan), folder)?;
    warning.iter().for_each(|warning| breme_base::error_line!("{warning}"));
    if let Some(blocks) = args.blocks {
        let extended = plan.extended_to_toml(blocks, blocks_begun(&run.trials)).map_err(Failure::usage)?;
        plan = experiment::read_stored(&extended, folder)?;
        journal.replace_plan(&extended).map_err(Failure::run)?;
    }
    check_before_start(&folder.display().to_string(), &plan)?;
    let admin = start_admin(args.admin.address()?, process)?;
    let status = admin.as_ref().map(|(_, status)| status);
    carry_out(&args.storage, &plan, journal, run.trials, ClaimKind::Claim, status)
}

fn blocks_begun(trials: &[TrialRecord]) -> u32 {
    let of_blocks = trials.iter().filter(|record| record.purpose == Purpose::Block);
    of_blocks.map(|record| record.block).max().unwrap_or(0)
}

fn carry_out(
    args: &Storage,
    plan: &Plan,
    mut journal: Journal,
    recorded: Vec<TrialRecord>,
    claims: ClaimKind,
    status: Option<&RunStatus>,
) -> Result<u8, Failure> {
    let launcher = launcher()?;
    let interruption = Interruption::catch_signals(&launcher.cancelled)?;
    let show = Show::new(plan, &recorded, args.quiet);
    let folder = journal.folder().to_owned();
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let mut follower = status.map(|status| status.follow(&name, plan, &recorded));
    let end = conduct(plan, recorded, &mut journal, &launcher, &mut |progress| {
        show.update(progress);
        follower.iter_mut().for_each(|follower| follower.update(progress));
    });
    drop(show);
    let end =
        end.map_err(|fault| Failure::run(format!("{fault}; resume with: breme run --resume {}", folder.display())))?;
    let mut run = journal::read(&folder).map_err(Failure::run)?;
    run.end = Some(end);
    if let Err(fault) = journal.end(end, blocks_begun(&run.trials)) {
        breme_base::error_line!("{fault}"); // the answer is worth more than this
    }
    let judged = stored_run::judged(plan, run);
    let checks = judged.checks(args.allow_undecided, claims);
    print_result(args, &judged, &checks, end)?;
    Ok(match end {
        RunEnd::Interrupted => interruption.exit_code(),
        RunEnd::Failing { .. } => FAILED,
        _ if judged.judgement.trials.counted == 0 => FAILED,
        _ => checks.exit_status(),
    })
}

/// Prints the result, writes the page to the folder, and prints where that is. Neither failure costs the other.
fn print_result(args: &Storage, judged: &Judged, checks: &Checks, end: RunEnd) -> Result<(), Failure> {
    let instruments = judged.instruments()?;
    let run = judged.shown(&instruments);
    let report = journal::report_path(&judged.run.folder);
    let printed = output::write(|out| report::write(&run, checks, args.format, out));
    checks::annotate(checks);
    let written = report::write_page(&breme_report::html(&run), &report);
    let folder = judged.run.folder.display();
    match end {
        RunEnd::Complete | RunEnd::Decided => {}
        RunEnd::OutOfTime => breme_base::error_line!(
            "the time budget is exhausted; the results are those of the finished blocks. To continue, raise `budget` in {folder}/plan.toml and run: breme run --resume {folder}"
        ),
        RunEnd::Interrupted => breme_base::error_line!("interrupted; resume with: breme run --resume {folder}"),
        RunEnd::Failing { trial } => breme_base::error_line!("{}", failing_in_words(judged, trial)),
    }
    match (&printed, &written) {
        (_, Ok(())) => breme_base::error_line!("report: {}", report.display()),
        (Ok(()), Err(_)) => breme_base::error_line!("run: {folder}"),
        // Of two failures the first is returned.
        (Err(_), Err(page)) => breme_base::error_line!("run: {folder}\n{}", page.message),
    }
    printed.and(written)
}

/// Why a run with repeated failures was ended, quoting the failed program.
fn failing_in_words(judged: &Judged, trial: u32) -> String {
    let folder = judged.run.folder.display();
    let record = judged.run.trials.iter().find(|record| record.number == trial);
    let cause = match record.map(|record| &record.end) {
        Some(TrialEnd::Failed(failure)) => format!("{failure}\n{}", failure.printed.trim_end()),
        _ => String::new(),
    };
    format!(
        "breme run: stopped, because the same trials keep failing; the last one, trial {trial}: {}\n\
         repair this, then resume with: breme run --resume {folder}",
        cause.trim_end()
    )
}

pub(super) fn launcher() -> Result<Launcher, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::run(format!("cannot find the breme executable, which runs the generators: {error}"))
    })?;
    Ok(Launcher::new(Keeper::this_program(&[KEEP]), program, Hierarchy::find()))
}

/// The signal that ended the run.
struct Interruption(Arc<AtomicUsize>);

impl Interruption {
    /// The first signal ends the run cleanly; a second one exits at once (its child processes end with it).
    fn catch_signals(cancelled: &Arc<AtomicBool>) -> Result<Self, Failure> {
        let signal_seen = Arc::new(AtomicUsize::new(0));
        let failed = |error: io::Error| Failure::run(format!("cannot catch signals: {error}"));
        for signal in [SIGINT, SIGTERM] {
            let seen = Arc::clone(&signal_seen);
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(cancelled))
                .map_err(failed)?;
            signal_hook::flag::register_usize(signal, seen, signal as usize).map_err(failed)?;
            signal_hook::flag::register(signal, Arc::clone(cancelled)).map_err(failed)?;
        }
        Ok(Self(signal_seen))
    }

    /// As in shells.
    fn exit_code(&self) -> u8 {
        128 + u8::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(0)
    }
}

/// The severity of an exit status; none for an interrupted run.
fn severity(code: u8) -> Option<usize> {
    [0, NO_VERDICT, FAILED, AGAINST].iter().position(|&known| known == code)
}

/// The experiment's name and a number: `pipelining-1`.
fn run_name(experiment: &Path, number: u64) -> String {
    let stem = experiment.file_stem().map_or_else(|| "run".to_owned(), |stem| stem.to_string_lossy().into_owned());
    format!("{stem}-{number}")
}

#[cfg(test)]
mod tests {
    use breme_experiment::record::Machine;

    use super::*;

    #[test]
    fn of_several_experiments_the_worst_status_counts() {
        let by_severity: Vec<Option<usize>> = [0, 4, 1, 3].map(severity).into();
        assert!(by_severity.is_sorted() && by_severity[0].is_some());
        assert_eq!([130, 143].map(severity), [None, None]);
    }

    #[test]
    fn a_run_is_resumed_only_where_and_with_what_it_was_started() {
        let revision = |commit: &str| Some(Revision { commit: commit.to_owned(), ..Revision::default() });
        let head = RunHead { breme_version: "0.1.0".to_owned(), revision: revision("1a2b"), ..RunHead::default() };
        let check = |now: &RunHead| check_surroundings(&head, now, Path::new("runs/one"));
        assert_eq!(check(&head).unwrap(), None);
        let moved = RunHead { revision: revision("3c4d"), ..head.clone() };
        assert_eq!(check(&moved).unwrap().as_deref(), Some("runs/one: the git revision differs: 1a2b → 3c4d"));
        let renamed = Machine { host: "other".to_owned(), ..Machine::default() };
        assert_eq!(check(&RunHead { machine: renamed, ..head.clone() }).unwrap(), None);
        let machine = Machine { processor: "other".to_owned(), ..Machine::default() };
        for (now, difference) in [
            (RunHead { machine, ..head.clone() }, "The processor differs:  → other."),
            (RunHead { breme_version: "0.2.0".to_owned(), ..head.clone() }, "version of breme differs: 0.1.0 → 0.2.0."),
            (
                RunHead { subject_versions: [("site".to_owned(), "nginx 2".to_owned())].into(), ..head.clone() },
                "The version of `site` differs: unknown → nginx 2.",
            ),
        ] {
            let refused = check(&now).unwrap_err().message;
            assert!(refused.contains(difference), "{refused}");
            assert!(refused.contains("start a new run with: breme run runs/one/plan.toml"), "{refused}");
        }
    }

    #[test]
    fn runs_that_begin_together_have_different_names() {
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage {
            runs: folder.path().join("runs"),
            name: None,
            format: ReportFormat::Text,
            allow_undecided: false,
            quiet: true,
        };
        let create = || create_journal(&storage, Path::new("a.toml"), &RunHead::default(), "").unwrap();
        let names = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(create)).collect();
            let journals: Vec<Journal> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            let name = |journal: &Journal| journal.folder().file_name().unwrap().to_string_lossy().into_owned();
            journals.iter().map(name).collect::<std::collections::BTreeSet<_>>()
        });
        assert_eq!(names, (1..=8).map(|number| format!("a-{number}")).collect());
        let named = Storage { name: Some("a-1".to_owned()), ..storage };
        assert!(create_journal(&named, Path::new("a.toml"), &RunHead::default(), "").is_err());
        let no_folder = Storage { runs: "/dev/null".into(), name: None, ..named };
        assert!(create_journal(&no_folder, Path::new("a.toml"), &RunHead::default(), "").is_err());
    }

    #[test]
    fn the_name_of_a_run_stays_in_its_folder() {
        assert!(["a", "a-1", "ü b", "..."].into_iter().all(is_name));
        assert!(!["", ".", "..", "../a", "/a", "a/b", "a/", "./a"].into_iter().any(is_name));
    }
}
