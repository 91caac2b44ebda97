//! Invalidation by unsafe requests (RFC 9111, 4.4; RFC 9875, 3).
//!
//! A successful response invalidates the target, the URLs in Location and Content-Location, and the groups in
//! Cache-Group-Invalidation, all on the same origin only.

use std::sync::Arc;

use crate::cache::Cache;
use crate::fields::FieldValues as _;
use crate::fill::Fill;
use crate::key::Key;
use crate::request::ResponseHead;
use crate::structured_fields;

/// Groups per response, so that no response blocks the cache.
const GROUPS_MAX: usize = 256;

/// `own` is the fill of this response, which stays valid.
pub(crate) fn apply(cache: &Arc<Cache>, target: &Key, head: &ResponseHead<'_, '_>, own: Option<&Arc<Fill>>) {
    if !(200..400).contains(&head.status) {
        return;
    }
    cache.invalidate(target, own);
    for name in ["location", "content-location"] {
        if let Some(key) = resolve_header(target, head, name) {
            cache.invalidate(&key, own);
        }
    }
    let names = structured_fields::strings(&head.fields, "cache-group-invalidation");
    if !names.is_empty() {
        let names = &names[..names.len().min(GROUPS_MAX)];
        cache.invalidate_groups(target.as_origin(), names);
    }
}

/// Whether the response is the representation that a GET of the target would get (RFC 9110, 8.7).
pub(crate) fn is_target_representation(target: &Key, head: &ResponseHead<'_, '_>) -> bool {
    let is_single = head.fields.all("content-location").count() == 1;
    is_single && resolve_header(target, head, "content-location").is_some_and(|key| key.as_slice() == target.as_slice())
}

fn resolve_header(target: &Key, head: &ResponseHead<'_, '_>, name: &str) -> Option<Key> {
    head.fields.first_value(name).and_then(|reference| target.same_origin(reference))
}
