//! The node that answers at `--admin`: three pages, few connections, and no client that can keep others out.
//!
//! There are [`CONNECTIONS_KEPT`] places. Who comes when all are taken gets that of the one who has been silent for the longest: a scraper
//! sends its request at once, and so is served however many sit there and say nothing.

use std::time::{Duration, UNIX_EPOCH};

use breme_base::{Instant, Timers, WallClock};
use breme_http1::{Content, FieldStorage, Framing, Limits, Method, Progress, RequestHead, ServerConnection, Target};
use breme_node::{Accepted, Actions, Close, CloseReason, ConnectionId, Node, Received};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use super::Readiness;

/// Connections at a time; past it one must go.
const CONNECTIONS_KEPT: usize = 48;
/// With those that are on their way out.
pub(super) const CONNECTIONS_MAX: usize = 64;
/// How long a connection may say nothing, or take for one request. Longer than a usual interval between scrapes.
const PATIENCE: Duration = Duration::from_secs(120);
/// Bytes of a page that are expected, so that it is built without being moved.
const PAGE_BYTES: usize = 16 * 1024;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";
const INDEX: &str = "GET /metrics  counters and gauges (OpenMetrics)\n\
    GET /health   200 while the process works\n\
    GET /ready    200 while it accepts, 503 once it drains\n";

/// One for all connections.
#[derive(Debug)]
pub struct Attendant {
    clock: WallClock,
    registry: Registry,
    readiness: Readiness,
    limits: Limits,
    connections: Vec<Option<Connection>>,
    timers: Timers,
}

#[derive(Debug)]
struct Connection {
    id: ConnectionId,
    http: ServerConnection,
    /// When it came, or was answered last.
    since: Instant,
    is_open: bool,
}

/// What is answered.
#[derive(Debug, PartialEq, Eq)]
struct Page {
    status: u16,
    media_type: &'static str,
    text: String,
}

impl Page {
    fn plain(status: u16, text: &str) -> Self {
        Self { status, media_type: PLAIN, text: text.to_owned() }
    }
}

impl Attendant {
    pub(super) fn new(clock: WallClock, registry: Registry, readiness: Readiness) -> Self {
        let limits = Limits { drain_bytes_max: 0, ..Limits::default() };
        Self { clock, registry, readiness, limits, connections: Vec::new(), timers: Timers::new() }
    }

    fn page(&self, head: &RequestHead<'_, '_>) -> Page {
        let path = match head.target {
            Target::Origin { path, .. } | Target::Absolute { path, .. } => path,
            Target::Asterisk | Target::Authority(_) => "",
        };
        let is_known = matches!(path, "/" | "/metrics" | "/health" | "/ready");
        match path {
            _ if !is_known => Page::plain(404, INDEX),
            _ if !matches!(head.method, Method::Get | Method::Head) => Page::plain(405, "GET or HEAD\n"),
            "/metrics" => self.metrics(),
            "/health" => Page::plain(200, "works\n"),
            "/ready" if self.readiness.is_ready() => Page::plain(200, "ready\n"),
            "/ready" => Page::plain(503, "draining\n"),
            _ => Page::plain(200, INDEX),
        }
    }

    fn metrics(&self) -> Page {
        let mut text = String::with_capacity(PAGE_BYTES);
        match text::encode(&mut text, &self.registry) {
            Ok(()) => Page { status: 200, media_type: OPEN_METRICS, text },
            Err(_) => Page::plain(500, "the metrics cannot be written\n"),
        }
    }

    fn date(&self, now: Instant) -> [u8; 29] {
        let mut date = [b' '; 29];
        let time = UNIX_EPOCH + Duration::from_secs(self.clock.at(now).0);
        // It is made of 29 bytes (RFC 9110, 5.6.7); a shorter one would leave spaces.
        let text = httpdate::fmt_http_date(time);
        date.iter_mut().zip(text.bytes()).for_each(|(place, byte)| *place = byte);
        date
    }

    /// Who has been silent for the longest goes, if there are too many.
    fn make_room(&mut self, actions: &mut Actions) {
        let open = || self.connections.iter().flatten().filter(|connection| connection.is_open);
        if open().count() < CONNECTIONS_KEPT {
            return;
        }
        if let Some(id) = open().min_by_key(|connection| connection.since).map(|connection| connection.id) {
            self.close(id, Close::Abort, actions);
        }
    }

    fn close(&mut self, id: ConnectionId, how: Close, actions: &mut Actions) {
        if let Some(connection) = self.connections.get_mut(id.index()).and_then(Option::as_mut)
            && connection.id == id
            && connection.is_open
        {
            connection.is_open = false;
            self.timers.clear(id.key());
            actions.close(id, how);
        }
    }

    /// Answers all requests that have come. Returns how many bytes were taken, and whether the connection is over.
    fn serve(
        &self,
        now: Instant,
        connection: &mut Connection,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> (usize, bool) {
        let mut taken = 0;
        loop {
            let mut storage = FieldStorage::new();
            let input = &received.bytes[taken..];
            match connection.http.receive(input, received.ended, &self.limits, &mut storage) {
                Ok(Progress::Head { head, taken: step }) => {
                    taken += step;
                    self.answer(now, connection, &head, actions);
                }
                Ok(Progress::Content { taken: step, .. } | Progress::End { taken: step }) => taken += step,
                Ok(Progress::NeedMore { taken: step }) => return (taken + step, received.ended),
                Ok(Progress::Blocked | Progress::Over) => return (received.bytes.len(), true),
                Err(refusal) => {
                    let date = self.date(now);
                    connection.http.refuse(refusal, &date, actions.send(connection.id));
                    return (received.bytes.len(), true);
                }
            }
        }
    }

    fn answer(&self, now: Instant, connection: &mut Connection, head: &RequestHead<'_, '_>, actions: &mut Actions) {
        connection.since = now;
        if head.has_content() {
            connection.http.close_after_this(); // nothing of it is wanted
        }
        let Page { status, media_type, text } = self.page(head);
        let out = actions.send(connection.id);
        let mut writer = connection.http.respond(status, Framing::Length(text.len() as u64), &self.date(now), out);
        for (name, value) in [("Content-Type", media_type), ("Cache-Control", "no-store")] {
            let _ = writer.field(name, value.as_bytes()); // constants of ours, which are fields
        }
        if status == 405 {
            let _ = writer.field("Allow", b"GET, HEAD");
        }
        if writer.end() == Content::Expected {
            actions.send(connection.id).extend_from_slice(text.as_bytes());
            connection.http.content_sent();
        }
    }
}

impl Node for Attendant {
    fn handle_accepted(&mut self, now: Instant, id: ConnectionId, _accepted: Accepted, actions: &mut Actions) {
        self.make_room(actions);
        let index = id.index();
        if index >= self.connections.len() {
            self.connections.resize_with(index + 1, || None);
        }
        self.connections[index] = Some(Connection { id, http: ServerConnection::new(), since: now, is_open: true });
        self.timers.set(id.key(), now + PATIENCE);
    }

    fn handle_received(
        &mut self,
        now: Instant,
        id: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> usize {
        let place = self.connections.get_mut(id.index());
        let Some(mut connection) = place.and_then(|place| place.take_if(|one| one.id == id && one.is_open)) else {
            return received.bytes.len();
        };
        let (taken, is_over) = self.serve(now, &mut connection, received, actions);
        self.timers.set(id.key(), connection.since + PATIENCE);
        self.connections[id.index()] = Some(connection);
        if is_over {
            self.close(id, Close::Graceful, actions);
        }
        taken
    }

    fn handle_closed(&mut self, _now: Instant, id: ConnectionId, _reason: CloseReason, _actions: &mut Actions) {
        if let Some(place) = self.connections.get_mut(id.index()) {
            place.take_if(|connection| connection.id == id);
            self.timers.clear(id.key());
        }
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        while let Some(key) = self.timers.pop_due(now) {
            if let Some(Some(connection)) = self.connections.get(key as usize) {
                self.close(connection.id, Close::Graceful, actions);
            }
        }
    }

    fn handle_stopping(&mut self, _now: Instant, actions: &mut Actions) {
        actions.exit();
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.timers.next()
    }
}
