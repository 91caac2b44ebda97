//! Cases of the PostgreSQL engine only, and the server on which the cases run.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use breme_wiki_database::page::{Condition, Found, Write};
use breme_wiki_database::postgres::PostgresDatabase;
use breme_wiki_database::{Database, WriteError, backup, open};
use serde_json::json;
use tokio_postgres::NoTls;

use crate::contract::targets;
use crate::postgres_server::{Secured, Server};
use crate::write::{attach, delete, detach, name, only, save, save_fields};

fn shared() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::start)
}

/// An empty database.
pub(crate) struct Fixture {
    url: String,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let server = tokio::task::spawn_blocking(shared).await.unwrap();
        let name = format!("test{}", COUNT.fetch_add(1, Ordering::Relaxed));
        execute(&server.url("postgres"), &format!("CREATE DATABASE {name}")).await;
        Self { url: server.url(&name) }
    }

    pub(crate) async fn open(&self) -> Arc<dyn Database> {
        open(&self.url).await.unwrap()
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

    // Confirmations of one wiki lose nothing that the other writes at the same time.
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
        let queue = wikis[0].queued_purges("e", 1000).await.unwrap();
        match queue.last() {
            Some((last, _)) => wikis[1].confirm_purges("e", *last).await.unwrap(),
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
    assert!(message.contains("schema wiki has version 99, and this program knows versions up to 3"), "{message}");
    assert!(PostgresDatabase::open_to_read(&fixture.url).await.is_err());
}

#[tokio::test]
async fn attachments_and_hangul_of_an_earlier_version_remain_and_are_found() {
    let fixture = Fixture::new().await;
    let database = fixture.open().await;
    for write in [save("A", "나는 한국어를 배운다"), save("B", "text"), attach("A", "f", b"earlier")] {
        database.write(write).await.unwrap();
    }
    drop(database);
    let earlier = "DROP TABLE wiki.file_changes; ALTER TABLE wiki.revisions DROP COLUMN erased;
                   UPDATE wiki.words SET words = ''; UPDATE wiki.schema SET version = 1";
    execute(&fixture.url, earlier).await;
    let database = fixture.open().await;
    let found = database.search_text("한국", 10).await.unwrap();
    assert_eq!(found.iter().map(|found| found.name.as_str()).collect::<Vec<_>>(), ["A"]);
    assert_eq!(database.search_text("text", 10).await.unwrap(), [], "only pages with Hangul are indexed again");
    let replaced = database.write(attach("A", "f", b"later")).await.unwrap();
    let version = database.file_version(&name("A"), &name("f"), replaced.sequence).await.unwrap().unwrap();
    assert_eq!(&version.1[..], b"earlier");
}

#[tokio::test]
async fn old_versions_are_found_without_reading_all_changes() {
    let fixture = Fixture::new().await;
    let database = fixture.open().await;
    for write in [save("A", ""), attach("A", "f", b"one"), attach("A", "f", b"two")] {
        database.write(write).await.unwrap();
    }
    let sql = "INSERT INTO wiki.file_changes (sequence, page, revision, kind, time, comment, bytes, file)
               SELECT number, p.id, 1, 5, 0, '', 0, 'f' FROM wiki.pages p, generate_series(10, 20000) AS number;
               ANALYZE wiki.file_changes";
    execute(&fixture.url, sql).await;
    let (client, connection) = tokio_postgres::connect(&fixture.url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let sql = "EXPLAIN SELECT sequence, former_digest FROM wiki.file_changes
               WHERE page = 1 AND file = 'f' AND former_digest IS NOT NULL ORDER BY sequence DESC OFFSET 10";
    let plan: Vec<String> = client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert!(plan.join("\n").contains("using file_changes_versions"), "{plan:#?}");
}

#[tokio::test]
async fn no_row_has_what_was_erased() {
    let fixture = Fixture::new().await;
    let database = fixture.open().await;
    let signed = Write { author: Some("secret".into()), comment: "secret".into(), ..save("A", "secret") };
    for write in [
        signed,
        save_fields("A", json!({"a": "secret"})),
        save("A", "new"),
        Write { author: Some("secret".into()), ..save("A", "newer") },
        attach("A", "secret file", b"new"),
        detach("A", "secret file"),
        save("secret B", "secret"),
        attach("secret B", "f", b"secret"),
        attach("secret B", "f", b"new"),
        delete("secret B"),
    ] {
        database.write(write).await.unwrap();
    }
    let (client, connection) = tokio_postgres::connect(&fixture.url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let tables = "SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relnamespace = 'wiki'::regnamespace";
    let rows_with_it = async || {
        let mut count = 0;
        for table in client.query(tables, &[]).await.unwrap() {
            // Bytes are shown in hexadecimal.
            let sql =
                format!("SELECT 1 FROM wiki.{} AS t WHERE t::text ~ 'secret|736563726574'", table.get::<_, &str>(0));
            count += client.query(&sql, &[]).await.unwrap().len();
        }
        count
    };
    assert!(rows_with_it().await >= 4);
    let what = ["A/revisions/1", "A/revisions/2", "A/files/secret file", "secret B"];
    database.erase(&targets(&what), 1).await.unwrap();
    assert_eq!(database.erase_author("secret").await.unwrap(), 1);
    assert_eq!(rows_with_it().await, 0);
}

#[tokio::test]
async fn a_database_that_cannot_be_opened_is_named() {
    let fixture = Fixture::new().await;
    let read = PostgresDatabase::open_to_read(&fixture.url).await.err().unwrap().to_string();
    assert!(read.contains("the database has no wiki"), "{read}");
    let tls = message(&format!("{}&sslmode=verify-ca", fixture.url)).await;
    assert!(tls.contains("sslmode=verify-ca: write disable, prefer, require or verify-full"), "{tls}");
    let missing = message(&fixture.url.replace("test", "missing")).await;
    assert!(missing.contains("database \"missing"), "{missing}");
    let nowhere = message("postgres:///x?host=/no/such/folder&user=wiki").await;
    assert!(nowhere.contains("cannot open the database"), "{nowhere}");
    let no_url = message("postgres://host:port/x").await;
    assert!(no_url.contains("postgres://USER:PASSWORD@HOST/DATABASE"), "{no_url}");
    let refused = backup(&fixture.url, std::path::Path::new("/tmp/x")).await.unwrap_err().to_string();
    assert!(refused.contains("pg_dump"), "{refused}");
}

/// A server whose certificate is for `db.example`, and which accepts no TCP connections without TLS; the file of the
/// authority that issued it.
fn secured() -> (Server, String, tempfile::NamedTempFile) {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), authority.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(authority, key);
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["db.example".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    // No other process uses this loopback address at the usual port.
    let [_, a, b, c] = std::process::id().to_be_bytes();
    let address = format!("127.{}.{b}.{c}", 100 + a);
    let secured = Secured { address: address.clone(), certificate: certificate.pem(), key: key.serialize_pem() };
    (Server::start_at(&secured), address, file)
}

#[tokio::test]
async fn connections_are_as_secure_as_the_url_demands() {
    let (_server, address, file) = tokio::task::spawn_blocking(secured).await.unwrap();
    let url = |host: &str, tls: &str| format!("postgres://wiki@{host}/postgres?hostaddr={address}{tls}");
    let trusted = format!("&sslmode=verify-full&sslrootcert={}", file.path().display());
    for tls in ["", "&sslmode=prefer", "&sslmode=require", &trusted] {
        let database =
            PostgresDatabase::open(&url("db.example", tls)).await.unwrap_or_else(|error| panic!("{tls}: {error}"));
        database.write(save("A", tls)).await.unwrap();
    }
    for (host, tls, problem) in [
        ("db.example", "&sslmode=disable", "no encryption"),
        ("other.example", &trusted, "not valid for name"),
        ("db.example", "&sslmode=verify-full", "UnknownIssuer"),
    ] {
        let message = message(&url(host, tls)).await;
        assert!(message.contains(problem), "{tls}: {message}");
    }
}

#[tokio::test]
async fn a_lost_connection_is_replaced() {
    let fixture = Fixture::new().await;
    let database = fixture.open().await;
    database.write(save("A", "one")).await.unwrap();
    let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                  WHERE datname = current_database() AND pid <> pg_backend_pid()";
    execute(&fixture.url, others).await;
    // The first operations may find their connections closed.
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
    // PostgreSQL rejects NUL; such a value is a bug of the program.
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
        ("DELETE FROM wiki.revisions WHERE sequence = 3", "A: the page has a gap in its revisions"),
        (
            "UPDATE wiki.revisions SET fields = '{' WHERE fields IS NOT NULL",
            "B, revision 1: a revision's fields cannot be read",
        ),
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_respond_delays_no_operation_for_ever() {
    let fixture = Fixture::new().await;
    let database = fixture.open().await;
    database.write(save("A", "text")).await.unwrap();
    let (client, connection) = tokio_postgres::connect(&fixture.url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("BEGIN; LOCK TABLE wiki.pages").await.unwrap();
    let reads: tokio::task::JoinSet<_> = (0..40)
        .map(|_| {
            let database = Arc::clone(&database);
            async move { database.page(&name("A")).await.unwrap_err().to_string() }
        })
        .collect();
    for message in reads.join_all().await {
        // The others waited for a connection.
        let is_late = message.contains("cannot read a page: PostgreSQL did not respond within 10s");
        assert!(is_late || message.contains("Timeout occurred"), "{message}");
    }
    client.batch_execute("ROLLBACK").await.unwrap();
    assert!(matches!(database.page(&name("A")).await.unwrap(), Found::Page(_)));
}
