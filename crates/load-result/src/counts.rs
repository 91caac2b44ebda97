//! The outcomes of requests, arrivals, bytes and connections: each is in exactly one of the counts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Requests by outcome: `issued = answered + failed + unfinished`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Requests {
    /// Number of requests begun: sent, or failed because no connection could be opened for them.
    pub issued: u64,
    /// Number of requests passed to the kernel; one that was sent again counts once.
    pub sent: u64,
    /// Number of complete responses, of any status.
    pub answered: u64,
    /// Number of responses that passed all checks.
    pub ok: u64,
    /// Number of requests without a complete response.
    pub failed: u64,
    /// Number of requests without a response when the wait at the end of the run was over.
    pub unfinished: u64,
    /// Number of requests sent again because the server closed their connection before it processed them.
    pub resent: u64,
}

/// Redirects of `--follow-redirects`. The responses that were followed are not counted elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RedirectsSummary {
    /// Number of redirects followed.
    pub followed: u64,
    /// Number of redirects that were final responses: they lead to a host that is not a target of the run, there were
    /// too many in a row, or they name no valid URL.
    pub not_followed: u64,
}

/// Arrivals of an open loop (requests, or sessions of scenarios) by outcome: `due = begun + dropped + shed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenLoopSummary {
    /// Number of arrivals that were due by the end of the run.
    pub due: u64,
    /// Number of arrivals begun.
    pub begun: u64,
    /// Number of begun arrivals that had to wait for a free connection.
    pub waited: u64,
    /// Number of arrivals never begun: the queue was full, or they were still in it at the end of the run.
    pub dropped: u64,
    /// Number of arrivals discarded because their deadline had passed.
    pub shed: u64,
}

/// Bytes received and sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bytes {
    /// Bytes received, including heads and framing.
    pub received: u64,
    /// Bytes sent, including heads and framing.
    pub sent: u64,
    /// Bytes of response bodies, without framing.
    pub content: u64,
}

/// Counts of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Connections {
    /// Number of connections opened.
    pub opened: u64,
    /// Number of connections opened to replace a closed one.
    pub reconnects: u64,
    /// Number of connections on which bytes arrived that belong to no request.
    pub unexpected: u64,
    /// Number of connections with a resumed TLS handshake.
    pub resumed: u64,
}

/// Parameters negotiated in the first TLS handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TlsSummary {
    /// TLS version, `1.2` or `1.3`.
    pub version: String,
    /// Cipher suite, by its IANA name.
    pub cipher_suite: String,
}
