//! Responses that go before their time, by somebody's word.
//!
//! A purge is done when the call returns: what it meant is gone from every shard, and an answer that was asked for
//! before it will not be stored. Those who asked before may still get it.

use std::sync::Arc;

use breme_base::Instant;

use crate::cache::Cache;
use crate::fill::{Fill, Shard};
use crate::groups::GroupId;
use crate::key::Key;
use crate::store::StoredResponse;

/// What goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// All responses of an absolute URL.
    Url(String),
    /// All URLs that begin with an absolute URL, compared as text behind the authority.
    Prefix(String),
    /// Everything with this surrogate key, and the cache groups of this name on all origins.
    Key(String),
    /// The cache group of this name at one origin (`https://example.org`; RFC 9875).
    Group {
        /// Scheme and authority.
        origin: String,
        /// The group's name.
        name: String,
    },
    /// Everything.
    All,
}

/// How it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeMode {
    /// It is gone.
    Hard,
    /// It is stale from now on: validated, and served where stale responses may be.
    Soft,
}

/// A purge that cannot be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeError {
    /// What was given for a URL.
    pub url: String,
}

impl std::fmt::Display for PurgeError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?} is not an absolute URL; write http://host/path or https://host/path", self.url)
    }
}

impl std::error::Error for PurgeError {}

impl Cache {
    /// Purges, and tells how many responses that were.
    ///
    /// # Errors
    /// If a URL is none.
    pub fn purge(&self, purge: &Purge, manner: PurgeMode, now: Instant) -> Result<usize, PurgeError> {
        Ok(match purge {
            Purge::Url(url) => self.purge_key(&key(url)?, manner, now, |_| true),
            Purge::Prefix(prefix) => {
                let prefix = key(prefix)?;
                self.purge_everywhere(|key| key.starts_with(prefix.as_slice()), manner, now)
            }
            Purge::Key(name) => self.purge_groups(&[self.store.groups.key(name.as_bytes())], manner, now),
            Purge::Group { origin, name } => {
                let origin = key(origin)?;
                self.purge_groups(&[self.store.groups.at_origin(origin.as_origin(), name.as_bytes())], manner, now)
            }
            Purge::All => self.purge_everywhere(|_| true, manner, now),
        })
    }

    /// What is stored for this is no longer right, nor what is being fetched for it, but for the fill that knows
    /// better.
    pub(crate) fn invalidate(&self, key: &Key, own: Option<&Arc<Fill>>) {
        let is_other = |fill: &Arc<Fill>| !own.is_some_and(|own| Arc::ptr_eq(own, fill));
        self.purge_key(key, PurgeMode::Hard, Instant::ZERO, is_other);
    }

    pub(crate) fn invalidate_groups(&self, origin: &[u8], names: &[Vec<u8>]) {
        let groups: Vec<GroupId> = names.iter().map(|name| self.store.groups.at_origin(origin, name)).collect();
        self.purge_groups(&groups, PurgeMode::Hard, Instant::ZERO);
    }

    fn purge_key(&self, key: &Key, manner: PurgeMode, now: Instant, is_due: impl Fn(&Arc<Fill>) -> bool) -> usize {
        let hash = self.store.hash_of(key);
        let mut shard = self.store.write(hash);
        let fills = shard.fills.get(&hash.table).into_iter().flatten();
        fills.filter(|fill| *fill.key == *key.as_slice() && is_due(fill)).for_each(|fill| fill.purge());
        match manner {
            PurgeMode::Hard => self.store.remove_from(&mut shard, hash.table, key.as_slice(), |_| true),
            PurgeMode::Soft => {
                shard.variants(hash.table, key.as_slice()).filter(|stored| make_stale(stored, now)).count()
            }
        }
    }

    fn purge_everywhere(&self, is_meant: impl Fn(&[u8]) -> bool, manner: PurgeMode, now: Instant) -> usize {
        match manner {
            PurgeMode::Hard => self.store.remove_everywhere(
                |stored| is_meant(stored.key()),
                |shard| purge_fills(shard, |fill| is_meant(&fill.key)),
            ),
            PurgeMode::Soft => {
                let mut count = 0;
                self.store.at_each_shard(|shard| {
                    purge_fills(shard, |fill| is_meant(&fill.key));
                    count += shard.iter().filter(|stored| is_meant(stored.key()) && make_stale(stored, now)).count();
                });
                count
            }
        }
    }

    /// The groups' members are named by the hashes of their keys; whether one of these still belongs to them is looked
    /// at again.
    fn purge_groups(&self, groups: &[GroupId], manner: PurgeMode, now: Instant) -> usize {
        let is_member =
            |stored: &StoredResponse| self.store.groups_of(stored).iter().any(|group| groups.contains(group));
        let key_hashes = self.store.groups.purge(groups);
        let mut count = 0;
        for stored in self.store.with_hashes(&key_hashes).iter().filter(|stored| is_member(stored)) {
            let hash = self.store.hash(stored.key());
            let mut shard = self.store.write(hash);
            count += match manner {
                PurgeMode::Hard => self.store.remove_from(&mut shard, hash.table, stored.key(), |other| {
                    std::ptr::eq(other, &raw const **stored)
                }),
                PurgeMode::Soft => usize::from(!stored.is_removed() && make_stale(stored, now)),
            };
        }
        count
    }
}

fn key(url: &str) -> Result<Key, PurgeError> {
    Key::from_url(url).ok_or_else(|| PurgeError { url: url.to_owned() })
}

/// Passing on is a matter of the fetching; there is nothing to make stale.
fn make_stale(stored: &Arc<StoredResponse>, now: Instant) -> bool {
    stored.make_stale(now);
    !stored.is_pass()
}

fn purge_fills(shard: &mut Shard, is_meant: impl Fn(&Arc<Fill>) -> bool) {
    for fills in shard.fills.values_mut() {
        fills.iter().filter(|fill| is_meant(fill)).for_each(|fill| fill.purge());
    }
}
