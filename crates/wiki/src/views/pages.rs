//! A page, an old revision, a page that does not exist.

use breme_wiki_database::name::Name;
use breme_wiki_database::page::{ChangeKind, Fields, Page, Revision};
use maud::{Markup, PreEscaped, html};
use serde_json::Value;

use super::frame::{Frame, Tab, document, heading, link, time};
use crate::paths;
use crate::render::Rendered;

/// Minimum number of headings for a table of contents.
const CONTENTS_MIN: usize = 3;

pub(crate) fn page(frame: &Frame<'_>, page: &Page, rendered: &Rendered) -> String {
    let main = html! {
        (heading(frame, &page.name, "", Tab::Read))
        (text(rendered))
        @if let Some(target) = &page.content.redirect {
            p.notice { "This page redirects to " (link(target)) "." }
        }
        (fields(&page.content.fields))
        footer.about {
            p {
                "Changed " (time(page.modified)) ", "
                a href=(paths::page_part(&page.name, &format!("revisions/{}", page.revision))) { "revision " (page.revision) }
                ". As " a href={ (paths::page(&page.name)) "?format=markdown" } { "Markdown" }
                ", " a href={ (paths::page(&page.name)) "?format=json" } { "JSON" } "."
            }
        }
    };
    document(frame, page.name.as_str(), &main)
}

/// The text of a page, with a table of contents if it is long.
pub(super) fn text(rendered: &Rendered) -> Markup {
    html! {
        @if rendered.headings.len() >= CONTENTS_MIN {
            nav.contents aria-labelledby="contents" {
                details open {
                    summary #contents { "Contents" }
                    ul {
                        @for heading in &rendered.headings {
                            li.{ "level-" (heading.level) } { a href={ "#" (heading.id) } dir="auto" { (heading.text) } }
                        }
                    }
                }
            }
        }
        article.text dir="auto" {
            (PreEscaped(&rendered.html))
            @if rendered.html.is_empty() {
                p.empty { "This page has no text." }
            }
        }
    }
}

/// The fields of a page; each value links to the pages with the same value.
pub(super) fn fields(fields: &Fields) -> Markup {
    html! {
        @if !fields.is_empty() {
            section.fields aria-labelledby="fields" {
                h2 #fields { "Fields" }
                dl {
                    @for (key, value) in fields {
                        dt dir="auto" { (key) }
                        dd dir="auto" { (field(key, value)) }
                    }
                }
            }
        }
    }
}

fn field(key: &str, value: &Value) -> Markup {
    match value {
        Value::Array(values) if !values.iter().any(|one| one.is_array() || one.is_object()) => html! {
            @for (index, one) in values.iter().enumerate() {
                @if index > 0 { ", " }
                (scalar(key, one))
            }
        },
        other => scalar(key, other),
    }
}

fn scalar(key: &str, value: &Value) -> Markup {
    let searched = value.to_string();
    let shown = value.as_str().unwrap_or(&searched);
    html! {
        @if value.is_object() || value.is_array() || key.contains('.') {
            (shown)
        } @else {
            a href={ "/search?field=" (paths::query_value(key)) "&value=" (paths::query_value(&searched)) } { (shown) }
        }
    }
}

pub(crate) fn revision(frame: &Frame<'_>, revision: &Revision, rendered: &Rendered, current: Option<u64>) -> String {
    let change = &revision.change;
    let (name, number) = (&change.name, change.revision);
    let is_current = current == Some(number);
    let main = html! {
        (heading(frame, name, &format!("revision {number}"), Tab::Other))
        div.notice {
            p {
                @match change.kind {
                    ChangeKind::Deleted => "The page was deleted in this revision of ",
                    _ if is_current => "This is the current revision, of ",
                    _ => "This is an old revision, of ",
                }
                (time(change.time))
                @if let Some(author) = &change.author { " by " bdi { (author) } }
                "."
                @if !change.comment.is_empty() { " Comment: " bdi { (change.comment) } }
            }
            p {
                @if number > 1 {
                    a href={ (paths::page_part(name, "diff")) "?to=" (number) } { "What it changed" }
                    " · "
                }
                a href={ (paths::page_part(name, "diff")) "?from=" (number) } { "Changes since" }
                " · "
                a href=(paths::page(name)) { "Current page" }
            }
            @if frame.is_writable && !is_current && revision.content.is_some() {
                form method="post" action=(paths::page_part(name, "revert")) {
                    input type="hidden" name="revision" value=(number);
                    input type="hidden" name="base" value=(current.unwrap_or(0));
                    button { "Make this the current text" }
                }
            }
        }
        @if let Some(content) = &revision.content {
            (text(rendered))
            (fields(&content.fields))
        }
    };
    document(frame, &format!("{name}: revision {number}"), &main)
}

pub(crate) fn missing(frame: &Frame<'_>, name: &Name, is_deleted: bool) -> String {
    let main = html! {
        (heading(frame, name, "", Tab::Read))
        div.notice {
            p {
                @if is_deleted { "This page was deleted. Its history remains." } @else { "There is no page of this name yet." }
            }
            p.actions {
                @if frame.is_writable {
                    a.button href=(paths::page_part(name, "edit")) { "Create this page" }
                }
                a href={ "/search?q=" (paths::query_value(name.as_str())) } { "Search for the name" }
                @if is_deleted {
                    a href=(paths::page_part(name, "history")) { "History" }
                }
            }
        }
    };
    document(frame, name.as_str(), &main)
}
