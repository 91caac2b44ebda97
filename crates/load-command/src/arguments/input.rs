//! Files that flags name, and standard input.

use std::io::Read;
use std::path::Path;

use breme_command::failure::Failure;

/// Limit of a file or standard input.
const INPUT_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The content of `--body`: the text, or the file that it names.
pub(super) fn read_content(text: &str) -> Result<Vec<u8>, Failure> {
    let content = match text.strip_prefix('@') {
        None => return Ok(text.as_bytes().to_vec()),
        Some(path) => read_path(Path::new(path)),
    };
    content.map_err(|problem| Failure::usage(format!("--body {text}: {problem}")))
}

/// A file, or standard input if it is `-`.
pub(super) fn read_path(path: &Path) -> Result<Vec<u8>, String> {
    if path == Path::new("-") { read_bounded(std::io::stdin().lock()) } else { read_file(path) }
}

pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    read_bounded(std::fs::File::open(path).map_err(|error| format!("cannot be read: {error}"))?)
}

fn read_bounded(reader: impl Read) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    let count = reader
        .take(INPUT_BYTES_MAX + 1)
        .read_to_end(&mut content)
        .map_err(|error| format!("cannot be read: {error}"))?;
    if count as u64 > INPUT_BYTES_MAX { Err(format!("is longer than {INPUT_BYTES_MAX} bytes")) } else { Ok(content) }
}
