//! The cache itself: what is to be done with a request.

mod deciding;
mod statistics;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use breme_base::{Instant, Random};
use breme_http1::{Fields, Method};

use deciding::{Use, find};
pub use statistics::{HotObject, Statistics};

use crate::asking::{Asked, FieldValues, Kept, Moment, Request, Waiter};
use crate::directives::RequestDirectives;
use crate::key::{Key, KeyHash};
use crate::selecting::Cookies;
use crate::status::{CacheStatus, Forwarded};
use crate::store::Store;
use crate::storing::RequestTraits;
use crate::validation::is_conditional;
use crate::{Answer, Forward, Settings};

/// The least memory that a cache can do anything with.
const MEMORY_BYTES_MIN: u64 = 64 * 1024;

/// A shared cache for all shards of a process.
pub struct Cache {
    settings: Settings,
    pub(crate) store: Arc<Store>,
    draws: AtomicU64,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Cache").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}

/// Settings with which no cache can work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// Too little memory.
    Memory {
        /// What was given.
        bytes: u64,
    },
    /// The name for Cache-Status is not a token.
    Name(String),
}

impl std::fmt::Display for SettingsError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory { bytes } => {
                write!(formatter, "a cache of {bytes} bytes can hold nothing; give it {MEMORY_BYTES_MIN} or more")
            }
            Self::Name(name) => write!(
                formatter,
                "{name:?} cannot name a cache in Cache-Status: it must begin with a letter and be a token"
            ),
        }
    }
}

impl std::error::Error for SettingsError {}

/// A request, kept for as long as its answer is not there.
#[derive(Clone, Debug)]
pub(crate) struct AskedFor {
    pub(crate) key: Key,
    pub(crate) hash: KeyHash,
    pub(crate) kept: Kept,
    pub(crate) is_head: bool,
    pub(crate) directives: RequestDirectives,
    pub(crate) traits: RequestTraits,
    pub(crate) at: Instant,
    is_conditional: bool,
    has_range: bool,
    /// It has conditions that only the origin can judge.
    is_for_origin: bool,
}

impl AskedFor {
    /// Whether it gets the whole response, whatever the client has.
    pub(crate) const fn is_plain(&self) -> bool {
        !self.is_head && !self.is_conditional && !self.has_range
    }
}

impl Cache {
    /// An empty cache.
    ///
    /// # Errors
    /// If it could hold nothing, or cannot say its name.
    pub fn new(settings: Settings) -> Result<Arc<Self>, SettingsError> {
        Self::check(&settings)?;
        let store = Arc::new(Store::new(&settings));
        Ok(Arc::new(Self { settings, store, draws: AtomicU64::new(0) }))
    }

    /// The same cache with other settings: what is stored stays, as far as there is room for it. What is under way goes on as it began. The seed and the
    /// [fields with keys](Settings::key_fields) stay what they were, and so does the number of parts that the memory was cut into.
    ///
    /// # Errors
    /// As [`Cache::new`]; nothing changes then.
    pub fn with_settings(&self, settings: Settings) -> Result<Arc<Self>, SettingsError> {
        let Settings { key_fields, seed, .. } = &self.settings;
        let settings = Settings { key_fields: key_fields.clone(), seed: *seed, ..settings };
        Self::check(&settings)?;
        self.store.bound(&settings);
        let draws = AtomicU64::new(self.draws.load(Ordering::Relaxed));
        Ok(Arc::new(Self { settings, store: Arc::clone(&self.store), draws }))
    }

    /// Whether a cache can work with these settings.
    ///
    /// # Errors
    /// If it cannot.
    pub fn check(settings: &Settings) -> Result<(), SettingsError> {
        let is_token = Method::from_token(settings.name.as_bytes()).is_some();
        if !is_token || !settings.name.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return Err(SettingsError::Name(settings.name.clone()));
        }
        if settings.memory_bytes < MEMORY_BYTES_MIN {
            return Err(SettingsError::Memory { bytes: settings.memory_bytes });
        }
        Ok(())
    }

    /// What was chosen.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What is to be done with a request. If it has to wait, `waiter` is woken.
    #[must_use]
    pub fn ask(self: &Arc<Self>, request: &Request<'_, '_>, moment: Moment, waiter: Waiter) -> Asked {
        let Request { method, has_content, .. } = *request;
        let is_head = method == Method::Head;
        match method {
            Method::Get | Method::Head if !has_content && !overrides(request.fields) => {
                self.ask_stored(request, is_head, moment, waiter)
            }
            // What its content means nobody knows (RFC 9110, 9.3.1), and it is in no key.
            Method::Get | Method::Head => Asked::Forward(Forward::pass(Forwarded::Bypass)),
            Method::Options | Method::Trace | Method::Connect => Asked::Forward(Forward::pass(Forwarded::Method)),
            _ => Asked::Forward(Forward::unsafe_method(self, Self::key(request), Forwarded::Method)),
        }
    }

    /// A request that shall have nothing to do with the cache. Only methods that change something still make stored responses invalid.
    #[must_use]
    pub fn bypass(self: &Arc<Self>, request: &Request<'_, '_>) -> Forward {
        match request.method {
            Method::Get | Method::Head | Method::Options | Method::Trace | Method::Connect => {
                Forward::pass(Forwarded::Bypass)
            }
            _ => Forward::unsafe_method(self, Self::key(request), Forwarded::Bypass),
        }
    }

    fn key(request: &Request<'_, '_>) -> Key {
        Key::new(request.scheme, request.authority, request.path, request.query)
    }

    /// The way of almost all requests: one hash, one lock to read, no allocation.
    fn ask_stored(self: &Arc<Self>, request: &Request<'_, '_>, is_head: bool, moment: Moment, waiter: Waiter) -> Asked {
        let key = Self::key(request);
        let hash = self.store.hash_of(&key);
        let directives = self.directives(&request.fields);
        let found = find(&self.store.read(hash), hash, key.as_slice(), &request.fields, Cookies::new(&self.settings));
        if let Some((stored, state)) = found
            && let Use::Fresh = self.assess(&stored, &request.fields, directives, moment.now)
        {
            stored.count_hits(1);
            let look = crate::answer::Look { is_head, moment, ranges_max: self.settings.ranges_max };
            let answer = Answer::of(&stored, &request.fields, look, CacheStatus::hit(stored.ttl_s(moment.now)));
            let is_lasting = !directives.restricts() && !is_head;
            return Asked::Answer(if is_lasting { answer.with_standing(&stored, state) } else { answer });
        }
        let asked = self.keep(key, hash, request.fields, is_head, directives, moment.now);
        self.decide(Box::new(asked), moment, Some((waiter, moment.now + self.settings.follow_max)))
    }

    fn directives(&self, fields: &impl FieldValues) -> RequestDirectives {
        if self.settings.client_directives { RequestDirectives::read(fields) } else { RequestDirectives::default() }
    }

    fn keep(
        &self,
        key: Key,
        hash: KeyHash,
        fields: Fields<'_, '_>,
        is_head: bool,
        directives: RequestDirectives,
        now: Instant,
    ) -> AskedFor {
        AskedFor {
            key,
            hash,
            kept: Kept::new(fields),
            is_head,
            directives,
            traits: RequestTraits::of(&fields, directives.no_store, &self.settings),
            at: now,
            is_conditional: is_conditional(&fields),
            has_range: fields.has("range"),
            is_for_origin: fields.has("if-match") || fields.has("if-unmodified-since"),
        }
    }

    pub(crate) fn random(&self) -> Random {
        Random::stream(self.settings.seed, self.draws.fetch_add(1, Ordering::Relaxed))
    }
}

/// Fields by which some servers take a request for another one than it is: what they answer must not be stored under the target, and they are in
/// no key ("Practical Web Cache Poisoning", Kettle, 2018).
const OVERRIDES: [&str; 5] =
    ["X-Original-URL", "X-Rewrite-URL", "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"];

fn overrides(fields: Fields<'_, '_>) -> bool {
    let mut names = fields.iter().map(|field| field.name).filter(|name| name.starts_with(['x', 'X']));
    names.any(|name| OVERRIDES.iter().any(|known| name.eq_ignore_ascii_case(known)))
}
