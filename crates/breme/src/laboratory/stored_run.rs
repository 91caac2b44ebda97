//! A stored run, and its results.

use std::borrow::Cow;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use breme_command::checks::{CheckResult, Checks, NamedCheck};
use breme_command::failure::Failure;
use breme_experiment::plan::Plan;
use breme_judge::judgement::{Judgement, SearchOutcome, Verdict};
use breme_judge::{Question, agree_on_warm_ups, judge, progress};
use breme_report::{Instruments, Run};
use breme_runner::journal::{self, StoredRun};

use super::experiment;

/// What the hypotheses of a run are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimKind {
    /// Claims of an author: a refuted one fails.
    Claim,
    /// Questions, to which "no difference" is as good an answer as any.
    Question,
}

/// The default folder of runs.
pub(super) const RUNS_FOLDER: &str = "runs";

/// A run with its verdicts.
pub(super) struct Judged {
    pub(super) run: StoredRun,
    pub(super) judgement: Judgement,
}

/// A run with its questions.
pub(super) struct Unjudged {
    pub(super) run: StoredRun,
    pub(super) question: Question,
}

impl Unjudged {
    fn new(plan: &Plan, mut run: StoredRun) -> Self {
        let processors = u32::try_from(run.head.machine.processors).unwrap_or(u32::MAX);
        let question = Question { processors, ..Question::from(plan) };
        // Reports show the trials as they are judged.
        if let Cow::Owned(agreed) = agree_on_warm_ups(&run.trials) {
            run.trials = agreed;
        }
        Self { run, question }
    }
}

/// Reads and judges a run, given its folder or its name in the folder of runs.
pub(super) fn read(name: &Path) -> Result<Judged, Failure> {
    let run = journal::read(&folder_of(name)).map_err(Failure::run)?;
    let plan = experiment::read_stored(&run.plan, &run.folder)?;
    Ok(judged(&plan, run))
}

/// Reads a run that is to be compared.
pub(super) fn read_unjudged(folder: &Path) -> Result<Unjudged, Failure> {
    let run = journal::read(folder).map_err(Failure::run)?;
    let plan = experiment::read_stored(&run.plan, &run.folder)?;
    Ok(Unjudged::new(&plan, run))
}

/// Judges a run of this plan.
pub(super) fn judged(plan: &Plan, run: StoredRun) -> Judged {
    let Unjudged { run, question } = Unjudged::new(plan, run);
    let mut judgement = judge(&question, &run.trials);
    let progress = progress(plan, &run.trials, run.end, &judgement, &run.folder.display().to_string());
    judgement.grounds = format!("{} {progress}", judgement.grounds).trim().to_owned();
    judgement.warnings.extend(plan.warnings.iter().cloned());
    judgement.warnings.extend(run.damage.iter().map(|damage| format!("trials.jsonl: {damage}")));
    Judged { run, judgement }
}

/// `folder` if it exists; else the run with this name.
pub(super) fn folder_of(name: &Path) -> PathBuf {
    let in_runs = Path::new(RUNS_FOLDER).join(name);
    if !name.exists() && in_runs.exists() { in_runs } else { name.to_owned() }
}

impl Judged {
    /// The samples of the instruments, if available.
    pub(super) fn instruments(&self) -> Result<Instruments, Failure> {
        let mut instruments = Instruments::new(&self.run.trials);
        let path = journal::instruments_path(&self.run.folder);
        match File::open(&path) {
            Ok(file) => instruments.read_csv(BufReader::new(file)).map_err(|error| fault(&path, &error))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(fault(&path, &error)),
        }
        Ok(instruments)
    }

    /// Each hypothesis and each search.
    pub(super) fn checks(&self, allow_undecided: bool, claims: ClaimKind) -> Checks {
        let Judgement { answer, hypotheses, searches, .. } = &self.judgement;
        let hypotheses = hypotheses.iter().map(|hypothesis| NamedCheck {
            name: hypothesis.says.clone(),
            result: result_of(hypothesis.verdict, claims),
            detail: hypothesis.sentence.clone(),
        });
        let searches = searches.iter().map(|search| NamedCheck {
            name: search_name(search),
            result: if search.is_confirmed { CheckResult::Passed } else { CheckResult::NoVerdict },
            detail: search.sentence.clone(),
        });
        let title = self.run.head.title.clone();
        Checks { title, sentence: answer.clone(), allow_undecided, all: hypotheses.chain(searches).collect() }
    }

    /// As input for reports.
    pub(super) fn shown<'a>(&'a self, instruments: &'a Instruments) -> Run<'a> {
        Run {
            head: &self.run.head,
            trials: &self.run.trials,
            judgement: &self.judgement,
            plan: &self.run.plan,
            instruments,
        }
    }
}

fn result_of(verdict: Verdict, claims: ClaimKind) -> CheckResult {
    match verdict {
        Verdict::Supported => CheckResult::Passed,
        Verdict::Refuted | Verdict::PracticallyEqual if claims == ClaimKind::Question => CheckResult::Passed,
        Verdict::Refuted | Verdict::PracticallyEqual => CheckResult::Failed,
        Verdict::Undecided { .. } | Verdict::NoData => CheckResult::NoVerdict,
    }
}

fn search_name(search: &SearchOutcome) -> String {
    let at: Vec<String> = search.at.iter().map(|(factor, level)| format!("{factor}={level}")).collect();
    let at = if at.is_empty() { String::new() } else { format!(" [{}]", at.join(", ")) };
    format!("{} until {}{at}", search.factor, search.until)
}

fn fault(path: &Path, error: &std::io::Error) -> Failure {
    Failure::run(format!("{}: cannot be read: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_difference_is_an_answer_to_a_question_but_refutes_a_claim() {
        for verdict in [Verdict::Refuted, Verdict::PracticallyEqual] {
            assert_eq!(result_of(verdict, ClaimKind::Claim), CheckResult::Failed);
            assert_eq!(result_of(verdict, ClaimKind::Question), CheckResult::Passed);
        }
        assert_eq!(result_of(Verdict::NoData, ClaimKind::Question), CheckResult::NoVerdict);
    }
}
