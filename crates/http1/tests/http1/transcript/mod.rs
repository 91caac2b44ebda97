//! Transcripts of what each side parses from some bytes: whole, byte by byte, segmented at random.
//!
//! Shared by the tests and the fuzz targets, so that a test can replay what a fuzz target finds.

#![allow(dead_code, reason = "each fuzz target uses a part of it")]

use breme_http::{Field, FieldBlock, Framing, Limits, Method, RequestHead, Target};
use breme_http1::{
    ClientConnection, ClientProgress, FieldStorage, Progress, RequestEncoder, ResponseBody, ServerConnection,
};

pub const DATE: &[u8; 29] = b"Sun, 06 Nov 1994 08:49:37 GMT";

/// The segmentation of a byte string.
pub trait Cuts {
    fn next(&mut self, bytes_left: usize) -> usize;
}

/// Segments of this size.
pub struct Even(pub usize);

impl Cuts for Even {
    fn next(&mut self, bytes_left: usize) -> usize {
        self.0.clamp(1, bytes_left.max(1))
    }
}

/// Segments of these sizes, repeated.
pub struct Given<'a>(pub std::iter::Cycle<std::slice::Iter<'a, u8>>);

impl Cuts for Given<'_> {
    fn next(&mut self, bytes_left: usize) -> usize {
        let size = self.0.next().map_or(1, |&byte| usize::from(byte) % 17);
        size.clamp(1, bytes_left.max(1))
    }
}

/// When the server in the test responds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// When the request is complete.
    AtEnd,
    /// When its head has arrived.
    AtHead,
    /// After `100 Continue`, if the client waits for it.
    AfterContinue,
}

/// An accepted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub method: String,
    pub target: String,
    pub authority: Option<String>,
    pub fields: Vec<(String, Vec<u8>)>,
    pub framing: Framing,
    pub content: Vec<u8>,
}

/// Everything that a server did with its input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// `GET / @host`, `content "…"`, `end`, `refused 400 BadHost`, `over`.
    pub events: Vec<String>,
    pub requests: Vec<Accepted>,
    pub sent: Vec<u8>,
}

fn target_text(target: Target<'_>) -> String {
    match target {
        Target::Origin { path, query: Some(query) } => format!("{path}?{query}"),
        Target::Origin { path, query: None } => path.to_owned(),
        Target::Absolute { scheme, authority, path, query: Some(query) } => {
            format!("{scheme}://{authority}{path}?{query}")
        }
        Target::Absolute { scheme, authority, path, query: None } => format!("{scheme}://{authority}{path}"),
        Target::Authority(authority) => authority.to_owned(),
        Target::Asterisk => "*".to_owned(),
    }
}

fn accepted(head: &RequestHead<'_, '_>) -> Accepted {
    Accepted {
        method: head.method.to_string(),
        target: target_text(head.target),
        authority: head.authority.map(str::to_owned),
        fields: head.fields.iter().map(|field| (field.name.to_owned(), field.value.to_vec())).collect(),
        framing: head.framing,
        content: Vec::new(),
    }
}

fn head_event(head: &RequestHead<'_, '_>) -> String {
    let mut event = format!("{} {}", head.method, target_text(head.target));
    if let Some(authority) = head.authority {
        event += &format!(" @{authority}");
    }
    match head.framing {
        Framing::None => {}
        Framing::Length(length) => event += &format!(" length {length}"),
        Framing::Chunked => event += " chunked",
        Framing::UntilClose => panic!("a request cannot last until the connection ends"),
    }
    if head.expects_continue { event + " expects" } else { event }
}

/// Appends content to the previous content, whatever the segmentation.
fn push_content(events: &mut Vec<String>, bytes: &[u8]) {
    let text = bytes.escape_ascii().to_string();
    match events.last_mut() {
        Some(last) if last.starts_with("content ") => *last += &text,
        _ => events.push(format!("content {text}")),
    }
}

/// An input that arrives in segments.
struct Arriving<'a> {
    input: &'a [u8],
    /// Consumed.
    start: usize,
    /// Arrived.
    end: usize,
    has_ended: bool,
    steps: usize,
}

impl<'a> Arriving<'a> {
    fn new(input: &'a [u8]) -> Self {
        Self { input, start: 0, end: 0, has_ended: false, steps: 0 }
    }

    /// The bytes that have arrived and are not consumed, and whether no more follow.
    fn lend(&mut self) -> (&'a [u8], bool) {
        let Self { input, start, .. } = *self;
        self.steps += 1;
        assert!(self.steps <= 4 * input.len() + 64, "no progress at {start} of {input:?}");
        (&input[start..self.end], self.has_ended)
    }

    fn take(&mut self, taken: usize) {
        self.start += taken;
        assert!(self.start <= self.end);
    }

    /// The next segment arrives, or the end.
    fn grow(&mut self, cuts: &mut dyn Cuts) {
        let Self { input, end, .. } = *self;
        assert!(!self.has_ended, "more was asked for after the end of {input:?}");
        self.has_ended = end == input.len();
        self.end += cuts.next(input.len() - end).min(input.len() - end);
    }
}

/// Runs a server with this mode on `input`, followed by the end of the connection.
pub fn serve(input: &[u8], cuts: &mut dyn Cuts, limits: &Limits, answer: Answer) -> Served {
    let mut connection = ServerConnection::new();
    let mut served = Served::default();
    let mut arriving = Arriving::new(input);
    loop {
        let (lent, ended) = arriving.lend();
        let mut storage = FieldStorage::new();
        match connection.receive(lent, ended, limits, &mut storage) {
            Ok(Progress::NeedMore { taken }) => {
                arriving.take(taken);
                arriving.grow(cuts);
            }
            Ok(Progress::Head { head, taken }) => {
                arriving.take(taken);
                served.events.push(head_event(&head));
                served.requests.push(accepted(&head));
                match answer {
                    Answer::AtHead => reply(&mut connection, &mut served.sent),
                    _ if !head.has_content() => reply(&mut connection, &mut served.sent),
                    Answer::AfterContinue => connection.send_continue(&mut served.sent),
                    Answer::AtEnd => {}
                }
            }
            Ok(Progress::Content { bytes, taken }) => {
                assert!(!bytes.is_empty());
                arriving.take(taken);
                push_content(&mut served.events, bytes);
                served.requests.last_mut().expect("content follows a head").content.extend_from_slice(bytes);
            }
            Ok(Progress::Trailer { field, taken }) => {
                arriving.take(taken);
                served.events.push(trailer(field));
            }
            Ok(Progress::End { taken }) => {
                arriving.take(taken);
                served.events.push("end".to_owned());
                if connection.has_response_due() {
                    reply(&mut connection, &mut served.sent);
                }
            }
            Ok(Progress::Blocked) => panic!("blocked, although every request is answered: {input:?}"),
            Ok(Progress::Over) => {
                served.events.push("over".to_owned());
                return served;
            }
            Err(refusal) => {
                assert_eq!(refusal.status, refusal.reason.status());
                // The two parsers of a head must agree.
                assert_ne!(refusal.reason, breme_http::RefusalReason::Malformed, "{}", input.escape_ascii());
                served.events.push(format!("refused {} {:?}", refusal.status, refusal.reason));
                connection.refuse(refusal, DATE, &mut served.sent);
                assert!(connection.will_close());
                let again = connection.receive(lent, ended, limits, &mut FieldStorage::new()).map(drop);
                assert_eq!(again, Ok(()), "a refused connection is over");
                return served;
            }
        }
    }
}

fn trailer(field: Field<'_>) -> String {
    format!("trailer {}: {}", field.name, field.value.escape_ascii())
}

fn reply(connection: &mut ServerConnection, out: &mut Vec<u8>) {
    if connection.respond(200, Framing::Length(2), DATE, out).end() == ResponseBody::Expected {
        out.extend_from_slice(b"ok");
        connection.content_sent();
    }
}

/// Checks that the result does not depend on the segmentation; for `AtEnd` the bytes sent do not depend on it either.
pub fn serve_every_way(input: &[u8], limits: &Limits, more_cuts: &[u8]) -> Served {
    let whole = serve(input, &mut Even(usize::MAX), limits, Answer::AtEnd);
    let bytewise = serve(input, &mut Even(1), limits, Answer::AtEnd);
    assert_eq!(whole, bytewise, "byte by byte: {}", input.escape_ascii());
    let cut = serve(input, &mut Given(more_cuts.iter().cycle()), limits, Answer::AtEnd);
    assert_eq!(whole, cut, "cut: {}", input.escape_ascii());
    for answer in [Answer::AtHead, Answer::AfterContinue] {
        serve(input, &mut Even(1), limits, answer);
        serve(input, &mut Even(usize::MAX), limits, answer);
    }
    whole
}

/// Serialises an accepted request and checks that it is parsed as the same, single request.
pub fn check_that_it_stays_one_message(request: &Accepted, limits: &Limits) {
    let mut fields = FieldBlock::new();
    for (name, value) in &request.fields {
        if !["host", "content-length", "transfer-encoding", "connection", "expect"]
            .contains(&name.to_ascii_lowercase().as_str())
        {
            fields.push(name, value).expect("what was received can be sent");
        }
    }
    let encoder = RequestEncoder {
        method: Method::from_token(request.method.as_bytes()).expect("an accepted method is a token"),
        target: &request.target,
        version: breme_http::Version::Http11,
        authority: request.authority.as_deref().unwrap_or("host.example"),
        fields: &fields,
        keep_alive: true,
    };
    let content_bytes = (request.framing != Framing::None).then_some(request.content.len() as u64);
    let mut message = Vec::new();
    encoder.encode(content_bytes, &mut message).expect("what was received can be sent");
    message.extend_from_slice(&request.content);
    let limits = Limits {
        head_bytes_max: limits.head_bytes_max.saturating_add(1024),
        target_bytes_max: limits.target_bytes_max.saturating_add(1), // an absolute target may gain its slash
        field_count_max: limits.field_count_max.saturating_add(3),
        ..limits.clone()
    };
    let served = serve(&message, &mut Even(usize::MAX), &limits, Answer::AtEnd);
    assert_eq!(served.events.last().map(String::as_str), Some("over"), "{}", message.escape_ascii());
    assert_eq!(served.requests.len(), 1, "{}", message.escape_ascii());
    let again = &served.requests[0];
    assert_eq!((&again.method, &again.target, &again.content), (&request.method, &request.target, &request.content));
}

/// Everything that a client read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// `interim 103`, `200 length 5 stays`, `content …`, `end`, `failed BadFraming`, `over`.
    pub events: Vec<String>,
}

/// Runs a client that sent requests with these methods on `input`, followed by the end of the connection.
pub fn fetch(methods: &[Method<'_>], input: &[u8], cuts: &mut dyn Cuts, limits: &Limits) -> Fetched {
    let mut connection = ClientConnection::new();
    for &method in methods {
        connection.sent(method);
    }
    let mut fetched = Fetched::default();
    let mut arriving = Arriving::new(input);
    loop {
        let (lent, ended) = arriving.lend();
        let mut storage = FieldStorage::new();
        match connection.receive(lent, ended, limits, &mut storage) {
            Ok(ClientProgress::NeedMore { taken }) => {
                arriving.take(taken);
                arriving.grow(cuts);
            }
            Ok(ClientProgress::Interim { status, taken, .. }) => {
                arriving.take(taken);
                fetched.events.push(format!("interim {status}"));
            }
            Ok(ClientProgress::Head { head, taken }) => {
                arriving.take(taken);
                let framing = match head.framing {
                    Framing::None => "none".to_owned(),
                    Framing::Length(length) => format!("length {length}"),
                    Framing::Chunked => "chunked".to_owned(),
                    Framing::UntilClose => "until close".to_owned(),
                };
                let stays = if head.keep_alive { "stays" } else { "closes" };
                fetched.events.push(format!("{} {framing} {stays}", head.status));
            }
            Ok(ClientProgress::Switched { .. }) => {
                fetched.events.push("switched".to_owned());
                return fetched;
            }
            Ok(ClientProgress::Content { bytes, taken }) => {
                assert!(!bytes.is_empty());
                arriving.take(taken);
                push_content(&mut fetched.events, bytes);
            }
            Ok(ClientProgress::Trailer { field, taken }) => {
                arriving.take(taken);
                fetched.events.push(trailer(field));
            }
            Ok(ClientProgress::End { taken, .. }) => {
                arriving.take(taken);
                fetched.events.push("end".to_owned());
            }
            Ok(ClientProgress::Over) => {
                fetched.events.push("over".to_owned());
                return fetched;
            }
            Err(error) => {
                fetched.events.push(format!("failed {error:?}"));
                return fetched;
            }
        }
    }
}

/// Checks that the result does not depend on the segmentation.
pub fn fetch_every_way(methods: &[Method<'_>], input: &[u8], limits: &Limits, more_cuts: &[u8]) -> Fetched {
    let whole = fetch(methods, input, &mut Even(usize::MAX), limits);
    assert_eq!(whole, fetch(methods, input, &mut Even(1), limits), "byte by byte: {}", input.escape_ascii());
    let cut = fetch(methods, input, &mut Given(more_cuts.iter().cycle()), limits);
    assert_eq!(whole, cut, "cut: {}", input.escape_ascii());
    whole
}

/// Small limits, so that short inputs reach them.
pub fn small_limits() -> Limits {
    Limits {
        head_bytes_max: 256,
        target_bytes_max: 64,
        field_count_max: 8,
        content_bytes_max: 64,
        chunk_line_bytes_max: 32,
        drain_bytes_max: 32,
        ..Limits::default()
    }
}

/// A fuzz target: requests.
pub fn fuzz_server(input: &[u8]) {
    for limits in [Limits::default(), small_limits(), Limits { http10_only: true, ..small_limits() }] {
        let served = serve_every_way(input, &limits, input);
        for request in served.requests.iter().filter(|request| request.content.len() as u64 <= limits.content_bytes_max)
        {
            if !served.events.last().is_some_and(|event| event.starts_with("refused")) {
                check_that_it_stays_one_message(request, &limits);
            }
        }
        let methods: Vec<Method<'_>> =
            served.requests.iter().filter_map(|request| Method::from_token(request.method.as_bytes())).collect();
        check_answers(&methods, &served, &limits);
    }
}

/// Checks that the client parses what the server sent: one response for each request, and perhaps a refusal.
fn check_answers(methods: &[Method<'_>], served: &Served, limits: &Limits) {
    if methods.contains(&Method::Connect) || limits.http10_only {
        return; // the tunnel that the test's server pretends to open is over at once
    }
    let refused = served.events.last().is_some_and(|event| event.starts_with("refused"));
    let mut methods = methods.to_vec();
    let answered = served.events.iter().filter(|event| *event == "end").count()
        + served
            .requests
            .iter()
            .filter(|request| matches!(request.framing, Framing::None | Framing::Length(0)))
            .count();
    if refused && answered == methods.len() {
        let is_head = served.sent.ends_with(b"\r\n\r\n");
        methods.push(if is_head { Method::Head } else { Method::Get });
    }
    let fetched = fetch(&methods, &served.sent, &mut Even(usize::MAX), &Limits::default());
    let ends = fetched.events.iter().filter(|event| *event == "end").count();
    assert_eq!(ends, methods.len(), "{fetched:?} of {}", served.sent.escape_ascii());
    assert_eq!(fetched.events.last().map(String::as_str), Some("over"), "{}", served.sent.escape_ascii());
}

/// A fuzz target: chunked content.
pub fn fuzz_chunked(input: &[u8]) {
    let mut request = b"POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    request.extend_from_slice(input);
    fuzz_server(&request);
    let mut response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    response.extend_from_slice(input);
    fuzz_client(&response);
}

/// A fuzz target: responses.
pub fn fuzz_client(input: &[u8]) {
    let methods = [Method::Get, Method::Head, Method::Post, Method::Get, Method::Connect];
    for limits in [Limits::default(), small_limits()] {
        for methods in [&methods[..1], &methods[1..2], &methods[4..], &methods] {
            fetch_every_way(methods, input, &limits, input);
        }
    }
}
