//! The findings as Markdown: `docs/PEERS.md`, and its sections on the terminal.

use std::fmt::Write;
use std::time::Duration;

use breme_stats::Estimate;

use crate::blocks::{Findings, Plan, Series};
use crate::machine::Machine;
use crate::questions::{Measure, Question};
use crate::sample::Sample;
use crate::verdict::{self, Standing};

/// A question and what became of it.
pub(crate) type Outcome = (Question, Result<Findings, String>);

/// The whole document.
pub(crate) fn write(machine: &Machine, plan: &Plan, took: Duration, outcomes: &[Outcome]) -> String {
    let mut text = head(machine, plan, took);
    text.push_str(&summary(outcomes));
    text.push_str(&where_a_peer_wins(outcomes));
    for (question, outcome) in outcomes {
        text.push('\n');
        text.push_str(&section(question, outcome));
    }
    text.push('\n');
    text.push_str(FOOT);
    text
}

/// One question: the sentence, then the figures.
pub(crate) fn section(question: &Question, outcome: &Result<Findings, String>) -> String {
    let Question { name, title, setting, .. } = question;
    match outcome {
        Ok(findings) => {
            let (sentence, table) = (sentence(findings), table(findings));
            let blocks = findings.ours.samples.len();
            let blocks = count(blocks, "block");
            let seconds = findings.seconds;
            let mut text = format!("## {title}\n\n{sentence}\n\n{setting} {blocks}");
            if is_timed(question) {
                let _ = write!(text, " of {seconds} s an arm");
            }
            let _ = write!(text, ". (`{name}`)\n\n{table}");
            for note in notes(findings) {
                let _ = write!(text, "\n{note}\n");
            }
            text
        }
        Err(why) => format!("## {title}\n\nNot measured: {}. (`{name}`)\n", without_stop(why)),
    }
}

fn head(machine: &Machine, plan: &Plan, took: Duration) -> String {
    let Machine { date, revision, processor, kernel, places, driver, versions } = machine;
    format!(
        "# breme and its peers\n\n\
         Written by `cargo xtask peers`, which anyone can run again; not by hand. Less is better in every ratio, and a ratio is always\n\
         ours ÷ the peer's, with the interval that holds the true one with 95 %.\n\n\
         | | |\n|---|---|\n\
         | measured | {date}, in {} minutes |\n\
         | sources | git {revision} |\n\
         | machine | {processor} |\n\
         | kernel | {kernel} |\n\
         | places | {places} |\n\
         | breme | {driver} |\n\
         | versions | {} |\n\
         | blocks | {} to {} of {} s an arm, order from seed {} |\n\n",
        took.as_secs().div_ceil(60),
        versions.join(", "),
        plan.blocks,
        plan.blocks_max,
        plan.seconds,
        plan.seed,
    )
}

/// The goals in one table.
fn summary(outcomes: &[Outcome]) -> String {
    let mut text =
        String::from("## The goals\n\n| question | against | ours ÷ peer | goal | |\n|---|---|---|---|---|\n");
    for (question, outcome) in outcomes {
        match outcome {
            Ok(findings) => {
                for rival in &findings.rivals {
                    let (Some(goal), Some(ratio)) = (rival.goal, cost_ratio(findings, rival)) else { continue };
                    let (ratio, reached) = (verdict::ratio_in_words(&ratio), verdict::goal_in_words(&ratio, goal));
                    let _ = writeln!(text, "| {} | {} | {ratio} | ≤ {goal} | {reached} |", question.title, rival.label);
                }
            }
            Err(_) => {
                for rival in &question.rivals {
                    let (label, Some(goal)) = (rival.arm.label, rival.goal) else { continue };
                    let _ = writeln!(text, "| {} | {label} | | ≤ {goal} | not measured |", question.title);
                }
            }
        }
    }
    text
}

fn where_a_peer_wins(outcomes: &[Outcome]) -> String {
    let mut text = String::from("\n## Where a peer wins\n\n");
    let mut is_anywhere = false;
    for (question, outcome) in outcomes {
        let Ok(findings) = outcome else { continue };
        for rival in findings.rivals.iter().filter(|_| question.is_contest) {
            if let (Standing::RivalWins, Some(ratio)) = standing(findings, rival) {
                let _ = writeln!(
                    text,
                    "- {}: {} (ours needs {} times its {})",
                    question.title,
                    short(&rival.label),
                    verdict::ratio_in_words(&ratio),
                    resource(question),
                );
                is_anywhere = true;
            }
        }
    }
    if !is_anywhere {
        text.push_str("Nowhere in what was measured here.\n");
    }
    text
}

/// Who wins, in a sentence for each outcome; the peers' wins first.
fn sentence(findings: &Findings) -> String {
    let question = &findings.question;
    let resource = resource(question);
    let judged = findings.rivals.iter().filter_map(|rival| match standing(findings, rival) {
        (standing, Some(ratio)) => Some((rival, standing, ratio)),
        (_, None) => None,
    });
    let judged: Vec<_> = judged.collect();
    if !question.is_contest {
        let cost = |(rival, _, ratio): &(&Series, Standing, Estimate)| {
            format!(
                "{} needs {} times the {resource} of {}.",
                findings.ours.label,
                verdict::ratio_in_words(ratio),
                rival.label
            )
        };
        return judged.iter().map(cost).collect::<Vec<_>>().join(" ");
    }
    let ours = short(&findings.ours.label);
    let those = |wanted: Standing| judged.iter().filter(move |(_, standing, _)| *standing == wanted);
    let mut sentences: Vec<String> = those(Standing::RivalWins)
        .map(|(rival, _, ratio)| {
            let (rival, ratio) = (short(&rival.label), verdict::ratio_number(ratio.center));
            format!("**{rival} wins**: {ours} needs {ratio} times its {resource}.")
        })
        .collect();
    let beaten: Vec<_> = those(Standing::OursWins).map(|(rival, _, _)| short(&rival.label)).collect();
    if !beaten.is_empty() {
        let ratios: Vec<_> =
            those(Standing::OursWins).map(|(_, _, ratio)| verdict::ratio_number(ratio.center)).collect();
        let whose = if beaten.len() == 1 { "its" } else { "their" };
        let (beaten, ratios) = (listed(&beaten), listed(&ratios));
        sentences.push(format!("**{ours} wins** over {beaten}: it needs {ratios} of {whose} {resource}."));
    }
    let open: Vec<_> = those(Standing::Undecided).map(|(rival, _, _)| short(&rival.label)).collect();
    if !open.is_empty() {
        sentences.push(format!("Between {ours} and {} no difference beyond the noise is shown.", listed(&open)));
    }
    sentences.join(" ")
}

fn table(findings: &Findings) -> String {
    let question = &findings.question;
    let has_rate = has_rate(question);
    let (unit, each) = (question.unit, each(question.unit));
    let mut text = if matches!(question.measure, Measure::Misses { .. }) {
        "| | misses, % (least–most) | MB in all | misses: ours ÷ this | goal |\n|---|---|---|---|---|\n".to_owned()
    } else if !has_rate {
        format!(
            "| | memory, kB {each} (least–most) | MB in all | memory: ours ÷ this | goal |\n|---|---|---|---|---|\n"
        )
    } else {
        format!(
            "| | CPU time, µs {each} (least–most) | CPU busy | {unit}s/s | CPU time: ours ÷ this | {unit}s/s: ours ÷ this | goal |\n\
             |---|---|---|---|---|---|---|\n"
        )
    };
    let all = std::iter::once(&findings.ours).chain(&findings.again).chain(&findings.rivals);
    for (index, series) in all.enumerate() {
        let Series { label, goal, samples } = series;
        let cost = spread(samples.iter().map(|sample| sample.cost));
        let beside = median(samples.iter().map(|sample| sample.beside));
        let ratio = (index > 0).then(|| cost_ratio(findings, series)).flatten();
        let in_words = ratio.as_ref().map_or_else(String::new, verdict::ratio_in_words);
        let goal = match (goal, &ratio) {
            (Some(goal), Some(ratio)) => format!("≤ {goal}: {}", verdict::goal_in_words(ratio, *goal)),
            _ => String::new(),
        };
        let _ = if !has_rate {
            writeln!(text, "| {label} | {cost} | {beside:.1} | {in_words} | {goal} |")
        } else {
            let busy = median(samples.iter().filter_map(|sample| sample.busy)) * 100.0;
            let rates = (index > 0).then(|| verdict::ratio(&findings.ours.samples, samples, |sample| sample.beside));
            let rates = rates.flatten().as_ref().map_or_else(String::new, verdict::ratio_in_words);
            let beside = thousands(beside);
            writeln!(text, "| {label} | {cost} | {busy:.0} % | {beside} | {in_words} | {rates} | {goal} |")
        };
    }
    text
}

fn notes(findings: &Findings) -> Vec<String> {
    let mut notes = findings.notes.clone();
    let confidence =
        findings.rivals.iter().filter_map(|rival| cost_ratio(findings, rival)).map(|ratio| ratio.confidence);
    if confidence.fold(1.0, f64::min) < verdict::CONFIDENCE {
        notes.push(String::from("These are too few blocks for an interval of 95 %, so nobody can be said to win."));
    }
    if let Some(last) = findings.voids.last() {
        let repeated = count(findings.voids.len(), "block");
        notes.push(format!("Repeated because of errors: {repeated}; the last one: {}.", without_stop(last)));
    }
    notes
}

fn standing(findings: &Findings, rival: &Series) -> (Standing, Option<Estimate>) {
    let again = findings.again.as_ref().and_then(|again| cost_ratio(findings, again));
    let ratio = cost_ratio(findings, rival);
    let noise = verdict::noise(again.as_ref());
    (ratio.as_ref().map_or(Standing::Undecided, |ratio| verdict::standing(ratio, noise)), ratio)
}

fn cost_ratio(findings: &Findings, other: &Series) -> Option<Estimate> {
    verdict::ratio(&findings.ours.samples, &other.samples, |sample: &Sample| sample.cost)
}

/// CPU time has a rate beside it; what is held or missed does not.
fn has_rate(question: &Question) -> bool {
    matches!(question.measure, Measure::ServerCpu | Measure::GeneratorCpu)
}

/// Trials that last as long as they are told to.
fn is_timed(question: &Question) -> bool {
    has_rate(question) || question.measure == Measure::GeneratorMemory
}

fn resource(question: &Question) -> String {
    let what = match question.measure {
        Measure::ServerCpu | Measure::GeneratorCpu => "CPU time",
        Measure::ServerMemory | Measure::GeneratorMemory | Measure::ObjectMemory { .. } => "memory",
        Measure::Misses { .. } => "misses",
    };
    format!("{what} {}", each(question.unit))
}

/// `a request`, `an object`
fn each(unit: &str) -> String {
    let article = if unit.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {unit}")
}

/// A label without what stands behind its first comma.
fn short(label: &str) -> &str {
    label.split(',').next().unwrap_or(label)
}

fn listed(words: &[impl AsRef<str>]) -> String {
    match words {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", first.join(", "), last.as_ref())
        }
    }
}

/// The words of a program as a part of our sentence.
fn without_stop(text: &str) -> &str {
    text.trim_end().trim_end_matches('.')
}

fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// Median, least and most, with three significant digits.
fn spread(values: impl Iterator<Item = f64> + Clone) -> String {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.clone().fold(f64::NEG_INFINITY, f64::max);
    let middle = median(values);
    let digits = significant(middle);
    format!("{middle:.digits$} ({least:.digits$}–{most:.digits$})")
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
    }
}

/// Digits behind the point for three significant ones.
fn significant(value: f64) -> usize {
    match value.abs() {
        large if large >= 100.0 => 0,
        tens if tens >= 10.0 => 1,
        ones if ones >= 1.0 => 2,
        _ => 3,
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

const FOOT: &str = include_str!("peers-foot.md");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions;

    fn series(label: &str, goal: Option<f64>, costs: &[f64], busy: Option<f64>) -> Series {
        let sample = |&cost: &f64| Sample { cost, beside: 1e6 / cost, busy };
        Series { label: label.to_owned(), goal, samples: costs.iter().map(sample).collect() }
    }

    fn question(name: &str) -> Question {
        questions::all().into_iter().find(|question| question.name == name).unwrap()
    }

    fn machine() -> Machine {
        Machine {
            date: "Sat, 21 Nov 2026 16:00:00 GMT".into(),
            revision: "0123456789ab".into(),
            processor: "A processor, 2 processors".into(),
            kernel: "Linux 6.18".into(),
            places: "servers on processor 0, generators on 1".into(),
            driver: "its default driver, `events`".into(),
            versions: vec!["breme 0.1.0".into(), "nginx 1.22.1".into()],
        }
    }

    /// Ours at 5 µs, with noise of some 1 %.
    const OURS: [f64; 7] = [5.0, 5.02, 4.98, 5.05, 4.95, 5.01, 4.99];

    fn times(factor: f64) -> Vec<f64> {
        OURS.iter().enumerate().map(|(index, cost)| cost * factor * (1.0 + 0.002 * index as f64)).collect()
    }

    fn findings(name: &str, factors: [f64; 3]) -> Findings {
        let question = question(name);
        let busy = has_rate(&question).then_some(0.97);
        let rivals = question.rivals.iter().zip(factors);
        Findings {
            ours: series(question.ours.label, None, &OURS, busy),
            again: Some(series("again (A/A)", None, &times(0.995), busy)),
            rivals: rivals.map(|(rival, by)| series(rival.arm.label, rival.goal, &times(by), busy)).collect(),
            seconds: 2,
            voids: Vec::new(),
            notes: Vec::new(),
            question,
        }
    }

    #[test]
    fn the_document() {
        let mut servers = findings("site-13", [1.25, 0.8, 1.001]);
        servers.voids = vec!["nginx: wrk saw errors: read 3".into()];
        let mut handshakes = findings("tls-handshakes", [2.0, 2.0, 2.0]);
        handshakes.notes = vec!["All agreed with OpenSSL on TLS_AES_256_GCM_SHA384.".into()];
        let outcomes =
            [servers, findings("load-rate", [0.8, 0.0, 0.0]), handshakes, findings("idle-memory", [3.0, 4.0, 5.0])]
                .map(|findings| (findings.question.clone(), Ok(findings)));
        let mut outcomes = outcomes.to_vec();
        outcomes.push((question("tls-1k"), Err("this build of `breme site` has no `--tls-cert`".into())));
        let plan = Plan { blocks: 7, blocks_max: 15, seconds: 2, seed: 1, whole: true };
        insta::assert_snapshot!(write(&machine(), &plan, Duration::from_secs(1_000), &outcomes));
    }

    #[test]
    fn few_blocks_make_nobody_win() {
        let mut few = findings("site-13", [2.0, 3.0, 4.0]);
        let all = std::iter::once(&mut few.ours).chain(&mut few.again).chain(&mut few.rivals);
        all.for_each(|series| series.samples.truncate(2));
        assert_eq!(
            sentence(&few),
            "Between `breme site` and nginx, lighttpd and Apache no difference beyond the noise is shown."
        );
        let text = section(&few.question.clone(), &Ok(few));
        assert!(text.contains("only 50 %)") && text.contains("too few blocks"), "{text}");
    }

    #[test]
    fn numbers() {
        assert_eq!(thousands(1_234_567.4), "1,234,567");
        assert_eq!(thousands(999.0), "999");
        assert_eq!(spread([0.3051, 0.2949, 0.31].into_iter()), "0.305 (0.295–0.310)");
        assert_eq!(spread([12.0, 14.0].into_iter()), "13.0 (12.0–14.0)");
        assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert!(median([].into_iter()).is_nan());
    }
}
