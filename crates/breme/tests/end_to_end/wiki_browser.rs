//! The wiki in a browser, with scripts and without.

use serde_json::json;

use crate::chromium::Browser;
use crate::wiki::{Wiki, send};

const TEXT: &str =
    "# One\n\nSee [[Missing]] and **bold** text.\n\n# Two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n# Three\n";

const HOME: &str = "/wiki/Home";

/// Every control has a name, each page has its landmarks, and nothing is wider than a phone.
fn check_page(browser: &mut Browser, url: &str) {
    for (width, height) in [(1280, 900), (360, 740)] {
        browser.navigate(url, width, height);
        assert_eq!(browser.evaluate("document.documentElement.scrollWidth"), width, "{url}");
    }
    let tree = browser.call("Accessibility.getFullAXTree", json!({}));
    let nodes = tree["nodes"].as_array().unwrap().iter().filter(|node| node["ignored"] == false);
    let nodes: Vec<(&str, &str)> = nodes
        .map(|node| (node["role"]["value"].as_str().unwrap_or(""), node["name"]["value"].as_str().unwrap_or("")))
        .collect();
    for landmark in ["banner", "main"] {
        assert_eq!(nodes.iter().filter(|(role, _)| *role == landmark).count(), 1, "{url}: {landmark}");
    }
    for role in ["button", "link", "textbox", "searchbox", "combobox", "radio", "checkbox", "navigation"] {
        assert!(
            nodes.iter().filter(|(of, _)| *of == role).all(|(_, name)| !name.is_empty()),
            "{url}: a {role} has no name"
        );
    }
    assert_eq!(browser.evaluate("document.querySelectorAll('h1').length"), 1, "{url}");
    let ids = "(() => { const ids = [...document.querySelectorAll('[id]')].map((one) => one.id); return ids.length - new Set(ids).size; })()";
    assert_eq!(browser.evaluate(ids), 0, "{url}: an id occurs twice");
}

#[test]
fn every_page_fits_phones_and_screen_readers() {
    let wiki = Wiki::start(&[]);
    for text in ["first", TEXT] {
        send(wiki.site.address, "PUT", HOME, &[], text);
    }
    let file = "/wiki/Home/files/a_rather_long_name_of_a_file_that_somebody_has_uploaded.pdf";
    for bytes in ["x", "an earlier version is listed"] {
        send(wiki.site.address, "PUT", file, &[], bytes);
    }
    let mut browser = Browser::start();
    let (edit, history) = ("/wiki/Home/edit", "/wiki/Home/history");
    for path in [
        "/wiki/Home",
        edit,
        history,
        "/wiki/Home/diff",
        "/wiki/Home/revisions/1",
        "/wiki/Home/backlinks",
        "/wiki/Home/files",
        &format!("{file}/history"),
        &format!("{file}/delete"),
        "/wiki/Home/rename",
        "/wiki/Home/delete",
        "/wiki/Missing",
        "/pages",
        "/recent",
        "/search?q=bold",
        "/new",
        "/nowhere",
    ] {
        check_page(&mut browser, &wiki.site.url(path));
    }
    // These two are expected to be 404, which the browser logs.
    let complaints: Vec<String> =
        browser.complaints().iter().map(ToString::to_string).filter(|one| !one.contains("404")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}

#[test]
fn a_script_previews_and_suggests() {
    let wiki = Wiki::start(&[]);
    let mut browser = Browser::start();
    browser.navigate(&wiki.site.url("/wiki/Home/edit"), 1280, 900);
    let preview = browser.evaluate(
        "new Promise((done) => {
            const live = document.getElementById('live');
            new MutationObserver(() => { if (live.querySelector('strong')) done(live.innerHTML); })
                .observe(live, { childList: true, subtree: true });
            const text = document.getElementById('text');
            text.value = '**bold** [[Missing]] <img src=x onerror=alert(1)>';
            text.dispatchEvent(new Event('input', { bubbles: true }));
        })",
    );
    let preview = preview.as_str().unwrap();
    assert!(preview.contains("class=\"missing\"") && !preview.contains("<img"), "{preview}");
    browser.click_and_load("button[value=save]");
    assert_eq!(browser.evaluate("location.pathname"), "/wiki/Home");
    assert_eq!(browser.evaluate("document.querySelector('article strong').textContent"), "bold");
    let suggested = browser.evaluate(
        "new Promise((done) => {
            const list = document.getElementById('suggestions');
            new MutationObserver(() => done([...list.children].map((one) => one.value))).observe(list, { childList: true });
            const search = document.getElementById('search');
            search.value = 'om';
            search.dispatchEvent(new Event('input', { bubbles: true }));
        })",
    );
    assert_eq!(suggested, json!(["Home"]));
    let complaints: Vec<String> = browser.complaints().iter().map(ToString::to_string).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}

#[test]
fn everything_works_without_a_script() {
    let wiki = Wiki::start(&[]);
    let mut browser = Browser::start();
    browser.call("Emulation.setScriptExecutionDisabled", json!({ "value": true }));
    browser.navigate(&wiki.site.url("/wiki/Home/edit"), 1280, 900);
    assert_eq!(browser.evaluate("document.querySelector('.live').hidden"), true, "the script did not run");
    browser.evaluate("document.getElementById('text').value = '**bold**'; true");
    browser.click_and_load("button[value=preview]");
    assert_eq!(browser.evaluate("document.querySelector('.preview strong').textContent"), "bold");
    browser.click_and_load("button[value=save]");
    assert_eq!(
        browser.evaluate("location.pathname + document.querySelector('article strong').textContent"),
        "/wiki/Homebold"
    );
    // Another user saves in between.
    browser.navigate(&wiki.site.url("/wiki/Home/edit"), 1280, 900);
    send(wiki.site.address, "PUT", HOME, &[], "**other**");
    browser.evaluate("document.getElementById('text').value = '**mine**'; true");
    browser.click_and_load("button[value=save]");
    let shown =
        browser.evaluate("document.querySelector('[role=alert]').textContent + document.getElementById('text').value");
    let shown = shown.as_str().unwrap();
    assert!(["changed the same lines", "**mine**", "**other**"].iter().all(|part| shown.contains(part)), "{shown}");
    browser.evaluate("document.getElementById('text').value = '**both**'; true");
    browser.click_and_load("button[value=save]");
    assert_eq!(browser.evaluate("document.querySelector('article strong').textContent"), "both");
    browser.navigate(&wiki.site.url("/wiki/Home/delete"), 1280, 900);
    browser.click_and_load("button.danger");
    assert_eq!(browser.evaluate("document.querySelector('.notice').textContent.includes('was deleted')"), true);
}
