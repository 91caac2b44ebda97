//! Sessions: users that perform the steps of a scenario.
//!
//! A user in a session has its own next request, in an open loop too: that of the next step, after the think time. A
//! step without a response, or whose response lacks a value to be captured, ends the session; one with an unexpected
//! response does not.

use breme_base::Instant;
use breme_load_plan::Scenarios;

use super::shard::Load;
use crate::error_kind::ErrorKind;
use crate::window::Slot;

impl Load {
    /// Takes the user's next step, of its session or (in a closed loop) of a new one.
    pub(super) fn take_next_step(&mut self, index: u32) -> bool {
        if self.is_ending() {
            return false;
        }
        let user = &self.users[index as usize];
        let user_wants = user.wants;
        let due = if user.in_session() {
            user_wants
        } else {
            if self.open.is_some() {
                return false; // there the sessions look for users
            }
            let Some(number) = self.claim() else { return false };
            self.begin_session(index, number);
            user_wants
        };
        let spread = self.run.plan().settings().spread;
        self.users[index as usize].choose_host(spread);
        let ordinal = self.next_sequence();
        self.users[index as usize].window.push(Slot::new(ordinal, due));
        true
    }

    pub(super) fn next_sequence(&mut self) -> u64 {
        if self.sequence.is_empty() {
            self.sequence = self.run.claim_sequence();
        }
        self.sequence.next().unwrap_or_default()
    }

    /// A new session is a new user without state of the previous one.
    pub(super) fn begin_session(&mut self, index: u32, number: u64) {
        let user = &mut self.users[index as usize];
        let plan = self.run.plan();
        if let (Some(scenarios), Some(session)) = (plan.scenarios(), &mut user.session) {
            session.begin(scenarios, number, plan.settings().seed);
            self.tally.sessions[session.scenario].begun += 1;
        }
        if let Some(jar) = &mut user.jar {
            jar.clear();
        }
    }

    /// The response of the user's step is complete: checks it, and advances.
    pub(super) fn complete_step(&mut self, now: Instant, index: u32, slot: Slot) {
        match self.judge_step(now, index, slot) {
            Some(kind) => {
                self.note_wrong_response(index, kind, slot.due, now);
                self.note_step_error(index, kind);
            }
            None => self.note_success(index, slot.due, now),
        }
        match &self.users[index as usize].session {
            Some(session) if session.has_all() => self.go_to_next_step(now, index),
            _ => self.end_session_early(index),
        }
    }

    /// The error in the response, if any.
    fn judge_step(&mut self, now: Instant, index: u32, slot: Slot) -> Option<ErrorKind> {
        let user = &mut self.users[index as usize];
        let session = user.session.as_mut()?;
        let step = &self.run.plan().scenarios()?.steps()[session.step];
        let tally = &mut self.tally.steps[step.name];
        tally.answered += 1;
        tally.service.record(now.nanos_since(slot.sent));
        tally.response.record(now.nanos_since(slot.due));
        session.pause = step.think.map(|think| think.draw(&mut session.random));
        let is_json_right = session.take_end(step);
        let response = &user.response;
        let shows_pairs =
            if step.checks_pairs { self.tally.pairs.add_response(&mut session.pairs, response.status) } else { true };
        if !step.expectations.accepts_status(response.status) {
            Some(ErrorKind::Status)
        } else if !shows_pairs
            || !is_json_right
            || !step.expectations.accepts_content(response.check.as_deref(), response.content_bytes)
        {
            Some(ErrorKind::Assertion)
        } else {
            (!session.has_all()).then_some(ErrorKind::Capture)
        }
    }

    fn go_to_next_step(&mut self, now: Instant, index: u32) {
        let (Some(scenarios), Some(session)) = (self.run.plan().scenarios(), &mut self.users[index as usize].session)
        else {
            return;
        };
        if session.advance(scenarios) {
            return;
        }
        session.is_active = false;
        self.tally.pairs.add_end(&mut session.pairs);
        let tally = &mut self.tally.sessions[session.scenario];
        if session.since != Instant::FAR {
            tally.times.record(now.nanos_since(session.since));
        }
        *(if session.has_failed { &mut tally.failed } else { &mut tally.completed }) += 1;
        self.release();
    }

    fn note_step_error(&mut self, index: u32, kind: ErrorKind) {
        let Some(name) = self.step_name(index) else { return };
        self.tally.steps[name].errors[kind as usize] += 1;
        if let Some(session) = &mut self.users[index as usize].session {
            session.has_failed = true;
        }
    }

    /// The user's request has no response. Its session ends, unless it is to show what became of its pairs.
    pub(super) fn break_off(&mut self, index: u32, kind: ErrorKind) {
        self.note_step_error(index, kind);
        let user = &mut self.users[index as usize];
        let step = user.step().zip(self.run.plan().scenarios()).map(|(step, scenarios)| &scenarios.steps()[step]);
        match (&mut user.session, step) {
            (Some(session), Some(step)) if step.checks_pairs && step.captures.is_empty() => {
                self.tally.pairs.0.unknown += u64::from(session.pairs.end_unacknowledged());
                self.go_to_next_step(self.last_seen, index);
            }
            _ => self.end_session_early(index),
        }
    }

    /// Whether its session has ended, and the next one needs a new connection.
    #[inline]
    pub(super) fn has_left(&self, index: u32) -> bool {
        let wants_new = self.run.plan().scenarios().is_some_and(Scenarios::has_new_connections);
        wants_new && !self.users[index as usize].in_session()
    }

    fn end_session_early(&mut self, index: u32) {
        if let Some(session) = &mut self.users[index as usize].session {
            session.is_active = false;
            session.pause = None;
            self.tally.pairs.add_end(&mut session.pairs);
            self.tally.sessions[session.scenario].failed += 1;
        }
        self.release();
    }

    /// The run ends before the session does.
    pub(super) fn leave_session(&mut self, index: u32) {
        if let Some(session) = &mut self.users[index as usize].session
            && std::mem::take(&mut session.is_active)
        {
            self.tally.pairs.add_end(&mut session.pairs);
            self.release();
        }
    }

    #[inline]
    pub(super) fn note_step_sent(&mut self, index: u32) {
        if let Some(name) = self.step_name(index) {
            self.tally.steps[name].sent += 1;
        }
    }

    /// A time-out is recorded at its limit.
    pub(super) fn note_step_timeout(&mut self, index: u32, service_ns: u64, response_ns: u64) {
        if let Some(name) = self.step_name(index) {
            self.tally.steps[name].service.record(service_ns);
            self.tally.steps[name].response.record(response_ns);
        }
    }

    #[inline]
    fn step_name(&self, index: u32) -> Option<usize> {
        let step = self.users[index as usize].step()?;
        Some(self.run.plan().scenarios()?.steps()[step].name)
    }
}
