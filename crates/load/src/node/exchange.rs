//! Requests and responses on an open connection.

use std::time::Duration;

use breme_base::{Instant, Random};
use breme_http::{Method, ResponseHead};
use breme_http1::{ClientProgress, FieldStorage, WholeResponse};
use breme_load_plan::{Expectations, Inputs, Plan, Request, Scenarios, Step};
use breme_node::{Actions, ConnectionId, Received};

use super::connections::Loss;
use super::shard::{Load, Phase};
use crate::cache_use::CacheUse;
use crate::error_kind::ErrorKind;
use crate::redirect::is_redirect;
use crate::send::{Sent, Variables, send};
use crate::session::Session;
use crate::user::User;
use crate::versions::Mark;
use crate::window::Slot;

/// The result of reading a connection's input.
pub(super) enum Reading {
    /// All was read; the connection remains.
    Idle,
    /// The connection no longer belongs to the user.
    Lost,
}

/// The result of one step of reading.
enum ReadStep {
    /// This many bytes; the response continues.
    Taken(usize),
    /// More bytes are needed; these were used.
    NeedMore(usize),
    /// The end of a response.
    Answered {
        taken: usize,
        keep_alive: bool,
    },
    Lost(Loss),
}

impl Load {
    /// Takes the next request for a user of a closed loop, if there is one.
    #[inline]
    pub(super) fn take_next(&mut self, index: u32) -> bool {
        if self.run.plan().scenarios().is_some() {
            return self.take_next_step(index);
        }
        if self.open.is_some() {
            return false; // there the requests look for users
        }
        let Some(ordinal) = self.claim() else { return false };
        let user = &mut self.users[index as usize];
        user.set_host(self.run.plan().target_host(ordinal));
        user.window.push(Slot::new(ordinal, user.wants));
        true
    }

    /// The number of the next request; none if the run sends no more.
    pub(super) fn claim(&mut self) -> Option<u64> {
        if self.phase != Phase::Running {
            return None;
        }
        if self.claims.is_empty() {
            self.claims = self.run.claim();
        }
        self.claims.next()
    }

    /// Fills the user's window, as far as there are requests.
    pub(super) fn refill(&mut self, now: Instant, index: u32, connection: ConnectionId, actions: &mut Actions) {
        while !self.users[index as usize].window.is_full() && self.take_next(index) {
            let user = &self.users[index as usize];
            if user.is_elsewhere() {
                return self.change_host(now, index, connection, actions);
            }
            let (place, could_send) = (user.window.len() - 1, user.ready.max(user.wants));
            self.note_lateness(now.since(could_send));
            self.send(now, index, place, connection, actions);
        }
        self.watch(now, index, actions);
    }

    /// Sets the timer for the oldest request; without requests there is nothing more to do.
    pub(super) fn watch(&mut self, now: Instant, index: u32, actions: &mut Actions) {
        let timeout = self.run.plan().settings().timeout;
        let may_rest = self.open.is_some() && !self.is_ending();
        match self.users[index as usize].window.oldest() {
            Some(oldest) => self.timers.set(index, oldest.sent + timeout),
            None if may_rest => self.timers.clear(index),
            None => self.retire(now, index, actions),
        }
    }

    #[inline]
    pub(super) fn send(
        &mut self,
        now: Instant,
        index: u32,
        place: usize,
        connection: ConnectionId,
        actions: &mut Actions,
    ) {
        if self.open.is_none() {
            self.account_sending(now, index, place);
        }
        let user = &mut self.users[index as usize];
        let host = user.host();
        let Some(slot) = user.window.get_mut(place) else { return };
        let (is_again, due, ordinal) = (slot.was_sent(), slot.due, slot.ordinal);
        let redirected = user.redirects.as_ref().and_then(|redirects| redirects.request());
        let sent = if redirected.is_some() { slot.sent } else { now };
        *slot = Slot { sent, first: Instant::FAR, accounted: now, ..*slot };
        let plan = self.run.plan();
        // Its own stream: its random values depend on its number, not on the thread that sends it.
        let mut random = Random::stream(plan.settings().seed, ordinal);
        let (request, (inputs, pairs)) = match &mut user.session {
            None => {
                let inputs = Inputs { sequence: ordinal + 1, session: 0, random: &mut random, values: &[] };
                (redirected.unwrap_or_else(|| plan.request(ordinal)), (inputs, None))
            }
            Some(session) => {
                session.since = session.since.min(due);
                let step = step(plan, session);
                (plan.step_request(session.step, host), session.inputs(ordinal + 1, step))
            }
        };
        user.protocol.sent(request.method());
        let variables = Variables {
            inputs,
            scratch: &mut self.scratch,
            jar: user.jar.as_deref_mut(),
            now,
            versions: self.run.versions(),
            pairs,
        };
        user.closes = request.closes();
        let Sent { bytes, mark } = send(request, connection, variables, actions);
        self.tally.bytes_sent += bytes as u64;
        if let Some(slot) = user.window.get_mut(place) {
            slot.mark = mark;
        }
        self.tally.resent += u64::from(is_again && redirected.is_none());
        self.tally.issued += u64::from(!is_again);
        self.tally.sent += u64::from(!is_again);
        if !is_again {
            self.note_step_sent(index);
        }
    }

    // receiving

    /// Reads the received responses. Returns the number of bytes taken.
    pub(super) fn read(
        &mut self,
        now: Instant,
        index: u32,
        connection: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> (usize, Reading) {
        let length = received.bytes.len();
        let mut rest = received.bytes;
        loop {
            self.note_first_byte(received.arrived_at, index, rest);
            let taken = match self.read_step(now, index, rest, received.ended) {
                ReadStep::Taken(taken) => taken,
                ReadStep::NeedMore(taken) if !received.ended => return (length - rest.len() + taken, Reading::Idle),
                ReadStep::NeedMore(_) => {
                    self.lose(now, index, connection, Loss::ClosedEarly, actions);
                    return (length, Reading::Lost);
                }
                ReadStep::Answered { taken, keep_alive } => {
                    let ended = received.ended && taken == rest.len();
                    let times = (now, received.arrived_at);
                    match self.follow_redirect(times, index, connection, (keep_alive, ended), actions) {
                        Some(Reading::Idle) if taken < rest.len() => {
                            rest = &rest[taken..];
                            continue;
                        }
                        Some(reading) => return (length, reading),
                        None => {}
                    }
                    self.complete_oldest(now, received.arrived_at, index);
                    if !keep_alive {
                        self.close_announced(now, index, connection, received.ended, actions);
                        return (length, Reading::Lost);
                    }
                    if self.has_left(index) {
                        self.leave_connection(now, index, connection, actions);
                        return (length, Reading::Lost);
                    }
                    if taken == rest.len() && !received.ended {
                        return (length, Reading::Idle);
                    }
                    taken
                }
                ReadStep::Lost(loss) => {
                    self.lose(now, index, connection, loss, actions);
                    return (length, Reading::Lost);
                }
            };
            rest = &rest[taken..];
        }
    }

    #[inline]
    fn note_first_byte(&mut self, came: Instant, index: u32, input: &[u8]) {
        if !input.is_empty()
            && let Some(oldest) = self.users[index as usize].window.oldest()
            && oldest.first == Instant::FAR
        {
            oldest.first = came;
        }
    }

    #[inline]
    fn read_step(&mut self, now: Instant, index: u32, input: &[u8], ended: bool) -> ReadStep {
        if let Some(answered) = self.read_whole(index, input) {
            return answered;
        }
        let user = &mut self.users[index as usize];
        let mut storage = FieldStorage::new();
        match user.protocol.receive(input, ended, &self.limits, &mut storage) {
            Ok(ClientProgress::NeedMore { taken }) => ReadStep::NeedMore(taken),
            Ok(ClientProgress::Interim { taken, .. } | ClientProgress::Trailer { taken, .. }) => ReadStep::Taken(taken),
            Ok(ClientProgress::Head { head, taken }) => {
                // A redirect that is followed is never read in one step, since its fields are needed.
                let is_followed = user.redirects.is_some() && is_redirect(head.status);
                if !user.wants_fields() && !is_followed {
                    user.protocol.record_head(&input[..taken], &head, &mut self.cached_head);
                }
                self.take_head(now, index, &head);
                ReadStep::Taken(taken)
            }
            Ok(ClientProgress::Content { bytes, taken }) => {
                user.response.content_bytes += bytes.len() as u64;
                if let Some(check) = &mut user.response.check {
                    expectations(self.run.plan(), user.session.as_deref()).feed(check, bytes);
                }
                if let Some(search) = &mut user.response.search {
                    search.feed(bytes);
                }
                if let Some(session) = &mut user.session {
                    session.take_content(step(self.run.plan(), session), user.response.status, bytes);
                }
                ReadStep::Taken(taken)
            }
            Ok(ClientProgress::End { taken, keep_alive }) => {
                ReadStep::Answered { taken, keep_alive: keep_alive && !user.closes }
            }
            // No request asks for an upgrade.
            Ok(ClientProgress::Switched { .. }) => ReadStep::Lost(Loss::Malformed),
            Ok(ClientProgress::Over) => ReadStep::Lost(Loss::Over),
            Err(error) => ReadStep::Lost(error.into()),
        }
    }

    /// Reads a response in one step, if its head is cached and its fields are not needed.
    #[inline]
    fn read_whole(&mut self, index: u32, input: &[u8]) -> Option<ReadStep> {
        let user = &mut self.users[index as usize];
        if user.wants_fields() {
            return None;
        }
        let WholeResponse { status, content, taken, keep_alive } =
            user.protocol.receive_whole(input, &self.cached_head)?;
        (user.response.status, user.response.content_bytes) = (status, content.len() as u64);
        if let Some(check) = &mut user.response.check {
            let expectations = &self.run.plan().settings().expectations;
            expectations.begin(check);
            expectations.feed(check, content);
        }
        Some(ReadStep::Answered { taken, keep_alive: keep_alive && !user.closes })
    }

    fn take_head(&mut self, now: Instant, index: u32, head: &ResponseHead<'_, '_>) {
        let user = &mut self.users[index as usize];
        user.response.status = head.status;
        user.response.content_bytes = 0;
        if let Some(redirects) = &mut user.redirects {
            redirects.note_head(head.status, head.fields.all("Location").next());
        }
        let read = match user.window.oldest().and_then(|oldest| oldest.mark) {
            Some(Mark::Read(page)) => Some(page),
            _ => None,
        };
        user.response.search = read.zip(self.run.versions()).map(|(page, versions)| Box::new(versions.search(page)));
        user.response.cache_use = user.counts_caches.then(|| CacheUse::from_fields(&head.fields));
        if let Some(check) = &mut user.response.check {
            expectations(self.run.plan(), user.session.as_deref()).begin(check);
        }
        if let Some(session) = &mut user.session {
            let step = step(self.run.plan(), session);
            session.take_head(step, &head.fields);
            if let Some(ids) = self.run.session_ids()
                && step.shows_pairs(head.status)
            {
                let is_shared = |cookie: &[u8]| ids.is_shared(cookie, session.number);
                if head.fields.all("Set-Cookie").any(is_shared) {
                    session.pairs.note_shared_id();
                }
            }
        }
        let host = user.host();
        if let Some(jar) = &mut user.jar {
            let (host, wall) = (&self.run.plan().hosts()[host].host, self.run.wall().at(now));
            head.fields.all("Set-Cookie").for_each(|value| jar.store(value, host, now, wall));
        }
    }

    /// The oldest request has its response, complete at `done`; it is read at `now`.
    #[inline]
    pub(super) fn complete_oldest(&mut self, now: Instant, done: Instant, index: u32) {
        let user = &mut self.users[index as usize];
        if user.window.is_full() {
            user.ready = done;
        }
        let Some(slot) = user.window.pop() else { return };
        user.failures = 0;
        self.account_response(slot, done, now);
        let service = done.nanos_since(slot.sent);
        if slot.due == slot.sent && slot.first == done {
            self.prompt.record(service);
        } else {
            self.interval.service.record(service);
            self.interval.response.record(done.nanos_since(slot.due));
            self.interval.first_byte.record(slot.first.nanos_since(slot.sent));
        }
        self.interval.answered += 1;
        let held = now.nanos_since(done);
        self.interval.held_ns += held;
        self.interval.held_max_ns = self.interval.held_max_ns.max(held);
        self.tally.answered += 1;
        self.tally.answered_late += u64::from(done > self.window_ends);
        let user = &mut self.users[index as usize];
        let (status, content_bytes) = (user.response.status, user.response.content_bytes);
        self.tally.content_bytes += content_bytes;
        self.tally.statuses.0[usize::from(status).min(999)] += 1;
        self.count_caches_and_versions(index, slot, done);
        self.end_redirects(index);
        if self.users[index as usize].session.is_some() {
            return self.complete_step(done, index, slot);
        }
        let user = &self.users[index as usize];
        let expectations = &self.run.plan().settings().expectations;
        let wrong = if !expectations.accepts_status(status) {
            Some(ErrorKind::Status)
        } else if !expectations.accepts_content(user.response.check.as_deref(), content_bytes) {
            Some(ErrorKind::Assertion)
        } else {
            None
        };
        match wrong {
            Some(kind) => self.note_wrong_response(index, kind, slot.due, done),
            None => self.note_success(index, slot.due, done),
        }
        self.release();
    }

    /// Counts a complete response by its cache status, and by the version that its request wrote or read.
    fn count_caches_and_versions(&mut self, index: u32, slot: Slot, done: Instant) {
        let user = &mut self.users[index as usize];
        if let Some(cache_use) = user.response.cache_use.take()
            && request(self.run.plan(), user, slot.ordinal).method() == Method::Get
        {
            self.tally.caches.add(cache_use);
        }
        let (Some(versions), Some(mark)) = (self.run.versions(), slot.mark) else { return };
        match mark {
            Mark::Write(written) if (200..400).contains(&user.response.status) => {
                versions.acknowledge(written, done);
                self.tally.versions.acknowledged += 1;
            }
            Mark::Read(page) if user.response.status == 200 => {
                let shown = user.response.search.take().and_then(|search| search.newest());
                self.tally.versions.add(versions.judge(page, shown, slot.sent));
            }
            _ => {}
        }
    }

    /// After a response: sends the next requests, or thinks.
    pub(super) fn go_on(&mut self, now: Instant, index: u32, connection: ConnectionId, actions: &mut Actions) {
        let user = &self.users[index as usize];
        if self.open.is_some() && !user.in_session() {
            return self.become_free(now, index, actions);
        }
        let is_empty = user.window.is_empty();
        match self.think(index) {
            Some(_) if !is_empty => self.watch(now, index, actions),
            Some(_) if self.is_exhausted() && !self.users[index as usize].in_session() => {
                self.retire_idle(now, actions);
            }
            Some(pause) if self.phase == Phase::Running => {
                let due = now + pause;
                self.begin_thinking(index, now, due);
                self.timers.set(index, due);
            }
            _ => {
                let user = &mut self.users[index as usize];
                (user.wants, user.ready) = (now, now);
                self.refill(now, index, connection, actions);
            }
        }
    }

    /// Whether nothing is left to claim: with `-n` the run ends with its last response, not with the last think time.
    pub(super) fn is_exhausted(&self) -> bool {
        self.open.is_none() && self.claims.is_empty() && self.run.is_claimed()
    }

    /// The think time after the last response.
    pub(super) fn think(&mut self, index: u32) -> Option<Duration> {
        if let Some(session) = &mut self.users[index as usize].session {
            return session.pause.take();
        }
        let think = self.run.plan().settings().think?;
        Some(think.draw(&mut self.random))
    }
}

/// The request whose response is being read.
fn request<'a>(plan: &'a Plan, user: &'a User, ordinal: u64) -> &'a Request {
    let session = user.session.as_ref();
    let redirected = user.redirects.as_ref().and_then(|redirects| redirects.request());
    match session {
        Some(session) => plan.step_request(session.step, user.host()),
        None => redirected.unwrap_or_else(|| plan.request(ordinal)),
    }
}

/// The step whose response is being read.
fn step<'a>(plan: &'a Plan, session: &Session) -> &'a Step {
    let steps = plan.scenarios().map_or(&[][..], Scenarios::steps);
    &steps[session.step]
}

fn expectations<'a>(plan: &'a Plan, session: Option<&Session>) -> &'a Expectations {
    session.map_or(&plan.settings().expectations, |session| &step(plan, session).expectations)
}
