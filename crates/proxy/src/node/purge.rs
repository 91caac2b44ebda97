//! `PURGE URL` on the proxy's own listeners removes the stored responses of the URL: at a reverse proxy those for http
//! and for https. Most caches support this method; no RFC defines it.
//!
//! It is enabled by the networks that may use it; otherwise it is forwarded like any other method. Clients are
//! identified by the address of their connection, which no header field can forge.

use breme_cache::{Purge, Scheme};
use breme_http::media_type::TEXT;
use breme_http::{Framing, Method, RequestHead};
use bytes::Bytes;

use super::context::Context;
use super::keys::{ClientKey, ExchangeKey};
use crate::failure::Failure;
use crate::shared_state::Role;

const METHOD: Method<'_> = Method::Other("PURGE");

impl Context<'_> {
    /// Handles a purge request. Returns whether it was one.
    pub(super) fn purge(
        &mut self,
        key: ExchangeKey,
        client: ClientKey,
        head: &RequestHead<'_, '_>,
    ) -> Result<bool, Failure> {
        let shared = self.shared;
        let Some(cache) = shared.cache.as_ref().filter(|_| head.method == METHOD && !shared.purgers.is_empty()) else {
            return Ok(false);
        };
        let address = self.client(client).map(|client| client.state.ip());
        if !address.is_some_and(|address| shared.purgers.contains(address)) {
            return Err(Failure::MayNotPurge);
        }
        let Some(request) = shared.cache_request(self.node.clients.get(client.index()), head) else {
            return Err(Failure::NothingToPurge);
        };
        let query = request.query.map_or_else(String::new, |query| format!("?{query}"));
        let schemes = match shared.role {
            // How the purging client connects says nothing about how the users do.
            Role::Reverse { .. } => &[Scheme::Http, Scheme::Https][..],
            Role::Forward { .. } => &[request.scheme],
        };
        let mut count = 0;
        for scheme in schemes {
            let url = format!("{}://{}{}{query}", scheme.as_str(), request.authority, request.path);
            let purged = cache.purge(&Purge::Url(url), breme_cache::PurgeMode::Hard, self.now);
            count += purged.map_err(|_| Failure::NothingToPurge)?;
        }
        let text = format!("purged: {count}\n");
        let framing = Framing::Length(text.len() as u64);
        self.respond_from_memory(
            key,
            200,
            framing,
            |writer, date| {
                // All of them are valid.
                let _ = writer.field("Date", date);
                let _ = writer.field("Content-Type", TEXT.as_bytes());
                let _ = writer.field("Cache-Control", b"no-store");
            },
            [Bytes::from(text)],
        );
        Ok(true)
    }
}
