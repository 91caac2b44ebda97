//! The requests that one shard forwards without parsing them, each with the last response to it.

use std::sync::Arc;

use breme_http1::{ReplayCache, ReplayHead};

use super::keys::ReplayKey;
use super::log_entry::LoggedRequest;
use super::tables::RequestInfo;

/// Entries per shard; heads are limited in length. Clients with cookies have heads of their own, so many slots are
/// needed.
const SLOTS: usize = 1024;

#[derive(Debug)]
pub(crate) struct RelayReplayCache {
    requests: ReplayCache<RelayReplay, SLOTS>,
    /// Entries inserted so far, to number them.
    count: u64,
}

/// A forwarded request, and the last response to it.
#[derive(Debug)]
pub(crate) struct RelayReplay {
    number: u64,
    pub(super) request: RelayedRequest,
    /// The upstream's last response head.
    pub(crate) response: ReplayHead,
    /// What was sent to the client for it.
    pub(crate) response_head: Vec<u8>,
    /// The balancer's cookie is added to it.
    pub(crate) sets_affinity: bool,
}

/// What is forwarded for a request head.
#[derive(Debug)]
pub(super) struct RelayedRequest {
    pub(super) is_secured: bool,
    /// The head sent upstream, up to the fields that describe the client.
    pub(super) front: Box<[u8]>,
    pub(super) authority: Option<Box<str>>,
    pub(super) request_info: RequestInfo,
    pub(super) needs_host: bool,
    pub(super) key_hash: u64,
    /// Cookies for the balancer, which evaluates them for each request.
    pub(super) cookies: Option<Arc<[u8]>>,
    pub(super) logged_request: Option<Arc<LoggedRequest>>,
}

impl RelayReplayCache {
    pub(crate) fn new(seed: u64) -> Self {
        Self { requests: ReplayCache::new(seed, usize::MAX), count: 0 }
    }

    /// The entry for the request at the start of `input`, and the length of its head.
    #[inline]
    pub(crate) fn find(&mut self, input: &[u8], is_secured: bool) -> Option<(ReplayKey, usize)> {
        let (position, request) = self.requests.find(input, |replay| replay.request.is_secured == is_secured)?;
        Some((ReplayKey { position, number: request.value.number }, request.head_bytes()))
    }

    #[inline]
    pub(crate) fn replay(&mut self, key: ReplayKey) -> Option<&mut RelayReplay> {
        let replay = &mut self.requests.entry(key.position)?.value;
        (replay.number == key.number).then_some(replay)
    }

    pub(crate) fn should_insert(&mut self, head: &[u8]) -> bool {
        self.requests.should_insert(head, |_| false)
    }

    pub(super) fn insert(&mut self, head: &[u8], request: RelayedRequest) -> Option<ReplayKey> {
        self.count += 1;
        let number = self.count;
        let value_bytes = request.front.len();
        let replay = RelayReplay {
            number,
            request,
            response: ReplayHead::new(),
            response_head: Vec::new(),
            sets_affinity: false,
        };
        let position = self.requests.insert(head, replay, value_bytes)?;
        Some(ReplayKey { position, number })
    }
}
