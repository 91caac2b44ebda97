//! The versions of the programs of subjects and foreign generators: a comparison in a year needs them.
//!
//! Only programs known to print their version and exit are run: an unknown program might start a server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use breme_experiment::plan::Plan;
use breme_experiment::trial::SubjectKind;

use crate::program_output::program_output;

/// How known programs print their version.
const KNOWN: [(&str, &str); 23] = [
    ("ab", "-V"),
    ("apache2", "-v"),
    ("caddy", "version"),
    ("deno", "--version"),
    ("envoy", "--version"),
    ("go", "version"),
    ("gunicorn", "--version"),
    ("h2load", "--version"),
    ("h2o", "--version"),
    ("haproxy", "-v"),
    ("httpd", "-v"),
    ("java", "-version"),
    ("lighttpd", "-v"),
    ("nginx", "-v"),
    ("node", "--version"),
    ("php", "--version"),
    ("python", "--version"),
    ("python3", "--version"),
    ("ruby", "--version"),
    ("squid", "-v"),
    ("traefik", "version"),
    ("varnishd", "-V"),
    ("wrk", "-v"),
];
/// Characters of a version that are kept.
const KEPT_CHARACTERS_MAX: usize = 120;

/// Subject or workload → version, where known. A subject with other programs at other levels has all of theirs.
#[must_use]
pub fn subject_versions(plan: &Plan) -> BTreeMap<String, String> {
    let mut programs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for trial in plan.first_block() {
        for subject in trial.subjects {
            let version = match &subject.kind {
                SubjectKind::Own { .. } => Some(format!("breme {}", env!("CARGO_PKG_VERSION"))),
                SubjectKind::Command { command, .. } => command.first().and_then(|program| version_of(program)),
                SubjectKind::External => None,
            };
            programs.entry(subject.name).or_default().extend(version);
        }
        for workload in trial.workloads {
            let program = workload.command.as_ref().and_then(|command| command.command.first());
            programs.entry(workload.name).or_default().extend(program.and_then(|program| version_of(program)));
        }
    }
    let found = programs.into_iter().filter(|(_, versions)| !versions.is_empty());
    found.map(|(name, versions)| (name, Vec::from_iter(versions).join("; "))).collect()
}

fn version_of(program: &str) -> Option<String> {
    let name = Path::new(program).file_name()?.to_str()?;
    let (_, flag) = KNOWN.iter().find(|(known, _)| *known == name)?;
    let mut command = Command::new(program);
    command.arg(flag);
    first_line(&program_output(command)?)
}

fn first_line(printed: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(printed);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().filter(|c| !c.is_control()).take(KEPT_CHARACTERS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_known_program_is_read_and_of_another_is_not() {
        let version = version_of("nginx").unwrap();
        assert!(version.starts_with("nginx version"), "{version}");
        assert_eq!(version_of("sleep"), None);
        assert_eq!(version_of("/nowhere/nginx"), None);
    }

    #[test]
    fn the_first_line_that_says_something_is_kept() {
        assert_eq!(first_line(b"\n  x 1.2\x1b[0m \n more").as_deref(), Some("x 1.2[0m"));
        assert_eq!(first_line(b""), None);
    }
}
