//! The pages, their headers, and the times of their versions: what responses are checked against.

use std::time::Duration;

use breme_base::Instant;

/// A page, and the maximum age of its responses.
pub struct Page {
    /// Its Cache-Control, and further headers.
    pub says: &'static str,
    /// How long after a change the version before it may still be served.
    pub grace: Duration,
    /// A response may be reused for other clients.
    pub is_shared: bool,
    /// There is one for each value of `X-Kind`.
    pub has_kinds: bool,
}

const fn shared(says: &'static str, grace_s: u64) -> Page {
    Page { says, grace: Duration::from_secs(grace_s), is_shared: true, has_kinds: false }
}

const fn unshared(says: &'static str) -> Page {
    Page { is_shared: false, ..shared(says, 0) }
}

pub const PAGES: [Page; 14] = [
    shared("Cache-Control: max-age=3\r\n", 3),
    shared("Cache-Control: max-age=1, stale-while-revalidate=2\r\n", 3),
    shared("Cache-Control: max-age=60\r\n", 60),
    shared("Cache-Control: max-age=0, s-maxage=2\r\n", 2),
    shared("Cache-Control: max-age=2, must-revalidate\r\n", 2),
    shared("Cache-Control: max-age=60\r\nCDN-Cache-Control: max-age=1\r\n", 1),
    shared("Cache-Control: no-cache\r\n", 0),
    shared("Cache-Control: max-age=0\r\n", 0),
    shared("", 0),
    Page { has_kinds: true, ..shared("Cache-Control: public, max-age=4\r\nVary: X-Kind\r\n", 4) },
    Page { has_kinds: true, ..shared("Cache-Control: no-cache\r\nVary: X-Kind\r\n", 0) },
    unshared("Cache-Control: no-store\r\n"),
    unshared("Cache-Control: private, max-age=60\r\n"),
    unshared("Cache-Control: max-age=60\r\nSet-Cookie: a=b\r\n"),
];
pub const KINDS: [&str; 3] = ["", "round", "flat"];
/// Contents repeat their first line, and are longer than any requested range.
const REPEATS_MAX: u64 = 600;

/// Identifies the content of a response. A client without access is the asker of a response that is not shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edition {
    pub page: usize,
    pub kind: String,
    pub version: usize,
    /// The client that requested it; empty if irrelevant.
    pub client: String,
}

impl Edition {
    pub fn content(&self) -> Vec<u8> {
        let line = format!("{} {:?} {} {:?}\n", self.page, self.kind, self.version, self.client);
        let mixed = line.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
        line.repeat(5 + (mixed % REPEATS_MAX) as usize).into_bytes()
    }

    /// The entity tag; none if each response differs.
    pub fn tag(&self) -> Option<String> {
        self.client.is_empty().then(|| format!("\"{}.{}.{}\"", self.page, self.kind, self.version))
    }

    /// Parses a tag.
    pub fn of_tag(tag: &str) -> Option<Self> {
        let mut parts = tag.trim_matches('"').split('.');
        let page = parts.next()?.parse().ok()?;
        let kind = parts.next()?.to_owned();
        Some(Self { page, kind, version: parts.next()?.parse().ok()?, client: String::new() })
    }
}

/// The history of the origin.
pub struct Truth {
    /// For each page, the start times of its versions.
    versions: Vec<Vec<Instant>>,
    /// For each page, the minimum version of responses to requests after the instant.
    floors: Vec<Vec<(Instant, usize)>>,
}

impl Truth {
    pub fn new() -> Self {
        Self { versions: vec![vec![Instant::ZERO]; PAGES.len()], floors: vec![Vec::new(); PAGES.len()] }
    }

    pub fn version(&self, page: usize) -> usize {
        self.versions[page].len() - 1
    }

    /// Returns the new version.
    pub fn change(&mut self, page: usize, now: Instant) -> usize {
        self.versions[page].push(now);
        self.version(page)
    }

    /// From now on older versions are not allowed: they were purged, or a response showed that the page has changed.
    pub fn forbid_older(&mut self, page: usize, version: usize, now: Instant) {
        self.floors[page].push((now, version));
    }

    /// The same after a purge: the oldest allowed version is that at the time of the request.
    pub fn forbid_older_than(&mut self, page: usize, purge_requested: Instant, now: Instant) {
        let version = self.versions[page].iter().rposition(|&began| began <= purge_requested).unwrap_or(0);
        self.forbid_older(page, version, now);
    }

    /// Why a response cannot have this age.
    pub fn age_fault(&self, page: usize, version: usize, age_s: u64, slack_s: u64, now: Instant) -> Option<String> {
        let oldest_s = now.since(self.versions[page][version]).as_secs();
        (age_s > oldest_s + slack_s).then(|| format!("age {age_s}, but the version began {oldest_s} s ago"))
    }

    /// Why a request sent at `requested` may not get this version, with `grace` after a change.
    pub fn fault(&self, page: usize, version: usize, requested: Instant, grace: Duration) -> Option<String> {
        let versions = &self.versions[page];
        if version >= versions.len() {
            return Some(format!("version {version} does not exist"));
        }
        if let Some((at, floor)) = self.floors[page].iter().find(|(at, floor)| *at < requested && version < *floor) {
            return Some(format!(
                "version {version}, asked for at {requested:?}, must not be below {floor} since {at:?}"
            ));
        }
        let superseded = *versions.get(version + 1)?;
        (requested > superseded + grace)
            .then(|| format!("version {version}, asked for at {requested:?}, was superseded at {superseded:?}"))
    }
}
