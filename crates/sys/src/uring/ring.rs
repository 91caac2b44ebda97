//! One ring: the wishes of one thread and their completions.
//!
//! | file | what |
//! |---|---|
//! | `kernel` | what the kernel is told when a ring is made, and what it understands |
//! | `entering` | wishes are handed over, completions brought |
//! | `ending` | the kernel is done with the ring's memory before that goes |

mod ending;
mod entering;
mod kernel;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::rc::Rc;

use bytes::Bytes;
use io_uring::types::{CancelBuilder, Fd};
use io_uring::{IoUring, cqueue, opcode, squeue};
use kernel::{BUFFERS, knows_instants, knows_limits, limit, room_for_stamps, setup};
use socket2::SockAddr;

pub use kernel::RingSizes;

use super::buffers::Arena;
use super::completion::{Completion, Key, Operation, Tag, Unsent, Watched};
use super::outbox::{Outbox, Placed};

/// The most bytes that [`Ring::send`] and [`Ring::send_shared`] take. Even copied they cost less than a system call of
/// their own: 8 % of all CPU time for a file of 10 kB.
pub const SEND_BYTES_MAX: usize = 16 * 1024;

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
    /// How much room receipts with stamps keep for these; boxed, since the kernel may look at it as long as one is in
    /// flight.
    room_for_stamps: Box<libc::msghdr>,
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
        // SAFETY: the arena begins with `count` entries and lives longer than the registration: it is unmapped when its
        // last reference is dropped, one of which this ring holds until the end of `drop`, where the group is
        // unregistered.
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

    /// Receives whatever comes, until the end, a failure, a lack of buffers, or until it is cancelled; where [receiving
    /// is bounded](Ring::bounds_receiving), also until so many bytes have come.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, key: Key) {
        let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), BUFFERS).build();
        self.wish(limit(entry, self.receive_bytes.unwrap_or(0)), Operation::Receive, key);
    }

    /// Whether [`Ring::receive`] ends after [`RingSizes::receive_bytes`].
    #[must_use]
    pub fn bounds_receiving(&self) -> bool {
        self.receive_bytes.is_some()
    }

    /// Receives once, into one buffer, up to `bytes_max`: where much comes, no more may come at a time than somebody
    /// wants.
    pub fn receive_once(&mut self, socket: BorrowedFd<'_>, key: Key, bytes_max: usize) {
        // No address: that of the buffer that the kernel chooses, whose length is a bound as well.
        let length = u32::try_from(bytes_max).unwrap_or(0);
        let receive = opcode::Recv::new(Fd(socket.as_raw_fd()), std::ptr::null_mut(), length).buf_group(BUFFERS);
        self.wish(receive.build().flags(squeue::Flags::BUFFER_SELECT), Operation::Receive, key);
    }

    /// Receives again and again on a socket that [stamps](crate::stamp_arrivals): the [`Lease`](super::Lease) says when
    /// its bytes came.
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

    /// Sends a copy of `pieces`, one behind the other, with the next submission, if the socket takes them then: it does
    /// not wait for room. What has not left is told by [`Ring::next_unsent`] when that submission has returned, and
    /// **nothing else may be sent on this socket before**. Returns whether it was taken: not if there are too many
    /// bytes, or too many sends in this submission.
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
        // Not waiting makes the kernel be done with the bytes when the submission returns. Wanting all makes a short
        // send a failure, which is told, while a success is skipped (io_uring_enter(2); the probe makes sure of it).
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

    /// Closes a descriptor with the next submission, behind the wishes so far, which name it by its number. What is in
    /// flight keeps it open until it is cancelled.
    pub fn close(&mut self, descriptor: OwnedFd) {
        let entry = opcode::Close::new(Fd(descriptor.as_raw_fd())).build().flags(squeue::Flags::SKIP_SUCCESS);
        self.push(entry.user_data(Tag::Ignored.to_bits()));
        self.closing.push(descriptor);
    }

    /// A send that did not leave as a whole. These must be asked for after each submission, before anything else is
    /// sent.
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
        // SAFETY: what the entries of this ring point to lives long enough: bytes to send and addresses until the
        // submission has returned (`enter` clears them only then), buffers to receive into as long as the arena, the
        // room for stamps as long as the ring.
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
