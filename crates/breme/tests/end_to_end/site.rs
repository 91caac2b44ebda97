//! Files through the whole stack.

use std::fs;
use std::os::unix::fs::symlink;

use breme_conformance::{Answer, read_answers};

use crate::harness::{DRIVERS, Site, pages};

fn exchange(site: &Site, path: &str, fields: &str) -> Answer {
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{fields}\r\n");
    read_answers(&site.exchange(request.as_bytes()), |_| false).unwrap().remove(0)
}

#[test]
fn files_of_every_size_arrive_whole() {
    let sizes = [0, 1, 1_000, 10_000, 65_536, 1_000_000, 20_000_000];
    let contents: Vec<Vec<u8>> =
        sizes.iter().map(|&size| (0..size).map(|at: usize| (at * 7 % 251) as u8).collect()).collect();
    let names: Vec<String> = sizes.iter().map(|size| format!("{size}.bin")).collect();
    let files: Vec<(&str, &[u8])> = names.iter().map(String::as_str).zip(contents.iter().map(Vec::as_slice)).collect();
    let (_folder, root) = pages(&files);
    for driver in DRIVERS.iter().copied() {
        let site = Site::start(&[root.to_str().unwrap(), "--driver", driver]);
        for _ in 0..2 {
            for (name, content) in &files {
                let answer = exchange(&site, &format!("/{name}"), "");
                assert_eq!(answer.status, 200, "{name}");
                assert!(answer.content == *content, "{name}: {} bytes came", answer.content.len());
            }
        }
    }
}

#[test]
fn a_changed_file_is_noticed() {
    let (_folder, root) = pages(&[("page.html", b"before")]);
    let site = Site::start(&[root.to_str().unwrap()]);
    let first = exchange(&site, "/page.html", "");
    assert_eq!(first.content, b"before");
    fs::write(root.join("page.html"), b"after it").unwrap();
    // The cache does not revalidate an entry for a bounded time; repeat until it does.
    let begun = std::time::Instant::now();
    loop {
        let answer = exchange(&site, "/page.html", "");
        if answer.content == b"after it" {
            assert_ne!(answer.field("etag"), first.field("etag"));
            return;
        }
        assert!(begun.elapsed() < crate::harness::PATIENCE, "the change was never noticed");
    }
}

#[test]
fn validators_and_ranges() {
    let (_folder, root) = pages(&[("page.html", b"0123456789"), ("large.bin", &[7; 200_000])]);
    let site = Site::start(&[root.to_str().unwrap()]);
    let plain = exchange(&site, "/page.html", "");
    assert_eq!(plain.field("content-type"), Some("text/html; charset=utf-8"));
    let etag = plain.field("etag").unwrap();
    let modified = plain.field("last-modified").unwrap();
    assert_eq!(exchange(&site, "/page.html", &format!("If-None-Match: {etag}\r\n")).status, 304);
    assert_eq!(exchange(&site, "/page.html", &format!("If-Modified-Since: {modified}\r\n")).status, 304);
    assert_eq!(exchange(&site, "/page.html", "If-Match: \"other\"\r\n").status, 412);
    let part = exchange(&site, "/page.html", "Range: bytes=2-4\r\n");
    assert_eq!((part.status, part.content.as_slice()), (206, &b"234"[..]));
    assert_eq!(part.field("content-range"), Some("bytes 2-4/10"));
    assert_eq!(exchange(&site, "/page.html", "Range: bytes=10-\r\n").status, 416);
    let several = exchange(&site, "/page.html", "Range: bytes=0-0, -1\r\n");
    assert!(several.field("content-type").unwrap().starts_with("multipart/byteranges; boundary="));
    let of_large = exchange(&site, "/large.bin", "Range: bytes=-1000\r\n");
    assert_eq!((of_large.status, of_large.content.len()), (206, 1_000));
}

#[test]
fn no_path_leaves_the_root() {
    let (folder, root) = pages(&[("inside.txt", b"inside"), ("sub/index.html", b"index")]);
    fs::write(folder.path().join("secret.txt"), b"secret").unwrap();
    symlink(folder.path().join("secret.txt"), root.join("link.txt")).unwrap();
    symlink("/etc", root.join("etc")).unwrap();
    for extra in [&[][..], &["--follow-symlinks"]] {
        let mut arguments = vec![root.to_str().unwrap()];
        arguments.extend(extra);
        let site = Site::start(&arguments);
        for path in [
            "/../secret.txt",
            "/sub/../../secret.txt",
            "/%2e%2e/secret.txt",
            "/..%2fsecret.txt",
            "/%2e%2e%2fsecret.txt",
            "/sub/..%5c..%5csecret.txt",
            "/%252e%252e/secret.txt",
            "/link.txt",
            "/etc/passwd",
            "/%c0%ae%c0%ae/secret.txt",
            "/inside.txt%00.html",
            "//../secret.txt",
            "/./../secret.txt",
            "/sub/%2e%2e/%2e%2e/secret.txt",
            "/inside.txt/",
            "/..;/secret.txt",
            "/proc/self/environ",
        ] {
            let answer = exchange(&site, path, "");
            assert!((400..500).contains(&answer.status), "{path} gave {}", answer.status);
            assert!(!answer.content.windows(6).any(|window| window == b"secret") || answer.status != 200, "{path}");
        }
        assert_eq!(exchange(&site, "/inside.txt", "").content, b"inside");
        assert_eq!(exchange(&site, "/sub/", "").content, b"index");
        assert_eq!(exchange(&site, "/sub", "").status, 301);
    }
}

#[test]
fn visitors_get_an_id_of_their_own_and_made_up_ones_are_not_adopted() {
    let (_folder, root) = pages(&[("index.html", b"page")]);
    let site = Site::start(&[root.to_str().unwrap(), "--visitors"]);
    let cookie = |answer: &Answer| answer.field("set-cookie").map(|value| value.split(';').next().unwrap().to_owned());
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..300 {
        let first = exchange(&site, "/", "");
        let id = cookie(&first).expect("a new visitor gets a cookie");
        assert!(ids.insert(id.clone()), "{id} was given out twice");
    }
    let known = ids.first().unwrap();
    assert_eq!(
        cookie(&exchange(&site, "/", &format!("Cookie: {known}\r\n"))),
        None,
        "a known visitor keeps the cookie"
    );
    let (name, value) = known.split_once('=').unwrap();
    let forged = format!("{name}={}{}", if value.starts_with('0') { '1' } else { '0' }, &value[1..]);
    let answer = exchange(&site, "/", &format!("Cookie: {forged}\r\n"));
    assert!(cookie(&answer).is_some_and(|given| given != forged), "a made-up cookie must not be adopted");
}

#[test]
fn http_1_0_only() {
    let site = Site::start(&["--lab", "--http", "1.0"]);
    let answer = site.exchange(b"GET /bytes/3 HTTP/1.1\r\nHost: a\r\n\r\nGET /bytes/3 HTTP/1.1\r\nHost: a\r\n\r\n");
    let text = String::from_utf8(answer).unwrap();
    assert!(text.starts_with("HTTP/1.0 200 OK\r\n"), "{text}");
    assert_eq!(text.matches("HTTP/1.0 200").count(), 1, "one answer, then the end");
}
