//! The open loop: arrivals take free users when they are due.
//!
//! A shard with a free user takes the next arrival from the run's [queue](crate::arrivals) ahead of time, and reserves
//! the user for it. When it is due, its request is sent; one per call, so that the instant of the call is that of the
//! send. Arrivals that become due while no user of any shard is free wait in the queue; a user that becomes free takes
//! the oldest at once.
//!
//! Before the schedule begins all connections are opened, for at most [`OPENING_MAX`]: otherwise only the first
//! requests would wait for a handshake. If each request has a connection of its own, it is opened when the request is
//! due.

use std::time::Duration;

use breme_base::Instant;
use breme_node::{Actions, ShardId};

use super::open_loop::OpenLoop;
use super::shard::{Load, Phase};
use crate::arrivals::{Arrival, ArrivalQueue, Claim};
use crate::error_kind::ErrorKind;
use crate::user::State;
use crate::window::Slot;

/// The schedule begins when every user has tried to connect, or after this time.
const OPENING_MAX: Duration = Duration::from_secs(1);
/// Expired arrivals dropped per call.
const SHED_PER_CALL: usize = 1_024;
impl Load {
    // the beginning

    pub(super) fn begin_opening(&mut self, now: Instant) -> Instant {
        let epoch = self.run.begin_opening(now);
        self.phase = Phase::Opening(epoch + OPENING_MAX);
        epoch
    }

    /// The last user to try starts the schedule, for all shards.
    pub(super) fn note_tried(&mut self, now: Instant, index: u32, actions: &mut Actions) {
        if self.open.is_none() || std::mem::replace(&mut self.users[index as usize].has_tried, true) {
            return;
        }
        if self.run.note_tried() && matches!(self.phase, Phase::Opening(_)) {
            self.begin(now);
            let others = (0..self.shard.count).filter(|&shard| shard != self.shard.id.0);
            others.for_each(|shard| actions.wake(ShardId(shard), 0));
        }
    }

    // free users

    /// The user has finished some or all of its requests: it may take an arrival.
    pub(super) fn become_free(&mut self, now: Instant, index: u32, actions: &mut Actions) {
        let user = &mut self.users[index as usize];
        let Some(open) = &mut self.open else { return };
        let is_last = open.is_over || matches!(self.phase, Phase::Draining(_) | Phase::Over);
        if is_last && user.window.is_empty() {
            return self.retire(now, index, actions);
        }
        if !matches!(user.state, State::Open(_)) {
            user.ready = now; // it needs no connection to be free
        }
        self.watch(now, index, actions);
        if self.next_free().is_none()
            && let Some(queue) = self.run.queue()
        {
            let dropped = queue.note_busy(self.shard.id.0, now);
            self.count_dropped(dropped);
        }
        self.list(index);
    }

    fn list(&mut self, index: u32) {
        if self.is_free(index)
            && let Some(open) = &mut self.open
        {
            open.free_users.add(index, &mut self.users);
        }
    }

    /// The user that takes the next arrival.
    fn next_free(&mut self) -> Option<u32> {
        loop {
            let index = self.open.as_mut()?.free_users.first(&self.users)?;
            if self.is_free(index) {
                return Some(index);
            }
            self.unlist(index);
        }
    }

    /// Removes the user whose turn it is.
    fn unlist(&mut self, index: u32) {
        if let Some(open) = &mut self.open {
            open.free_users.remove_first(index, &mut self.users);
        }
    }

    fn is_free(&self, index: u32) -> bool {
        let user = &self.users[index as usize];
        let has_place = match user.state {
            State::Open(_) => true,
            State::Waiting => {
                self.open.as_ref().is_some_and(|open| !open.connects_ahead) && self.timers.deadline(index).is_none()
            }
            State::Queued | State::Connecting(_) | State::Tunnelling(..) | State::Done => false,
        };
        has_place && !user.window.is_full() && !user.in_session()
    }

    // arrivals

    /// Begins the next arrival if it is due and a user is free for it, and takes the one after it.
    ///
    /// At most one per call, since its instant is that of the call. If the next is due as well, so is the node's
    /// deadline.
    #[inline]
    pub(super) fn dispatch(&mut self, now: Instant, actions: &mut Actions) {
        if self.open.is_some() && self.phase == Phase::Running && now < self.window_ends {
            self.dispatch_one(now, actions);
        }
    }

    /// At the end of the run: begins arrivals that were due before it and had a free user.
    pub(super) fn dispatch_rest(&mut self, now: Instant, actions: &mut Actions) {
        let ends = self.window_ends;
        let is_due = |open: &OpenLoop| open.next_due() < ends;
        while self.open.as_ref().is_some_and(is_due)
            && let Some(index) = self.next_free()
            && self.users[index as usize].ready < ends
        {
            self.dispatch_one(now, actions);
        }
    }

    fn dispatch_one(&mut self, now: Instant, actions: &mut Actions) {
        let mut has_begun = false;
        for _ in 0..SHED_PER_CALL {
            let Some(index) = self.next_free() else {
                self.give_back();
                break;
            };
            let Some(arrival) = self.hold(now, actions) else { break };
            if arrival.due > now || has_begun {
                break;
            }
            self.take_held();
            if self.is_too_late(arrival, now) {
                self.count_unbegun(ErrorKind::Shed, 1);
                self.release();
            } else {
                self.begin_arrival(now, index, arrival, actions);
                has_begun = true;
            }
        }
        self.wake_starved(actions);
    }

    /// The arrival for which the next free user is reserved.
    fn hold(&mut self, now: Instant, actions: &mut Actions) -> Option<Arrival> {
        let open = self.open.as_mut()?;
        if open.held.is_some() || open.is_over {
            return open.held;
        }
        let (claim, dropped) = self.run.queue()?.claim(self.shard.id.0, open.places(), now);
        match claim {
            Claim::Taken(arrival) => open.held = Some(arrival),
            Claim::Full | Claim::NoneYet => {}
            Claim::Over => open.is_over = true,
        }
        self.count_dropped(dropped);
        if claim == Claim::Over {
            self.retire_idle(now, actions);
        }
        self.open.as_ref()?.held
    }

    fn take_held(&mut self) -> Option<Arrival> {
        self.open.as_mut().and_then(|open| open.held.take())
    }

    /// Returns the arrival, which this shard cannot begin.
    fn give_back(&mut self) {
        if let Some(arrival) = self.take_held()
            && let Some(queue) = self.run.queue()
        {
            queue.give_back(self.shard.id.0, arrival);
        }
    }

    fn is_too_late(&self, arrival: Arrival, now: Instant) -> bool {
        let deadline = self.open.as_ref().and_then(|open| open.deadline);
        deadline.is_some_and(|deadline| now.since(arrival.due) > deadline)
    }

    fn begin_arrival(&mut self, now: Instant, index: u32, arrival: Arrival, actions: &mut Actions) {
        self.unlist(index);
        self.take_arrival(index, arrival);
        let user = &self.users[index as usize];
        self.tally.waited += u64::from(user.ready > arrival.due);
        let lateness = now.since(arrival.due.max(user.ready));
        self.note_lateness(lateness);
        let user = &self.users[index as usize];
        match user.state {
            State::Open(connection) if user.is_elsewhere() => self.change_host(now, index, connection, actions),
            State::Open(connection) => {
                let place = user.window.len() - 1;
                self.send(now, index, place, connection, actions);
                self.watch(now, index, actions);
                self.list(index);
            }
            _ => self.want_connection(now, index, actions),
        }
    }

    /// Assigns the arrival to the user: a request, or a session whose first request is due.
    fn take_arrival(&mut self, index: u32, arrival: Arrival) {
        self.tally.arrived += 1;
        let ordinal = match self.run.plan().scenarios() {
            None => {
                let host = self.run.plan().target_host(arrival.number);
                self.users[index as usize].set_host(host);
                arrival.number
            }
            Some(_) => {
                self.begin_session(index, arrival.number);
                self.next_sequence()
            }
        };
        self.users[index as usize].window.push(Slot::new(ordinal, arrival.due));
    }

    /// No connection could be opened: due arrivals without a free user fail for that reason.
    pub(super) fn fail_due(&mut self, now: Instant, index: u32, kind: ErrorKind, actions: &mut Actions) {
        if self.phase != Phase::Running || self.next_free().is_some() {
            return;
        }
        match self.hold(now, actions) {
            Some(arrival) if arrival.due <= now => {
                self.take_held();
                self.take_arrival(index, arrival);
                self.pop_unanswered(index);
                self.tally.issued += 1;
                self.fail(index, kind);
            }
            _ => self.give_back(),
        }
    }

    /// An arrival taken from the queue has ended.
    #[inline]
    pub(super) fn release(&self) {
        if let Some(open) = &self.open
            && open.is_capped
            && let Some(queue) = self.run.queue()
        {
            queue.release();
        }
    }

    /// Wakes a shard that was refused because of the limit in flight.
    fn wake_starved(&self, actions: &mut Actions) {
        if let Some(open) = &self.open
            && open.is_capped
            && let Some(shard) = self.run.queue().and_then(ArrivalQueue::next_starved)
        {
            actions.wake(ShardId(shard), 0);
        }
    }

    // the end

    /// The shard begins nothing more. Arrivals due until `end` that no shard has begun are dropped.
    pub(super) fn end_schedule(&mut self, end: Instant) {
        let Some(open) = &mut self.open else { return };
        if std::mem::replace(&mut open.has_ended, true) {
            return;
        }
        let held = u64::from(open.held.take().is_some_and(|arrival| arrival.due <= end));
        let left = self.run.queue().map_or(0, |queue| queue.finish_shard(self.shard.id.0, end));
        self.count_dropped(held + left);
    }

    fn count_dropped(&mut self, count: u64) {
        if count > 0 {
            self.count_unbegun(ErrorKind::Dropped, count);
        }
    }

    fn count_unbegun(&mut self, kind: ErrorKind, count: u64) {
        self.tally.arrived += count;
        self.count_errors(kind, count);
    }
}
