//! Representations of a file: body and prepared header lines.

use std::fs::File;
use std::sync::Arc;

use breme_http::{FieldBlock, http_date};
use bytes::Bytes;

use crate::conditional::Validators;
use crate::encodings::Coding;

/// A file with its compressed siblings.
#[derive(Debug)]
pub(crate) struct SiteFile {
    /// The file itself first, then its siblings.
    pub(crate) representations: Vec<Representation>,
    /// Coding and length of the siblings, in the same order.
    pub(crate) siblings: Vec<(Coding, u64)>,
}

/// A body with its header lines.
#[derive(Debug)]
pub(crate) struct Representation {
    pub(crate) validators: Validators,
    pub(crate) length: u64,
    pub(crate) media_type: &'static str,
    pub(crate) body: StoredBody,
    /// For 200 and 206.
    pub(crate) lines: FieldBlock,
    /// Without Content-Type, for multipart 206, which has its own.
    pub(crate) untyped_lines: FieldBlock,
    /// For 304 (RFC 9110, 15.4.5).
    pub(crate) brief_lines: FieldBlock,
}

/// The location of a body.
#[derive(Clone, Debug)]
pub(crate) enum StoredBody {
    Memory(Bytes),
    File(Arc<File>),
}

impl Representation {
    pub(super) fn memory_bytes(&self) -> usize {
        match &self.body {
            StoredBody::Memory(bytes) => bytes.len(),
            StoredBody::File(_) => 0,
        }
    }
}

pub(super) fn representation_lines(
    validators: &Validators,
    media_type: Option<&str>,
    coding: Option<Coding>,
    varies: bool,
) -> FieldBlock {
    let mut lines = FieldBlock::new();
    if let Some(media_type) = media_type {
        line(&mut lines, "Content-Type", media_type.as_bytes());
    }
    if let Some(coding) = coding {
        line(&mut lines, "Content-Encoding", coding.name().as_bytes());
    }
    if let Some(modified) = validators.modified {
        line(&mut lines, "Last-Modified", &http_date(modified.0));
    }
    line(&mut lines, "Accept-Ranges", b"bytes");
    push_tag_and_vary(&mut lines, validators, varies);
    lines
}

pub(super) fn brief_lines(validators: &Validators, varies: bool) -> FieldBlock {
    let mut lines = FieldBlock::new();
    push_tag_and_vary(&mut lines, validators, varies);
    lines
}

fn push_tag_and_vary(lines: &mut FieldBlock, validators: &Validators, varies: bool) {
    line(lines, "ETag", validators.entity_tag().as_bytes());
    if varies {
        line(lines, "Vary", b"Accept-Encoding");
    }
}

/// Adds a line known to be valid; an invalid one would be dropped.
pub(crate) fn line(lines: &mut FieldBlock, name: &str, value: &[u8]) {
    let added = lines.push(name, value);
    debug_assert!(added.is_ok(), "{added:?}");
}
