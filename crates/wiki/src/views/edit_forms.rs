//! Forms that change a page, and conflicts.

use breme_wiki_database::name::{NAME_BYTES_MAX, Name};
use breme_wiki_database::page::{AttachmentInfo, Content, Found, Page};
use maud::{Markup, PreEscaped, html};

use super::frame::{Frame, Tab, document, heading, link, plain_heading, size};
use crate::fields::to_lines;
use crate::merge::ContentMerge;
use crate::paths;
use crate::render::Rendered;
use crate::web::submission::Submission;

/// The edit form, optionally with a preview.
pub(crate) fn edit(frame: &Frame<'_>, name: &Name, submission: &Submission, preview: Option<&Rendered>) -> String {
    let is_new = submission.base == Some(0);
    let main = html! {
        (heading(frame, name, if is_new { "new page" } else { "edit" }, Tab::Edit))
        @if let Some(problem) = &submission.problem {
            p.notice.error role="alert" { (problem) }
        }
        @if let Some(rendered) = preview {
            section.preview aria-labelledby="preview-heading" {
                h2 #preview-heading { "Preview" }
                p.hint { "Nothing is saved yet." }
                article.text dir="auto" { (PreEscaped(&rendered.html)) }
            }
        }
        (form(frame, name, submission))
    };
    document(frame, &format!("Edit {name}"), &main)
}

fn form(frame: &Frame<'_>, name: &Name, submission: &Submission) -> Markup {
    html! {
        form.edit #edit method="post" action=(paths::page(name)) data-name=(name) {
            @if let Some(base) = submission.base {
                input type="hidden" name="base" value=(base);
            }
            div.columns {
                div.column {
                    label for="text" { "Text " span.hint { "(Markdown)" } }
                    // The first line break in a textarea is dropped.
                    textarea #text name="text" rows="24" dir="auto" spellcheck="true" aria-describedby="syntax" { "\n" (submission.content.text) }
                }
                div.column.live hidden {
                    p.label #live-heading { "Preview" }
                    article.text #live dir="auto" aria-labelledby="live-heading" tabindex="0" {}
                }
            }
            (syntax())
            details.more open[!submission.field_lines.is_empty()] {
                summary { "Fields" }
                label for="fields" { "One per line, as in " code { "status: draft" } }
                textarea #fields name="fields" rows="4" dir="auto" spellcheck="false" { "\n" (submission.field_lines) }
            }
            div.row {
                div.grow {
                    label for="comment" { "What have you changed?" }
                    input #comment type="text" name="comment" maxlength="500" dir="auto" value=(submission.comment);
                }
                @if !frame.has_accounts {
                    div { (author_field(submission.author.as_deref().unwrap_or_default())) }
                }
            }
            p.actions {
                button.primary name="action" value="save" { "Save" }
                button name="action" value="preview" { "Preview" }
                a href=(paths::page(name)) { "Cancel" }
            }
        }
    }
}

fn syntax() -> Markup {
    html! {
        details.more #syntax {
            summary { "How to write" }
            dl.syntax {
                dt { code { "# Heading" } } dd { "a heading; " code { "##" } " for the next level" }
                dt { code { "**bold** *italic*" } } dd { strong { "bold" } " " em { "italic" } }
                dt { code { "[[Page]] [[Page|text]]" } } dd { "links to pages of this wiki, also to pages that do not exist yet" }
                dt { code { "[text](https://example.org)" } } dd { "a link elsewhere" }
                dt { code { "![Map](attachment:map.png)" } } dd { "an image among the page's files" }
                dt { code { "- item" } ", " code { "1. item" } ", " code { "- [ ] task" } } dd { "lists" }
                dt { code { "| a | b |" } } dd { "tables, with a line " code { "|---|---|" } " below the head" }
                dt { code { "`code`" } ", " code { "```" } } dd { "code in a line, and lines of code between two such lines" }
            }
        }
    }
}

pub(crate) fn conflict(
    frame: &Frame<'_>,
    name: &Name,
    found: &Found,
    submission: &Submission,
    merge: &ContentMerge,
) -> String {
    let (base, theirs) = match found {
        Found::Page(page) => (page.revision, Some(page)),
        _ => (0, None),
    };
    let fields = &merge.fields.fields;
    let next = Submission {
        content: Content { text: merge.text.text.clone(), fields: fields.clone(), redirect: None },
        field_lines: to_lines(fields),
        base: Some(base),
        ..submission.clone()
    };
    let main = html! {
        (heading(frame, name, "edit conflict", Tab::Edit))
        div.notice.error role="alert" {
            @match theirs {
                None => p { "Somebody deleted this page while you were editing it. Your text is below; save it to create the page again." },
                Some(page) => @match &page.content.redirect {
                    Some(target) => p {
                        "Somebody renamed this page to " (link(target)) " while you were editing it. "
                        "Copy your text to that page; if you save it here, the old name no longer leads there."
                    },
                    None => (merged(merge)),
                },
            }
            p { strong { "Your changes are not saved yet." } }
        }
        (form(frame, name, &next))
        section.versions aria-label="Both texts" {
            details {
                summary { "Your text" }
                (text_and_fields(&submission.content))
            }
            @if let Some(page) = theirs.filter(|page| page.content.redirect.is_none()) {
                details {
                    summary { "The saved text (revision " (page.revision) ")" }
                    (text_and_fields(&page.content))
                }
            }
        }
    };
    document(frame, &format!("Edit conflict: {name}"), &main)
}

fn merged(merge: &ContentMerge) -> Markup {
    html! {
        p {
            "Somebody saved this page while you were editing it"
            @if !merge.text.is_clean {
                ", and changed the same lines. Both are below, between " code { "<<<<<<<" } " and " code { ">>>>>>>" } ". Please choose, remove the markers, then save."
            } @else if merge.is_clean() {
                ". The changes are at different places, and the text below has both. Please check it, then save."
            } @else {
                ", and changed the same fields."
            }
        }
        @if !merge.fields.conflicts.is_empty() {
            p {
                "Both of you changed the fields "
                @for (index, key) in merge.fields.conflicts.iter().enumerate() {
                    @if index > 0 { ", " }
                    code dir="auto" { (key) }
                }
                ". Below are your values; those of the saved text are shown after the form. Please choose, then save."
            }
        }
    }
}

fn text_and_fields(content: &Content) -> Markup {
    html! {
        pre tabindex="0" dir="auto" { (content.text) }
        @if !content.fields.is_empty() {
            pre tabindex="0" dir="auto" { (to_lines(&content.fields)) }
        }
    }
}

pub(crate) fn new_page(frame: &Frame<'_>) -> String {
    let main = html! {
        (plain_heading("New page"))
        form.narrow action="/new" {
            label for="name" { "Name of the page" }
            input #name type="text" name="name" required maxlength=(NAME_BYTES_MAX) dir="auto" autocomplete="off";
            p.actions { button.primary { "Continue" } }
        }
    };
    document(frame, "New page", &main)
}

fn comment_field() -> Markup {
    html! {
        label for="comment" { "Why? " span.hint { "(optional)" } }
        input #comment type="text" name="comment" maxlength="500" dir="auto";
    }
}

fn author_field(value: &str) -> Markup {
    html! {
        label for="author" { "Your name " span.hint { "(optional)" } }
        input #author type="text" name="author" maxlength="80" dir="auto" autocomplete="nickname" value=(value);
    }
}

/// How a change to a file is recorded.
pub(super) fn note_fields(frame: &Frame<'_>) -> Markup {
    html! {
        (comment_field())
        @if !frame.has_accounts { (author_field("")) }
    }
}

pub(crate) fn delete_file(frame: &Frame<'_>, name: &Name, info: &AttachmentInfo) -> String {
    let path = paths::attachment(name, &info.file);
    let main = html! {
        (heading(frame, name, "delete a file", Tab::Files))
        form.narrow method="post" action={ (path) "/delete" } {
            input type="hidden" name="digest" value=(info.digest);
            p {
                "Delete the file " a href=(path) dir="auto" { (info.file) } " (" (size(info.bytes)) ")? "
                "It can be restored from its history."
            }
            (note_fields(frame))
            p.actions {
                button.danger { "Delete" }
                a href=(paths::page_part(name, "files")) { "Cancel" }
            }
        }
    };
    document(frame, &format!("Delete {} of {name}", info.file), &main)
}

pub(crate) fn rename(frame: &Frame<'_>, page: &Page) -> String {
    let main = html! {
        (heading(frame, &page.name, "rename", Tab::Rename))
        form.narrow method="post" action=(paths::page_part(&page.name, "rename")) {
            input type="hidden" name="base" value=(page.revision);
            label for="to" { "New name" }
            input #to type="text" name="to" required maxlength=(NAME_BYTES_MAX) dir="auto" autocomplete="off" value=(page.name);
            p.hint { "The history moves along. The old name will redirect to the new one." }
            (comment_field())
            p.actions {
                button.primary { "Rename" }
                a href=(paths::page(&page.name)) { "Cancel" }
            }
        }
    };
    document(frame, &format!("Rename {}", page.name), &main)
}

pub(crate) fn delete(frame: &Frame<'_>, page: &Page, backlinks: &[Name]) -> String {
    let main = html! {
        (heading(frame, &page.name, "delete", Tab::Delete))
        form.narrow method="post" action=(paths::page_part(&page.name, "delete")) {
            input type="hidden" name="base" value=(page.revision);
            p { "Delete the page " strong dir="auto" { (page.name) } "? Its history remains, and the page can be restored from it." }
            @if !backlinks.is_empty() {
                p { "These pages link to it:" }
                ul { @for name in backlinks { li { (link(name)) } } }
            }
            (comment_field())
            p.actions {
                button.danger { "Delete" }
                a href=(paths::page(&page.name)) { "Cancel" }
            }
        }
    };
    document(frame, &format!("Delete {}", page.name), &main)
}
