//! Waiting with the kernel's finest timers, for whoever must act at an instant and not about then.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Waits until there is something to read from `source`, or until `timeout` has passed; whether there is. It never
/// returns early without a reason: what interrupts it is an error.
///
/// For an epoll instance "something to read" is an event that has not been fetched. Unlike `epoll_wait` this knows
/// nanoseconds.
///
/// # Errors
/// What the kernel says, also when a signal came.
#[cfg(target_os = "linux")]
pub fn wait_until_readable(source: &impl AsRawFd, timeout: Duration) -> io::Result<bool> {
    let mut watched = libc::pollfd { fd: source.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // The type of `tv_sec` differs between C libraries.
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as _,
        tv_nsec: libc::c_long::from(timeout.subsec_nanos()),
    };
    // SAFETY: both pointers are to values that outlive the call, the count is that of `watched`, and no mask of signals
    // is given.
    #[allow(unsafe_code)]
    let ready = unsafe { libc::ppoll(&raw mut watched, 1, &raw const timeout, std::ptr::null()) };
    if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(ready > 0) }
}

/// Elsewhere the finest that is portable is a millisecond.
#[cfg(not(target_os = "linux"))]
pub fn wait_until_readable(source: &impl AsRawFd, timeout: Duration) -> io::Result<bool> {
    let mut watched = libc::pollfd { fd: source.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let millis = timeout.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32;
    // SAFETY: the pointer is to a value that outlives the call, and the count is 1.
    #[allow(unsafe_code)]
    let ready = unsafe { libc::poll(&raw mut watched, 1, millis) };
    if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(ready > 0) }
}

/// Lets the timers of the calling thread end when they should, and not up to 50 µs later so that the kernel can put
/// several together.
///
/// # Errors
/// What the kernel says.
pub fn sharpen_timers() -> io::Result<()> {
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
    fn waits_for_the_first_of_bytes_and_time() {
        sharpen_timers().unwrap();
        let (mut near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let begun = Instant::now();
        let timeout = Duration::from_micros(1_500);
        assert!(!wait_until_readable(&far, timeout).unwrap());
        assert!(begun.elapsed() >= timeout, "never early");
        near.write_all(b"x").unwrap();
        assert!(wait_until_readable(&far, Duration::from_secs(1_000)).unwrap());
    }
}
