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
    /// What stands behind proxies that keep answers: nginx, whose answers may be kept for a day, and which counts its
    /// requests.
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
    /// Answers, as many as the program's own limit lets in: so many MiB by its own count.
    Mebibytes(u64),
    /// Answers, as many as fit while all of the program's processes together hold so many MB.
    InAll(u64),
}

/// What the processes of a cache hold when it is full, by what it counts itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// MB besides what it counts.
    pub(super) beside: u64,
    /// For each 1,000 bytes that it counts.
    pub(super) of_thousand: u64,
}

impl Store {
    /// The limit to tell the program, in MiB; none if it is to keep nothing.
    pub(super) const fn limit(self, held: Held) -> Option<u64> {
        match self {
            Self::Nothing => None,
            Self::Mebibytes(mebibytes) => Some(mebibytes),
            Self::InAll(megabytes) => {
                Some(megabytes.saturating_sub(held.beside) * 1_000_000 / held.of_thousand * 1_000 / (1 << 20))
            }
        }
    }
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
        matches!(self, Self::BremeProxy(store) | Self::NginxProxy(store) | Self::Varnish(store) if !matches!(store, Store::Nothing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_leaves_room_for_what_a_program_does_not_count() {
        let held = Held { beside: 20, of_thousand: 1_600 };
        assert_eq!(Store::Nothing.limit(held), None);
        assert_eq!(Store::Mebibytes(64).limit(held), Some(64));
        // (500 − 20) MB ÷ 1.6 are 300 MB.
        assert_eq!(Store::InAll(500).limit(held), Some(300_000_000 >> 20));
    }
}
