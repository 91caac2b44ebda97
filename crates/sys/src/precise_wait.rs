//! Waiting with the kernel's most precise timers.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Waits until `source` is readable or `timeout` has passed; returns whether it is readable. It does not return early;
/// an interruption is an error.
///
/// An epoll instance is readable if it has events. Unlike `epoll_wait` this has nanosecond precision.
///
/// # Errors
/// Those of `ppoll`, including interruption by a signal.
#[cfg(target_os = "linux")]
pub fn wait_until_readable(source: &impl AsRawFd, timeout: Duration) -> io::Result<bool> {
    let mut pollfd = libc::pollfd { fd: source.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // The type of `tv_sec` differs between C libraries.
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as _,
        tv_nsec: libc::c_long::from(timeout.subsec_nanos()),
    };
    // SAFETY: both pointers are to values that outlive the call, the count is that of `pollfd`, and no signal mask is
    // passed.
    #[allow(unsafe_code)]
    let ready = unsafe { libc::ppoll(&raw mut pollfd, 1, &raw const timeout, std::ptr::null()) };
    if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(ready > 0) }
}

/// The portable precision is a millisecond.
#[cfg(not(target_os = "linux"))]
pub fn wait_until_readable(source: &impl AsRawFd, timeout: Duration) -> io::Result<bool> {
    let mut pollfd = libc::pollfd { fd: source.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let millis = timeout.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32;
    // SAFETY: the pointer is to a value that outlives the call, and the count is 1.
    #[allow(unsafe_code)]
    let ready = unsafe { libc::poll(&raw mut pollfd, 1, millis) };
    if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(ready > 0) }
}

/// Minimises the timer slack of the calling thread; by default timers may be 50 µs late.
///
/// # Errors
/// Those of `prctl`.
pub fn set_min_timer_slack() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Instant;

    use super::*;

    #[test]
    fn waits_for_data_or_timeout() {
        set_min_timer_slack().unwrap();
        let (mut near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let begun = Instant::now();
        let timeout = Duration::from_micros(1_500);
        assert!(!wait_until_readable(&far, timeout).unwrap());
        assert!(begun.elapsed() >= timeout, "never early");
        near.write_all(b"x").unwrap();
        assert!(wait_until_readable(&far, Duration::from_secs(1_000)).unwrap());
    }
}
