//! A node's process: the machine, its clock, and the requests that it has accepted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use breme_base::{Instant, Random, UnixMillis};
use breme_session::{Machine, Moment, NodeName, Output, RanOn, RequestNumber};

use crate::scenario::Scenario;
use crate::world::{Event, Http, Response};

pub struct Host {
    pub name: NodeName,
    /// None while the process is dead.
    pub machine: Option<Machine>,
    /// Number of the process; events of earlier ones are void.
    pub process: u32,
    pub nonce: u64,
    pub is_frozen: bool,
    /// Events deferred until the process is thawed.
    pub deferred: VecDeque<Event>,
    /// The engine and these nodes cannot be reached.
    pub is_cut_off: bool,
    pub cut_off_from: BTreeSet<usize>,
    pub requests: BTreeMap<RequestNumber, Taken>,
    pub timer: Instant,
    /// The process's clock: its offset at the start, and its speed in parts per million.
    offset: Duration,
    speed: u64,
    /// How far the calendar is ahead of the right time.
    pub calendar_ahead_ms: i64,
}

pub struct Taken {
    pub http: Http,
    /// The response, once the request has run.
    pub response: Option<Response>,
    pub body: bytes::Bytes,
    /// Where it ran, if it has.
    pub ran: Option<RanOn>,
    /// Forwarded to another node, whose response is pending.
    pub is_forwarded: bool,
}

impl Host {
    pub fn new(name: NodeName, random: &mut Random) -> Self {
        Self {
            name,
            machine: None,
            process: 0,
            nonce: 0,
            is_frozen: false,
            deferred: VecDeque::new(),
            is_cut_off: false,
            cut_off_from: BTreeSet::new(),
            requests: BTreeMap::new(),
            timer: Instant::FAR,
            offset: Duration::from_millis(random.below(100_000)),
            // Two clocks differ by at most 1 %.
            speed: random.between(995_000, 1_005_000),
            calendar_ahead_ms: 0,
        }
    }

    pub fn start(&mut self, scenario: &Scenario, nonce: u64) {
        self.process += 1;
        self.nonce = nonce;
        self.is_frozen = false;
        self.deferred.clear();
        self.requests.clear();
        self.timer = Instant::FAR;
        let machine = Machine::with_rules(scenario.settings.clone(), scenario.rules, self.name, nonce);
        self.machine = Some(machine.unwrap_or_else(|error| panic!("{error}")));
    }

    pub fn moment(&self, now: Instant) -> Moment {
        let local = now.as_nanos() / 1_000 * self.speed / 1_000;
        let right = 1_800_000_000_000 + now.as_nanos() / 1_000_000;
        Moment {
            now: Instant::from_nanos(local) + self.offset,
            wall: UnixMillis(right.saturating_add_signed(self.calendar_ahead_ms)),
        }
    }

    /// When the machine's clock shows `deadline`, or a little later.
    pub fn when(&self, deadline: Instant) -> Instant {
        let local = deadline.since(Instant::ZERO + self.offset).as_nanos() as u64;
        Instant::from_nanos(local / self.speed * 1_000_000 + 1_000_000)
    }

    pub fn handle(&mut self, now: Instant, input: breme_session::Input, outputs: &mut Vec<Output>) {
        let at = self.moment(now);
        if let Some(machine) = &mut self.machine {
            machine.handle(at, input, outputs);
        }
    }
}
