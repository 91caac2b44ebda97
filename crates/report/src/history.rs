//! A history of runs for a terminal and for a pull request, and the tables shared with the page.

use std::fmt::Write;

use breme_base::terminal::{BOLD, DIM, Style};
use breme_base::{CalendarTime, UnixSeconds, markdown_prose, plural};
use breme_expression::Unit;
use breme_judge::{History, HistoryRow, HistoryRun, RunRole, TrendVerdict};

use crate::figures::estimate;
use crate::markdown::{mark, write_folded};
use crate::table::Table;
use crate::text::{TextPage, colour, fits};
use crate::words::{self, VerdictWords};

/// Limit of the runs in a table of text or Markdown.
const RUNS_MAX: usize = 20;
/// Limit of the rows of a history side by side in a table.
const ABREAST_MAX: usize = 4;

/// The trend and the values of each row, for a terminal.
#[must_use]
pub fn history_text(history: &History, style: Style) -> String {
    let mut page = TextPage::new(style);
    page.paragraph(&title(history), BOLD, "");
    for row in &history.rows {
        let verdict = trend_words(row);
        let text = format!("  {} {}: {}", verdict.sign, quoted_name(row), row.sentence);
        page.paragraph(&words::one_line(&text), colour(verdict.class), "    ");
    }
    let recent = recent(history);
    page.table("Runs", runs_table(history, &recent));
    for table in fitting_values(history, &recent, page.width) {
        page.table("Medians over the blocks, with their intervals", table);
    }
    page.gap();
    for change in changes(history) {
        page.paragraph(&format!("note: {}", words::one_line(&change)), DIM, "  ");
    }
    page.out
}

/// The trend and the values of each row, for a pull request.
#[must_use]
pub fn history_markdown(history: &History) -> String {
    let mut out = format!("### {}\n\n", title(history));
    for row in &history.rows {
        let _ = writeln!(
            out,
            "- {} {}: {}",
            mark(trend_words(row).class),
            markdown_prose(&quoted_name(row)),
            markdown_prose(&row.sentence)
        );
    }
    out.push('\n');
    let recent = recent(history);
    write_folded(&mut out, "Runs", runs_table(history, &recent));
    let rows: Vec<&HistoryRow> = history.rows.iter().collect();
    for rows in rows.chunks(ABREAST_MAX) {
        write_folded(&mut out, "Medians over the blocks, with their intervals", values_table(history, rows, &recent));
    }
    for change in changes(history) {
        let _ = writeln!(out, "> {}\n", markdown_prose(&change));
    }
    out
}

fn title(history: &History) -> String {
    format!("History of {}, oldest first", plural(history.runs.len() as u64, "run"))
}

/// The baseline and the newest runs.
fn recent(history: &History) -> Vec<usize> {
    let first = history.runs.len().saturating_sub(RUNS_MAX);
    (0..history.runs.len()).filter(|&run| run >= first || history.runs[run].role == RunRole::Baseline).collect()
}

/// The values in tables with as many rows side by side as fit.
fn fitting_values(history: &History, shown: &[usize], width: usize) -> Vec<Table> {
    let rows: Vec<&HistoryRow> = history.rows.iter().collect();
    let abreast =
        |count: usize| -> Vec<Table> { rows.chunks(count).map(|rows| values_table(history, rows, shown)).collect() };
    let narrower = (2..=ABREAST_MAX).rev().map(abreast);
    narrower.into_iter().find(|tables| tables.iter().all(|table| fits(table, width))).unwrap_or_else(|| abreast(1))
}

/// A line for each of these runs.
pub(crate) fn runs_table(history: &History, shown: &[usize]) -> Table {
    let mut table = Table::new(["#run", "name", "started (UTC)", "commit", ""]);
    for &run in shown {
        table.push(run_cells(history, run).into_iter().chain([role(&history.runs[run]).to_owned()]));
    }
    table.remark = remark(history, shown);
    table
}

/// Number, name, date and commit.
pub(crate) fn run_cells(history: &History, run: usize) -> [String; 4] {
    let HistoryRun { run: name, started_unix_ms, revision, .. } = &history.runs[run];
    let revision = revision.as_ref().map(|revision| words::one_line(&revision.to_string()));
    [
        (run + 1).to_string(),
        words::short(name, words::NAME_CHARS_MAX),
        started(*started_unix_ms),
        revision.unwrap_or_else(|| String::from("–")),
    ]
}

pub(crate) const fn role(run: &HistoryRun) -> &'static str {
    match run.role {
        RunRole::Baseline => "baseline",
        RunRole::Judged => "judged",
        RunRole::Shown => "",
    }
}

fn values_table(history: &History, rows: &[&HistoryRow], shown: &[usize]) -> Table {
    let names = rows.iter().map(|row| format!("#{}", words::short(&name(row), words::NAME_CHARS_MAX)));
    let columns: Vec<String> = [String::from("#run"), String::from("name")].into_iter().chain(names).collect();
    let mut table = Table::new(columns);
    for &run in shown {
        let values = rows.iter().map(|row| {
            let point = row.points.get(run).copied().unwrap_or_default();
            estimate(point.value, point.low, point.high, Unit::from_symbol(&row.unit))
        });
        let [number, name, ..] = run_cells(history, run);
        table.push([number, name].into_iter().chain(values));
    }
    table.remark = remark(history, shown);
    table
}

fn remark(history: &History, shown: &[usize]) -> Option<String> {
    let all = history.runs.len();
    (shown.len() < all)
        .then(|| format!("The baseline and the newest of {all} runs; all are in the page and in the JSON."))
}

/// `mean(user) at users=10`.
pub(crate) fn name(row: &HistoryRow) -> String {
    let measure = words::one_line(&row.measure);
    if row.levels.is_empty() { measure } else { format!("{measure} at {}", words::levels(&row.levels)) }
}

/// `mean(user)` at users=10, with the measure in back quotes.
fn quoted_name(row: &HistoryRow) -> String {
    let at = if row.levels.is_empty() { String::new() } else { format!(" at {}", words::levels(&row.levels)) };
    format!("`{}`{at}", row.measure)
}

pub(crate) fn trend_words(row: &HistoryRow) -> VerdictWords {
    let (sign, class, words) = match row.trend.map(|trend| trend.verdict) {
        Some(TrendVerdict::GettingWorse) => ("✗", "refuted", "getting worse"),
        Some(TrendVerdict::GettingBetter) => ("✓", "supported", "getting better"),
        Some(TrendVerdict::NotShown) | None => ("–", "no-data", "no trend"),
    };
    VerdictWords { sign, class, words: words.to_owned() }
}

/// What differs from one run to the next, apart from the commit.
pub(crate) fn changes(history: &History) -> Vec<String> {
    let of = |(index, run): (usize, &HistoryRun)| {
        (!run.changes.is_empty()).then(|| format!("From run {index} to run {}: {}", index + 1, run.changes.join(" ")))
    };
    history.runs.iter().enumerate().filter_map(of).collect()
}

/// `2026-03-01 10:02`. A year of more than four digits is an error of the record.
pub(crate) fn started(unix_ms: u64) -> String {
    let time = CalendarTime::from(UnixSeconds(unix_ms / 1_000));
    let (day, minute) = time.day_and_minute();
    if time.year > 9_999 { String::from("–") } else { format!("{day} {minute}") }
}

#[cfg(test)]
mod tests {
    use breme_experiment::record::Revision;
    use breme_judge::{HistoryPoint, Trend};

    use super::*;

    fn history(runs: usize) -> History {
        let run = |number: usize| HistoryRun {
            run: format!("main-{}", number + 1),
            started_unix_ms: 1_767_261_600_000 + number as u64 * 86_400_000,
            revision: Some(Revision { commit: "1a2b3c4d5e6f".into(), branch: Some("a|b".into()), is_modified: false }),
            role: match number {
                0 => RunRole::Baseline,
                _ if number + 1 == runs => RunRole::Judged,
                _ => RunRole::Shown,
            },
            changes: if number == 2 { vec!["The kernel differs: a → b.".to_owned()] } else { Vec::new() },
        };
        let point = |number: usize| HistoryPoint {
            value: (number != 1).then_some(0.001 * number as f64 + 0.01),
            low: (number != 1).then_some(0.001 * number as f64 + 0.009),
            high: (number != 1).then_some(0.001 * number as f64 + 0.011),
            blocks: 6,
        };
        let row = |measure: &str| HistoryRow {
            measure: measure.to_owned(),
            unit: "s".to_owned(),
            levels: [("users".to_owned(), "10".to_owned())].into(),
            points: (0..runs).map(point).collect(),
            trend: Some(Trend { verdict: TrendVerdict::GettingWorse, ..Trend::default() }),
            sentence: "+3 % per run (+2 % to +4 %), +30 % over 8 runs: getting worse.".to_owned(),
            ..HistoryRow::default()
        };
        History { runs: (0..runs).map(run).collect(), rows: vec![row("mean(user)"), row("p99(user)")] }
    }

    #[test]
    fn a_terminal_shows_the_trend_and_the_value_of_each_run() {
        let text = history_text(&history(4), Style::default());
        for part in [
            "History of 4 runs, oldest first",
            "  ✗ `mean(user)` at users=10: +3 % per run (+2 % to +4 %), +30 % over 8 runs: getting worse.",
            "2026-01-01 10:00  a|b 1a2b3c4d5e  baseline",
            "  1  main-1  10.0 ms (9.00 – 11.0 ms)  10.0 ms (9.00 – 11.0 ms)",
            "note: From run 2 to run 3: The kernel differs: a → b.",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let gap = text.lines().filter(|line| line.contains("main-2")).nth(1).unwrap();
        assert_eq!(gap.split_whitespace().collect::<Vec<_>>(), ["2", "main-2", "–", "–"], "{text}");
        let narrow = history_text(&history(4), Style { colours: false, width: Some(60) });
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
        let blocks = narrow.matches("Medians over the blocks").count();
        assert_eq!(blocks, 2, "{narrow}");
    }

    #[test]
    fn the_baseline_and_the_newest_of_many_runs_are_listed() {
        let text = history_text(&history(30), Style::default());
        let listed = |name: &str| text.lines().any(|line| line.split_whitespace().any(|word| word == name));
        assert_eq!(["main-1", "main-2", "main-10", "main-11", "main-30"].map(listed), [true, false, false, true, true]);
        assert!(text.contains("The baseline and the newest of 30 runs"), "{text}");
    }

    #[test]
    fn foreign_text_is_no_markup_of_a_pull_request() {
        let text = history_markdown(&history(4));
        assert!(
            text.starts_with("### History of 4 runs, oldest first\n\n- ❌ `mean(user)` at users=10: +3 %"),
            "{text}"
        );
        assert!(text.contains("| 1 | main-1 | 2026-01-01 10:00 | a\\|b 1a2b3c4d5e | baseline |"), "{text}");
        assert!(text.contains("> From run 2 to run 3: The kernel differs: a → b."), "{text}");
    }

    #[test]
    fn a_time_beyond_the_calendar_is_a_dash() {
        assert_eq!(started(1_767_261_600_000), "2026-01-01 10:00");
        assert_eq!([u64::MAX, i64::MAX as u64].map(started), ["–", "–"]);
    }
}
