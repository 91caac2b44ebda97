//! Pages, revisions, differences.

use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::response::Response;
use breme_http::media_type;
use breme_wiki_database::keys;
use breme_wiki_database::name::Name;
use breme_wiki_database::page::{Content, Found, Page, Revision};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use serde_json::json;

use super::addresses::{PageRequest, name, redirect};
use super::negotiation::{Format, negotiate};
use super::path::Path;
use super::problem::Problem;
use super::state::{HandlerResult, Wiki, WikiState};
use super::submission::query;
use super::validators::{Audience, Representation, SURROGATE_KEY, digest, insert, page_tag};
use super::visitor::Visitor;
use crate::calendar::{day_and_time, rfc3339};
use crate::fields::to_markdown;
use crate::merge::diff;
use crate::{paths, render, views};

/// Entries per list.
pub(crate) const LINES: usize = 100;

/// The first [`LINES`] entries of a list, and whether there are more: one more is requested.
pub(crate) fn first_lines<T>(mut list: Vec<T>) -> (Vec<T>, bool) {
    let has_more = list.len() > LINES;
    list.truncate(LINES);
    (list, has_more)
}

/// Representations of pages and their revisions; the first is the default.
pub(super) const FORMATS: [Format; 3] = [Format::Html, Format::Markdown, Format::Json];

/// Limit of the links that are looked up in a text other than the current one.
const LOOKUPS_MAX: usize = 100;

/// `GET /wiki/NAME`.
pub(crate) async fn page(
    State(wiki): WikiState,
    Extension(visitor): Extension<Visitor>,
    Path(text): Path<String>,
    request: Request,
) -> HandlerResult {
    // Takes its headers instead of copying them.
    let (Parts { uri, headers, .. }, _) = request.into_parts();
    let parameters = query(&uri);
    let mut name = name(&text)?;
    let mut format = match parameters.get("format") {
        Some(word) => Some(Format::from_word(word).ok_or_else(|| {
            Problem::bad_request(format!("There is no format {word:?}; choose html, markdown or json."))
        })?),
        None => None,
    };
    let mut found = wiki.database.page(&name).await?;
    let mut other_name = None;
    // `/wiki/NAME.md`, unless a page has exactly that name.
    if !matches!(found, Found::Page(_))
        && let Some((base, suffix)) = by_suffix(&text)
    {
        let other = wiki.database.page(&base).await?;
        if matches!(other, Found::Page(_)) {
            other_name = Some(name);
            (name, found, format) = (base, other, format.or(Some(suffix)));
        } else {
            other_name = Some(base);
        }
    } else if let Some(canonical) = canonical(&text, &name, &uri) {
        return Ok(canonical);
    }
    let chosen = format.unwrap_or_else(|| negotiate(&headers, &FORMATS));
    let is_chosen_by_accept = format.is_none();
    let mut response = match found {
        Found::Page(page) => match &page.content.redirect {
            // A redirect to itself would never end.
            Some(target) if *target != page.name && parameters.get("redirect").is_none_or(|word| word != "no") => {
                to_target(&wiki, &visitor, &page, target, format)
            }
            _ => present(&wiki, &visitor, &headers, &page, chosen, is_chosen_by_accept).await?,
        },
        absent => missing(&wiki, &visitor, &headers, &name, &absent, chosen),
    };
    if let Some(other) = other_name {
        add_key(&mut response, &keys::page(&other));
    }
    Ok(response)
}

/// Adds a surrogate key to a response that shared caches may store: it depends on another page, too.
fn add_key(response: &mut Response, key: &str) {
    let headers = response.headers_mut();
    let keys = headers.get(SURROGATE_KEY).and_then(|keys| keys.to_str().ok());
    if let Some(keys) = keys.map(|keys| format!("{keys} {key}")) {
        insert(headers, SURROGATE_KEY, &keys);
    }
}

fn by_suffix(text: &str) -> Option<(Name, Format)> {
    let (base, suffix) = text.rsplit_once('.')?;
    let format = match suffix {
        "md" => Format::Markdown,
        "json" => Format::Json,
        _ => return None,
    };
    Some((Name::parse(base).ok()?, format))
}

/// Redirects other spellings to the canonical address of a page.
fn canonical(text: &str, name: &Name, uri: &Uri) -> Option<Response> {
    if is_canonical(text, name) {
        return None;
    }
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    Some(redirect(StatusCode::PERMANENT_REDIRECT, &format!("{}{query}", paths::page(name))))
}

/// Whether the text is the canonical spelling of the name in an address.
pub(super) fn is_canonical(text: &str, name: &Name) -> bool {
    let written = name.as_str().bytes().map(|byte| if byte == b' ' { b'_' } else { byte });
    written.eq(text.bytes())
}

fn to_target(wiki: &Wiki, visitor: &Visitor, page: &Page, target: &Name, format: Option<Format>) -> Response {
    let query = match format {
        Some(Format::Markdown) => "?format=markdown",
        Some(Format::Json) => "?format=json",
        _ => "",
    };
    let mut response = redirect(StatusCode::FOUND, &format!("{}{query}", paths::page(target)));
    let headers = response.headers_mut();
    if wiki.audience(visitor) == Audience::Everybody {
        headers.insert(http::header::CACHE_CONTROL, wiki.settings.cache_control.clone());
        insert(headers, SURROGATE_KEY, &format!("{} {}", keys::EVERYTHING, keys::page(&page.name)));
    }
    response
}

async fn present(
    wiki: &Arc<Wiki>,
    visitor: &Visitor,
    headers: &HeaderMap,
    page: &Page,
    format: Format,
    is_chosen_by_accept: bool,
) -> HandlerResult {
    let mut audience = wiki.audience(visitor);
    if format != Format::Html && audience == Audience::One && wiki.settings.readers == crate::settings::Readers::Anyone
    {
        // Only HTML greets the user.
        audience = Audience::Everybody;
    }
    let (body, tag) = match format {
        Format::Html => {
            let html = wiki.document(visitor, page).await?;
            let html = html_of(wiki, page, html, visitor.user(), audience, is_chosen_by_accept);
            return Ok(html.respond(headers, &wiki.settings.cache_control));
        }
        Format::Markdown => (Bytes::from(to_markdown(&page.content)), "m"),
        Format::Json => (Bytes::from(page_json(page)), "j"),
    };
    let representation = Representation {
        media_type: HeaderValue::from_static(format.media_type()),
        body,
        tag: page_tag(page.revision, tag),
        modified: Some(page.modified),
        is_dated: true,
        keys: vec![keys::page(&page.name)],
        audience,
        vary: if is_chosen_by_accept { "Accept" } else { "" },
    };
    Ok(representation.respond(headers, &wiki.settings.cache_control))
}

/// A page as HTML that greets `user`.
pub(super) fn html_of(
    wiki: &Wiki,
    page: &Page,
    html: Bytes,
    user: Option<&str>,
    audience: Audience,
    is_chosen_by_accept: bool,
) -> Representation {
    let own = user.map(|user| format!("-{}", digest(user.as_bytes()))).unwrap_or_default();
    Representation {
        media_type: HeaderValue::from_static(Format::Html.media_type()),
        body: html,
        tag: page_tag(page.revision, &format!("l{}-{}{own}-h", page.links_version, wiki.template())),
        modified: Some(page.modified),
        is_dated: false,
        keys: vec![keys::page(&page.name), keys::TEMPLATES.to_owned()],
        audience,
        vary: if is_chosen_by_accept { wiki.vary("Accept", "Accept, Cookie") } else { wiki.vary("", "Cookie") },
    }
}

fn page_json(page: &Page) -> String {
    let Content { text, fields, redirect } = &page.content;
    let value = json!({
        "name": page.name,
        "revision": page.revision,
        "modified": rfc3339(page.modified),
        "text": text,
        "fields": fields,
        "redirect": redirect,
    });
    format!("{value}\n")
}

fn missing(
    wiki: &Wiki,
    visitor: &Visitor,
    headers: &HeaderMap,
    name: &Name,
    found: &Found,
    format: Format,
) -> Response {
    let is_deleted = matches!(found, Found::Deleted { .. });
    let (media_type, body) = if format == Format::Html {
        (media_type::HTML, views::missing(&wiki.frame(visitor), name, is_deleted))
    } else {
        let detail = if is_deleted { "The page has been deleted." } else { "There is no page with this name." };
        ("application/problem+json", format!("{}\n", Problem::not_found(detail).to_json()))
    };
    let keys = vec![keys::page(name), keys::TEMPLATES.to_owned()];
    let mut page = Representation::digested(media_type, body.into(), keys, wiki.audience(visitor));
    page.vary = wiki.vary("Accept", "Accept, Cookie");
    // A condition refers to the page, which does not exist.
    let mut unconditional = headers.clone();
    unconditional.remove(http::header::IF_NONE_MATCH);
    let mut response = page.respond(&unconditional, &wiki.settings.cache_control);
    response.headers_mut().remove(http::header::ETAG);
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

pub(crate) async fn existing(wiki: &Wiki, name: &Name) -> Result<Arc<Page>, Problem> {
    match wiki.database.page(name).await? {
        Found::Page(page) => Ok(page),
        _ => Err(Problem::not_found(format!("There is no page {name}."))),
    }
}

/// The links of a text whose targets do not exist.
pub(crate) async fn missing_links(wiki: &Wiki, text: &str) -> Result<Vec<Name>, Problem> {
    let mut missing = Vec::new();
    for name in render::links(text).into_iter().take(LOOKUPS_MAX) {
        if !matches!(wiki.database.page(&name).await?, Found::Page(_)) {
            missing.push(name);
        }
    }
    Ok(missing)
}

pub(super) fn number(text: Option<&String>, what: &str) -> Result<Option<u64>, Problem> {
    let parse = |text: &String| text.parse().map_err(|_| Problem::bad_request(format!("`{what}` is not a number.")));
    text.filter(|text| !text.is_empty()).map(parse).transpose()
}

/// `GET /wiki/NAME/history?before=REVISION&sequence=SEQUENCE`.
pub(crate) async fn history(PageRequest { wiki, visitor, name, uri, headers }: PageRequest) -> HandlerResult {
    let parameters = query(&uri);
    let before = number(parameters.get("before"), "before")?;
    let sequence = number(parameters.get("sequence"), "sequence")?.unwrap_or(0);
    let place = before.map(|revision| (revision, sequence));
    let (changes, has_more) = first_lines(wiki.database.history(&name, place, LINES + 1).await?);
    if changes.is_empty() && before.is_none() {
        return Err(Problem::not_found(format!("There has never been a page {name}.")));
    }
    let keys = vec![keys::page(&name), keys::TEMPLATES.to_owned()];
    if wants_json(&headers, &uri) {
        return Ok(wiki.show_json(&headers, &visitor, &views::changes_json(&changes), keys));
    }
    let html = views::history(&wiki.frame(&visitor), &name, &changes, before.is_none(), has_more);
    Ok(wiki.show(&headers, &visitor, html, keys))
}

/// Whether the request prefers a list as JSON.
pub(crate) fn wants_json(headers: &HeaderMap, uri: &Uri) -> bool {
    match query(uri).get("format").and_then(|word| Format::from_word(word)) {
        Some(format) => format == Format::Json,
        None => negotiate(headers, &[Format::Html, Format::Json]) == Format::Json,
    }
}

/// `GET /wiki/NAME/revisions/N`.
pub(crate) async fn revision(
    State(wiki): WikiState,
    Extension(visitor): Extension<Visitor>,
    Path((text, number)): Path<(String, u64)>,
    uri: Uri,
    headers: HeaderMap,
) -> HandlerResult {
    let name = name(&text)?;
    let revision = existing_revision(&wiki, &name, number).await?;
    let format = query(&uri).get("format").and_then(|word| Format::from_word(word));
    let format = format.unwrap_or_else(|| negotiate(&headers, &FORMATS));
    let mut keys = vec![keys::page(&name), keys::TEMPLATES.to_owned()];
    let content = revision.content.clone().unwrap_or_default();
    match format {
        Format::Html => {
            let red_links = missing_links(&wiki, &content.text).await?;
            let rendered = wiki.render(&content.text, &name, &red_links).await?;
            let current = match wiki.database.page(&name).await? {
                Found::Page(page) => Some(page.revision),
                _ => None,
            };
            let html = views::revision(&wiki.frame(&visitor), &revision, &rendered, current);
            // Its links are red or not, as pages appear and disappear.
            keys.push(keys::LISTS.to_owned());
            Ok(wiki.show(&headers, &visitor, html, keys))
        }
        Format::Markdown => {
            let mut page = Representation::digested(
                Format::Markdown.media_type(),
                to_markdown(&content).into(),
                keys,
                wiki.audience(&visitor),
            );
            page.vary = "Accept";
            Ok(page.respond(&headers, &wiki.settings.cache_control))
        }
        Format::Json => {
            let mut value = json!(revision.change);
            value["time"] = rfc3339(revision.change.time).into();
            value["text"] = json!(revision.content.as_ref().map(|content| &content.text));
            value["fields"] = json!(content.fields);
            Ok(wiki.show_json(&headers, &visitor, &value, keys))
        }
    }
}

/// A revision that was not erased.
pub(super) async fn existing_revision(wiki: &Wiki, name: &Name, number: u64) -> Result<Revision, Problem> {
    let none = || Problem::not_found(format!("There is no revision {number} of {name}."));
    let revision = wiki.database.revision(name, number).await?.ok_or_else(none)?;
    match revision.change.erased {
        Some(time) => {
            let detail = format!("Revision {number} of {name} was erased on {}.", day_and_time(time).0);
            Err(Problem::new(StatusCode::GONE, detail))
        }
        None => Ok(revision),
    }
}

/// `GET /wiki/NAME/diff?from=N&to=M&by=words|lines`.
pub(crate) async fn difference(PageRequest { wiki, visitor, name, uri, headers }: PageRequest) -> HandlerResult {
    let parameters = query(&uri);
    let newest = wiki.database.history(&name, None, 1).await?.first().map_or(0, |change| change.revision);
    let to = number(parameters.get("to"), "to")?.unwrap_or(newest);
    let from = match number(parameters.get("from"), "from")? {
        Some(from) => Some(from),
        None => preceding(&wiki, &name, to).await?,
    };
    let by_words = parameters.get("by").is_none_or(|by| by != "lines");
    let (old, new) = (content_of(&wiki, &name, from.unwrap_or(0)).await?, content_of(&wiki, &name, to).await?);
    let (old, new) =
        (old.map(|c| to_markdown(&c)).unwrap_or_default(), new.map(|c| to_markdown(&c)).unwrap_or_default());
    let groups = wiki.work(move || diff(&old, &new, by_words)).await?;
    let next = following(&wiki, &name, to, newest).await?;
    let compared = views::Compared { from, to, next, is_current: to == newest, by_words };
    let html = views::difference(&wiki.frame(&visitor), &name, &compared, &groups);
    Ok(wiki.show(&headers, &visitor, html, vec![keys::page(&name), keys::TEMPLATES.to_owned()]))
}

/// The newest revision before `to` that was not erased; `None` if they were, 0 if there is none. The first revision of
/// a redirect is not 1.
async fn preceding(wiki: &Wiki, name: &Name, to: u64) -> Result<Option<u64>, Problem> {
    let history = wiki.database.history(name, Some((to, 0)), LINES).await?;
    if let Some(kept) = history.iter().find(|change| change.file.is_none() && change.erased.is_none()) {
        return Ok(Some(kept.revision));
    }
    let Some(last) = history.first() else { return Ok(Some(0)) };
    // All of these changes may be to files.
    Ok(is_kept(wiki, name, last.revision).await?.then_some(last.revision))
}

/// The first revision after `number`, up to `newest`, that was not erased; none if more than [`LINES`] were.
async fn following(wiki: &Wiki, name: &Name, number: u64, newest: u64) -> Result<Option<u64>, Problem> {
    for next in (number..newest).map(|number| number + 1).take(LINES) {
        if is_kept(wiki, name, next).await? {
            return Ok(Some(next));
        }
    }
    Ok(None)
}

/// Whether a revision exists and was not erased.
async fn is_kept(wiki: &Wiki, name: &Name, number: u64) -> Result<bool, Problem> {
    let revision = wiki.database.revision(name, number).await?;
    Ok(revision.is_some_and(|revision| revision.change.erased.is_none()))
}

/// The contents of a revision; none of a deletion, and of revision 0, before the first one.
async fn content_of(wiki: &Wiki, name: &Name, revision: u64) -> Result<Option<Content>, Problem> {
    if revision == 0 {
        return Ok(None);
    }
    Ok(existing_revision(wiki, name, revision).await?.content)
}

/// `GET /wiki/NAME/backlinks`.
pub(crate) async fn backlinks(PageRequest { wiki, visitor, name, uri, headers }: PageRequest) -> HandlerResult {
    let after = query(&uri).get("after").and_then(|after| Name::parse(after).ok());
    let (names, has_more) = first_lines(wiki.database.backlinks(&name, after.as_ref(), LINES + 1).await?);
    // Any change may add a link.
    let keys = vec![keys::CHANGES.to_owned(), keys::LISTS.to_owned(), keys::TEMPLATES.to_owned()];
    if wants_json(&headers, &uri) {
        return Ok(wiki.show_json(&headers, &visitor, &json!(names), keys));
    }
    let html = views::backlinks(&wiki.frame(&visitor), &name, &names, has_more);
    Ok(wiki.show(&headers, &visitor, html, keys))
}
