//! History, differences, lists, searches, attachments.

use breme_wiki_database::FILE_VERSIONS_MAX;
use breme_wiki_database::name::Name;
use breme_wiki_database::page::{AttachmentInfo, Change, ChangeKind, Match};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::edit_forms::note_fields;
use super::frame::{Frame, Tab, document, heading, link, plain_heading, size, time};
use crate::calendar::{day_and_time, rfc3339};
use crate::merge::{DiffLine, DiffLineKind};
use crate::paths;
use crate::settings::Settings;

/// Changes as JSON.
pub(crate) fn changes_json(changes: &[Change]) -> Value {
    let change = |change: &Change| {
        let mut value = json!(change);
        value["time"] = rfc3339(change.time).into();
        if let Some(erased) = change.erased {
            value["erased"] = rfc3339(erased).into();
        }
        value
    };
    json!({ "changes": changes.iter().map(change).collect::<Vec<_>>() })
}

/// What a change did.
pub(crate) fn kind(change: &Change) -> &'static str {
    match change.kind {
        ChangeKind::Created => "created",
        ChangeKind::Edited => "edited",
        ChangeKind::Deleted => "deleted",
        ChangeKind::Renamed => "renamed",
        ChangeKind::Attached => "file added",
        ChangeKind::Replaced => "file replaced",
        ChangeKind::Detached => "file deleted",
    }
}

/// The class of a change's label.
fn class(change: &Change) -> &'static str {
    match change.kind {
        ChangeKind::Created | ChangeKind::Attached => "created",
        ChangeKind::Deleted | ChangeKind::Detached => "deleted",
        ChangeKind::Edited | ChangeKind::Renamed | ChangeKind::Replaced => "",
    }
}

/// Whether it is a revision whose contents were erased, with its author and comment.
pub(crate) fn is_erased(change: &Change) -> bool {
    change.erased.is_some() && change.file.is_none()
}

/// Who made the change; `None` if the name was erased.
pub(crate) fn author(change: &Change) -> Option<&str> {
    change.author.as_deref().or(change.erased.is_none().then_some("anonymous"))
}

/// Author, kind of change, comment.
fn details(change: &Change) -> Markup {
    html! {
        @if change.kind != ChangeKind::Edited { " " span class={ "kind " (class(change)) } { (kind(change)) } }
        @if let Some(erased) = change.erased {
            " " span.kind.deleted title=(rfc3339(erased)) { @if change.file.is_some() { "earlier version erased" } @else { "erased" } }
        }
        @if !is_erased(change) {
            @if let Some(author) = author(change) { " " span.author { bdi { (author) } } }
            @if change.kind != ChangeKind::Detached { " " span.hint { "· " (change.bytes) " bytes" } }
        }
        @if !change.comment.is_empty() { " " span.comment dir="auto" { (change.comment) } }
    }
}

/// A link to the history of an attachment.
fn file_link(name: &Name, file: &Name) -> Markup {
    html! { a href={ (paths::attachment(name, file)) "/history" } dir="auto" { (file) } }
}

pub(crate) fn history(frame: &Frame<'_>, name: &Name, changes: &[Change], is_first: bool, has_more: bool) -> String {
    let revisions = || changes.iter().filter(|change| change.file.is_none());
    let newest = revisions().map(|change| change.revision).next().filter(|_| is_first);
    let mut compared = revisions().filter(|change| !is_erased(change)).map(|change| change.revision);
    let (first, second) = (compared.next(), compared.next());
    let main = html! {
        (heading(frame, name, "history", Tab::History))
        form action=(paths::page_part(name, "diff")) {
            p.actions { button { "Compare the selected revisions" } }
            table.history {
                thead {
                    tr { th scope="col" { "From" } th scope="col" { "To" } th scope="col" { "Revision" } }
                }
                tbody {
                    @for change in changes {
                        @if change.file.is_some() || is_erased(change) {
                            tr {
                                td {}
                                td {}
                                td {
                                    @if let Some(file) = &change.file { (file_link(name, &file.name)) } @else { (change.revision) }
                                    ", " (time(change.time)) (details(change))
                                }
                            }
                        } @else {
                            tr {
                                td { input type="radio" name="from" value=(change.revision) checked[Some(change.revision) == second] aria-label={ "From revision " (change.revision) }; }
                                td { input type="radio" name="to" value=(change.revision) checked[Some(change.revision) == first] aria-label={ "To revision " (change.revision) }; }
                                td {
                                    a href=(paths::page_part(name, &format!("revisions/{}", change.revision))) { (change.revision) ", " (time(change.time)) }
                                    @if Some(change.revision) == newest { " " span.kind { "current" } }
                                    (details(change))
                                }
                            }
                        }
                    }
                }
            }
        }
        @if let Some(last) = changes.last().filter(|_| has_more) {
            @let place = format!("?before={}&sequence={}", last.revision, last.sequence);
            p { a href={ (paths::page_part(name, "history")) (place) } rel="next" { "Older changes" } }
        }
    };
    document(frame, &format!("History of {name}"), &main)
}

/// Limit of the displayed lines of a comparison: each takes some 200 bytes of HTML.
const DIFF_LINES_MAX: usize = 10_000;

/// Two compared revisions.
pub(crate) struct Compared {
    /// `None` if all revisions before `to` were erased; 0 if there is none.
    pub(crate) from: Option<u64>,
    pub(crate) to: u64,
    /// The next revision that was not erased.
    pub(crate) next: Option<u64>,
    /// Whether `to` is the current revision.
    pub(crate) is_current: bool,
    pub(crate) by_words: bool,
}

pub(crate) fn difference(
    frame: &Frame<'_>,
    name: &Name,
    &Compared { from, to, next, is_current, by_words }: &Compared,
    groups: &[Vec<DiffLine>],
) -> String {
    let path = |from: Option<u64>, to: u64, by_words: bool| {
        let from = from.map(|from| format!("from={from}&")).unwrap_or_default();
        let by = if by_words { "" } else { "&by=lines" };
        format!("{}?{from}to={to}{by}", paths::page_part(name, "diff"))
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
            "From " (old_and_new(from.unwrap_or(0))) " to " (old_and_new(to)) "."
            @if is_current { " This is the current text." }
        }
        @if from.is_none() { p.notice { "What preceded this revision was erased, so its whole text is shown as new." } }
        p.actions {
            @if let Some(from) = from.filter(|from| *from > 0) { a href=(path(None, from, by_words)) { "← Earlier change" } }
            @if let Some(next) = next { a href=(path(Some(to), next, by_words)) { "Later change →" } }
            a href=(path(from, to, !by_words)) { @if by_words { "Mark whole lines" } @else { "Mark words" } }
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
    let at = html! { time datetime=(rfc3339(change.time)) { (day_and_time(change.time).1) } };
    let what = match (&change.file, change.revision) {
        (Some(file), _) => format!("{}/history", paths::attachment(&change.name, &file.name)),
        (None, 1) => paths::page_part(&change.name, "revisions/1"),
        (None, number) => format!("{}?to={number}", paths::page_part(&change.name, "diff")),
    };
    html! {
        @if is_erased(change) {
            span.at { (at) }
        } @else {
            a.at href=(what) aria-label={ "Change of " (change.name) " at " (day_and_time(change.time).1) } { (at) }
        }
        " " (link(&change.name))
        @if let Some(file) = &change.file { ": " (file_link(&change.name, &file.name)) }
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
    settings: &Settings,
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
                        span.links {
                            a href={ (paths::attachment(name, &info.file)) "/history" } aria-label={ "History of " (info.file) } { "History" }
                            @if frame.is_writable {
                                a href={ (paths::attachment(name, &info.file)) "/delete" } aria-label={ "Delete " (info.file) } { "Delete" }
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
                label for="file" { "Add files " span.hint { "(up to " (size(settings.attachment_bytes_max as u64)) " each)" } }
                input #file type="file" name="file" multiple required;
                @if settings.requires_condition {
                    p.hint { "Nothing is stored if a file of the same name exists; delete that one first." }
                } @else {
                    label.check {
                        input type="checkbox" name="replace" value="yes";
                        " Replace files of the same name " span.hint { "(otherwise nothing is stored if one exists)" }
                    }
                }
                (note_fields(frame))
                p.actions { button.primary { "Upload" } }
            }
        }
    };
    document(frame, &format!("Files of {name}"), &main)
}

/// The changes of an attachment. Each that replaced or deleted it has its earlier version, as long as it is kept.
pub(crate) fn file_history(
    frame: &Frame<'_>,
    name: &Name,
    file: &Name,
    current: Option<&AttachmentInfo>,
    changes: &[Change],
    has_more: bool,
) -> String {
    let path = paths::attachment(name, file);
    let main = html! {
        (heading(frame, name, "history of a file", Tab::Files))
        h2 dir="auto" { (file) }
        @match current {
            Some(info) => p { a href=(path) { "Current version" } ", " (size(info.bytes)) ", of " (time(info.modified)) "." },
            None => p.notice { "The file has been deleted." },
        }
        ul.changes {
            @for change in changes {
                li id={ "change-" (change.sequence) } { (time(change.time)) (details(change)) (earlier_version(frame, &path, current, change)) }
            }
        }
        p.hint { "The last " (FILE_VERSIONS_MAX) " earlier versions are kept." }
        @if let Some(last) = changes.last().filter(|_| has_more) {
            p { a href={ (path) "/history?before=" (last.sequence) } rel="next" { "Older changes" } }
        }
    };
    document(frame, &format!("{name}: history of {file}"), &main)
}

/// A link to what a change replaced or deleted, and a button that restores it.
fn earlier_version(frame: &Frame<'_>, path: &str, current: Option<&AttachmentInfo>, change: &Change) -> Markup {
    let sequence = change.sequence;
    html! {
        @if let Some(bytes) = change.file.as_ref().and_then(|file| file.earlier_bytes) {
            div.actions {
                a href={ (path) "/versions/" (sequence) } { "Earlier version" }
                span.hint { (size(bytes)) }
                @if frame.is_writable {
                    form method="post" action={ (path) "/restore" } {
                        input type="hidden" name="version" value=(sequence);
                        input type="hidden" name="digest" value=(current.map_or("", |info| &info.digest));
                        button.plain { "Restore" }
                    }
                }
            }
        }
    }
}

/// The Markdown that shows or links a file in its page.
fn markdown(info: &AttachmentInfo) -> String {
    let mark = if info.media_type.starts_with("image/") { "!" } else { "" };
    format!("{mark}[{}](attachment:{})", info.file, paths::segment(&info.file))
}
