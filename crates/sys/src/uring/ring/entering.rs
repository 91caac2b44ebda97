//! Entering the kernel: wishes are handed over, completions brought, for as long as the caller wants to wait.

use std::io;
use std::mem;
use std::time::Duration;

use io_uring::cqueue;
use io_uring::types::{SubmitArgs, Timespec};

use super::Ring;
use super::kernel::{ENTER_ABS_TIMER, ENTER_EXT_ARG, ENTER_GETEVENTS};
use crate::uring::completion::Tag;

/// How often a submission is tried again that the kernel took only in part, for lack of memory.
const SUBMISSION_TRIES: u32 = 10_000;
/// How often completions that did not fit into the queue are fetched before that is a fault.
const OVERFLOW_ROUNDS: u32 = 10_000;
/// So many completions are not left to wait for more. They fit into the queue.
const GATHERED_MAX: u32 = 64;

/// How long an entry into the kernel waits.
#[derive(Clone, Copy)]
enum Wait {
    /// Not at all; what is due is not looked for either.
    Never,
    /// What is due is brought in.
    Poll,
    /// Until there is a completion, or this has passed.
    For(Duration),
    Forever,
    /// Until this has passed, or until there are [`GATHERED_MAX`].
    Gather(Duration),
}

impl Ring {
    /// Hands the wishes over. Sends have left when it returns, or are told by [`Ring::next_unsent`].
    ///
    /// # Errors
    /// When the kernel does not take them, even when asked many times. The ring is of no use then.
    pub fn submit(&mut self) -> io::Result<()> {
        self.enter(Wait::Never)
    }

    /// Hands the wishes over and lets completions gather until `timeout` has passed, or until there are many: so one
    /// waking does for all of them.
    ///
    /// # Errors
    /// See [`Ring::submit`].
    pub fn submit_and_gather(&mut self, timeout: Duration) -> io::Result<()> {
        let is_due = timeout.is_zero() || !self.completions.is_empty() || !self.unsent.is_empty();
        self.enter(if is_due { Wait::Poll } else { Wait::Gather(timeout) })
    }

    /// Hands the wishes over and waits until something is completed, at most for `timeout`.
    ///
    /// # Errors
    /// See [`Ring::submit`].
    pub fn submit_and_wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let wait = match timeout {
            _ if !self.completions.is_empty() || !self.unsent.is_empty() => Wait::Poll,
            Some(Duration::ZERO) => Wait::Poll,
            Some(timeout) => Wait::For(timeout),
            None => Wait::Forever,
        };
        self.enter(wait)
    }

    fn refill(&mut self) {
        while let Some(entry) = self.later.pop_front() {
            if !self.push_now(&entry) {
                return self.later.push_front(entry);
            }
        }
    }

    fn enter(&mut self, wait: Wait) -> io::Result<()> {
        let mut wait = wait;
        let mut failure = None;
        for _ in 0..SUBMISSION_TRIES {
            self.refill();
            // Wishes that do not fit into the queue at once must not wait for what those before them bring.
            let outcome = self.enter_once(if self.later.is_empty() { wait } else { Wait::Never });
            self.fetch()?;
            let has_left = self.later.is_empty() && self.uring.submission().is_empty();
            match outcome {
                Err(error) if !is_transient(&error) => return Err(self.give_up(error)),
                _ if has_left => {
                    self.conclude();
                    return Ok(());
                }
                outcome => failure = outcome.err().or(failure),
            }
            wait = Wait::Poll;
        }
        Err(self.give_up(failure.unwrap_or_else(|| io::ErrorKind::WouldBlock.into())))
    }

    /// The kernel may have taken a part of the wishes: whether it has closed a descriptor is not known, and one that
    /// stays open does less harm than another's that is closed.
    fn give_up(&mut self, error: io::Error) -> io::Error {
        self.forget_closed();
        error
    }

    #[allow(unsafe_code)]
    fn enter_once(&mut self, wait: Wait) -> io::Result<()> {
        let waiting = self.uring.submission().len() as u32;
        let submitter = self.uring.submitter();
        match wait {
            Wait::Never if waiting == 0 => Ok(0),
            Wait::Never => submitter.submit(),
            // SAFETY: no argument is passed; the entries are sound, see `push_now`.
            Wait::Poll => unsafe { submitter.enter::<libc::sigset_t>(waiting, 0, ENTER_GETEVENTS, None) },
            Wait::For(time) => self.wait_until(waiting, 1, time),
            Wait::Gather(time) => self.wait_until(waiting, GATHERED_MAX, time),
            Wait::Forever => submitter.submit_and_wait(1),
        }
        .map(drop)
    }

    /// The kernel counts a time from when it begins to wait, which is after all sends have left: some 30 µs. So it is
    /// told an instant, if it understands that (Linux 6.12).
    #[allow(unsafe_code)]
    fn wait_until(&self, waiting: u32, wanted: u32, time: Duration) -> io::Result<usize> {
        let (time, flags) = if self.knows_instants {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            let now = Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32);
            (now.saturating_add(time), ENTER_GETEVENTS | ENTER_EXT_ARG | ENTER_ABS_TIMER)
        } else {
            (time, ENTER_GETEVENTS | ENTER_EXT_ARG)
        };
        let time = Timespec::from(time);
        let arguments = SubmitArgs::new().timespec(&time);
        // SAFETY: the arguments live across the call; the entries are sound, see `push_now`.
        unsafe { self.uring.submitter().enter(waiting, wanted, flags, Some(&arguments)) }
    }

    /// The kernel has taken all wishes and, as they do not wait, is done with the bytes to send.
    fn conclude(&mut self) {
        self.outbox.clear();
        self.addresses.clear();
        self.forget_closed();
        self.unsubmitted = 0;
        self.submission = self.submission.wrapping_add(1);
    }

    /// The kernel has closed them; the numbers may belong to others by now.
    fn forget_closed(&mut self) {
        self.closing.drain(..).for_each(mem::forget);
    }

    /// Takes over the completions that are there, also those that did not fit into the queue: among them may be the
    /// failure of a send.
    #[allow(unsafe_code)]
    pub(super) fn fetch(&mut self) -> io::Result<()> {
        for _ in 0..OVERFLOW_ROUNDS {
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

/// A time that has passed, a signal, or a lack that may be over soon.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ENOMEM))
}
