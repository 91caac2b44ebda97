//! A cluster in virtual time: processes, the engine, the network between them, clients, and faults.

use std::time::Duration;

use breme_base::{Instant, Random};
use breme_session::history::{Action, Operation};
use breme_session::{
    Access, Call, Change, EngineRequest, EngineResponse, Event as MachineEvent, ForwardResult, HandOverAnswer,
    HandOverRequest, Input, NodeName, Outcome, Output, RanOn, Register, RequestNumber, SessionKey, SessionTarget,
    Statistics, Ticket,
};
use bytes::Bytes;

use crate::agenda::Agenda;
use crate::clients::Clients;
use crate::engine::Engine;
use crate::faults::Fault;
use crate::host::{Host, Taken};
use crate::scenario::{Bug, Scenario};

/// How long a forwarding node waits for the response.
const FORWARD_MAX: Duration = Duration::from_millis(1_500);

#[derive(Clone, Debug)]
pub struct Http {
    pub key: SessionKey,
    pub is_new: bool,
    pub action: Action,
    pub hops: u8,
    pub from: Sender,
    /// The key of the new session after a rotation.
    pub new_key: Option<SessionKey>,
}

/// Who waits for the response.
#[derive(Clone, Copy, Debug)]
pub enum Sender {
    Client { operation: usize },
    Node { node: usize, process: u32, request: RequestNumber },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    Done(Vec<u64>),
    Failed,
    Unknown,
    Absent,
}

pub enum Event {
    /// Something inside a process: waits while the process is frozen, and is void once it has died.
    Inside {
        node: usize,
        process: u32,
        what: Inside,
    },
    /// Arrives at the engine.
    ToEngine {
        node: usize,
        process: u32,
        ticket: Ticket,
        request: EngineRequest,
    },
    /// Arrives at a client.
    ToClient {
        operation: usize,
        response: Response,
    },
    ClientTimeout {
        operation: usize,
    },
    ClientWakes {
        client: usize,
    },
    Fault(Fault),
    Sync,
}

pub enum Inside {
    Timer,
    Input(Input),
    Http(Http),
    Handled(RequestNumber),
    /// Leaves the process.
    Leaves(Output),
    ForwardReply {
        request: RequestNumber,
        response: Response,
        /// Where it ran.
        ran: Option<RanOn>,
    },
    ForwardTimeout(RequestNumber),
    /// A node was unreachable, or the connection to it broke.
    ForwardFailed {
        request: RequestNumber,
        result: ForwardResult,
    },
}

pub struct World {
    pub scenario: Scenario,
    pub random: Random,
    pub agenda: Agenda<Event>,
    pub engine: Engine,
    /// The engine is unreachable.
    pub is_engine_away: bool,
    pub hosts: Vec<Host>,
    pub clients: Clients,
    pub history: Vec<Operation>,
    pub totals: Totals,
    /// Registers in which a machine found unexpected content.
    pub damaged: Vec<Register>,
    requests: u64,
    /// Prints inputs and outputs of the machines (`BREME_SIM_TRACE`).
    is_traced: bool,
}

/// Totals over all processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub fenced: u64,
    pub given: u64,
    pub claimed: u64,
    pub looked_up: u64,
    pub conflicts: u64,
    pub leased: u64,
    pub forwarded: u64,
    pub lost: u64,
}

impl Totals {
    pub fn add(&mut self, statistics: &Statistics) {
        self.fenced += statistics.fenced;
        self.given += statistics.given;
        self.claimed += statistics.claimed;
        self.looked_up += statistics.looked_up;
        self.conflicts += statistics.conflicts;
        self.leased += statistics.leased_reads;
        self.forwarded += statistics.forwarded;
        self.lost += statistics.lost;
    }

    pub fn add_all(&mut self, other: &Self) {
        self.fenced += other.fenced;
        self.given += other.given;
        self.claimed += other.claimed;
        self.looked_up += other.looked_up;
        self.conflicts += other.conflicts;
        self.leased += other.leased;
        self.forwarded += other.forwarded;
        self.lost += other.lost;
    }
}

impl World {
    pub fn new(seed: u64, scenario: Scenario) -> Self {
        let mut random = Random::stream(seed, 2);
        let hosts = (0..scenario.nodes).map(|node| {
            let name = NodeName::new(&format!("n{node}")).unwrap_or_else(|error| panic!("{error}"));
            Host::new(name, &mut random)
        });
        let hosts: Vec<_> = hosts.collect();
        let clients = Clients::new(&scenario);
        let mut world = Self {
            engine: Engine::new(scenario.bug),
            clients,
            scenario,
            random,
            agenda: Agenda::new(),
            is_engine_away: false,
            hosts,
            history: Vec::new(),
            totals: Totals::default(),
            damaged: Vec::new(),
            requests: 0,
            is_traced: std::env::var_os("BREME_SIM_TRACE").is_some(),
        };
        for node in 0..world.hosts.len() {
            world.start(node);
        }
        world.plan_faults();
        world.plan_calendars(seed);
        world.plan_clients();
        if world.scenario.bug == Some(Bug::CommitsBeforeSync) {
            world.agenda.after(Duration::ZERO, Event::Sync);
        }
        world
    }

    /// Runs all events before `end`.
    pub fn play_until(&mut self, end: Instant) {
        while self.agenda.now < end {
            let Some(event) = self.agenda.pop() else { return };
            self.happen(event);
        }
    }

    pub fn start(&mut self, node: usize) {
        let nonce = self.random.next_u64();
        if let Some(machine) = &self.hosts[node].machine {
            self.totals.add(machine.statistics());
        }
        let Self { hosts, scenario, .. } = self;
        hosts[node].start(scenario, nonce);
        self.call(node, Input::Time);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Inside { node, process, what } => self.happen_inside(node, process, what),
            Event::ToEngine { node, process, ticket, request } => self.request_engine(node, process, ticket, &request),
            Event::ToClient { operation, response } => self.end_operation(operation, response),
            Event::ClientTimeout { operation } => self.end_operation(operation, Response::Unknown),
            Event::ClientWakes { client } => self.wake_client(client),
            Event::Fault(fault) => self.inflict(fault),
            Event::Sync => {
                self.engine.sync();
                self.agenda.after(Duration::from_millis(300), Event::Sync);
            }
        }
    }

    fn happen_inside(&mut self, node: usize, process: u32, what: Inside) {
        let host = &mut self.hosts[node];
        if host.process != process || host.machine.is_none() {
            if let Inside::Http(http) = what {
                self.refuse_connection(&http);
            }
            return;
        }
        if host.is_frozen {
            host.deferred.push_back(Event::Inside { node, process, what });
            return;
        }
        match what {
            Inside::Timer => self.ring(node),
            Inside::Input(input) => self.call(node, input),
            Inside::Http(http) => self.take_http(node, http),
            Inside::Handled(request) => self.end_handler(node, request),
            Inside::Leaves(output) => self.perform(node, output),
            Inside::ForwardReply { request, response, ran } => self.end_forward(node, request, response, ran),
            Inside::ForwardTimeout(request) => self.fail_forward(node, request, ForwardResult::Broken),
            Inside::ForwardFailed { request, result } => self.fail_forward(node, request, result),
        }
    }

    fn inside(&mut self, node: usize, delay: Duration, what: Inside) {
        let process = self.hosts[node].process;
        self.agenda.after(delay, Event::Inside { node, process, what });
    }

    fn ring(&mut self, node: usize) {
        if self.hosts[node].timer <= self.agenda.now {
            self.hosts[node].timer = Instant::FAR;
            self.call(node, Input::Time);
        }
    }

    /// Calls the machine. Its outputs leave the process a little later, so that a process can be frozen or killed
    /// between a decision and its consequences.
    pub fn call(&mut self, node: usize, input: Input) {
        let now = self.agenda.now;
        let mut outputs = Vec::new();
        if self.is_traced {
            eprintln!("{:>9} {} ◄ {input:?}", now.as_nanos() / 1_000, self.hosts[node].name);
        }
        self.hosts[node].handle(now, input, &mut outputs);
        if self.is_traced {
            outputs.iter().for_each(|output| eprintln!("             ► {output:?}"));
        }
        for output in outputs {
            if let Output::Run { request, body, count } = output {
                self.run(node, request, body, count);
            } else {
                let delay = Duration::from_micros(self.random.below(20));
                self.inside(node, delay, Inside::Leaves(output));
            }
        }
        let host = &mut self.hosts[node];
        let deadline = host.machine.as_ref().and_then(breme_session::Machine::deadline);
        let when = deadline.map_or(Instant::FAR, |deadline| host.when(deadline));
        if when < host.timer {
            host.timer = when;
            let process = host.process;
            self.agenda.at(when, Event::Inside { node, process, what: Inside::Timer });
        }
    }

    fn take_http(&mut self, node: usize, http: Http) {
        self.requests += 1;
        let request = RequestNumber(self.requests);
        let session = if http.is_new { SessionTarget::New(http.key) } else { SessionTarget::Existing(http.key) };
        let access =
            if http.action == Action::Read && self.random.chance(0.5) { Access::Shared } else { Access::Exclusive };
        let hops = http.hops;
        self.hosts[node]
            .requests
            .insert(request, Taken { http, response: None, body: Bytes::new(), ran: None, is_forwarded: false });
        self.call(node, Input::Begin { request, session, access, hops });
    }

    fn run(&mut self, node: usize, request: RequestNumber, body: Bytes, count: u64) {
        let ran = RanOn { node: self.hosts[node].name, count };
        if let Some(taken) = self.hosts[node].requests.get_mut(&request) {
            (taken.body, taken.ran) = (body, Some(ran));
        }
        let micros = if self.random.chance(self.scenario.slow) { 200_000 } else { 2_000 };
        let micros = self.random.below(micros);
        self.inside(node, Duration::from_micros(micros), Inside::Handled(request));
    }

    /// The application: appends, and responds with all tokens.
    fn end_handler(&mut self, node: usize, request: RequestNumber) {
        let Some(taken) = self.hosts[node].requests.get_mut(&request) else { return };
        let mut tokens: Vec<u64> = tokens(&taken.body);
        let change = match taken.http.action {
            Action::Read => Change::Unchanged,
            Action::LogOut => {
                tokens.clear();
                Change::Destroy
            }
            Action::Append(token) => {
                tokens.push(token);
                Change::Write(tokens.iter().flat_map(|token| token.to_be_bytes()).collect())
            }
            Action::Rotate { .. } => {
                let to = taken.http.new_key.unwrap_or(taken.http.key);
                Change::Rotate { to, body: taken.body.clone() }
            }
        };
        taken.response = Some(Response::Done(tokens));
        self.call(node, Input::Finish { request, change });
    }

    /// Performs an output that has left the process.
    fn perform(&mut self, node: usize, output: Output) {
        match output {
            Output::Engine { ticket, request } => self.send_to_engine(node, ticket, request),
            Output::Run { .. } => {}
            Output::Absent { request } => self.respond(node, request, Response::Absent),
            Output::Refuse { request, .. } => self.respond(node, request, Response::Failed),
            Output::Release { request, outcome } => {
                let ran = self.hosts[node].requests.get(&request).and_then(|taken| taken.response.clone());
                let response = match outcome {
                    Outcome::Done => ran.unwrap_or_else(|| panic!("released before it ran")),
                    Outcome::NotDone | Outcome::TooLarge => Response::Failed,
                    Outcome::Unknown => Response::Unknown,
                };
                self.respond(node, request, response);
            }
            Output::Forward { request, to, .. } => self.forward(node, request, to),
            Output::RequestHandOver { call, to, question, .. } => self.request_hand_over(node, call, to, question),
            Output::Answer { to, call, answer } => self.answer_node(node, to, call, answer),
            Output::Event(MachineEvent::Damaged(register)) => self.damaged.push(register),
            Output::Event(_) => {}
        }
    }

    fn net_delay(&mut self) -> Duration {
        let micros = if self.random.chance(0.02) { 20_000 } else { 300 };
        Duration::from_micros(50 + self.random.below(micros))
    }

    fn engine_delay(&mut self) -> Duration {
        if self.random.chance(self.scenario.late) {
            let most = if self.random.chance(0.3) { 6_000 } else { 300 };
            Duration::from_millis(self.random.below(most))
        } else {
            Duration::from_micros(100 + self.random.below(900))
        }
    }

    fn is_lost(&mut self, node: usize) -> bool {
        self.is_engine_away || self.hosts[node].is_cut_off || self.random.chance(self.scenario.lost)
    }

    fn send_to_engine(&mut self, node: usize, ticket: Ticket, request: EngineRequest) {
        let process = self.hosts[node].process;
        if self.is_lost(node) {
            // Some clients notice, most wait.
            if self.random.chance(0.2) {
                let response = if self.random.chance(0.5) { EngineResponse::Refused } else { EngineResponse::Unknown };
                let delay = self.net_delay();
                self.inside(node, delay, Inside::Input(Input::Engine { ticket, response }));
            }
            return;
        }
        let delay = self.engine_delay();
        self.agenda.after(delay, Event::ToEngine { node, process, ticket, request });
    }

    fn request_engine(&mut self, node: usize, process: u32, ticket: Ticket, request: &EngineRequest) {
        let age = if self.random.chance(self.scenario.stale) { self.random.between(1, 3) as usize } else { 0 };
        let now = self.agenda.now;
        let response = self.engine.execute(now, request, age);
        if matches!(response, EngineResponse::Committed(_)) {
            self.notify(request.register());
        }
        if self.is_lost(node) {
            return;
        }
        let delay = self.engine_delay();
        let input = Input::Engine { ticket, response };
        self.agenda.after(delay, Event::Inside { node, process, what: Inside::Input(input) });
    }

    /// Watches: some report at once, some later, some never.
    fn notify(&mut self, register: Register) {
        let Some((sequence, value)) = self.engine.newest(self.agenda.now, &register) else { return };
        let is_session = matches!(register, Register::Session(_));
        for node in 0..self.hosts.len() {
            let hears = self.random.chance(if is_session { 0.2 } else { 0.7 });
            if hears && !self.is_lost(node) {
                let delay = self.engine_delay();
                let input = Input::Watched { register, sequence, value: value.clone() };
                self.inside(node, delay, Inside::Input(input));
            }
        }
    }

    fn place(&self, name: NodeName) -> usize {
        self.hosts.iter().position(|host| host.name == name).unwrap_or_else(|| panic!("no node {name}"))
    }

    fn are_connected(&self, one: usize, other: usize) -> bool {
        !self.hosts[one].cut_off_from.contains(&other) && !self.hosts[other].cut_off_from.contains(&one)
    }

    fn forward(&mut self, node: usize, request: RequestNumber, to: NodeName) {
        let to = self.place(to);
        let process = self.hosts[node].process;
        let Some(taken) = self.hosts[node].requests.get_mut(&request) else { return };
        taken.is_forwarded = true;
        let from = Sender::Node { node, process, request };
        let http = Http { hops: taken.http.hops + 1, from, ..taken.http.clone() };
        self.inside(node, FORWARD_MAX, Inside::ForwardTimeout(request));
        if !self.are_connected(node, to) {
            let what = Inside::ForwardFailed { request, result: ForwardResult::Unreachable };
            self.inside(node, Duration::from_millis(100), what);
            return;
        }
        let delay = self.net_delay();
        self.inside(to, delay, Inside::Http(http));
    }

    /// No process is listening.
    fn refuse_connection(&mut self, http: &Http) {
        let delay = self.net_delay();
        match http.from {
            Sender::Client { operation } => {
                self.agenda.after(delay, Event::ToClient { operation, response: Response::Failed });
            }
            Sender::Node { node, process, request } => {
                let what = Inside::ForwardFailed { request, result: ForwardResult::Unreachable };
                self.agenda.after(delay, Event::Inside { node, process, what });
            }
        }
    }

    fn respond(&mut self, node: usize, request: RequestNumber, response: Response) {
        if let Some(taken) = self.hosts[node].requests.remove(&request) {
            self.reply(node, taken.http.from, response, taken.ran);
        }
    }

    fn reply(&mut self, node: usize, to: Sender, response: Response, ran: Option<RanOn>) {
        let delay = self.net_delay();
        match to {
            Sender::Client { operation } => self.agenda.after(delay, Event::ToClient { operation, response }),
            Sender::Node { node: requester, process, request } if self.are_connected(node, requester) => {
                let what = Inside::ForwardReply { request, response, ran };
                self.agenda.after(delay, Event::Inside { node: requester, process, what });
            }
            Sender::Node { .. } => {}
        }
    }

    fn end_forward(&mut self, node: usize, request: RequestNumber, response: Response, ran: Option<RanOn>) {
        if self.take_forwarding(node, request) {
            if let Some(taken) = self.hosts[node].requests.get_mut(&request) {
                taken.ran = ran;
            }
            self.respond(node, request, response);
            let result = ForwardResult::Responded { by: ran };
            self.call(node, Input::ForwardEnded { request, result });
        }
    }

    fn fail_forward(&mut self, node: usize, request: RequestNumber, result: ForwardResult) {
        if self.take_forwarding(node, request) {
            self.call(node, Input::ForwardEnded { request, result });
        }
    }

    /// Whether the connection to the other node is still open. Each ends once.
    fn take_forwarding(&mut self, node: usize, request: RequestNumber) -> bool {
        let taken = self.hosts[node].requests.get_mut(&request);
        taken.is_some_and(|taken| std::mem::take(&mut taken.is_forwarded))
    }

    fn request_hand_over(&mut self, node: usize, call: Call, to: NodeName, question: HandOverRequest) {
        let to = self.place(to);
        if self.are_connected(node, to) {
            let input = Input::HandOverRequested { from: self.hosts[node].name, call, question };
            let delay = self.net_delay();
            self.inside(to, delay, Inside::Input(input));
        }
    }

    fn answer_node(&mut self, node: usize, to: NodeName, call: Call, answer: HandOverAnswer) {
        let to = self.place(to);
        if self.are_connected(node, to) && !self.random.chance(self.scenario.lost) {
            let delay = self.net_delay();
            self.inside(to, delay, Inside::Input(Input::Answered { call, answer }));
        }
    }

    /// Kills the process: clients that await its responses notice.
    pub fn kill(&mut self, node: usize) {
        let host = &mut self.hosts[node];
        let Some(machine) = host.machine.take() else { return };
        self.totals.add(machine.statistics());
        let deferred = std::mem::take(&mut host.deferred);
        host.is_frozen = false;
        let mut waiting: Vec<_> =
            std::mem::take(&mut host.requests).into_values().map(|taken| taken.http.from).collect();
        waiting.extend(deferred.into_iter().filter_map(|event| match event {
            Event::Inside { what: Inside::Http(http), .. } => Some(http.from),
            _ => None,
        }));
        for sender in waiting {
            let delay = self.net_delay();
            match sender {
                Sender::Client { operation } => {
                    self.agenda.after(delay, Event::ToClient { operation, response: Response::Unknown });
                }
                Sender::Node { node, process, request } => {
                    let what = Inside::ForwardFailed { request, result: ForwardResult::Broken };
                    self.agenda.after(delay, Event::Inside { node, process, what });
                }
            }
        }
    }

    pub fn thaw(&mut self, node: usize) {
        let host = &mut self.hosts[node];
        host.is_frozen = false;
        for event in std::mem::take(&mut host.deferred) {
            self.agenda.after(Duration::ZERO, event);
        }
    }

    pub fn statistics(&self) -> Totals {
        let mut totals = self.totals;
        for machine in self.hosts.iter().filter_map(|host| host.machine.as_ref()) {
            totals.add(machine.statistics());
        }
        totals
    }
}

pub fn tokens(body: &[u8]) -> Vec<u64> {
    body.as_chunks().0.iter().map(|bytes| u64::from_be_bytes(*bytes)).collect()
}

/// Keys of sessions, from their labels in the history.
pub fn key(label: u64) -> SessionKey {
    let mut bytes = [0; 16];
    // So that keys are not in order of creation.
    bytes[..8].copy_from_slice(&Random::new(label).next_u64().to_be_bytes());
    bytes[8..].copy_from_slice(&label.to_be_bytes());
    SessionKey::from_bytes(bytes)
}
