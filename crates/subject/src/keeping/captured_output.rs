//! Captures the output of a program within bounds: in a rotated file (one old file is kept), and its end in memory for
//! messages.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

/// The longest file; there are at most two.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Bytes of the end kept for messages.
const TAIL_BYTES_MAX: usize = 16 << 10;
/// Bytes of a line that are searched; the rest is ignored.
const LINE_BYTES_MAX: usize = 16 << 10;
/// Lines shown in a message.
const LINES_SHOWN: usize = 20;

/// The output so far.
#[derive(Debug)]
pub(super) struct CapturedOutput {
    path: PathBuf,
    file: Option<File>,
    file_bytes: u64,
    tail: VecDeque<u8>,
    line: Vec<u8>,
    wanted: Vec<Wanted>,
}

/// A text to look for.
#[derive(Debug)]
struct Wanted {
    text: String,
    found: Option<String>,
}

impl CapturedOutput {
    /// Appends to this file. Records the first line that contains each of `wanted`.
    pub(super) fn new(path: PathBuf, wanted: &[String]) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let file_bytes = file.metadata()?.len();
        let wanted = wanted.iter().map(|text| Wanted { text: text.clone(), found: None }).collect();
        Ok(Self { path, file: Some(file), file_bytes, tail: VecDeque::new(), line: Vec::new(), wanted })
    }

    /// Appends output.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.write(bytes);
        let kept = &bytes[bytes.len().saturating_sub(TAIL_BYTES_MAX)..];
        self.tail.extend(kept);
        let surplus = self.tail.len().saturating_sub(TAIL_BYTES_MAX);
        self.tail.drain(..surplus);
        self.search(bytes);
    }

    /// A full disk must not end a trial: then only the end is kept.
    fn write(&mut self, bytes: &[u8]) {
        if self.file_bytes + bytes.len() as u64 > FILE_BYTES_MAX {
            self.file = self.begin_anew().ok();
        }
        if self.file.as_mut().is_some_and(|file| file.write_all(bytes).is_err()) {
            self.file = None;
        }
        self.file_bytes += bytes.len() as u64;
    }

    fn begin_anew(&mut self) -> io::Result<File> {
        let mut before = self.path.clone().into_os_string();
        before.push(".1");
        fs::rename(&self.path, before)?;
        self.file_bytes = 0;
        File::create(&self.path)
    }

    fn search(&mut self, bytes: &[u8]) {
        if self.wanted.iter().all(|wanted| wanted.found.is_some()) {
            return;
        }
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let room = LINE_BYTES_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = String::from_utf8_lossy(&self.line).trim_end().to_owned();
        self.line.clear();
        for wanted in self.wanted.iter_mut().filter(|wanted| wanted.found.is_none()) {
            if line.contains(&wanted.text) {
                wanted.found = Some(line.clone());
            }
        }
    }

    /// The first line with the wanted text at this index.
    pub(super) fn found(&self, position: usize) -> Option<String> {
        self.wanted.get(position)?.found.clone()
    }

    /// The last lines, for a message.
    pub(super) fn last_lines(&self) -> String {
        let bytes: Vec<u8> = self.tail.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.trim_end().lines().collect();
        lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(wanted: &[&str]) -> (tempfile::TempDir, CapturedOutput) {
        let folder = tempfile::tempdir().unwrap();
        let wanted: Vec<String> = wanted.iter().map(|&text| text.to_owned()).collect();
        let printed = CapturedOutput::new(folder.path().join("out"), &wanted).unwrap();
        (folder, printed)
    }

    #[test]
    fn wanted_lines_are_found_whatever_the_pieces() {
        let text = "first\nlistening on http://127.0.0.1:80\nlistening on http://127.0.0.1:81\nready";
        for size in 1..text.len() {
            let (_folder, mut printed) = printed(&["listening on", "ready"]);
            text.as_bytes().chunks(size).for_each(|piece| printed.push(piece));
            assert_eq!(printed.found(0).as_deref(), Some("listening on http://127.0.0.1:80"));
            assert_eq!(printed.found(1), None, "a line counts when it is whole");
            printed.push(b"\n");
            assert_eq!(printed.found(1).as_deref(), Some("ready"));
            assert_eq!(printed.found(2), None);
        }
    }

    #[test]
    fn files_and_memory_are_bounded_and_the_end_is_kept() {
        let (folder, mut printed) = printed(&["never"]);
        let line = vec![b'x'; 65_536];
        for _ in 0..300 {
            printed.push(&line);
        }
        printed.push(b"\nthe end\n");
        let size = |name: &str| fs::metadata(folder.path().join(name)).unwrap().len();
        assert!(size("out") <= FILE_BYTES_MAX && size("out.1") <= FILE_BYTES_MAX);
        assert!(printed.tail.len() <= TAIL_BYTES_MAX && printed.line.len() <= LINE_BYTES_MAX);
        assert!(printed.last_lines().ends_with("\nthe end"));
    }

    #[test]
    fn a_message_shows_a_few_lines() {
        let (_folder, mut printed) = printed(&[]);
        (0..100).for_each(|number| printed.push(format!("{number}\n").as_bytes()));
        assert_eq!(printed.last_lines().lines().count(), LINES_SHOWN);
        assert!(printed.last_lines().starts_with("80\n"));
    }
}
