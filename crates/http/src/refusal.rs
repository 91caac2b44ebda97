//! Reasons to reject a request: one table of reason, status and text.
//!
//! The client side parses the same grammar, so it uses the same reasons and maps them to its few kinds of error.

/// A request that cannot be served. The server responds with the status and closes gracefully.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// 400, 408, 413, 414, 417, 431, 501 or 505.
    pub status: u16,
    pub reason: RefusalReason,
}

impl Refusal {
    /// The refusal for a reason, with its status.
    #[must_use]
    pub const fn new(reason: RefusalReason) -> Self {
        Self { status: reason.status(), reason }
    }
}

impl From<RefusalReason> for Refusal {
    fn from(reason: RefusalReason) -> Self {
        Self::new(reason)
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident => $status:literal, $message:literal;)*) => {
        /// Why a request was rejected, with the section that requires it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum RefusalReason {
            $($(#[$doc])* $name,)*
        }

        impl RefusalReason {
            /// Every reason, for tables of counters.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }

            /// One sentence for the person who sent the request.
            #[must_use]
            pub const fn message(self) -> &'static str {
                match self { $(Self::$name => $message,)* }
            }
        }
    };
}

reasons! {
    // The request line.
    /// More than one empty line before the request line (RFC 9112, 2.2).
    EmptyLines => 400, "The request line is empty.";
    /// A part is missing, or there is more than one space between two parts (RFC 9112, 3).
    BadRequestLine => 400, "The request line must be a method, a target and a version with one space between them.";
    /// The method is not a token (RFC 9110, 9.1).
    BadMethod => 400, "The method contains a byte that is not allowed in a token.";
    /// The method is longer than any that exists (RFC 9112, 3).
    MethodTooLong => 501, "The method is longer than any that this server supports.";
    /// A byte not allowed in a target: control, white space, `#`, above 0x7f and the like (RFC 9112, 3.2).
    BadTarget => 400, "The request target contains a byte that is not allowed in a URI.";
    /// The target is longer than the limit (RFC 9112, 3; RFC 9110, 15.5.15).
    TargetTooLong => 414, "The request target is too long.";
    /// The form of the target is none of the four, or not the one that the method needs (RFC 9112, 3.2).
    BadTargetForm => 400, "The form of the request target is not allowed with its method.";
    /// The authority of an absolute target, or the target of CONNECT, is not a host and port (RFC 9112, 3.2.2 and
    /// 3.2.3).
    BadTargetAuthority => 400, "The authority in the request target is not a host with an optional port.";
    /// The version is not `HTTP/` digit `.` digit (RFC 9112, 2.3).
    BadVersion => 400, "The version must be HTTP/1.0 or HTTP/1.1.";
    /// Another major version (RFC 9110, 15.6.6).
    UnsupportedVersion => 505, "This server supports HTTP/1.0 and HTTP/1.1 only.";

    // Lines.
    /// A line feed without a carriage return before it (RFC 9112, 2.2).
    BareLineFeed => 400, "A line ends with LF instead of CRLF.";
    /// A carriage return without a line feed after it (RFC 9112, 2.2).
    BareCarriageReturn => 400, "A CR is not followed by LF.";
    /// A field line that begins with white space (RFC 9112, 5.2).
    ObsoleteFold => 400, "A header line begins with white space; folded lines are obsolete.";
    /// White space between field name and colon (RFC 9112, 5.1).
    SpaceBeforeColon => 400, "A header name contains white space, or is followed by it.";
    /// A field line that begins with its colon (RFC 9110, 5.1).
    EmptyFieldName => 400, "A header line has no name.";
    /// The field name is not a token (RFC 9110, 5.1).
    BadFieldName => 400, "A header name contains a byte that is not allowed in a token.";
    /// A field line without colon (RFC 9112, 5).
    MissingColon => 400, "A header line has no colon.";
    /// A control byte in a field value (RFC 9110, 5.5).
    BadFieldValue => 400, "A header value contains a control byte.";
    /// More fields than the limit (RFC 6585, 5).
    TooManyFields => 431, "The request has too many headers.";
    /// The head is longer than the limit (RFC 6585, 5).
    HeadTooLarge => 431, "The head of the request is too large.";
    /// The tokeniser rejected a head for a reason not listed here; such a disagreement fails closed.
    Malformed => 400, "The head of the request is malformed.";

    // The meaning of fields.
    /// HTTP/1.1 without Host (RFC 9112, 3.2).
    MissingHost => 400, "HTTP/1.1 requests must have a Host header.";
    /// More than one Host line (RFC 9112, 3.2).
    SeveralHosts => 400, "The request has more than one Host header.";
    /// The Host value is empty or not a host with an optional port (RFC 9112, 3.2; RFC 9110, 4.2.1).
    BadHost => 400, "The Host header must be a host with an optional port.";
    /// Not digits, or more than fit; or leading zeros, which some parsers interpret as octal (RFC 9112, 6.3).
    BadContentLength => 400, "The Content-Length header must be one decimal number without leading zeros.";
    /// More than one Content-Length line, even if equal (RFC 9112, 6.3).
    SeveralContentLengths => 400, "The request has more than one Content-Length header.";
    /// Content-Length together with Transfer-Encoding (RFC 9112, 6.3).
    LengthWithCoding => 400, "The request has both Content-Length and Transfer-Encoding.";
    /// Transfer-Encoding in HTTP/1.0 (RFC 9112, 6.1).
    CodingInHttp10 => 400, "HTTP/1.0 requests cannot have a transfer coding.";
    /// Transfer-Encoding is malformed, does not end in chunked, or contains it twice (RFC 9112, 6.1 and 6.3).
    BadTransferCoding => 400, "The Transfer-Encoding header must be: chunked.";
    /// A coding other than chunked (RFC 9112, 6.1).
    UnknownTransferCoding => 501, "This server supports no transfer coding except chunked.";
    /// A field that some parsers treat as Content-Length or Transfer-Encoding, such as `Content_Length` (RFC 9112,
    /// 11.2).
    LookalikeField => 400, "A header name differs from Content-Length or Transfer-Encoding in its separators only.";
    /// Content-Type lines that contradict each other (RFC 9110, 8.3).
    SeveralContentTypes => 400, "The request has conflicting Content-Type headers.";
    /// TRACE or CONNECT with content, or another method for which the role accepts none (RFC 9110, 9.3.1, 9.3.6 and
    /// 9.3.8).
    ContentNotAllowed => 400, "A request with this method must not have such a body.";
    /// An expectation other than 100-continue (RFC 9110, 10.1.1).
    UnknownExpectation => 417, "This server supports no expectation except 100-continue.";

    // Content.
    /// The content is longer than the limit (RFC 9110, 15.5.14).
    ContentTooLarge => 413, "The body of the request is too large.";
    /// A chunk size that is not hexadecimal digits, or more than fit (RFC 9112, 7.1).
    BadChunkSize => 400, "A chunk size must consist of hexadecimal digits only.";
    /// A chunk extension outside the grammar (RFC 9112, 7.1.1).
    BadChunkExtension => 400, "A chunk extension is malformed.";
    /// A chunk size line longer than the limit (RFC 9112, 7.1.1).
    ChunkLineTooLong => 400, "The size line of a chunk is too long.";
    /// Something other than CRLF after the bytes of a chunk (RFC 9112, 7.1).
    BadChunkEnd => 400, "The bytes of a chunk must be followed by CRLF.";
    /// A trailer field that would change framing, routing or authentication (RFC 9110, 6.5.1).
    ForbiddenTrailer => 400, "A trailer changes the framing, routing or authentication of the request.";
    /// The trailer section is longer than the limit (RFC 6585, 5).
    TrailerTooLarge => 431, "The trailer section is too large.";
    /// The peer closed its side inside a request (RFC 9112, 8).
    Truncated => 400, "The request ended before it was complete.";

    // Time, which the role measures.
    /// The head took too long (RFC 9110, 15.5.9).
    HeadTimeout => 408, "The head of the request did not arrive in time.";
    /// The content stopped arriving (RFC 9110, 15.5.9).
    ContentTimeout => 408, "The body of the request did not arrive in time.";
    /// The content arrived more slowly than the limit (RFC 9110, 15.5.9).
    ReceiveTooSlow => 408, "The body of the request arrived too slowly.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_an_error_status() {
        for &reason in RefusalReason::ALL {
            assert!([400, 408, 413, 414, 417, 431, 501, 505].contains(&reason.status()), "{reason:?}");
            assert!(reason.message().ends_with('.') && reason.message().is_ascii(), "{reason:?}");
            assert_eq!(Refusal::from(reason).status, reason.status());
        }
    }
}
