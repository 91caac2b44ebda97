//! Targets: URLs, and files of them.

use breme_base::{HttpUrl, InvalidUrl, split_scheme_or};
use breme_http1::ClientConnection;
use thiserror::Error;

use crate::request::RequestError;
use crate::template::{Names, Template, TemplateError};
use crate::variables::Variables;

/// The most targets of a run.
const TARGET_COUNT_MAX: usize = 1_000_000;
/// The most hosts of a run.
pub(crate) const HOST_COUNT_MAX: usize = 256;

/// A URL to request, as written by the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The URL; may contain placeholders after the authority.
    pub url: String,
    /// The method, if it differs from the run's.
    pub method: Option<String>,
    /// The content, if it differs from the run's.
    pub content: Option<Vec<u8>>,
    /// Its line number, if it comes from a file.
    pub line: Option<usize>,
}

impl Target {
    /// Without method and content.
    #[must_use]
    pub fn url(url: &str) -> Self {
        Self { url: url.to_owned(), ..Self::default() }
    }

    /// Parses a file of targets: a URL, or `METHOD URL [content]`, per line. Empty lines and lines that begin with `#`
    /// are ignored.
    ///
    /// # Errors
    /// If it has no targets, too many, or is not text.
    pub fn parse_file(file: &[u8]) -> Result<Vec<Self>, TargetError> {
        let of_file = |problem| TargetError { line: None, problem };
        let text = std::str::from_utf8(file).map_err(|error| of_file(TargetProblem::NotText(error.valid_up_to())))?;
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        let targets = lines
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
            .map(|(number, line)| Self::parse_line(number, line))
            .take(TARGET_COUNT_MAX + 1)
            .collect::<Result<Vec<_>, _>>()?;
        match targets.len() {
            0 => Err(of_file(TargetProblem::NoTarget)),
            count if count > TARGET_COUNT_MAX => Err(of_file(TargetProblem::TooManyTargets)),
            _ => Ok(targets),
        }
    }

    fn parse_line(number: usize, line: &str) -> Result<Self, TargetError> {
        let fault = |problem| TargetError { line: Some(number), problem };
        let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        // A method is a token, which has neither; without a scheme the URL is an http:// one.
        if first.contains([':', '/']) {
            return match rest.trim() {
                "" => Ok(Self { url: first.to_owned(), line: Some(number), ..Self::default() }),
                _ => Err(fault(TargetProblem::TextAfterUrl)),
            };
        }
        let (url, content) = rest.trim_start().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
        if url.is_empty() {
            return Err(fault(TargetProblem::NoUrl));
        }
        let content =
            Some(content.trim()).filter(|content| !content.is_empty()).map(|content| content.as_bytes().to_vec());
        Ok(Self { url: url.to_owned(), method: Some(first.to_owned()), content, line: Some(number) })
    }

    pub(crate) fn fault(&self, problem: impl Into<TargetProblem>) -> TargetError {
        TargetError { line: self.line, problem: problem.into() }
    }
}

/// An invalid target.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{problem}", .line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct TargetError {
    /// Its line number, if it comes from a file.
    pub line: Option<usize>,
    #[source]
    pub problem: TargetProblem,
}

/// What is wrong with a target, or with a file of them, with a correction.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TargetProblem {
    #[error("is not text (byte {0} is not UTF-8)")]
    NotText(usize),
    #[error("contains no target; write a URL on each line")]
    NoTarget,
    #[error("contains more than {max} targets; use a template", max = TARGET_COUNT_MAX)]
    TooManyTargets,
    #[error("has text after the URL; write METHOD URL BODY to send a body")]
    TextAfterUrl,
    #[error("has no URL; write URL, or METHOD URL [BODY]")]
    NoUrl,
    #[error("is on another host than the targets before it; at most {max} hosts are allowed", max = HOST_COUNT_MAX)]
    TooManyHosts,
    #[error("HEAD requests can be pipelined to a depth of at most {max}", max = ClientConnection::HEAD_OUTSTANDING_MAX)]
    PipelinedHead,
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// An invalid URL.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UrlError {
    #[error("URL {url:?}: {source}")]
    Origin { url: String, source: OriginError },
    /// A request target consists of visible ASCII only (RFC 9112, 3.2).
    #[error(
        "URL {url:?}, column {column}: {character:?} is not allowed in a URL; write {encoded}",
        encoded = percent_encoded(*.character)
    )]
    Character { url: String, column: usize, character: char },
    #[error("URL {url:?}, {source}")]
    Placeholder { url: String, source: TemplateError },
}

/// What is wrong with the scheme, the host or the port of a URL, with a correction.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OriginError {
    #[error("contains a user name, which reports would show; give it with --user")]
    UserName,
    #[error("has a placeholder in its host or port; placeholders are allowed only after the host")]
    Placeholder,
    #[error("{0}; write http://HOST[:PORT]/PATH")]
    Invalid(#[from] InvalidUrl),
}

/// A parsed URL.
#[derive(Clone, Debug)]
pub(crate) struct Url {
    pub authority: Authority,
    /// Path and query.
    pub path: Template,
}

/// The authority of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// A name or an address, without the brackets of an IPv6 address.
    pub host: String,
    /// By default 80, or 443 with TLS.
    pub port: u16,
    pub is_tls: bool,
    /// As written in the URL: the value of Host.
    pub text: String,
}

impl Url {
    pub(crate) fn parse(url: &str, variables: &Variables) -> Result<Self, UrlError> {
        let fault = |source| UrlError::Origin { url: url.to_owned(), source };
        // Without a scheme it is http, as in curl.
        let (is_tls, rest) = split_scheme_or(false, url).map_err(|problem| fault(problem.into()))?;
        let parts = HttpUrl::after_scheme(is_tls, rest).map_err(|problem| fault(problem.into()))?;
        let authority = Authority::from_url(&parts).map_err(fault)?;
        let path = parts.target;
        let before = url.len() - rest.len() + authority.text.len();
        if let Some((at, character)) = path.char_indices().find(|(_, character)| !character.is_ascii_graphic()) {
            let column = path[..at].chars().count() + before + 1;
            return Err(UrlError::Character { url: url.to_owned(), column, character });
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        let names = Names::Run { values: variables.values(), is_target: true };
        let path = Template::parse_with(format!("{slash}{path}").as_bytes(), names).map_err(|error| {
            let column = error.column - slash.len() + before;
            UrlError::Placeholder { url: url.to_owned(), source: TemplateError { column, ..error } }
        })?;
        Ok(Self { authority, path })
    }
}

impl Authority {
    /// Whether a connection to one may serve requests to the other.
    #[must_use]
    pub fn is_same_server(&self, other: &Self) -> bool {
        self.host.eq_ignore_ascii_case(&other.host) && (self.port, self.is_tls) == (other.port, other.is_tls)
    }

    /// # Errors
    /// If host or port are invalid, or the URL has a user name or a placeholder there.
    pub fn from_url(url: &HttpUrl<'_>) -> Result<Self, OriginError> {
        if url.user_info.is_some() {
            return Err(OriginError::UserName);
        }
        if url.authority.contains(['{', '}']) {
            return Err(OriginError::Placeholder);
        }
        let (host, port) = url.host_and_port()?;
        Ok(Self { host: host.to_owned(), port, is_tls: url.is_tls, text: url.authority.to_owned() })
    }
}

fn percent_encoded(character: char) -> String {
    character.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> (String, u16, String) {
        let url = Url::parse(text, &Variables::default()).unwrap();
        (url.authority.host, url.authority.port, String::from_utf8(url.path.as_fixed().unwrap().to_vec()).unwrap())
    }

    #[test]
    fn urls_are_taken_apart() {
        let check = |text, host: &str, port, path: &str| {
            assert_eq!(url(text), (host.to_owned(), port, path.to_owned()), "{text}");
        };
        check("http://a", "a", 80, "/");
        check("HTTP://a:8080", "a", 8080, "/");
        check("http://a:8080/x?y=1#z", "a", 8080, "/x?y=1");
        check("http://a?y", "a", 80, "/?y");
        check("http://[::1]:81/x", "::1", 81, "/x");
        check("http://[::1]/x/%7B", "::1", 80, "/x/%7B");
        check("https://a/x", "a", 443, "/x");
        check("https://a:8443", "a", 8443, "/");
    }

    #[test]
    fn url_faults_name_the_place_and_the_remedy() {
        let cases = [
            ("ftp://a/", "the scheme must be http or https, not \"ftp\""),
            ("http:///x", "the host is missing; write http://HOST"),
            ("http://a:0/", "the port must be a number from 1 to 65535, not \"0\""),
            ("http://a:99999/", "the port must be a number from 1 to 65535, not \"99999\""),
            ("http://[::1/", "closing ']'"),
            ("http://u:p@a/", "--user"),
            ("http://{seq}.example/", "only after the host"),
            ("http://a/b c", "column 11: ' ' is not allowed in a URL; write %20"),
            ("http://a/ä", "write %C3%A4"),
            ("http://a/x/{sek}", "column 12: {sek} is not a placeholder"),
            ("http://a?{sek}", "column 10: {sek} is not a placeholder"),
        ];
        for (text, problem) in cases {
            let error = Url::parse(text, &Variables::default()).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn a_url_without_a_scheme_is_http() {
        let url = Url::parse("a.example:81/x?u=https://b/", &Variables::default()).unwrap();
        assert_eq!((url.authority.host.as_str(), url.authority.port, url.authority.is_tls), ("a.example", 81, false));
        assert_eq!(url.path.as_fixed(), Some(&b"/x?u=https://b/"[..]));
    }

    #[test]
    fn files_of_targets() {
        let file = b"# pages\nhttp://a/1\n\nPOST http://a/2 some text \n  DELETE\thttp://a/3\n";
        let targets = Target::parse_file(file).unwrap();
        assert_eq!(targets[0], Target { line: Some(2), ..Target::url("http://a/1") });
        let post = Target {
            method: Some("POST".into()),
            content: Some(b"some text".to_vec()),
            line: Some(4),
            ..Target::url("http://a/2")
        };
        assert_eq!(targets[1], post);
        assert_eq!(targets[2], Target { method: Some("DELETE".into()), line: Some(5), ..Target::url("http://a/3") });
    }

    #[test]
    fn faults_in_files_name_the_line() {
        assert_eq!(Target::parse_file(b"\n#\n").unwrap_err().line, None);
        assert_eq!(Target::parse_file(b"http://a/\nGET\n").unwrap_err().line, Some(2));
        assert_eq!(Target::parse_file(b"http://a/ x\n").unwrap_err().line, Some(1));
        assert_eq!(Target::parse_file(b"\xff").unwrap_err().problem, TargetProblem::NotText(0));
    }
}
