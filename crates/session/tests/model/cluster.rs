//! A model of the cluster: its states and steps.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use breme_base::{Instant, UnixMillis};
use breme_session::history::{self, Action, Operation};
use breme_session::{
    Access, Call, Change, EngineRequest, EngineResponse, ForwardResult, HandOverAnswer, HandOverRequest, Input,
    Machine, Moment, NodeName, Outcome, Output, Register, Registers, RequestNumber, Route, Rules, SessionKey,
    SessionTarget, Settings, Ticket,
};
use bytes::Bytes;
use stateright::{Model, Property};

const KEY: SessionKey = SessionKey::from_bytes([7; 16]);
const NODES: usize = 2;
/// Longer than the other nodes wait for a lease.
const LEASE: Duration = Duration::from_millis(3_100);
/// Added to the number of a forwarded request.
const FORWARDED: u64 = 100;

/// The requests of the clients, each sent at most once and at any time: the action, the node, and the access.
const QUESTIONS: [(Action, usize, Access); 4] = [
    (Action::Append(2), 0, Access::Exclusive),
    (Action::Append(3), 1, Access::Exclusive),
    (Action::Read, 0, Access::Exclusive),
    (Action::Read, 1, Access::Shared),
];

/// Indices in [`QUESTIONS`].
pub const WRITE_A: usize = 0;
pub const WRITE_B: usize = 1;
pub const READ_A: usize = 2;
pub const READ_B: usize = 3;

/// How many faults may occur.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Expirations of leases.
    pub leases: u8,
    pub crashes: u8,
    /// Lost responses of the engine.
    pub lost: u8,
    /// Stale reads.
    pub stale: u8,
    /// Whether requests are forwarded, rather than sessions handed over.
    pub forwards: bool,
    /// Whether nodes cannot reach each other.
    pub unreachable: bool,
}

#[derive(Clone, Debug)]
pub struct Cluster {
    budget: Budget,
    /// Which of [`QUESTIONS`] are sent.
    sent_questions: &'static [usize],
    rules: Rules,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    Engine(usize, Ticket, EngineRequest),
    EngineResponse(usize, Ticket, EngineResponse),
    /// The handler of a request has ended.
    Handled(usize, RequestNumber, Bytes),
    Forward {
        from: usize,
        to: usize,
        request: RequestNumber,
    },
    ForwardEnded(usize, RequestNumber, ForwardResult),
    HandOverRequested(usize, NodeName, Call, HandOverRequest),
    Answered(usize, Call, HandOverAnswer),
    /// A response on its way to a client.
    Response(usize, history::OperationOutcome),
}

#[derive(Clone, Debug)]
pub struct State {
    machines: Vec<Option<Machine>>,
    registers: Registers,
    messages: Vec<Message>,
    /// The response of each request, if it is released.
    ready: Vec<(usize, RequestNumber, Vec<u64>)>,
    questions: Vec<Option<Operation>>,
    now: Instant,
    /// Counts invocations and returns: only their order matters.
    order: u64,
    left: Budget,
    has_changed_owner: bool,
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        digest(self) == digest(other)
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.machines.hash(hasher);
        self.registers.hash(hasher);
        self.messages.hash(hasher);
        self.ready.hash(hasher);
        self.questions.hash(hasher);
        self.now.hash(hasher);
        self.left.hash(hasher);
    }
}

fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Invoke(usize),
    Deliver(Message),
    /// The engine executes a read with the previous value.
    DeliverStale(Message),
    /// Its outcome becomes unknown.
    Lose(Message),
    /// The time of a lease passes.
    Pass,
    Wake(usize),
    Crash(usize),
}

impl Cluster {
    pub const fn new(budget: Budget, sent_questions: &'static [usize], rules: Rules) -> Self {
        Self { budget, sent_questions, rules }
    }

    fn machine(&self, node: usize) -> Machine {
        let route = if self.budget.forwards { Route::Forward { pull_after: None } } else { Route::Pull };
        let settings = Settings {
            route,
            // One renewal for each lease that passes, and no timeouts except by the steps of the model.
            renew_every: Duration::from_millis(1_500),
            wait_max: Duration::from_secs(1_000),
            ..Settings::new("")
        };
        Machine::with_rules(settings, self.rules, name(node), node as u64 + 1).unwrap()
    }

    /// Two members that know each other, and a session with one token on the first.
    fn start(&self) -> State {
        let mut state = State {
            machines: (0..NODES).map(|node| Some(self.machine(node))).collect(),
            registers: Registers::new(2),
            messages: Vec::new(),
            ready: Vec::new(),
            questions: vec![None; QUESTIONS.len()],
            now: Instant::from_nanos(1_000_000_000),
            order: 10,
            left: self.budget,
            has_changed_owner: false,
        };
        for node in 0..NODES {
            state.call(node, Input::Time);
        }
        state.settle();
        let session = SessionTarget::New(KEY);
        let request = RequestNumber(99);
        state.call(0, Input::Begin { request, session, access: Access::Exclusive, hops: 0 });
        state.settle();
        for (node, other) in [(0, 1), (1, 0)] {
            let register = Register::Node(name(other));
            let (sequence, value) = state.registers.read(state.now, &register).unwrap();
            state.call(node, Input::Watched { register, sequence, value });
        }
        state
    }
}

fn name(node: usize) -> NodeName {
    NodeName::new(["a", "b"][node]).unwrap()
}

fn node(name: NodeName) -> usize {
    usize::from(name.as_str() == "b")
}

impl State {
    fn moment(&self) -> Moment {
        Moment { now: self.now, wall: UnixMillis(1_000_000 + self.now.as_nanos() / 1_000_000) }
    }

    /// Delivers everything in order.
    fn settle(&mut self) {
        while !self.messages.is_empty() {
            let message = self.messages.remove(0);
            self.deliver(message, 0);
        }
    }

    fn call(&mut self, node: usize, input: Input) {
        let at = self.moment();
        let mut outputs = Vec::new();
        if let Some(machine) = &mut self.machines[node] {
            machine.handle(at, input, &mut outputs);
        }
        for output in outputs {
            self.take_output(node, output);
        }
        // The network is unordered.
        self.messages.sort_by_cached_key(digest);
        self.ready.sort();
    }

    fn take_output(&mut self, from: usize, output: Output) {
        let message = match output {
            Output::Engine { ticket, request } => Message::Engine(from, ticket, request),
            Output::Run { request, body, .. } => Message::Handled(from, request, body),
            Output::Absent { request } => Message::Response(question(request), history::OperationOutcome::Absent),
            Output::Refuse { request, .. } => Message::Response(question(request), history::OperationOutcome::Failed),
            Output::Release { request, outcome } => {
                let place = self.ready.iter().position(|(at, ready, _)| (*at, *ready) == (from, request));
                let list = self.ready.remove(place.unwrap()).2;
                let outcome = match outcome {
                    Outcome::Done => history::OperationOutcome::Done(list),
                    Outcome::NotDone | Outcome::TooLarge => history::OperationOutcome::Failed,
                    Outcome::Unknown => history::OperationOutcome::Unknown,
                };
                Message::Response(question(request), outcome)
            }
            Output::Forward { request, to, .. } if self.left.unreachable => {
                let _ = to;
                Message::ForwardEnded(from, request, ForwardResult::Unreachable)
            }
            Output::Forward { request, to, .. } => Message::Forward { from, to: node(to), request },
            Output::RequestHandOver { .. } | Output::Answer { .. } if self.left.unreachable => return,
            Output::RequestHandOver { call, to, question, .. } => {
                Message::HandOverRequested(node(to), name(from), call, question)
            }
            Output::Answer { to, call, answer } => Message::Answered(node(to), call, answer),
            Output::Event(_) => return,
        };
        self.send(message);
    }

    /// Sends a message through the network, or delivers it at once if that shows everything that a later delivery
    /// could.
    fn send(&mut self, message: Message) {
        let is_prompt = match &message {
            // Constrains the other operations most.
            Message::Response(..) => true,
            // A late response is equivalent to a read that was executed late.
            Message::Engine(_, _, EngineRequest::Read { .. }) => self.left.stale == 0,
            Message::Engine(_, _, request) => matches!(request.register(), Register::Node(_)),
            _ => false,
        };
        if is_prompt { self.deliver(message, 0) } else { self.messages.push(message) }
    }

    fn invoke(&mut self, question: usize) {
        let (action, node, access) = QUESTIONS[question];
        self.order += 1;
        self.questions[question] = Some(Operation {
            session: 1,
            id: 1,
            action,
            invoked: Instant::from_nanos(self.order),
            returned: Instant::FAR,
            outcome: history::OperationOutcome::Unknown,
        });
        let request = RequestNumber(question as u64);
        self.call(node, Input::Begin { request, session: SessionTarget::Existing(KEY), access, hops: 0 });
    }

    fn deliver(&mut self, message: Message, age: usize) {
        match message {
            Message::Engine(node, ticket, request) => {
                let response = match &request {
                    EngineRequest::Read { register } => {
                        EngineResponse::Found(self.registers.read_stale(self.now, register, age))
                    }
                    EngineRequest::CompareAndSet { .. } => self.registers.execute(self.now, &request),
                };
                self.messages.push(Message::EngineResponse(node, ticket, response));
                self.messages.sort_by_cached_key(digest);
            }
            Message::EngineResponse(node, ticket, response) => self.call(node, Input::Engine { ticket, response }),
            Message::Handled(node, request, body) => self.handle(node, request, &body),
            Message::Forward { from, to, request } => self.forward(from, to, request),
            Message::ForwardEnded(node, request, result) => {
                self.call(node, Input::ForwardEnded { request, result });
            }
            Message::HandOverRequested(node, from, call, question) => {
                self.call(node, Input::HandOverRequested { from, call, question });
            }
            Message::Answered(node, call, answer) => {
                self.has_changed_owner |= matches!(answer, HandOverAnswer::Given { .. });
                self.call(node, Input::Answered { call, answer });
            }
            Message::Response(question, outcome) => self.respond(question, outcome),
        }
    }

    fn forward(&mut self, from: usize, to: usize, request: RequestNumber) {
        if self.machines[to].is_none() {
            self.call(from, Input::ForwardEnded { request, result: ForwardResult::Unreachable });
            return;
        }
        let (_, _, access) = QUESTIONS[question(request)];
        let forwarded = RequestNumber(request.0 + FORWARDED);
        // The response travels to the client on its own; the forwarding node is done.
        self.call(from, Input::ForwardEnded { request, result: ForwardResult::Responded { by: None } });
        self.call(to, Input::Begin { request: forwarded, session: SessionTarget::Existing(KEY), access, hops: 1 });
    }

    fn handle(&mut self, node: usize, request: RequestNumber, body: &Bytes) {
        let mut list: Vec<u64> = body.iter().map(|&token| token.into()).collect();
        let action = QUESTIONS.get(question(request)).map_or(Action::Append(1), |question| question.0);
        let mut change = Change::Unchanged;
        if let Action::Append(token) = action {
            list.push(token);
            change = Change::Write(list.iter().map(|&token| token as u8).collect());
        }
        self.ready.push((node, request, list));
        self.call(node, Input::Finish { request, change });
    }

    fn respond(&mut self, question: usize, outcome: history::OperationOutcome) {
        let Some(Some(operation)) = self.questions.get_mut(question) else { return };
        if operation.returned == Instant::FAR {
            self.order += 1;
            operation.returned = Instant::from_nanos(self.order);
            operation.outcome = outcome;
        }
    }

    fn crash(&mut self, crashed: usize) {
        self.machines[crashed] = None;
        self.messages.retain(|message| match message {
            // Its sent messages are still in flight.
            Message::Engine(..) | Message::Response(..) | Message::ForwardEnded(..) => true,
            Message::EngineResponse(node, ..) | Message::Handled(node, ..) => *node != crashed,
            Message::HandOverRequested(node, ..) | Message::Answered(node, ..) => *node != crashed,
            Message::Forward { .. } => true,
        });
        self.ready.retain(|(node, ..)| *node != crashed);
    }

    fn history(&self) -> Vec<Operation> {
        let first = Operation {
            session: 1,
            id: 1,
            action: Action::Append(1),
            invoked: Instant::from_nanos(1),
            returned: Instant::from_nanos(2),
            outcome: history::OperationOutcome::Done(vec![1]),
        };
        std::iter::once(first).chain(self.questions.iter().flatten().cloned()).collect()
    }

    fn is_due(&self, node: usize) -> bool {
        let deadline = self.machines[node].as_ref().and_then(Machine::deadline);
        deadline.is_some_and(|deadline| deadline <= self.now)
    }
}

fn question(request: RequestNumber) -> usize {
    (request.0 % FORWARDED) as usize
}

impl Model for Cluster {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![self.start()]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for &question in self.sent_questions {
            let (_, node, _) = QUESTIONS[question];
            if state.questions[question].is_none() && state.machines[node].is_some() {
                steps.push(Step::Invoke(question));
            }
        }
        for message in &state.messages {
            steps.push(Step::Deliver(message.clone()));
            if state.left.lost > 0 && matches!(message, Message::EngineResponse(..)) {
                steps.push(Step::Lose(message.clone()));
            }
            if state.left.stale > 0 && matches!(message, Message::Engine(_, _, EngineRequest::Read { .. })) {
                steps.push(Step::DeliverStale(message.clone()));
            }
        }
        // After a crash, the lease of the node expires.
        if state.left.leases > 0 && state.left.crashes == 0 {
            steps.push(Step::Pass);
        }
        for node in 0..NODES {
            // The first node is the one that crashes or is paused: it does nothing until a message arrives.
            if state.is_due(node) && node != 0 {
                steps.push(Step::Wake(node));
            }
            if state.left.crashes > 0 && node == 0 && state.machines[node].is_some() {
                steps.push(Step::Crash(node));
            }
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        let mut take = |message: &Message| {
            let place = state.messages.iter().position(|other| other == message);
            state.messages.remove(place.unwrap())
        };
        match step {
            Step::Invoke(question) => state.invoke(question),
            Step::Deliver(message) => {
                let message = take(&message);
                state.deliver(message, 0);
            }
            Step::DeliverStale(message) => {
                let message = take(&message);
                state.left.stale -= 1;
                state.deliver(message, 1);
            }
            Step::Lose(message) => {
                state.left.lost -= 1;
                if let Message::EngineResponse(node, ticket, _) = take(&message) {
                    state.call(node, Input::Engine { ticket, response: EngineResponse::Unknown });
                }
            }
            Step::Pass => {
                state.left.leases -= 1;
                state.now = state.now + LEASE;
            }
            Step::Wake(node) => state.call(node, Input::Time),
            Step::Crash(node) => {
                state.left.crashes -= 1;
                state.crash(node);
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("what clients see is linearizable", |_, state: &State| {
                history::check(&state.history()).problems.is_empty()
            }),
            Property::always("at most one node trusts its memory", |_, state: &State| {
                let at = state.moment();
                let trusts = |machine: &&Machine| machine.trusts_memory(at, &KEY);
                state.machines.iter().flatten().filter(trusts).count() < 2
            }),
            Property::sometimes("some session changes its owner", |_, state: &State| {
                let claims = state.machines[1].as_ref().is_some_and(|machine| machine.statistics().claimed > 0);
                state.has_changed_owner || claims
            }),
        ]
    }
}
