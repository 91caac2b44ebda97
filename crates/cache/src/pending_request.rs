//! A request without a response yet.

use breme_base::Instant;

use crate::cached_response::ResponseOptions;
use crate::directives::RequestDirectives;
use crate::fields::SavedFields;
use crate::key::{Key, KeyHash};
use crate::storability::RequestTraits;
use crate::{Now, Settings};

#[derive(Clone, Debug)]
pub(crate) struct PendingRequest {
    pub(crate) key: Key,
    pub(crate) hash: KeyHash,
    pub(crate) saved_fields: SavedFields,
    pub(crate) is_head: bool,
    pub(crate) directives: RequestDirectives,
    pub(crate) traits: RequestTraits,
    pub(crate) requested_at: Instant,
    pub(crate) is_conditional: bool,
    /// It has If-Match or If-Unmodified-Since, which only the origin evaluates.
    pub(crate) needs_origin: bool,
    /// It followed a fill that failed.
    pub(crate) has_waited: bool,
}

impl PendingRequest {
    pub(crate) fn options(&self, now: Now, settings: &Settings) -> ResponseOptions {
        ResponseOptions { is_head: self.is_head, now, ranges_max: settings.ranges_max }
    }

    /// Whether it gets the complete response with 200.
    pub(crate) const fn is_plain(&self) -> bool {
        !self.is_head && !self.is_conditional && !self.traits.has_range
    }
}
