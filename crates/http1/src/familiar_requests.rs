//! Requests that came before, byte for byte.
//!
//! What is asked often is asked in the same words: a browser's, a crawler's, a gateway's heads repeat to the byte. So a
//! server may keep the heads that came last with what it has learnt of each, and go on from there without reading them
//! anew.
//!
//! Nothing is decided here. A head becomes familiar after it was judged and answered the usual way; what there is to
//! learn, and for how long it holds, is for the one who keeps the table. A head must come twice to be kept, so that
//! those that never come again (each with a cookie of its own, say) cost no more than a look.

use std::fmt::Debug;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use memchr::memmem::Finder;

/// After so many look-ups it is judged whether the table is worth its cost …
const JUDGED_AFTER: u32 = 512;
/// … which it is from one hit in so many look-ups on: a look-up in vain costs about an eighth of what a hit saves.
const LOOKUPS_PER_HIT_MAX: u32 = 8;
/// So many requests are not looked up if it is not.
const PAUSE: u32 = 15 * JUDGED_AFTER;
/// A longer head does not become familiar.
const HEAD_BYTES_MAX: usize = 1024;
/// What a familiar request costs besides its bytes.
const KNOWN_BYTES: usize = 256;
const HEAD_END: &[u8; 4] = b"\r\n\r\n";

/// A shard's familiar requests: as many as there are slots at most, each head has one place.
#[derive(Debug)]
pub struct FamiliarRequests<K, const SLOTS: usize> {
    hasher: FixedState,
    head_end: Finder<'static>,
    /// Empty until a request comes that could become familiar.
    slots: Vec<Slot<K>>,
    /// The place of the request that came last: most come several times in a row.
    last: usize,
    bytes: usize,
    bytes_max: usize,
    /// The next one to go when there are too many bytes.
    hand: usize,
    benefit: Benefit,
}

/// Whether look-ups find enough to be worth their cost. Where heads differ they are left out but for samples, which
/// notice when heads begin to repeat.
#[derive(Debug, Default)]
struct Benefit {
    lookups: u32,
    hits: u32,
    /// Requests that are still not to be looked up.
    pause: u32,
}

/// A request that came before.
#[derive(Debug)]
pub struct FamiliarRequest<K> {
    head: Box<[u8]>,
    cost_bytes: usize,
    /// What was learnt of it.
    pub known: K,
}

#[derive(Debug)]
struct Slot<K> {
    /// The hash of the last head that came here and was not known.
    stranger: u64,
    request: Option<Box<FamiliarRequest<K>>>,
}

impl<K, const SLOTS: usize> FamiliarRequests<K, SLOTS> {
    /// An empty table. `bytes_max`: all that is kept, heads too; 0 keeps nothing.
    #[must_use]
    pub fn new(seed: u64, bytes_max: usize) -> Self {
        Self {
            hasher: FixedState::with_seed(seed),
            head_end: Finder::new(HEAD_END),
            slots: Vec::new(),
            last: 0,
            bytes: 0,
            bytes_max,
            hand: 0,
            benefit: Benefit::default(),
        }
    }

    /// The request with which `input` begins, if it is familiar and what is known of it is meant; and its place.
    #[inline]
    pub fn find(&mut self, input: &[u8], is_meant: impl Fn(&K) -> bool) -> Option<(usize, &mut FamiliarRequest<K>)> {
        let is_last = self.slots.get(self.last)?.begins(input, &is_meant);
        if !is_last && !self.benefit.may_look() {
            return None;
        }
        let place = if is_last { self.last } else { self.place_of(self.head_of(input)?) };
        let slot = self.slots.get_mut(place)?;
        let is_found = is_last || slot.begins(input, &is_meant);
        self.benefit.count(is_found);
        if !is_found {
            return None;
        }
        self.last = place;
        Some((place, slot.request.as_deref_mut()?))
    }

    /// The request at a place that was told.
    #[inline]
    pub fn request(&mut self, place: usize) -> Option<&mut FamiliarRequest<K>> {
        self.slots.get_mut(place)?.request.as_deref_mut()
    }

    /// Whether a request that was read the usual way should become familiar: it has come before, and no other since
    /// that has the same place. Not where what is known of the same head is to stay.
    pub fn is_wanted(&mut self, head: &[u8], stays: impl Fn(&K) -> bool) -> bool {
        // An empty line before a request is counted by the connection, and is no part of the head.
        let is_head_alone = head.first().is_some_and(u8::is_ascii_graphic);
        if self.benefit.pause > 0 || head.len() > HEAD_BYTES_MAX || !is_head_alone || self.bytes_max == 0 {
            return false;
        }
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, Slot::empty);
        }
        let hash = self.hasher.hash_one(head);
        let slot = &mut self.slots[hash as usize % SLOTS];
        let is_kept = slot.request.as_ref().is_some_and(|request| *request.head == *head && stays(&request.known));
        !is_kept && std::mem::replace(&mut slot.stranger, hash) == hash
    }

    /// Makes a request familiar that was [wanted](Self::is_wanted), in place of the one that was there, and tells
    /// where. `known_bytes`: what is known of it takes; if there is no room for it even alone, it is not kept.
    pub fn learn(&mut self, head: &[u8], known: K, known_bytes: usize) -> Option<usize> {
        let cost_bytes = KNOWN_BYTES.saturating_add(head.len()).saturating_add(known_bytes);
        let place = self.place_of(head);
        self.forget(place);
        self.make_room(cost_bytes);
        let slot = self.slots.get_mut(place)?;
        if self.bytes.saturating_add(cost_bytes) > self.bytes_max {
            return None;
        }
        self.bytes += cost_bytes;
        slot.request = Some(Box::new(FamiliarRequest { head: head.into(), cost_bytes, known }));
        Some(place)
    }

    /// Lets go of the request at a place.
    pub fn forget(&mut self, place: usize) {
        if let Some(request) = self.slots.get_mut(place).and_then(|slot| slot.request.take()) {
            self.bytes -= request.cost_bytes;
        }
    }

    /// Lets go of all of which this is so.
    pub fn forget_where(&mut self, is_over: impl Fn(&K) -> bool) {
        for place in 0..self.slots.len() {
            if self.slots[place].request.as_ref().is_some_and(|request| is_over(&request.known)) {
                self.forget(place);
            }
        }
    }

    fn make_room(&mut self, wanted_bytes: usize) {
        for _ in 0..SLOTS {
            if self.bytes.saturating_add(wanted_bytes) <= self.bytes_max {
                return;
            }
            self.forget(self.hand);
            self.hand = (self.hand + 1) % SLOTS;
        }
    }

    /// What may be a request's head. Whether it is one was decided when it became familiar.
    fn head_of<'a>(&self, input: &'a [u8]) -> Option<&'a [u8]> {
        let front = &input[..input.len().min(HEAD_BYTES_MAX)];
        Some(&front[..self.head_end.find(front)? + HEAD_END.len()])
    }

    fn place_of(&self, head: &[u8]) -> usize {
        self.hasher.hash_one(head) as usize % SLOTS
    }
}

impl Benefit {
    /// Whether the next request is to be looked up.
    #[inline]
    fn may_look(&mut self) -> bool {
        let may_look = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        may_look
    }

    #[inline]
    fn count(&mut self, is_found: bool) {
        self.lookups += 1;
        self.hits += u32::from(is_found);
        if self.lookups >= JUDGED_AFTER {
            let is_worth_it = self.hits >= JUDGED_AFTER / LOOKUPS_PER_HIT_MAX;
            *self = Self { pause: if is_worth_it { 0 } else { PAUSE }, ..Self::default() };
        }
    }
}

impl<K> Slot<K> {
    const fn empty() -> Self {
        Self { stranger: 0, request: None }
    }

    /// Whether `input` begins with the head that is known here. A head ends with its first empty line, so what begins
    /// with it has this head.
    #[inline]
    fn begins(&self, input: &[u8], is_meant: impl Fn(&K) -> bool) -> bool {
        self.request.as_ref().is_some_and(|request| input.starts_with(&request.head) && is_meant(&request.known))
    }
}

impl<K> FamiliarRequest<K> {
    /// How many bytes of the input it is.
    #[must_use]
    pub fn head_bytes(&self) -> usize {
        self.head.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: usize = 8;

    fn head(name: &str) -> Vec<u8> {
        format!("GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
    }

    /// What is known of the request with which `input` begins.
    fn known(table: &mut FamiliarRequests<u32, SLOTS>, input: &[u8]) -> Option<u32> {
        table.find(input, |_| true).map(|(_, request)| request.known)
    }

    /// Lets it come twice and be learnt.
    fn learn(table: &mut FamiliarRequests<u32, SLOTS>, name: &str, number: u32, bytes: usize) -> Option<usize> {
        let head = head(name);
        let comes = [(); 2].map(|()| table.is_wanted(&head, |_| false));
        assert_eq!(comes, [false, true]);
        table.learn(&head, number, bytes)
    }

    fn kept(table: &mut FamiliarRequests<u32, SLOTS>, names: &[&str]) -> usize {
        names.iter().filter(|name| known(table, &head(name)).is_some()).count()
    }

    #[test]
    fn a_head_is_wanted_when_it_comes_again_and_then_found_by_its_bytes() {
        let mut table = FamiliarRequests::<u32, SLOTS>::new(1, 10_000);
        let one = head("one");
        assert!(!table.is_wanted(&one, |_| false));
        assert!(table.is_wanted(&one, |_| false));
        assert_eq!(known(&mut table, &one), None);
        let place = table.learn(&one, 7, 0).unwrap();
        let pipelined = [one.clone(), head("two")].concat();
        assert_eq!(known(&mut table, &pipelined), Some(7));
        assert_eq!(table.request(place).unwrap().head_bytes(), one.len());
        assert_eq!(known(&mut table, &one[..one.len() - 1]), None);
        assert_eq!(known(&mut table, &head("one?")), None);
        assert!(table.find(&one, |&number| number != 7).is_none());
        assert!(!table.is_wanted(&one, |&number| number == 7));
        assert!(table.is_wanted(&one, |&number| number != 7));
    }

    /// Reads so many requests, the number of each told by `number`, and counts those that were found.
    fn read(table: &mut FamiliarRequests<u32, SLOTS>, count: u32, mut number: impl FnMut(u32) -> u32) -> (u32, u32) {
        let (mut found, mut learnt) = (0, 0);
        for index in 0..count {
            let head = head(&number(index).to_string());
            let is_found = known(table, &head).is_some();
            found += u32::from(is_found);
            if !is_found && table.is_wanted(&head, |_| false) {
                table.learn(&head, index, 0);
                learnt += 1;
            }
        }
        (found, learnt)
    }

    #[test]
    fn heads_that_differ_are_only_sampled_and_those_that_repeat_are_noticed() {
        let mut table = FamiliarRequests::<u32, SLOTS>::new(1, 100_000);
        let judged = JUDGED_AFTER + 2;
        assert_eq!(read(&mut table, judged, |index| index), (0, 0));
        assert_eq!(table.benefit.pause + 1, PAUSE, "all differed");
        // One head that repeats: in the pause it is not learnt, after it it is found.
        assert_eq!(read(&mut table, PAUSE - 1, |_| 7), (0, 0));
        assert_eq!(read(&mut table, 10, |_| 7), (9, 1));
        assert_eq!(table.benefit.pause, 0);
    }

    #[test]
    fn what_is_long_or_begins_with_an_empty_line_is_not_wanted() {
        let mut table = FamiliarRequests::<u32, SLOTS>::new(1, 10_000);
        for strange in [head(&"x".repeat(HEAD_BYTES_MAX)), [b"\r\n", &*head("one")].concat(), Vec::new()] {
            assert!((0..3).all(|_| !table.is_wanted(&strange, |_| false)));
        }
        let mut none = FamiliarRequests::<u32, SLOTS>::new(1, 0);
        assert!((0..3).all(|_| !none.is_wanted(&head("one"), |_| false)));
    }

    #[test]
    fn there_are_never_more_bytes_than_may_be() {
        let names = ["a", "b", "c", "d", "e", "f"];
        let cost_bytes = KNOWN_BYTES + head("a").len() + 100;
        let mut table = FamiliarRequests::<u32, SLOTS>::new(3, 2 * cost_bytes);
        for (number, name) in (0..).zip(names) {
            assert!(learn(&mut table, name, number, 100).is_some());
            assert_eq!(known(&mut table, &head(name)), Some(number));
            assert!(kept(&mut table, &names) <= 2, "{name}");
        }
        assert_eq!(learn(&mut table, "g", 6, 2 * cost_bytes), None, "too large even alone");
        assert_eq!((table.bytes, kept(&mut table, &names)), (0, 0));
    }

    #[test]
    fn what_is_forgotten_makes_room() {
        let mut table = FamiliarRequests::<u32, SLOTS>::new(1, 10_000);
        for (number, name) in (0..).zip(["a", "b", "c"]) {
            learn(&mut table, name, number, 100);
        }
        table.forget_where(|&number| number < 2);
        assert!(known(&mut table, &head("a")).is_none() && known(&mut table, &head("b")).is_none());
        let (place, _) = table.find(&head("c"), |_| true).unwrap();
        table.forget(place);
        assert_eq!((table.bytes, known(&mut table, &head("c"))), (0, None));
    }
}
