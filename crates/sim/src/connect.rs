//! Connecting: the attempt travels to the listener and its result back. The server may see the connection before the
//! client does, or after.

use std::net::SocketAddr;
use std::time::Duration;

use breme_node::{Accepted, ConnectError, ConnectTicket, Connected, ConnectionId, Handshake, ListenerId, TlsFailure};

use crate::Simulation;
use crate::event_queue::SimEvent;
use crate::link::{CLIENT, EndIndex, EndPhase, Link, SERVER};
use crate::trace::TraceEvent;

/// Client ports, used in turn.
const FIRST_PORT: usize = 32_768;
const PORT_COUNT: usize = 28_000;

impl Simulation {
    pub(crate) fn connect(&mut self, shard_index: usize, ticket: ConnectTicket, address: SocketAddr) {
        self.shards[shard_index].connecting_count += 1;
        let travel = self.network.delay.draw(&mut self.random);
        let faults = self.network.faults;
        if self.random.chance(faults.unanswered) {
            self.summary.failed_connect_count += 1;
            let at = self.now + self.network.connect_timeout;
            self.events.schedule(at, SimEvent::ConnectFailed { shard_index, ticket, error: ConnectError::TimedOut });
            return;
        }
        let is_fault = self.random.chance(faults.refused);
        self.summary.failed_connect_count += u64::from(is_fault);
        let host_index = self.hosts.iter().position(|host| host.is_server && host.address == address);
        let Some(host_index) = host_index.filter(|_| !is_fault) else {
            let at = self.now + travel * 2;
            self.events.schedule(at, SimEvent::ConnectFailed { shard_index, ticket, error: ConnectError::Refused });
            return;
        };
        let link_index = self.links.len();
        self.links.push(Link { host_index, ..Link::new(shard_index, ticket, &self.network, &mut self.random) });
        self.events.schedule(self.now + travel, SimEvent::ConnectAttempt { link_index });
    }

    /// The attempt reaches the host and succeeds if it listens.
    pub(crate) fn handle_attempt(&mut self, link_index: usize) {
        let Link { host_index, ticket, ends: [client, _], .. } = &self.links[link_index];
        let (host_index, ticket, client_shard) = (*host_index, *ticket, client.shard_index);
        let back = self.now + self.network.delay.draw(&mut self.random);
        let host = &self.hosts[host_index];
        let awake: Vec<usize> = host.shards.clone().filter(|&shard_index| !self.shards[shard_index].is_done).collect();
        if !host.is_listening || awake.is_empty() {
            let error = ConnectError::Refused;
            self.events.schedule(back, SimEvent::ConnectFailed { shard_index: client_shard, ticket, error });
            return;
        }
        let chosen = awake[self.random.below(awake.len() as u64) as usize];
        self.links[link_index].ends[SERVER].shard_index = chosen;
        self.links[link_index].is_in_backlog = true;
        let accepted = self.now + self.network.lateness.draw(&mut self.random);
        self.events.schedule(accepted, SimEvent::Accept { link_index });
        self.events.schedule(back, SimEvent::Connected { link_index });
        self.schedule_faults(link_index);
    }

    fn schedule_faults(&mut self, link_index: usize) {
        let faults = self.network.faults;
        for (probability, event) in
            [(faults.reset, SimEvent::Cut { link_index }), (faults.silence, SimEvent::Silence { link_index })]
        {
            if self.random.chance(probability) {
                let at = self.now + faults.begin.draw(&mut self.random);
                self.events.schedule(at, event);
            }
        }
    }

    pub(crate) fn accept(&mut self, link_index: usize) {
        if !std::mem::take(&mut self.links[link_index].is_in_backlog) {
            return; // accepted already, when the listener closed
        }
        let end = EndIndex::new(link_index, SERVER);
        let shard_index = self.end(end).shard_index;
        let is_listening = self.hosts[self.links[link_index].host_index].is_listening;
        if !is_listening || self.shards[shard_index].is_done {
            self.end_mut(end).phase = EndPhase::Closed;
            self.send_reset(end);
            return;
        }
        let id = self.open(end);
        let node = self.shards[shard_index].node.as_ref();
        self.end_mut(end).is_full_duplex = node.is_some_and(|node| node.is_full_duplex());
        let client_host = self.shards[self.end(end.peer()).shard_index].host_index;
        let port = FIRST_PORT + link_index % PORT_COUNT;
        let mut peer = self.hosts[client_host].address;
        peer.set_port(u16::try_from(port).unwrap_or(u16::MAX));
        let accepted = Accepted { listener: ListenerId(0), peer: Some(peer) };
        self.call(shard_index, Some(id), TraceEvent::Accepted, |node, now, actions| {
            node.handle_accepted(now, id, accepted, actions);
        });
        self.handle_early_events(end);
    }

    pub(crate) fn connected(&mut self, link_index: usize) {
        let end = EndIndex::new(link_index, CLIENT);
        let shard_index = self.end(end).shard_index;
        let ticket = self.links[link_index].ticket;
        self.shards[shard_index].connecting_count -= 1;
        if self.shards[shard_index].is_done {
            self.end_mut(end).phase = EndPhase::Closed;
            self.send_reset(end);
            return;
        }
        self.summary.connected_count += 1;
        let id = self.open(end);
        self.call(shard_index, Some(id), TraceEvent::Connected(ticket), |node, now, actions| {
            node.handle_connected(now, ticket, Ok(Connected::plain(id)), actions);
        });
        self.handle_early_events(end);
    }

    /// Starts TLS. Bytes that the node has not consumed would not belong to it.
    pub(crate) fn start_tls(&mut self, shard_index: usize, id: ConnectionId, ticket: ConnectTicket) {
        let Some(end) = self.open_end(shard_index, id, TraceEvent::Connects(ticket)) else {
            self.shards[shard_index].connecting_count += 1;
            let error = ConnectError::Tls(TlsFailure::Closed);
            return self.events.schedule(self.now, SimEvent::ConnectFailed { shard_index, ticket, error });
        };
        let (name, left_bytes) = (self.trace.name(shard_index), self.end(end).incoming.inbox.len());
        assert!(left_bytes == 0, "{name} begins TLS on {id:?} with {left_bytes} unconsumed bytes");
        self.events.schedule(self.now, SimEvent::Secured { end, ticket });
    }

    /// Nodes only see that TLS is active. On a closed connection the handshake fails.
    pub(crate) fn secured(&mut self, end: EndIndex, ticket: ConnectTicket) {
        let shard_index = self.end(end).shard_index;
        let id = self.end(end).id;
        let handshake = Some(Handshake { duration: Duration::ZERO, is_resumed: false });
        let is_there = self.end(end).phase == EndPhase::Open;
        let (what, outcome) = match is_there {
            true => (TraceEvent::Connected(ticket), Ok(Connected { connection: id, handshake })),
            false => {
                let error = ConnectError::Tls(TlsFailure::Closed);
                (TraceEvent::ConnectFailed(ticket, error), Err(error))
            }
        };
        self.call(shard_index, is_there.then_some(id), what, |node, now, actions| {
            node.handle_connected(now, ticket, outcome, actions);
        });
    }

    pub(crate) fn connect_failed(&mut self, shard_index: usize, ticket: ConnectTicket, error: ConnectError) {
        self.shards[shard_index].connecting_count -= 1;
        self.call(shard_index, None, TraceEvent::ConnectFailed(ticket, error), |node, now, actions| {
            node.handle_connected(now, ticket, Err(error), actions);
        });
    }

    fn open(&mut self, end: EndIndex) -> ConnectionId {
        let shard_index = self.end(end).shard_index;
        let id = self.shards[shard_index].table.insert(end);
        let state = self.end_mut(end);
        state.id = id;
        state.phase = EndPhase::Open;
        id
    }

    /// Handles what arrived before the node knew of the connection.
    fn handle_early_events(&mut self, end: EndIndex) {
        if self.end(end).incoming.was_reset {
            self.reset_end(end);
        } else {
            self.lend_soon(end);
        }
    }
}
