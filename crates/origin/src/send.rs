//! Sends responses: small bodies are copied after their head and leave in one write; large ones are sent without a
//! copy.

use breme_http::media_type::{HTML, JSON, OCTET_STREAM, TEXT};
use breme_http::{FieldBlock, Framing};
use breme_http1::{ResponseBody, ResponseWriter, ServerConnection};
use breme_node::{Actions, COPIED_BYTES_MAX, ConnectionId};
use bytes::Bytes;

use crate::entry::line;
use crate::response::{Body, BodyPart, CacheControl, HeaderLines, Response, representation};

/// Bytes of `/bytes/N` sent at once. More follow when the driver's queue is empty.
pub(crate) const PATTERN_BATCH_BYTES: u64 = 1024 * 1024;
const PATTERN_LINE: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-\n";

const PATTERN_BYTES: usize = 64 * 1024;

/// The content of `/bytes/N`: repeated lines of 64 characters, so that a client can verify any position.
pub(crate) static PATTERN: [u8; PATTERN_BYTES] = pattern();

const fn pattern() -> [u8; PATTERN_BYTES] {
    let mut bytes = [0; PATTERN_BYTES];
    let mut place = 0;
    while place < bytes.len() {
        bytes[place] = PATTERN_LINE[place % PATTERN_LINE.len()];
        place += 1;
    }
    bytes
}

/// Header lines of many responses, built once.
#[derive(Debug)]
pub(crate) struct SharedLines {
    plain: FieldBlock,
    html: FieldBlock,
    octets: FieldBlock,
    json: FieldBlock,
    caching_site: FieldBlock,
    caching_private: FieldBlock,
    caching_no_store: FieldBlock,
}

impl SharedLines {
    pub(crate) fn new(caching_site: FieldBlock) -> Self {
        let one = |name, value: &str| {
            let mut lines = FieldBlock::new();
            line(&mut lines, name, value.as_bytes());
            lines
        };
        let mut plain = one("Content-Type", TEXT);
        line(&mut plain, "X-Content-Type-Options", b"nosniff");
        Self {
            plain,
            html: one("Content-Type", HTML),
            octets: one("Content-Type", OCTET_STREAM),
            json: one("Content-Type", JSON),
            caching_site,
            caching_private: one("Cache-Control", "private"),
            caching_no_store: one("Cache-Control", "no-store"),
        }
    }
}

/// What was sent of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendProgress {
    /// All of it.
    Complete { content_bytes: u64 },
    /// A pattern of which more is to be sent.
    Pattern { sent: u64, length: u64 },
}

/// Sends a response, or its beginning.
pub(crate) fn begin(
    response: Response,
    shared: &SharedLines,
    date: &[u8; 29],
    http: &mut ServerConnection,
    connection: ConnectionId,
    actions: &mut Actions,
) -> SendProgress {
    let out = actions.send(connection);
    let mut writer = http.respond(response.status, framing(&response.body), date, out);
    write_lines(&response, shared, &mut writer);
    if writer.end() == ResponseBody::Omitted {
        return SendProgress::Complete { content_bytes: 0 };
    }
    let content_bytes = match response.body {
        Body::Nothing => 0,
        Body::Bytes(bytes) => send_bytes(bytes, connection, actions),
        Body::File(range) => send_part(BodyPart::File(range), connection, actions),
        Body::Parts(parts) => parts.into_iter().map(|part| send_part(part, connection, actions)).sum(),
        Body::Pattern(length) => return send_pattern(0, length, http, connection, actions),
    };
    http.content_sent();
    SendProgress::Complete { content_bytes }
}

/// Sends the next part of a pattern, from byte `sent` on.
pub(crate) fn send_pattern(
    sent: u64,
    length: u64,
    http: &mut ServerConnection,
    connection: ConnectionId,
    actions: &mut Actions,
) -> SendProgress {
    let end = length.min(sent + PATTERN_BATCH_BYTES);
    let mut place = sent;
    while place < end {
        let start = (place % PATTERN.len() as u64) as usize;
        let take = (PATTERN.len() - start).min(usize::try_from(end - place).unwrap_or(usize::MAX));
        send_bytes(Bytes::from_static(&PATTERN[start..start + take]), connection, actions);
        place += take as u64;
    }
    if end < length {
        return SendProgress::Pattern { sent: end, length };
    }
    http.content_sent();
    SendProgress::Complete { content_bytes: length - sent }
}

fn framing(body: &Body) -> Framing {
    match body {
        Body::Nothing => Framing::None,
        Body::Bytes(bytes) => Framing::Length(bytes.len() as u64),
        Body::File(range) => Framing::Length(range.length),
        Body::Parts(parts) => Framing::Length(parts.iter().map(BodyPart::length).sum()),
        Body::Pattern(length) => Framing::Length(*length),
    }
}

fn write_lines(response: &Response, shared: &SharedLines, writer: &mut ResponseWriter<'_, '_>) {
    match &response.lines {
        HeaderLines::None => {}
        HeaderLines::Plain => writer.block(&shared.plain),
        HeaderLines::Html => writer.block(&shared.html),
        HeaderLines::Octets => writer.block(&shared.octets),
        HeaderLines::Json => writer.block(&shared.json),
        HeaderLines::File(entry, index) => {
            representation(entry, *index).into_iter().for_each(|one| writer.block(&one.lines));
        }
        HeaderLines::FileUntyped(entry, index) => {
            representation(entry, *index).into_iter().for_each(|one| writer.block(&one.untyped_lines));
        }
        HeaderLines::FileBrief(entry, index) => {
            representation(entry, *index).into_iter().for_each(|one| writer.block(&one.brief_lines));
        }
    }
    writer.block(&response.extra);
    match response.caching {
        CacheControl::Unset => {}
        CacheControl::Site => writer.block(&shared.caching_site),
        CacheControl::Private => writer.block(&shared.caching_private),
        CacheControl::NoStore => writer.block(&shared.caching_no_store),
    }
}

fn send_part(part: BodyPart, connection: ConnectionId, actions: &mut Actions) -> u64 {
    match part {
        BodyPart::Bytes(bytes) => send_bytes(bytes, connection, actions),
        BodyPart::File(range) => {
            let length = range.length;
            actions.send_file(connection, range);
            length
        }
    }
}

fn send_bytes(bytes: Bytes, connection: ConnectionId, actions: &mut Actions) -> u64 {
    let length = bytes.len() as u64;
    if bytes.len() <= COPIED_BYTES_MAX {
        actions.send(connection).extend_from_slice(&bytes);
    } else {
        actions.send_shared(connection, bytes);
    }
    length
}
