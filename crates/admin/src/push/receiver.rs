//! The receiver of messages: its URL, and the Authorization header of a request, from a file: neither a process list
//! nor a message shows it.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use breme_http_client::HttpClient;

/// Time limit of a request.
const WITHIN: Duration = Duration::from_secs(5);
/// Longest file.
const FILE_BYTES_MAX: u64 = 16 * 1024;

#[derive(Clone, Debug)]
pub struct Receiver {
    url: String,
    authorization: Option<AuthorizationFile>,
    http_client: HttpClient,
}

/// What a receiver says of a message.
#[derive(Debug, Default)]
pub(super) struct PushResponse {
    pub(super) status: u16,
    /// The value of Retry-After.
    pub(super) retry_after: Option<String>,
    pub(super) content: Vec<u8>,
}

impl Receiver {
    /// Reads the file once, so that an unusable one is found at the start.
    pub fn new(url: String, auth_file: Option<PathBuf>) -> Result<Self, String> {
        let authorization = auth_file.map(AuthorizationFile::new).transpose()?;
        Ok(Self { url, authorization, http_client: HttpClient::new() })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Posts a body; the status of the response.
    pub fn post(&self, headers: &[(&str, &str)], body: &[u8]) -> Result<u16, String> {
        self.exchange(headers, body).map(|response| response.status)
    }

    pub(super) fn exchange(&self, headers: &[(&str, &str)], body: &[u8]) -> Result<PushResponse, String> {
        // Read for each message, since tokens are replaced while a watch runs for weeks.
        let authorization = self.authorization.as_ref().map(AuthorizationFile::value).transpose()?;
        let authorization = authorization.iter().map(|value| ("Authorization", value.as_str()));
        let headers = headers.iter().copied().chain(authorization);
        let headers: Vec<_> = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let response = self.http_client.post(&self.url, &headers, body, WITHIN).map_err(|error| error.to_string())?;
        Ok(PushResponse { status: response.status, retry_after: response.retry_after, content: response.content })
    }
}

/// A file with `Bearer TOKEN`, `Basic USER:PASSWORD`, or another value of the header (RFC 9110, 11.6.2).
#[derive(Clone, Debug)]
pub struct AuthorizationFile(PathBuf);

impl AuthorizationFile {
    /// Reads the file once, so that an unusable one is found at the start.
    pub fn new(path: PathBuf) -> Result<Self, String> {
        let file = Self(path);
        file.value().map(|_| file)
    }

    /// The header's value at present. An error does not show what the file holds.
    pub fn value(&self) -> Result<String, String> {
        let failed = |problem: &str| format!("{}: {problem}", self.0.display());
        let bytes = breme_sys::read_bounded(&self.0, FILE_BYTES_MAX).map_err(|error| failed(&error.to_string()))?;
        std::str::from_utf8(&bytes).ok().and_then(header_value).ok_or_else(|| {
            failed(
                "it must hold one line: `Bearer TOKEN`, `Basic USER:PASSWORD`, or another scheme and its credentials",
            )
        })
    }
}

/// None unless it is a scheme and credentials. `USER:PASSWORD` is encoded (RFC 7617).
fn header_value(text: &str) -> Option<String> {
    let (scheme, credentials) = text.trim().split_once(' ')?;
    let credentials = credentials.trim_start();
    let is_token = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte));
    if !is_token(scheme) || credentials.is_empty() || credentials.chars().any(char::is_control) {
        return None;
    }
    if scheme.eq_ignore_ascii_case("Basic") && credentials.contains(':') {
        return Some(format!("Basic {}", STANDARD.encode(credentials)));
    }
    credentials.is_ascii().then(|| format!("{scheme} {credentials}"))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn response_has_its_retry_after() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let receiver = Receiver::new(format!("http://{}/", listener.local_addr().unwrap()), None).unwrap();
        let server = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\nx") {
                let mut byte = [0];
                client.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            let head = "HTTP/1.1 503 x\r\nRetry-After: 7\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";
            client.write_all(head.as_bytes()).unwrap();
        });
        let PushResponse { status, retry_after, content } = receiver.exchange(&[], b"x").unwrap();
        assert_eq!((status, retry_after.as_deref(), &content[..]), (503, Some("7"), &b"hi"[..]));
        server.join().unwrap();
    }

    #[test]
    fn value_has_a_scheme_and_credentials() {
        for (text, value) in [
            ("Bearer abc.def\n", Some("Bearer abc.def")),
            ("bearer  x", Some("bearer x")),
            // The example of RFC 7617, section 2.
            ("Basic Aladdin:open sesame\n", Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")),
            ("Basic test:123£", Some("Basic dGVzdDoxMjPCow==")),
            ("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")),
            ("abc.def", None),
            ("Bearer ", None),
            ("", None),
            ("Bearer a\nX-Other: b", None),
            ("Bearer ü", None),
            ("user:pass word", None),
        ] {
            assert_eq!(header_value(text).as_deref(), value, "{text:?}");
        }
    }

    #[test]
    fn file_is_read_again_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "Bearer first").unwrap();
        let file = AuthorizationFile::new(path.clone()).unwrap();
        std::fs::write(&path, "Bearer second").unwrap();
        assert_eq!(file.value().unwrap(), "Bearer second");
        std::fs::write(&path, "secret").unwrap();
        let problem = file.value().unwrap_err();
        assert!(problem.contains("Bearer TOKEN") && !problem.contains("secret"), "{problem}");
    }
}
