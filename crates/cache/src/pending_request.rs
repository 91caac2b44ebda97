//! A request without a response yet.

use std::sync::Arc;

use breme_base::Instant;
use breme_http::Method;

use crate::cached_response::{CachedResponse, ResponseOptions};
use crate::directives::RequestDirectives;
use crate::fields::{FieldValues as _, SavedFields};
use crate::key::{Key, KeyHash};
use crate::request::{Now, Request};
use crate::settings::CacheSettings;
use crate::status::CacheStatus;
use crate::storability::RequestTraits;
use crate::store::StoredResponse;
use crate::validation::is_conditional;

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
    pub(crate) fn new(
        key: Key,
        hash: KeyHash,
        request: &Request<'_, '_>,
        directives: RequestDirectives,
        settings: &CacheSettings,
        now: Instant,
    ) -> Self {
        let fields = request.fields;
        Self {
            key,
            hash,
            saved_fields: SavedFields::new(request),
            is_head: request.method == Method::Head,
            directives,
            traits: RequestTraits::new(&fields, directives.no_store, settings),
            requested_at: now,
            is_conditional: is_conditional(&fields),
            needs_origin: fields.has("if-match") || fields.has("if-unmodified-since"),
            has_waited: false,
        }
    }

    /// Builds the response to this request from a stored one.
    pub(crate) fn response(
        &self,
        stored: &Arc<StoredResponse>,
        now: Now,
        settings: &CacheSettings,
        status: CacheStatus,
    ) -> CachedResponse {
        let options = ResponseOptions { is_head: self.is_head, now, ranges_max: settings.ranges_max };
        CachedResponse::from_stored(stored, &self.saved_fields, options, status)
    }

    /// Whether it gets the complete response with 200.
    pub(crate) const fn is_plain(&self) -> bool {
        !self.is_head && !self.is_conditional && !self.traits.has_range
    }
}
