//! The scripted client: runs each script on its own connection and reports deviations.
//!
//! It buffers nothing: what a script does not expect yet stays with the driver, so that every case exercises retained
//! bytes and resuming.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use breme_base::Instant;
use breme_node::{
    Accepted, Actions, Close, CloseReason, ConnectError, ConnectResult, ConnectTicket, ConnectionId, Endpoint, Node,
    Received,
};
use bytes::Bytes;

use crate::script::ScriptStep;
use crate::{Gate, Script, Surroundings, TestContent};

/// A node that connects, runs its scripts concurrently, and exits when all are done, one has failed, or its timeout has
/// passed.
pub struct Client {
    shared_state: SharedScriptState,
    runs: Vec<ScriptRun>,
    patience: Duration,
    timeout_at: Option<Instant>,
    failures: Vec<String>,
    exited: bool,
}

/// State shared by the scripts of a client.
struct SharedScriptState {
    surroundings: Surroundings,
    signals: BTreeSet<u32>,
    closed: Vec<ConnectionId>,
}

/// A script and its position.
struct ScriptRun {
    steps: Vec<ScriptStep>,
    step_index: usize,
    ticket: ConnectTicket,
    connection_state: ConnectionState,
    progress: StepProgress,
}

#[derive(Default)]
struct ConnectionState {
    connection: Option<ConnectionId>,
    failed: Option<ConnectError>,
    closed: Option<CloseReason>,
    /// The peer's stream ended and is consumed.
    ended: bool,
    is_paused: bool,
    queue_is_long: bool,
    drained_count: u32,
    opens_when_long: Option<Gate>,
}

/// Progress of the current step.
#[derive(Default)]
struct StepProgress {
    begun: bool,
    sent: u64,
    matched: u64,
    due: Option<Instant>,
}

/// The context of one call.
struct CallContext<'a> {
    now: Instant,
    actions: &'a mut Actions,
    /// Received bytes are available: no need to resume.
    is_offered: bool,
}

impl Client {
    /// `patience`: the timeout of the whole run.
    #[must_use]
    pub fn new(surroundings: &Surroundings, patience: Duration, scripts: Vec<Script>) -> Self {
        let shared_state =
            SharedScriptState { surroundings: surroundings.clone(), signals: BTreeSet::new(), closed: Vec::new() };
        let runs = scripts.into_iter().enumerate().map(|(index, script)| ScriptRun::new(index, script)).collect();
        Self { shared_state, runs, patience, timeout_at: None, failures: Vec::new(), exited: false }
    }

    /// Empty if all scripts succeeded.
    #[must_use]
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Number of completed scripts.
    #[must_use]
    pub fn played_count(&self) -> usize {
        self.runs.iter().filter(|play| play.is_done()).count()
    }

    /// Advances all scripts; one may unblock another.
    fn advance(&mut self, now: Instant, actions: &mut Actions) {
        let mut moved = true;
        while moved && self.failures.is_empty() {
            moved = false;
            for index in 0..self.runs.len() {
                moved |= self.advance_one(index, &mut CallContext { now, actions, is_offered: false });
            }
        }
        self.exit_if_done(actions);
    }

    fn advance_one(&mut self, index: usize, context: &mut CallContext<'_>) -> bool {
        let play = &mut self.runs[index];
        match play.advance(&mut self.shared_state, context) {
            Ok(moved) => moved,
            Err(reason) => {
                self.failures.push(play.describe(&reason));
                false
            }
        }
    }

    fn exit_if_done(&mut self, actions: &mut Actions) {
        let is_done = !self.failures.is_empty() || self.runs.iter().all(ScriptRun::is_done);
        if is_done && !self.exited {
            self.exited = true;
            actions.exit();
        }
    }

    fn play_of(&self, connection: ConnectionId) -> Option<usize> {
        self.runs.iter().position(|play| play.connection_state.connection == Some(connection))
    }

    fn offer(&mut self, index: usize, received: Received<'_>, context: &mut CallContext<'_>) -> usize {
        let mut consumed = 0;
        loop {
            let play = &mut self.runs[index];
            let rest = Received { bytes: &received.bytes[consumed..], ..received };
            let before = (play.step_index, consumed);
            match play.take(rest) {
                Ok(count) => consumed += count,
                Err(reason) => {
                    let failure = play.describe(&reason);
                    self.failures.push(failure);
                }
            }
            if !self.failures.is_empty() {
                return consumed;
            }
            self.advance_one(index, context);
            if (self.runs[index].step_index, consumed) == before {
                return consumed;
            }
        }
    }
}

impl Node for Client {
    fn handle_started(&mut self, now: Instant, actions: &mut Actions) {
        self.timeout_at = Some(now + self.patience);
        self.advance(now, actions);
    }

    fn handle_accepted(&mut self, _now: Instant, id: ConnectionId, _accepted: Accepted, _actions: &mut Actions) {
        self.failures.push(format!("a client accepted {id:?}"));
    }

    fn handle_connected(&mut self, now: Instant, ticket: ConnectTicket, result: ConnectResult, actions: &mut Actions) {
        match self.runs.iter_mut().find(|play| play.ticket == ticket) {
            Some(play) => play.connection_state.connected(result),
            None => self.failures.push(format!("connected with {ticket:?}, which was never used")),
        }
        self.advance(now, actions);
    }

    fn handle_received(&mut self, now: Instant, id: ConnectionId, input: Received<'_>, actions: &mut Actions) -> usize {
        let consumed = if let Some(index) = self.play_of(id) {
            self.offer(index, input, &mut CallContext { now, actions, is_offered: true })
        } else {
            self.failures.push(format!("received on {id:?}, which is not ours"));
            0
        };
        self.advance(now, actions);
        consumed
    }

    fn handle_sent(&mut self, now: Instant, id: ConnectionId, unsent_bytes: u64, actions: &mut Actions) {
        if let Some(index) = self.play_of(id) {
            self.runs[index].connection_state.sent(unsent_bytes);
        }
        self.advance(now, actions);
    }

    fn handle_closed(&mut self, now: Instant, id: ConnectionId, reason: CloseReason, actions: &mut Actions) {
        if let Some(index) = self.play_of(id) {
            self.runs[index].connection_state.closed = Some(reason);
            self.shared_state.closed.push(id);
        }
        self.advance(now, actions);
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        self.advance(now, actions);
        if !self.exited && self.timeout_at.is_some_and(|at| at <= now) {
            let patience = self.patience;
            let stuck = self.runs.iter().filter(|play| !play.is_done());
            self.failures.extend(stuck.map(|play| play.describe(&format!("no progress within {patience:?}"))));
            self.exit_if_done(actions);
        }
    }

    fn handle_stopping(&mut self, _now: Instant, actions: &mut Actions) {
        actions.exit();
    }

    fn next_deadline(&self) -> Option<Instant> {
        if self.exited {
            return None;
        }
        self.runs.iter().filter_map(|play| play.progress.due).chain(self.timeout_at).min()
    }
}

impl ConnectionState {
    fn connected(&mut self, result: ConnectResult) {
        match result {
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

    /// The connection, if usable.
    fn open(&self) -> Result<ConnectionId, String> {
        match (self.connection, self.closed) {
            (Some(connection), None) => Ok(connection),
            (Some(_), Some(reason)) => Err(format!("the connection is closed: {reason:?}")),
            (None, _) => Err(String::from("the script has not connected")),
        }
    }
}

impl ScriptRun {
    fn new(index: usize, script: Script) -> Self {
        let ticket = ConnectTicket(index as u64);
        Self {
            steps: script.steps,
            step_index: 0,
            ticket,
            connection_state: ConnectionState::default(),
            progress: StepProgress::default(),
        }
    }

    fn is_done(&self) -> bool {
        self.step_index >= self.steps.len()
    }

    fn describe(&self, reason: &str) -> String {
        let script = self.ticket.0;
        let step = self.steps.get(self.step_index).map_or_else(|| String::from("none left"), ScriptStep::describe);
        let StepProgress { sent, matched, .. } = self.progress;
        format!("script {script}, step {} ({step}; {sent} sent, {matched} received so far): {reason}", self.step_index)
    }

    /// Returns whether a step was completed.
    fn advance(&mut self, shared_state: &mut SharedScriptState, context: &mut CallContext<'_>) -> Result<bool, String> {
        let start = self.step_index;
        while let Some(step) = self.steps.get(self.step_index).cloned() {
            if !self.try_step(&step, shared_state, context)? {
                break;
            }
            self.step_index += 1;
            self.progress = StepProgress::default();
        }
        Ok(self.step_index > start)
    }

    /// Returns whether the step is done.
    fn try_step(
        &mut self,
        step: &ScriptStep,
        shared_state: &mut SharedScriptState,
        context: &mut CallContext<'_>,
    ) -> Result<bool, String> {
        let begins = !std::mem::replace(&mut self.progress.begun, true);
        let resumes = begins && step.receives() && !context.is_offered && !self.connection_state.is_paused;
        if resumes && let Ok(connection) = self.connection_state.open() {
            context.actions.resume(connection);
        }
        match step {
            ScriptStep::Connect => self.connect(begins, shared_state, context),
            ScriptStep::ConnectRefused { by_server } => {
                let Surroundings { server, nobody, .. } = &shared_state.surroundings;
                self.connect_refused(begins, if *by_server { server.address } else { *nobody }, context)
            }
            ScriptStep::Exchange { send, expect, piece_bytes } => self.exchange(send, expect, *piece_bytes, context),
            ScriptStep::ExpectEnd if self.connection_state.ended => Ok(true),
            ScriptStep::ExpectEnd => self.connection_state.open().map(|_| false),
            ScriptStep::ExpectGone(_) => Ok(self.connection_state.ended || self.connection_state.closed.is_some()),
            ScriptStep::ExpectClosed(ending) => match self.connection_state.closed {
                Some(reason) if !ending.accepts(reason) => Err(format!("closed otherwise: {reason:?}")),
                closed => Ok(closed.is_some()),
            },
            ScriptStep::ExpectDrained if self.connection_state.drained_count > 0 => Ok(true),
            ScriptStep::ExpectDrained => self.connection_state.open().map(|_| false),
            ScriptStep::OpenWhenLong(gate) => {
                self.connection_state.opens_when_long = Some(gate.clone());
                Ok(true)
            }
            ScriptStep::Wait(time) => Ok(self.wait(*time, context.now)),
            ScriptStep::Await(number) => Ok(shared_state.signals.contains(number)),
            ScriptStep::Signal(_) | ScriptStep::StopServer | ScriptStep::UseStaleIds => {
                shared_state.act(step, context.actions);
                Ok(true)
            }
            ScriptStep::Finish | ScriptStep::Pause | ScriptStep::Resume | ScriptStep::Close(_) => {
                self.request(step, context.actions).map(|()| true)
            }
        }
    }

    fn connect(
        &self,
        begins: bool,
        shared_state: &SharedScriptState,
        context: &mut CallContext<'_>,
    ) -> Result<bool, String> {
        if begins {
            context.actions.connect(self.ticket, shared_state.surroundings.server);
        }
        match self.connection_state.failed {
            Some(error) => Err(format!("cannot connect: {error:?}")),
            None => Ok(self.connection_state.connection.is_some()),
        }
    }

    fn connect_refused(
        &self,
        begins: bool,
        address: SocketAddr,
        context: &mut CallContext<'_>,
    ) -> Result<bool, String> {
        if begins {
            context.actions.connect(self.ticket, Endpoint::tcp(address));
        }
        match (self.connection_state.failed, self.connection_state.connection) {
            (Some(ConnectError::Refused), _) => Ok(true),
            (Some(error), _) => Err(format!("expected Refused, got {error:?}")),
            (None, Some(_)) => Err(String::from("connected to where nobody should listen")),
            (None, None) => Ok(false),
        }
    }

    fn exchange(
        &mut self,
        send: &TestContent,
        expect: &TestContent,
        piece_bytes: u64,
        context: &mut CallContext<'_>,
    ) -> Result<bool, String> {
        let missing = self.progress.matched < expect.length();
        if missing && self.connection_state.ended {
            return Err(String::from("the peer ended its sending too early"));
        }
        if self.progress.sent < send.length() {
            self.send_piece(send, piece_bytes, context)?;
        }
        if missing && self.progress.sent == send.length() {
            self.connection_state.open()?;
        }
        Ok(!missing && self.progress.sent == send.length())
    }

    /// Sends the next piece, at most one per call, unless the queue is long; schedules the next call.
    fn send_piece(
        &mut self,
        send: &TestContent,
        piece_bytes: u64,
        context: &mut CallContext<'_>,
    ) -> Result<(), String> {
        let connection = self.connection_state.open()?;
        if self.connection_state.queue_is_long {
            self.progress.due = None;
            return Ok(());
        }
        if *self.progress.due.get_or_insert(context.now) > context.now {
            return Ok(());
        }
        let length = piece_bytes.min(send.length() - self.progress.sent);
        send.append(self.progress.sent, length, context.actions.send(connection));
        self.progress.sent += length;
        // One nanosecond later, so that each call sends one piece even if it gets here twice.
        self.progress.due = (self.progress.sent < send.length()).then(|| context.now + Duration::from_nanos(1));
        Ok(())
    }

    fn wait(&mut self, time: Duration, now: Instant) -> bool {
        let due = *self.progress.due.get_or_insert(now + time);
        due <= now
    }

    fn request(&mut self, step: &ScriptStep, actions: &mut Actions) -> Result<(), String> {
        let connection = self.connection_state.open()?;
        match step {
            ScriptStep::Finish => actions.finish(connection),
            ScriptStep::Close(how) => actions.close(connection, *how),
            ScriptStep::Pause => {
                self.connection_state.is_paused = true;
                actions.pause(connection);
            }
            _ => {
                self.connection_state.is_paused = false;
                actions.resume(connection);
            }
        }
        Ok(())
    }

    /// Consumes what the current step expects.
    fn take(&mut self, received: Received<'_>) -> Result<usize, String> {
        let consumed = match self.steps.get(self.step_index) {
            Some(ScriptStep::Exchange { expect, .. }) => {
                let missing = expect.length() - self.progress.matched;
                let count = received.bytes.len().min(usize::try_from(missing).unwrap_or(usize::MAX));
                self.progress.compare(expect, &received.bytes[..count])?;
                count
            }
            Some(ScriptStep::ExpectGone(content)) => {
                self.progress.compare(content, received.bytes)?;
                received.bytes.len()
            }
            Some(ScriptStep::ExpectEnd) if !received.bytes.is_empty() => {
                let bytes = received.bytes;
                return Err(format!("{} bytes more than expected, from {:02x?}", bytes.len(), bytes[0]));
            }
            _ => 0,
        };
        self.connection_state.ended |= received.ended && consumed == received.bytes.len();
        Ok(consumed)
    }
}

impl StepProgress {
    fn compare(&mut self, expected: &TestContent, bytes: &[u8]) -> Result<(), String> {
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

impl SharedScriptState {
    fn act(&mut self, step: &ScriptStep, actions: &mut Actions) {
        match step {
            ScriptStep::Signal(number) => {
                self.signals.insert(*number);
            }
            ScriptStep::StopServer => (self.surroundings.stop_server)(),
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
