//! What an operator chooses.

use std::net::IpAddr;
use std::time::Duration;

use http::{HeaderValue, Uri};

/// The settings of a wiki.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the wiki, at the top of each page.
    pub title: String,
    /// Cache-Control of what everybody may see.
    pub cache_control: HeaderValue,
    /// The URL under which users reach the wiki, if that is known: for feeds, cookies, and checks of origins.
    pub public_url: Option<Uri>,
    /// Who may read.
    pub readers: Readers,
    /// Who may write.
    pub writers: Writers,
    /// Whether there were accounts or tokens at the start.
    pub has_accounts: bool,
    /// Whether changes to existing pages must say which revision they replace.
    pub requires_condition: bool,
    /// Proxies whose X-Forwarded-For is believed, besides those on this machine.
    pub trusted_proxies: Vec<IpAddr>,
    /// The longest text of a page, bytes.
    pub page_bytes_max: usize,
    /// The largest attachment, bytes.
    pub attachment_bytes_max: usize,
    /// Memory for rendered pages, bytes.
    pub rendered_bytes_max: u64,
    /// Changes per minute and address.
    pub writes_per_minute: u32,
    /// Caches that are purged after each change.
    pub edges: Vec<Edge>,
    /// Whether a change is acknowledged only when all live edges have confirmed its purge.
    pub waits_for_edges: bool,
    /// The time in which an edge must confirm a purge; then it counts as dead until it confirms one.
    pub edge_timeout: Duration,
}

/// Who may read pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Everybody.
    Anyone,
    /// Accounts and tokens.
    Members,
}

/// Who may change pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// Everybody.
    Anyone,
    /// Programs and browsers on this machine, under one of its own names: a public proxy in front of the wiki opens
    /// nothing to others. As soon as there are accounts, it is [`Writers::Members`].
    Local,
    /// Accounts and tokens with the scope `write`.
    Members,
    /// Nobody.
    Nobody,
}

/// A cache in front of the wiki: the admin server of `breme proxy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Its host and port.
    pub authority: String,
    /// The token of its `--admin-token-file`.
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
