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
mod page;
mod palette;
mod parts;
mod top;
mod trust;
#[cfg(feature = "watch")]
mod watch;

use maud::{Markup, html};
use serde_json::{Value, json};

use crate::run::Run;
use crate::words;
pub use history::HistoryPage;
pub use load::LoadPage;
use page::{Section, all, document, foot, head};
use palette::Palette;
use parts::Gallery;
#[cfg(feature = "watch")]
pub use watch::WatchPage;

/// Limit of the page, in bytes: time series are coarsened to fit.
const PAGE_BYTES_MAX: usize = 5_700_000;

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
    let head = head(&format!("{} · breme", words::one_line(run.title())), version, "");
    let main = html! { (top::answer(run)) (all(sections)) };
    let links = sections.iter().map(Section::link);
    document(&head, &top::banner(run), ("answer", "Answer"), links, &main, &foot(version, data))
}
