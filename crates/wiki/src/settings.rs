//! The operator's settings.

use std::net::IpAddr;
use std::time::Duration;

use http::{HeaderValue, Uri};

#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the wiki, at the top of each page.
    pub title: String,
    /// Cache-Control of public responses.
    pub cache_control: HeaderValue,
    /// The URL under which users reach the wiki, if known: for feeds, cookies, and checks of origins.
    pub public_url: Option<Uri>,
    pub readers: Readers,
    pub writers: Writers,
    /// Whether there were accounts or tokens at the start.
    pub has_accounts: bool,
    /// Whether changes to existing pages must name the revision that they replace.
    pub requires_condition: bool,
    /// Proxies whose X-Forwarded-For is trusted, in addition to those on this machine.
    pub trusted_proxies: Vec<IpAddr>,
    /// Limit of the text of a page, in bytes.
    pub page_bytes_max: usize,
    /// Limit of an attachment, in bytes.
    pub attachment_bytes_max: usize,
    /// Memory for rendered pages, in bytes.
    pub rendered_bytes_max: u64,
    /// Changes per minute per client address.
    pub writes_per_minute: u32,
    /// Caches purged after each change.
    pub edges: Vec<Edge>,
    /// Whether a change is acknowledged only when all live edges have confirmed its purge.
    pub waits_for_edges: bool,
    /// Time limit for an edge to confirm a purge; beyond it, it counts as dead until it confirms one.
    pub edge_timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    Anyone,
    /// Accounts and tokens.
    Members,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    Anyone,
    /// Programs and browsers on this machine, under one of its own names: a public proxy in front of the wiki does not
    /// open it to others. As soon as there are accounts, it is [`Writers::Members`].
    Local,
    /// Accounts and tokens with the scope `write`.
    Members,
    Nobody,
}

/// A cache in front of the wiki: the admin server of `breme proxy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    pub authority: String,
    /// The token in its `--admin-token-file`.
    pub token: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            title: "Wiki".to_owned(),
            cache_control: HeaderValue::from_static("public, max-age=0, s-maxage=60, stale-while-revalidate=60"),
            public_url: None,
            readers: Readers::Anyone,
            writers: Writers::Local,
            has_accounts: false,
            requires_condition: false,
            trusted_proxies: Vec::new(),
            page_bytes_max: 512 << 10,
            attachment_bytes_max: 16 << 20,
            rendered_bytes_max: 64 << 20,
            writes_per_minute: 600,
            edges: Vec::new(),
            waits_for_edges: false,
            edge_timeout: Duration::from_secs(2),
        }
    }
}
