//! Sessions of requests, and the scenario file that replays them.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::notes::counted;
use super::secrets::{Secrets, is_searchable};

/// Headers that belong to a connection, or that the load generator writes itself.
const OMITTED_HEADERS: [&str; 9] = [
    "connection",
    "content-length",
    "cookie",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];
/// Shorter pauses between two requests are omitted.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// Stands before the steps of a scenario.
const COMMENTED_STEPS: &str =
    "# Steps in comments change what the server stores; remove \"# \" from those that a load may send.\n";

/// How much a scenario file may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub scenarios: usize,
    /// Of all scenarios.
    pub steps: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordedRequest {
    pub(super) method: String,
    /// Path and query.
    pub(super) target: String,
    /// Whether the target is encoded already, and its braces are placeholders.
    pub(super) is_template: bool,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<String>,
    /// Of the recorded response; as in a check, such as `200` or `200,302`.
    pub(super) status: Option<String>,
    /// From its response to the next request.
    pub(super) pause: Duration,
    /// Whether it is written as a comment, which the user may turn into a step.
    pub(super) is_comment: bool,
}

/// The requests of one user, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordedSession {
    pub(super) name: String,
    /// Number of recorded sessions equal to this one.
    pub(super) weight: u32,
    pub(super) requests: Vec<RecordedRequest>,
}

/// What was recorded.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// `http://host:port`, if the recording contains it.
    pub(super) base: Option<String>,
    /// Names and values that the user may want to change. Values are templates.
    pub(super) variables: Vec<(String, String)>,
    pub(super) sessions: Vec<RecordedSession>,
    /// Omissions, and advice.
    pub(super) notes: Vec<String>,
}

impl RecordedRequest {
    /// Its media type with parameters, or an empty text.
    fn content_type(&self) -> &str {
        let field = self.headers.iter().rfind(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        field.map_or("", |(_, value)| value)
    }

    fn has_unsearchable_body(&self) -> bool {
        self.body.as_deref().is_some_and(|body| !is_searchable(body, self.content_type()))
    }
}

impl Recording {
    /// A scenario file (TOML).
    pub fn scenario(&self) -> String {
        let mut secrets = Secrets::default();
        let mut scenarios = String::new();
        for session in &self.sessions {
            let _ = write!(scenarios, "\n[[scenario]]\nname = {}\n", quoted(&session.name));
            if session.weight > 1 {
                let _ = writeln!(scenarios, "weight = {}", session.weight);
            }
            if session.requests.iter().any(|request| request.is_comment) {
                scenarios += COMMENTED_STEPS;
            }
            for request in &session.requests {
                let step = step(request, &mut secrets);
                scenarios += "\n";
                scenarios += &if request.is_comment { commented(&step) } else { step };
            }
        }
        let mut text = String::from("#:schema scenario.schema.json\n");
        if let Some(base) = &self.base {
            let _ = writeln!(text, "base = {}", quoted(base));
        }
        text + &self.variables(&secrets) + &scenarios
    }

    /// The table of variables, if there are any.
    fn variables(&self, secrets: &Secrets) -> String {
        let removed: Vec<&String> =
            secrets.names().iter().filter(|name| !self.variables.iter().any(|(other, _)| other == *name)).collect();
        let mut text = String::new();
        if !(self.variables.is_empty() && removed.is_empty()) {
            text += "\n[variables]\n";
        }
        for (name, value) in &self.variables {
            let _ = writeln!(text, "{name} = {}", quoted(value));
        }
        if !removed.is_empty() {
            text += "# Secrets are left out; set them with --var NAME=VALUE.\n";
        }
        for name in removed {
            let _ = writeln!(text, "{name} = \"\"");
        }
        text
    }

    /// What was left out, and advice.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let requests = self.sessions.iter().flat_map(|session| &session.requests);
        let count = requests.filter(|request| request.has_unsearchable_body()).count();
        let warning = (count > 0).then(|| {
            let bodies = counted(count, "body is", "bodies are");
            format!("{bodies} neither JSON nor a form, and not searched for secrets; check such bodies yourself")
        });
        self.notes.iter().cloned().chain(warning)
    }
}

/// Omits the requests of a single session that a file cannot hold, and says so.
pub(super) fn keep_first<T>(requests: &mut Vec<T>, limits: Limits) -> Option<String> {
    let (count, steps) = (requests.len(), limits.steps);
    requests.truncate(steps);
    (count > steps).then(|| {
        let last = if count - steps == 1 { String::from("is") } else { format!("{} are", count - steps) };
        format!("of {count} requests the last {last} left out: a scenario file has at most {steps} steps")
    })
}

fn step(request: &RecordedRequest, secrets: &mut Secrets) -> String {
    let target = if request.is_template {
        request.target.clone()
    } else {
        secrets.remove_from_target(&escaped(&percent_encoded(&request.target)))
    };
    let mut text = format!("[[scenario.step]]\nrequest = {}\n", quoted(&format!("{} {target}", request.method)));
    let headers: Vec<String> = headers(request)
        .map(|(name, value)| {
            let value = secrets.remove_from_header(name, &escaped_names(value));
            format!("{} = {}", quoted(name), quoted(&value))
        })
        .collect();
    if !headers.is_empty() {
        let _ = writeln!(text, "headers = {{ {} }}", headers.join(", "));
    }
    if let Some(body) = &request.body {
        let body = secrets.remove_from_body(&escaped_names(body), request.content_type());
        let _ = writeln!(text, "body = {}", quoted(&body));
    }
    if let Some(status) = &request.status {
        // A number needs no quotes.
        let status = if status.parse::<u16>().is_ok() { status.clone() } else { quoted(status) };
        let _ = writeln!(text, "check = {{ status = {status} }}");
    }
    if request.pause >= PAUSE_MIN {
        let _ = writeln!(text, "think = \"{}ms,constant\"", request.pause.as_millis());
    }
    text
}

fn commented(step: &str) -> String {
    step.lines().map(|line| format!("# {line}\n")).collect()
}

/// Each name once: a scenario has a table of them. Of several lines the last one counts.
fn headers(request: &RecordedRequest) -> impl Iterator<Item = (&str, &str)> {
    let mut seen = BTreeSet::new();
    let mut headers: Vec<_> = request
        .headers
        .iter()
        .rev()
        .filter(|(name, _)| {
            let name = name.to_ascii_lowercase();
            // Pseudo-headers of HTTP/2 begin with a colon.
            !name.starts_with(':') && !OMITTED_HEADERS.contains(&name.as_str()) && seen.insert(name)
        })
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    headers.reverse();
    headers.into_iter()
}

/// Characters that a request target cannot contain are written as the bytes of their UTF-8.
fn percent_encoded(target: &str) -> String {
    const BESIDE_NON_ASCII: &AsciiSet = &CONTROLS.add(b' ');
    utf8_percent_encode(target, BESIDE_NON_ASCII).to_string()
}

/// In a request target every brace is doubled …
fn escaped(target: &str) -> String {
    target.replace('{', "{{").replace('}', "}}")
}

/// … in headers and bodies only braces around a name.
fn escaped_names(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        escaped.push_str(before);
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | ':' | '.' | '-');
        let length = from[1..].find(|letter| !is_part(letter)).unwrap_or(from.len() - 1);
        let end = 1 + length;
        if length > 0 && from[end..].starts_with('}') {
            escaped.push_str(&format!("{{{}}}", &from[..=end]));
            rest = &from[end + 1..];
        } else {
            escaped.push('{');
            rest = &from[1..];
        }
    }
    escaped + rest
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_remain_what_they_were() {
        assert_eq!(escaped("/a{b}"), "/a{{b}}");
        assert_eq!(escaped_names(r#"{"a": {"b": 1}}"#), r#"{"a": {"b": 1}}"#);
        assert_eq!(escaped_names("{seq} {a b} {"), "{{seq}} {a b} {");
    }

    #[test]
    fn targets_are_encoded() {
        assert_eq!(percent_encoded("/ä b?c=%20\t€"), "/%C3%A4%20b?c=%20%09%E2%82%AC");
    }

    #[test]
    fn a_note_counts_bodies_that_were_not_searched() {
        let request = |body: &str| RecordedRequest { body: Some(body.to_owned()), ..RecordedRequest::default() };
        let requests = vec![request("<pin>a=1</pin>"), request("{}"), request("a=b c"), request(""), request("p w")];
        let recording = Recording {
            sessions: vec![RecordedSession { requests, ..RecordedSession::default() }],
            notes: vec![String::from("first")],
            ..Recording::default()
        };
        let notes: Vec<String> = recording.notes().collect();
        assert_eq!(notes.len(), 2);
        assert!(notes[1].starts_with("2 bodies are neither JSON nor a form"), "{notes:?}");
    }

    #[test]
    fn steps_may_be_comments_and_have_placeholders() {
        let request = |is_comment| RecordedRequest {
            method: String::from("GET"),
            target: String::from("/{id}?token={token}"),
            is_template: true,
            body: Some(String::from("password=a\nb")),
            status: Some(String::from("200,204")),
            is_comment,
            ..RecordedRequest::default()
        };
        let session =
            RecordedSession { name: String::from("s"), weight: 1, requests: vec![request(false), request(true)] };
        let variables = vec![(String::from("id"), String::from("1")), (String::from("token"), String::new())];
        let text = Recording { variables, sessions: vec![session], ..Recording::default() }.scenario();
        assert!(text.contains("[variables]\nid = \"1\"\ntoken = \"\"\n# Secrets are left out"), "{text}");
        assert!(text.contains("# [[scenario.step]]\n# request = \"GET /{id}?token={token}\"\n# body"), "{text}");
        let uncommented =
            text.replace("# ", "").replace("Steps in", "# Steps in").replace("Secrets are", "# Secrets are");
        let steps =
            |text: &str| text.parse::<toml::Table>().unwrap()["scenario"][0]["step"].as_array().unwrap().clone();
        assert_eq!(steps(&text).len(), 1);
        assert_eq!(steps(&uncommented), [steps(&text), steps(&text)].concat());
        assert_eq!(steps(&text)[0]["check"]["status"].as_str(), Some("200,204"));
    }

    #[test]
    fn connection_headers_cookies_and_repetitions_are_omitted() {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let request = RecordedRequest {
            headers: vec![header(":path", "/"), header("Cookie", "a=1"), header("A", "1"), header("a", "2")],
            ..RecordedRequest::default()
        };
        assert_eq!(headers(&request).collect::<Vec<_>>(), [("a", "2")]);
    }
}
