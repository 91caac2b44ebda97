//! curl commands, written by hand or copied from a browser.

mod ansi_c;
mod flags;
mod shell;

use std::collections::BTreeSet;

use breme_base::HttpUrl;
use breme_http::syntax::is_token;
use flags::Argument;
use shell::ShellCommand;

use super::Imported;
use super::encoding::form_encoded;
use super::har::split_url;
use super::notes::{NAMED_MAX, counted, shortened};
use super::recording::{Limits, RecordedRequest, RecordedSession, Recording, keep_first};

/// Flags that change the request in a way that a scenario cannot express, or that depends on files.
const UNSUPPORTED: [&str; 13] = [
    "aws-sigv4",
    "config",
    "continue-at",
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

/// Every command, as the steps of one session. Those that cannot be read are left out.
///
/// # Errors
/// None can be read.
pub fn read(text: &str, limits: Limits) -> Imported {
    let (mut base, mut requests, mut faults, mut omissions) = (None, Vec::new(), Vec::new(), Omissions::default());
    let commands = shell::commands(text)?;
    let commands = commands.iter().filter(|command| !command.is_filter);
    for (number, command) in commands.enumerate().map(|(index, command)| (index + 1, command)) {
        match read_command(command, &mut omissions) {
            Ok((origin, request)) if *base.get_or_insert_with(|| origin.clone()) == origin => requests.push(request),
            Ok((origin, _)) => faults.push(format!("command {number} is left out: {origin} is another origin")),
            Err(problem) => faults.push(format!("command {number} is left out: {problem}")),
        }
    }
    if requests.is_empty() {
        faults.truncate(1);
        return Err(faults.pop().unwrap_or_else(|| String::from("it contains no curl command")));
    }
    let mut notes = shortened(faults, "command", "commands");
    notes.extend(omissions.notes());
    notes.extend(keep_first(&mut requests, limits));
    let session = RecordedSession { name: String::from("curl"), weight: 1, requests };
    Ok(Recording { base, sessions: vec![session], notes, ..Recording::default() })
}

/// What commands say that a step does not.
#[derive(Debug, Default)]
struct Omissions {
    /// Variables of a shell, such as `$ID`.
    expansions: BTreeSet<String>,
    patterns: usize,
    redirects: usize,
}

impl Omissions {
    fn notes(&self) -> impl Iterator<Item = String> {
        let names = self.expansions.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if self.expansions.len() > NAMED_MAX { ", …" } else { "" };
        let expansions = (!names.is_empty()).then(|| {
            format!("variables of the shell remain as they are; write their values into the scenario: {names}{more}")
        });
        let patterns = (self.patterns > 0).then(|| {
            let urls = counted(self.patterns, "URL has a pattern", "URLs have patterns");
            format!("{urls} such as [1-3] or {{a,b}}, taken literally; write a command for each URL")
        });
        let redirects = (self.redirects > 0).then(|| {
            let commands = counted(self.redirects, "command follows", "commands follow");
            format!("{commands} redirects (-L), which a scenario does not; add a command for each redirect")
        });
        expansions.into_iter().chain(patterns).chain(redirects)
    }
}

fn read_command(shell: &ShellCommand, omissions: &mut Omissions) -> Result<(String, RecordedRequest), String> {
    let mut command = Command::default();
    for argument in flags::arguments(arguments_of_curl(&shell.words)?)? {
        match argument {
            Argument::Url(url) => command.set_url(url)?,
            Argument::Switch(name) if UNSUPPORTED.contains(&name) => return Err(unsupported(&format!("--{name}"))),
            Argument::Switch(name) => command.turn_on(name),
            Argument::Value { flag, name, .. } if UNSUPPORTED.contains(&name) => return Err(unsupported(&flag)),
            Argument::Value { flag, name, value } => command.set(&flag, name, value)?,
        }
    }
    let (has_pattern, follows_redirects) = (command.has_pattern(), command.follows_redirects);
    let request = command.into_request()?;
    omissions.expansions.extend(shell.expansions.iter().cloned());
    omissions.patterns += usize::from(has_pattern);
    omissions.redirects += usize::from(follows_redirects);
    Ok(request)
}

/// The words after the name of the program, before which a prompt or variables may stand.
fn arguments_of_curl(words: &[String]) -> Result<&[String], String> {
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_before = |word: &String| word == "$" || word.split_once('=').is_some_and(|(name, _)| is_name(name));
    let start = words.iter().position(|word| !is_before(word)).unwrap_or(words.len());
    match words[start..].split_first() {
        Some((program, arguments)) if matches!(program.rsplit(['/', '\\']).next(), Some("curl" | "curl.exe")) => {
            Ok(arguments)
        }
        _ => Err(String::from("it does not begin with `curl`")),
    }
}

/// What the flags of a command say.
#[derive(Debug, Default)]
struct Command<'a> {
    url: Option<&'a str>,
    method: Option<&'a str>,
    is_get: bool,
    is_head: bool,
    is_json: bool,
    is_compressed: bool,
    follows_redirects: bool,
    /// Whether brackets and braces in the URL are literal.
    is_literal: bool,
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
            "compressed" => self.is_compressed = true,
            "location" | "location-trusted" => self.follows_redirects = true,
            "globoff" => self.is_literal = true,
            _ => {} // such as --silent or --verbose
        }
    }

    fn set(&mut self, flag: &str, name: &str, value: &'a str) -> Result<(), String> {
        match name {
            "url" => self.set_url(value)?,
            "request" if !is_token(value.as_bytes()) => return Err(format!("{flag} {value:?} is not a method")),
            "request" => self.method = Some(value),
            "header" => self.add_header(value)?,
            "user-agent" => self.implied.push(("User-Agent", value.to_owned())),
            "referer" => self.implied.push(("Referer", value.to_owned())),
            "range" => self.implied.push(("Range", format!("bytes={value}"))),
            // The value is a secret, which would be removed anyway.
            "user" | "oauth2-bearer" => self.implied.push(("Authorization", String::new())),
            "data-raw" => self.add_data(value, "&"),
            "data-urlencode" => self.add_data(&encoded_data(flag, value)?, "&"),
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

    /// Whether curl would request several URLs.
    fn has_pattern(&self) -> bool {
        let url = self.url.unwrap_or_default().replace("\\[", "").replace("\\{", "");
        let (_, path) = url.split_once("://").unwrap_or(("", &url));
        let path = path.split_once('/').map_or("", |(_, path)| path);
        !self.is_literal && path.contains(['[', '{'])
    }

    fn into_request(mut self) -> Result<(String, RecordedRequest), String> {
        let url = self.url.ok_or("it has no URL")?;
        let mut url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        if !self.is_literal {
            for sign in ["[", "]", "{", "}"] {
                url = url.replace(&format!("\\{sign}"), sign);
            }
        }
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
        if self.is_compressed {
            // Those of a curl with all its libraries, as distributions build it.
            self.implied.push(("Accept-Encoding", "deflate, gzip, br, zstd".to_owned()));
        }
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

/// `CONTENT`, `=CONTENT` or `NAME=CONTENT`, whose content is encoded.
fn encoded_data(flag: &str, value: &str) -> Result<String, String> {
    match (value.split_once('='), value.split_once('@')) {
        (Some(("", content)), _) => Ok(form_encoded(content)),
        (Some((name, content)), _) => Ok(format!("{name}={}", form_encoded(content))),
        (None, Some((_, file))) => Err(format!("{flag}: the body is in the file {file:?}; write it into the command")),
        (None, None) => Ok(form_encoded(value)),
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
        assert_eq!(request.headers[2].1, "application/x-www-form-urlencoded");
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
    fn bodies_and_commands_may_have_several_lines() {
        let postman = "curl --location 'http://a/post' \\\n--header 'Content-Type: application/json' \\\n--data '{\n    \
                       \"n\": 1\n}'\ncurl http://a/x\\\ny\n";
        let recording = read(postman, LIMITS).unwrap();
        let [first, second] = &recording.sessions[0].requests[..] else { panic!("{recording:?}") };
        assert_eq!((first.body.as_deref(), second.target.as_str()), (Some("{\n    \"n\": 1\n}"), "/xy"));
        let note = "1 command follows redirects (-L), which a scenario does not; add a command for each redirect";
        assert_eq!(recording.notes, [note]);
    }

    #[test]
    fn prompts_variables_paths_and_filters_are_no_part_of_a_command() {
        let text = "$ curl a/1; X=1 Y= /usr/bin/curl a/2 && curl.exe a/3 | jq . > out.txt";
        let recording = read(text, LIMITS).unwrap();
        let targets: Vec<&str> = recording.sessions[0].requests.iter().map(|request| &request.target[..]).collect();
        assert_eq!(targets, ["/1", "/2", "/3"]);
        assert_eq!(recording.notes, [""; 0]);
    }

    #[test]
    fn commands_that_cannot_be_read_are_left_out() {
        let recording = read("curl a -F x=1\ncurl a/2\ncurl b\ncurl a -d @- <<X\n{\nX\necho", LIMITS).unwrap();
        assert_eq!(recording.sessions[0].requests[0].target, "/2");
        let expected = ["command 1 is left out: -F", "command 3 is left out: http://b", "command 4", "command 5"];
        assert!(recording.notes.iter().zip(expected).all(|(note, expected)| note.starts_with(expected)));
        assert_eq!(recording.notes.len(), 4);
    }

    #[test]
    fn what_curl_or_the_shell_would_expand_is_noted() {
        let text = "curl \"http://[::1]/$ID?x=[1-3]\"\ncurl -g 'http://[::1]/[a]'\ncurl 'http://[::1]/\\[b\\]?{'";
        let recording = read(text, LIMITS).unwrap();
        let targets: Vec<&str> = recording.sessions[0].requests.iter().map(|request| &request.target[..]).collect();
        assert_eq!(targets, ["/$ID?x=[1-3]", "/[a]", "/[b]?{"]);
        assert!(recording.notes[0].ends_with("into the scenario: $ID"), "{:?}", recording.notes);
        assert!(recording.notes[1].starts_with("2 URLs have patterns such as"), "{:?}", recording.notes);
    }

    /// As curl 7.88 sends them.
    #[test]
    fn data_are_encoded() {
        let command = "curl -G a/x --data-urlencode 'q=a b+c~é/' --data-urlencode '=x=y' --data-urlencode 'z&'";
        assert_eq!(one(command).target, "/x?q=a+b%2Bc~%C3%A9%2F&x%3Dy&z%26");
    }

    #[test]
    fn compressed_responses_are_asked_for() {
        assert_eq!(headers("curl a --compressed"), [header("Accept-Encoding", "deflate, gzip, br, zstd")]);
        let command = "curl a --compressed -H 'accept-encoding: gzip'";
        assert_eq!(headers(command), [header("accept-encoding", "gzip")]);
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
        assert_eq!(recording.notes, ["of 5 requests the last 2 are left out: a scenario file has at most 3 steps"]);
    }

    #[test]
    fn mistakes_name_the_command() {
        for (text, expected) in [
            ("wget a", "begin with `curl`"),
            ("curl -s", "no URL"),
            ("curl 'a", "command 1"),
            ("curl a --data-urlencode a@b", "--data-urlencode: the body is in the file \"b\""),
            ("curl a -X ''", "-X \"\" is not a method"),
            ("X=1", "begin with `curl`"),
            ("a | curl b", "begin with `curl`"),
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
