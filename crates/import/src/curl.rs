//! curl commands, written by hand or copied from a browser.

mod flags;
mod quotes;

use breme_base::HttpUrl;
use flags::Argument;

use super::Imported;
use super::har::split_url;
use super::recording::{Limits, RecordedRequest, RecordedSession, Recording, keep_first};

/// Flags that change the request in a way that a scenario cannot express, or that depends on files.
const UNSUPPORTED: [&str; 14] = [
    "aws-sigv4",
    "config",
    "continue-at",
    "data-urlencode",
    "etag-compare",
    "form",
    "form-string",
    "next",
    "request-target",
    "telnet-option",
    "time-cond",
    "upload-file",
    "url-query",
    "variable",
];

/// Every command, as the steps of one session.
///
/// # Errors
/// A command cannot be read, or there is none.
pub fn read(text: &str, limits: Limits) -> Imported {
    let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let (mut base, mut requests, mut notes) = (None, Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate().map(|(index, line)| (index + 1, line.trim())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (origin, request) = read_line(line).map_err(|problem| format!("command {number}: {problem}"))?;
        if *base.get_or_insert_with(|| origin.clone()) == origin {
            requests.push(request);
        } else {
            notes.push(format!("command {number} is left out: {origin} is another origin"));
        }
    }
    if requests.is_empty() {
        return Err(String::from("it contains no curl command"));
    }
    notes.extend(keep_first(&mut requests, limits));
    let session = RecordedSession { name: String::from("curl"), weight: 1, requests };
    Ok(Recording { base, sessions: vec![session], notes, ..Recording::default() })
}

fn read_line(line: &str) -> Result<(String, RecordedRequest), String> {
    let line = quotes::to_single_quotes(line)?;
    let words = shell_words::split(&line).map_err(|error| error.to_string())?;
    let (program, words) = words.split_first().ok_or("it is empty")?;
    if program != "curl" {
        return Err(String::from("it does not begin with `curl`"));
    }
    let mut command = Command::default();
    for argument in flags::arguments(words)? {
        match argument {
            Argument::Url(url) => command.set_url(url)?,
            Argument::Switch(name) if UNSUPPORTED.contains(&name) => return Err(unsupported(&format!("--{name}"))),
            Argument::Switch(name) => command.turn_on(name),
            Argument::Value { flag, name, .. } if UNSUPPORTED.contains(&name) => return Err(unsupported(&flag)),
            Argument::Value { flag, name, value } => command.set(&flag, name, value)?,
        }
    }
    command.into_request()
}

/// What the flags of a command say.
#[derive(Debug, Default)]
struct Command<'a> {
    url: Option<&'a str>,
    method: Option<&'a str>,
    is_get: bool,
    is_head: bool,
    is_json: bool,
    body: Option<String>,
    /// Those of `-H`.
    headers: Vec<(String, String)>,
    /// Those that follow from other flags, unless there is an equal name in `-H`.
    implied: Vec<(&'static str, String)>,
    /// Names of implied headers that are not sent.
    removed: Vec<String>,
}

impl<'a> Command<'a> {
    fn set_url(&mut self, url: &'a str) -> Result<(), String> {
        match self.url.replace(url) {
            Some(_) => Err(format!("{url:?} is a second URL; write a command for each")),
            None => Ok(()),
        }
    }

    fn turn_on(&mut self, switch: &str) {
        match switch {
            "get" => self.is_get = true,
            "head" => self.is_head = true,
            _ => {} // such as --silent or --compressed
        }
    }

    fn set(&mut self, flag: &str, name: &str, value: &'a str) -> Result<(), String> {
        match name {
            "url" => self.set_url(value)?,
            "request" => self.method = Some(value),
            "header" => self.add_header(value)?,
            "user-agent" => self.implied.push(("User-Agent", value.to_owned())),
            "referer" => self.implied.push(("Referer", value.to_owned())),
            "range" => self.implied.push(("Range", format!("bytes={value}"))),
            // The value is a secret, which would be removed anyway.
            "user" | "oauth2-bearer" => self.implied.push(("Authorization", String::new())),
            "data-raw" => self.add_data(value, "&"),
            "data" | "data-ascii" | "data-binary" => self.add_data(text_of(flag, value)?, "&"),
            "json" => {
                self.is_json = true;
                self.add_data(text_of(flag, value)?, "");
            }
            _ => {} // such as --output or --max-time
        }
        Ok(())
    }

    /// `Name: value`; `Name;` without a value; `Name:` removes the header that curl would send.
    fn add_header(&mut self, text: &str) -> Result<(), String> {
        if text.starts_with('@') {
            return Err(format!("the headers are in the file {text}; write them into the command"));
        }
        let (name, value) = match (text.split_once(':'), text.trim_end().strip_suffix(';')) {
            (Some((name, value)), _) => (name.trim(), value.trim()),
            (None, Some(name)) => (name.trim(), ""),
            (None, None) => return Err(format!("the header {text:?} has no colon; write \"NAME: VALUE\"")),
        };
        if name.is_empty() {
            return Err(format!("the header {text:?} has no name; write \"NAME: VALUE\""));
        }
        if value.is_empty() && text.contains(':') {
            self.removed.push(name.to_owned());
        } else {
            self.headers.push((name.to_owned(), value.to_owned()));
        }
        Ok(())
    }

    /// curl joins several ones.
    fn add_data(&mut self, data: &str, separator: &str) {
        match &mut self.body {
            Some(body) => *body += &format!("{separator}{data}"),
            None => self.body = Some(data.to_owned()),
        }
    }

    fn into_request(mut self) -> Result<(String, RecordedRequest), String> {
        let url = self.url.ok_or("it has no URL")?;
        let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let (origin, mut target) = split_url(&url).map_err(|problem| format!("{url:?} is not a URL: {problem}"))?;
        if HttpUrl::split(&url).is_ok_and(|url| url.user_info.is_some()) {
            self.implied.push(("Authorization", String::new()));
        }
        if let Some(query) = self.body.take_if(|_| self.is_get) {
            target += if target.contains('?') { "&" } else { "?" };
            target += &query;
        }
        let method = self.method.unwrap_or(match (&self.body, self.is_head) {
            (_, true) => "HEAD",
            (Some(_), _) => "POST",
            (None, _) => "GET",
        });
        let (method, headers) = (method.to_owned(), self.all_headers());
        Ok((origin, RecordedRequest { method, target, headers, body: self.body, ..RecordedRequest::default() }))
    }

    fn all_headers(&mut self) -> Vec<(String, String)> {
        if self.is_json {
            self.implied.push(("Content-Type", "application/json".to_owned()));
            self.implied.push(("Accept", "application/json".to_owned()));
        } else if self.body.is_some() {
            self.implied.push(("Content-Type", "application/x-www-form-urlencoded".to_owned()));
        }
        let mut headers = std::mem::take(&mut self.headers);
        let set: Vec<&String> = headers.iter().map(|(name, _)| name).chain(&self.removed).collect();
        let is_sent = |(name, _): &&(&str, String)| !set.iter().any(|other| other.eq_ignore_ascii_case(name));
        let implied: Vec<_> =
            self.implied.iter().filter(is_sent).map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        headers.extend(implied);
        headers
    }
}

fn unsupported(flag: &str) -> String {
    format!("{flag} is not supported; write the request into the scenario")
}

/// A body that is not in a file.
fn text_of<'a>(flag: &str, value: &'a str) -> Result<&'a str, String> {
    match value.strip_prefix('@') {
        Some(file) => Err(format!("{flag}: the body is in the file {file:?}; write it into the command")),
        None => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { scenarios: 3, steps: 3 };

    fn one(text: &str) -> RecordedRequest {
        read(text, LIMITS).unwrap().sessions[0].requests[0].clone()
    }

    fn headers(text: &str) -> Vec<(String, String)> {
        one(text).headers
    }

    fn header(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn commands_become_requests() {
        let request =
            one("curl 'http://a:1/x?y=1' \\\n  -H 'Accept: text/html' --compressed -XPUT --data-raw 'a b' -s");
        assert_eq!((request.method.as_str(), request.target.as_str()), ("PUT", "/x?y=1"));
        assert_eq!(request.body.as_deref(), Some("a b"));
        assert_eq!(request.headers[0], header("Accept", "text/html"));
        assert_eq!(request.headers[1].1, "application/x-www-form-urlencoded");
    }

    #[test]
    fn the_method_follows_from_the_data() {
        assert_eq!(one("curl a/x").method, "GET");
        assert_eq!(one("curl a/x -d 1 -d 2").body.as_deref(), Some("1&2"));
        assert_eq!(one("curl a/x -d 1").method, "POST");
        assert_eq!(one("curl -G a/x -d q=1").target, "/x?q=1");
        assert_eq!(one("curl -I a").method, "HEAD");
    }

    #[test]
    fn short_flags_may_be_combined() {
        assert_eq!(one("curl -sX DELETE a").method, "DELETE");
        assert_eq!(one("curl -sSLXDELETE a").method, "DELETE");
        assert_eq!(one("curl -sd 'a=1' a").body.as_deref(), Some("a=1"));
        assert_eq!(headers("curl -sH 'X: a' a"), [header("X", "a")]);
        assert_eq!(one("curl -sIk a").method, "HEAD");
    }

    #[test]
    fn values_of_other_flags_are_no_urls() {
        for command in [
            "curl http://a/x --max-redirs 5",
            "curl -x http://proxy http://a/x",
            "curl -sko /dev/null -w '%{http_code}' --no-keepalive http://a/x",
            "curl -4 -- http://a/x",
        ] {
            let recording = read(command, LIMITS).unwrap();
            assert_eq!(recording.base.as_deref(), Some("http://a"), "{command}");
            assert_eq!(recording.sessions[0].requests[0].target, "/x", "{command}");
        }
    }

    #[test]
    fn quotes_of_chrome_are_decoded() {
        let request = one(r#"curl 'http://a' --data-raw $'{"t":"wow\u0021"}' -H $'X: it\'s'"#);
        assert_eq!(request.body.as_deref(), Some(r#"{"t":"wow!"}"#));
        assert_eq!(request.headers[0], header("X", "it's"));
    }

    #[test]
    fn headers_without_a_value_are_empty_or_removed() {
        assert_eq!(headers("curl a -H 'X-Empty;'"), [header("X-Empty", "")]);
        assert_eq!(headers("curl a -d x=1 -H 'content-type:'"), []);
        assert_eq!(headers("curl a -A me -H 'User-Agent: you'"), [header("User-Agent", "you")]);
    }

    #[test]
    fn json_and_credentials_have_headers() {
        let request = one("curl -H 'Accept: text/plain' --json '{\"a\":' --json '1}' -u me:secret a");
        assert_eq!(request.body.as_deref(), Some("{\"a\":1}"));
        let expected =
            [header("Accept", "text/plain"), header("Authorization", ""), header("Content-Type", "application/json")];
        assert_eq!(request.headers, expected);
        assert_eq!(
            headers("curl http://me:secret@a -r 0-9"),
            [header("Range", "bytes=0-9"), header("Authorization", "")]
        );
    }

    #[test]
    fn further_commands_are_left_out() {
        let recording = read(&"curl a\n".repeat(5), LIMITS).unwrap();
        assert_eq!(recording.sessions[0].requests.len(), 3);
        assert_eq!(recording.notes, ["the last 2 of 5 requests are left out: a scenario file has at most 3 steps"]);
    }

    #[test]
    fn mistakes_name_the_command() {
        for (text, expected) in [
            ("wget a", "begin with `curl`"),
            ("curl -s", "no URL"),
            ("curl 'a", "command 1"),
            ("curl a -F x=1", "-F is not supported"),
            ("curl a --form-string x=1", "--form-string is not supported"),
            ("curl a --next b", "--next is not supported"),
            ("curl a http://b", "\"http://b\" is a second URL"),
            ("curl a --url b", "\"b\" is a second URL"),
            ("curl a --frobnicate", "--frobnicate is not a flag of curl"),
            ("curl a -s€", "-€ is not a flag of curl"),
            ("curl a -sX", "-X has no value"),
            ("curl a --request", "--request has no value"),
            ("curl a -H Accept", "\"Accept\" has no colon"),
            ("curl a -H ': x'", "\": x\" has no name"),
            ("curl a -H @file", "in the file @file"),
            ("curl a -d @file", "-d: the body is in the file \"file\""),
            ("", "no curl command"),
        ] {
            let problem = read(text, LIMITS).unwrap_err();
            assert!(problem.contains(expected), "{text}: {problem}");
        }
    }
}
