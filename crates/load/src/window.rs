//! A user's outstanding requests, oldest first.

use breme_base::Instant;

use crate::versions::Mark;

/// An outstanding request, with its instants so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// Number in the run, from 0.
    pub ordinal: u64,
    /// When it should have been sent: when its user wanted it, or by the schedule.
    pub due: Instant,
    /// Until when its user's time is attributed to an activity.
    pub accounted: Instant,
    /// When it was passed to the driver; [`Instant::FAR`]: not yet.
    pub sent: Instant,
    /// When the first byte of its response arrived; [`Instant::FAR`]: not yet.
    pub first: Instant,
    /// The version that it writes, or the page that it reads, if versions are tracked.
    pub mark: Option<Mark>,
}

impl Slot {
    pub(crate) const fn new(ordinal: u64, due: Instant) -> Self {
        Self { ordinal, due, accounted: due, sent: Instant::FAR, first: Instant::FAR, mark: None }
    }

    pub(crate) fn was_sent(&self) -> bool {
        self.sent != Instant::FAR
    }
}

/// A ring of fixed size: the pipeline depth. The usual depth, 1, needs no memory of its own.
#[derive(Debug)]
pub(crate) struct Window {
    slots: Slots,
    head: u32,
    length: u32,
}

#[derive(Debug)]
enum Slots {
    One([Slot; 1]),
    Many(Box<[Slot]>),
}

impl Window {
    pub(crate) fn new(depth: usize) -> Self {
        let empty = Slot::new(0, Instant::ZERO);
        let slots = if depth <= 1 { Slots::One([empty]) } else { Slots::Many(vec![empty; depth].into_boxed_slice()) };
        Self { slots, head: 0, length: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.length as usize
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() == self.slots().len()
    }

    /// The window must not be full.
    pub(crate) fn push(&mut self, slot: Slot) {
        debug_assert!(!self.is_full());
        let place = self.place(self.len());
        self.slots_mut()[place] = slot;
        self.length += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<Slot> {
        let oldest = *self.get_mut(0)?;
        self.head = self.place(1) as u32;
        self.length -= 1;
        Some(oldest)
    }

    pub(crate) fn oldest(&mut self) -> Option<&mut Slot> {
        self.get_mut(0)
    }

    /// The slot `index` positions after the oldest.
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Slot> {
        if index >= self.len() {
            return None;
        }
        let place = self.place(index);
        Some(&mut self.slots_mut()[place])
    }

    fn place(&self, index: usize) -> usize {
        let place = self.head as usize + index;
        let depth = self.slots().len();
        if place >= depth { place - depth } else { place }
    }

    fn slots(&self) -> &[Slot] {
        match &self.slots {
            Slots::One(slots) => slots,
            Slots::Many(slots) => slots,
        }
    }

    fn slots_mut(&mut self) -> &mut [Slot] {
        match &mut self.slots {
            Slots::One(slots) => slots,
            Slots::Many(slots) => slots,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use breme_base::Random;

    use super::*;

    #[test]
    fn is_a_bounded_queue() {
        for depth in 1..6 {
            let mut window = Window::new(depth);
            let mut model = VecDeque::new();
            let mut random = Random::new(depth as u64);
            for ordinal in 0..500 {
                if random.chance(0.5) && !window.is_full() {
                    window.push(Slot::new(ordinal, Instant::ZERO));
                    model.push_back(ordinal);
                } else {
                    assert_eq!(window.pop().map(|slot| slot.ordinal), model.pop_front());
                }
                assert_eq!((window.len(), window.is_full()), (model.len(), model.len() == depth));
                let listed: Vec<u64> =
                    (0..).map_while(|index| window.get_mut(index).map(|slot| slot.ordinal)).collect();
                assert!(listed.iter().eq(&model));
            }
        }
    }
}
