//! Links and fields of an import's saves, inserted at the end of its transaction.
//!
//! Titles, and thus the positions of links in their index by target, are in random order. In a large wiki that index is
//! larger than the cache, so each link would read and write a page of it. Sorted, the links of a whole transaction
//! traverse the index once, and whether their targets exist is determined on the way.

use std::collections::HashMap;

use crate::name::Name;

/// The saves of an import whose links and fields are not in their tables yet.
#[derive(Default)]
pub(super) struct PendingSaves<'a> {
    /// The last save of each page.
    saved: HashMap<i64, Saved<'a>>,
    /// The pages that these saves created, with their names.
    created: Vec<(&'a str, i64)>,
}

struct Saved<'a> {
    links: &'a [Name],
    fields: &'a [(String, String)],
}

/// Actions on the links to a name, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LinkStep {
    /// This new page has the name.
    Created(i64),
    /// This page links to the name.
    Linked(i64),
}

impl<'a> PendingSaves<'a> {
    /// Adds a save, replacing an earlier one of the page. `created` is the name of a page that did not exist before.
    pub(super) fn save(
        &mut self,
        page: i64,
        links: &'a [Name],
        fields: &'a [(String, String)],
        created: Option<&'a Name>,
    ) {
        self.saved.insert(page, Saved { links, fields });
        self.created.extend(created.map(|name| (name.as_str(), page)));
    }

    /// The steps for all links, sorted by target.
    pub(super) fn steps(&self) -> Vec<(&'a str, LinkStep)> {
        let created = self.created.iter().map(|(name, page)| (*name, LinkStep::Created(*page)));
        let links = |(page, saved): (&i64, &Saved<'a>)| {
            let step = LinkStep::Linked(*page);
            saved.links.iter().map(move |target| (target.as_str(), step))
        };
        let mut steps: Vec<_> = created.chain(self.saved.iter().flat_map(links)).collect();
        steps.sort_unstable();
        steps
    }

    /// The paths, values and pages of all fields, in the order of their table.
    pub(super) fn fields(&self) -> Vec<(&'a str, &'a str, i64)> {
        let fields = |(page, saved): (&i64, &Saved<'a>)| {
            let page = *page;
            saved.fields.iter().map(move |(path, value)| (path.as_str(), value.as_str(), page))
        };
        let mut fields: Vec<_> = self.saved.iter().flat_map(fields).collect();
        fields.sort_unstable();
        fields
    }
}
