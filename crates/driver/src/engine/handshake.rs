//! TLS handshakes, before the node knows of the connection.
//!
//! Each has a timeout. A stop waits briefly for handshakes in progress, since a stopping node must not get new
//! connections.

use breme_node::{
    CloseReason, ConnectError, ConnectTicket, Connected, ConnectionId, Handshake, Node, PRESSURE_TURN, TlsClientId,
    TlsFailure,
};
use std::time::Duration;

use super::Engine;
use crate::connection::{Connection, ConnectionPhase, Initiator};
use crate::counters::LiveCounters;
use crate::io_backend::IoBackend;
use crate::tls::{Ciphertext, HandshakeStep, ServerTls, TlsSession, TlsStream};
use crate::transport::Transport;

impl<N: Node, B: IoBackend> Engine<N, B> {
    pub(super) fn begin_server_handshake(
        &mut self,
        mut transport: Transport,
        tls: &ServerTls,
        accepted: breme_node::Accepted,
    ) -> Option<ConnectionId> {
        self.read_clock();
        let Ok(session) = tls.session() else {
            LiveCounters::add(&self.counters().accepts_failed);
            self.counters().add_end(CloseReason::Tls(TlsFailure::Protocol));
            return None;
        };
        transport.set_tls(TlsStream::server(session, tls.plaintext_response(), accepted, self.now));
        let id = self.insert_accepted(transport, ConnectionPhase::Handshaking(Initiator::Accepted));
        self.handshaking_count += 1;
        let timeout = self.settings.handshake_timeout;
        let timeout = if self.pressure.is_high() { timeout.min(PRESSURE_TURN) } else { timeout };
        self.timers.set(id.key(), self.now + timeout);
        self.update_interest(id);
        Some(id)
    }

    /// Sends the ClientHello. The connect timeout continues.
    pub(super) fn begin_client_handshake(&mut self, id: ConnectionId, ticket: ConnectTicket, client: TlsClientId) {
        self.read_clock();
        let now = self.now;
        let mut hello = Ciphertext::default();
        let session = match self.settings.tls_clients.get(client) {
            Some(client) => TlsSession::client(&client, &mut hello),
            None => Err(TlsFailure::NoSuchClient),
        };
        let Some(connection) = self.table.get_mut(id) else { return };
        connection.phase = ConnectionPhase::Handshaking(Initiator::Connected(ticket));
        match session {
            Ok(session) => {
                connection.transport.set_tls(TlsStream::new(session, hello, now));
                self.serve_handshaking(id, Initiator::Connected(ticket));
            }
            Err(failure) => self.fail_handshaking(id, failure),
        }
    }

    /// Starts TLS on a connection used in plain text before (STARTTLS).
    pub(super) fn start_tls(&mut self, id: ConnectionId, ticket: ConnectTicket, client: TlsClientId) {
        self.flush_batch(id);
        let Some(connection) = self.table.get_mut(id).filter(|connection| connection.phase == ConnectionPhase::Open)
        else {
            return self.connects_failed.push_back((ticket, ConnectError::Tls(TlsFailure::Closed)));
        };
        if !connection.may_start_tls() {
            connection.phase = ConnectionPhase::Handshaking(Initiator::Connected(ticket));
            return self.fail_handshaking(id, TlsFailure::Protocol);
        }
        self.timers.set(id.key(), self.now + self.settings.connect_timeout);
        self.begin_client_handshake(id, ticket, client);
        self.update_interest(id);
    }

    /// The node closes a connection whose handshake is in progress; it still gets the result.
    pub(super) fn abort_handshake(&mut self, id: ConnectionId, initiator: Initiator) {
        let Some(connection) = self.table.get_mut(id) else { return };
        connection.end(CloseReason::Requested);
        self.schedule(id);
        if let Initiator::Connected(ticket) = initiator {
            self.notify_connected(ticket, Err(ConnectError::Tls(TlsFailure::Closed)));
        }
    }

    pub(super) fn serve_handshaking(&mut self, id: ConnectionId, initiator: Initiator) {
        let Some(connection) = self.table.get_mut(id) else { return };
        match connection.transport.continue_handshake() {
            HandshakeStep::Waiting if connection.failure.is_some() => self.fail_handshaking(id, TlsFailure::Closed),
            HandshakeStep::Waiting => {
                connection.is_readable = false;
                connection.is_writable = connection.transport.pending_bytes() == 0;
            }
            HandshakeStep::Done => self.finish_handshaking(id, initiator),
            HandshakeStep::Failed(failure) => self.fail_handshaking(id, failure),
        }
    }

    /// Notifies the node, and lends what followed the handshake.
    fn finish_handshaking(&mut self, id: ConnectionId, initiator: Initiator) {
        self.timers.clear(id.key());
        self.read_clock();
        let Some(connection) = self.table.get_mut(id) else { return };
        let Some(tls) = &mut connection.transport.tls else { return };
        let was_reported = connection.is_reported;
        let handshake = Handshake { duration: self.now.since(tls.connected_at), is_resumed: tls.is_resumed() };
        let accepted = tls.accepted.take();
        connection.phase = ConnectionPhase::Open;
        connection.is_reported = true;
        connection.is_readable = true;
        LiveCounters::add(&self.counters().handshakes);
        if handshake.is_resumed {
            LiveCounters::add(&self.counters().handshakes_resumed);
        }
        match (initiator, accepted) {
            (Initiator::Connected(ticket), _) => {
                if !was_reported {
                    LiveCounters::add(&self.counters().connected);
                }
                self.notify_connected(ticket, Ok(Connected { connection: id, handshake: Some(handshake) }));
            }
            (Initiator::Accepted, Some(accepted)) => {
                self.handshaking_count -= 1;
                self.node.handle_accepted(self.now, id, accepted, &mut self.actions);
                self.run_actions();
            }
            (Initiator::Accepted, None) => {}
        }
        self.serve_open(id);
    }

    /// Sends the alert if possible. The node is notified only if it opened the connection.
    pub(super) fn fail_handshaking(&mut self, id: ConnectionId, failure: TlsFailure) {
        LiveCounters::add(&self.counters().handshakes_failed);
        let Some(connection) = self.table.get_mut(id) else { return };
        let ConnectionPhase::Handshaking(initiator) = connection.phase else { return };
        match initiator {
            Initiator::Connected(ticket) => {
                self.timers.clear(id.key());
                if connection.is_reported {
                    let _ = connection.transport.end_after_failure();
                    connection.end(CloseReason::Tls(failure));
                    self.schedule(id);
                } else if let Some(mut connection) = self.table.remove(id) {
                    let _ = connection.transport.end_after_failure();
                    self.backend.close(id, connection);
                }
                self.notify_connected(ticket, Err(ConnectError::Tls(failure)));
            }
            Initiator::Accepted => self.reject_handshake(id, failure),
        }
    }

    /// Lingers, so that no reset destroys the alert.
    fn reject_handshake(&mut self, id: ConnectionId, failure: TlsFailure) {
        self.handshaking_count -= 1;
        let Some(connection) = self.table.get_mut(id) else { return };
        let has_alert = !matches!(failure, TlsFailure::Closed | TlsFailure::TimedOut);
        if has_alert && connection.transport.end_after_failure().is_ok() {
            connection.phase = ConnectionPhase::Lingering { discarded_bytes: 0 };
            connection.is_readable = true;
            self.limit_lingering(id);
            return self.schedule(id);
        }
        connection.end(CloseReason::Tls(failure));
        self.schedule(id);
    }

    /// On stop or pressure: handshakes in progress have `timeout` left.
    pub(super) fn shorten_handshakes(&mut self, timeout: Duration) {
        let until = self.now + timeout;
        let is_accepted =
            |connection: &Connection| matches!(connection.phase, ConnectionPhase::Handshaking(Initiator::Accepted));
        for (id, _) in self.table.iter().filter(|(_, connection)| is_accepted(connection)) {
            let before = self.timers.deadline(id.key()).unwrap_or(until);
            self.timers.set(id.key(), until.min(before));
        }
    }
}
