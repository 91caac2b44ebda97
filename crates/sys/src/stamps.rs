//! When the kernel received bytes. That is before whoever waits for them has woken: on a virtual machine 15 to 60 µs
//! before.
//!
//! The stamps are of the calendar's clock, which may be set while a program runs. How far it is from the monotonic one
//! is looked at whenever stamps are to be read; where that has changed, what was stamped before is not known any more,
//! and the stamps of that time are not believed.

use std::io;
use std::num::NonZeroI64;
use std::os::fd::{AsFd, AsRawFd};

use breme_base::Instant;

use crate::Clock;

/// When the kernel received bytes, by the calendar's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The kernel has none that is zero; so no stamp takes no room.
    unix_nanos: NonZeroI64,
}

/// How far the two clocks may seem to move apart because they are not read at once. Setting a clock moves it farther.
const READING_NANOS: i64 = 5_000;

/// Turns stamps into instants of a clock.
#[derive(Debug)]
pub struct Stamps {
    clock: Clock,
    /// The calendar's time at the clock's epoch.
    epoch_unix_nanos: i64,
    is_looked_at: bool,
    is_believed: bool,
}

impl Stamps {
    /// For instants of `clock`.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, epoch_unix_nanos: epoch_unix_nanos(clock), is_looked_at: true, is_believed: true }
    }

    /// What is asked from here on was stamped after what was asked before: the clocks are to be looked at again.
    pub fn begin_batch(&mut self) {
        self.is_looked_at = false;
    }

    /// When that was; none if nobody can know.
    pub fn instant_of(&mut self, stamp: Stamp) -> Option<Instant> {
        if !self.is_looked_at {
            self.look(epoch_unix_nanos(self.clock));
        }
        let nanos = u64::try_from(stamp.unix_nanos.get().checked_sub(self.epoch_unix_nanos)?).ok()?;
        self.is_believed.then(|| Instant::from_nanos(nanos))
    }

    fn look(&mut self, epoch_unix_nanos: i64) {
        self.is_looked_at = true;
        self.is_believed = self.epoch_unix_nanos.abs_diff(epoch_unix_nanos) <= READING_NANOS.unsigned_abs();
        if !self.is_believed {
            self.epoch_unix_nanos = epoch_unix_nanos;
        }
    }
}

fn epoch_unix_nanos(clock: Clock) -> i64 {
    let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let since = clock.now().since(Instant::ZERO);
    let nanos = |duration: std::time::Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    nanos(unix).saturating_sub(nanos(since))
}

#[cfg(target_os = "linux")]
pub(crate) use linux::{CONTROL_BYTES, stamp_in};
#[cfg(target_os = "linux")]
pub use linux::{receive_with_stamp, stamp_arrivals};

#[cfg(target_os = "linux")]
mod linux {
    use super::*;

    /// Room for a control message with a stamp (`CMSG_SPACE`).
    pub(crate) const CONTROL_BYTES: usize = HEADER_BYTES + size_of::<libc::timespec>();
    const HEADER_BYTES: usize = size_of::<libc::cmsghdr>();
    const _: () = assert!(CONTROL_BYTES.is_multiple_of(size_of::<usize>()), "nothing is padded");

    /// From now on the kernel stamps what this socket receives.
    ///
    /// # Errors
    /// What the kernel says.
    #[allow(unsafe_code)]
    pub fn stamp_arrivals(socket: &impl AsFd) -> io::Result<()> {
        let on: libc::c_int = 1;
        let (descriptor, length) = (socket.as_fd().as_raw_fd(), size_of::<libc::c_int>() as libc::socklen_t);
        // SAFETY: the option is an integer, whose address and length these are; the call only reads it.
        let outcome = unsafe {
            libc::setsockopt(descriptor, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, (&raw const on).cast(), length)
        };
        if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Receives, and says when the last of the bytes came.
    ///
    /// # Errors
    /// Those of `recvmsg`.
    #[allow(unsafe_code)]
    pub fn receive_with_stamp(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Option<Stamp>)> {
        let mut control = [0_usize; CONTROL_BYTES / size_of::<usize>()];
        let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: all fields are numbers and pointers, for which zero is a value; it means "none".
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = CONTROL_BYTES as _;
        // SAFETY: the message names the buffer and the room for control messages, with their lengths; both outlive the
        // call.
        let count = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, 0) };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        let mut bytes = [0; CONTROL_BYTES];
        for (place, word) in bytes.chunks_exact_mut(size_of::<usize>()).zip(control) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        let used = CONTROL_BYTES.min(message.msg_controllen as usize);
        Ok((count, stamp_in(&bytes[..used])))
    }

    /// The stamp in the control messages of a receipt, of which it is the only one.
    #[allow(unsafe_code)]
    #[allow(clippy::useless_conversion, reason = "on some machines these have 32 bits")]
    pub(crate) fn stamp_in(control: &[u8]) -> Option<Stamp> {
        let control: &[u8; CONTROL_BYTES] = control.try_into().ok()?;
        // SAFETY: the length of both is checked to be that of a header and a time, plain numbers of which every value
        // is valid; nothing is said about where they lie, so they are read as they may lie anywhere.
        let (header, time) = unsafe {
            let start = control.as_ptr();
            (
                start.cast::<libc::cmsghdr>().read_unaligned(),
                start.add(HEADER_BYTES).cast::<libc::timespec>().read_unaligned(),
            )
        };
        let is_stamp = (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS);
        let unix_nanos = i64::from(time.tv_sec).checked_mul(1_000_000_000)?.checked_add(i64::from(time.tv_nsec))?;
        let unix_nanos = NonZeroI64::new(unix_nanos)?;
        is_stamp.then_some(Stamp { unix_nanos })
    }
}

/// Elsewhere nobody stamps.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn stamp_arrivals(_socket: &impl AsFd) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Receives.
///
/// # Errors
/// Those of `recv`.
#[cfg(not(target_os = "linux"))]
pub fn receive_with_stamp(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Option<Stamp>)> {
    let (count, _) = rustix::net::recv(socket, buffer, rustix::net::RecvFlags::empty())?;
    Ok((count, None))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_stamp_lies_between_sending_and_receiving() {
        let clock = Clock::start();
        let mut stamps = Stamps::new(clock);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        if stamp_arrivals(&far).is_err() {
            return eprintln!("not tested: this system stamps nothing");
        }
        // The kernel begins to stamp a little after it was told to.
        let mut stamped = 0;
        for _ in 0..100_000 {
            let before = clock.now();
            near.write_all(b"some bytes").unwrap();
            let mut buffer = [0; 16];
            let (count, stamp) = receive_with_stamp(&far, &mut buffer).unwrap();
            assert_eq!(&buffer[..count], b"some bytes");
            let Some(stamp) = stamp else { continue };
            stamps.begin_batch();
            // Not believed if the clock was set right now.
            if let Some(came) = stamps.instant_of(stamp) {
                let tolerance = std::time::Duration::from_nanos(2 * READING_NANOS.unsigned_abs());
                assert!(before <= came + tolerance && came <= clock.now() + tolerance);
            }
            stamped += 1;
            if stamped == 10 {
                break;
            }
        }
        assert_eq!(stamped, 10);
        drop(near);
        assert_eq!(receive_with_stamp(&far, &mut [0; 16]).unwrap().0, 0);
    }

    #[test]
    fn stamps_are_not_believed_while_the_clock_is_set() {
        let mut stamps = Stamps::new(Clock::start());
        let set_to = 1_000_000_000_000_000;
        let stamp = Stamp { unix_nanos: NonZeroI64::new(set_to + 1_000_000).unwrap() };
        stamps.look(set_to);
        assert_eq!(stamps.instant_of(stamp), None, "it may have been stamped before the clock was set");
        stamps.look(set_to + 10);
        assert_eq!(stamps.instant_of(stamp), Some(Instant::from_nanos(1_000_000)));
        stamps.look(set_to - 3_600_000_000_000);
        assert_eq!(stamps.instant_of(stamp), None);
    }
}
