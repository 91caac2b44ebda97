//! A stored response: immutable, with serialised headers; Age and Cache-Status are added when it is sent.
//!
//! Key, variant and body share one buffer, so a response takes three allocations: struct, headers, bytes. A hit changes
//! two counters.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, Ordering};

use breme_base::Instant;
use breme_http::FieldBlock;
use bytes::Bytes;

/// Two-bit use counter (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023).
const USES_MAX: u8 = 3;
/// Allocator overhead per allocation.
const ALLOCATION_BYTES: usize = 16;
const REMOVED: u32 = 1 << 31;

/// How a stored response may be reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReuseTerms {
    /// The instant at which its age was `initial_age_s`.
    pub(crate) age_from: Instant,
    pub(crate) initial_age_s: u32,
    /// From `age_from`; negative if already stale.
    pub(crate) fresh_for_s: i64,
    pub(crate) stale_while_revalidate_s: u32,
    /// None: as configured.
    pub(crate) stale_if_error_s: Option<u32>,
    pub(crate) forbids_stale: bool,
    pub(crate) allows_authorization: bool,
    pub(crate) is_immutable: bool,
    pub(crate) has_groups: bool,
    /// A pass marker and not a response.
    pub(crate) is_pass: bool,
}

#[derive(Debug)]
pub(crate) struct StoredResponse {
    /// Key, variant, body.
    bytes: Bytes,
    block: FieldBlock,
    age_from: Instant,
    /// Monotonic time; may be negative.
    fresh_until_ns: AtomicI64,
    initial_age_s: u32,
    stale_while_revalidate_s: u32,
    stale_if_error_s: u32,
    key_bytes: u32,
    variant_bytes: u32,
    hits: AtomicU32,
    /// Highest bit: removed. Others: count of newer variants stored.
    version: AtomicU32,
    status: u16,
    flags: u8,
    uses: AtomicU8,
}

const FORBIDS_STALE: u8 = 1;
const ALLOWS_AUTHORIZATION: u8 = 2;
const HAS_GROUPS: u8 = 4;
const IS_PASS: u8 = 8;
const IS_IMMUTABLE: u8 = 16;
/// As configured.
const UNSET_S: u32 = u32::MAX;
const NANOS: i64 = 1_000_000_000;

/// Lengths of key and variant in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredLayout {
    pub(crate) key_bytes: u32,
    pub(crate) variant_bytes: u32,
}

impl StoredLayout {
    pub(crate) const fn body_offset(self) -> usize {
        self.key_bytes as usize + self.variant_bytes as usize
    }
}

impl StoredResponse {
    /// `bytes` are key, variant and body.
    pub(crate) fn new(
        status: u16,
        mut block: FieldBlock,
        bytes: Bytes,
        layout: StoredLayout,
        terms: ReuseTerms,
    ) -> Self {
        block.shrink_to_fit();
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(terms.forbids_stale, FORBIDS_STALE)
            | flag(terms.allows_authorization, ALLOWS_AUTHORIZATION)
            | flag(terms.has_groups, HAS_GROUPS)
            | flag(terms.is_pass, IS_PASS)
            | flag(terms.is_immutable, IS_IMMUTABLE);
        let age_from_ns = i64::try_from(terms.age_from.as_nanos()).unwrap_or(i64::MAX);
        Self {
            bytes,
            block,
            age_from: terms.age_from,
            fresh_until_ns: AtomicI64::new(age_from_ns.saturating_add(terms.fresh_for_s.saturating_mul(NANOS))),
            initial_age_s: terms.initial_age_s,
            stale_while_revalidate_s: terms.stale_while_revalidate_s,
            stale_if_error_s: terms.stale_if_error_s.unwrap_or(UNSET_S),
            key_bytes: layout.key_bytes,
            variant_bytes: layout.variant_bytes,
            hits: AtomicU32::new(0),
            version: AtomicU32::new(0),
            status,
            flags,
            uses: AtomicU8::new(0),
        }
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.bytes[..self.key_bytes as usize]
    }

    /// The request headers it matches, by its Vary; empty: all.
    pub(crate) fn variant(&self) -> &[u8] {
        &self.bytes[self.key_bytes as usize..self.body_offset()]
    }

    const fn body_offset(&self) -> usize {
        self.layout().body_offset()
    }

    pub(crate) const fn layout(&self) -> StoredLayout {
        StoredLayout { key_bytes: self.key_bytes, variant_bytes: self.variant_bytes }
    }

    /// Key, variant and body.
    pub(crate) fn shared_bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    pub(crate) fn body(&self) -> Bytes {
        self.bytes.slice(self.body_offset()..)
    }

    pub(crate) fn body_bytes(&self) -> u64 {
        (self.bytes.len() - self.body_offset()) as u64
    }

    pub(crate) const fn block(&self) -> &FieldBlock {
        &self.block
    }

    pub(crate) const fn status(&self) -> u16 {
        self.status
    }

    pub(crate) const fn is_pass(&self) -> bool {
        self.flags & IS_PASS != 0
    }

    /// Partial content; has exactly one Content-Range.
    pub(crate) const fn is_part(&self) -> bool {
        self.status == 206
    }

    pub(crate) const fn has_groups(&self) -> bool {
        self.flags & HAS_GROUPS != 0
    }

    pub(crate) const fn allows_authorization(&self) -> bool {
        self.flags & ALLOWS_AUTHORIZATION != 0
    }

    pub(crate) const fn is_immutable(&self) -> bool {
        self.flags & IS_IMMUTABLE != 0
    }

    pub(crate) const fn forbids_stale(&self) -> bool {
        self.flags & FORBIDS_STALE != 0
    }

    pub(crate) const fn stale_while_revalidate_s(&self) -> u32 {
        self.stale_while_revalidate_s
    }

    /// None if unspecified.
    pub(crate) const fn stale_if_error_s(&self) -> Option<u32> {
        if self.stale_if_error_s == UNSET_S { None } else { Some(self.stale_if_error_s) }
    }

    /// current_age (RFC 9111, 4.2.3).
    pub(crate) fn age_s(&self, now: Instant) -> u64 {
        u64::from(self.initial_age_s) + now.since(self.age_from).as_secs()
    }

    /// Remaining freshness; negative if stale.
    pub(crate) fn fresh_for_ns(&self, now: Instant) -> i64 {
        let now_ns = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        self.fresh_until_ns.load(Ordering::Acquire).saturating_sub(now_ns)
    }

    pub(crate) fn is_fresh(&self, now: Instant) -> bool {
        self.fresh_for_ns(now) > 0
    }

    /// Remaining freshness in whole seconds: above 0 while fresh, below 0 when stale.
    pub(crate) fn ttl_s(&self, now: Instant) -> i64 {
        match self.fresh_for_ns(now) {
            fresh_ns @ 1.. => (fresh_ns - 1) / NANOS + 1,
            stale_ns => (stale_ns / NANOS).min(-1),
        }
    }

    /// Whether it has been stale for at most `seconds`, to the nanosecond. Zero allows nothing.
    pub(crate) fn is_stale_at_most(&self, seconds: u32, now: Instant) -> bool {
        seconds > 0 && self.fresh_for_ns(now) >= -(i64::from(seconds) * NANOS)
    }

    pub(crate) fn make_stale(&self, now: Instant) {
        let now_ns = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        self.fresh_until_ns.fetch_min(now_ns, Ordering::AcqRel);
    }

    /// Another variant of the URL was stored: validity checks fail.
    pub(crate) fn bump_version(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn mark_removed(&self) {
        self.version.fetch_or(REMOVED, Ordering::AcqRel);
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.version() & REMOVED != 0
    }

    pub(crate) fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// Counts hits for eviction and statistics.
    #[inline]
    pub(crate) fn count_hits(&self, hits: u32) {
        let uses = self.uses.load(Ordering::Relaxed);
        if uses < USES_MAX {
            self.uses.store(uses.saturating_add(hits.min(u32::from(USES_MAX)) as u8).min(USES_MAX), Ordering::Relaxed);
        }
        self.hits.fetch_add(hits, Ordering::Relaxed);
    }

    pub(crate) fn hits(&self) -> u32 {
        self.hits.load(Ordering::Relaxed)
    }

    pub(crate) fn uses(&self) -> u8 {
        self.uses.load(Ordering::Relaxed)
    }

    pub(crate) fn set_uses(&self, uses: u8) {
        self.uses.store(uses, Ordering::Relaxed);
    }

    /// Continues the counters of the replaced response.
    pub(crate) fn inherit(&self, old: &Self) {
        self.set_uses(old.uses());
        self.hits.store(old.hits(), Ordering::Relaxed);
    }

    /// Memory released when it is removed.
    pub(crate) fn cost_bytes(&self) -> u64 {
        Self::cost_of(self.bytes.len(), self.block.as_bytes().len())
    }

    pub(crate) const fn cost_of(bytes: usize, block_bytes: usize) -> u64 {
        // The counters of Arc, and the shared header of `Bytes` after its first clone.
        const HEADERS_BYTES: usize = 16 + 32;
        let own = size_of::<Self>() + HEADERS_BYTES;
        (own + bytes + block_bytes + 4 * ALLOCATION_BYTES) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn stored(terms: ReuseTerms) -> StoredResponse {
        let layout = StoredLayout { key_bytes: 3, variant_bytes: 2 };
        StoredResponse::new(200, FieldBlock::new(), Bytes::from_static(b"keyvacontent"), layout, terms)
    }

    #[test]
    fn computes_layout_and_freshness() {
        let start = Instant::ZERO + Duration::from_secs(100);
        let object = stored(ReuseTerms { age_from: start, initial_age_s: 5, fresh_for_s: 10, ..ReuseTerms::default() });
        assert_eq!(
            (object.key(), object.variant(), &object.body()[..]),
            (b"key" as &[u8], b"va" as &[u8], b"content" as &[u8])
        );
        let later = start + Duration::from_millis(9_500);
        assert_eq!((object.age_s(later), object.ttl_s(later), object.is_fresh(later)), (14, 1, true));
        let end = start + Duration::from_secs(10);
        assert_eq!((object.age_s(end), object.ttl_s(end), object.is_fresh(end)), (15, -1, false));
        object.make_stale(later);
        assert!(!object.is_fresh(later));
        object.make_stale(end);
        assert_eq!(object.ttl_s(end), -1, "stale since the first time");
        let stale_for = |time_ms| later + Duration::from_millis(time_ms);
        assert!(object.is_stale_at_most(2, stale_for(2_000)) && !object.is_stale_at_most(2, stale_for(2_001)));
        assert!(!object.is_stale_at_most(0, later), "nothing is allowed");
    }

    #[test]
    fn accepts_expiry_before_start() {
        let object = stored(ReuseTerms { fresh_for_s: -7200, ..ReuseTerms::default() });
        assert_eq!(object.ttl_s(Instant::ZERO), -7200);
    }

    #[test]
    fn use_counter_saturates() {
        let object = stored(ReuseTerms::default());
        for expected in [1, 2, 3, 3, 3] {
            object.count_hits(1);
            assert_eq!(object.uses(), expected);
        }
        assert_eq!(object.hits(), 5);
        let state = object.version();
        object.bump_version();
        assert!(object.version() != state && !object.is_removed());
        object.mark_removed();
        assert!(object.is_removed());
    }

    #[test]
    fn stored_response_size() {
        // With the counters of Arc 120 bytes: plus the allocator's 8, a multiple of 16.
        assert_eq!(size_of::<StoredResponse>(), 104);
    }
}
