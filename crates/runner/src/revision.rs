//! The git working tree in which a run is started: a history of runs needs to know what each one measured.

use std::path::Path;
use std::process::Command;

use breme_experiment::record::Revision;

use crate::program_output::program_output;

/// Variables in which CI servers name the branch, since they check out a commit without one: GitHub for pull requests
/// and for branches, GitLab.
const BRANCH_VARIABLES: [&str; 3] = ["GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME"];
/// Characters of a branch's name that are kept.
const BRANCH_CHARACTERS_MAX: usize = 255;

/// The state of the working tree that contains `folder`; none if there is none, or git is missing or too slow.
#[must_use]
pub fn revision(folder: &Path) -> Option<Revision> {
    let mut git = Command::new("git");
    // It takes no lock and starts no daemon: others may be using the tree.
    git.current_dir(folder).args(["--no-optional-locks", "-c", "core.fsmonitor=false"]);
    git.args(["status", "--porcelain=v2", "--branch", "--untracked-files=no"]);
    let printed = program_output(git)?;
    let named = || BRANCH_VARIABLES.iter().find_map(|name| std::env::var(name).ok().filter(|name| !name.is_empty()));
    parse(&String::from_utf8_lossy(&printed), named)
}

/// Parses the beginning of `git status --porcelain=v2 --branch`; `branch_of_ci` is used if no branch is checked out.
fn parse(printed: &str, branch_of_ci: impl FnOnce() -> Option<String>) -> Option<Revision> {
    let header = |name: &str| printed.lines().find_map(|line| line.strip_prefix(name));
    let commit = header("# branch.oid ")?.to_owned();
    // `(initial)` before the first commit.
    if !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let branch = header("# branch.head ").filter(|&head| head != "(detached)");
    let branch = branch
        .map(str::to_owned)
        .or_else(branch_of_ci)
        .map(|branch| branch.chars().filter(|c| !c.is_control()).take(BRANCH_CHARACTERS_MAX).collect());
    // Changed, renamed, unmerged.
    let is_modified = printed.lines().any(|line| ["1 ", "2 ", "u "].iter().any(|kind| line.starts_with(kind)));
    Some(Revision { commit, branch, is_modified })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const COMMIT: &str = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";

    fn parsed(head: &str, rest: &str) -> Option<Revision> {
        parse(&format!("# branch.oid {COMMIT}\n# branch.head {head}\n{rest}"), || Some("of-ci".to_owned()))
    }

    #[test]
    fn the_branch_is_that_of_git_or_else_of_the_ci_server() {
        let revision = |branch: &str, is_modified| {
            Some(Revision { commit: COMMIT.to_owned(), branch: Some(branch.to_owned()), is_modified })
        };
        assert_eq!(parsed("main", ""), revision("main", false));
        assert_eq!(parsed("fix/a b", "# branch.upstream origin/x\n# branch.ab +1 -0\n"), revision("fix/a b", false));
        assert_eq!(parsed("(detached)", ""), revision("of-ci", false));
        assert_eq!(parsed("main", "1 .M N... 100644 100644 100644 a b file\n"), revision("main", true));
        assert_eq!(parsed("main", "warning: something\n"), revision("main", false));
    }

    #[test]
    fn before_the_first_commit_and_without_git_there_is_none() {
        for printed in ["# branch.oid (initial)\n# branch.head main\n", "fatal: not a git repository\n", ""] {
            assert_eq!(parse(printed, || None), None, "{printed}");
        }
    }

    fn git(folder: &Path, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        git.current_dir(folder).args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]);
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        let output = git.args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn a_real_tree_has_its_commit_its_branch_and_its_changes() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path();
        git(tree, &["init", "--quiet", "--initial-branch=trunk"]);
        assert_eq!(revision(tree), None, "no commit");
        fs::write(tree.join("tracked"), "1").unwrap();
        git(tree, &["add", "tracked"]);
        git(tree, &["commit", "--quiet", "--message=first"]);
        let commit = git(tree, &["rev-parse", "HEAD"]);
        fs::write(tree.join("untracked"), "1").unwrap();
        fs::create_dir(tree.join("below")).unwrap();
        let expected = Revision { commit, branch: Some("trunk".to_owned()), is_modified: false };
        assert_eq!(revision(&tree.join("below")), Some(expected.clone()));
        fs::write(tree.join("tracked"), "2").unwrap();
        assert_eq!(revision(tree), Some(Revision { is_modified: true, ..expected }));
    }
}
