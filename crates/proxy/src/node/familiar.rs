//! Requests that came before, byte for byte, and what was written for them.
//!
//! What is asked often is asked in the same words, and the answer to it begins with the same words until its date changes. So a shard keeps the
//! heads of requests that came last with what was sent upstream for each, and the head of the last answer to it with what the client was told.
//! Measured in instructions of this program on `events` (callgrind; reading anew → repeating): 16,900 → 5,400 for a request of 13 bytes and its
//! answer.
//!
//! Nothing is decided here. A head becomes familiar after it was judged and written the usual way, if nothing but its bytes had a say in that; what
//! has no place in its bytes (the client's address, its connection, the choice of an upstream) is regarded each time. A head must come twice to be
//! kept, so that those that never come again cost no more than a look.

use std::hash::BuildHasher;
use std::sync::Arc;

use breme_http1::FamiliarHead;
use foldhash::fast::FixedState;
use memchr::memmem::Finder;

use super::notes::Noted;
use super::tables::Asked;
use crate::request::OwnLines;

/// A longer head does not become familiar.
const HEAD_BYTES_MAX: usize = 1024;
/// Heads that are kept at most; each has one place.
const SLOTS: usize = 128;
const HEAD_END: &[u8; 4] = b"\r\n\r\n";

/// A shard's familiar requests.
#[derive(Debug)]
pub(crate) struct Familiar {
    hasher: FixedState,
    head_end: Finder<'static>,
    /// Empty until a request comes that could become familiar.
    slots: Vec<Slot>,
    /// The place of the request that came last: most come several times in a row.
    last: usize,
    /// Requests that have become familiar so far.
    count: u64,
}

#[derive(Debug, Default)]
struct Slot {
    /// The hash of the last head that came here and was not known.
    stranger: u64,
    known: Option<Box<Known>>,
}

/// Names a familiar request for as long as it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownKey {
    place: usize,
    number: u64,
}

/// A request that came before.
#[derive(Debug)]
pub(crate) struct Known {
    number: u64,
    head: Box<[u8]>,
    pub(crate) is_secured: bool,
    /// What was sent upstream, up to what is said of the client.
    pub(crate) front: Box<[u8]>,
    pub(crate) own: OwnLines,
    pub(crate) asked: Asked,
    pub(crate) lacks_host: bool,
    pub(crate) key_hash: u64,
    /// For the log, if there is one.
    pub(super) noted: Option<Arc<Noted>>,
    /// How the last answer began …
    pub(crate) answer: FamiliarHead,
    /// … and what the client was told.
    pub(crate) told: Vec<u8>,
}

/// What there is to learn of a request.
#[derive(Debug)]
pub(crate) struct Lesson {
    pub(crate) is_secured: bool,
    pub(crate) front: Box<[u8]>,
    pub(crate) own: OwnLines,
    pub(crate) asked: Asked,
    pub(crate) lacks_host: bool,
    pub(crate) key_hash: u64,
    pub(super) noted: Option<Arc<Noted>>,
}

impl Familiar {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            hasher: FixedState::with_seed(seed),
            head_end: Finder::new(HEAD_END),
            slots: Vec::new(),
            last: 0,
            count: 0,
        }
    }

    /// The request with which `input` begins, if it is familiar, and the length of its head.
    #[inline]
    pub(crate) fn find(&mut self, input: &[u8], is_secured: bool) -> Option<(KnownKey, usize)> {
        let is_last = self.slots.get(self.last)?.begins(input, is_secured);
        let place = if is_last { self.last } else { self.place_of(self.head_of(input)?) };
        let slot = self.slots.get(place)?;
        if !is_last && !slot.begins(input, is_secured) {
            return None;
        }
        self.last = place;
        let known = slot.known.as_ref()?;
        Some((KnownKey { place, number: known.number }, known.head.len()))
    }

    pub(crate) fn known(&mut self, key: KnownKey) -> Option<&mut Known> {
        self.slots.get_mut(key.place)?.known.as_deref_mut().filter(|known| known.number == key.number)
    }

    /// Whether a request that is not familiar should become it: it has come before, and no other since that has the same place.
    pub(crate) fn is_wanted(&mut self, head: &[u8]) -> bool {
        // An empty line before a request is counted by the connection, and is no part of the head.
        if head.len() > HEAD_BYTES_MAX || !head.first().is_some_and(u8::is_ascii_graphic) {
            return false;
        }
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, Slot::default);
        }
        let hash = self.hasher.hash_one(head);
        std::mem::replace(&mut self.slots[hash as usize % SLOTS].stranger, hash) == hash
    }

    /// Makes a request familiar.
    pub(crate) fn learn(&mut self, head: &[u8], lesson: Lesson) -> Option<KnownKey> {
        let Lesson { is_secured, front, own, asked, lacks_host, key_hash, noted } = lesson;
        let place = self.place_of(head);
        self.count += 1;
        let number = self.count;
        let (answer, told) = (FamiliarHead::new(), Vec::new());
        let head = head.into();
        let known = Known { number, head, is_secured, front, own, asked, lacks_host, key_hash, noted, answer, told };
        self.slots.get_mut(place)?.known = Some(Box::new(known));
        Some(KnownKey { place, number })
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

impl Slot {
    /// Whether `input` begins with the head that is known here. A head ends with its first empty line, so what begins with it has this head.
    #[inline]
    fn begins(&self, input: &[u8], is_secured: bool) -> bool {
        self.known.as_ref().is_some_and(|known| known.is_secured == is_secured && input.starts_with(&known.head))
    }
}
