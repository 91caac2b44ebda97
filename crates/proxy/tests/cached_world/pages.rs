//! The truth: which pages there are, what their origin says of them, and which version held when.

use std::time::Duration;

use breme_base::Instant;

/// A page, and how old an answer with it may be.
pub struct Page {
    /// Its Cache-Control, and what else its answers say.
    pub says: &'static str,
    /// For so long after a change somebody may still get the version before it.
    pub grace: Duration,
    /// An answer may be given to others than who asked for it.
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
/// Contents repeat their first line, and are longer than any range that is asked for.
const REPEATS_MAX: u64 = 600;

/// Which content an answer has. Whoever has no right to it is the asker of an answer that is not shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edition {
    pub page: usize,
    pub kind: String,
    pub version: usize,
    /// Who asked for it; empty where that makes no difference.
    pub asker: String,
}

impl Edition {
    pub fn content(&self) -> Vec<u8> {
        let line = format!("{} {:?} {} {:?}\n", self.page, self.kind, self.version, self.asker);
        let mixed = line.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
        line.repeat(5 + (mixed % REPEATS_MAX) as usize).into_bytes()
    }

    /// None where each answer is another one.
    pub fn tag(&self) -> Option<String> {
        self.asker.is_empty().then(|| format!("\"{}.{}.{}\"", self.page, self.kind, self.version))
    }

    /// The edition of a tag.
    pub fn of_tag(tag: &str) -> Option<Self> {
        let mut parts = tag.trim_matches('"').split('.');
        let page = parts.next()?.parse().ok()?;
        let kind = parts.next()?.to_owned();
        Some(Self { page, kind, version: parts.next()?.parse().ok()?, asker: String::new() })
    }
}

/// What has happened at the origin so far.
pub struct Truth {
    /// For each page, when its versions began.
    versions: Vec<Vec<Instant>>,
    /// For each page, the version below which nobody may get one who asks after the instant.
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

    /// From now on nobody may get an older one: it was let go, or an answer said that it has changed.
    pub fn forbid_older(&mut self, page: usize, version: usize, now: Instant) {
        self.floors[page].push((now, version));
    }

    /// The same after a purge: what was true when that was asked for is the oldest.
    pub fn forbid_older_than(&mut self, page: usize, purge_asked: Instant, now: Instant) {
        let version = self.versions[page].iter().rposition(|&began| began <= purge_asked).unwrap_or(0);
        self.forbid_older(page, version, now);
    }

    /// Why an answer cannot be so old.
    pub fn age_fault(&self, page: usize, version: usize, age_s: u64, slack_s: u64, now: Instant) -> Option<String> {
        let oldest_s = now.since(self.versions[page][version]).as_secs();
        (age_s > oldest_s + slack_s).then(|| format!("age {age_s}, but the version began {oldest_s} s ago"))
    }

    /// Why who asked at `asked` may not have this version, with `grace` after a change.
    pub fn fault(&self, page: usize, version: usize, asked: Instant, grace: Duration) -> Option<String> {
        let versions = &self.versions[page];
        if version >= versions.len() {
            return Some(format!("version {version} does not exist"));
        }
        if let Some((at, floor)) = self.floors[page].iter().find(|(at, floor)| *at < asked && version < *floor) {
            return Some(format!("version {version}, asked for at {asked:?}, must not be below {floor} since {at:?}"));
        }
        let superseded = *versions.get(version + 1)?;
        (asked > superseded + grace)
            .then(|| format!("version {version}, asked for at {asked:?}, was superseded at {superseded:?}"))
    }
}
