//! The page of a history in a browser: a measure that gets worse, a steady one, a share with a gap.
//!
//! `BREME_SCREENSHOTS=FOLDER` keeps pictures of the page: light, dark, phone, print.

#![allow(clippy::unwrap_used, reason = "a fault of the test ends it")]

mod chromium;
mod page;

use breme_experiment::record::Revision;
use breme_judge::judgement::Scale;
use breme_judge::{
    GateSummary, GateVerdict, Gated, History, HistoryPoint, HistoryRow, HistoryRun, Levels, RunComparison, RunRole,
    RunRow, Trend, TrendVerdict,
};
use breme_report::HistoryPage;
use page::Page;
use serde_json::json;

const RUNS: usize = 12;
/// 2026-01-01 10:00 UTC.
const STARTED_UNIX_MS: u64 = 1_767_261_600_000;
const HOSTILE: &str = "</script><script>alert(1)</script>";

fn run(number: usize) -> HistoryRun {
    HistoryRun {
        run: if number == 3 { HOSTILE.to_owned() } else { format!("main-{}", number + 1) },
        started_unix_ms: STARTED_UNIX_MS + number as u64 * 86_400_000,
        revision: (number != 4).then(|| Revision {
            commit: format!("{number:x}a2b3c4d5e6f7"),
            branch: Some("main".to_owned()),
            is_modified: number == 5,
        }),
        role: match number {
            0 => RunRole::Baseline,
            _ if number + 1 == RUNS => RunRole::Judged,
            _ => RunRole::Shown,
        },
        changes: if number == 6 { vec!["The kernel differs: a → b.".to_owned()] } else { Vec::new() },
    }
}

/// A gated row whose value in each run is `value`, give or take 2 %; none: no value.
fn row(
    (measure, unit, users): (&str, &str, &str),
    verdict: GateVerdict,
    scale: Scale,
    value: impl Fn(usize) -> Option<f64>,
) -> (RunRow, HistoryRow) {
    let levels: Levels = [("users".to_owned(), users.to_owned())].into();
    let point = |number: usize| HistoryPoint {
        value: value(number),
        low: value(number).map(|value| value * 0.98),
        high: value(number).map(|value| value * 1.02),
        blocks: 6,
    };
    let (first, last) = (value(0), value(RUNS - 1));
    let gated = Gated { verdict, margin: 0.1, allowed: "≤ 1.100".to_owned(), ..Gated::default() };
    let compared = RunRow {
        measure: measure.to_owned(),
        unit: unit.to_owned(),
        levels: levels.clone(),
        scale,
        gated: Some(gated),
        before: first,
        after: last,
        center: Some(1.2),
        low: Some(1.15),
        high: Some(1.25),
        ..RunRow::default()
    };
    let history = HistoryRow {
        measure: measure.to_owned(),
        unit: unit.to_owned(),
        levels,
        less_is_better: true,
        baseline: first,
        limit: first.map(|first| first * 1.1),
        points: (0..RUNS).map(point).collect(),
        trend: first.zip(last).map(|(first, last)| Trend {
            verdict: if last > 1.1 * first { TrendVerdict::GettingWorse } else { TrendVerdict::NotShown },
            runs: RUNS,
            scale: Scale::Ratio,
            center: (last / first).powf(1.0 / (RUNS - 1) as f64),
            first,
            last,
            ..Trend::default()
        }),
        sentence: "+2 % per run (+1 % to +3 %), +22 % over 12 runs: getting worse.".to_owned(),
    };
    (compared, history)
}

fn comparison() -> (RunComparison, History) {
    let rows = [
        row(("mean(user)", "s", "10"), GateVerdict::Worse, Scale::Ratio, |run| Some(0.01 * 1.02_f64.powi(run as i32))),
        row(("mean(user)", "s", "1"), GateVerdict::NotWorse, Scale::Ratio, |_| Some(0.002)),
        row(("errors(user)", "share", "10"), GateVerdict::NoVerdict, Scale::Difference, |run| {
            (run != 2 && run + 1 != RUNS).then_some(0.0)
        }),
    ];
    let (mut compared, histories): (Vec<RunRow>, Vec<HistoryRow>) = rows.into_iter().unzip();
    compared.push(RunRow { measure: "p99(user)".to_owned(), unit: "s".to_owned(), ..RunRow::default() });
    let comparison = RunComparison {
        before: "main-1".to_owned(),
        after: "main-12".to_owned(),
        verdict: GateVerdict::Worse,
        sentence: "Worse in 1 of 3 gated rows. `mean(user)` at users=10: 10 ms → 12.4 ms.".to_owned(),
        gate: GateSummary { rows: 3, sentence: "Gate: 3 rows.".to_owned(), ..GateSummary::default() },
        rows: compared,
        warnings: vec!["The version of breme differs: 0.1.0 → 0.2.0.".to_owned()],
        ..RunComparison::default()
    };
    (comparison, History { runs: (0..RUNS).map(run).collect(), rows: histories })
}

fn page(comparison: &RunComparison, history: &History) -> Page {
    Page::new(&HistoryPage { comparison, history }.html())
}

#[test]
fn each_gated_row_has_a_chart_with_its_runs_its_margin_and_its_trend() {
    let (comparison, history) = comparison();
    let mut page = page(&comparison, &history);
    page.open_whole(1280);
    let charts = page.evaluate(
        "(() => {
            const charts = JSON.parse(document.getElementById('run').textContent).charts;
            return [...document.querySelectorAll('.plot')].map((plot) => {
                const of = (name) => charts[plot.id].option.series.find((series) => series.name === name);
                return [of('runs').data.filter((point) => point.value[1] !== null).length, of('interval').data.length,
                    of('trend').data.length, of('margin').markArea.data.length, of('margin').markLine.data.length,
                    plot.querySelectorAll('svg path').length > of('interval').data.length];
            });
        })()",
    );
    let expected = json!([[12, 12, 12, 1, 2, true], [12, 12, 12, 1, 2, true], [10, 10, 0, 1, 2, true]]);
    assert_eq!(charts, expected, "points, intervals, trend, band, lines");
    let label = page.evaluate(
        "Object.values(JSON.parse(document.getElementById('run').textContent).charts)[0].option.series.find((series) => series.name === 'runs').data[5].name",
    );
    assert_eq!(label, "run 6, main-6, 2026-01-06 10:00 UTC, main 5a2b3c4d5e (modified): 11.0 ms (10.8 – 11.3 ms)");
    assert_eq!(page.text(".the-answer"), "Worse in 1 of 3 gated rows. mean(user) at users=10: 10 ms → 12.4 ms.");
    let text = page.text("main");
    for part in [HOSTILE, "1 getting worse", "0.1.0 → 0.2.0", "From run 6 to run 7: The kernel differs", "p99(user)"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(page.count("#runs tbody tr"), RUNS as u64);
    let tables = page.evaluate(
        "[...document.querySelectorAll('#history details.data')].map((data) => data.querySelectorAll('tbody tr').length)",
    );
    assert_eq!(tables, json!([RUNS, RUNS, RUNS]));
    page.check_quiet();
}

#[test]
fn the_page_suits_dark_paper_and_a_phone() {
    let (comparison, history) = comparison();
    let mut page = page(&comparison, &history);
    page.open_whole(1280);
    page.check_colours("history");
    page.check_paper("history");
    page.check_phone("history");
    page.check_quiet();
}

#[test]
fn a_comparison_without_gated_rows_has_a_page_too() {
    let (comparison, history) = comparison();
    let comparison = RunComparison { rows: Vec::new(), sentence: "No verdict.".to_owned(), ..comparison };
    let history = History { rows: Vec::new(), ..history };
    let mut page = page(&comparison, &history);
    page.open_whole(800);
    let counts = [".plot", "#history", "#comparison", "#runs tbody tr"].map(|each| page.count(each));
    assert_eq!(counts, [0, 0, 0, RUNS as u64]);
    page.check_quiet();
}
