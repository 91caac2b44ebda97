//! Attachments.
//!
//! Uploads must never run in the wiki's origin: only images, audio, video and plain text are displayed, everything else
//! is downloaded; the type is derived from the name, never from the uploader, browsers must not guess another
//! (nosniff), and the policy of the response allows nothing at all.

use axum::body::Body;
use axum::extract::multipart::{Multipart, MultipartRejection};
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use breme_http::media_type::{OCTET_STREAM, from_name};
use breme_wiki_database::name::Name;
use breme_wiki_database::page::{AttachmentInfo, FileCondition, WriteAction};
use breme_wiki_database::{RESULTS_MAX, keys};
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, IF_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use tokio::time::timeout;

use super::addresses::{PageRequest, name, require_visible, see_other};
use super::changes::{Demand, condition_required, demand, json_response};
use super::negotiation::names_html;
use super::pages::{existing, wants_json};
use super::path::Path;
use super::problem::Problem;
use super::state::{HandlerResult, Wiki, WikiState};
use super::submission::{BODY_TIMEOUT, late, query, read_body, read_form, too_large};
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

/// The length of an attachment's entity tag: the first half of its digest.
const TAG_LENGTH: usize = 32;

/// Limits of a form with files, which are in memory until all have arrived: their size relative to that of one
/// attachment, and their number.
const UPLOAD_FACTOR: usize = 8;
const UPLOAD_FILES_MAX: usize = 1000;

/// Limit of a form that contains only a digest.
const DIGEST_FORM_BYTES: usize = 4 * 1024;

fn tag(info: &AttachmentInfo) -> String {
    info.digest.chars().take(TAG_LENGTH).collect()
}

/// The digest in an entity tag of an attachment; none in a weak one, since If-Match compares strongly.
fn digest_of_tag(tag: &str) -> Option<String> {
    let digest = tag.strip_prefix('"')?.strip_suffix('"')?;
    (digest.len() == TAG_LENGTH).then(|| digest.to_owned())
}

impl Wiki {
    /// The condition of a request that changes an attachment.
    fn file_condition(&self, headers: &HeaderMap) -> Result<FileCondition, Problem> {
        Ok(match demand(headers, digest_of_tag)? {
            Demand::Nothing if self.settings.requires_condition => {
                let condition = "send If-Match with the ETag of the file, or If-None-Match: * for a new file";
                return Err(condition_required(condition));
            }
            Demand::Nothing => FileCondition::Any,
            Demand::Absent => FileCondition::Absent,
            Demand::Present => FileCondition::Present,
            Demand::OneOf(digests) => FileCondition::Digests(digests),
        })
    }

    /// The condition of each file of a form. A form cannot name what it replaces: if changes need a condition, it only
    /// adds files.
    fn upload_condition(&self, headers: &HeaderMap) -> Result<FileCondition, Problem> {
        if self.settings.requires_condition && !headers.contains_key(IF_MATCH) {
            return Ok(FileCondition::Absent);
        }
        self.file_condition(headers)
    }

    async fn attach(
        &self,
        visitor: &Visitor,
        page: &Name,
        file: &Name,
        condition: FileCondition,
        bytes: Bytes,
    ) -> Result<(), Problem> {
        let (file, media_type) = (file.clone(), media_type(file).to_owned());
        self.change_file(visitor, page, WriteAction::Attach { file, condition, media_type, bytes }).await
    }

    async fn change_file(&self, visitor: &Visitor, page: &Name, action: WriteAction) -> Result<(), Problem> {
        self.write(self.write_of(visitor, page, action, "", None)).await?;
        Ok(())
    }
}

/// `GET /wiki/NAME/files`.
pub(crate) async fn list(PageRequest { wiki, visitor, name: page, uri, headers }: PageRequest) -> HandlerResult {
    let page = existing(&wiki, &page).await?;
    let after = query(&uri).get("after").and_then(|after| Name::parse(after).ok());
    let files = wiki.database.attachments(&page.name, after.as_ref(), RESULTS_MAX).await?;
    let keys = vec![keys::page(&page.name), keys::TEMPLATES.to_owned()];
    if wants_json(&headers, &uri) {
        return Ok(wiki.show_json(&headers, &visitor, &json!(files), keys));
    }
    let has_more = files.len() == RESULTS_MAX;
    let html = views::files(&wiki.frame(&visitor), &page.name, &files, has_more, wiki.settings.attachment_bytes_max);
    Ok(wiki.show(&headers, &visitor, html, keys))
}

/// `POST /wiki/NAME/files`: the files of a form.
pub(crate) async fn upload(
    PageRequest { wiki, visitor, name: page, headers, .. }: PageRequest,
    form: Result<Multipart, MultipartRejection>,
) -> HandlerResult {
    let form = form.map_err(|refusal| Problem::new(refusal.status(), format!("{refusal}.")))?;
    let page = existing(&wiki, &page).await?;
    let condition = wiki.upload_condition(&headers)?;
    let received = timeout(BODY_TIMEOUT, receive_all(form, wiki.settings.attachment_bytes_max)).await;
    let mut files = Vec::new();
    for (file, bytes) in received.unwrap_or_else(|_| Err(late()))? {
        wiki.attach(&visitor, &page.name, &file, condition.clone(), bytes).await?;
        files.push(file);
    }
    if names_html(&headers) {
        return Ok(see_other(&paths::page_part(&page.name, "files")));
    }
    Ok(json_response(StatusCode::CREATED, &json!({ "files": files })))
}

/// Receives all files of a form before any is stored: if one is too large, none is.
async fn receive_all(mut form: Multipart, bytes_max: usize) -> Result<Vec<(Name, Bytes)>, Problem> {
    let fault = |error: axum::extract::multipart::MultipartError| {
        Problem::bad_request(format!("The form cannot be read: {error}."))
    };
    let too_many = || {
        let detail = format!(
            "A form has at most {UPLOAD_FILES_MAX} files of {} bytes together; send them in several forms.",
            bytes_max * UPLOAD_FACTOR
        );
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    };
    let (mut files, mut total) = (Vec::new(), 0);
    while let Some(mut field) = form.next_field().await.map_err(fault)? {
        let Some(file) = field.file_name().filter(|file| !file.is_empty()) else { continue };
        // Old browsers send a whole path.
        let file = name(file.rsplit(['/', '\\']).next().unwrap_or_default())?;
        require_visible(&file)?;
        if files.len() == UPLOAD_FILES_MAX {
            return Err(too_many());
        }
        let mut bytes = BytesMut::new();
        while let Some(chunk) = field.chunk().await.map_err(fault)? {
            if bytes.len() + chunk.len() > bytes_max {
                return Err(too_large(bytes_max));
            }
            total += chunk.len();
            if total > bytes_max * UPLOAD_FACTOR {
                return Err(too_many());
            }
            bytes.extend_from_slice(&chunk);
        }
        files.push((file, bytes.freeze()));
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
    headers: HeaderMap,
    body: Body,
) -> HandlerResult {
    let (page, file) = (existing(&wiki, &name(&text)?).await?, name(&file)?);
    require_visible(&file)?;
    let condition = wiki.file_condition(&headers)?;
    let bytes = read_body(body, wiki.settings.attachment_bytes_max).await?;
    wiki.attach(&visitor, &page.name, &file, condition, bytes).await?;
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
        tag: tag(&info),
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
    headers: HeaderMap,
) -> HandlerResult {
    let (page, file, condition) = (name(&text)?, name(&file)?, wiki.file_condition(&headers)?);
    wiki.change_file(&visitor, &page, WriteAction::Detach { file, condition }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST /wiki/NAME/files/FILE/delete`, deletion by a form with the digest of the file that it shows.
pub(crate) async fn delete_by_form(
    State(wiki): WikiState,
    Extension(visitor): Extension<Visitor>,
    Path((text, file)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let (page, file) = (name(&text)?, name(&file)?);
    let mut form = read_form(body, DIGEST_FORM_BYTES).await?;
    let condition = match form.remove("digest").filter(|digest| !digest.is_empty()) {
        Some(digest) => FileCondition::Digests(vec![digest]),
        None => wiki.file_condition(&headers)?,
    };
    wiki.change_file(&visitor, &page, WriteAction::Detach { file, condition }).await?;
    Ok(see_other(&paths::page_part(&page, "files")))
}
