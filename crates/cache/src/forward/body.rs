//! The body of a response is stored while it is received.

use std::sync::Arc;

use super::{BodyProgress, Fetch, unregister};
use crate::fields::FieldValues as _;
use crate::fill::{Fill, FillOutcome, Shard, StreamedResponse};
use crate::partial_content::CombinedParts;
use crate::request::{FetchError, ResponseHead, Wakes};
use crate::storability::{StoreRefusal, is_about_target, stored_lines};
use crate::store::{Charge, ReuseTerms, StoredLayout, StoredResponse};
use crate::vary::{self, CookieRules};

/// Initial buffer for a body of unknown length; doubled as needed.
const BODY_BYTES_INITIAL: usize = 16 * 1024;
/// When the memory is full, a response of 1/128 of it is admitted with probability 1/e, smaller ones more often (Berger
/// et al., "AdaptSize", NSDI 2017).
const ADMISSION_SHARE: u64 = 128;

impl Fetch {
    /// Starts to collect a response that may be stored.
    pub(super) fn begin(
        &mut self,
        terms: ReuseTerms,
        names: Vec<Vec<u8>>,
        head: &ResponseHead<'_, '_>,
        wakes: &mut Wakes,
    ) -> Result<(), StoreRefusal> {
        let settings = self.cache.settings();
        let passing = StoreRefusal { is_lasting: false, names: Vec::new() };
        let Some(fill) = self.fill.clone() else { return Err(passing) };
        if head.length.is_some_and(|length| length > settings.body_bytes_max()) {
            return Err(StoreRefusal { is_lasting: is_about_target(head.status), names });
        }
        let variant = vary::variant(&names, &self.pending.saved_fields, CookieRules::new(settings));
        self.names = names;
        let lead: Vec<u8> = [self.pending.key.as_slice(), variant.as_slice()].concat();
        let layout = StoredLayout {
            key_bytes: self.pending.key.as_slice().len() as u32,
            variant_bytes: variant.as_slice().len() as u32,
        };
        let lines = stored_lines(head);
        let body_capacity = head.length.map_or(BODY_BYTES_INITIAL, |length| length as usize);
        let capacity = lead.len() + body_capacity;
        let cost = StoredResponse::cost_of(capacity, lines.as_bytes().len());
        if !self.is_admitted(cost, &fill) {
            return Err(passing);
        }
        let Some(charge) = self.cache.store.reserve(cost) else { return Err(passing) };
        let mut bytes = Vec::with_capacity(capacity);
        bytes.extend_from_slice(&lead);
        let is_shared = terms.fresh_for_s > 0 && fill.is_open();
        if !is_shared {
            fill.close();
        }
        self.progress =
            Some(BodyProgress { length: head.length, bytes: 0, lead_bytes: lead.len(), capacity, is_overlong: false });
        let groups = if terms.has_groups {
            self.cache.store.groups.ids(self.pending.key.as_slice(), &lines)
        } else {
            Vec::new()
        };
        let ResponseHead { status, length, .. } = *head;
        let stream = StreamedResponse {
            status,
            lines,
            length,
            layout,
            terms,
            groups,
            bytes,
            charge,
            discarded_bytes: 0,
            is_storable: true,
        };
        fill.begin(stream, is_shared, wakes);
        Ok(())
    }

    /// While there is free memory, every response is admitted. Then: those with followers, those evicted or refused
    /// recently, and others with a probability that decreases with their size.
    fn is_admitted(&self, cost: u64, fill: &Fill) -> bool {
        let store = &self.cache.store;
        if !store.is_full(cost) || fill.has_followers() || self.stale.is_some() {
            return true;
        }
        let scale = (store.budget.max() / ADMISSION_SHARE).max(1);
        let probability = (-(cost as f64) / scale as f64).exp();
        let hash = self.pending.hash;
        self.cache.random().chance(probability) || store.write(hash).is_returning(hash.table, cost)
    }

    pub(super) fn handle_body(&mut self, bytes: &[u8], wakes: &mut Wakes) {
        let (Some(fill), Some(progress)) = (self.fill.clone(), &mut self.progress) else { return };
        if bytes.is_empty() {
            return;
        }
        progress.bytes += bytes.len() as u64;
        let settings = self.cache.settings();
        let window_bytes = settings.overlong_window_bytes;
        if !progress.is_overlong {
            match grow_reservation(progress, settings.body_bytes_max(), |bytes| self.cache.store.reserve(bytes)) {
                Ok(more) => return fill.push(bytes, more, wakes),
                Err(TooLong) => {
                    progress.is_overlong = true;
                    let now = self.pending.requested_at;
                    self.store_pass_marker(&self.names, now);
                    self.unregister();
                }
            }
        }
        if !fill.push_overlong(bytes, window_bytes, wakes) {
            self.finish(FillOutcome::Failed(FetchError::Request), wakes);
        }
    }

    pub(super) fn handle_end(&mut self, wakes: &mut Wakes) {
        let Some(fill) = self.fill.clone() else { return };
        let is_whole =
            self.progress.is_some_and(|progress| progress.length.is_none_or(|length| length == progress.bytes));
        if !is_whole {
            return self.finish(FillOutcome::Failed(FetchError::Request), wakes);
        }
        let outcome = match fill.take_whole() {
            Some(stream) => FillOutcome::Stored(self.store(stream, &fill)),
            None => FillOutcome::Ended,
        };
        self.finish(outcome, wakes);
    }

    /// Stores a complete response, unless it was purged meanwhile. Followers get it in any case: they were sent before
    /// the purge.
    fn store(&self, stream: StreamedResponse, fill: &Arc<Fill>) -> Arc<StoredResponse> {
        let StreamedResponse { status, lines, layout, terms, mut bytes, charge, .. } = stream;
        bytes.shrink_to_fit();
        let stored = Arc::new(StoredResponse::new(status, lines, bytes.into(), layout, terms));
        if stored.is_part() {
            return self.store_part(stored, charge, terms, fill);
        }
        self.cache.store.insert(self.pending.hash, Arc::clone(&stored), charge, fill.purges, |shard| {
            unregister(shard, self.pending.hash.table, fill);
            !fill.is_purged()
        });
        stored
    }

    /// Stores partial content, merged with the stored part of the same variant if possible. That part must still be
    /// stored: whatever purged or replaced it applied to its bytes too.
    fn store_part(
        &self,
        new: Arc<StoredResponse>,
        mut charge: Charge,
        terms: ReuseTerms,
        fill: &Arc<Fill>,
    ) -> Arc<StoredResponse> {
        let (store, hash) = (&self.cache.store, self.pending.hash);
        let is_same = |old: &&Arc<StoredResponse>| old.variant() == new.variant();
        let old = store.read(hash).variants(hash.table, new.key()).find(is_same).cloned();
        let merged = old.as_ref().and_then(|old| self.merged(old, &new, &mut charge, terms));
        let old = old.filter(|_| merged.is_some());
        // A 206 to a request with If-Range may omit headers that the client has (RFC 9110, 15.3.7); others need them.
        let is_incomplete = merged.is_none() && self.pending.saved_fields.has("if-range");
        let part = merged.unwrap_or(new);
        store.insert(hash, Arc::clone(&part), charge, fill.purges, |shard| {
            unregister(shard, hash.table, fill);
            let is_alone = is_incomplete || old.as_ref().is_some_and(|old| old.is_removed());
            !(fill.is_purged() || is_alone || self.has_more_than_part(shard, &part))
        });
        part
    }

    /// Merges two parts, if they fit together and memory allows. Purging either group purges the result.
    fn merged(
        &self,
        old: &StoredResponse,
        new: &StoredResponse,
        charge: &mut Charge,
        terms: ReuseTerms,
    ) -> Option<Arc<StoredResponse>> {
        let combined = CombinedParts::new(old, new, self.cache.settings().body_bytes_max())?;
        charge.join(self.cache.store.reserve(combined.cost_bytes())?);
        Some(combined.merge(ReuseTerms { has_groups: terms.has_groups || old.has_groups(), ..terms }))
    }

    /// A complete response or a pass marker is not replaced by a part.
    fn has_more_than_part(&self, shard: &Shard, part: &StoredResponse) -> bool {
        let mut others = shard.variants(self.pending.hash.table, part.key());
        others.any(|other| !other.is_part() && other.variant() == part.variant())
    }
}

struct TooLong;

/// A body of known length was reserved in advance; otherwise the reservation doubles.
fn grow_reservation(
    progress: &mut BodyProgress,
    object_bytes_max: u64,
    reserve: impl FnOnce(u64) -> Option<Charge>,
) -> Result<Option<(usize, Charge)>, TooLong> {
    let needed = progress.lead_bytes + progress.bytes as usize;
    let is_too_long = progress.bytes > progress.length.unwrap_or(object_bytes_max);
    if is_too_long {
        return Err(TooLong);
    }
    if needed <= progress.capacity {
        return Ok(None);
    }
    let capacity = needed.max(progress.capacity * 2);
    let charge = reserve((capacity - progress.capacity) as u64).ok_or(TooLong)?;
    progress.capacity = capacity;
    Ok(Some((capacity, charge)))
}
