//! A descriptor to poll that other threads can signal.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// A pipe that contains a byte while a wake-up is pending.
#[derive(Debug)]
pub(crate) struct WakeFd {
    reader: PipeReader,
    writer: PipeWriter,
}

impl WakeFd {
    pub(crate) fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        rustix::io::ioctl_fionbio(&reader, true)?;
        rustix::io::ioctl_fionbio(&writer, true)?;
        Ok(Self { reader, writer })
    }

    pub(crate) fn wake(&self) {
        // A full pipe is readable already; other errors cannot occur while both ends are open.
        let _ = (&self.writer).write(&[1]);
    }

    pub(crate) fn drain(&self) {
        let mut buffer = [0; 64];
        while matches!((&self.reader).read(&mut buffer), Ok(count) if count == buffer.len()) {}
    }
}

impl AsFd for WakeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}
