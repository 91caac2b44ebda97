//! Encodes request heads. Requests are built once and sent often, so this need not be fast.

use breme_http::fields::push_field_line;
use breme_http::syntax::is_token;
use breme_http::{FieldBlock, Framing, InvalidField, Method, Version};

use crate::status::push_framing;

/// Builds the bytes of a request; writes framing and Host itself.
#[derive(Debug)]
pub struct RequestEncoder<'a> {
    /// A token.
    pub method: Method<'a>,
    /// The request target as in the request line.
    pub target: &'a str,
    pub version: Version,
    pub authority: &'a str,
    /// Further fields. `Content-Length`, `Transfer-Encoding`, `Host` and `Connection` in it replace the encoder's own.
    pub fields: &'a FieldBlock,
    /// Request a persistent connection (HTTP/1.0) or its closing (HTTP/1.1) where that is not the default.
    pub keep_alive: bool,
}

impl RequestEncoder<'_> {
    /// Appends the head of a request with `content_bytes` bytes of content (None: no content).
    ///
    /// # Errors
    /// If the method is not a token, the target is empty or contains white space or control bytes, or the authority is
    /// not a valid field value. Nothing is written then.
    pub fn encode(&self, content_bytes: Option<u64>, out: &mut Vec<u8>) -> Result<(), InvalidField> {
        let start = out.len();
        let encoded = self.try_encode(content_bytes, out);
        if encoded.is_err() {
            out.truncate(start);
        }
        encoded
    }

    fn try_encode(&self, content_bytes: Option<u64>, out: &mut Vec<u8>) -> Result<(), InvalidField> {
        self.push_line(out)?;
        if !self.fields.contains("Host") {
            push_field_line(out, "Host", self.authority.as_bytes())?;
        }
        if !self.fields.contains("Content-Length") && !self.fields.contains("Transfer-Encoding") {
            push_framing(out, self.framing(content_bytes));
        }
        if !self.fields.contains("Connection") {
            out.extend_from_slice(self.connection());
        }
        out.extend_from_slice(self.fields.as_bytes());
        out.extend_from_slice(b"\r\n");
        Ok(())
    }

    fn push_line(&self, out: &mut Vec<u8>) -> Result<(), InvalidField> {
        let method = self.method.as_str();
        if !is_token(method.as_bytes()) {
            return Err(InvalidField::new(method));
        }
        if self.target.is_empty() || self.target.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(InvalidField::new(self.target));
        }
        out.extend_from_slice(method.as_bytes());
        out.push(b' ');
        out.extend_from_slice(self.target.as_bytes());
        out.extend_from_slice(match self.version {
            Version::Http10 => b" HTTP/1.0\r\n",
            Version::Http11 => b" HTTP/1.1\r\n",
        });
        Ok(())
    }

    /// RFC 9110, 8.6: methods that usually have content announce a length of 0.
    fn framing(&self, content_bytes: Option<u64>) -> Framing {
        match (content_bytes, self.method) {
            (Some(length), _) => Framing::Length(length),
            (None, Method::Post | Method::Put | Method::Patch) => Framing::Length(0),
            (None, _) => Framing::None,
        }
    }

    fn connection(&self) -> &'static [u8] {
        match (self.version, self.keep_alive) {
            (Version::Http10, true) => b"Connection: keep-alive\r\n",
            (Version::Http11, false) => b"Connection: close\r\n",
            _ => b"",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_FIELDS: &FieldBlock = &FieldBlock::new();
    const GET: RequestEncoder<'_> = RequestEncoder {
        method: Method::Get,
        target: "/x?y",
        version: Version::Http11,
        authority: "a.example:8080",
        fields: NO_FIELDS,
        keep_alive: true,
    };

    fn encode(request: &RequestEncoder<'_>, content_bytes: Option<u64>) -> String {
        let mut out = b"|".to_vec();
        request.encode(content_bytes, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn writes_default_fields() {
        assert_eq!(encode(&GET, None), "|GET /x?y HTTP/1.1\r\nHost: a.example:8080\r\n\r\n");
        let closing = RequestEncoder { method: Method::Post, keep_alive: false, ..GET };
        assert_eq!(
            encode(&closing, None),
            "|POST /x?y HTTP/1.1\r\nHost: a.example:8080\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let old = RequestEncoder { version: Version::Http10, ..GET };
        assert_eq!(
            encode(&old, Some(7)),
            "|GET /x?y HTTP/1.0\r\nHost: a.example:8080\r\nContent-Length: 7\r\nConnection: keep-alive\r\n\r\n"
        );
        let old_closing = RequestEncoder { keep_alive: false, ..old };
        assert_eq!(encode(&old_closing, None), "|GET /x?y HTTP/1.0\r\nHost: a.example:8080\r\n\r\n");
    }

    #[test]
    fn given_fields_replace_defaults() {
        let mut fields = FieldBlock::new();
        for (name, value) in [("host", "b"), ("CONNECTION", "close"), ("content-length", "3"), ("X", "y")] {
            fields.push(name, value.as_bytes()).unwrap();
        }
        let request = RequestEncoder { fields: &fields, ..GET };
        assert_eq!(
            encode(&request, Some(9)),
            "|GET /x?y HTTP/1.1\r\nhost: b\r\nCONNECTION: close\r\ncontent-length: 3\r\nX: y\r\n\r\n"
        );
    }

    #[test]
    fn rejects_line_breaks() {
        for request in [
            RequestEncoder { target: "", ..GET },
            RequestEncoder { target: "/ HTTP/1.1\r\nX: y", ..GET },
            RequestEncoder { target: "/a b", ..GET },
            RequestEncoder { method: Method::Other("G T"), ..GET },
            RequestEncoder { method: Method::Other(""), ..GET },
            RequestEncoder { authority: "a\r\nX: y", ..GET },
        ] {
            let mut out = b"|".to_vec();
            assert!(request.encode(None, &mut out).is_err(), "{request:?}");
            assert_eq!(out, b"|");
        }
    }
}
