//! Something to poll that another thread can ring.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// A pipe that holds a byte while the bell has been rung and not yet heard.
#[derive(Debug)]
pub(crate) struct Bell {
    heard: PipeReader,
    rung: PipeWriter,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        let (heard, rung) = io::pipe()?;
        rustix::io::ioctl_fionbio(&heard, true)?;
        rustix::io::ioctl_fionbio(&rung, true)?;
        Ok(Self { heard, rung })
    }

    /// Makes the bell readable.
    pub(crate) fn ring(&self) {
        // A full pipe is rung already; nothing else can go wrong while both ends are ours.
        let _ = (&self.rung).write(&[1]);
    }

    /// Makes the bell unreadable, until it is rung again.
    pub(crate) fn hear(&self) {
        let mut rings = [0; 64];
        while matches!((&self.heard).read(&mut rings), Ok(count) if count == rings.len()) {}
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.heard.as_fd()
    }
}
