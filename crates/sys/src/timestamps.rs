//! Receive timestamps of the kernel: 15 to 60 µs earlier than the wake-up of the waiting thread on a virtual machine.
//!
//! They are of the calendar clock, which may be changed while a program runs. Its offset from the monotonic clock is
//! checked when timestamps are read; if it has changed, earlier timestamps are invalid.

use std::io;
use std::num::NonZeroI64;
use std::os::fd::{AsFd, AsRawFd};

use breme_base::Instant;

use crate::clock::Clock;

/// A receive timestamp of the calendar clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveTimestamp {
    /// Never zero, so that `Option` needs no space.
    unix_nanos: NonZeroI64,
}

/// Apparent change of the offset between the clocks, since they are not read simultaneously. Setting a clock changes it
/// more.
const CLOCK_READ_NANOS: i64 = 5_000;

/// Converts timestamps into instants of a clock.
#[derive(Debug)]
pub struct TimestampConverter {
    clock: Clock,
    /// Unix time of the clock's epoch.
    epoch_unix_nanos: i64,
    is_checked: bool,
    is_trusted: bool,
}

impl TimestampConverter {
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, epoch_unix_nanos: epoch_unix_nanos(clock), is_checked: true, is_trusted: true }
    }

    /// Later conversions check the clocks again, since their timestamps are newer.
    pub fn begin_batch(&mut self) {
        self.is_checked = false;
    }

    /// None if the calendar clock was changed.
    pub fn instant_of(&mut self, timestamp: ReceiveTimestamp) -> Option<Instant> {
        if !self.is_checked {
            self.check_offset(epoch_unix_nanos(self.clock));
        }
        let nanos = u64::try_from(timestamp.unix_nanos.get().checked_sub(self.epoch_unix_nanos)?).ok()?;
        self.is_trusted.then(|| Instant::from_nanos(nanos))
    }

    fn check_offset(&mut self, epoch_unix_nanos: i64) {
        self.is_checked = true;
        self.is_trusted = self.epoch_unix_nanos.abs_diff(epoch_unix_nanos) <= CLOCK_READ_NANOS.unsigned_abs();
        if !self.is_trusted {
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
pub(crate) use linux::{CONTROL_BYTES, timestamp_in};
#[cfg(target_os = "linux")]
pub use linux::{enable_timestamps, receive_with_timestamp};

#[cfg(target_os = "linux")]
mod linux {
    use super::*;

    /// Size of a control message with a timestamp (`CMSG_SPACE`).
    pub(crate) const CONTROL_BYTES: usize = HEADER_BYTES + size_of::<libc::timespec>();
    const HEADER_BYTES: usize = size_of::<libc::cmsghdr>();
    const _: () = assert!(CONTROL_BYTES.is_multiple_of(size_of::<usize>()), "nothing is padded");

    /// Has the kernel timestamp received bytes (SO_TIMESTAMPNS).
    ///
    /// # Errors
    /// Those of `setsockopt`.
    #[allow(unsafe_code)]
    pub fn enable_timestamps(socket: &impl AsFd) -> io::Result<()> {
        let on: libc::c_int = 1;
        let (descriptor, length) = (socket.as_fd().as_raw_fd(), size_of::<libc::c_int>() as libc::socklen_t);
        // SAFETY: the option is an integer with the given address and length; the call only reads it.
        let outcome = unsafe {
            libc::setsockopt(descriptor, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, (&raw const on).cast(), length)
        };
        if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Receives, with the timestamp of the last byte.
    ///
    /// # Errors
    /// Those of `recvmsg`.
    #[allow(unsafe_code)]
    pub fn receive_with_timestamp(
        socket: &impl AsFd,
        buffer: &mut [u8],
    ) -> io::Result<(usize, Option<ReceiveTimestamp>)> {
        let mut control = [0_usize; CONTROL_BYTES / size_of::<usize>()];
        let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: all fields are numbers and pointers, for which zero is valid and means "none".
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = CONTROL_BYTES as _;
        // SAFETY: the message contains the addresses and lengths of the buffers for data and control messages, which
        // outlive the call.
        let count = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, 0) };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        let mut bytes = [0; CONTROL_BYTES];
        for (place, word) in bytes.chunks_exact_mut(size_of::<usize>()).zip(control) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        let used = CONTROL_BYTES.min(message.msg_controllen as usize);
        Ok((count, timestamp_in(&bytes[..used])))
    }

    /// The timestamp in the control messages, if it is the only one.
    #[allow(unsafe_code)]
    #[allow(clippy::useless_conversion, reason = "on some machines these have 32 bits")]
    pub(crate) fn timestamp_in(control: &[u8]) -> Option<ReceiveTimestamp> {
        let control: &[u8; CONTROL_BYTES] = control.try_into().ok()?;
        // SAFETY: the length is checked to be that of a header and a time, plain numbers of which every value is valid;
        // alignment is unknown, so they are read unaligned.
        let (header, time) = unsafe {
            let start = control.as_ptr();
            (
                start.cast::<libc::cmsghdr>().read_unaligned(),
                start.add(HEADER_BYTES).cast::<libc::timespec>().read_unaligned(),
            )
        };
        let is_timestamp = (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS);
        let unix_nanos = i64::from(time.tv_sec).checked_mul(1_000_000_000)?.checked_add(i64::from(time.tv_nsec))?;
        let unix_nanos = NonZeroI64::new(unix_nanos)?;
        is_timestamp.then_some(ReceiveTimestamp { unix_nanos })
    }
}

/// # Errors
/// Always: not supported.
#[cfg(not(target_os = "linux"))]
pub fn enable_timestamps(_socket: &impl AsFd) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// # Errors
/// Those of `recv`.
#[cfg(not(target_os = "linux"))]
pub fn receive_with_timestamp(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Option<ReceiveTimestamp>)> {
    let (count, _) = rustix::net::recv(socket, buffer, rustix::net::RecvFlags::empty())?;
    Ok((count, None))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn timestamp_is_between_send_and_receive() {
        let clock = Clock::start();
        let mut timestamps = TimestampConverter::new(clock);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        if enable_timestamps(&far).is_err() {
            return eprintln!("not tested: this system timestamps nothing");
        }
        // Timestamping starts with a small delay.
        let mut timestamped = 0;
        for _ in 0..100_000 {
            let before = clock.now();
            near.write_all(b"some bytes").unwrap();
            let mut buffer = [0; 16];
            let (count, timestamp) = receive_with_timestamp(&far, &mut buffer).unwrap();
            assert_eq!(&buffer[..count], b"some bytes");
            let Some(timestamp) = timestamp else { continue };
            timestamps.begin_batch();
            // Ignored if the clock was just set.
            if let Some(arrived_at) = timestamps.instant_of(timestamp) {
                let tolerance = std::time::Duration::from_nanos(2 * CLOCK_READ_NANOS.unsigned_abs());
                assert!(before <= arrived_at + tolerance && arrived_at <= clock.now() + tolerance);
            }
            timestamped += 1;
            if timestamped == 10 {
                break;
            }
        }
        assert_eq!(timestamped, 10);
        drop(near);
        assert_eq!(receive_with_timestamp(&far, &mut [0; 16]).unwrap().0, 0);
    }

    #[test]
    fn clock_change_invalidates_timestamps() {
        let mut timestamps = TimestampConverter::new(Clock::start());
        let set_to = 1_000_000_000_000_000;
        let timestamp = ReceiveTimestamp { unix_nanos: NonZeroI64::new(set_to + 1_000_000).unwrap() };
        timestamps.check_offset(set_to);
        assert_eq!(timestamps.instant_of(timestamp), None, "it may have been timestamped before the clock was set");
        timestamps.check_offset(set_to + 10);
        assert_eq!(timestamps.instant_of(timestamp), Some(Instant::from_nanos(1_000_000)));
        timestamps.check_offset(set_to - 3_600_000_000_000);
        assert_eq!(timestamps.instant_of(timestamp), None);
    }
}
