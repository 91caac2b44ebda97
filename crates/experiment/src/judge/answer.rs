//! The answer to the experiment's question, in a sentence, and what it rests on.
//!
//! Whoever reads one line reads this one. So it says what is not known as plainly as what is, and that nothing counts
//! where nothing does.

use crate::judge::question::Question;
use crate::judge::words::count;
use crate::judgement::{Comparison, HypothesisJudgement, Judgement, TrialCounts, Verdict};

/// From the hypotheses; without one, from the searches or from the comparisons. The answer, and its grounds.
pub(crate) fn answer(question: &Question, judgement: &Judgement) -> (String, String) {
    let trials = &judgement.trials;
    if trials.counted == 0 {
        return (nothing_counts(trials), String::new());
    }
    let (said, numbers) = match judgement.hypotheses.as_slice() {
        [] => (from_what_was_seen(question, judgement), String::new()),
        [one] => of_one(one),
        several => of_several(several),
    };
    let grounds = [numbers, uncounted(trials).unwrap_or_default()];
    (said, grounds.join(" ").trim().to_owned())
}

fn nothing_counts(trials: &TrialCounts) -> String {
    if trials.run == 0 {
        return "There is no answer: no trial was run.".to_owned();
    }
    let TrialCounts { run, failed, invalid, .. } = trials;
    format!(
        "There is no answer: none of {} counts ({failed} failed, {invalid} INVALID).",
        count(*run as usize, "trial")
    )
}

fn of_one(hypothesis: &HypothesisJudgement) -> (String, String) {
    let word = match hypothesis.verdict {
        Verdict::Supported => "Yes",
        Verdict::Refuted => "No",
        Verdict::PracticallyEqual => "It makes no difference that matters",
        Verdict::Undecided { .. } => "It is not known yet",
        Verdict::NoData => "There is no answer",
    };
    (format!("{word}: {}.", without_end(&hypothesis.says)), hypothesis.sentence.clone())
}

fn of_several(hypotheses: &[HypothesisJudgement]) -> (String, String) {
    let which = |wanted: fn(&Verdict) -> bool| -> Vec<&HypothesisJudgement> {
        hypotheses.iter().filter(|hypothesis| wanted(&hypothesis.verdict)).collect()
    };
    let supported = which(|verdict| *verdict == Verdict::Supported);
    let rest = [
        ("refuted", which(|verdict| *verdict == Verdict::Refuted)),
        ("practically equal", which(|verdict| *verdict == Verdict::PracticallyEqual)),
        ("undecided", which(|verdict| matches!(verdict, Verdict::Undecided { .. }))),
        ("without data", which(|verdict| *verdict == Verdict::NoData)),
    ];
    let same = rest.iter().find(|(_, which)| which.len() == hypotheses.len()).map(|(word, _)| *word);
    let mut parts = vec![match (supported.len(), same) {
        (all, _) if all == hypotheses.len() => format!("All {all} hypotheses are supported"),
        (_, Some("undecided")) => format!("It is not known yet: all {} hypotheses are undecided", hypotheses.len()),
        (_, Some(word)) => format!("All {} hypotheses are {word}", hypotheses.len()),
        (0, None) => format!("None of {} hypotheses is supported", hypotheses.len()),
        (1, None) => format!("1 of {} hypotheses is supported", hypotheses.len()),
        (some, None) => format!("{some} of {} hypotheses are supported", hypotheses.len()),
    }];
    if same.is_none() {
        parts.extend(rest.iter().filter(|(_, which)| !which.is_empty()).map(|(word, which)| in_short(word, which)));
    }
    // The numbers of the first one that says most.
    let told = supported.first().or_else(|| rest.iter().find_map(|(_, which)| which.first()));
    let numbers = told.map(|told| {
        let (_, numbers) = told.sentence.split_once(": ").unwrap_or(("", &told.sentence));
        format!("“{}”: {numbers}", without_end(&told.says))
    });
    (format!("{}.", parts.join("; ")), numbers.unwrap_or_default())
}

fn in_short(word: &str, which: &[&HypothesisJudgement]) -> String {
    let first = without_end(&which[0].says);
    match which.len() {
        1 => format!("{word}: “{first}”"),
        more => format!("{word}: “{first}” and {} more", more - 1),
    }
}

fn without_end(text: &str) -> &str {
    text.trim().trim_end_matches(['.', '!', '?'])
}

/// The search's finding, or the most telling comparison of the first measure; words before numbers among the factors,
/// since that a larger load is slower is no news.
fn from_what_was_seen(question: &Question, judgement: &Judgement) -> String {
    if let Some(found) = judgement.searches.iter().find(|search| search.holds_at.is_some() || search.fails_at.is_some())
    {
        return found.sentence.clone();
    }
    let first = question.measures.first().map(|measure| measure.name.clone()).unwrap_or_default();
    let is_named = |comparison: &&Comparison| comparison.left.parse::<f64>().is_err();
    let of_first = || judgement.comparisons.iter().filter(|comparison| comparison.measure == first);
    let told = of_first().find(is_named).or_else(|| of_first().next()).or(judgement.comparisons.first());
    match (told, judgement.tables.first().and_then(|table| table.rows.iter().find(|row| row.center.is_some()))) {
        (Some(comparison), _) => comparison.sentence.clone(),
        (None, Some(_)) => {
            "Trials of one combination only count, and there is nothing to compare it with: see its figures.".to_owned()
        }
        (None, None) => "There is no answer: no measure has a value.".to_owned(),
    }
}

fn uncounted(trials: &TrialCounts) -> Option<String> {
    let all = [(trials.failed, "failed"), (trials.invalid, "INVALID"), (trials.unsteady, "without a steady state")];
    let parts: Vec<String> =
        all.iter().filter(|(number, _)| *number > 0).map(|(number, word)| format!("{number} {word}")).collect();
    let trials = count(trials.run as usize, "trial");
    (!parts.is_empty()).then(|| format!("Of {trials} not all could be used: {}.", parts.join(", ")))
}
