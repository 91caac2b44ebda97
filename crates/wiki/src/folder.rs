//! A wiki as a folder: `NAME.md` for each page, with its fields as front matter, and its attachments in `NAME.files/`.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use breme_wiki_database::name::{Name, NameError};
use breme_wiki_database::page::{Condition, FileCondition, Found, Write, WriteAction};
use breme_wiki_database::{Database, DatabaseError};
use thiserror::Error;

use crate::calendar::now;
use crate::fields::{from_markdown, to_markdown};
use crate::render::links;
use crate::web::media_type;

const ENDING: &str = ".md";
const FILES_ENDING: &str = ".files";
/// Pages listed at a time.
const BATCH: usize = 500;

/// Numbers of copied items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    pub pages: u64,
    pub attachments: u64,
}

/// Why an import or export failed.
#[derive(Debug, Error)]
pub enum FolderError {
    #[error("{0}: {1}")]
    File(PathBuf, #[source] io::Error),
    #[error("{0}: the name of the file cannot be that of a page: {1}; rename it")]
    Name(PathBuf, #[source] NameError),
    /// A symbolic link in a folder to import could point to any file of this machine.
    #[error("{0}: a symbolic link is not imported; replace it by the file")]
    Link(PathBuf),
    /// The folder of an export has files in it.
    #[error("{0}: the folder is not empty; name a new one")]
    NotEmpty(PathBuf),
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

fn at(path: &Path) -> impl Fn(io::Error) -> FolderError {
    move |error| FolderError::File(path.to_owned(), error)
}

/// Whether it is a regular file.
fn is_file(path: &Path) -> Result<bool, FolderError> {
    let metadata = fs::symlink_metadata(path).map_err(at(path))?;
    if metadata.is_symlink() { Err(FolderError::Link(path.to_owned())) } else { Ok(metadata.is_file()) }
}

/// Writes all pages and attachments to a new or empty folder.
///
/// # Errors
///
/// See [`FolderError`].
pub async fn export(database: &dyn Database, folder: &Path) -> Result<Copied, FolderError> {
    fs::create_dir_all(folder).map_err(at(folder))?;
    if fs::read_dir(folder).map_err(at(folder))?.next().is_some() {
        return Err(FolderError::NotEmpty(folder.to_owned()));
    }
    let mut copied = Copied::default();
    let mut after: Option<Name> = None;
    loop {
        let names = database.list(after.as_ref(), BATCH).await?;
        for name in &names {
            // A page deleted in the meantime is skipped.
            let Found::Page(page) = database.page(name).await? else { continue };
            let path = folder.join(format!("{name}{ENDING}"));
            fs::write(&path, to_markdown(&page.content)).map_err(at(&path))?;
            copied.pages += 1;
            for info in database.attachments(name).await? {
                let Some((_, bytes)) = database.attachment(name, &info.file).await? else { continue };
                let files = folder.join(format!("{name}{FILES_ENDING}"));
                fs::create_dir_all(&files).map_err(at(&files))?;
                let path = files.join(info.file.as_str());
                fs::write(&path, bytes).map_err(at(&path))?;
                copied.attachments += 1;
            }
        }
        match names.into_iter().next_back() {
            Some(last) => after = Some(last),
            None => return Ok(copied),
        }
    }
}

/// Reads a folder of Markdown files; existing pages get a new revision. Files with other extensions are ignored.
///
/// # Errors
///
/// See [`FolderError`]. All names are checked before anything is written; what was written before a file could not be
/// read remains.
pub async fn import(database: &dyn Database, folder: &Path) -> Result<Copied, FolderError> {
    let mut pages = BTreeSet::new();
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let path = entry.map_err(at(folder))?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(name) = file.strip_suffix(ENDING) else { continue };
        if !is_file(&path)? {
            continue;
        }
        let name = Name::parse(name).map_err(|error| FolderError::Name(path.clone(), error))?;
        pages.insert((name, path));
    }
    let mut files = Vec::new();
    for (name, path) in &pages {
        files.append(&mut attachments(name, path)?);
    }
    let read_page = |(name, path): (Name, PathBuf)| {
        let text = fs::read_to_string(&path).map_err(at(&path))?;
        let content = from_markdown(&text.replace("\r\n", "\n"));
        let links = links(&content.text);
        Ok(write(name, WriteAction::Save { content, links }))
    };
    let read_attachment = |(name, file, path): (Name, Name, PathBuf)| {
        let bytes = fs::read(&path).map_err(at(&path))?.into();
        let (condition, media_type) = (FileCondition::Any, media_type(&file).to_owned());
        Ok(write(name, WriteAction::Attach { file, condition, media_type, bytes }))
    };
    // Attachments need their page.
    Ok(Copied {
        pages: import_all(database, pages, read_page).await?,
        attachments: import_all(database, files, read_attachment).await?,
    })
}

/// The attachments of the page whose text is in the file `path`.
fn attachments(name: &Name, path: &Path) -> Result<Vec<(Name, Name, PathBuf)>, FolderError> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let folder = path.with_file_name(format!("{stem}{FILES_ENDING}"));
    if fs::symlink_metadata(&folder).is_ok_and(|metadata| metadata.is_symlink()) {
        return Err(FolderError::Link(folder));
    }
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut attachments = Vec::new();
    for entry in fs::read_dir(&folder).map_err(at(&folder))? {
        let path = entry.map_err(at(&folder))?.path();
        if !is_file(&path)? {
            continue;
        }
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let file = Name::parse(&file).map_err(|error| FolderError::Name(path.clone(), error))?;
        attachments.push((name.clone(), file, path));
    }
    Ok(attachments)
}

fn write(name: Name, action: WriteAction) -> Write {
    Write { name, condition: Condition::Any, action, author: None, comment: "Import".to_owned(), time: now() }
}

/// Imports what `read` returns for all items, up to the first failure.
async fn import_all<T: 'static>(
    database: &dyn Database,
    items: impl IntoIterator<Item = T, IntoIter: Send + 'static>,
    mut read: impl FnMut(T) -> Result<Write, FolderError> + Send + 'static,
) -> Result<u64, FolderError> {
    let (failure, failed) = std::sync::mpsc::channel();
    let writes = items.into_iter().map_while(move |item| match read(item) {
        Ok(write) => Some(write),
        Err(error) => {
            // The receiver is dropped only if the database has failed first.
            let _ = failure.send(error);
            None
        }
    });
    let count = database.import(Box::new(writes)).await?;
    failed.try_recv().map_or(Ok(count), Err)
}
