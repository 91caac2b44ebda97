//! Counting: what happened in each interval, and the end of the account.

use std::sync::atomic::Ordering;

use std::time::Duration;

use breme_base::Instant;

use super::shard::{Load, Phase};
use crate::tally::ErrorKind;

impl Load {
    /// Closes the books, also where the driver ended the shard without asking.
    pub(crate) fn close(&mut self) {
        if self.phase == Phase::Over {
            return;
        }
        self.end_schedule(self.last_seen);
        self.phase = Phase::Over;
        self.interval_ends = Instant::FAR;
        (0..self.users.len() as u32).for_each(|index| self.drop_window(index));
        self.open_count = 0;
        self.span.ended = self.last_seen;
        self.gather();
        self.run.series().finish_shard(self.shard.id.0, self.interval_index, &self.interval);
        self.publish();
    }

    /// Hands in the interval that is over.
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

    /// The request has a time all the same.
    pub(super) fn note_wrong(&mut self, response_ns: u64) {
        self.interval.wrong.record(response_ns);
    }

    pub(super) fn count_errors(&mut self, kind: ErrorKind, count: u64) {
        self.tally.count(kind, count);
        self.interval.errors += count;
    }

    /// A request that was begun gets no answer.
    pub(super) fn fail(&mut self, index: u32, kind: ErrorKind) {
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
