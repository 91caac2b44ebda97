//! Addresses in flags, and the places where a server listens.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use breme_base::split_scheme_or;
use breme_driver::Address;

use crate::failure::Failure;

/// The address of a listener, and whether it uses TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenPlace {
    pub address: Address,
    pub is_secured: bool,
}

impl fmt::Display for ListenPlace {
    /// As a URL; of a Unix socket its path, as in `--listen`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Tcp(address) if self.is_secured => write!(formatter, "https://{address}"),
            Address::Tcp(address) => write!(formatter, "http://{address}"),
            unix @ Address::Unix(_) => unix.fmt(formatter),
        }
    }
}

impl ListenPlace {
    /// Without TLS.
    pub const fn plain(address: Address) -> Self {
        Self { address, is_secured: false }
    }

    /// Whether only this machine can reach it.
    pub fn is_local(&self) -> bool {
        self.address.tcp().is_none_or(|address| address.ip().is_loopback())
    }

    /// Parses all values of `--listen`.
    pub fn all(texts: &[String], has_tls: bool) -> Result<Vec<Self>, Failure> {
        let mut places: Vec<Self> = Vec::new();
        for text in texts {
            let place = Self::from_text(text, has_tls)?;
            let is_fixed = place.address.tcp().is_none_or(|address| address.port() != 0);
            if is_fixed && places.iter().any(|other| other.address == place.address) {
                let message = format!("--listen {text}: {} is listed twice; list it once", place.address);
                return Err(Failure::usage(message));
            }
            places.push(place);
        }
        Ok(places)
    }

    /// Parses one value of `--listen`: with TLS, `http://ADDR` listens without it. Unix sockets always do.
    pub fn from_text(text: &str, has_tls: bool) -> Result<Self, Failure> {
        if text.starts_with(Address::UNIX) {
            return listen_address("--listen", text).map(Self::plain);
        }
        let (is_secured, address) = match split_scheme_or(has_tls, text) {
            Ok((true, _)) if !has_tls => {
                return Err(Failure::usage(format!(
                    "--listen {text}: TLS needs a certificate; add --tls-cert FILE --tls-key FILE, or --tls-self-signed"
                )));
            }
            Ok(split) => split,
            Err(problem) => {
                return Err(Failure::usage(format!(
                    "--listen {text}: {problem}; write http://ADDR, https://ADDR or ADDR"
                )));
            }
        };
        Ok(Self { address: resolve("--listen", address)?.into(), is_secured })
    }
}

/// The address of a listener in a flag: `unix:PATH`, or what [`resolve`] takes.
pub fn listen_address(flag: &str, text: &str) -> Result<Address, Failure> {
    match text.strip_prefix(Address::UNIX) {
        Some("") => {
            let message = format!("{flag} {text}: the path is missing; write one, such as unix:/run/breme.sock");
            Err(Failure::usage(message))
        }
        Some(path) => Ok(Path::new(path).into()),
        None => resolve(flag, text).map(Address::Tcp),
    }
}

/// A local address in a flag; `:8080` is that port at every IPv4 address. The first address of a name.
pub fn resolve(flag: &str, text: &str) -> Result<SocketAddr, Failure> {
    Ok(resolve_all(flag, text)?[0])
}

/// Likewise all addresses of a name, at least one.
pub fn resolve_all(flag: &str, text: &str) -> Result<Vec<SocketAddr>, Failure> {
    let text = text.trim_end_matches('/');
    let fault = |why: &str| {
        let examples = "127.0.0.1:8080, [::1]:8080, or :8080 for all IPv4 addresses";
        Failure::usage(format!("{flag} {text}: {why}; write an address and a port, such as {examples}"))
    };
    let Some((host, port)) = text.rsplit_once(':') else { return Err(fault("the port is missing")) };
    let Ok(port) = port.parse::<u16>() else { return Err(fault("the port is not a number from 0 to 65535")) };
    if host.is_empty() {
        return Ok(vec![SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))]);
    }
    if host.contains(':') && !host.starts_with('[') {
        return Err(fault("an IPv6 address must be in brackets"));
    }
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let found = breme_sys::resolve(host, port).map_err(|error| fault(&format!("cannot resolve the host: {error}")))?;
    if found.is_empty() { Err(fault("the host has no address")) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unix_socket_is_a_place_without_tls() {
        let place = ListenPlace::from_text("unix:/run/a.sock", true).unwrap();
        assert_eq!((place.to_string().as_str(), place.is_secured), ("unix:/run/a.sock", false));
        assert_eq!(ListenPlace::from_text(&place.to_string(), true).unwrap(), place);
        let twice = ["unix:a", "127.0.0.1:0", "127.0.0.1:0", "unix:a"].map(str::to_owned);
        let message = ListenPlace::all(&twice, false).unwrap_err().message;
        assert_eq!(message, "--listen unix:a: unix:a is listed twice; list it once");
        assert!(ListenPlace::from_text("unix:", false).unwrap_err().message.contains("unix:/run/"));
        for (text, has_tls) in [("http://127.0.0.1:80", true), ("https://[::1]:80", true)] {
            assert_eq!(ListenPlace::from_text(text, has_tls).unwrap().to_string(), text);
        }
    }

    #[test]
    fn another_scheme_is_refused() {
        let message = ListenPlace::from_text("ftp://a:1", false).unwrap_err().message;
        let problem = "the scheme must be http or https, not \"ftp\"";
        assert_eq!(message, format!("--listen ftp://a:1: {problem}; write http://ADDR, https://ADDR or ADDR"));
    }

    #[test]
    fn an_address_needs_a_port_and_a_port_no_host() {
        let address = |text: &str| resolve("--listen", text).map(|address| address.to_string());
        assert_eq!(address(":8080").unwrap(), "0.0.0.0:8080");
        assert_eq!(address("127.0.0.1:0/").unwrap(), "127.0.0.1:0");
        assert_eq!(address("[::1]:80").unwrap(), "[::1]:80");
        assert_eq!(address("localhost:80").unwrap(), "127.0.0.1:80");
        for (text, problem) in [
            ("8080", "--listen 8080: the port is missing; write "),
            ("localhost:http", "--listen localhost:http: the port is not a number from 0 to 65535; write "),
            ("127.0.0.1:65536", "--listen 127.0.0.1:65536: the port is not a number from 0 to 65535; write "),
            ("::1:8080", "--listen ::1:8080: an IPv6 address must be in brackets; write "),
            ("nowhere.invalid:80", "--listen nowhere.invalid:80: cannot resolve the host: "),
        ] {
            let message = address(text).unwrap_err().message;
            assert!(message.starts_with(problem) && message.contains("such as 127.0.0.1:8080"), "{message}");
        }
    }
}
