//! The thread that accepts for the pool, and that wakes the others while a connection waits that none of them can take.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use breme_base::Instant;
use breme_node::{Accepted, ListenerId, ShardId};
use breme_sys::Clock;
use rustix::event::{PollFd, PollFlags};

use super::handoff::Handoff;
use super::poll;
use crate::acceptance::{ACCEPT_PAUSE, AcceptFailure};
use crate::control::{Control, Counters, Stop};

/// Threads that are rung at a time so that they hear of pressure. A thread whose client is idle sleeps, and must be
/// woken to close it; but to wake a whole large pool for one connection would cost those that work their processors.
const CALLED_AT_A_TIME: usize = 16;
/// After how long the next ones are rung, if the pressure is still high. Also where it rises and falls all the time, no
/// more are woken than that.
const CALLING_PAUSE: Duration = Duration::from_millis(10);

pub(crate) struct Acceptor {
    listeners: Vec<TcpListener>,
    handoff: Arc<Handoff>,
    control: Arc<Control>,
    clock: Clock,
    backlog: usize,
    /// Nothing is accepted before.
    accept_again: Option<Instant>,
    calling: Calling,
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.listeners.clear();
        self.handoff.close();
    }
}

impl Acceptor {
    pub(crate) fn new(
        listeners: Vec<TcpListener>,
        handoff: Arc<Handoff>,
        control: Arc<Control>,
        clock: Clock,
        backlog: u32,
    ) -> Self {
        let backlog = backlog as usize;
        Self { listeners, handoff, control, clock, backlog, accept_again: None, calling: Calling::default() }
    }

    /// Accepts until the program is to end, then what still stands in the backlog.
    pub(crate) fn run(mut self) {
        while self.control.stop() == Stop::No && self.handoff.has_threads() {
            let now = self.clock.now();
            self.accept_again = self.accept_again.filter(|&again| again > now);
            let call_again = self.calling.call(self.handoff.rise(), now, &self.control);
            let (has_unused_memory, look_again) = self.handoff.has_unused_memory(now);
            if has_unused_memory {
                breme_sys::return_unused_memory();
            }
            for index in self.wait(now, [call_again, look_again]) {
                if self.accept(ListenerId(index), 1) == AcceptFailure::Pause {
                    self.accept_again = Some(self.clock.now() + ACCEPT_PAUSE);
                }
            }
        }
        if self.control.stop() == Stop::Drain {
            for index in 0..self.listeners.len() {
                self.accept(ListenerId(index), self.backlog);
            }
        }
    }

    /// Which listeners have a connection. During a pause, or while too many wait for a thread, none is asked.
    fn wait(&self, now: Instant, alarms: [Option<Instant>; 2]) -> Vec<usize> {
        let Some(bell) = self.control.acceptor() else { return Vec::new() };
        let is_asking = self.accept_again.is_none() && self.handoff.has_room();
        let mut watched = vec![PollFd::new(bell, PollFlags::IN)];
        if is_asking {
            watched.extend(self.listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
        }
        let until = alarms.into_iter().chain([self.accept_again]).flatten().min();
        if poll(&mut watched, until.map(|until| until.since(now))).is_err() {
            return Vec::new();
        }
        if !watched[0].revents().is_empty() {
            bell.hear();
        }
        let told = watched[1..].iter().enumerate().filter(|(_, listener)| !listener.revents().is_empty());
        told.map(|(index, _)| index).collect()
    }

    fn accept(&self, id: ListenerId, count_max: usize) -> AcceptFailure {
        for _ in 0..count_max {
            match breme_sys::accept(&self.listeners[id.0]) {
                Ok((socket, peer)) => self.handoff.put(socket, Accepted { listener: id, peer }),
                Err(error) => match AcceptFailure::of(&error) {
                    AcceptFailure::One => {}
                    AcceptFailure::None => break,
                    AcceptFailure::Pause => {
                        self.count_failure();
                        return AcceptFailure::Pause;
                    }
                },
            }
        }
        AcceptFailure::None
    }

    /// The acceptor belongs to no shard; the first one counts for it.
    fn count_failure(&self) {
        if let Some(mailbox) = self.control.mailbox(ShardId(0)) {
            Counters::add(&mailbox.counters.accepts_failed);
        }
    }
}

/// Which threads have been rung because the pressure rose.
#[derive(Debug, Default)]
struct Calling {
    /// Which rise it was.
    rise: u64,
    /// Threads that sleep perhaps, and do not know of it yet.
    left_count: usize,
    /// Who is next: each time others are the first.
    next: usize,
    /// Nobody is rung before.
    again: Instant,
}

impl Calling {
    /// Rings the next threads, if it is time. Tells when it will be again.
    fn call(&mut self, rise: Option<u64>, now: Instant, control: &Control) -> Option<Instant> {
        let rise = rise?;
        if rise != self.rise {
            self.rise = rise;
            self.left_count = control.shard_count();
        }
        if self.left_count > 0 && self.again <= now {
            self.again = now + CALLING_PAUSE;
            self.ring_some(control);
        }
        (self.left_count > 0).then_some(self.again)
    }

    fn ring_some(&mut self, control: &Control) {
        for _ in 0..self.left_count.min(CALLED_AT_A_TIME) {
            if let Some(mailbox) = control.mailbox(ShardId(self.next)) {
                mailbox.alarm.ring();
            }
            self.next = (self.next + 1) % control.shard_count();
            self.left_count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bell::Bell;
    use crate::control::Alarm;

    const COUNT: usize = CALLED_AT_A_TIME * 2 + 3;

    fn control() -> Control {
        Control::new((0..COUNT).map(|_| Alarm::Bell(Bell::new().unwrap())).collect(), None)
    }

    /// Who was rung since they were looked at last.
    fn rung(control: &Control) -> Vec<usize> {
        let is_rung = |&index: &usize| {
            let Some(Alarm::Bell(bell)) = control.mailbox(ShardId(index)).map(|mailbox| &mailbox.alarm) else {
                return false;
            };
            let mut watched = [PollFd::new(bell, PollFlags::IN)];
            poll(&mut watched, Some(Duration::ZERO)).unwrap();
            let is_rung = !watched[0].revents().is_empty();
            bell.hear();
            is_rung
        };
        (0..COUNT).filter(is_rung).collect()
    }

    #[test]
    fn each_thread_is_rung_once_for_a_rise_a_few_at_a_time() {
        let (control, mut calling) = (control(), Calling::default());
        let at = |pauses| Instant::ZERO + CALLING_PAUSE * pauses;
        assert_eq!(calling.call(None, at(0), &control), None);
        for (turn, expected) in [(0, 0..16), (1, 16..32), (2, 32..COUNT)] {
            let is_last = expected.end == COUNT;
            assert_eq!(calling.call(Some(1), at(turn), &control), (!is_last).then_some(at(turn + 1)));
            assert!(rung(&control).into_iter().eq(expected));
            // Too early, or done.
            calling.call(Some(1), at(turn), &control);
            assert!(rung(&control).is_empty());
        }
        assert_eq!(calling.call(Some(1), at(9), &control), None);
    }

    #[test]
    fn many_short_rises_ring_no_more_than_a_long_one_and_others_each_time() {
        let (control, mut calling) = (control(), Calling::default());
        let mut rung_in_all = Vec::new();
        for rise in 0..100 {
            let now = Instant::ZERO + CALLING_PAUSE * (rise / 50);
            calling.call(Some(u64::from(rise) * 2 + 1), now, &control);
            calling.call(None, now, &control);
            rung_in_all.extend(rung(&control));
        }
        assert!(rung_in_all.into_iter().eq(0..2 * CALLED_AT_A_TIME));
    }
}
