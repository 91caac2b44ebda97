//! A node that serves sessions: the machine of `breme_session`, and whatever does what it says.
//!
//! One lock guards the machine and the table of those who wait for it. An input is taken in, and its outputs for
//! requests are delivered, under the lock, so that a request that is dropped always knows how far it has come.
//! Questions to the engine and to other nodes are tasks, which bring the responses as further inputs. One task calls
//! the machine at its deadlines, one reports what the engine's watch says.
//!
//! A node lives as long as its handles; the tasks hold none. A node that is dropped without [`Node::drain`] is, to the
//! others, one that was killed.

mod requests;
mod times;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use breme_base::Instant;
use breme_session::{
    Access, Call, EngineRequest, EngineResponse, Event, Gauges, HandOver, HandOverAnswer, Incarnation, Input, Machine,
    Moment, NodeName, NodeRecord, NodeState, Output, Register, RequestNumber, Settings, Statistics, Target,
};
use tokio::runtime::Handle;
use tokio::sync::{Notify, broadcast, oneshot, watch};
use tokio::time::{sleep, timeout};

use self::requests::{Entry, Place, Signal};
use crate::clock;
use crate::engine::{Engine, NodeChange};
use crate::peers::Peers;

pub use self::requests::{Forwarded, Running, Turn, Waiting};
pub use self::times::{BOUNDS, Histogram, Stages, Times};

/// Events that a slow reader may be behind; older ones are lost to it.
pub const EVENTS_MAX: usize = 1024;
/// Questions of other nodes that wait for their responses; further ones are refused.
pub const QUESTIONS_MAX: usize = 65_536;
/// The timer's clock stands still while the system sleeps, so the machine's is looked at at least so often.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After a watch has ended, and before the next.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// A node. Copies share it.
#[derive(Clone)]
pub struct Node(Arc<Shared>);

/// Whether a node is a member of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// Not yet, or not at the moment.
    Joining,
    /// In this life.
    Member(Incarnation),
    /// It has given its sessions away and is none any more.
    Left,
}

struct Shared {
    state: Mutex<State>,
    settings: Settings,
    name: NodeName,
    nonce: u64,
    engine: Arc<dyn Engine>,
    peers: Peers,
    runtime: Handle,
    /// Wakes the timer's task.
    wake: Arc<Notify>,
    membership: watch::Sender<Membership>,
    events: broadcast::Sender<Event>,
    is_draining: AtomicBool,
    /// Nodes whose lives have ended.
    over: broadcast::Sender<NodeName>,
}

struct State {
    machine: Machine,
    requests: HashMap<RequestNumber, Entry>,
    /// Other nodes that wait for a response.
    questions: HashMap<Call, oneshot::Sender<HandOverAnswer>>,
    /// Numbers requests and questions.
    last: u64,
    /// When the timer's task looks again.
    timer: Instant,
    /// Of the input that is handled.
    now: Instant,
    times: Times,
}

impl Node {
    /// Starts a node: it joins the cluster, on tasks of the current runtime.
    ///
    /// # Errors
    ///
    /// If the settings contradict each other, sessions would go over a network in plain text, or the operating system
    /// has no random numbers.
    pub fn start(settings: Settings, name: NodeName, engine: Arc<dyn Engine>, peers: Peers) -> Result<Self, NodeError> {
        peers.check_address(&settings.address).map_err(NodeError)?;
        let nonce = getrandom::u64().map_err(|error| NodeError(format!("no random numbers: {error}")))?;
        let machine = Machine::new(settings.clone(), name, nonce).map_err(|error| NodeError(error.to_string()))?;
        let state = State {
            machine,
            requests: HashMap::new(),
            questions: HashMap::new(),
            last: 0,
            timer: Instant::ZERO,
            now: Instant::ZERO,
            times: Times::default(),
        };
        let node = Self(Arc::new(Shared {
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

    /// Its name.
    #[must_use]
    pub fn name(&self) -> NodeName {
        self.0.name
    }

    /// The nonce of its lives, by which a supervisor names its process ([`Node::exited`]).
    #[must_use]
    pub fn nonce(&self) -> u64 {
        self.0.nonce
    }

    /// How it serves.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn peers(&self) -> &Peers {
        &self.0.peers
    }

    /// A request for a session. It waits until the node knows what becomes of it.
    #[must_use]
    pub fn begin(&self, session: Target, access: Access, hops: u8) -> Waiting {
        let (signal, wait) = oneshot::channel();
        let mut number = RequestNumber(0);
        self.0.take_in(|state| {
            number = RequestNumber(state.number());
            state.requests.insert(number, Entry::new(signal, state.now));
            Some(Input::Begin { request: number, session, access, hops })
        });
        Waiting::new(Place::new(self.clone(), number), wait)
    }

    /// Another node asks for a session; what it is told.
    pub(crate) async fn asked(&self, from: NodeName, question: HandOver) -> HandOverAnswer {
        let (respond, response) = oneshot::channel();
        self.0.take_in(|state| {
            if state.questions.len() >= QUESTIONS_MAX {
                return None;
            }
            // The asker's own numbers begin again when it is started again; these do not.
            let call = Call(state.number());
            state.questions.insert(call, respond);
            Some(Input::Asked { from, call, question })
        });
        response.await.unwrap_or(HandOverAnswer::Refused)
    }

    /// A supervisor has seen this process of a node end: its sessions need not wait for its lease.
    pub fn exited(&self, node: NodeName, nonce: u64) {
        self.0.take_in(|_| Some(Input::Exited { node, nonce }));
    }

    /// Begins to give all sessions away. The node remains a member: it still serves what no other node takes.
    pub fn drain(&self) {
        self.0.is_draining.store(true, Ordering::Relaxed);
        self.0.take_in(|_| Some(Input::Drain));
    }

    /// Begins to give all sessions away and to leave; [`Membership::Left`] says that it is done. Requests that come
    /// after that are refused if no other node takes them, so a server stops listening before.
    pub fn leave(&self) {
        self.0.is_draining.store(true, Ordering::Relaxed);
        self.0.take_in(|_| Some(Input::Leave));
    }

    /// Whether it gives its sessions away, or has.
    pub(crate) fn is_draining(&self) -> bool {
        self.0.is_draining.load(Ordering::Relaxed)
    }

    /// Whether it is a member, and news of it.
    #[must_use]
    pub fn membership(&self) -> watch::Receiver<Membership> {
        self.0.membership.subscribe()
    }

    /// Returns when the node is a member.
    pub async fn joined(&self) {
        // The sender lives as long as this node.
        let _ = self.membership().wait_for(|membership| matches!(membership, Membership::Member(_))).await;
    }

    /// What operators want to know, from now on.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.0.events.subscribe()
    }

    /// What has happened since the start.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.0.state.lock().map(|state| *state.machine.statistics()).unwrap_or_default()
    }

    /// How long it has taken since the start.
    #[must_use]
    pub fn times(&self) -> Times {
        self.0.state.lock().map(|state| state.times).unwrap_or_default()
    }

    /// What its requests wait for.
    #[must_use]
    pub fn stages(&self) -> Stages {
        self.0.state.lock().map(|state| state.stages()).unwrap_or_default()
    }

    /// What there is.
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

impl Shared {
    /// Gives the machine what `prepare` says, and does what comes out.
    ///
    /// A machine that has panicked gets nothing any more: its lease ends, and other nodes take its sessions.
    fn take_in(self: &Arc<Self>, prepare: impl FnOnce(&mut State) -> Option<Input>) {
        let errands = {
            let Ok(mut state) = self.state.lock() else { return };
            // The clock is read under the lock: moments never go back.
            let moment = clock::moment();
            state.now = moment.now;
            let Some(input) = prepare(&mut state) else { return };
            let errands = state.handle(moment, input);
            let deadline = state.deadline();
            if deadline < state.timer {
                state.timer = deadline;
                self.wake.notify_one();
            }
            self.note_membership(&state, &errands);
            errands
        };
        for errand in errands {
            self.run(errand);
        }
    }

    fn note_membership(&self, state: &State, outputs: &[Output]) {
        self.membership.send_if_modified(|known| {
            let now = match state.machine.incarnation() {
                Some(incarnation) => Membership::Member(incarnation),
                None if *known == Membership::Left || outputs.contains(&Output::Event(Event::Left)) => Membership::Left,
                None => Membership::Joining,
            };
            std::mem::replace(known, now) != now
        });
    }

    fn run(self: &Arc<Self>, errand: Output) {
        let node = Arc::downgrade(self);
        match errand {
            Output::Engine { ticket, request } => {
                let engine = Arc::clone(&self.engine);
                let is_commit = matches!(request, EngineRequest::CompareAndSet { register: Register::Session(_), .. });
                self.runtime.spawn(async move {
                    let sent = clock::moment().now;
                    let response = engine.execute(request).await;
                    let Some(node) = node.upgrade() else { return };
                    node.take_in(|state| {
                        if is_commit && matches!(response, EngineResponse::Committed(_)) {
                            state.times.commit.record(state.now.since(sent));
                        }
                        Some(Input::Engine { ticket, response })
                    });
                });
            }
            Output::Ask { call, address, question, .. } => {
                let (peers, limit) = (self.peers.clone(), self.settings.response_max);
                self.runtime.spawn(async move {
                    // Without a response the machine reads the record again.
                    if let Ok(Some(answer)) = timeout(limit, peers.ask(&address, question)).await {
                        bring(&node, Input::Answered { call, answer });
                    }
                });
            }
            // Without a reader nobody wants it.
            Output::Event(event) => drop(self.events.send(event)),
            _ => {}
        }
    }

    fn take_news(self: &Arc<Self>, change: NodeChange) {
        let NodeChange { register, sequence, value } = change;
        if let Register::Node(name) = register
            && NodeRecord::decode(&name, &value).is_ok_and(|record| record.state == NodeState::Over)
        {
            // Without a forwarded request nobody wants it.
            let _ = self.over.send(name);
        }
        self.take_in(|_| Some(Input::Watched { register, sequence, value }));
    }

    /// Calls the machine if its deadline has come. Returns how long it has nothing to do.
    fn keep_time(self: &Arc<Self>) -> Duration {
        self.take_in(|state| (state.deadline() <= state.now).then_some(Input::Time));
        let Ok(mut state) = self.state.lock() else { return LOOK_EVERY };
        state.timer = state.deadline();
        state.timer.since(clock::moment().now).min(LOOK_EVERY)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn deadline(&self) -> Instant {
        self.machine.deadline().unwrap_or(Instant::FAR)
    }

    /// What is left to do without the lock.
    fn handle(&mut self, moment: Moment, input: Input) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.machine.handle(moment, input, &mut outputs);
        outputs.retain_mut(|output| !self.deliver(output));
        outputs
    }

    /// Delivers what is for a request, or for a node that asked.
    fn deliver(&mut self, output: &mut Output) -> bool {
        let (request, signal) = match output {
            Output::Run { request, body } => (*request, Signal::Run(std::mem::take(body))),
            Output::Absent { request } => (*request, Signal::Absent),
            Output::Refuse { request, why, retry_after } => {
                (*request, Signal::Refuse { why: *why, retry_after: *retry_after })
            }
            Output::Release { request, outcome } => (*request, Signal::Release(*outcome)),
            Output::Forward { request, to, address } => {
                (*request, Signal::Forward { to: *to, address: std::mem::take(address) })
            }
            Output::Answer { call, answer, .. } => {
                if let Some(respond) = self.questions.remove(call) {
                    // An asker that no longer waits finds the session in the record.
                    let _ = respond.send(std::mem::replace(answer, HandOverAnswer::Refused));
                }
                return true;
            }
            Output::Engine { .. } | Output::Ask { .. } | Output::Event(_) => return false,
        };
        self.signal(request, signal);
        true
    }
}

fn bring(node: &Weak<Shared>, input: Input) {
    if let Some(node) = node.upgrade() {
        node.take_in(|_| Some(input));
    }
}

async fn keep_time(node: Weak<Shared>, wake: Arc<Notify>) {
    loop {
        let Some(pause) = node.upgrade().map(|node| node.keep_time()) else { return };
        tokio::select! {
            () = sleep(pause) => {}
            () = wake.notified() => {}
        }
    }
}

/// Passes on what the engine's watch says: others are then known sooner than by asking.
async fn keep_watch(node: Weak<Shared>, engine: Arc<dyn Engine>) {
    while node.strong_count() > 0 {
        if let Ok(mut changes) = engine.watch_nodes().await {
            while let Some(change) = changes.recv().await {
                let Some(node) = node.upgrade() else { return };
                node.take_news(change);
            }
        }
        sleep(WATCH_PAUSE).await;
    }
}

/// Why a node cannot start, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeError(String);

impl fmt::Display for NodeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for NodeError {}
