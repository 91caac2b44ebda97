//! Content negotiation.

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
            Self::Html => "text/html; charset=utf-8",
            Self::Markdown => "text/markdown; charset=utf-8",
            Self::Json => "application/json",
        }
    }

    const fn type_and_subtype(self) -> (&'static str, &'static str) {
        match self {
            Self::Html => ("text", "html"),
            Self::Markdown => ("text", "markdown"),
            Self::Json => ("application", "json"),
        }
    }
}

/// The format that Accept prefers (RFC 9110, section 12.5.1); among equal ones, the first one offered. A request that
/// accepts none of them also gets the first one, as the RFC permits.
pub(crate) fn negotiate(headers: &HeaderMap, offered: &[Format]) -> Format {
    let weight = |format: Format| {
        let most_specific = ranges(headers).filter_map(|range| weight_of(range, format)).max();
        most_specific.map(|(specific, quality)| (quality, specific))
    };
    let mut best = (offered[0], (0, 0));
    for &format in offered {
        // Without Accept, all are acceptable. With equal weights, a range that names the format takes precedence over
        // one that includes it.
        let weight = if headers.contains_key(ACCEPT) { weight(format).unwrap_or_default() } else { (1000, 0) };
        if weight.0 > 0 && weight > best.1 {
            best = (format, weight);
        }
    }
    best.0
}

/// Whether the request names HTML, as browsers do, and not only `*/*`.
pub(crate) fn names_html(headers: &HeaderMap) -> bool {
    ranges(headers).any(|range| weight_of(range, Format::Html).is_some_and(|(specific, q)| specific == 2 && q > 0))
}

fn ranges(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','))
}

/// The specificity of a media range that matches the format, and its weight in thousandths.
fn weight_of(range: &str, format: Format) -> Option<(u8, u32)> {
    let mut parts = range.split(';').map(str::trim);
    let (kind, subtype) = parts.next()?.split_once('/')?;
    let (own_kind, own_subtype) = format.type_and_subtype();
    let specific = match (kind, subtype) {
        ("*", "*") => 0,
        (kind, "*") if kind.eq_ignore_ascii_case(own_kind) => 1,
        (kind, subtype) if kind.eq_ignore_ascii_case(own_kind) && subtype.eq_ignore_ascii_case(own_subtype) => 2,
        _ => return None,
    };
    let quality = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    let quality = quality.map_or(Some(1.0), |text| text.parse::<f32>().ok().filter(|q| (0.0..=1.0).contains(q)));
    Some((specific, (quality.unwrap_or(1.0) * 1000.0) as u32))
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
