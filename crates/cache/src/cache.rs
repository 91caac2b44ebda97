//! The cache: its settings and its store.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use breme_base::Random;
use breme_http::{FieldBlock, Method};

use crate::fields;
use crate::fill::Fills;
use crate::settings::CacheSettings;
use crate::store::Store;

/// A smaller store would hold hardly any response.
const MEMORY_BYTES_MIN: u64 = 64 * 1024;

/// A shared cache for all shards of a process.
pub struct Cache {
    pub(crate) settings: CacheSettings,
    pub(crate) store: Arc<Store<Fills>>,
    draws: AtomicU64,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Cache").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheSettingsError {
    #[error("{bytes} bytes are too few for a cache; it needs at least {min}", min = MEMORY_BYTES_MIN)]
    Memory { bytes: u64 },
    #[error("{0:?} is not a valid name for Cache-Status; use a token that begins with a letter")]
    Name(String),
}

impl Cache {
    /// # Errors
    /// If `settings` are invalid.
    pub fn new(settings: CacheSettings) -> Result<Arc<Self>, CacheSettingsError> {
        Self::check(&settings)?;
        let store = Arc::new(Store::new(&settings));
        Ok(Arc::new(Self { settings, store, draws: AtomicU64::new(0) }))
    }

    /// A cache with the same store and new settings; evicts responses that no longer fit. Fills in progress keep the
    /// old settings. The seed, [`CacheSettings::key_fields`] and the number of shards do not change.
    ///
    /// # Errors
    /// As [`Cache::new`]; nothing changes then.
    pub fn with_settings(&self, settings: CacheSettings) -> Result<Arc<Self>, CacheSettingsError> {
        let CacheSettings { key_fields, seed, .. } = &self.settings;
        let settings = CacheSettings { key_fields: key_fields.clone(), seed: *seed, ..settings };
        Self::check(&settings)?;
        self.store.bound(&settings);
        let draws = AtomicU64::new(self.draws.load(Ordering::Relaxed));
        Ok(Arc::new(Self { settings, store: Arc::clone(&self.store), draws }))
    }

    /// # Errors
    /// If the memory is too small or the name is not a token.
    pub fn check(settings: &CacheSettings) -> Result<(), CacheSettingsError> {
        let is_token = Method::from_token(settings.name.as_bytes()).is_some();
        if !is_token || !settings.name.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return Err(CacheSettingsError::Name(settings.name.clone()));
        }
        if settings.memory_bytes < MEMORY_BYTES_MIN {
            return Err(CacheSettingsError::Memory { bytes: settings.memory_bytes });
        }
        Ok(())
    }

    #[must_use]
    pub const fn settings(&self) -> &CacheSettings {
        &self.settings
    }

    /// Whether a response header is not sent to clients ([`CacheSettings::hides_keys`]).
    #[must_use]
    pub fn is_hidden_field(&self, name: &str) -> bool {
        let CacheSettings { hides_keys, key_fields, .. } = &self.settings;
        *hides_keys && key_fields.iter().any(|candidate| candidate.eq_ignore_ascii_case(name))
    }

    /// `lines` without [hidden](Self::is_hidden_field) headers.
    #[must_use]
    pub fn client_lines<'l>(&self, lines: &'l FieldBlock) -> Cow<'l, FieldBlock> {
        let is_hidden_field = |name: &[u8]| std::str::from_utf8(name).is_ok_and(|name| self.is_hidden_field(name));
        if !self.settings.hides_keys || !fields::lines(lines.as_bytes()).any(|(name, _)| is_hidden_field(name)) {
            return Cow::Borrowed(lines);
        }
        let mut visible = FieldBlock::with_capacity(lines.as_bytes().len());
        for (name, value) in fields::lines(lines.as_bytes()).filter(|(name, _)| !is_hidden_field(name)) {
            // The line was valid in its source.
            let _ = visible.push(std::str::from_utf8(name).unwrap_or_default(), value);
        }
        Cow::Owned(visible)
    }

    pub(crate) fn random(&self) -> Random {
        Random::stream(self.settings.seed, self.draws.fetch_add(1, Ordering::Relaxed))
    }
}
