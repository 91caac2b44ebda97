//! Clients with all kinds of requests that a cache must support. They check each response.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use breme_base::{Instant, Random};
use breme_cache::{Cache, Purge, PurgeMode};
use breme_http::{Fields, Limits, Method};
use breme_http1::{ClientConnection, ClientProgress, FieldStorage};
use breme_node::{
    Accepted, Actions, Close, CloseReason, ConnectError, ConnectTicket, Connected, ConnectionId, Endpoint, Node,
    Received,
};

use super::origin::read_range;
use super::pages::{Edition, KINDS, PAGES, Truth};

/// The longest time between a response and the next request.
const THINKS_MAX_MS: u64 = 1_500;
/// Connections that are silent for longer are closed.
const PATIENCE: Duration = Duration::from_secs(600);
/// Ages are whole seconds, and so is the Date from which they are calculated.
const AGE_SLACK_S: u64 = 2;

pub struct Visitor {
    pub server: Endpoint,
    pub name: String,
    pub truth: Arc<Mutex<Truth>>,
    pub random: Random,
    /// The pages that it requests.
    pub pages: Vec<usize>,
    /// Remaining requests.
    pub left: u64,
    /// The client also purges, as an operator does.
    pub cache: Arc<Cache>,
    /// The network or the origin may fail: then some requests have no response.
    pub may_fail: bool,
    pub answered: u64,
    pub hits: u64,
    pub failed: u64,
    pub faults: Vec<String>,
    pub line: Option<Line>,
    pub wakes_at: Instant,
    /// Tags that it has seen.
    pub tags: Vec<String>,
}

pub struct Line {
    id: ConnectionId,
    http: ClientConnection,
    exchange: Option<Exchange>,
}

#[derive(Clone, Debug)]
struct Exchange {
    method: &'static str,
    page: usize,
    kind: &'static str,
    range: Option<(usize, usize)>,
    condition: Option<String>,
    directive: Option<&'static str>,
    requested: Instant,
    /// It leaves after this many bytes of content.
    leaves_after: Option<usize>,
    answer: Answer,
}

#[derive(Clone, Debug, Default)]
struct Answer {
    status: u16,
    tag: Option<String>,
    range: Option<String>,
    age_s: Option<u64>,
    version: Option<usize>,
    said: String,
    content: Vec<u8>,
}

impl Answer {
    /// Without the content, which is long.
    fn short(&self) -> Self {
        Self { content: Vec::new(), ..self.clone() }
    }
}

impl Visitor {
    pub fn new(server: Endpoint, name: String, truth: Arc<Mutex<Truth>>, cache: Arc<Cache>, random: Random) -> Self {
        Self {
            server,
            name,
            truth,
            cache,
            random,
            pages: Vec::new(),
            left: 0,
            may_fail: false,
            answered: 0,
            hits: 0,
            failed: 0,
            faults: Vec::new(),
            line: None,
            wakes_at: Instant::ZERO,
            tags: Vec::new(),
        }
    }

    fn exchange(&mut self, now: Instant) -> Exchange {
        let random = &mut self.random;
        let page = self.pages[random.below(self.pages.len() as u64) as usize];
        let kind = if PAGES[page].has_kinds { KINDS[random.below(KINDS.len() as u64) as usize] } else { "" };
        let method = match random.below(40) {
            0..=2 => "POST",
            3..=4 => "PURGE",
            5..=7 => "HEAD",
            _ => "GET",
        };
        let mut exchange = Exchange {
            method,
            page,
            kind,
            range: None,
            condition: None,
            directive: None,
            requested: now,
            leaves_after: random.chance(0.06).then(|| random.below(9_000) as usize),
            answer: Answer::default(),
        };
        if method == "GET" {
            match random.below(20) {
                0..=1 => {
                    let first = random.below(30) as usize;
                    exchange.range = Some((first, first + random.below(20) as usize));
                }
                2..=3 => {
                    let start = format!("\"{page}.{kind}.");
                    exchange.condition = self.tags.iter().rev().find(|tag| tag.starts_with(&start)).cloned();
                }
                4 => exchange.directive = Some("no-cache"),
                5 => exchange.directive = Some("max-age=0"),
                6 => exchange.directive = Some("only-if-cached"),
                7 => exchange.directive = Some("no-store"),
                _ => {}
            }
        }
        exchange
    }

    /// Purges a page by its URL, by its key, by a prefix, or with all others.
    fn purge(&mut self, now: Instant) {
        let page = self.pages[self.random.below(self.pages.len() as u64) as usize];
        let (purge, pages) = match self.random.below(4) {
            0 => (Purge::Url(format!("http://a/p{page}")), page..page + 1),
            1 => (Purge::Key(format!("k{page}")), page..page + 1),
            2 => (Purge::Prefix("http://a/p".to_owned()), 0..PAGES.len()),
            _ => (Purge::All, 0..PAGES.len()),
        };
        // After a soft purge it may still be used while a fresh one is fetched.
        let is_soft = self.random.chance(0.4);
        self.cache.purge(&purge, if is_soft { PurgeMode::Soft } else { PurgeMode::Hard }, now).unwrap();
        let mut truth = self.truth.lock().unwrap();
        for page in pages.filter(|&page| !is_soft || !PAGES[page].says.contains("stale-while-revalidate")) {
            truth.forbid_older_than(page, now, now);
        }
    }

    fn send_request(&mut self, now: Instant, actions: &mut Actions) {
        if self.random.chance(0.04) {
            self.purge(now);
        }
        let exchange = self.exchange(now);
        let Some(line) = &mut self.line else { return };
        let Exchange { method, page, kind, range, condition, directive, .. } = &exchange;
        let mut request = format!("{method} /p{page} HTTP/1.1\r\nHost: a\r\nX-Asker: {}\r\n", self.name);
        let mut say = |name: &str, value: &str| request += &format!("{name}: {value}\r\n");
        if !kind.is_empty() {
            say("X-Kind", kind);
        }
        if let Some((first, last)) = range {
            say("Range", &format!("bytes={first}-{last}"));
        }
        if let Some(tag) = condition {
            say("If-None-Match", tag);
        }
        if let Some(directive) = directive {
            say("Cache-Control", directive);
        }
        if *method == "POST" {
            say("Content-Length", "3");
        }
        request += "\r\n";
        request += if *method == "POST" { "new" } else { "" };
        actions.send(line.id).extend_from_slice(request.as_bytes());
        line.http.sent(if *method == "HEAD" { Method::Head } else { Method::Get });
        line.exchange = Some(exchange);
        self.left -= 1;
        self.wakes_at = now + PATIENCE;
    }

    /// The next request is sent a little later, on this connection or on another.
    fn think(&mut self, now: Instant) {
        self.wakes_at = now + Duration::from_millis(self.random.below(THINKS_MAX_MS));
    }

    fn handle_answer(&mut self, now: Instant) {
        let Some(exchange) = self.line.as_mut().and_then(|line| line.exchange.take()) else { return };
        if let Some(tag) = &exchange.answer.tag {
            self.tags.push(tag.clone());
        }
        match self.judge(&exchange, now) {
            Ok(true) => self.answered += 1,
            Ok(false) => self.failed += 1,
            Err(fault) => {
                let exchange = Exchange { answer: exchange.answer.short(), ..exchange };
                self.faults.push(format!("{} at {now:?}: {fault}\n  {exchange:?}", self.name));
            }
        }
    }

    /// Whether the response is a page; an error if it is a wrong one.
    fn judge(&mut self, exchange: &Exchange, now: Instant) -> Result<bool, String> {
        let Exchange { method, page, requested, answer, .. } = exchange;
        match (*method, answer.status) {
            ("POST", 200) => {
                let version = answer.version.ok_or("no version")?;
                self.truth.lock().unwrap().forbid_older(*page, version, now);
                Ok(true)
            }
            ("PURGE", 200) => {
                self.truth.lock().unwrap().forbid_older_than(*page, *requested, now);
                Ok(true)
            }
            ("GET", 504) if exchange.directive == Some("only-if-cached") => Ok(true),
            (_, 502 | 504) if self.may_fail => Ok(false),
            ("GET" | "HEAD", 200 | 206 | 304) => self.judge_content(exchange, now).map(|()| true),
            (_, status) => Err(format!("status {status}")),
        }
    }

    fn judge_content(&mut self, exchange: &Exchange, now: Instant) -> Result<(), String> {
        let Exchange { method, page, kind, range, condition, directive, requested, answer, .. } = exchange;
        let rules = &PAGES[*page];
        let is_hit = answer.said.contains("hit");
        self.hits += u64::from(is_hit);
        let edition = match &answer.tag {
            Some(tag) => Edition::of_tag(tag).ok_or_else(|| format!("tag {tag}"))?,
            None if rules.is_shared => return Err("no tag".into()),
            None => self.own(exchange)?,
        };
        if (edition.page, edition.kind.as_str()) != (*page, *kind) {
            return Err(format!("another page: {edition:?}"));
        }
        let content = edition.content();
        let is_right = match (answer.status, *method) {
            (304, _) => condition.is_some() && answer.tag == *condition && answer.content.is_empty(),
            (_, "HEAD") => answer.content.is_empty(),
            (206, _) => {
                let said = answer.range.as_deref().and_then(|said| said.strip_prefix("bytes "));
                let (place, total) = said.and_then(|said| said.split_once('/')).ok_or("no Content-Range")?;
                let (first, last) = read_range(&format!("bytes={place}")).ok_or("a bad Content-Range")?;
                *range == Some((first, last))
                    && total == content.len().to_string()
                    && content.get(first..=last) == Some(&answer.content[..])
            }
            _ => answer.content == content,
        };
        if !is_right {
            return Err("the content is not that of its tag".into());
        }
        let grace = if matches!(directive, Some("no-cache" | "max-age=0")) { Duration::ZERO } else { rules.grace };
        let truth = self.truth.lock().unwrap();
        if let Some(fault) = truth.fault(*page, edition.version, *requested, grace) {
            return Err(fault);
        }
        match answer.age_s {
            Some(_) if !rules.is_shared => Err("it was stored".into()),
            None if is_hit => Err("a hit without an age".into()),
            Some(age_s) => truth.age_fault(*page, edition.version, age_s, AGE_SLACK_S, now).map_or(Ok(()), Err),
            None => Ok(()),
        }
    }

    /// The edition that only this client may have.
    fn own(&self, exchange: &Exchange) -> Result<Edition, String> {
        let Exchange { page, method, answer, .. } = exchange;
        let version = self.truth.lock().unwrap().version(*page);
        let own = |version| Edition { page: *page, kind: String::new(), version, client: self.name.clone() };
        let is_it = |edition: &Edition| *method == "HEAD" || edition.content() == answer.content;
        let found = (0..=version).rev().map(own).find(is_it);
        found.ok_or_else(|| format!("somebody else's: {}", String::from_utf8_lossy(&answer.content[..40])))
    }

    fn lose(&mut self, now: Instant) {
        if self.line.take().is_some_and(|line| line.exchange.is_some()) {
            self.failed += 1;
        }
        self.think(now);
    }

    fn leave(&mut self, now: Instant, id: ConnectionId, how: Close, actions: &mut Actions) {
        actions.close(id, how);
        self.lose(now);
    }
}

fn word(fields: Fields<'_, '_>, name: &str) -> Option<String> {
    fields.first(name).map(|value| String::from_utf8_lossy(value).into_owned())
}

impl Node for Visitor {
    fn handle_started(&mut self, now: Instant, _actions: &mut Actions) {
        self.think(now);
    }

    fn handle_accepted(&mut self, _now: Instant, _id: ConnectionId, _accepted: Accepted, _actions: &mut Actions) {}

    fn handle_connected(
        &mut self,
        now: Instant,
        _ticket: ConnectTicket,
        outcome: Result<Connected, ConnectError>,
        actions: &mut Actions,
    ) {
        match outcome {
            Ok(connected) => {
                let http = ClientConnection::new();
                self.line = Some(Line { id: connected.connection, http, exchange: None });
                self.send_request(now, actions);
            }
            Err(_) => {
                self.left -= 1; // so that this ends
                self.failed += 1;
                self.think(now);
            }
        }
    }

    fn handle_received(
        &mut self,
        now: Instant,
        id: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> usize {
        let (limits, mut taken) = (Limits::default(), 0);
        while let Some(line) = self.line.as_mut().filter(|line| line.id == id) {
            let mut storage = FieldStorage::new();
            match line.http.receive(&received.bytes[taken..], received.ended, &limits, &mut storage) {
                Ok(ClientProgress::Head { head, taken: count }) => {
                    taken += count;
                    let answer = &mut line.exchange.as_mut().unwrap().answer;
                    answer.status = head.status;
                    answer.tag = word(head.fields, "etag");
                    answer.range = word(head.fields, "content-range");
                    answer.age_s = word(head.fields, "age").and_then(|age| age.parse().ok());
                    answer.version = word(head.fields, "x-version").and_then(|version| version.parse().ok());
                    answer.said = word(head.fields, "cache-status").unwrap_or_default();
                }
                Ok(ClientProgress::Content { bytes, taken: count }) => {
                    taken += count;
                    let exchange = line.exchange.as_mut().unwrap();
                    exchange.answer.content.extend_from_slice(bytes);
                    if exchange.leaves_after.is_some_and(|bytes| exchange.answer.content.len() > bytes) {
                        self.leave(now, id, Close::Abort, actions);
                    }
                }
                Ok(ClientProgress::End { taken: count, keep_alive }) => {
                    taken += count;
                    self.handle_answer(now);
                    self.think(now);
                    if !keep_alive || self.random.chance(0.2) {
                        self.leave(now, id, Close::Graceful, actions);
                    }
                }
                Ok(ClientProgress::NeedMore { taken: count }) => return taken + count,
                Ok(
                    ClientProgress::Interim { .. } | ClientProgress::Switched { .. } | ClientProgress::Trailer { .. },
                ) => panic!("nobody asked for it"),
                Ok(ClientProgress::Over) | Err(_) => self.leave(now, id, Close::Abort, actions),
            }
        }
        received.bytes.len()
    }

    fn handle_closed(&mut self, now: Instant, id: ConnectionId, _reason: CloseReason, _actions: &mut Actions) {
        if self.line.as_ref().is_some_and(|line| line.id == id) {
            self.lose(now);
        }
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        if now < self.wakes_at {
            return;
        }
        self.wakes_at = now + PATIENCE;
        let id = self.line.as_ref().map(|line| line.id);
        let waits = self.line.as_ref().is_some_and(|line| line.exchange.is_some());
        match id {
            _ if self.left == 0 && !waits => actions.exit(),
            // A silent connection is not reported.
            Some(id) if waits => self.leave(now, id, Close::Abort, actions),
            Some(_) => self.send_request(now, actions),
            None => actions.connect(ConnectTicket(0), self.server),
        }
    }

    fn handle_stopping(&mut self, _now: Instant, actions: &mut Actions) {
        actions.exit();
    }

    fn next_deadline(&self) -> Option<Instant> {
        Some(self.wakes_at)
    }
}
