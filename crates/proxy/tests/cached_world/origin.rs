//! The origin of the pages: it responds after delays, in every framing, and sometimes truncates a response.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use breme_base::{Instant, Random};
use breme_http::{Framing, Limits, Method, RequestHead, Target, http_date};
use breme_http1::{FieldStorage, Progress, ResponseBody, ServerConnection};
use breme_node::{Accepted, Actions, Close, CloseReason, ConnectionId, Node, Received};

use super::THEN;
use super::pages::{Edition, PAGES, Truth};

/// The longest time from a request to its response.
const DELAY_MAX_MS: u64 = 1_500;
/// Probability that a page has changed since its last request.
const CHANGES: f64 = 0.15;

pub struct Origin {
    pub truth: Arc<Mutex<Truth>>,
    pub random: Random,
    /// Probability that a response is truncated.
    pub breaks: f64,
    /// It supports ranges.
    pub has_ranges: bool,
    pub lines: HashMap<ConnectionId, Line>,
}

#[derive(Default)]
pub struct Line {
    http: ServerConnection,
    answer: Option<Answer>,
}

/// The response, determined when the request was received.
struct Answer {
    due: Instant,
    status: u16,
    /// Lines of the head, each with its line ending.
    lines: Vec<(&'static str, String)>,
    content: Vec<u8>,
}

impl Origin {
    fn decide(&mut self, head: &RequestHead<'_, '_>, now: Instant) -> Answer {
        let Target::Origin { path, .. } = head.target else { panic!("{:?}", head.target) };
        let page: usize = path.trim_start_matches("/p").parse().unwrap();
        let field = |name| head.fields.first(name).map(|value| String::from_utf8_lossy(value).into_owned());
        let mut truth = self.truth.lock().unwrap();
        let date = http_date(THEN + now.since(Instant::ZERO).as_secs());
        let mut lines = vec![("Date", String::from_utf8_lossy(&date).into_owned())];
        let due = now + Duration::from_millis(self.random.below(DELAY_MAX_MS));
        if head.method == Method::Post {
            let version = truth.change(page, now);
            lines.push(("X-Version", version.to_string()));
            return Answer { due, status: 200, lines, content: b"changed\n".to_vec() };
        }
        if self.random.chance(CHANGES) {
            truth.change(page, now);
        }
        let rules = &PAGES[page];
        let kind = if rules.has_kinds { field("x-kind").unwrap_or_default() } else { String::new() };
        let client = if rules.is_shared { String::new() } else { field("x-asker").unwrap() };
        let edition = Edition { page, kind, version: truth.version(page), client };
        for line in rules.says.split_terminator("\r\n") {
            let (name, value) = line.split_once(": ").unwrap();
            lines.push((name, value.to_owned()));
        }
        lines.push(("Surrogate-Key", format!("k{page} all")));
        let tag = edition.tag();
        if let Some(tag) = &tag {
            lines.push(("ETag", tag.clone()));
        }
        if tag.is_some() && field("if-none-match").is_some_and(|known| known.contains(tag.as_deref().unwrap())) {
            return Answer { due, status: 304, lines, content: Vec::new() };
        }
        let content = edition.content();
        match field("range").filter(|_| self.has_ranges && tag.is_some()).and_then(|range| read_range(&range)) {
            Some((first, last)) if head.method == Method::Get => {
                lines.push(("Content-Range", format!("bytes {first}-{last}/{}", content.len())));
                Answer { due, status: 206, lines, content: content[first..=last].to_vec() }
            }
            _ => Answer { due, status: 200, lines, content },
        }
    }

    #[expect(clippy::disallowed_methods, reason = "it is an origin, not the proxy")]
    fn answer(&mut self, id: ConnectionId, actions: &mut Actions) {
        let Some(line) = self.lines.get_mut(&id) else { return };
        let Some(Answer { status, lines, content, .. }) = line.answer.take() else { return };
        let length = content.len();
        let breaks = self.random.chance(self.breaks);
        if breaks && self.random.chance(0.3) {
            return actions.close(id, Close::Abort);
        }
        let framing = match self.random.below(3) {
            0 => Framing::Length(length as u64),
            1 => Framing::Chunked,
            _ => Framing::UntilClose,
        };
        let until = if breaks && length > 0 { self.random.below(length as u64) as usize } else { length };
        let date: [u8; 29] = lines[0].1.as_bytes().try_into().unwrap();
        let out = actions.send(id);
        let mut writer = line.http.respond(status, framing, &date, out);
        for (name, value) in &lines[1..] {
            writer.field(name, value.as_bytes()).unwrap();
        }
        if writer.end() == ResponseBody::Omitted {
            return;
        }
        match framing {
            Framing::Length(_) => out.extend_from_slice(&content[..until]),
            _ => content[..until].chunks(1_000).for_each(|chunk| line.http.chunk(chunk, out)),
        }
        if until < length {
            return actions.close(id, Close::Abort);
        }
        match framing {
            Framing::Length(_) => line.http.content_sent(),
            _ => line.http.end_chunks(out),
        }
        if line.http.will_close() {
            actions.close(id, Close::Graceful);
        }
    }

    /// Reads requests until one gets a response.
    fn read(&mut self, id: ConnectionId, now: Instant, received: Received<'_>, actions: &mut Actions) -> usize {
        let (limits, mut taken) = (Limits::default(), 0);
        loop {
            let Some(mut line) = self.lines.remove(&id) else { return received.bytes.len() };
            let mut storage = FieldStorage::new();
            let progress = line.http.receive(&received.bytes[taken..], received.ended, &limits, &mut storage);
            let (count, goes_on) = match progress.unwrap() {
                Progress::Head { head, taken } => {
                    line.answer = Some(self.decide(&head, now));
                    (taken, true)
                }
                Progress::Content { taken, .. } | Progress::End { taken } | Progress::Trailer { taken, .. } => {
                    (taken, true)
                }
                Progress::NeedMore { taken } => (taken, false),
                Progress::Blocked => (0, false),
                Progress::Over => {
                    actions.close(id, Close::Graceful);
                    return received.bytes.len();
                }
            };
            taken += count;
            self.lines.insert(id, line);
            if !goes_on {
                return taken;
            }
        }
    }
}

/// `bytes=A-B`.
pub fn read_range(range: &str) -> Option<(usize, usize)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

impl Node for Origin {
    fn handle_accepted(&mut self, _now: Instant, id: ConnectionId, _accepted: Accepted, _actions: &mut Actions) {
        self.lines.insert(id, Line::default());
    }

    fn handle_received(
        &mut self,
        now: Instant,
        id: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> usize {
        self.read(id, now, received, actions)
    }

    fn handle_closed(&mut self, _now: Instant, id: ConnectionId, _reason: CloseReason, _actions: &mut Actions) {
        self.lines.remove(&id);
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        let is_due = |line: &Line| line.answer.as_ref().is_some_and(|answer| answer.due <= now);
        let mut due: Vec<_> = self.lines.iter().filter(|(_, line)| is_due(line)).map(|(&id, _)| id).collect();
        due.sort_by_key(|id| id.key()); // a map's order is not the seed's
        for id in due {
            self.answer(id, actions);
        }
    }

    fn handle_stopping(&mut self, _now: Instant, actions: &mut Actions) {
        let mut ids: Vec<_> = self.lines.drain().map(|(id, _)| id).collect();
        ids.sort_by_key(|id| id.key());
        ids.into_iter().for_each(|id| actions.close(id, Close::Abort));
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.lines.values().filter_map(|line| line.answer.as_ref()).map(|answer| answer.due).min()
    }
}
