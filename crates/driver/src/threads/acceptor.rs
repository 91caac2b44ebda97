//! Accepts for the pool, and wakes threads while connections wait that no thread can take.

use std::sync::Arc;
use std::time::Duration;

use breme_base::Instant;
use breme_node::{Accepted, ListenerId, ShardId};
use breme_sys::{Clock, ListeningSocket};
use rustix::event::{PollFd, PollFlags};

use super::handoff::Handoff;
use super::poll;
use crate::accept::{ACCEPT_PAUSE, AcceptError, accept_connections};
use crate::control::{Control, StopMode};
use crate::counters::LiveCounters;

/// Threads woken per round: idle ones sleep and must be woken to close their connections, but waking a large pool at
/// once would take CPU time from busy threads.
const WAKES_PER_ROUND: usize = 16;
/// Interval between rounds, also of different rises of pressure.
const WAKE_INTERVAL: Duration = Duration::from_millis(10);

pub(crate) struct Acceptor {
    listeners: Vec<ListeningSocket>,
    handoff: Arc<Handoff>,
    control: Arc<Control>,
    clock: Clock,
    backlog: usize,
    accept_again: Option<Instant>,
    wakeups: PressureWakeups,
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.listeners.clear();
        self.handoff.close();
    }
}

impl Acceptor {
    pub(crate) fn new(
        listeners: Vec<ListeningSocket>,
        handoff: Arc<Handoff>,
        control: Arc<Control>,
        clock: Clock,
        backlog: u32,
    ) -> Self {
        let backlog = backlog as usize;
        Self { listeners, handoff, control, clock, backlog, accept_again: None, wakeups: PressureWakeups::default() }
    }

    /// Accepts until stopped, then empties the backlog.
    pub(crate) fn run(mut self) {
        while self.control.stop_mode() == StopMode::No && self.handoff.has_threads() {
            let now = self.clock.now();
            self.accept_again = self.accept_again.filter(|&again| again > now);
            let wake_again = self.wakeups.wake_idle(self.handoff.pressure_epoch(), now, &self.control);
            let (is_trim_due, trim_again) = self.handoff.is_trim_due(now);
            if is_trim_due {
                breme_sys::trim_heap();
            }
            for index in self.wait(now, [wake_again, trim_again]) {
                if self.accept(ListenerId(index), 1) == Some(AcceptError::Pause) {
                    self.accept_again = Some(self.clock.now() + ACCEPT_PAUSE);
                }
            }
        }
        if self.control.stop_mode() == StopMode::Drain {
            for index in 0..self.listeners.len() {
                self.listeners[index].ignore_handshakes();
                self.accept(ListenerId(index), self.backlog);
            }
        }
    }

    /// Polls the listeners, unless accepting pauses or the handoff queue is full. Returns the ready ones.
    fn wait(&self, now: Instant, alarms: [Option<Instant>; 2]) -> Vec<usize> {
        let Some(wake_fd) = self.control.acceptor() else { return Vec::new() };
        let is_polling = self.accept_again.is_none() && self.handoff.has_capacity();
        let mut poll_list = vec![PollFd::new(wake_fd, PollFlags::IN)];
        if is_polling {
            poll_list.extend(self.listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
        }
        let until = alarms.into_iter().chain([self.accept_again]).flatten().min();
        if poll(&mut poll_list, until.map(|until| until.since(now))).is_err() {
            return Vec::new();
        }
        if !poll_list[0].revents().is_empty() {
            wake_fd.drain();
        }
        let ready = poll_list[1..].iter().enumerate().filter(|(_, listener)| !listener.revents().is_empty());
        ready.map(|(index, _)| index).collect()
    }

    fn accept(&self, id: ListenerId, count_max: usize) -> Option<AcceptError> {
        let error = accept_connections(&self.listeners[id.0], count_max, |socket, peer| {
            self.handoff.put(socket, Accepted { listener: id, peer });
            true
        });
        if error == Some(AcceptError::Pause) {
            self.count_failure();
        }
        error
    }

    /// Counted at the first shard, since the acceptor belongs to none.
    fn count_failure(&self) {
        if let Some(mailbox) = self.control.mailbox(ShardId(0)) {
            LiveCounters::add(&mailbox.counters.accepts_failed);
        }
    }
}

/// Progress of waking threads after a rise of pressure.
#[derive(Debug, Default)]
struct PressureWakeups {
    pressure_epoch: u64,
    /// Threads not woken yet.
    remaining_count: usize,
    /// The thread to wake next, round robin.
    next: usize,
    /// Start of the next round at the earliest.
    again: Instant,
}

impl PressureWakeups {
    /// Wakes the next round of threads if due. Returns when the next one is.
    fn wake_idle(&mut self, pressure_epoch: Option<u64>, now: Instant, control: &Control) -> Option<Instant> {
        let pressure_epoch = pressure_epoch?;
        if pressure_epoch != self.pressure_epoch {
            self.pressure_epoch = pressure_epoch;
            self.remaining_count = control.shard_count();
        }
        if self.remaining_count > 0 && self.again <= now {
            self.again = now + WAKE_INTERVAL;
            self.wake_some(control);
        }
        (self.remaining_count > 0).then_some(self.again)
    }

    fn wake_some(&mut self, control: &Control) {
        for _ in 0..self.remaining_count.min(WAKES_PER_ROUND) {
            if let Some(mailbox) = control.mailbox(ShardId(self.next)) {
                mailbox.waker.wake();
            }
            self.next = (self.next + 1) % control.shard_count();
            self.remaining_count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::ShardWaker;
    use crate::wake_fd::WakeFd;

    const COUNT: usize = WAKES_PER_ROUND * 2 + 3;

    fn control() -> Control {
        Control::new((0..COUNT).map(|_| ShardWaker::Fd(WakeFd::new().unwrap())).collect(), None)
    }

    fn woken(control: &Control) -> Vec<usize> {
        let is_woken = |&index: &usize| {
            let Some(wake_fd) = control.wake_fd(ShardId(index)) else { return false };
            let mut event = [PollFd::new(wake_fd, PollFlags::IN)];
            poll(&mut event, Some(Duration::ZERO)).unwrap();
            let is_woken = !event[0].revents().is_empty();
            wake_fd.drain();
            is_woken
        };
        (0..COUNT).filter(is_woken).collect()
    }

    #[test]
    fn wakes_each_thread_once_per_rise() {
        let (control, mut wakeups) = (control(), PressureWakeups::default());
        let at = |pauses| Instant::ZERO + WAKE_INTERVAL * pauses;
        assert_eq!(wakeups.wake_idle(None, at(0), &control), None);
        for (turn, expected) in [(0, 0..16), (1, 16..32), (2, 32..COUNT)] {
            let is_last = expected.end == COUNT;
            assert_eq!(wakeups.wake_idle(Some(1), at(turn), &control), (!is_last).then_some(at(turn + 1)));
            assert!(woken(&control).into_iter().eq(expected));
            // Too early, or done.
            wakeups.wake_idle(Some(1), at(turn), &control);
            assert!(woken(&control).is_empty());
        }
        assert_eq!(wakeups.wake_idle(Some(1), at(9), &control), None);
    }

    #[test]
    fn short_rises_are_rate_limited() {
        let (control, mut wakeups) = (control(), PressureWakeups::default());
        let mut woken_in_total = Vec::new();
        for pressure_epoch in 0..100 {
            let now = Instant::ZERO + WAKE_INTERVAL * (pressure_epoch / 50);
            wakeups.wake_idle(Some(u64::from(pressure_epoch) * 2 + 1), now, &control);
            wakeups.wake_idle(None, now, &control);
            woken_in_total.extend(woken(&control));
        }
        assert!(woken_in_total.into_iter().eq(0..2 * WAKES_PER_ROUND));
    }
}
