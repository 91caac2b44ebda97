//! Flags of the cache.

use std::time::Duration;

use breme_cache::CacheSettings;
use breme_command::units;
use breme_http::syntax::is_token;

const HEADING: &str = "Cache";

#[derive(Debug, clap::Args)]
pub struct CachingFlags {
    /// Memory for the cache (RFC 9111), in bytes [default: no cache]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = HEADING)]
    cache_memory: Option<u64>,

    /// Largest body that is cached, in bytes; at most a quarter of --cache-memory [default: an eighth of it, at most
    /// 64MiB]
    #[arg(long, hide_short_help = true, value_name = "SIZE", value_parser = units::bytes, help_heading = HEADING)]
    cache_object: Option<u64>,

    /// Upper limit of the freshness lifetime of every response [default: none]
    #[arg(long, hide_short_help = true, value_name = "TIME", value_parser = units::duration, help_heading = HEADING)]
    cache_max_lifetime: Option<Duration>,

    /// Variants (Vary) stored per URL; the oldest is evicted for a new one
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "32", value_parser = units::size, help_heading = HEADING)]
    cache_variants: usize,

    /// Requests with this header, whatever its value, bypass the cache
    #[arg(long, hide_short_help = true, value_name = "NAME", value_parser = header_name, help_heading = HEADING)]
    pub cache_bypass_header: Option<String>,

    /// Ignore Cache-Control in requests, so that clients cannot bypass the cache
    #[arg(long, hide_short_help = true, help_heading = HEADING)]
    cache_ignore_clients: bool,

    /// Time for which a stale response may be served when no upstream can be reached, unless its Cache-Control says
    /// otherwise
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "20m", value_parser = units::duration, help_heading = HEADING)]
    cache_stale_on_failure: Duration,

    /// How long a request waits for the response head of an identical request in progress before it is forwarded itself
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "10s", value_parser = units::duration, help_heading = HEADING)]
    cache_lock_timeout: Duration,

    /// Response header with the keys by which a response can be purged; repeatable (Cache-Groups always counts)
    #[arg(long, hide_short_help = true, value_name = "NAME", value_parser = header_name, default_values = ["Surrogate-Key", "xkey"], help_heading = HEADING)]
    cache_key_header: Vec<String>,

    /// Do not send the --cache-key-header headers to clients
    #[arg(long, hide_short_help = true, help_heading = HEADING)]
    cache_hide_keys: bool,

    /// Response header with directives for this cache, which override Cache-Control (RFC 9213); repeatable
    #[arg(long, hide_short_help = true, value_name = "NAME", value_parser = header_name, default_value = "CDN-Cache-Control", help_heading = HEADING)]
    cache_control_header: Vec<String>,

    /// Substring of the names of session cookies; responses that vary by such a cookie are not cached; repeatable
    #[arg(long, hide_short_help = true, value_name = "WORD", default_values = ["sess", "sid", "token", "auth", "login"], help_heading = HEADING)]
    cache_session_cookie: Vec<String>,

    /// Cookie that is ignored when a response varies by Cookie; a trailing * matches any ending, as in _ga*;
    /// repeatable [default: the cookie of --affinity insert]
    #[arg(long, hide_short_help = true, value_name = "NAME", help_heading = HEADING)]
    pub cache_ignore_cookie: Vec<String>,

    /// Network (10.0.0.0/8) whose clients may purge cached responses by `PURGE URL`, or unix: for clients of Unix
    /// sockets; repeatable [default: none, PURGE is forwarded]
    #[arg(long, value_name = "NET", help_heading = HEADING)]
    pub purge_from: Vec<String>,
}

impl CachingFlags {
    /// The settings of the cache, if enabled.
    pub fn settings(&self, name: &str, seed: u64) -> Option<CacheSettings> {
        let defaults = CacheSettings::new(self.cache_memory.filter(|bytes| *bytes > 0)?);
        Some(CacheSettings {
            name: name.to_owned(),
            object_bytes_max: self.cache_object.unwrap_or(defaults.object_bytes_max),
            lifetime_max: self.cache_max_lifetime.unwrap_or(defaults.lifetime_max),
            variants_max: self.cache_variants,
            stale_on_failure: self.cache_stale_on_failure,
            follow_max: self.cache_lock_timeout,
            targeted_fields: self.cache_control_header.clone(),
            key_fields: self.cache_key_header.clone(),
            hides_keys: self.cache_hide_keys,
            session_cookies: self.cache_session_cookie.clone(),
            client_directives: !self.cache_ignore_clients,
            seed,
            ..defaults
        })
    }
}

/// Rejects names that no header can have.
fn header_name(text: &str) -> Result<String, String> {
    if is_token(text.as_bytes()) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is not a header name; write one such as X-No-Cache, without a colon and a value"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_name_is_a_token() {
        assert_eq!(header_name("X-No-Cache"), Ok("X-No-Cache".to_owned()));
        for wrong in ["", "X No", "X-No-Cache: 1", "X-No-Cache:", "naïve", "a\r\nb"] {
            assert!(header_name(wrong).unwrap_err().contains("is not a header name"), "{wrong}");
        }
    }
}
