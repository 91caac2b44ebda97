//! Checks whether the kernel offers what [`Ring`] needs. It tests instead of reading a version: a container's filter or
//! a setting may forbid what the kernel supports.

use std::fs;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use socket2::SockRef;

use super::completion::{Completion, Key};
use super::ring::{Ring, RingSizes, SEND_BYTES_MAX};
use super::unavailable::UringUnavailable;

/// Small, since every start probes. Whether memory suffices for the rings of all shards shows when they are created.
const SIZES: RingSizes =
    RingSizes { submissions: 8, completions: 32, buffers: 2, buffer_bytes: 64, receive_bytes: 1024 };
/// All that the probe waits for is available already.
const WAIT: Duration = Duration::from_secs(1);
/// Enough sends to fill any socket.
const SENDS_MAX: usize = 1_000;
const SETTING: &str = "/proc/sys/kernel/io_uring_disabled";

/// Tests all that a driver needs, in a few microseconds.
///
/// # Errors
/// The first missing feature.
pub fn probe_uring() -> Result<(), UringUnavailable> {
    let mut ring = Ring::new(SIZES).map_err(|error| UringUnavailable::from_setup(&error))?;
    let trial = |outcome: io::Result<bool>, what| match outcome {
        Ok(true) => Ok(()),
        Ok(false) => Err(UringUnavailable::TooOld(what)),
        Err(error) => Err(UringUnavailable::from_setup(&error)),
    };
    trial(receives_again_and_again(&mut ring), "multishot receive into buffers of a ring")?;
    trial(reports_a_short_send(&mut ring), "reporting a short send")
}

impl UringUnavailable {
    /// Maps an error of [`Ring::new`].
    #[must_use]
    pub fn from_setup(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => match fs::read_to_string(SETTING).unwrap_or_default().trim() {
                "" | "0" => Self::Forbidden,
                value => Self::Disabled(value.to_owned()),
            },
            Some(libc::ENOSYS) => Self::Missing,
            Some(libc::ENOMEM) => Self::Memory,
            Some(libc::EINVAL) => Self::TooOld("the required setup of rings or their buffers"),
            _ => Self::Other(error.to_string()),
        }
    }
}

fn receives_again_and_again(ring: &mut Ring) -> io::Result<bool> {
    let (ours, theirs) = UnixStream::pair()?;
    ring.receive(ours.as_fd(), Key::new(1));
    for expected in [b"one", b"two"] {
        io::Write::write_all(&mut &theirs, expected)?;
        ring.submit_and_wait(Some(WAIT))?;
        let brings_it = match ring.next_completion() {
            Some(Completion::Received { outcome: Ok(Some(buffer)), has_more, .. }) => *buffer == *expected && has_more,
            _ => false,
        };
        if !brings_it {
            return Ok(false);
        }
    }
    drop(theirs);
    ring.submit_and_wait(Some(WAIT))?;
    let end = ring.next_completion();
    Ok(matches!(end, Some(Completion::Received { outcome: Ok(None), has_more: false, .. })))
}

/// Only a send to a full socket is reported.
fn reports_a_short_send(ring: &mut Ring) -> io::Result<bool> {
    let (ours, mut theirs) = UnixStream::pair()?;
    SockRef::from(&ours).set_send_buffer_size(SEND_BYTES_MAX)?; // so that few sends fill it
    let bytes = [7; SEND_BYTES_MAX];
    for count in 0..SENDS_MAX {
        if !ring.send(ours.as_fd(), Key::new(2), &[&bytes]) {
            return Ok(false);
        }
        ring.submit()?;
        if let Some(unsent) = ring.next_unsent() {
            let left = (count + 1) * bytes.len() - unsent.rest.len();
            theirs.set_nonblocking(true)?;
            let mut arrived = Vec::new();
            let _ = theirs.read_to_end(&mut arrived); // it ends with "would block"
            return Ok(unsent.error.is_none() && arrived.len() == left && ring.next_completion().is_none());
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_remedy() {
        for (error, part) in [
            (libc::ENOSYS, "has no io_uring"),
            (libc::EINVAL, "Linux 6.1"),
            (libc::ENOMEM, "ulimit -l"),
            (libc::EMFILE, "Too many open files"),
        ] {
            let message = UringUnavailable::from_setup(&io::Error::from_raw_os_error(error)).to_string();
            assert!(message.contains(part), "{message}");
        }
        let disabled = UringUnavailable::Disabled("2".to_owned()).to_string();
        assert!(disabled.contains("io_uring_disabled is 2") && disabled.contains("sysctl"), "{disabled}");
    }

    /// The filter applies to the calling thread.
    #[test]
    fn detects_seccomp_filter() {
        for call in [libc::SYS_io_uring_setup, libc::SYS_io_uring_register] {
            let probed = std::thread::spawn(move || {
                forbid(call);
                probe_uring()
            });
            assert_eq!(probed.join().unwrap(), Err(UringUnavailable::Forbidden));
        }
    }

    #[allow(unsafe_code)]
    fn forbid(call: libc::c_long) {
        use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter, sock_fprog};
        let step = |code: u32, jt, jf, k| sock_filter { code: code as u16, jt, jf, k };
        let refusal = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
        // The filter reads the number of the system call first.
        let mut program = [
            step(BPF_LD | BPF_W | BPF_ABS, 0, 0, 0),
            step(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, call as u32),
            step(BPF_RET | BPF_K, 0, 0, refusal),
            step(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        // SAFETY: plain numbers; then a program that outlives the call, which copies it.
        let outcomes = unsafe {
            [
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
                libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
            ]
        };
        assert_eq!(outcomes, [0, 0]);
    }
}
