//! A run for a terminal, and the tables shared with Markdown.

use std::collections::{BTreeMap, BTreeSet};

use breme_base::plural;
use breme_base::terminal::{BOLD, CYAN, DIM, GREEN, RED, Style, WIDTH_MIN, YELLOW, fold};
use breme_experiment::record::{TrialEnd, TrialFailure};
use breme_expression::Unit;
use breme_judge::judgement::{Judgement, MeasureRow, MeasureTable, NoiseFloor};

use crate::figures::{self, estimate, figure_or_dash};
use crate::run::Run;
use crate::table::{Cell, Table};
use crate::{key_comparisons, units, words};

/// Limit of the failures whose last output is shown.
const FAILED_MAX: usize = 3;
/// Limit of the rows of a table on a terminal.
const ROWS_MAX: usize = 60;
/// Limit of the measures side by side in a table of the study.
pub(crate) const MEASURES_ABREAST_MAX: usize = 4;
/// Columns if the output is no terminal.
const WIDTH_DEFAULT: usize = 100;

#[must_use]
pub fn text(run: &Run<'_>, style: Style) -> String {
    let judgement = run.judgement;
    let mut page = TextPage::new(style);
    let question = run.question();
    page.paragraph(&words::one_line(run.title()), if question.is_some() { DIM } else { "" }, "");
    if let Some(question) = question {
        page.paragraph(&words::one_line(&question), "", "");
    }
    page.paragraph(&words::one_line(answer(judgement)), BOLD, "");
    if !judgement.grounds.is_empty() {
        page.paragraph(&words::one_line(&judgement.grounds), "", "");
    }
    for warning in &judgement.warnings {
        page.paragraph(&format!("warning: {}", words::one_line(warning)), YELLOW, "  ");
    }
    for note in &judgement.notes {
        page.paragraph(&format!("note: {}", words::one_line(note)), DIM, "  ");
    }
    page.gap();
    page.hypotheses(run);
    for (title, table) in fitting_study(judgement, page.width) {
        page.table(&title, table);
    }
    for line in zero_measures(judgement) {
        page.paragraph(&words::one_line(&line), "", "  ");
    }
    page.table("comparisons", comparisons(run));
    page.table("A/A: one combination run twice", noise(run));
    page.gap();
    for sentence in sentences(judgement) {
        page.paragraph(&words::one_line(sentence), "", "  ");
    }
    page.failed(run);
    page.gap();
    page.paragraph(&words::one_line(&provenance(run)), DIM, "");
    page.out
}

pub(crate) struct TextPage {
    pub(crate) out: String,
    pub(crate) width: usize,
    style: Style,
}

impl TextPage {
    pub(crate) fn new(style: Style) -> Self {
        Self { out: String::new(), width: style.width.unwrap_or(WIDTH_DEFAULT).max(WIDTH_MIN), style }
    }

    pub(crate) fn gap(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    /// Wraps text at the width; continuation lines begin with `indent`.
    pub(crate) fn paragraph(&mut self, text: &str, code: &str, indent: &str) {
        for line in fold(text, self.width, indent.len()).lines() {
            self.line(code, line);
        }
    }

    fn line(&mut self, code: &str, line: &str) {
        self.out += &(self.style.paint(code, line) + "\n");
    }

    fn hypotheses(&mut self, run: &Run<'_>) {
        let (judgement, vocabulary) = (run.judgement, units::vocabulary(run));
        for hypothesis in &judgement.hypotheses {
            let verdict = words::verdict(hypothesis.verdict);
            let head = format!("{} {}: “{}”", verdict.sign, verdict.words, words::one_line(&hypothesis.says));
            self.paragraph(&head, colour(verdict.class), "  ");
            self.paragraph(&format!("  {}", words::one_line(&hypothesis.sentence)), "", "  ");
            if hypothesis.cases.len() > 1 {
                let unit = units::claim_unit(&hypothesis.expect, &vocabulary);
                for case in hypothesis.cases.iter().take(ROWS_MAX) {
                    let words = words::verdict(case.verdict);
                    let at = words::levels_or(&case.levels, "all");
                    let line = format!("  {} {at}: {}, {}", words.sign, words::case(case, unit), words.words);
                    self.paragraph(&line, colour(words.class), "      ");
                }
                let left_out = hypothesis.cases.len().saturating_sub(ROWS_MAX);
                if left_out > 0 {
                    self.paragraph(&format!("  and {} more", plural(left_out as u64, "combination")), DIM, "  ");
                }
            }
        }
        if !judgement.hypotheses.is_empty() {
            self.gap();
        }
    }

    /// The last output of failed trials, each reason once. The warnings contain the number of uncounted trials and the
    /// reasons.
    fn failed(&mut self, run: &Run<'_>) {
        let mut shown = BTreeSet::new();
        for trial in run.trials {
            let TrialEnd::Failed(TrialFailure { who, what, printed, .. }) = &trial.end else { continue };
            let printed = words::printed(printed);
            let Some(last) = printed.lines().rfind(|line| !line.trim().is_empty()) else { continue };
            if shown.len() < FAILED_MAX && shown.insert((who, what)) {
                let line = format!("{}, trial {}, printed last: ", words::one_line(who), trial.number);
                self.paragraph(&(line + &words::short(last, 200)), RED, "  ");
            }
        }
    }

    pub(crate) fn table(&mut self, title: &str, table: Table) {
        if table.is_empty() {
            return;
        }
        let table = table.limited(ROWS_MAX);
        self.gap();
        self.paragraph(&words::one_line(title), BOLD, "");
        let widths = natural_widths(&table);
        if total(&widths) > self.width {
            self.list(&table);
            return;
        }
        let names = table.columns.iter().map(|column| Cell::from(column.name.as_str())).collect::<Vec<_>>();
        let head = line(&table, &names, &widths);
        self.line(DIM, &head);
        for row in &table.rows {
            let text = line(&table, row, &widths);
            let class = row.iter().find_map(|cell| cell.class).unwrap_or_default();
            self.line(colour(class), &text);
        }
        self.remark(&table);
    }

    /// A table that is too wide: each row becomes a sentence, so that nothing is cut.
    fn list(&mut self, table: &Table) {
        for row in &table.rows {
            let cells = row.iter().zip(&table.columns).enumerate().filter(|(_, (cell, _))| !cell.text.is_empty());
            let parts: Vec<String> = cells
                .map(|(index, (cell, column))| match column.is_number && index > 0 && table.columns.len() > 2 {
                    true => format!("{} {}", words::one_line(&column.name), words::one_line(&cell.text)),
                    false => words::one_line(&cell.text),
                })
                .collect();
            let class = row.iter().find_map(|cell| cell.class).unwrap_or_default();
            self.paragraph(&parts.join(", "), colour(class), "    ");
        }
        self.remark(table);
    }

    fn remark(&mut self, table: &Table) {
        if let Some(remark) = &table.remark {
            self.paragraph(remark, DIM, "");
        }
    }
}

pub(crate) fn colour(class: &str) -> &'static str {
    match class {
        "supported" => GREEN,
        "refuted" => RED,
        "equal" => CYAN,
        "undecided" => YELLOW,
        _ => "",
    }
}

/// The table of the study with as many measures side by side as fit.
fn fitting_study(judgement: &Judgement, width: usize) -> Vec<(String, Table)> {
    let all_fit = |study: &Vec<(String, Table)>| study.iter().all(|(_, table)| fits(table, width));
    let narrower = (2..=MEASURES_ABREAST_MAX).rev().map(|abreast| study(judgement, abreast));
    narrower.into_iter().find(all_fit).unwrap_or_else(|| study(judgement, 1))
}

/// Whether a table need not be written as a list.
pub(crate) fn fits(table: &Table, width: usize) -> bool {
    total(&natural_widths(table)) <= width
}

fn total(widths: &[usize]) -> usize {
    const GAP: usize = 2;
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Column widths without cutting anything.
fn natural_widths(table: &Table) -> Vec<usize> {
    let cell_width = |index: usize| {
        let of_row = |row: &Vec<Cell>| row.get(index).map_or(0, |cell| cell.text.chars().count());
        table.rows.iter().map(of_row).max().unwrap_or(0).max(table.columns[index].name.chars().count())
    };
    (0..table.columns.len()).map(cell_width).collect()
}

fn line(table: &Table, cells: &[Cell], widths: &[usize]) -> String {
    let mut line = String::new();
    for ((cell, column), &width) in cells.iter().zip(&table.columns).zip(widths) {
        let text = words::short(&cell.text, width);
        let pad = " ".repeat(width - text.chars().count());
        if column.is_number {
            line.push_str(&pad);
            line.push_str(&text);
        } else {
            line.push_str(&text);
            line.push_str(&pad);
        }
        line.push_str("  ");
    }
    line.truncate(line.trim_end().len());
    line
}

/// The answer; there is always one.
pub(crate) fn answer(judgement: &Judgement) -> &str {
    if judgement.answer.is_empty() { "No data." } else { &judgement.answer }
}

/// The table of the study: a row for each combination, a few measures side by side in each table. Measures that are 0
/// everywhere become a line of text: see [`zero_measures`].
pub(crate) fn study(judgement: &Judgement, abreast: usize) -> Vec<(String, Table)> {
    let measures: Vec<&MeasureTable> = judgement.tables.iter().filter(|table| !is_zero(table)).collect();
    measures.chunks(abreast).map(study_table).collect()
}

/// Whether a measure has values at every combination, and all of them are 0.
pub(crate) fn is_zero(table: &MeasureTable) -> bool {
    let is_zero = |row: &MeasureRow| !row.values.is_empty() && row.values.iter().all(|(_, value)| *value == 0.0);
    !table.rows.is_empty() && table.rows.iter().all(is_zero) && !has_published(table)
}

/// `errors(user): 0 % in all 54 trials that count`.
pub(crate) fn zero_measures(judgement: &Judgement) -> Vec<String> {
    let zero = judgement.tables.iter().filter(|table| is_zero(table));
    zero.map(|table| {
        let blocks = || table.rows.iter().map(|row| row.values.len());
        let (least, most) = (blocks().min().unwrap_or(0), blocks().max().unwrap_or(0));
        let nothing = figures::figure(0.0, Unit::from_symbol(&table.unit));
        let at_least = if least < most { "at least " } else { "" };
        let blocks = plural(least as u64, "block");
        format!("{}: {nothing} at every combination in {at_least}{blocks}", table.measure)
    })
    .collect()
}

fn study_table(measures: &[&MeasureTable]) -> (String, Table) {
    let mut names = vec![String::from("at")];
    for measure in measures {
        names.push(format!("#{}", measure.measure));
        if has_published(measure) {
            names.push(String::from("#published"));
        }
    }
    let mut table = Table::new(names);
    for levels in combinations(measures) {
        let mut row = vec![Cell::from(words::levels_or(levels, "all"))];
        for measure in measures {
            let found = measure.rows.iter().find(|row| &row.levels == levels);
            row.extend(measure_cells(measure, found));
        }
        table.push(row);
    }
    let title: Vec<&str> = measures.iter().map(|measure| measure.measure.as_str()).collect();
    (title.join(", "), table)
}

/// Every combination of any measure, in order of first occurrence.
fn combinations<'a>(measures: &[&'a MeasureTable]) -> Vec<&'a BTreeMap<String, String>> {
    let mut seen = BTreeSet::new();
    measures
        .iter()
        .flat_map(|measure| &measure.rows)
        .map(|row| &row.levels)
        .filter(|levels| seen.insert(*levels))
        .collect()
}

pub(crate) fn has_published(measure: &MeasureTable) -> bool {
    measure.rows.iter().any(|row| row.published.is_some())
}

/// Estimate with interval, and the published figure if the measure has any.
pub(crate) fn measure_cells(measure: &MeasureTable, row: Option<&MeasureRow>) -> Vec<Cell> {
    let unit = Unit::from_symbol(&measure.unit);
    let mut cells =
        vec![Cell::from(row.map_or_else(|| String::from("–"), |row| estimate(row.center, row.low, row.high, unit)))];
    if has_published(measure) {
        let published = row.and_then(|row| row.published.as_ref());
        cells.push(figure_or_dash(published.map(|published| published.value), unit).into());
    }
    cells
}

/// The comparisons that matter; the page and the JSON contain all of them.
pub(crate) fn comparisons(run: &Run<'_>) -> Table {
    let (judgement, vocabulary) = (run.judgement, units::vocabulary(run));
    let (shown, all) = (key_comparisons::comparisons(judgement), key_comparisons::counts(judgement).all());
    let mut table = Table::new(["verdict", "measure", "compared", "at", "#effect"]);
    for comparison in &shown {
        let verdict = words::pair_verdict(comparison.verdict);
        let cell = |text: String| Cell::from(text);
        table.push([
            Cell::classed(format!("{} {}", verdict.sign, verdict.words), verdict.class),
            cell(comparison.measure.clone()),
            cell(key_comparisons::pair(comparison)),
            cell(words::levels(&comparison.at)),
            cell(words::effect(&comparison.effect, units::measure_unit(&comparison.measure, judgement, &vocabulary))),
        ]);
    }
    if shown.len() < all {
        let listed = judgement.comparisons.len();
        let whole = if listed < all { format!("{listed} are") } else { String::from("all are") };
        table.remark = Some(format!("{} of {all} comparisons; {whole} in the report.", shown.len()));
    }
    table
}

pub(crate) fn noise(run: &Run<'_>) -> Table {
    let (judgement, vocabulary) = (run.judgement, units::vocabulary(run));
    let mut table = Table::new(["measure", "at", "#effect", "significant"]);
    let is_zero = |noise: &&NoiseFloor| noise.effect.blocks.iter().all(|pair| pair.left == 0.0 && pair.right == 0.0);
    for noise in judgement.noise.iter().filter(|noise| !is_zero(noise)) {
        let biased = if noise.is_biased { Cell::classed("yes", "refuted") } else { Cell::from("no") };
        let effect = words::effect(&noise.effect, units::measure_unit(&noise.measure, judgement, &vocabulary));
        table.push([
            noise.measure.as_str().into(),
            words::levels_or(&noise.levels, "all").into(),
            effect.into(),
            biased,
        ]);
    }
    table
}

/// Results of searches and of the best models.
pub(crate) fn sentences(judgement: &Judgement) -> impl Iterator<Item = &str> {
    let searches = judgement.searches.iter().map(|search| search.sentence.as_str());
    let models = judgement.models.iter().filter(|model| model.is_best).map(|model| model.sentence.as_str());
    searches.chain(models).filter(|sentence| !sentence.is_empty())
}

/// The origin of the numbers, in a line.
pub(crate) fn provenance(run: &Run<'_>) -> String {
    let (head, trials) = (run.head, run.judgement.trials);
    let machine = &head.machine;
    let mut parts = vec![
        format!("run {}", head.run),
        trial_counts(run),
        format!("{}", plural(u64::from(trials.blocks), "complete block")),
        format!("seed {}", head.seed),
        format!("breme {}", head.breme_version),
        format!(
            "{} on {} ({}, {})",
            machine.host,
            machine.processor,
            plural(machine.processors as u64, "processor"),
            machine.kernel
        ),
    ];
    parts.extend(placement(run));
    parts.extend(head.profile.as_ref().map(|profile| format!("profile {profile}")));
    parts.extend(head.revision.as_ref().map(|revision| format!("commit {revision}")));
    parts.join(" · ")
}

/// `site on processor 0; load on processor 1`. None if the records lack it.
pub(crate) fn placement(run: &Run<'_>) -> Option<String> {
    let mut names_by_cpus: BTreeMap<&[usize], BTreeSet<&str>> = BTreeMap::new();
    for (name, cpus) in run.trials.iter().flat_map(|trial| &trial.cpus) {
        names_by_cpus.entry(cpus).or_default().insert(name);
    }
    let places = names_by_cpus.into_iter().map(|(cpus, names)| {
        let names: Vec<&str> = names.into_iter().collect();
        let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
        let noun = if cpus.len() == 1 { "processor" } else { "processors" };
        format!("{} on {noun} {}", names.join(", "), cpus.join(", "))
    });
    Some(places.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
}

/// `26 of 28 trials count (1 failed, 1 INVALID), 3 repeated`.
pub(crate) fn trial_counts(run: &Run<'_>) -> String {
    let trials = run.judgement.trials;
    let counted = format!(
        "{} of {} count",
        breme_base::grouped(u64::from(trials.counted)),
        plural(u64::from(trials.run), "trial")
    );
    let kinds = [(trials.failed, "failed"), (trials.invalid, "INVALID")];
    let kinds: Vec<String> =
        kinds.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    let counted = if kinds.is_empty() { counted } else { format!("{counted} ({})", kinds.join(", ")) };
    match trials.repeated {
        0 => counted,
        repeated => format!("{counted}, {} repeated", breme_base::grouped(u64::from(repeated))),
    }
}
