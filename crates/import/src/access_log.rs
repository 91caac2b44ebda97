//! Access logs in the common and combined formats.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::LazyLock;
use std::time::Duration;

use breme_base::plural;
use jiff::Timestamp;
use jiff::fmt::strtime;
use percent_encoding::percent_encode_byte;
use regex::{Captures, Regex};

use super::Imported;
use super::notes::counted;
use super::recording::{Limits, RecordedRequest, RecordedSession, Recording};

/// A longer pause of a client begins a new visit (a convention of web analytics).
const VISIT_ENDS_AFTER: Duration = Duration::from_secs(30 * 60);

/// `127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.0" 200 2326 "referer" "agent"`.
static LINE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?x)^(\S+)\ (\S+)\ .*?\[([^\]]+)\]\ "([A-Z]+)\ (/\S*)(?:\ HTTP/[\d.]+)?"\ (\d{3})\ \S+
           (?:\ "(?:[^"\\]|\\.)*"\ "((?:[^"\\]|\\.)*)")?"#,
    )
    .ok()
});
/// What servers write for bytes that their logs cannot contain.
static ESCAPE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"\\(?:x([0-9A-Fa-f]{2})|u00([0-9A-Fa-f]{2})|(["\\/nrtbfv]))"#).ok());
/// Statuses of requests whose conditions, ranges or ends a log does not contain.
const UNCHECKED: [u16; 6] = [206, 304, 408, 416, 444, 499];

struct LogLine {
    /// Address and user agent.
    client: (String, String),
    at: Timestamp,
    method: String,
    target: String,
    status: u16,
}

/// Each visit is a session with the pauses between its requests; equal visits are merged, with a weight. A visit has at
/// most as many requests as a file has steps; further ones begin another visit.
///
/// # Errors
/// No line is a GET or HEAD request in one of these formats.
pub fn read(text: &str, limits: Limits) -> Imported {
    let all = text.lines().filter(|line| !line.is_empty()).count();
    let lines: Vec<LogLine> = text.lines().filter_map(parse).collect();
    let (lines, undecoded): (Vec<LogLine>, Vec<LogLine>) =
        lines.into_iter().partition(|line| !line.target.contains(char::REPLACEMENT_CHARACTER));
    let (repeatable, others): (Vec<LogLine>, Vec<LogLine>) =
        lines.into_iter().partition(|line| matches!(line.method.as_str(), "GET" | "HEAD"));
    if repeatable.is_empty() {
        return Err(format!("none of {all} lines is a GET or HEAD request in the common or combined format"));
    }
    let unread = all - repeatable.len() - others.len() - undecoded.len();
    let omissions = [
        (
            unread,
            format!(
                "{unread} of {} {} not in the common or combined format, and left out",
                plural(all as u64, "line"),
                if unread == 1 { "is" } else { "are" }
            ),
        ),
        (
            undecoded.len(),
            format!("{} left out: no UTF-8 in the target", counted(undecoded.len(), "request is", "requests are")),
        ),
        (
            others.len(),
            format!(
                "{} left out: their methods carry bodies, which a log does not contain",
                counted(others.len(), "request is", "requests are")
            ),
        ),
    ];
    let mut notes: Vec<String> = omissions.into_iter().filter(|(count, _)| *count > 0).map(|(_, note)| note).collect();
    let unchecked = repeatable.iter().filter(|line| UNCHECKED.contains(&line.status)).count();
    if unchecked > 0 {
        let statuses = UNCHECKED.map(|status| status.to_string()).join(", ");
        let requests = counted(unchecked, "request has", "requests have");
        notes.push(format!("{requests} no check: the statuses {statuses} depend on the client"));
    }
    let span = span_of(&repeatable);
    let visits = visits(repeatable, limits.steps);
    notes.push(format!(
        "{} in {} s; to repeat their arrival rate: -R {:.3}",
        plural(visits.len() as u64, "visit"),
        span.as_secs(),
        visits.len() as f64 / span.as_secs_f64().max(1.0)
    ));
    let (sessions, left_out) = weighted(visits, limits);
    if left_out > 0 {
        notes.push(format!(
            "{} left out: a scenario file has at most {} scenarios and {} steps",
            counted(left_out, "rarer visit is", "rarer visits are"),
            limits.scenarios,
            limits.steps
        ));
    }
    Ok(Recording { sessions, notes, ..Recording::default() })
}

fn parse(line: &str) -> Option<LogLine> {
    let captures = LINE.as_ref()?.captures(line)?;
    let at = strtime::parse("%d/%b/%Y:%H:%M:%S %z", &captures[3]).ok()?.to_timestamp().ok()?;
    let agent = captures.get(7).map_or("", |agent| agent.as_str());
    Some(LogLine {
        client: (client(&captures[1], &captures[2]).to_owned(), agent.to_owned()),
        at,
        method: captures[4].to_owned(),
        target: unescaped(&captures[5]),
        status: captures[6].parse().ok()?,
    })
}

/// The first field, or the second one after the name of a virtual host (Apache's `vhost_combined`).
fn client<'a>(first: &'a str, second: &'a str) -> &'a str {
    let is_address = |text: &str| text.parse::<IpAddr>().is_ok();
    let has_port = first.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if !is_address(first) && (is_address(second) || (has_port && second != "-")) { second } else { first }
}

/// The bytes that the client sent, percent-encoded where a target cannot contain them.
fn unescaped(target: &str) -> String {
    let Some(escape) = ESCAPE.as_ref() else { return target.to_owned() };
    let encoded = escape.replace_all(target, |captures: &Captures<'_>| {
        let hex = captures.get(1).or(captures.get(2)).and_then(|hex| u8::from_str_radix(hex.as_str(), 16).ok());
        let byte = hex.unwrap_or_else(|| match &captures[3] {
            "n" => b'\n',
            "r" => b'\r',
            "t" => b'\t',
            "b" => 0x08,
            "f" => 0x0c,
            "v" => 0x0b,
            other => other.bytes().next().unwrap_or_default(),
        });
        if byte == b'/' { String::from("/") } else { percent_encode_byte(byte).to_owned() }
    });
    encoded.into_owned()
}

fn span_of(lines: &[LogLine]) -> Duration {
    let (first, last) = (lines.iter().map(|line| line.at).min(), lines.iter().map(|line| line.at).max());
    first.zip(last).map_or(Duration::ZERO, |(first, last)| between(first, last))
}

fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::from_secs(u64::try_from(later.as_second() - earlier.as_second()).unwrap_or(0))
}

/// The requests of each visit, in the order of the log.
fn visits(lines: Vec<LogLine>, requests_max: usize) -> Vec<Vec<RecordedRequest>> {
    let mut visits: Vec<Vec<RecordedRequest>> = Vec::new();
    let mut current: HashMap<(String, String), (usize, Timestamp)> = HashMap::new();
    for line in lines {
        let request = RecordedRequest {
            method: line.method,
            target: line.target,
            status: Some(line.status).filter(|status| !UNCHECKED.contains(status)).map(|status| status.to_string()),
            ..RecordedRequest::default()
        };
        let open = current
            .get(&line.client)
            .copied()
            .filter(|(visit, last)| between(*last, line.at) <= VISIT_ENDS_AFTER && visits[*visit].len() < requests_max);
        let visit = match open {
            Some((visit, last)) => {
                if let Some(previous) = visits[visit].last_mut() {
                    previous.pause = between(last, line.at);
                }
                visit
            }
            None => {
                visits.push(Vec::new());
                visits.len() - 1
            }
        };
        visits[visit].push(request);
        current.insert(line.client, (visit, line.at));
    }
    visits
}

/// The most frequent ones first; and the number of omitted ones.
fn weighted(visits: Vec<Vec<RecordedRequest>>, limits: Limits) -> (Vec<RecordedSession>, usize) {
    let mut sessions: Vec<RecordedSession> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let count = visits.len();
    for requests in visits {
        let place = *places.entry(format!("{requests:?}")).or_insert_with(|| {
            sessions.push(RecordedSession { requests, ..RecordedSession::default() });
            sessions.len() - 1
        });
        sessions[place].weight += 1;
    }
    sessions.sort_by_key(|session| std::cmp::Reverse(session.weight));
    sessions.truncate(fitting(&sessions, limits));
    for (number, session) in sessions.iter_mut().enumerate() {
        session.name = format!("visit {}", number + 1);
    }
    let kept: usize = sessions.iter().map(|session| session.weight as usize).sum();
    (sessions, count - kept)
}

/// How many sessions a file can hold, from the first.
fn fitting(sessions: &[RecordedSession], limits: Limits) -> usize {
    let step_counts = sessions.iter().scan(0, |count, session| {
        *count += session.requests.len();
        Some(*count)
    });
    step_counts.take(limits.scenarios).take_while(|count| *count <= limits.steps).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { scenarios: 3, steps: 5 };
    const LOG: &str = r#"1.1.1.1 - - [10/Oct/2026:13:55:36 +0200] "GET /a HTTP/1.1" 200 5 "-" "X"
1.1.1.1 - - [10/Oct/2026:13:55:37 +0200] "GET /other-agent HTTP/1.1" 404 5 "-" "Y"
1.1.1.1 - - [10/Oct/2026:13:55:40 +0200] "GET /b?c={d} HTTP/1.1" 304 0 "-" "X"
2.2.2.2 - frank [10/Oct/2026:11:56:00 +0000] "POST /p HTTP/1.1" 200 5 "-" "X"
1.1.1.1 - - [10/Oct/2026:15:00:00 +0200] "GET /a HTTP/1.1" 200 5 "-" "X"
3.3.3.3 - - [10/Oct/2026:15:00:00 +0200] "GET /a HTTP/1.0" 200 5
broken line
"#;

    #[test]
    fn visits_have_pauses_and_weights() {
        let recording = read(LOG, LIMITS).unwrap();
        let sessions = &recording.sessions;
        assert_eq!(sessions.iter().map(|session| session.weight).collect::<Vec<_>>(), [2, 1, 1]);
        let visit = sessions.iter().find(|session| session.requests.len() == 2).unwrap();
        assert_eq!((visit.requests[0].pause.as_secs(), &visit.requests[1].status), (4, &None));
        assert_eq!(visit.requests[1].target, "/b?c={d}");
        let notes = recording.notes.join("\n");
        assert!(
            notes.contains("1 of 7 lines is not") && notes.contains("1 request is left out: their methods"),
            "{notes}"
        );
        assert!(notes.contains("4 visits in 3864 s"), "{notes}");
    }

    /// The targets of a log with these lines, for equal clients and times, in one visit.
    fn targets(targets: &[&str]) -> Vec<String> {
        let lines = targets.iter().map(|target| {
            format!(r#"::1 - - [10/Oct/2026:13:55:36 +0200] "GET {target} HTTP/1.1" 200 5 "-" "a \"b\" c""#) + "\n"
        });
        let recording = read(&lines.collect::<String>(), LIMITS).unwrap();
        recording.sessions[0].requests.iter().map(|request| request.target.clone()).collect()
    }

    /// Those of nginx and Apache.
    #[test]
    fn escapes_become_the_bytes_of_the_client() {
        assert_eq!(targets(&[r"/caf\xC3\xA9?q=\x22x\x5C\x22"]), ["/caf%C3%A9?q=%22x%5C%22"]);
        assert_eq!(targets(&[r#"/a?q=\"x\\x22\t"#]), ["/a?q=%22x%5Cx22%09"]);
        assert_eq!(targets(&[r"/\xE9\u0022\/\q"]), [r"/%E9%22/\q"]);
    }

    #[test]
    fn virtual_hosts_are_no_clients() {
        for (first, second, expected) in [
            ("example.com:443", "1.1.1.1", "1.1.1.1"),
            ("example.com:443", "client.example", "client.example"),
            ("[::1]:443", "::2", "::2"),
            ("example.com", "::2", "::2"),
            ("::1", "-", "::1"),
            ("1.1.1.1", "ident", "1.1.1.1"),
            ("client.example", "-", "client.example"),
            ("client:1", "-", "client:1"),
        ] {
            assert_eq!(client(first, second), expected, "{first} {second}");
        }
        let line = |client| {
            format!("h:80 {client} - - [10/Oct/2026:13:55:36 +0200] \"GET /{client} HTTP/1.1\" 200 5 \"-\" \"X\"\n")
        };
        let recording = read(&(line("1.1.1.1") + &line("2.2.2.2")), LIMITS).unwrap();
        assert!(recording.notes[0].starts_with("2 visits in 0 s"), "{:?}", recording.notes);
    }

    #[test]
    fn statuses_that_depend_on_the_client_are_not_checked() {
        let log = LOG.replace("\" 404 ", "\" 499 ").replace("\" 304 ", "\" 206 ");
        let recording = read(&log, LIMITS).unwrap();
        let statuses = recording.sessions.iter().flat_map(|session| &session.requests);
        let statuses: Vec<&str> = statuses.filter_map(|request| request.status.as_deref()).collect();
        assert!(statuses.iter().all(|status| *status == "200"), "{statuses:?}");
        let notes = recording.notes.join("\n");
        assert!(notes.contains("2 requests have no check: the statuses 206, 304, 408, 416, 444, 499"), "{notes}");
    }

    #[test]
    fn another_file_is_refused() {
        assert!(read("a\nb\n", LIMITS).unwrap_err().contains("none of 2 lines"));
    }

    /// Visits with this many requests each, of as many clients.
    fn log(request_counts: &[usize]) -> String {
        let lines = request_counts.iter().enumerate().flat_map(|(client, count)| {
            (0..*count).map(move |request| {
                format!("{client} - - [10/Oct/2026:13:55:36 +0200] \"GET /{client}/{request} HTTP/1.1\" 200 5\n")
            })
        });
        lines.collect()
    }

    #[test]
    fn visits_beyond_the_limits_are_left_out() {
        for (request_counts, expected, left_out) in [
            (&[1, 1, 1, 1, 1][..], &[1, 1, 1][..], 2),
            (&[2, 3, 1], &[2, 3], 1),
            (&[2, 4, 1], &[2], 2),
            (&[12], &[5], 2),
        ] {
            let recording = read(&log(request_counts), LIMITS).unwrap();
            let kept: Vec<usize> = recording.sessions.iter().map(|session| session.requests.len()).collect();
            assert_eq!(kept, expected, "{request_counts:?}");
            let note = format!(
                "{} left out: a scenario file has at most 3 scenarios and 5 steps",
                counted(left_out, "rarer visit is", "rarer visits are")
            );
            assert!(recording.notes.contains(&note), "{:?}", recording.notes);
        }
    }

    #[test]
    fn targets_that_are_not_utf_8_are_left_out() {
        let recording = read(&LOG.replace("/other-agent", "/caf\u{fffd}"), LIMITS).unwrap();
        assert!(
            recording.sessions.iter().flat_map(|session| &session.requests).all(|request| request.target.is_ascii())
        );
        let notes = recording.notes.join("\n");
        assert!(notes.contains("1 request is left out: no UTF-8 in the target"), "{notes}");
        assert!(notes.contains("1 of 7 lines"), "{notes}");
    }
}
