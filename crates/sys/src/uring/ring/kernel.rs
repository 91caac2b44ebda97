//! Setup of a ring, constants and feature tests.

use std::io;
use std::mem;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};

use crate::timestamps::CONTROL_BYTES;

/// The buffer group; a ring has one.
pub(super) const BUFFERS: u16 = 0;
/// Fetch pending completions without waiting.
pub(super) const ENTER_GETEVENTS: u32 = 1;
/// The call has [`SubmitArgs`].
pub(super) const ENTER_EXT_ARG: u32 = 1 << 3;
/// The timeout is absolute, on the monotonic clock.
pub(super) const ENTER_ABS_TIMER: u32 = 1 << 5;

/// Sizes of a ring; powers of two.
#[derive(Clone, Copy, Debug)]
pub struct RingSizes {
    /// Submission queue; more wait in memory.
    pub submissions: u32,
    /// Completion queue; more overflow into kernel memory, at a cost.
    pub completions: u32,
    /// Number of receive buffers.
    pub buffers: u16,
    /// Bytes of each buffer.
    pub buffer_bytes: usize,
    /// Limit (rounded up to a full buffer) after which [`Ring::receive`](crate::uring::Ring::receive) ends and must be
    /// restarted, where the kernel supports it.
    pub receive_bytes: u32,
}

/// Single issuer, with deferred task work: completions are processed only when the thread asks, without interrupting
/// it.
pub(super) fn setup(sizes: RingSizes) -> io::Result<IoUring> {
    let build = |without_array: bool| {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_submit_all().setup_cqsize(sizes.completions);
        if without_array {
            builder.setup_no_sqarray();
        }
        builder.build(sizes.submissions)
    };
    // Linux 6.6 can omit the indirection of the submission queue.
    build(true).or_else(|error| if error.raw_os_error() == Some(libc::EINVAL) { build(false) } else { Err(error) })
}

/// Tests whether a wait can have an absolute timeout, with one in the past.
#[allow(unsafe_code)]
pub(super) fn has_absolute_timeouts(uring: &IoUring) -> bool {
    let time = Timespec::new();
    let arguments = SubmitArgs::new().timespec(&time);
    // SAFETY: nothing is submitted; the arguments outlive the call.
    let waited =
        unsafe { uring.submitter().enter(0, 1, ENTER_GETEVENTS | ENTER_EXT_ARG | ENTER_ABS_TIMER, Some(&arguments)) };
    waited.is_err_and(|error| error.raw_os_error() == Some(libc::ETIME))
}

/// Tests whether a multishot receive can be limited, without a descriptor: Linux 6.17 and later reject the descriptor,
/// older kernels the limit.
#[allow(unsafe_code)]
pub(super) fn has_receive_limit(uring: &mut IoUring) -> bool {
    let entry = limit(opcode::RecvMulti::new(Fd(-1), BUFFERS).build(), 1);
    // SAFETY: the entry contains no pointer, and a buffer group that does not exist yet.
    let is_pushed = unsafe { uring.submission().push(&entry) }.is_ok();
    let is_submitted = is_pushed && uring.submit_and_wait(1).is_ok();
    is_submitted && uring.completion().next().is_some_and(|outcome| outcome.result() == -libc::EBADF)
}

/// Words of an entry, and the one that limits a receive: `optlen`, for which the crate has no builder.
const ENTRY_WORDS: usize = 16;
const LIMIT_WORD: usize = 11;

/// Limits a multishot receive; 0: no limit.
#[allow(unsafe_code)]
pub(super) fn limit(entry: squeue::Entry, bytes: u32) -> squeue::Entry {
    // SAFETY: an entry is the kernel's `struct io_uring_sqe`, 64 bytes of numbers without padding; both types have that
    // size, or this does not compile.
    let mut words: [u32; ENTRY_WORDS] = unsafe { mem::transmute(entry) };
    words[LIMIT_WORD] = bytes;
    // SAFETY: as above; every value is valid.
    unsafe { mem::transmute(words) }
}

/// Space for the timestamp in each buffer.
#[allow(unsafe_code)]
pub(super) fn timestamp_header() -> Box<libc::msghdr> {
    // SAFETY: all fields are numbers and pointers, for which zero is valid and means "none".
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_controllen = CONTROL_BYTES as _;
    Box::new(message)
}
