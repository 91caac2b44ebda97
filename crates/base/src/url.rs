//! URLs with the scheme `http` or `https` as users write them (RFC 3986, 3; RFC 9110, 4.2), split into their parts.
//! Nothing is decoded. Which authorities a message may contain is a question for `breme-http`.

use std::net::Ipv6Addr;

use thiserror::Error;

/// What is wrong with a URL, and what is expected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidUrl {
    #[error("the scheme is missing")]
    NoScheme,
    #[error("the scheme must be http or https, not {0:?}")]
    Scheme(String),
    #[error("the host is missing")]
    NoHost,
    #[error("the host {0:?} contains a space or a character outside ASCII")]
    Host(String),
    #[error("the IPv6 address has no closing ']'")]
    Unclosed,
    #[error("brackets must contain an IPv6 address, not {0:?}")]
    Ipv6(String),
    #[error("the port must be a number from 1 to 65535, not {0:?}")]
    Port(String),
}

/// The parts of a URL, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpUrl<'a> {
    pub is_tls: bool,
    /// A name, and possibly a password, before the host.
    pub user_info: Option<&'a str>,
    /// `HOST[:PORT]`, not empty.
    pub authority: &'a str,
    /// Path and query without the fragment: empty, or from the first `/` or `?`.
    pub target: &'a str,
}

impl<'a> HttpUrl<'a> {
    /// Splits a URL. Host and port may be placeholders: [`Self::host_and_port`] checks them.
    ///
    /// # Errors
    /// If scheme or host are missing, or the scheme is another one.
    pub fn split(url: &'a str) -> Result<Self, InvalidUrl> {
        let (is_tls, rest) = split_scheme(url)?;
        Self::after_scheme(is_tls, rest)
    }

    /// Splits a URL whose scheme is known already.
    ///
    /// # Errors
    /// If the host is missing.
    pub fn after_scheme(is_tls: bool, rest: &'a str) -> Result<Self, InvalidUrl> {
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (user_info, authority) = match authority.rsplit_once('@') {
            Some((user_info, authority)) => (Some(user_info), authority),
            None => (None, authority),
        };
        if authority.is_empty() {
            return Err(InvalidUrl::NoHost);
        }
        Ok(Self { is_tls, user_info, authority, target })
    }

    /// Splits a URL and checks its host and port.
    ///
    /// # Errors
    /// The first part that is missing or invalid.
    pub fn parse(url: &'a str) -> Result<Self, InvalidUrl> {
        let url = Self::split(url)?;
        url.host_and_port().map(|_| url)
    }

    /// Splits a reference that names a host (RFC 3986, 4.2): a URL, or `//HOST…`, which gets the scheme of the URL to
    /// which it is relative. None for other references, which [`resolve_target`] resolves.
    ///
    /// # Errors
    /// If the scheme is another one, or the host is missing.
    pub fn split_reference(is_tls: bool, reference: &'a str) -> Result<Option<Self>, InvalidUrl> {
        match reference.strip_prefix("//") {
            Some(rest) => Self::after_scheme(is_tls, rest).map(Some),
            None if has_scheme(reference) => Self::split(reference).map(Some),
            None => Ok(None),
        }
    }

    #[must_use]
    pub const fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }

    /// The host without the brackets of an IPv6 address, and the port, by default that of the scheme.
    ///
    /// # Errors
    /// If one is invalid, or the host is missing.
    pub fn host_and_port(&self) -> Result<(&'a str, u16), InvalidUrl> {
        let (host, port) = match self.authority.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or(InvalidUrl::Unclosed)?;
                // A zone may follow the address (RFC 4007, 11).
                if host.split('%').next().is_none_or(|address| address.parse::<Ipv6Addr>().is_err()) {
                    return Err(InvalidUrl::Ipv6(host.to_owned()));
                }
                match rest.strip_prefix(':') {
                    None if !rest.is_empty() => return Err(InvalidUrl::Port(rest.to_owned())),
                    port => (host, port),
                }
            }
            None => self.authority.split_once(':').map_or((self.authority, None), |(host, port)| (host, Some(port))),
        };
        if host.is_empty() {
            return Err(InvalidUrl::NoHost);
        }
        if !host.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(InvalidUrl::Host(host.to_owned()));
        }
        // A port may be empty (RFC 3986, 3.2.3).
        let port = match port.filter(|port| !port.is_empty()) {
            None if self.is_tls => 443,
            None => 80,
            Some(text) => {
                // `parse` would accept a sign.
                let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                let port = digits.and_then(|digits| digits.parse::<u16>().ok()).filter(|&port| port > 0);
                port.ok_or_else(|| InvalidUrl::Port(text.to_owned()))?
            }
        };
        Ok((host, port))
    }
}

/// RFC 3986, 3.1.
fn has_scheme(reference: &str) -> bool {
    let Some((scheme, _)) = reference.split_once(':') else { return false };
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(is_scheme)
}

/// Path and query of a reference without scheme and host, relative to those of a URL (RFC 3986, 5.2.2). `base` and the
/// result begin with `/`; a fragment is left out.
#[must_use]
pub fn resolve_target(base: &str, reference: &str) -> String {
    let reference = reference.split('#').next().unwrap_or_default();
    let (base_path, _) = split_query(base);
    let (path, query) = split_query(reference);
    match path.as_bytes().first() {
        None if query.is_empty() => base.to_owned(),
        None => format!("{base_path}{query}"),
        Some(b'/') => without_dot_segments(path) + query,
        Some(_) => {
            let folder = base_path.rfind('/').map_or("/", |slash| &base_path[..=slash]);
            without_dot_segments(&format!("{folder}{path}")) + query
        }
    }
}

/// The query begins with `?`, or is empty.
fn split_query(target: &str) -> (&str, &str) {
    target.split_at(target.find('?').unwrap_or(target.len()))
}

/// Removes the segments `.` and `..` of a path that begins with `/` (RFC 3986, 5.2.4).
fn without_dot_segments(path: &str) -> String {
    let mut kept = String::with_capacity(path.len());
    for segment in path.split_inclusive('/') {
        match segment.strip_suffix('/').unwrap_or(segment) {
            "." => {}
            ".." => {
                let parent = kept.strip_suffix('/').and_then(|folder| folder.rfind('/'));
                kept.truncate(parent.map_or(kept.len(), |slash| slash + 1));
            }
            _ => kept.push_str(segment),
        }
    }
    kept
}

/// Whether the scheme is https, and the part after it.
///
/// # Errors
/// If the scheme is missing, or another one.
pub fn split_scheme(url: &str) -> Result<(bool, &str), InvalidUrl> {
    match url.split_once("://").filter(|(scheme, _)| !scheme.contains(['/', '?', '#'])) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => Ok((false, rest)),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => Ok((true, rest)),
        Some((scheme, _)) => Err(InvalidUrl::Scheme(scheme.to_owned())),
        None => Err(InvalidUrl::NoScheme),
    }
}

/// Likewise; without a scheme, `is_tls` holds.
///
/// # Errors
/// If the scheme is another one.
pub fn split_scheme_or(is_tls: bool, url: &str) -> Result<(bool, &str), InvalidUrl> {
    match split_scheme(url) {
        Err(InvalidUrl::NoScheme) => Ok((is_tls, url)),
        split => split,
    }
}

/// The text after `http://`, if it begins so; else all of it.
#[must_use]
pub fn without_http(text: &str) -> &str {
    match split_scheme(text) {
        Ok((false, rest)) => rest,
        _ => text,
    }
}

/// Whether a URL, of whatever scheme, contains a name or a password, which messages would show.
#[must_use]
pub fn has_user_info(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_split_into_its_parts() {
        let check = |url, scheme, authority, target, host, port| {
            let parts = HttpUrl::parse(url).unwrap();
            assert_eq!((parts.scheme(), parts.authority, parts.target), (scheme, authority, target), "{url}");
            assert_eq!(parts.host_and_port(), Ok((host, port)), "{url}");
        };
        check("http://a", "http", "a", "", "a", 80);
        check("HTTPS://a:8443/x?y=1#z", "https", "a:8443", "/x?y=1", "a", 8443);
        check("https://a?y=//", "https", "a", "?y=//", "a", 443);
        check("http://a:#/", "http", "a:", "", "a", 80);
        check("http://[::1]:81/x", "http", "[::1]:81", "/x", "::1", 81);
        check("http://[fe80::1%eth0]/", "http", "[fe80::1%eth0]", "/", "fe80::1%eth0", 80);
        let parts = HttpUrl::split("http://u:p@a/@").unwrap();
        assert_eq!((parts.user_info, parts.authority, parts.target), (Some("u:p"), "a", "/@"));
        assert_eq!(HttpUrl::split("http://a:${port}/x").unwrap().authority, "a:${port}");
    }

    #[test]
    fn an_error_names_the_part() {
        for (url, problem) in [
            ("", InvalidUrl::NoScheme),
            ("a:80", InvalidUrl::NoScheme),
            ("/x?u=http://a", InvalidUrl::NoScheme),
            ("ftp://a", InvalidUrl::Scheme("ftp".to_owned())),
            ("http://", InvalidUrl::NoHost),
            ("http:///x", InvalidUrl::NoHost),
            ("http://:80", InvalidUrl::NoHost),
            ("http://a b", InvalidUrl::Host("a b".to_owned())),
            ("http://ä", InvalidUrl::Host("ä".to_owned())),
            ("http://[::1", InvalidUrl::Unclosed),
            ("http://[x]", InvalidUrl::Ipv6("x".to_owned())),
            ("http://[::1]80", InvalidUrl::Port("80".to_owned())),
            ("http://a:0", InvalidUrl::Port("0".to_owned())),
            ("http://a:+80", InvalidUrl::Port("+80".to_owned())),
            ("http://a:80:90", InvalidUrl::Port("80:90".to_owned())),
            ("http://::1", InvalidUrl::NoHost),
            ("http://a:65536", InvalidUrl::Port("65536".to_owned())),
        ] {
            assert_eq!(HttpUrl::parse(url), Err(problem), "{url}");
        }
    }

    /// The examples of RFC 3986, 5.4, with the base `http://a/b/c/d;p?q`.
    #[test]
    fn references_are_resolved_as_the_rfc_says() {
        for (reference, expected) in [
            // 5.4.1
            ("g", "/b/c/g"),
            ("./g", "/b/c/g"),
            ("g/", "/b/c/g/"),
            ("/g", "/g"),
            ("?y", "/b/c/d;p?y"),
            ("g?y", "/b/c/g?y"),
            ("#s", "/b/c/d;p?q"),
            ("g#s", "/b/c/g"),
            ("g?y#s", "/b/c/g?y"),
            (";x", "/b/c/;x"),
            ("g;x", "/b/c/g;x"),
            ("g;x?y#s", "/b/c/g;x?y"),
            ("", "/b/c/d;p?q"),
            (".", "/b/c/"),
            ("./", "/b/c/"),
            ("..", "/b/"),
            ("../", "/b/"),
            ("../g", "/b/g"),
            ("../..", "/"),
            ("../../", "/"),
            ("../../g", "/g"),
            // 5.4.2
            ("../../../g", "/g"),
            ("../../../../g", "/g"),
            ("/./g", "/g"),
            ("/../g", "/g"),
            ("g.", "/b/c/g."),
            (".g", "/b/c/.g"),
            ("g..", "/b/c/g.."),
            ("..g", "/b/c/..g"),
            ("./../g", "/b/g"),
            ("./g/.", "/b/c/g/"),
            ("g/./h", "/b/c/g/h"),
            ("g/../h", "/b/c/h"),
            ("g;x=1/./y", "/b/c/g;x=1/y"),
            ("g;x=1/../y", "/b/c/y"),
            ("g?y/./x", "/b/c/g?y/./x"),
            ("g?y/../x", "/b/c/g?y/../x"),
            ("g#s/../x", "/b/c/g"),
            // 5.2.4
            ("/a/b/c/./../../g", "/a/g"),
            // Empty segments are segments.
            ("/a//../b", "/a/b"),
            ("/x?..", "/x?.."),
        ] {
            assert_eq!(resolve_target("/b/c/d;p?q", reference), expected, "{reference:?}");
            assert_eq!(HttpUrl::split_reference(false, reference), Ok(None), "{reference:?}");
        }
        assert_eq!((resolve_target("/", ""), resolve_target("/", "?x")), ("/".to_owned(), "/?x".to_owned()));
    }

    #[test]
    fn references_with_a_host_are_split() {
        let split = |reference| {
            HttpUrl::split_reference(true, reference)
                .map(|url| url.map(|url| (url.scheme(), url.authority, url.target)))
        };
        assert_eq!(split("//g/x#s"), Ok(Some(("https", "g", "/x"))));
        assert_eq!(split("http://g?y"), Ok(Some(("http", "g", "?y"))));
        assert_eq!(split("./g:h"), Ok(None));
        assert_eq!(split("g?http://h"), Ok(None));
        assert_eq!(split("g:h"), Err(InvalidUrl::NoScheme));
        assert_eq!(split("ftp://g"), Err(InvalidUrl::Scheme("ftp".to_owned())));
        assert_eq!(split("//"), Err(InvalidUrl::NoHost));
    }

    #[test]
    fn user_info_is_found_in_the_authority_only() {
        for url in ["http://u@a", "http://u:p@a/", "ftp://u:p@a", "u:p@a:80/"] {
            assert!(has_user_info(url), "{url}");
        }
        for url in ["http://a/@", "http://a?x=@", "http://a#@", "a:80", ""] {
            assert!(!has_user_info(url), "{url}");
        }
    }
}
