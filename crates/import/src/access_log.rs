//! Access logs in the common and combined formats.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::strtime;
use regex::Regex;

use super::Imported;
use super::recording::{Limits, RecordedRequest, RecordedSession, Recording};

/// A longer pause of a client begins a new visit (a convention of web analytics).
const VISIT_ENDS_AFTER: Duration = Duration::from_secs(30 * 60);

/// `127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.0" 200 2326 "referer" "agent"`.
static LINE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"^(\S+) \S+ .*?\[([^\]]+)\] "([A-Z]+) (/\S*)(?: HTTP/[\d.]+)?" (\d{3}) \S+(?: "[^"]*" "([^"]*)")?"#)
        .ok()
});

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
        (unread, format!("{unread} of {all} lines are not in the common or combined format, and left out")),
        (undecoded.len(), format!("{} requests are left out: their targets are not UTF-8", undecoded.len())),
        (
            others.len(),
            format!("{} requests with methods that carry bodies are left out: a log has no bodies", others.len()),
        ),
    ];
    let mut notes: Vec<String> = omissions.into_iter().filter(|(count, _)| *count > 0).map(|(_, note)| note).collect();
    let span = span_of(&repeatable);
    let visits = visits(repeatable, limits.steps);
    notes.push(format!(
        "{} visits in {} s; to repeat their arrival rate: -R {:.3}",
        visits.len(),
        span.as_secs(),
        visits.len() as f64 / span.as_secs_f64().max(1.0)
    ));
    let (sessions, left_out) = weighted(visits, limits);
    if left_out > 0 {
        notes.push(format!(
            "{left_out} rarer visits are left out: a scenario file has at most {} scenarios and {} steps",
            limits.scenarios, limits.steps
        ));
    }
    Ok(Recording { sessions, notes, ..Recording::default() })
}

fn parse(line: &str) -> Option<LogLine> {
    let captures = LINE.as_ref()?.captures(line)?;
    let at = strtime::parse("%d/%b/%Y:%H:%M:%S %z", &captures[2]).ok()?.to_timestamp().ok()?;
    let agent = captures.get(6).map_or("", |agent| agent.as_str());
    Some(LogLine {
        client: (captures[1].to_owned(), agent.to_owned()),
        at,
        method: captures[3].to_owned(),
        target: captures[4].to_owned(),
        status: captures[5].parse().ok()?,
    })
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
            // 304 depends on the client's cache, which a load does not have.
            status: Some(line.status).filter(|status| *status != 304).map(|status| status.to_string()),
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
        assert!(notes.contains("1 of 7 lines") && notes.contains("1 requests with methods"), "{notes}");
        assert!(notes.contains("4 visits in 3864 s"), "{notes}");
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
            let note =
                format!("{left_out} rarer visits are left out: a scenario file has at most 3 scenarios and 5 steps");
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
        assert!(notes.contains("1 requests are left out: their targets are not UTF-8"), "{notes}");
        assert!(notes.contains("1 of 7 lines"), "{notes}");
    }
}
