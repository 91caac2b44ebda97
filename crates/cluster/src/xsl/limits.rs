//! The limits of transformations, and why one fails.

use std::io;

use thiserror::Error;

use super::checks::InputError;

pub const STYLESHEET_BYTES_MAX: usize = 1 << 20;
pub const DOCUMENT_BYTES_MAX: usize = 4 << 20;
pub const RESULT_BYTES_MAX: u64 = 16 << 20;
/// Limit of the address space of a transformation.
pub const MEMORY_MAX: u64 = 512 << 20;
/// Limit of the transformations waiting for a process. Further ones fail with [`TransformError::Busy`].
pub const WAITING_MAX: usize = 1024;

/// Configurable limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransformerLimits {
    /// Concurrent transformations.
    pub processes: usize,
    /// CPU time of a transformation, in seconds.
    pub cpu_seconds: u64,
}

impl Default for TransformerLimits {
    /// As many processes as CPUs, and 5 s.
    fn default() -> Self {
        Self { processes: breme_sys::parallelism(), cpu_seconds: 5 }
    }
}

#[derive(Debug, Error)]
pub enum TransformError {
    #[error("{0}: there is no such file in the folder")]
    NotFound(String),
    /// The path leads out of the folder or contains a link, or the file is not regular.
    #[error("{0}: not a regular file of the folder; links and .. are not followed")]
    Forbidden(String),
    #[error("{0}: larger than {1} bytes")]
    TooLarge(String, usize),
    /// The file must not be transformed.
    #[error("{0}: {1}")]
    Refused(String, #[source] InputError),
    /// libxslt reported an error.
    #[error("the transformation failed: {0}")]
    Failed(String),
    /// The transformation exceeded a limit.
    #[error("the transformation was ended: {0}")]
    Exceeded(&'static str),
    #[error("{max} transformations are waiting; try again later", max = WAITING_MAX)]
    Busy,
    /// An error of the operating system.
    #[error("cannot transform: {0}")]
    Io(#[from] io::Error),
}
