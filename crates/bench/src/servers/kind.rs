//! The kinds of servers that are compared, and what the origin behind the proxies offers.

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `breme site DIR --lab`, one thread.
    BremeSite,
    /// nginx with one worker, sendfile and a cache of open files; `/bytes/13` is a `return 200`.
    Nginx,
    /// lighttpd with one worker.
    Lighttpd,
    /// Apache with the event module and one process of many threads.
    Apache,
    /// What stands behind proxies that keep answers: nginx, whose answers may be kept for a day, and which counts its requests.
    Origin,
    /// `breme proxy`, one thread.
    BremeProxy(Store),
    /// nginx with one worker, which keeps its connections to the origin.
    NginxProxy(Store),
    /// HAProxy with one thread.
    Haproxy,
    /// Varnish with one pool of threads.
    Varnish(Store),
}

/// What a proxy may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Nothing,
    /// Answers, in so much memory.
    Mebibytes(u64),
}

/// What is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) kind: Kind,
    pub(crate) tls: bool,
}

/// The objects of the origin at `/objects/NAME` have so much content.
pub(crate) const OBJECT_BYTES: usize = 1_000;
/// Where the origin tells how many requests came to it.
pub(super) const ORIGIN_STATUS: &str = "/status";

impl Kind {
    pub(crate) const fn program(self) -> &'static str {
        match self {
            Self::BremeSite | Self::BremeProxy(_) => "breme",
            Self::Nginx | Self::Origin | Self::NginxProxy(_) => "nginx",
            Self::Lighttpd => "lighttpd",
            Self::Apache => "apache2",
            Self::Haproxy => "haproxy",
            Self::Varnish(_) => "varnishd",
        }
    }

    pub(super) const fn is_proxy(self) -> bool {
        matches!(self, Self::BremeProxy(_) | Self::NginxProxy(_) | Self::Haproxy | Self::Varnish(_))
    }

    /// Whether it answers again without asking the origin.
    pub(crate) const fn keeps_answers(self) -> bool {
        matches!(self, Self::BremeProxy(store) | Self::NginxProxy(store) | Self::Varnish(store) if matches!(store, Store::Mebibytes(_)))
    }
}
