//! The origin server as a node: its connections, and the context of one event.

mod replay;
mod response;
mod timeouts;

use std::sync::Arc;
use std::time::Duration;

use breme_base::{Instant, Random};
use breme_http::{Framing, Method, Refusal, RefusalReason, RequestHead, Version};
use breme_http1::{FieldStorage, Progress};
use breme_node::{Accepted, Actions, Close, CloseReason, ConnectionId, Node, Pressure, Received, Shard};
use breme_server::{CachedDate, Connections, ServerShard, is_turn_over};
use bytes::Bytes;

use crate::connection::{ClientState, Connection, ContentPlan, Echo, RequestContent, RequestStage, wait_for_content};
use crate::counters::ShardCounts;
use crate::file_cache::RecentEntries;
use crate::held_content::HeldContent;
use crate::replay_cache::ResponseCache;
use crate::response::{Body, Response};
use crate::router::{RouteDecision, Router};
use crate::site::{Site, SiteState};

/// The node of one shard of a [`Site`].
#[derive(Debug)]
pub struct Origin {
    site: Arc<SiteState>,
    counts: Arc<ShardCounts>,
    connections: Connections<ClientState>,
    server: ServerShard,
    date: CachedDate,
    recent: RecentEntries,
    response_cache: ResponseCache,
    random: Random,
}

impl Site {
    /// The node of one shard.
    #[must_use]
    pub fn node(&self, shard: Shard) -> Origin {
        Origin::new(self.state.clone(), shard)
    }
}

impl Origin {
    fn new(site: Arc<SiteState>, shard: Shard) -> Self {
        let seed = site.settings.seed;
        let counts = site.counters.add_shard();
        Self {
            connections: Connections::default(),
            server: ServerShard::default(),
            date: CachedDate::new(site.clock.clone()),
            recent: RecentEntries::new(seed, counts.clone()),
            response_cache: ResponseCache::new(seed, site.settings.replay_cache_bytes_max),
            random: Random::stream(seed, shard.id.0 as u64),
            site,
            counts,
        }
    }

    /// The context of a connection; None if it is closed.
    fn context<'a>(&'a mut self, now: Instant, id: ConnectionId, actions: &'a mut Actions) -> Option<Context<'a>> {
        Some(Context {
            connection: self.connections.get_mut(id)?,
            site: &self.site,
            counts: &self.counts,
            server: &mut self.server,
            date: self.date.at(now),
            recent: &mut self.recent,
            response_cache: &mut self.response_cache,
            random: &mut self.random,
            now,
            actions,
            response_count: 0,
            content_bytes: 0,
        })
    }

    fn change_pressure(&mut self, now: Instant, change: impl FnOnce(&mut Pressure)) {
        let limits = &self.site.settings.limits;
        self.server.change_pressure(now, limits, self.connections.iter(), change);
        self.connections.iter().for_each(|connection| wait_for_content(&mut self.server, connection, limits));
    }
}

impl Node for Origin {
    fn handle_accepted(&mut self, now: Instant, id: ConnectionId, accepted: Accepted, actions: &mut Actions) {
        let is_secured = self.site.settings.secured_listeners.contains(&accepted.listener);
        let fields = self.site.settings.response_fields.clone();
        let connection = Connection::new(id, now, ClientState::new(is_secured)).with_response_fields(fields);
        self.connections.insert(connection);
        if let Some(mut context) = self.context(now, id, actions) {
            context.wait_for_more();
        }
    }

    fn handle_received(&mut self, now: Instant, id: ConnectionId, input: Received<'_>, actions: &mut Actions) -> usize {
        match self.context(now, id, actions) {
            Some(mut context) => context.receive(input),
            None => input.bytes.len(),
        }
    }

    fn handle_sent(&mut self, now: Instant, id: ConnectionId, unsent_bytes: u64, actions: &mut Actions) {
        if let Some(mut context) = self.context(now, id, actions) {
            context.handle_queue(unsent_bytes > 0);
        }
    }

    fn handle_closed(&mut self, _now: Instant, id: ConnectionId, reason: CloseReason, _actions: &mut Actions) {
        if let Some(connection) = self.connections.remove(id) {
            self.server.handle_closed(&connection, reason, &self.counts.evicted);
        }
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        if self.server.pressure.rises_at().is_some_and(|at| at <= now) {
            self.change_pressure(now, Pressure::rise);
        }
        while let Some(key) = self.server.timers.pop_due(now) {
            if let Some(id) = self.connections.id_of(key)
                && let Some(mut context) = self.context(now, id, actions)
            {
                context.handle_deadline();
            }
        }
    }

    fn handle_pressure(&mut self, now: Instant, is_high: bool, _actions: &mut Actions) {
        self.change_pressure(now, |pressure| pressure.set(now, is_high));
    }

    fn handle_stopping(&mut self, now: Instant, actions: &mut Actions) {
        self.server.stop(self.site.settings.stopping_linger);
        let ids: Vec<ConnectionId> = self.connections.iter().map(|connection| connection.id).collect();
        for id in ids {
            if let Some(mut context) = self.context(now, id, actions) {
                context.wait_for_more();
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.server.next_deadline()
    }
}

/// The connection of an event, and what its handling needs.
struct Context<'a> {
    connection: &'a mut Connection,
    site: &'a SiteState,
    counts: &'a ShardCounts,
    server: &'a mut ServerShard,
    date: &'a CachedDate,
    recent: &'a mut RecentEntries,
    response_cache: &'a mut ResponseCache,
    random: &'a mut Random,
    now: Instant,
    actions: &'a mut Actions,
    /// Responses completed in this call.
    response_count: u64,
    /// Body bytes sent in this call.
    content_bytes: u64,
}

/// Receiving.
impl Context<'_> {
    /// Serves requests, up to the limits of one call. Returns the number of bytes consumed.
    fn receive(&mut self, received: Received<'_>) -> usize {
        self.connection.begin_receiving(&received);
        if self.connection.state.is_blocked() {
            return 0;
        }
        let length = received.bytes.len();
        let mut taken = 0;
        loop {
            let input = &received.bytes[taken..];
            taken += match self.replay(input) {
                Some(replayed) => replayed,
                None => self.step(input),
            };
            if !self.connection.is_open {
                return length;
            }
            if self.connection.state.is_blocked() {
                return taken;
            }
            if self.connection.needs_more {
                break;
            }
            let limits = &self.site.settings.limits;
            if self.connection.has_pending && is_turn_over(self.response_count, self.content_bytes, limits) {
                self.actions.resume(self.connection.id);
                break;
            }
        }
        self.wait_for_more();
        taken
    }

    /// Parses and handles one item of `input`. Returns the number of bytes consumed.
    fn step(&mut self, input: &[u8]) -> usize {
        let mut storage = FieldStorage::new();
        let progress = self.connection.receive(input, &self.site.settings.limits, &mut storage);
        let taken = progress.as_ref().map_or(0, Progress::taken);
        match progress {
            Ok(Progress::Head { head, .. }) => self.handle_head(&head, &input[..taken]),
            Ok(Progress::Content { bytes, .. }) => self.handle_content(bytes),
            // Trailers are not used.
            Ok(Progress::Trailer { .. }) => {}
            Ok(Progress::End { .. }) => self.handle_end(),
            Ok(Progress::NeedMore { .. }) if self.connection.has_ended => self.close(Close::Graceful),
            Ok(Progress::NeedMore { .. } | Progress::Blocked) => {}
            Ok(Progress::Over) => self.close(Close::Graceful),
            Err(refusal) => self.refuse(refusal),
        }
        taken
    }

    fn take_stage(&mut self) -> RequestStage {
        std::mem::replace(&mut self.connection.state.stage, RequestStage::None)
    }

    fn begin_request(&mut self, version: Version) {
        self.connection.begin_exchange();
        self.connection.state.version = Some(version);
        if std::mem::take(&mut self.connection.state.has_pipelined) {
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
            site: self.site,
            recent: self.recent,
            random: self.random,
            now: self.now,
            wall: self.date.second(),
            is_secured: self.connection.state.is_secured,
        };
        let decision = router.route(head);
        if head.has_content() && !is_reading {
            return self.expect_content(head, decision);
        }
        if head.has_content() {
            // RFC 9110, 9.3.1: content of GET has no meaning and may hide a request from a proxy in front. So it is
            // neither awaited nor read, and nothing after it is parsed as a request.
            self.connection.http.close_after_response();
        }
        match decision {
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
    fn expect_content(&mut self, head: &RequestHead<'_, '_>, decision: RouteDecision) {
        let length = match head.framing {
            Framing::Length(length) => Some(length),
            _ => None,
        };
        let is_long = length.is_some_and(|length| length > self.site.settings.limits.drain_bytes_max);
        let content_plan = match decision {
            RouteDecision::Echo(lines) => {
                // Not needed if content arrives with the head (RFC 9110, 10.1.1).
                if !self.connection.has_pending {
                    self.connection.http.send_continue(self.actions.send(self.connection.id));
                }
                let held = HeldContent::new(self.site.held_bytes.clone());
                ContentPlan::Echo(Echo { lines, length, held, has_begun: false })
            }
            RouteDecision::Response(response) if head.expects_continue || is_long => {
                return self.respond(response);
            }
            RouteDecision::Delay(response, _) if head.expects_continue || is_long => {
                return self.respond(response);
            }
            RouteDecision::Response(response) => ContentPlan::Hold(response, Duration::ZERO),
            RouteDecision::Delay(response, delay) => ContentPlan::Hold(response, delay),
        };
        self.connection.state.stage = RequestStage::Content(Box::new(RequestContent::new(content_plan, self.now)));
    }

    fn handle_content(&mut self, bytes: &[u8]) {
        let RequestStage::Content(mut content) = self.take_stage() else { return };
        content.progress.add(self.now, bytes.len());
        let is_long = content.progress.bytes > self.site.settings.limits.drain_bytes_max;
        match content.content_plan {
            // Too much content to drain: respond now.
            ContentPlan::Hold(response, _) if is_long => return self.respond(response),
            ContentPlan::Hold(..) => {}
            ContentPlan::Echo(ref mut echo) => self.echo(echo, bytes),
        }
        self.connection.state.stage = RequestStage::Content(content);
    }

    fn handle_end(&mut self) {
        let RequestStage::Content(content) = self.take_stage() else { return };
        match content.content_plan {
            ContentPlan::Hold(response, delay) if delay.is_zero() => self.respond(response),
            ContentPlan::Hold(response, delay) => self.delay(response, delay),
            ContentPlan::Echo(echo) if echo.has_begun => self.end_echo(&echo),
            ContentPlan::Echo(Echo { lines, held, .. }) => {
                let body = Body::Bytes(Bytes::from_owner(held));
                self.respond(Response { extra: lines, body, ..Response::empty(200) });
            }
        }
    }
}
