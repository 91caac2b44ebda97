//! An upstream in the syntax of a flag: `http://b:8080,weight=2`, `unix:/run/b.sock`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use breme_base::{HttpUrl, nearest, without_http};
use breme_driver::Address;

/// The options after the URL.
const OPTIONS: [&str; 2] = ["weight", "route"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    pub is_tls: bool,
    pub location: Location,
    /// Its share of the requests, relative to the others'.
    pub weight: u32,
    /// Its name in the route part of an application's cookie.
    pub route: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// `host`: a name, or an address without brackets.
    Host { host: String, port: u16 },
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Upstream {
    /// The name in messages and metrics: host and port as in a URL; of a Unix socket `unix:PATH`.
    pub fn name(&self) -> String {
        match &self.location {
            Location::Host { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Location::Host { host, port } => format!("{host}:{port}"),
            Location::Unix(path) => format!("{}{}", Address::UNIX, path.display()),
        }
    }

    /// Its address, if no name needs to be resolved.
    pub fn literal(&self) -> Option<SocketAddr> {
        let Location::Host { host, port } = &self.location else { return None };
        host.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, *port))
    }

    /// The name to be resolved, if there is one, and the port.
    pub fn host_name(&self) -> Option<(&str, u16)> {
        match &self.location {
            Location::Host { host, port } if self.literal().is_none() => Some((host.as_str(), *port)),
            Location::Host { .. } | Location::Unix(_) => None,
        }
    }
}

/// The URL of an upstream with this name; a Unix socket's is its name.
pub fn url(is_tls: bool, name: &str) -> String {
    match (name.starts_with(Address::UNIX), is_tls) {
        (true, _) => name.to_owned(),
        (false, true) => format!("https://{name}"),
        (false, false) => format!("http://{name}"),
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{},weight={}", url(self.is_tls, &self.name()), self.weight)?;
        self.route.iter().try_for_each(|route| write!(formatter, ",route={route}"))
    }
}

impl FromStr for Upstream {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(',');
        let url = words.next().unwrap_or_default();
        let mut upstream = parse_url(url)?;
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            match name.trim() {
                "weight" => upstream.weight = weight(value.trim())?,
                "route" if !value.trim().is_empty() => upstream.route = Some(value.trim().to_owned()),
                other => return Err(unknown_option(other)),
            }
        }
        Ok(upstream)
    }
}

fn weight(value: &str) -> Result<u32, String> {
    let weight = value.parse().ok().filter(|weight| *weight > 0);
    weight.ok_or_else(|| format!("{value:?} is not a weight; write a whole number from 1, as in ,weight=2"))
}

fn unknown_option(name: &str) -> String {
    match nearest(name, OPTIONS) {
        Some(near) if near != name => format!("an upstream has no option {name:?}; did you mean `{near}`?"),
        _ => format!("an upstream has no option {name:?}; the options after the URL are ,weight=N and ,route=NAME"),
    }
}

fn parse_url(url: &str) -> Result<Upstream, String> {
    let fault = |why: &str| {
        format!("{url:?} is not an upstream: {why}; write http://HOST:PORT, https://HOST:PORT or unix:PATH")
    };
    // nginx writes http://unix:PATH.
    if let Some(path) = without_http(url).strip_prefix(Address::UNIX) {
        // It is part of log lines and metrics.
        if path.is_empty() || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(fault("the path of the socket must be ASCII characters without spaces"));
        }
        return Ok(Upstream { is_tls: false, location: Location::Unix(path.into()), weight: 1, route: None });
    }
    let parts = HttpUrl::split(url).map_err(|problem| fault(&problem.to_string()))?;
    if parts.user_info.is_some() || url.contains(['?', '#']) {
        return Err(fault("only a host and a port are allowed"));
    }
    if !matches!(parts.target, "" | "/") {
        return Err(fault("it must not have a path, since requests keep their own"));
    }
    let (host, port) = parts.host_and_port().map_err(|problem| fault(&problem.to_string()))?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if !host.bytes().all(is_name) && host.parse::<Ipv6Addr>().is_err() {
        return Err(fault("the host must be an address, or a name of letters, digits, '-', '.' and '_'"));
    }
    let location = Location::Host { host: host.to_ascii_lowercase(), port };
    Ok(Upstream { is_tls: parts.is_tls, location, weight: 1, route: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_upstream_reads_as_the_same() {
        for (text, expected) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080,weight=1"),
            ("HTTPS://B.example/", "https://b.example:443,weight=1"),
            ("http://[::1],weight=3", "http://[::1]:80,weight=3"),
            ("http://node_1:81,weight=2,route=n1", "http://node_1:81,weight=2,route=n1"),
            ("unix:/run/a.sock,weight=2", "unix:/run/a.sock,weight=2"),
            ("http://unix:a,route=n1", "unix:a,weight=1,route=n1"),
            ("HTTP://unix:a", "unix:a,weight=1"),
        ] {
            let upstream: Upstream = text.parse().unwrap();
            assert_eq!(upstream.to_string(), expected);
            assert_eq!(expected.parse(), Ok(upstream));
        }
        let upstream: Upstream = "http://[::1]:9".parse().unwrap();
        assert_eq!((upstream.name().as_str(), upstream.literal()), ("[::1]:9", Some("[::1]:9".parse().unwrap())));
        let names = |text: &str| {
            let upstream: Upstream = text.parse().unwrap();
            (upstream.literal(), upstream.host_name().map(|(host, port)| format!("{host} {port}")), upstream.name())
        };
        assert_eq!(names("http://a"), (None, Some("a 80".to_owned()), "a:80".to_owned()));
        assert_eq!(names("unix:/run/a.sock"), (None, None, "unix:/run/a.sock".to_owned()));
    }

    #[test]
    fn faults_say_what_would_be_right() {
        for (text, part) in [
            ("127.0.0.1:8080", "the scheme is missing"),
            ("ftp://a", "must be http or https"),
            ("unix:", "the path of the socket"),
            ("unix:/a b", "the path of the socket"),
            ("https://unix:/a", "unix:PATH"),
            ("http://a/wiki", "requests keep their own"),
            ("http://a:b", "http://HOST:PORT"),
            ("http://a:0", "http://HOST:PORT"),
            ("http://:80", "http://HOST:PORT"),
            ("http://[::1", "http://HOST:PORT"),
            ("http://[x]:1", "http://HOST:PORT"),
            ("http://u@a", "only a host and a port"),
            ("http://a b", "http://HOST:PORT"),
            ("http://a,weight=0", "from 1"),
            ("http://a,weight=x", "from 1"),
            ("http://a,wieght=2", "did you mean `weight`?"),
            ("http://a,backup", ",weight=N"),
        ] {
            let problem = text.parse::<Upstream>().unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
        }
    }
}
