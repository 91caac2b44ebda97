//! curl commands, written by hand or copied from a browser.

use std::time::Duration;

use super::Imported;
use super::har::split_url;
use super::recording::{RecordedRequest, RecordedSession, Recording};

/// Flags with a value that do not change the request.
const IGNORED_WITH_VALUE: [&str; 14] = [
    "-o",
    "--output",
    "-w",
    "--write-out",
    "-m",
    "--max-time",
    "--connect-timeout",
    "--retry",
    "-b",
    "--cookie",
    "-c",
    "--cookie-jar",
    "--cacert",
    "--resolve",
];
/// Flags that combine body parts.
const DATA: [&str; 5] = ["-d", "--data", "--data-raw", "--data-ascii", "--data-binary"];

/// Every command, as the steps of one session.
///
/// # Errors
/// A command cannot be read, or there is none.
pub fn read(text: &str) -> Imported {
    let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let (mut base, mut requests, mut notes) = (None, Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate().map(|(index, line)| (index + 1, line.trim())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words = shell_words::split(line).map_err(|error| format!("command {number}: {error}"))?;
        let (origin, request) = command(&words).map_err(|problem| format!("command {number}: {problem}"))?;
        if *base.get_or_insert_with(|| origin.clone()) == origin {
            requests.push(request);
        } else {
            notes.push(format!("command {number} is left out: {origin} is another origin"));
        }
    }
    if requests.is_empty() {
        return Err(String::from("it contains no curl command"));
    }
    let session = RecordedSession { name: String::from("curl"), weight: 1, requests };
    Ok(Recording { base, sessions: vec![session], notes })
}

fn command(words: &[String]) -> Result<(String, RecordedRequest), String> {
    let mut words = words.iter().map(String::as_str);
    if words.next() != Some("curl") {
        return Err(String::from("it does not begin with `curl`"));
    }
    let mut request = RecordedRequest { pause: Duration::ZERO, ..RecordedRequest::default() };
    let (mut url, mut is_get, mut is_head) = (None, false, false);
    while let Some(word) = words.next() {
        // `--flag=value` and `-XPOST`.
        let (flag, attached) = match word {
            _ if word.starts_with("--") => {
                word.split_once('=').map_or((word, None), |(flag, value)| (flag, Some(value)))
            }
            _ if word.starts_with('-') && word.len() > 2 && word.is_char_boundary(2) && is_with_value(&word[..2]) => {
                (&word[..2], Some(&word[2..]))
            }
            _ => (word, None),
        };
        let mut value = || attached.or_else(|| words.next()).ok_or_else(|| format!("{flag} has no value"));
        match flag {
            "-X" | "--request" => value()?.clone_into(&mut request.method),
            "-H" | "--header" => {
                let (name, text) = value()?.split_once(':').unwrap_or_default();
                request.headers.push((name.trim().to_owned(), text.trim().to_owned()));
            }
            "-A" | "--user-agent" => request.headers.push(("User-Agent".to_owned(), value()?.to_owned())),
            "-e" | "--referer" => request.headers.push(("Referer".to_owned(), value()?.to_owned())),
            // The value is a secret, which would be removed anyway.
            "-u" | "--user" => {
                value()?;
                request.headers.push(("Authorization".to_owned(), String::new()));
            }
            "--url" => url = Some(value()?.to_owned()),
            "--json" => {
                let body = value()?.to_owned();
                request.headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
                request.headers.push(("Accept".to_owned(), "application/json".to_owned()));
                request.body = Some(body);
            }
            _ if DATA.contains(&flag) => add_data(&mut request, value()?)?,
            "-F" | "--form" | "--data-urlencode" | "-T" | "--upload-file" => {
                return Err(format!("{flag} is not supported; write the body into the scenario"));
            }
            _ if IGNORED_WITH_VALUE.contains(&flag) => drop(value()?),
            "-G" | "--get" => is_get = true,
            "-I" | "--head" => is_head = true,
            _ if flag.starts_with('-') => {} // a switch, such as -s or --compressed
            _ => url = Some(flag.to_owned()),
        }
    }
    let url = url.ok_or("it has no URL")?;
    let url = if url.contains("://") { url } else { format!("http://{url}") };
    let (origin, target) = split_url(&url).map_err(|problem| format!("{url:?} is not a URL: {problem}"))?;
    request.target = target;
    if let Some(body) = request.body.take_if(|_| is_get) {
        request.target += if request.target.contains('?') { "&" } else { "?" };
        request.target += &body;
    }
    if request.method.is_empty() {
        request.method = String::from(if is_head {
            "HEAD"
        } else if request.body.is_some() {
            "POST"
        } else {
            "GET"
        });
    }
    let has_type = request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if request.body.is_some() && !has_type {
        let form = "application/x-www-form-urlencoded".to_owned();
        request.headers.push(("Content-Type".to_owned(), form));
    }
    Ok((origin, request))
}

fn is_with_value(flag: &str) -> bool {
    matches!(flag, "-X" | "-H" | "-A" | "-e" | "-u" | "-F" | "-T")
        || DATA.contains(&flag)
        || IGNORED_WITH_VALUE.contains(&flag)
}

/// curl joins several of them by `&`.
fn add_data(request: &mut RecordedRequest, data: &str) -> Result<(), String> {
    if data.starts_with('@') {
        return Err(format!("the body is in the file {data}; write it into the command"));
    }
    match &mut request.body {
        Some(body) => *body = format!("{body}&{data}"),
        None => request.body = Some(data.to_owned()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> RecordedRequest {
        read(text).unwrap().sessions[0].requests[0].clone()
    }

    #[test]
    fn commands_become_requests() {
        let request =
            one("curl 'http://a:1/x?y=1' \\\n  -H 'Accept: text/html' --compressed -XPUT --data-raw 'a b' -s");
        assert_eq!((request.method.as_str(), request.target.as_str()), ("PUT", "/x?y=1"));
        assert_eq!(request.body.as_deref(), Some("a b"));
        assert_eq!(request.headers[0], ("Accept".to_owned(), "text/html".to_owned()));
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
    fn mistakes_name_the_command() {
        for (text, expected) in [
            ("wget a", "begin with `curl`"),
            ("curl -s", "no URL"),
            ("curl 'a", "command 1"),
            ("curl a -F x=1", "-F is not supported"),
            ("", "no curl command"),
        ] {
            let problem = read(text).unwrap_err();
            assert!(problem.contains(expected), "{text}: {problem}");
        }
    }
}
