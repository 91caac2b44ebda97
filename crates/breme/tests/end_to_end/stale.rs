//! Stale responses and hits, counted by the real generator: on a server that deliberately loses writes, and through a
//! cache that writes invalidate.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::harness::{Site, load, serve_requests};

/// Pages, and the number of requests since the last query.
#[derive(Default)]
struct Wiki {
    versions: BTreeMap<String, Vec<Vec<u8>>>,
    requests: u64,
}

impl Wiki {
    /// The response to a request; `forgets`: pages are shown as of one write before.
    fn respond(&mut self, method: &str, target: &str, content: Vec<u8>, forgets: bool) -> (u16, Vec<u8>) {
        if target == "/wiki/stevec" {
            return (200, std::mem::take(&mut self.requests).to_string().into_bytes());
        }
        self.requests += 1;
        let versions = self.versions.entry(target.to_owned()).or_default();
        if method == "POST" {
            versions.push(content);
            return (204, Vec::new());
        }
        let shown = versions.len().checked_sub(1 + usize::from(forgets && versions.len() > 1));
        shown.map_or((404, Vec::new()), |place| (200, versions[place].clone()))
    }
}

fn wiki(forgets: bool) -> SocketAddr {
    let wiki = Arc::new(Mutex::new(Wiki::default()));
    serve_requests(move |head, body| {
        let mut words = head.split(' ');
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        let (status, content) = wiki.lock().unwrap().respond(method, target, body.to_vec(), forgets);
        let fields = if method == "GET" { "Cache-Control: max-age=600\r\n" } else { "" };
        let head = format!("HTTP/1.1 {status} Status\r\n{fields}Content-Length: {}\r\n\r\n", content.len());
        [head.into_bytes(), content].concat()
    })
}

const SCENARIO: &str = r#"
    [[scenario]]
    name = "edit"
    step = [
        { name = "write", request = "POST /wiki/{uniform:1:3}", body = "<p>{page_version}</p>", check = { status = 204 } },
        { name = "read", request = "GET /wiki/{uniform:1:3}", repeat = 5, check = { status = "200,404" } },
    ]
"#;

/// The exit status and the result of 100 sessions of one user.
fn run(url: &str, more: &[&str]) -> (Option<i32>, Value) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edit.toml");
    std::fs::write(&file, SCENARIO).unwrap();
    let file = file.display().to_string();
    let arguments =
        [&["--scenario", &file, "-c", "1", "-n", "100", "--json", "--fail-if", "stale.count > 0"], more, &[url]];
    let output = load(&arguments.concat());
    let result = serde_json::from_slice(&output.stdout);
    (output.status.code(), result.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr))))
}

#[test]
fn a_server_that_forgets_the_last_write_fails() {
    let (status, result) = run(&format!("http://{}", wiki(true)), &[]);
    let stale = &result["stale"];
    // Every read of a page that was written twice shows an old version.
    assert_eq!(status, Some(3), "{stale:#}");
    assert!(stale["count"].as_u64().unwrap() > 300 && stale["writes"] == 100, "{stale:#}");
    assert_eq!(stale["pages"].as_array().unwrap().len(), 3, "{stale:#}");
    assert_eq!(stale["age"]["count"], stale["count"], "{stale:#}");
}

#[test]
fn a_cache_that_is_invalidated_by_writes_gives_nothing_stale() {
    let origin = wiki(false);
    let proxy = Site::proxy(origin, "events", &["--cache-memory", "16MiB"]);
    let counter = format!("http://{origin}/wiki/stevec");
    let (status, result) = run(&proxy.url(""), &["--origin-counter", &counter]);
    let (stale, cache) = (&result["stale"], &result["cache"]);
    assert_eq!(status, Some(0), "{stale:#}");
    assert!(stale["count"] == 0 && stale["judged"].as_u64().unwrap() > 400, "{stale:#}");
    let count = |key: &str| cache[key].as_u64().unwrap();
    assert_eq!((count("hits") + count("misses"), count("unsaid")), (500, 0), "{cache:#}");
    assert!(count("hits") > 200, "{cache:#}");
    // The writes and the misses, no more and no fewer.
    assert_eq!(count("origin_requests"), 100 + count("misses"), "{cache:#}");
    assert_eq!(cache["origin_hit_ratio"], cache["hit_ratio"], "{cache:#}");
}

#[test]
fn a_counter_that_counts_nothing_is_named() {
    let site = Site::lab("events");
    let arguments = ["-n", "1", "--origin-counter", &site.url("/status/404"), &site.url("/bytes/1")];
    let output = load(&arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("--origin-counter http://") && text.contains("returned status 404, not 200"), "{text}");
}
