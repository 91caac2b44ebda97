//! The client of the suite: plays scripts, each on a connection of its own, and says what went otherwise than written.
//!
//! It holds no more than a driver lends it: what a script does not expect yet stays with the driver. That puts the
//! contract's rules of retained bytes and resuming to work in every case.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use breme_base::Instant;
use breme_node::{
    Accepted, Actions, Close, CloseReason, ConnectError, ConnectTicket, Connected, ConnectionId, Endpoint, Node,
    Received,
};
use bytes::Bytes;

use crate::script::Step;
use crate::{Content, Gate, Script, Surroundings};

/// A node that connects, plays its scripts side by side, and exits when all are over, when one has failed, or when its
/// patience ends.
pub struct Client {
    stage: Stage,
    plays: Vec<Play>,
    patience: Duration,
    gives_up_at: Option<Instant>,
    failures: Vec<String>,
    exited: bool,
}

/// What the scripts of one client share.
struct Stage {
    surroundings: Surroundings,
    signals: BTreeSet<u32>,
    closed: Vec<ConnectionId>,
}

/// One script and how far it has come.
struct Play {
    steps: Vec<Step>,
    step_index: usize,
    ticket: ConnectTicket,
    line: Line,
    progress: Progress,
}

/// What is known of the connection.
#[derive(Default)]
struct Line {
    connection: Option<ConnectionId>,
    failed: Option<ConnectError>,
    closed: Option<CloseReason>,
    /// The peer has ended its sending, and everything before was taken.
    ended: bool,
    is_paused: bool,
    queue_is_long: bool,
    drained_count: u32,
    opens_when_long: Option<Gate>,
}

/// How far the current step is.
#[derive(Default)]
struct Progress {
    begun: bool,
    sent: u64,
    matched: u64,
    due: Option<Instant>,
}

/// One call's circumstances.
struct Turn<'a> {
    now: Instant,
    actions: &'a mut Actions,
    /// Received bytes are at hand: no need to ask for them.
    is_offered: bool,
}

impl Client {
    /// A client that plays `scripts`, and gives up after `patience`.
    #[must_use]
    pub fn new(surroundings: &Surroundings, patience: Duration, scripts: Vec<Script>) -> Self {
        let stage = Stage { surroundings: surroundings.clone(), signals: BTreeSet::new(), closed: Vec::new() };
        let plays = scripts.into_iter().enumerate().map(|(index, script)| Play::new(index, script)).collect();
        Self { stage, plays, patience, gives_up_at: None, failures: Vec::new(), exited: false }
    }

    /// What went otherwise than written; nothing if all went well.
    #[must_use]
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// How many scripts were played to their end.
    #[must_use]
    pub fn played_count(&self) -> usize {
        self.plays.iter().filter(|play| play.is_over()).count()
    }

    /// Lets every script go as far as it can; one may let another go on.
    fn advance(&mut self, now: Instant, actions: &mut Actions) {
        let mut moved = true;
        while moved && self.failures.is_empty() {
            moved = false;
            for index in 0..self.plays.len() {
                moved |= self.advance_one(index, &mut Turn { now, actions, is_offered: false });
            }
        }
        self.leave_if_over(actions);
    }

    fn advance_one(&mut self, index: usize, turn: &mut Turn<'_>) -> bool {
        let play = &mut self.plays[index];
        match play.advance(&mut self.stage, turn) {
            Ok(moved) => moved,
            Err(reason) => {
                self.failures.push(play.describe(&reason));
                false
            }
        }
    }

    fn leave_if_over(&mut self, actions: &mut Actions) {
        let is_over = !self.failures.is_empty() || self.plays.iter().all(Play::is_over);
        if is_over && !self.exited {
            self.exited = true;
            actions.exit();
        }
    }

    fn play_of(&self, connection: ConnectionId) -> Option<usize> {
        self.plays.iter().position(|play| play.line.connection == Some(connection))
    }

    fn offer(&mut self, index: usize, received: Received<'_>, turn: &mut Turn<'_>) -> usize {
        let mut taken = 0;
        loop {
            let play = &mut self.plays[index];
            let rest = Received { bytes: &received.bytes[taken..], ..received };
            let before = (play.step_index, taken);
            match play.take(rest) {
                Ok(count) => taken += count,
                Err(reason) => {
                    let failure = play.describe(&reason);
                    self.failures.push(failure);
                }
            }
            if !self.failures.is_empty() {
                return taken;
            }
            self.advance_one(index, turn);
            if (self.plays[index].step_index, taken) == before {
                return taken;
            }
        }
    }
}

impl Node for Client {
    fn handle_started(&mut self, now: Instant, actions: &mut Actions) {
        self.gives_up_at = Some(now + self.patience);
        self.advance(now, actions);
    }

    fn handle_accepted(
        &mut self,
        _now: Instant,
        connection: ConnectionId,
        _accepted: Accepted,
        _actions: &mut Actions,
    ) {
        self.failures.push(format!("a client accepted {connection:?}"));
    }

    fn handle_connected(
        &mut self,
        now: Instant,
        ticket: ConnectTicket,
        outcome: Result<Connected, ConnectError>,
        actions: &mut Actions,
    ) {
        match self.plays.iter_mut().find(|play| play.ticket == ticket) {
            Some(play) => play.line.connected(outcome),
            None => self.failures.push(format!("connected with {ticket:?}, which was never used")),
        }
        self.advance(now, actions);
    }

    fn handle_received(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> usize {
        let taken = if let Some(index) = self.play_of(connection) {
            self.offer(index, received, &mut Turn { now, actions, is_offered: true })
        } else {
            self.failures.push(format!("received on {connection:?}, which is not ours"));
            0
        };
        self.advance(now, actions);
        taken
    }

    fn handle_sent(&mut self, now: Instant, connection: ConnectionId, unsent_bytes: u64, actions: &mut Actions) {
        if let Some(index) = self.play_of(connection) {
            self.plays[index].line.sent(unsent_bytes);
        }
        self.advance(now, actions);
    }

    fn handle_closed(&mut self, now: Instant, connection: ConnectionId, reason: CloseReason, actions: &mut Actions) {
        if let Some(index) = self.play_of(connection) {
            self.plays[index].line.closed = Some(reason);
            self.stage.closed.push(connection);
        }
        self.advance(now, actions);
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        self.advance(now, actions);
        if !self.exited && self.gives_up_at.is_some_and(|at| at <= now) {
            let patience = self.patience;
            let stuck = self.plays.iter().filter(|play| !play.is_over());
            self.failures.extend(stuck.map(|play| play.describe(&format!("no progress within {patience:?}"))));
            self.leave_if_over(actions);
        }
    }

    fn handle_stopping(&mut self, _now: Instant, actions: &mut Actions) {
        actions.exit();
    }

    fn next_deadline(&self) -> Option<Instant> {
        if self.exited {
            return None;
        }
        self.plays.iter().filter_map(|play| play.progress.due).chain(self.gives_up_at).min()
    }
}

impl Line {
    fn connected(&mut self, outcome: Result<Connected, ConnectError>) {
        match outcome {
            Ok(connected) => self.connection = Some(connected.connection),
            Err(error) => self.failed = Some(error),
        }
    }

    fn sent(&mut self, unsent_bytes: u64) {
        self.drained_count += u32::from(self.queue_is_long && unsent_bytes == 0);
        self.queue_is_long = unsent_bytes > 0;
        if let Some(gate) = self.opens_when_long.as_ref().filter(|_| unsent_bytes > 0) {
            gate.open();
        }
    }

    /// The connection, if it can be used.
    fn open(&self) -> Result<ConnectionId, String> {
        match (self.connection, self.closed) {
            (Some(connection), None) => Ok(connection),
            (Some(_), Some(reason)) => Err(format!("the connection is gone: {reason:?}")),
            (None, _) => Err(String::from("the script has not connected")),
        }
    }
}

impl Play {
    fn new(index: usize, script: Script) -> Self {
        let ticket = ConnectTicket(index as u64);
        Self { steps: script.steps, step_index: 0, ticket, line: Line::default(), progress: Progress::default() }
    }

    fn is_over(&self) -> bool {
        self.step_index >= self.steps.len()
    }

    fn describe(&self, reason: &str) -> String {
        let script = self.ticket.0;
        let step = self.steps.get(self.step_index).map_or_else(|| String::from("none left"), Step::describe);
        let Progress { sent, matched, .. } = self.progress;
        format!("script {script}, step {} ({step}; {sent} sent, {matched} received so far): {reason}", self.step_index)
    }

    /// Does what can be done now. Says whether a step was completed.
    fn advance(&mut self, stage: &mut Stage, turn: &mut Turn<'_>) -> Result<bool, String> {
        let start = self.step_index;
        while let Some(step) = self.steps.get(self.step_index).cloned() {
            if !self.try_step(&step, stage, turn)? {
                break;
            }
            self.step_index += 1;
            self.progress = Progress::default();
        }
        Ok(self.step_index > start)
    }

    /// Whether the step is done.
    fn try_step(&mut self, step: &Step, stage: &mut Stage, turn: &mut Turn<'_>) -> Result<bool, String> {
        let begins = !std::mem::replace(&mut self.progress.begun, true);
        let asks_for_bytes = begins && step.receives() && !turn.is_offered && !self.line.is_paused;
        if asks_for_bytes && let Ok(connection) = self.line.open() {
            turn.actions.resume(connection);
        }
        match step {
            Step::Connect => self.connect(begins, stage, turn),
            Step::ConnectRefused { by_server } => {
                let Surroundings { server, nobody, .. } = &stage.surroundings;
                self.connect_refused(begins, if *by_server { server.address } else { *nobody }, turn)
            }
            Step::Exchange { send, expect, piece_bytes } => self.exchange(send, expect, *piece_bytes, turn),
            Step::ExpectEnd if self.line.ended => Ok(true),
            Step::ExpectEnd => self.line.open().map(|_| false),
            Step::ExpectGone(_) => Ok(self.line.ended || self.line.closed.is_some()),
            Step::ExpectClosed(ending) => match self.line.closed {
                Some(reason) if !ending.accepts(reason) => Err(format!("closed otherwise: {reason:?}")),
                closed => Ok(closed.is_some()),
            },
            Step::ExpectDrained if self.line.drained_count > 0 => Ok(true),
            Step::ExpectDrained => self.line.open().map(|_| false),
            Step::OpenWhenLong(gate) => {
                self.line.opens_when_long = Some(gate.clone());
                Ok(true)
            }
            Step::Wait(time) => Ok(self.wait(*time, turn.now)),
            Step::Await(number) => Ok(stage.signals.contains(number)),
            Step::Signal(_) | Step::StopServer | Step::UseStaleIds => {
                stage.act(step, turn.actions);
                Ok(true)
            }
            Step::Finish | Step::Pause | Step::Resume | Step::Close(_) => self.ask(step, turn.actions).map(|()| true),
        }
    }

    fn connect(&self, begins: bool, stage: &Stage, turn: &mut Turn<'_>) -> Result<bool, String> {
        if begins {
            turn.actions.connect(self.ticket, stage.surroundings.server);
        }
        match self.line.failed {
            Some(error) => Err(format!("cannot connect: {error:?}")),
            None => Ok(self.line.connection.is_some()),
        }
    }

    fn connect_refused(&self, begins: bool, address: SocketAddr, turn: &mut Turn<'_>) -> Result<bool, String> {
        if begins {
            turn.actions.connect(self.ticket, Endpoint::tcp(address));
        }
        match (self.line.failed, self.line.connection) {
            (Some(ConnectError::Refused), _) => Ok(true),
            (Some(error), _) => Err(format!("expected Refused, got {error:?}")),
            (None, Some(_)) => Err(String::from("connected to where nobody should listen")),
            (None, None) => Ok(false),
        }
    }

    fn exchange(
        &mut self,
        send: &Content,
        expect: &Content,
        piece_bytes: u64,
        turn: &mut Turn<'_>,
    ) -> Result<bool, String> {
        let missing = self.progress.matched < expect.length();
        if missing && self.line.ended {
            return Err(String::from("the peer ended its sending too early"));
        }
        if self.progress.sent < send.length() {
            self.send_piece(send, piece_bytes, turn)?;
        }
        if missing && self.progress.sent == send.length() {
            self.line.open()?;
        }
        Ok(!missing && self.progress.sent == send.length())
    }

    /// Sends the next piece, unless one was sent in this very call or the queue is long; asks for the call after it.
    fn send_piece(&mut self, send: &Content, piece_bytes: u64, turn: &mut Turn<'_>) -> Result<(), String> {
        let connection = self.line.open()?;
        if self.line.queue_is_long {
            self.progress.due = None;
            return Ok(());
        }
        if *self.progress.due.get_or_insert(turn.now) > turn.now {
            return Ok(());
        }
        let length = piece_bytes.min(send.length() - self.progress.sent);
        send.append(self.progress.sent, length, turn.actions.send(connection));
        self.progress.sent += length;
        // One nanosecond later, so that one call sends one piece even where it comes here twice.
        self.progress.due = (self.progress.sent < send.length()).then(|| turn.now + Duration::from_nanos(1));
        Ok(())
    }

    fn wait(&mut self, time: Duration, now: Instant) -> bool {
        let due = *self.progress.due.get_or_insert(now + time);
        due <= now
    }

    fn ask(&mut self, step: &Step, actions: &mut Actions) -> Result<(), String> {
        let connection = self.line.open()?;
        match step {
            Step::Finish => actions.finish(connection),
            Step::Close(how) => actions.close(connection, *how),
            Step::Pause => {
                self.line.is_paused = true;
                actions.pause(connection);
            }
            _ => {
                self.line.is_paused = false;
                actions.resume(connection);
            }
        }
        Ok(())
    }

    /// Takes what the current step expects.
    fn take(&mut self, received: Received<'_>) -> Result<usize, String> {
        let taken = match self.steps.get(self.step_index) {
            Some(Step::Exchange { expect, .. }) => {
                let missing = expect.length() - self.progress.matched;
                let count = received.bytes.len().min(usize::try_from(missing).unwrap_or(usize::MAX));
                self.progress.compare(expect, &received.bytes[..count])?;
                count
            }
            Some(Step::ExpectGone(content)) => {
                self.progress.compare(content, received.bytes)?;
                received.bytes.len()
            }
            Some(Step::ExpectEnd) if !received.bytes.is_empty() => {
                let bytes = received.bytes;
                return Err(format!("{} bytes more than expected, from {:02x?}", bytes.len(), bytes[0]));
            }
            _ => 0,
        };
        self.line.ended |= received.ended && taken == received.bytes.len();
        Ok(taken)
    }
}

impl Progress {
    fn compare(&mut self, expected: &Content, bytes: &[u8]) -> Result<(), String> {
        if let Some(place) = expected.first_difference(self.matched, bytes) {
            let position = self.matched + place as u64;
            let mut wanted = Vec::new();
            expected.append(position, 1, &mut wanted);
            return Err(format!("byte {position}: expected {wanted:02x?}, received {:#04x}", bytes[place]));
        }
        self.matched += bytes.len() as u64;
        Ok(())
    }
}

impl Stage {
    fn act(&mut self, step: &Step, actions: &mut Actions) {
        match step {
            Step::Signal(number) => {
                self.signals.insert(*number);
            }
            Step::StopServer => (self.surroundings.stop_server)(),
            _ => self.closed.iter().for_each(|&stale| use_stale(stale, actions)),
        }
    }
}

fn use_stale(stale: ConnectionId, actions: &mut Actions) {
    actions.send(stale).extend_from_slice(b"sent to a connection that is gone");
    actions.send_shared(stale, Bytes::from_static(b"and shared with it"));
    actions.pause(stale);
    actions.resume(stale);
    actions.finish(stale);
    actions.close(stale, Close::Graceful);
    actions.close(stale, Close::Abort);
}
