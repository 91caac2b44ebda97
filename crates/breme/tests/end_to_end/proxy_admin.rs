//! Queries and changes of a running proxy: the admin API and SIGHUP.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{ChildStderr, Stdio};
use std::time::Instant;

use breme_testkit::reserved_address;
use serde_json::{Value, json};

use crate::admin::metrics;
use crate::harness::{DRIVERS, PATIENCE, Signal, Site, get, replace_by_pipe, run, wait};
use crate::load_child::{background, result};
use crate::tls::Authority;

pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A file with the token, in a folder that is removed on drop.
pub(crate) fn token_file() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    fs::write(&path, format!("{TOKEN}\n")).unwrap();
    let path = path.display().to_string();
    (folder, path)
}

/// A request with curl: the status, and the response as JSON, if it is JSON.
pub(crate) fn call(
    admin: SocketAddr,
    method: &str,
    path: &str,
    token: Option<&str>,
    content: Option<&str>,
) -> (u16, Value) {
    let mut arguments = vec!["-sS", "-g", "-X", method, "-w", "\n%{http_code}"];
    let authorization = token.map(|token| format!("Authorization: Bearer {token}"));
    arguments.extend(authorization.iter().flat_map(|field| ["-H", field.as_str()]));
    arguments.extend(content.iter().flat_map(|content| ["--data-binary", content]));
    let url = format!("http://{admin}{path}");
    arguments.push(&url);
    let text = run("curl", &arguments);
    let (content, status) = text.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), serde_json::from_str(content).unwrap_or_default())
}

/// Each site's number of the `count` responses, except requests for counters.
fn shares(proxy: &Site, sites: [&Site; 2], count: u64) -> [u64; 2] {
    let before = sites.map(Site::counter);
    for _ in 0..count {
        assert_eq!(proxy.get("/bytes/1").0, 200);
    }
    let after = sites.map(Site::counter);
    [after[0] - before[0] - 1, after[1] - before[1] - 1]
}

#[test]
fn nothing_is_changed_without_the_token() {
    let (folder, token) = token_file();
    let site = Site::lab("events");
    let open = ["--upstream", &site.url(""), "--admin", "127.0.0.1:0"];
    let proxy = Site::start_role("proxy", &[&open[..], &["--admin-token-file", &token]].concat(), Stdio::inherit());
    let admin = proxy.admin.unwrap();
    let drain = format!("/upstreams/{}/drain", site.address);
    assert_eq!(call(admin, "GET", "/upstreams", None, None).0, 200, "to look needs none");
    for wrong in [None, Some("0123456789abcdef0123456789abcdeg"), Some("")] {
        assert_eq!(call(admin, "POST", &drain, wrong, None).0, 401, "{wrong:?}");
        assert_eq!(call(admin, "PUT", "/upstreams", wrong, Some("[]")).0, 401, "{wrong:?}");
    }
    let (_, answer) = call(admin, "GET", "/upstreams", None, None);
    assert_eq!(answer[0]["draining"], json!(false));
    assert_eq!(call(admin, "POST", &drain, Some(TOKEN), None).0, 200);
    // A valid one together with another: an intermediary may have checked that one.
    let [good, bad] = [TOKEN, "0123456789abcdef0123456789abcdeg"].map(|token| format!("Authorization: Bearer {token}"));
    for headers in [[&good, &bad], [&bad, &good]] {
        let url = format!("http://{admin}{drain}");
        let request =
            ["-sS", "-o", "/dev/null", "-w", "%{http_code}", "-X", "POST", "-H", headers[0], "-H", headers[1]];
        assert_eq!(run("curl", &[&request[..], &[&url]].concat()), "400");
    }
    let long = folder.path().join("long");
    fs::write(&long, "x".repeat(300_000)).unwrap();
    let long = format!("@{}", long.display());
    assert_eq!(call(admin, "PUT", "/upstreams", Some(TOKEN), Some(&long)).0, 413);

    let without = Site::start_role("proxy", &open, Stdio::inherit());
    let (status, answer) = call(without.admin.unwrap(), "POST", &drain, Some(TOKEN), None);
    assert!(status == 403 && answer["error"].as_str().unwrap().contains("--admin-token-file"), "{answer}");
    assert_eq!(
        call(Site::start(&["--lab", "--admin", "127.0.0.1:0"]).admin.unwrap(), "POST", "/upstreams", None, None).0,
        404
    );
}

#[test]
fn upstreams_are_drained_and_exchanged_while_requests_go_on() {
    let (_folder, token) = token_file();
    for driver in DRIVERS.iter().copied() {
        let sites = [Site::lab("events"), Site::lab("events")];
        let urls = [sites[0].url(""), sites[1].url("")];
        let admin = ["--driver", driver, "--admin", "127.0.0.1:0", "--admin-token-file", &token];
        let both = [&["--upstream", &urls[0], "--upstream", &urls[1]], &admin[..]].concat();
        let proxy = Site::start_role("proxy", &both, Stdio::null());
        let (admin, pair) = (proxy.admin.unwrap(), [&sites[0], &sites[1]]);
        assert_eq!(shares(&proxy, pair, 10), [5, 5], "{driver}");
        let first = sites[0].address;
        assert_eq!(call(admin, "POST", &format!("/upstreams/{first}/drain"), Some(TOKEN), None).0, 200);
        assert_eq!(shares(&proxy, pair, 10), [0, 10], "{driver}: drained");
        assert_eq!(call(admin, "POST", &format!("/upstreams/{first}/undrain"), Some(TOKEN), None).0, 200);
        assert_eq!(shares(&proxy, pair, 10), [5, 5], "{driver}: back");
        let list = json!([urls[0]]).to_string();
        let (status, answer) = call(admin, "PUT", "/upstreams", Some(TOKEN), Some(&list));
        assert_eq!((status, answer.as_array().unwrap().len()), (200, 1), "{driver}: {answer}");
        assert_eq!(shares(&proxy, pair, 10), [10, 0], "{driver}: exchanged");
        assert_eq!(call(admin, "PUT", "/upstreams", Some(TOKEN), Some("[]")).0, 422);
        let own = json!([urls[0], proxy.url("")]).to_string();
        let (status, answer) = call(admin, "PUT", "/upstreams", Some(TOKEN), Some(&own));
        let problem = answer["error"].as_str().unwrap_or_default();
        assert!(status == 422 && problem.contains("is this proxy itself"), "{driver}: {status} {answer}");

        let metrics = metrics(admin);
        let labels = format!("{{upstream=\"{first}\",scheme=\"http\"");
        assert_eq!(metrics[&format!("breme_upstream_up{labels}}}")], 1.0, "{driver}");
        let answered = metrics[&format!("breme_upstream_requests_total{labels},outcome=\"answered\"}}")];
        assert_eq!(answered, 20.0, "{driver}");
    }
}

/// A drain must not cause an outage: while no other upstream is healthy, drained ones serve.
#[test]
fn a_drained_upstream_takes_over_when_the_others_are_down() {
    let (_folder, token) = token_file();
    for driver in DRIVERS.iter().copied() {
        let addresses = [reserved_address(), reserved_address()];
        let urls = addresses.map(|address| format!("http://{address}"));
        let [_first, second] = addresses.map(Site::lab_at);
        let both = ["--driver", driver, "--upstream", &urls[0], "--upstream", &urls[1], "--retries", "0"];
        let times = ["--health-interval", "20ms", "--health-timeout", "60s", "--eject-after", "0"];
        let health = [&["--health-path", "/bytes/1", "--health-fall", "1", "--health-rise", "1"], &times[..]].concat();
        let admin = ["--admin", "127.0.0.1:0", "--admin-token-file", &token];
        let mut proxy = Site::start_role("proxy", &[&both[..], &health, &admin].concat(), Stdio::piped());
        let mut stderr = proxy.stderr();
        let deed = |name: SocketAddr, deed: &str| {
            let path = format!("/upstreams/{name}/{deed}");
            assert_eq!(call(proxy.admin.unwrap(), "POST", &path, Some(TOKEN), None).0, 200, "{driver}");
        };
        deed(addresses[0], "drain");
        drop(second);
        line_with(&mut stderr, "only drained upstreams are healthy");
        assert_eq!(proxy.get("/bytes/1").0, 200, "{driver}: the drained one serves");
        let _back = Site::lab_at(addresses[1]);
        line_with(&mut stderr, "there is a healthy upstream again");
        assert_eq!(proxy.get("/bytes/1").0, 200, "{driver}");
        deed(addresses[1], "drain");
        line_with(&mut stderr, "no upstream can be used");
        assert_eq!(proxy.get("/bytes/1").0, 503, "{driver}: all are drained");
    }
}

/// An upstream with TLS that was added after the start: through the API, and in the file.
#[test]
fn a_new_upstream_may_speak_tls() {
    let (folder, token) = token_file();
    let authority = Authority::new();
    let (signed, ca) = (authority.server(), authority.file());
    let (certificate, key) = signed.files();
    let path = folder.path().join("proxy.toml");
    for driver in DRIVERS.iter().copied() {
        let plain = Site::lab("events");
        let secured = Site::start(&["--lab", "--tls-cert", certificate, "--tls-key", key]);
        let url = format!("https://localhost:{}", secured.address.port());
        let write = |url: &str| fs::write(&path, format!("upstream = \"{url}\"\nupstream-ca = \"{ca}\"\n")).unwrap();
        write(&plain.url(""));
        let admin = ["--driver", driver, "--admin", "127.0.0.1:0", "--admin-token-file", &token];
        let arguments = [&["--config", path.to_str().unwrap()], &admin[..]].concat();
        let mut proxy = Site::start_role("proxy", &arguments, Stdio::piped());
        let mut stderr = proxy.stderr();
        assert_eq!(proxy.get("/bytes/1").0, 200);
        let (status, answer) =
            call(proxy.admin.unwrap(), "PUT", "/upstreams", Some(TOKEN), Some(&json!([url]).to_string()));
        assert_eq!(status, 200, "{driver}: {answer}");
        assert_eq!(proxy.get("/bytes/3"), (200, b"012".to_vec()), "{driver}: by the API");
        write(&url);
        proxy.signal(Signal::HUP);
        line_with(&mut stderr, "changed: upstream");
        assert_eq!(proxy.get("/bytes/3"), (200, b"012".to_vec()), "{driver}: by the file");
        assert_eq!(metrics(proxy.admin.unwrap())["breme_upstream_errors_total{kind=\"502\"}"], 0.0, "{driver}");
    }
}

#[test]
fn a_dead_upstream_is_ejected_and_reported() {
    let site = Site::lab("events");
    let nobody = format!("http://{}", reserved_address());
    for driver in DRIVERS.iter().copied() {
        let both = ["--driver", driver, "--upstream", &nobody, "--upstream", &site.url("")];
        let arguments = [&both[..], &["--eject-after", "2", "--admin", "127.0.0.1:0"]].concat();
        let mut proxy = Site::start_role("proxy", &arguments, Stdio::piped());
        let mut stderr = proxy.stderr();
        for _ in 0..20 {
            assert_eq!(proxy.get("/bytes/1").0, 200, "{driver}: another is asked");
        }
        let line = line_with(&mut stderr, "is ejected for");
        let name = nobody.strip_prefix("http://").unwrap();
        assert!(line.contains(name), "{driver}: {line}");
        let metrics = metrics(proxy.admin.unwrap());
        assert_eq!(metrics[&format!("breme_upstream_up{{upstream=\"{name}\",scheme=\"http\"}}")], 0.0, "{driver}");
        let failed =
            format!("breme_upstream_requests_total{{upstream=\"{name}\",scheme=\"http\",outcome=\"connect-failed\"}}");
        assert!(metrics[&failed] >= 2.0, "{driver}: {metrics:#?}");
    }
}

#[test]
fn an_upstream_whose_checks_fail_gets_nothing_until_they_are_good() {
    for driver in DRIVERS.iter().copied() {
        let site = Site::lab("events");
        let absent = reserved_address();
        let (url, other) = (site.url(""), format!("http://{absent}"));
        let both =
            ["--driver", driver, "--upstream", &url, "--upstream", &other, "--eject-after", "0", "--retries", "0"];
        let times = ["--health-interval", "20ms", "--health-timeout", "60s"];
        let health = [&["--health-path", "/bytes/1", "--health-fall", "1", "--health-rise", "1"], &times[..]].concat();
        let mut proxy = Site::start_role("proxy", &[&both[..], &health].concat(), Stdio::piped());
        let mut stderr = proxy.stderr();
        let line = line_with(&mut stderr, "is down");
        assert!(line.contains(&absent.to_string()), "{driver}: {line}");
        for _ in 0..10 {
            assert_eq!(proxy.get("/bytes/1").0, 200, "{driver}: only the one that is well is asked");
        }
        let late = Site::lab_at(absent);
        let line = line_with(&mut stderr, "is up");
        assert!(line.contains(&absent.to_string()), "{driver}: {line}");
        let counted = || get(absent, "/counter").content;
        let before: u64 = String::from_utf8(counted()).unwrap().trim().parse().unwrap();
        for _ in 0..10 {
            assert_eq!(proxy.get("/status/418").0, 418);
        }
        let after: u64 = String::from_utf8(counted()).unwrap().trim().parse().unwrap();
        assert!(after - before > 5, "{driver}: it is asked again");
        drop(late);
    }
}

#[test]
fn a_client_that_exceeds_its_rate_gets_429() {
    let site = Site::lab("events");
    for driver in DRIVERS.iter().copied() {
        let before = ["--driver", driver, "--upstream", &site.url("")];
        let limits = ["--client-rate", "1", "--client-burst", "3", "--admin", "127.0.0.1:0"];
        let proxy = Site::start_role("proxy", &[&before[..], &limits].concat(), Stdio::inherit());
        // All at once: on a slow machine, sequential requests may each get a new token.
        let requests = "GET /bytes/1 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(30);
        let last = "GET /bytes/1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let answers =
            breme_conformance::read_answers(&proxy.exchange((requests + last).as_bytes()), |_| false).unwrap();
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert!(statuses.starts_with(&[200, 200, 200]) && statuses.contains(&429), "{driver}: {statuses:?}");
        let answer = get(proxy.address, "/bytes/1");
        assert!(answer.status == 200 || answer.field("retry-after").is_some(), "{driver}: {}", answer.status);
        let limited = metrics(proxy.admin.unwrap())["breme_clients_limited_total{kind=\"requests\"}"];
        assert!(limited >= 1.0, "{driver}: {limited}");
        let few = Site::start_role("proxy", &[&before[..], &["--client-connections", "2"]].concat(), Stdio::inherit());
        a_third_connection_is_not_served(&few);
    }
}

fn a_third_connection_is_not_served(proxy: &Site) {
    let mut kept = [proxy.connect(), proxy.connect()];
    for stream in &mut kept {
        assert_eq!(status_on(stream, "GET /bytes/1 HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
    }
    let mut third = proxy.connect();
    let mut nothing = Vec::new();
    let _ = third.read_to_end(&mut nothing); // it may be reset
    assert!(nothing.is_empty(), "a third connection is not served");
}

/// A cookie leads a client to the upstream of its last response: one of the proxy's own, or an application's with a
/// route.
#[test]
fn clients_come_back_by_a_cookie() {
    let sites = [Site::lab("events"), Site::lab("events")];
    let urls = [sites[0].url(""), sites[1].url("") + ",route=n1"];
    for driver in DRIVERS.iter().copied() {
        let both = ["--driver", driver, "--upstream", &urls[0], "--upstream", &urls[1], "--affinity"];
        let proxy = Site::start_role("proxy", &[&both[..], &["insert:route"]].concat(), Stdio::inherit());
        let first = get(proxy.address, "/bytes/1");
        let cookie = first.field("set-cookie").expect("a new client gets a cookie");
        let cookie = cookie.split(';').next().unwrap().to_owned();
        assert!(cookie.starts_with("route="), "{cookie}");
        let found = shares_of(&proxy, &cookie, &[&sites[0], &sites[1]]);
        assert!(found == [10, 0] || found == [0, 10], "{driver}: {found:?}");

        let proxy = Site::start_role("proxy", &[&both[..], &["follow:JSESSIONID"]].concat(), Stdio::inherit());
        assert_eq!(shares_of(&proxy, "a=b; JSESSIONID=0A1B.n1", &[&sites[0], &sites[1]]), [0, 10], "{driver}");
        assert_eq!(
            shares_of(&proxy, "JSESSIONID=0A1B.n2", &[&sites[0], &sites[1]]),
            [5, 5],
            "{driver}: nobody has that route"
        );
    }
}

/// A client whose upstream is gone is sent to another, and gets its cookie.
#[test]
fn a_cookie_of_an_upstream_that_is_gone_leads_to_another() {
    for driver in DRIVERS.iter().copied() {
        let addresses = [reserved_address(), reserved_address()];
        let sites = addresses.map(Site::lab_at);
        let urls = addresses.map(|address| format!("http://{address}"));
        let both = ["--driver", driver, "--upstream", &urls[0], "--upstream", &urls[1], "--affinity", "insert:route"];
        let proxy = Site::start_role("proxy", &both, Stdio::null());
        let cookie_of = |answer: &breme_conformance::Answer| {
            answer.field("set-cookie").and_then(|cookie| cookie.split(';').next()).map(str::to_owned)
        };
        let cookie = cookie_of(&get(proxy.address, "/bytes/1")).unwrap();
        let [first, second] = sites;
        let served = shares_of(&proxy, &cookie, &[&first, &second]);
        let (gone, other) = if served == [10, 0] { (first, second) } else { (second, first) };
        drop(gone);
        let request = format!("GET /bytes/1 HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n");
        let answers = breme_conformance::read_answers(&proxy.exchange(request.as_bytes()), |_| false).unwrap();
        assert_eq!(answers[0].status, 200, "{driver}: {}", String::from_utf8_lossy(&answers[0].content));
        let new = cookie_of(&answers[0]).expect("the new upstream has a cookie of its own");
        assert_ne!(new, cookie, "{driver}");
        let before = other.counter();
        let mut stream = proxy.connect();
        let request = format!("GET /bytes/1 HTTP/1.1\r\nHost: a\r\nCookie: {new}\r\n\r\n");
        assert_eq!(status_on(&mut stream, &request), 200, "{driver}");
        assert_eq!(other.counter() - before, 2, "{driver}");
    }
}

/// Each site's number of ten requests with a cookie.
fn shares_of(proxy: &Site, cookie: &str, sites: &[&Site; 2]) -> [u64; 2] {
    let before = sites.map(Site::counter);
    let mut stream = proxy.connect();
    for _ in 0..10 {
        let request = format!("GET /bytes/1 HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n");
        assert_eq!(status_on(&mut stream, &request), 200);
    }
    let after = sites.map(Site::counter);
    [after[0] - before[0] - 1, after[1] - before[1] - 1]
}

/// Reads messages until a line contains these words.
pub(crate) fn line_with(stderr: &mut BufReader<ChildStderr>, words: &str) -> String {
    let mut all = String::new();
    loop {
        let mut line = String::new();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "{words:?} was never said, but:\n{all}");
        if line.contains(words) {
            return line;
        }
        all += &line;
    }
}

#[test]
fn sighup_reads_the_file_again() {
    const LONG: &str = "POST /any HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n123456";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("proxy.toml");
    for driver in DRIVERS.iter().copied() {
        let sites = [Site::lab("events"), Site::lab("events")];
        let write = |site: &Site, more: &str| {
            fs::write(&path, format!("upstream = \"{}\"\n{more}", site.url(""))).unwrap();
        };
        write(&sites[0], "");
        let arguments = ["--driver", driver, "--config", path.to_str().unwrap()];
        let mut proxy = Site::start_role("proxy", &arguments, Stdio::piped());
        let mut stderr = proxy.stderr();
        let pair = [&sites[0], &sites[1]];
        assert_eq!(shares(&proxy, pair, 4), [4, 0], "{driver}");

        // An open connection remains, and its next request uses the new rules.
        let mut kept = proxy.connect();
        assert_eq!(status_on(&mut kept, LONG), 200);
        write(&sites[1], "max-body = 5\nresponse-timeout = \"7s\"\nthreads = 3\n");
        proxy.signal(Signal::HUP);
        let line = line_with(&mut stderr, "reloaded the configuration");
        assert!(line.contains("changed: upstream, response-timeout, max-body; needs a restart: threads"), "{line}");
        assert_eq!(shares(&proxy, pair, 4), [0, 4], "{driver}");
        // Each shard applies them in its next turn.
        let begun = Instant::now();
        while status_on(&mut kept, LONG) != 413 {
            assert!(begun.elapsed() < PATIENCE, "{driver}: the old limit stays");
        }

        proxy.signal(Signal::HUP);
        let line = line_with(&mut stderr, "reloaded the configuration");
        assert!(line.contains("nothing has changed; needs a restart: threads"), "still to be done: {line}");

        fs::write(&path, "upstraem = 1\n").unwrap();
        proxy.signal(Signal::HUP);
        let line = line_with(&mut stderr, "did you mean");
        assert!(line.contains("line 1, column 1") && line.contains("`upstream`"), "{line}");
        assert!(line_with(&mut stderr, "keeping the old settings").contains("keeping"));
        assert_eq!(shares(&proxy, pair, 4), [0, 4], "{driver}: the old list");
    }
}

#[test]
fn the_cache_and_the_pool_have_new_rules_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("proxy.toml");
    let site = Site::lab("events");
    let write = |more: &str| fs::write(&path, format!("upstream = \"{}\"\n{more}", site.url(""))).unwrap();
    write("cache-memory = \"64MiB\"\n");
    let arguments = ["--admin", "127.0.0.1:0", "--config", path.to_str().unwrap()];
    let mut proxy = Site::start_role("proxy", &arguments, Stdio::piped());
    let (mut stderr, admin) = (proxy.stderr(), proxy.admin.unwrap());
    let bytes_max = || call(admin, "GET", "/cache/statistics", None, None).1["bytes_max"].as_u64().unwrap();
    assert_eq!(bytes_max(), 64 << 20);
    write("cache-memory = \"32MiB\"\npool-idle = 3\ncache-lock-timeout = \"3s\"\ncache-key-header = \"x-tag\"\n");
    proxy.signal(Signal::HUP);
    let line = line_with(&mut stderr, "reloaded the configuration");
    for part in ["changed: ", "pool-idle", "cache-memory", "cache-lock-timeout", "needs a restart: cache-key-header"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert_eq!(bytes_max(), 32 << 20);
    write("");
    proxy.signal(Signal::HUP);
    let line = line_with(&mut stderr, "reloaded the configuration");
    let late = line.split("needs a restart: ").nth(1).unwrap();
    assert!(late.contains("cache-memory"), "whether there is a cache is decided at the start: {line}");
    assert_eq!(bytes_max(), 32 << 20);
}

/// Reading a pipe that nobody writes to would never end.
#[test]
fn a_pipe_in_place_of_a_file_fails_the_reload() {
    let folder = tempfile::tempdir().unwrap();
    let [config, token] = ["proxy.toml", "token"].map(|name| folder.path().join(name));
    let site = Site::lab("events");
    let settings = format!("upstream = \"{}\"\nadmin-token-file = \"token\"\n", site.url(""));
    let write = || {
        fs::write(&config, &settings).unwrap();
        fs::write(&token, TOKEN).unwrap();
    };
    write();
    let mut proxy =
        Site::start_role("proxy", &["--admin", "127.0.0.1:0", "--config", config.to_str().unwrap()], Stdio::piped());
    let mut stderr = proxy.stderr();
    [&config, &token].into_iter().for_each(|path| replace_by_pipe(path));
    for _ in 0..2 {
        proxy.signal(Signal::HUP);
        for (path, kept) in [(&token, "; keeping the old token"), (&config, "")] {
            let problem = format!("breme proxy: {} is not a regular file, and cannot be read again", path.display());
            assert_eq!(line_with(&mut stderr, "regular file").trim_end(), problem + kept);
        }
        line_with(&mut stderr, "keeping the old settings");
        assert_eq!(proxy.get("/bytes/5").0, 200);
    }
    [&config, &token].into_iter().for_each(|path| fs::remove_file(path).unwrap());
    write();
    proxy.signal(Signal::HUP);
    line_with(&mut stderr, "reloaded the configuration; nothing has changed");
}

/// A shard's cached requests were processed with the old rules.
#[test]
fn a_request_that_came_before_has_the_new_rules_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("proxy.toml");
    for driver in DRIVERS.iter().copied() {
        let site = Site::lab("events");
        let upstream = format!("upstream = \"{}\"\n", site.url(""));
        fs::write(&path, &upstream).unwrap();
        let arguments = ["--driver", driver, "--config", path.to_str().unwrap()];
        let mut proxy = Site::start_role("proxy", &arguments, Stdio::piped());
        let mut stderr = proxy.stderr();
        // The response has the upstream's request as its content.
        let says_via = |stream: &mut std::net::TcpStream| {
            let content = content_on(stream, "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n");
            content.to_ascii_lowercase().contains("via: 1.1 breme")
        };
        let mut kept = proxy.connect();
        for _ in 0..5 {
            assert!(says_via(&mut kept), "{driver}");
        }
        fs::write(&path, upstream + "no-via = true\n").unwrap();
        proxy.signal(Signal::HUP);
        line_with(&mut stderr, "changed: no-via");
        let begun = Instant::now();
        while says_via(&mut kept) {
            assert!(begun.elapsed() < PATIENCE, "{driver}: the old rule stays");
        }
        for _ in 0..5 {
            assert!(!says_via(&mut kept), "{driver}");
        }
    }
}

/// Sends a request and reads one short response.
fn status_on(stream: &mut std::net::TcpStream, request: &str) -> u16 {
    answer_on(stream, request).0
}

fn content_on(stream: &mut std::net::TcpStream, request: &str) -> String {
    answer_on(stream, request).1
}

fn answer_on(stream: &mut std::net::TcpStream, request: &str) -> (u16, String) {
    std::io::Write::write_all(stream, request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    let head = String::from_utf8(answer).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap().parse().unwrap();
    let mut content = vec![0; length];
    stream.read_exact(&mut content).unwrap();
    (head[9..12].parse().unwrap(), String::from_utf8(content).unwrap())
}

/// The list is replaced repeatedly under load: no request may fail because of it.
#[test]
fn no_request_is_lost_while_the_list_changes() {
    let (_folder, token) = token_file();
    let sites = [Site::lab("events"), Site::lab("events")];
    let urls = [sites[0].url(""), sites[1].url("")];
    let arguments = ["--upstream", &urls[0], "--admin", "127.0.0.1:0", "--admin-token-file", &token];
    let proxy = Site::start_role("proxy", &arguments, Stdio::null());
    let mut load = background(&proxy, &["-c", "20"]);
    let answered = || sites.iter().map(Site::counter).sum::<u64>();
    let (begun, mut turn) = (Instant::now(), 0);
    let before = answered();
    // Each reading of the counters is a response of each site.
    while turn < 20 || answered() < before + 2 * (turn as u64 + 1) + 1_000 {
        assert!(begun.elapsed() < PATIENCE, "the list was changed {turn} times");
        let list = if turn % 3 == 2 { json!(urls) } else { json!([urls[turn % 2]]) };
        assert_eq!(call(proxy.admin.unwrap(), "PUT", "/upstreams", Some(TOKEN), Some(&list.to_string())).0, 200);
        turn += 1;
    }
    drop(load.stdin.take());
    assert!(wait(&mut load).success());
    let result = result(&mut load);
    assert!(
        result["errors"].as_object().is_none_or(|errors| errors.values().all(|count| count == 0)),
        "{}",
        result["errors"]
    );
    assert_eq!(get(proxy.address, "/bytes/1").status, 200);
}
