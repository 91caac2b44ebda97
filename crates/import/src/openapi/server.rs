//! The server of a description.

use breme_base::HttpUrl;

use super::document::Document;
use super::node::Node;
use super::url::literal;

/// Where the requests go.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Server {
    /// `http://host:port`.
    pub(super) base: Option<String>,
    /// The beginning of each path, encoded, without a slash at its end.
    pub(super) prefix: String,
    pub(super) note: Option<String>,
}

impl Server {
    /// The first one. A path without a host is the beginning of the paths on the server that the user names.
    pub(super) fn of(document: &Document) -> Self {
        let Some(server) = document.root.items("servers").first() else {
            return Self::unknown("", "the description names no server");
        };
        let url = with_defaults(server.text("url").unwrap_or_default(), server);
        if !url.contains("://") && !url.starts_with("//") {
            return Self::unknown(&url, &format!("#/servers/0/url is {url:?}, without a host"));
        }
        match HttpUrl::parse(&url) {
            // For a load these were its own placeholders.
            Ok(parts) if parts.authority.contains(['{', '}']) => {
                Self::unknown("", &format!("#/servers/0/url is {url:?}, with a variable that has no default"))
            }
            Ok(parts) => {
                let base = Some(format!("{}://{}", parts.scheme(), parts.authority));
                Self { base, prefix: prefix(parts.target), note: None }
            }
            Err(problem) => Self::unknown("", &format!("#/servers/0/url is {url:?}: {problem}")),
        }
    }

    fn unknown(path: &str, reason: &str) -> Self {
        let remedy = "give the URL of the server to the load: breme load --scenario FILE http://HOST:PORT";
        Self { base: None, prefix: prefix(path), note: Some(format!("{reason}; {remedy}")) }
    }
}

/// The path of a URL, without its query, and without the `./` and `../` that a relative one begins with.
fn prefix(target: &str) -> String {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let path = format!("{}/", path.trim_end_matches('/'));
    let path = path.trim_start_matches("../").trim_start_matches("./").trim_start_matches("../").trim_matches('/');
    if path.is_empty() { String::new() } else { format!("/{}", literal(path)) }
}

/// The URL with the defaults of its `{variables}`.
fn with_defaults(url: &str, server: &Node) -> String {
    let mut written = url.to_owned();
    for (name, variable) in server.entries("variables") {
        let first = variable.items("enum").first().map(Node::to_string);
        if let Some(value) = variable.get("default").map(Node::to_string).or(first) {
            written = written.replace(&format!("{{{name}}}"), &value);
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(servers: &str) -> Server {
        Server::of(&Document::parse(&format!("{{\"openapi\": \"3.1.0\", \"servers\": {servers}}}")).unwrap())
    }

    #[test]
    fn a_url_is_split_into_base_and_prefix() {
        for (url, base, expected_prefix) in [
            ("https://api.example.com/v1/", "https://api.example.com", "/v1"),
            ("https://example.com/.well-known/", "https://example.com", "/.well-known"),
            ("https://example.com/a..", "https://example.com", "/a.."),
            ("HTTP://me:secret@host:8080", "http://host:8080", ""),
            ("https://{region}.host:{port}/{version}", "https://eu.host:8443", "/v%202"),
        ] {
            let variables = r#"{"region": {"enum": ["eu"]}, "port": {"default": 8443}, "version": {"default": "v 2"}}"#;
            let server = server(&format!(r#"[{{"url": "{url}", "variables": {variables}}}, {{"url": "http://b"}}]"#));
            let expected = Server { base: Some(base.to_owned()), prefix: expected_prefix.to_owned(), note: None };
            assert_eq!(server, expected);
        }
    }

    #[test]
    fn without_a_host_the_user_names_the_server() {
        for (servers, expected_prefix, expected_note) in [
            ("[]", "", "the description names no server; give the URL"),
            (r#"[{"url": "/"}]"#, "", "without a host"),
            (r#"[{"url": "./v1/"}]"#, "/v1", "#/servers/0/url is \"./v1/\", without a host"),
            (r#"[{"url": ".."}]"#, "", "without a host"),
            (r#"[{"url": "../../.v1"}]"#, "/.v1", "without a host"),
            (r#"[{"url": "/{v}"}]"#, "/%7Bv%7D", "without a host"),
            (r#"[{"url": "ftp://host/v1"}]"#, "", "must be http or https"),
            (r#"[{"url": "//host/v1"}]"#, "", "the scheme is missing"),
            (r#"[{"url": "http://host:{port}/v1"}]"#, "", "the port must be a number"),
            (r#"[{"url": "http://{host}/v1"}]"#, "", "a variable that has no default"),
        ] {
            let server = server(servers);
            let note = server.note.unwrap();
            assert_eq!((server.base, server.prefix.as_str()), (None, expected_prefix), "{servers}");
            assert!(note.contains(expected_note) && note.contains("breme load --scenario"), "{servers}: {note}");
        }
    }
}
