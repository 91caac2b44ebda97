//! From bytes to requests, one step at a time.

use super::connection::{Answering, Exchange, Receiving, ServerConnection};
use crate::content::{ContentDecoder, ContentStep};
use crate::head::{HeadScan, Section, field_count_max, lines_are_strict, split_fields, within};
use crate::meaning::{self, RequestMeaning};
use crate::refusal::{Refusal, RefusalReason};
use crate::request_line::{LineVersion, RequestLine};
use crate::trailers::LastChunk;
use crate::{Field, FieldStorage, Fields, Limits, Method, RequestHead, Version};

/// Empty lines that are skipped before a request line (RFC 9112, 2.2: at least one).
const EMPTY_LINES_MAX: u8 = 1;

/// What `receive` found at the start of the input.
#[derive(Debug)]
pub enum Progress<'a, 'f> {
    /// Not enough bytes for the next step; these bytes (framing, drained content) are used.
    NeedMore {
        /// Bytes used.
        taken: usize,
    },
    /// A request's head.
    Head {
        /// The head. If it [has content](RequestHead::has_content), `Content` and `End` follow; else the request is
        /// complete.
        head: RequestHead<'a, 'f>,
        /// Bytes used.
        taken: usize,
    },
    /// A part of the content, without its framing.
    Content {
        /// The part, never empty.
        bytes: &'a [u8],
        /// Bytes used.
        taken: usize,
    },
    /// A field behind chunked content (RFC 9110, 6.5). It is not one of the head's, and must not become one.
    Trailer {
        /// The field.
        field: Field<'a>,
        /// Bytes used.
        taken: usize,
    },
    /// The content is complete.
    End {
        /// Bytes used.
        taken: usize,
    },
    /// The answer to the request before is not complete; nothing is used.
    Blocked,
    /// The connection is over: the peer ended between two requests, or the last answer said `close`. Close it
    /// gracefully.
    Over,
}

/// What became of content that nobody wanted.
enum Drained {
    /// It is complete; this many bytes of the input were its last.
    Complete { taken: usize },
    /// More of it is to come; all of the input was used but perhaps a part of a trailer line.
    Pending { taken: usize },
    /// Too much, or not in order.
    GivenUp,
}

impl ServerConnection {
    /// The next step of the requests in `input`. Call again with the rest until `NeedMore`, `Blocked` or `Over`.
    ///
    /// `input` begins with the first byte that was not taken. `ended` says that nothing will come after it.
    ///
    /// # Errors
    /// What the RFC says must be refused.
    pub fn receive<'a, 'f>(
        &mut self,
        input: &'a [u8],
        ended: bool,
        limits: &Limits,
        storage: &'f mut FieldStorage<'a>,
    ) -> Result<Progress<'a, 'f>, Refusal> {
        self.http10_only = limits.http10_only;
        let received = match self.receiving {
            Receiving::Head => self.receive_head(input, 0, ended, limits, storage),
            Receiving::Content => self.receive_content(input, ended, limits),
            Receiving::Complete => Ok(Progress::Blocked),
            Receiving::Draining => self.receive_drained(input, ended, limits, storage),
            Receiving::Refused | Receiving::Over => Ok(Progress::Over),
        };
        received.map_err(|reason| {
            self.receiving = Receiving::Refused;
            self.close = true;
            Refusal::new(reason)
        })
    }

    /// The bytes of `input` before `skipped` are used already.
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
                self.receiving = Receiving::Over;
                Ok(Progress::Over)
            }
            Ok(None) => {
                let reason = self.scan.why_cut_off::<RequestLine<'_>>(rest, limits);
                Err(self.refused_head(rest, reason))
            }
            Err(reason) => Err(self.refused_head(rest, reason)),
        }
    }

    /// Also a refusal has no content when it answers HEAD.
    #[cold]
    fn refused_head(&mut self, head: &[u8], reason: RefusalReason) -> RefusalReason {
        self.exchange.is_head = head.starts_with(b"HEAD ");
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

    /// The request line and the fields; none while the head is not complete.
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
                // Most heads come in one piece and are in order. Else the careful way says what is wrong.
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
        headers: &'f [httparse::Header<'a>],
        limits: &Limits,
    ) -> Result<RequestHead<'a, 'f>, RefusalReason> {
        let (target, version) = (line.target()?, line.version.spoken());
        let meaning = meaning::request(line.method, target, version, headers, limits)?;
        let RequestMeaning { authority, framing, keep_alive, expects_continue, asks_upgrade } = meaning;
        let head = RequestHead {
            method: line.method,
            target,
            version,
            authority,
            fields: Fields::new(headers),
            framing,
            expects_continue,
            asks_upgrade,
        };
        self.request_count = self.request_count.saturating_add(1);
        // Behind CONNECT a client may send what is meant for the tunnel, without waiting whether there is one.
        let is_connect = head.method == Method::Connect;
        self.close |= !keep_alive || is_connect || self.request_count >= limits.requests_max;
        self.exchange = Exchange {
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
        self.answering = Answering::Due;
        self.receiving = if head.has_content() { Receiving::Content } else { Receiving::Complete };
        if head.has_content() {
            self.content = ContentDecoder::new(framing);
            self.note_rest(limits);
        }
        Ok(head)
    }

    fn note_rest(&mut self, limits: &Limits) {
        self.exchange.rest_is_long = self.content.known_rest().is_some_and(|rest| rest > limits.drain_bytes_max);
    }

    fn receive_content<'a, 'f>(
        &mut self,
        input: &'a [u8],
        ended: bool,
        limits: &Limits,
    ) -> Result<Progress<'a, 'f>, RefusalReason> {
        let bytes_max = limits.content_bytes_max.saturating_sub(self.content_bytes);
        let step = self.content.decode(input, bytes_max, limits)?;
        // A client that sends does not wait.
        self.exchange.continue_due &= input.is_empty();
        self.note_rest(limits);
        Ok(match step {
            ContentStep::Content { bytes, taken } => {
                self.content_bytes += bytes.len() as u64;
                Progress::Content { bytes, taken }
            }
            ContentStep::Trailer { field, taken } => Progress::Trailer { field, taken },
            ContentStep::End { taken } => {
                self.receiving = Receiving::Complete;
                Progress::End { taken }
            }
            ContentStep::NeedMore { .. } if ended => return Err(RefusalReason::Truncated),
            ContentStep::NeedMore { taken } => Progress::NeedMore { taken },
        })
    }

    /// Reads into nothing what is left of a request whose answer is complete, and goes on to the next.
    fn receive_drained<'a, 'f>(
        &mut self,
        input: &'a [u8],
        ended: bool,
        limits: &Limits,
        storage: &'f mut FieldStorage<'a>,
    ) -> Result<Progress<'a, 'f>, RefusalReason> {
        match self.drain(input, limits) {
            Drained::Complete { taken } => {
                self.receiving = Receiving::Head;
                self.receive_head(input, taken, ended, limits, storage)
            }
            Drained::Pending { taken } if !ended => Ok(Progress::NeedMore { taken }),
            // The client has its answer: nobody is left to be told what is wrong.
            Drained::Pending { .. } | Drained::GivenUp => {
                self.receiving = Receiving::Over;
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

/// The fields of a head that came in one piece, if it is complete and every line ends with CRLF.
fn tokenise<'a, 'f>(input: &'a [u8], limits: &Limits, storage: &'f mut FieldStorage<'a>) -> Option<Section<'a, 'f>> {
    let mut request = httparse::Request::new(&mut []);
    let headers = &mut storage.headers[..field_count_max(limits)];
    let Ok(httparse::Status::Complete(len)) = request.parse_with_uninit_headers(within(input, limits), headers) else {
        return None;
    };
    let headers = request.headers;
    lines_are_strict(&input[..len], headers).then_some((headers, len))
}
