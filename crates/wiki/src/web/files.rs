//! Attachments.
//!
//! Uploads must never run in the wiki's origin: only images, audio, video and plain text are displayed, everything else
//! is downloaded; the type is derived from the name, never from the uploader, browsers must not guess another
//! (nosniff), and the policy of the response allows nothing, except media their own bytes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::multipart::{Field, Multipart, MultipartError, MultipartRejection};
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use breme_http::media_type::{OCTET_STREAM, from_name};
use breme_wiki_database::name::Name;
use breme_wiki_database::page::{AttachmentInfo, FileCondition, Found, WriteAction};
use breme_wiki_database::{RESULTS_MAX, keys};
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::addresses::{FileRequest, PageRequest, name, redirect, require_visible, see_other};
use super::changes::{Demand, Versions, condition_required, html, json_response};
use super::negotiation::names_html;
use super::pages::{LINES, existing, first_lines, number, wants_json};
use super::path::Path;
use super::problem::Problem;
use super::state::{HandlerResult, UPLOAD_FACTOR, UPLOAD_UNIT, Wiki, WikiState};
use super::submission::{BODY_TIMEOUT, late, query, read_body, read_form, too_large};
use super::validators::{Representation, insert};
use super::visitor::Visitor;
use crate::calendar::rfc3339;
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

/// Limit of the files in a form, which are in memory until all have arrived.
const UPLOAD_FILES_MAX: usize = 1000;

/// Limit of a form about a file that does not contain it, and of each such field of a form with files.
const SMALL_FORM_BYTES: usize = 16 * 1024;
/// After which time a refused upload may be repeated, in seconds.
const REFUSED_SECONDS: &str = "10";

fn tag(info: &AttachmentInfo) -> String {
    info.digest.chars().take(TAG_LENGTH).collect()
}

/// The digest in an entity tag of an attachment; none in a weak one, since If-Match compares strongly.
fn digest_of_tag(tag: &str) -> Option<String> {
    let digest = tag.strip_prefix('"')?.strip_suffix('"')?;
    (digest.len() == TAG_LENGTH).then(|| digest.to_owned())
}

/// Uploaded bytes with their share of the memory for uploads. When the client has gone, they are still in the queue of
/// writes.
struct Admitted {
    bytes: Bytes,
    _permit: Arc<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Admitted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// How a change to a file is recorded.
#[derive(Default)]
struct Note {
    comment: String,
    author: Option<String>,
}

impl Note {
    fn of(parameters: &mut HashMap<String, String>) -> Self {
        Self { comment: parameters.remove("comment").unwrap_or_default(), author: parameters.remove("author") }
    }
}

impl Wiki {
    /// The condition of a request that changes an attachment.
    fn file_condition(&self, headers: &HeaderMap) -> Result<FileCondition, Problem> {
        let demand = Demand::of(headers, digest_of_tag);
        if demand.is_empty() && self.settings.requires_condition {
            let condition = "send If-Match with the ETag of the file, or If-None-Match: * for a new file";
            return Err(condition_required(condition));
        }
        let matching = demand.matching.map(|versions| match versions {
            Versions::Any => FileCondition::Present,
            Versions::OneOf(digests) => FileCondition::Digests(digests),
        });
        let none_matching = demand.none_matching.map(|versions| match versions {
            Versions::Any => FileCondition::Absent,
            Versions::OneOf(digests) => FileCondition::OtherDigests(digests),
        });
        let unmodified_since = demand.unmodified_since.map(FileCondition::UnmodifiedSince);
        Ok(FileCondition::All([matching, unmodified_since, none_matching].into_iter().flatten().collect()))
    }

    /// The condition of a form that shows the file with this digest; without one, that of the request.
    fn form_condition(&self, digest: Option<String>, headers: &HeaderMap) -> Result<FileCondition, Problem> {
        match digest {
            Some(digest) if digest.is_empty() => Ok(FileCondition::Absent),
            Some(digest) => Ok(FileCondition::Digests(vec![digest])),
            None => self.file_condition(headers),
        }
    }

    async fn attach(
        &self,
        visitor: &Visitor,
        page: &Name,
        file: &Name,
        condition: FileCondition,
        bytes: Bytes,
        note: &Note,
    ) -> Result<(), Problem> {
        let (file, media_type) = (file.clone(), media_type(file).to_owned());
        self.change_file(visitor, page, WriteAction::Attach { file, condition, media_type, bytes }, note).await
    }

    async fn change_file(
        &self,
        visitor: &Visitor,
        page: &Name,
        action: WriteAction,
        note: &Note,
    ) -> Result<(), Problem> {
        self.write(self.write_of(visitor, page, action, &note.comment, note.author.as_deref())).await?;
        Ok(())
    }

    /// Which of these files the page has.
    async fn existing_files(&self, page: &Name, files: &[Upload]) -> Result<Vec<Name>, Problem> {
        let wanted: HashSet<&Name> = files.iter().map(|upload| &upload.file).collect();
        let (mut existing, mut after) = (Vec::new(), None);
        loop {
            let infos = self.database.attachments(page, after.as_ref(), RESULTS_MAX).await?;
            existing.extend(infos.iter().map(|info| &info.file).filter(|file| wanted.contains(file)).cloned());
            match infos.into_iter().last() {
                Some(last) => after = Some(last.file),
                None => return Ok(existing),
            }
        }
    }

    /// A share of the memory for uploads, for a body of at most `bytes_max`; before it is read.
    fn admit_upload(&self, headers: &HeaderMap, bytes_max: usize) -> Result<Arc<OwnedSemaphorePermit>, Problem> {
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let units = length.unwrap_or(bytes_max).min(bytes_max).div_ceil(UPLOAD_UNIT);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        Arc::clone(&self.uploads).try_acquire_many_owned(units).map(Arc::new).map_err(|_| {
            let detail = "Too many files are being uploaded; try again later.";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).with_header(RETRY_AFTER, REFUSED_SECONDS)
        })
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
    let html = views::files(&wiki.frame(&visitor), &page.name, &files, has_more, &wiki.settings);
    Ok(wiki.show(&headers, &visitor, html, keys))
}

/// `POST /wiki/NAME/files`: the files of a form. It replaces files of the same names only if it has the field
/// `replace`, or the request a condition.
pub(crate) async fn upload(
    PageRequest { wiki, visitor, name: page, headers, .. }: PageRequest,
    form: Result<Multipart, MultipartRejection>,
) -> HandlerResult {
    let form = form.map_err(|refusal| Problem::new(refusal.status(), format!("{refusal}.")))?;
    let page = existing(&wiki, &page).await?;
    let bytes_max = wiki.settings.attachment_bytes_max;
    let admitted = wiki.admit_upload(&headers, bytes_max * UPLOAD_FACTOR)?;
    let received = timeout(BODY_TIMEOUT, receive_form(form, bytes_max)).await;
    let UploadForm { files, note, replaces } = received.unwrap_or_else(|_| Err(late()))?;
    let is_unconditional = Demand::of(&headers, digest_of_tag).is_empty();
    // If changes need a condition, a form without one only adds files: it cannot name what it replaces.
    let only_adds = is_unconditional && (!replaces || wiki.settings.requires_condition);
    let condition = if only_adds { FileCondition::Absent } else { wiki.file_condition(&headers)? };
    if only_adds {
        let existing = wiki.existing_files(&page.name, &files).await?;
        refuse_existing(&existing, wiki.settings.requires_condition)?;
    }
    let names: Vec<Name> = files.iter().map(|upload| upload.file.clone()).collect();
    for Upload { file, bytes } in files {
        let bytes = Bytes::from_owner(Admitted { bytes, _permit: Arc::clone(&admitted) });
        wiki.attach(&visitor, &page.name, &file, condition.clone(), bytes, &note).await?;
    }
    if names_html(&headers) {
        return Ok(see_other(&paths::page_part(&page.name, "files")));
    }
    Ok(json_response(StatusCode::CREATED, &json!({ "files": names })))
}

fn refuse_existing(existing: &[Name], requires_condition: bool) -> Result<(), Problem> {
    let Some(first) = existing.first() else { return Ok(()) };
    let others = match existing.len() {
        1 => String::new(),
        count => format!(" and {} others", count - 1),
    };
    let remedy = match requires_condition {
        true => "delete those of the same names first; programs replace one by PUT with If-Match",
        false => "choose to replace those of the same names (field `replace`)",
    };
    let detail = format!("Nothing was stored: the page already has {first}{others}. Rename the files, or {remedy}.");
    Err(Problem::new(StatusCode::PRECONDITION_FAILED, detail))
}

struct Upload {
    file: Name,
    bytes: Bytes,
}

#[derive(Default)]
struct UploadForm {
    files: Vec<Upload>,
    note: Note,
    replaces: bool,
}

/// Receives all files of a form before any is stored: if one is too large, none is.
async fn receive_form(mut form: Multipart, bytes_max: usize) -> Result<UploadForm, Problem> {
    let too_many = || {
        let detail = format!(
            "A form has at most {UPLOAD_FILES_MAX} files of {} bytes together; send them in several forms.",
            bytes_max * UPLOAD_FACTOR
        );
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    };
    let (mut received, mut names, mut total) = (UploadForm::default(), HashSet::new(), 0);
    while let Some(field) = form.next_field().await.map_err(|error| unreadable(&error))? {
        let Some(file) = field.file_name().map(str::to_owned) else {
            receive_note(field, &mut received).await?;
            continue;
        };
        if file.is_empty() {
            continue;
        }
        // Old browsers send a whole path.
        let file = name(file.rsplit(['/', '\\']).next().unwrap_or_default())?;
        require_visible(&file)?;
        if !names.insert(file.clone()) {
            let detail = format!("Nothing was stored: the form has two files named {file}; rename one.");
            return Err(Problem::bad_request(detail));
        }
        if received.files.len() == UPLOAD_FILES_MAX {
            return Err(too_many());
        }
        let left = bytes_max * UPLOAD_FACTOR - total;
        let bytes = receive_field(field, bytes_max.min(left)).await?;
        let bytes = bytes.ok_or_else(|| if left < bytes_max { too_many() } else { too_large(bytes_max) })?;
        total += bytes.len();
        received.files.push(Upload { file, bytes });
    }
    if received.files.is_empty() {
        return Err(Problem::bad_request("The form has no file; choose one first."));
    }
    Ok(received)
}

fn unreadable(error: &MultipartError) -> Problem {
    Problem::bad_request(format!("The form cannot be read: {error}."))
}

/// Receives a field that is not a file.
async fn receive_note(field: Field<'_>, form: &mut UploadForm) -> Result<(), Problem> {
    let name = field.name().unwrap_or_default().to_owned();
    let bytes = receive_field(field, SMALL_FORM_BYTES).await?.ok_or_else(|| too_large(SMALL_FORM_BYTES))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match name.as_str() {
        "comment" => form.note.comment = text,
        "author" => form.note.author = Some(text),
        "replace" => form.replaces = !text.is_empty(),
        _ => (),
    }
    Ok(())
}

/// The bytes of a field; `None` if there are more than `bytes_max`.
async fn receive_field(mut field: Field<'_>, bytes_max: usize) -> Result<Option<Bytes>, Problem> {
    let mut bytes = BytesMut::new();
    while let Some(chunk) = field.chunk().await.map_err(|error| unreadable(&error))? {
        if bytes.len() + chunk.len() > bytes_max {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes.freeze()))
}

/// `PUT /wiki/NAME/files/FILE`: the raw bytes.
pub(crate) async fn put(
    FileRequest { wiki, visitor, page, file, uri, headers }: FileRequest,
    body: Body,
) -> HandlerResult {
    let page = existing(&wiki, &page).await?;
    require_visible(&file)?;
    let condition = wiki.file_condition(&headers)?;
    let bytes_max = wiki.settings.attachment_bytes_max;
    let admitted = wiki.admit_upload(&headers, bytes_max)?;
    let bytes = Bytes::from_owner(Admitted { bytes: read_body(body, bytes_max).await?, _permit: admitted });
    wiki.attach(&visitor, &page.name, &file, condition, bytes, &Note::of(&mut query(&uri))).await?;
    Ok(json_response(StatusCode::CREATED, &json!({ "files": [file] })))
}

/// `GET /wiki/NAME/files/FILE`.
pub(crate) async fn download(FileRequest { wiki, visitor, page, file, headers, .. }: FileRequest) -> HandlerResult {
    if let Some((info, bytes)) = wiki.database.attachment(&page, &file).await? {
        return Ok(send(&wiki, &visitor, &headers, &page, &info, bytes));
    }
    // The files of a renamed page have moved with it.
    if let Found::Page(found) = wiki.database.page(&page).await?
        && let Some(target) = &found.content.redirect
    {
        return Ok(redirect(StatusCode::FOUND, &paths::attachment(target, &file)));
    }
    Err(Problem::not_found(format!("The page {page} has no attachment {file}.")))
}

/// `GET /wiki/NAME/files/FILE/versions/SEQUENCE`: the bytes that this change replaced or deleted.
pub(crate) async fn version(
    State(wiki): WikiState,
    Extension(visitor): Extension<Visitor>,
    Path((text, file, sequence)): Path<(String, String, u64)>,
    headers: HeaderMap,
) -> HandlerResult {
    let (page, file) = (name(&text)?, name(&file)?);
    let (info, bytes) = version_of(&wiki, &page, &file, sequence).await?;
    Ok(send(&wiki, &visitor, &headers, &page, &info, bytes))
}

async fn version_of(wiki: &Wiki, page: &Name, file: &Name, sequence: u64) -> Result<(AttachmentInfo, Bytes), Problem> {
    let none = || Problem::not_found(format!("The version {sequence} of {file} of {page} does not exist any more."));
    wiki.database.file_version(page, file, sequence).await?.ok_or_else(none)
}

/// The policy of a displayed file. A player of audio or video requests the same address again, which Chromium allows
/// only from the same origin; scripts remain forbidden.
fn policy(media_type: &str) -> &'static str {
    match media_type.split('/').next() {
        Some("audio" | "video") => "default-src 'none'; media-src 'self'; sandbox allow-same-origin",
        _ => "default-src 'none'; sandbox",
    }
}

fn send(
    wiki: &Wiki,
    visitor: &Visitor,
    request: &HeaderMap,
    page: &Name,
    info: &AttachmentInfo,
    bytes: Bytes,
) -> Response {
    // The stored type may be that of an older table.
    let is_shown = has_extension(&info.file, &SHOWN) && info.media_type == media_type(&info.file);
    let representation = Representation {
        media_type: HeaderValue::from_str(&info.media_type).unwrap_or(HeaderValue::from_static(OCTET_STREAM)),
        body: bytes,
        tag: tag(info),
        modified: Some(info.modified),
        is_dated: true,
        keys: vec![keys::page(page)],
        audience: wiki.audience(visitor),
        vary: wiki.vary("", "Cookie"),
    };
    let mut response = representation.respond_in_parts(request, &wiki.settings.cache_control);
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy(&info.media_type)));
    let disposition = if is_shown { "inline" } else { "attachment" };
    let encoded = utf8_percent_encode(info.file.as_str(), NON_ALPHANUMERIC);
    insert(headers, CONTENT_DISPOSITION, &format!("{disposition}; filename*=UTF-8''{encoded}"));
    response
}

/// `GET /wiki/NAME/files/FILE/history?before=SEQUENCE`: the changes of a file, with its earlier versions.
pub(crate) async fn history(FileRequest { wiki, visitor, page, file, uri, headers }: FileRequest) -> HandlerResult {
    let page = existing(&wiki, &page).await?;
    let before = number(query(&uri).get("before"), "before")?;
    let (changes, has_more) = first_lines(wiki.database.file_history(&page.name, &file, before, LINES + 1).await?);
    let current = wiki.database.attachment_info(&page.name, &file).await?;
    if changes.is_empty() && current.is_none() {
        return Err(Problem::not_found(format!("The page {} never had an attachment {file}.", page.name)));
    }
    let keys = vec![keys::page(&page.name), keys::TEMPLATES.to_owned()];
    if wants_json(&headers, &uri) {
        return Ok(wiki.show_json(&headers, &visitor, &views::changes_json(&changes), keys));
    }
    let frame = wiki.frame(&visitor);
    let html = views::file_history(&frame, &page.name, &file, current.as_ref(), &changes, has_more);
    Ok(wiki.show(&headers, &visitor, html, keys))
}

/// `DELETE /wiki/NAME/files/FILE`.
pub(crate) async fn delete(FileRequest { wiki, visitor, page, file, uri, headers }: FileRequest) -> HandlerResult {
    let condition = wiki.file_condition(&headers)?;
    let action = WriteAction::Detach { file, condition };
    wiki.change_file(&visitor, &page, action, &Note::of(&mut query(&uri))).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `GET /wiki/NAME/files/FILE/delete`: asks whether to delete it.
pub(crate) async fn delete_form(FileRequest { wiki, visitor, page, file, .. }: FileRequest) -> HandlerResult {
    let page = existing(&wiki, &page).await?;
    let none = || Problem::not_found(format!("The page {} has no attachment {file}.", page.name));
    let info = wiki.database.attachment_info(&page.name, &file).await?.ok_or_else(none)?;
    Ok(html(&views::delete_file(&wiki.frame(&visitor), &page.name, &info)))
}

/// `POST /wiki/NAME/files/FILE/delete`, deletion by a form with the digest of the file that it shows.
pub(crate) async fn delete_by_form(
    FileRequest { wiki, visitor, page, file, headers, .. }: FileRequest,
    body: Body,
) -> HandlerResult {
    let mut form = read_form(body, SMALL_FORM_BYTES).await?;
    let digest = form.remove("digest").filter(|digest| !digest.is_empty());
    let condition = wiki.form_condition(digest, &headers)?;
    wiki.change_file(&visitor, &page, WriteAction::Detach { file, condition }, &Note::of(&mut form)).await?;
    Ok(see_other(&paths::page_part(&page, "files")))
}

/// `POST /wiki/NAME/files/FILE/restore` with `version`, and optionally the `digest` of the present file, empty if there
/// is none: makes an earlier version the present one.
pub(crate) async fn restore(
    FileRequest { wiki, visitor, page, file, headers, .. }: FileRequest,
    body: Body,
) -> HandlerResult {
    let page = existing(&wiki, &page).await?;
    let mut form = read_form(body, SMALL_FORM_BYTES).await?;
    let missing = || Problem::bad_request("The field `version` is missing.");
    let sequence = number(form.get("version"), "version")?.ok_or_else(missing)?;
    let condition = wiki.form_condition(form.remove("digest"), &headers)?;
    let (info, bytes) = version_of(&wiki, &page.name, &file, sequence).await?;
    let mut note = Note::of(&mut form);
    if note.comment.is_empty() {
        note.comment = format!("Restore the version of {}", rfc3339(info.modified));
    }
    wiki.attach(&visitor, &page.name, &file, condition, bytes, &note).await?;
    if names_html(&headers) {
        return Ok(see_other(&format!("{}/history", paths::attachment(&page.name, &file))));
    }
    Ok(json_response(StatusCode::CREATED, &json!({ "files": [file] })))
}
