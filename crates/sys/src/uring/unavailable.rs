//! Reasons why io_uring is unavailable.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UringUnavailable {
    /// By `kernel.io_uring_disabled`; its value.
    Disabled(String),
    /// By a seccomp filter or a policy.
    Forbidden,
    /// Not in this kernel, or hidden by a filter.
    Missing,
    /// A required feature is missing.
    TooOld(&'static str),
    /// Out of (locked) memory.
    Memory,
    Other(String),
}

impl fmt::Display for UringUnavailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled(value) => write!(
                formatter,
                "this machine forbids io_uring: kernel.io_uring_disabled is {value}; `sysctl kernel.io_uring_disabled=0` allows it"
            ),
            Self::Forbidden => write!(
                formatter,
                "a filter of system calls (seccomp, as in containers) or a security policy forbids io_uring; allow \
                 io_uring_setup, io_uring_enter and io_uring_register"
            ),
            Self::Missing => {
                write!(
                    formatter,
                    "this kernel has no io_uring, or a filter of system calls hides it; use Linux 6.1 or newer"
                )
            }
            Self::TooOld(what) => {
                write!(formatter, "this kernel's io_uring does not support {what}; use Linux 6.1 or newer")
            }
            Self::Memory => write!(
                formatter,
                "the kernel has no memory for a ring; raise the limit of locked memory (`ulimit -l`) or of the container"
            ),
            Self::Other(error) => write!(formatter, "io_uring cannot be set up: {error}"),
        }
    }
}

impl std::error::Error for UringUnavailable {}
