//! Nodes and an engine that respond at once, in virtual time.

use std::time::Duration;

use breme_base::{Instant, UnixMillis};
use breme_session::{
    Access, Change, EngineRequest, Event, Input, Machine, Moment, NodeName, Outcome, Output, Refusal, Register,
    Registers, RequestNumber, SessionKey, SessionRecord, SessionTarget, Settings, Ticket,
};
use bytes::Bytes;

pub const KEY: SessionKey = SessionKey::from_bytes([1; 16]);
pub const NEW: SessionKey = SessionKey::from_bytes([2; 16]);
/// Where calendars begin.
const CALENDAR: UnixMillis = UnixMillis(1_800_000_000_000);
const NAMES: [&str; 3] = ["a", "b", "c"];

pub struct Lab {
    pub engine: Registers,
    pub nodes: Vec<Machine>,
    pub now: Instant,
    /// What the calendars of all nodes showed when the clock began.
    calendar: UnixMillis,
    pub is_engine_away: bool,
    /// Nodes that do nothing.
    pub stopped: Vec<usize>,
    /// Compare-and-sets of sessions received by the engine.
    pub commits: usize,
    /// Requests of nodes for sessions of others.
    pub asked: usize,
    /// Outputs to be inspected by the test.
    collected: Vec<(usize, Output)>,
    waiting: Vec<(usize, Ticket, EngineRequest)>,
    requests: u64,
}

pub fn name(node: usize) -> NodeName {
    NodeName::new(NAMES[node]).unwrap()
}

#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Run(Bytes),
    Released(Outcome),
    Refused(Refusal),
    Absent,
    Forwarded(NodeName),
}

impl Lab {
    /// Creates nodes that know each other.
    pub fn new(settings: &Settings, nodes: usize) -> Self {
        let machine = |node| Machine::new(settings.clone(), name(node), 1 + node as u64).unwrap();
        let mut lab = Self {
            engine: Registers::default(),
            nodes: (0..nodes).map(machine).collect(),
            now: Instant::from_nanos(1),
            calendar: CALENDAR,
            is_engine_away: false,
            stopped: Vec::new(),
            commits: 0,
            asked: 0,
            collected: Vec::new(),
            waiting: Vec::new(),
            requests: 0,
        };
        lab.pass(Duration::from_secs(2));
        assert!(lab.nodes.iter().all(|node| node.incarnation().is_some()));
        lab
    }

    pub fn moment(&self) -> Moment {
        Moment { now: self.now, wall: UnixMillis(self.calendar.0 + self.now.as_nanos() / 1_000_000) }
    }

    /// Sets all calendars, to so many hours after the right time.
    pub fn set_calendars(&mut self, hours_ahead: i64) {
        self.calendar = UnixMillis(CALENDAR.0.saturating_add_signed(hours_ahead * 3_600_000));
    }

    pub fn input(&mut self, node: usize, input: Input) {
        if self.stopped.contains(&node) {
            return;
        }
        let at = self.moment();
        let mut outputs = Vec::new();
        self.nodes[node].handle(at, input, &mut outputs);
        for output in outputs {
            match output {
                Output::Engine { ticket, request } => self.waiting.push((node, ticket, request)),
                Output::RequestHandOver { call, to, question, .. } => {
                    self.asked += 1;
                    self.input(place(to), Input::HandOverRequested { from: name(node), call, question });
                }
                Output::Answer { to, call, answer } => self.input(place(to), Input::Answered { call, answer }),
                output => self.collected.push((node, output)),
            }
        }
        self.respond();
    }

    /// The engine responds to all pending requests.
    pub fn respond(&mut self) {
        while !self.is_engine_away && !self.waiting.is_empty() {
            let (node, ticket, request) = self.waiting.remove(0);
            let register = request.register();
            let is_change = matches!(request, EngineRequest::CompareAndSet { .. });
            self.commits += usize::from(is_change && matches!(register, Register::Session(_)));
            let response = self.engine.execute(self.now, &request);
            self.input(node, Input::Engine { ticket, response });
            let found = self.engine.read(self.now, &register).filter(|_| is_change);
            if let (Register::Node(_), Some((sequence, value))) = (register, found) {
                for other in 0..self.nodes.len() {
                    self.input(other, Input::Watched { register, sequence, value: value.clone() });
                }
            }
        }
    }

    /// Pending engine requests are lost.
    pub fn lose_engine_requests(&mut self) {
        self.waiting.clear();
    }

    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let running = self.nodes.iter().enumerate().filter(|(node, _)| !self.stopped.contains(node));
            let next = running.filter_map(|(node, machine)| Some((machine.deadline()?, node))).min();
            let Some((at, node)) = next.filter(|(at, _)| *at <= end) else { break };
            self.now = at.max(self.now);
            self.input(node, Input::Time);
        }
        self.now = end;
    }

    pub fn begin_with(&mut self, node: usize, session: SessionTarget, access: Access, hops: u8) -> RequestNumber {
        self.requests += 1;
        let request = RequestNumber(self.requests);
        self.input(node, Input::Begin { request, session, access, hops });
        request
    }

    pub fn begin(&mut self, node: usize) -> RequestNumber {
        self.begin_with(node, SessionTarget::Existing(KEY), Access::Exclusive, 0)
    }

    pub fn finish(&mut self, node: usize, request: RequestNumber, change: Change) {
        self.input(node, Input::Finish { request, change });
    }

    pub fn write(&mut self, node: usize, request: RequestNumber, body: &'static str) {
        self.finish(node, request, Change::Write(Bytes::from_static(body.as_bytes())));
    }

    /// Creates a session with this body, owned by the node.
    pub fn create(&mut self, node: usize, body: &'static str) {
        let request = self.begin_with(node, SessionTarget::New(KEY), Access::Exclusive, 0);
        self.write(node, request, body);
        assert_eq!(self.ends(request), [End::Run(Bytes::new()), End::Released(Outcome::Done)]);
    }

    /// Runs a read-only request to its end.
    pub fn read(&mut self, node: usize) -> Vec<End> {
        let request = self.begin(node);
        self.finish(node, request, Change::Unchanged);
        self.ends(request)
    }

    /// How the request has ended, since the last call.
    pub fn ends(&mut self, of: RequestNumber) -> Vec<End> {
        let about = |output: &Output| match output {
            Output::Run { request, .. }
            | Output::Release { request, .. }
            | Output::Refuse { request, .. }
            | Output::Absent { request }
            | Output::Forward { request, .. } => *request == of,
            _ => false,
        };
        let taken: Vec<_> = self.collected.extract_if(.., |(_, output)| about(output)).collect();
        let end = |output| match output {
            Output::Run { body, .. } => End::Run(body),
            Output::Release { outcome, .. } => End::Released(outcome),
            Output::Refuse { why, .. } => End::Refused(why),
            Output::Forward { to, .. } => End::Forwarded(to),
            _ => End::Absent,
        };
        taken.into_iter().map(|(_, output)| end(output)).collect()
    }

    pub fn has_left(&self, node: usize) -> bool {
        self.events(node).contains(&&Event::Left)
    }

    /// All events of the node.
    pub fn events(&self, of: usize) -> Vec<&Event> {
        let outputs = self.collected.iter().filter(|(node, _)| *node == of);
        outputs.filter_map(|(_, output)| if let Output::Event(event) = output { Some(event) } else { None }).collect()
    }

    pub fn record(&self, key: SessionKey) -> Option<SessionRecord> {
        let (_, value) = self.engine.read(self.now, &Register::Session(key))?;
        Some(SessionRecord::decode(&key, &value).unwrap())
    }
}

fn place(name: NodeName) -> usize {
    NAMES.iter().position(|known| *known == name.as_str()).unwrap()
}

/// It ran on this body and its response was released.
pub fn done(body: &'static str) -> Vec<End> {
    vec![End::Run(body.into()), End::Released(Outcome::Done)]
}
