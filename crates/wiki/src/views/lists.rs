//! History, differences, lists, searches, attachments.

use breme_wiki_database::name::Name;
use breme_wiki_database::page::{AttachmentInfo, Change, ChangeKind, Match};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::frame::{Frame, Tab, document, heading, link, plain_heading, time};
use crate::calendar::{day_and_time, rfc3339};
use crate::merge::{DiffLine, DiffLineKind};
use crate::paths;

/// Changes as JSON.
pub(crate) fn changes_json(changes: &[Change]) -> Value {
    let change = |change: &Change| {
        let mut value = json!(change);
        value["time"] = rfc3339(change.time).into();
        value
    };
    json!({ "changes": changes.iter().map(change).collect::<Vec<_>>() })
}

fn kind(change: &Change) -> Option<&'static str> {
    match change.kind {
        ChangeKind::Created => Some("created"),
        ChangeKind::Edited => None,
        ChangeKind::Deleted => Some("deleted"),
        ChangeKind::Renamed => Some("renamed"),
    }
}

/// Author, kind of change, comment.
fn details(change: &Change) -> Markup {
    html! {
        @if let Some(kind) = kind(change) { " " span.kind.(kind) { (kind) } }
        " " span.author { bdi { (change.author.as_deref().unwrap_or("anonymous")) } }
        " " span.hint { "· " (change.bytes) " bytes" }
        @if !change.comment.is_empty() { " " span.comment dir="auto" { (change.comment) } }
    }
}

pub(crate) fn history(frame: &Frame<'_>, name: &Name, changes: &[Change], is_first: bool, has_more: bool) -> String {
    let main = html! {
        (heading(frame, name, "history", Tab::History))
        form action=(paths::page_part(name, "diff")) {
            p.actions { button { "Compare the selected revisions" } }
            table.history {
                thead {
                    tr { th scope="col" { "From" } th scope="col" { "To" } th scope="col" { "Revision" } }
                }
                tbody {
                    @for (index, change) in changes.iter().enumerate() {
                        tr {
                            td { input type="radio" name="from" value=(change.revision) checked[index == 1] aria-label={ "From revision " (change.revision) }; }
                            td { input type="radio" name="to" value=(change.revision) checked[index == 0] aria-label={ "To revision " (change.revision) }; }
                            td {
                                a href=(paths::page_part(name, &format!("revisions/{}", change.revision))) { (change.revision) ", " (time(change.time)) }
                                @if is_first && index == 0 { " " span.kind { "current" } }
                                (details(change))
                            }
                        }
                    }
                }
            }
        }
        @if let Some(last) = changes.last().filter(|_| has_more) {
            p { a href={ (paths::page_part(name, "history")) "?before=" (last.revision) } rel="next" { "Older revisions" } }
        }
    };
    document(frame, &format!("History of {name}"), &main)
}

/// Limit of the displayed lines of a comparison: each takes some 200 bytes of HTML.
const DIFF_LINES_MAX: usize = 10_000;

pub(crate) fn difference(
    frame: &Frame<'_>,
    name: &Name,
    (from, to, newest): (u64, u64, u64),
    by_words: bool,
    groups: &[Vec<DiffLine>],
) -> String {
    let path = |range: &str, by_words: bool| {
        let by = if by_words { "" } else { "&by=lines" };
        format!("{}?{range}{by}", paths::page_part(name, "diff"))
    };
    let old_and_new = |number: u64| {
        html! {
            @if number == 0 { "nothing" } @else { a href=(paths::page_part(name, &format!("revisions/{number}"))) { "revision " (number) } }
        }
    };
    let mut left = DIFF_LINES_MAX;
    let first = |group: &Vec<DiffLine>| {
        let count = group.len().min(left);
        left -= count;
        count
    };
    let counts: Vec<usize> = groups.iter().map(first).collect();
    let shown = groups.iter().zip(counts).filter(|(_, count)| *count > 0).map(|(group, count)| &group[..count]);
    let is_cut = groups.iter().map(Vec::len).sum::<usize>() > DIFF_LINES_MAX;
    let main = html! {
        (heading(frame, name, "changes", Tab::History))
        p {
            "From " (old_and_new(from)) " to " (old_and_new(to)) "."
            @if to == newest { " This is the current text." }
        }
        p.actions {
            @if from > 0 { a href=(path(&format!("to={from}"), by_words)) { "← Earlier change" } }
            @if to < newest { a href=(path(&format!("from={to}&to={}", to + 1), by_words)) { "Later change →" } }
            a href=(path(&format!("from={from}&to={to}"), !by_words)) { @if by_words { "Mark whole lines" } @else { "Mark words" } }
        }
        @if groups.is_empty() {
            p.notice { "The texts are the same." }
        } @else {
            div.scroll role="region" aria-label="Changed lines" tabindex="0" {
                table.diff {
                    thead.hidden { tr { th scope="col" { "Old line" } th scope="col" { "New line" } th scope="col" { "Change" } th scope="col" { "Text" } } }
                    @for group in shown {
                        tbody { @for line in group { (diff_line(line)) } }
                    }
                }
            }
            @if is_cut { p.notice { "Further changes are not shown, as there are too many." } }
        }
    };
    document(frame, &format!("Changes of {name}"), &main)
}

fn diff_line(line: &DiffLine) -> Markup {
    let (class, sign, spoken) = match line.kind {
        DiffLineKind::Same => ("same", "", ""),
        DiffLineKind::Removed => ("removed", "−", "removed"),
        DiffLineKind::Added => ("added", "+", "added"),
    };
    html! {
        tr.(class) {
            td.number { @if let Some(number) = line.numbers.0 { (number) } }
            td.number { @if let Some(number) = line.numbers.1 { (number) } }
            td.sign { @if !sign.is_empty() { span aria-hidden="true" { (sign) } span.hidden { (spoken) } } }
            td.line dir="auto" {
                @for (differs, text) in &line.pieces {
                    @match (differs, line.kind) {
                        (true, DiffLineKind::Removed) => del { (text) },
                        (true, DiffLineKind::Added) => ins { (text) },
                        _ => (text),
                    }
                }
            }
        }
    }
}

pub(crate) fn backlinks(frame: &Frame<'_>, name: &Name, names: &[Name], has_more: bool) -> String {
    let main = html! {
        (heading(frame, name, "links here", Tab::Backlinks))
        @if names.is_empty() {
            p.notice { "No page links to this one." }
        } @else {
            ul.names { @for name in names { li { (link(name)) } } }
        }
        @if let Some(last) = names.last().filter(|_| has_more) {
            p { a href={ (paths::page_part(name, "backlinks")) "?after=" (paths::query_value(last.as_str())) } rel="next" { "More pages" } }
        }
    };
    document(frame, &format!("Links to {name}"), &main)
}

pub(crate) fn all_pages(frame: &Frame<'_>, names: &[Name], after: Option<&Name>, has_more: bool) -> String {
    let main = html! {
        (plain_heading("All pages"))
        @if names.is_empty() {
            p.notice {
                "There are no pages" @if after.is_some() { " after this one" } "."
                @if after.is_none() && frame.is_writable { " " a href="/wiki/Home/edit" { "Write the first one" } "." }
            }
        } @else {
            ul.names { @for name in names { li { (link(name)) } } }
        }
        p.actions {
            @if after.is_some() { a href="/pages" { "From the beginning" } }
            @if let Some(last) = names.last().filter(|_| has_more) {
                a href={ "/pages?after=" (paths::query_value(last.as_str())) } rel="next" { "More pages" }
            }
        }
    };
    document(frame, "All pages", &main)
}

pub(crate) fn recent(frame: &Frame<'_>, changes: &[Change], has_more: bool) -> String {
    let mut days: Vec<(String, Vec<&Change>)> = Vec::new();
    for change in changes {
        let (day, _) = day_and_time(change.time);
        match days.last_mut().filter(|(last, _)| *last == day) {
            Some((_, changes)) => changes.push(change),
            None => days.push((day, vec![change])),
        }
    }
    let main = html! {
        (plain_heading("Recent changes"))
        p.hint { "Times are UTC. " a href="/recent.atom" { "Atom feed" } }
        @if changes.is_empty() { p.notice { "Nothing has changed yet." } }
        @for (day, changes) in &days {
            section aria-label=(day) {
                h2.day { (day) }
                ul.changes {
                    @for change in changes { li { (change_line(change)) } }
                }
            }
        }
        @if let Some(last) = changes.last().filter(|_| has_more) {
            p { a href={ "/recent?before=" (last.sequence) } rel="next" { "Older changes" } }
        }
    };
    document(frame, "Recent changes", &main)
}

fn change_line(change: &Change) -> Markup {
    let number = change.revision;
    let what = match number {
        1 => paths::page_part(&change.name, "revisions/1"),
        _ => format!("{}?to={number}", paths::page_part(&change.name, "diff")),
    };
    html! {
        a.at href=(what) aria-label={ "Change of " (change.name) " at " (day_and_time(change.time).1) } {
            time datetime=(rfc3339(change.time)) { (day_and_time(change.time).1) }
        }
        " " (link(&change.name))
        (details(change))
    }
}

pub(crate) struct Search<'a> {
    pub(crate) words: &'a str,
    pub(crate) path: &'a str,
    pub(crate) value: &'a str,
}

pub(crate) fn search(
    frame: &Frame<'_>,
    wanted: &Search<'_>,
    titles: &[Match],
    texts: &[Match],
    exists: bool,
) -> String {
    let Search { words, path, value } = wanted;
    let by_field = !path.is_empty();
    let has_query = by_field || !words.is_empty();
    let main = html! {
        (plain_heading("Search"))
        form.narrow action="/search" role="search" aria-label="Names and texts" {
            label for="words" { "Names and texts of pages" }
            div.row {
                input.grow #words type="search" name="q" maxlength="200" dir="auto" value=(words);
                button.primary { "Search" }
            }
        }
        details.more open[by_field] {
            summary { "Search by field" }
            form.narrow action="/search" role="search" aria-label="Fields" {
                div.row {
                    div { label for="field" { "Field" } input #field type="text" name="field" required maxlength="200" dir="auto" value=(path); }
                    div.grow { label for="value" { "Value " span.hint { "(any, if empty)" } } input #value type="text" name="value" maxlength="200" dir="auto" value=(value); }
                    button.primary { "Search" }
                }
            }
        }
        @if has_query && titles.is_empty() && texts.is_empty() {
            p.notice role="status" { "Nothing was found." }
        }
        @if !by_field && !words.is_empty() && !exists && frame.is_writable {
            p { "There is no page of this name. " a href={ "/new?name=" (paths::query_value(words)) } { "Create it" } "." }
        }
        @if !titles.is_empty() {
            section aria-labelledby="titles" {
                h2 #titles { "Names" }
                ul.names { @for found in titles { li { (link(&found.name)) } } }
            }
        }
        @if !texts.is_empty() {
            section aria-labelledby="texts" {
                h2 #texts { @if by_field { "Pages" } @else { "Texts" } }
                ul.results {
                    @for found in texts {
                        li { (link(&found.name)) @if !found.excerpt.is_empty() { p dir="auto" { (excerpt(&found.excerpt)) } } }
                    }
                }
            }
        }
    };
    document(frame, "Search", &main)
}

/// The database encloses matches in U+E000 and U+E001.
fn excerpt(text: &str) -> Markup {
    let mut parts = text.split('\u{e000}');
    let first = parts.next().unwrap_or_default();
    html! {
        (first)
        @for part in parts {
            @match part.split_once('\u{e001}') {
                Some((found, rest)) => { mark { (found) } (rest) },
                None => (part),
            }
        }
    }
}

pub(crate) fn files(
    frame: &Frame<'_>,
    name: &Name,
    files: &[AttachmentInfo],
    has_more: bool,
    bytes_max: usize,
) -> String {
    let main = html! {
        (heading(frame, name, "files", Tab::Files))
        @if files.is_empty() {
            p.notice { "This page has no files." }
        } @else {
            ul.files {
                @for info in files {
                    li {
                        a href=(paths::attachment(name, &info.file)) dir="auto" { (info.file) }
                        " " span.hint { (size(info.bytes)) ", " (time(info.modified)) }
                        " " code.copy { (markdown(info)) }
                        @if frame.is_writable {
                            form method="post" action={ (paths::attachment(name, &info.file)) "/delete" } {
                                input type="hidden" name="digest" value=(info.digest);
                                button.plain aria-label={ "Delete " (info.file) } { "Delete" }
                            }
                        }
                    }
                }
            }
        }
        @if let Some(last) = files.last().filter(|_| has_more) {
            @let next = format!("?after={}", paths::query_value(last.file.as_str()));
            p { a href={ (paths::page_part(name, "files")) (next) } rel="next" { "More files" } }
        }
        @if frame.is_writable {
            form.narrow method="post" enctype="multipart/form-data" action=(paths::page_part(name, "files")) {
                label for="file" { "Add files " span.hint { "(up to " (size(bytes_max as u64)) " each)" } }
                input #file type="file" name="file" multiple required;
                p.actions { button.primary { "Upload" } }
            }
        }
    };
    document(frame, &format!("Files of {name}"), &main)
}

/// The Markdown that shows or links a file in its page.
fn markdown(info: &AttachmentInfo) -> String {
    let mark = if info.media_type.starts_with("image/") { "!" } else { "" };
    format!("{mark}[{}](attachment:{})", info.file, paths::segment(&info.file))
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}
