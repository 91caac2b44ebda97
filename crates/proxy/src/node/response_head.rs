//! The heads of responses to clients.

use breme_http::{Fields, Framing, Version};
use breme_http1::{ResponseWriter, ServerConnection};

use crate::shared_state::SharedState;

/// The kind of a response, with its status.
#[derive(Clone, Copy, Debug)]
pub(super) enum HeadStart {
    /// 1xx other than 101. Not for HTTP/1.0 clients.
    Interim(u16),
    Final(u16, Framing),
    /// Opaque bytes follow: 101, or 200 to CONNECT.
    Tunnel(u16),
    /// To a malformed, too long or too slow request, with the length of its content.
    Refusal(u16, u64),
}

impl SharedState {
    /// Begins the head of a response: all of them begin here, and the replays repeat such heads. None: the client may
    /// not get this response.
    ///
    /// Constant fields of all final responses are [settings](crate::Settings::response_fields). Another field of all
    /// responses is written here, so before all other fields:
    /// - The [cache of replayed hits](super::hit_replay_cache) keeps the lines before Age, and the replays repeat what
    ///   was sent until a reload, so its value is constant until then.
    /// - [`forward_fields`](Self::forward_fields) and the [stored lines](breme_cache::Cache::client_lines) must leave
    ///   out the upstream's field of that name.
    /// - Interim responses get it too, unless it depends on `start`.
    #[expect(clippy::disallowed_methods, reason = "no other function begins a head")]
    #[inline]
    pub(super) fn begin_head<'c, 'o>(
        &self,
        http: &'c mut ServerConnection,
        start: HeadStart,
        out: &'o mut Vec<u8>,
    ) -> Option<ResponseWriter<'c, 'o>> {
        match start {
            HeadStart::Interim(status) => http.interim(status, out),
            HeadStart::Final(status, framing) => Some(http.relay(status, framing, out)),
            HeadStart::Tunnel(status) => Some(http.begin_tunnel(status, out)),
            HeadStart::Refusal(status, length) => http.begin_refusal(status, length, out),
        }
    }

    /// Writes the fields of an upstream's response for which `keeps` returns true, and Via. `version` is that of the
    /// response (RFC 9110, 7.6.3).
    pub(super) fn forward_fields(
        &self,
        writer: &mut ResponseWriter<'_, '_>,
        version: Version,
        fields: Fields<'_, '_>,
        keeps: impl Fn(&str) -> bool,
    ) {
        writer.relay(fields, keeps);
        if self.settings.identity.via {
            writer.via(version, &self.settings.identity.pseudonym);
        }
    }
}
