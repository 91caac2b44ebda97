//! Settings of the cache.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct CacheSettings {
    /// The cache's name in Cache-Status (RFC 9211): a token.
    pub name: String,
    /// Total memory: stored responses with headers and keys, fills, tables and queues.
    pub memory_bytes: u64,
    /// Longer bodies are not stored. At most a quarter of the memory.
    pub object_bytes_max: u64,
    /// Stored variants of one URL; beyond that the oldest is removed.
    pub variants_max: usize,
    /// Heuristic lifetime as a percentage of the time since the last modification (RFC 9111, 4.2.2).
    pub heuristic_percent: u32,
    /// Upper bound of the heuristic lifetime.
    pub heuristic_max: Duration,
    /// Upper bound of the remaining freshness when a response is stored. Changes do not affect stored responses.
    pub lifetime_max: Duration,
    /// Lifetimes of a minute or more are reduced at random by up to this percentage, so that responses stored together
    /// do not expire together.
    pub lifetime_spread_percent: u32,
    /// How long a stale response may be served when no upstream is available (RFC 9111, 4.2.4), unless it or the
    /// request specifies otherwise.
    pub stale_on_failure: Duration,
    /// How long requests for an uncacheable response are passed without waiting for each other.
    pub pass_for: Duration,
    /// How long a request waits for the head of another request's response before it is forwarded itself.
    pub follow_max: Duration,
    /// Buffer for followers of a body that is too long to store; slower followers are cut off.
    pub overlong_window_bytes: usize,
    /// Headers with targeted cache control, by priority (RFC 9213).
    pub targeted_fields: Vec<String>,
    /// Headers with surrogate keys, separated by white space; in addition to Cache-Groups (RFC 9875).
    pub key_fields: Vec<String>,
    /// Do not send `key_fields` to clients.
    pub hides_keys: bool,
    /// Substrings of the names of session cookies. A response that varies by such a cookie is not stored.
    pub session_cookies: Vec<String>,
    /// Cookies that do not affect responses, despite Vary: visitor cookies that are added after the cache, and those of
    /// scripts. A trailing `*` matches any suffix.
    pub ignored_cookies: Vec<String>,
    /// Honour Cache-Control of requests (RFC 9111, 5.2.1). If not, clients cannot bypass the cache.
    pub client_directives: bool,
    /// Ranges per response; for more, the complete response is sent.
    pub ranges_max: usize,
    /// Seed of the key hash and of all random choices.
    pub seed: u64,
}

impl CacheSettings {
    pub(crate) fn body_bytes_max(&self) -> u64 {
        self.object_bytes_max.min(self.memory_bytes / 4)
    }

    /// Defaults for a cache of this size.
    #[must_use]
    pub fn new(memory_bytes: u64) -> Self {
        let strings = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
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
            targeted_fields: strings(&["CDN-Cache-Control"]),
            key_fields: strings(&["Surrogate-Key", "xkey"]),
            hides_keys: false,
            session_cookies: strings(&["sess", "sid", "token", "auth", "login"]),
            ignored_cookies: Vec::new(),
            client_directives: true,
            ranges_max: 16,
            seed: 0,
        }
    }
}
