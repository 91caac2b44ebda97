//! XML documents transformed with XSL stylesheets (XSLT 1.0), both from one folder.
//!
//! The processor is libxslt, which is written in C, so each transformation runs in a separate process (`xsltproc`) with
//! limited time and memory. Both files are read and checked here; the process gets copies of them.

mod checks;
mod limits;
mod process;

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use breme_sys::{RootDirectory, RootError};
use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

pub use checks::InputError;
use checks::Stylesheet;
pub use limits::{
    DOCUMENT_BYTES_MAX, MEMORY_MAX, RESULT_BYTES_MAX, STYLESHEET_BYTES_MAX, TransformError, TransformerLimits,
    WAITING_MAX,
};
use process::Processor;

/// Transforms the documents of a folder with the stylesheets of the same folder.
#[derive(Debug)]
pub struct Transformer {
    folder: Arc<RootDirectory>,
    processor: Arc<Processor>,
    limits: TransformerLimits,
    /// One permit for each waiting or running transformation.
    places: Arc<Semaphore>,
    /// One permit for each running transformation.
    processes: Arc<Semaphore>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transformed {
    pub content: Bytes,
    /// For Content-Type, with the charset.
    pub media_type: String,
}

impl Transformer {
    /// Creates a transformer for the files below `folder`.
    ///
    /// # Errors
    ///
    /// If the folder cannot be opened or xsltproc cannot be started.
    pub fn new(folder: &Path, limits: TransformerLimits) -> io::Result<Self> {
        let with_folder = |error| io::Error::new(io::Error::kind(&error), format!("{}: {error}", folder.display()));
        let root = RootDirectory::open_folder(folder, false).map_err(with_folder)?;
        let processor = Arc::new(Processor::find()?);
        Ok(Self {
            folder: Arc::new(root),
            processor,
            limits,
            places: Arc::new(Semaphore::new(limits.processes + WAITING_MAX)),
            processes: Arc::new(Semaphore::new(limits.processes)),
        })
    }

    /// Transforms a document with a stylesheet. Both are named by their paths below the folder, with `/` between parts.
    ///
    /// # Errors
    /// See [`TransformError`].
    pub async fn transform(&self, stylesheet: &str, document: &str) -> Result<Transformed, TransformError> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| TransformError::Busy)?;
        let process = Arc::clone(&self.processes).acquire_owned().await.map_err(|_| TransformError::Busy)?;
        let (folder, processor, limits) = (Arc::clone(&self.folder), Arc::clone(&self.processor), self.limits);
        let (stylesheet, document) = (stylesheet.to_owned(), document.to_owned());
        let transformation = spawn_blocking(move || {
            // Held until the process has ended, even if the result is no longer awaited.
            let _held = (place, process);
            transform(&folder, &processor, limits, &stylesheet, &document)
        });
        transformation.await.map_err(|error| TransformError::Io(io::Error::other(error)))?
    }
}

fn transform(
    folder: &RootDirectory,
    processor: &Processor,
    limits: TransformerLimits,
    style: &str,
    document: &str,
) -> Result<Transformed, TransformError> {
    let refused = |name: &str| {
        let name = name.to_owned();
        |reason| TransformError::Refused(name, reason)
    };
    let style_text = read(folder, style, STYLESHEET_BYTES_MAX)?;
    let stylesheet = Stylesheet::from_text(&style_text).map_err(refused(style))?;
    let document_text = read(folder, document, DOCUMENT_BYTES_MAX)?;
    let content = checks::document_content(&document_text).map_err(refused(document))?;
    let result = processor.run(stylesheet.content, content, limits)?;
    Ok(Transformed { media_type: stylesheet.output.media_type(&result), content: result.into() })
}

fn read(folder: &RootDirectory, name: &str, bytes_max: usize) -> Result<String, TransformError> {
    let (file, metadata) = folder.open(name).map_err(|error| match error {
        RootError::NotFound => TransformError::NotFound(name.to_owned()),
        RootError::Forbidden => TransformError::Forbidden(name.to_owned()),
        RootError::NoResources => io::Error::other("too few file descriptors or too little memory").into(),
        RootError::Failed(error) => error.into(),
    })?;
    if !metadata.is_file() {
        return Err(TransformError::Forbidden(name.to_owned()));
    }
    let mut text = String::new();
    let bound = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    match file.take(bound).read_to_string(&mut text) {
        Ok(length) if length > bytes_max => Err(TransformError::TooLarge(name.to_owned(), bytes_max)),
        Ok(_) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(TransformError::Refused(name.to_owned(), InputError::NotUtf8))
        }
        Err(error) => Err(error.into()),
    }
}
