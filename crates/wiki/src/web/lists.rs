//! Lists, searches, feeds.

use std::fmt::Write;

use axum::extract::{Extension, State};
use axum::response::Response;
use breme_http::media_type;
use breme_wiki_database::keys;
use breme_wiki_database::name::Name;
use breme_wiki_database::page::{Change, Found};
use bytes::Bytes;
use http::{HeaderMap, Uri};
use serde_json::{Value, json};

use super::pages::{LINES, first_lines, wants_json};
use super::problem::Problem;
use super::state::{HandlerResult, WikiState};
use super::submission::query;
use super::validators::Representation;
use super::visitor::Visitor;
use crate::calendar::rfc3339;
use crate::render::escape;
use crate::{paths, views};

/// Limits of the results of a search by titles, and by texts or fields.
const TITLES_MAX: usize = 20;
const TEXTS_MAX: usize = 50;
const SUGGESTIONS_MAX: usize = 10;
/// Number of entries of the feed.
const ENTRIES: usize = 50;
/// Limit of a search text, in characters.
const QUERY_CHARS_MAX: usize = 200;

fn keys_of(key: &str) -> Vec<String> {
    vec![key.to_owned(), keys::TEMPLATES.to_owned()]
}

/// `GET /pages?after=NAME`.
pub(crate) async fn pages(
    State(wiki): WikiState,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
    headers: HeaderMap,
) -> HandlerResult {
    let after = query(&uri).get("after").and_then(|after| Name::parse(after).ok());
    let (names, has_more) = first_lines(wiki.database.list(after.as_ref(), LINES + 1).await?);
    if wants_json(&headers, &uri) {
        let next = names.last().filter(|_| has_more);
        let value = json!({ "pages": names, "next": next });
        return Ok(wiki.show_json(&headers, &visitor, &value, keys_of(keys::LISTS)));
    }
    let html = views::all_pages(&wiki.frame(&visitor), &names, after.as_ref(), has_more);
    Ok(wiki.show(&headers, &visitor, html, keys_of(keys::LISTS)))
}

/// `GET /recent?before=SEQUENCE`.
pub(crate) async fn recent(
    State(wiki): WikiState,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
    headers: HeaderMap,
) -> HandlerResult {
    let before = query(&uri).get("before").map(|before| before.parse());
    let before = before.transpose().map_err(|_| Problem::bad_request("`before` is not a number."))?;
    let (changes, has_more) = first_lines(wiki.database.recent(before, LINES + 1).await?);
    if wants_json(&headers, &uri) {
        return Ok(wiki.show_json(&headers, &visitor, &views::changes_json(&changes), keys_of(keys::CHANGES)));
    }
    let html = views::recent(&wiki.frame(&visitor), &changes, has_more);
    Ok(wiki.show(&headers, &visitor, html, keys_of(keys::CHANGES)))
}

/// `GET /recent.atom` (RFC 4287).
pub(crate) async fn feed(
    State(wiki): WikiState,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
    headers: HeaderMap,
) -> HandlerResult {
    let changes = wiki.database.recent(None, ENTRIES).await?;
    let text = atom(&wiki.settings.title, &wiki.base_url(&headers, &uri), &changes);
    let mut feed = Representation::digested(
        "application/atom+xml; charset=utf-8",
        text.into(),
        keys_of(keys::CHANGES),
        wiki.audience(&visitor),
    );
    feed.modified = changes.first().map(|change| change.time);
    Ok(feed.respond(&headers, &wiki.settings.cache_control))
}

fn atom(title: &str, base: &str, changes: &[Change]) -> String {
    let updated = rfc3339(changes.first().map_or(0, |change| change.time));
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<feed xmlns=\"http://www.w3.org/2005/Atom\">\n\
         <title>{title}: recent changes</title>\n<id>{base}/recent.atom</id>\n<updated>{updated}</updated>\n\
         <link rel=\"self\" href=\"{base}/recent.atom\"/>\n<link href=\"{base}/recent\"/>\n\
         <author><name>{title}</name></author>\n",
        title = xml(title),
        base = xml(base),
    );
    for change in changes {
        let (title, path) = match &change.file {
            Some(file) => {
                let path =
                    format!("{}/history#change-{}", paths::attachment(&change.name, &file.name), change.sequence);
                (format!("{}: {}", change.name, file.name), path)
            }
            None => {
                let path = paths::page_part(&change.name, &format!("revisions/{}", change.revision));
                (change.name.to_string(), path)
            }
        };
        let url = format!("{base}{path}");
        let kind = if views::is_erased(change) { "erased" } else { views::kind(change) };
        let author = views::author(change).map(|author| format!("<author><name>{}</name></author>\n", xml(author)));
        // Writing into a string cannot fail.
        let _ = write!(
            text,
            "<entry>\n<title>{} ({kind})</title>\n<id>{url}</id>\n<updated>{}</updated>\n<link href=\"{url}\"/>\n\
             {}<summary>{}</summary>\n</entry>\n",
            xml(&title),
            rfc3339(change.time),
            author.unwrap_or_default(),
            xml(&change.comment),
            url = xml(&url),
        );
    }
    text + "</feed>\n"
}

/// `text` as text of XML 1.0, which cannot contain control characters, not even escaped.
fn xml(text: &str) -> String {
    let is_allowed = |c: char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}');
    let allowed: String = text.chars().map(|c| if is_allowed(c) { c } else { ' ' }).collect();
    escape(&allowed)
}

/// `GET /search?q=WORDS`, or `?field=PATH&value=VALUE`.
pub(crate) async fn search(
    State(wiki): WikiState,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
    headers: HeaderMap,
) -> HandlerResult {
    let parameters = query(&uri);
    let text = |key: &str| -> String {
        parameters.get(key).map(|text| text.trim().chars().take(QUERY_CHARS_MAX).collect()).unwrap_or_default()
    };
    let (words, path, value) = (text("q"), text("field"), text("value"));
    let (mut titles, mut texts, mut exists) = (Vec::new(), Vec::new(), false);
    if !path.is_empty() {
        let wanted = serde_json::from_str(&value).unwrap_or_else(|_| Value::from(value.as_str()));
        let wanted = Some(&wanted).filter(|_| !value.is_empty());
        texts = wiki.database.search_fields(&path, wanted, TEXTS_MAX).await?;
    } else if !words.is_empty() {
        titles = wiki.database.search_titles(&words, TITLES_MAX).await?;
        texts = wiki.database.search_text(&words, TEXTS_MAX).await?;
        if let Ok(name) = Name::parse(&words) {
            exists = matches!(wiki.database.page(&name).await?, Found::Page(_));
        }
    }
    let keys = vec![keys::CHANGES.to_owned(), keys::LISTS.to_owned(), keys::TEMPLATES.to_owned()];
    if wants_json(&headers, &uri) {
        let value = json!({ "titles": titles, "texts": texts });
        return Ok(wiki.show_json(&headers, &visitor, &value, keys));
    }
    let wanted = views::Search { words: &words, path: &path, value: &value };
    let html = views::search(&wiki.frame(&visitor), &wanted, &titles, &texts, exists);
    Ok(wiki.show(&headers, &visitor, html, keys))
}

/// `GET /suggest?q=TEXT`: names that contain it, in the format of OpenSearch suggestions.
pub(crate) async fn suggest(
    State(wiki): WikiState,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let words: String = query(&uri).remove("q").unwrap_or_default().chars().take(QUERY_CHARS_MAX).collect();
    let matches = match words.trim().is_empty() {
        true => Vec::new(),
        false => wiki.database.search_titles(words.trim(), SUGGESTIONS_MAX).await?,
    };
    let names: Vec<Name> = matches.into_iter().map(|found| found.name).collect();
    let body = Bytes::from(format!("{}\n", json!([words, names])));
    let keys = vec![keys::LISTS.to_owned()];
    let suggestions = Representation::digested(media_type::JSON, body, keys, wiki.audience(&visitor));
    Ok(suggestions.respond(&headers, &wiki.settings.cache_control))
}

#[cfg(test)]
mod tests {
    use breme_wiki_database::page::ChangeKind;

    use super::*;

    #[test]
    fn a_feed_is_xml() {
        let change = Change {
            sequence: 1,
            name: Name::parse("A & B").unwrap(),
            revision: 3,
            kind: ChangeKind::Edited,
            time: 0,
            author: None,
            comment: "<b>\u{7}\"".into(),
            bytes: 1,
            erased: None,
            file: None,
        };
        let text = atom("T<", "http://x", &[change]);
        assert!(
            text.contains("<title>A &amp; B (edited)</title>") && text.contains("<summary>&lt;b&gt; &quot;</summary>")
        );
        assert!(text.contains("<id>http://x/wiki/A_%26_B/revisions/3</id>") && text.contains("<title>T&lt;: recent"));
    }
}
