//! The progress of a run: on a terminal a bar with the remaining time, and a line for each trial that does not count.

use std::fmt;
use std::io::IsTerminal;
use std::time::Duration;

use breme_base::plural;
use breme_experiment::plan::Plan;
use breme_experiment::record::{TrialEnd, TrialRecord};
use breme_experiment::trial::TrialSpec;
use breme_runner::Progress;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// Interval at which the bar is redrawn.
const TICK: Duration = Duration::from_secs(1);
/// Assumed requests per second, until the first trial shows the actual rate.
const ANSWERED_PER_SECOND: u32 = 3_000;
/// How much of a subject's output is shown.
const PRINTED_CHARACTERS_MAX: usize = 1_000;

/// Shows the progress of a run.
pub(super) struct Show {
    bar: ProgressBar,
    is_quiet: bool,
    blocks: u32,
    /// From this block on the run may end early.
    least: Option<u32>,
}

impl Show {
    /// `done` trials were recorded before.
    pub(super) fn new(plan: &Plan, done: &[TrialRecord], is_quiet: bool) -> Self {
        let repeats = done.iter().filter(|record| record.repeat > 0).count();
        let planned = plan.trials().len();
        let trials = if planned > 0 { (planned + repeats) as u64 } else { 0 };
        let bar = if is_quiet || !std::io::stderr().is_terminal() {
            ProgressBar::hidden()
        } else {
            bar(trials, done.len() as u64, plan.estimate().at_rate(ANSWERED_PER_SECOND))
        };
        bar.set_position(done.len() as u64);
        bar.reset_eta();
        Self {
            bar,
            is_quiet,
            blocks: plan.blocks.to_run(),
            least: plan.ends_when_decided().then_some(plan.blocks.least),
        }
    }

    pub(super) fn update(&self, progress: Progress<'_>) {
        match progress {
            Progress::Begins { number, trial, repeat } => {
                if repeat > 0 {
                    self.bar.inc_length(1); // not planned
                }
                self.bar.set_message(self.place(number, trial, repeat));
            }
            Progress::Decided(blocks) => {
                if !self.is_quiet {
                    self.bar.suspend(|| {
                        breme_base::error_line!(
                            "every hypothesis has a verdict after {}",
                            plural(u64::from(blocks), "block")
                        );
                    });
                }
            }
            Progress::Recorded(record) => {
                self.bar.inc(1);
                if let Some(line) = complaint(record).filter(|_| !self.is_quiet) {
                    self.bar.suspend(|| breme_base::error_line!("{line}"));
                }
            }
        }
    }

    fn place(&self, number: u32, trial: &TrialSpec, repeat: u32) -> String {
        let levels: Vec<String> = trial.levels.iter().map(|(factor, level)| format!("{factor} {level}")).collect();
        let block = match (self.blocks, self.least) {
            (0, _) => String::new(),
            (most, None) => format!("block {} of {most} · ", trial.key.block),
            (most, Some(least)) => format!("block {} of {least} to {most} · ", trial.key.block),
        };
        let again = if repeat > 0 { " (repeated)" } else { "" };
        format!("{block}trial {number}{again} · {}", levels.join(", "))
    }
}

impl Drop for Show {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The number of trials of a search is unknown in advance. Until a trial after those in `done` has ended, the remaining
/// time is that of the plan.
fn bar(trials: u64, done: u64, estimate: Duration) -> ProgressBar {
    let bar = if trials > 0 { ProgressBar::new(trials) } else { ProgressBar::new_spinner() };
    bar.set_draw_target(ProgressDrawTarget::stderr());
    let template = if trials > 0 {
        "{bar:20} {pos}/{len} · {left} left · {wide_msg}"
    } else {
        "{spinner} {elapsed} · {wide_msg}"
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style.with_key("left", move |state: &ProgressState, out: &mut dyn fmt::Write| {
        let trials = state.len().unwrap_or(trials).max(1);
        let planned = estimate.mul_f64(trials.saturating_sub(state.pos()) as f64 / trials as f64);
        let left = if state.pos() > done { state.eta() } else { planned };
        let _ = write!(out, "{:#}", HumanDuration(left));
    }));
    bar.enable_steady_tick(TICK);
    bar
}

/// Why a trial does not count, if so.
fn complaint(record: &TrialRecord) -> Option<String> {
    let levels: Vec<String> = record.levels.iter().map(|(factor, level)| format!("{factor}={level}")).collect();
    let place = format!("trial {} [{}]", record.number, levels.join(", "));
    match &record.end {
        TrialEnd::Failed(failure) => {
            let printed = failure.printed.trim();
            let skipped = printed.chars().count().saturating_sub(PRINTED_CHARACTERS_MAX);
            let shown: String = printed.chars().skip(skipped).collect();
            let shown = shown.lines().fold(String::new(), |text, line| format!("{text}\n    {line}"));
            Some(format!("{place} failed: {failure}{shown}"))
        }
        TrialEnd::Complete if !record.invalid_reasons.is_empty() => {
            Some(format!("{place} is INVALID: {}", record.invalid_reasons.join("; ")))
        }
        TrialEnd::Complete => None,
    }
}
