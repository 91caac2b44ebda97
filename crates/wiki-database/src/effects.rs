//! The effects of the writes of a transaction on readers and caches.

use std::collections::BTreeSet;

use super::keys;
use super::prepared_write::State;
use crate::name::Name;
use crate::page::{Committed, Write};

/// The effects of all writes of a transaction so far.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// The pages whose representations changed.
    pages: BTreeSet<Name>,
    lists_changed: bool,
    changes_made: bool,
    keys: BTreeSet<String>,
}

impl Effects {
    /// Adds a write that created a revision.
    pub(crate) fn revision(
        &mut self,
        sequence: u64,
        revision: u64,
        created: bool,
        changed: Vec<Name>,
        list_changed: bool,
    ) -> Committed {
        self.pages.extend(changed.iter().cloned());
        self.lists_changed |= list_changed;
        self.changes_made = true;
        Committed { revision, sequence, created, changed, list_changed }
    }

    /// Adds pages whose links are displayed differently.
    pub(crate) fn recoloured(&mut self, pages: Vec<Name>) {
        self.pages.extend(pages);
    }

    /// Adds a change to an attachment, which created no revision.
    pub(crate) fn attachment(&mut self, sequence: u64, write: &Write, state: &State) -> Committed {
        self.pages.insert(write.name.clone());
        self.changes_made = true;
        let changed = vec![write.name.clone()];
        Committed { revision: state.revision, sequence, created: false, changed, list_changed: false }
    }

    /// Adds a page of which something was erased.
    pub(crate) fn erased(&mut self, page: &Name) {
        self.pages.insert(page.clone());
        self.changes_made = true;
    }

    /// Adds a key to purge without a write.
    pub(crate) fn purge(&mut self, key: &str) {
        self.keys.insert(key.to_owned());
    }

    /// The surrogate keys to purge.
    pub(crate) fn keys(&self) -> Vec<String> {
        let mut purged: Vec<String> = self.pages.iter().map(keys::page).chain(self.keys.iter().cloned()).collect();
        if self.lists_changed {
            purged.push(keys::LISTS.to_owned());
        }
        if self.changes_made {
            purged.push(keys::CHANGES.to_owned());
        }
        purged
    }

    pub(crate) fn into_pages(self) -> BTreeSet<Name> {
        self.pages
    }
}
