//! Elements of the page: tables, figures, badges.

use maud::{Markup, html};
use serde_json::{Map, Value, json};

use crate::chart::{Chart, LegendEntry, Look};
use crate::table::{Cell, Table};
use crate::words;
use crate::words::VerdictWords;

/// The charts of a page, collected for the script.
#[derive(Default)]
pub(crate) struct Gallery {
    charts: Map<String, Value>,
}

impl Gallery {
    /// The figure of a chart; keeps its data for the script.
    pub(crate) fn figure(&mut self, chart: &Chart) -> Markup {
        let id = format!("chart-{}", self.charts.len() + 1);
        self.charts.insert(id.clone(), json!({ "option": chart.option, "words": chart.words }));
        let style = format!("height:{}px", chart.height_px);
        html! {
            figure.chart {
                div.plot id=(id) role="img" aria-label=(chart.says) style=(style) {}
                (legend(&id, &chart.legend))
                figcaption { (chart.caption) }
                (folded_table("The same as a table", &chart.table, None))
            }
        }
    }

    pub(crate) fn into_json(self) -> Value {
        Value::Object(self.charts)
    }
}

/// Checkboxes that show and hide the series of a chart; they are also its legend.
fn legend(chart: &str, entries: &[LegendEntry]) -> Markup {
    html! {
        @if !entries.is_empty() {
            fieldset.legend {
                legend { "Shown" }
                @for entry in entries {
                    label {
                        input type="checkbox" data-chart=(chart) data-series=(entry.key) checked[entry.is_on];
                        (swatch(entry.look))
                        span { (entry.name) }
                    }
                }
            }
        }
    }
}

fn swatch(look: Look) -> Markup {
    let dashes: Vec<String> = look.dashes().iter().map(u32::to_string).collect();
    html! {
        svg.swatch viewBox="0 0 24 8" aria-hidden="true" {
            line x1="1" y1="4" x2="23" y2="4" stroke=(look.colour()) stroke-width="3" stroke-dasharray=(dashes.join(" ")) opacity=(look.opacity()) {}
        }
    }
}

/// A collapsed table.
pub(crate) fn folded_table(summary: &str, table: &Table, id: Option<&String>) -> Markup {
    html! {
        @if !table.is_empty() {
            details.data {
                summary { (summary) }
                (self::table(summary, table, id))
            }
        }
    }
}

/// A table that scrolls by itself if it is wider than the screen.
pub(crate) fn table(name: &str, table: &Table, id: Option<&String>) -> Markup {
    html! {
        div.scroll role="region" aria-label=(name) tabindex="0" id=[id] {
            table {
                thead { tr { @for column in &table.columns { th scope="col" class=[column.is_number.then_some("number")] { (column.name) } } } }
                tbody { @for row in &table.rows { (self::row(table, row)) } }
            }
        }
        @if let Some(remark) = &table.remark { p.remark { (remark) } }
    }
}

fn row(table: &Table, cells: &[Cell]) -> Markup {
    html! {
        tr {
            @for (index, (cell, column)) in cells.iter().zip(&table.columns).enumerate() {
                @if index == 0 { th scope="row" class=[column.is_number.then_some("number")] { (content(cell)) } }
                @else { td class=[column.is_number.then_some("number")] { (content(cell)) } }
            }
        }
    }
}

fn content(cell: &Cell) -> Markup {
    html! {
        @match (&cell.anchor, cell.class) {
            (Some(anchor), _) => a href=(format!("#{anchor}")) { (cell.text) },
            (None, Some(class)) => span.(class).verdict-text { (cell.text) },
            (None, None) if cell.is_sentence => span.sentence { (prose(&cell.text)) },
            (None, None) => (cell.text),
        }
    }
}

/// A verdict: sign, colour and words.
pub(crate) fn badge(verdict: &VerdictWords) -> Markup {
    html! { span.badge.(verdict.class) { span aria-hidden="true" { (verdict.sign) " " } (verdict.words) } }
}

/// A sentence of a judgement; its quotations are set as code.
pub(crate) fn prose(sentence: &str) -> Markup {
    let sentence = words::one_line(sentence);
    html! {
        @for part in breme_base::prose_parts(&sentence) {
            @if part.is_code { code { (part.text) } } @else { (unbroken(part.text)) }
        }
    }
}

/// Keeps numbers together: no line break before a unit's symbol or within an interval.
fn unbroken(text: &str) -> String {
    text.replace(" %", "\u{a0}%").replace('–', "\u{2060}–\u{2060}")
}
