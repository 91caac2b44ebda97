//! Suspending this process.

use std::io;
use std::mem::zeroed;
use std::ptr::null_mut;

/// Suspends this process as SIGTSTP (Ctrl-Z) does by default, for programs that catch it. Returns when the process is
/// continued; at once if no shell could continue it (an orphaned process group), for which the kernel ignores SIGTSTP.
///
/// # Errors
/// Those of `sigaction`.
#[allow(unsafe_code)]
pub fn suspend_process() -> io::Result<()> {
    // SAFETY: zero is a valid value of a `sigaction`, of which SIG_DFL needs no further field; the kernel reads and
    // writes the two values, which outlive the calls.
    unsafe {
        let mut default: libc::sigaction = zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        let mut caught: libc::sigaction = zeroed();
        if libc::sigaction(libc::SIGTSTP, &raw const default, &raw mut caught) != 0 {
            return Err(io::Error::last_os_error());
        }
        // To this thread, which is suspended before the call returns.
        libc::raise(libc::SIGTSTP);
        if libc::sigaction(libc::SIGTSTP, &raw const caught, null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
