//! The headline: verdict, claim, the deciding number, and what it is based on.
//!
//! Claims are quoted, so that their words are not mistaken for a result.

use crate::judgement::{Comparison, HypothesisJudgement, Judgement, TrialCounts, Verdict};
use crate::question::Question;
use crate::words::count;

/// The headline and its basis: from the hypotheses; without any, from the searches or the comparisons.
pub(crate) fn answer(question: &Question, judgement: &Judgement) -> (String, String) {
    let trials = &judgement.trials;
    if trials.counted == 0 {
        return (no_trial_counts(trials), String::new());
    }
    let (said, numbers) = match judgement.hypotheses.as_slice() {
        [] => measurements_headline(question, judgement),
        [one] => hypothesis_headline(one),
        several => hypotheses_headline(several),
    };
    let grounds = [numbers, uncounted(trials).unwrap_or_default()];
    (said, grounds.join(" ").trim().to_owned())
}

fn no_trial_counts(trials: &TrialCounts) -> String {
    let TrialCounts { run, failed, invalid, .. } = *trials;
    if run == 0 {
        return "No data: no trial was run.".to_owned();
    }
    let kinds = [(failed, "failed"), (invalid, "INVALID")];
    format!("No data: none of {} counts ({}).", count(run as usize, "trial"), listed(&kinds))
}

fn listed(kinds: &[(u32, &str)]) -> String {
    let parts: Vec<String> =
        kinds.iter().filter(|(number, _)| *number > 0).map(|(number, word)| format!("{number} {word}")).collect();
    parts.join(", ")
}

/// `Refuted: “…”. At 1 user `rate(user)` with a is 1.01 times (0.99–1.10) that with b; claimed: more than 1.2.`
fn hypothesis_headline(hypothesis: &HypothesisJudgement) -> (String, String) {
    let word = match hypothesis.verdict {
        Verdict::Supported => "Supported",
        Verdict::Refuted => "Refuted",
        Verdict::PracticallyEqual => "Practically equal",
        Verdict::Undecided { .. } => "Undecided",
        Verdict::NoData => "No data",
    };
    let quoted = format!("{word}: “{}”.", without_end(&hypothesis.says));
    (joined(&quoted, &hypothesis.finding), hypothesis.basis.clone())
}

fn joined(head: &str, finding: &str) -> String {
    if finding.is_empty() { head.to_owned() } else { format!("{head} {finding}.") }
}

/// The count of each verdict, and the first hypothesis with a number, since the author put it first.
fn hypotheses_headline(hypotheses: &[HypothesisJudgement]) -> (String, String) {
    let number = |wanted: fn(&Verdict) -> bool| {
        hypotheses.iter().filter(|hypothesis| wanted(&hypothesis.verdict)).count() as u32
    };
    let kinds = [
        (number(|verdict| *verdict == Verdict::Supported), "supported"),
        (number(|verdict| *verdict == Verdict::Refuted), "refuted"),
        (number(|verdict| *verdict == Verdict::PracticallyEqual), "practically equal"),
        (number(|verdict| matches!(verdict, Verdict::Undecided { .. })), "undecided"),
        (number(|verdict| *verdict == Verdict::NoData), "without data"),
    ];
    let all = hypotheses.len() as u32;
    let counts = match kinds.iter().find(|(number, _)| *number == all) {
        Some((_, "without data")) => format!("No data for any of {all} hypotheses."),
        Some((_, word)) => format!("All {all} hypotheses are {word}."),
        None => {
            let each = listed(&kinds);
            // The total is in the first part only: "2 of 4 hypotheses supported, 1 refuted".
            each.split_once(' ')
                .map_or_else(|| each.clone(), |(first, rest)| format!("{first} of {all} hypotheses {rest}."))
        }
    };
    match hypotheses.iter().find(|hypothesis| !hypothesis.finding.is_empty()) {
        Some(first) => {
            let quoted = format!("The number is that of “{}”. {}", without_end(&first.says), first.basis);
            (joined(&counts, &first.finding), quoted.trim().to_owned())
        }
        None => (counts, hypotheses.first().map(|first| first.basis.clone()).unwrap_or_default()),
    }
}

fn without_end(text: &str) -> &str {
    text.trim().trim_end_matches(['.', '!', '?'])
}

/// The search's result, or the most significant comparison of the first measure. Levels that are words come before
/// numbers: it is no surprise that a larger load is slower.
fn measurements_headline(question: &Question, judgement: &Judgement) -> (String, String) {
    let found = |search: &&crate::judgement::SearchOutcome| search.holds_at.is_some() || search.fails_at.is_some();
    if let Some(search) = judgement.searches.iter().filter(found).max_by_key(|search| search.is_confirmed) {
        return if search.is_confirmed {
            (search.sentence.clone(), String::new())
        } else {
            ("Undecided: longer trials confirmed no limit.".to_owned(), search.sentence.clone())
        };
    }
    let first = question.measures.first().map(|measure| measure.name.clone()).unwrap_or_default();
    let is_named = |comparison: &&Comparison| comparison.left.parse::<f64>().is_err();
    let of_first = || judgement.comparisons.iter().filter(|comparison| comparison.measure == first);
    let shown = of_first().find(is_named).or_else(|| of_first().next()).or(judgement.comparisons.first());
    let has_value = judgement.tables.iter().any(|table| table.rows.iter().any(|row| row.center.is_some()));
    let said = match shown {
        Some(comparison) => comparison.sentence.clone(),
        None if has_value => "Only one combination of levels has trials that count: see its measurements.".to_owned(),
        None => "No data: no measure has a value.".to_owned(),
    };
    (said, String::new())
}

fn uncounted(trials: &TrialCounts) -> Option<String> {
    let kinds = listed(&[(trials.failed, "failed"), (trials.invalid, "INVALID")]);
    (!kinds.is_empty()).then(|| format!("Of {}, not used: {kinds}.", count(trials.run as usize, "trial")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judgement::SearchOutcome;

    #[test]
    fn a_search_that_nothing_confirms_prints_no_number_in_the_headline() {
        let search = |is_confirmed: bool| SearchOutcome {
            holds_at: Some(12_338.0),
            is_confirmed,
            sentence: "`errors(user) > 1 %` is false up to rate = 12,338.".to_owned(),
            ..SearchOutcome::default()
        };
        let of = |is_confirmed: bool| {
            let trials = TrialCounts { run: 9, counted: 9, ..TrialCounts::default() };
            answer(
                &Question::default(),
                &Judgement { searches: vec![search(is_confirmed)], trials, ..Judgement::default() },
            )
        };
        let (headline, grounds) = of(false);
        assert_eq!(headline, "Undecided: longer trials confirmed no limit.");
        assert!(grounds.contains("12,338"), "{grounds}");
        assert!(of(true).0.contains("12,338"));
    }
}
