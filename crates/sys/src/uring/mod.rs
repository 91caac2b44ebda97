//! io_uring behind safe functions: wishes are gathered, go to the kernel with one system call, and come back as
//! completions.
//!
//! What makes it sound, in one place:
//!
//! | memory that the kernel uses | it is the kernel's | how that ends |
//! |---|---|---|
//! | buffers to receive into | while they lie in the buffer ring | a completion lends one out ([`Lease`]); dropping the lease gives it back |
//! | bytes to send, copied or shared | during one submission | a send never waits ([`Ring::send`]): it has left, or its rest is told, when the submission returns; until then the ring holds them |
//! | addresses to connect to | during one submission | the kernel copies them when it takes the wish |
//!
//! So closing a connection never waits for its memory. The end of a ring cancels what is in flight and waits for it
//! before the buffers are freed; if that fails, they are leaked, since a leak is the smaller evil.
//!
//! A wish names a descriptor by its number, and the kernel looks the number up when the wish is submitted. Therefore a
//! descriptor that wishes may name is closed through [`Ring::close`], which waits for that moment: otherwise a wish
//! could reach the connection that has the number next.

#[cfg(target_os = "linux")]
mod buffers;
#[cfg(target_os = "linux")]
mod completion;
mod lack;
#[cfg(target_os = "linux")]
mod outbox;
#[cfg(target_os = "linux")]
mod probe;
#[cfg(target_os = "linux")]
mod ring;

#[cfg(target_os = "linux")]
pub use buffers::Lease;
#[cfg(target_os = "linux")]
pub use completion::{Completion, Key, Operation, Unsent, Watched};
pub use lack::UringLack;
#[cfg(target_os = "linux")]
pub use probe::probe_uring;
#[cfg(target_os = "linux")]
pub use ring::{Ring, RingSizes, SEND_BYTES_MAX};

/// There is no io_uring outside of Linux.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn probe_uring() -> Result<(), UringLack> {
    Err(UringLack::Missing)
}
