//! Parses requests.

use breme_http::{Field, Fields, Limits, Method, Refusal, RefusalReason, RequestHead, Version};

use super::connection::{RequestProperties, RequestState, ResponseState, ServerConnection};
use crate::content::{ContentDecoder, ContentStep};
use crate::head::{FieldStorage, HeadScan, Section, field_count_max, lines_are_strict, split_fields, within};
use crate::last_chunk::LastChunk;
use crate::request_line::{LineVersion, RequestLine};
use crate::semantics::{self, RequestSemantics};

/// Empty lines skipped before a request line (RFC 9112, 2.2: at least one).
const EMPTY_LINES_MAX: u8 = 1;

/// The next item of the input.
#[derive(Debug)]
pub enum Progress<'a, 'f> {
    /// The next item is incomplete; `taken` bytes (framing, drained content) are consumed.
    NeedMore {
        /// Bytes consumed.
        taken: usize,
    },
    Head {
        /// If it [has content](RequestHead::has_content), `Content` and `End` follow; else the request is complete.
        head: RequestHead<'a, 'f>,
        taken: usize,
    },
    /// A part of the content, without its framing.
    Content {
        /// Never empty.
        bytes: &'a [u8],
        taken: usize,
    },
    /// A field after chunked content (RFC 9110, 6.5). It must not be merged into the head.
    Trailer { field: Field<'a>, taken: usize },
    /// The content is complete.
    End { taken: usize },
    /// The previous response is not complete; nothing is consumed.
    Blocked,
    /// The connection is over: the peer closed between requests, or the last response had `Connection: close`. Close it
    /// gracefully.
    Over,
}

impl Progress<'_, '_> {
    /// Bytes consumed.
    #[inline]
    #[must_use]
    pub const fn taken(&self) -> usize {
        match self {
            Self::NeedMore { taken }
            | Self::Head { taken, .. }
            | Self::Content { taken, .. }
            | Self::Trailer { taken, .. }
            | Self::End { taken } => *taken,
            Self::Blocked | Self::Over => 0,
        }
    }
}

/// The state of unwanted content.
enum Drained {
    /// Complete: `taken` bytes of the input belonged to it.
    Complete { taken: usize },
    /// More is to come; all of the input was consumed except an incomplete trailer line.
    Pending { taken: usize },
    /// Too long, or malformed.
    GivenUp,
}

impl ServerConnection {
    /// Returns the next item of `input`. Call again with the rest until `NeedMore`, `Blocked` or `Over`.
    ///
    /// `input` begins with the first byte not yet consumed. `ended`: nothing will follow it.
    ///
    /// # Errors
    /// A request that the RFCs require to be rejected, or that exceeds a limit.
    pub fn receive<'a, 'f>(
        &mut self,
        input: &'a [u8],
        ended: bool,
        limits: &Limits,
        storage: &'f mut FieldStorage<'a>,
    ) -> Result<Progress<'a, 'f>, Refusal> {
        self.http10_only = limits.http10_only;
        let received = match self.request_state {
            RequestState::Head => self.receive_head(input, 0, ended, limits, storage),
            RequestState::Content => self.receive_content(input, ended, limits),
            RequestState::Complete => Ok(Progress::Blocked),
            RequestState::Draining => self.receive_drained(input, ended, limits, storage),
            RequestState::Refused | RequestState::Over => Ok(Progress::Over),
        };
        received.map_err(|reason| {
            self.request_state = RequestState::Refused;
            self.close = true;
            Refusal::new(reason)
        })
    }

    /// The first `skipped` bytes of `input` are consumed already.
    fn receive_head<'a, 'f>(
        &mut self,
        input: &'a [u8],
        skipped: usize,
        ended: bool,
        limits: &Limits,
        storage: &'f mut FieldStorage<'a>,
    ) -> Result<Progress<'a, 'f>, RefusalReason> {
        let start = skipped + self.skip_empty_lines(&input[skipped..])?;
        let rest = &input[start..];
        match self.read_request(rest, limits, storage) {
            Ok(Some((head, head_len))) => Ok(Progress::Head { head, taken: start + head_len }),
            Ok(None) if !ended => Ok(Progress::NeedMore { taken: start }),
            Ok(None) if rest.is_empty() => {
                self.request_state = RequestState::Over;
                Ok(Progress::Over)
            }
            Ok(None) => {
                let reason = self.scan.why_cut_off::<RequestLine<'_>>(rest, limits);
                Err(self.refused_head(rest, reason))
            }
            Err(reason) => Err(self.refused_head(rest, reason)),
        }
    }

    /// A refusal of HEAD has no content either.
    #[cold]
    fn refused_head(&mut self, head: &[u8], reason: RefusalReason) -> RefusalReason {
        self.request.is_head = head.starts_with(b"HEAD ");
        reason
    }

    fn read_request<'a, 'f>(
        &mut self,
        input: &'a [u8],
        limits: &Limits,
        storage: &'f mut FieldStorage<'a>,
    ) -> Result<Option<(RequestHead<'a, 'f>, usize)>, RefusalReason> {
        let Some((line, (headers, head_len))) = self.read_section(input, limits, storage)? else { return Ok(None) };
        self.begin_request(&line, headers, limits).map(|head| Some((head, head_len)))
    }

    fn skip_empty_lines(&mut self, input: &[u8]) -> Result<usize, RefusalReason> {
        let mut skipped = 0;
        while self.scan.is_fresh() {
            match &input[skipped..] {
                [b'\r', b'\n', ..] if self.empty_lines < EMPTY_LINES_MAX => {
                    self.empty_lines += 1;
                    skipped += 2;
                }
                [b'\r', b'\n', ..] => return Err(RefusalReason::EmptyLines),
                [b'\r', _, ..] => return Err(RefusalReason::BareCarriageReturn),
                _ => break,
            }
        }
        Ok(skipped)
    }

    /// The request line and the fields; None while the head is incomplete.
    fn read_section<'a, 'f>(
        &mut self,
        input: &'a [u8],
        limits: &Limits,
        storage: &'f mut FieldStorage<'a>,
    ) -> Result<Option<(RequestLine<'a>, Section<'a, 'f>)>, RefusalReason> {
        if matches!(input, [] | [b'\r']) && self.scan.is_fresh() {
            return Ok(None); // nothing, or half an empty line
        }
        if self.scan.is_fresh() {
            let line = RequestLine::parse(within(input, limits), limits)?;
            if let Some(line) = line
                && line.version != LineVersion::Later
            {
                // Most heads are valid and arrive in one piece. Otherwise the strict parser finds the error.
                return match tokenise(input, limits, storage) {
                    Some(section) => Ok(Some((line, section))),
                    None => match self.scan.scan::<RequestLine<'_>>(input, limits)? {
                        None => Ok(None),
                        Some(_) => Err(RefusalReason::Malformed),
                    },
                };
            }
        }
        let Some(head_len) = self.scan.scan::<RequestLine<'_>>(input, limits)? else { return Ok(None) };
        let head = &input[..head_len];
        let line = RequestLine::parse(head, limits)?.ok_or(RefusalReason::Malformed)?;
        Ok(Some((line, split_fields(head, line.len, storage)?)))
    }

    fn begin_request<'a, 'f>(
        &mut self,
        line: &RequestLine<'a>,
        headers: &'f [Field<'a>],
        limits: &Limits,
    ) -> Result<RequestHead<'a, 'f>, RefusalReason> {
        let (target, version) = (line.target()?, line.version.spoken());
        let read = semantics::request(line.method, target, version, headers, limits)?;
        let RequestSemantics { authority, framing, keep_alive, expects_continue, requests_upgrade } = read;
        let head = RequestHead {
            method: line.method,
            target,
            version,
            authority,
            fields: Fields::new(headers),
            framing,
            expects_continue,
            requests_upgrade,
        };
        self.request_count = self.request_count.saturating_add(1);
        // After CONNECT a client may send data for the tunnel without waiting for the response.
        let is_connect = head.method == Method::Connect;
        self.close |= !keep_alive || is_connect || self.request_count >= limits.requests_max;
        self.request = RequestProperties {
            is_head: head.method == Method::Head,
            is_connect,
            is_http10: version == Version::Http10 || limits.http10_only,
            continue_due: expects_continue,
            rest_is_long: false,
            last_chunk: LastChunk::default(),
        };
        self.scan = HeadScan::default();
        self.empty_lines = 0;
        self.content_bytes = 0;
        self.response_state = ResponseState::Due;
        self.request_state = if head.has_content() { RequestState::Content } else { RequestState::Complete };
        if head.has_content() {
            self.content = ContentDecoder::new(framing);
            self.check_rest(limits);
        }
        Ok(head)
    }

    fn check_rest(&mut self, limits: &Limits) {
        self.request.rest_is_long = self.content.known_rest().is_some_and(|rest| rest > limits.drain_bytes_max);
    }

    fn receive_content<'a, 'f>(
        &mut self,
        input: &'a [u8],
        ended: bool,
        limits: &Limits,
    ) -> Result<Progress<'a, 'f>, RefusalReason> {
        let bytes_max = limits.content_bytes_max.saturating_sub(self.content_bytes);
        let step = self.content.decode(input, bytes_max, limits)?;
        // A client that sends content does not wait for 100 (Continue).
        self.request.continue_due &= input.is_empty();
        self.check_rest(limits);
        Ok(match step {
            ContentStep::Content { bytes, taken } => {
                self.content_bytes += bytes.len() as u64;
                Progress::Content { bytes, taken }
            }
            ContentStep::Trailer { field, taken } => Progress::Trailer { field, taken },
            ContentStep::End { taken } => {
                self.request_state = RequestState::Complete;
                Progress::End { taken }
            }
            ContentStep::NeedMore { .. } if ended => return Err(RefusalReason::Truncated),
            ContentStep::NeedMore { taken } => Progress::NeedMore { taken },
        })
    }

    /// Drains the rest of a request whose response is complete, then parses the next.
    fn receive_drained<'a, 'f>(
        &mut self,
        input: &'a [u8],
        ended: bool,
        limits: &Limits,
        storage: &'f mut FieldStorage<'a>,
    ) -> Result<Progress<'a, 'f>, RefusalReason> {
        match self.drain(input, limits) {
            Drained::Complete { taken } => {
                self.request_state = RequestState::Head;
                self.receive_head(input, taken, ended, limits, storage)
            }
            Drained::Pending { taken } if !ended => Ok(Progress::NeedMore { taken }),
            // The client already has its response; an error cannot be reported.
            Drained::Pending { .. } | Drained::GivenUp => {
                self.request_state = RequestState::Over;
                self.close = true;
                Ok(Progress::Over)
            }
        }
    }

    fn drain(&mut self, input: &[u8], limits: &Limits) -> Drained {
        let mut start = 0;
        if self.content.known_rest().is_some_and(|rest| rest > limits.drain_bytes_max) {
            return Drained::GivenUp;
        }
        loop {
            let (taken, content_pending) = match self.content.decode(&input[start..], u64::MAX, limits) {
                Ok(ContentStep::Content { taken, .. } | ContentStep::Trailer { taken, .. }) => (taken, true),
                Ok(ContentStep::NeedMore { taken }) => (taken, false),
                Ok(ContentStep::End { taken }) => return Drained::Complete { taken: start + taken },
                Err(_) => return Drained::GivenUp,
            };
            start += taken;
            self.content_bytes += taken as u64;
            if self.content_bytes > limits.drain_bytes_max {
                return Drained::GivenUp;
            }
            if !content_pending {
                return Drained::Pending { taken: start };
            }
        }
    }
}

/// The fields of a head that is complete in `input`, if every line ends with CRLF.
fn tokenise<'a, 'f>(input: &'a [u8], limits: &Limits, storage: &'f mut FieldStorage<'a>) -> Option<Section<'a, 'f>> {
    let mut request = httparse::Request::new(&mut []);
    let headers = &mut storage.headers[..field_count_max(limits)];
    let Ok(httparse::Status::Complete(len)) = request.parse_with_uninit_headers(within(input, limits), headers) else {
        return None;
    };
    let headers = request.headers;
    lines_are_strict(&input[..len], headers).then_some((headers, len))
}
