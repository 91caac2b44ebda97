//! The page in a browser: charts, keyboard, labels, small windows, print.

#![allow(clippy::unwrap_used, reason = "a fault of the test ends it")]

mod chromium;
mod fixture;
mod page;

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fixture::Fixture;
use page::Page;
use serde_json::{Value, json};

fn html(fixture: &Fixture) -> String {
    breme_report::html(&fixture.run())
}

/// For each chart: its box, the number of marks in its data and in its drawing, and whether it overflows its box.
const MARKS: &str = "(() => {
    const charts = JSON.parse(document.getElementById('run').textContent).charts;
    return [...document.querySelectorAll('.plot')].map((plot) => {
        const svg = plot.querySelector('svg');
        const option = charts[plot.id]?.option;
        const hidden = option?.legend?.selected ?? {};
        const expected = (option?.series ?? [{ type: 'line', data: [1] }])
            .filter((series) => hidden[series.name] !== false)
            .map((series) => series.type === 'line' ? 1 : (series.data ?? []).length)
            .reduce((sum, one) => sum + one, 0);
        const wide = [...svg.querySelectorAll('text')].filter((text) => text.getBoundingClientRect().right > innerWidth + 1).length;
        return { id: plot.id, expected, drawn: svg.querySelectorAll('path, circle, rect').length, texts: svg.querySelectorAll('text').length, wide };
    });
})()";

fn check_charts(page: &mut Page) -> usize {
    // Collapsed parts are drawn when they are opened.
    page.evaluate(
        "document.querySelectorAll('details.measure').forEach((part) => { part.open = true; });
         new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))",
    );
    let charts = page.evaluate(MARKS);
    let charts = charts.as_array().unwrap();
    for chart in charts {
        assert!(
            chart["expected"].as_u64() > Some(0) && chart["drawn"].as_u64() >= chart["expected"].as_u64(),
            "{chart}"
        );
        assert!(chart["texts"].as_u64() > Some(1), "no words at the axes: {chart}");
        assert_eq!(chart["wide"], 0, "{chart}");
    }
    let ids: BTreeSet<&str> = charts.iter().filter_map(|chart| chart["id"].as_str()).collect();
    assert_eq!(ids.len(), charts.len());
    charts.len()
}

#[test]
fn charts_keyboard_labels_small_windows_and_paper() {
    let mut page = Page::new(&html(&fixture::study()));
    page.open(1280, 900);
    assert!(check_charts(&mut page) >= 11);
    let each =
        "[...document.querySelectorAll('#results details.measure')].map((one) => one.querySelectorAll('.plot').length)";
    assert_eq!(page.evaluate(each), json!([1, 1, 1]), "one chart a measure");
    check_tables(&mut page);
    check_labels(&mut page);
    page.evaluate("document.querySelector('button[data-colours=dark]').click()");
    let pressed = "[...document.querySelectorAll('[aria-pressed=true]')].map((button) => button.textContent).join()";
    assert_eq!(page.evaluate(pressed), "Dark");
    page.check_colours("report");
    check_keyboard(&mut page);
    check_choices(&mut page);
    check_paper(&mut page);
    page.open(360, 740);
    check_charts(&mut page);
    assert_eq!(page.evaluate("document.documentElement.scrollWidth"), 360);
    page.check_quiet();
}

/// On a desktop no table under a hypothesis or in the overview is cut, no cell shows back quotes, and only verdicts
/// have the colours of verdicts.
fn check_tables(page: &mut Page) {
    let cut = page.evaluate(
        "(() => {
            const tables = [...document.querySelectorAll('#overview .scroll, #hypotheses details.data')];
            tables.filter((one) => one.tagName === 'DETAILS').forEach((one) => { one.open = true; });
            const boxes = [...document.querySelectorAll('#overview .scroll, #hypotheses .scroll')];
            const cut = boxes.filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.getAttribute('aria-label'));
            tables.filter((one) => one.tagName === 'DETAILS').forEach((one) => { one.open = false; });
            return [boxes.length > 3, cut, [...document.querySelectorAll('td, th, p, li')].filter((one) => /`/.test(one.textContent)).map((one) => one.textContent.slice(0, 80))];
        })()",
    );
    assert_eq!(cut, json!([true, [], []]));
    let sticky = page.evaluate("getComputedStyle(document.querySelector('.contents')).position");
    assert_eq!(sticky, "sticky");
}

/// Texts for screen readers.
fn check_labels(page: &mut Page) {
    let tree = page.browser.call("Accessibility.getFullAXTree", json!({}));
    let nodes: Vec<(&str, &str)> = tree["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|node| node["ignored"] == false)
        .map(|node| (node["role"]["value"].as_str().unwrap_or(""), node["name"]["value"].as_str().unwrap_or("")))
        .collect();
    for landmark in ["banner", "navigation", "main", "contentinfo"] {
        assert_eq!(nodes.iter().filter(|(role, _)| *role == landmark).count(), 1, "{landmark}");
    }
    let images: Vec<&str> =
        nodes.iter().filter(|(role, _)| ["image", "img"].contains(role)).map(|(_, name)| *name).collect();
    let plots = page.evaluate("document.querySelectorAll('.plot').length");
    assert_eq!(json!(images.len()), plots);
    assert!(images.iter().all(|name| name.split(' ').count() > 4), "{images:?}");
    for role in ["button", "checkbox", "combobox", "link"] {
        assert!(nodes.iter().filter(|(of, _)| *of == role).all(|(_, name)| !name.is_empty()), "a {role} has no name");
    }
}

/// Tab moves through the page in order and reaches every control.
fn check_keyboard(page: &mut Page) {
    page.evaluate(
        "window.usable = [...document.querySelectorAll('a[href], button:not(:disabled), input, select, summary, [tabindex=\"0\"]')]
            .filter((element) => element.checkVisibility());
         document.activeElement.blur(); usable.length",
    );
    let place = "usable.indexOf(document.activeElement)";
    let count = page.evaluate("usable.length").as_u64().unwrap();
    for expected in 0..count {
        page.browser.press("Tab", 9);
        assert_eq!(
            page.evaluate(place),
            expected,
            "{}",
            page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
        );
    }
}

/// With the keyboard, a checkbox hides its series; another trial is shown; a link opens the table that contains its
/// target.
fn check_choices(page: &mut Page) {
    let lines = |page: &mut Page| {
        page.evaluate("document.querySelectorAll('#' + window.box.dataset.chart + ' svg path').length")
            .as_u64()
            .unwrap()
    };
    page.evaluate("window.box = document.querySelector('input[data-chart]:checked'); box.focus(); true");
    let before = lines(page);
    page.browser.press(" ", 32);
    assert_eq!(page.evaluate("box.checked"), false);
    assert!(lines(page) < before);
    let label = "document.getElementById('time-plot').getAttribute('aria-label')";
    let first = page.evaluate(label);
    page.evaluate("document.getElementById('time-next').click()");
    assert_ne!(page.evaluate(label), first);
    page.evaluate("document.getElementById('time-data').open = true; document.querySelector('a[href=\"#hypothesis-1-data\"]').click()");
    let opened = page.evaluate(
        "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() =>
            done([document.getElementById('hypothesis-1-data').closest('details').open, document.querySelectorAll('#time-data tr').length > 10]))))",
    );
    assert_eq!(opened, json!([true, true]));
}

/// Every printed page has content, and every chart fits on the paper.
fn check_paper(page: &mut Page) {
    let a4 =
        json!({ "printBackground": true, "paperWidth": 8.27, "paperHeight": 11.69, "transferMode": "ReturnAsBase64" });
    let answer = page.browser.call("Page.printToPDF", a4);
    let paper = STANDARD.decode(answer["data"].as_str().unwrap()).unwrap();
    let pages = page_bytes(&paper);
    assert!(pages.len() > 5, "{pages:?}");
    assert!(pages.iter().all(|&bytes| bytes > 300), "a blank page: {pages:?}");
    page.browser.call("Emulation.setEmulatedMedia", json!({ "media": "print" }));
    page.browser.call(
        "Emulation.setDeviceMetricsOverride",
        json!({ "width": 690, "height": 1000, "deviceScaleFactor": 1, "mobile": false }),
    );
    let cut = page.evaluate(
        "[[...document.querySelectorAll('.plot svg')].filter((svg) => svg.getBoundingClientRect().right > innerWidth + 1 || svg.getBoundingClientRect().height < 40).length,
          document.documentElement.scrollWidth, getComputedStyle(document.body).backgroundColor,
          [...document.querySelectorAll('button, select, input')].filter((control) => control.checkVisibility()).length]",
    );
    assert_eq!(cut, json!([0, 690, "rgb(255, 255, 255)", 0]));
    page.browser.call("Emulation.setEmulatedMedia", json!({ "media": "" }));
}

/// Bytes of the drawing of each page of a PDF. The browser writes its objects in plain text, one after another.
fn page_bytes(paper: &[u8]) -> Vec<usize> {
    let text = String::from_utf8_lossy(paper);
    let after = |text: &str, word: &str| -> Option<usize> {
        let rest = text.split_once(word)?.1.trim_start();
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    let pages = text.split("/Type /Page\n").skip(1);
    let contents = pages.filter_map(|page| after(page.split("endobj").next()?, "/Contents"));
    contents.filter_map(|object| after(text.split_once(&format!("\n{object} 0 obj"))?.1, "/Length")).collect()
}

#[test]
fn a_run_that_means_harm_runs_nothing() {
    let mut page = Page::new(&html(&fixture::verdicts()));
    let trap = json!({ "source": "window.alert = () => { window.harmed = true; };" });
    page.browser.call("Page.addScriptToEvaluateOnNewDocument", trap);
    for fixture in [fixture::verdicts(), fixture::nonsense(), fixture::nothing()] {
        page.write(&html(&fixture));
        page.open(360, 740);
        assert_eq!(
            page.evaluate("window.harmed === undefined && document.querySelectorAll('img').length === 0"),
            Value::Bool(true)
        );
        assert_eq!(page.evaluate("document.querySelectorAll('script').length"), 3);
        assert_eq!(page.evaluate("document.documentElement.scrollWidth"), 360);
        page.check_quiet();
    }
}
