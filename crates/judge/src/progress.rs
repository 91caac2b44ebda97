//! The progress of a run, why it ended, and how it can continue, in one or two sentences.

use breme_experiment::plan::Plan;
use breme_experiment::record::{Purpose, RunEnd, TrialRecord};

use crate::judgement::{Judgement, Verdict};
use crate::question::Question;
use crate::words::count;

/// Describes the run's progress; empty if there is nothing to report. `folder` names the run in the command that adds
/// blocks.
#[must_use]
pub fn progress(
    plan: &Plan,
    records: &[TrialRecord],
    end: Option<RunEnd>,
    judgement: &Judgement,
    folder: &str,
) -> String {
    let planned = Question::from(plan).blocks;
    let blocks = records.iter().filter(|record| record.purpose == Purpose::Block).map(|record| record.block).max();
    let Some(blocks) = blocks.filter(|_| planned > 0) else { return String::new() };
    let of_planned = format!("{blocks} of {}", count(planned as usize, "block"));
    let ended = match end {
        Some(RunEnd::Decided) => {
            let most = count(planned as usize, "block");
            format!("The run ended after {blocks} of at most {most}, because every hypothesis had a verdict.")
        }
        Some(RunEnd::Complete) if plan.hypotheses.is_empty() => String::new(),
        Some(RunEnd::Complete) if planned == 1 => "Its only block was run.".to_owned(),
        Some(RunEnd::Complete) => format!("All {planned} blocks were run."),
        Some(RunEnd::OutOfTime) => format!("The time budget was spent after {of_planned}."),
        Some(RunEnd::Failing { trial }) => {
            format!(
                "The run ended in block {blocks} of {planned}: the same trial failed repeatedly (last: trial {trial})."
            )
        }
        Some(RunEnd::Interrupted) => format!("The run was interrupted in block {blocks} of {planned}."),
        None => format!("{of_planned} were begun, and the run has not ended."),
    };
    let more = matches!(end, Some(RunEnd::Decided | RunEnd::Complete)).then(|| more_of(judgement)).flatten();
    let advice = more.map(|more| advice(plan, blocks + more, folder)).unwrap_or_default();
    format!("{ended} {advice}").trim().to_owned()
}

/// The number of blocks that would probably decide all undecided hypotheses.
fn more_of(judgement: &Judgement) -> Option<u32> {
    let more = judgement.hypotheses.iter().filter_map(|hypothesis| match hypothesis.verdict {
        Verdict::Undecided { more_blocks } => more_blocks,
        _ => None,
    });
    more.max()
}

fn advice(plan: &Plan, blocks: u32, folder: &str) -> String {
    if blocks <= plan.blocks.limit() {
        format!("To add blocks: `breme run --resume {folder} --blocks {blocks}`.")
    } else {
        format!("About {blocks} blocks would be needed: start a new run with `blocks = {{ most = {blocks} }}`.")
    }
}
