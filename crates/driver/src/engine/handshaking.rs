//! Handshakes of TLS: from a connection that is there to one that the node is told of.
//!
//! Until then the node knows nothing of it. Each handshake has a bound of time, and an end of the program waits for
//! those that were begun, for a moment, since after a node has been told to stop nothing new may come to it.

use breme_node::{
    CloseReason, ConnectError, ConnectTicket, Connected, ConnectionId, Handshake, Node, PRESSURE_TURN, TlsClientId,
    TlsFailure,
};
use std::time::Duration;

use super::Engine;
use crate::connection::{Connection, Opening, Phase};
use crate::control::Counters;
use crate::port::Port;
use crate::tls::{Ciphertext, HandshakeStep, Secured, ServerTls, Session};
use crate::transport::Transport;

impl<N: Node, P: Port> Engine<N, P> {
    /// Takes an accepted socket on which TLS is spoken.
    pub(super) fn begin_server_handshake(
        &mut self,
        mut transport: Transport,
        tls: &ServerTls,
        accepted: breme_node::Accepted,
    ) -> Option<ConnectionId> {
        self.read_clock();
        let Ok(session) = tls.session() else {
            Counters::add(&self.counters().accepts_failed);
            self.counters().add_end(CloseReason::Tls(TlsFailure::Protocol));
            return None;
        };
        transport.secure(Secured::server(session, tls.plaintext_answer(), accepted, self.now));
        let id = self.insert_accepted(transport, Phase::Handshaking(Opening::Accepted));
        self.handshaking_count += 1;
        let timeout = self.settings.handshake_timeout;
        let timeout = if self.pressure.is_high() { timeout.min(PRESSURE_TURN) } else { timeout };
        self.timers.set(id.key(), self.now + timeout);
        self.keep_in_step(id);
        Some(id)
    }

    /// A connection that the node wanted is there; TLS begins with our hello. Its time goes on.
    pub(super) fn begin_client_handshake(&mut self, id: ConnectionId, ticket: ConnectTicket, client: TlsClientId) {
        self.read_clock();
        let now = self.now;
        let mut hello = Ciphertext::default();
        let session = match self.settings.tls_clients.get(client) {
            Some(client) => Session::client(&client, &mut hello),
            None => Err(TlsFailure::NoSuchClient),
        };
        let Some(connection) = self.table.get_mut(id) else { return };
        connection.phase = Phase::Handshaking(Opening::Connected(ticket));
        match session {
            Ok(session) => {
                connection.transport.secure(Secured::new(session, hello, now));
                self.serve_handshaking(id, Opening::Connected(ticket));
            }
            Err(failure) => self.fail_handshaking(id, failure),
        }
    }

    /// The node wants TLS on a connection that it has used in the clear.
    pub(super) fn secure(&mut self, id: ConnectionId, ticket: ConnectTicket, client: TlsClientId) {
        self.send_gathered(id);
        let Some(connection) = self.table.get_mut(id).filter(|connection| connection.phase == Phase::Open) else {
            return self.connects_failed.push_back((ticket, ConnectError::Tls(TlsFailure::Closed)));
        };
        if !connection.may_be_secured() {
            connection.phase = Phase::Handshaking(Opening::Connected(ticket));
            return self.fail_handshaking(id, TlsFailure::Protocol);
        }
        self.timers.set(id.key(), self.now + self.settings.connect_timeout);
        self.begin_client_handshake(id, ticket, client);
        self.keep_in_step(id);
    }

    /// The node closes a connection on which it has asked for TLS. It is told what became of that all the same.
    pub(super) fn give_up_securing(&mut self, id: ConnectionId, opening: Opening) {
        let Some(connection) = self.table.get_mut(id) else { return };
        connection.end(CloseReason::Requested);
        self.list(id);
        if let Opening::Connected(ticket) = opening {
            self.tell_connected(ticket, Err(ConnectError::Tls(TlsFailure::Closed)));
        }
    }

    pub(super) fn serve_handshaking(&mut self, id: ConnectionId, opening: Opening) {
        let Some(connection) = self.table.get_mut(id) else { return };
        match connection.transport.shake_hands() {
            HandshakeStep::Waiting if connection.failure.is_some() => self.fail_handshaking(id, TlsFailure::Closed),
            HandshakeStep::Waiting => {
                connection.is_readable = false;
                connection.is_writable = connection.transport.pending_bytes() == 0;
            }
            HandshakeStep::Done => self.finish_handshaking(id, opening),
            HandshakeStep::Failed(failure) => self.fail_handshaking(id, failure),
        }
    }

    /// Now the node is told, and shown what came behind the handshake.
    fn finish_handshaking(&mut self, id: ConnectionId, opening: Opening) {
        self.timers.clear(id.key());
        self.read_clock();
        let Some(connection) = self.table.get_mut(id) else { return };
        let Some(secured) = &mut connection.transport.secured else { return };
        let was_known = connection.is_known;
        let handshake = Handshake { duration: self.now.since(secured.since), is_resumed: secured.is_resumed() };
        let accepted = secured.accepted.take();
        connection.phase = Phase::Open;
        connection.is_known = true;
        connection.is_readable = true;
        Counters::add(&self.counters().handshakes);
        if handshake.is_resumed {
            Counters::add(&self.counters().handshakes_resumed);
        }
        match (opening, accepted) {
            (Opening::Connected(ticket), _) => {
                if !was_known {
                    Counters::add(&self.counters().connected);
                }
                self.tell_connected(ticket, Ok(Connected { connection: id, handshake: Some(handshake) }));
            }
            (Opening::Accepted, Some(accepted)) => {
                self.handshaking_count -= 1;
                self.node.handle_accepted(self.now, id, accepted, &mut self.actions);
                self.run_actions();
            }
            (Opening::Accepted, None) => {}
        }
        self.serve_open(id);
    }

    /// The peer is told why, as far as it listens; the node only if it has asked for the connection.
    pub(super) fn fail_handshaking(&mut self, id: ConnectionId, failure: TlsFailure) {
        Counters::add(&self.counters().handshakes_failed);
        let Some(connection) = self.table.get_mut(id) else { return };
        let Phase::Handshaking(opening) = connection.phase else { return };
        match opening {
            Opening::Connected(ticket) => {
                self.timers.clear(id.key());
                if connection.is_known {
                    let _ = connection.transport.say_farewell();
                    connection.end(CloseReason::Tls(failure));
                    self.list(id);
                } else if let Some(mut connection) = self.table.remove(id) {
                    let _ = connection.transport.say_farewell();
                    self.port.close(id, connection);
                }
                self.tell_connected(ticket, Err(ConnectError::Tls(failure)));
            }
            Opening::Accepted => self.turn_away(id, failure),
        }
    }

    /// What the peer still sends is read into nothing, so that no reset destroys what it was told.
    fn turn_away(&mut self, id: ConnectionId, failure: TlsFailure) {
        self.handshaking_count -= 1;
        let Some(connection) = self.table.get_mut(id) else { return };
        let has_anything_to_hear = !matches!(failure, TlsFailure::Closed | TlsFailure::TimedOut);
        if has_anything_to_hear && connection.transport.say_farewell().is_ok() {
            connection.phase = Phase::Lingering { discarded_bytes: 0 };
            connection.is_readable = true;
            self.timers.set(id.key(), self.now + self.settings.closing_timeout);
            return self.list(id);
        }
        connection.end(CloseReason::Tls(failure));
        self.list(id);
    }

    /// The program is to end, or others wait: handshakes that are under way have `timeout` left.
    pub(super) fn hurry_handshakes(&mut self, timeout: Duration) {
        let until = self.now + timeout;
        let is_accepted = |connection: &Connection| matches!(connection.phase, Phase::Handshaking(Opening::Accepted));
        for (id, _) in self.table.iter().filter(|(_, connection)| is_accepted(connection)) {
            let before = self.timers.deadline(id.key()).unwrap_or(until);
            self.timers.set(id.key(), until.min(before));
        }
    }
}
