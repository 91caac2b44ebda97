//! A resolver with a table of names.

use std::net::SocketAddr;
use std::sync::Mutex;

use breme_proxy::{Requester, Resolution, ResolveError, Resolver};

/// Names with their addresses. The resolver answers at once.
#[derive(Clone, Debug, Default)]
pub struct Names {
    names: Vec<(String, Vec<SocketAddr>)>,
}

impl Names {
    /// Adds a name. Without addresses, it resolves to the upstreams.
    pub fn with(mut self, name: &str, addresses: &[&str]) -> Self {
        let addresses = addresses.iter().map(|address| SocketAddr::new(address.parse().unwrap(), 0)).collect();
        self.names.push((name.to_owned(), addresses));
        self
    }

    pub fn resolver(&self, upstreams: Vec<SocketAddr>) -> Table {
        Table { names: self.clone(), upstreams, queries: Mutex::default() }
    }
}

#[derive(Debug)]
pub struct Table {
    names: Names,
    upstreams: Vec<SocketAddr>,
    queries: Mutex<Vec<(String, u16)>>,
}

impl Resolver for Table {
    fn resolve(&self, host: &str, port: u16, _requester: Requester) -> Resolution {
        self.queries.lock().unwrap().push((host.to_owned(), port));
        match self.names.names.iter().find(|(name, _)| name == host) {
            Some((_, addresses)) if addresses.is_empty() => Resolution::Known(self.upstreams.clone()),
            Some((_, addresses)) => {
                Resolution::Known(addresses.iter().map(|address| SocketAddr::new(address.ip(), port)).collect())
            }
            None => Resolution::Failed(ResolveError::NoSuchName),
        }
    }

    fn fetch(&self, _requester: Requester) -> Option<Result<Vec<SocketAddr>, ResolveError>> {
        None
    }

    fn forget(&self, _requester: Requester) {}
}
