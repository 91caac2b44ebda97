//! The runs of a comparison: which one is judged, which one is the baseline.

use std::path::{Path, PathBuf};

use breme_command::failure::Failure;
use breme_experiment::record::RunHead;
use breme_judge::{HISTORY_RUNS_MAX, RunRole};
use breme_runner::journal;

use crate::laboratory::stored_run;

/// Marks a baseline that is named by its git branch.
const BRANCH: &str = "branch:";

/// The runs of a comparison.
#[derive(Debug)]
pub(super) struct Selection {
    pub(super) baseline: SelectedRun,
    pub(super) judged: SelectedRun,
    /// The rest of the history.
    others: Vec<SelectedRun>,
}

#[derive(Debug)]
pub(super) struct SelectedRun {
    pub(super) folder: PathBuf,
    /// The same without links, which tells runs apart.
    path: PathBuf,
    head: RunHead,
}

impl Selection {
    /// Two runs are compared in their order. Of more, or with a baseline, the newest one is judged; the default
    /// baseline is the oldest one.
    pub(super) fn new(names: &[PathBuf], baseline: Option<&Path>) -> Result<Self, Failure> {
        if names.len() > HISTORY_RUNS_MAX {
            return Err(Failure::usage(format!(
                "{} runs are too many; name at most {HISTORY_RUNS_MAX}, such as the newest ones",
                names.len()
            )));
        }
        let runs = names.iter().map(|name| SelectedRun::read(name)).collect::<Result<Vec<_>, _>>()?;
        let mut runs = match (<[SelectedRun; 2]>::try_from(runs), baseline) {
            (Ok([baseline, judged]), None) => return Ok(Self { baseline, judged, others: Vec::new() }),
            (Ok(two), Some(_)) => Vec::from(two),
            (Err(runs), _) => runs,
        };
        runs.sort_by(|run, other| run.place().cmp(&other.place()));
        runs.dedup_by(|run, other| run.path == other.path);
        let baseline = match baseline {
            None if runs.len() < 2 => return Err(Failure::usage(TOO_FEW)),
            None => runs.remove(0),
            Some(name) => read_baseline(name, &runs)?,
        };
        runs.retain(|run| run.path != baseline.path);
        let judged = runs.pop().ok_or_else(|| Failure::usage(TOO_FEW))?;
        Ok(Self { baseline, judged, others: runs })
    }

    /// All of them, oldest first.
    pub(super) fn in_order(&self) -> Vec<(RunRole, &SelectedRun)> {
        let others = self.others.iter().map(|run| (RunRole::Shown, run));
        let compared = [(RunRole::Baseline, &self.baseline), (RunRole::Judged, &self.judged)];
        let mut runs: Vec<_> = compared.into_iter().chain(others).collect();
        runs.sort_by_key(|(_, run)| run.place());
        runs
    }
}

const TOO_FEW: &str = "a comparison needs two different runs; name both, or one and a --baseline";

impl SelectedRun {
    /// Reads the head of a run, given its folder or its name.
    fn read(name: &Path) -> Result<Self, Failure> {
        let folder = stored_run::folder_of(name);
        let head = journal::read_head(&folder).map_err(Failure::run)?;
        Self::new(folder, head)
    }

    fn new(folder: PathBuf, head: RunHead) -> Result<Self, Failure> {
        let path = folder.canonicalize().map_err(|error| Failure::run(format!("{}: {error}", folder.display())))?;
        Ok(Self { folder, path, head })
    }

    /// Its place in the order of time; the path makes the order of runs that began together always the same.
    fn place(&self) -> (u64, &Path) {
        (self.head.started_unix_ms, &self.path)
    }
}

/// A run by its name, or the newest one of a branch.
fn read_baseline(name: &Path, runs: &[SelectedRun]) -> Result<SelectedRun, Failure> {
    match (name.to_str().and_then(|name| name.strip_prefix(BRANCH)), runs.last()) {
        (Some(branch), Some(judged)) => newest_of_branch(branch, judged),
        _ => SelectedRun::read(name),
    }
}

/// The newest run of a branch that began before the judged one: in the same folder of runs, of the same experiment and
/// profile, without uncommitted changes.
fn newest_of_branch(branch: &str, judged: &SelectedRun) -> Result<SelectedRun, Failure> {
    let folder = judged.path.parent().unwrap_or(Path::new("."));
    let is_baseline = |head: &RunHead| {
        let is_of_branch = head
            .revision
            .as_ref()
            .is_some_and(|revision| revision.branch.as_deref() == Some(branch) && !revision.is_modified);
        let is_same = (&head.title, &head.profile) == (&judged.head.title, &judged.head.profile);
        is_of_branch && is_same && head.started_unix_ms < judged.head.started_unix_ms
    };
    match journal::list(folder).map_err(Failure::run)?.into_iter().find(|(_, head)| is_baseline(head)) {
        Some((folder, head)) => SelectedRun::new(folder, head),
        None => Err(Failure::run(format!(
            "--baseline {BRANCH}{branch}: {} has no run of that branch without uncommitted changes that is older than {} \
             and has its title, {:?}, and profile; `breme runs` shows commits and branches",
            folder.display(),
            judged.head.run,
            judged.head.title
        ))),
    }
}

#[cfg(test)]
mod tests {
    use breme_experiment::record::Revision;
    use breme_runner::journal::Journal;

    use super::*;

    struct Runs(tempfile::TempDir);

    impl Runs {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        /// A run that began at this time.
        fn add(&self, name: &str, started_unix_ms: u64, change: impl FnOnce(&mut RunHead)) {
            let revision = Revision { commit: "1a".into(), branch: Some("main".into()), is_modified: false };
            let (run, title) = (name.to_owned(), "t".to_owned());
            let mut head = RunHead { run, title, started_unix_ms, revision: Some(revision), ..RunHead::default() };
            change(&mut head);
            Journal::create(&self.path(name), &head, "").unwrap();
        }

        /// Names with roles, or the message.
        fn select(&self, names: &[&str], baseline: Option<&str>) -> Result<Vec<(String, RunRole)>, String> {
            let names: Vec<PathBuf> = names.iter().map(|name| self.path(name)).collect();
            let baseline = baseline.map(|name| match name.starts_with(BRANCH) {
                true => PathBuf::from(name),
                false => self.path(name),
            });
            let selection = Selection::new(&names, baseline.as_deref()).map_err(|failure| failure.message)?;
            Ok(selection.in_order().into_iter().map(|(role, run)| (run.head.run.clone(), role)).collect())
        }
    }

    fn expected(baseline: &str, judged: &str, order: &[&str]) -> Result<Vec<(String, RunRole)>, String> {
        let role = |name: &str| match name {
            _ if name == baseline => RunRole::Baseline,
            _ if name == judged => RunRole::Judged,
            _ => RunRole::Shown,
        };
        Ok(order.iter().map(|name| ((*name).to_owned(), role(name))).collect())
    }

    fn four() -> Runs {
        let runs = Runs::new();
        for (started, name) in ["d", "c", "b", "a"].into_iter().enumerate() {
            runs.add(name, started as u64 + 1, |_| {});
        }
        runs
    }

    #[test]
    fn two_runs_are_compared_in_their_order_and_of_more_the_newest_is_judged() {
        let runs = four();
        assert_eq!(runs.select(&["d", "a"], None), expected("d", "a", &["d", "a"]));
        assert_eq!(runs.select(&["a", "d"], None), expected("a", "d", &["d", "a"]));
        assert_eq!(runs.select(&["b", "a", "d"], None), expected("d", "a", &["d", "b", "a"]));
        assert_eq!(runs.select(&["b", "d", "b"], None), expected("d", "b", &["d", "b"]), "named twice");
    }

    #[test]
    fn a_named_baseline_is_one_of_the_runs_and_never_judged() {
        let runs = four();
        assert_eq!(runs.select(&["a"], Some("c")), expected("c", "a", &["c", "a"]));
        assert_eq!(runs.select(&["a", "b"], Some("d")), expected("d", "a", &["d", "b", "a"]));
        assert_eq!(runs.select(&["a", "b", "c"], Some("a")), expected("a", "b", &["c", "b", "a"]));
        for (names, baseline) in [(&["a"][..], Some("a")), (&["a"], None), (&["a", "a", "a"], None)] {
            assert_eq!(runs.select(names, baseline), Err(TOO_FEW.to_owned()), "{names:?}");
        }
        assert!(runs.select(&["a"], Some("x")).unwrap_err().contains("there is no run here"));
    }

    #[test]
    fn the_baseline_of_a_branch_is_its_newest_earlier_clean_run_of_the_same_experiment() {
        let runs = four();
        runs.add("judged", 100, |head| head.revision.as_mut().unwrap().branch = Some("fix".into()));
        assert_eq!(runs.select(&["judged"], Some("branch:main")), expected("a", "judged", &["a", "judged"]));
        runs.add("modified", 50, |head| head.revision.as_mut().unwrap().is_modified = true);
        runs.add("detached", 51, |head| head.revision.as_mut().unwrap().branch = None);
        runs.add("before git", 52, |head| head.revision = None);
        runs.add("other", 53, |head| head.title = "u".into());
        runs.add("quick", 54, |head| head.profile = Some("quick".into()));
        runs.add("later", 101, |_| {});
        std::fs::create_dir(runs.path("no run")).unwrap();
        assert_eq!(runs.select(&["judged"], Some("branch:main")), expected("a", "judged", &["a", "judged"]));
        // It may be one of the named runs.
        let order = ["b", "a", "judged"];
        assert_eq!(runs.select(&["judged", "b", "a"], Some("branch:main")), expected("a", "judged", &order));
        let message = runs.select(&["judged"], Some("branch:maim")).unwrap_err();
        assert!(message.contains("branch:maim") && message.contains("breme runs"), "{message}");
        assert!(runs.select(&["d"], Some("branch:main")).is_err(), "nothing is older");
    }

    #[test]
    fn a_run_is_not_two_runs_because_of_a_link() {
        let runs = four();
        std::os::unix::fs::symlink(runs.path("a"), runs.path("link")).unwrap();
        assert_eq!(runs.select(&["a", "link", "b"], None), expected("b", "a", &["b", "a"]));
        assert_eq!(runs.select(&["a"], Some("link")), Err(TOO_FEW.to_owned()));
    }

    #[test]
    fn the_number_of_runs_has_a_limit() {
        let runs = four();
        let names = vec!["a"; HISTORY_RUNS_MAX + 1];
        assert!(runs.select(&names, None).unwrap_err().contains("at most 200"));
    }
}
