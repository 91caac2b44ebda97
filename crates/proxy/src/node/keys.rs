//! The keys of a shard's tables, and the owners of its connections.

use std::net::SocketAddr;
use std::num::NonZeroU32;

use breme_node::{ConnectionId, TlsClientId};

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            // One more than the index: an `Option` of it is as small.
            pub(crate) struct $name(NonZeroU32);

            impl $name {
                pub(crate) fn new(index: usize) -> Self {
                    Self(NonZeroU32::MIN.saturating_add(index as u32))
                }

                pub(crate) fn index(self) -> usize {
                    self.0.get() as usize - 1
                }

                #[allow(dead_code, reason = "not all of them have deadlines")]
                pub(crate) fn timer(self) -> u32 {
                    self.0.get() - 1
                }
            }
        )*
    };
}

keys! {
    /// Index of an accepted connection.
    ClientKey;
    /// Index of an upstream connection.
    UpstreamKey;
    /// Index of an exchange.
    ExchangeKey;
    /// Index of a pending connection.
    ConnectingKey;
}

impl ExchangeKey {
    /// The message that wakes the exchange with this number.
    pub(crate) fn message(self, number: u32) -> u64 {
        (self.index() as u64) << u32::BITS | u64::from(number)
    }
}

/// Identifies an entry of the replay cache until it is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplayKey {
    pub(super) position: usize,
    pub(super) number: u64,
}

/// The peer of an upstream connection; connections in a pool have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EndpointKey {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<TlsClientId>,
}

/// Numbers the health checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckNumber(pub(super) u32);

/// The owner of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Owner {
    #[default]
    None,
    Client(ClientKey),
    UpstreamConnection(UpstreamKey),
    Check(CheckNumber),
}

#[derive(Debug, Default)]
pub(crate) struct Owners(Vec<Owner>);

impl Owners {
    /// The last owner of a connection with this index.
    pub(crate) fn get(&self, index: usize) -> Owner {
        self.0.get(index).copied().unwrap_or_default()
    }

    pub(crate) fn set(&mut self, id: ConnectionId, owner: Owner) {
        if id.index() >= self.0.len() {
            self.0.resize(id.index() + 1, Owner::None);
        }
        self.0[id.index()] = owner;
    }

    pub(crate) fn clear(&mut self, id: ConnectionId) {
        if let Some(owner) = self.0.get_mut(id.index()) {
            *owner = Owner::None;
        }
    }
}
