//! The simulation as its users see it, and its loop: take the next event, let it happen.

use std::any::Any;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::ops::Range;
use std::{fmt, thread};

use breme_base::{Instant, Random};
use breme_node::{Node, Shard, ShardId};

use crate::agenda::{Agenda, Event};
use crate::host::{Host, HostState, Hosted, ShardState, Stopper};
use crate::link::{EndIndex, Link, Phase};
use crate::{Network, Trace};

/// How many events a run may have, unless [`Simulation::limit_steps`] says otherwise.
const STEPS_MAX: u64 = 5_000_000;

/// How many open connections a report of a stuck run names.
const NAMED_MAX: usize = 20;

/// Nodes in a world of virtual time, all of whose chance comes from one seed. See the crate's documentation.
pub struct Simulation {
    pub(crate) seed: u64,
    pub(crate) network: Network,
    pub(crate) random: Random,
    pub(crate) now: Instant,
    pub(crate) agenda: Agenda,
    pub(crate) hosts: Vec<HostState>,
    pub(crate) shards: Vec<ShardState>,
    pub(crate) links: Vec<Link>,
    pub(crate) trace: Trace,
    pub(crate) summary: Summary,
    steps_max: u64,
    are_servers_told: bool,
    /// Used again by each call.
    pub(crate) touched: Vec<EndIndex>,
}

/// Figures of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How long it lasted.
    pub ended_at: Instant,
    /// How many events there were.
    pub step_count: u64,
    /// Connections that were opened.
    pub connected_count: u64,
    /// Attempts that failed by a fault.
    pub failed_connect_count: u64,
    /// Connections that the network reset.
    pub reset_count: u64,
    /// Connections that fell silent.
    pub silenced_count: u64,
}

/// Why a run did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The seed.
    pub seed: u64,
    /// What is wrong.
    pub reason: String,
    /// The connections that are open.
    pub open: Vec<String>,
}

impl Simulation {
    /// An empty world.
    #[must_use]
    pub fn new(seed: u64, network: Network) -> Self {
        Self {
            seed,
            network,
            random: Random::stream(seed, 0),
            now: Instant::ZERO,
            agenda: Agenda::default(),
            hosts: Vec::new(),
            shards: Vec::new(),
            links: Vec::new(),
            trace: Trace::default(),
            summary: Summary::default(),
            steps_max: STEPS_MAX,
            are_servers_told: false,
            touched: Vec::new(),
        }
    }

    /// Adds a server of `shard_count` nodes behind one listener (`ListenerId(0)`), whose address
    /// [`Simulation::address`] tells. It works until all clients have exited, or until it is
    /// [stopped](Simulation::stop_at).
    pub fn serve<N: Node + 'static>(
        &mut self,
        name: &str,
        shard_count: usize,
        node: impl FnMut(Shard) -> N,
    ) -> Host<N> {
        self.add(name, shard_count, node, true)
    }

    /// Adds a client: a host without a listener. The run goes on until each of its nodes has
    /// [exited](breme_node::Actions::exit).
    pub fn client<N: Node + 'static>(
        &mut self,
        name: &str,
        shard_count: usize,
        node: impl FnMut(Shard) -> N,
    ) -> Host<N> {
        self.add(name, shard_count, node, false)
    }

    fn add<N: Node + 'static>(
        &mut self,
        name: &str,
        shard_count: usize,
        mut node: impl FnMut(Shard) -> N,
        is_server: bool,
    ) -> Host<N> {
        let index = self.hosts.len();
        let first = self.shards.len();
        for id in 0..shard_count {
            let node: Box<dyn Hosted> = Box::new(node(Shard { id: ShardId(id), count: shard_count }));
            self.trace.name_shard(format!("{name}/{id}"));
            self.agenda.arrange(Instant::ZERO, Event::Start { shard_index: self.shards.len() });
            self.shards.push(ShardState::new(index, node));
        }
        self.hosts.push(HostState {
            address: address_of(index),
            shards: first..self.shards.len(),
            is_server,
            is_listening: is_server,
            is_under_pressure: false,
            is_stopping: false,
            stopper: Stopper::default(),
        });
        Host { index, kind: PhantomData }
    }

    /// Where a server listens.
    #[must_use]
    pub fn address<N>(&self, server: Host<N>) -> SocketAddr {
        self.hosts[server.index].address
    }

    /// An address where nobody listens.
    #[must_use]
    pub fn nobody() -> SocketAddr {
        SocketAddr::from(([10, 255, 255, 254], 80))
    }

    /// Stops a host at an instant, as SIGTERM does.
    pub fn stop_at<N>(&mut self, host: Host<N>, at: Instant) {
        self.agenda.arrange(at, Event::Stop { host_index: host.index });
    }

    /// Lets the pressure on a server rise or fall at an instant: from then on its nodes believe that others wait that
    /// cannot be served. Here nobody waits; what the pressure does to clients that are served is what is simulated.
    pub fn pressure_at<N>(&mut self, server: Host<N>, at: Instant, is_under_pressure: bool) {
        self.agenda.arrange(at, Event::Pressure { host_index: server.index, is_under_pressure });
    }

    /// Stops a host when somebody says so; a node may.
    #[must_use]
    pub fn stopper<N>(&self, host: Host<N>) -> Stopper {
        self.hosts[host.index].stopper.clone()
    }

    /// Changes how many events the run may have.
    pub fn limit_steps(&mut self, steps_max: u64) {
        self.steps_max = steps_max;
    }

    /// Runs until every client has exited; then stops the servers and runs until they have ended too.
    ///
    /// # Errors
    ///
    /// If that does not come: nothing is due but somebody still waits, or there were too many events.
    ///
    /// # Panics
    ///
    /// If a node breaks the contract: takes more than it was lent, sends after it has finished, wakes a shard that is
    /// not there.
    pub fn run(&mut self) -> Result<Summary, Stuck> {
        while !self.is_over() {
            self.summary.step_count += 1;
            if self.summary.step_count > self.steps_max {
                return Err(
                    self.stuck(format!("no end after {} events: does a node turn in a circle?", self.steps_max))
                );
            }
            let Some((at, event)) = self.agenda.next() else {
                return Err(self.stuck(String::from("nothing is due, but not everybody is done")));
            };
            self.now = at;
            self.happen(event);
            self.notice_stops();
        }
        self.summary.ended_at = self.now;
        Ok(self.summary)
    }

    /// Hands back the nodes of a host, by shard. They are gone from the simulation then, which keeps its trace.
    ///
    /// # Panics
    ///
    /// If they were taken before.
    pub fn take<N: Node + 'static>(&mut self, host: Host<N>) -> Vec<N> {
        let shards = self.hosts[host.index].shards.clone();
        shards.map(|shard_index| *self.take_node(shard_index)).collect()
    }

    fn take_node<N: Node + 'static>(&mut self, shard_index: usize) -> Box<N> {
        let node = self.shards[shard_index].node.take();
        let Some(node) = node else { panic!("the node of {} was taken before", self.trace.name(shard_index)) };
        let node: Box<dyn Any> = node;
        node.downcast()
            .unwrap_or_else(|_| panic!("{} is not a {}", self.trace.name(shard_index), std::any::type_name::<N>()))
    }

    /// What happened.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The instant that the run has come to.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    fn is_over(&self) -> bool {
        self.shards.iter().all(|shard| shard.is_done)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Start { shard_index } => self.start(shard_index),
            Event::Deadline { shard_index } => self.look_at_deadline(shard_index),
            Event::Woken { shard_index, message } => self.wake(shard_index, message),
            Event::Stop { host_index } => self.stop(host_index),
            Event::Pressure { host_index, is_under_pressure } => self.pressure(host_index, is_under_pressure),
            Event::StopLimit { host_index } => self.drop_host(host_index),
            Event::Knock { link_index } => self.knock(link_index),
            Event::Accept { link_index } => self.accept(link_index),
            Event::Connected { link_index } => self.connected(link_index),
            Event::Secured { end, ticket } => self.secured(end, ticket),
            Event::ConnectFailed { shard_index, ticket, error } => self.connect_failed(shard_index, ticket, error),
            Event::Arrive { end } => self.arrive(end),
            Event::Lend { end } => self.lend(end),
            Event::Flush { end } => self.flush_later(end),
            Event::TellQueue { end } => self.tell_queue(end),
            Event::TellClosed { end, reason } => self.tell_closed(end, reason),
            Event::CloseLimit { end, progress } => self.limit_closing(end, progress),
            Event::ResendLimit { end } => self.limit_resending(end),
            Event::Cut { link_index } => self.cut(link_index),
            Event::Silence { link_index } => self.silence(link_index),
        }
    }

    /// Stops the hosts that were asked to, and the servers when the last client has exited.
    fn notice_stops(&mut self) {
        for host_index in 0..self.hosts.len() {
            if self.hosts[host_index].stopper.take() {
                self.agenda.arrange(self.now, Event::Stop { host_index });
            }
        }
        if !self.are_servers_told && self.clients().all(|shard_index| self.shards[shard_index].is_done) {
            self.are_servers_told = true;
            for host_index in 0..self.hosts.len() {
                self.agenda.arrange(self.now, Event::Stop { host_index });
            }
        }
    }

    fn clients(&self) -> impl Iterator<Item = usize> + '_ {
        let clients = self.hosts.iter().filter(|host| !host.is_server);
        clients.flat_map(|host| -> Range<usize> { host.shards.clone() })
    }

    fn stuck(&self, reason: String) -> Stuck {
        let ends = (0..self.links.len()).flat_map(|link_index| [0, 1].map(|side| EndIndex::new(link_index, side)));
        let open = ends.filter(|&end| !matches!(self.end(end).phase, Phase::Gone | Phase::Unborn));
        Stuck { seed: self.seed, reason, open: open.take(NAMED_MAX).map(|end| self.describe(end)).collect() }
    }

    fn describe(&self, end_index: EndIndex) -> String {
        let end = self.end(end_index);
        format!(
            "{} {:?}: {:?}{}{}, {} bytes lent and not taken, {} arrived and not read, {} queued, {} on the wire{}",
            self.trace.name(end.shard_index),
            end.id,
            end.phase,
            if end.incoming.is_paused { ", paused" } else { "" },
            if end.incoming.has_peer_ended { ", the peer has ended" } else { "" },
            end.incoming.inbox.len(),
            self.end(end_index.peer()).outgoing.arrived_bytes,
            end.outgoing.unsent_bytes,
            end.outgoing.wire.len(),
            if self.links[end_index.link_index].is_silent { ", silent" } else { "" },
        )
    }

    pub(crate) fn end(&self, end: EndIndex) -> &crate::link::End {
        &self.links[end.link_index].ends[end.side]
    }

    pub(crate) fn end_mut(&mut self, end: EndIndex) -> &mut crate::link::End {
        &mut self.links[end.link_index].ends[end.side]
    }
}

impl Drop for Simulation {
    /// A test that fails while the simulation is alive shows what happened.
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("simulation of seed {}, at {} ns:\n{}", self.seed, self.now.as_nanos(), self.trace);
        }
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Simulation").field("seed", &self.seed).field("now", &self.now).finish_non_exhaustive()
    }
}

impl fmt::Display for Stuck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the simulation of seed {} is stuck: {}", self.seed, self.reason)?;
        self.open.iter().try_for_each(|open| write!(formatter, "\n  {open}"))
    }
}

impl std::error::Error for Stuck {}

fn address_of(host_index: usize) -> SocketAddr {
    let [.., high, low] = (host_index + 1).to_be_bytes();
    SocketAddr::from(([10, 0, high, low], 80))
}
