//! What is to be seen while a run goes on: a bar with the time left, on a terminal; what went wrong, always.

use std::io::IsTerminal;
use std::time::Duration;

use breme_experiment::plan::Plan;
use breme_experiment::record::{TrialEnd, TrialRecord};
use breme_experiment::trial::TrialSpec;
use breme_runner::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often the time is drawn anew.
const TICK: Duration = Duration::from_secs(1);
/// The longest part of what a subject printed that is shown.
const PRINTED_CHARACTERS_MAX: usize = 1_000;

/// Shows a run.
pub(super) struct Show {
    bar: ProgressBar,
    is_quiet: bool,
    blocks: u32,
}

impl Show {
    /// `done` trials are there already.
    pub(super) fn new(plan: &Plan, done: usize, is_quiet: bool) -> Self {
        let trials = plan.trials().len() as u64;
        let bar = if is_quiet || !std::io::stderr().is_terminal() { ProgressBar::hidden() } else { bar(trials) };
        bar.set_position(done as u64);
        bar.reset_eta();
        Self { bar, is_quiet, blocks: plan.blocks }
    }

    pub(super) fn tell(&self, progress: Progress<'_>) {
        match progress {
            Progress::Begins { number, trial } => self.bar.set_message(self.place(number, trial)),
            Progress::Recorded(record) => {
                self.bar.inc(1);
                if let Some(line) = complaint(record).filter(|_| !self.is_quiet) {
                    self.bar.suspend(|| eprintln!("{line}"));
                }
            }
        }
    }

    fn place(&self, number: u32, trial: &TrialSpec) -> String {
        let levels: Vec<String> = trial.levels.iter().map(|(factor, level)| format!("{factor} {level}")).collect();
        let block =
            if self.blocks > 0 { format!("block {}/{} · ", trial.key.block, self.blocks) } else { String::new() };
        format!("{block}trial {number} · {}", levels.join(", "))
    }
}

impl Drop for Show {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A search does not know beforehand how many trials it needs.
fn bar(trials: u64) -> ProgressBar {
    let bar = if trials > 0 { ProgressBar::new(trials) } else { ProgressBar::new_spinner() };
    bar.set_draw_target(ProgressDrawTarget::stderr());
    let template =
        if trials > 0 { "{bar:30} {pos}/{len} · {eta} left · {msg}" } else { "{spinner} {elapsed} · {msg}" };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style);
    bar.enable_steady_tick(TICK);
    bar
}

/// What is wrong with a trial, if anything is.
fn complaint(record: &TrialRecord) -> Option<String> {
    let levels: Vec<String> = record.levels.iter().map(|(factor, level)| format!("{factor}={level}")).collect();
    let place = format!("trial {} [{}]", record.number, levels.join(", "));
    match &record.end {
        TrialEnd::Failed { who, what, printed } => {
            let printed = printed.trim();
            let skipped = printed.chars().count().saturating_sub(PRINTED_CHARACTERS_MAX);
            let shown: String = printed.chars().skip(skipped).collect();
            let shown = shown.lines().fold(String::new(), |text, line| format!("{text}\n    {line}"));
            Some(format!("{place} failed: {who}: {what}{shown}"))
        }
        TrialEnd::Complete if !record.invalid_reasons.is_empty() => {
            Some(format!("{place} is INVALID: {}", record.invalid_reasons.join("; ")))
        }
        TrialEnd::Complete => None,
    }
}
