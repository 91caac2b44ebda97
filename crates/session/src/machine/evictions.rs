//! Room in memory: which sessions may leave it, in what order, and the bytes of those that are in it.

use std::collections::BTreeSet;

use breme_base::Instant;

use super::Machine;
use crate::id::SessionKey;

/// What leaves memory with a session. The least valuable comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Content {
    /// The name of its owner, another node, which can be read again.
    Owner,
    /// The contents of an idle session of this node, which can be claimed again.
    Body,
}

/// The place of a session in the order of eviction: of two with the same content, the one that expires next goes first.
type Rank = (Content, Instant);

/// What a session contributes to [`Room`].
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(crate) struct Share {
    rank: Option<Rank>,
    bytes: usize,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    evictable: BTreeSet<(Rank, SessionKey)>,
    /// Of the contents of all sessions.
    bytes: usize,
}

impl Share {
    /// Of a session with `bytes` of contents; `content` and its deadline if it may be evicted.
    pub(crate) fn new(content: Option<Content>, deadline: Instant, bytes: usize) -> Self {
        Self { rank: content.map(|content| (content, deadline)), bytes }
    }
}

impl Room {
    pub(crate) fn replace(&mut self, key: SessionKey, before: Share, after: Share) {
        self.bytes = self.bytes - before.bytes + after.bytes;
        if before.rank == after.rank {
            return;
        }
        if let Some(rank) = before.rank {
            self.evictable.remove(&(rank, key));
        }
        if let Some(rank) = after.rank {
            self.evictable.insert((rank, key));
        }
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first session to be evicted among those with this content, or more.
    fn first(&self, content: Content) -> Option<SessionKey> {
        let start = ((content, Instant::ZERO), SessionKey::from_bytes([0; 16]));
        self.evictable.range(start..).next().map(|(_, key)| *key)
    }
}

impl Machine {
    /// Whether one more session has room in memory; evicts another one if necessary.
    pub(crate) fn makes_room(&mut self) -> bool {
        let has_place = self.sessions.len() < self.settings.sessions_max || self.evict(Content::Owner);
        has_place && self.room.bytes() <= self.settings.memory_max
    }

    /// Evicts idle sessions until the contents of the others are within their limit, or all are in use.
    pub(crate) fn keep_memory_bound(&mut self) {
        while self.room.bytes() > self.settings.memory_max && self.evict(Content::Body) {}
    }

    fn evict(&mut self, content: Content) -> bool {
        self.room.first(content).map(|key| self.remove_session(key)).is_some()
    }
}
