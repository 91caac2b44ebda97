//! An immutable snapshot of the group, as requests read it.
//!
//! When health, weights, addresses or cookies change, which is rare, a new snapshot replaces the old one with a single
//! store. A request reads one snapshot, takes no lock and allocates nothing.
//! What changes with each request is in [`Upstream`], which outlives snapshots.

use std::net::SocketAddr;
use std::sync::Arc;

use breme_base::Instant;

use crate::affinity_cookies::AffinityCookies;
use crate::rotation::Rotation;
use crate::upstream::{Upstream, UpstreamId};
use crate::{Policy, StatusSet};

#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) rules: Arc<RequestRules>,
    /// All upstreams in the order of the list.
    pub(crate) members: Box<[Member]>,
    /// Upstreams that get new clients.
    pub(crate) candidates: Box<[Candidate]>,
    pub(crate) weight_sum: u64,
    pub(crate) weights_are_equal: bool,
    /// The cycle of the candidates, for round robin.
    pub(crate) rotation: Rotation,
    pub(crate) affinity_cookies: Option<Arc<AffinityCookies>>,
    /// By id index; including removed upstreams with outstanding requests.
    pub(crate) slots: Box<[Option<SnapshotSlot>]>,
    /// When the snapshot becomes outdated.
    pub(crate) expires_at: Instant,
}

/// Settings that requests read.
#[derive(Debug)]
pub(crate) struct RequestRules {
    pub(crate) policy: Policy,
    pub(crate) outstanding_max: u32,
    pub(crate) hash_load_percent_max: u32,
    /// Responses that count as failures.
    pub(crate) failure_statuses: Option<StatusSet>,
    /// Consecutive failures that are checked for ejection; 0: never.
    pub(crate) failures_in_row: u32,
    /// Each failure is checked for ejection.
    pub(crate) checks_failure_share: bool,
    /// Requests do not wait for an upstream that failed its health checks.
    pub(crate) aborts_requests: bool,
}

/// An upstream of the list.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) addresses: Arc<[SocketAddr]>,
    pub(crate) admits: AdmittedClients,
    /// By its health checks.
    pub(crate) is_down: bool,
}

/// Which clients an upstream gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmittedClients {
    All,
    /// Those whose cookie names it: it is drained.
    Sessions,
    None,
}

/// An upstream that gets new clients.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) upstream: Arc<Upstream>,
    /// Its index among the members.
    pub(crate) index: usize,
    /// In tenths, for slow start.
    pub(crate) weight: u32,
    pub(crate) weight_inverse: f64,
}

#[derive(Debug)]
pub(crate) struct SnapshotSlot {
    pub(crate) upstream: Arc<Upstream>,
    /// Its index among the members; None: removed.
    pub(crate) index: Option<usize>,
}

impl Snapshot {
    /// The upstream with an id, unless it has been removed.
    pub(crate) fn slot(&self, id: UpstreamId) -> Option<&SnapshotSlot> {
        self.slots.get(id.index())?.as_ref().filter(|slot| slot.upstream.id == id)
    }

    /// The addresses of an upstream; empty if it was removed.
    pub(crate) fn addresses(&self, slot: &SnapshotSlot) -> &[SocketAddr] {
        slot.index.and_then(|index| self.members.get(index)).map_or(&[], |member| &member.addresses)
    }
}
