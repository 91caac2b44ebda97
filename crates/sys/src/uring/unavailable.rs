//! Reasons why io_uring is unavailable.

use thiserror::Error;

/// Why io_uring cannot be used; the messages name the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UringUnavailable {
    /// The value of `kernel.io_uring_disabled`.
    #[error(
        "this machine forbids io_uring: kernel.io_uring_disabled is {0}; `sysctl kernel.io_uring_disabled=0` allows it"
    )]
    Disabled(String),
    #[error(
        "a filter of system calls (seccomp, as in containers) or a security policy forbids io_uring; allow io_uring_setup, io_uring_enter and io_uring_register"
    )]
    Forbidden,
    #[error("this kernel has no io_uring, or a filter of system calls hides it; use Linux 6.1 or newer")]
    Missing,
    #[error("this kernel's io_uring does not support {0}; use Linux 6.1 or newer")]
    TooOld(&'static str),
    #[error("the kernel has no memory for a ring; raise the limit of locked memory (`ulimit -l`) or of the container")]
    Memory,
    #[error("io_uring cannot be set up: {0}")]
    Other(String),
}
