//! What only the PostgreSQL engine does, and the server on which the cases run.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use breme_wiki::database::postgres::PostgresDatabase;
use breme_wiki::database::{self, Database, WriteError};
use breme_wiki::page::{Condition, Found};
use serde_json::json;
use tokio_postgres::NoTls;

use crate::write::{attach, delete, name, only, save, save_fields};

/// A server for the tests of this process, with a Unix socket in a folder of its own. Its shell waits for the end of
/// its standard input, which comes with the end of this process, whatever ends it; then it removes everything.
struct Server {
    folder: String,
    _shell: Child,
    _input: ChildStdin,
}

const SCRIPT: &str = r#"
    set -eu
    bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
    folder=$(mktemp -d /tmp/breme-postgres.XXXXXX)
    stop() {
        "$bin/pg_ctl" -D "$folder/data" -m immediate -w stop > /dev/null 2>&1 || true
        rm -rf "$folder"
    }
    trap stop EXIT
    trap '' INT TERM HUP
    "$bin/initdb" -D "$folder/data" -U wiki -A trust -E UTF8 --locale=C.UTF-8 > /dev/null
    options="-k $folder -c listen_addresses='' -c max_connections=300 -c fsync=off -c shared_buffers=64MB"
    "$bin/pg_ctl" -D "$folder/data" -l "$folder/log" -o "$options" -w -t 300 start > /dev/null
    echo "$folder"
    cat > /dev/null
"#;

impl Server {
    fn start() -> Self {
        // The server refuses to run as root; Debian's package brings the user.
        let as_root = std::fs::metadata("/proc/self").is_ok_and(|process| {
            use std::os::unix::fs::MetadataExt;
            process.uid() == 0
        });
        let user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"];
        let words: Vec<&str> = if as_root { user.to_vec() } else { Vec::new() };
        let words = [&words[..], &["sh", "-c", SCRIPT]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = command.spawn().unwrap();
        let input = shell.stdin.take().unwrap();
        let mut folder = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut folder).unwrap();
        assert!(!folder.is_empty(), "PostgreSQL does not start; `cargo xtask packages` installs it");
        Self { folder: folder.trim_end().to_owned(), _shell: shell, _input: input }
    }

    fn shared() -> &'static Self {
        static SERVER: OnceLock<Server> = OnceLock::new();
        SERVER.get_or_init(Self::start)
    }

    fn url(&self, database: &str) -> String {
        format!("postgres:///{database}?host={}&user=wiki", self.folder)
    }
}

/// An empty database.
pub(crate) struct Fixture {
    url: String,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let server = tokio::task::spawn_blocking(Server::shared).await.unwrap();
        let name = format!("test{}", COUNT.fetch_add(1, Ordering::Relaxed));
        execute(&server.url("postgres"), &format!("CREATE DATABASE {name}")).await;
        Self { url: server.url(&name) }
    }

    pub(crate) async fn open(&self) -> Arc<dyn Database> {
        database::open(&self.url).await.unwrap()
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

async fn execute(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute(sql).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
}

async fn message(url: &str) -> String {
    PostgresDatabase::open(url).await.err().unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_wikis_share_a_database() {
    let fixture = Fixture::new().await;
    let (one, two) = tokio::join!(fixture.open(), fixture.open());
    assert_eq!(one.write(only(Condition::Absent, save("A", "one"))).await.unwrap().revision, 1);
    let Found::Page(page) = two.page(&name("A")).await.unwrap() else { panic!("the page exists") };
    assert_eq!(page.content.text, "one");
    one.set_edges(&["e".to_owned()]).await.unwrap();
    let refused = two.write(only(Condition::Absent, save("A", "two"))).await;
    assert!(matches!(refused, Err(WriteError::Conflict(Found::Page(_)))), "{refused:?}");

    // Confirming what one reads loses nothing of what the other writes at the same time.
    let wikis = [one, two];
    let writers: Vec<_> = (0..100)
        .map(|number| {
            let wiki = Arc::clone(&wikis[number % 2]);
            let page = format!("P{number}");
            tokio::spawn(async move { wiki.write(save(&page, "[[A]]")).await.unwrap().sequence })
        })
        .collect();
    let mut keys = std::collections::BTreeSet::new();
    let mut finished = false;
    loop {
        let queue = wikis[0].purges("e", 1000).await.unwrap();
        match queue.last() {
            Some((last, _)) => wikis[1].purged("e", *last).await.unwrap(),
            None if finished => break,
            None => finished = writers.iter().all(|writer| writer.is_finished()),
        }
        keys.extend(queue.into_iter().map(|(_, key)| key));
        tokio::task::yield_now().await;
    }
    let mut sequences = Vec::new();
    for writer in writers {
        sequences.push(writer.await.unwrap());
    }
    sequences.sort_unstable();
    assert_eq!(sequences, (2..102).collect::<Vec<u64>>());
    assert!((0..100).all(|number| keys.contains(&format!("page:P{number}"))), "{keys:?}");
    assert_eq!(wikis[0].verify().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_later_schema_is_refused_and_left_alone() {
    let fixture = Fixture::new().await;
    drop(fixture.open().await);
    execute(&fixture.url, "UPDATE wiki.schema SET version = 99").await;
    let message = message(&fixture.url).await;
    assert!(message.contains("schema wiki has version 99, and this program knows versions up to 1"), "{message}");
    assert!(PostgresDatabase::open_to_read(&fixture.url).await.is_err());
}

#[tokio::test]
async fn what_cannot_be_opened_is_named() {
    let fixture = Fixture::new().await;
    let read = PostgresDatabase::open_to_read(&fixture.url).await.err().unwrap().to_string();
    assert!(read.contains("the database has no wiki"), "{read}");
    let tls = message(&format!("{}&sslmode=require", fixture.url)).await;
    assert!(tls.contains("no TLS yet") && tls.contains("sslmode=disable"), "{tls}");
    let missing = message(&fixture.url.replace("test", "missing")).await;
    assert!(missing.contains("database \"missing"), "{missing}");
    let nowhere = message("postgres:///x?host=/no/such/folder&user=wiki").await;
    assert!(nowhere.contains("cannot open the database"), "{nowhere}");
    let no_url = message("postgres://host:port/x").await;
    assert!(no_url.contains("postgres://USER:PASSWORD@HOST/DATABASE"), "{no_url}");
    let backup = database::backup(&fixture.url, std::path::Path::new("/tmp/x")).await.unwrap_err().to_string();
    assert!(backup.contains("pg_dump"), "{backup}");
}

#[tokio::test]
async fn a_lost_connection_is_replaced() {
    let fixture = Fixture::new().await;
    let database = fixture.open().await;
    database.write(save("A", "one")).await.unwrap();
    let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                  WHERE datname = current_database() AND pid <> pg_backend_pid()";
    execute(&fixture.url, others).await;
    // The first operations may find that their connections are closed.
    let mut outcomes = Vec::new();
    while !matches!(outcomes.last(), Some(Ok(_))) && outcomes.len() < 40 {
        outcomes.push(database.write(save("A", "two")).await);
    }
    assert!(outcomes.last().unwrap().is_ok(), "{outcomes:?}");
    for outcome in &outcomes[..outcomes.len() - 1] {
        assert!(matches!(outcome, Err(WriteError::Database(error)) if error.is_temporary), "{outcome:?}");
    }
    assert_eq!(database.verify().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_faulty_write_does_not_fail_those_that_share_its_transaction() {
    let fixture = Fixture::new().await;
    let database = fixture.open().await;
    // PostgreSQL refuses NUL; such a value is a fault of the program.
    let faulty = database.set_value("bad", None, Some("\0"));
    let (first, faulty, second) = tokio::join!(database.write(save("A", "1")), faulty, database.write(save("B", "2")));
    assert!(first.is_ok() && second.is_ok(), "{first:?} {second:?}");
    assert!(faulty.is_err());
    assert_eq!(database.verify().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn verify_finds_planted_faults() {
    for (fault, expected) in [
        (
            "UPDATE wiki.revisions SET bytes = bytes + 1 WHERE sequence = 1",
            "A, revision 1: a revision's text does not have",
        ),
        ("UPDATE wiki.pages SET revision = 9 WHERE name = 'A'", "A: the page has no current revision"),
        ("UPDATE wiki.pages SET live = false WHERE name = 'A'", "A: the page is deleted, but"),
        ("DELETE FROM wiki.revisions WHERE sequence = 2", "A: the page has a gap in its revisions"),
        ("DELETE FROM wiki.words WHERE page = 1", "A: the page is not in the full-text index"),
        ("DELETE FROM wiki.grams WHERE page = 1", "A: the page is not in the index of titles"),
        ("UPDATE wiki.blobs SET bytes = 'other'", "the bytes of the attachment have another digest"),
        ("DELETE FROM wiki.attachments", "the bytes belong to no attachment"),
        ("INSERT INTO wiki.edges VALUES ('e', 999)", "e: the edge has confirmed purges"),
        ("INSERT INTO wiki.links SELECT id, 'A' FROM wiki.pages WHERE NOT live", "the deleted page has links"),
    ] {
        let fixture = Fixture::new().await;
        let database = fixture.open().await;
        for write in [
            save("A", "first"),
            attach("A", "f", b"bytes"),
            save("A", "second"),
            save("A", "third"),
            save_fields("B", json!({"a": 1})),
        ] {
            database.write(write).await.unwrap();
        }
        database.write(save("C", "")).await.unwrap();
        database.write(delete("C")).await.unwrap();
        assert_eq!(database.verify().await.unwrap(), Vec::<String>::new());
        execute(&fixture.url, fault).await;
        let faults = database.verify().await.unwrap();
        assert!(faults.iter().any(|line| line.contains(expected)), "{fault}: {faults:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive() {
    let fixture = Fixture::new().await;
    crate::crash::acknowledged_writes_survive(fixture.url()).await;
}
