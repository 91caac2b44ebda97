//! Tunnels: bytes of no protocol of ours, in both directions until both sides have ended (RFC 9110, 9.3.6 and 7.8).

use breme_http1::Fields;
use breme_node::{Close, Received};

use super::tables::{ClientKey, ExchangeKey, Stage};
use super::turn::Turn;
use crate::access_log::Ending;

const NOBODY_ENDED: Stage = Stage::Tunnel { client_ended: false, server_ended: false };

impl Turn<'_> {
    /// The connection that CONNECT asked for is there.
    pub(super) fn open_tunnel(&mut self, key: ExchangeKey) {
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return };
        let Some(client) = exchange.client.and_then(|client| self.node.clients.get_mut(client.index())) else { return };
        client.http.begin_tunnel(200, self.actions.send(client.id)).end();
        exchange.status = 200;
        self.begin_tunnel(key);
    }

    /// The server has agreed to speak another protocol.
    pub(super) fn switch(&mut self, key: ExchangeKey, fields: Fields<'_, '_>) {
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return };
        let Some(client) = exchange.client.and_then(|client| self.node.clients.get_mut(client.index())) else { return };
        let mut writer = client.http.begin_tunnel(101, self.actions.send(client.id));
        for protocols in fields.all("Upgrade") {
            // It was received, so it can be sent.
            let _ = writer.field("Upgrade", protocols);
        }
        writer.relay(fields, |_| true);
        writer.end();
        exchange.status = 101;
        exchange.upstream_duration = Some(self.now.since(exchange.sent));
        self.begin_tunnel(key);
    }

    fn begin_tunnel(&mut self, key: ExchangeKey) {
        let now = self.now;
        let Some(exchange) = self.exchange(key) else { return };
        exchange.stage = NOBODY_ENDED;
        exchange.progress = now;
        let (client, status) = (exchange.client, exchange.status);
        self.node.counts.tunnels.add();
        self.node.counts.tunnels_open.add();
        self.node.counts.count_answer(status);
        self.set_exchange_deadline(key);
        // What came behind the request has waited for this.
        if let Some(client) = client {
            self.lend_client_again(client);
        }
    }

    /// None: there is no tunnel.
    pub(super) fn tunnel_from_client(&mut self, key: ClientKey, received: Received<'_>) -> Option<usize> {
        let exchange_key = self.client(key)?.exchange?;
        let now = self.now;
        let exchange = self.exchange(exchange_key)?;
        let Stage::Tunnel { client_ended, server_ended } = exchange.stage else { return None };
        let length = received.bytes.len();
        exchange.progress = now;
        exchange.received_bytes += length as u64;
        exchange.stage = Stage::Tunnel { client_ended: client_ended || received.ended, server_ended };
        let server = exchange.server?;
        let id = self.server(server)?.id;
        if length > 0 {
            self.actions.send_received(id, self.received, received.bytes);
            self.node.counts.bytes_upstream.add_many(length as u64);
        }
        if received.ended && !client_ended {
            self.actions.finish(id);
        }
        self.client(key)?.has_pending = false;
        self.end_tunnel_if_over(exchange_key);
        Some(length)
    }

    /// None: there is no tunnel.
    pub(super) fn tunnel_from_server(&mut self, key: ExchangeKey, received: Received<'_>) -> Option<usize> {
        let now = self.now;
        let exchange = self.exchange(key)?;
        let Stage::Tunnel { client_ended, server_ended } = exchange.stage else { return None };
        let length = received.bytes.len();
        exchange.progress = now;
        exchange.sent_bytes += length as u64;
        exchange.stage = Stage::Tunnel { client_ended, server_ended: server_ended || received.ended };
        let client = exchange.client?;
        let id = self.client(client)?.id;
        if length > 0 {
            self.actions.send_received(id, self.received, received.bytes);
            self.node.counts.bytes_downstream.add_many(length as u64);
        }
        if received.ended && !server_ended {
            self.actions.finish(id);
        }
        self.end_tunnel_if_over(key);
        Some(length)
    }

    fn end_tunnel_if_over(&mut self, key: ExchangeKey) {
        let Some(exchange) = self.exchange(key) else { return };
        if exchange.stage == (Stage::Tunnel { client_ended: true, server_ended: true }) {
            return self.end_tunnel(key, Close::Graceful);
        }
        self.set_exchange_deadline(key);
    }

    /// Closes what is left of both sides.
    pub(super) fn end_tunnel(&mut self, key: ExchangeKey, how: Close) {
        let Some(exchange) = self.exchange(key) else { return };
        let client = exchange.client;
        if let Some(server) = exchange.server.take() {
            self.drop_server(server, how);
        }
        self.end_exchange(key, Ending::Complete, false);
        if let Some(client) = client {
            self.close_client(client, how);
        }
    }
}
