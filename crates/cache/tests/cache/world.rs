//! A cache with a clock, and requests and responses as text.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use breme_base::{Instant, UnixSeconds};
use breme_cache::{
    Cache, CacheDecision, CacheSettings, CachedResponse, FetchError, Follower, Forward, HeadAction, Now, Request,
    ResponseBody, ResponseHead, Scheme, Waiter, Wakes,
};
use breme_http::{FieldBlock, Framing, Limits, Method, Target};
use breme_http1::{ClientConnection, ClientProgress, FieldStorage, Progress, ServerConnection};

const START: u64 = 1_600_000_000;

pub(crate) struct World {
    pub(crate) cache: Arc<Cache>,
    pub(crate) now: Now,
    pub(crate) wakes: Wakes,
    /// Headers removed before forwarding.
    pub(crate) is_stripped: fn(&str) -> bool,
    next_message: u64,
}

/// What a client received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) status: u16,
    pub(crate) lines: String,
    pub(crate) body: String,
    pub(crate) age: Option<u64>,
    pub(crate) status_text: String,
}

impl Received {
    pub(crate) fn new(response: &CachedResponse) -> Self {
        let body = match response.body() {
            ResponseBody::None => Vec::new(),
            ResponseBody::One(bytes) => bytes.to_vec(),
            ResponseBody::Several(pieces) => pieces.concat(),
        };
        if let (Framing::Length(length), false) = (response.framing(), matches!(response.body(), ResponseBody::None)) {
            assert_eq!(length, body.len() as u64);
        }
        Self {
            status: response.status(),
            lines: String::from_utf8(response.lines().as_bytes().to_vec()).unwrap(),
            body: String::from_utf8(body).unwrap(),
            age: Some(response.age_s()),
            status_text: status_text(response.cache_status()),
        }
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let lines = self.lines.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(CacheSettings { lifetime_spread_percent: 0, ..CacheSettings::new(4 << 20) })
    }

    pub(crate) fn with(settings: CacheSettings) -> Self {
        let cache = Cache::new(settings).unwrap();
        let now = Now { instant: Instant::ZERO, wall: UnixSeconds(START) };
        Self { cache, now, wakes: Wakes::new(), is_stripped: |_| false, next_message: 0 }
    }

    pub(crate) fn wait(&mut self, seconds: u64) {
        self.now.instant = self.now.instant + Duration::from_secs(seconds);
        self.now.wall.0 += seconds;
    }

    /// The date `offset` seconds from now.
    pub(crate) fn date(&self, offset: i64) -> String {
        httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(self.now.wall.0.saturating_add_signed(offset)))
    }

    /// Looks up `METHOD target` with these header lines; the host is `a.example` unless specified.
    pub(crate) fn look_up(&mut self, request: &str, lines: &str) -> CacheDecision {
        let host = if lines.starts_with("Host:") { "" } else { "Host: a.example\r\n" };
        let lines: String = lines.lines().map(|line| format!("{line}\r\n")).collect();
        let text = format!("{request} HTTP/1.1\r\n{host}{lines}\r\n");
        let (mut connection, mut storage) = (ServerConnection::new(), FieldStorage::new());
        let progress = connection.receive(text.as_bytes(), false, &Limits::default(), &mut storage);
        let Ok(Progress::Head { head, .. }) = progress else { panic!("{text:?}: {progress:?}") };
        let Target::Origin { path, query } = head.target else { panic!("{:?}", head.target) };
        self.next_message += 1;
        let waiter = Waiter { shard: 0, message: self.next_message };
        let request = Request {
            method: head.method,
            scheme: Scheme::Http,
            authority: head.authority.unwrap(),
            path,
            query,
            fields: head.fields,
            is_stripped: self.is_stripped,
            has_body: head.has_content(),
        };
        self.cache.look_up(&request, self.now, waiter)
    }

    /// A lookup that must hit.
    pub(crate) fn hit(&mut self, request: &str, lines: &str) -> Received {
        match self.look_up(request, lines) {
            CacheDecision::Respond(response) | CacheDecision::RespondAndRefresh(response, _) => {
                Received::new(&response)
            }
            other => panic!("{request} {lines:?} is answered by {other:?}"),
        }
    }

    /// A lookup that must be forwarded.
    pub(crate) fn miss(&mut self, request: &str, lines: &str) -> Forward {
        match self.look_up(request, lines) {
            CacheDecision::Forward(forward) => forward,
            other => panic!("{request} {lines:?} is answered by {other:?}"),
        }
    }

    pub(crate) fn follow(&mut self, request: &str, lines: &str) -> Follower {
        match self.look_up(request, lines) {
            CacheDecision::Wait(follower) => follower,
            other => panic!("{request} {lines:?} is answered by {other:?}"),
        }
    }

    pub(crate) fn is_hit(&mut self, request: &str, lines: &str) -> bool {
        match self.look_up(request, lines) {
            CacheDecision::Respond(_) | CacheDecision::RespondAndRefresh(..) => true,
            CacheDecision::Forward(forward) => {
                self.fail(forward);
                false
            }
            CacheDecision::Wait(_) | CacheDecision::NotCached => false,
        }
    }

    /// Receives upstream's head; none: relayed.
    pub(crate) fn head(
        &mut self,
        forward: &mut Forward,
        status: u16,
        lines: &str,
        length: Option<u64>,
    ) -> Option<Received> {
        match self.handle_head(forward, status, lines, length) {
            HeadAction::Relay => None,
            HeadAction::Replace(response) => Some(Received::new(&response)),
            HeadAction::SendAgain => panic!("{status} {lines:?}: the request is to be sent again"),
        }
    }

    pub(crate) fn handle_head(
        &mut self,
        forward: &mut Forward,
        status: u16,
        lines: &str,
        length: Option<u64>,
    ) -> HeadAction {
        let lines: String = lines.lines().map(|line| format!("{line}\r\n")).collect();
        let text = format!("HTTP/1.1 {status} X\r\n{lines}\r\n");
        let (mut connection, mut storage) = (ClientConnection::new(), FieldStorage::new());
        connection.sent(Method::Get);
        let progress = connection.receive(text.as_bytes(), false, &Limits::default(), &mut storage);
        let Ok(ClientProgress::Head { head, .. }) = progress else { panic!("{text:?}: {progress:?}") };
        let added = FieldBlock::new();
        let head = ResponseHead { status, fields: head.fields, length, added: &added };
        forward.handle_head(self.now, &head, &mut self.wakes)
    }

    /// Receives a complete upstream response; returns what the client gets.
    pub(crate) fn respond(&mut self, mut forward: Forward, status: u16, lines: &str, body: &str) -> Received {
        let replacement = self.head(&mut forward, status, lines, Some(body.len() as u64));
        let relayed = |cache_status: breme_cache::CacheStatus| {
            let lines = lines.lines().map(|line| format!("{line}\r\n")).collect();
            Received { status, lines, body: body.to_owned(), age: None, status_text: status_text(cache_status) }
        };
        let found = replacement.unwrap_or_else(|| relayed(forward.cache_status()));
        forward.handle_body(body.as_bytes(), &mut self.wakes);
        forward.handle_end(&mut self.wakes);
        found
    }

    /// Looks up, responds, and returns what the client gets.
    pub(crate) fn fetch(
        &mut self,
        request: &str,
        lines: &str,
        status: u16,
        answer_lines: &str,
        body: &str,
    ) -> Received {
        let forward = self.miss(request, lines);
        self.respond(forward, status, answer_lines, body)
    }

    pub(crate) fn fail(&mut self, forward: Forward) -> Option<Received> {
        self.fail_with(forward, FetchError::Request)
    }

    pub(crate) fn fail_with(&mut self, forward: Forward, fault: FetchError) -> Option<Received> {
        forward.handle_failure(self.now, fault, &mut self.wakes).map(|response| Received::new(&response))
    }

    pub(crate) fn take_wakes(&mut self) -> usize {
        self.wakes.drain().count()
    }
}

pub(crate) fn status_text(cache_status: breme_cache::CacheStatus) -> String {
    let mut out = Vec::new();
    cache_status.write("c", &mut out);
    String::from_utf8(out).unwrap()
}
