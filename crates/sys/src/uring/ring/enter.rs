//! Entering the kernel: submits operations and collects completions, optionally waiting.

use std::io;
use std::mem;
use std::time::Duration;

use io_uring::cqueue;
use io_uring::types::{SubmitArgs, Timespec};

use super::Ring;
use super::kernel::{ENTER_ABS_TIMER, ENTER_EXT_ARG, ENTER_GETEVENTS};
use crate::uring::completion::Tag;

/// Attempts of a submission that the kernel accepts only in part, for lack of memory; then it fails.
const SUBMISSION_ATTEMPTS_MAX: u32 = 10_000;
/// Rounds of fetching overflowed completions; then the submission fails.
const OVERFLOW_ROUNDS_MAX: u32 = 10_000;
/// Completions that end a coalescing wait; they fit into the queue.
const COALESCED_MAX: u32 = 64;

#[derive(Clone, Copy)]
enum WaitMode {
    /// Does not even fetch pending completions.
    Never,
    /// Fetches pending completions.
    Poll,
    /// Until a completion or the timeout.
    For(Duration),
    Forever,
    /// Until the timeout, or [`COALESCED_MAX`] completions.
    Coalesce(Duration),
}

impl Ring {
    /// Submits. Sends are complete on return, or reported by [`Ring::next_unsent`].
    ///
    /// # Errors
    /// If the kernel refuses repeatedly. The ring is unusable then.
    pub fn submit(&mut self) -> io::Result<()> {
        self.enter(WaitMode::Never)
    }

    /// Submits, and waits until `timeout` has passed or many completions are pending, so that one wake-up handles them
    /// all.
    ///
    /// # Errors
    /// See [`Ring::submit`].
    pub fn submit_and_coalesce(&mut self, timeout: Duration) -> io::Result<()> {
        let is_due = timeout.is_zero() || !self.completions.is_empty() || !self.unsent.is_empty();
        self.enter(if is_due { WaitMode::Poll } else { WaitMode::Coalesce(timeout) })
    }

    /// Submits, and waits for a completion, at most for `timeout`.
    ///
    /// # Errors
    /// See [`Ring::submit`].
    pub fn submit_and_wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let wait = match timeout {
            _ if !self.completions.is_empty() || !self.unsent.is_empty() => WaitMode::Poll,
            Some(Duration::ZERO) => WaitMode::Poll,
            Some(timeout) => WaitMode::For(timeout),
            None => WaitMode::Forever,
        };
        self.enter(wait)
    }

    fn refill(&mut self) {
        while let Some(entry) = self.overflow.pop_front() {
            if !self.push_now(&entry) {
                return self.overflow.push_front(entry);
            }
        }
    }

    fn enter(&mut self, wait: WaitMode) -> io::Result<()> {
        let mut wait = wait;
        let mut failure = None;
        for _ in 0..SUBMISSION_ATTEMPTS_MAX {
            self.refill();
            // Entries that do not fit into the queue must not wait for completions of those before them.
            let outcome = self.enter_once(if self.overflow.is_empty() { wait } else { WaitMode::Never });
            self.fetch()?;
            let has_left = self.overflow.is_empty() && self.uring.submission().is_empty();
            match outcome {
                Err(error) if !is_transient(&error) => return Err(self.fail(error)),
                _ if has_left => {
                    self.finish_submission();
                    return Ok(());
                }
                outcome => failure = outcome.err().or(failure),
            }
            wait = WaitMode::Poll;
        }
        Err(self.fail(failure.unwrap_or_else(|| io::ErrorKind::WouldBlock.into())))
    }

    /// Part of the entries may have been submitted, so which descriptors are closed is unknown. Leaking one is less
    /// harmful than closing another's.
    fn fail(&mut self, error: io::Error) -> io::Error {
        self.forget_closed();
        error
    }

    #[allow(unsafe_code)]
    fn enter_once(&mut self, wait: WaitMode) -> io::Result<()> {
        let waiting = self.uring.submission().len() as u32;
        let submitter = self.uring.submitter();
        match wait {
            WaitMode::Never if waiting == 0 => Ok(0),
            WaitMode::Never => submitter.submit(),
            // SAFETY: no argument is passed; for the entries see `push_now`.
            WaitMode::Poll => unsafe { submitter.enter::<libc::sigset_t>(waiting, 0, ENTER_GETEVENTS, None) },
            WaitMode::For(time) => self.wait_until(waiting, 1, time),
            WaitMode::Coalesce(time) => self.wait_until(waiting, COALESCED_MAX, time),
            WaitMode::Forever => submitter.submit_and_wait(1),
        }
        .map(drop)
    }

    /// The kernel starts a relative timeout after all sends, some 30 µs late. So the timeout is absolute, if supported
    /// (Linux 6.12).
    #[allow(unsafe_code)]
    fn wait_until(&self, waiting: u32, wanted: u32, time: Duration) -> io::Result<usize> {
        let (time, flags) = if self.has_absolute_timeouts {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            let now = Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32);
            (now.saturating_add(time), ENTER_GETEVENTS | ENTER_EXT_ARG | ENTER_ABS_TIMER)
        } else {
            (time, ENTER_GETEVENTS | ENTER_EXT_ARG)
        };
        let time = Timespec::from(time);
        let arguments = SubmitArgs::new().timespec(&time);
        // SAFETY: the arguments outlive the call; for the entries see `push_now`.
        unsafe { self.uring.submitter().enter(waiting, wanted, flags, Some(&arguments)) }
    }

    /// The kernel has accepted all entries and, since sends do not block, no longer uses their bytes.
    fn finish_submission(&mut self) {
        self.outbox.clear();
        self.addresses.clear();
        self.forget_closed();
        self.unsubmitted = 0;
        self.submission = self.submission.wrapping_add(1);
    }

    /// The kernel has closed these descriptors; their numbers may be in use again.
    fn forget_closed(&mut self) {
        self.closing.drain(..).for_each(mem::forget);
    }

    /// Collects pending completions, also overflowed ones: a failed send may be among them.
    #[allow(unsafe_code)]
    pub(super) fn fetch(&mut self) -> io::Result<()> {
        for _ in 0..OVERFLOW_ROUNDS_MAX {
            self.fetch_queue();
            if !self.uring.submission().cq_overflow() {
                return Ok(());
            }
            // SAFETY: nothing is submitted and no argument is passed.
            let fetched = unsafe { self.uring.submitter().enter::<libc::sigset_t>(0, 0, ENTER_GETEVENTS, None) };
            fetched.map(drop).or_else(|error| if is_transient(&error) { Ok(()) } else { Err(error) })?;
        }
        Err(io::Error::other("the completions of a ring do not end"))
    }

    fn fetch_queue(&mut self) {
        for entry in self.uring.completion() {
            match Tag::from_bits(entry.user_data()) {
                Tag::Ignored => {}
                Tag::Send(place) => self.unsent.extend(self.outbox.unsent(place, entry.result())),
                Tag::Of(..) => {
                    self.in_flight -= usize::from(!cqueue::more(entry.flags()));
                    self.completions.push_back(entry);
                }
            }
        }
    }
}

/// Timeout, signal, or temporary shortage.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ENOMEM))
}
