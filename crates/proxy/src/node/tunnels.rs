//! Tunnels: opaque bytes in both directions until both sides have closed (RFC 9110, 9.3.6 and 7.8).

use breme_http::{Fields, Version};
use breme_node::{Close, Received};

use super::context::Context;
use super::keys::{ClientKey, ExchangeKey};
use super::response_head::HeadStart;
use super::stage::Stage;
use super::tables::UpstreamResponse;
use crate::access_log::Completion;

impl Context<'_> {
    /// The connection for CONNECT is open.
    pub(super) fn open_tunnel(&mut self, key: ExchangeKey) {
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return };
        let Some(client) = exchange.client.and_then(|client| self.node.clients.get_mut(client.index())) else { return };
        let out = self.actions.send(client.id);
        let Some(writer) = self.shared.begin_head(&mut client.http, HeadStart::Tunnel(200), out) else { return };
        let _ = writer.end();
        exchange.status = 200;
        self.begin_tunnel(key);
    }

    /// The upstream has sent 101.
    pub(super) fn switch(&mut self, key: ExchangeKey, fields: Fields<'_, '_>) {
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return };
        let Some(client) = exchange.client.and_then(|client| self.node.clients.get_mut(client.index())) else { return };
        let out = self.actions.send(client.id);
        let Some(mut writer) = self.shared.begin_head(&mut client.http, HeadStart::Tunnel(101), out) else { return };
        for protocols in fields.all("Upgrade") {
            // It was validated on receipt.
            let _ = writer.field("Upgrade", protocols);
        }
        // HTTP/1.0 has no upgrades.
        self.shared.forward_fields(&mut writer, Version::Http11, fields, |_| true);
        let _ = writer.end();
        exchange.status = 101;
        let latency = exchange.stage.attempt().map(|attempt| self.now.since(attempt.sent));
        exchange.upstream_response = latency.map(|latency| UpstreamResponse { status: 101, latency });
        self.begin_tunnel(key);
    }

    fn begin_tunnel(&mut self, key: ExchangeKey) {
        let now = self.now;
        let Some(exchange) = self.node.exchanges.get_mut(key.index()) else { return };
        self.node.buffers.keep(exchange.stage.begin_tunnel());
        exchange.progress = now;
        let (client, status) = (exchange.client, exchange.status);
        self.node.counts.tunnels.add();
        self.node.counts.tunnels_open.add();
        self.node.counts.count_response(status);
        self.set_exchange_deadline(key);
        // Bytes after the request have waited for this.
        if let Some(client) = client {
            self.resume_client(client);
        }
    }

    /// None: not a tunnel.
    pub(super) fn tunnel_from_client(&mut self, key: ClientKey, received: Received<'_>) -> Option<usize> {
        let exchange_key = self.client(key)?.state.exchange?;
        let now = self.now;
        let exchange = self.exchange(exchange_key)?;
        let Stage::Tunnel { upstream, client_ended, .. } = &mut exchange.stage else { return None };
        let upstream = *upstream;
        let has_just_ended = received.ended && !std::mem::replace(client_ended, true);
        let length = received.bytes.len();
        exchange.progress = now;
        exchange.received_bytes += length as u64;
        let id = self.upstream(upstream)?.id;
        if length > 0 {
            self.actions.send_received(id, self.received, received.bytes);
            self.node.counts.bytes_upstream.add_many(length as u64);
        }
        if has_just_ended {
            self.actions.finish(id);
        }
        self.client(key)?.has_pending = false;
        self.end_tunnel_if_over(exchange_key);
        Some(length)
    }

    /// None: not a tunnel.
    pub(super) fn tunnel_from_upstream(&mut self, key: ExchangeKey, received: Received<'_>) -> Option<usize> {
        let now = self.now;
        let exchange = self.exchange(key)?;
        let Stage::Tunnel { upstream_ended, .. } = &mut exchange.stage else { return None };
        let has_just_ended = received.ended && !std::mem::replace(upstream_ended, true);
        let length = received.bytes.len();
        exchange.progress = now;
        exchange.sent_bytes += length as u64;
        let client = exchange.client?;
        let id = self.client(client)?.id;
        if length > 0 {
            self.actions.send_received(id, self.received, received.bytes);
            self.node.counts.bytes_downstream.add_many(length as u64);
        }
        if has_just_ended {
            self.actions.finish(id);
        }
        self.end_tunnel_if_over(key);
        Some(length)
    }

    fn end_tunnel_if_over(&mut self, key: ExchangeKey) {
        let Some(exchange) = self.exchange(key) else { return };
        if matches!(exchange.stage, Stage::Tunnel { client_ended: true, upstream_ended: true, .. }) {
            return self.end_tunnel(key, Close::Graceful);
        }
        self.set_exchange_deadline(key);
    }

    /// Closes both sides.
    pub(super) fn end_tunnel(&mut self, key: ExchangeKey, how: Close) {
        let Some(exchange) = self.exchange(key) else { return };
        let (client, upstream) = (exchange.client, exchange.stage.upstream());
        if let Some(upstream) = upstream {
            self.close_upstream(upstream, how);
        }
        self.end_exchange(key, Completion::Complete, false);
        if let Some(client) = client {
            self.close_client(client, how);
        }
    }
}
