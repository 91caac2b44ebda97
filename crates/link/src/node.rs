//! The relay: pairs of connections, and their deadlines.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use breme_base::{Instant, Random, Timers};
use breme_node::{
    Accepted, Actions, COPIED_BYTES_MAX, Close, CloseReason, ConnectResult, ConnectTicket, Connected, ConnectionId,
    Endpoint, Node, Received,
};
use slab::Slab;

use crate::Direction;
use crate::counters::Counters;
use crate::flow::{Flow, Parcel, Sink, Source};
use crate::line::{Fate, Line};
use crate::settings::{HELD_BYTES_MAX, Settings};

/// How late a timer may fire. It is a tenth of the promised accuracy, and saves most of the wake-ups at high
/// bandwidths.
const SLACK: Duration = Duration::from_micros(100);

#[derive(Debug)]
pub struct LinkNode {
    settings: Arc<Settings>,
    counters: Arc<Counters>,
    lines: [Line; 2],
    windows: [usize; 2],
    pairs: Slab<Pair>,
    /// The pair of each connection, by connection index.
    places: Vec<Option<Place>>,
    /// By [`timer_key`].
    timers: Timers,
    /// Flows whose sources were paused because all flows together hold too much.
    starved: VecDeque<(usize, Direction)>,
}

/// A client's connection and the one to the server.
#[derive(Debug)]
struct Pair {
    client: Peer,
    server: Peer,
    /// By [`Direction`].
    flows: [Flow; 2],
    /// The address to try next.
    server_index: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    /// The client's SYN is in transit.
    Awaited,
    Connecting,
    Open(ConnectionId),
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    connection: ConnectionId,
    pair: usize,
    /// The direction of the data from this connection's peer.
    sends: Direction,
}

impl Pair {
    fn flow(&mut self, direction: Direction) -> &mut Flow {
        &mut self.flows[direction.index()]
    }

    /// The source of a direction.
    fn source(&self, direction: Direction) -> Peer {
        self.sink(direction.reverse())
    }

    /// The sink of a direction.
    const fn sink(&self, direction: Direction) -> Peer {
        match direction {
            Direction::ToServer => self.server,
            Direction::ToClient => self.client,
        }
    }
}

impl LinkNode {
    pub(crate) fn new(settings: Arc<Settings>, counters: Arc<Counters>) -> Self {
        let line = |direction: Direction| {
            let index = direction.index();
            Line::new(&settings, settings.bandwidths[index], Random::stream(settings.seed, index as u64))
        };
        Self {
            lines: Direction::ALL.map(line),
            windows: Direction::ALL.map(|direction| settings.window(direction)),
            counters,
            pairs: Slab::new(),
            places: Vec::new(),
            timers: Timers::new(),
            starved: VecDeque::new(),
            settings,
        }
    }

    fn settle(&mut self, now: Instant, actions: &mut Actions) {
        loop {
            for direction in Direction::ALL {
                self.fill_line(now, direction);
            }
            let mut is_settled = true;
            while let Some(key) = self.timers.pop_due(now) {
                let (pair, direction) = pair_and_direction(key);
                self.serve_flow(now, pair, direction, actions);
                is_settled = false;
            }
            if is_settled {
                break;
            }
        }
        self.feed_starved(actions);
    }

    /// Sends what the line can have taken until now.
    fn fill_line(&mut self, now: Instant, direction: Direction) {
        while let Some(index) = self.lines[direction.index()].pop_turn(now) {
            let Some(pair) = self.pairs.get_mut(index) else { continue };
            let line = &mut self.lines[direction.index()];
            let flow = pair.flow(direction);
            let segment = flow.take_segment(line.segment_bytes());
            flow.has_turn = flow.waiting_bytes() > 0;
            if flow.has_turn {
                line.turns.push_back(index);
            }
            if segment.is_empty() {
                continue; // it was discarded
            }
            match line.send(flow.ready_at, segment.len()) {
                Fate::Arrives { at, losses } => {
                    self.counters.direction(direction).losses.add_many(u64::from(losses));
                    flow.send(at, Parcel::Bytes(segment));
                    flow.send_end_if_due(at);
                    self.timers.set(timer_key(index, direction), flow.deadline());
                }
                Fate::Reset { at } => {
                    self.counters.resets.add();
                    self.counters.direction(direction).discarded.add_many(segment.len() as u64);
                    self.reset_pair(index, at);
                }
            }
        }
    }

    /// The path resets a connection, for both sides at this instant.
    fn reset_pair(&mut self, index: usize, at: Instant) {
        for direction in Direction::ALL {
            let Some(pair) = self.pairs.get_mut(index) else { return };
            let flow = pair.flow(direction);
            self.counters.direction(direction).discarded.add_many(flow.discard_waiting() as u64);
            flow.source = Source::Over;
            flow.send(at, Parcel::Reset);
            self.timers.set(timer_key(index, direction), flow.deadline());
        }
    }

    /// A flow's deadline has passed: its handshake is complete, or something has arrived.
    fn serve_flow(&mut self, now: Instant, index: usize, direction: Direction, actions: &mut Actions) {
        let Some(pair) = self.pairs.get_mut(index) else { return };
        if pair.server == Peer::Awaited {
            pair.server = Peer::Connecting;
            pair.flows.iter_mut().for_each(|flow| flow.opens_at = Instant::FAR);
            return self.connect(index, actions);
        }
        if !pair.flow(direction).is_open {
            self.open_flow(index, direction);
        }
        self.deliver(now, index, direction, actions);
    }

    fn connect(&mut self, index: usize, actions: &mut Actions) {
        let Some(pair) = self.pairs.get_mut(index) else { return };
        let server = self.settings.servers[pair.server_index % self.settings.servers.len()];
        actions.connect(ConnectTicket(index as u64), Endpoint::tcp(server));
    }

    /// The handshake is complete: the line may take what waits.
    fn open_flow(&mut self, index: usize, direction: Direction) {
        let Some(pair) = self.pairs.get_mut(index) else { return };
        let line = &mut self.lines[direction.index()];
        let flow = pair.flow(direction);
        flow.is_open = true;
        flow.ready_at = flow.ready_at.max(flow.opens_at);
        flow.send_end_if_due(flow.opens_at + line.draw_delay());
        self.queue_flow(index, direction);
    }

    /// Queues a flow that has something to send.
    fn queue_flow(&mut self, index: usize, direction: Direction) {
        let Some(pair) = self.pairs.get_mut(index) else { return };
        let flow = pair.flow(direction);
        if flow.is_open && flow.waiting_bytes() > 0 && !flow.has_turn {
            flow.has_turn = true;
            self.lines[direction.index()].turns.push_back(index);
        }
        self.timers.set(timer_key(index, direction), flow.deadline());
    }

    /// Sends what has arrived to the sink.
    fn deliver(&mut self, now: Instant, index: usize, direction: Direction, actions: &mut Actions) {
        let Some(pair) = self.pairs.get_mut(index) else { return };
        let sink = pair.sink(direction);
        let flow = pair.flow(direction);
        let counters = self.counters.direction(direction);
        let mut has_sent = false;
        while let Some(parcel) = flow.pop_arrived(now) {
            match (sink, parcel) {
                (Peer::Open(connection), Parcel::Bytes(bytes)) if flow.sink == Sink::Receiving => {
                    has_sent = true;
                    counters.arrived.add_many(bytes.len() as u64);
                    if bytes.len() > COPIED_BYTES_MAX {
                        actions.send_shared(connection, bytes);
                    } else {
                        actions.send(connection).extend_from_slice(&bytes);
                    }
                }
                (_, Parcel::Bytes(bytes)) => counters.discarded.add_many(bytes.len() as u64),
                (Peer::Open(connection), Parcel::End) if flow.sink == Sink::Receiving => {
                    flow.sink = Sink::Ended;
                    actions.finish(connection);
                }
                (_, Parcel::Reset) if has_sent => {
                    // It would discard this call's sends, which have arrived before it.
                    flow.put_back_reset(now + Duration::from_nanos(1));
                    break;
                }
                (Peer::Open(connection), Parcel::Reset) if flow.sink != Sink::Gone => {
                    flow.sink = Sink::Gone;
                    actions.close(connection, Close::Abort);
                }
                _ => {}
            }
        }
        self.timers.set(timer_key(index, direction), flow.deadline());
        self.resume_source(index, direction, actions);
        self.close_if_over(index, direction.reverse(), actions);
    }

    /// A peer that has ended its sending, and received the end of the other direction, is closed.
    fn close_if_over(&mut self, index: usize, sends: Direction, actions: &mut Actions) {
        let Some(pair) = self.pairs.get_mut(index) else { return };
        let has_sent_all = matches!(pair.flow(sends).source, Source::Ended | Source::Over);
        let has_received_all = pair.flow(sends.reverse()).sink == Sink::Ended;
        if let Peer::Open(connection) = pair.source(sends)
            && has_sent_all
            && has_received_all
        {
            actions.close(connection, Close::Graceful);
        }
    }

    /// The source of a flow is resumed when half of its window is free.
    fn resume_source(&mut self, index: usize, direction: Direction, actions: &mut Actions) {
        let Some(pair) = self.pairs.get_mut(index) else { return };
        let flow = pair.flow(direction);
        if !flow.is_source_paused || flow.held_bytes() > self.windows[direction.index()] / 2 {
            return;
        }
        if self.counters.held_bytes() >= HELD_BYTES_MAX as u64 {
            return self.starve(index, direction);
        }
        flow.is_source_paused = false;
        if let Peer::Open(connection) = pair.source(direction) {
            actions.resume(connection);
        }
    }

    /// The flow's source is paused until all flows together hold less.
    fn starve(&mut self, index: usize, direction: Direction) {
        let Some(pair) = self.pairs.get_mut(index) else { return };
        if !std::mem::replace(&mut pair.flow(direction).is_starved, true) {
            self.starved.push_back((index, direction));
        }
    }

    fn feed_starved(&mut self, actions: &mut Actions) {
        while !self.starved.is_empty() && self.counters.held_bytes() < HELD_BYTES_MAX as u64 / 2 {
            let Some((index, direction)) = self.starved.pop_front() else { return };
            if let Some(pair) = self.pairs.get_mut(index) {
                pair.flow(direction).is_starved = false;
            }
            self.resume_source(index, direction, actions);
        }
    }

    /// Takes data from a source, as far as there is room. Returns the number of bytes.
    fn take(&mut self, now: Instant, place: Place, received: Received<'_>, actions: &mut Actions) -> usize {
        let Place { connection, pair: index, sends: direction } = place;
        let length = received.bytes.len();
        let Some(pair) = self.pairs.get_mut(index) else { return length };
        let flow = pair.flow(direction);
        if flow.source != Source::Sending || flow.sink == Sink::Gone {
            return length; // nobody waits for it
        }
        let room = (HELD_BYTES_MAX as u64).saturating_sub(self.counters.held_bytes());
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let window = self.windows[direction.index()].saturating_sub(flow.held_bytes());
        let taken = length.min(window).min(room);
        flow.push(now, &received.bytes[..taken]);
        self.counters.direction(direction).taken.add_many(taken as u64);
        if taken < length {
            flow.is_source_paused = true;
            actions.pause(connection);
            if room < window {
                self.starve(index, direction);
            }
        } else if received.ended {
            flow.source = Source::Ended;
            if flow.is_open {
                flow.send_end_if_due(now + self.lines[direction.index()].draw_delay());
            }
            self.close_if_over(index, direction, actions);
        }
        self.queue_flow(index, direction);
        taken
    }

    /// The server cannot be reached: the client receives a reset.
    fn fail_connect(&mut self, now: Instant, index: usize) {
        self.counters.connects_failed.add();
        let Some(pair) = self.pairs.get_mut(index) else { return };
        pair.server = Peer::Gone;
        self.lose_sink(index, Direction::ToServer);
        self.reset_flow(now, index, Direction::ToClient);
        self.remove_if_over(index);
    }

    /// The sink of a flow is gone: the content of the flow is discarded.
    fn lose_sink(&mut self, index: usize, direction: Direction) {
        let Some(pair) = self.pairs.get_mut(index) else { return };
        let flow = pair.flow(direction);
        flow.sink = Sink::Gone;
        self.counters.direction(direction).discarded.add_many(flow.discard() as u64);
        self.timers.set(timer_key(index, direction), flow.deadline());
    }

    /// The source of a flow has reset its connection; the sink is reset one delay later, whether or not the handshake
    /// is complete.
    fn reset_flow(&mut self, now: Instant, index: usize, direction: Direction) {
        let Some(pair) = self.pairs.get_mut(index) else { return };
        let flow = pair.flow(direction);
        self.counters.direction(direction).discarded.add_many(flow.discard_waiting() as u64);
        flow.is_open = true;
        flow.source = Source::Reset;
        flow.send_end_if_due(now + self.lines[direction.index()].draw_delay());
        self.timers.set(timer_key(index, direction), flow.deadline());
    }

    fn remove_if_over(&mut self, index: usize) {
        let Some(pair) = self.pairs.get(index) else { return };
        if pair.client != Peer::Gone || !matches!(pair.server, Peer::Gone | Peer::Awaited) {
            return;
        }
        let mut pair = self.pairs.remove(index);
        for direction in Direction::ALL {
            let flow = pair.flow(direction);
            self.counters.direction(direction).discarded.add_many(flow.discard() as u64);
            self.timers.clear(timer_key(index, direction));
            if flow.has_turn {
                // Another pair will reuse this index.
                self.lines[direction.index()].turns.retain(|&other| other != index);
            }
        }
    }

    fn place(&self, connection: ConnectionId) -> Option<Place> {
        (*self.places.get(connection.index())?).filter(|place| place.connection == connection)
    }

    fn set_place(&mut self, place: Place) {
        let index = place.connection.index();
        if index >= self.places.len() {
            self.places.resize(index + 1, None);
        }
        self.places[index] = Some(place);
    }
}

impl Node for LinkNode {
    fn handle_accepted(&mut self, now: Instant, id: ConnectionId, _accepted: Accepted, actions: &mut Actions) {
        self.settle(now, actions);
        self.counters.connections.add();
        let opens_at = now + self.lines[Direction::ToServer.index()].draw_delay();
        let mut flows = [Flow::new(), Flow::new()];
        flows[Direction::ToServer.index()].opens_at = opens_at;
        let pair = Pair { client: Peer::Open(id), server: Peer::Awaited, flows, server_index: 0 };
        let index = self.pairs.insert(pair);
        self.set_place(Place { connection: id, pair: index, sends: Direction::ToServer });
        self.timers.set(timer_key(index, Direction::ToServer), opens_at);
        self.settle(now, actions);
    }

    fn handle_connected(&mut self, now: Instant, ticket: ConnectTicket, result: ConnectResult, actions: &mut Actions) {
        self.settle(now, actions);
        let index = ticket.0 as usize;
        let Some(pair) = self.pairs.get_mut(index) else { return };
        match result {
            Ok(Connected { connection, .. }) => {
                pair.server = Peer::Open(connection);
                if pair.client == Peer::Gone {
                    actions.close(connection, Close::Abort);
                }
                // The SYN-ACK reaches the client, and then the client's ACK the server.
                let answered = now + self.lines[Direction::ToClient.index()].draw_delay();
                let confirmed = answered + self.lines[Direction::ToServer.index()].draw_delay();
                for (direction, opens_at) in [(Direction::ToServer, answered), (Direction::ToClient, confirmed)] {
                    let flow = pair.flow(direction);
                    flow.opens_at = opens_at;
                    self.timers.set(timer_key(index, direction), flow.deadline());
                }
                self.set_place(Place { connection, pair: index, sends: Direction::ToClient });
            }
            Err(_) if pair.server_index + 1 < self.settings.servers.len() => {
                pair.server_index += 1;
                self.connect(index, actions);
            }
            Err(error) => {
                (self.settings.report_unreachable)(error);
                self.fail_connect(now, index);
            }
        }
        self.settle(now, actions);
    }

    fn handle_received(&mut self, now: Instant, id: ConnectionId, input: Received<'_>, actions: &mut Actions) -> usize {
        self.settle(now, actions);
        let Some(place) = self.place(id) else { return input.bytes.len() };
        let taken = self.take(now, place, input, actions);
        self.settle(now, actions);
        taken
    }

    fn handle_sent(&mut self, now: Instant, id: ConnectionId, unsent_bytes: u64, actions: &mut Actions) {
        let Some(Place { pair: index, sends, .. }) = self.place(id) else { return };
        let direction = sends.reverse();
        let Some(pair) = self.pairs.get_mut(index) else { return };
        let flow = pair.flow(direction);
        match (flow.sink, unsent_bytes) {
            (Sink::Receiving, 1..) => flow.sink = Sink::Full,
            (Sink::Full, 0) => flow.sink = Sink::Receiving,
            _ => {}
        }
        self.timers.set(timer_key(index, direction), flow.deadline());
        self.settle(now, actions);
    }

    fn handle_closed(&mut self, now: Instant, id: ConnectionId, reason: CloseReason, actions: &mut Actions) {
        let Some(Place { pair: index, sends, .. }) = self.place(id) else { return };
        self.places[id.index()] = None;
        self.settle(now, actions);
        let Some(pair) = self.pairs.get_mut(index) else { return };
        match sends {
            Direction::ToServer => pair.client = Peer::Gone,
            Direction::ToClient => pair.server = Peer::Gone,
        }
        let is_broken = reason != CloseReason::Requested || pair.flow(sends).source == Source::Sending;
        self.lose_sink(index, sends.reverse());
        if is_broken {
            self.reset_flow(now, index, sends);
        }
        // Its further data is taken and discarded, so that its end is seen.
        self.resume_source(index, sends.reverse(), actions);
        self.remove_if_over(index);
        self.settle(now, actions);
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        self.settle(now, actions);
    }

    /// Open connections continue until the driver's time limit: only their ends know whether a response is still to
    /// come.
    fn handle_stopping(&mut self, _now: Instant, _actions: &mut Actions) {}

    fn next_deadline(&self) -> Option<Instant> {
        let lines = self.lines.iter().filter_map(Line::next);
        lines.chain(self.timers.next()).min()
    }

    /// As on a real path: a client that does not read may send, up to the window of that direction.
    fn is_full_duplex(&self) -> bool {
        true
    }

    fn deadline_slack(&self) -> Duration {
        SLACK
    }
}

fn timer_key(pair: usize, direction: Direction) -> u32 {
    (pair * 2 + direction.index()) as u32
}

fn pair_and_direction(key: u32) -> (usize, Direction) {
    (key as usize / 2, Direction::ALL[key as usize % 2])
}
