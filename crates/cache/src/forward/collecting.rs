//! Content that comes and is to be stored: its room, its pieces, its end.

use std::sync::Arc;

use super::{Fetch, Filled, leave};
use crate::asking::{Fault, ResponseHead, Wakes};
use crate::fields::FieldValues as _;
use crate::filling::{FillState, Outcome, Shard, Stream};
use crate::parts::Joint;
use crate::selecting::{self, Cookies};
use crate::store::{Charge, Layout, Stored, Terms};
use crate::storing::{Refusal, stored_lines};

/// Room that is made at first for content of unknown length; it doubles then.
const ROOM_BYTES: usize = 16 * 1024;
/// While the memory is all in use, responses of this part of it are taken in once in e times; smaller ones more often
/// (Berger et al., "AdaptSize", NSDI 2017).
const ADMISSION_SHARE: u64 = 128;

impl Fetch {
    /// Begins to collect an answer that may be stored.
    pub(super) fn begin(
        &mut self,
        terms: Terms,
        names: Vec<Vec<u8>>,
        head: &ResponseHead<'_, '_>,
        wakes: &mut Wakes,
    ) -> Result<(), Refusal> {
        let settings = self.cache.settings();
        let passing = Refusal { is_lasting: false, names: Vec::new() };
        let Some(fill) = self.fill.clone() else { return Err(passing) };
        if head.length.is_some_and(|length| length > settings.content_bytes_max()) {
            return Err(Refusal { is_lasting: true, names });
        }
        let variant = selecting::variant(&names, &self.asked.kept, Cookies::new(settings));
        self.names = names;
        let lead: Vec<u8> = [self.asked.key.as_slice(), variant.as_slice()].concat();
        let layout = Layout {
            key_bytes: self.asked.key.as_slice().len() as u32,
            variant_bytes: variant.as_slice().len() as u32,
        };
        let lines = stored_lines(head);
        let content_room = head.length.map_or(ROOM_BYTES, |length| length as usize);
        let capacity = lead.len() + content_room;
        let cost = Stored::cost_of(capacity, lines.as_bytes().len());
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
        self.filled =
            Some(Filled { length: head.length, bytes: 0, lead_bytes: lead.len(), capacity, is_overlong: false });
        let groups =
            if terms.has_groups { self.cache.store.groups.ids(self.asked.key.as_slice(), &lines) } else { Vec::new() };
        let ResponseHead { status, length, .. } = *head;
        let stream =
            Stream { status, lines, length, layout, terms, groups, bytes, charge, dropped: 0, is_storable: true };
        fill.begin(stream, is_shared, wakes);
        Ok(())
    }

    /// While there is room everything comes in. When something else has to go for it: small ones, what others wait for,
    /// and what came back soon after it had gone.
    fn is_admitted(&self, cost: u64, fill: &FillState) -> bool {
        let store = &self.cache.store;
        if !store.is_full(cost) || fill.has_followers() || self.stale.is_some() {
            return true;
        }
        let scale = (store.budget.max() / ADMISSION_SHARE).max(1);
        let probability = (-(cost as f64) / scale as f64).exp();
        self.cache.random().chance(probability) || store.write(self.asked.hash).is_remembered(self.asked.hash.place)
    }

    pub(super) fn handle_content(&mut self, bytes: &[u8], wakes: &mut Wakes) {
        let (Some(fill), Some(filled)) = (self.fill.clone(), &mut self.filled) else { return };
        if bytes.is_empty() {
            return;
        }
        filled.bytes += bytes.len() as u64;
        let settings = self.cache.settings();
        let window_bytes = settings.overlong_window_bytes;
        if !filled.is_overlong {
            match room(filled, settings.content_bytes_max(), |bytes| self.cache.store.reserve(bytes)) {
                Ok(more) => return fill.push(bytes, more, wakes),
                Err(TooLong) => {
                    filled.is_overlong = true;
                    let now = self.asked.at;
                    self.mark(&self.names, now);
                    self.leave_shard();
                }
            }
        }
        if !fill.push_overlong(bytes, window_bytes, wakes) {
            self.finish(Outcome::Failed(Fault::Own), wakes);
        }
    }

    pub(super) fn handle_end(&mut self, wakes: &mut Wakes) {
        let Some(fill) = self.fill.clone() else { return };
        let is_whole = self.filled.is_some_and(|filled| filled.length.is_none_or(|length| length == filled.bytes));
        if !is_whole {
            return self.finish(Outcome::Failed(Fault::Own), wakes);
        }
        let outcome = match fill.take_whole() {
            Some(stream) => Outcome::Done(self.store(stream, &fill)),
            None => Outcome::Ended,
        };
        self.finish(outcome, wakes);
    }

    /// Puts a whole answer into the store, unless there was a purge meanwhile. Those who wait for it get it in any
    /// case: they asked before.
    fn store(&self, stream: Stream, fill: &Arc<FillState>) -> Arc<Stored> {
        let Stream { status, lines, layout, terms, mut bytes, charge, .. } = stream;
        bytes.shrink_to_fit();
        let stored = Arc::new(Stored::new(status, lines, bytes.into(), layout, terms));
        if stored.is_part() {
            return self.store_part(stored, charge, terms, fill);
        }
        self.cache.store.insert(self.asked.hash, Arc::clone(&stored), charge, fill.purges, |shard| {
            leave(shard, self.asked.hash.place, fill);
            !fill.is_purged()
        });
        stored
    }

    /// The same for a part, together with the one that is stored for the same requests if they can be joined. That one
    /// must still be there then: what purged it, or took its place, meant its bytes too.
    fn store_part(&self, new: Arc<Stored>, mut charge: Charge, terms: Terms, fill: &Arc<FillState>) -> Arc<Stored> {
        let (store, hash) = (&self.cache.store, self.asked.hash);
        let is_same = |old: &&Arc<Stored>| old.variant() == new.variant();
        let old = store.read(hash).variants(hash.place, new.key()).find(is_same).cloned();
        let joined = old.as_ref().and_then(|old| self.joined(old, &new, &mut charge, terms));
        let old = old.filter(|_| joined.is_some());
        // Who says If-Range has the other fields already and need not be told them again (RFC 9110, 15.3.7). Others
        // must.
        let lacks_fields = joined.is_none() && self.asked.kept.has("if-range");
        let part = joined.unwrap_or(new);
        store.insert(hash, Arc::clone(&part), charge, fill.purges, |shard| {
            leave(shard, hash.place, fill);
            let is_alone = lacks_fields || old.as_ref().is_some_and(|old| old.is_gone());
            !(fill.is_purged() || is_alone || self.has_more_than_part(shard, &part))
        });
        part
    }

    /// Both together, if they can be joined and there is memory for both. Whatever purges the older one purges it.
    fn joined(&self, old: &Stored, new: &Stored, charge: &mut Charge, terms: Terms) -> Option<Arc<Stored>> {
        let joint = Joint::of(old, new, self.cache.settings().content_bytes_max())?;
        charge.join(self.cache.store.reserve(joint.cost_bytes())?);
        Some(joint.join(Terms { has_groups: terms.has_groups || old.has_groups(), ..terms }))
    }

    /// What is whole, and what says that nothing is to be stored here, stays.
    fn has_more_than_part(&self, shard: &Shard, part: &Stored) -> bool {
        let mut others = shard.variants(self.asked.hash.place, part.key());
        others.any(|other| !other.is_part() && other.variant() == part.variant())
    }
}

struct TooLong;

/// Room for what has come. Of known length, all of it was reserved at once; of unknown length, it doubles.
fn room(
    filled: &mut Filled,
    object_bytes_max: u64,
    reserve: impl FnOnce(u64) -> Option<Charge>,
) -> Result<Option<(usize, Charge)>, TooLong> {
    let needed = filled.lead_bytes + filled.bytes as usize;
    let is_too_long = filled.bytes > filled.length.unwrap_or(object_bytes_max);
    if is_too_long {
        return Err(TooLong);
    }
    if needed <= filled.capacity {
        return Ok(None);
    }
    let capacity = needed.max(filled.capacity * 2);
    let charge = reserve((capacity - filled.capacity) as u64).ok_or(TooLong)?;
    filled.capacity = capacity;
    Ok(Some((capacity, charge)))
}
