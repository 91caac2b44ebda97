//! The parts of any page: its head, sections, contents and scripts.

use std::io::Read;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/report.js");
/// A page of a running watch reloads itself, which its reader can stop (WCAG 2.2.1).
pub(super) const RELOAD_SCRIPT: &str = include_str!("../../assets/reload.js");
static CHARTS_SCRIPT: LazyLock<String> = LazyLock::new(|| {
    let mut script = String::new();
    GzDecoder::new(&include_bytes!("../../assets/echarts.min.js.gz")[..])
        .read_to_string(&mut script)
        .expect("the file of this crate is complete, which a test checks");
    script
});

/// A section of the page: its anchor, its heading, its content.
pub(super) struct Section {
    pub(super) id: &'static str,
    pub(super) heading: &'static str,
    pub(super) body: Markup,
}

impl Section {
    pub(super) const fn link(&self) -> (&str, &str) {
        (self.id, self.heading)
    }
}

/// A page. Its `top`, with an id and a heading, is what the first link skips to.
pub(super) fn document<'a>(
    head: &Markup,
    banner: &Markup,
    top: (&'a str, &'a str),
    sections: impl Iterator<Item = (&'a str, &'a str)>,
    main: &Markup,
    foot: &Markup,
) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head)
            body {
                a.skip href=(format!("#{}", top.0)) { "Skip to the " (top.0) }
                (banner)
                (contents(top, sections))
                main { (main) }
                (foot)
            }
        }
    }
}

/// The head of any page. `style` is appended to the common style.
pub(super) fn head(title: &str, breme_version: &str, style: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(POLICY.as_str());
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="generator" content=(format!("breme {breme_version}"));
            meta name="referrer" content="no-referrer";
            title { (title) }
            style { (PreEscaped(STYLE)) (PreEscaped(style)) }
        }
    }
}

pub(super) fn all(sections: &[Section]) -> Markup {
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
pub(super) fn foot(breme_version: &str, data: &Value) -> Markup {
    html! {
        footer { p { "Written by breme " (breme_version) ". Charts: Apache ECharts (Apache-2.0), inside this file." } }
        script type="application/json" id="run" { (PreEscaped(embedded(data))) }
        script { (PreEscaped(CHARTS_SCRIPT.as_str())) }
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

pub(super) fn colour_choice() -> Markup {
    html! {
        div.colours role="group" aria-label="Colours" {
            button type="button" data-colours="auto" aria-pressed="true" { "Auto" }
            button type="button" data-colours="light" aria-pressed="false" { "Light" }
            button type="button" data-colours="dark" aria-pressed="false" { "Dark" }
        }
    }
}

/// Allows only what is in the file; charts may set styles.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let scripts = [CHARTS_SCRIPT.as_str(), SCRIPT, RELOAD_SCRIPT].map(|script| format!("'sha256-{}'", digest(script)));
    format!(
        "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'",
        scripts.join(" ")
    )
});

fn digest(script: &str) -> String {
    STANDARD.encode(Sha256::digest(script.as_bytes()))
}

/// JSON that cannot end an element or begin a comment, whatever its content.
fn embedded(data: &Value) -> String {
    data.to_string().replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn embedded_data_hold_no_markup() {
        let text = embedded(&json!({ "</script><!--": "<script>" }));
        assert!(!text.contains('<'), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["</script><!--"], "<script>");
    }

    #[test]
    fn the_charting_script_is_the_one_that_was_published() {
        let readme = include_str!("../../assets/README.md");
        let digest: String =
            Sha256::digest(CHARTS_SCRIPT.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(readme.contains(&format!("{digest}  echarts.min.js")), "write {digest} into assets/README.md");
    }

    #[test]
    fn no_script_ends_its_element() {
        for script in [CHARTS_SCRIPT.as_str(), SCRIPT, RELOAD_SCRIPT] {
            assert!(!script.to_ascii_lowercase().contains("</script") && !script.contains("<!--"));
        }
    }
}
