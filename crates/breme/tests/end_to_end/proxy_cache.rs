//! The cache of `breme proxy` for users and operators. Whether responses may be stored is tested next to that code.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::process::Stdio;

use breme_conformance::{Answer, read_answers};
use serde_json::{Value, json};

use crate::admin::metrics;
use crate::harness::{DRIVERS, Site, get, wait_until};
use crate::proxy::{before, start_proxy};
use crate::proxy_admin::{TOKEN, call, token_file};

/// A laboratory site with cacheable responses.
fn cacheable() -> Site {
    Site::start(&["--lab", "--cache-control", "max-age=600"])
}

fn exchange(server: &Site, method: &str, path: &str, fields: &str) -> Answer {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: edge.example\r\nConnection: close\r\n{fields}\r\n");
    read_answers(&server.exchange(request.as_bytes()), |_| method == "HEAD").unwrap().remove(0)
}

/// Whether the response to a request came from the cache.
fn is_hit(proxy: &Site, path: &str) -> bool {
    let answer = exchange(proxy, "GET", path, "");
    let status = answer.field("cache-status").unwrap();
    assert_eq!((answer.status, answer.content.len()), (200, 5), "{status}");
    assert_eq!(answer.field("age").is_some(), status.contains("; hit"), "{status}");
    status.contains("; hit")
}

#[test]
fn a_stored_response_is_sent_without_the_origin() {
    for driver in DRIVERS.iter().copied() {
        let site = cacheable();
        let memory = ["--driver", driver, "--cache-memory", "16MiB", "--cache-bypass-header", "X-Direct"];
        let mut proxy = before(&site, &[&memory[..], &["--admin", "127.0.0.1:0", "--access-log", "-"]].concat());
        let counted = site.counter();
        assert!(!is_hit(&proxy, "/bytes/5"), "{driver}");
        for _ in 0..5 {
            assert!(is_hit(&proxy, "/bytes/5"), "{driver}");
        }
        assert_eq!(site.counter() - counted, 2, "{driver}: the first, and the look at the counter");
        let direct = exchange(&proxy, "GET", "/bytes/5", "X-Direct: 1\r\n");
        assert!(direct.field("cache-status").unwrap().contains("fwd=bypass"), "{:?}", direct.field("cache-status"));
        assert_eq!(site.counter() - counted, 4, "{driver}: past the cache");

        let line = proxy.next_line();
        assert!(line.contains("\"fwd=uri-miss; stored"), "{line}");
        let line = proxy.next_line();
        assert!(line.contains("\"hit; ttl=") && line.contains("\" - - "), "{line}: no upstream was asked");

        let metrics = metrics(proxy.admin.unwrap());
        for (name, count) in [
            ("breme_cache_requests_total{result=\"hit\"}", 5.0),
            ("breme_cache_requests_total{result=\"miss\"}", 1.0),
            ("breme_cache_requests_total{result=\"bypass\"}", 1.0),
            ("breme_cache_sent_bytes_total", 25.0),
            ("breme_cache_objects", 1.0),
            ("breme_cache_evicted_total", 0.0),
            ("breme_cache_size_bytes", f64::from(16 << 20)),
        ] {
            assert_eq!(metrics.get(name), Some(&count), "{driver}: {name}\n{metrics:#?}");
        }
    }
}

/// More than kernels buffer of a response that is not read.
const LONG_BYTES: usize = 24 << 20;

/// The first client's response is fetched for all, at the pace of the origin; and that client gets all of it when it
/// reads.
#[test]
fn a_first_client_that_does_not_read_holds_nobody_up() {
    let site = cacheable();
    let path = format!("/bytes/{LONG_BYTES}");
    let expected = site.get(&path).1;
    for driver in DRIVERS.iter().copied() {
        let proxy = before(&site, &["--driver", driver, "--cache-memory", "256MiB"]);
        let mut first = proxy.connect();
        first
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: edge.example\r\nConnection: close\r\n\r\n").as_bytes())
            .unwrap();
        let mut received = vec![0];
        first.read_exact(&mut received).unwrap();
        for _ in 0..2 {
            let answer = exchange(&proxy, "GET", &path, "");
            assert!(answer.status == 200 && answer.content == expected, "{driver}: {}", answer.content.len());
            let said = answer.field("cache-status").unwrap();
            assert!(said.contains("collapsed") || said.contains("hit"), "{driver}: {said}");
        }
        first.read_to_end(&mut received).unwrap();
        let answers = read_answers(&received, |_| false).unwrap();
        assert!(answers.len() == 1 && answers[0].content == expected, "{driver}: {}", received.len());
    }
}

fn purge(admin: SocketAddr, wish: &Value) -> u64 {
    let (status, answer) = call(admin, "POST", "/cache/purge", Some(TOKEN), Some(&wish.to_string()));
    assert_eq!(status, 200, "{answer}");
    answer["purged"].as_u64().unwrap()
}

#[test]
fn those_who_run_it_see_and_purge() {
    let (_folder, token) = token_file();
    let site = cacheable();
    let arguments = ["--cache-memory", "16MiB", "--admin", "127.0.0.1:0", "--admin-token-file", &token];
    let proxy = before(&site, &arguments);
    let admin = proxy.admin.unwrap();
    let fill = || ["/bytes/5?a", "/bytes/5?b", "/bytes/5"].map(|path| is_hit(&proxy, path));
    assert_eq!(fill(), [false; 3]);
    assert_eq!(fill(), [true; 3]);
    assert!(is_hit(&proxy, "/bytes/5"));
    let (_, hottest) = call(admin, "GET", "/cache/hottest?count=2", None, None);
    assert_eq!(hottest.as_array().unwrap().len(), 2, "{hottest}");
    assert_eq!(hottest[0]["url"], json!("http://edge.example/bytes/5"), "{hottest}");
    let (_, statistics) = call(admin, "GET", "/cache/statistics", None, None);
    assert_eq!(statistics["objects"], json!(3), "{statistics}");
    assert_eq!(statistics["requests"]["miss"], json!(3), "{statistics}");

    let all = json!({ "all": true });
    assert_eq!(call(admin, "POST", "/cache/purge", None, Some(&all.to_string())).0, 401);
    assert_eq!(fill(), [true; 3], "nobody purges without the token");
    assert_eq!(purge(admin, &json!({ "url": "http://edge.example/bytes/5?a" })), 1);
    assert_eq!(fill(), [false, true, true]);
    assert_eq!(purge(admin, &json!({ "prefix": "http://edge.example/bytes/5?" })), 2);
    assert_eq!(fill(), [false, false, true]);
    assert_eq!(purge(admin, &all), 3);
    assert_eq!(fill(), [false; 3]);
    assert_eq!(purge(admin, &json!({ "url": "http://edge.example/bytes/5", "soft": true })), 1);
    assert_eq!(fill()[..2], [true, true]);
}

#[test]
fn purge_is_for_those_who_may() {
    for driver in DRIVERS.iter().copied() {
        let site = cacheable();
        let memory = ["--driver", driver, "--cache-memory", "16MiB"];
        let mine = before(&site, &[&memory[..], &["--purge-from", "127.0.0.0/8"]].concat());
        assert_eq!([is_hit(&mine, "/bytes/5?x"), is_hit(&mine, "/bytes/5?x")], [false, true], "{driver}");
        let answer = exchange(&mine, "PURGE", "/bytes/5?x", "");
        assert_eq!((answer.status, answer.content.as_slice()), (200, &b"purged: 1\n"[..]), "{driver}");
        assert!(!is_hit(&mine, "/bytes/5?x"), "{driver}");
        let other = before(&site, &[&memory[..], &["--purge-from", "10.0.0.0/8"]].concat());
        assert_eq!([is_hit(&other, "/bytes/5"), is_hit(&other, "/bytes/5")], [false, true], "{driver}");
        assert_eq!(exchange(&other, "PURGE", "/bytes/5", "").status, 403, "{driver}");
        assert!(is_hit(&other, "/bytes/5"), "{driver}");
        let passing = before(&site, &memory);
        assert_eq!(exchange(&passing, "PURGE", "/bytes/5", "").status, 501, "{driver}: the origin's own answer");
    }
}

/// Ranges of a file, as requested by players and downloads: each part is requested once, and the parts become the
/// whole.
#[test]
fn parts_of_a_file_become_the_whole() {
    const LENGTH: usize = 300_000;
    let file: Vec<u8> = (0..LENGTH).map(|index| (index % 251) as u8).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.bin");
    std::fs::write(&path, &file).unwrap();
    let site = Site::start(&[folder.path().to_str().unwrap(), "--cache-control", "max-age=600"]);
    // A file written a moment ago may be written again, so its tag is weak at first.
    let has_strong_tag = || get(site.address, "/film.bin").field("etag").is_some_and(|tag| tag.starts_with('"'));
    wait_until("the tag stays weak", has_strong_tag);
    for driver in DRIVERS.iter().copied() {
        let proxy = before(&site, &["--driver", driver, "--cache-memory", "16MiB"]);
        let part = |first: usize, end: usize| {
            let answer = exchange(&proxy, "GET", "/film.bin", &format!("Range: bytes={first}-{}\r\n", end - 1));
            assert_eq!(answer.status, 206, "{driver}");
            assert!(answer.content == file[first..end], "{driver}: {first} to {end}");
            let place = format!("bytes {first}-{}/{LENGTH}", end - 1);
            assert_eq!(answer.field("content-range"), Some(place.as_str()), "{driver}");
            answer.field("cache-status").unwrap().to_owned()
        };
        assert_eq!(part(100_000, 200_000), "breme; fwd=uri-miss; stored", "{driver}");
        assert!(part(150_000, 150_010).starts_with("breme; hit"), "{driver}");
        assert_eq!(part(50_000, 120_000), "breme; fwd=partial; stored", "{driver}");
        assert!(part(60_000, 190_000).starts_with("breme; hit"), "{driver}");
        assert_eq!(part(0, 50_000), "breme; fwd=partial; stored", "{driver}");
        assert_eq!(part(200_000, LENGTH), "breme; fwd=partial; stored", "{driver}");
        let whole = exchange(&proxy, "GET", "/film.bin", "");
        assert!(whole.status == 200 && whole.content == file, "{driver}");
        let status = whole.field("cache-status").unwrap();
        assert!(status.starts_with("breme; hit") && whole.field("content-range").is_none(), "{driver}: {status}");
    }
}

#[test]
fn without_memory_there_is_no_cache() {
    let site = cacheable();
    let proxy = start_proxy(&["--upstream", &site.url(""), "--admin", "127.0.0.1:0"]);
    assert_eq!(exchange(&proxy, "GET", "/bytes/5", "").field("cache-status"), None);
    assert_eq!(get(proxy.admin.unwrap(), "/cache/statistics").status, 404);
    assert!(!metrics(proxy.admin.unwrap()).keys().any(|key| key.starts_with("breme_cache")));
    for (arguments, words) in [
        (["--cache-bypass-header", "X"], "--cache-memory"),
        (["--purge-from", "10.0.0.0/8"], "--cache-memory"),
        (["--health-interval", "1s"], "--health-path"),
        (["--cache-memory", "1k"], "--cache-memory: 1000 bytes are too few"),
    ] {
        let output = crate::harness::breme()
            .args(["proxy", "--upstream", "http://127.0.0.1:9"])
            .args(arguments)
            .stdout(Stdio::null())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(words), "{arguments:?}: {stderr}");
    }
}
