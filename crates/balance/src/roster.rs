//! The group as a request finds it: a picture that does not change.
//!
//! Everything that changes seldom (who is up, weights, addresses, cookies) is worked out when it changes and put into a
//! new roster, which takes the place of the old one in a single store. A request reads one roster from its beginning to
//! its end, takes no lock and allocates nothing. What changes with each request stands in [`Upstream`], which outlives
//! the rosters.

use std::net::SocketAddr;
use std::sync::Arc;

use breme_base::Instant;

use crate::rotation::Rotation;
use crate::stickiness::Stickiness;
use crate::upstream::{Upstream, UpstreamId};
use crate::{Policy, StatusSet};

/// One state of a group.
#[derive(Debug)]
pub(crate) struct Roster {
    pub(crate) rules: Arc<Rules>,
    /// All upstreams, in the order of the list.
    pub(crate) members: Box<[Member]>,
    /// Those who may be asked by anybody.
    pub(crate) candidates: Box<[Candidate]>,
    /// The sum of the candidates' weights.
    pub(crate) weight_sum: u64,
    pub(crate) weights_are_equal: bool,
    /// The candidates' turns, for round robin.
    pub(crate) rotation: Rotation,
    pub(crate) stickiness: Option<Arc<Stickiness>>,
    /// By the index of their ids; also those that were removed and still have requests outstanding.
    pub(crate) slots: Box<[Option<Slot>]>,
    /// From then on this roster is out of date.
    pub(crate) renew_at: Instant,
}

/// What is always the same until somebody changes the settings.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) policy: Policy,
    pub(crate) outstanding_max: u32,
    pub(crate) hash_load_percent_max: u32,
    /// Answers that count as failures.
    pub(crate) failure_statuses: Option<StatusSet>,
    /// Failures in a row that are worth a judgement; 0: none.
    pub(crate) failures_in_row: u32,
    /// Each failure is worth a judgement.
    pub(crate) judges_share: bool,
}

/// An upstream of the list.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) addresses: Arc<[SocketAddr]>,
    pub(crate) admits: Admission,
}

/// Who may be sent to an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Everyone,
    /// Those whose cookie names it: it is being drained.
    Sessions,
    Nobody,
}

/// Who may be asked by anybody.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) upstream: Arc<Upstream>,
    /// Its place among the members.
    pub(crate) place: usize,
    /// In tenths, so that a slow start can take parts of it.
    pub(crate) weight: u32,
    pub(crate) weight_inverse: f64,
}

/// An upstream by its id.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) upstream: Arc<Upstream>,
    /// Its place among the members; none: removed.
    pub(crate) place: Option<usize>,
}

impl Roster {
    /// The upstream of an id, unless it is gone.
    pub(crate) fn slot(&self, id: UpstreamId) -> Option<&Slot> {
        self.slots.get(id.index())?.as_ref().filter(|slot| slot.upstream.id == id)
    }

    /// The addresses of an upstream that is still in the list.
    pub(crate) fn addresses(&self, slot: &Slot) -> &[SocketAddr] {
        slot.place.and_then(|place| self.members.get(place)).map_or(&[], |member| &member.addresses)
    }
}
