//! The compared servers: URLs of running ones, and commands.

use std::collections::{BTreeMap, BTreeSet};

use breme_base::{HttpUrl, InvalidUrl, split_scheme};

/// The workload.
pub(super) const LOAD: &str = "load";
/// The factor whose levels are the servers.
pub(super) const SERVER: &str = "server";

/// How a server is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// It runs at this URL, without a path.
    Running(String),
    /// A command line for `sh`.
    Command(String),
}

/// A server as specified by the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContenderSource {
    pub(super) name: String,
    pub(super) start: Start,
    /// The path of its URL, if any.
    pub(super) path: Option<String>,
}

/// A server whose address is known: `http://127.0.0.1:8080`, or with `${port}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Contender {
    pub(super) name: String,
    pub(super) start: Start,
    pub(super) url: String,
}

/// Parses all servers. Equal names are numbered, and so are derived ones that the experiment itself needs.
pub(super) fn parse_all(texts: &[String]) -> Result<Vec<ContenderSource>, String> {
    if let Some((name, _)) = texts.iter().filter_map(|text| given_name(text)).find(|(name, _)| is_taken(name)) {
        return Err(format!("{name}=… : the name is taken; use another one: NAME='command' or NAME=URL"));
    }
    let mut sources = texts.iter().map(|text| parse(text)).collect::<Result<Vec<_>, _>>()?;
    let paths: Vec<&String> = sources.iter().filter_map(|source| source.path.as_ref()).collect();
    if let Some(other) = paths.iter().find(|path| **path != paths[0]) {
        return Err(format!(
            "the URLs have different paths, {} and {other}; the same request must go to all: give the path with --get",
            paths[0]
        ));
    }
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for source in &sources {
        *count.entry(source.name.clone()).or_default() += 1;
    }
    let needs_number = |name: &String| count[name] > 1 || is_taken(name);
    let mut taken: BTreeSet<String> = count.keys().filter(|name| !needs_number(name)).cloned().collect();
    for source in sources.iter_mut().filter(|source| needs_number(&source.name)) {
        let mut numbered = (1_usize..).map(|number| format!("{}-{number}", source.name));
        // The numbers do not end.
        if let Some(name) = numbered.find(|name| taken.insert(name.clone())) {
            source.name = name;
        }
    }
    Ok(sources)
}

/// Whether the experiment needs the name for its workload or its factor.
fn is_taken(name: &str) -> bool {
    [LOAD, SERVER].contains(&name)
}

/// The name and the rest of `NAME=…`.
fn given_name(text: &str) -> Option<(&str, &str)> {
    text.split_once('=').filter(|(name, rest)| is_name(name) && !rest.trim().is_empty())
}

fn parse(text: &str) -> Result<ContenderSource, String> {
    let (name, text) = given_name(text).map_or((None, text), |(name, rest)| (Some(name.to_owned()), rest));
    let text = text.trim();
    if text.is_empty() {
        return Err(String::from("a server is empty; give a URL or a command"));
    }
    let url = split_url(text).map_err(|problem| {
        format!("{text:?} is not a URL: {problem}; write http://HOST:PORT or https://HOST:PORT, or a command")
    })?;
    match url {
        Some((url, path)) => {
            let (_, host) = url.split_once("://").unwrap_or(("", &url));
            Ok(ContenderSource { name: name.unwrap_or_else(|| as_name(host)), start: Start::Running(url), path })
        }
        None => {
            let program = text.split_whitespace().next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
            let name = name.unwrap_or_else(|| as_name(program));
            Ok(ContenderSource { name, start: Start::Command(text.to_owned()), path: None })
        }
    }
}

/// `http://host:port` and the path, none if it is `/`; none for a command. The scheme may be missing if a port shows
/// that it is no program.
fn split_url(text: &str) -> Result<Option<(String, Option<String>)>, InvalidUrl> {
    if text.contains(char::is_whitespace) {
        return Ok(None);
    }
    let url = match split_scheme(text) {
        Ok((is_tls, rest)) => HttpUrl::after_scheme(is_tls, rest)?,
        Err(InvalidUrl::NoScheme) => match HttpUrl::after_scheme(false, text) {
            Ok(url) if has_port(url.authority) => url,
            _ => return Ok(None),
        },
        Err(problem) => return Err(problem),
    };
    url.host_and_port()?;
    let user_info = url.user_info.map(|user_info| format!("{user_info}@")).unwrap_or_default();
    let path = match url.target {
        "" | "/" => None,
        query if query.starts_with('?') => Some(format!("/{query}")),
        path => Some(path.to_owned()),
    };
    Ok(Some((format!("{}://{user_info}{}", url.scheme(), url.authority), path)))
}

fn has_port(authority: &str) -> bool {
    let port = authority.rsplit_once(':').map(|(_, port)| port);
    port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether experiments accept it as a name.
fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-'))
}

fn as_name(text: &str) -> String {
    let cleaned: String =
        text.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    let cleaned = cleaned.trim_matches('-');
    if is_name(cleaned) { cleaned.to_owned() } else { format!("server-{cleaned}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> ContenderSource {
        parse(text).unwrap()
    }

    #[test]
    fn urls_and_commands_are_distinguished() {
        let running = |url: &str| Start::Running(url.to_owned());
        assert_eq!(source("http://127.0.0.1:8080/x").start, running("http://127.0.0.1:8080"));
        assert_eq!(source("http://127.0.0.1:8080/x").path.as_deref(), Some("/x"));
        assert_eq!(source("localhost:8080").start, running("http://localhost:8080"));
        assert_eq!(source("https://example.org/").path, None);
        assert_eq!(source("HTTP://a:80").start, running("http://a:80"));
        assert_eq!(source("http://a?x").start, running("http://a"));
        assert_eq!(source("http://a?x").path.as_deref(), Some("/?x"));
        assert_eq!(source("http://u:p@a:80/x").start, running("http://u:p@a:80"));
        assert_eq!(source("caddy run").start, Start::Command("caddy run".to_owned()));
        assert_eq!(source("./server").start, Start::Command("./server".to_owned()));
    }

    #[test]
    fn invalid_urls_are_no_commands() {
        for text in ["http://a:99999", "a:99999", "http://", "ftp://a", ":80"] {
            let problem = parse(text).unwrap_err();
            assert!(problem.contains("is not a URL") && problem.contains("http://HOST:PORT"), "{problem}");
        }
    }

    #[test]
    fn names_are_given_or_derived() {
        let names = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
            parse_all(&texts).unwrap().into_iter().map(|source| source.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["/usr/sbin/nginx -c a", "caddy run"]), ["nginx", "caddy"]);
        assert_eq!(names(&["nginx -c a", "nginx -c b"]), ["nginx-1", "nginx-2"]);
        assert_eq!(names(&["old=./a", "new=http://[::1]:80"]), ["old", "new"]);
        assert_eq!(names(&["127.0.0.1:80", "b.example:80"]), ["server-127-0-0-1-80", "b-example-80"]);
        assert_eq!(names(&["PORT=1 ./a"]), ["PORT"]);
    }

    #[test]
    fn no_two_names_are_equal_and_none_is_taken() {
        let names = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
            parse_all(&texts).map(|sources| sources.into_iter().map(|source| source.name).collect::<Vec<_>>())
        };
        let named = |expected: &[&str]| Ok(expected.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        assert_eq!(names(&["./server --a", "./server --b"]), named(&["server-1", "server-2"]));
        assert_eq!(names(&["./server", "load", "./b"]), named(&["server-1", "load-1", "b"]));
        assert_eq!(names(&["x", "x", "x-1"]), named(&["x-2", "x-3", "x-1"]));
        for given in ["load=./a", "server=http://a"] {
            assert!(names(&[given, "./b"]).unwrap_err().contains("NAME='command'"), "{given}");
        }
    }

    #[test]
    fn different_paths_are_refused() {
        let problem = parse_all(&["http://a/x".to_owned(), "http://b/y".to_owned()]).unwrap_err();
        assert!(problem.contains("/x") && problem.contains("/y") && problem.contains("--get"), "{problem}");
    }
}
