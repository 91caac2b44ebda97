//! Cases of the SQLite engine only.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use breme_wiki_database::page::{Found, Write};
use breme_wiki_database::sqlite::{CACHE_BYTES_DEFAULT, SqliteDatabase};
use breme_wiki_database::{Database, backup, open_for_upkeep_of_existing, open_to_read};
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

use crate::contract::targets;
use crate::write::{attach, delete, detach, name, save, save_fields};

/// A database in its own folder.
pub(crate) struct Fixture {
    folder: TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("wiki.db")
    }

    pub(crate) fn open(&self) -> Arc<dyn Database> {
        Arc::new(open(&self.path()).unwrap())
    }
}

fn open(path: &Path) -> Result<SqliteDatabase, String> {
    SqliteDatabase::open(path, CACHE_BYTES_DEFAULT).map_err(|error| error.to_string())
}

#[tokio::test]
async fn pages_remain_when_the_wiki_ends() {
    let fixture = Fixture::new();
    for revision in 1..=3 {
        let database = fixture.open();
        assert_eq!(database.write(save("A", "text")).await.unwrap().revision, revision);
    }
}

#[tokio::test]
async fn a_later_schema_is_refused_and_left_alone() {
    let fixture = Fixture::new();
    fixture.open().write(save("A", "text")).await.unwrap();
    Connection::open(fixture.path()).unwrap().pragma_update(None, "user_version", 99).unwrap();
    for result in [open(&fixture.path()), SqliteDatabase::open_to_read(&fixture.path()).map_err(|e| e.to_string())] {
        let message = result.err().unwrap();
        assert!(
            message.contains("wiki.db has schema version 99, and this program knows versions up to 6"),
            "{message}"
        );
    }
    let version: i64 =
        Connection::open(fixture.path()).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 99);
}

#[test]
fn files_of_others_are_refused() {
    let fixture = Fixture::new();
    Connection::open(fixture.path()).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    let message = open(&fixture.path()).err().unwrap();
    assert!(message.contains("wiki.db is a SQLite database of another program"), "{message}");
    std::fs::write(fixture.path(), "not a database, but a text that is long enough to be read as a header".repeat(9))
        .unwrap();
    let message = open(&fixture.path()).err().unwrap();
    assert!(message.contains("wiki.db: ") && message.contains("not a database"), "{message}");
    let message = open(Path::new("/no/such/folder/wiki.db")).err().unwrap();
    assert!(message.contains("/no/such/folder/wiki.db"), "{message}");
    assert!(SqliteDatabase::open_to_read(&fixture.path().with_extension("no")).is_err());
}

#[tokio::test]
async fn only_some_commands_create_a_file() {
    let path = Fixture::new().path();
    let target = path.display().to_string();
    for refused in [
        open_to_read(&target).await.map(drop),
        open_for_upkeep_of_existing(&target).await.map(drop),
        backup(&target, &path.with_extension("copy")).await,
    ] {
        let message = refused.unwrap_err().to_string();
        assert!(message.starts_with(&format!("cannot open the database: {target}: no such file; only ")), "{message}");
    }
    assert!(!path.exists());
}

#[tokio::test]
async fn one_process_writes_and_others_read() {
    let fixture = Fixture::new();
    let writer = fixture.open();
    let message = open(&fixture.path()).err().unwrap();
    assert!(message.contains("another process writes to") && message.contains("wiki.db"), "{message}");
    let reader = SqliteDatabase::open_to_read(&fixture.path()).unwrap();
    for text in ["one", "two"] {
        writer.write(save("A", text)).await.unwrap();
        let Found::Page(page) = reader.page(&name("A")).await.unwrap() else { panic!("the page exists") };
        assert_eq!(page.content.text, text);
    }
    let refused = format!("{:?}", reader.write(save("A", "three")).await);
    assert!(refused.contains("open read-only"), "{refused}");
    drop(writer);
    open(&fixture.path()).unwrap();
}

#[test]
fn a_symbolic_link_has_the_lock_of_its_file() {
    let fixture = Fixture::new();
    let [link, chain] = ["link.db", "chain.db"].map(|file| fixture.path().with_file_name(file));
    std::os::unix::fs::symlink("wiki.db", &link).unwrap();
    std::os::unix::fs::symlink(&link, &chain).unwrap();
    // At first the file does not exist, then it does.
    for _ in 0..2 {
        for (first, second) in [(&chain, fixture.path()), (&fixture.path(), link.clone())] {
            let database = open(first).unwrap();
            let message = open(&second).err().unwrap_or_default();
            assert!(message.contains("another process writes to"), "{first:?}, {second:?}: {message:?}");
            drop(database);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_a_running_wiki_is_a_sound_wiki_of_one_instant() {
    let fixture = Fixture::new();
    let database = fixture.open();
    // Each write makes the two pages equal again, so that a copy of half a transaction would be visible.
    let text = |number: usize| format!("{number} {}", "text ".repeat(500));
    database.write(save("A", &text(0))).await.unwrap();
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let writer = Arc::clone(&database);
    let writes = tokio::spawn(async move {
        let mut last = 0;
        while stopped.try_recv() == Err(tokio::sync::oneshot::error::TryRecvError::Empty) {
            last += 1;
            writer.write(save("A", &text(last))).await.unwrap();
            writer.write(save(&format!("P{last}"), &text(last))).await.unwrap();
        }
        last
    });
    let target = fixture.path().display().to_string();
    for number in 0..3 {
        let to = fixture.path().with_file_name(format!("backup{number}.db"));
        backup(&target, &to).await.unwrap();
        let copy = SqliteDatabase::open(&to, 0).unwrap();
        assert_eq!(copy.verify().await.unwrap(), Vec::<String>::new());
        let changes = copy.recent(None, 1).await.unwrap();
        assert!(
            matches!(copy.page(&changes[0].name).await.unwrap(), Found::Page(page) if page.revision == changes[0].revision)
        );
        // It is complete by itself, and writes to it do not affect the original.
        copy.write(save("Only in the copy", "")).await.unwrap();
        assert_eq!(database.page(&name("Only in the copy")).await.unwrap(), Found::Nothing);
    }
    stop.send(()).unwrap();
    let last = writes.await.unwrap();
    assert!(last > 0);
    let message = backup(&target, &fixture.path()).await.unwrap_err().to_string();
    assert!(message.contains("wiki.db exists already"), "{message}");
}

#[tokio::test]
async fn verify_finds_planted_faults() {
    for (fault, expected) in [
        ("UPDATE revisions SET bytes = bytes + 1 WHERE sequence = 1", "A, revision 1: a revision's text does not have"),
        ("UPDATE pages SET revision = 9 WHERE name = 'A'", "A: the page has no current revision"),
        ("UPDATE pages SET current = 999 WHERE name = 'A'", "A: the page has no current revision"),
        ("DELETE FROM revisions WHERE sequence = 3", "A: the page has a gap in its revisions"),
        ("UPDATE pages SET live = 0 WHERE name = 'A'", "A: the page is deleted, but"),
        (
            "UPDATE revisions SET fields = '{' WHERE fields IS NOT NULL",
            "B, revision 1: a revision's fields cannot be read",
        ),
        ("UPDATE pages SET red_links = 'C' WHERE name = 'A'", "A: the page's red links are not those"),
        ("UPDATE pages SET red_links = 'D' WHERE name = 'B'", "B: the page's red links are not those"),
        ("UPDATE pages SET generation = NULL WHERE name = 'A'", "A: the page is not in the full-text index"),
        ("UPDATE pages SET generation = 99 WHERE name = 'A'", "A: the page is not in the full-text index"),
        ("DELETE FROM title_grams WHERE rowid = 1", "A: the page is not in the index of titles"),
        ("UPDATE pages SET generation = 1 WHERE live = 0", "C: the deleted page is in the full-text index"),
        ("DELETE FROM text_words WHERE word = 'third'", "of the full-text index: words are missing"),
        ("UPDATE text_words SET pages = x'ff' WHERE word = 'third'", "the list of the word \"third\" is damaged"),
        ("UPDATE text_words SET pages = x'63' WHERE word = 'third'", "the list of the word \"third\" is damaged"),
        ("INSERT INTO text_words VALUES (99, 'x', x'01')", "segment 99 of the full-text index: it has words, but"),
        ("INSERT INTO text_segments SELECT 99, first, last, 0, 0, 0 FROM text_segments", "those of another one"),
        ("UPDATE blobs SET bytes = CAST('other' AS BLOB)", "the bytes of the attachment have another digest"),
        ("DELETE FROM attachments", "the bytes belong to no attachment"),
        ("DELETE FROM blobs", "refers to a row of blobs that does not exist"),
        ("INSERT INTO edges (edge, through) VALUES ('e', 999)", "e: the edge has confirmed purges"),
        ("INSERT INTO links (page, target) SELECT id, 'A' FROM pages WHERE live = 0", "the deleted page has links"),
        ("UPDATE title_grams_data SET block = CAST('broken' AS BLOB) WHERE id > 10", "title_grams"),
    ] {
        let fixture = Fixture::new();
        let database = fixture.open();
        for write in [
            save("A", "first"),
            attach("A", "f", b"bytes"),
            save("A", "second"),
            save("A", "third"),
            save_fields("B", json!({"a": 1})),
            save("B", "[[A]] [[C]]"),
        ] {
            database.write(write).await.unwrap();
        }
        database.write(save("C", "")).await.unwrap();
        database.write(delete("C")).await.unwrap();
        assert_eq!(database.verify().await.unwrap(), Vec::<String>::new());
        drop(database);
        let connection = Connection::open(fixture.path()).unwrap();
        connection.pragma_update(None, "foreign_keys", false).unwrap();
        connection.execute_batch(fault).unwrap();
        drop(connection);
        let faults = fixture.open().verify().await.unwrap();
        assert!(faults.iter().any(|line| line.contains(expected)), "{fault}: {faults:?}");
    }
}

/// The pages whose words are not indexed.
fn unindexed(fixture: &Fixture) -> u64 {
    let connection = Connection::open(fixture.path()).unwrap();
    connection.query_row("SELECT count(*) FROM unindexed", [], |row| row.get(0)).unwrap()
}

async fn found(database: &dyn Database, query: &str) -> Vec<String> {
    let found = database.search_text(query, 10).await.unwrap();
    found.into_iter().map(|found| found.name.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_are_found_before_and_after_they_are_indexed() {
    const PAGES: usize = 600;
    let fixture = Fixture::new();
    let database = fixture.open();
    for round in 0..3 {
        let write = |number: usize| {
            let (database, text) = (Arc::clone(&database), format!("round{round} word{number}"));
            async move { database.write(save(&format!("P{number}"), &text)).await.unwrap() }
        };
        let writes: tokio::task::JoinSet<_> = (0..PAGES).map(write).collect();
        writes.join_all().await;
        for number in [0, 1, PAGES / 2, PAGES - 1] {
            let [page, word] = [format!("P{number}"), format!("word{number}")];
            assert_eq!(found(&*database, &word).await, [page.as_str()]);
            assert_eq!(found(&*database, &format!("{word} round{round}")).await, [page.as_str()]);
            assert_eq!(found(&*database, &format!("{word} round{}", round + 1)).await, [""; 0]);
        }
    }
    assert!(unindexed(&fixture) < PAGES as u64, "they do not wait for a pause");
    database.write(delete("P0")).await.unwrap();
    assert_eq!(found(&*database, "word0").await, [""; 0]);
    assert_eq!(database.verify().await.unwrap(), Vec::<String>::new());
    drop(database);
    assert_eq!(unindexed(&fixture), 0, "the end of the wiki leaves none");
    let database = fixture.open();
    assert_eq!(found(&*database, "word0").await, [""; 0]);
    assert_eq!(found(&*database, "round2 word1").await, ["P1"]);
    assert_eq!(found(&*database, "round1 word1").await, [""; 0]);
    assert_eq!(database.verify().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn pages_that_a_killed_wiki_did_not_index_are_found_and_indexed_later() {
    let fixture = Fixture::new();
    let database = fixture.open();
    for page in ["A", "B"] {
        database.write(save(page, "castle")).await.unwrap();
    }
    drop(database);
    let connection = Connection::open(fixture.path()).unwrap();
    connection
        .execute_batch("UPDATE pages SET generation = NULL WHERE id = 1; INSERT INTO unindexed (page) VALUES (1), (99)")
        .unwrap();
    drop(connection);
    let reader = SqliteDatabase::open_to_read(&fixture.path()).unwrap();
    assert_eq!(found(&reader, "castle").await, ["A", "B"]);
    assert_eq!(reader.verify().await.unwrap(), Vec::<String>::new());
    drop(fixture.open());
    assert_eq!(unindexed(&fixture), 0);
    assert_eq!(found(&reader, "castle").await, ["A", "B"]);
    assert_eq!(reader.verify().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_file_of_an_earlier_version_has_its_red_links_and_index_afterwards() {
    let fixture = Fixture::new();
    let database = fixture.open();
    for write in [save("A", "[[B]] [[C]] [[D]] [[A]]"), save("B", "[[A]]"), save("C", ""), delete("C")] {
        database.write(write).await.unwrap();
    }
    drop(database);
    let connection = Connection::open(fixture.path()).unwrap();
    connection
        .execute_batch(
            "DROP TABLE file_changes; ALTER TABLE revisions DROP COLUMN erased;
             ALTER TABLE pages DROP COLUMN red_links; DROP TABLE unindexed;
             DROP INDEX pages_generation; ALTER TABLE pages DROP COLUMN generation;
             DROP TABLE text_segments; DROP TABLE text_words;
             CREATE VIRTUAL TABLE text_words USING fts5 (
                 words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
             );
             PRAGMA user_version = 2",
        )
        .unwrap();
    drop(connection);
    let database = fixture.open();
    for (page, red_links) in [("A", &["C", "D"][..]), ("B", &[])] {
        let Found::Page(page) = database.page(&name(page)).await.unwrap() else { panic!("the page exists") };
        assert_eq!(page.red_links, crate::write::names(red_links));
    }
    assert_eq!(found(&*database, "a").await, ["A", "B"]);
    assert_eq!(found(&*database, "c").await, ["A"], "C itself is deleted");
    assert_eq!(database.verify().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn attachments_and_hangul_of_an_earlier_version_remain_and_are_found() {
    let fixture = Fixture::new();
    let database = fixture.open();
    for write in [save("A", "나는 한국어를 배운다"), save("B", "text"), attach("A", "f", b"earlier")] {
        database.write(write).await.unwrap();
    }
    drop(database);
    let connection = Connection::open(fixture.path()).unwrap();
    connection
        .execute_batch(
            "DROP TABLE file_changes; ALTER TABLE revisions DROP COLUMN erased;
             UPDATE text_words SET word = 'x' || word; PRAGMA user_version = 4",
        )
        .unwrap();
    drop(connection);
    let database = fixture.open();
    assert_eq!(found(&*database, "한국").await, ["A"]);
    assert_eq!(found(&*database, "text").await, [""; 0], "only pages with Hangul are indexed again");
    // What an earlier version attached becomes a version when it is replaced.
    let replaced = database.write(attach("A", "f", b"later")).await.unwrap();
    let version = database.file_version(&name("A"), &name("f"), replaced.sequence).await.unwrap().unwrap();
    assert_eq!(&version.1[..], b"earlier");
    assert_eq!(database.recent(None, 10).await.unwrap().len(), 3);
}

/// Whether a file of the database contains the text.
fn is_in_files(fixture: &Fixture, text: &str) -> bool {
    let mut files = std::fs::read_dir(fixture.folder.path()).unwrap();
    files.any(|file| {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_what_was_erased_remains_in_the_files_of_a_running_wiki() {
    // The index of titles has the parts of names, of which the first is the character itself.
    const SECRETS: [&str; 12] = [
        "鑫",
        "namesecret",
        "filesecret",
        "personsecret",
        "textsecret",
        "longsecret",
        "fieldsecret",
        "commentsecret",
        "authorsecret",
        "bytesecret",
        "gonesecret",
        "lastsecret",
    ];
    let fixture = Fixture::new();
    let signed = Write { author: Some("authorsecret".into()), comment: "commentsecret".into(), ..save("A", "") };
    let filler = "filler ".repeat(3000);
    for write in [
        save("A", "textsecret castle"),
        signed,
        save("A", &format!("{filler} longsecret {filler}")),
        save_fields("A", json!({"a": "fieldsecret"})),
        attach("A", "f", b"bytesecret"),
        detach("A", "f"),
        Write { author: Some("personsecret".into()), ..attach("A", "filesecret", b"1") },
        detach("A", "filesecret"),
        save("鑫 namesecret", "gonesecret"),
        delete("鑫 namesecret"),
        save("A", "lastsecret"),
    ] {
        // The end of a wiki indexes what it wrote: each text is in a segment of its own.
        fixture.open().write(write).await.unwrap();
    }
    let database = fixture.open();
    database.write(save("A", "castle")).await.unwrap();
    for secret in SECRETS {
        assert!(is_in_files(&fixture, secret), "{secret}");
    }
    let version = database.file_history(&name("A"), &name("f"), None, 1).await.unwrap()[0].sequence;
    let version = format!("A/files/f/versions/{version}");
    let what = [
        "A/revisions/1",
        "A/revisions/2",
        "A/revisions/3",
        "A/revisions/4",
        "A/revisions/5",
        &version,
        "A/files/filesecret",
        "鑫 namesecret",
    ];
    let upkeep = open_for_upkeep_of_existing(fixture.path().to_str().unwrap()).await.unwrap();
    assert_eq!(upkeep.erase(&targets(&what), 1).await.unwrap(), []);
    assert_eq!(upkeep.erase_author("personsecret").await.unwrap(), 0, "it went with the file");
    database.write(Write { author: Some("personsecret".into()), ..attach("A", "g", b"1") }).await.unwrap();
    assert!(is_in_files(&fixture, "personsecret"));
    assert_eq!(upkeep.erase_author("personsecret").await.unwrap(), 1);
    for secret in SECRETS {
        assert!(!is_in_files(&fixture, secret), "{secret}");
        assert_eq!(found(&*database, secret).await, [""; 0]);
    }
    // The wiki goes on.
    assert_eq!(found(&*database, "castle").await, ["A"]);
    assert_eq!(database.write(save("鑫 namesecret", "castle")).await.unwrap().revision, 3);
    assert_eq!(found(&*database, "castle").await, ["A", "鑫 namesecret"]);
    assert_eq!(database.verify().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn an_erasure_beside_a_long_read_says_what_remains() {
    let fixture = Fixture::new();
    let database = fixture.open();
    for write in [save("A", "secret"), save("A", "new"), attach("A", "copy", b"f"), attach("A", "f", b"f")] {
        database.write(write).await.unwrap();
    }
    let version = database.write(attach("A", "f", b"new")).await.unwrap().sequence;
    let reader = Connection::open(fixture.path()).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM revisions").unwrap();
    let what = targets(&["A/revisions/1", &format!("A/files/f/versions/{version}")]);
    let message = database.erase(&what, 1).await.unwrap_err().to_string();
    assert!(message.contains("wiki.db: another program reads the file") && message.contains("again"), "{message}");
    assert!(message.ends_with("the same bytes remain as A/files/copy; erase them too"), "{message}");
    assert!(database.history(&name("A"), None, 9).await.unwrap().last().unwrap().erased.is_some());
    assert!(is_in_files(&fixture, "secret"));
    drop(reader);
    database.erase(&what, 2).await.unwrap();
    assert!(!is_in_files(&fixture, "secret"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_erasure_waits_for_the_checkpoints_of_others() {
    let fixture = Fixture::new();
    let database = fixture.open();
    for write in [save("A", "secret"), save("A", "new"), attach("A", "f", &[1; 8 << 20])] {
        database.write(write).await.unwrap();
    }
    let (path, is_done) = (fixture.path(), Arc::new(AtomicBool::new(false)));
    let ends = Arc::clone(&is_done);
    let other = std::thread::spawn(move || {
        let connection = Connection::open(path).unwrap();
        while !ends.load(Ordering::Relaxed) {
            connection.query_row("PRAGMA wal_checkpoint", [], |_| Ok(())).unwrap();
        }
    });
    let erased = database.erase(&targets(&["A/revisions/1"]), 1).await;
    is_done.store(true, Ordering::Relaxed);
    other.join().unwrap();
    assert_eq!(erased.unwrap(), []);
    assert!(!is_in_files(&fixture, "secret"));
}

#[test]
fn files_are_only_for_their_owner() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new();
    let database = open(&fixture.path()).unwrap();
    let backup = fixture.path().with_file_name("backup.db");
    let target = fixture.path().display().to_string();
    tokio::runtime::Runtime::new().unwrap().block_on(breme_wiki_database::backup(&target, &backup)).unwrap();
    for file in ["wiki.db", "wiki.db-wal", "backup.db"] {
        let mode = std::fs::metadata(fixture.path().with_file_name(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    drop(database);
    // What the operator has allowed remains.
    std::fs::set_permissions(fixture.path(), std::fs::Permissions::from_mode(0o640)).unwrap();
    drop(open(&fixture.path()).unwrap());
    assert_eq!(std::fs::metadata(fixture.path()).unwrap().permissions().mode() & 0o777, 0o640);
}

#[tokio::test]
async fn a_damaged_file_is_reported() {
    let fixture = Fixture::new();
    let database = fixture.open();
    for number in 0..100 {
        database.write(save(&format!("P{number}"), &"text ".repeat(1000))).await.unwrap();
    }
    drop(database);
    let mut bytes = std::fs::read(fixture.path()).unwrap();
    let half = bytes.len() / 2;
    bytes[half..half + 4096].fill(0xaa);
    std::fs::write(fixture.path(), bytes).unwrap();
    let faults = SqliteDatabase::open_to_read(&fixture.path()).unwrap().verify().await;
    assert!(faults.as_ref().map_or(true, |faults| !faults.is_empty()), "{faults:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_after_an_acknowledged_write_sees_it() {
    let fixture = Fixture::new();
    let database = fixture.open();
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let database = Arc::clone(&database);
            tokio::spawn(async move {
                let mut last = 0;
                while last < 300 {
                    if let Found::Page(page) = database.page(&name("A")).await.unwrap() {
                        assert!(page.revision >= last, "revision {} after {last}", page.revision);
                        last = page.revision;
                    }
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for revision in 1..=300 {
        database.write(save("A", &revision.to_string())).await.unwrap();
        let Found::Page(page) = database.page(&name("A")).await.unwrap() else { panic!("the page exists") };
        assert_eq!((page.revision, &page.content.text), (revision, &revision.to_string()));
    }
    for reader in readers {
        reader.await.unwrap();
    }
}
