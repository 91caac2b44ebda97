//! What an answer to a request that changes something makes invalid (RFC 9111, 4.4; RFC 9875, 3).
//!
//! Only a good answer does: the target, what Location and Content-Location name, and the groups that Cache-Group-Invalidation names, all of the
//! same origin; so no site can empty another's cache. An answer to a safe request makes nothing invalid.

use std::sync::Arc;

use crate::asking::{FieldValues as _, ResponseHead};
use crate::cache::Cache;
use crate::key::Key;
use crate::structured;

/// Groups that one answer may name; it may not keep the cache busy.
const GROUPS_MAX: usize = 256;

/// See the module.
pub(crate) fn after(cache: &Arc<Cache>, target: &Key, head: &ResponseHead<'_, '_>) {
    if !(200..400).contains(&head.status) {
        return;
    }
    cache.invalidate(target);
    for name in ["location", "content-location"] {
        if let Some(key) = head.fields.first_value(name).and_then(|reference| target.same_origin(reference)) {
            cache.invalidate(&key);
        }
    }
    let names = structured::strings(&head.fields, "cache-group-invalidation");
    if !names.is_empty() {
        let names = &names[..names.len().min(GROUPS_MAX)];
        cache.invalidate_groups(target.as_origin(), names);
    }
}
