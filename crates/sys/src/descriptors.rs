//! The limit of open files. Each connection is one; the usual soft limit of 1024 is too low for a server, and reaching
//! it would spoil a measurement. So it is raised at the start, where a shortage can be reported.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thiserror::Error;

/// RLIMIT_NOFILE of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorLimit {
    pub soft: u64,
    /// The process can raise the soft limit up to this.
    pub hard: u64,
}

/// The limit of open files is too low.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "too few file descriptors: {needed} are needed, {allowed} are allowed; raise the limit with `ulimit -Hn {needed} && ulimit -n {needed}` as root (or LimitNOFILE={needed} in a systemd unit, --ulimit nofile={needed} in a container), or use fewer connections"
)]
pub struct TooFewDescriptors {
    pub needed: u64,
    pub allowed: u64,
}

/// The limit of this process now.
#[must_use]
pub fn descriptor_limit() -> DescriptorLimit {
    let limit = getrlimit(Resource::Nofile);
    DescriptorLimit { soft: limit.current.unwrap_or(u64::MAX), hard: limit.maximum.unwrap_or(u64::MAX) }
}

/// The number of open files of this process; None: unknown.
#[must_use]
pub fn open_descriptors() -> Option<u64> {
    const FOLDER: &str = "/proc/self/fd";
    // Linux 6.2 and later report the number as the directory's size; before, it must be listed, which opens one more.
    match std::fs::metadata(FOLDER).ok()?.len() {
        0 => Some((std::fs::read_dir(FOLDER).ok()?.count() as u64).saturating_sub(1)),
        count => Some(count),
    }
}

/// Raises the soft limit to the hard limit if possible, and returns the result.
pub fn raise_descriptor_limit() -> DescriptorLimit {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // On failure the limit stays; `ensure_descriptor_limit` reports it where it matters.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    descriptor_limit()
}

/// Raises the limit to `needed` if it is lower.
///
/// # Errors
/// If it cannot be raised that far.
pub fn ensure_descriptor_limit(needed: u64) -> Result<(), TooFewDescriptors> {
    if descriptor_limit().soft >= needed {
        return Ok(());
    }
    let allowed = raise_descriptor_limit().soft;
    if allowed >= needed { Ok(()) } else { Err(TooFewDescriptors { needed, allowed }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptor_error_names_remedy() {
        let error = TooFewDescriptors { needed: 10_100, allowed: 4_096 };
        let message = error.to_string();
        assert!(message.contains("10100 are needed, 4096 are allowed"), "{message}");
        assert!(message.contains("ulimit -n 10100"), "{message}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn counts_open_descriptors() {
        // More than other tests of this process open and close by chance.
        let before = open_descriptors().unwrap();
        let opened: Vec<_> = (0..200).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let seen = open_descriptors().unwrap();
        assert!((before + 150..before + 250).contains(&seen), "{before} {seen} {}", opened.len());
    }

    #[test]
    fn raises_limit_to_hard_limit() {
        let raised = raise_descriptor_limit();
        assert_eq!(raised.soft, raised.hard);
        assert_eq!(ensure_descriptor_limit(raised.hard), Ok(()));
        if raised.hard < u64::MAX {
            let needed = raised.hard + 1;
            assert_eq!(ensure_descriptor_limit(needed), Err(TooFewDescriptors { needed, allowed: raised.hard }));
        }
    }
}
