//! A node that serves sessions: the machine of `breme_session`, and the tasks that execute its outputs.
//!
//! One lock guards the machine and the table of waiting requests. An input is handled, and its outputs for requests are
//! delivered, under the lock, so that a dropped request always knows its stage. Requests to the engine and to other
//! nodes are tasks, whose responses are further inputs. One task calls the machine at its deadlines, one passes on the
//! changes reported by the engine's watch.
//!
//! A node lives as long as its handles; the tasks hold none. To the other nodes, one that is dropped without
//! [`Node::drain`] was killed.

mod requests;
mod times;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use breme_base::Instant;
use breme_session::{
    Access, Call, EngineRequest, EngineResponse, Event, Gauges, HandOverAnswer, HandOverRequest, Incarnation, Input,
    Machine, Moment, NodeName, NodeRecord, NodeState, Output, Register, RequestNumber, SessionTarget, Settings,
    SettingsError, Statistics,
};
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::{Notify, broadcast, oneshot, watch};
use tokio::time::{sleep, timeout};

use self::requests::{RequestEntry, RequestGuard, Signal};
use crate::clock;
use crate::engine::{Engine, NodeChange};
use crate::peers::{AddressError, Peers};

pub use self::requests::{Forwarded, Released, Running, Turn, Waiting};
pub use self::times::{Stages, Times};

/// Limit of the events queued for a slow reader; older ones are lost.
pub const EVENTS_MAX: usize = 1024;
/// Limit of other nodes' requests without a response; further ones are refused.
pub const QUESTIONS_MAX: usize = 65_536;
/// The timer's clock stops while the system is suspended, so the machine's clock is checked at least this often.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Pause between the end of a watch and the next.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// A handle of a node; copies share it.
#[derive(Clone)]
pub struct Node(Arc<NodeInner>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// Not yet, or not currently.
    Joining,
    /// In this life.
    Member(Incarnation),
    /// It has handed its sessions over and has left.
    Left,
}

struct NodeInner {
    state: Mutex<LockedState>,
    settings: Settings,
    name: NodeName,
    nonce: u64,
    engine: Arc<dyn Engine>,
    peers: Peers,
    runtime: Handle,
    wake: Arc<Notify>,
    membership: watch::Sender<Membership>,
    events: broadcast::Sender<Event>,
    is_draining: AtomicBool,
    /// Nodes whose lives have ended.
    over: broadcast::Sender<NodeName>,
}

struct LockedState {
    machine: Machine,
    /// Empty between inputs; keeps its memory.
    outputs: Vec<Output>,
    /// The machine's life, as last published.
    life: Option<Incarnation>,
    requests: HashMap<RequestNumber, RequestEntry>,
    /// Other nodes that wait for a response.
    questions: HashMap<Call, oneshot::Sender<HandOverAnswer>>,
    /// Number of the last request or call.
    last: u64,
    /// When the timer's task runs next.
    timer: Instant,
    /// Time of the current input.
    now: Instant,
    times: Times,
}

impl Node {
    /// Starts a node on tasks of the current runtime; it joins the cluster.
    ///
    /// # Errors
    ///
    /// If the settings contradict each other, sessions would be sent over a network in plain text, or the operating
    /// system has no random numbers.
    pub fn start(settings: Settings, name: NodeName, engine: Arc<dyn Engine>, peers: Peers) -> Result<Self, NodeError> {
        peers.parse_address(&settings.address)?;
        let nonce = getrandom::u64()?;
        let machine = Machine::new(settings.clone(), name, nonce)?;
        let state = LockedState {
            machine,
            outputs: Vec::new(),
            life: None,
            requests: HashMap::new(),
            questions: HashMap::new(),
            last: 0,
            timer: Instant::ZERO,
            now: Instant::ZERO,
            times: Times::default(),
        };
        let node = Self(Arc::new(NodeInner {
            state: Mutex::new(state),
            settings,
            name,
            nonce,
            engine: Arc::clone(&engine),
            peers,
            runtime: Handle::current(),
            wake: Arc::new(Notify::new()),
            membership: watch::Sender::new(Membership::Joining),
            events: broadcast::Sender::new(EVENTS_MAX),
            is_draining: AtomicBool::new(false),
            over: broadcast::Sender::new(EVENTS_MAX),
        }));
        tokio::spawn(keep_time(Arc::downgrade(&node.0), Arc::clone(&node.0.wake)));
        tokio::spawn(keep_watch(Arc::downgrade(&node.0), engine));
        Ok(node)
    }

    #[must_use]
    pub fn name(&self) -> NodeName {
        self.0.name
    }

    /// The nonce of its lives, by which a supervisor identifies its process ([`Node::exited`]).
    #[must_use]
    pub fn nonce(&self) -> u64 {
        self.0.nonce
    }

    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn peers(&self) -> &Peers {
        &self.0.peers
    }

    /// Begins a request for a session. It waits until the node has decided about it.
    #[must_use]
    pub fn begin(&self, session: SessionTarget, access: Access, hops: u8) -> Waiting {
        let (signal, wait) = oneshot::channel();
        let mut number = RequestNumber(0);
        self.0.submit(|state| {
            number = RequestNumber(state.number());
            state.requests.insert(number, RequestEntry::new(session, signal, state.now));
            Some(Input::Begin { request: number, session, access, hops })
        });
        Waiting::new(RequestGuard::new(self.clone(), number), wait)
    }

    /// Another node requests a session; returns the answer.
    pub(crate) async fn hand_over(&self, from: NodeName, question: HandOverRequest) -> HandOverAnswer {
        let (respond, response) = oneshot::channel();
        self.0.submit(|state| {
            if state.questions.len() >= QUESTIONS_MAX {
                return None;
            }
            // The other node's numbers restart with its process; these do not.
            let call = Call(state.number());
            state.questions.insert(call, respond);
            Some(Input::HandOverRequested { from, call, question })
        });
        response.await.unwrap_or(HandOverAnswer::Refused)
    }

    /// Reports that a supervisor has seen this process of a node exit: its sessions need not wait for its lease.
    pub fn exited(&self, node: NodeName, nonce: u64) {
        self.0.submit(|_| Some(Input::Exited { node, nonce }));
    }

    /// Begins to hand all sessions over. The node remains a member: it still serves sessions that no other node takes.
    pub fn drain(&self) {
        self.0.is_draining.store(true, Ordering::Relaxed);
        self.0.submit(|_| Some(Input::Drain));
    }

    /// Begins to hand all sessions over and to leave, completed at [`Membership::Left`]. Later requests are refused if
    /// no other node takes them, so a server should stop listening first.
    pub fn leave(&self) {
        self.0.is_draining.store(true, Ordering::Relaxed);
        self.0.submit(|_| Some(Input::Leave));
    }

    /// Whether it hands its sessions over, or has done so.
    pub(crate) fn is_draining(&self) -> bool {
        self.0.is_draining.load(Ordering::Relaxed)
    }

    /// The membership and its changes.
    #[must_use]
    pub fn membership(&self) -> watch::Receiver<Membership> {
        self.0.membership.subscribe()
    }

    pub async fn joined(&self) {
        // The sender lives as long as this node.
        let _ = self.membership().wait_for(|membership| matches!(membership, Membership::Member(_))).await;
    }

    /// Events for operators, from now on.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.0.events.subscribe()
    }

    /// Counters since the start.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.0.state.lock().map(|state| *state.machine.statistics()).unwrap_or_default()
    }

    /// Durations since the start.
    #[must_use]
    pub fn times(&self) -> Times {
        self.0.state.lock().map(|state| state.times).unwrap_or_default()
    }

    /// Requests by what they wait for.
    #[must_use]
    pub fn stages(&self) -> Stages {
        self.0.state.lock().map(|state| state.stages()).unwrap_or_default()
    }

    #[must_use]
    pub fn gauges(&self) -> Gauges {
        self.0.state.lock().map(|state| state.machine.gauges(clock::moment())).unwrap_or_default()
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Node({})", self.0.name)
    }
}

impl NodeInner {
    /// Passes the input from `prepare` to the machine, and executes its outputs.
    ///
    /// A machine that has panicked gets no more inputs: its lease expires, and other nodes take its sessions.
    fn submit(self: &Arc<Self>, prepare: impl FnOnce(&mut LockedState) -> Option<Input>) {
        let outputs = {
            let Ok(mut state) = self.state.lock() else { return };
            // The clock is read under the lock, so that moments never decrease.
            let moment = clock::moment();
            state.now = moment.now;
            let Some(input) = prepare(&mut state) else { return };
            let outputs = state.handle(moment, input);
            let deadline = state.deadline();
            if deadline < state.timer {
                state.timer = deadline;
                self.wake.notify_one();
            }
            self.note_membership(&mut state, &outputs);
            outputs
        };
        for output in outputs {
            self.execute(output);
        }
    }

    fn note_membership(&self, state: &mut LockedState, outputs: &[Output]) {
        let life = state.machine.incarnation();
        if life == state.life {
            return;
        }
        state.life = life;
        let has_left = outputs.contains(&Output::Event(Event::Left));
        self.membership.send_replace(match life {
            Some(incarnation) => Membership::Member(incarnation),
            None if has_left => Membership::Left,
            None => Membership::Joining,
        });
    }

    /// Executes an output that is not for a request or question of this node.
    fn execute(self: &Arc<Self>, output: Output) {
        let node = Arc::downgrade(self);
        match output {
            Output::Engine { ticket, request } => {
                let engine = Arc::clone(&self.engine);
                let is_commit = matches!(request, EngineRequest::CompareAndSet { register: Register::Session(_), .. });
                self.runtime.spawn(async move {
                    let sent = clock::moment().now;
                    let response = engine.execute(request).await;
                    let Some(node) = node.upgrade() else { return };
                    node.submit(|state| {
                        if is_commit && matches!(response, EngineResponse::Committed(_)) {
                            state.times.commit.record(state.now.since(sent));
                        }
                        Some(Input::Engine { ticket, response })
                    });
                });
            }
            Output::RequestHandOver { call, address, question, .. } => {
                let (peers, limit) = (self.peers.clone(), self.settings.response_max);
                self.runtime.spawn(async move {
                    // Without a response the machine reads the record again.
                    if let Ok(Some(answer)) = timeout(limit, peers.request_hand_over(&address, question)).await
                        && let Some(node) = node.upgrade()
                    {
                        node.submit(|_| Some(Input::Answered { call, answer }));
                    }
                });
            }
            // Dropped without a reader.
            Output::Event(event) => drop(self.events.send(event)),
            _ => {}
        }
    }

    fn report_change(self: &Arc<Self>, change: NodeChange) {
        let NodeChange { register, sequence, value } = change;
        if let Register::Node(name) = register
            && NodeRecord::decode(&name, &value).is_ok_and(|record| record.state == NodeState::Over)
        {
            // Ignored without a forwarded request.
            let _ = self.over.send(name);
        }
        self.submit(|_| Some(Input::Watched { register, sequence, value }));
    }

    /// Calls the machine if its deadline has come. Returns the time until the next one.
    fn keep_time(self: &Arc<Self>) -> Duration {
        self.submit(|state| (state.deadline() <= state.now).then_some(Input::Time));
        let Ok(mut state) = self.state.lock() else { return LOOK_EVERY };
        state.timer = state.deadline();
        state.timer.since(clock::moment().now).min(LOOK_EVERY)
    }
}

impl Drop for NodeInner {
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

impl LockedState {
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn deadline(&self) -> Instant {
        self.machine.deadline().unwrap_or(Instant::FAR)
    }

    /// Returns the outputs to be executed without the lock.
    fn handle(&mut self, moment: Moment, input: Input) -> Vec<Output> {
        let mut outputs = std::mem::take(&mut self.outputs);
        self.machine.handle(moment, input, &mut outputs);
        let others = outputs.drain(..).filter_map(|output| self.deliver(output)).collect();
        self.outputs = outputs;
        others
    }

    /// Delivers an output to a request, or to a requesting node; returns any other one.
    fn deliver(&mut self, output: Output) -> Option<Output> {
        match output {
            Output::Run { request, body, count } => self.signal(request, Signal::Run { body, count }),
            Output::Absent { request } => self.signal(request, Signal::Absent),
            Output::Refuse { request, why, retry_after } => self.signal(request, Signal::Refuse { why, retry_after }),
            Output::Release { request, outcome } => self.release(request, outcome),
            Output::Forward { request, to, address } => self.signal(request, Signal::Forward { to, address }),
            Output::Answer { call, answer, .. } => {
                if let Some(respond) = self.questions.remove(&call) {
                    // A node that no longer waits finds the session in the record.
                    let _ = respond.send(answer);
                }
            }
            Output::Engine { .. } | Output::RequestHandOver { .. } | Output::Event(_) => return Some(output),
        }
        None
    }
}

async fn keep_time(node: Weak<NodeInner>, wake: Arc<Notify>) {
    loop {
        let Some(pause) = node.upgrade().map(|node| node.keep_time()) else { return };
        tokio::select! {
            () = sleep(pause) => {}
            () = wake.notified() => {}
        }
    }
}

/// Passes on the changes reported by the engine's watch: other nodes become known sooner than by reading.
async fn keep_watch(node: Weak<NodeInner>, engine: Arc<dyn Engine>) {
    while node.strong_count() > 0 {
        if let Ok(mut changes) = engine.watch_nodes().await {
            while let Some(change) = changes.recv().await {
                let Some(node) = node.upgrade() else { return };
                node.report_change(change);
            }
        }
        sleep(WATCH_PAUSE).await;
    }
}

/// Why a node cannot start, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NodeError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("no random numbers: {0}")]
    Random(#[from] getrandom::Error),
}
