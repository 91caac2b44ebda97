//! Content negotiation.

use breme_http::list_members;
use breme_http::media_type::{self, Precision};
use breme_http::weight::{WEIGHT_MAX, Weight};
use http::HeaderMap;
use http::header::ACCEPT;

/// Representations of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    Html,
    Markdown,
    Json,
}

impl Format {
    /// From `?format=`, or the suffix of a path.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        match word {
            "html" => Some(Self::Html),
            "markdown" | "md" => Some(Self::Markdown),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Html => media_type::HTML,
            Self::Markdown => "text/markdown; charset=utf-8",
            Self::Json => media_type::JSON,
        }
    }
}

/// The format that Accept prefers (RFC 9110, section 12.5.1); among equal ones, the first one offered. A request that
/// accepts none of them also gets the first one, as the RFC permits.
pub(crate) fn negotiate(headers: &HeaderMap, offered: &[Format]) -> Format {
    let weight = |format: Format| {
        let most_precise = accepted(headers, format).max();
        most_precise.map(|(precision, weight)| (weight, precision))
    };
    let mut best = (offered[0], (0, Precision::Any));
    for &format in offered {
        // Without Accept, all are acceptable. With equal weights, a range that names the format takes precedence over
        // one that includes it.
        let weight = if headers.contains_key(ACCEPT) {
            weight(format).unwrap_or_default()
        } else {
            (WEIGHT_MAX, Precision::Any)
        };
        if weight.0 > 0 && weight > best.1 {
            best = (format, weight);
        }
    }
    best.0
}

/// Whether the request names HTML, as browsers do, and not only `*/*`.
pub(crate) fn names_html(headers: &HeaderMap) -> bool {
    accepted(headers, Format::Html).any(|(precision, weight)| precision == Precision::Subtype && weight > 0)
}

/// How exactly the members of Accept name the format, and their weights.
fn accepted(headers: &HeaderMap, format: Format) -> impl Iterator<Item = (Precision, Weight)> {
    let members = headers.get_all(ACCEPT).iter().flat_map(|value| list_members(value.as_bytes()));
    members.filter_map(move |member| media_type::accepted(member, format.media_type()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Format; 3] = [Format::Html, Format::Markdown, Format::Json];

    fn accept(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT, value.parse().unwrap())])
    }

    #[test]
    fn the_most_specific_range_decides() {
        for (value, expected) in [
            ("*/*", Format::Html),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Format::Html),
            ("application/json", Format::Json),
            ("application/json, text/plain, */*", Format::Json),
            ("text/markdown;q=0.9, text/html;q=0.5", Format::Markdown),
            ("TEXT/*;q=0.2, application/json;q=0.3", Format::Json),
            ("text/html;q=0, */*", Format::Markdown),
            ("image/png", Format::Html),
            ("text/html;q=x", Format::Html),
            ("", Format::Html),
        ] {
            assert_eq!(negotiate(&accept(value), &ALL), expected, "{value}");
        }
        assert_eq!(negotiate(&HeaderMap::new(), &ALL), Format::Html);
        assert!(names_html(&accept("text/html")) && !names_html(&accept("*/*")) && !names_html(&HeaderMap::new()));
    }
}
