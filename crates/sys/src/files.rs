//! Small files, read whole.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The content of a file of bounded size.
///
/// # Errors
/// It cannot be read, or is larger than `bytes_max`.
pub fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(bytes_max + 1).read_to_end(&mut content)?;
    if content.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("it has more than {bytes_max} bytes")));
    }
    Ok(content)
}
