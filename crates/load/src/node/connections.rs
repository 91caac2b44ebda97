//! Connections: opening them without flooding the server, their loss and their end.

use std::time::Duration;

use breme_base::Instant;
use breme_http1::{ClientConnection, ClientError};
use breme_node::{Actions, Close, ConnectTicket, Connected, ConnectionId, Endpoint, TlsClientId, TlsFailure};

use super::shard::{Load, Phase};
use crate::error_kind::ErrorKind;
use crate::user::{Owner, State};

/// Limit of connections that one shard opens at the same time, so as not to overflow the server's backlog.
pub const CONNECTING_MAX: usize = 256;
/// The run ends if no connection could be opened in this time.
pub const CONNECT_GIVE_UP: Duration = Duration::from_secs(2);
/// Pause after the first failed connection of a user; it doubles with each further failure …
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// … up to this, or to [`PAUSE_SPACING`] per user of the shard, if that is longer.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Minimum interval of a shard's attempts to reach a dead target.
const PAUSE_SPACING: Duration = Duration::from_millis(1);
/// Time for a server that announced the end of a connection to close it, so that TIME_WAIT is on its side, not here.
const LINGER_MAX: Duration = Duration::from_secs(1);

/// The driver's TLS client for a host of the plan, by index. A stranger has no session ticket for it: with scenarios
/// each session is a new user, and without them there are no strangers.
#[must_use]
pub const fn tls_client(host: usize, is_stranger: bool) -> TlsClientId {
    TlsClientId(2 * host as u32 + is_stranger as u32)
}

impl Load {
    /// The user needs a connection: for waiting requests, for a new one, or ahead of future ones.
    pub(super) fn want_connection(&mut self, now: Instant, index: u32, actions: &mut Actions) {
        if self.is_ending() {
            return self.retire(now, index, actions);
        }
        let has_work = !self.users[index as usize].window.is_empty() || self.take_next(index);
        if !has_work {
            match &self.open {
                Some(open) if open.is_over => return self.retire(now, index, actions),
                Some(open) if open.connects_ahead => {}
                Some(_) => return self.become_free(now, index, actions),
                None => return self.retire(now, index, actions),
            }
        }
        if !self.resume(now, index, actions) {
            self.queue_for_connection(now, index, actions);
        }
    }

    /// Queues the user; a connection is opened as soon as the limit permits.
    pub(super) fn queue_for_connection(&mut self, now: Instant, index: u32, actions: &mut Actions) {
        if self.open.is_none() {
            self.account_wait_to_connect(now, index);
        }
        self.timers.clear(index);
        self.users[index as usize].state = State::Queued;
        self.queue.push_back(index);
        self.open_queued(now, actions);
    }

    pub(super) fn open_queued(&mut self, now: Instant, actions: &mut Actions) {
        while self.connecting < CONNECTING_MAX
            && let Some(index) = self.queue.pop_front()
        {
            let user = &mut self.users[index as usize];
            if user.state == State::Queued {
                user.address_index = self.run.host(user.host()).preferred_address() as u32;
                self.connect(now, index, actions);
            }
        }
    }

    pub(super) fn connect(&mut self, now: Instant, index: u32, actions: &mut Actions) {
        let user = &mut self.users[index as usize];
        let host = user.host();
        let Some(&address) = self.run.host(host).addresses().get(user.address_index as usize) else {
            return self.connect_failed(now, index, ErrorKind::ConnectFailed, actions);
        };
        let client = tls_client(host, user.is_stranger());
        user.attempt = user.attempt.wrapping_add(1);
        user.state = State::Connecting(now);
        self.connecting += 1;
        let is_tls = self.run.plan().peers()[host].is_tls;
        let endpoint = if is_tls { Endpoint::tls(address, client) } else { Endpoint::tcp(address) };
        actions.connect(ticket(index, user.attempt), endpoint);
    }

    pub(super) fn connected(
        &mut self,
        now: Instant,
        index: u32,
        since: Instant,
        connected: Connected,
        actions: &mut Actions,
    ) {
        let connection = connected.connection;
        let user = &mut self.users[index as usize];
        self.run.note_connected(user.host(), user.address_index as usize);
        user.state = State::Open(connection);
        user.protocol = ClientConnection::new();
        user.ready = now;
        self.owners.set(connection, Owner::User(index));
        self.open_count += 1;
        self.tally.connections_opened += 1;
        self.tally.reconnects += u64::from(user.note_connected());
        user.failures = user.failures.saturating_add(1); // until it brings an answer
        self.tally.note_opened(connected.handshake);
        self.interval.connect.record(now.nanos_since(since));
        self.note_tried(now, index, actions);
        for place in 0..self.users[index as usize].window.len() {
            self.send(now, index, place, connection, actions);
        }
        match self.open {
            None => self.refill(now, index, connection, actions),
            Some(_) => self.become_free(now, index, actions),
        }
    }

    /// The connection's request fails; after a pause the user continues with the next.
    pub(super) fn connect_failed(&mut self, now: Instant, index: u32, kind: ErrorKind, actions: &mut Actions) {
        let user = &mut self.users[index as usize];
        let host = self.run.host(user.host());
        // A name may have several addresses of which only some work: `localhost` is a common case.
        if !host.is_connected() && (user.address_index as usize) + 1 < host.addresses().len() {
            user.address_index += 1;
            return self.connect(now, index, actions);
        }
        match self.pop_unanswered(index) {
            Some(slot) => {
                self.tally.issued += u64::from(!slot.was_sent());
                self.fail(index, kind);
            }
            None => self.fail_due(now, index, kind, actions),
        }
        self.note_tried(now, index, actions);
        if !self.run.is_connected() && now.since(self.span.started) >= CONNECT_GIVE_UP {
            self.run.give_up();
        }
        if self.run.gave_up() {
            return self.finish(now, actions);
        }
        let user = &mut self.users[index as usize];
        if user.state == State::Done {
            return; // nothing more is due, as it turned out
        }
        user.failures = user.failures.saturating_add(1);
        self.pause(now, index);
    }

    pub(super) fn pause(&mut self, now: Instant, index: u32) {
        let longest = PAUSE_MAX.max(PAUSE_SPACING * self.users.len() as u32);
        let user = &mut self.users[index as usize];
        user.state = State::Waiting; // it may have been connecting
        let doublings = user.failures.saturating_sub(1).min(16);
        user.wants = now + (PAUSE_MIN * (1 << doublings)).min(longest);
        self.timers.set(index, user.wants);
    }

    /// Requests sent without a response are unfinished; requests only claimed never began.
    pub(super) fn drop_window(&mut self, index: u32) {
        while let Some(slot) = self.pop_unanswered(index) {
            self.tally.unfinished += u64::from(slot.was_sent());
            if self.open.is_some() && !slot.was_sent() {
                self.count_error(ErrorKind::Dropped);
            }
        }
    }

    /// Detaches the connection from the user.
    pub(super) fn detach(&mut self, index: u32, connection: ConnectionId) {
        self.users[index as usize].state = State::Waiting;
        self.owners.set(connection, Owner::Nobody);
        self.open_count -= 1;
    }

    /// The last response announced the end of the connection. The requests after it were not processed (RFC 9112, 9.6):
    /// they are sent again on the next connection.
    pub(super) fn close_announced(
        &mut self,
        now: Instant,
        index: u32,
        connection: ConnectionId,
        ended: bool,
        actions: &mut Actions,
    ) {
        self.detach(index, connection);
        if ended || self.lingering.len() >= self.users.len() {
            actions.close(connection, Close::Graceful);
        } else {
            self.owners.set(connection, Owner::Lingering);
            self.lingering.push_back((now + LINGER_MAX, connection));
        }
        self.reconnect(now, index, actions);
    }

    /// The session has ended, and its connection with it.
    pub(super) fn leave_connection(
        &mut self,
        now: Instant,
        index: u32,
        connection: ConnectionId,
        actions: &mut Actions,
    ) {
        self.detach(index, connection);
        actions.close(connection, Close::Graceful);
        self.close_idle(index, actions);
        self.reconnect(now, index, actions);
    }

    /// Opens the next connection: at once, or when the user has finished thinking.
    pub(super) fn reconnect(&mut self, now: Instant, index: u32, actions: &mut Actions) {
        let user = &self.users[index as usize];
        let is_empty = user.window.is_empty();
        let is_free = self.open.is_some() && !user.in_session(); // it waits for an arrival, not for a think time
        let pause = self.think(index).filter(|_| !is_free).filter(|_| self.phase == Phase::Running && is_empty);
        let wants = now + pause.unwrap_or_default();
        if is_empty {
            self.begin_thinking(index, now, wants);
        } else {
            self.users[index as usize].wants = wants;
        }
        match pause {
            Some(pause) => self.timers.set(index, now + pause),
            None => self.want_connection(now, index, actions),
        }
    }

    /// The connection is lost, through an error or a legitimate close of the peer.
    pub(super) fn lose(
        &mut self,
        now: Instant,
        index: u32,
        connection: ConnectionId,
        loss: Loss,
        actions: &mut Actions,
    ) {
        let is_idle = self.users[index as usize].window.is_empty();
        self.tally.unexpected += u64::from(is_idle && matches!(loss, Loss::Malformed));
        self.fail_window(index, loss);
        self.detach(index, connection);
        let how = if matches!(loss, Loss::Malformed) { Close::Abort } else { Close::Graceful };
        actions.close(connection, how);
        self.after_loss(now, index, is_idle, actions);
    }

    /// Every request of the window fails. After a response that is not HTTP, the later ones are lost with the
    /// connection.
    pub(super) fn fail_window(&mut self, index: u32, loss: Loss) {
        let (first, others) = match loss {
            Loss::Over | Loss::ClosedEarly => (ErrorKind::ClosedEarly, ErrorKind::ClosedEarly),
            Loss::Reset => (ErrorKind::Reset, ErrorKind::Reset),
            Loss::Malformed => (ErrorKind::Malformed, ErrorKind::Aborted),
            Loss::Tls(failure) => (failure.into(), failure.into()),
        };
        let mut kind = first;
        while self.pop_unanswered(index).is_some() {
            self.fail(index, kind);
            kind = others;
        }
    }

    pub(super) fn after_loss(&mut self, now: Instant, index: u32, was_idle: bool, actions: &mut Actions) {
        if self.is_ending() {
            return self.retire(now, index, actions);
        }
        let user = &self.users[index as usize];
        if was_idle && user.ready > now {
            // It was thinking, and continues; its timer remains set.
        } else if user.failures == 0 {
            self.reconnect(now, index, actions);
        } else {
            // A server that accepts connections and drops them must not be flooded either.
            self.pause(now, index);
        }
    }

    pub(super) fn timed_out(&mut self, now: Instant, index: u32, connection: ConnectionId, actions: &mut Actions) {
        let timeout = self.run.plan().settings().timeout;
        while let Some(slot) = self.pop_unanswered(index) {
            if slot.sent + timeout <= now {
                let nanos = timeout.as_nanos() as u64;
                self.interval.service.record(nanos);
                let response = slot.sent.nanos_since(slot.due).saturating_add(nanos);
                self.interval.response.record(response);
                self.note_wrong(response);
                self.note_step_timeout(index, nanos, response);
                self.fail(index, ErrorKind::Timeout);
            } else {
                self.fail(index, ErrorKind::Aborted);
            }
        }
        self.detach(index, connection);
        actions.close(connection, Close::Abort);
        self.reconnect(now, index, actions);
    }

    pub(super) fn end_lingering(&mut self, now: Instant, actions: &mut Actions) {
        while let Some(&(until, connection)) = self.lingering.front()
            && (until <= now || self.owners.get(connection) != Owner::Lingering)
        {
            self.lingering.pop_front();
            if self.owners.get(connection) == Owner::Lingering {
                self.owners.set(connection, Owner::Nobody);
                actions.close(connection, Close::Graceful);
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Loss {
    /// Closed by the peer while no response was due.
    Over,
    ClosedEarly,
    Reset,
    Malformed,
    /// A violation of TLS, or an alert of the server.
    Tls(TlsFailure),
}

impl From<ClientError> for Loss {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::ClosedEarly => Self::ClosedEarly,
            _ => Self::Malformed,
        }
    }
}

pub(super) const fn ticket(index: u32, attempt: u32) -> ConnectTicket {
    ConnectTicket((attempt as u64) << 32 | index as u64)
}
