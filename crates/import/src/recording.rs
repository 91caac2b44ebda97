//! Sessions of requests, and the scenario file that replays them.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use super::secrets::Secrets;

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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordedRequest {
    pub(super) method: String,
    /// Path and query.
    pub(super) target: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<String>,
    /// Of the recorded response.
    pub(super) status: Option<u16>,
    /// From its response to the next request.
    pub(super) pause: Duration,
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
    pub(super) sessions: Vec<RecordedSession>,
    /// Omissions, and advice.
    pub(super) notes: Vec<String>,
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
            for request in &session.requests {
                write_step(&mut scenarios, request, &mut secrets);
            }
        }
        let mut text = String::from("#:schema scenario.schema.json\n");
        if let Some(base) = &self.base {
            let _ = writeln!(text, "base = {}", quoted(base));
        }
        if !secrets.names().is_empty() {
            text += "\n# Removed from the recording; set them with --var NAME=VALUE.\n[variables]\n";
            for name in secrets.names() {
                let _ = writeln!(text, "{name} = \"\"");
            }
        }
        text + &scenarios
    }

    /// What was left out, and advice.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.notes.iter().map(String::as_str)
    }
}

fn write_step(text: &mut String, request: &RecordedRequest, secrets: &mut Secrets) {
    let target = secrets.remove_from_target(&escaped(&request.target));
    let _ = write!(text, "\n[[scenario.step]]\nrequest = {}\n", quoted(&format!("{} {target}", request.method)));
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
        let _ = writeln!(text, "body = {}", quoted(&secrets.remove_from_body(&escaped_names(body))));
    }
    if let Some(status) = request.status {
        let _ = writeln!(text, "check = {{ status = {status} }}");
    }
    if request.pause >= PAUSE_MIN {
        let _ = writeln!(text, "think = \"{}ms,constant\"", request.pause.as_millis());
    }
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
    fn connection_headers_cookies_and_repetitions_are_omitted() {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let request = RecordedRequest {
            headers: vec![header(":path", "/"), header("Cookie", "a=1"), header("A", "1"), header("a", "2")],
            ..RecordedRequest::default()
        };
        assert_eq!(headers(&request).collect::<Vec<_>>(), [("a", "2")]);
    }
}
