//! The life of a request. Each stage is a type, so that none can be skipped, and each may be dropped at any time: then
//! the machine is notified.

use std::fmt;
use std::time::Duration;

use breme_base::Instant;
use breme_session::{
    Change, ForwardResult, Input, NodeName, Outcome, RanOn, Refusal, RequestNumber, SessionKey, SessionTarget,
};
use bytes::Bytes;
use tokio::sync::{broadcast, oneshot};

use super::times::Stages;
use super::{LockedState, Node};

/// An output of the machine for a request.
#[derive(Debug)]
pub(super) enum Signal {
    Run { body: Bytes, count: u64 },
    Absent,
    Refuse { why: Refusal, retry_after: Duration },
    Forward { to: NodeName, address: String },
    Release(Released),
}

/// The end of a request that ran here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    pub outcome: Outcome,
    /// This node goes on to own the session, under the id of the request. If not, the client may have got another id,
    /// or another node, in the response to a concurrent request.
    pub keeps_session: bool,
}

/// The stage of a request, from the machine's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Running,
    Held,
    Forwarded,
}

/// A request in the node's table.
pub(super) struct RequestEntry {
    session: SessionKey,
    stage: Stage,
    since: Instant,
    next: Option<oneshot::Sender<Signal>>,
}

impl RequestEntry {
    pub(super) fn new(target: SessionTarget, next: oneshot::Sender<Signal>, since: Instant) -> Self {
        let (SessionTarget::Existing(session) | SessionTarget::New(session)) = target;
        Self { session, stage: Stage::Waiting, since, next: Some(next) }
    }
}

impl LockedState {
    pub(super) fn release(&mut self, request: RequestNumber, outcome: Outcome) {
        let session = self.requests.get(&request).map(|entry| entry.session);
        let keeps_session = session.is_some_and(|session| self.machine.keeps(&session));
        self.signal(request, Signal::Release(Released { outcome, keeps_session }));
    }

    pub(super) fn signal(&mut self, request: RequestNumber, signal: Signal) {
        let Some(entry) = self.requests.get_mut(&request) else { return };
        let next = entry.next.take();
        let elapsed = self.now.since(entry.since);
        match entry.stage {
            Stage::Waiting => self.times.turn.record(elapsed),
            Stage::Held => self.times.hold.record(elapsed),
            Stage::Running | Stage::Forwarded => {}
        }
        match &signal {
            Signal::Run { .. } => entry.stage = Stage::Running,
            Signal::Forward { .. } => entry.stage = Stage::Forwarded,
            Signal::Absent | Signal::Refuse { .. } | Signal::Release(_) => {
                self.requests.remove(&request);
            }
        }
        if let Some(next) = next {
            // A waiter that is gone notifies the node when it is dropped, or has done so.
            let _ = next.send(signal);
        }
    }

    /// Moves the request to its next stage, whose end is reported to `next`.
    fn go_on(&mut self, request: RequestNumber, stage: Stage, next: oneshot::Sender<Signal>) {
        if let Some(entry) = self.requests.get_mut(&request) {
            *entry = RequestEntry { session: entry.session, stage, since: self.now, next: Some(next) };
        }
    }

    pub(super) fn stages(&self) -> Stages {
        let mut stages = Stages::default();
        for entry in self.requests.values() {
            *match entry.stage {
                Stage::Waiting => &mut stages.waiting,
                Stage::Running => &mut stages.running,
                Stage::Held => &mut stages.held,
                Stage::Forwarded => &mut stages.forwarded,
            } += 1;
        }
        stages
    }

    /// Removes the request from the table; none if it was removed before.
    fn end(&mut self, request: RequestNumber) -> Option<()> {
        self.requests.remove(&request).map(drop)
    }

    /// Nobody waits for the request any more.
    fn leave(&mut self, request: RequestNumber) -> Option<Input> {
        let entry = self.requests.get_mut(&request)?;
        match entry.stage {
            Stage::Waiting => {
                self.requests.remove(&request);
                Some(Input::Abandon { request })
            }
            Stage::Running => {
                entry.stage = Stage::Held;
                Some(Input::Finish { request, change: Change::Unchanged })
            }
            // Its entry is removed when it is released.
            Stage::Held => None,
            // The response is no longer needed; nothing is known about the other node.
            Stage::Forwarded => {
                self.requests.remove(&request);
                Some(Input::ForwardEnded { request, result: ForwardResult::Responded { by: None } })
            }
        }
    }
}

/// Holds the entry of a request in the table. Dropped early, it tells the machine that nobody waits any more.
pub(super) struct RequestGuard {
    node: Node,
    number: RequestNumber,
    /// The entry has been removed.
    is_over: bool,
}

impl RequestGuard {
    pub(super) fn new(node: Node, number: RequestNumber) -> Self {
        Self { node, number, is_over: false }
    }

    /// Passes `input` to the machine; the receiver gets the result.
    fn step(&self, stage: Stage, input: Input) -> oneshot::Receiver<Signal> {
        let (signal, next) = oneshot::channel();
        self.node.0.submit(|state| {
            state.go_on(self.number, stage, signal);
            Some(input)
        });
        next
    }

    /// Spares the node, whose machine has ended the request, a look for its entry.
    fn close(mut self) {
        self.is_over = true;
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        if !self.is_over {
            self.node.0.submit(|state| state.leave(self.number));
        }
    }
}

impl fmt::Debug for RequestGuard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "request {} of {:?}", self.number.0, self.node)
    }
}

/// The decision about a request.
#[derive(Debug)]
pub enum Turn {
    Run(Running),
    Absent,
    /// It has not run: 503.
    Refused {
        why: Refusal,
        retry_after: Duration,
    },
    /// Another node owns the session.
    Forward(Forwarded),
    /// It was forwarded, and its outcome is unknown.
    Ended(Outcome),
}

/// A request that waits for its turn.
#[derive(Debug)]
pub struct Waiting {
    guard: RequestGuard,
    next: oneshot::Receiver<Signal>,
}

impl Waiting {
    pub(super) fn new(guard: RequestGuard, next: oneshot::Receiver<Signal>) -> Self {
        Self { guard, next }
    }

    pub async fn turn(self) -> Turn {
        let Self { guard, next } = self;
        match next.await {
            Ok(Signal::Run { body, count }) => Turn::Run(Running { guard, body, count }),
            Ok(Signal::Absent) => {
                guard.close();
                Turn::Absent
            }
            Ok(Signal::Refuse { why, retry_after }) => {
                guard.close();
                Turn::Refused { why, retry_after }
            }
            Ok(Signal::Forward { to, address }) => {
                let over = guard.node.0.over.subscribe();
                Turn::Forward(Forwarded { guard, to, address, over })
            }
            Ok(Signal::Release(Released { outcome, .. })) => {
                guard.close();
                Turn::Ended(outcome)
            }
            // The machine has failed.
            Err(_) => Turn::Refused { why: Refusal::Busy, retry_after: guard.node.settings().response_max },
        }
    }
}

/// A running request. If it is dropped, it has changed nothing.
#[derive(Debug)]
pub struct Running {
    guard: RequestGuard,
    body: Bytes,
    count: u64,
}

impl Running {
    /// The content of the session.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Where it runs, for the node that has forwarded it.
    pub(crate) fn ran_on(&self) -> RanOn {
        RanOn { node: self.guard.node.name(), count: self.count }
    }

    /// Ends the request with this change; resolves when its response may be sent, or must be replaced.
    ///
    /// The change is applied at once, whether or not the future is awaited.
    pub fn finish(self, change: Change) -> impl Future<Output = Released> + Send {
        let Self { guard, .. } = self;
        let request = guard.number;
        let released = guard.step(Stage::Held, Input::Finish { request, change });
        async move {
            let Ok(Signal::Release(released)) = released.await else {
                return Released { outcome: Outcome::Unknown, keeps_session: false };
            };
            guard.close();
            released
        }
    }
}

/// A request to be sent to another node.
#[derive(Debug)]
pub struct Forwarded {
    guard: RequestGuard,
    to: NodeName,
    address: String,
    over: broadcast::Receiver<NodeName>,
}

impl Forwarded {
    #[must_use]
    pub fn to(&self) -> NodeName {
        self.to
    }

    /// Address of that node; empty if unknown.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns when the other node's life has ended since. It may have left in an orderly way, with its response in
    /// transit.
    pub async fn over(&mut self) {
        use broadcast::error::RecvError::{Closed, Lagged};
        loop {
            match self.over.recv().await {
                Ok(name) if name == self.to => return,
                Ok(_) | Err(Lagged(_)) => {}
                Err(Closed) => std::future::pending().await,
            }
        }
    }

    /// The other node has responded; the request ran on `by`, if known.
    pub fn responded(self, by: Option<RanOn>) {
        let Self { guard, .. } = self;
        let request = guard.number;
        let result = ForwardResult::Responded { by };
        guard.node.0.submit(|state| state.end(request).map(|()| Input::ForwardEnded { request, result }));
        guard.close();
    }

    /// The other node has not responded: continues with the request.
    #[must_use]
    pub fn failed(self, result: ForwardResult) -> Waiting {
        let request = self.guard.number;
        let next = self.guard.step(Stage::Waiting, Input::ForwardEnded { request, result });
        Waiting { guard: self.guard, next }
    }
}
