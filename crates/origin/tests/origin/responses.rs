//! Requests in, bytes out: the node alone, without sockets or a clock.

use std::time::Duration;

use breme_http::{Limits, RefusalReason, Version};
use breme_node::{Close, CloseReason};
use breme_origin::{MemoryRoot, Settings, Site, Visitors};

use crate::support::{Peer, Response, THEN_NS, fetch, lab, node, request, site};

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

fn files() -> MemoryRoot {
    let root = MemoryRoot::new();
    root.write("index.html", "<p>home</p>", THEN_NS);
    root.write("docs/index.html", "<p>docs</p>", THEN_NS);
    root.write("digits", "0123456789", THEN_NS);
    root.write("large", "x".repeat(10_000), THEN_NS);
    root.write("style.css", "body{}".repeat(100), THEN_NS);
    root.write("style.css.gz", "packed", THEN_NS);
    root.write("bare/a b.txt", "x", THEN_NS);
    root.write(".secret", "x", THEN_NS);
    root
}

fn site_of_files() -> Site {
    site(Settings::default(), Some(files()), None)
}

fn lab_site() -> Site {
    site(lab(), None, None)
}

#[test]
fn serves_file_with_its_headers() {
    let response = fetch(&site_of_files(), "GET", "/", &[]);
    assert_eq!((response.status, response.text()), (200, "<p>home</p>"));
    assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!(response.field("Last-Modified"), Some(DATE));
    assert_eq!(response.field("Accept-Ranges"), Some("bytes"));
    assert_eq!(response.field("Date"), Some("Mon, 07 Nov 1994 08:49:37 GMT"));
    assert_eq!(response.field("Cache-Control"), None);
    assert!(response.field("ETag").is_some_and(|tag| tag.starts_with('"')));
    assert_eq!(response.field("Server"), None);
}

#[test]
fn head_equals_get_without_body() {
    for site in [site_of_files(), site(lab(), Some(files()), None)] {
        for target in
            ["/", "/digits", "/large", "/none", "/docs", "/bytes/5000000", "/echo", "/status/204", "/status/404"]
        {
            let (get, mut head) = (fetch(&site, "GET", target, &[]), fetch(&site, "HEAD", target, &[]));
            assert!(head.body.is_empty(), "{target}");
            head.body.clone_from(&get.body);
            assert_eq!(get, head, "{target}");
        }
    }
}

#[test]
fn maps_paths_to_statuses() {
    let site = site_of_files();
    for (target, status) in [
        ("/digits", 200),
        ("/digits?x=1", 200),
        ("/%64igits", 200),
        ("//digits", 200),
        ("http://site.example/digits", 200),
        ("/docs/", 200),
        ("/docs/.", 200),
        ("/docs", 301),
        ("/none", 404),
        ("/digits/", 404),
        ("/bare/", 404),
        ("/.secret", 404),
        ("/%2esecret", 404),
        ("/../digits", 400),
        ("/docs/..%2fdigits", 404),
        ("/docs/%2e%2e/digits", 400),
        ("/digits%00", 400),
        ("/a%5cb", 400),
        ("/bytes/13", 404),
    ] {
        assert_eq!(fetch(&site, "GET", target, &[]).status, status, "{target}");
    }
    let shown = Settings { hidden: true, ..Settings::default() };
    assert_eq!(fetch(&crate::support::site(shown, Some(files()), None), "GET", "/.secret", &[]).status, 200);
}

#[test]
fn redirects_directory_without_slash() {
    let site = site_of_files();
    for (target, location) in [
        ("/docs", "/docs/"),
        ("/docs?a=b&c", "/docs/?a=b&c"),
        ("//docs", "/docs/"),
        ("//docs?//evil.example", "/docs/?//evil.example"),
        ("/./docs", "/docs/"),
        ("/%64ocs", "/docs/"),
    ] {
        let response = fetch(&site, "GET", target, &[]);
        assert_eq!((response.status, response.field("Location")), (301, Some(location)), "{target}");
    }
}

#[test]
fn serves_each_method() {
    let files = site_of_files();
    let lab = lab_site();
    for method in ["PUT", "DELETE", "PATCH", "TRACE", "GETttttt", "get", "PROPFIND"] {
        for target in ["/", "/digits", "/none"] {
            assert_eq!(fetch(&files, method, target, &[]).status, 501, "{method}");
            assert_eq!(fetch(&lab, method, target, &[]).status, 501, "{method}");
        }
    }
    let connect = "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n";
    let mut peer = Peer::new(&files);
    peer.send(connect);
    assert_eq!(peer.responses()[0].status, 501);
    for target in ["/digits", "/", "/docs"] {
        let response = fetch(&files, "POST", target, &[]);
        assert_eq!((response.status, response.field("Allow")), (405, Some("GET, HEAD, OPTIONS")), "{target}");
    }
    assert_eq!(fetch(&files, "POST", "/none", &[]).status, 404);
    for target in ["*", "/", "/none"] {
        let response = fetch(&files, "OPTIONS", target, &[]);
        assert_eq!((response.status, response.field("Allow")), (204, Some("GET, HEAD, OPTIONS")));
        assert_eq!(response.field("Content-Length"), None);
        assert_eq!(fetch(&lab, "OPTIONS", target, &[]).field("Allow"), Some("GET, HEAD, OPTIONS, POST"));
    }
}

#[test]
fn evaluates_conditions() {
    let site = site_of_files();
    let tag = fetch(&site, "GET", "/digits", &[]).field("ETag").unwrap().to_owned();
    let check = |field: &str, status: u16| {
        for method in ["GET", "HEAD"] {
            let response = fetch(&site, method, "/digits", &[field]);
            assert_eq!(response.status, status, "{method} {field}");
            if status == 304 {
                assert_eq!(response.field("ETag"), Some(tag.as_str()));
                assert_eq!((response.field("Content-Type"), response.body.len()), (None, 0));
            }
        }
    };
    check(&format!("If-None-Match: {tag}"), 304);
    check(&format!("If-None-Match: W/{tag}"), 304);
    check("If-None-Match: *", 304);
    check("If-None-Match: \"x\"", 200);
    check(&format!("If-Modified-Since: {DATE}"), 304);
    check(&format!("If-Modified-Since: {DATE}\r\nIf-Modified-Since: {DATE}"), 200);
    check("If-Modified-Since: Sat, 05 Nov 1994 08:49:37 GMT", 200);
    check(&format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {DATE}"), 200);
    check(&format!("If-Match: {tag}"), 200);
    check("If-Match: \"x\"", 412);
    check("If-Unmodified-Since: Sat, 05 Nov 1994 08:49:37 GMT", 412);
}

#[test]
fn serves_ranges() {
    let site = site_of_files();
    let get = |fields: &[&str]| fetch(&site, "GET", "/digits", fields);
    let one = get(&["Range: bytes=2-4"]);
    assert_eq!((one.status, one.text(), one.field("Content-Range")), (206, "234", Some("bytes 2-4/10")));
    assert_eq!(one.field("Content-Type"), Some("application/octet-stream"));
    let last = get(&["Range: bytes=-3"]);
    assert_eq!((last.status, last.text(), last.field("Content-Range")), (206, "789", Some("bytes 7-9/10")));
    let outside = get(&["Range: bytes=10-"]);
    assert_eq!((outside.status, outside.field("Content-Range")), (416, Some("bytes */10")));
    for ignored in ["Range: lines=1-2", "Range: bytes=4-2", "Range: bytes=1-2\r\nRange: bytes=3-4"] {
        assert_eq!((get(&[ignored]).status, get(&[ignored]).text()), (200, "0123456789"), "{ignored}");
    }
    assert_eq!(fetch(&site, "HEAD", "/digits", &["Range: bytes=2-4"]).status, 200);
    let tag = get(&[]).field("ETag").unwrap().to_owned();
    assert_eq!(get(&["Range: bytes=0-0", &format!("If-Range: {tag}")]).status, 206);
    assert_eq!(get(&["Range: bytes=0-0", &format!("If-Range: {DATE}")]).status, 206);
    assert_eq!(get(&["Range: bytes=0-0", "If-Range: \"x\""]).status, 200);
    assert_eq!(get(&["Range: bytes=0-0", &format!("If-None-Match: {tag}")]).status, 304);
}

#[test]
fn serves_multipart_ranges() {
    let response = fetch(&site_of_files(), "GET", "/digits", &["Range: bytes=0-1, -2"]);
    assert_eq!(response.status, 206);
    let boundary = response.field("Content-Type").unwrap().strip_prefix("multipart/byteranges; boundary=").unwrap();
    let part = |range: &str, content: &str| {
        format!(
            "--{boundary}\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes {range}/10\r\n\r\n{content}\r\n"
        )
    };
    assert_eq!(response.text(), format!("{}{}--{boundary}--\r\n", part("0-1", "01"), part("8-9", "89")));
    assert_eq!(response.field("Content-Range"), None);
}

#[test]
fn serves_precompressed_siblings() {
    let site = site_of_files();
    let plain = fetch(&site, "GET", "/style.css", &[]);
    assert_eq!((plain.status, plain.body.len(), plain.field("Content-Encoding")), (200, 600, None));
    assert_eq!(plain.field("Vary"), Some("Accept-Encoding"));
    let packed = fetch(&site, "GET", "/style.css", &["Accept-Encoding: br, gzip"]);
    assert_eq!((packed.text(), packed.field("Content-Encoding")), ("packed", Some("gzip")));
    assert_eq!(packed.field("Content-Type"), plain.field("Content-Type"));
    assert_eq!(packed.field("Vary"), Some("Accept-Encoding"));
    assert_ne!(packed.field("ETag"), plain.field("ETag"));
    let again = format!("If-None-Match: {}", packed.field("ETag").unwrap());
    assert_eq!(fetch(&site, "GET", "/style.css", &["Accept-Encoding: gzip", &again]).status, 304);
    assert_eq!(fetch(&site, "GET", "/style.css", &[&again]).status, 200);
    assert_eq!(fetch(&site, "GET", "/digits", &["Accept-Encoding: gzip"]).field("Vary"), None);
}

#[test]
fn large_files_are_not_copied() {
    let mut peer = Peer::new(&site_of_files());
    peer.send(request("GET", "/digits", &[]));
    assert_eq!(peer.uncopied_count, 0);
    peer.send(request("GET", "/large", &[]));
    assert_eq!((peer.uncopied_count, peer.responses()[1].body.len()), (1, 10_000));
}

#[test]
fn lists_directories_only_if_enabled() {
    let listed = site(Settings { listing: true, ..Settings::default() }, Some(files()), None);
    let response = fetch(&listed, "GET", "/bare/", &[]);
    assert_eq!((response.status, response.field("Content-Type")), (200, Some("text/html; charset=utf-8")));
    assert!(response.text().contains("href=\"./a%20b.txt\""));
    assert_eq!(fetch(&listed, "GET", "/docs/", &[]).text(), "<p>docs</p>");
    assert_eq!(fetch(&site_of_files(), "GET", "/bare/", &[]).status, 404);
}

/// Other names do not count towards the limit, either.
#[test]
fn lists_only_names_that_can_be_requested() {
    let root = files();
    for name in ["a\\b", "line\nfeed"] {
        root.write(&format!("bare/{name}"), "x", THEN_NS);
    }
    for number in 0..10_000 {
        root.write(&format!("bare/.{number}"), "x", THEN_NS);
    }
    let settings = Settings { listing: true, ..Settings::default() };
    let page = fetch(&site(settings, Some(root), None), "GET", "/bare/", &[]).text().to_owned();
    assert_eq!(page.matches("href=").count(), 2, "the parent, and one file: {page}");
    assert!(page.contains("href=\"./a%20b.txt\"") && !page.contains("there are more"), "{page}");
}

#[test]
fn sends_configured_cache_control() {
    let settings = Settings { cache_control: Some("public, max-age=60".into()), lab: true, ..Settings::default() };
    let site = site(settings, Some(files()), None);
    for target in ["/digits", "/bytes/5"] {
        assert_eq!(fetch(&site, "GET", target, &[]).field("Cache-Control"), Some("public, max-age=60"));
    }
    for target in ["/counter", "/echo", "/cookie", "/delay/0"] {
        assert_eq!(fetch(&site, "GET", target, &[]).field("Cache-Control"), Some("no-store"), "{target}");
    }
    assert_eq!(fetch(&site, "GET", "/none", &[]).field("Cache-Control"), None);
}

#[test]
fn serves_lab_responses() {
    let site = lab_site();
    let get = |target: &str| fetch(&site, "GET", target, &[]);
    assert_eq!(get("/bytes/13").text(), "0123456789abc");
    assert_eq!(get("/bytes/0").field("Content-Length"), Some("0"));
    assert_eq!(get("/").status, 200);
    for code in 200..=599_u16 {
        assert_eq!(get(&format!("/status/{code}")).status, code);
    }
    for target in [
        "/status/100",
        "/status/600",
        "/status/x",
        "/bytes/-1",
        "/bytes/",
        "/bytes/1x",
        "/bytes/99999999999999999999",
        "/delay/99999999999",
    ] {
        assert_eq!(get(target).status, 400, "{target}");
    }
    let echoed = fetch(&site, "GET", "/echo", &["X-One: 1", "x-two:  2 "]);
    assert_eq!(echoed.text(), "Host: site.example\nX-One: 1\nx-two: 2\n");
    let cookies = fetch(&site, "GET", "/cookie", &["Cookie: a=1; b=\"2\"", "Cookie: c=3"]);
    assert_eq!(cookies.text(), "a=1\nb=\"2\"\nc=3\n");
    assert_eq!(get("/unknown").status, 404);
}

#[test]
fn counter_is_exact_over_shards() {
    let site = lab_site();
    let mut first = Peer::from_node(node(&site));
    let mut second = Peer::from_node(site.node(breme_node::Shard { id: breme_node::ShardId(1), count: 2 }));
    for _ in 0..5 {
        first.send(request("GET", "/bytes/1", &[]).repeat(3));
        second.send(request("HEAD", "/none", &[]));
    }
    second.output.clear();
    second.send(request("GET", "/counter", &[]));
    second.send(request("GET", "/counter", &[]));
    second.send("rubbish\r\n\r\n");
    let responses = second.responses();
    assert_eq!((responses[0].text(), responses[1].text(), responses[2].status), ("20\n", "21\n", 400));
    assert_eq!(site.responses_total(), 23);
}

#[test]
fn counts_by_class_and_version() {
    let site = site(lab(), Some(files()), None);
    let mut peer = Peer::new(&site);
    let get = |path: &str, version: &str| format!("GET {path} HTTP/{version}\r\nHost: a\r\n\r\n");
    // Three at once: two of them were received before the previous response.
    peer.send([get("/digits", "1.1"), get("/digits", "1.1"), get("/none", "1.1")].concat());
    // A request that waits for a delay is pipelined; requests received one by one are not.
    peer.send([get("/delay/5", "1.1"), get("/status/503", "1.1")].concat());
    peer.wait(Duration::from_millis(5));
    peer.send(get("/digits", "1.1"));
    peer.send("GET /digits HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    let mut old = Peer::new(&site);
    old.send(get("/digits", "1.0"));

    let counts = site.counts();
    let of = |status_class, version| {
        let found = counts.responses.iter().find(|one| (one.status_class, one.version) == (status_class, version));
        found.unwrap().count
    };
    assert_eq!([2, 3, 4, 5].map(|class| of(class, Some(Version::Http11))), [4, 0, 1, 1]);
    assert_eq!(of(2, Some(Version::Http10)), 1);
    assert_eq!(of(4, None), 1, "a refused request has no version");
    assert_eq!(site.responses_total(), 8);
    assert_eq!(counts.pipelined, 3);
    let refused: Vec<_> = counts.refusals.into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(refused, [(RefusalReason::SeveralHosts, 1)]);
    let files = counts.files.unwrap();
    assert_eq!((files.hits, files.misses), (3, 2), "the page is read once, and what is not there once");
    assert_eq!((files.kept.names, files.kept.open_files), (2, 0));
}

fn post(fields: &str, content: &str) -> String {
    format!("POST /any HTTP/1.1\r\nHost: site.example\r\n{fields}\r\n\r\n{content}")
}

#[test]
fn echoes_post() {
    let site = lab_site();
    for (sent, media_type, body) in [
        (post("Content-Length: 5", "hello"), "application/octet-stream", "hello"),
        (post("Content-Type: text/x\r\nContent-Length: 2", "hi"), "text/x", "hi"),
        (
            post("Transfer-Encoding: chunked", "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-Trailer: x\r\n\r\n"),
            "application/octet-stream",
            "abcde",
        ),
        (post("Content-Length: 0", ""), "application/octet-stream", ""),
        (post("X: y", ""), "application/octet-stream", ""),
    ] {
        let mut peer = Peer::new(&site);
        peer.send(&sent);
        let responses = peer.responses();
        assert_eq!(responses.len(), 1, "{sent}");
        assert_eq!((responses[0].status, responses[0].text()), (200, body), "{sent}");
        assert_eq!(responses[0].field("Content-Type"), Some(media_type));
    }
}

#[test]
fn rejects_malformed_echo() {
    let mut peer = Peer::new(&lab_site());
    peer.send(post("Transfer-Encoding: chunked", "3\r\nabc\r\nx\r\n"));
    assert_eq!(peer.responses()[0].status, 400);
    assert_eq!(peer.closed, Some(Close::Graceful));
    // The same for a method whose content is rejected.
    let mut peer = Peer::new(&site_of_files());
    peer.send(post("Transfer-Encoding: chunked", "3\r\nabc\r\nx\r\n"));
    assert_eq!((peer.responses().len(), peer.responses()[0].status), (1, 400));
}

#[test]
fn streams_long_echo() {
    let settings = Settings { echo_held_bytes_max: 100, ..lab() };
    let site = site(settings, None, None);
    let mut peer = Peer::new(&site);
    peer.send(post("Content-Length: 1000", ""));
    for _ in 0..10 {
        peer.send([b'y'; 100]);
    }
    peer.send(request("GET", "/bytes/3", &[]));
    let responses = peer.responses();
    assert_eq!((responses[0].body.len(), responses[1].text()), (1000, "012"));

    let mut peer = Peer::new(&site);
    peer.send(post("Transfer-Encoding: chunked", ""));
    for _ in 0..3 {
        peer.send(format!("64\r\n{}\r\n", "z".repeat(100)));
    }
    peer.send("0\r\n\r\n");
    let text = peer.text();
    assert!(text.contains("Transfer-Encoding: chunked\r\n"), "{text}");
    assert_eq!(text.matches('z').count(), 300);
    assert!(text.ends_with("0\r\n\r\n"));
    // A partial response that cannot be marked as failed: a reset.
    peer.send(post("Transfer-Encoding: chunked", &format!("80\r\n{}\r\nrubbish\r\n", "z".repeat(128))));
    assert_eq!(peer.closed, Some(Close::Abort));
}

/// Many clients send everything before they read.
#[test]
fn long_echo_waits_for_all_content() {
    const LENGTH: usize = 16_000_000;
    for (fields, end) in
        [(format!("Content-Length: {LENGTH}"), ""), ("Transfer-Encoding: chunked".to_owned(), "0\r\n\r\n")]
    {
        let mut peer = Peer::new(&lab_site());
        peer.send(post(&fields, ""));
        for _ in 0..LENGTH / 100_000 {
            assert_eq!(peer.output.len(), 0);
            let content = "y".repeat(100_000);
            peer.send(if end.is_empty() { content } else { format!("186a0\r\n{content}\r\n") });
        }
        peer.send(end);
        let responses = peer.responses();
        assert_eq!((responses.len(), responses[0].status, responses[0].body.len()), (1, 200, LENGTH));
    }
}

#[test]
fn held_echoes_share_their_limit() {
    let site = site(Settings { echo_held_bytes_max: 1_000, ..lab() }, None, None);
    let begin = |bytes: usize| {
        let mut peer = Peer::new(&site);
        peer.send(post("Content-Length: 2000", &"y".repeat(bytes)));
        peer
    };
    let is_streaming = |peer: &Peer| !peer.output.is_empty();
    let mut first = begin(900);
    let second = begin(200);
    assert!(!is_streaming(&first) && is_streaming(&second));
    first.drop_connection(CloseReason::Reset);
    let mut third = begin(1_000);
    assert!(!is_streaming(&third), "the first one holds nothing any more");
    third.send("y".repeat(1_000));
    assert_eq!(third.responses()[0].body.len(), 2_000);
    assert!(!is_streaming(&begin(1_000)), "nor does the third one");
}

#[test]
fn sends_100_continue() {
    let expecting = post("Expect: 100-continue\r\nContent-Length: 2", "");
    let mut peer = Peer::new(&lab_site());
    peer.send(&expecting);
    assert_eq!(peer.text(), "HTTP/1.1 100 Continue\r\n\r\n");
    peer.output.clear();
    peer.send("hi");
    assert_eq!(peer.responses()[0].text(), "hi");
    // The content was already received: the client does not wait.
    let mut peer = Peer::new(&lab_site());
    peer.send(expecting + "hi");
    assert_eq!(peer.text().matches("HTTP/1.1").count(), 1);
    assert_eq!(peer.responses()[0].text(), "hi");
    let mut peer = Peer::new(&site_of_files());
    peer.send(post("Expect: 100-continue\r\nContent-Length: 2", ""));
    assert_eq!(peer.responses()[0].status, 404);
}

/// Data after the head is not waited for, read, or parsed as a request.
#[test]
fn content_of_get_closes_connection() {
    for target in ["/digits", "/none"] {
        for (method, content) in [("GET", ""), ("GET", "GET /digits HTTP/1.1\r\nHost: a\r\n\r\n"), ("HEAD", "hello")] {
            let mut peer = Peer::new(&site_of_files());
            peer.send(request(method, target, &["Content-Length: 5"]) + content);
            assert_eq!(peer.text().matches("HTTP/1.1").count(), 1, "{method} {target}");
            assert!(peer.text().contains("\r\nConnection: close\r\n"), "{method} {target}");
            assert_eq!(peer.closed, Some(Close::Graceful));
            let mut peer = Peer::new(&site_of_files());
            peer.send(request(method, target, &["Transfer-Encoding: chunked"]));
            assert!(peer.text().starts_with("HTTP/1.1 400 "), "{method} {target}");
            assert_eq!(peer.closed, Some(Close::Graceful));
        }
    }
    // A delayed response.
    let mut peer = Peer::new(&lab_site());
    peer.send(request("GET", "/delay/50", &["Content-Length: 5"]) + "hello");
    assert!(peer.output.is_empty());
    peer.wait(Duration::from_millis(50));
    assert_eq!((peer.responses()[0].text(), peer.closed), ("50 ms\n", Some(Close::Graceful)));
    let mut peer = Peer::new(&lab_site());
    peer.send(request("GET", "/bytes/1000000", &["Content-Length: 5"]) + "hello");
    assert_eq!((peer.responses()[0].body.len(), peer.closed), (1_000_000, Some(Close::Graceful)));
    // A length of 0 is no content.
    let mut peer = Peer::new(&lab_site());
    peer.send(request("GET", "/bytes/3", &["Content-Length: 0"]));
    assert_eq!((peer.responses()[0].text(), peer.closed), ("012", None));
}

#[test]
fn drains_or_closes_on_unwanted_content() {
    let mut peer = Peer::new(&site_of_files());
    peer.send(post("Content-Length: 5", "hel"));
    assert!(peer.output.is_empty());
    peer.send("lo");
    peer.send(request("GET", "/digits", &[]));
    let statuses: Vec<u16> = peer.responses().iter().map(|response| response.status).collect();
    assert_eq!(statuses, [404, 200]);
    let mut peer = Peer::new(&site_of_files());
    peer.send(post("Content-Length: 1000000", "hel"));
    assert_eq!((peer.responses()[0].status, peer.responses()[0].field("Connection")), (404, Some("close")));
    assert_eq!(peer.closed, Some(Close::Graceful));
}

#[test]
fn pipelined_responses_are_ordered_and_batched() {
    let site = lab_site();
    let mut peer = Peer::new(&site);
    let targets: Vec<String> = (0..40).map(|number| format!("/bytes/{number}")).collect();
    let mut all: String = targets.iter().map(|target| request("GET", target, &[])).collect();
    all.push_str(&post("Content-Length: 4", "last"));
    peer.send(&all);
    let bodies: Vec<usize> = peer.responses().iter().map(|response| response.body.len()).collect();
    let expected: Vec<usize> = (0..40).chain([4]).collect();
    assert_eq!(bodies, expected);
    // The same in turns of three.
    let limits = Limits { pipeline_depth_max: 3, ..Limits::default() };
    let mut in_turns = Peer::new(&crate::support::site(Settings { limits, ..lab() }, None, None));
    in_turns.send(&all);
    assert_eq!(in_turns.output, peer.output);
}

#[test]
fn segmentation_does_not_change_responses() {
    let requests = [
        request("GET", "/digits", &["Range: bytes=1-3,5-6"]),
        request("HEAD", "/digits", &[]),
        post("Content-Length: 5", "hello"),
        post("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n"),
        request("GET", "/bytes/3000", &[]),
        request("GET", "/none", &[]),
        request("PUT", "/", &["Content-Length: 0"]),
        request("GET", "/style.css", &["Accept-Encoding: gzip", "Connection: close"]),
    ];
    let responses = |in_bytes: bool| {
        let mut peer = Peer::new(&site(lab(), Some(files()), None));
        for request in &requests {
            if in_bytes {
                request.bytes().for_each(|byte| peer.send([byte]));
            } else {
                peer.send(request);
            }
        }
        assert_eq!(peer.closed, Some(Close::Graceful));
        peer.text()
    };
    assert_eq!(responses(true), responses(false));
}

#[test]
fn huge_response_is_sent_in_batches() {
    let mut peer = Peer::new(&lab_site());
    peer.queue_max = 100_000;
    let length = 5_000_000;
    peer.send(request("GET", &format!("/bytes/{length}"), &[]) + &request("GET", "/bytes/1", &[]));
    let mut turns = 0;
    while peer.output.len() < length {
        let before = peer.output.len();
        peer.wait(Duration::from_secs(1000));
        assert_eq!(peer.output.len(), before, "nothing more while the queue is long");
        peer.read_all();
        assert!(peer.output.len() - before <= 1_100_000);
        turns += 1;
    }
    peer.read_all();
    assert!(turns >= 4);
    let responses = peer.responses();
    assert_eq!((responses[0].body.len(), responses[1].text()), (length, "0"));
    assert!(responses[0].body.chunks(64).all(|line| line.ends_with(b"-\n")));
    // A peer that reads at once gets it at full speed.
    let mut fast = Peer::new(&lab_site());
    fast.send(request("GET", &format!("/bytes/{length}"), &["Connection: close"]));
    fast.wait(Duration::from_micros(1));
    assert_eq!((fast.responses()[0].body.len(), fast.closed), (length, Some(Close::Graceful)));
}

#[test]
fn delayed_response_delays_the_next() {
    let mut peer = Peer::new(&lab_site());
    peer.send(request("GET", "/delay/250", &[]) + &request("GET", "/bytes/1", &[]));
    peer.wait(Duration::from_millis(249));
    assert!(peer.output.is_empty());
    peer.wait(Duration::from_millis(1));
    let responses = peer.responses();
    assert_eq!((responses[0].text(), responses[1].text()), ("250 ms\n", "0"));
    peer.send(request("GET", "/delay/5", &["Connection: close"]));
    peer.end();
    peer.wait(Duration::from_millis(5));
    assert_eq!((peer.responses().len(), peer.closed), (3, Some(Close::Graceful)));
    // A connection that is lost meanwhile discards its response.
    let mut lost = Peer::new(&lab_site());
    lost.send(request("GET", "/delay/250", &[]));
    lost.drop_connection(CloseReason::Reset);
    lost.wait(Duration::from_secs(1));
    assert!(lost.output.is_empty());
}

fn status_and_close(peer: &Peer) -> (Vec<u16>, Option<Close>) {
    (peer.responses().iter().map(|response: &Response| response.status).collect(), peer.closed)
}

#[test]
fn idle_connection_times_out() {
    let idle = Limits::default().idle_timeout;
    let mut peer = Peer::new(&lab_site());
    peer.wait(idle - Duration::from_nanos(1));
    assert_eq!(peer.closed, None);
    peer.send(request("GET", "/bytes/1", &[]));
    peer.wait(idle - Duration::from_nanos(1));
    assert_eq!(peer.closed, None);
    peer.wait(Duration::from_nanos(1));
    assert_eq!(status_and_close(&peer), (vec![200], Some(Close::Graceful)));
}

#[test]
fn slow_head_gets_408() {
    let mut peer = Peer::new(&lab_site());
    peer.send(request("GET", "/bytes/1", &[]));
    peer.send("GET / HTTP/1.1\r\n");
    for _ in 0..9 {
        peer.wait(Duration::from_secs(1));
        peer.send("X: y\r\n");
    }
    assert_eq!(peer.closed, None);
    peer.wait(Duration::from_secs(1));
    assert_eq!(status_and_close(&peer), (vec![200, 408], Some(Close::Graceful)));
}

#[test]
fn slow_content_gets_408() {
    let mut silent = Peer::new(&lab_site());
    silent.send(post("Content-Length: 100000", "x"));
    silent.wait(Duration::from_secs(20));
    assert_eq!(status_and_close(&silent), (vec![408], Some(Close::Graceful)));

    let mut trickling = Peer::new(&lab_site());
    trickling.send(post("Content-Length: 100000", ""));
    for _ in 0..20 {
        assert_eq!(trickling.closed, None);
        trickling.send("xx");
        trickling.wait(Duration::from_secs(1));
    }
    assert_eq!(status_and_close(&trickling), (vec![408], Some(Close::Graceful)));

    let mut steady = Peer::new(&lab_site());
    steady.send(post("Content-Length: 30000", ""));
    for _ in 0..100 {
        steady.send([b'x'; 300]);
        steady.wait(Duration::from_secs(1));
    }
    assert_eq!(status_and_close(&steady), (vec![200], None));
}

#[test]
fn driver_handles_slow_readers() {
    let mut peer = Peer::new(&site_of_files());
    peer.queue_max = 1000;
    peer.send(request("GET", "/large", &[]));
    peer.wait(Duration::from_secs(10_000));
    assert_eq!(peer.closed, None);
    peer.read_all();
    peer.wait(Limits::default().idle_timeout);
    assert_eq!(peer.closed, Some(Close::Graceful));
}

#[test]
fn stopping_closes_idle_connections() {
    let mut peer = Peer::new(&lab_site());
    peer.send(request("GET", "/bytes/1", &[]));
    peer.stop();
    assert_eq!(peer.closed, None);
    peer.wait(Settings::default().stopping_linger);
    assert_eq!(status_and_close(&peer), (vec![200], Some(Close::Graceful)));
    let at_once = Settings { stopping_linger: Duration::ZERO, ..lab() };
    let mut peer = Peer::new(&site(at_once, None, None));
    peer.stop();
    assert_eq!(peer.closed, Some(Close::Graceful));
}

#[test]
fn stopping_serves_received_requests() {
    let mut peer = Peer::new(&lab_site());
    peer.send(request("GET", "/delay/50", &[]) + &request("GET", "/bytes/1", &[]) + &request("GET", "/bytes/2", &[]));
    peer.stop();
    peer.wait(Duration::from_millis(50));
    let closes: Vec<Option<&str>> =
        peer.responses().iter().map(|response| response.field("Connection")).map(|it| it.map(|_| "close")).collect();
    assert_eq!(closes, [None, None, Some("close")]);
    assert_eq!(peer.closed, Some(Close::Graceful));

    // A request in transit at the time of stopping, and one whose content was.
    let mut late = Peer::new(&lab_site());
    late.send(post("Content-Length: 2", "h"));
    late.stop();
    late.send("i");
    assert_eq!(late.responses()[0].field("Connection"), Some("close"));
    assert_eq!(late.closed, Some(Close::Graceful));
    let mut late = Peer::new(&lab_site());
    late.stop();
    late.send(request("GET", "/bytes/1", &[]));
    assert_eq!((late.responses()[0].field("Connection"), late.closed), (Some("close"), Some(Close::Graceful)));
}

#[test]
fn supports_http10_only_mode() {
    let limits = Limits { http10_only: true, ..Limits::default() };
    let old = site(Settings { limits, ..lab() }, None, None);
    let mut peer = Peer::new(&old);
    peer.send(request("GET", "/bytes/1", &[]));
    assert!(peer.text().starts_with("HTTP/1.0 200"), "{}", peer.text());
    assert_eq!(peer.closed, Some(Close::Graceful));
    let mut peer = Peer::new(&old);
    peer.send("GET /bytes/1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".repeat(2));
    assert_eq!((peer.responses().len(), peer.closed), (2, None));
}

fn counted_site() -> Site {
    let next = std::sync::atomic::AtomicU64::new(1);
    let random = move || Some(u128::from(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) << 96);
    let visitors = Visitors::new(&[7; 32], 1000, Box::new(random)).unwrap();
    site(Settings { cache_control: Some("public".into()), ..lab() }, Some(files()), Some(visitors))
}

#[test]
fn recognises_visitors() {
    let site = counted_site();
    let first = fetch(&site, "GET", "/", &[]);
    let set = first.field("Set-Cookie").unwrap().to_owned();
    assert_eq!(first.field("Cache-Control"), Some("private"));
    let cookie = format!("Cookie: a=b; {}", set.split(';').next().unwrap());
    for target in ["/", "/digits", "/none", "/bytes/1"] {
        let again = fetch(&site, "GET", target, &[&cookie]);
        assert_eq!(again.field("Set-Cookie"), None);
        assert_ne!(again.field("Cache-Control"), Some("private"), "{target}");
    }
    assert!(fetch(&site, "GET", "/none", &["Cookie: breme-visitor=1"]).field("Set-Cookie").is_some());
    assert!(fetch(&site, "POST", "/", &[]).field("Set-Cookie").is_some());
    assert_eq!(fetch(&site, "PUT", "/", &[]).field("Set-Cookie"), None);
    let report = fetch(&site, "GET", "/visitors", &[]);
    assert_eq!(report.field("Set-Cookie"), None);
    assert!(report.text().starts_with("visitors 3\nrequests 7\nforgotten 0\n"), "{}", report.text());
    assert!(report.text().contains("visitor 00000001 5\n"), "{}", report.text());
    assert_eq!(fetch(&lab_site(), "GET", "/visitors", &[]).status, 404);
}

#[test]
fn reports_own_visit_count() {
    let site = counted_site();
    let first = fetch(&site, "GET", "/visitors/me", &[]);
    assert_eq!((first.status, first.text()), (200, "{\"requests\":1}\n"));
    assert_eq!(
        (first.field("Content-Type"), first.field("Cache-Control")),
        (Some("application/json"), Some("no-store"))
    );
    let cookie = format!("Cookie: {}", first.field("Set-Cookie").unwrap().split(';').next().unwrap());
    fetch(&site, "GET", "/digits", &[&cookie]);
    let again = fetch(&site, "GET", "/visitors/me", &[&cookie]);
    assert_eq!((again.text(), again.field("Set-Cookie")), ("{\"requests\":3}\n", None));
    assert_eq!(fetch(&site, "GET", "/visitors/me", &[]).text(), "{\"requests\":1}\n");
    assert_eq!(fetch(&lab_site(), "GET", "/visitors/me", &[]).status, 404);
}
