//! Attachments.
//!
//! Uploads must never run in the wiki's origin: only images, audio, video and plain text are displayed, everything else
//! is downloaded; the type is derived from the name, never from the uploader, browsers must not guess another
//! (nosniff), and the policy of the response allows nothing at all.

use axum::body::Body;
use axum::extract::{Extension, Multipart, Path, State};
use axum::response::{IntoResponse, Response};
use breme_http::media_type::{OCTET_STREAM, from_name};
use breme_wiki_database::keys;
use breme_wiki_database::name::Name;
use breme_wiki_database::page::WriteAction;
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY};
use http::{HeaderMap, HeaderValue, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use tokio::time::timeout;

use super::addresses::{PageRequest, name, see_other};
use super::changes::json_response;
use super::negotiation::names_html;
use super::pages::{existing, wants_json};
use super::problem::Problem;
use super::state::{HandlerResult, Wiki, WikiState};
use super::submission::{BODY_TIMEOUT, late, read_body, too_large};
use super::validators::{Representation, insert};
use super::visitor::Visitor;
use crate::{paths, views};

/// Extensions of files that browsers may display.
const SHOWN: [&str; 13] =
    ["png", "jpg", "jpeg", "gif", "webp", "avif", "mp3", "ogg", "wav", "mp4", "webm", "txt", "log"];
/// Extensions of other files that have a media type. All others are [`OCTET_STREAM`], so that no browser runs them.
const SAVED: [&str; 10] = ["csv", "md", "json", "pdf", "svg", "zip", "docx", "xlsx", "odt", "ods"];

/// The media type of a file of that name.
#[must_use]
pub(crate) fn media_type(file: &Name) -> &'static str {
    if has_extension(file, &SHOWN) || has_extension(file, &SAVED) { from_name(file.as_str()) } else { OCTET_STREAM }
}

fn has_extension(file: &Name, extensions: &[&str]) -> bool {
    let extension = file.as_str().rsplit_once('.').map_or("", |(_, extension)| extension);
    extensions.iter().any(|one| extension.eq_ignore_ascii_case(one))
}

impl Wiki {
    async fn attach(&self, visitor: &Visitor, page: &Name, file: &Name, bytes: Bytes) -> Result<(), Problem> {
        let action = WriteAction::Attach { file: file.clone(), media_type: media_type(file).to_owned(), bytes };
        self.change_file(visitor, page, action).await
    }

    async fn change_file(&self, visitor: &Visitor, page: &Name, action: WriteAction) -> Result<(), Problem> {
        self.write(self.write_of(visitor, page, action, "", None)).await?;
        Ok(())
    }
}

/// `GET /wiki/NAME/files`.
pub(crate) async fn list(PageRequest { wiki, visitor, name: page, uri, headers }: PageRequest) -> HandlerResult {
    let page = existing(&wiki, &page).await?;
    let files = wiki.database.attachments(&page.name).await?;
    let keys = vec![keys::page(&page.name), keys::TEMPLATES.to_owned()];
    if wants_json(&headers, &uri) {
        return Ok(wiki.show_json(&headers, &visitor, &json!(files), keys));
    }
    let html = views::files(&wiki.frame(&visitor), &page.name, &files, wiki.settings.attachment_bytes_max);
    Ok(wiki.show(&headers, &visitor, html, keys))
}

/// `POST /wiki/NAME/files`: the files of a form.
pub(crate) async fn upload(
    PageRequest { wiki, visitor, name: page, headers, .. }: PageRequest,
    form: Multipart,
) -> HandlerResult {
    let page = existing(&wiki, &page).await?;
    let files = timeout(BODY_TIMEOUT, attach_all(&wiki, &visitor, &page.name, form)).await;
    let files = files.unwrap_or_else(|_| Err(late()))?;
    if names_html(&headers) {
        return Ok(see_other(&paths::page_part(&page.name, "files")));
    }
    Ok(json_response(StatusCode::CREATED, &json!({ "files": files })))
}

async fn attach_all(wiki: &Wiki, visitor: &Visitor, page: &Name, mut form: Multipart) -> Result<Vec<Name>, Problem> {
    let fault = |error: axum::extract::multipart::MultipartError| {
        Problem::bad_request(format!("The form cannot be read: {error}."))
    };
    let mut files = Vec::new();
    while let Some(mut field) = form.next_field().await.map_err(fault)? {
        let Some(file) = field.file_name().filter(|file| !file.is_empty()) else { continue };
        // Old browsers send a whole path.
        let file = name(file.rsplit(['/', '\\']).next().unwrap_or_default())?;
        let mut bytes = BytesMut::new();
        while let Some(chunk) = field.chunk().await.map_err(fault)? {
            if bytes.len() + chunk.len() > wiki.settings.attachment_bytes_max {
                return Err(too_large(wiki.settings.attachment_bytes_max));
            }
            bytes.extend_from_slice(&chunk);
        }
        wiki.attach(visitor, page, &file, bytes.freeze()).await?;
        files.push(file);
    }
    if files.is_empty() {
        return Err(Problem::bad_request("The form has no file; choose one first."));
    }
    Ok(files)
}

/// `PUT /wiki/NAME/files/FILE`: the raw bytes.
pub(crate) async fn put(
    State(wiki): WikiState,
    Extension(visitor): Extension<Visitor>,
    Path((text, file)): Path<(String, String)>,
    body: Body,
) -> HandlerResult {
    let (page, file) = (existing(&wiki, &name(&text)?).await?, name(&file)?);
    let bytes = read_body(body, wiki.settings.attachment_bytes_max).await?;
    wiki.attach(&visitor, &page.name, &file, bytes).await?;
    Ok(json_response(StatusCode::CREATED, &json!({ "files": [file] })))
}

/// `GET /wiki/NAME/files/FILE`.
pub(crate) async fn download(
    State(wiki): WikiState,
    Extension(visitor): Extension<Visitor>,
    Path((text, file)): Path<(String, String)>,
    headers: HeaderMap,
) -> HandlerResult {
    let (page, file) = (name(&text)?, name(&file)?);
    let none = || Problem::not_found(format!("The page {page} has no attachment {file}."));
    let (info, bytes) = wiki.database.attachment(&page, &file).await?.ok_or_else(none)?;
    // The stored type may be that of an older table.
    let is_shown = has_extension(&file, &SHOWN) && info.media_type == media_type(&file);
    let representation = Representation {
        media_type: HeaderValue::from_str(&info.media_type).unwrap_or(HeaderValue::from_static(OCTET_STREAM)),
        body: bytes,
        tag: info.digest.chars().take(32).collect(),
        modified: Some(info.modified),
        is_dated: true,
        keys: vec![keys::page(&page)],
        audience: wiki.audience(&visitor),
        vary: wiki.vary("", "Cookie"),
    };
    let mut response = representation.respond(&headers, &wiki.settings.cache_control);
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    let disposition = if is_shown { "inline" } else { "attachment" };
    let encoded = utf8_percent_encode(file.as_str(), NON_ALPHANUMERIC);
    insert(headers, CONTENT_DISPOSITION, &format!("{disposition}; filename*=UTF-8''{encoded}"));
    Ok(response)
}

/// `DELETE /wiki/NAME/files/FILE`.
pub(crate) async fn delete(
    State(wiki): WikiState,
    Extension(visitor): Extension<Visitor>,
    Path((text, file)): Path<(String, String)>,
) -> HandlerResult {
    wiki.change_file(&visitor, &name(&text)?, WriteAction::Detach { file: name(&file)? }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST /wiki/NAME/files/FILE/delete`, deletion by a form.
pub(crate) async fn delete_by_form(
    State(wiki): WikiState,
    Extension(visitor): Extension<Visitor>,
    Path((text, file)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let page = name(&text)?;
    wiki.change_file(&visitor, &page, WriteAction::Detach { file: name(&file)? }).await?;
    Ok(see_other(&paths::page_part(&page, "files")))
}
