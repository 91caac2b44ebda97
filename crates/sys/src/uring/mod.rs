//! io_uring with a safe interface: operations are queued, submitted with one system call, and return as completions.
//!
//! Why it is sound:
//!
//! | memory used by the kernel | while | end |
//! |---|---|---|
//! | receive buffers | they are in the buffer ring | a completion hands one out ([`ReceiveBuffer`]); dropping it returns it |
//! | bytes to send, copied or shared | during one submission | sends never block ([`Ring::send`]): when the submission returns they are sent, or the rest is reported; until then the ring keeps them |
//! | addresses to connect to | during one submission | the kernel copies them |
//!
//! So closing a connection never waits for its memory. Dropping a ring cancels what is in flight and waits for it
//! before the buffers are freed; if that fails, they are leaked.
//!
//! An operation contains a descriptor's number, which the kernel looks up on submission. So descriptors must be closed
//! with [`Ring::close`], which waits for the submission: otherwise an operation could affect the next connection with
//! that number.

#[cfg(target_os = "linux")]
mod buffers;
#[cfg(target_os = "linux")]
mod completion;
#[cfg(target_os = "linux")]
mod outbox;
#[cfg(target_os = "linux")]
mod probe;
#[cfg(target_os = "linux")]
mod ring;
mod unavailable;

#[cfg(target_os = "linux")]
pub use buffers::ReceiveBuffer;
#[cfg(target_os = "linux")]
pub use completion::{Completion, Key, PollEvent, RingOperation, Unsent};
#[cfg(target_os = "linux")]
pub use probe::probe_uring;
#[cfg(target_os = "linux")]
pub use ring::{Ring, RingSizes, SEND_BYTES_MAX};
pub use unavailable::UringUnavailable;

/// # Errors
/// Always: io_uring is specific to Linux.
#[cfg(not(target_os = "linux"))]
pub fn probe_uring() -> Result<(), UringUnavailable> {
    Err(UringUnavailable::Missing)
}
