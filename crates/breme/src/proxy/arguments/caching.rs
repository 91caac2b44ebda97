//! Flags about what is kept of answers.

use std::time::Duration;

use breme_cache::Settings;

use crate::load::units;

const HEADING: &str = "Cache";

#[derive(Debug, clap::Args)]
pub struct CachingFlags {
    /// Keep answers in so much memory, and answer from there (RFC 9111) [default: keep none]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = HEADING)]
    cache_memory: Option<u64>,

    /// Longer content is not kept; a quarter of the memory is the most [default: an eighth, at most 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = HEADING)]
    cache_object: Option<u64>,

    /// Longest time for which an answer counts as fresh, whatever it says [default: any]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = HEADING)]
    cache_max_lifetime: Option<Duration>,

    /// Answers of one URL that differ by Vary; past it the oldest goes
    #[arg(long, value_name = "N", default_value = "32", value_parser = units::size, help_heading = HEADING)]
    cache_variants: usize,

    /// Requests with this field go past the cache, whatever its value
    #[arg(long, value_name = "NAME", value_parser = field_name, help_heading = HEADING)]
    pub cache_bypass_header: Option<String>,

    /// Do not heed what clients' Cache-Control asks of the cache, so that they cannot get past it
    #[arg(long, help_heading = HEADING)]
    cache_ignore_clients: bool,

    /// How long a stale answer may be given when no upstream can be asked, if nobody says otherwise
    #[arg(long, value_name = "TIME", default_value = "20m", value_parser = units::duration, help_heading = HEADING)]
    cache_stale_on_failure: Duration,

    /// How long a request waits for the head of the answer that another is fetching, before it asks for itself
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration, help_heading = HEADING)]
    cache_follow: Duration,

    /// Field of answers with the keys by which they may be purged; repeatable (Cache-Groups is always heeded)
    #[arg(long, value_name = "NAME", value_parser = field_name, default_values = ["Surrogate-Key", "xkey"], help_heading = HEADING)]
    cache_key_field: Vec<String>,

    /// Do not tell clients the fields with keys
    #[arg(long, help_heading = HEADING)]
    cache_hide_keys: bool,

    /// Field of answers with directives for this cache, heeded before Cache-Control (RFC 9213); repeatable
    #[arg(long, value_name = "NAME", value_parser = field_name, default_value = "CDN-Cache-Control", help_heading = HEADING)]
    cache_control_field: Vec<String>,

    /// What stands in the names of cookies that say who somebody is: an answer that varies with such a cookie is not
    /// kept; repeatable
    #[arg(long, value_name = "WORD", default_values = ["sess", "sid", "token", "auth", "login"], help_heading = HEADING)]
    cache_session_cookie: Vec<String>,

    /// A cookie that no answer depends on, whatever Vary says: those who differ by it share what is kept; `_ga*` is all
    /// that begin with _ga; repeatable [default: that of --affinity insert]
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    pub cache_ignore_cookie: Vec<String>,

    /// Whoever connects from this network may let stored answers go by `PURGE URL`; repeatable [default: nobody; the
    /// method is passed on]
    #[arg(long, value_name = "NET", help_heading = HEADING)]
    pub purge_from: Vec<String>,
}

impl CachingFlags {
    /// The settings of the cache, if there is to be one.
    pub fn settings(&self, name: &str, seed: u64) -> Option<Settings> {
        let defaults = Settings::new(self.cache_memory.filter(|bytes| *bytes > 0)?);
        Some(Settings {
            name: name.to_owned(),
            object_bytes_max: self.cache_object.unwrap_or(defaults.object_bytes_max),
            lifetime_max: self.cache_max_lifetime.unwrap_or(defaults.lifetime_max),
            variants_max: self.cache_variants,
            stale_on_failure: self.cache_stale_on_failure,
            follow_max: self.cache_follow,
            targeted_fields: self.cache_control_field.clone(),
            key_fields: self.cache_key_field.clone(),
            hides_keys: self.cache_hide_keys,
            session_cookies: self.cache_session_cookie.clone(),
            client_directives: !self.cache_ignore_clients,
            seed,
            ..defaults
        })
    }
}

/// A field of that name would never come.
fn field_name(text: &str) -> Result<String, String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_token) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is no field's name; write one such as X-No-Cache, without a colon and without a value"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_a_name_that_can_come() {
        assert_eq!(field_name("X-No-Cache"), Ok("X-No-Cache".to_owned()));
        for wrong in ["", "X No", "X-No-Cache: 1", "X-No-Cache:", "naïve", "a\r\nb"] {
            assert!(field_name(wrong).unwrap_err().contains("is no field's name"), "{wrong}");
        }
    }
}
