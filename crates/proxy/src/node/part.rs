//! What the cache holds of an exchange, and what it wants done with it.

use breme_base::Instant;
use breme_cache::{CachedResponse, Follower, Forward};
use breme_http1::FieldBlock;

/// What the cache holds of an exchange.
#[derive(Debug, Default)]
pub(crate) enum Part {
    /// Nothing (any more).
    #[default]
    Nothing,
    /// It fetches.
    Forward(Box<Forward>),
    /// It fetched, and the client gets this when upstream's answer is over.
    Kept(Box<CachedResponse>),
    /// It reads what another one fetches.
    Follow(Box<Follower>),
    /// The same, and its answer's head is out.
    Read(Box<Follower>),
}

impl Part {
    /// Until when an exchange may wait for another one, if it may until `limit` at most.
    pub(super) fn patience(&self, limit: Instant) -> Instant {
        match self {
            Self::Follow(follower) => limit.min(follower.deadline()),
            _ => limit,
        }
    }
}

/// What is to become of a request.
#[derive(Debug)]
pub(super) enum Asking {
    /// It was answered, and its exchange is over.
    Answered,
    /// Another exchange is fetching it.
    Waiting,
    /// Ask upstream, with these conditions instead of the client's, if there are any.
    Upstream { conditions: Option<FieldBlock> },
}

/// What is to become of an answer's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taking {
    /// It goes to the client, with its content.
    Relay,
    /// Neither it nor its content goes to the client.
    Keep,
}
