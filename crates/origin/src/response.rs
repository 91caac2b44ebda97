//! Responses before they are sent. A response owns its data, so it can wait for the end of the request's content, or
//! for a delay.

use std::sync::Arc;

use breme_http::FieldBlock;
use breme_node::FileRange;
use bytes::Bytes;

use crate::entry::{Entry, EntryOutcome, Representation, line};

/// A response. HEAD and GET get the same; `http1` omits the body.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) lines: HeaderLines,
    /// Further header lines.
    pub(crate) extra: FieldBlock,
    pub(crate) caching: CacheControl,
    pub(crate) body: Body,
}

/// For how long a request has the same response.
#[derive(Debug)]
pub(crate) enum ReplayLifetime {
    /// It may differ each time.
    Never,
    /// While the file's entry is fresh.
    WhileFresh(Arc<Entry>),
    Always,
}

/// Prepared header lines.
#[derive(Debug)]
pub(crate) enum HeaderLines {
    None,
    /// `text/plain` with nosniff, since it may reflect the request.
    Plain,
    Html,
    Octets,
    Json,
    /// Of a file's representation, by its index.
    File(Arc<Entry>, usize),
    /// The same without Content-Type.
    FileUntyped(Arc<Entry>, usize),
    /// The header fields of a 304.
    FileBrief(Arc<Entry>, usize),
}

/// The response's Cache-Control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheControl {
    /// The response has none.
    Unset,
    /// That of the site's settings.
    Site,
    /// `private`: it sets a visitor's cookie, which a shared cache would give to many.
    Private,
    /// `no-store`: it differs each time.
    NoStore,
}

/// The body.
#[derive(Debug)]
pub(crate) enum Body {
    /// No body, and no length where the status has none.
    Nothing,
    Bytes(Bytes),
    File(FileRange),
    Parts(Vec<BodyPart>),
    /// This many bytes of the [pattern](crate::send::PATTERN).
    Pattern(u64),
}

#[derive(Debug)]
pub(crate) enum BodyPart {
    Bytes(Bytes),
    File(FileRange),
}

impl BodyPart {
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(range) => range.length,
        }
    }
}

impl From<String> for BodyPart {
    fn from(text: String) -> Self {
        Self::Bytes(text.into())
    }
}

impl From<BodyPart> for Body {
    fn from(part: BodyPart) -> Self {
        match part {
            BodyPart::Bytes(bytes) => Self::Bytes(bytes),
            BodyPart::File(range) => Self::File(range),
        }
    }
}

impl Response {
    /// For how long it can be replayed; bodies in files cannot.
    pub(crate) fn replay_lifetime(&self) -> ReplayLifetime {
        match (&self.lines, &self.body) {
            (HeaderLines::File(entry, _) | HeaderLines::FileBrief(entry, _), Body::Bytes(_) | Body::Nothing)
                if entry.cost_descriptors() == 0 =>
            {
                ReplayLifetime::WhileFresh(Arc::clone(entry))
            }
            (HeaderLines::Octets, Body::Pattern(_)) => ReplayLifetime::Always,
            _ => ReplayLifetime::Never,
        }
    }

    /// 200 with a text.
    pub(crate) fn text(text: impl Into<Bytes>) -> Self {
        Self::with_status(200, text)
    }

    /// A text that differs each time.
    pub(crate) fn report(text: impl Into<Bytes>) -> Self {
        Self { caching: CacheControl::NoStore, ..Self::text(text) }
    }

    /// A status with a text.
    pub(crate) fn with_status(status: u16, text: impl Into<Bytes>) -> Self {
        Self {
            status,
            lines: HeaderLines::Plain,
            extra: FieldBlock::new(),
            caching: CacheControl::Unset,
            body: Body::Bytes(text.into()),
        }
    }

    /// An error with one line of text.
    pub(crate) fn error(status: u16) -> Self {
        Self::with_status(status, error_text(status)).with_retry_after()
    }

    pub(crate) fn empty(status: u16) -> Self {
        Self { lines: HeaderLines::None, body: Body::Nothing, ..Self::with_status(status, Bytes::new()) }
    }

    /// Adds a header line.
    pub(crate) fn with(mut self, name: &str, value: &[u8]) -> Self {
        line(&mut self.extra, name, value);
        self
    }

    /// The lack of resources is transient.
    fn with_retry_after(self) -> Self {
        if self.status == 503 { self.with("Retry-After", b"1") } else { self }
    }

    /// Sets a visitor's cookie; shared caches must not store the response.
    pub(crate) fn with_cookie(mut self, set_cookie: &str) -> Self {
        if self.caching != CacheControl::NoStore {
            self.caching = CacheControl::Private;
        }
        self.with("Set-Cookie", set_cookie.as_bytes())
    }
}

/// A representation of an entry that is a file.
pub(crate) fn representation(entry: &Entry, index: usize) -> Option<&Representation> {
    match &entry.outcome {
        EntryOutcome::File(file) => file.representations.get(index),
        _ => None,
    }
}

const fn error_text(status: u16) -> &'static [u8] {
    match status {
        400 => b"400 Bad Request: the path is not valid.\n",
        403 => b"403 Forbidden: the file is not readable.\n",
        404 => b"404 Not Found: no such resource.\n",
        405 => b"405 Method Not Allowed: the Allow header lists the methods.\n",
        412 => b"412 Precondition Failed: the precondition of the request is false.\n",
        416 => b"416 Range Not Satisfiable: the Content-Range header has the length.\n",
        501 => b"501 Not Implemented: this server does not support the method.\n",
        503 => b"503 Service Unavailable: the server is short of resources; retry later.\n",
        _ => b"500 Internal Server Error: the file system failed.\n",
    }
}
