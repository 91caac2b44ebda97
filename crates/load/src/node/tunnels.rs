//! Tunnels through a proxy to a server with TLS: a CONNECT request on each new connection (RFC 9110, 9.3.6), followed
//! by the TLS handshake.
//!
//! All of it is part of opening the connection: the user's waiting time and the connect time start with the connection
//! to the proxy.

use breme_base::Instant;
use breme_http::Method;
use breme_http1::{ClientConnection, ClientProgress, FieldStorage};
use breme_node::{Actions, Close, ConnectionId, Received};

use super::connections::{ticket, tls_client};
use super::shard::Load;
use crate::error_kind::ErrorKind;
use crate::user::{Owner, State};

/// Bytes of the proxy's refusal that are kept.
const WORDS_BYTES_MAX: usize = 256;

/// The outcome of a response to CONNECT.
enum TunnelOutcome {
    Waiting,
    Open,
    Refused,
}

impl Load {
    /// The connection to the proxy is open: sends the CONNECT request.
    pub(super) fn request_tunnel(
        &mut self,
        now: Instant,
        index: u32,
        since: Instant,
        connection: ConnectionId,
        actions: &mut Actions,
    ) {
        let Some(request) = &self.tunnel_request else { return };
        actions.send(connection).extend_from_slice(request);
        self.tally.bytes_sent += request.len() as u64;
        let user = &mut self.users[index as usize];
        user.protocol = ClientConnection::new();
        user.protocol.sent(Method::Connect);
        user.state = State::Tunnelling(since, connection);
        self.owners.set(connection, Owner::User(index));
        self.connecting += 1;
        self.timers.set(index, now + self.run.plan().settings().timeout);
    }

    /// Reads the proxy's response. Returns the number of bytes taken.
    pub(super) fn read_tunnel(
        &mut self,
        now: Instant,
        index: u32,
        since: Instant,
        connection: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> usize {
        let (outcome, taken) = self.read_answer_to_connect(index, received);
        match outcome {
            // Bytes after the head, before our ClientHello, cannot be TLS.
            TunnelOutcome::Open if taken == received.bytes.len() && !received.ended => {
                let user = &mut self.users[index as usize];
                let client = tls_client(user.host(), user.is_stranger());
                user.state = State::Connecting(since);
                let ticket = ticket(index, user.attempt);
                self.owners.set(connection, Owner::Nobody);
                self.timers.clear(index);
                actions.start_tls(connection, ticket, client);
                taken
            }
            TunnelOutcome::Waiting if !received.ended => taken,
            TunnelOutcome::Waiting | TunnelOutcome::Open | TunnelOutcome::Refused => {
                self.tunnel_failed(now, index, connection, ErrorKind::ProxyRefused, actions);
                received.bytes.len()
            }
        }
    }

    fn read_answer_to_connect(&mut self, index: u32, received: Received<'_>) -> (TunnelOutcome, usize) {
        let (mut taken, mut status, mut words) = (0, 0, Vec::new());
        let outcome = loop {
            let mut storage = FieldStorage::new();
            let input = &received.bytes[taken..];
            let protocol = &mut self.users[index as usize].protocol;
            match protocol.receive(input, received.ended, &self.limits, &mut storage) {
                Ok(ClientProgress::Interim { taken: count, .. } | ClientProgress::Trailer { taken: count, .. }) => {
                    taken += count;
                }
                Ok(ClientProgress::Head { head, taken: count }) => {
                    taken += count;
                    status = head.status;
                    if (200..300).contains(&status) {
                        break TunnelOutcome::Open;
                    }
                }
                Ok(ClientProgress::Content { bytes, taken: count }) => {
                    taken += count;
                    let room = WORDS_BYTES_MAX.saturating_sub(words.len());
                    words.extend_from_slice(&bytes[..bytes.len().min(room)]);
                }
                // The part of the refusal received so far is enough.
                Ok(ClientProgress::NeedMore { .. }) if status != 0 => break TunnelOutcome::Refused,
                Ok(ClientProgress::NeedMore { taken: count }) => break (taken += count, TunnelOutcome::Waiting).1,
                Ok(ClientProgress::End { .. } | ClientProgress::Switched { .. } | ClientProgress::Over) | Err(_) => {
                    break TunnelOutcome::Refused;
                }
            }
        };
        if let (TunnelOutcome::Refused, 1..) = (&outcome, status) {
            self.run.note_refused_tunnel(status, &words);
        }
        (outcome, taken)
    }

    /// Without a tunnel there is no connection.
    pub(super) fn tunnel_failed(
        &mut self,
        now: Instant,
        index: u32,
        connection: ConnectionId,
        kind: ErrorKind,
        actions: &mut Actions,
    ) {
        self.owners.set(connection, Owner::Nobody);
        actions.close(connection, Close::Abort);
        self.timers.clear(index);
        self.connecting = self.connecting.saturating_sub(1);
        self.users[index as usize].state = State::Waiting;
        self.connect_failed(now, index, kind, actions);
        self.open_queued(now, actions);
        self.dispatch(now, actions);
        self.publish();
    }
}
