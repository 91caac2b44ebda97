//! What all shards of a proxy share: validated settings, upstreams, cache, limits, counters.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use breme_balance::Group;
use breme_base::WallClock;
use breme_cache::Cache;
use breme_http::{Fields, is_authority};

use crate::access_log::AccessLog;
use crate::client_limits::ClientTable;
use crate::counters::Counters;
use crate::forwarded::parse_forwarded_client;
use crate::loop_marks::LoopMarks;
use crate::networks::ClientSet;
use crate::parts::{Parts, SettingsError};
use crate::queue::Queue;
use crate::resolver::Resolver;
use crate::retry_budget::RetryBudget;
use crate::settings::{HostRule, Mode, Settings};
use crate::targets::TargetRules;
use crate::tls_client_ids::TlsClientIds;

pub(crate) struct SharedState {
    pub(crate) settings: Settings,
    pub(crate) role: Role,
    pub(crate) tls_clients: TlsClientIds,
    pub(crate) trusted: ClientSet,
    /// Clients that may use PURGE.
    pub(crate) purgers: ClientSet,
    pub(crate) access_log: Option<Arc<dyn AccessLog>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) clients: Arc<ClientTable>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) retry_budget: Arc<RetryBudget>,
    pub(crate) cache: Option<Arc<Cache>>,
    pub(crate) clock: WallClock,
    pub(crate) loop_marks: LoopMarks,
}

/// The mode with what it needs.
pub(crate) enum Role {
    Reverse { host: HostRule, group: Arc<Group> },
    Forward { rules: TargetRules, resolver: Arc<dyn Resolver> },
}

impl SharedState {
    pub(crate) fn new(parts: Parts) -> Result<Self, SettingsError> {
        let Parts { settings, group, tls_clients, resolver, access_log, clock, cache } = parts;
        let pseudonym = &settings.identity.pseudonym;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if pseudonym.is_empty() || !pseudonym.bytes().all(is_name) {
            return Err(SettingsError::Pseudonym(pseudonym.clone()));
        }
        if settings.relay_bytes_max == 0 {
            return Err(SettingsError::RelayBytes);
        }
        let trusted = ClientSet::parse(&settings.identity.trusted).map_err(SettingsError::Network)?;
        let purgers = ClientSet::parse(&settings.purge_from).map_err(SettingsError::PurgeFrom)?;
        let loop_marks = LoopMarks::new(&settings)?;
        let role = Role::new(&settings.mode, group, resolver)?;
        let clients = Arc::new(ClientTable::new(settings.seed));
        let (counters, queue, retry_budget) = (Arc::new(Counters::default()), Arc::default(), Arc::default());
        Ok(Self {
            role,
            tls_clients,
            trusted,
            purgers,
            access_log,
            counters,
            clients,
            queue,
            retry_budget,
            cache,
            clock,
            loop_marks,
            settings,
        })
    }

    /// `client`: none for a client of a Unix socket.
    pub(crate) fn is_trusted(&self, client: Option<IpAddr>) -> bool {
        self.trusted.contains(client)
    }

    /// The client that a trusted proxy names in Forwarded or X-Forwarded-For.
    pub(crate) fn forwarded_client(&self, is_trusted: bool, fields: Fields<'_, '_>) -> Option<IpAddr> {
        if is_trusted { parse_forwarded_client(fields, |address| self.is_trusted(Some(address))) } else { None }
    }
}

impl Role {
    /// The forwarded methods, as in Allow.
    pub(crate) fn methods(&self) -> &'static [u8] {
        match self {
            Self::Reverse { .. } => b"GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS",
            Self::Forward { .. } => b"GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS, CONNECT",
        }
    }

    /// The balancer of a reverse proxy.
    pub(crate) fn group(&self) -> Option<&Group> {
        match self {
            Self::Reverse { group, .. } => Some(group),
            Self::Forward { .. } => None,
        }
    }

    fn new(mode: &Mode, group: Option<Arc<Group>>, resolver: Option<Arc<dyn Resolver>>) -> Result<Self, SettingsError> {
        match mode {
            Mode::Reverse { host } => {
                if let HostRule::Fixed(fixed) = host
                    && !is_authority(fixed)
                {
                    return Err(SettingsError::Host(fixed.clone()));
                }
                let group = group.ok_or(SettingsError::NoUpstreams)?;
                Ok(Self::Reverse { host: host.clone(), group })
            }
            Mode::Forward(rules) => {
                let rules = TargetRules::new(rules).map_err(SettingsError::AllowedHost)?;
                Ok(Self::Forward { rules, resolver: resolver.ok_or(SettingsError::NoResolver)? })
            }
        }
    }
}

impl fmt::Debug for SharedState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SharedState").field("settings", &self.settings).finish_non_exhaustive()
    }
}
