//! Requests from their beginning to their end. Each stage is a type, so that none can be left out, and each may be
//! dropped at any time: then the machine learns what it must.

use std::fmt;
use std::time::Duration;

use breme_base::Instant;
use breme_session::{Change, ForwardResult, Input, NodeName, Outcome, Refusal, RequestNumber};
use bytes::Bytes;
use tokio::sync::{broadcast, oneshot};

use super::times::Stages;
use super::{Node, State};

/// What the machine says to a request.
#[derive(Debug)]
pub(super) enum Signal {
    Run(Bytes),
    Absent,
    Refuse { why: Refusal, retry_after: Duration },
    Forward { to: NodeName, address: String },
    Release(Outcome),
}

/// How far a request has come, as the machine sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Running,
    Held,
    Forwarded,
}

/// A request in the node's table.
pub(super) struct Entry {
    stage: Stage,
    since: Instant,
    next: Option<oneshot::Sender<Signal>>,
}

impl Entry {
    pub(super) fn new(next: oneshot::Sender<Signal>, since: Instant) -> Self {
        Self { stage: Stage::Waiting, since, next: Some(next) }
    }
}

impl State {
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
            Signal::Run(_) => entry.stage = Stage::Running,
            Signal::Forward { .. } => entry.stage = Stage::Forwarded,
            Signal::Absent | Signal::Refuse { .. } | Signal::Release(_) => {
                self.requests.remove(&request);
            }
        }
        if let Some(next) = next {
            // Whoever has gone tells when it is dropped, or has told.
            let _ = next.send(signal);
        }
    }

    /// The request goes on to its next stage, whose end is told to `next`.
    fn go_on(&mut self, request: RequestNumber, stage: Stage, next: oneshot::Sender<Signal>) {
        if let Some(entry) = self.requests.get_mut(&request) {
            *entry = Entry { stage, since: self.now, next: Some(next) };
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

    /// The request leaves the table; nothing if it has left before.
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
            // Its entry goes when it is released.
            Stage::Held => None,
            // Nobody wants the response; nothing is known of the other node.
            Stage::Forwarded => {
                self.requests.remove(&request);
                Some(Input::ForwardEnded { request, result: ForwardResult::Responded { by: None } })
            }
        }
    }
}

/// A request's place in the table.
pub(super) struct Place {
    node: Node,
    number: RequestNumber,
}

impl Place {
    pub(super) fn new(node: Node, number: RequestNumber) -> Self {
        Self { node, number }
    }

    /// Gives the machine `input`; the receiver tells what comes of it.
    fn step(&self, stage: Stage, input: Input) -> oneshot::Receiver<Signal> {
        let (signal, next) = oneshot::channel();
        self.node.0.take_in(|state| {
            state.go_on(self.number, stage, signal);
            Some(input)
        });
        next
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.node.0.take_in(|state| state.leave(self.number));
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "request {} of {:?}", self.number.0, self.node)
    }
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Turn {
    /// It runs here.
    Run(Running),
    /// There is no such session.
    Absent,
    /// It has not run: 503.
    Refused {
        /// Why.
        why: Refusal,
        /// For Retry-After.
        retry_after: Duration,
    },
    /// It is another node's.
    Forward(Forwarded),
    /// It was forwarded, and its end is not known.
    Ended(Outcome),
}

/// A request that waits for its turn.
#[derive(Debug)]
pub struct Waiting {
    place: Place,
    next: oneshot::Receiver<Signal>,
}

impl Waiting {
    pub(super) fn new(place: Place, next: oneshot::Receiver<Signal>) -> Self {
        Self { place, next }
    }

    /// What becomes of it.
    pub async fn turn(self) -> Turn {
        let Self { place, next } = self;
        match next.await {
            Ok(Signal::Run(body)) => Turn::Run(Running { place, body }),
            Ok(Signal::Absent) => Turn::Absent,
            Ok(Signal::Refuse { why, retry_after }) => Turn::Refused { why, retry_after },
            Ok(Signal::Forward { to, address }) => {
                let over = place.node.0.over.subscribe();
                Turn::Forward(Forwarded { place, to, address, over })
            }
            Ok(Signal::Release(outcome)) => Turn::Ended(outcome),
            // The machine has failed.
            Err(_) => Turn::Refused { why: Refusal::Busy, retry_after: place.node.settings().response_max },
        }
    }
}

/// A request that runs. If it is dropped, it has changed nothing.
#[derive(Debug)]
pub struct Running {
    place: Place,
    body: Bytes,
}

impl Running {
    /// What the session holds.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The request has ended, with this change; resolves when its response may leave, or must be replaced.
    ///
    /// The change is made at once, whether or not anybody awaits it.
    pub fn finish(self, change: Change) -> impl Future<Output = Outcome> + Send {
        let Self { place, .. } = self;
        let request = place.number;
        let released = place.step(Stage::Held, Input::Finish { request, change });
        async move {
            let signal = released.await;
            drop(place);
            match signal {
                Ok(Signal::Release(outcome)) => outcome,
                _ => Outcome::Unknown,
            }
        }
    }
}

/// A request that is to be sent to another node.
#[derive(Debug)]
pub struct Forwarded {
    place: Place,
    to: NodeName,
    address: String,
    over: broadcast::Receiver<NodeName>,
}

impl Forwarded {
    /// To which node.
    #[must_use]
    pub fn to(&self) -> NodeName {
        self.to
    }

    /// Where that is; empty if it is not known.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns when the other node's life has ended since. It may have left in order, with its response on the way.
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

    /// The other node has responded; the request ran on `by`, if that is known.
    pub fn responded(self, by: Option<NodeName>) {
        let request = self.place.number;
        let result = ForwardResult::Responded { by };
        self.place.node.0.take_in(|state| state.end(request).map(|()| Input::ForwardEnded { request, result }));
    }

    /// The other node has not responded: what becomes of the request now.
    #[must_use]
    pub fn failed(self, result: ForwardResult) -> Waiting {
        let request = self.place.number;
        let next = self.place.step(Stage::Waiting, Input::ForwardEnded { request, result });
        Waiting { place: self.place, next }
    }
}
