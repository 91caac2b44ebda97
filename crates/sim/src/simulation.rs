//! The public interface and the main loop.

use std::any::Any;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::ops::Range;
use std::{fmt, thread};

use breme_base::{Instant, Random};
use breme_node::{Node, Shard, ShardId};

use crate::event_queue::{EventQueue, SimEvent};
use crate::host::{Host, HostState, Hosted, ShardState, Stopper};
use crate::link::{EndIndex, EndPhase, Link};
use crate::{Network, Trace};

/// Limit of events, see [`Simulation::limit_steps`].
const STEPS_MAX: u64 = 5_000_000;

/// Open connections listed in a report.
const NAMED_MAX: usize = 20;

/// Nodes in virtual time, with all randomness from one seed. See the crate's documentation.
pub struct Simulation {
    pub(crate) seed: u64,
    pub(crate) network: Network,
    pub(crate) random: Random,
    pub(crate) now: Instant,
    pub(crate) events: EventQueue,
    pub(crate) hosts: Vec<HostState>,
    pub(crate) shards: Vec<ShardState>,
    pub(crate) links: Vec<Link>,
    pub(crate) trace: Trace,
    pub(crate) summary: Summary,
    steps_max: u64,
    are_servers_stopped: bool,
    /// Reused between calls.
    pub(crate) touched: Vec<EndIndex>,
}

/// Statistics of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub ended_at: Instant,
    /// Number of events.
    pub step_count: u64,
    pub connected_count: u64,
    /// Attempts that failed because of a fault.
    pub failed_connect_count: u64,
    /// Connections reset by the network.
    pub reset_count: u64,
    /// Connections that became silent.
    pub silenced_count: u64,
}

/// A run that did not finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    pub seed: u64,
    pub reason: String,
    /// Open connections.
    pub open: Vec<String>,
}

impl Simulation {
    #[must_use]
    pub fn new(seed: u64, network: Network) -> Self {
        Self {
            seed,
            network,
            random: Random::stream(seed, 0),
            now: Instant::ZERO,
            events: EventQueue::default(),
            hosts: Vec::new(),
            shards: Vec::new(),
            links: Vec::new(),
            trace: Trace::default(),
            summary: Summary::default(),
            steps_max: STEPS_MAX,
            are_servers_stopped: false,
            touched: Vec::new(),
        }
    }

    /// Adds a server of `shard_count` nodes with one listener (`ListenerId(0)`) at [`Simulation::address`]. It runs
    /// until all clients have exited, or until it is [stopped](Simulation::stop_at).
    pub fn serve<N: Node + 'static>(
        &mut self,
        name: &str,
        shard_count: usize,
        node: impl FnMut(Shard) -> N,
    ) -> Host<N> {
        self.add(name, shard_count, node, true)
    }

    /// Adds a client: a host without a listener. The run lasts until all its nodes have
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
            self.events.schedule(Instant::ZERO, SimEvent::Start { shard_index: self.shards.len() });
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

    #[must_use]
    pub fn address<N>(&self, server: Host<N>) -> SocketAddr {
        self.hosts[server.index].address
    }

    /// An address without a listener.
    #[must_use]
    pub fn nobody() -> SocketAddr {
        SocketAddr::from(([10, 255, 255, 254], 80))
    }

    /// Stops a host, as SIGTERM does.
    pub fn stop_at<N>(&mut self, host: Host<N>, at: Instant) {
        self.events.schedule(at, SimEvent::Stop { host_index: host.index });
    }

    /// Sets the pressure on a server: its nodes are notified that connections wait. None does here; the effect on
    /// served clients is simulated.
    pub fn pressure_at<N>(&mut self, server: Host<N>, at: Instant, is_under_pressure: bool) {
        self.events.schedule(at, SimEvent::Pressure { host_index: server.index, is_under_pressure });
    }

    /// Stops a host on request, for example of a node.
    #[must_use]
    pub fn stopper<N>(&self, host: Host<N>) -> Stopper {
        self.hosts[host.index].stopper.clone()
    }

    /// Sets the limit of events.
    pub fn limit_steps(&mut self, steps_max: u64) {
        self.steps_max = steps_max;
    }

    /// Runs until all clients have exited, then stops the servers and runs until they have ended.
    ///
    /// # Errors
    ///
    /// If no event is due while a node is not done, or there were too many events.
    ///
    /// # Panics
    ///
    /// If a node breaks the contract: consumes more than it was lent, sends after finishing, wakes a shard that does
    /// not exist.
    pub fn run(&mut self) -> Result<Summary, Stuck> {
        while !self.is_over() {
            self.summary.step_count += 1;
            if self.summary.step_count > self.steps_max {
                return Err(self.stuck(format!("no end after {} events: does a node loop?", self.steps_max)));
            }
            let Some((at, event)) = self.events.next() else {
                return Err(self.stuck(String::from("no event is due, but some nodes are not done")));
            };
            self.now = at;
            self.handle_event(event);
            self.handle_stop_requests();
        }
        self.summary.ended_at = self.now;
        Ok(self.summary)
    }

    /// Removes and returns the nodes of a host, by shard.
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

    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    fn is_over(&self) -> bool {
        self.shards.iter().all(|shard| shard.is_done)
    }

    fn handle_event(&mut self, event: SimEvent) {
        match event {
            SimEvent::Start { shard_index } => self.start(shard_index),
            SimEvent::Deadline { shard_index } => self.check_deadline(shard_index),
            SimEvent::Woken { shard_index, message } => self.wake(shard_index, message),
            SimEvent::Stop { host_index } => self.stop(host_index),
            SimEvent::Pressure { host_index, is_under_pressure } => self.pressure(host_index, is_under_pressure),
            SimEvent::StopLimit { host_index } => self.drop_host(host_index),
            SimEvent::ConnectAttempt { link_index } => self.handle_attempt(link_index),
            SimEvent::Accept { link_index } => self.accept(link_index),
            SimEvent::Connected { link_index } => self.connected(link_index),
            SimEvent::Secured { end, ticket } => self.secured(end, ticket),
            SimEvent::ConnectFailed { shard_index, ticket, error } => self.connect_failed(shard_index, ticket, error),
            SimEvent::Arrive { end } => self.arrive(end),
            SimEvent::Lend { end } => self.lend(end),
            SimEvent::Flush { end } => self.flush_later(end),
            SimEvent::NotifyQueue { end } => self.notify_queue(end),
            SimEvent::NotifyClosed { end, reason } => self.notify_closed(end, reason),
            SimEvent::CloseLimit { end, progress } => self.limit_closing(end, progress),
            SimEvent::ResendLimit { end } => self.limit_resending(end),
            SimEvent::Cut { link_index } => self.cut(link_index),
            SimEvent::Silence { link_index } => self.silence(link_index),
        }
    }

    /// Stops hosts on request, and the servers after the last client has exited.
    fn handle_stop_requests(&mut self) {
        for host_index in 0..self.hosts.len() {
            if self.hosts[host_index].stopper.take() {
                self.events.schedule(self.now, SimEvent::Stop { host_index });
            }
        }
        if !self.are_servers_stopped && self.clients().all(|shard_index| self.shards[shard_index].is_done) {
            self.are_servers_stopped = true;
            for host_index in 0..self.hosts.len() {
                self.events.schedule(self.now, SimEvent::Stop { host_index });
            }
        }
    }

    fn clients(&self) -> impl Iterator<Item = usize> + '_ {
        let clients = self.hosts.iter().filter(|host| !host.is_server);
        clients.flat_map(|host| -> Range<usize> { host.shards.clone() })
    }

    fn stuck(&self, reason: String) -> Stuck {
        let ends = (0..self.links.len()).flat_map(|link_index| [0, 1].map(|side| EndIndex::new(link_index, side)));
        let open = ends.filter(|&end| !matches!(self.end(end).phase, EndPhase::Closed | EndPhase::NotReported));
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
    /// Prints the trace if a test fails.
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
