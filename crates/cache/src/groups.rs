//! Groups of responses: Cache-Groups (RFC 9875) and surrogate keys. A purge of a group finds its members through an
//! index.
//!
//! An RFC 9875 group belongs to one origin. A surrogate key spans the cache; purging it through the admin API also
//! purges the groups of that name on all origins. The index holds hashes only, so members are checked by name.

use std::collections::HashMap;

use breme_http::FieldBlock;
use parking_lot::Mutex;

use crate::key::KeyHasher;
use crate::structured_fields::PurgeNames;

/// Upper bound of the memory of one membership: a group of its own, in two tables that have just grown.
const MEMBERSHIP_BYTES: u64 = 256;
/// Group purges recorded for responses in flight; beyond that, such responses with groups are not stored.
const PURGES_MAX: usize = 4096;

/// Hash of a group's name and origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GroupId(u64);

#[derive(Debug)]
pub(crate) struct Groups {
    hasher: KeyHasher,
    key_fields: Vec<String>,
    index: Mutex<GroupIndex>,
}

#[derive(Debug, Default)]
struct GroupIndex {
    /// Counts of variants by the hash of their key.
    members: HashMap<GroupId, HashMap<u64, u32>>,
    /// Number of the last purge of each recorded group.
    purged: HashMap<GroupId, u64>,
    purges: u64,
    /// Purges up to this number are no longer recorded.
    forgotten: u64,
}

impl Groups {
    pub(crate) fn new(seed: u64, key_fields: &[String]) -> Self {
        Self { hasher: KeyHasher::new(seed ^ 0x6_7075), key_fields: key_fields.to_vec(), index: Mutex::default() }
    }

    pub(crate) const fn cost_bytes(count: usize) -> u64 {
        count as u64 * MEMBERSHIP_BYTES
    }

    /// An RFC 9875 group.
    pub(crate) fn at_origin(&self, origin: &[u8], name: &[u8]) -> GroupId {
        self.id(origin, name)
    }

    /// A surrogate key.
    pub(crate) fn key(&self, name: &[u8]) -> GroupId {
        self.id(b"", name)
    }

    fn id(&self, origin: &[u8], name: &[u8]) -> GroupId {
        GroupId(self.hasher.hash(&[origin, b"\n", name].concat()).table)
    }

    /// All groups of a response with these lines.
    pub(crate) fn ids(&self, key: &[u8], lines: &FieldBlock) -> Vec<GroupId> {
        let names = PurgeNames::from_fields(lines, &self.key_fields);
        let mut ids: Vec<GroupId> = names.keys.iter().chain(&names.groups).map(|name| self.key(name)).collect();
        let origin = origin_of(key);
        ids.extend(names.groups.iter().map(|name| self.at_origin(origin, name)));
        ids.sort_unstable_by_key(|id| id.0);
        ids.dedup();
        ids
    }

    /// Adds a response whose request was sent after `purges` purges. False if one of its groups was purged since: do
    /// not store it. Check and insertion are atomic.
    pub(crate) fn admit(&self, groups: &[GroupId], key_hash: u64, purges: u64) -> bool {
        if groups.is_empty() {
            return true;
        }
        let mut index = self.index.lock();
        if index.was_purged_since(groups, purges) {
            return false;
        }
        for &group in groups {
            *index.members.entry(group).or_default().entry(key_hash).or_default() += 1;
        }
        true
    }

    /// Removes a response; returns the memory of its memberships.
    pub(crate) fn forget(&self, groups: &[GroupId], key_hash: u64) -> u64 {
        let mut index = self.index.lock();
        for group in groups {
            let Some(members) = index.members.get_mut(group) else { continue };
            if let Some(count) = members.get_mut(&key_hash) {
                *count -= 1;
                if *count == 0 {
                    members.remove(&key_hash);
                }
            }
            if members.is_empty() {
                index.members.remove(group);
            }
        }
        Self::cost_bytes(groups.len())
    }

    /// Purges groups: returns the key hashes of their members. Members in flight will not be stored.
    pub(crate) fn purge(&self, groups: &[GroupId]) -> Vec<u64> {
        let mut index = self.index.lock();
        let mut key_hashes = Vec::new();
        for &group in groups {
            index.record_purge(group);
            key_hashes.extend(index.members.get(&group).into_iter().flat_map(|members| members.keys().copied()));
        }
        key_hashes.sort_unstable();
        key_hashes.dedup();
        key_hashes
    }

    /// Whether a response whose request was sent after `purges` purges may have been purged since. If its groups are
    /// unknown, any purge counts.
    pub(crate) fn is_older(&self, groups: Option<&[GroupId]>, purges: u64) -> bool {
        let index = self.index.lock();
        groups.map_or(index.purges > purges, |groups| index.was_purged_since(groups, purges))
    }

    /// Number of purges so far.
    pub(crate) fn purges(&self) -> u64 {
        self.index.lock().purges
    }
}

impl GroupIndex {
    fn was_purged_since(&self, groups: &[GroupId], purges: u64) -> bool {
        let is_purged = |group: &GroupId| self.purged.get(group).is_some_and(|&purged| purged > purges);
        !groups.is_empty() && (self.forgotten > purges || groups.iter().any(is_purged))
    }

    fn record_purge(&mut self, group: GroupId) {
        self.purges += 1;
        if self.purged.len() >= PURGES_MAX && !self.purged.contains_key(&group) {
            self.purged.clear();
            self.forgotten = self.purges;
        }
        self.purged.insert(group, self.purges);
    }
}

/// `scheme://authority` of a key.
pub(crate) fn origin_of(key: &[u8]) -> &[u8] {
    const BEFORE_AUTHORITY: usize = 3;
    let authority = key.iter().position(|&byte| byte == b':').map_or(0, |colon| colon + BEFORE_AUTHORITY);
    let end = key[authority..].iter().position(|&byte| byte == b'/').map_or(key.len(), |slash| authority + slash);
    &key[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgotten_members_leave_the_index() {
        let groups = Groups::new(1, &[]);
        let group = groups.key(b"a");
        // Two variants of one key.
        assert!(groups.admit(&[group], 7, 0) && groups.admit(&[group], 7, 0));
        groups.forget(&[group], 7);
        assert_eq!(groups.purge(&[group]), [7]);
        groups.forget(&[group], 7);
        assert_eq!(groups.purge(&[group]), []);
        assert!(groups.index.lock().members.is_empty());
    }

    #[test]
    fn purge_history_is_bounded() {
        let groups = Groups::new(1, &[]);
        for index in 0..=PURGES_MAX {
            groups.purge(&[groups.key(index.to_string().as_bytes())]);
        }
        assert!(groups.index.lock().purged.len() <= PURGES_MAX);
        let other = groups.key(b"other");
        assert!(!groups.admit(&[other], 7, 0), "what was forgotten may have purged it");
        assert!(groups.admit(&[other], 7, groups.purges()));
    }
}
