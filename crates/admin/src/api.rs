//! The pages of a role at `--admin`, in addition to those of every server.
//!
//! Every client that reaches the address may read. Changes require a bearer token (RFC 6750), and are impossible if no
//! token is configured: an address that only this machine can reach is still accessible to every program on it, and to
//! every page in a browser.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use arc_swap::ArcSwap;
use breme_http::media_type::{JSON, TEXT};
use serde_json::Value;
use subtle::ConstantTimeEq;

/// A shorter token could be guessed.
const TOKEN_BYTES_MIN: usize = 16;
const TOKEN_FILE_BYTES_MAX: u64 = 4096;

pub trait Api: fmt::Debug + Send {
    /// A line for each page, for the index `/`.
    fn index(&self) -> String;

    /// Responds to a request. Methods other than GET and HEAD are only passed on with a valid token.
    fn answer(&self, call: &Call<'_>) -> AdminPage;

    /// The response to GET or HEAD if another thread makes it, because [`Api::answer`] would delay other pages.
    fn answer_later(&self, _call: &Call<'_>) -> Option<Receiver<AdminPage>> {
        None
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub query: Option<&'a str>,
    pub content: &'a [u8],
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminPage {
    pub status: u16,
    pub media_type: &'static str,
    pub text: String,
    /// A field required by its status.
    pub field: Option<(&'static str, &'static str)>,
}

impl AdminPage {
    pub fn plain(status: u16, text: impl Into<String>) -> Self {
        Self { status, media_type: TEXT, text: text.into(), field: None }
    }

    pub fn json(status: u16, value: &Value) -> Self {
        Self { media_type: JSON, ..Self::plain(status, format!("{value:#}\n")) }
    }

    /// An error in the request.
    pub fn fault(status: u16, problem: impl fmt::Display) -> Self {
        Self::json(status, &serde_json::json!({ "error": problem.to_string() }))
    }

    /// The page does not support the method.
    pub fn not_allowed(allowed: &'static str) -> Self {
        Self { field: Some(("Allow", allowed)), ..Self::plain(405, format!("{}\n", allowed.replace(", ", " or "))) }
    }
}

/// The token that authorises changes; none: changes are impossible. Clones share it, and it can be replaced.
#[derive(Clone)]
pub struct AdminToken(Option<Arc<ArcSwap<Vec<u8>>>>);

impl fmt::Debug for AdminToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "AdminToken(…)" } else { "AdminToken(none)" })
    }
}

impl AdminToken {
    /// Reads it from the file in the flag.
    pub fn from_file(flag: &str, path: Option<&Path>) -> Result<Self, String> {
        let token = path.map(|path| Self::read(flag, path)).transpose()?;
        Ok(Self(token.map(|token| Arc::new(ArcSwap::from_pointee(token)))))
    }

    /// Reads the file again. Returns whether the token has changed. If the file is invalid, the old token is kept.
    pub fn reload(&self, flag: &str, path: &Path) -> Result<bool, String> {
        let Some(token) = &self.0 else { return Ok(false) };
        let new = Self::read(flag, path)?;
        let is_other = **token.load() != new;
        token.store(Arc::new(new));
        Ok(is_other)
    }

    fn read(flag: &str, path: &Path) -> Result<Vec<u8>, String> {
        let fault = |problem: String| format!("{flag} {}: {problem}", path.display());
        let bytes = breme_sys::read_bounded(path, TOKEN_FILE_BYTES_MAX)
            .map_err(|error| fault(format!("cannot be read: {error}")))?;
        let token = bytes.trim_ascii();
        if token.len() < TOKEN_BYTES_MIN || !token.iter().all(u8::is_ascii_graphic) {
            let remedy = "make one with `openssl rand -hex 32`";
            return Err(fault(format!(
                "a token needs at least {TOKEN_BYTES_MIN} printable characters without spaces; {remedy}"
            )));
        }
        Ok(token.to_vec())
    }

    /// Whether the Authorization headers of a request contain the token. There must be exactly one, since an
    /// intermediary may have checked another. The comparison takes constant time.
    pub(super) fn check<'a>(&self, mut authorization: impl Iterator<Item = &'a [u8]>) -> Result<(), AdminPage> {
        let Some(token) = &self.0 else {
            return Err(AdminPage::fault(403, "changes are disabled: start the program with --admin-token-file FILE"));
        };
        let shown = authorization.next().and_then(bearer).unwrap_or_default();
        if authorization.next().is_some() {
            return Err(AdminPage::fault(400, "there are several Authorization headers; send exactly one"));
        }
        if bool::from(shown.ct_eq(&token.load())) {
            return Ok(());
        }
        let page = AdminPage::fault(401, "this request needs the admin token: Authorization: Bearer TOKEN");
        Err(AdminPage { field: Some(("WWW-Authenticate", "Bearer")), ..page })
    }
}

fn bearer(authorization: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = authorization.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(token: &AdminToken, authorization: Option<&str>) -> u16 {
        token.check(authorization.into_iter().map(str::as_bytes)).map_or_else(|page| page.status, |()| 200)
    }

    #[test]
    fn only_the_token_opens() {
        let token = AdminToken(Some(Arc::new(ArcSwap::from_pointee(b"0123456789abcdef".to_vec()))));
        for good in ["Bearer 0123456789abcdef", "bearer  0123456789abcdef"] {
            assert_eq!(status(&token, Some(good)), 200, "{good}");
        }
        let near = ["Bearer 0123456789abcdeg", "Bearer 0123456789abcde", "Bearer 0123456789abcdef0"];
        for wrong in near.into_iter().chain(["", "Bearer", "Bearer ", "Basic 0123456789abcdef", "0123456789abcdef"]) {
            assert_eq!(status(&token, Some(wrong)), 401, "{wrong}");
        }
        assert_eq!(status(&token, None), 401);
        assert_eq!([None, Some("Bearer "), Some("Bearer x")].map(|shown| status(&AdminToken(None), shown)), [403; 3]);
    }

    #[test]
    fn a_good_token_beside_another_is_refused() {
        let token = AdminToken(Some(Arc::new(ArcSwap::from_pointee(b"0123456789abcdef".to_vec()))));
        let (good, bad) = (&b"Bearer 0123456789abcdef"[..], &b"Bearer fedcba9876543210"[..]);
        for headers in [[good, bad], [bad, good], [good, good]] {
            assert_eq!(token.check(headers.into_iter()).unwrap_err().status, 400);
        }
    }

    #[test]
    fn a_token_that_could_be_guessed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            AdminToken::from_file("--admin-token-file", Some(&path))
        };
        let token = read("0123456789abcdef\n").unwrap();
        assert_eq!(status(&token, Some("Bearer 0123456789abcdef")), 200);
        let shared = token.clone();
        std::fs::write(&path, "fedcba9876543210").unwrap();
        assert_eq!([token.reload("--x", &path), token.reload("--x", &path)], [Ok(true), Ok(false)]);
        assert_eq!(
            ["Bearer 0123456789abcdef", "Bearer fedcba9876543210"].map(|shown| status(&shared, Some(shown))),
            [401, 200]
        );
        for wrong in ["", "short\n", "0123456789 abcdef", "0123456789\nabcdef"] {
            let problem = read(wrong).unwrap_err();
            assert!(problem.contains("--admin-token-file") && problem.contains("openssl rand"), "{problem}");
            assert!(token.reload("--x", &path).is_err());
            assert_eq!(status(&token, Some("Bearer fedcba9876543210")), 200, "the old one stays");
        }
    }
}
