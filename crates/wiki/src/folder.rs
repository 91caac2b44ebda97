//! A wiki as a folder: `NAME.md` for each page, with its fields as front matter, and its attachments in `NAME.files/`.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::calendar::now;
use crate::database::{Database, DatabaseError};
use crate::fields::{from_markdown, to_markdown};
use crate::name::Name;
use crate::page::{Action, Condition, Found, Write};
use crate::render::links;
use crate::web::media_type;

const ENDING: &str = ".md";
const FILES_ENDING: &str = ".files";
/// Pages that are read from the database, or written to it, at a time.
const BATCH: usize = 500;

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Pages.
    pub pages: u64,
    /// Attachments.
    pub attachments: u64,
}

/// Why it could not be done.
#[derive(Debug)]
pub enum FolderError {
    /// A file or folder cannot be read or written.
    File(PathBuf, io::Error),
    /// The name of a file is no name of a page.
    Name(PathBuf, String),
    /// The folder for an export has files in it already.
    NotEmpty(PathBuf),
    /// The database failed.
    Database(DatabaseError),
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Name(path, problem) => {
                write!(f, "{}: the name of the file cannot be that of a page: {problem}; rename it", path.display())
            }
            Self::NotEmpty(path) => write!(f, "{}: the folder is not empty; name a new one", path.display()),
            Self::Database(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for FolderError {}

impl From<DatabaseError> for FolderError {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> FolderError {
    move |error| FolderError::File(path.to_owned(), error)
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
            // A page that was deleted in the meantime is left out.
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

/// Reads a folder of Markdown files; pages that exist get a new revision. Files with other endings are left alone.
///
/// # Errors
///
/// See [`FolderError`]. All names are checked before anything is written.
pub async fn import(database: &dyn Database, folder: &Path) -> Result<Copied, FolderError> {
    let mut pages = BTreeSet::new();
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let path = entry.map_err(at(folder))?.path();
        let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
        let Some(name) = file.strip_suffix(ENDING).filter(|_| path.is_file()) else { continue };
        let name = Name::parse(name).map_err(|error| FolderError::Name(path.clone(), error.to_string()))?;
        pages.insert((name, path));
    }
    let mut copied = Copied::default();
    let mut writes = Vec::new();
    let write = |name: &Name, action| Write {
        name: name.clone(),
        condition: Condition::Any,
        action,
        author: None,
        comment: "Import".to_owned(),
        time: now(),
    };
    for (name, path) in &pages {
        let text = fs::read_to_string(path).map_err(at(path))?;
        let content = from_markdown(&text.replace("\r\n", "\n"));
        let links = links(&content.text);
        writes.push(write(name, Action::Save { content, links }));
        copied.pages += 1;
        if writes.len() == BATCH {
            database.import(std::mem::take(&mut writes)).await?;
        }
    }
    database.import(std::mem::take(&mut writes)).await?;
    // Attachments need their page.
    for (name, path) in &pages {
        let files =
            path.with_file_name(format!("{}{FILES_ENDING}", path.file_stem().unwrap_or_default().to_string_lossy()));
        if !files.is_dir() {
            continue;
        }
        for entry in fs::read_dir(&files).map_err(at(&files))? {
            let path = entry.map_err(at(&files))?.path();
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            let file = Name::parse(&file).map_err(|error| FolderError::Name(path.clone(), error.to_string()))?;
            let bytes = fs::read(&path).map_err(at(&path))?.into();
            let action = Action::Attach { media_type: media_type(&file).to_owned(), file, bytes };
            database.import(vec![write(name, action)]).await?;
            copied.attachments += 1;
        }
    }
    Ok(copied)
}
