//! The wiki as a program over a PostgreSQL server of its own.

use std::fs;
use std::net::SocketAddr;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::harness::{Signal, Site, get, wait_until};
use crate::postgres_server::Server;
use crate::wiki::{markdown, put, send, upkeep};

fn start(url: &str) -> Site {
    Site::start_role("wiki", &["--database", url, "--admin", "127.0.0.1:0"], Stdio::inherit())
}

fn read(address: SocketAddr, path: &str, accept: &str) -> String {
    let answer = send(address, "GET", path, &[&format!("Accept: {accept}")], "");
    assert_eq!(answer.status, 200, "{path}");
    String::from_utf8(answer.content).unwrap()
}

#[test]
fn a_wiki_over_postgres_outlives_its_program() {
    let server = Server::start();
    let url = server.url("postgres");
    let mut site = start(&url);
    let address = site.address;
    let stored: Value = serde_json::from_slice(&put(address, "Žale", "1\n2\n3\n").content).unwrap();
    put(address, "A", "---\nstatus: draft\n---\nThe *castle* of [[Žale]], [[nowhere]].");
    assert!(read(address, "/wiki/A", "text/html").contains("<em>castle</em>"));
    assert_eq!(markdown(address, "%C5%BDale"), "1\n2\n3\n");

    let condition = format!("If-Match: {}", stored["etag"].as_str().unwrap());
    assert_eq!(send(address, "PUT", "/wiki/%C5%BDale", &[&condition], "one\n2\n3\n").status, 200);
    let conflict = send(address, "PUT", "/wiki/%C5%BDale", &[&condition], "1\n2\nthree\n");
    let answer: Value = serde_json::from_slice(&conflict.content).unwrap();
    assert_eq!(
        (conflict.status, &answer["merge"]),
        (412, &json!({"clean": true, "text": "one\n2\nthree\n", "fields": {}}))
    );

    assert!(read(address, "/search?q=castles+%C5%BEal", "text/html").contains("Nothing was found"));
    assert!(read(address, "/search?q=castle", "text/html").contains("<mark>castle</mark>"));
    assert!(read(address, "/suggest?q=%C5%BEa", "application/json").contains("Žale"));
    assert!(read(address, "/search?field=status&value=draft", "text/html").contains("/wiki/A"));
    assert!(read(address, "/wiki/%C5%BDale/backlinks", "text/html").contains("/wiki/A"));

    assert_eq!(send(address, "PUT", "/wiki/A/files/plan.bin", &[], "bytes\r\n").status, 201);

    assert_eq!(upkeep(&["erase", "--database", &url, "Žale/revisions/1"]), "erased Žale/revisions/1\n");
    assert_eq!(send(address, "GET", "/wiki/%C5%BDale/revisions/1", &[], "").status, 410);
    assert_eq!(markdown(address, "%C5%BDale"), "one\n2\n3\n");

    let printed = upkeep(&["user", "add", "Ana", "--database", &url]);
    let password = printed.lines().find_map(|line| line.strip_prefix("password: ")).unwrap().to_owned();
    wait_until("the account has no effect", || send(address, "PUT", "/wiki/B", &[], "x").status == 401);
    let signed_in = sign_in(address, &password);
    let cookie = format!("Cookie: {}", signed_in.split(';').next().unwrap());

    site.signal(Signal::TERM);
    assert!(site.wait().0.success());
    let site = start(&url);
    let address = site.address;
    let own = ["Content-Type: application/x-www-form-urlencoded", &cookie, "Origin: http://localhost"];
    assert_eq!(send(address, "POST", "/wiki/Own", &own, "text=signed").status, 201, "the session goes on");
    assert_eq!(markdown(address, "Own"), "signed");
    assert!(read(address, "/wiki/Own/history", "text/html").contains("Ana"));
    assert_eq!(send(address, "PUT", "/wiki/A", &[], "x").status, 401);
    assert_eq!(markdown(address, "A"), "---\nstatus: draft\n---\nThe *castle* of [[Žale]], [[nowhere]].");
    assert_eq!(send(address, "GET", "/wiki/A/files/plan.bin", &[], "").content, b"bytes\r\n");

    assert!(upkeep(&["verify", "--database", &url]).contains("no faults"));
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("pages");
    upkeep(&["export", "--database", &url, pages.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(pages.join("Žale.md")).unwrap(), "one\n2\n3\n");
    assert_eq!(fs::read(pages.join("A.files/plan.bin")).unwrap(), b"bytes\r\n");
}

fn sign_in(address: SocketAddr, password: &str) -> String {
    let form = "Content-Type: application/x-www-form-urlencoded";
    let answer = send(address, "POST", "/login", &[form], &format!("user=Ana&password={password}"));
    assert_eq!(answer.status, 303);
    answer.field("set-cookie").unwrap().to_owned()
}

#[test]
fn a_lost_database_is_reported_and_found_again() {
    let server = Server::start();
    let site = start(&server.url("postgres"));
    let (address, admin) = (site.address, site.admin.unwrap());
    put(address, "A", "before");
    // So that the pool has several connections.
    let read_all = || {
        std::thread::scope(|scope| {
            let readers: Vec<_> =
                (0..24).map(|_| scope.spawn(|| send(address, "GET", "/wiki/A.md", &[], ""))).collect();
            readers.into_iter().map(|reader| reader.join().unwrap()).collect::<Vec<_>>()
        })
    };
    assert!(read_all().iter().all(|answer| answer.status == 200));
    assert_eq!(get(admin, "/ready").status, 200);

    server.crash();
    wait_until("/ready does not notice", || get(admin, "/ready").status == 503);
    let reason = String::from_utf8(get(admin, "/ready").content).unwrap();
    assert!(reason.contains("cannot reach the database: PostgreSQL"), "{reason}");
    assert_eq!(get(admin, "/health").status, 200);
    let form = "Content-Type: application/x-www-form-urlencoded";
    for (method, path, body) in [
        ("GET", "/wiki/A", ""),
        ("GET", "/pages", ""),
        ("GET", "/search?q=before", ""),
        ("GET", "/recent.atom", ""),
        ("PUT", "/wiki/A", "lost"),
        ("POST", "/login", "user=Ana&password=wrong-password"),
        ("DELETE", "/wiki/A", ""),
    ] {
        let headers = if method == "POST" { &[form][..] } else { &[] };
        let answer = send(address, method, path, headers, body);
        assert_eq!((answer.status, answer.field("retry-after")), (503, Some("2")), "{method} {path}");
    }
    assert!(read_all().iter().all(|answer| answer.status == 503));

    server.restart();
    wait_until("/ready does not come back", || get(admin, "/ready").status == 200);
    for answer in read_all() {
        assert_eq!((answer.status, answer.content), (200, b"before".to_vec()));
    }
    put(address, "A", "after");
    assert_eq!(markdown(address, "A"), "after");
}
