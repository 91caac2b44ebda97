//! A site for its program: validated settings, and what all shards share.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use breme_base::WallClock;
use breme_http::{FieldBlock, syntax};

use crate::counters::{Counters, SiteCounts};
use crate::file_cache::FileCache;
use crate::root::Root;
use crate::send::SharedLines;
use crate::settings::Settings;
use crate::visitors::Visitors;

/// A site: settings, files, visitors and counters, for any number of shards.
#[derive(Clone, Debug)]
pub struct Site {
    pub(crate) state: Arc<SiteState>,
}

/// What all shards share.
#[derive(Debug)]
pub(crate) struct SiteState {
    pub(crate) settings: Settings,
    /// None: lab responses only.
    pub(crate) files: Option<FileCache>,
    pub(crate) visitors: Option<Visitors>,
    pub(crate) counters: Counters,
    pub(crate) lines: SharedLines,
    pub(crate) clock: WallClock,
    /// Content held for echoes, in bytes.
    pub(crate) held_bytes: Arc<AtomicUsize>,
}

/// Invalid settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// RFC 9111, 5.2.
    #[error("`{0}` is not a Cache-Control value; write directives such as `public, max-age=3600`")]
    CacheControl(String),
    #[error("`{0}` is not the name of an index file; write a name such as `index.html`, without a slash")]
    IndexName(String),
}

impl Site {
    /// A site over `root` (None: lab responses only) with an optional table of visitors.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn new(
        settings: Settings,
        root: Option<Arc<dyn Root>>,
        visitors: Option<Visitors>,
        clock: WallClock,
    ) -> Result<Self, SettingsError> {
        for name in &settings.index_names {
            if name.is_empty() || name.contains('/') || name == "." || name == ".." {
                return Err(SettingsError::IndexName(name.clone()));
            }
        }
        let lines = SharedLines::new(cache_control(settings.cache_control.as_deref())?);
        let files = root.map(|root| FileCache::new(root, &settings));
        let counters = Counters::default();
        let held_bytes = Arc::default();
        Ok(Self { state: Arc::new(SiteState { settings, files, visitors, counters, lines, clock, held_bytes }) })
    }

    /// Responses of all shards.
    #[must_use]
    pub fn responses_total(&self) -> u64 {
        self.state.counters.responses_total()
    }

    /// The counters of all shards; locks each visitor table briefly.
    #[must_use]
    pub fn counts(&self) -> SiteCounts {
        let SiteState { counters, files, visitors, .. } = &*self.state;
        SiteCounts {
            files: files.as_ref().map(|cache| counters.file_counts(cache.kept())),
            visitors: visitors.as_ref().map(Visitors::totals),
            ..counters.counts()
        }
    }
}

fn cache_control(value: Option<&str>) -> Result<FieldBlock, SettingsError> {
    let mut lines = FieldBlock::new();
    if let Some(value) = value {
        let is_list = value.split(',').all(|directive| is_directive(directive.trim()));
        if !is_list || lines.push("Cache-Control", value.trim().as_bytes()).is_err() {
            return Err(SettingsError::CacheControl(value.to_owned()));
        }
    }
    Ok(lines)
}

/// `name`, `name=token` or `name="text"`.
fn is_directive(directive: &str) -> bool {
    let is_token = |text: &str| syntax::is_token(text.as_bytes());
    let is_quoted = |text: &str| {
        text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).is_some_and(|text| !text.contains(['"', '\\']))
    };
    match directive.split_once('=') {
        None => is_token(directive),
        Some((name, argument)) => is_token(name) && (is_token(argument) || is_quoted(argument)),
    }
}

#[cfg(test)]
mod tests {
    use breme_base::UnixSeconds;

    use super::*;

    fn site(settings: Settings) -> Result<Site, SettingsError> {
        Site::new(settings, None, None, WallClock::starting_at(UnixSeconds(0)))
    }

    #[test]
    fn validates_cache_control() {
        for value in ["no-store", "public, max-age=60", "private=\"x-user\", max-age=0", " immutable "] {
            assert!(cache_control(Some(value)).is_ok(), "{value}");
        }
        for value in ["", "public,", "max age", "a=b=c", "no-cache=\"a", "x\r\nSet-Cookie: y", "café"] {
            let settings = Settings { cache_control: Some(value.to_owned()), ..Settings::default() };
            assert_eq!(site(settings).unwrap_err(), SettingsError::CacheControl(value.to_owned()));
        }
    }

    #[test]
    fn validates_index_names() {
        for name in ["", "..", "a/b"] {
            let settings = Settings { index_names: vec![name.to_owned()], ..Settings::default() };
            assert_eq!(site(settings).unwrap_err(), SettingsError::IndexName(name.to_owned()));
        }
    }
}
