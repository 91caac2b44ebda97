//! The one place where an upstream is chosen.

use std::net::SocketAddr;
use std::sync::Arc;

/// The upstreams of a reverse proxy, for all shards.
#[derive(Clone, Debug)]
pub struct Upstreams {
    list: Arc<[Upstream]>,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// The authority of its URL: what it is called in messages, metrics and, if the rule says so, in Host.
    pub name: Arc<str>,
    /// Where it is.
    pub address: SocketAddr,
    /// It is spoken to over TLS.
    pub tls: bool,
}

impl Upstreams {
    /// A fixed list, asked in turn.
    #[must_use]
    pub fn fixed(list: Vec<Upstream>) -> Self {
        Self { list: list.into() }
    }
}
