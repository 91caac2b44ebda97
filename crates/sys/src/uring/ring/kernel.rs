//! What the kernel is told when a ring is made, and what it is found to understand.

use std::io;
use std::mem;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};

use crate::stamps::CONTROL_BYTES;

/// The group of buffers; a ring has one.
pub(super) const BUFFERS: u16 = 0;
/// `IORING_ENTER_GETEVENTS`: completions that are due are brought in, without waiting for any.
pub(super) const ENTER_GETEVENTS: u32 = 1;
/// `IORING_ENTER_EXT_ARG`: with arguments.
pub(super) const ENTER_EXT_ARG: u32 = 1 << 3;
/// `IORING_ENTER_ABS_TIMER`: the time among them is an instant of the monotonic clock.
pub(super) const ENTER_ABS_TIMER: u32 = 1 << 5;

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
    /// After so much (and what fills the buffer then) [`Ring::receive`](crate::uring::Ring::receive) ends and must be
    /// wished for again, where the kernel can be told so.
    pub receive_bytes: u32,
}

/// One thread submits, and completions are made only when it asks for them, so that nothing interrupts it.
pub(super) fn setup(sizes: RingSizes) -> io::Result<IoUring> {
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

/// It is tried: a wait until an instant that has passed.
#[allow(unsafe_code)]
pub(super) fn knows_instants(uring: &IoUring) -> bool {
    let time = Timespec::new();
    let arguments = SubmitArgs::new().timespec(&time);
    // SAFETY: nothing is submitted; the arguments live across the call.
    let waited =
        unsafe { uring.submitter().enter(0, 1, ENTER_GETEVENTS | ENTER_EXT_ARG | ENTER_ABS_TIMER, Some(&arguments)) };
    waited.is_err_and(|error| error.raw_os_error() == Some(libc::ETIME))
}

/// It is tried, on no descriptor: a kernel that knows of limits (Linux 6.17) misses the descriptor, an older one minds
/// the limit.
#[allow(unsafe_code)]
pub(super) fn knows_limits(uring: &mut IoUring) -> bool {
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
pub(super) fn limit(entry: squeue::Entry, bytes: u32) -> squeue::Entry {
    // SAFETY: an entry is the kernel's `struct io_uring_sqe`, 64 bytes of numbers without a gap; both types have that
    // size, or this does not compile.
    let mut words: [u32; ENTRY_WORDS] = unsafe { mem::transmute(entry) };
    words[LIMIT_WORD] = bytes;
    // SAFETY: as above; every number is valid there.
    unsafe { mem::transmute(words) }
}

/// Receipts with stamps keep room for these, and for nothing else.
#[allow(unsafe_code)]
pub(super) fn room_for_stamps() -> Box<libc::msghdr> {
    // SAFETY: all fields are numbers and pointers, for which zero is a value; it means "none".
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_controllen = CONTROL_BYTES as _;
    Box::new(message)
}
