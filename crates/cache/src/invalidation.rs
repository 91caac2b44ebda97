//! What an answer to a request that changes something makes invalid (RFC 9111, 4.4; RFC 9875, 3).
//!
//! Only a good answer does: the target, what Location and Content-Location name, and the groups that
//! Cache-Group-Invalidation names, all of the same origin; so no site can empty another's cache. An answer to a safe
//! request makes nothing invalid.

use std::sync::Arc;

use crate::cache::Cache;
use crate::fields::FieldValues as _;
use crate::fill::Fill;
use crate::key::Key;
use crate::request::ResponseHead;
use crate::structured;

/// Groups that one answer may name; it may not keep the cache busy.
const GROUPS_MAX: usize = 256;

/// See the module. `own` is what collects this very answer: that is not out of date.
pub(crate) fn after(cache: &Arc<Cache>, target: &Key, head: &ResponseHead<'_, '_>, own: Option<&Arc<Fill>>) {
    if !(200..400).contains(&head.status) {
        return;
    }
    cache.invalidate(target, own);
    for name in ["location", "content-location"] {
        if let Some(key) = named(target, head, name) {
            cache.invalidate(&key, own);
        }
    }
    let names = structured::strings(&head.fields, "cache-group-invalidation");
    if !names.is_empty() {
        let names = &names[..names.len().min(GROUPS_MAX)];
        cache.invalidate_groups(target.as_origin(), names);
    }
}

/// Whether the answer says that it is the target's own representation, as a GET would get it (RFC 9110, 8.7).
pub(crate) fn is_of_target(target: &Key, head: &ResponseHead<'_, '_>) -> bool {
    let is_single = head.fields.all("content-location").count() == 1;
    is_single && named(target, head, "content-location").is_some_and(|key| key.as_slice() == target.as_slice())
}

fn named(target: &Key, head: &ResponseHead<'_, '_>, name: &str) -> Option<Key> {
    head.fields.first_value(name).and_then(|reference| target.same_origin(reference))
}
