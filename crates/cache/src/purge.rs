//! Purging.
//!
//! A purge is complete on return: matching responses are removed from all shards, and responses to requests sent before
//! are not stored, but still sent to their clients.

use std::sync::Arc;

use breme_base::Instant;

use crate::cache::Cache;
use crate::fill::{Fill, Shard};
use crate::groups::GroupId;
use crate::key::Key;
use crate::store::StoredResponse;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// All variants of an absolute URL.
    Url(String),
    /// All URLs with this prefix, an absolute URL.
    Prefix(String),
    /// A surrogate key, and the cache groups of this name on all origins.
    Key(String),
    /// A cache group (RFC 9875) of one origin (`https://example.org`).
    Group {
        origin: String,
        name: String,
    },
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeMode {
    /// Remove.
    Hard,
    /// Mark as stale: validated on the next use, and served where stale responses may be.
    Soft,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{url:?} is not an absolute URL; write http://host/path or https://host/path")]
pub struct PurgeError {
    pub url: String,
}

impl Cache {
    /// Purges, and returns the number of responses.
    ///
    /// # Errors
    /// If a URL is not absolute.
    pub fn purge(&self, purge: &Purge, mode: PurgeMode, now: Instant) -> Result<usize, PurgeError> {
        Ok(match purge {
            Purge::Url(url) => self.purge_key(&key(url)?, mode, now, |_| true),
            Purge::Prefix(prefix) => {
                let prefix = key(prefix)?;
                self.purge_everywhere(|key| key.starts_with(prefix.as_slice()), mode, now)
            }
            Purge::Key(name) => self.purge_groups(&[self.store.groups.key(name.as_bytes())], mode, now),
            Purge::Group { origin, name } => {
                let origin = key(origin)?;
                self.purge_groups(&[self.store.groups.at_origin(origin.as_origin(), name.as_bytes())], mode, now)
            }
            Purge::All => self.purge_everywhere(|_| true, mode, now),
        })
    }

    /// Removes the responses of a key and cancels the storing of its fills, except `own`.
    pub(crate) fn invalidate(&self, key: &Key, own: Option<&Arc<Fill>>) {
        let is_other = |fill: &Arc<Fill>| !own.is_some_and(|own| Arc::ptr_eq(own, fill));
        self.purge_key(key, PurgeMode::Hard, Instant::ZERO, is_other);
    }

    pub(crate) fn invalidate_groups(&self, origin: &[u8], names: &[Vec<u8>]) {
        let groups: Vec<GroupId> = names.iter().map(|name| self.store.groups.at_origin(origin, name)).collect();
        self.purge_groups(&groups, PurgeMode::Hard, Instant::ZERO);
    }

    fn purge_key(&self, key: &Key, mode: PurgeMode, now: Instant, is_due: impl Fn(&Arc<Fill>) -> bool) -> usize {
        let hash = self.store.hash_of(key);
        let mut shard = self.store.write(hash);
        let fills = shard.fills.get(&hash.table).into_iter().flatten();
        fills.filter(|fill| *fill.key == *key.as_slice() && is_due(fill)).for_each(|fill| fill.purge());
        match mode {
            PurgeMode::Hard => self.store.remove_from(&mut shard, hash.table, key.as_slice(), |_| true),
            PurgeMode::Soft => {
                shard.variants(hash.table, key.as_slice()).filter(|stored| make_stale(stored, now)).count()
            }
        }
    }

    fn purge_everywhere(&self, is_match: impl Fn(&[u8]) -> bool, mode: PurgeMode, now: Instant) -> usize {
        match mode {
            PurgeMode::Hard => self.store.remove_everywhere(
                |stored| is_match(stored.key()),
                |shard| purge_fills(shard, |fill| is_match(&fill.key)),
            ),
            PurgeMode::Soft => {
                let mut count = 0;
                self.store.at_each_shard(|shard| {
                    purge_fills(shard, |fill| is_match(&fill.key));
                    count += shard.iter().filter(|stored| is_match(stored.key()) && make_stale(stored, now)).count();
                });
                count
            }
        }
    }

    /// The index holds key hashes only, so each candidate is checked for membership.
    fn purge_groups(&self, groups: &[GroupId], mode: PurgeMode, now: Instant) -> usize {
        let is_member =
            |stored: &StoredResponse| self.store.groups_of(stored).iter().any(|group| groups.contains(group));
        let key_hashes = self.store.groups.purge(groups);
        let mut count = 0;
        for stored in self.store.with_hashes(&key_hashes).iter().filter(|stored| is_member(stored)) {
            let hash = self.store.hash(stored.key());
            let mut shard = self.store.write(hash);
            count += match mode {
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

/// Pass markers do not count.
fn make_stale(stored: &Arc<StoredResponse>, now: Instant) -> bool {
    stored.make_stale(now);
    !stored.is_pass()
}

fn purge_fills(shard: &mut Shard, is_match: impl Fn(&Arc<Fill>) -> bool) {
    for fills in shard.fills.values_mut() {
        fills.iter().filter(|fill| is_match(fill)).for_each(|fill| fill.purge());
    }
}
