//! What a shard counts: events per interval, the time of its users by activity, and the totals at the end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use breme_base::Instant;

use super::shard::{Load, Phase};
use crate::error_kind::ErrorKind;
use crate::occupancy::Activity;
use crate::outcome::LATENESS_P99_MAX;
use crate::window::Slot;

impl Load {
    /// Completes the totals, also if the driver ended the shard unexpectedly.
    pub(crate) fn close(&mut self) {
        if self.phase == Phase::Over {
            return;
        }
        self.end_schedule(self.last_seen);
        self.phase = Phase::Over;
        self.interval_ends = Instant::FAR;
        for index in 0..self.users.len() as u32 {
            self.end_thinking(index);
            self.drop_window(index);
            self.end_wait(self.last_seen, index);
        }
        self.open_count = 0;
        self.span.ended = self.last_seen;
        self.gather();
        self.run.series().finish_shard(self.shard.id.0, self.interval_index, &self.interval);
        self.run.set_counts(self.shard.id.0, &self.tally);
        self.publish();
    }

    /// Hands in the completed interval.
    pub(super) fn tick(&mut self, now: Instant) {
        self.last_seen = now;
        if now < self.interval_ends || now >= self.window_ends {
            return; // what is waited for at the end belongs to the last interval
        }
        let length_ns = self.run.plan().settings().interval.as_nanos() as u64; // bounded by the plan
        let passed = 1 + now.nanos_since(self.interval_ends) / length_ns;
        let next = self.interval_index + passed;
        self.gather();
        self.run.series().hand_in(self.shard.id.0, self.interval_index, next, &self.interval);
        self.interval.clear();
        self.bytes_received_before = self.tally.bytes_received;
        self.interval_ends = self.interval_ends + Duration::from_nanos(length_ns * passed);
        self.interval_index = next;
        self.run.set_counts(self.shard.id.0, &self.tally);
        self.note_cpu();
    }

    pub(super) fn note_cpu(&mut self) {
        self.span.cpu = self.run.thread_cpu().map(|cpu| cpu.saturating_sub(self.cpu_before));
    }

    #[inline]
    pub(super) fn note_lateness(&mut self, lateness: Duration) {
        if lateness.is_zero() {
            self.tally.punctual += 1;
        } else {
            self.tally.lateness.record(lateness.as_nanos() as u64);
            self.tally.late += u64::from(lateness > LATENESS_P99_MAX);
        }
    }

    /// Attributes the time of a user of a closed loop to an activity. Time after the end of the run is not attributed.
    #[inline]
    fn account(&mut self, activity: Activity, from: Instant, to: Instant) {
        self.tally.occupancy.add(activity, from, to.min(self.window_ends));
    }

    /// A request is about to be sent: attributes the time until its user had a connection, and until the generator was
    /// ready.
    #[inline]
    pub(super) fn account_sending(&mut self, now: Instant, index: u32, place: usize) {
        let user = &mut self.users[index as usize];
        let ready = user.ready;
        let Some(slot) = user.window.get_mut(place) else { return };
        let from = slot.accounted;
        let connected = ready.max(from).min(now);
        self.account(Activity::Connecting, from, connected);
        self.account(Activity::Generator, connected, now);
        self.tally.sends.note(now.min(self.window_ends).nanos_since(self.epoch));
    }

    /// A user of a closed loop starts to connect: the time since it wanted to is attributed to the generator.
    pub(super) fn account_wait_to_connect(&mut self, now: Instant, index: u32) {
        let mut place = 0;
        while let Some(slot) = self.users[index as usize].window.get_mut(place) {
            if !slot.was_sent() {
                let from = std::mem::replace(&mut slot.accounted, now);
                self.account(Activity::Generator, from, now);
                self.note_lateness(now.since(from));
            }
            place += 1;
        }
    }

    #[inline]
    pub(super) fn account_response(&mut self, slot: Slot, done: Instant, read: Instant) {
        if self.open.is_none() {
            self.account(Activity::Server, slot.accounted, done);
            self.account(Activity::Generator, done, read);
        }
    }

    /// Removes the oldest request, which has no response.
    pub(super) fn pop_unanswered(&mut self, index: u32) -> Option<Slot> {
        let user = &mut self.users[index as usize];
        let slot = user.window.pop()?;
        user.unserved_since = user.unserved_since.min(slot.due);
        self.end_redirects(index);
        if self.open.is_none() {
            let activity = if slot.was_sent() { Activity::Server } else { Activity::Connecting };
            self.account(activity, slot.accounted, self.last_seen);
        }
        Some(slot)
    }

    /// The user thinks from `from` until it `wants` its next request.
    pub(super) fn begin_thinking(&mut self, index: u32, from: Instant, wants: Instant) {
        let user = &mut self.users[index as usize];
        user.thinks_since = if from < wants { from } else { Instant::FAR };
        (user.wants, user.ready) = (wants, wants);
    }

    /// The user stops thinking, at the latest when the run ends. A user with a pipeline counts as many users as it is
    /// deep.
    pub(super) fn end_thinking(&mut self, index: u32) {
        let user = &mut self.users[index as usize];
        let since = std::mem::replace(&mut user.thinks_since, Instant::FAR);
        let until = user.wants.min(self.last_seen);
        if since < until && self.open.is_none() {
            for _ in 0..self.run.plan().settings().pipeline_depth {
                self.account(Activity::Thinking, since, until);
            }
        }
    }

    /// Completes the interval before it is handed in.
    fn gather(&mut self) {
        self.interval.received_bytes = self.tally.bytes_received - self.bytes_received_before;
        std::mem::swap(&mut self.interval.prompt, &mut self.prompt); // what it gets is empty
    }

    pub(super) fn count_error(&mut self, kind: ErrorKind) {
        self.count_errors(kind, 1);
    }

    /// Records a response as expected.
    #[inline]
    pub(super) fn note_success(&mut self, index: u32, due: Instant, done: Instant) {
        let unserved_since = std::mem::replace(&mut self.users[index as usize].unserved_since, Instant::FAR);
        let (wanted, done) = (unserved_since.min(due), done.min(self.window_ends));
        self.tally.availability.note_success(wanted, done, self.run.latest_outcomes());
    }

    /// Records a response other than expected.
    pub(super) fn note_wrong_response(&mut self, index: u32, kind: ErrorKind, due: Instant, done: Instant) {
        let user = &mut self.users[index as usize];
        user.unserved_since = user.unserved_since.min(due);
        self.tally.availability.note_failure(done, self.run.latest_outcomes());
        self.note_wrong(done.nanos_since(due));
        self.count_error(kind);
    }

    /// The user waits no longer: it or the run has ended.
    pub(super) fn end_wait(&mut self, now: Instant, index: u32) {
        let unserved_since = std::mem::replace(&mut self.users[index as usize].unserved_since, Instant::FAR);
        self.tally.availability.note_wait(unserved_since, now.min(self.window_ends));
    }

    /// A wrong response has a time nevertheless.
    pub(super) fn note_wrong(&mut self, response_ns: u64) {
        self.interval.wrong.record(response_ns);
    }

    pub(super) fn count_errors(&mut self, kind: ErrorKind, count: u64) {
        self.tally.count(kind, count);
        self.interval.errors += count;
    }

    /// A request that was begun gets no response.
    pub(super) fn fail(&mut self, index: u32, kind: ErrorKind) {
        self.tally.availability.note_failure(self.last_seen, self.run.latest_outcomes());
        self.count_error(kind);
        if self.users[index as usize].in_session() {
            self.break_off(index, kind);
        } else {
            self.release();
        }
    }

    pub(super) fn publish(&self) {
        if let Some(progress) = self.run.shard_progress(self.shard.id.0) {
            progress.answered.store(self.tally.answered, Ordering::Relaxed);
            progress.errors.store(self.tally.errors(), Ordering::Relaxed);
            progress.open.store(self.open_count as u64, Ordering::Relaxed);
            progress.bytes_received.store(self.tally.bytes_received, Ordering::Relaxed);
        }
    }
}
