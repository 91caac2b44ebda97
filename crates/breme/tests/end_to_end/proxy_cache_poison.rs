//! Requests that try to poison the cache ("Practical Web Cache Poisoning", Kettle, 2018; "Your Cache Has Fallen",
//! Nguyen et al., 2019). The origin echoes each request in its response, and allows everything to be stored.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use breme_conformance::{Answer, read_answers};

use crate::harness::{DRIVERS, Site, serve_each};

/// Bypasses the cache to get the origin's current response.
const DIRECT: &str = "X-Direct: 1\r\n";

/// An origin whose response has the request as its content, without fields of the connection. `on=NAME&say=STATUS` in
/// the target is the status if the request has that field, and `vary=NAME` is the response's Vary.
fn mirror() -> SocketAddr {
    serve_each(reflect)
}

fn reflect(stream: TcpStream) -> Option<()> {
    let mut input = BufReader::new(stream);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let begin = head.len();
            if input.read_line(&mut head).ok()? == 0 {
                return None;
            }
            let line = head[begin..].to_ascii_lowercase();
            length = line.strip_prefix("content-length: ").map_or(length, |value| value.trim_end().parse().unwrap());
            if DIRECT.eq_ignore_ascii_case(&line) {
                head.truncate(begin);
            }
        }
        let mut content = vec![0; length];
        input.read_exact(&mut content).ok()?;
        let reflected = [head.as_bytes(), &content].concat();
        let has_field = query_value(&head, "on").is_some_and(|name| {
            head.lines().any(|line| line.split_once(':').is_some_and(|(known, _)| known.eq_ignore_ascii_case(name)))
        });
        let status = query_value(&head, "say").filter(|_| has_field).unwrap_or("200");
        let vary = query_value(&head, "vary").unwrap_or("x-nothing");
        let length = reflected.len();
        let answer = format!(
            "HTTP/1.1 {status} x\r\nCache-Control: max-age=600\r\nVary: {vary}\r\nContent-Length: {length}\r\n\r\n"
        );
        let reflected = if head.starts_with("HEAD ") { &[] } else { &reflected[..] };
        input.get_mut().write_all(&[answer.as_bytes(), reflected].concat()).ok()?;
    }
}

/// The value of `name=` in the target.
fn query_value<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let query = head.split(' ').nth(1)?.split_once('?')?.1;
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// A preceding request, as text for one target.
struct Probe {
    /// The fields include Host; the origin precedes the target in absolute-form.
    method: &'static str,
    origin: &'static str,
    fields: String,
    /// The target's query to the mirror.
    query: &'static str,
    /// The fields of other clients.
    others: String,
    content: &'static str,
}

fn probe(fields: impl Into<String>) -> Probe {
    let fields = format!("Host: a.example\r\n{}", fields.into());
    Probe { method: "GET", origin: "", fields, query: "", others: String::new(), content: "" }
}

fn probes() -> Vec<Probe> {
    let mut probes = Vec::new();
    for name in [
        "X-Forwarded-Host",
        "X-Forwarded-Scheme",
        "X-Forwarded-Proto",
        "X-Forwarded-Port",
        "X-Forwarded-Prefix",
        "X_Forwarded_Host",
        "X-Forwarded_Host",
        "Forwarded",
        "X-Real-IP",
        "X_Real_IP",
        "X-Original-URL",
        "X-Rewrite-URL",
        "X-HTTP-Method-Override",
        "x-http-method",
        "X-METHOD-OVERRIDE",
    ] {
        probes.push(probe(format!("{name}: evil\r\n")));
        probes.push(probe(format!("{name}: evil\r\n{name}: evil\r\nConnection: {name}\r\n")));
    }
    for host in [
        "A.EXAMPLE",
        "a.example:80",
        "a.example:080",
        "a.example:",
        "a.example.",
        "A.Example.:80",
        "a.example:81",
        "evil.example",
    ] {
        probes.push(Probe { fields: format!("Host: {host}\r\n"), ..probe("") });
    }
    for origin in ["http://evil.example", "http://A.EXAMPLE:80", "https://a.example"] {
        probes.push(Probe { origin, ..probe("") });
    }
    probes.push(Probe { origin: "http://a.example", fields: String::from("Host: evil.example\r\n"), ..probe("") });
    probes.push(Probe { content: "evil", ..probe("Content-Length: 4\r\n") });
    probes.push(Probe { query: "&on=content-length&say=400", ..probe("Content-Length: 0\r\n") });
    for method in ["HEAD", "POST", "PUT", "DELETE", "OPTIONS", "QUERY", "EVIL", "get"] {
        probes.push(Probe { method, ..probe("") });
    }
    for range in ["bytes=999999-", "bytes=0-0", "bytes=cow", "evil=0-1", "bytes=5-2", "bytes=-0", "bytes=0-1,2-3"] {
        probes.push(Probe { query: "&on=range&say=416", ..probe(format!("Range: {range}\r\n")) });
    }
    for (query, field) in [
        ("&on=if-match&say=412", "If-Match: \"x\""),
        ("&on=if-unmodified-since&say=412", "If-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT"),
        ("&on=expect&say=417", "Expect: 100-continue"),
        ("&on=authorization&say=401", "Authorization: Basic eDp5"),
        ("&on=upgrade&say=501", "Connection: upgrade\r\nUpgrade: evil"),
        ("&on=te&say=501", "TE: evil"),
        ("&on=x-many&say=431", "X-Many: evil"),
        ("&on=cookie&say=429", "Cookie: evil=1"),
    ] {
        probes.push(Probe { query, ..probe(format!("{field}\r\n")) });
    }
    // A client whose field is removed must not share responses with those whose field is forwarded.
    for (query, field) in [
        ("&vary=origin", "Origin: https://a.example"),
        ("&vary=accept-language", "Accept-Language: de"),
        ("&vary=cookie", "Cookie: lang=de"),
        ("&vary=x-tenant", "X-Tenant: 7"),
    ] {
        let name = field.split(':').next().unwrap_or_default();
        for named in [
            name.to_owned(),
            format!("close, {name}"),
            format!("{name}\r\nConnection: keep-alive"),
            format!(",\t{name} ,"),
        ] {
            let others = format!("{field}\r\n");
            probes.push(Probe { query, others, ..probe(format!("{field}\r\nConnection: {named}\r\n")) });
        }
    }
    probes
}

/// Spellings of one resource, or of none: whether two of them are equivalent is up to the origin.
const TARGETS: [&str; 40] = [
    "/a/b.c?x=1&y=2",
    "/a/b.c?y=2&x=1",
    "/a//b.c?x=1&y=2",
    "//a/b.c?x=1&y=2",
    "/a/./b.c?x=1&y=2",
    "/./a/b.c?x=1&y=2",
    "/.//a/b.c?x=1&y=2",
    "/a/../a/b.c?x=1&y=2",
    "/a/.%2e/a/b.c?x=1&y=2",
    "/a/..%2fa/b.c?x=1&y=2",
    "/a/b%2ec?x=1&y=2",
    "/a/b%2Ec?x=1&y=2",
    "/a%2fb.c?x=1&y=2",
    "/a%2Fb.c?x=1&y=2",
    "/a/%62.c?x=1&y=2",
    "/a/b.c;x?x=1&y=2",
    "/a;/b.c?x=1&y=2",
    "/a/b.c/?x=1&y=2",
    "/A/b.c?x=1&y=2",
    "/a/b.c?X=1&y=2",
    "/a/b.c?x=1&y=2&",
    "/a/b.c?&x=1&y=2",
    "/a/b.c?x=1;y=2",
    "/a/b.c?x=1%26y=2",
    "/a/b.c?x=%31&y=2",
    "/a/b.c?x=1&y=2&x=evil",
    "/a/b.c?x=1&y=2&utm_content=1;x=evil",
    "/a/b.c??x=1&y=2",
    "/a/b.c%3fx=1&y=2",
    "/a/b.c%23?x=1&y=2",
    "/a/b.c%20?x=1&y=2",
    "/a/b.c+?x=1&y=2",
    "/a/b.c%0a?x=1&y=2",
    "/a/b.c%00?x=1&y=2",
    "/a/b.c",
    "/a/b.c?",
    "/a/b.c/x.css?x=1&y=2",
    "/a/b.c%2fx.css?x=1&y=2",
    "/a/b.c;x.css?x=1&y=2",
    "/a/b.c.css?x=1&y=2",
];

fn exchange(proxy: &Site, method: &str, target: &str, fields: &str, content: &str) -> Result<Answer, String> {
    let request = format!("{method} {target} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n{content}");
    let received = proxy.exchange(request.as_bytes());
    let answers = read_answers(&received, |_| method == "HEAD").map_err(|unreadable| unreadable.to_string())?;
    answers.into_iter().next().ok_or_else(|| String::from("no answer"))
}

/// The error after a probe, if any.
fn judge(proxy: &Site, probe: &Probe, number: usize) -> Result<(), String> {
    let target = format!("/page?number={number}{}", probe.query);
    let Probe { method, origin, fields, content, others, .. } = probe;
    exchange(proxy, method, &format!("{origin}{target}"), fields, content)?;
    let fields = format!("Host: a.example\r\n{others}");
    let stored = exchange(proxy, "GET", &target, &fields, "")?;
    let direct = exchange(proxy, "GET", &target, &format!("{fields}{DIRECT}"), "")?;
    if (stored.status, &stored.content) == (direct.status, &direct.content) {
        return Ok(());
    }
    let text = |answer: &Answer| String::from_utf8_lossy(&answer.content).into_owned();
    Err(format!("{} {:?} instead of {} {:?}", stored.status, text(&stored), direct.status, text(&direct)))
}

#[test]
fn nobody_changes_what_is_stored_for_others() {
    for driver in DRIVERS.iter().copied() {
        let proxy = Site::proxy(mirror(), driver, &["--cache-memory", "16MiB", "--cache-bypass-header", "X-Direct"]);
        for (number, probe) in probes().iter().enumerate() {
            if let Err(why) = judge(&proxy, probe, number) {
                panic!("{driver}: after {} {}{:?}: {why}", probe.method, probe.origin, probe.fields);
            }
        }
    }
}

#[test]
fn no_two_targets_share_what_is_stored() {
    for driver in DRIVERS.iter().copied() {
        let proxy = Site::proxy(mirror(), driver, &["--cache-memory", "16MiB"]);
        for _ in 0..2 {
            for target in TARGETS {
                let answer = exchange(&proxy, "GET", target, "Host: a.example\r\n", "").unwrap();
                let text = String::from_utf8_lossy(&answer.content).into_owned();
                assert!(
                    text.starts_with(&format!("GET {target} HTTP/1.1\r\n")),
                    "{driver}: {target} was answered with {text}"
                );
            }
        }
    }
}
