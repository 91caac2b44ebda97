//! Opening connections.

use breme_node::{ConnectError, ConnectTicket, Connected, ConnectionId, Endpoint, Node};

use super::Engine;
use crate::connection::{Connection, ConnectionPhase};
use crate::counters::LiveCounters;
use crate::io_backend::IoBackend;

impl<N: Node, B: IoBackend> Engine<N, B> {
    pub(super) fn connect(&mut self, ticket: ConnectTicket, endpoint: Endpoint) {
        let address = self.settings.unix_sockets.resolve(endpoint.address);
        match self.backend.connect(&address, self.table.next_id()) {
            Ok(mut transport) => {
                if self.timestamps.is_some() {
                    transport.socket.enable_timestamps();
                }
                let mut connection = Connection::new(transport, ConnectionPhase::Connecting(ticket));
                connection.tls_client = endpoint.tls;
                let id = self.table.insert(connection);
                self.timers.set(id.key(), self.now + self.settings.connect_timeout);
            }
            Err(error) => self.connects_failed.push_back((ticket, connect_error(&error))),
        }
    }

    pub(crate) fn handle_connect_outcome(&mut self, id: ConnectionId, outcome: std::io::Result<()>) {
        if let Some(connection) = self.table.get_mut(id)
            && let ConnectionPhase::Connecting(ticket) = connection.phase
        {
            self.finish_connecting(id, ticket, outcome);
            self.update_interest(id);
            self.release_if_ended(id);
        }
    }

    pub(super) fn serve_connecting(&mut self, id: ConnectionId, ticket: ConnectTicket) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if let Some(outcome) = breme_sys::connect_outcome(&connection.transport) {
            self.finish_connecting(id, ticket, outcome);
        }
    }

    pub(super) fn finish_connecting(&mut self, id: ConnectionId, ticket: ConnectTicket, outcome: std::io::Result<()>) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if let Err(error) = outcome {
            return self.fail_connecting(id, connect_error(&error));
        }
        connection.is_writable = true;
        if let Some(client) = connection.tls_client {
            return self.begin_client_handshake(id, ticket, client);
        }
        connection.phase = ConnectionPhase::Open;
        connection.is_reported = true;
        self.timers.clear(id.key());
        LiveCounters::add(&self.counters().connected);
        self.notify_connected(ticket, Ok(Connected::plain(id)));
        self.schedule_if_readable(id);
    }

    pub(super) fn fail_connecting(&mut self, id: ConnectionId, error: ConnectError) {
        self.timers.clear(id.key());
        let Some(connection) = self.table.remove(id) else { return };
        if let ConnectionPhase::Connecting(ticket) = connection.phase {
            self.backend.close(id, connection);
            self.notify_connected(ticket, Err(error));
        }
    }

    pub(super) fn report_failed_connects(&mut self) {
        for _ in 0..self.connects_failed.len() {
            let Some((ticket, error)) = self.connects_failed.pop_front() else { break };
            self.notify_connected(ticket, Err(error));
        }
    }

    pub(super) fn notify_connected(&mut self, ticket: ConnectTicket, outcome: Result<Connected, ConnectError>) {
        if !self.has_exited {
            self.read_clock();
            self.node.handle_connected(self.now, ticket, outcome, &mut self.actions);
            self.run_actions();
        }
    }
}

fn connect_error(error: &std::io::Error) -> ConnectError {
    use std::io::ErrorKind;

    use rustix::io::Errno;
    match Errno::from_io_error(error) {
        // No descriptor, port or memory.
        Some(Errno::MFILE | Errno::NFILE | Errno::ADDRNOTAVAIL | Errno::NOBUFS | Errno::NOMEM | Errno::NOSPC) => {
            return ConnectError::NoResources;
        }
        // On Linux: no free local port, or the queue of a Unix socket is full.
        Some(Errno::AGAIN) => return ConnectError::NoResources,
        // Nobody listens at the path of a Unix socket.
        Some(Errno::NOENT) => return ConnectError::Refused,
        _ => {}
    }
    match error.kind() {
        ErrorKind::ConnectionRefused => ConnectError::Refused,
        ErrorKind::TimedOut => ConnectError::TimedOut,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => {
            ConnectError::Unreachable
        }
        kind => ConnectError::Other(kind),
    }
}
