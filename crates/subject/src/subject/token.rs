//! The token that authorises changes at the admin address of one of our own servers, such as of its cache.
//!
//! It allows changes of the system under test, so it is kept secret: it is neither in the plan nor on a command line,
//! nor in anything that a run leaves behind. A generated token is different for each start. The server reads it from a
//! file that only this user can read, and that is deleted after the server has read it.

use std::fmt::{self, Write};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::folder::{self, FolderError};

/// The file of a generated token, in the server's working folder.
const FILE: &str = "breme-admin-token";
/// The server's flag for the token file.
const FLAG: &str = "--admin-token-file";
/// Random bytes of a generated token.
const DRAWN_BYTES: usize = 32;
/// The longest token file, as for the servers themselves.
const FILE_BYTES_MAX: u64 = 4096;

/// A token that cannot be read or generated.
#[derive(Debug, Error)]
pub enum TokenError {
    #[error(
        "the token in admin_token_file = {path:?} cannot be used: {problem}; it must be one string of visible characters, such as the output of `openssl rand -hex 32`"
    )]
    File { path: PathBuf, problem: TokenFileProblem },
    #[error("the operating system provides no random numbers for its token: {0}")]
    Random(#[from] getrandom::Error),
    #[error(transparent)]
    Folder(#[from] FolderError),
}

#[derive(Debug, Error)]
pub enum TokenFileProblem {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is empty")]
    Empty,
    #[error("it has spaces or invisible characters")]
    Characters,
}

/// A token. It is sent to the server and never printed, not in messages either.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct BearerToken(String);

impl fmt::Debug for BearerToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("BearerToken(…)")
    }
}

impl BearerToken {
    /// Reads it from a file that the experiment names.
    pub(super) fn from_file(path: &Path) -> Result<Self, TokenError> {
        let fault = |problem| TokenError::File { path: path.to_owned(), problem };
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
        read.map_err(|error| fault(error.into()))?;
        match text.trim_ascii() {
            "" => Err(fault(TokenFileProblem::Empty)),
            word if word.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Self(word.to_owned())),
            _ => Err(fault(TokenFileProblem::Characters)),
        }
    }

    fn draw() -> Result<Self, getrandom::Error> {
        let mut bytes = [0_u8; DRAWN_BYTES];
        getrandom::fill(&mut bytes)?;
        let mut text = String::with_capacity(2 * DRAWN_BYTES);
        for byte in bytes {
            let _ = write!(text, "{byte:02x}"); // into a string, which does not fail
        }
        Ok(Self(text))
    }

    /// The field that carries it (RFC 6750).
    pub(super) fn field(&self) -> (String, String) {
        ("Authorization".to_owned(), format!("Bearer {}", self.0))
    }
}

/// A generated token in its file, which is deleted on drop.
#[derive(Debug)]
pub(super) struct Drawn {
    token: BearerToken,
    path: PathBuf,
}

impl Drawn {
    /// For the server that is to run in this folder.
    pub(super) fn into_folder(folder: &Path) -> Result<Self, TokenError> {
        let token = BearerToken::draw()?;
        let path = folder::write_secret(folder, FILE, &token.0)?;
        Ok(Self { token, path })
    }

    /// The argument of the server's command line.
    pub(super) fn argument(&self) -> String {
        format!("{FLAG}={FILE}")
    }

    /// The token, after the server has read it.
    pub(super) fn was_read(self) -> BearerToken {
        self.token.clone()
    }
}

impl Drop for Drawn {
    fn drop(&mut self) {
        // A server that died before reading it leaves a useless token.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_drawn_anew_and_its_file_goes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let mut all = std::collections::BTreeSet::new();
        for _ in 0..10 {
            let drawn = Drawn::into_folder(folder.path()).unwrap();
            let text = fs::read_to_string(&path).unwrap();
            assert_eq!(BearerToken::from_file(&path).unwrap(), drawn.token);
            assert!(!format!("{drawn:?}{}", drawn.argument()).contains(&text));
            let token = drawn.was_read();
            assert_eq!(token.field().1, format!("Bearer {text}"));
            assert!(!path.exists() && text.len() == 64 && all.insert(text));
        }
    }

    #[test]
    fn a_file_that_holds_none_is_named_and_its_content_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own");
        for content in [&b""[..], b" \n", b"two parts", b"\xff\xfe", b"a\x07b"] {
            fs::write(&path, content).unwrap();
            let problem = BearerToken::from_file(&path).unwrap_err().to_string();
            assert!(problem.contains("own\"") && problem.contains("openssl rand"), "{problem}");
            assert!(!problem.contains("parts"), "{problem}");
        }
        fs::write(&path, "0123456789abcdef\n").unwrap();
        assert_eq!(BearerToken::from_file(&path).unwrap().0, "0123456789abcdef");
        assert!(BearerToken::from_file(&folder.path().join("gone")).unwrap_err().to_string().contains("gone"));
    }
}
