//! The origin server as a node: its connections, and the context of one event.

mod replay;
mod response;
mod timeouts;

use std::sync::Arc;
use std::time::Duration;

use breme_base::{Instant, Random, Timers};
use breme_http::{Framing, Method, Refusal, RefusalReason, RequestHead, Version};
use breme_http1::{FieldStorage, Progress};
use breme_node::{Accepted, Actions, Close, CloseReason, ConnectionId, Node, Pressure, Received, Shard};
use breme_server::DateLine;

use crate::connection::{Connection, ConnectionState, ContentPlan, Echo, RequestContent};
use crate::counters::ShardCounts;
use crate::file_cache::RecentEntries;
use crate::replay_cache::ResponseCache;
use crate::response::{Body, Response};
use crate::router::{RouteDecision, Router};
use crate::shared::Shared;

/// Body bytes that one connection may send in one call, before others are served.
const TURN_CONTENT_BYTES_MAX: u64 = 1024 * 1024;

/// The node of one shard of a [`Site`](crate::Site).
#[derive(Debug)]
pub struct Origin {
    shared: Arc<Shared>,
    counts: Arc<ShardCounts>,
    connections: Vec<Option<Connection>>,
    timers: Timers,
    date: DateLine,
    recent: RecentEntries,
    response_cache: ResponseCache,
    random: Random,
    pressure: Pressure,
    is_stopping: bool,
}

impl Origin {
    pub(crate) fn new(shared: Arc<Shared>, shard: Shard) -> Self {
        let seed = shared.settings.seed;
        let counts = shared.counters.add_shard();
        Self {
            connections: Vec::new(),
            timers: Timers::new(),
            date: DateLine::new(shared.clock.clone()),
            recent: RecentEntries::new(seed, counts.clone()),
            response_cache: ResponseCache::new(seed, shared.settings.replay_cache_bytes_max),
            random: Random::stream(seed, shard.id.0 as u64),
            pressure: Pressure::default(),
            is_stopping: false,
            shared,
            counts,
        }
    }

    /// The context of a connection; None if it is closed.
    fn context<'a>(&'a mut self, now: Instant, index: usize, actions: &'a mut Actions) -> Option<Context<'a>> {
        let connection = self.connections.get_mut(index)?.as_mut().filter(|connection| connection.is_open)?;
        Some(Context {
            id: connection.id,
            connection,
            shared: &self.shared,
            counts: &self.counts,
            timers: &mut self.timers,
            date: self.date.at(now),
            recent: &mut self.recent,
            response_cache: &mut self.response_cache,
            random: &mut self.random,
            pressure: &mut self.pressure,
            is_stopping: self.is_stopping,
            now,
            actions,
            response_count: 0,
            content_bytes: 0,
        })
    }

    fn context_of<'a>(&'a mut self, now: Instant, id: ConnectionId, actions: &'a mut Actions) -> Option<Context<'a>> {
        self.context(now, id.index(), actions).filter(|context| context.id == id)
    }

    /// Adapts the timeout of each client to the new pressure, counted from when its wait began. A client that has sent
    /// nothing is idle since it connected: browsers open spare connections, and a client that holds one without a
    /// request would otherwise hold it the longest.
    fn change_pressure(&mut self, now: Instant, change: impl FnOnce(&mut Pressure)) {
        let limits = &self.shared.settings.limits;
        let waits = |pressure: &Pressure| {
            let [head, drained] = [limits.head_timeout, limits.body_timeout].map(|time| pressure.slow_timeout(time));
            [pressure.idle_timeout(limits.idle_timeout), head, drained]
        };
        let before = waits(&self.pressure);
        change(&mut self.pressure);
        let after = waits(&self.pressure);
        for connection in self.connections.iter().flatten().filter(|connection| connection.is_open) {
            let key = connection.id.key();
            let place = match &connection.state {
                ConnectionState::Delay(_) | ConnectionState::Pattern { .. } => continue,
                _ if connection.queue_is_long => continue,
                ConnectionState::Content(exchange) => {
                    self.timers.set(key, exchange.deadline(&self.pressure, limits));
                    continue;
                }
                ConnectionState::Idle if self.is_stopping => continue,
                ConnectionState::Idle => 0,
                ConnectionState::Head => 1,
                ConnectionState::Drained => 2,
            };
            self.timers.change_wait(key, before[place], after[place], now);
        }
    }
}

impl Node for Origin {
    fn handle_accepted(&mut self, now: Instant, id: ConnectionId, accepted: Accepted, actions: &mut Actions) {
        let index = id.index();
        if index >= self.connections.len() {
            self.connections.resize_with(index + 1, || None);
        }
        let is_secured = self.shared.settings.secured_listeners.contains(&accepted.listener);
        self.connections[index] = Some(Connection::new(id, now, is_secured));
        if let Some(mut context) = self.context_of(now, id, actions) {
            context.wait_for_request();
        }
    }

    fn handle_received(
        &mut self,
        now: Instant,
        id: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> usize {
        match self.context_of(now, id, actions) {
            Some(mut context) => context.receive(received),
            None => received.bytes.len(),
        }
    }

    fn handle_sent(&mut self, now: Instant, id: ConnectionId, unsent_bytes: u64, actions: &mut Actions) {
        if let Some(mut context) = self.context_of(now, id, actions) {
            if unsent_bytes > 0 { context.handle_queue_long() } else { context.handle_queue_empty() }
        }
    }

    fn handle_closed(&mut self, _now: Instant, id: ConnectionId, reason: CloseReason, _actions: &mut Actions) {
        if let Some(place) = self.connections.get_mut(id.index())
            && place.as_ref().is_some_and(|connection| connection.id == id)
        {
            if reason == CloseReason::Evicted && place.take().is_some_and(|connection| !connection.is_evicted) {
                self.counts.evicted.add();
            }
            *place = None;
            self.timers.clear(id.key());
        }
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        if self.pressure.rises_at().is_some_and(|at| at <= now) {
            self.change_pressure(now, Pressure::rise);
        }
        while let Some(key) = self.timers.pop_due(now) {
            if let Some(mut context) = self.context(now, key as usize, actions) {
                context.handle_deadline();
            }
        }
    }

    fn handle_pressure(&mut self, now: Instant, is_high: bool, _actions: &mut Actions) {
        self.change_pressure(now, |pressure| pressure.set(now, is_high));
    }

    fn handle_stopping(&mut self, now: Instant, actions: &mut Actions) {
        self.is_stopping = true;
        for index in 0..self.connections.len() {
            if let Some(mut context) = self.context(now, index, actions)
                && matches!(context.connection.state, ConnectionState::Idle)
            {
                context.wait_for_request();
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.timers.next().into_iter().chain(self.pressure.rises_at()).min()
    }
}

/// One event of one connection.
struct Context<'a> {
    id: ConnectionId,
    connection: &'a mut Connection,
    shared: &'a Shared,
    counts: &'a ShardCounts,
    timers: &'a mut Timers,
    date: &'a DateLine,
    recent: &'a mut RecentEntries,
    response_cache: &'a mut ResponseCache,
    random: &'a mut Random,
    pressure: &'a mut Pressure,
    is_stopping: bool,
    now: Instant,
    actions: &'a mut Actions,
    response_count: usize,
    /// Body bytes sent in this call.
    content_bytes: u64,
}

/// The result of parsing one item.
enum ReceiveStep {
    /// Consumed this many bytes; another item may follow.
    Taken(usize),
    /// Consumed this many bytes; more are needed.
    Wait(usize),
}

/// Receiving.
impl Context<'_> {
    /// Serves requests, up to the limits of one call. Returns the number of bytes consumed.
    fn receive(&mut self, received: Received<'_>) -> usize {
        self.connection.ended = received.ended;
        self.connection.has_pending = !received.bytes.is_empty();
        if self.connection.is_blocked() {
            return 0;
        }
        let length = received.bytes.len();
        let mut taken = 0;
        loop {
            let input = &received.bytes[taken..];
            taken += match self.replay(input) {
                Some(repeated) => repeated,
                None => match self.step(input, received.ended) {
                    ReceiveStep::Taken(count) => count,
                    ReceiveStep::Wait(count) => {
                        taken += count;
                        break;
                    }
                },
            };
            if !self.connection.is_open {
                return length;
            }
            if self.connection.is_blocked() {
                return taken;
            }
            if self.connection.has_pending && self.is_turn_over() {
                self.actions.resume(self.id);
                break;
            }
        }
        self.wait_for_more();
        taken
    }

    /// Parses and handles one item of `input`.
    fn step(&mut self, input: &[u8], ended: bool) -> ReceiveStep {
        let mut storage = FieldStorage::new();
        let progress = self.connection.http.receive(input, ended, &self.shared.settings.limits, &mut storage);
        let taken = progress.as_ref().map_or(0, Progress::taken);
        self.connection.has_pending = taken < input.len();
        match progress {
            Ok(Progress::Head { head, .. }) => self.handle_head(&head, &input[..taken]),
            Ok(Progress::Content { bytes, .. }) => self.handle_content(bytes),
            // Trailers are not used.
            Ok(Progress::Trailer { .. }) => {}
            Ok(Progress::End { .. }) => self.handle_end(),
            Ok(Progress::NeedMore { .. }) if ended => self.close(Close::Graceful),
            Ok(Progress::NeedMore { .. } | Progress::Blocked) => return ReceiveStep::Wait(taken),
            Ok(Progress::Over) => self.close(Close::Graceful),
            Err(refusal) => self.refuse(refusal),
        }
        ReceiveStep::Taken(taken)
    }

    fn is_turn_over(&self) -> bool {
        self.response_count >= self.shared.settings.limits.pipeline_depth_max
            || self.content_bytes >= TURN_CONTENT_BYTES_MAX
    }

    fn begin_request(&mut self, version: Version) {
        self.connection.version = Some(version);
        if std::mem::take(&mut self.connection.has_pipelined) {
            self.counts.pipelined.add();
        }
    }

    fn handle_head(&mut self, head: &RequestHead<'_, '_>, bytes: &[u8]) {
        self.begin_request(head.version);
        let is_reading = matches!(head.method, Method::Get | Method::Head);
        if is_reading && head.framing == Framing::Chunked {
            return self.refuse(Refusal::new(RefusalReason::ContentNotAllowed));
        }
        let mut router = Router {
            shared: self.shared,
            recent: self.recent,
            random: self.random,
            now: self.now,
            wall: self.date.second(),
            is_secured: self.connection.is_secured,
        };
        let reaction = router.route(head);
        if head.has_content() && !is_reading {
            return self.expect_content(head, reaction);
        }
        if head.has_content() {
            // RFC 9110, 9.3.1: content of GET has no meaning and may hide a request from a proxy in front. So it is
            // neither awaited nor read, and nothing after it is parsed as a request.
            self.connection.http.close_after_response();
        }
        match reaction {
            RouteDecision::Response(response) => self.respond_and_record(response, head, bytes),
            RouteDecision::Delay(response, delay) => self.delay(response, delay),
            RouteDecision::Echo(lines) => {
                let echo = Response { extra: lines, ..Response::empty(200) };
                self.respond(echo);
            }
        }
    }

    /// A request with content gets its response when all of it has arrived, so that malformed content is rejected. But
    /// a client that waits for 100 (Continue) gets it at once, and unwanted long content is not awaited.
    fn expect_content(&mut self, head: &RequestHead<'_, '_>, reaction: RouteDecision) {
        let length = match head.framing {
            Framing::Length(length) => Some(length),
            _ => None,
        };
        let is_long = length.is_some_and(|length| length > self.shared.settings.limits.drain_bytes_max);
        let content_plan = match reaction {
            RouteDecision::Echo(lines) => {
                // Not needed if content arrives with the head (RFC 9110, 10.1.1).
                if !self.connection.has_pending {
                    self.connection.http.send_continue(self.actions.send(self.id));
                }
                ContentPlan::Echo(Echo { lines, length, held: Vec::new(), has_begun: false })
            }
            RouteDecision::Response(response) if head.expects_continue || is_long => {
                return self.respond_early(response);
            }
            RouteDecision::Delay(response, _) if head.expects_continue || is_long => {
                return self.respond_early(response);
            }
            RouteDecision::Response(response) => ContentPlan::Hold(response, Duration::ZERO),
            RouteDecision::Delay(response, delay) => ContentPlan::Hold(response, delay),
        };
        self.connection.state = ConnectionState::Content(Box::new(RequestContent::new(content_plan, self.now)));
    }

    fn respond_early(&mut self, response: Response) {
        self.respond(response);
        if self.connection.is_open && !self.connection.is_blocked() {
            self.connection.state = ConnectionState::Drained;
            self.set_deadline(self.now + self.pressure.slow_timeout(self.shared.settings.limits.body_timeout));
        }
    }

    fn handle_content(&mut self, bytes: &[u8]) {
        let ConnectionState::Content(mut exchange) =
            std::mem::replace(&mut self.connection.state, ConnectionState::Idle)
        else {
            return;
        };
        exchange.progress.add(self.now, bytes.len());
        let is_long = exchange.progress.bytes > self.shared.settings.limits.drain_bytes_max;
        match exchange.content_plan {
            // Too much content to drain: respond now.
            ContentPlan::Hold(response, _) if is_long => return self.respond_early(response),
            ContentPlan::Hold(..) => {}
            ContentPlan::Echo(ref mut echo) => self.echo(echo, bytes),
        }
        self.connection.state = ConnectionState::Content(exchange);
    }

    fn handle_end(&mut self) {
        let ConnectionState::Content(exchange) = std::mem::replace(&mut self.connection.state, ConnectionState::Idle)
        else {
            return;
        };
        match exchange.content_plan {
            ContentPlan::Hold(response, delay) if delay.is_zero() => self.respond(response),
            ContentPlan::Hold(response, delay) => self.delay(response, delay),
            ContentPlan::Echo(echo) if echo.has_begun => self.end_echo(&echo),
            ContentPlan::Echo(Echo { lines, held, .. }) => {
                self.respond(Response { extra: lines, body: Body::Bytes(held.into()), ..Response::empty(200) });
            }
        }
    }
}
