//! Changes to pages.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use breme_http::media_type;
use breme_wiki_database::WriteError;
use breme_wiki_database::name::Name;
use breme_wiki_database::page::{Committed, Condition, Content, Found, Page, Write, WriteAction};
use http::header::{CONTENT_LOCATION, CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use http::{HeaderMap, HeaderName, StatusCode, Uri};
use serde_json::json;

use super::addresses::{PageRequest, name, require_visible, see_other};
use super::guard::require_writer;
use super::negotiation::names_html;
use super::pages::{existing, existing_revision, missing_links};
use super::problem::Problem;
use super::state::{HandlerResult, SHORT_BYTES, Wiki, WikiState};
use super::submission::{
    Submission, form_bytes_max, query, read_form, read_submission, tidy_author, tidy_comment, too_large,
};
use super::validators::{date, insert, page_tag, revision_of_tag, tags};
use super::visitor::Visitor;
use crate::calendar::now;
use crate::fields::to_lines;
use crate::merge::ContentMerge;
use crate::{paths, render, views};

/// Limit of forms that contain only names and numbers.
const SMALL_FORM_BYTES: usize = 64 * 1024;
/// How often a write is retried when another write interferes.
const ATTEMPTS: usize = 5;

/// The requirements of a request on what it changes: a page with its revision, an attachment with its digest. All must
/// hold; without any, the last write wins.
#[derive(Debug)]
pub(super) struct Demand<T> {
    /// `If-Match`. A foreign tag matches no version.
    pub(super) matching: Option<Versions<T>>,
    /// `If-Unmodified-Since`, in seconds.
    pub(super) unmodified_since: Option<i64>,
    /// `If-None-Match`.
    pub(super) none_matching: Option<Versions<T>>,
    /// Whether a form names them, which may be sent twice by a double click.
    is_form: bool,
}

#[derive(Debug)]
pub(super) enum Versions<T> {
    /// `*`.
    Any,
    /// The first one is what the client started from.
    OneOf(Vec<T>),
}

impl<T: PartialEq> Versions<T> {
    fn has(&self, version: &T) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(all) => all.contains(version),
        }
    }
}

impl<T> Demand<T> {
    /// The requirements in the conditions of a request (RFC 9110, section 13.2.2); `version` reads an entity tag.
    pub(super) fn of(headers: &HeaderMap, version: fn(&str) -> Option<T>) -> Self {
        let versions = |name: &HeaderName, version: &dyn Fn(&str) -> Option<T>| {
            let is_any = || tags(headers, name).any(|tag| tag == "*");
            let one_of = || Versions::OneOf(tags(headers, name).filter_map(version).collect());
            headers.contains_key(name).then(|| if is_any() { Versions::Any } else { one_of() })
        };
        let matching = versions(&IF_MATCH, &version);
        let unmodified_since = date(headers, &IF_UNMODIFIED_SINCE).filter(|_| matching.is_none());
        // If-None-Match compares weakly.
        let weak = |tag: &str| version(tag.strip_prefix("W/").unwrap_or(tag));
        Self { matching, unmodified_since, none_matching: versions(&IF_NONE_MATCH, &weak), is_form: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.matching.is_none() && self.unmodified_since.is_none() && self.none_matching.is_none()
    }
}

impl Demand<u64> {
    /// The requirement of a form that shows revision `base`; 0 if there was no page.
    fn of_base(base: u64) -> Self {
        let (matching, none_matching) =
            if base == 0 { (None, Some(Versions::Any)) } else { (Some(Versions::OneOf(vec![base])), None) };
        Self { matching, unmodified_since: None, none_matching, is_form: true }
    }

    /// Whether a change that appears to have been made already counts as made (RFC 9110, section 13.1.1).
    fn allows_repetition(&self) -> bool {
        self.is_form || (self.base().is_some() && self.none_matching.is_none())
    }

    /// The revision from which the client started, if it names one.
    fn base(&self) -> Option<u64> {
        match &self.matching {
            Some(Versions::OneOf(revisions)) => revisions.first().copied(),
            _ => None,
        }
    }

    fn holds(&self, page: Option<&Page>) -> bool {
        let Some(page) = page else { return self.matching.is_none() };
        self.matching.as_ref().is_none_or(|versions| versions.has(&page.revision))
            && self.unmodified_since.is_none_or(|since| page.modified.div_euclid(1000) <= since)
            && self.none_matching.as_ref().is_none_or(|versions| !versions.has(&page.revision))
    }
}

pub(super) fn condition_required(condition: &str) -> Problem {
    let detail = format!("This wiki requires a condition: {condition}.");
    Problem::new(StatusCode::PRECONDITION_REQUIRED, detail)
}

/// Why a change was not made.
enum WriteRefusal {
    /// The page does not meet the requirement.
    Changed {
        found: Found,
        base: Option<u64>,
    },
    Problem(Problem),
}

impl<P: Into<Problem>> From<P> for WriteRefusal {
    fn from(problem: P) -> Self {
        Self::Problem(problem.into())
    }
}

impl Wiki {
    /// Executes a write; then waits for the edges, if configured.
    pub(super) async fn write(&self, write: Write) -> Result<Committed, WriteError> {
        let written = self.database.write(write).await;
        match &written {
            Ok(_) => {
                self.counts.writes.add(1);
                self.edges.await_purges().await;
            }
            Err(WriteError::Conflict(_) | WriteError::FileConflict) => self.counts.conflicts.add(1),
            Err(_) => (),
        }
        written
    }

    fn author(&self, visitor: &Visitor, given: Option<String>) -> Option<String> {
        // With accounts, a name means that its owner has signed in.
        visitor.author().map(str::to_owned).or(given.filter(|_| !self.has_accounts()))
    }

    pub(super) fn write_of(
        &self,
        visitor: &Visitor,
        name: &Name,
        action: WriteAction,
        comment: &str,
        given: Option<&str>,
    ) -> Write {
        Write {
            name: name.clone(),
            condition: Condition::Any,
            action,
            author: self.author(visitor, given.and_then(tidy_author)),
            comment: tidy_comment(comment),
            time: now(),
        }
    }

    /// Executes a write if the page meets the requirements. A save of the content that the page already has makes no
    /// revision: a form that was sent twice is no conflict with itself.
    async fn write_if(&self, write: Write, demand: Demand<u64>) -> Result<Committed, WriteRefusal> {
        if demand.is_empty() && self.settings.requires_condition {
            let condition = "send If-Match with the ETag of the page, or If-None-Match: * for a new page";
            return Err(condition_required(condition).into());
        }
        for _ in 0..ATTEMPTS {
            let found = self.database.page(&write.name).await?;
            let page = if let Found::Page(page) = &found { Some(&**page) } else { None };
            let is_allowed = demand.holds(page);
            if let Some(page) = page.filter(|page| has_content(page, &write.action))
                && (is_allowed || demand.allows_repetition())
            {
                // The change that saved it may not have reached all edges yet.
                self.edges.await_purges().await;
                return Ok(Committed::unchanged(page.revision));
            }
            if !is_allowed {
                self.counts.conflicts.add(1);
                return Err(WriteRefusal::Changed { found, base: demand.base() });
            }
            let condition = match page {
                _ if demand.is_empty() => Condition::Any,
                Some(page) => Condition::Revision(page.revision),
                None => Condition::Absent,
            };
            match self.write(Write { condition, ..write.clone() }).await {
                Err(WriteError::Conflict(_)) => (), // once more, with the current page
                written => return Ok(written?),
            }
        }
        Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "The page is being changed too often; try again.").into())
    }
}

fn has_content(page: &Page, action: &WriteAction) -> bool {
    matches!(action, WriteAction::Save { content, .. } if *content == page.content)
}

/// `POST /wiki/NAME`: creates or overwrites, or from the edit form: saves, merges or previews.
pub(crate) async fn post(PageRequest { wiki, visitor, name, uri, headers }: PageRequest, body: Body) -> HandlerResult {
    let submission = read_submission(&headers, &uri, body, wiki.settings.page_bytes_max).await?;
    if submission.is_preview || submission.problem.is_some() {
        return preview_form(&wiki, &visitor, &name, &submission).await;
    }
    let demand = match submission.base {
        Some(base) => Demand::of_base(base),
        None => Demand::of(&headers, revision_of_tag),
    };
    save(&wiki, &visitor, &name, submission, demand, &headers).await
}

/// `PUT /wiki/NAME`.
pub(crate) async fn put(PageRequest { wiki, visitor, name, uri, headers }: PageRequest, body: Body) -> HandlerResult {
    let demand = Demand::of(&headers, revision_of_tag);
    let submission = read_submission(&headers, &uri, body, wiki.settings.page_bytes_max).await?;
    if let Some(problem) = submission.problem {
        return Err(Problem::bad_request(problem));
    }
    save(&wiki, &visitor, &name, submission, demand, &headers).await
}

async fn save(
    wiki: &Arc<Wiki>,
    visitor: &Visitor,
    name: &Name,
    submission: Submission,
    demand: Demand<u64>,
    headers: &HeaderMap,
) -> HandlerResult {
    let content = submission.content.clone();
    if content.redirect.as_ref() == Some(name) {
        return Err(Problem::bad_request("The page cannot redirect to itself."));
    }
    if name.invisible().is_some() && !matches!(wiki.database.page(name).await?, Found::Page(_)) {
        require_visible(name)?;
    }
    let links = links(&content.text).await?;
    let action = WriteAction::Save { content, links };
    let write = wiki.write_of(visitor, name, action, &submission.comment, submission.author.as_deref());
    match wiki.write_if(write, demand).await {
        Ok(committed) => Ok(saved(headers, name, &committed)),
        Err(WriteRefusal::Problem(problem)) => Err(problem),
        Err(WriteRefusal::Changed { found, base }) => {
            conflict(wiki, visitor, name, &submission, (found, base), headers).await
        }
    }
}

async fn links(text: &str) -> Result<Vec<Name>, Problem> {
    if text.len() <= SHORT_BYTES {
        return Ok(render::links(text));
    }
    let text = text.to_owned();
    let links = tokio::task::spawn_blocking(move || render::links(&text)).await;
    links.map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "The text cannot be read."))
}

/// The response to a writer: the page for a browser, the stored state for a program.
fn saved(headers: &HeaderMap, name: &Name, committed: &Committed) -> Response {
    let path = paths::page(name);
    if names_html(headers) {
        return see_other(&path);
    }
    let tag = format!("\"{}\"", page_tag(committed.revision, "j"));
    let value = json!({ "name": name, "revision": committed.revision, "created": committed.created, "etag": tag });
    let status = if committed.created { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = json_response(status, &value);
    insert(response.headers_mut(), http::header::LOCATION, &path);
    insert(response.headers_mut(), CONTENT_LOCATION, &path);
    response
}

pub(super) fn json_response(status: StatusCode, value: &serde_json::Value) -> Response {
    (status, [(CONTENT_TYPE, media_type::JSON)], format!("{value}\n")).into_response()
}

/// The page has changed: shows what is stored now, and the merge of both contents.
async fn conflict(
    wiki: &Arc<Wiki>,
    visitor: &Visitor,
    name: &Name,
    submission: &Submission,
    (found, base): (Found, Option<u64>),
    headers: &HeaderMap,
) -> HandlerResult {
    let base = base.or(submission.base).filter(|base| *base > 0);
    let from_form = submission.base.is_some();
    let status = if from_form { StatusCode::CONFLICT } else { StatusCode::PRECONDITION_FAILED };
    let merged = match &found {
        // Nothing of a redirect can be merged.
        Found::Page(page) if page.content.redirect.is_some() => ContentMerge::ours(&submission.content),
        Found::Page(page) => merged(wiki, name, base, &submission.content, page).await?,
        Found::Deleted { .. } | Found::Nothing => ContentMerge::ours(&submission.content),
    };
    if names_html(headers) {
        let mut response = html(&views::conflict(&wiki.frame(visitor), name, &found, submission, &merged));
        *response.status_mut() = status;
        return Ok(response);
    }
    Err(conflict_problem(status, &found, &merged))
}

/// The merge of `ours`, made from revision `base`, into the current page.
async fn merged(
    wiki: &Wiki,
    name: &Name,
    base: Option<u64>,
    ours: &Content,
    page: &Arc<Page>,
) -> Result<ContentMerge, Problem> {
    let base = match base {
        Some(base) => wiki.database.revision(name, base).await?.and_then(|revision| revision.content),
        None => None,
    };
    let (base, ours, page) = (base.unwrap_or_default(), ours.clone(), Arc::clone(page));
    wiki.work(move || ContentMerge::new(&base, &ours, &page.content)).await
}

fn conflict_problem(status: StatusCode, found: &Found, merged: &ContentMerge) -> Problem {
    let (revision, content, detail) = match found {
        Found::Page(page) => {
            let revision = page.revision;
            let detail = match &page.content.redirect {
                Some(target) => format!("The page redirects to {target} now; send the change to that page."),
                None => {
                    format!("The page is at revision {revision} now; send the merged text with If-Match and its ETag.")
                }
            };
            (revision, page.content.clone(), detail)
        }
        Found::Deleted { .. } | Found::Nothing => {
            let detail = "The page does not exist; send the text with If-None-Match: * to create it.";
            (0, Content::default(), detail.to_owned())
        }
    };
    let tag = (revision > 0).then(|| format!("\"{}\"", page_tag(revision, "j")));
    let Content { text, fields, redirect } = content;
    let is_clean = merged.is_clean() && redirect.is_none();
    let current = json!({ "revision": revision, "etag": tag, "text": text, "fields": fields, "redirect": redirect });
    let merge = json!({ "clean": is_clean, "text": merged.text.text, "fields": merged.fields.fields });
    let mut problem = Problem::new(status, detail);
    problem.members = [("current".to_owned(), current), ("merge".to_owned(), merge)].into_iter().collect();
    problem
}

/// `DELETE /wiki/NAME`.
pub(crate) async fn delete(PageRequest { wiki, visitor, name, uri, headers }: PageRequest) -> HandlerResult {
    let mut parameters = query(&uri);
    let comment = parameters.remove("comment").unwrap_or_default();
    let write =
        wiki.write_of(&visitor, &name, WriteAction::Delete, &comment, parameters.get("author").map(String::as_str));
    match wiki.write_if(write, Demand::of(&headers, revision_of_tag)).await {
        Ok(_) => Ok(StatusCode::NO_CONTENT.into_response()),
        Err(WriteRefusal::Problem(problem)) => Err(problem),
        Err(WriteRefusal::Changed { found: Found::Page(page), .. }) => {
            let detail = format!("The page is at revision {} now.", page.revision);
            Err(Problem::new(StatusCode::PRECONDITION_FAILED, detail))
        }
        Err(WriteRefusal::Changed { .. }) => Err(Problem::not_found(format!("There is no page {name}."))),
    }
}

pub(super) fn html(text: &str) -> Response {
    ([(CONTENT_TYPE, media_type::HTML)], text.to_owned()).into_response()
}

/// `GET /wiki/NAME/edit`.
pub(crate) async fn edit_form(PageRequest { wiki, visitor, name, .. }: PageRequest) -> HandlerResult {
    require_writer(&wiki, &visitor)?;
    let submission = match wiki.database.page(&name).await? {
        Found::Page(page) => Submission {
            field_lines: to_lines(&page.content.fields),
            base: Some(page.revision),
            content: page.content.clone(),
            ..Submission::default()
        },
        _ => Submission { base: Some(0), ..Submission::default() },
    };
    Ok(html(&views::edit(&wiki.frame(&visitor), &name, &submission, None)))
}

/// The form again, with a preview.
async fn preview_form(wiki: &Arc<Wiki>, visitor: &Visitor, name: &Name, submission: &Submission) -> HandlerResult {
    let text = &submission.content.text;
    let missing = missing_links(wiki, text).await?;
    let rendered = wiki.render(text, name, &missing).await?;
    let mut response = html(&views::edit(&wiki.frame(visitor), name, submission, Some(&rendered)));
    if submission.problem.is_some() && !submission.is_preview {
        *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
    }
    Ok(response)
}

/// `POST /preview`: the HTML of a text, for the script of the edit form.
pub(crate) async fn preview(State(wiki): WikiState, body: Body) -> HandlerResult {
    let bytes_max = wiki.settings.page_bytes_max;
    let mut form = read_form(body, form_bytes_max(bytes_max)).await?;
    let name = name(form.get("name").map_or("Preview", String::as_str))?;
    let text = form.remove("text").unwrap_or_default();
    if text.len() > bytes_max {
        return Err(too_large(bytes_max));
    }
    let missing = missing_links(&wiki, &text).await?;
    Ok(html(&wiki.render(&text, &name, &missing).await?.html))
}

/// `GET /new?name=`: redirects to the form of a new page.
pub(crate) async fn new_form(
    State(wiki): WikiState,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
) -> HandlerResult {
    match query(&uri).get("name").filter(|text| !text.trim().is_empty()) {
        Some(text) => {
            let name = name(text)?;
            let exists = matches!(wiki.database.page(&name).await?, Found::Page(_));
            Ok(see_other(&if exists { paths::page(&name) } else { paths::page_part(&name, "edit") }))
        }
        None => Ok(html(&views::new_page(&wiki.frame(&visitor)))),
    }
}

/// `GET /wiki/NAME/rename`.
pub(crate) async fn rename_form(PageRequest { wiki, visitor, name: page, .. }: PageRequest) -> HandlerResult {
    let page = existing(&wiki, &page).await?;
    Ok(html(&views::rename(&wiki.frame(&visitor), &page)))
}

/// `POST /wiki/NAME/rename` with `to`, and optionally `base` and `comment`.
pub(crate) async fn rename(
    PageRequest { wiki, visitor, name: from, headers, .. }: PageRequest,
    body: Body,
) -> HandlerResult {
    let mut form = read_form(body, SMALL_FORM_BYTES).await?;
    let to = name(form.get("to").map_or("", String::as_str))?;
    require_visible(&to)?;
    if to == from {
        return Err(Problem::bad_request("The page already has this name."));
    }
    let comment = form.remove("comment").unwrap_or_default();
    let write = wiki.write_of(
        &visitor,
        &from,
        WriteAction::Rename { to: to.clone() },
        &comment,
        form.get("author").map(String::as_str),
    );
    let committed = by_form(&wiki, write, &form, &headers).await?;
    Ok(saved(&headers, &to, &committed))
}

/// A write from a form that carries the revision that it shows, or else under the conditions of the request.
async fn by_form(
    wiki: &Wiki,
    write: Write,
    form: &HashMap<String, String>,
    headers: &HeaderMap,
) -> Result<Committed, Problem> {
    let (demand, status) = match form.get("base").filter(|base| !base.is_empty()) {
        Some(base) => {
            let base = base.parse().map_err(|_| Problem::bad_request("`base` is not a revision."))?;
            (Demand::of_base(base), StatusCode::CONFLICT)
        }
        None => (Demand::of(headers, revision_of_tag), StatusCode::PRECONDITION_FAILED),
    };
    wiki.write_if(write, demand).await.map_err(|refusal| match refusal {
        WriteRefusal::Problem(problem) => problem,
        WriteRefusal::Changed { found, .. } => Problem { status, ..WriteError::Conflict(found).into() },
    })
}

/// `GET /wiki/NAME/delete`.
pub(crate) async fn delete_form(PageRequest { wiki, visitor, name: page, .. }: PageRequest) -> HandlerResult {
    let page = existing(&wiki, &page).await?;
    let backlinks = wiki.database.backlinks(&page.name, None, super::pages::LINES).await?;
    Ok(html(&views::delete(&wiki.frame(&visitor), &page, &backlinks)))
}

/// `POST /wiki/NAME/delete`, deletion by a form.
pub(crate) async fn delete_by_form(
    PageRequest { wiki, visitor, name, headers, .. }: PageRequest,
    body: Body,
) -> HandlerResult {
    let mut form = read_form(body, SMALL_FORM_BYTES).await?;
    let comment = form.remove("comment").unwrap_or_default();
    let write = wiki.write_of(&visitor, &name, WriteAction::Delete, &comment, form.get("author").map(String::as_str));
    by_form(&wiki, write, &form, &headers).await?;
    Ok(see_other(&paths::page(&name)))
}

/// `POST /wiki/NAME/revert` with `revision`, and optionally `base`: restores the contents of that revision.
pub(crate) async fn revert(PageRequest { wiki, visitor, name, headers, .. }: PageRequest, body: Body) -> HandlerResult {
    let form = read_form(body, SMALL_FORM_BYTES).await?;
    let number: u64 = form
        .get("revision")
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| Problem::bad_request("The field `revision` is missing or not a number."))?;
    let no_text = || Problem::not_found(format!("Revision {number} of {name} is a deletion and has no text."));
    let content: Content = existing_revision(&wiki, &name, number).await?.content.ok_or_else(no_text)?;
    let links = links(&content.text).await?;
    let comment = format!("Revert to revision {number}");
    let write = wiki.write_of(
        &visitor,
        &name,
        WriteAction::Save { content, links },
        &comment,
        form.get("author").map(String::as_str),
    );
    let committed = by_form(&wiki, write, &form, &headers).await?;
    Ok(saved(&headers, &name, &committed))
}
