//! One ring: the wishes of one thread and their completions.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use socket2::SockAddr;

use super::buffers::Arena;
use super::completion::{Completion, Key, Operation, Tag, Unsent, Watched};
use super::outbox::{Outbox, Placed};
use crate::stamps::CONTROL_BYTES;

/// The most bytes that [`Ring::send`] and [`Ring::send_shared`] take. Even copied they cost less than a system call of their own: 8 % of all CPU
/// time for a file of 10 kB.
pub const SEND_BYTES_MAX: usize = 16 * 1024;

/// The group of buffers; a ring has one.
const BUFFERS: u16 = 0;
/// How often a submission is tried again that the kernel took only in part, for lack of memory.
const SUBMISSION_TRIES: u32 = 10_000;
/// How often completions that did not fit into the queue are fetched before that is a fault.
const OVERFLOW_ROUNDS: u32 = 10_000;
/// So many completions are not left to wait for more. They fit into the queue.
const GATHERED_MAX: u32 = 64;
/// How long, and how often without anything ending, the end of a ring waits for what is in flight.
const REAP_WAIT: Duration = Duration::from_millis(20);
const REAP_ROUNDS: u32 = 100;
/// `IORING_ENTER_GETEVENTS`: completions that are due are brought in, without waiting for any.
const ENTER_GETEVENTS: u32 = 1;
/// `IORING_ENTER_EXT_ARG`: with arguments.
const ENTER_EXT_ARG: u32 = 1 << 3;
/// `IORING_ENTER_ABS_TIMER`: the time among them is an instant of the monotonic clock.
const ENTER_ABS_TIMER: u32 = 1 << 5;

/// The sizes of a ring; each is a power of two.
#[derive(Clone, Copy, Debug)]
pub struct RingSizes {
    /// Wishes that go to the kernel in one piece; more wait in memory.
    pub submissions: u32,
    /// Completions that the kernel has room for; more wait in its memory, at a cost.
    pub completions: u32,
    /// Buffers to receive into.
    pub buffers: u16,
    /// The length of each.
    pub buffer_bytes: usize,
    /// After so much (and what fills the buffer then) [`Ring::receive`] ends and must be wished for again, where the kernel can be told so.
    pub receive_bytes: u32,
}

/// See the module. It stays on the thread that made it.
pub struct Ring {
    uring: IoUring,
    arena: Rc<Arena>,
    outbox: Outbox,
    /// Wishes that found the submission queue full.
    later: VecDeque<squeue::Entry>,
    /// Addresses of this submission; boxed, since the kernel knows where they lie.
    #[expect(clippy::vec_box, reason = "an address stays where it is when the list grows")]
    addresses: Vec<Box<SockAddr>>,
    /// Descriptors that this submission closes. If it never comes, they are closed with the ring.
    closing: Vec<OwnedFd>,
    completions: VecDeque<cqueue::Entry>,
    unsent: VecDeque<Unsent>,
    /// Operations that will be completed, and those among them that have not been submitted.
    in_flight: usize,
    unsubmitted: usize,
    submission: u32,
    /// The kernel can wait until an instant.
    knows_instants: bool,
    /// After how many bytes a receive ends; none where the kernel cannot be told.
    receive_bytes: Option<u32>,
    /// How much room receipts with stamps keep for these; boxed, since the kernel may look at it as long as one is in flight.
    room_for_stamps: Box<libc::msghdr>,
}

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
    /// A ring for this thread.
    ///
    /// # Errors
    /// What the kernel says; [`probe_uring`](super::probe_uring) tells what that means.
    #[allow(unsafe_code)]
    pub fn new(sizes: RingSizes) -> io::Result<Self> {
        let mut uring = setup(sizes)?;
        let receive_bytes = knows_limits(&mut uring).then_some(sizes.receive_bytes);
        let arena = Arena::new(sizes.buffers, sizes.buffer_bytes)?;
        // SAFETY: the arena begins with `count` entries and lives longer than the registration: it is unmapped when its last
        // reference is dropped, one of which this ring holds until the end of `drop`, where the group is unregistered.
        unsafe {
            uring.submitter().register_buf_ring_with_flags(arena.entries_address(), arena.count(), BUFFERS, 0)?;
        }
        let knows_instants = knows_instants(&uring);
        Ok(Self {
            uring,
            arena,
            outbox: Outbox::new(),
            later: VecDeque::new(),
            addresses: Vec::new(),
            closing: Vec::new(),
            completions: VecDeque::new(),
            unsent: VecDeque::new(),
            in_flight: 0,
            unsubmitted: 0,
            submission: 0,
            knows_instants,
            receive_bytes,
            room_for_stamps: room_for_stamps(),
        })
    }

    /// Accepts connections that do not wait, until it is cancelled or fails.
    pub fn accept(&mut self, listener: BorrowedFd<'_>, key: Key) {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let entry = opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).flags(flags).build();
        self.wish(entry, Operation::Accept, key);
    }

    /// Receives whatever comes, until the end, a failure, a lack of buffers, or until it is cancelled; where [receiving is
    /// bounded](Ring::bounds_receiving), also until so many bytes have come.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, key: Key) {
        let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), BUFFERS).build();
        self.wish(limit(entry, self.receive_bytes.unwrap_or(0)), Operation::Receive, key);
    }

    /// Whether [`Ring::receive`] ends after [`RingSizes::receive_bytes`].
    #[must_use]
    pub fn bounds_receiving(&self) -> bool {
        self.receive_bytes.is_some()
    }

    /// Receives once, into one buffer: where much comes, no more may come at a time than somebody wants, and receiving is not bounded.
    pub fn receive_once(&mut self, socket: BorrowedFd<'_>, key: Key) {
        // No address and no length: those of the buffer that the kernel chooses.
        let receive = opcode::Recv::new(Fd(socket.as_raw_fd()), std::ptr::null_mut(), 0).buf_group(BUFFERS);
        self.wish(receive.build().flags(squeue::Flags::BUFFER_SELECT), Operation::Receive, key);
    }

    /// Receives again and again on a socket that [stamps](crate::stamp_arrivals): the [`Lease`](super::Lease) says when its bytes came.
    pub fn receive_with_stamps(&mut self, socket: BorrowedFd<'_>, key: Key) {
        let message = &raw const *self.room_for_stamps;
        let entry = opcode::RecvMsgMulti::new(Fd(socket.as_raw_fd()), message, BUFFERS).build();
        self.wish(entry, Operation::ReceiveWithStamps, key);
    }

    /// Connects a socket that was made and is not connected.
    pub fn connect(&mut self, socket: BorrowedFd<'_>, address: SocketAddr, key: Key) {
        let address = Box::new(SockAddr::from(address));
        let entry = opcode::Connect::new(Fd(socket.as_raw_fd()), address.as_ptr().cast(), address.len()).build();
        self.addresses.push(address);
        self.wish(entry, Operation::Connect, key);
    }

    /// Waits for something at a descriptor.
    pub fn watch(&mut self, descriptor: BorrowedFd<'_>, watched: Watched, key: Key) {
        // Errors and the end of both sides are told whatever is asked for (poll(2)).
        let events = match watched {
            Watched::Readable => libc::POLLIN,
            Watched::Writable => libc::POLLOUT,
            Watched::Broken => 0,
        };
        let poll = opcode::PollAdd::new(Fd(descriptor.as_raw_fd()), events as u32);
        let entry = poll.multi(watched == Watched::Readable).build();
        self.wish(entry, Operation::Watch(watched), key);
    }

    /// Sends a copy of `pieces`, one behind the other, with the next submission, if the socket takes them then: it does not wait for room. What has not
    /// left is told by [`Ring::next_unsent`] when that submission has returned, and **nothing else may be sent on this socket before**.
    /// Returns whether it was taken: not if there are too many bytes, or too many sends in this submission.
    #[must_use]
    pub fn send(&mut self, socket: BorrowedFd<'_>, key: Key, pieces: &[&[u8]]) -> bool {
        if pieces.iter().map(|piece| piece.len()).sum::<usize>() > SEND_BYTES_MAX {
            return false;
        }
        let Some(placed) = self.outbox.place(key, pieces) else { return false };
        self.send_placed(socket, &placed);
        true
    }

    /// The same without a copy: the segment is held until the submission has returned.
    #[must_use]
    pub fn send_shared(&mut self, socket: BorrowedFd<'_>, key: Key, segment: &Bytes) -> bool {
        if segment.len() > SEND_BYTES_MAX {
            return false;
        }
        let Some(placed) = self.outbox.hold(key, segment) else { return false };
        self.send_placed(socket, &placed);
        true
    }

    fn send_placed(&mut self, socket: BorrowedFd<'_>, placed: &Placed) {
        // Not waiting makes the kernel be done with the bytes when the submission returns. Wanting all makes a short send a failure,
        // which is told, while a success is skipped (io_uring_enter(2); the probe makes sure of it).
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | libc::MSG_WAITALL;
        let send = opcode::Send::new(Fd(socket.as_raw_fd()), placed.address, placed.length);
        let entry = send.flags(flags).build().flags(squeue::Flags::SKIP_SUCCESS);
        self.push(entry.user_data(Tag::Send(placed.place).to_bits()));
    }

    /// How many sends wait for the next submission.
    #[must_use]
    pub fn sends_waiting(&self) -> usize {
        self.outbox.count()
    }

    /// The number of the next submission. It changes when all its sends have left or been told as unsent.
    #[must_use]
    pub fn submission(&self) -> u32 {
        self.submission
    }

    /// Ends an operation. It is completed in any case: with an error that says so, or with what came first.
    pub fn cancel(&mut self, operation: Operation, key: Key) {
        let builder = CancelBuilder::user_data(Tag::Of(operation, key).to_bits());
        let entry = opcode::AsyncCancel2::new(builder).build().flags(squeue::Flags::SKIP_SUCCESS);
        self.push(entry.user_data(Tag::Ignored.to_bits()));
    }

    /// Closes a descriptor with the next submission, behind the wishes so far, which name it by its number. What is in flight keeps
    /// it open until it is cancelled.
    pub fn close(&mut self, descriptor: OwnedFd) {
        let entry = opcode::Close::new(Fd(descriptor.as_raw_fd())).build().flags(squeue::Flags::SKIP_SUCCESS);
        self.push(entry.user_data(Tag::Ignored.to_bits()));
        self.closing.push(descriptor);
    }

    /// Hands the wishes over. Sends have left when it returns, or are told by [`Ring::next_unsent`].
    ///
    /// # Errors
    /// When the kernel does not take them, even when asked many times. The ring is of no use then.
    pub fn submit(&mut self) -> io::Result<()> {
        self.enter(Wait::Never)
    }

    /// Hands the wishes over and lets completions gather until `timeout` has passed, or until there are many: so one waking does for all of them.
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

    /// A send that did not leave as a whole. These must be asked for after each submission, before anything else is sent.
    pub fn next_unsent(&mut self) -> Option<Unsent> {
        self.unsent.pop_front()
    }

    /// Something that has happened.
    pub fn next_completion(&mut self) -> Option<Completion> {
        loop {
            let entry = self.completions.pop_front()?;
            if let Tag::Of(operation, key) = Tag::from_bits(entry.user_data()) {
                return Some(self.completion(operation, key, &entry));
            }
        }
    }

    #[allow(unsafe_code)]
    fn completion(&self, operation: Operation, key: Key, entry: &cqueue::Entry) -> Completion {
        let goes_on = cqueue::more(entry.flags());
        let outcome = result(entry.result());
        match operation {
            Operation::Accept => {
                // SAFETY: an accept that succeeds makes a new descriptor, which nobody else knows.
                let outcome = outcome.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) });
                Completion::Accepted { key, outcome, goes_on }
            }
            Operation::Receive | Operation::ReceiveWithStamps => {
                let buffer = cqueue::buffer_select(entry.flags());
                let length = *outcome.as_ref().unwrap_or(&0) as usize;
                // Without bytes, the lease goes back at once.
                let lend = |buffer| match operation {
                    Operation::ReceiveWithStamps => self.arena.lend_stamped(buffer, length),
                    _ => self.arena.lend(buffer, length),
                };
                let lease = buffer.map(lend).filter(|lease| !lease.is_empty());
                Completion::Received { key, outcome: outcome.map(|_| lease), goes_on }
            }
            Operation::Connect => Completion::Connected { key, outcome: outcome.map(drop) },
            Operation::Watch(watched) => Completion::Seen { key, watched, outcome, goes_on },
        }
    }

    fn wish(&mut self, entry: squeue::Entry, operation: Operation, key: Key) {
        self.in_flight += 1;
        self.unsubmitted += 1;
        self.push(entry.user_data(Tag::Of(operation, key).to_bits()));
    }

    fn push(&mut self, entry: squeue::Entry) {
        if !self.later.is_empty() || !self.push_now(&entry) {
            self.later.push_back(entry);
        }
    }

    #[allow(unsafe_code)]
    fn push_now(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: what the entries of this ring point to lives long enough: bytes to send and addresses until the submission has
        // returned (`enter` clears them only then), buffers to receive into as long as the arena, the room for stamps as long as the ring.
        unsafe { self.uring.submission().push(entry) }.is_ok()
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

    /// The kernel may have taken a part of the wishes: whether it has closed a descriptor is not known, and one that stays open
    /// does less harm than another's that is closed.
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

    /// The kernel counts a time from when it begins to wait, which is after all sends have left: some 30 µs. So it is told an instant, if it
    /// understands that (Linux 6.12).
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

    /// Takes over the completions that are there, also those that did not fit into the queue: among them may be the failure
    /// of a send.
    #[allow(unsafe_code)]
    fn fetch(&mut self) -> io::Result<()> {
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

    /// Cancels what is in flight and waits for it, for a bounded time. Returns whether nothing is left.
    fn reap(&mut self) -> bool {
        // What was never submitted will not be: the descriptors that it names may be closed by now.
        let unsubmitted = mem::take(&mut self.unsubmitted);
        self.in_flight = self.in_flight.saturating_sub(unsubmitted);
        // What was cancelled one by one comes first. To cancel everything, the kernel looks at everything again for each operation, which
        // takes long where there are thousands.
        while self.in_flight > 0 && self.fetch_reaped(Duration::ZERO) {}
        for _ in 0..REAP_ROUNDS {
            if self.in_flight == 0 {
                return true;
            }
            let _ = self.uring.submitter().register_sync_cancel(Some(REAP_WAIT.into()), CancelBuilder::any());
            while self.in_flight > 0 && self.fetch_reaped(REAP_WAIT) {}
        }
        false
    }

    /// Returns whether something has ended.
    fn fetch_reaped(&mut self, wait: Duration) -> bool {
        let before = self.in_flight;
        let _ = self.wait_for_reaped(wait);
        let is_fetched = self.fetch().is_ok();
        while self.next_completion().is_some() {} // descriptors among them are closed
        is_fetched && self.in_flight < before
    }

    #[allow(unsafe_code)]
    fn wait_for_reaped(&self, wait: Duration) -> io::Result<usize> {
        let time = Timespec::from(wait);
        let arguments = SubmitArgs::new().timespec(&time);
        let wanted = u32::from(!wait.is_zero());
        // SAFETY: nothing is submitted; the arguments live across the call.
        unsafe { self.uring.submitter().enter(0, wanted, ENTER_GETEVENTS | ENTER_EXT_ARG, Some(&arguments)) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if !self.reap() {
            self.arena.leak();
        }
        let _ = self.uring.submitter().unregister_buf_ring(BUFFERS);
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Ring").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

/// It is tried: a wait until an instant that has passed.
#[allow(unsafe_code)]
fn knows_instants(uring: &IoUring) -> bool {
    let time = Timespec::new();
    let arguments = SubmitArgs::new().timespec(&time);
    // SAFETY: nothing is submitted; the arguments live across the call.
    let waited =
        unsafe { uring.submitter().enter(0, 1, ENTER_GETEVENTS | ENTER_EXT_ARG | ENTER_ABS_TIMER, Some(&arguments)) };
    waited.is_err_and(|error| error.raw_os_error() == Some(libc::ETIME))
}

/// It is tried, on no descriptor: a kernel that knows of limits (Linux 6.17) misses the descriptor, an older one minds the limit.
#[allow(unsafe_code)]
fn knows_limits(uring: &mut IoUring) -> bool {
    let entry = limit(opcode::RecvMulti::new(Fd(-1), BUFFERS).build(), 1);
    // SAFETY: the entry points to nothing, and asks for a buffer of a group that does not exist yet.
    let is_pushed = unsafe { uring.submission().push(&entry) }.is_ok();
    let is_submitted = is_pushed && uring.submit_and_wait(1).is_ok();
    is_submitted && uring.completion().next().is_some_and(|outcome| outcome.result() == -libc::EBADF)
}

/// The words of an entry, and which of them limits a receive: `optlen`, which the crate has no builder for.
const ENTRY_WORDS: usize = 16;
const LIMIT_WORD: usize = 11;

/// Lets a receive that goes on and on end after so many bytes; 0 is no limit.
#[allow(unsafe_code)]
fn limit(entry: squeue::Entry, bytes: u32) -> squeue::Entry {
    // SAFETY: an entry is the kernel's `struct io_uring_sqe`, 64 bytes of numbers without a gap; both types have that size, or this does not compile.
    let mut words: [u32; ENTRY_WORDS] = unsafe { mem::transmute(entry) };
    words[LIMIT_WORD] = bytes;
    // SAFETY: as above; every number is valid there.
    unsafe { mem::transmute(words) }
}

#[allow(unsafe_code)]
fn room_for_stamps() -> Box<libc::msghdr> {
    // SAFETY: all fields are numbers and pointers, for which zero is a value; it means "none".
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_controllen = CONTROL_BYTES as _;
    Box::new(message)
}

/// One thread submits, and completions are made only when it asks for them, so that nothing interrupts it.
fn setup(sizes: RingSizes) -> io::Result<IoUring> {
    let build = |without_array: bool| {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_submit_all().setup_cqsize(sizes.completions);
        if without_array {
            builder.setup_no_sqarray();
        }
        builder.build(sizes.submissions)
    };
    // Linux 6.6 can do without one table; the others need not know.
    build(true).or_else(|error| if error.raw_os_error() == Some(libc::EINVAL) { build(false) } else { Err(error) })
}

fn result(result: i32) -> io::Result<u32> {
    u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

/// A time that has passed, a signal, or a lack that may be over soon.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ENOMEM))
}

#[cfg(test)]
mod tests;
