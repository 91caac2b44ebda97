//! Flags that users of curl, wrk, oha, hey, k6, vegeta and hyperfine know: each has its effect on the wire, or an error
//! that names the flag or command to use instead.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::harness::{DRIVERS, answer_requests, breme, load, load_json, serve_each};

type Requests = Arc<Mutex<Vec<String>>>;

/// Responds to each request with 204, to `/moved` with a redirect to `/there`, and records the requests.
fn serve(stream: impl Read + Write, requests: &Requests) -> io::Result<()> {
    answer_requests(stream, |head, body| {
        requests.lock().unwrap().push(head.to_owned() + &String::from_utf8_lossy(body));
        let moved = "HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n";
        if head.split(' ').nth(1) == Some("/moved") { moved } else { "HTTP/1.1 204 No Content\r\n\r\n" }
    })
}

struct Server {
    address: SocketAddr,
    requests: Requests,
}

impl Server {
    fn start() -> Self {
        let requests = Requests::default();
        let shared = Arc::clone(&requests);
        Self { address: serve_each(move |stream| serve(stream, &shared)), requests }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests since the last call.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }

    /// The request of `breme load -n 1` with these flags.
    fn request(&self, flags: &[&str]) -> String {
        let url = self.url("/page");
        load_json(&[flags, &["-n", "1", "-c", "1", &url]].concat());
        self.take().remove(0)
    }
}

fn text(output: &Output) -> (String, String) {
    (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn flags_of_others_change_the_request() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("body.txt");
    std::fs::write(&file, "from a file").unwrap();
    let file = file.to_str().unwrap();
    let form = format!("file=@{file};type=text/plain");
    let cases: &[(&[&str], &[&str])] = &[
        (&["-X", "PUT"], &["PUT /page HTTP/1.1\r\n"]),
        (&["--data", "a=b"], &["POST /page ", "\r\n\r\na=b"]),
        (&["-D", file], &["POST /page ", "\r\n\r\nfrom a file"]),
        (&["-A", "text/x", "-T", "text/y"], &["\r\nAccept: text/x\r\n", "\r\nContent-Type: text/y\r\n"]),
        (&["-u", "aladdin:opensesame"], &["\r\nAuthorization: Basic YWxhZGRpbjpvcGVuc2VzYW1l\r\n"]),
        (&["-a", "aladdin:opensesame"], &["\r\nAuthorization: Basic YWxhZGRpbjpvcGVuc2VzYW1l\r\n"]),
        (&["--bearer", "abc.def"], &["\r\nAuthorization: Bearer abc.def\r\n"]),
        (
            &["-F", "name=x", "-F", &form],
            &[
                "POST /page ",
                "multipart/form-data; boundary=",
                "name=\"file\"; filename=\"body.txt\"\r\nContent-Type: text/plain\r\n\r\nfrom a file\r\n",
            ],
        ),
        (&["--disable-keepalive"], &["\r\nConnection: close\r\n"]),
        (&["--latency", "-z", "10s"], &["GET /page "]),
    ];
    for (flags, expected) in cases {
        let request = server.request(flags);
        for part in *expected {
            assert!(request.contains(part), "{flags:?} lacks {part:?}: {request}");
        }
    }
}

#[test]
fn credentials_are_in_no_result_and_no_list_of_processes() {
    let server = Server::start();
    let (url, secret) = (server.url("/page"), "opensesame");
    let user = format!("aladdin:{secret}");
    let mut child = breme()
        .args(["load", "-c", "1", "--until-stopped", "--json", "-u", &user, &url])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    crate::harness::wait_until("no request came", || !server.requests.lock().unwrap().is_empty());
    let shown = std::fs::read(format!("/proc/{}/cmdline", child.id())).unwrap();
    let shown = String::from_utf8_lossy(&shown).into_owned();
    drop(child.stdin.take());
    let (result, stderr) = text(&child.wait_with_output().unwrap());
    assert!(server.take().iter().all(|request| request.contains("Authorization: Basic YWxhZGRpbjpvcGVuc2VzYW1l")));
    assert!(shown.contains("load\0") && shown.contains("-u\0*****"), "{shown:?}");
    for text in [&shown, &result, &stderr] {
        assert!(!text.contains(secret) && !text.contains("YWxhZGRpbjpvcGVuc2VzYW1l"), "{text}");
    }
}

#[test]
fn redirects_are_followed_and_counted() {
    let server = Server::start();
    for driver in DRIVERS.iter().copied() {
        let result = load_json(&["-n", "40", "-c", "4", "-L", "--driver", driver, &server.url("/moved")]);
        assert_eq!(result["statuses"], serde_json::json!({ "204": 40 }), "{driver}");
        assert_eq!(result["redirects"], serde_json::json!({ "followed": 40, "not_followed": 0 }));
        let (moved, there): (Vec<String>, Vec<String>) =
            server.take().into_iter().partition(|request| request.starts_with("GET /moved "));
        assert_eq!((moved.len(), there.len()), (40, 40));
    }
    let result = load_json(&["-n", "3", "-c", "1", &server.url("/moved")]);
    assert_eq!((&result["statuses"], &result["redirects"]), (&serde_json::json!({ "302": 3 }), &Value::Null));
}

#[test]
fn connections_go_where_they_are_sent() {
    let server = Server::start();
    let (host, port) = (server.address.ip(), server.address.port());
    let resolve = format!("shop.test:{port}:{host}");
    let result = load_json(&["-n", "2", "-c", "1", "--resolve", &resolve, &format!("http://shop.test:{port}/x")]);
    assert_eq!(result["settings"]["address"], server.address.to_string());
    let connect_to = format!("shop.test:80:{host}:{port}");
    load_json(&["-n", "2", "-c", "1", "-4", "--connect-to", &connect_to, "shop.test/x"]);
    let hosts: Vec<bool> = server.take().iter().map(|request| request.contains("Host: shop.test")).collect();
    assert_eq!(hosts, [true; 4]);
    let output = load(&["-n", "1", "-6", &server.url("/x")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).1.contains("has no IPv6 address; remove --ipv6"), "{output:?}");
}

#[test]
fn a_unix_socket_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let requests = Requests::default();
    let shared = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || serve(stream, &shared));
        }
    });
    let path = path.to_str().unwrap();
    for driver in DRIVERS.iter().copied() {
        let result =
            load_json(&["-n", "400", "-c", "8", "--driver", driver, "--unix-socket", path, "http://app.test/x"]);
        assert_eq!(result["statuses"], serde_json::json!({ "204": 400 }), "{driver}: {result:#}");
        assert_eq!(result["settings"]["address"], format!("unix:{path}"));
        let requests = std::mem::take(&mut *requests.lock().unwrap());
        assert!(requests.len() == 400 && requests.iter().all(|request| request.contains("Host: app.test\r\n")));
    }
    let output = load(&["-n", "1", "--unix-socket", "/no/such/socket", "localhost"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).1.contains("unix:/no/such/socket"), "{output:?}");
}

#[test]
fn targets_may_be_on_several_hosts() {
    let servers = [Server::start(), Server::start()];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("targets");
    // The second without a scheme.
    let lines = [servers[0].url("/a"), format!("{}/b", servers[1].address), format!("PUT {}", servers[0].url("/c"))];
    std::fs::write(&file, lines.join("\n")).unwrap();
    let result = load_json(&["-n", "90", "-c", "3", "--urls-from-file", file.to_str().unwrap()]);
    assert_eq!(result["statuses"], serde_json::json!({ "204": 90 }));
    let counts = servers.each_ref().map(|server| server.take().len());
    assert_eq!(counts, [60, 30]);
}

/// Two commands of each tool from the READMEs and usage texts of oha 1, hey 0.1, wrk 4 and wrk2, k6 1, vegeta 12 and
/// hyperfine 1: with the program's name replaced by `breme load` or `breme versus`, and smaller times and counts.
#[test]
fn commands_of_other_programs_work_or_are_answered() {
    let server = Server::start();
    let url = server.url("/index.html");
    let works: &[(&str, &[&str])] = &[
        ("oha -n 200 -c 50 URL", &["load", "-n", "200", "-c", "50", &url]),
        (
            "oha -z 10s -c 100 --latency-correction --disable-keepalive URL",
            &["load", "-z", "0.2s", "-c", "10", "--latency-correction", "--disable-keepalive", &url],
        ),
        (
            "hey -n 1000 -c 100 -m POST -T text/x URL",
            &["load", "-n", "100", "-c", "10", "-m", "POST", "-T", "text/x", &url],
        ),
        ("wrk -t12 -c400 -d30s --latency URL", &["load", "-t2", "-c20", "-d0.2s", "--latency", &url]),
        ("wrk2 -t2 -c100 -d30s -R2000 URL", &["load", "-t2", "-c10", "-d0.2s", "-R200", &url]),
    ];
    for (original, arguments) in works {
        let output = breme().args(*arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{original}: {:?}", text(&output));
        assert!(text(&output).0.contains("responses/s"), "{original}");
    }
    let answered: &[(&str, &[&str], &str)] = &[
        ("hey -z 10s -q 10 URL", &["load", "-z", "1s", "-q", "10", &url], "to set the rate: -R 10"),
        ("wrk -c 4 -s script.lua URL", &["load", "-c", "4", "-s", "script.lua", &url], "--scenario FILE"),
        ("k6 run script.js", &["run", "script.js"], "breme load --scenario FILE"),
        (
            "k6 run --vus 10 --duration 30s script.js",
            &["run", "--vus", "10", "--duration", "30s", "script.js"],
            "breme load -c",
        ),
        (
            "vegeta attack -duration=5s -rate=50",
            &["load", "--targets", "-", "-duration=5s", "-rate=50"],
            "begins with two dashes: --duration=5s",
        ),
        (
            "vegeta attack -max-workers=5",
            &["load", "-max-workers=5", &url],
            "unexpected argument '-max-workers=5' found\n\n  tip: to set the number of connections: -c N",
        ),
        ("vegeta attack -targets=FILE", &["attack", "-targets=targets.txt"], "breme load -R 50 -d 5s --targets FILE"),
        ("hyperfine --warmup 3 A B", &["versus", "--warmup", "3", "a", "b"], "every trial has its own warm-up"),
        ("hyperfine A B", &["hexdump file", "xxd file"], "breme versus 'COMMAND' 'COMMAND'"),
    ];
    for (original, arguments, answer) in answered {
        let output = breme().args(*arguments).stdin(Stdio::null()).output().unwrap();
        let (_, stderr) = text(&output);
        assert_eq!(output.status.code(), Some(2), "{original}: {stderr}");
        assert!(stderr.contains(answer), "{original}: {stderr}");
    }
    // In the style of vegeta, with two dashes.
    let mut child = breme()
        .args(["load", "--targets", "-", "--duration=0.2s", "--rate=50/1s"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(child.stdin.take().unwrap(), "GET {url}").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(text(&output).0.contains("10 issued, 10 answered"), "{output:?}");
}

#[test]
fn unsupported_flags_are_named() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", free.local_addr().unwrap());
    let cases: &[(&[&str], &str)] = &[
        (&["--http2"], "HTTP/1.0 and HTTP/1.1 only"),
        (&["--threshold", "p99<5"], "--fail-if"),
        (&["-r", "5"], "-L, and --max-redirects"),
        (&["-d", "{\"a\": 1}"], "to send a body: -b"),
        (&["-u", "aladdin"], "USER:PASSWORD"),
        (&["-T", "5s"], "--timeout TIME"),
        (&["-u", "a:b", "-H", "authorization: x"], "the header Authorization is set twice"),
        (&["-L", "-p", "2"], "redirects cannot be followed in a pipeline"),
        (&["--max-redirects", "5"], "--follow-redirects"),
        (&["-F", "x=y", "-b", "z"], "--body"),
        (&["--unix-socket", "/x", "-x", "http://127.0.0.1:9"], "--proxy"),
        (&["-4", "-6"], "--ipv6"),
    ];
    for (flags, answer) in cases {
        let output = load(&[flags, &[url.as_str()][..]].concat());
        let (_, stderr) = text(&output);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {stderr}");
        assert!(stderr.contains(answer), "{flags:?}: {stderr}");
    }
}
