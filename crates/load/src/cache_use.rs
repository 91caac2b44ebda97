//! Whether a response came from a cache, by its Cache-Status (RFC 9211).

use sfv::{BareItem, List, ListEntry, Parser};

use breme_http::Fields;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheUse {
    /// A cache responded without forwarding the request.
    Hit,
    /// Every cache on the path forwarded the request.
    Miss,
    /// No Cache-Status, or a malformed one.
    Unsaid,
}

impl CacheUse {
    pub(crate) fn from_fields(fields: &Fields<'_, '_>) -> Self {
        let mut value: Vec<u8> = Vec::new();
        for line in fields.all("Cache-Status") {
            if !value.is_empty() {
                value.extend_from_slice(b", ");
            }
            value.extend_from_slice(line);
        }
        Self::read(&value)
    }

    /// The list has a member per cache.
    fn read(value: &[u8]) -> Self {
        if value.is_empty() {
            return Self::Unsaid;
        }
        let Ok(caches) = Parser::new(value).parse::<List>() else { return Self::Unsaid };
        match (caches.is_empty(), caches.iter().any(is_hit)) {
            (true, _) => Self::Unsaid,
            (false, true) => Self::Hit,
            (false, false) => Self::Miss,
        }
    }
}

fn is_hit(cache: &ListEntry) -> bool {
    let ListEntry::Item(item) = cache else { return false };
    item.params.get("hit").is_some_and(|hit| matches!(hit, BareItem::Boolean(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_in_any_cache_is_a_hit() {
        for (value, expected) in [
            ("", CacheUse::Unsaid),
            ("breme; hit; ttl=30", CacheUse::Hit),
            ("breme;hit", CacheUse::Hit),
            ("\"my cache\"; hit=?1", CacheUse::Hit),
            ("origin-shield; hit; ttl=1, edge; fwd=uri-miss; stored", CacheUse::Hit),
            ("breme; fwd=uri-miss; fwd-status=200; stored", CacheUse::Miss),
            ("breme; hit=?0", CacheUse::Miss),
            ("breme; fwd=miss; detail=\"a; hit\"", CacheUse::Miss),
            ("breme; hit;;", CacheUse::Unsaid),
            ("HIT from cache", CacheUse::Unsaid),
        ] {
            assert_eq!(CacheUse::read(value.as_bytes()), expected, "{value}");
        }
    }
}
