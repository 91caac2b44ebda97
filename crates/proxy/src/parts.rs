//! The parts of a proxy, and errors in its settings.

use std::fmt;
use std::sync::Arc;

use breme_balance::Group;
use breme_base::WallClock;
use breme_cache::Cache;

use crate::access_log::AccessLog;
use crate::resolver::Resolver;
use crate::settings::Settings;
use crate::tls_names::TlsNames;

/// The parts of a proxy. Those that its mode does not need may be None.
pub struct Parts {
    pub settings: Settings,
    /// The upstreams of a reverse proxy.
    pub group: Option<Arc<Group>>,
    /// The driver's TLS clients by upstream name. An upstream with TLS and no client cannot be used.
    pub tls_clients: TlsNames,
    /// Looks up addresses for a forward proxy.
    pub resolver: Option<Arc<dyn Resolver>>,
    pub access_log: Option<Arc<dyn AccessLog>>,
    /// None: nothing is stored.
    pub cache: Option<Arc<Cache>>,
    pub clock: WallClock,
}

impl Parts {
    /// Only settings and a clock.
    #[must_use]
    pub fn new(settings: Settings, clock: WallClock) -> Self {
        Self {
            settings,
            group: None,
            tls_clients: TlsNames::default(),
            resolver: None,
            access_log: None,
            cache: None,
            clock,
        }
    }
}

/// Invalid settings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingsError {
    /// A reverse proxy without upstreams.
    NoUpstreams,
    /// A forward proxy without a resolver.
    NoResolver,
    /// The name of the proxy is not a token.
    Pseudonym(String),
    /// The name for CDN-Loop is neither a host with an optional port nor a token.
    CdnLoop(String),
    /// The fixed Host for upstreams is not a host with an optional port.
    Host(String),
    /// Not a network.
    Network(String),
    /// Not a network, in `purge_from`.
    PurgeFrom(String),
    /// Not a host.
    AllowedHost(String),
    /// With a relay buffer of 0 bytes nothing could be relayed.
    RelayBytes,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoUpstreams => formatter.write_str("a reverse proxy needs an upstream"),
            Self::NoResolver => formatter.write_str("a forward proxy needs a resolver"),
            Self::Pseudonym(name) => {
                write!(
                    formatter,
                    "`{name}` is not a valid name for Via; use letters, digits, dots and dashes, as in `edge-1`"
                )
            }
            Self::CdnLoop(name) => {
                write!(
                    formatter,
                    "`{name}` is not a valid name for CDN-Loop; use a host name of yours, as in `edge.example.org`, or a word"
                )
            }
            Self::Host(host) => write!(formatter, "`{host}` is not a valid Host; write a host with an optional port"),
            Self::Network(text) | Self::PurgeFrom(text) => {
                write!(
                    formatter,
                    "`{text}` is not a network; write one such as `10.0.0.0/8`, or `unix:` for clients of Unix sockets"
                )
            }
            Self::AllowedHost(text) => write!(
                formatter,
                "`{text}` is not a host; write `example.org`, `*.example.org`, an address or a network such as `10.0.0.0/8`"
            ),
            Self::RelayBytes => formatter.write_str("must be at least one byte"),
        }
    }
}

impl std::error::Error for SettingsError {}
