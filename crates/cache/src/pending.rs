//! A request whose answer is not there yet.

use breme_base::Instant;

use crate::answer::Look;
use crate::directives::RequestDirectives;
use crate::fields::Kept;
use crate::key::{Key, KeyHash};
use crate::storing::RequestTraits;
use crate::{Moment, Settings};

/// A request, kept for as long as its answer is not there.
#[derive(Clone, Debug)]
pub(crate) struct AskedFor {
    pub(crate) key: Key,
    pub(crate) hash: KeyHash,
    pub(crate) kept: Kept,
    pub(crate) is_head: bool,
    pub(crate) directives: RequestDirectives,
    pub(crate) traits: RequestTraits,
    pub(crate) at: Instant,
    pub(crate) is_conditional: bool,
    /// It has conditions that only the origin can judge.
    pub(crate) is_for_origin: bool,
    /// It has waited for an answer to the same that never came.
    pub(crate) went_unanswered: bool,
}

impl AskedFor {
    /// How it looks at what is stored.
    pub(crate) fn look(&self, moment: Moment, settings: &Settings) -> Look {
        Look { is_head: self.is_head, moment, ranges_max: settings.ranges_max }
    }

    /// Whether it gets the whole response, whatever the client has.
    pub(crate) const fn is_plain(&self) -> bool {
        !self.is_head && !self.is_conditional && !self.traits.has_range
    }
}
