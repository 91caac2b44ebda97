//! One ring: the operations of one thread and their completions.
//!
//! | file | contents |
//! |---|---|
//! | `kernel` | setup, constants and feature tests |
//! | `enter` | submitting and waiting |
//! | `shutdown` | ending a ring before its memory is freed |

mod enter;
mod kernel;
mod shutdown;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::rc::Rc;

use bytes::Bytes;
use io_uring::types::{CancelBuilder, Fd};
use io_uring::{IoUring, cqueue, opcode, squeue};
use kernel::{BUFFERS, has_absolute_timeouts, has_receive_limit, limit, setup, timestamp_header};
use socket2::SockAddr;

pub use kernel::RingSizes;

use super::buffers::BufferPool;
use super::completion::{Completion, Key, PollEvent, RingOperation, Tag, Unsent};
use super::outbox::{Outbox, PlacedSend};
use crate::address::Address;

/// Limit of [`Ring::send`] and [`Ring::send_shared`], in bytes. Even copied, such sends are cheaper than a system call
/// each: 8 % of all CPU time for a file of 10 kB.
pub const SEND_BYTES_MAX: usize = 16 * 1024;

/// A submission and a completion queue with receive buffers; see the [module](super). It stays on the thread that
/// created it.
pub struct Ring {
    uring: IoUring,
    pool: Rc<BufferPool>,
    outbox: Outbox,
    /// Entries that did not fit into the submission queue.
    overflow: VecDeque<squeue::Entry>,
    /// Addresses of this submission; boxed, since the kernel has pointers to them.
    #[expect(clippy::vec_box, reason = "an address stays where it is when the list grows")]
    addresses: Vec<Box<SockAddr>>,
    /// Descriptors that this submission closes. Without one they are closed with the ring.
    closing: Vec<OwnedFd>,
    completions: VecDeque<cqueue::Entry>,
    unsent: VecDeque<Unsent>,
    /// Operations that will complete.
    in_flight: usize,
    /// Of these, those that are not submitted yet.
    unsubmitted: usize,
    submission: u32,
    has_absolute_timeouts: bool,
    /// Limit of a multishot receive, in bytes; None: the kernel supports none.
    receive_bytes: Option<u32>,
    /// Space for control messages of timestamped receives; boxed, since the kernel may read it while one is in flight.
    timestamp_header: Box<libc::msghdr>,
}

impl Ring {
    /// # Errors
    /// Those of the setup; see [`probe_uring`](super::probe_uring).
    #[allow(unsafe_code)]
    pub fn new(sizes: RingSizes) -> io::Result<Self> {
        let mut uring = setup(sizes)?;
        let receive_bytes = has_receive_limit(&mut uring).then_some(sizes.receive_bytes);
        let pool = BufferPool::new(sizes.buffers, sizes.buffer_bytes)?;
        // SAFETY: the pool begins with `count` entries and outlives the registration: it is unmapped when its last
        // reference is dropped, one of which this ring holds until the end of `drop`, where the group is unregistered.
        unsafe {
            uring.submitter().register_buf_ring_with_flags(pool.entries_address(), pool.count(), BUFFERS, 0)?;
        }
        let has_absolute_timeouts = has_absolute_timeouts(&uring);
        Ok(Self {
            uring,
            pool,
            outbox: Outbox::new(),
            overflow: VecDeque::new(),
            addresses: Vec::new(),
            closing: Vec::new(),
            completions: VecDeque::new(),
            unsent: VecDeque::new(),
            in_flight: 0,
            unsubmitted: 0,
            submission: 0,
            has_absolute_timeouts,
            receive_bytes,
            timestamp_header: timestamp_header(),
        })
    }

    /// Accepts non-blocking connections until cancelled or failed.
    pub fn accept(&mut self, listener: BorrowedFd<'_>, key: Key) {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let entry = opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).flags(flags).build();
        self.push_operation(entry, RingOperation::Accept, key);
    }

    /// Multishot receive until the end, a failure, a lack of buffers or cancellation; if
    /// [supported](Ring::bounds_receiving), also until [`RingSizes::receive_bytes`] have arrived.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, key: Key) {
        let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), BUFFERS).build();
        self.push_operation(limit(entry, self.receive_bytes.unwrap_or(0)), RingOperation::Receive, key);
    }

    /// Whether [`Ring::receive`] ends after [`RingSizes::receive_bytes`].
    #[must_use]
    pub fn bounds_receiving(&self) -> bool {
        self.receive_bytes.is_some()
    }

    /// Receives once, up to `bytes_max`, into one buffer.
    pub fn receive_once(&mut self, socket: BorrowedFd<'_>, key: Key, bytes_max: usize) {
        // Without an address: the kernel selects the buffer, whose length is a limit too.
        let length = u32::try_from(bytes_max).unwrap_or(0);
        let receive = opcode::Recv::new(Fd(socket.as_raw_fd()), std::ptr::null_mut(), length).buf_group(BUFFERS);
        self.push_operation(receive.build().flags(squeue::Flags::BUFFER_SELECT), RingOperation::Receive, key);
    }

    /// Multishot receive on a socket with [timestamps](crate::enable_timestamps), returned in
    /// [`timestamp`](super::ReceiveBuffer::timestamp).
    pub fn receive_with_timestamps(&mut self, socket: BorrowedFd<'_>, key: Key) {
        let message = &raw const *self.timestamp_header;
        let entry = opcode::RecvMsgMulti::new(Fd(socket.as_raw_fd()), message, BUFFERS).build();
        self.push_operation(entry, RingOperation::ReceiveWithTimestamps, key);
    }

    /// Connects an unconnected socket.
    ///
    /// # Errors
    /// If the path of a Unix socket is too long.
    pub fn connect(&mut self, socket: BorrowedFd<'_>, address: &Address, key: Key) -> io::Result<()> {
        let address = Box::new(address.socket_address()?);
        let entry = opcode::Connect::new(Fd(socket.as_raw_fd()), address.as_ptr().cast(), address.len()).build();
        self.addresses.push(address);
        self.push_operation(entry, RingOperation::Connect, key);
        Ok(())
    }

    /// Waits for an event on a descriptor.
    pub fn watch(&mut self, descriptor: BorrowedFd<'_>, event: PollEvent, key: Key) {
        // Errors and hang-up are always reported (poll(2)).
        let events = match event {
            PollEvent::Readable | PollEvent::ReadableOnce => libc::POLLIN,
            PollEvent::Writable => libc::POLLOUT,
            PollEvent::Broken => 0,
        };
        let poll = opcode::PollAdd::new(Fd(descriptor.as_raw_fd()), events as u32);
        let entry = poll.multi(event == PollEvent::Readable).build();
        self.push_operation(entry, RingOperation::Watch(event), key);
    }

    /// Sends a copy of `pieces`, concatenated, with the next submission, as far as the socket buffer has space: it does
    /// not block. The unsent rest is returned by [`Ring::next_unsent`] after that submission; **nothing else may be
    /// sent on this socket before**. False if it was not queued: too many bytes, or too many sends in this submission.
    #[must_use]
    pub fn send(&mut self, socket: BorrowedFd<'_>, key: Key, pieces: &[&[u8]]) -> bool {
        if pieces.iter().map(|piece| piece.len()).sum::<usize>() > SEND_BYTES_MAX {
            return false;
        }
        let Some(placed) = self.outbox.copy(key, pieces) else { return false };
        self.push_send(socket, &placed);
        true
    }

    /// Likewise without a copy: the ring keeps a reference until the submission has returned.
    #[must_use]
    pub fn send_shared(&mut self, socket: BorrowedFd<'_>, key: Key, segment: &Bytes) -> bool {
        if segment.len() > SEND_BYTES_MAX {
            return false;
        }
        let Some(placed) = self.outbox.hold(key, segment) else { return false };
        self.push_send(socket, &placed);
        true
    }

    fn push_send(&mut self, socket: BorrowedFd<'_>, placed: &PlacedSend) {
        // MSG_DONTWAIT: the kernel no longer uses the bytes when the submission returns. MSG_WAITALL: a short send
        // counts as failure and is reported, while success is skipped (io_uring_enter(2); the probe tests it).
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | libc::MSG_WAITALL;
        let send = opcode::Send::new(Fd(socket.as_raw_fd()), placed.address, placed.length);
        let entry = send.flags(flags).build().flags(squeue::Flags::SKIP_SUCCESS);
        self.push(entry.user_data(Tag::Send(placed.slot).to_bits()));
    }

    /// The number of sends queued for the next submission.
    #[must_use]
    pub fn sends_waiting(&self) -> usize {
        self.outbox.count()
    }

    /// Number of the next submission. It changes when all its sends are sent or reported as unsent.
    #[must_use]
    pub fn submission(&self) -> u32 {
        self.submission
    }

    /// Cancels an operation. It completes in any case, with ECANCELED or an earlier result.
    pub fn cancel(&mut self, operation: RingOperation, key: Key) {
        let builder = CancelBuilder::user_data(Tag::Of(operation, key).to_bits());
        let entry = opcode::AsyncCancel2::new(builder).build().flags(squeue::Flags::SKIP_SUCCESS);
        self.push(entry.user_data(Tag::Ignored.to_bits()));
    }

    /// Closes a descriptor with the next submission, after the operations queued so far, which contain its number.
    /// Operations in flight keep it open until they are cancelled.
    pub fn close(&mut self, descriptor: OwnedFd) {
        let entry = opcode::Close::new(Fd(descriptor.as_raw_fd())).build().flags(squeue::Flags::SKIP_SUCCESS);
        self.push(entry.user_data(Tag::Ignored.to_bits()));
        self.closing.push(descriptor);
    }

    /// The unsent rest of a send. Call it after each submission, before anything else is sent.
    pub fn next_unsent(&mut self) -> Option<Unsent> {
        self.unsent.pop_front()
    }

    /// The next completion that was fetched by a submission.
    pub fn next_completion(&mut self) -> Option<Completion> {
        loop {
            let entry = self.completions.pop_front()?;
            if let Tag::Of(operation, key) = Tag::from_bits(entry.user_data()) {
                return Some(self.completion(operation, key, &entry));
            }
        }
    }

    #[allow(unsafe_code)]
    fn completion(&self, operation: RingOperation, key: Key, entry: &cqueue::Entry) -> Completion {
        let has_more = cqueue::more(entry.flags());
        let outcome = result(entry.result());
        match operation {
            RingOperation::Accept => {
                // SAFETY: a successful accept returns a new descriptor, which nothing else owns.
                let outcome = outcome.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) });
                Completion::Accepted { key, outcome, has_more }
            }
            RingOperation::Receive | RingOperation::ReceiveWithTimestamps => {
                let buffer = cqueue::buffer_select(entry.flags());
                let length = *outcome.as_ref().unwrap_or(&0) as usize;
                // An empty buffer is returned at once.
                let take = |buffer| match operation {
                    RingOperation::ReceiveWithTimestamps => self.pool.take_timestamped(buffer, length),
                    _ => self.pool.take(buffer, length),
                };
                let buffer = buffer.map(take).filter(|buffer| !buffer.is_empty());
                Completion::Received { key, outcome: outcome.map(|_| buffer), has_more }
            }
            RingOperation::Connect => Completion::Connected { key, outcome: outcome.map(drop) },
            RingOperation::Watch(event) => Completion::Polled { key, event, outcome, has_more },
        }
    }

    fn push_operation(&mut self, entry: squeue::Entry, operation: RingOperation, key: Key) {
        self.in_flight += 1;
        self.unsubmitted += 1;
        self.push(entry.user_data(Tag::Of(operation, key).to_bits()));
    }

    fn push(&mut self, entry: squeue::Entry) {
        if !self.overflow.is_empty() || !self.push_now(&entry) {
            self.overflow.push_back(entry);
        }
    }

    #[allow(unsafe_code)]
    fn push_now(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: what the entries point to lives long enough: bytes to send and addresses until the submission has
        // returned (`enter` clears them only then), receive buffers as long as the pool, the timestamp header as long
        // as the ring.
        unsafe { self.uring.submission().push(entry) }.is_ok()
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Ring").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

fn result(result: i32) -> io::Result<u32> {
    u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

#[cfg(test)]
mod tests;
