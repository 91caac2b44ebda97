//! What a user may choose, each bound with its name and its default.

use std::time::Duration;

/// The settings of a cache.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name that Cache-Status says (RFC 9211): a token.
    pub name: String,
    /// All that the cache holds: stored responses with their fields and keys, answers that are being fetched, tables
    /// and queues.
    pub memory_bytes: u64,
    /// Longer content is not stored. At most a quarter of the memory, whatever is said here.
    pub object_bytes_max: u64,
    /// Stored responses of one URL that differ by Vary; past it the oldest goes.
    pub variants_max: usize,
    /// Where a response does not say how long it is fresh: this share of the time since it was last modified (RFC 9111,
    /// 4.2.2) …
    pub heuristic_percent: u32,
    /// … but no longer than this.
    pub heuristic_max: Duration,
    /// No response is fresh for longer from when it came, whatever it says; what is stored keeps the time that it has
    /// when this changes.
    pub lifetime_max: Duration,
    /// Lifetimes of a minute and more are shortened by up to this share, at random, so that what was stored together
    /// does not end together.
    pub lifetime_spread_percent: u32,
    /// A stale response may be served for so long after its end when no upstream can be asked (RFC 9111, 4.2.4), if
    /// neither it nor the request says otherwise.
    pub stale_on_failure: Duration,
    /// What turned out not to be for everyone is passed on for so long without making others wait.
    pub pass_for: Duration,
    /// A request that waits for another's answer asks for itself when no head has come for so long.
    pub follow_max: Duration,
    /// Bytes that may be kept for followers of content that grew too long to be stored; who is further behind is cut
    /// off.
    pub overlong_window_bytes: usize,
    /// Fields that hold directives for caches like this one, the first before the others (RFC 9213).
    pub targeted_fields: Vec<String>,
    /// Fields with the keys by which stored responses may be purged, separated by white space; beside Cache-Groups (RFC
    /// 9875).
    pub key_fields: Vec<String>,
    /// Those fields are for this cache alone: no client sees them.
    pub hides_keys: bool,
    /// What stands in the name of a cookie that says who somebody is. A response that varies with such a cookie is
    /// never stored.
    pub session_cookies: Vec<String>,
    /// Cookies that responses do not depend on, whatever Vary says: that of visitors, which is added after the cache,
    /// and those of scripts. A `*` at the end stands for any end.
    pub ignored_cookies: Vec<String>,
    /// Do what clients' Cache-Control asks for (RFC 9111, 5.2.1). If not, clients cannot get past the cache.
    pub client_directives: bool,
    /// Ranges in one answer; if more are asked for, the whole is sent.
    pub ranges_max: usize,
    /// For the hash of keys and everything random.
    pub seed: u64,
}

impl Settings {
    /// Content that is longer is not stored.
    pub(crate) fn content_bytes_max(&self) -> u64 {
        self.object_bytes_max.min(self.memory_bytes / 4)
    }

    /// Defaults for a cache of this size.
    #[must_use]
    pub fn new(memory_bytes: u64) -> Self {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        Self {
            name: "breme".to_owned(),
            memory_bytes,
            object_bytes_max: (memory_bytes / 8).min(64 << 20),
            variants_max: 32,
            heuristic_percent: 10,
            heuristic_max: Duration::from_secs(24 * 3600),
            lifetime_max: Duration::from_secs(365 * 24 * 3600),
            lifetime_spread_percent: 5,
            stale_on_failure: Duration::from_secs(20 * 60),
            pass_for: Duration::from_secs(601),
            follow_max: Duration::from_secs(10),
            overlong_window_bytes: 1 << 20,
            targeted_fields: words(&["CDN-Cache-Control"]),
            key_fields: words(&["Surrogate-Key", "xkey"]),
            hides_keys: false,
            session_cookies: words(&["sess", "sid", "token", "auth", "login"]),
            ignored_cookies: Vec::new(),
            client_directives: true,
            ranges_max: 16,
            seed: 0,
        }
    }
}
