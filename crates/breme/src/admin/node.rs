//! The node behind `--admin`: few pages, few connections, and no client can keep others out.
//!
//! It serves [`CONNECTIONS_KEPT`] connections. A further one replaces the connection that has been idle longest: a
//! scraper sends its request at once, and so is served however many idle clients there are.

use std::time::Duration;

use breme_base::{Instant, Timers, WallClock};
use breme_http::{Framing, Limits, Method, RequestHead, Target, http_date};
use breme_http1::{FieldStorage, Progress, ResponseBody, ServerConnection};
use breme_node::{Accepted, Actions, Close, CloseReason, ConnectionId, Node, Received};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use super::api::{Api, Call, Page, Token};
use super::exposition::Exposition;
use super::readiness::Readiness;

/// Limit of connections; beyond it one is closed.
const CONNECTIONS_KEPT: usize = 48;
/// Including those being closed.
pub(super) const CONNECTIONS_MAX: usize = 64;
/// Time limit of an idle connection, and of one request. Longer than usual scrape intervals.
const PATIENCE: Duration = Duration::from_secs(120);
/// Expected size of a page, to avoid reallocation.
const PAGE_BYTES: usize = 16 * 1024;
/// Limit of request content; beyond it 413.
const CONTENT_BYTES_MAX: u64 = 256 * 1024;

const INDEX: &str = "GET /metrics  metrics for Prometheus (text format 0.0.4, or OpenMetrics if Accept prefers it)\n\
    GET /health   200 while the process runs\n\
    GET /ready    200 while it accepts requests, 503 while it shuts down or lacks its database\n";

/// Serves all connections.
#[derive(Debug)]
pub struct Attendant {
    clock: WallClock,
    registry: Registry,
    readiness: Readiness,
    /// The pages of the role.
    api: Option<(Box<dyn Api>, Token)>,
    limits: Limits,
    connections: Vec<Option<Connection>>,
    timers: Timers,
}

#[derive(Debug)]
struct Connection {
    id: ConnectionId,
    http: ServerConnection,
    /// When it was accepted, or had its last response.
    since: Instant,
    is_open: bool,
    /// A request with incomplete content.
    begun: Option<Begun>,
}

/// A request that may change something.
#[derive(Debug)]
struct Begun {
    method: String,
    path: String,
    query: Option<String>,
    content: Vec<u8>,
}

impl Begun {
    fn call(&self) -> Call<'_> {
        let Self { method, path, query, content } = self;
        Call { method, path, query: query.as_deref(), content }
    }
}

/// The next step after a request head.
enum Step {
    Answer(Page),
    /// Its content is read first.
    Read(Begun),
}

impl Attendant {
    pub(super) fn new(
        clock: WallClock,
        registry: Registry,
        readiness: Readiness,
        api: Option<(Box<dyn Api>, Token)>,
    ) -> Self {
        let limits = Limits { drain_bytes_max: 0, content_bytes_max: CONTENT_BYTES_MAX, ..Limits::default() };
        Self { clock, registry, readiness, api, limits, connections: Vec::new(), timers: Timers::new() }
    }

    fn step(&self, head: &RequestHead<'_, '_>) -> Step {
        let (path, query) = match head.target {
            Target::Origin { path, query } | Target::Absolute { path, query, .. } => (path, query),
            Target::Asterisk | Target::Authority(_) => ("", None),
        };
        let only_looks = matches!(head.method, Method::Get | Method::Head);
        match (&self.api, path) {
            (_, "/metrics") if only_looks => Step::Answer(self.metrics(Exposition::preferred(head.fields))),
            (_, "/" | "/metrics" | "/health" | "/ready") => Step::Answer(self.page(path, only_looks)),
            (None, _) => Step::Answer(Page::plain(404, self.index())),
            (Some((api, _)), _) if only_looks => {
                Step::Answer(api.answer(&Call { method: head.method.as_str(), path, query, content: b"" }))
            }
            (Some((api, token)), _) => match token.check(head.fields.all("authorization")) {
                Err(page) => Step::Answer(page),
                Ok(()) => {
                    let (method, path) = (head.method.as_str().to_owned(), path.to_owned());
                    let begun = Begun { method, path, query: query.map(str::to_owned), content: Vec::new() };
                    if head.has_content() { Step::Read(begun) } else { Step::Answer(api.answer(&begun.call())) }
                }
            },
        }
    }

    fn page(&self, path: &str, only_looks: bool) -> Page {
        match path {
            _ if !only_looks => Page::not_allowed("GET, HEAD"),
            "/health" => Page::plain(200, "running\n"),
            "/ready" => match self.readiness.refusal() {
                None => Page::plain(200, "ready\n"),
                Some(reason) => Page::plain(503, format!("{reason}\n")),
            },
            _ => Page::plain(200, self.index()),
        }
    }

    fn index(&self) -> String {
        let more = self.api.as_ref().map_or_else(String::new, |(api, _)| api.index());
        format!("{INDEX}{more}")
    }

    fn metrics(&self, exposition: Exposition) -> Page {
        let mut text = String::with_capacity(PAGE_BYTES);
        match text::encode(&mut text, &self.registry) {
            Ok(()) => Page {
                media_type: exposition.media_type(),
                field: Some(("Vary", "Accept")),
                ..Page::plain(200, exposition.text(text))
            },
            Err(_) => Page::plain(500, "cannot encode the metrics\n"),
        }
    }

    fn date(&self, now: Instant) -> [u8; 29] {
        http_date(self.clock.at(now).0)
    }

    /// Closes the connection that has been idle longest, if there are too many.
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

    /// Responds to all complete requests. Returns the number of bytes taken, and whether the connection is closed.
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
                    self.handle_head(now, connection, &head, actions);
                }
                Ok(Progress::Content { taken: step, bytes }) => {
                    taken += step;
                    connection.begun.iter_mut().for_each(|begun| begun.content.extend_from_slice(bytes));
                }
                Ok(Progress::Trailer { taken: step, .. }) => taken += step,
                Ok(Progress::End { taken: step }) => {
                    taken += step;
                    if let (Some(begun), Some((api, _))) = (connection.begun.take(), &self.api) {
                        self.answer(now, connection, &api.answer(&begun.call()), actions);
                    }
                }
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

    fn handle_head(
        &self,
        now: Instant,
        connection: &mut Connection,
        head: &RequestHead<'_, '_>,
        actions: &mut Actions,
    ) {
        match self.step(head) {
            Step::Read(begun) => {
                connection.http.send_continue(actions.send(connection.id));
                connection.begun = Some(begun);
            }
            Step::Answer(page) => {
                if head.has_content() {
                    connection.http.close_after_response(); // nothing of it is wanted
                }
                self.answer(now, connection, &page, actions);
            }
        }
    }

    fn answer(&self, now: Instant, connection: &mut Connection, page: &Page, actions: &mut Actions) {
        connection.since = now;
        let Page { status, media_type, text, field } = page;
        let out = actions.send(connection.id);
        let mut writer = connection.http.respond(*status, Framing::Length(text.len() as u64), &self.date(now), out);
        let fields = [("Content-Type", *media_type), ("Cache-Control", "no-store")];
        for (name, value) in fields.into_iter().chain(*field) {
            let _ = writer.field(name, value.as_bytes()); // constants of ours, which are fields
        }
        if writer.end() == ResponseBody::Expected {
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
        self.connections[index] =
            Some(Connection { id, http: ServerConnection::new(), since: now, is_open: true, begun: None });
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
