//! Files of the kernel that are read repeatedly: opened once, read from the beginning each time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The maximum read; the rest is not needed.
const BYTES_MAX: usize = 64 << 10;

/// An open file.
#[derive(Debug)]
pub(super) struct KernelFile {
    file: File,
}

impl KernelFile {
    pub(super) fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self { file: File::open(path)? })
    }

    /// Reads the current contents. Fails for a process that has exited, even if its pid was reused.
    pub(super) fn read<'b>(&self, buffer: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
        buffer.resize(BYTES_MAX, 0);
        let mut length = 0;
        while length < BYTES_MAX {
            match self.file.read_at(&mut buffer[length..], length as u64)? {
                0 => break,
                count => length += count,
            }
            // The kernel returns a short file at once; reading to its end would cost as much again.
            if length < 4096 {
                break;
            }
        }
        Ok(&buffer[..length])
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

/// The number after a name: `MemAvailable:    123 kB`.
pub(super) fn number_behind(text: &[u8], name: &[u8]) -> Option<u64> {
    let line = text.split(|&byte| byte == b'\n').find(|line| line.starts_with(name))?;
    number_at(&line[name.len()..])
}

/// The number after spaces.
pub(super) fn number_at(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_their_names() {
        let text = b"MemTotal:  100 kB\nMemAvailable:\t 42 kB\n";
        assert_eq!(number_behind(text, b"MemAvailable:"), Some(42));
        assert_eq!(number_behind(text, b"Swap:"), None);
        assert_eq!(number_at(b"  x"), None);
    }

    #[test]
    fn a_file_is_read_anew_each_time() {
        let reading = KernelFile::open("/proc/self/status").unwrap();
        let mut buffer = Vec::new();
        for _ in 0..2 {
            let text = reading.read(&mut buffer).unwrap();
            assert_eq!(number_behind(text, b"Pid:"), Some(u64::from(std::process::id())));
        }
    }
}
