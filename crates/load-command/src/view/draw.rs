//! Draws the view.
//!
//! ```text
//!  head: target, load, progress          from 100 columns          below 100 columns
//!                                     rate      │ quantiles            rate
//!                                     histogram │ counts               quantiles
//!                                                                      histogram │ counts
//! ```

use std::time::Duration;

use breme_command::output::wants_colours;
use breme_load::{BIN_COUNT_MAX, bins, duration_text, histogram_lines, rate_text};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph};

use super::model::{Model, Quantiles};

/// From this width on the panels are in two columns.
const WIDE: u16 = 100;
const COUNTS_WIDTH: u16 = 26;
/// A panel with fewer rows is omitted.
const PANEL_ROWS_MIN: u16 = 5;

/// Colours, which `NO_COLOR` turns off.
#[derive(Clone, Copy)]
struct Colours {
    are_on: bool,
}

impl Colours {
    fn from_environment() -> Self {
        Self { are_on: wants_colours() }
    }

    fn foreground(self, colour: Color) -> Style {
        if self.are_on { Style::new().fg(colour) } else { Style::new() }
    }
}

/// Draws the model into the whole frame.
pub(super) fn draw(model: &Model, frame: &mut Frame<'_>) {
    draw_with(model, frame, Colours::from_environment());
}

fn draw_with(model: &Model, frame: &mut Frame<'_>, colours: Colours) {
    let area = frame.area();
    let [head, panels, foot] =
        Layout::vertical([Constraint::Length(4), Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    draw_head(model, frame, head, colours);
    let foot_text = "Ctrl-C ends the run and prints the result so far";
    frame.render_widget(Paragraph::new(foot_text).style(Style::new().add_modifier(Modifier::DIM)), foot);
    if area.width >= WIDE {
        let [upper, lower] = Layout::vertical([Constraint::Fill(1); 2]).areas(panels);
        let [rate, quantiles] = Layout::horizontal([Constraint::Fill(1); 2]).areas(upper);
        draw_rate(model, frame, rate, colours);
        draw_quantiles(model, frame, quantiles, colours);
        draw_lower(model, frame, lower, colours);
        return;
    }
    let count = (panels.height / PANEL_ROWS_MIN).clamp(1, 3);
    let rows = Layout::vertical(vec![Constraint::Fill(1); usize::from(count)]).split(panels);
    draw_rate(model, frame, rows[0], colours);
    if let Some(area) = rows.get(1) {
        draw_quantiles(model, frame, *area, colours);
    }
    if let Some(area) = rows.get(2) {
        draw_lower(model, frame, *area, colours);
    }
}

fn draw_lower(model: &Model, frame: &mut Frame<'_>, area: Rect, colours: Colours) {
    let [histogram, counts] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(COUNTS_WIDTH)]).areas(area);
    draw_histogram(model, frame, histogram, colours);
    draw_counts(model, frame, counts, colours);
}

fn draw_head(model: &Model, frame: &mut Frame<'_>, area: Rect, colours: Colours) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let errors = breme_base::plural(model.progress.errors, "error");
    let has_errors = model.progress.errors > 0;
    let mut figures = vec![
        Span::styled(format!("{} responses/s", rate_text(model.rate())), bold),
        Span::raw(format!("  {} answered  ", breme_base::grouped(model.progress.answered))),
        Span::styled(errors, if has_errors { colours.foreground(Color::Red) } else { Style::new() }),
    ];
    if area.width >= 72 {
        figures.push(Span::raw(format!("  {} open", model.progress.open)));
    }
    let lines = vec![
        Line::styled(model.title.clone(), bold),
        Line::raw(model.load.clone()),
        progress_line(model, area.width, colours),
        Line::from(figures),
    ];
    frame.render_widget(Paragraph::new(lines), area);
}

fn progress_line(model: &Model, width: u16, colours: Colours) -> Line<'static> {
    let clock = |time: Duration| duration_text(time.as_nanos() as u64);
    let elapsed = clock(model.elapsed);
    let Some(share) = model.share_done() else {
        return Line::raw(format!("{elapsed}, until it is stopped"));
    };
    let rest = model.remaining().map_or_else(String::new, |rest| format!(", {} left", clock(rest)));
    let text = format!(" {:>3.0} %  {elapsed}{rest}", share * 100.0);
    let bar_width = usize::from(width).saturating_sub(text.chars().count()).min(60);
    let full = (share * bar_width as f64).round() as usize;
    Line::from(vec![
        Span::styled("━".repeat(full), colours.foreground(Color::Cyan)),
        Span::styled("─".repeat(bar_width - full), Style::new().add_modifier(Modifier::DIM)),
        Span::raw(text),
    ])
}

fn draw_rate(model: &Model, frame: &mut Frame<'_>, area: Rect, colours: Colours) {
    let highest = round_up(model.rates.iter().map(|(_, rate)| *rate).fold(1.0, f64::max));
    let line = Dataset::default()
        .marker(marker())
        .graph_type(GraphType::Line)
        .style(colours.foreground(Color::Cyan))
        .data(&model.rates);
    let labels = [0.0, highest / 2.0, highest].map(|rate| format!("{:>8}", rate_text(rate)));
    let chart = Chart::new(vec![line])
        .block(Block::bordered().title(" responses/s "))
        .x_axis(time_axis(model))
        .y_axis(Axis::default().bounds([0.0, highest]).labels(labels));
    frame.render_widget(chart, area);
}

/// On a logarithmic axis, since the quantiles are often decades apart.
fn draw_quantiles(model: &Model, frame: &mut Frame<'_>, area: Rect, colours: Colours) {
    type Pick = fn(&Quantiles) -> u64;
    let lines: [(&str, Pick, Color); 3] = [
        ("50 %", |one| one.p50_ns, Color::Cyan),
        ("90 %", |one| one.p90_ns, Color::Yellow),
        ("99 %", |one| one.p99_ns, Color::Red),
    ];
    let mut title = vec![Span::raw(" response time ")];
    for (name, pick, colour) in lines {
        let value = model.quantiles.last().map_or_else(|| "-".to_owned(), |last| duration_text(pick(last)));
        title.push(Span::styled(format!(" {name} {value} "), colours.foreground(colour)));
    }
    let points = lines.map(|(_, pick, _)| -> Vec<(f64, f64)> {
        model.quantiles.iter().map(|one| (one.at_s, (pick(one).max(1) as f64).log10())).collect()
    });
    let values = || points.iter().flatten().map(|(_, value)| *value);
    let (low, high) = match values().next() {
        Some(_) => (values().fold(f64::MAX, f64::min) - 0.1, values().fold(0.0, f64::max) + 0.1),
        None => (3.0, 6.0),
    };
    let labels = [low, f64::midpoint(low, high), high].map(|power| {
        let text = duration_text(10_f64.powf(power) as u64);
        format!("{text:>8}")
    });
    let datasets = points.iter().zip(lines).map(|(data, (_, _, colour))| {
        Dataset::default().marker(marker()).graph_type(GraphType::Line).style(colours.foreground(colour)).data(data)
    });
    let chart = Chart::new(datasets.collect())
        .block(Block::bordered().title(Line::from(title)))
        .x_axis(time_axis(model))
        .y_axis(Axis::default().bounds([low, high]).labels(labels));
    frame.render_widget(chart, area);
}

fn draw_histogram(model: &Model, frame: &mut Frame<'_>, area: Rect, colours: Colours) {
    let block = Block::bordered().title(" response times up to ");
    let inner = block.inner(area);
    let bins = bins(&model.response, usize::from(inner.height).min(BIN_COUNT_MAX));
    let lines = histogram_lines(&bins, usize::from(inner.width)).into_iter().map(|line| {
        let gap = || Span::raw("  ");
        let (limit, bar) = (Span::raw(line.limit), Span::styled(line.bar, colours.foreground(Color::Cyan)));
        Line::from(vec![limit, gap(), bar, gap(), Span::raw(line.count)])
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()).block(block), area);
}

fn draw_counts(model: &Model, frame: &mut Frame<'_>, area: Rect, colours: Colours) {
    let block = Block::bordered().title(" statuses, errors ");
    let width = usize::from(block.inner(area).width);
    let statuses = model.counts.statuses.iter().map(|(status, count)| (status.to_string(), *count, Color::Green));
    let errors = model.counts.errors.iter().map(|(kind, count)| (kind.name().to_owned(), *count, Color::Red));
    let lines = statuses.chain(errors).map(|(name, count, colour)| {
        let is_failure = colour == Color::Red || !name.starts_with(['2', '3']);
        let count = breme_base::grouped(count);
        let text = format!("{name}{count:>rest$}", rest = width.saturating_sub(name.chars().count()));
        Line::styled(text, colours.foreground(if is_failure { Color::Red } else { Color::Green }))
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()).block(block), area);
}

fn time_axis(model: &Model) -> Axis<'static> {
    let end = model.elapsed.as_secs_f64().max(1.0);
    let clock = |seconds: f64| duration_text((seconds * 1e9) as u64);
    Axis::default().bounds([0.0, end]).labels(["0 s".to_owned(), clock(end)])
}

/// Braille patterns, which the font of a Linux console lacks.
fn marker() -> Marker {
    match std::env::var("TERM").as_deref() {
        Ok("linux") => Marker::Dot,
        _ => Marker::Braille,
    }
}

/// The next number of 1, 2 or 5 and zeros.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|limit| *limit >= value).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::model::tests::sample;
    use super::*;

    fn drawn(model: &Model, width: u16, height: u16) -> (String, bool) {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw_with(model, frame, Colours { are_on: false })).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let has_colours = buffer.content.iter().any(|cell| cell.fg != Color::Reset);
        let rows: Vec<String> = buffer
            .content
            .chunks(usize::from(width))
            .map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect::<String>().trim_end().to_owned())
            .collect();
        (rows.join("\n") + "\n", has_colours)
    }

    #[test]
    fn every_size_shows_what_it_can() {
        let model = sample();
        for (width, height) in [(60, 16), (60, 24), (80, 24), (80, 50), (100, 24), (200, 50), (20, 5), (1, 1)] {
            let (text, has_colours) = drawn(&model, width, height);
            assert!(!has_colours, "NO_COLOR");
            if width >= 60 {
                for part in
                    ["GET http://host.example/page", "6,100 responses/s", "12 errors", "left", "50 % 990 µs", "Ctrl-C"]
                {
                    assert!(text.contains(part), "{width} × {height} lacks {part}:\n{text}");
                }
            }
            if width >= 60 && height >= 24 {
                for part in ["response times up to", "503", "timeout"] {
                    assert!(text.contains(part), "{width} × {height} lacks {part}:\n{text}");
                }
            }
        }
    }

    #[test]
    fn limits_are_round() {
        assert_eq!([0.9, 1.0, 12.0, 45.0, 51_000.0].map(round_up), [1.0, 1.0, 20.0, 50.0, 100_000.0]);
    }

    #[test]
    fn nothing_has_come_yet() {
        let mut model = sample();
        (model.rates, model.quantiles) = (Vec::new(), Vec::new());
        model.response = breme_stats::Histogram::new();
        model.counts = breme_load::Counts::default();
        assert!(drawn(&model, 80, 24).0.contains("50 % -"));
    }
}
