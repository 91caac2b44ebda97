//! What all documents share: their frame, headings, links, times and sizes.

use breme_wiki_database::name::Name;
use breme_wiki_database::page::Millis;
use maud::{DOCTYPE, Markup, html};

use crate::web::assets::PATHS;
use crate::{calendar, paths};

/// The context common to all pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) title: &'a str,
    pub(crate) user: Option<&'a str>,
    pub(crate) has_accounts: bool,
    /// Whether any visitor may change pages.
    pub(crate) is_writable: bool,
}

/// The open tab of a page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Read,
    Edit,
    History,
    Backlinks,
    Files,
    Rename,
    Delete,
    Other,
}

pub(super) fn document(frame: &Frame<'_>, title: &str, main: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " – " (frame.title) }
                link rel="stylesheet" href=(PATHS.style);
                link rel="icon" href=(PATHS.icon) type="image/svg+xml";
                link rel="alternate" type="application/atom+xml" title="Recent changes" href="/recent.atom";
                script src=(PATHS.script) defer {}
            }
            body {
                a.skip href="#content" { "Skip to content" }
                header.bar {
                    div.inner {
                        a.brand href="/" { (frame.title) }
                        form.search role="search" action="/search" {
                            label.hidden for="search" { "Search the wiki" }
                            input #search type="search" name="q" placeholder="Search" maxlength="200" autocomplete="off" list="suggestions";
                            datalist #suggestions {}
                            button { "Search" }
                        }
                        nav.site aria-label="Wiki" {
                            a href="/pages" { "Pages" }
                            a href="/recent" { "Changes" }
                            @if frame.is_writable {
                                a href="/new" { "New page" }
                            }
                            (account(frame))
                        }
                    }
                }
                main #content tabindex="-1" { (main) }
            }
        }
    };
    page.into_string()
}

/// Adapts a document made for visitors who have not signed in to the user of the frame.
pub(crate) fn greet(frame: &Frame<'_>, document: &[u8]) -> Vec<u8> {
    // Everything before is escaped text, so this is the end of the site's own links.
    const AFTER_ACCOUNT: &[u8] = b"</nav>";
    let before = account(&Frame { user: None, ..*frame }).into_string().len();
    let end = document.windows(AFTER_ACCOUNT.len()).position(|part| part == AFTER_ACCOUNT).unwrap_or(before);
    let account = account(frame).into_string();
    [&document[..end - before], account.as_bytes(), &document[end..]].concat()
}

fn account(frame: &Frame<'_>) -> Markup {
    html! {
        @if let Some(user) = frame.user {
            form.account method="post" action="/logout" {
                span.user { (user) }
                button.plain { "Sign out" }
            }
        } @else if frame.has_accounts {
            a href="/login" { "Sign in" }
        }
    }
}

/// The title of a page and its tabs.
pub(super) fn heading(frame: &Frame<'_>, name: &Name, suffix: &str, tab: Tab) -> Markup {
    let changing = [(Tab::Edit, "edit", "Edit")];
    let reading = [
        (Tab::History, "history", "History"),
        (Tab::Backlinks, "backlinks", "Links here"),
        (Tab::Files, "files", "Files"),
    ];
    let rare = [(Tab::Rename, "rename", "Rename"), (Tab::Delete, "delete", "Delete")];
    let changing = changing.into_iter().filter(|_| frame.is_writable);
    let rare = rare.into_iter().filter(|_| frame.is_writable);
    html! {
        header.heading {
            h1 dir="auto" {
                (name)
                @if !suffix.is_empty() {
                    span.suffix dir="ltr" { ": " (suffix) }
                }
            }
            nav.tabs aria-label="Page" {
                a href=(paths::page(name)) aria-current=[(tab == Tab::Read).then_some("page")] { "Read" }
                @for (own, path, label) in changing.chain(reading).chain(rare) {
                    a href=(paths::page_part(name, path)) aria-current=[(tab == own).then_some("page")] { (label) }
                }
            }
        }
    }
}

/// The heading of a document that is not a page.
pub(super) fn plain_heading(title: &str) -> Markup {
    html! { header.heading { h1 { (title) } } }
}

pub(super) fn time(time: Millis) -> Markup {
    let (day, hours) = calendar::day_and_time(time);
    html! { time datetime=(calendar::rfc3339(time)) { (day) " " (hours) " UTC" } }
}

pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

pub(super) fn link(name: &Name) -> Markup {
    html! { a href=(paths::page(name)) dir="auto" { (name) } }
}
