//! The life of a request, from arrival to response.

use breme_base::Instant;

use super::Machine;
use super::agenda::Timer;
use super::messages::{Access, Moment, Outcome, Output, Refusal, RequestNumber, SessionTarget};
use super::sessions::{Phase, Session};
use super::tenure::Snapshot;
use crate::id::SessionKey;

#[derive(Clone, Debug, Hash)]
pub(crate) struct Request {
    pub(crate) session: SessionKey,
    pub(crate) is_new: bool,
    pub(crate) access: Access,
    pub(crate) hops: u8,
    pub(crate) stage: Stage,
    deadline: Instant,
    /// When it stops waiting to run.
    pub(crate) waits_until: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// In its session's queue.
    Waiting,
    Running(Snapshot),
    Held,
    Forwarded(crate::name::NodeName),
}

impl Machine {
    pub(crate) fn begin(&mut self, at: Moment, number: RequestNumber, target: SessionTarget, access: Access, hops: u8) {
        self.statistics.requests += 1;
        let (key, is_new) = match target {
            SessionTarget::Existing(key) => (key, false),
            SessionTarget::New(key) => (key, true),
        };
        if self.requests.len() >= self.settings.requests_max
            || self.requests.contains_key(&number)
            || !self.has_place(&key, is_new)
        {
            self.refuse_unknown(number);
            return;
        }
        let deadline = at.now + self.settings.wait_max;
        let request =
            Request { session: key, is_new, access, hops, stage: Stage::Waiting, deadline, waits_until: deadline };
        self.requests.insert(number, request);
        self.agenda.set(Timer::Request(number), Instant::FAR, deadline);
        let session = self.sessions.entry(key).or_insert_with(|| Session::new(is_new));
        session.queue.push_back(number);
        // The forwarding node believes that this node is the owner, which may be true by now.
        if hops > 0 && matches!(session.phase, Phase::Elsewhere { .. }) {
            self.set_phase(key, Phase::Unread);
        }
        self.advance(at, key);
    }

    /// Whether the session is or fits in memory and has room for another request.
    fn has_place(&mut self, key: &SessionKey, is_new: bool) -> bool {
        match self.sessions.get(key) {
            Some(session) => !is_new && session.request_count() < self.settings.session_requests_max,
            None => self.makes_room(),
        }
    }

    pub(crate) fn abandon(&mut self, at: Moment, number: RequestNumber) {
        if self.requests.get(&number).is_some_and(|request| request.stage == Stage::Waiting) {
            self.stop_waiting(at, number);
            self.forget(number);
        }
    }

    /// Takes a request out of its session's queue. A session for which nothing waits any more may leave memory.
    fn stop_waiting(&mut self, at: Moment, number: RequestNumber) {
        let Some(key) = self.requests.get(&number).map(|request| request.session) else { return };
        if let Some(session) = self.sessions.get_mut(&key) {
            session.queue.retain(|waiting| *waiting != number);
        }
        self.advance(at, key);
    }

    pub(crate) fn ring_request(&mut self, at: Moment, number: RequestNumber) {
        let Some(request) = self.requests.get_mut(&number) else { return };
        request.deadline = Instant::FAR;
        match request.stage {
            Stage::Waiting => {
                self.stop_waiting(at, number);
                self.refuse(number, Refusal::Timeout);
            }
            Stage::Held => self.give_up_held(number),
            Stage::Running(_) | Stage::Forwarded(_) => {}
        }
    }

    pub(crate) fn set_stage(&mut self, number: RequestNumber, stage: Stage, deadline: Instant) {
        if let Some(request) = self.requests.get_mut(&number) {
            request.stage = stage;
            self.agenda.set(Timer::Request(number), request.deadline, deadline);
            request.deadline = deadline;
        }
    }

    pub(crate) fn forget(&mut self, number: RequestNumber) -> Option<Request> {
        let request = self.requests.remove(&number)?;
        self.agenda.set(Timer::Request(number), request.deadline, Instant::FAR);
        Some(request)
    }

    fn refuse_unknown(&mut self, request: RequestNumber) {
        self.statistics.refused += 1;
        let retry_after = self.settings.response_max;
        self.outputs.push(Output::Refuse { request, why: Refusal::Busy, retry_after });
    }

    pub(crate) fn refuse(&mut self, request: RequestNumber, why: Refusal) {
        self.statistics.refused += 1;
        self.forget(request);
        let retry_after = self.settings.response_max;
        self.outputs.push(Output::Refuse { request, why, retry_after });
    }

    pub(crate) fn release(&mut self, request: RequestNumber, outcome: Outcome) {
        match outcome {
            Outcome::Done => self.statistics.done += 1,
            Outcome::NotDone | Outcome::TooLarge => self.statistics.not_done += 1,
            Outcome::Unknown => self.statistics.unknown += 1,
        }
        self.forget(request);
        self.outputs.push(Output::Release { request, outcome });
    }

    /// There is no such session: ends the requests that wait for it, and removes it.
    pub(crate) fn end_absent(&mut self, key: SessionKey) {
        for request in self.take_queue(key) {
            self.statistics.absent += 1;
            self.forget(request);
            self.outputs.push(Output::Absent { request });
        }
        self.remove_session(key);
    }

    pub(crate) fn take_queue(&mut self, key: SessionKey) -> std::collections::VecDeque<RequestNumber> {
        self.sessions.get_mut(&key).map(|session| std::mem::take(&mut session.queue)).unwrap_or_default()
    }
}
