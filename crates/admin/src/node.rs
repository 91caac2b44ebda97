//! The node behind `--admin`: few pages, few connections, and no client can keep others out.
//!
//! It serves [`CONNECTIONS_KEPT`] connections. A further one replaces the connection that has been idle longest: a
//! scraper sends its request at once, and so is served however many idle clients there are.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use breme_base::{Instant, WallClock};
use breme_http::{Framing, Limits, Method, RequestHead, Target};
use breme_http1::{FieldStorage, Progress, ResponseBody};
use breme_node::{Accepted, Actions, Close, CloseReason, ConnectionId, Node, Received};
use breme_server::{CachedDate, Connections, ServerShard, is_turn_over};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use super::api::{AdminPage, AdminToken, Api, Call};
use super::exposition::Exposition;
use super::readiness::Readiness;

/// Limit of connections; beyond it one is closed.
const CONNECTIONS_KEPT: usize = 48;
/// Including those being closed.
pub(super) const CONNECTIONS_MAX: usize = 64;
/// Time limit of an idle connection, and of one request. Longer than usual scrape intervals.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often responses that another thread makes are looked for.
const LATER_POLL: Duration = Duration::from_millis(10);
/// Expected size of a page, to avoid reallocation.
const PAGE_BYTES: usize = 16 * 1024;
/// Responses of a connection before others are served. Few, since a page may cost a fraction of a millisecond.
const RESPONSES_PER_TURN: usize = 16;
/// Limit of request content; beyond it 413.
pub(super) const CONTENT_BYTES_MAX: u64 = 256 * 1024;

const INDEX: &str = "GET /metrics  metrics for Prometheus (text format 0.0.4, or OpenMetrics if Accept prefers it)\n\
    GET /health   200 while the process runs\n\
    GET /ready    200 when ready, else 503\n";

/// Serves all connections.
#[derive(Debug)]
pub struct AdminNode {
    pages: RoutedPages,
    limits: Limits,
    date: CachedDate,
    connections: Connections<AdminClientState>,
    server: ServerShard,
    /// When to look for responses of another thread; none if no connection waits for one.
    next_look: Option<Instant>,
}

#[derive(Debug)]
struct RoutedPages {
    registry: Registry,
    readiness: Readiness,
    /// The pages of the role.
    api: Option<(Box<dyn Api>, AdminToken)>,
}

type AdminConnection = breme_server::Connection<AdminClientState>;

#[derive(Debug)]
struct AdminClientState {
    /// When it was accepted, or had its last response.
    since: Instant,
    /// A request with incomplete content.
    pending: Option<PendingRequest>,
    /// The response, which another thread makes.
    later: Option<Receiver<AdminPage>>,
}

/// A request that may change something.
#[derive(Debug)]
struct PendingRequest {
    method: String,
    path: String,
    query: Option<String>,
    content: Vec<u8>,
}

impl PendingRequest {
    fn call(&self) -> Call<'_> {
        let Self { method, path, query, content } = self;
        Call { method, path, query: query.as_deref(), content }
    }
}

/// The next step after a request head.
enum RequestStep {
    Answer(AdminPage),
    /// Its content is read first.
    Read(PendingRequest),
    Wait(Receiver<AdminPage>),
}

impl RoutedPages {
    fn step(&self, head: &RequestHead<'_, '_>) -> RequestStep {
        let (path, query) = match head.target {
            Target::Origin { path, query } | Target::Absolute { path, query, .. } => (path, query),
            Target::Asterisk | Target::Authority(_) => ("", None),
        };
        let only_looks = matches!(head.method, Method::Get | Method::Head);
        match (&self.api, path) {
            (_, "/metrics") if only_looks => RequestStep::Answer(self.metrics(Exposition::preferred(head.fields))),
            (_, "/" | "/metrics" | "/health" | "/ready") => RequestStep::Answer(self.page(path, only_looks)),
            (None, _) => RequestStep::Answer(AdminPage::plain(404, self.index())),
            (Some((api, _)), _) if only_looks => {
                let call = Call { method: head.method.as_str(), path, query, content: b"" };
                let later = api.answer_later(&call).map(RequestStep::Wait);
                later.unwrap_or_else(|| RequestStep::Answer(api.answer(&call)))
            }
            (Some((api, token)), _) => match token.check(head.fields.all("authorization")) {
                Err(page) => RequestStep::Answer(page),
                Ok(()) => {
                    let (method, path) = (head.method.as_str().to_owned(), path.to_owned());
                    let pending = PendingRequest { method, path, query: query.map(str::to_owned), content: Vec::new() };
                    if head.has_content() {
                        RequestStep::Read(pending)
                    } else {
                        RequestStep::Answer(api.answer(&pending.call()))
                    }
                }
            },
        }
    }

    fn page(&self, path: &str, only_looks: bool) -> AdminPage {
        match path {
            _ if !only_looks => AdminPage::not_allowed("GET, HEAD"),
            "/health" => AdminPage::plain(200, "running\n"),
            "/ready" => match self.readiness.refusal() {
                None => AdminPage::plain(200, "ready\n"),
                Some(reason) => AdminPage::plain(503, format!("{reason}\n")),
            },
            _ => AdminPage::plain(200, self.index()),
        }
    }

    fn index(&self) -> String {
        let more = self.api.as_ref().map_or_else(String::new, |(api, _)| api.index());
        format!("{INDEX}{more}")
    }

    fn metrics(&self, exposition: Exposition) -> AdminPage {
        let mut text = String::with_capacity(PAGE_BYTES);
        match text::encode(&mut text, &self.registry) {
            Ok(()) => AdminPage {
                media_type: exposition.media_type(),
                field: Some(("Vary", "Accept")),
                ..AdminPage::plain(200, exposition.text(text))
            },
            Err(_) => AdminPage::plain(500, "cannot encode the metrics\n"),
        }
    }
}

/// Received bytes of one connection.
struct Context<'a> {
    connection: &'a mut AdminConnection,
    pages: &'a RoutedPages,
    date: &'a [u8; 29],
    now: Instant,
    actions: &'a mut Actions,
    /// Responses of this call.
    response_count: u64,
    /// Bytes of their contents.
    content_bytes: u64,
}

impl<'a> Context<'a> {
    fn new(
        connection: &'a mut AdminConnection,
        pages: &'a RoutedPages,
        date: &'a [u8; 29],
        now: Instant,
        actions: &'a mut Actions,
    ) -> Self {
        Self { connection, pages, date, now, actions, response_count: 0, content_bytes: 0 }
    }

    /// Responds to complete requests, up to the limits of one call. Returns the number of bytes taken, and whether the
    /// connection is over.
    fn serve(&mut self, received: Received<'_>, limits: &Limits) -> (usize, bool) {
        self.connection.begin_receiving(&received);
        let mut taken = 0;
        loop {
            let mut storage = FieldStorage::new();
            let progress = self.connection.receive(&received.bytes[taken..], limits, &mut storage);
            taken += progress.as_ref().map_or(0, Progress::taken);
            match progress {
                Ok(Progress::Head { head, .. }) => self.handle_head(&head),
                Ok(Progress::Content { bytes, .. }) => {
                    let pending = self.connection.state.pending.iter_mut();
                    pending.for_each(|pending| pending.content.extend_from_slice(bytes));
                }
                Ok(Progress::Trailer { .. }) => {}
                Ok(Progress::End { .. }) => {
                    if let (Some(pending), Some((api, _))) = (self.connection.state.pending.take(), &self.pages.api) {
                        self.answer(&api.answer(&pending.call()));
                    }
                }
                Ok(Progress::NeedMore { .. }) => return (taken, received.ended),
                Ok(Progress::Blocked) if self.connection.state.later.is_some() => return (taken, false),
                Ok(Progress::Blocked | Progress::Over) => return (received.bytes.len(), true),
                Err(refusal) => {
                    let out = self.actions.send(self.connection.id);
                    self.connection.http.refuse(refusal, self.date, out);
                    return (received.bytes.len(), true);
                }
            }
            if self.connection.has_pending && is_turn_over(self.response_count, self.content_bytes, limits) {
                self.actions.resume(self.connection.id);
                return (taken, false);
            }
        }
    }

    fn handle_head(&mut self, head: &RequestHead<'_, '_>) {
        match self.pages.step(head) {
            RequestStep::Read(pending) => {
                self.connection.http.send_continue(self.actions.send(self.connection.id));
                self.connection.state.pending = Some(pending);
            }
            RequestStep::Answer(page) => {
                self.ignore_content(head);
                self.answer(&page);
            }
            RequestStep::Wait(page) => {
                self.ignore_content(head);
                self.connection.state.later = Some(page);
            }
        }
    }

    fn ignore_content(&mut self, head: &RequestHead<'_, '_>) {
        if head.has_content() {
            self.connection.http.close_after_response(); // nothing of it is wanted
        }
    }

    /// Responds if the other thread has made the page. Returns whether the connection is over.
    fn answer_finished(&mut self, limits: &Limits) -> bool {
        let page = match self.connection.state.later.as_ref().map(Receiver::try_recv) {
            Some(Ok(page)) => page,
            Some(Err(TryRecvError::Disconnected)) => AdminPage::fault(500, "internal error, please report it"),
            Some(Err(TryRecvError::Empty)) | None => return false,
        };
        self.connection.state.later = None;
        self.answer(&page);
        if self.connection.has_pending {
            self.actions.resume(self.connection.id);
            return false;
        }
        // Nothing is lent again that would end the connection.
        let ended = self.connection.has_ended;
        self.serve(Received { bytes: b"", ended, arrived_at: self.now }, limits).1
    }

    fn answer(&mut self, page: &AdminPage) {
        self.response_count += 1;
        self.content_bytes += page.text.len() as u64;
        let AdminConnection { id, http, state, .. } = &mut *self.connection;
        state.since = self.now;
        let AdminPage { status, media_type, text, field } = page;
        let out = self.actions.send(*id);
        let mut writer = http.respond(*status, Framing::Length(text.len() as u64), self.date, out);
        let fields = [("Content-Type", *media_type), ("Cache-Control", "no-store")];
        for (name, value) in fields.into_iter().chain(*field) {
            let _ = writer.field(name, value.as_bytes()); // constants of ours, which are fields
        }
        if writer.end() == ResponseBody::Expected {
            self.actions.send(*id).extend_from_slice(text.as_bytes());
            http.content_sent();
        }
    }
}

impl AdminNode {
    pub(super) fn new(
        clock: WallClock,
        registry: Registry,
        readiness: Readiness,
        api: Option<(Box<dyn Api>, AdminToken)>,
    ) -> Self {
        Self {
            pages: RoutedPages { registry, readiness, api },
            limits: Limits {
                drain_bytes_max: 0,
                content_bytes_max: CONTENT_BYTES_MAX,
                pipeline_depth_max: RESPONSES_PER_TURN,
                ..Limits::default()
            },
            date: CachedDate::new(clock),
            connections: Connections::default(),
            server: ServerShard::default(),
            next_look: None,
        }
    }

    /// Sends the pages that another thread has made.
    fn answer_finished(&mut self, now: Instant, actions: &mut Actions) {
        let (pages, date) = (&self.pages, self.date.at(now).text());
        let waiting = self.connections.iter().filter(|connection| connection.state.later.is_some());
        let waiting: Vec<ConnectionId> = waiting.map(|connection| connection.id).collect();
        for id in waiting {
            let Some(connection) = self.connections.get_mut(id) else { continue };
            let is_over = Context::new(connection, pages, date, now, actions).answer_finished(&self.limits);
            if is_over {
                self.server.close(connection, Close::Graceful, actions);
            } else if connection.state.later.is_some() {
                self.next_look = Some(now + LATER_POLL);
            }
        }
    }

    /// Closes the connection that has been idle longest, if there are too many.
    fn make_room(&mut self, actions: &mut Actions) {
        if self.connections.iter().count() < CONNECTIONS_KEPT {
            return;
        }
        let longest_idle = self.connections.iter().min_by_key(|connection| connection.state.since);
        let id = longest_idle.map(|connection| connection.id);
        if let Some(connection) = id.and_then(|id| self.connections.get_mut(id)) {
            self.server.close(connection, Close::Abort, actions);
        }
    }
}

impl Node for AdminNode {
    fn handle_accepted(&mut self, now: Instant, id: ConnectionId, _accepted: Accepted, actions: &mut Actions) {
        self.make_room(actions);
        let connection = AdminConnection::new(id, now, AdminClientState { since: now, pending: None, later: None });
        self.server.timers.set(id.key(), now + PATIENCE);
        self.connections.insert(connection);
    }

    fn handle_received(
        &mut self,
        now: Instant,
        id: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> usize {
        let Some(connection) = self.connections.get_mut(id) else { return received.bytes.len() };
        let (pages, date) = (&self.pages, self.date.at(now).text());
        let (taken, is_over) = Context::new(connection, pages, date, now, actions).serve(received, &self.limits);
        if is_over {
            self.server.close(connection, Close::Graceful, actions);
        } else {
            self.server.timers.set(id.key(), connection.state.since + PATIENCE);
            if connection.state.later.is_some() {
                self.next_look.get_or_insert(now + LATER_POLL);
            }
        }
        taken
    }

    fn handle_closed(&mut self, _now: Instant, id: ConnectionId, _reason: CloseReason, _actions: &mut Actions) {
        if self.connections.remove(id).is_some() {
            self.server.timers.clear(id.key());
        }
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        if self.next_look.take_if(|look| *look <= now).is_some() {
            self.answer_finished(now, actions);
        }
        while let Some(key) = self.server.timers.pop_due(now) {
            if let Some(connection) = self.connections.id_of(key).and_then(|id| self.connections.get_mut(id)) {
                self.server.close(connection, Close::Graceful, actions);
            }
        }
    }

    fn handle_stopping(&mut self, _now: Instant, actions: &mut Actions) {
        actions.exit();
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.server.next_deadline().into_iter().chain(self.next_look).min()
    }
}

#[cfg(test)]
mod tests {
    use breme_base::UnixMillis;
    use breme_node::{Action, ListenerId};

    use super::*;

    const ID: ConnectionId = ConnectionId::new(0, 0);

    /// Lends `requests` and removes those taken. Returns the number of responses, and whether the rest is to be lent
    /// again.
    fn turn(node: &mut AdminNode, requests: &mut Vec<u8>) -> (usize, bool) {
        let mut actions = Actions::new();
        let received = Received { bytes: requests, ended: false, arrived_at: Instant::ZERO };
        let taken = node.handle_received(Instant::ZERO, ID, received, &mut actions);
        requests.drain(..taken);
        let log = (0..actions.len()).filter_map(|index| Some((index, actions.get(index)?)));
        let sent = log.clone().filter(|(_, action)| matches!(action, Action::Send(..)));
        let sent: Vec<u8> = sent.flat_map(|(index, _)| actions.bytes(index).to_vec()).collect();
        let response_count = String::from_utf8_lossy(&sent).matches("HTTP/1.1 200").count();
        (response_count, log.into_iter().any(|(_, action)| matches!(action, Action::Resume(ID))))
    }

    #[derive(Debug)]
    struct Slow(std::sync::Mutex<Option<Receiver<AdminPage>>>);

    impl Api for Slow {
        fn index(&self) -> String {
            String::new()
        }

        fn answer(&self, _call: &Call<'_>) -> AdminPage {
            AdminPage::plain(404, "")
        }

        fn answer_later(&self, _call: &Call<'_>) -> Option<Receiver<AdminPage>> {
            self.0.lock().unwrap().take()
        }
    }

    #[test]
    fn a_slow_page_delays_no_other() {
        let clock = WallClock::new(|_| UnixMillis(0));
        let (sender, page) = std::sync::mpsc::channel();
        let api: Box<dyn Api> = Box::new(Slow(std::sync::Mutex::new(Some(page))));
        let token = AdminToken::from_file("", None).unwrap();
        let mut node = AdminNode::new(clock, Registry::default(), Readiness::default(), Some((api, token)));
        let accepted = Accepted { listener: ListenerId(0), peer: None };
        node.handle_accepted(Instant::ZERO, ID, accepted, &mut Actions::new());
        let mut requests = b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\nGET /health HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
        assert_eq!(turn(&mut node, &mut requests), (0, false), "the order of the responses is kept");
        let look = node.next_deadline().unwrap();
        let mut actions = Actions::new();
        node.handle_deadline(look, &mut actions);
        assert!(actions.is_empty() && node.next_deadline() == Some(look + LATER_POLL), "{actions:?}");
        sender.send(AdminPage::plain(200, "slow")).unwrap();
        node.handle_deadline(look + LATER_POLL, &mut actions);
        assert!((0..actions.len()).any(|index| actions.bytes(index).ends_with(b"\r\n\r\nslow")), "{actions:?}");
        assert!((0..actions.len()).any(|index| matches!(actions.get(index), Some(Action::Resume(ID)))));
        assert_eq!(turn(&mut node, &mut requests), (1, false));
        assert!(node.next_deadline() > Some(look + PATIENCE / 2), "it looks no more");
    }

    #[test]
    fn pipelined_requests_let_others_have_their_turn() {
        let clock = WallClock::new(|_| UnixMillis(0));
        let mut node = AdminNode::new(clock, Registry::default(), Readiness::default(), None);
        let accepted = Accepted { listener: ListenerId(0), peer: None };
        node.handle_accepted(Instant::ZERO, ID, accepted, &mut Actions::new());
        let mut requests = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n".repeat(RESPONSES_PER_TURN + 1);
        assert_eq!(turn(&mut node, &mut requests), (RESPONSES_PER_TURN, true));
        assert_eq!(turn(&mut node, &mut requests), (1, false));
        assert!(requests.is_empty());
    }
}
