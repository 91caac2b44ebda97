//! A cache, a clock, and requests and answers as text.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use breme_base::{Instant, UnixSeconds};
use breme_cache::{
    Answer, Asked, Cache, Content, Fault, Follower, Forward, Moment, Request, ResponseHead, Scheme, Settings, Verdict,
    Waiter, Wakes,
};
use breme_http1::{
    ClientConnection, ClientProgress, FieldBlock, FieldStorage, Framing, Limits, Method, Progress, ServerConnection,
    Target,
};

const START: u64 = 1_600_000_000;

pub(crate) struct World {
    pub(crate) cache: Arc<Cache>,
    pub(crate) moment: Moment,
    pub(crate) wakes: Wakes,
    /// What upstream is not told of requests.
    pub(crate) is_unheard: fn(&str) -> bool,
    next_message: u64,
}

/// What a client got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) lines: String,
    pub(crate) content: String,
    pub(crate) age: Option<u64>,
    pub(crate) said: String,
}

impl Got {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let lines = self.lines.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Settings { lifetime_spread_percent: 0, ..Settings::new(4 << 20) })
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let cache = Cache::new(settings).unwrap();
        let moment = Moment { now: Instant::ZERO, wall: UnixSeconds(START) };
        Self { cache, moment, wakes: Wakes::new(), is_unheard: |_| false, next_message: 0 }
    }

    pub(crate) fn wait(&mut self, seconds: u64) {
        self.moment.now = self.moment.now + Duration::from_secs(seconds);
        self.moment.wall.0 += seconds;
    }

    /// The date so many seconds from now.
    pub(crate) fn date(&self, offset: i64) -> String {
        httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(self.moment.wall.0.saturating_add_signed(offset)))
    }

    /// Asks for `METHOD target` with these lines; the host is `a.example` unless a line says otherwise.
    pub(crate) fn ask(&mut self, request: &str, lines: &str) -> Asked {
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
            is_unheard: self.is_unheard,
            has_content: head.has_content(),
        };
        self.cache.ask(&request, self.moment, waiter)
    }

    /// Asks for something that is in the store.
    pub(crate) fn hit(&mut self, request: &str, lines: &str) -> Got {
        match self.ask(request, lines) {
            Asked::Answer(answer) | Asked::Refresh(answer, _) => got(&answer),
            other => panic!("{request} {lines:?} is answered by {other:?}"),
        }
    }

    /// Asks for something that is not.
    pub(crate) fn miss(&mut self, request: &str, lines: &str) -> Forward {
        match self.ask(request, lines) {
            Asked::Forward(forward) => forward,
            other => panic!("{request} {lines:?} is answered by {other:?}"),
        }
    }

    pub(crate) fn follow(&mut self, request: &str, lines: &str) -> Follower {
        match self.ask(request, lines) {
            Asked::Wait(follower) => follower,
            other => panic!("{request} {lines:?} is answered by {other:?}"),
        }
    }

    pub(crate) fn is_hit(&mut self, request: &str, lines: &str) -> bool {
        match self.ask(request, lines) {
            Asked::Answer(_) | Asked::Refresh(..) => true,
            Asked::Forward(forward) => {
                self.fail(forward);
                false
            }
            Asked::Wait(_) => false,
        }
    }

    /// The head of upstream's answer; none: it is relayed.
    pub(crate) fn head(&mut self, forward: &mut Forward, status: u16, lines: &str, length: Option<u64>) -> Option<Got> {
        let lines: String = lines.lines().map(|line| format!("{line}\r\n")).collect();
        let text = format!("HTTP/1.1 {status} X\r\n{lines}\r\n");
        let (mut connection, mut storage) = (ClientConnection::new(), FieldStorage::new());
        connection.sent(Method::Get);
        let progress = connection.receive(text.as_bytes(), false, &Limits::default(), &mut storage);
        let Ok(ClientProgress::Head { head, .. }) = progress else { panic!("{text:?}: {progress:?}") };
        let added = FieldBlock::new();
        let head = ResponseHead { status, fields: head.fields, length, added: &added };
        match forward.handle_head(self.moment, &head, &mut self.wakes) {
            Verdict::Relay => None,
            Verdict::Instead(answer) => Some(got(&answer)),
        }
    }

    /// A whole answer from upstream; what the client gets.
    pub(crate) fn answer(&mut self, mut forward: Forward, status: u16, lines: &str, content: &str) -> Got {
        let instead = self.head(&mut forward, status, lines, Some(content.len() as u64));
        let relayed = |report: breme_cache::CacheStatus| {
            let lines = lines.lines().map(|line| format!("{line}\r\n")).collect();
            Got { status, lines, content: content.to_owned(), age: None, said: said(report) }
        };
        let found = instead.unwrap_or_else(|| relayed(forward.report()));
        forward.handle_content(content.as_bytes(), &mut self.wakes);
        forward.handle_end(&mut self.wakes);
        found
    }

    /// Asks for something, answers it, and tells what came of it.
    pub(crate) fn fetch(&mut self, request: &str, lines: &str, status: u16, answer_lines: &str, content: &str) -> Got {
        let forward = self.miss(request, lines);
        self.answer(forward, status, answer_lines, content)
    }

    pub(crate) fn fail(&mut self, forward: Forward) -> Option<Got> {
        self.fail_by(forward, Fault::Own)
    }

    pub(crate) fn fail_by(&mut self, forward: Forward, fault: Fault) -> Option<Got> {
        forward.handle_failure(self.moment, fault, &mut self.wakes).map(|answer| got(&answer))
    }

    pub(crate) fn woken(&mut self) -> usize {
        self.wakes.drain().count()
    }
}

pub(crate) fn said(report: breme_cache::CacheStatus) -> String {
    let mut out = Vec::new();
    report.write("c", &mut out);
    String::from_utf8(out).unwrap()
}

pub(crate) fn got(answer: &Answer) -> Got {
    let content = match answer.content() {
        Content::None => Vec::new(),
        Content::One(bytes) => bytes.to_vec(),
        Content::Several(pieces) => pieces.concat(),
    };
    if let (Framing::Length(length), false) = (answer.framing(), matches!(answer.content(), Content::None)) {
        assert_eq!(length, content.len() as u64);
    }
    Got {
        status: answer.status(),
        lines: String::from_utf8(answer.lines().as_bytes().to_vec()).unwrap(),
        content: String::from_utf8(content).unwrap(),
        age: answer.age_s(),
        said: said(answer.report()),
    }
}
