//! The one place where an upstream is chosen.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use breme_base::{Instant, Random};

/// The upstreams of a reverse proxy, for all shards.
#[derive(Clone, Debug)]
pub struct Upstreams {
    list: Arc<[Upstream]>,
    next: Arc<AtomicUsize>,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// The authority of its URL: what it is called in messages, metrics and, if the rule says so, in Host.
    pub name: Arc<str>,
    /// Where it is.
    pub address: SocketAddr,
    /// It is spoken to over TLS.
    pub tls: bool,
}

/// Tells upstreams apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UpstreamId(usize);

/// Who is to be asked.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) upstream: UpstreamId,
    pub(crate) address: SocketAddr,
    pub(crate) tls: bool,
    pub(crate) name: Arc<str>,
}

/// What became of asking.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "a fixed list does not learn")]
pub(crate) enum Outcome {
    Answered {
        status: u16,
        latency: Duration,
    },
    ConnectFailed,
    BrokeOff,
    TimedOut,
    /// The client went away, or nobody was asked in the end.
    Abandoned,
}

impl Upstreams {
    /// A fixed list, asked in turn.
    #[must_use]
    pub fn fixed(list: Vec<Upstream>) -> Self {
        Self { list: list.into(), next: Arc::default() }
    }

    /// Who is to be asked next, and none of those that were `tried`.
    pub(crate) fn choose(&self, _now: Instant, tried: &[UpstreamId], _random: &mut Random) -> Option<Choice> {
        let count = self.list.len();
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let places = (0..count).map(|step| UpstreamId(first.wrapping_add(step) % count));
        let upstream = places.into_iter().find(|id| !tried.contains(id))?;
        let Upstream { name, address, tls } = &self.list[upstream.0];
        Some(Choice { upstream, address: *address, tls: *tls, name: name.clone() })
    }

    /// Each choice is told its outcome once.
    pub(crate) fn finished(&self, _now: Instant, _upstream: UpstreamId, _outcome: Outcome) {}
}
