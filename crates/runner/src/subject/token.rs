//! The token that must be shown at the admin address of one of our own servers to change something there, such as what
//! its cache keeps.
//!
//! Whoever knows it can change the system under test, so nobody else learns it: it stands neither in the plan nor on a
//! command line, nor in anything that a run leaves. A token that is drawn here is another one for each start. The
//! server reads it from a file that is only for this user, and that is gone once it has been read.

use std::fmt::{self, Write};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::folder;

/// The file of a drawn token, in the folder in which the server runs.
const FILE: &str = "breme-admin-token";
/// How a server is told where its token is.
const FLAG: &str = "--admin-token-file";
/// So many random bytes nobody guesses.
const DRAWN_BYTES: usize = 32;
/// The longest file of a token, as for the servers themselves.
const FILE_BYTES_MAX: u64 = 4096;

/// A token. It is shown to the server and to nobody else, not in messages either.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(…)")
    }
}

impl Token {
    /// Reads it from a file that the experiment names.
    pub(super) fn of_file(path: &Path) -> Result<Self, String> {
        let fault = |problem: String| {
            let remedy = "it must be one string of visible characters, such as the output of `openssl rand -hex 32`";
            format!("the token in admin_token_file = {:?} cannot be used: {problem}; {remedy}", path.display())
        };
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
        read.map_err(|error| fault(error.to_string()))?;
        match text.trim_ascii() {
            "" => Err(fault("it is empty".to_owned())),
            word if word.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Self(word.to_owned())),
            _ => Err(fault("it has spaces or invisible characters".to_owned())),
        }
    }

    fn draw() -> Result<Self, String> {
        let mut bytes = [0_u8; DRAWN_BYTES];
        getrandom::fill(&mut bytes)
            .map_err(|error| format!("the operating system provides no random numbers for its token: {error}"))?;
        let mut text = String::with_capacity(2 * DRAWN_BYTES);
        for byte in bytes {
            let _ = write!(text, "{byte:02x}"); // into a string, which does not fail
        }
        Ok(Self(text))
    }

    /// The field that shows it (RFC 6750).
    pub(super) fn field(&self) -> (String, String) {
        ("Authorization".to_owned(), format!("Bearer {}", self.0))
    }
}

/// A token that was drawn for a server that is to be started, in its file. Dropped, the file is gone.
#[derive(Debug)]
pub(super) struct Drawn {
    token: Token,
    path: PathBuf,
}

impl Drawn {
    /// For the server that is to run in this folder.
    pub(super) fn into_folder(folder: &Path) -> Result<Self, String> {
        let token = Token::draw()?;
        let path = folder::write_secret(folder, FILE, &token.0)?;
        Ok(Self { token, path })
    }

    /// What the server's command line says of it.
    pub(super) fn argument(&self) -> String {
        format!("{FLAG}={FILE}")
    }

    /// The token, when the server has read it.
    pub(super) fn was_read(self) -> Token {
        self.token.clone()
    }
}

impl Drop for Drawn {
    fn drop(&mut self) {
        // A server that has died before it read it leaves a token that opens nothing.
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
            assert_eq!(Token::of_file(&path).unwrap(), drawn.token);
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
            let problem = Token::of_file(&path).unwrap_err();
            assert!(problem.contains("own\"") && problem.contains("openssl rand"), "{problem}");
            assert!(!problem.contains("parts"), "{problem}");
        }
        fs::write(&path, "0123456789abcdef\n").unwrap();
        assert_eq!(Token::of_file(&path).unwrap().0, "0123456789abcdef");
        assert!(Token::of_file(&folder.path().join("gone")).unwrap_err().contains("gone"));
    }
}
