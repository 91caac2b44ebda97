//! Bodies of requests.

use std::collections::HashMap;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use breme_http::media_type::{FORM, JSON, essence};
use breme_wiki_database::page::{Content, Fields};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode, Uri};
use serde::Deserialize;

use super::problem::Problem;
use crate::fields::{check, from_markdown, parse_lines};

/// Time limit for the arrival of a body.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Size of a form relative to its text: percent encoding triples every byte.
const FORM_FACTOR: usize = 3;
/// Size of JSON relative to its text: an escaped character of one byte has six.
const JSON_FACTOR: usize = 6;
const FORM_BYTES_BESIDES: usize = 64 * 1024;
/// Limit of a change's comment and of an author's name, in characters.
const COMMENT_CHARS_MAX: usize = 500;
const AUTHOR_CHARS_MAX: usize = 80;

/// A new text for a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Submission {
    pub(crate) content: Content,
    pub(crate) comment: String,
    /// The name given by an anonymous author.
    pub(crate) author: Option<String>,
    /// The revision with which the form was opened; 0 for a page that did not exist.
    pub(crate) base: Option<u64>,
    /// The text of the form's fields, as typed.
    pub(crate) field_lines: String,
    /// Why the fields are invalid.
    pub(crate) problem: Option<String>,
    /// Whether only a preview is requested.
    pub(crate) is_preview: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    text: String,
    #[serde(default)]
    fields: Fields,
    #[serde(default)]
    comment: String,
    author: Option<String>,
}

/// Reads a body of at most `bytes_max` bytes.
pub(crate) async fn read_body(body: Body, bytes_max: usize) -> Result<Bytes, Problem> {
    match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, bytes_max)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => {
            use std::error::Error;
            let is_too_long = error.source().is_some_and(|source| source.is::<http_body_util::LengthLimitError>());
            Err(match is_too_long {
                true => too_large(bytes_max),
                false => Problem::bad_request("The body ended early."),
            })
        }
        Err(_) => Err(late()),
    }
}

pub(crate) fn late() -> Problem {
    Problem::new(StatusCode::REQUEST_TIMEOUT, "The body did not arrive in time.")
}

pub(crate) fn too_large(bytes_max: usize) -> Problem {
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, format!("The limit is {bytes_max} bytes."))
}

/// A form's pairs; of several with one key, the last.
pub(crate) async fn read_form(body: Body, bytes_max: usize) -> Result<HashMap<String, String>, Problem> {
    Ok(pairs(&read_body(body, bytes_max).await?))
}

/// The parameters of a query.
pub(crate) fn query(uri: &Uri) -> HashMap<String, String> {
    pairs(uri.query().unwrap_or_default().as_bytes())
}

fn pairs(text: &[u8]) -> HashMap<String, String> {
    form_urlencoded::parse(text).map(|(key, value)| (key.into_owned(), value.into_owned())).collect()
}

/// Limit of a form with the text of a page.
pub(crate) fn form_bytes_max(page_bytes_max: usize) -> usize {
    page_bytes_max * FORM_FACTOR + FORM_BYTES_BESIDES
}

/// Reads a new text: `text=` of a form, JSON, or plain Markdown.
pub(crate) async fn read_submission(
    headers: &HeaderMap,
    uri: &Uri,
    body: Body,
    page_bytes_max: usize,
) -> Result<Submission, Problem> {
    let media_type = headers.get(CONTENT_TYPE).map_or(&b""[..], |value| essence(value.as_bytes()));
    let is = |other: &str| media_type.eq_ignore_ascii_case(other.as_bytes());
    let mut submission = if is(FORM) {
        let form = read_form(body, form_bytes_max(page_bytes_max)).await?;
        from_form(form, headers)?
    } else if is(JSON) {
        let bytes = read_body(body, page_bytes_max * JSON_FACTOR + FORM_BYTES_BESIDES).await?;
        let Json { text, fields, comment, author } = serde_json::from_slice(&bytes).map_err(|error| {
            Problem::bad_request(format!(
                "Expected {{\"text\": \"…\", \"fields\": {{…}}, \"comment\": \"…\"}}: {error}."
            ))
        })?;
        Submission { content: Content { text, fields, redirect: None }, comment, author, ..Submission::default() }
    } else if is("multipart/form-data") {
        let detail = "Send a text as application/x-www-form-urlencoded, application/json or text/markdown.";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    } else {
        let bytes = read_body(body, page_bytes_max + FORM_BYTES_BESIDES).await?;
        let text = String::from_utf8(bytes.into()).map_err(|_| Problem::bad_request("The text is not UTF-8."))?;
        Submission { content: from_markdown(&text), ..Submission::default() }
    };
    let mut query = query(uri);
    if let Some(comment) = query.remove("comment") {
        submission.comment = comment;
    }
    submission.author = submission.author.or(query.remove("author"));
    tidy(&mut submission, page_bytes_max)?;
    Ok(submission)
}

fn from_form(mut form: HashMap<String, String>, headers: &HeaderMap) -> Result<Submission, Problem> {
    let text = form.remove("text").ok_or_else(|| {
        let hint = if headers.contains_key("user-agent") {
            " With curl, send it with --data-urlencode text=… or text@FILE."
        } else {
            ""
        };
        Problem::bad_request(format!("The form has no field `text`.{hint}"))
    })?;
    let field_lines = form.remove("fields").unwrap_or_default();
    let fields = parse_lines(&field_lines);
    let base = form.remove("base").filter(|base| !base.is_empty());
    let base = base.map(|base| base.parse().map_err(|_| Problem::bad_request("`base` is not a revision.")));
    Ok(Submission {
        problem: fields.as_ref().err().map(|error| format!("{error}.")),
        content: Content { text, fields: fields.unwrap_or_default(), redirect: None },
        comment: form.remove("comment").unwrap_or_default(),
        author: form.remove("author"),
        base: base.transpose()?,
        field_lines,
        is_preview: form.get("action").is_some_and(|action| action == "preview"),
    })
}

fn tidy(submission: &mut Submission, page_bytes_max: usize) -> Result<(), Problem> {
    let Submission { content, .. } = submission;
    check(&content.fields).map_err(|error| Problem::bad_request(format!("The fields are not valid: {error}.")))?;
    if content.text.contains('\r') {
        // Browsers send forms with CR LF.
        content.text = content.text.replace("\r\n", "\n").replace('\r', "\n");
    }
    if content.text.contains('\0') {
        // PostgreSQL cannot store NUL, and no text needs it.
        content.text = content.text.replace('\0', "\u{fffd}");
    }
    let fields =
        if content.fields.is_empty() { 0 } else { serde_json::to_vec(&content.fields).map_or(0, |text| text.len()) };
    if content.text.len() + fields > page_bytes_max {
        return Err(too_large(page_bytes_max));
    }
    Ok(())
}

/// A comment as it is stored.
pub(crate) fn tidy_comment(comment: &str) -> String {
    one_line(comment, COMMENT_CHARS_MAX)
}

/// An author's name as it is stored; none if it is empty.
pub(crate) fn tidy_author(author: &str) -> Option<String> {
    Some(one_line(author, AUTHOR_CHARS_MAX)).filter(|author| !author.is_empty())
}

fn one_line(text: &str, chars_max: usize) -> String {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(chars_max).collect()
}
