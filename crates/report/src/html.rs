//! Renders a run as one page that works offline.
//!
//! The file contains everything: style, script, charts, data. Its content security policy forbids all requests and all
//! scripts except its own two (by their digests), so that nothing printed by a subject can run. maud escapes all text;
//! the charts' data are in a block of JSON without any `<`.
//!
//! Sections follow the reader's questions: the result, what was run, its certainty, what was measured, its validity,
//! the method.

mod bands;
mod comparisons;
mod distributions;
mod forest;
mod history;
mod hypotheses;
mod load;
mod measures;
mod method;
mod models;
mod over_time;
mod overview;
mod palette;
mod parts;
mod top;
mod trust;
mod watch;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::run::Run;
use crate::words;
pub use history::HistoryPage;
pub use load::LoadPage;
use palette::Palette;
use parts::Gallery;
pub use watch::WatchPage;

const STYLE: &str = include_str!("../assets/report.css");
const SCRIPT: &str = include_str!("../assets/report.js");
const CHARTS_SCRIPT: &str = include_str!("../assets/echarts.min.js");

/// Limit of the page, in bytes: time series are coarsened to fit.
const PAGE_BYTES_MAX: usize = 5_700_000;

/// A section of the page: its anchor, its heading, its content.
struct Section {
    id: &'static str,
    heading: &'static str,
    body: Markup,
}

impl Section {
    const fn link(&self) -> (&str, &str) {
        (self.id, self.heading)
    }
}

#[must_use]
pub fn html(run: &Run<'_>) -> String {
    let mut gallery = Gallery::default();
    let palette = Palette::from_run(run);
    let distributions = distributions::Distributions::from_run(run);
    let sections: Vec<Section> = [
        ("overview", "Overview", overview::section(run, &distributions)),
        ("hypotheses", "Hypotheses", hypotheses::section(run, &mut gallery)),
        ("results", "Measures", measures::section(run, &palette, &mut gallery)),
        ("distributions", "Response times", distributions.section(&palette, &mut gallery)),
        ("time", "Over time", over_time::section(run)),
        ("models", "Models", models::models(run, &mut gallery)),
        ("searches", "Failure points", models::searches(run, &mut gallery)),
        ("comparisons", "Comparisons", comparisons::section(run, &mut gallery)),
        ("trust", "Validity", trust::section(run, &mut gallery)),
        ("method", "Method", method::section(run)),
        ("trials", "Trials", method::trials(run)),
        ("plan", "Plan", method::plan(run)),
    ]
    .into_iter()
    .filter_map(|(id, heading, body)| body.map(|body| Section { id, heading, body }))
    .collect();
    let mut data = json!({ "charts": gallery.into_json(), "time": null });
    let bytes = page(run, &sections, &data).into_string().len();
    data["time"] = over_time::data(run, &palette, PAGE_BYTES_MAX.saturating_sub(bytes));
    page(run, &sections, &data).into_string()
}

fn page(run: &Run<'_>, sections: &[Section], data: &Value) -> Markup {
    let version = &run.head.breme_version;
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&format!("{} · breme", words::one_line(run.title())), version, "", None))
            body {
                a.skip href="#answer" { "Skip to the answer" }
                (top::banner(run))
                (contents(("answer", "Answer"), sections.iter().map(Section::link)))
                main {
                    (top::answer(run))
                    (all(sections))
                }
                (foot(version, data))
            }
        }
    }
}

/// The head of any page. `style` is appended to the common style; a page that is still being written reloads itself.
fn head(title: &str, breme_version: &str, style: &str, reload_s: Option<u32>) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(policy());
            @if let Some(seconds) = reload_s { meta http-equiv="refresh" content=(seconds); }
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="generator" content=(format!("breme {breme_version}"));
            meta name="referrer" content="no-referrer";
            title { (title) }
            style { (PreEscaped(STYLE)) (PreEscaped(style)) }
        }
    }
}

fn all(sections: &[Section]) -> Markup {
    html! {
        @for section in sections {
            section id=(section.id) aria-labelledby=(format!("{}-heading", section.id)) {
                h2 id=(format!("{}-heading", section.id)) { (section.heading) }
                (section.body)
            }
        }
    }
}

/// The footer, the data of the charts, and the scripts.
fn foot(breme_version: &str, data: &Value) -> Markup {
    html! {
        footer { p { "Written by breme " (breme_version) ". Charts: Apache ECharts (Apache-2.0), inside this file." } }
        script type="application/json" id="run" { (PreEscaped(embedded(data))) }
        script { (PreEscaped(CHARTS_SCRIPT)) }
        script { (PreEscaped(SCRIPT)) }
    }
}

/// Links to the top of the page and to its sections, each with its id and heading.
fn contents<'a>(top: (&'a str, &'a str), sections: impl Iterator<Item = (&'a str, &'a str)>) -> Markup {
    html! {
        nav.contents aria-label="Contents" {
            ul {
                @for (id, heading) in std::iter::once(top).chain(sections) { li { a href=(format!("#{id}")) { (heading) } } }
            }
        }
    }
}

fn colour_choice() -> Markup {
    html! {
        div.colours role="group" aria-label="Colours" {
            button type="button" data-colours="auto" aria-pressed="true" { "Auto" }
            button type="button" data-colours="light" aria-pressed="false" { "Light" }
            button type="button" data-colours="dark" aria-pressed="false" { "Dark" }
        }
    }
}

/// Allows only what is in the file; charts may set styles.
fn policy() -> String {
    let scripts: Vec<String> =
        [CHARTS_SCRIPT, SCRIPT].iter().map(|script| format!("'sha256-{}'", digest(script))).collect();
    format!(
        "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'",
        scripts.join(" ")
    )
}

fn digest(script: &str) -> String {
    STANDARD.encode(Sha256::digest(script.as_bytes()))
}

/// JSON that cannot end an element or begin a comment, whatever its content.
fn embedded(data: &Value) -> String {
    data.to_string().replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_data_hold_no_markup() {
        let text = embedded(&json!({ "</script><!--": "<script>" }));
        assert!(!text.contains('<'), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["</script><!--"], "<script>");
    }

    #[test]
    fn the_charting_script_is_the_one_that_was_published() {
        let readme = include_str!("../assets/README.md");
        let digest: String =
            Sha256::digest(CHARTS_SCRIPT.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(readme.contains(&format!("{digest}  echarts.min.js")), "write {digest} into assets/README.md");
    }

    #[test]
    fn no_script_ends_its_element() {
        for script in [CHARTS_SCRIPT, SCRIPT] {
            assert!(!script.to_ascii_lowercase().contains("</script") && !script.contains("<!--"));
        }
    }
}
