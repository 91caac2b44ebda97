//! The checks of a command, and their output for CI servers.
//!
//! Hypotheses of `breme run`, gated rows of `breme compare` and conditions of `breme load --fail-if` are the same to a
//! CI server: named checks that pass, fail, or are undecided. The exit status, the JUnit file, the Markdown summary and
//! the annotations are all derived from them, so that no two of these can differ.

mod github;
mod junit;
mod markdown;

pub use github::annotate;
pub use junit::junit;
pub use markdown::markdown;

use crate::failure::{AGAINST, NO_VERDICT};

#[derive(Debug)]
pub struct Checks {
    /// What was checked: the experiment, the two runs, the URL.
    pub title: String,
    /// The overall verdict in a sentence.
    pub sentence: String,
    /// An undecided check is no failure.
    pub allow_undecided: bool,
    pub all: Vec<NamedCheck>,
}

#[derive(Debug)]
pub struct NamedCheck {
    pub name: String,
    pub result: CheckResult,
    /// The figures, in a sentence.
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckResult {
    Passed,
    Failed,
    /// The data do not decide, or there are none.
    NoVerdict,
}

impl Checks {
    /// 3 if a check failed; else 4 if one has no verdict, unless that is allowed; else 0.
    pub fn exit_status(&self) -> u8 {
        match () {
            () if self.count(CheckResult::Failed) > 0 => AGAINST,
            () if self.count(CheckResult::NoVerdict) > 0 && !self.allow_undecided => NO_VERDICT,
            () => 0,
        }
    }

    fn count(&self, wanted: CheckResult) -> usize {
        self.all.iter().filter(|check| check.result == wanted).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn checks(results: &[CheckResult]) -> Checks {
        let check = |(index, &result): (usize, &CheckResult)| NamedCheck {
            name: format!("p99(user) < {index} ms & <more>"),
            result,
            detail: "5 ms\nand \"more\" 10 %, \u{1b}".to_owned(),
        };
        Checks {
            title: "a|b".to_owned(),
            sentence: "So it is.".to_owned(),
            allow_undecided: false,
            all: results.iter().enumerate().map(check).collect(),
        }
    }

    #[test]
    fn a_failure_outweighs_a_missing_verdict() {
        use CheckResult::{Failed, NoVerdict, Passed};
        let status = |results: &[CheckResult]| {
            [false, true].map(|allow_undecided| Checks { allow_undecided, ..checks(results) }.exit_status())
        };
        assert_eq!(status(&[]), [0, 0]);
        assert_eq!(status(&[Passed, Passed]), [0, 0]);
        assert_eq!(status(&[Passed, NoVerdict]), [4, 0]);
        assert_eq!(status(&[NoVerdict, Failed, Passed]), [3, 3]);
    }
}
