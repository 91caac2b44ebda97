//! The cache itself: what is to be done with a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use breme_base::{Instant, Random};
use breme_http1::{FieldBlock, Fields, Method};

use crate::asking::{Asked, FieldValues, Kept, Moment, Request, Waiter};
use crate::directives::RequestDirectives;
use crate::filling::{FILL_BYTES, FillState, Follower, look};
use crate::forward::Role;
use crate::key::{Key, KeyHash};
use crate::selecting::{Cookies, matches, same_names};
use crate::status::{CacheStatus, Forwarded};
use crate::storing::RequestTraits;
use crate::store::{Shard, Store, Stored};
use crate::validation::{conditions, is_conditional};
use crate::{Answer, Forward, Settings};

/// The least memory that a cache can do anything with.
const MEMORY_BYTES_MIN: u64 = 64 * 1024;

/// A shared cache for all shards of a process.
pub struct Cache {
    settings: Settings,
    pub(crate) store: Store,
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
            Self::Memory { bytes } => write!(formatter, "a cache of {bytes} bytes can hold nothing; give it {MEMORY_BYTES_MIN} or more"),
            Self::Name(name) => write!(formatter, "{name:?} cannot name a cache in Cache-Status: it must begin with a letter and be a token"),
        }
    }
}

impl std::error::Error for SettingsError {}

/// What the cache holds and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Stored responses.
    pub objects: u64,
    /// All memory in use.
    pub bytes: u64,
    /// All memory that may be used.
    pub bytes_max: u64,
    /// Responses stored so far.
    pub inserted: u64,
    /// Responses that went because others needed their memory.
    pub evicted: u64,
    /// Responses that were purged or made invalid.
    pub purged: u64,
    /// Answers that are being fetched.
    pub fills: u64,
}

/// A stored response that is asked for often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotObject {
    /// What it is the answer to.
    pub url: String,
    /// How often it answered.
    pub hits: u32,
    /// Its status.
    pub status: u16,
    /// The memory that it takes.
    pub bytes: u64,
    /// Its age.
    pub age_s: u64,
    /// For how long it is still fresh; negative: since when it is stale.
    pub ttl_s: i64,
}

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

/// What a stored response is good for.
enum Use {
    /// The answer.
    Fresh,
    /// The answer, although it is stale: the client said so.
    Stale,
    /// The answer, while a fresh one is fetched.
    StaleForNow,
    /// Ask upstream whether it is still right.
    Validate(Forwarded),
    /// Ask upstream as if it were not there.
    Ignore(Forwarded),
    /// Others' answers are of no use here, and waiting for them neither.
    Pass,
}

impl Cache {
    /// An empty cache.
    ///
    /// # Errors
    /// If it could hold nothing, or cannot say its name.
    pub fn new(settings: Settings) -> Result<Arc<Self>, SettingsError> {
        let is_token = Method::from_token(settings.name.as_bytes()).is_some();
        if !is_token || !settings.name.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return Err(SettingsError::Name(settings.name));
        }
        if settings.memory_bytes < MEMORY_BYTES_MIN {
            return Err(SettingsError::Memory { bytes: settings.memory_bytes });
        }
        let store = Store::new(&settings);
        Ok(Arc::new(Self { settings, store, draws: AtomicU64::new(0) }))
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
            Method::Get | Method::Head if !has_content => self.ask_stored(request, is_head, moment, waiter),
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
            Method::Get | Method::Head | Method::Options | Method::Trace | Method::Connect => Forward::pass(Forwarded::Bypass),
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

    fn keep(&self, key: Key, hash: KeyHash, fields: Fields<'_, '_>, is_head: bool, directives: RequestDirectives, now: Instant) -> AskedFor {
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

    /// What is to be done with a request that could not be answered at once, or with one that waited in vain. Without a waiter, it follows nobody.
    pub(crate) fn decide(self: &Arc<Self>, mut asked: Box<AskedFor>, moment: Moment, waiter: Option<(Waiter, Instant)>) -> Asked {
        asked.at = moment.now;
        let cookies = Cookies::new(&self.settings);
        let charge = self.store.reserve(FILL_BYTES);
        let mut shard = self.store.write(asked.hash);
        let stored = find(&shard, asked.hash, asked.key.as_slice(), &asked.kept, cookies);
        let newest = shard.variants(asked.hash.place, asked.key.as_slice()).next().cloned();
        let (use_, stored) = match stored {
            Some((stored, _)) => (self.assess(&stored, &asked.kept, asked.directives, moment.now), Some(stored)),
            None => (Use::Ignore(if newest.is_some() { Forwarded::VaryMiss } else { Forwarded::UriMiss }), None),
        };
        let stale = stored.filter(|stored| !stored.is_pass());
        if let (Use::Fresh | Use::Stale | Use::StaleForNow, Some(stored)) = (&use_, &stale) {
            let is_refreshed = matches!(use_, Use::StaleForNow) && !asked.is_head && !is_filling(&shard, &asked);
            let refresh = if is_refreshed { self.lead(&mut shard, asked.clone(), stale.clone(), newest, &use_, charge) } else { None };
            drop(shard);
            return Asked::Answer(self.answer(stored, &asked, moment, refresh));
        }
        if asked.directives.only_if_cached {
            return Asked::Answer(Answer::not_cached(CacheStatus { detail: Some("only-if-cached"), ..CacheStatus::default() }));
        }
        if let Some((waiter, deadline)) = waiter
            && let Some(follower) = self.follow(&shard, &asked, &use_, waiter, deadline)
        {
            return Asked::Wait(follower);
        }
        match self.lead(&mut shard, asked, stale, newest, &use_, charge) {
            Some(forward) => Asked::Forward(forward),
            None => Asked::Forward(Forward::pass(use_.why())),
        }
    }

    fn answer(&self, stored: &Arc<Stored>, asked: &AskedFor, moment: Moment, refresh: Option<Forward>) -> Answer {
        stored.count_hits(1);
        let report = CacheStatus::hit(stored.ttl_s(moment.now));
        Answer::of(stored, &asked.kept, look(asked, moment, &self.settings), report).with_refresh(refresh)
    }

    /// RFC 9111, 4: may it be used, and how.
    fn assess(&self, stored: &Stored, request: &impl FieldValues, directives: RequestDirectives, now: Instant) -> Use {
        if stored.is_pass() {
            return if stored.is_fresh(now) { Use::Pass } else { Use::Ignore(Forwarded::UriMiss) };
        }
        if directives.no_store || (request.has("authorization") && !stored.allows_authorization()) {
            return Use::Ignore(Forwarded::Request);
        }
        if request.has("if-match") || request.has("if-unmodified-since") {
            return Use::Ignore(Forwarded::Request);
        }
        let (age_s, ttl_s) = (stored.age_s(now), stored.ttl_s(now));
        let is_too_old = directives.max_age_s.is_some_and(|max| age_s > u64::from(max) || max == 0);
        let is_too_stale = directives.min_fresh_s.is_some_and(|min| ttl_s < i64::from(min));
        if directives.no_cache || is_too_old || is_too_stale {
            return Use::Validate(Forwarded::Request);
        }
        if stored.is_fresh(now) {
            return Use::Fresh;
        }
        let may_be_stale_for = |seconds: u32| -ttl_s <= i64::from(seconds);
        if directives.max_stale_s.is_some_and(may_be_stale_for) && !stored.forbids_stale() {
            return Use::Stale;
        }
        if !directives.restricts() && stored.stale_while_revalidate_s() > 0 && may_be_stale_for(stored.stale_while_revalidate_s()) {
            return Use::StaleForNow;
        }
        Use::Validate(Forwarded::Stale)
    }

    /// Sits down with another request that is being answered, if there is one whose answer may be for this one too.
    fn follow(self: &Arc<Self>, shard: &Shard, asked: &AskedFor, use_: &Use, waiter: Waiter, deadline: Instant) -> Option<Follower> {
        let may_follow = !asked.directives.restricts() && !asked.traits.has_authorization && !asked.is_for_origin;
        // A part of something long is not worth waiting for the whole.
        let is_waiting_of_use = !asked.has_range || matches!(use_, Use::Validate(_));
        if !may_follow || !is_waiting_of_use || matches!(use_, Use::Pass) {
            return None;
        }
        let cookies = Cookies::new(&self.settings);
        let fills = shard.fills.get(&asked.hash.place)?;
        fills.iter().filter(|fill| *fill.key == *asked.key.as_slice()).find_map(|fill| {
            let seat = fill.join(&asked.kept, cookies, &self.store.groups, waiter)?;
            let report = CacheStatus::forwarded(use_.why());
            Some(Follower::new(self, fill, seat, Box::new(asked.clone()), report, deadline))
        })
    }

    /// Asks upstream. None if there is no memory to note it.
    fn lead(
        self: &Arc<Self>,
        shard: &mut Shard,
        asked: Box<AskedFor>,
        stale: Option<Arc<Stored>>,
        newest: Option<Arc<Stored>>,
        use_: &Use,
        charge: Option<crate::store::Charge>,
    ) -> Option<Forward> {
        let may_use = matches!(use_, Use::Validate(_) | Use::StaleForNow);
        let stale = stale.filter(|_| may_use);
        let is_refresh = matches!(use_, Use::StaleForNow);
        let conditions = stale.as_ref().and_then(|stored| conditions(stored.block())).or(is_refresh.then(FieldBlock::new));
        let report = CacheStatus::forwarded(use_.why());
        if asked.is_head {
            return Some(Forward::new(self, Role::Head, asked, None, stale, None, report));
        }
        let is_whole = conditions.is_some() || asked.is_plain();
        let is_open = is_whole && !matches!(use_, Use::Pass) && !asked.traits.has_authorization && !asked.traits.no_store && !asked.is_for_origin;
        let expected = newest.map(|newest| same_names(newest.variant(), &asked.kept, Cookies::new(&self.settings)));
        let expected = expected.as_ref().map_or(&b""[..], |expected| expected.as_slice());
        let fill = FillState::new(asked.key.as_slice(), expected, self.store.groups.purges(), is_open, charge?);
        shard.fills.entry(asked.hash.place).or_default().push(Arc::clone(&fill));
        Some(Forward::new(self, Role::Get, asked, conditions, stale, Some(fill), report))
    }

    pub(crate) fn random(&self) -> Random {
        Random::stream(self.settings.seed, self.draws.fetch_add(1, Ordering::Relaxed))
    }

    /// What the cache holds and has done.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.store.counts;
        let fills = self.store.each().map(|shard| shard.fills.values().map(Vec::len).sum::<usize>()).sum::<usize>();
        Statistics {
            objects: self.store.len() as u64,
            bytes: self.store.budget.used(),
            bytes_max: self.store.budget.max(),
            inserted: count(&counts.inserted),
            evicted: count(&counts.evicted),
            purged: count(&counts.removed),
            fills: fills as u64,
        }
    }

    /// The stored responses that have answered most often.
    #[must_use]
    pub fn hottest(&self, count: usize, now: Instant) -> Vec<HotObject> {
        let mut hot: Vec<(u32, Arc<Stored>)> = Vec::new();
        for shard in self.store.each() {
            hot.extend(shard.iter().filter(|stored| !stored.is_pass()).map(|stored| (stored.hits(), Arc::clone(stored))));
            hot.sort_by_key(|(hits, _)| std::cmp::Reverse(*hits));
            hot.truncate(count);
        }
        hot.into_iter().map(|(hits, stored)| HotObject::of(&stored, hits, now)).collect()
    }
}

impl HotObject {
    fn of(stored: &Stored, hits: u32, now: Instant) -> Self {
        Self {
            url: String::from_utf8_lossy(stored.key()).into_owned(),
            hits,
            status: stored.status(),
            bytes: stored.cost_bytes(),
            age_s: stored.age_s(now),
            ttl_s: stored.ttl_s(now),
        }
    }
}

impl Use {
    fn why(&self) -> Forwarded {
        match self {
            Self::Validate(why) | Self::Ignore(why) => *why,
            Self::Pass => Forwarded::UriMiss,
            Self::Fresh | Self::Stale | Self::StaleForNow => Forwarded::Stale,
        }
    }
}

/// The newest response that a request may get, with the state in which it was found.
fn find(shard: &Shard, hash: KeyHash, key: &[u8], request: &impl FieldValues, cookies: Cookies<'_>) -> Option<(Arc<Stored>, u32)> {
    let stored = shard.variants(hash.place, key).find(|stored| matches(stored.variant(), request, cookies))?;
    // Read while the shard is locked, so that what comes later is seen.
    Some((Arc::clone(stored), stored.state()))
}

/// Whether an answer for this key is being fetched that others may use.
fn is_filling(shard: &Shard, asked: &AskedFor) -> bool {
    let fills = shard.fills.get(&asked.hash.place);
    fills.is_some_and(|fills| fills.iter().any(|fill| *fill.key == *asked.key.as_slice() && fill.is_open()))
}
