//! A wiki as a folder: `NAME.md` for each page, with its fields as front matter, and its attachments in `NAME.files/`.

use std::collections::BTreeMap;
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
/// Pages or attachments listed at a time.
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
    #[error("{0} and {1} are the same page; rename or remove one")]
    SamePage(PathBuf, PathBuf),
    #[error("{0}: the page redirects to itself")]
    Redirect(PathBuf),
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

/// Writes all pages and attachments to a new or empty folder. Calls `unreadable` for each page that the database has
/// but cannot read, and continues with the next.
///
/// # Errors
///
/// See [`FolderError`].
pub async fn export(
    database: &dyn Database,
    folder: &Path,
    mut unreadable: impl FnMut(&Name, &DatabaseError),
) -> Result<Copied, FolderError> {
    fs::create_dir_all(folder).map_err(at(folder))?;
    if fs::read_dir(folder).map_err(at(folder))?.next().is_some() {
        return Err(FolderError::NotEmpty(folder.to_owned()));
    }
    let mut copied = Copied::default();
    let mut after: Option<Name> = None;
    loop {
        let names = database.list(after.as_ref(), BATCH).await?;
        for name in &names {
            let page = match database.page(name).await {
                Ok(Found::Page(page)) => page,
                // Deleted in the meantime.
                Ok(_) => continue,
                Err(error) if error.is_temporary => return Err(error.into()),
                Err(error) => {
                    unreadable(name, &error);
                    continue;
                }
            };
            let path = folder.join(format!("{name}{ENDING}"));
            fs::write(&path, to_markdown(&page.content)).map_err(at(&path))?;
            copied.pages += 1;
            copied.attachments += export_attachments(database, name, folder).await?;
        }
        match names.into_iter().next_back() {
            Some(last) => after = Some(last),
            None => return Ok(copied),
        }
    }
}

/// Returns how many attachments the page has.
async fn export_attachments(database: &dyn Database, name: &Name, folder: &Path) -> Result<u64, FolderError> {
    let files = folder.join(format!("{name}{FILES_ENDING}"));
    let (mut count, mut after): (u64, Option<Name>) = (0, None);
    loop {
        let infos = database.attachments(name, after.as_ref(), BATCH).await?;
        for info in &infos {
            let Some((_, bytes)) = database.attachment(name, &info.file).await? else { continue };
            fs::create_dir_all(&files).map_err(at(&files))?;
            let path = files.join(info.file.as_str());
            fs::write(&path, bytes).map_err(at(&path))?;
            count += 1;
        }
        match infos.into_iter().next_back() {
            Some(last) => after = Some(last.file),
            None => return Ok(count),
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
    let mut pages = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let path = entry.map_err(at(folder))?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(name) = file.strip_suffix(ENDING) else { continue };
        if !is_file(&path)? {
            continue;
        }
        let name = Name::parse(name).map_err(|error| FolderError::Name(path.clone(), error))?;
        if let Some(other) = pages.get(&name) {
            return Err(FolderError::SamePage(PathBuf::clone(other), path));
        }
        pages.insert(name, path);
    }
    let mut files = Vec::new();
    for (name, path) in &pages {
        files.append(&mut attachments(name, path)?);
    }
    let read_page = |(name, path): (Name, PathBuf)| {
        let text = fs::read_to_string(&path).map_err(at(&path))?;
        let content = from_markdown(&text.replace("\r\n", "\n"));
        if content.redirect.as_ref() == Some(&name) {
            return Err(FolderError::Redirect(path));
        }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use breme_wiki_database::{RESULTS_MAX, open};

    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    async fn database(folder: &Path) -> Arc<dyn Database> {
        open(folder.join("wiki.db").to_str().unwrap()).await.unwrap()
    }

    fn fail(name: &Name, error: &DatabaseError) {
        panic!("{name}: {error}");
    }

    #[tokio::test]
    async fn all_attachments_of_a_page_are_exported() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(folder.path()).await;
        let page = WriteAction::Save { content: from_markdown("x"), links: Vec::new() };
        let attach = |number: usize| WriteAction::Attach {
            file: name(&format!("{number}.txt")),
            condition: FileCondition::Any,
            media_type: "text/plain".to_owned(),
            bytes: number.to_string().into_bytes().into(),
        };
        let actions = std::iter::once(page).chain((0..=RESULTS_MAX).map(attach));
        database.import(Box::new(actions.map(|action| write(name("A"), action)))).await.unwrap();
        let to = folder.path().join("pages");
        let copied = export(&*database, &to, fail).await.unwrap();
        assert_eq!((copied.pages, copied.attachments), (1, RESULTS_MAX as u64 + 1));
        assert_eq!(fs::read_dir(to.join("A.files")).unwrap().count(), RESULTS_MAX + 1);
    }

    #[tokio::test]
    async fn a_page_that_cannot_be_read_is_named_and_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(folder.path()).await;
        for page in ["A", "B", "C"] {
            let action = WriteAction::Save { content: from_markdown("---\na: 1\n---\nx"), links: Vec::new() };
            database.write(write(name(page), action)).await.unwrap();
        }
        // As earlier versions wrote them.
        let sql = "UPDATE revisions SET fields = ?1 WHERE page = (SELECT id FROM pages WHERE name = 'B')";
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(127), "]".repeat(127));
        rusqlite::Connection::open(folder.path().join("wiki.db")).unwrap().execute(sql, [deep]).unwrap();
        let mut skipped = Vec::new();
        let to = folder.path().join("pages");
        let copied = export(&*database, &to, |name, _| skipped.push(name.clone())).await.unwrap();
        assert_eq!((copied.pages, skipped), (2, vec![name("B")]));
        assert!(to.join("C.md").exists() && !to.join("B.md").exists());
        let faults = database.verify().await.unwrap();
        assert!(faults.len() == 1 && faults[0].starts_with("B, revision 1: a revision's fields cannot"), "{faults:?}");
    }

    #[tokio::test]
    async fn files_that_cannot_be_pages_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(folder.path()).await;
        let pages = folder.path().join("pages");
        for (files, problem) in
            [(&["A b.md", "A_b.md"][..], "are the same page"), (&["A.md"], "the page redirects to itself")]
        {
            fs::create_dir(&pages).unwrap();
            for file in files {
                fs::write(pages.join(file), "---\n\"$redirect\": A\n---\n").unwrap();
            }
            let message = import(&*database, &pages).await.unwrap_err().to_string();
            assert!(message.contains(problem), "{message}");
            assert!(files.iter().all(|file| message.contains(file)), "{message}");
            assert_eq!(database.list(None, 10).await.unwrap(), []);
            fs::remove_dir_all(&pages).unwrap();
        }
    }
}
