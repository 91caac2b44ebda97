//! Pages for the proxy's own responses: upstream errors, rejected requests, exceeded limits.

use std::collections::BTreeMap;

use bytes::Bytes;

/// Statuses that can have a page.
const STATUSES: std::ops::RangeInclusive<u16> = 400..=599;
/// The key of the page for all statuses; those of classes are 4 and 5.
const ANY: u16 = 0;

/// The statuses of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageStatus {
    /// One status, 400 to 599.
    Exactly(u16),
    /// All statuses with this first digit, 4 or 5, without a page of their own.
    Class(u8),
    /// All statuses without another page.
    Any,
}

impl PageStatus {
    /// Parses `503` or `5xx`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "4xx" => Some(Self::Class(4)),
            "5xx" => Some(Self::Class(5)),
            _ => text.parse().ok().filter(|status| STATUSES.contains(status)).map(Self::Exactly),
        }
    }

    fn key(self) -> u16 {
        match self {
            Self::Exactly(status) => status,
            Self::Class(class) => u16::from(class),
            Self::Any => ANY,
        }
    }
}

/// The body of an error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPage {
    pub media_type: String,
    pub content: Bytes,
}

/// The pages of a proxy; at most one for each status, each class, and all.
#[derive(Clone, Debug, Default)]
pub struct ErrorPages(BTreeMap<u16, ErrorPage>);

impl ErrorPages {
    /// Adds a page. Returns false if there was one for the same statuses.
    pub fn insert(&mut self, status: PageStatus, page: ErrorPage) -> bool {
        self.0.insert(status.key(), page).is_none()
    }

    /// The page of a status, of its class, or for all.
    pub(crate) fn find(&self, status: u16) -> Option<&ErrorPage> {
        [status, status / 100, ANY].iter().find_map(|key| self.0.get(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_most_specific_page() {
        let page = |text: &str| ErrorPage { media_type: "text/html".to_owned(), content: text.to_owned().into() };
        let mut pages = ErrorPages::default();
        for (name, is_new) in [("502", true), ("5xx", true), ("502", false)] {
            assert_eq!(pages.insert(PageStatus::parse(name).unwrap(), page(name)), is_new);
        }
        let found = |pages: &ErrorPages, status| pages.find(status).map(|page| page.content.to_vec());
        assert_eq!(
            [502, 504, 404].map(|status| found(&pages, status)),
            [Some(b"502".into()), Some(b"5xx".into()), None]
        );
        pages.insert(PageStatus::Any, page("any"));
        assert_eq!(found(&pages, 404), Some(b"any".into()));
    }

    #[test]
    fn rejects_pages_for_other_statuses() {
        assert_eq!(PageStatus::parse("404"), Some(PageStatus::Exactly(404)));
        for wrong in ["200", "399", "600", "50x", "3xx", "", "5XX", "index"] {
            assert_eq!(PageStatus::parse(wrong), None, "{wrong}");
        }
    }
}
