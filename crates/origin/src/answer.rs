//! An answer that is decided but not yet sent. It owns all it needs, so it can wait: for the end of the request's
//! content, or for a delay.

use std::sync::Arc;

use breme_http1::FieldBlock;
use breme_node::FileRange;
use bytes::Bytes;

use crate::entry::{Entry, Outcome, Representation, line};

/// What is to be answered. HEAD and GET have the same; the protocol leaves out the content.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) lines: Lines,
    /// Lines of this answer alone.
    pub(crate) extra: FieldBlock,
    pub(crate) caching: Caching,
    pub(crate) body: Body,
}

/// For how long the same request has the same answer.
#[derive(Debug)]
pub(crate) enum Lasting {
    /// It may be another one each time.
    Never,
    /// While the file is believed to be what it was.
    WhileBelieved(Arc<Entry>),
    Always,
}

/// Lines that were built before.
#[derive(Debug)]
pub(crate) enum Lines {
    None,
    /// `text/plain`, and not to be taken for anything else, since it may repeat what a request said.
    Plain,
    Html,
    Octets,
    Json,
    /// Of a file's representation, by its index.
    File(Arc<Entry>, usize),
    /// The same without its Content-Type.
    FileUntyped(Arc<Entry>, usize),
    /// What a 304 says of it.
    FileBrief(Arc<Entry>, usize),
}

/// What the answer's Cache-Control says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caching {
    /// Nothing.
    Unsaid,
    /// What the site's settings say.
    Site,
    /// `private`: it sets a visitor's cookie, and a shared cache that kept it would give one id to many.
    Private,
    /// `no-store`: it is different each time.
    NoStore,
}

/// The content.
#[derive(Debug)]
pub(crate) enum Body {
    /// None, and no length either where the status has none.
    Nothing,
    Bytes(Bytes),
    File(FileRange),
    /// One after another.
    Parts(Vec<Part>),
    /// This many bytes of the [pattern](crate::sending::PATTERN).
    Pattern(u64),
}

/// One piece of a content.
#[derive(Debug)]
pub(crate) enum Part {
    Bytes(Bytes),
    File(FileRange),
}

impl Part {
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(range) => range.length,
        }
    }
}

impl From<Part> for Body {
    fn from(part: Part) -> Self {
        match part {
            Part::Bytes(bytes) => Self::Bytes(bytes),
            Part::File(range) => Self::File(range),
        }
    }
}

impl Answer {
    /// For how long it stands; those that cannot say, or stay in their files, do not.
    pub(crate) fn lasting(&self) -> Lasting {
        match (&self.lines, &self.body) {
            (Lines::File(entry, _) | Lines::FileBrief(entry, _), Body::Bytes(_) | Body::Nothing)
                if entry.cost_descriptors() == 0 =>
            {
                Lasting::WhileBelieved(Arc::clone(entry))
            }
            (Lines::Octets, Body::Pattern(_)) => Lasting::Always,
            _ => Lasting::Never,
        }
    }

    /// 200 with a text.
    pub(crate) fn text(text: impl Into<Bytes>) -> Self {
        Self::of_status(200, text)
    }

    /// A text that is different each time.
    pub(crate) fn report(text: impl Into<Bytes>) -> Self {
        Self { caching: Caching::NoStore, ..Self::text(text) }
    }

    /// A status with a text.
    pub(crate) fn of_status(status: u16, text: impl Into<Bytes>) -> Self {
        Self {
            status,
            lines: Lines::Plain,
            extra: FieldBlock::new(),
            caching: Caching::Unsaid,
            body: Body::Bytes(text.into()),
        }
    }

    /// An error with one line that says what it is.
    pub(crate) fn error(status: u16) -> Self {
        Self::of_status(status, error_text(status)).with_retry_after()
    }

    pub(crate) fn empty(status: u16) -> Self {
        Self { lines: Lines::None, body: Body::Nothing, ..Self::of_status(status, Bytes::new()) }
    }

    /// With one line more.
    pub(crate) fn with(mut self, name: &str, value: &[u8]) -> Self {
        line(&mut self.extra, name, value);
        self
    }

    /// A lack of resources is over soon.
    fn with_retry_after(self) -> Self {
        if self.status == 503 { self.with("Retry-After", b"1") } else { self }
    }

    /// With a visitor's cookie; then no shared cache may keep it.
    pub(crate) fn with_cookie(mut self, set_cookie: &str) -> Self {
        if self.caching != Caching::NoStore {
            self.caching = Caching::Private;
        }
        self.with("Set-Cookie", set_cookie.as_bytes())
    }
}

/// The representation of an entry that is a file.
pub(crate) fn representation(entry: &Entry, index: usize) -> Option<&Representation> {
    match &entry.outcome {
        Outcome::File(file) => file.representations.get(index),
        _ => None,
    }
}

const fn error_text(status: u16) -> &'static [u8] {
    match status {
        400 => b"400 Bad Request: the path is not valid.\n",
        403 => b"403 Forbidden: the file is not readable.\n",
        404 => b"404 Not Found: no such resource.\n",
        405 => b"405 Method Not Allowed: see the Allow header.\n",
        412 => b"412 Precondition Failed: the precondition of the request is false.\n",
        416 => b"416 Range Not Satisfiable: see the Content-Range header for the length.\n",
        501 => b"501 Not Implemented: this server does not support the method.\n",
        503 => b"503 Service Unavailable: the server is out of file descriptors or memory; retry later.\n",
        _ => b"500 Internal Server Error: file system error.\n",
    }
}
