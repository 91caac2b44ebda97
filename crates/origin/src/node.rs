//! The origin server as a node: its connections, their deadlines, and the turn that serves one of them.

mod answering;
mod repeating;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use breme_base::{Instant, Random, Timers};
use breme_http1::{FieldStorage, Framing, Method, Progress, Refusal, RefusalReason, RequestHead, Version};
use breme_node::{Accepted, Actions, Close, CloseReason, ConnectionId, Node, Pressure, Received, Shard};

use crate::answer::{Answer, Body};
use crate::connection::{Connection, ContentExchange, Echo, Plan, Waiting};
use crate::counters::ShardCounts;
use crate::date::DateLine;
use crate::familiar::Familiar;
use crate::file_cache::Recent;
use crate::router::{Reaction, Router};
use crate::shared::Shared;

/// Content that one connection may hand over in one turn before others have theirs.
const TURN_CONTENT_BYTES_MAX: u64 = 1024 * 1024;

/// The node of one shard of a [`Site`](crate::Site).
#[derive(Debug)]
pub struct Origin {
    shared: Arc<Shared>,
    counts: Arc<ShardCounts>,
    connections: Vec<Option<Connection>>,
    timers: Timers,
    date: DateLine,
    recent: Recent,
    familiar: Familiar,
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
            recent: Recent::new(seed, counts.clone()),
            familiar: Familiar::new(seed, shared.settings.replay_cache_bytes_max),
            random: Random::stream(seed, shard.id.0 as u64),
            pressure: Pressure::default(),
            is_stopping: false,
            shared,
            counts,
        }
    }

    /// What is needed to serve one connection; none if it is gone or has been closed by us.
    fn turn<'a>(&'a mut self, now: Instant, index: usize, actions: &'a mut Actions) -> Option<Turn<'a>> {
        let connection = self.connections.get_mut(index)?.as_mut().filter(|connection| connection.is_open)?;
        self.date.advance(now);
        Some(Turn {
            id: connection.id,
            connection,
            shared: &self.shared,
            counts: &self.counts,
            timers: &mut self.timers,
            date: &self.date,
            recent: &mut self.recent,
            familiar: &mut self.familiar,
            random: &mut self.random,
            pressure: &mut self.pressure,
            is_stopping: self.is_stopping,
            now,
            actions,
            answered_count: 0,
            content_bytes: 0,
        })
    }

    fn turn_of<'a>(&'a mut self, now: Instant, id: ConnectionId, actions: &'a mut Actions) -> Option<Turn<'a>> {
        self.turn(now, id.index(), actions).filter(|turn| turn.id == id)
    }

    /// Lets each client wait for as long as the new pressure allows, counted from when its wait began. A client that
    /// has sent nothing is idle since it connected: browsers open spare connections, and a client that holds one
    /// without a request would otherwise hold it the longest.
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
            let place = match &connection.waiting {
                Waiting::Delay(_) | Waiting::Pattern { .. } => continue,
                _ if connection.queue_is_long => continue,
                Waiting::Content(exchange) => {
                    self.timers.set(key, exchange.deadline_in(&self.pressure, limits));
                    continue;
                }
                Waiting::Idle if self.is_stopping => continue,
                Waiting::Idle => 0,
                Waiting::Head => 1,
                Waiting::Drained => 2,
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
        if let Some(mut turn) = self.turn_of(now, id, actions) {
            turn.wait_for_request();
        }
    }

    fn handle_received(
        &mut self,
        now: Instant,
        id: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> usize {
        match self.turn_of(now, id, actions) {
            Some(mut turn) => turn.receive(received),
            None => received.bytes.len(),
        }
    }

    fn handle_sent(&mut self, now: Instant, id: ConnectionId, unsent_bytes: u64, actions: &mut Actions) {
        if let Some(mut turn) = self.turn_of(now, id, actions) {
            if unsent_bytes > 0 { turn.handle_queue_long() } else { turn.handle_queue_empty() }
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
            if let Some(mut turn) = self.turn(now, key as usize, actions) {
                turn.handle_deadline();
            }
        }
    }

    fn handle_pressure(&mut self, now: Instant, is_high: bool, _actions: &mut Actions) {
        self.change_pressure(now, |pressure| pressure.set(now, is_high));
    }

    fn handle_stopping(&mut self, now: Instant, actions: &mut Actions) {
        self.is_stopping = true;
        for index in 0..self.connections.len() {
            if let Some(mut turn) = self.turn(now, index, actions)
                && matches!(turn.connection.waiting, Waiting::Idle)
            {
                turn.wait_for_request();
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.timers.next().into_iter().chain(self.pressure.rises_at()).min()
    }
}

/// One event of one connection.
struct Turn<'a> {
    id: ConnectionId,
    connection: &'a mut Connection,
    shared: &'a Shared,
    counts: &'a ShardCounts,
    timers: &'a mut Timers,
    date: &'a DateLine,
    recent: &'a mut Recent,
    familiar: &'a mut Familiar,
    random: &'a mut Random,
    pressure: &'a mut Pressure,
    is_stopping: bool,
    now: Instant,
    actions: &'a mut Actions,
    answered_count: usize,
    /// Content handed over in this turn.
    content_bytes: u64,
}

/// What became of a step.
enum Step {
    /// It took so many bytes; there may be another.
    Taken(usize),
    /// It took so many bytes, and waits for more.
    Wait(usize),
}

/// Receiving.
impl Turn<'_> {
    /// Serves as many requests as are there, up to the turn's bounds. Tells how many bytes were taken.
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
            taken += match self.repeat(input) {
                Some(repeated) => repeated,
                None => match self.step(input, received.ended) {
                    Step::Taken(count) => count,
                    Step::Wait(count) => {
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

    /// One step of the requests in `input`, the usual way.
    fn step(&mut self, input: &[u8], ended: bool) -> Step {
        let mut storage = FieldStorage::new();
        let progress = self.connection.http.receive(input, ended, &self.shared.settings.limits, &mut storage);
        let taken = match &progress {
            Ok(
                Progress::NeedMore { taken }
                | Progress::Head { taken, .. }
                | Progress::Content { taken, .. }
                | Progress::Trailer { taken, .. }
                | Progress::End { taken },
            ) => *taken,
            Ok(Progress::Blocked | Progress::Over) | Err(_) => 0,
        };
        self.connection.has_pending = taken < input.len();
        match progress {
            Ok(Progress::Head { head, .. }) => self.handle_head(&head, &input[..taken]),
            Ok(Progress::Content { bytes, .. }) => self.handle_content(bytes),
            // None is of use here.
            Ok(Progress::Trailer { .. }) => {}
            Ok(Progress::End { .. }) => self.handle_end(),
            Ok(Progress::NeedMore { .. }) if ended => self.close(Close::Graceful),
            Ok(Progress::NeedMore { .. } | Progress::Blocked) => return Step::Wait(taken),
            Ok(Progress::Over) => self.close(Close::Graceful),
            Err(refusal) => self.refuse(refusal),
        }
        Step::Taken(taken)
    }

    fn is_turn_over(&self) -> bool {
        self.answered_count >= self.shared.settings.limits.pipeline_depth_max
            || self.content_bytes >= TURN_CONTENT_BYTES_MAX
    }

    fn begin_exchange(&mut self, version: Version) {
        self.connection.version = Some(version);
        if std::mem::take(&mut self.connection.is_next_here) {
            self.counts.pipelined.add();
        }
    }

    /// A request whose head is `bytes`.
    fn handle_head(&mut self, head: &RequestHead<'_, '_>, bytes: &[u8]) {
        self.begin_exchange(head.version);
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
            // RFC 9110, 9.3.1: it means nothing, and may be an attempt to hide a request from somebody in front. So
            // nothing of it is waited for or read, and nothing behind it is taken for a request.
            self.connection.http.close_after_response();
        }
        match reaction {
            Reaction::Answer(answer) => self.answer_and_learn(answer, head, bytes),
            Reaction::Delay(answer, delay) => self.delay(answer, delay),
            Reaction::Echo(lines) => {
                let echo = Answer { extra: lines, ..Answer::empty(200) };
                self.answer(echo);
            }
        }
    }

    /// A request with content is answered when all of it has come, so that malformed content is refused as such. But a
    /// client that asks first is answered at once, and nobody waits for content that is not wanted and long.
    fn expect_content(&mut self, head: &RequestHead<'_, '_>, reaction: Reaction) {
        let length = match head.framing {
            Framing::Length(length) => Some(length),
            _ => None,
        };
        let is_long = length.is_some_and(|length| length > self.shared.settings.limits.drain_bytes_max);
        let plan = match reaction {
            Reaction::Echo(lines) => {
                // Not needed if the content comes with its head (RFC 9110, 10.1.1).
                if !self.connection.has_pending {
                    self.connection.http.send_continue(self.actions.send(self.id));
                }
                Plan::Echo(Echo { lines, length, held: Vec::new(), has_begun: false })
            }
            Reaction::Answer(answer) if head.expects_continue || is_long => return self.answer_early(answer),
            Reaction::Delay(answer, _) if head.expects_continue || is_long => return self.answer_early(answer),
            Reaction::Answer(answer) => Plan::Hold(answer, Duration::ZERO),
            Reaction::Delay(answer, delay) => Plan::Hold(answer, delay),
        };
        self.connection.waiting = Waiting::Content(Box::new(ContentExchange::new(plan, self.now)));
    }

    fn answer_early(&mut self, answer: Answer) {
        self.answer(answer);
        if self.connection.is_open && !self.connection.is_blocked() {
            self.connection.waiting = Waiting::Drained;
            self.set_deadline(self.now + self.pressure.slow_timeout(self.shared.settings.limits.body_timeout));
        }
    }

    fn handle_content(&mut self, bytes: &[u8]) {
        let Waiting::Content(mut exchange) = std::mem::replace(&mut self.connection.waiting, Waiting::Idle) else {
            return;
        };
        exchange.last = self.now;
        exchange.bytes += bytes.len() as u64;
        let is_long = exchange.bytes > self.shared.settings.limits.drain_bytes_max;
        match exchange.plan {
            // More content than is read into nothing: answer now.
            Plan::Hold(answer, _) if is_long => return self.answer_early(answer),
            Plan::Hold(..) => {}
            Plan::Echo(ref mut echo) => self.echo(echo, bytes),
        }
        self.connection.waiting = Waiting::Content(exchange);
    }

    fn handle_end(&mut self) {
        let Waiting::Content(exchange) = std::mem::replace(&mut self.connection.waiting, Waiting::Idle) else { return };
        match exchange.plan {
            Plan::Hold(answer, delay) if delay.is_zero() => self.answer(answer),
            Plan::Hold(answer, delay) => self.delay(answer, delay),
            Plan::Echo(echo) if echo.has_begun => self.end_echo(&echo),
            Plan::Echo(Echo { lines, held, .. }) => {
                self.answer(Answer { extra: lines, body: Body::Bytes(held.into()), ..Answer::empty(200) });
            }
        }
    }
}
