//! Checks before the first trial: programs, fixed ports, addresses that should accept connections already, and, in the
//! binary, the folders and certificates named by flags. A missing program must not be detected after an hour, nor cost
//! a time-out in each trial.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use breme_experiment::placeholder;
use breme_experiment::plan::Plan;
use breme_experiment::trial::{ResetAction, SubjectKind, SubjectSpec, TrialSpec, WorkloadSpec};
use breme_subject::{accepts_connections, find_program, missing_program};

use crate::conduct::{generator_arguments, search_examples};

const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// Checks the files named by the arguments of one of this program's subcommands. A path with `${folder}` names a file
/// that does not exist yet.
pub type CheckFiles<'a> = dyn Fn(&str, &[String]) -> Result<(), String> + 'a;

/// Everything that would keep trials of this plan from starting.
#[must_use]
pub fn preflight(plan: &Plan, check_files: &CheckFiles<'_>) -> Vec<String> {
    // Trials share most of their subjects, and some checks take seconds.
    let checks: BTreeSet<(String, Check)> = plan
        .first_block()
        .chain(search_examples(plan))
        .flat_map(|trial| checks(&trial))
        .chain(plan.prepare.iter().filter_map(|command| program("prepare", command)))
        .collect();
    let problem =
        |(what, check): (String, Check)| check.problem(check_files).map(|problem| format!("{what}: {problem}"));
    checks.into_iter().filter_map(problem).collect()
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Check {
    /// The program exists.
    Program(String),
    /// Nothing accepts connections at this URL yet.
    Free(String),
    /// A server accepts connections at this URL.
    Accepts(String),
    /// The files named by arguments are usable.
    Files { command: String, arguments: Vec<String> },
}

fn checks(trial: &TrialSpec) -> Vec<(String, Check)> {
    let mut checks: Vec<_> = trial.subjects.iter().flat_map(subject_checks).collect();
    for reset in &trial.resets {
        if let ResetAction::Command(command) = &reset.action {
            checks.extend(program(&format!("reset {}.{}", reset.subject, reset.name), command));
        }
    }
    let running = trial.workloads.iter().filter(|workload| workload.connections > 0);
    checks.extend(running.filter_map(|workload| workload_check(trial, workload)));
    checks
}

fn subject_checks(subject: &SubjectSpec) -> Vec<(String, Check)> {
    let what = format!("subject {}", subject.name);
    let mut checks = Vec::new();
    for command in subject.kind.process().iter().flat_map(|process| &process.prepare) {
        checks.extend(program(&format!("{what}, prepare"), command));
    }
    let url = Some(subject.url.clone()).filter(|url| is_known(url));
    match &subject.kind {
        SubjectKind::Own { role, arguments, .. } => {
            checks.push((what, Check::Files { command: role.clone(), arguments: arguments.clone() }));
        }
        SubjectKind::Command { command, .. } => {
            checks.extend(program(&what, command));
            checks.extend(url.map(|url| (what, Check::Free(url))));
        }
        SubjectKind::External => checks.extend(url.map(|url| (what, Check::Accepts(url)))),
    }
    checks
}

fn workload_check(trial: &TrialSpec, workload: &WorkloadSpec) -> Option<(String, Check)> {
    let what = format!("workload {}", workload.name);
    if let Some(foreign) = &workload.command {
        return program(&what, &foreign.command);
    }
    let arguments = generator_arguments(trial, workload);
    Some((what, Check::Files { command: "load".to_owned(), arguments }))
}

/// The program of a command, unless the trial itself creates it.
fn program(what: &str, command: &[String]) -> Option<(String, Check)> {
    let name = command.first().filter(|name| is_known(name))?;
    let is_of_the_trial = name.contains('/') && Path::new(name).is_relative();
    (!is_of_the_trial).then(|| (what.to_owned(), Check::Program(name.clone())))
}

fn is_known(text: &str) -> bool {
    placeholder::find(text).all(|found| found.is_escaped)
}

impl Check {
    fn problem(&self, check_files: &CheckFiles<'_>) -> Option<String> {
        let root = Path::new("/");
        match self {
            Self::Program(name) => find_program(name, root).is_none().then(|| missing_program(name, root)),
            Self::Free(url) => accepts_connections(url, CONNECT_WITHIN).is_ok().then(|| {
                format!("{url} is taken: another program accepts connections there; stop it, or use ${{port}}")
            }),
            Self::Accepts(url) => accepts_connections(url, CONNECT_WITHIN)
                .err()
                .map(|problem| format!("nothing accepts connections there: {problem}; start it first")),
            Self::Files { command, arguments } => {
                let arguments: Vec<String> =
                    arguments.iter().map(|text| placeholder::fill_with_dummies(text)).collect();
                check_files(command, &arguments).err()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn check(check: &Check) -> Option<String> {
        check.problem(&|_, _| Ok(()))
    }

    #[test]
    fn ports_are_free_or_accept() {
        let address = breme_testkit::reserved_address();
        let url = format!("http://{address}");
        assert_eq!(check(&Check::Free(url.clone())), None);
        assert!(check(&Check::Accepts(url.clone())).unwrap().contains("start it first"));
        let _listener = TcpListener::bind(address).unwrap();
        assert!(check(&Check::Free(url.clone())).unwrap().contains("is taken"));
        assert_eq!(check(&Check::Accepts(url)), None);
    }

    #[test]
    fn programs_are_found_before_the_first_trial() {
        let of = |name: &str| program("subject x", &[name.to_owned()]);
        assert_eq!(check(&of("sh").unwrap().1), None);
        assert!(check(&of("nginxx").unwrap().1).unwrap().contains("no program `nginxx`"));
        assert!(check(&of("/no/such/program").unwrap().1).is_some());
        // These are known only when the trial's folder exists.
        assert_eq!((of("./made-by-prepare"), of("${folder}/x")), (None, None));
    }

    #[test]
    fn the_binary_has_its_say() {
        let files = Check::Files { command: "site".into(), arguments: vec!["/nowhere".into()] };
        let says = |command: &str, arguments: &[String]| Err(format!("{command} {arguments:?}"));
        assert_eq!(files.problem(&says).as_deref(), Some(r#"site ["/nowhere"]"#));
    }
}
