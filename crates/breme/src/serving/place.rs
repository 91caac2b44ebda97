//! Where a server listens.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::failure::Failure;

/// Where a listener is, and whether TLS is spoken there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub address: SocketAddr,
    pub is_secured: bool,
}

impl Place {
    pub fn scheme(self) -> &'static str {
        if self.is_secured { "https" } else { "http" }
    }

    /// What `--listen` says, each time that it is given.
    pub fn all(texts: &[String], has_tls: bool) -> Result<Vec<Self>, Failure> {
        let mut places: Vec<Self> = Vec::new();
        for text in texts {
            let place = Self::of(text, has_tls)?;
            if place.address.port() != 0 && places.iter().any(|other| other.address == place.address) {
                let message = format!("--listen {text}: {} is named twice; name it once", place.address);
                return Err(Failure::usage(message));
            }
            places.push(place);
        }
        Ok(places)
    }

    /// What `--listen` says once: with TLS, `http://ADDR` listens without it.
    pub fn of(text: &str, has_tls: bool) -> Result<Self, Failure> {
        let (is_secured, address) = match text.split_once("://") {
            None => (has_tls, text),
            Some(("http", address)) => (false, address),
            Some(("https", address)) if has_tls => (true, address),
            Some(("https", _)) => {
                return Err(Failure::usage(format!(
                    "--listen {text}: TLS needs a certificate; add --tls-cert FILE --tls-key FILE, or --tls-self-signed"
                )));
            }
            Some((scheme, _)) => {
                return Err(Failure::usage(format!(
                    "--listen {text}: {scheme} is not served here; write http or https"
                )));
            }
        };
        Ok(Self { address: resolve("--listen", address)?, is_secured })
    }
}

/// An address of this machine, as a flag has it.
pub fn resolve(flag: &str, text: &str) -> Result<SocketAddr, Failure> {
    let text = text.trim_end_matches('/');
    let fault = |why: String| {
        Failure::usage(format!("{flag} {text}: {why}; write an address and a port, such as 127.0.0.1:8080 or [::1]:0"))
    };
    let mut found = text.to_socket_addrs().map_err(|error| fault(error.to_string()))?;
    found.next().ok_or_else(|| fault("this name has no address".to_owned()))
}
