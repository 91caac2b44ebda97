//! The parts of a proxy, and errors in its settings.

use std::sync::Arc;

use breme_balance::Group;
use breme_base::WallClock;
use breme_cache::Cache;
use thiserror::Error;

use crate::access_log::AccessLog;
use crate::resolver::Resolver;
use crate::settings::Settings;
use crate::tls_client_ids::TlsClientIds;

/// The parts of a proxy. Those that its mode does not need may be None.
pub struct Parts {
    pub settings: Settings,
    /// The upstreams of a reverse proxy.
    pub group: Option<Arc<Group>>,
    /// The driver's TLS clients by upstream name. An upstream with TLS and no client cannot be used.
    pub tls_clients: TlsClientIds,
    /// Looks up addresses for a forward proxy.
    pub resolver: Option<Arc<dyn Resolver>>,
    pub access_log: Option<Arc<dyn AccessLog>>,
    /// None: nothing is stored.
    pub cache: Option<Arc<Cache>>,
    pub clock: WallClock,
}

impl Parts {
    /// No parts but the settings and a clock.
    #[must_use]
    pub fn new(settings: Settings, clock: WallClock) -> Self {
        Self {
            settings,
            group: None,
            tls_clients: TlsClientIds::default(),
            resolver: None,
            access_log: None,
            cache: None,
            clock,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SettingsError {
    #[error("a reverse proxy needs an upstream")]
    NoUpstreams,
    #[error("a forward proxy needs a resolver")]
    NoResolver,
    #[error("`{0}` is not a valid name for Via; use letters, digits, dots and dashes, as in `edge-1`")]
    Pseudonym(String),
    #[error("`{0}` is not a valid name for CDN-Loop; use a host name of yours, as in `edge.example.org`, or a word")]
    CdnLoop(String),
    /// The fixed Host for upstreams.
    #[error("`{0}` is not a valid Host; write a host with an optional port")]
    Host(String),
    #[error("{}", not_a_network(.0))]
    Network(String),
    /// In `purge_from`.
    #[error("{}", not_a_network(.0))]
    PurgeFrom(String),
    #[error("`{0}` is not a host; write `example.org`, `*.example.org`, an address or a network such as `10.0.0.0/8`")]
    AllowedHost(String),
    /// A relay buffer of 0 bytes.
    #[error("must be at least one byte")]
    RelayBytes,
}

fn not_a_network(text: &str) -> String {
    format!("`{text}` is not a network; write one such as `10.0.0.0/8`, or `unix:` for clients of Unix sockets")
}
