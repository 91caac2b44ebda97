//! Precompressed siblings (`a.css.br` next to `a.css`), selected by Accept-Encoding (RFC 9110, 12.5.3).
//!
//! The highest weight wins; among equals the smallest file. A client that names no coding gets the file itself; so does
//! a client that refuses even that (`identity;q=0`) if there is nothing else, which 12.5.3 permits: a response that can
//! most likely be read is more useful than a 406.

use breme_http::weight::{WEIGHT_MAX, Weight, parse_weight, weight_value};

/// A content coding that siblings may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Brotli,
    Zstandard,
    Gzip,
}

impl Coding {
    pub(crate) const ALL: [Self; 3] = [Self::Brotli, Self::Zstandard, Self::Gzip];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Zstandard => "zstd",
            Self::Gzip => "gzip",
        }
    }

    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Zstandard => ".zst",
            Self::Gzip => ".gz",
        }
    }

    fn is_named(self, name: &str) -> bool {
        name.eq_ignore_ascii_case(self.name()) || (self == Self::Gzip && name.eq_ignore_ascii_case("x-gzip"))
    }
}

/// The coding of `available` (with lengths in bytes) to send; None: the file itself.
pub(crate) fn choose<'a>(
    members: &(impl Iterator<Item = &'a [u8]> + Clone),
    available: &[(Coding, u64)],
) -> Option<Coding> {
    let identity = weight(members.clone(), |name| name.eq_ignore_ascii_case("identity"));
    let (best, best_weight, _) = available
        .iter()
        .map(|&(coding, length)| (coding, weight(members.clone(), |name| coding.is_named(name)).unwrap_or(0), length))
        .filter(|&(_, weight, _)| weight > 0)
        .max_by_key(|&(_, weight, length)| (weight, std::cmp::Reverse(length)))?;
    // An unnamed identity is acceptable, but was not requested.
    (best_weight >= identity.unwrap_or(0)).then_some(best)
}

/// The weight of the coding for which `matches` is true: that of its own member, else of `*`; None without either.
fn weight<'a>(members: impl Iterator<Item = &'a [u8]>, matches: impl Fn(&str) -> bool) -> Option<Weight> {
    let mut of_star = None;
    for (name, weight) in members.filter_map(parse_member) {
        if matches(name) {
            return Some(weight);
        }
        if name == "*" {
            of_star = Some(weight);
        }
    }
    of_star
}

fn parse_member(member: &[u8]) -> Option<(&str, Weight)> {
    let member = std::str::from_utf8(member).ok()?;
    let Some((name, parameter)) = member.split_once(';') else { return Some((member.trim(), WEIGHT_MAX)) };
    Some((name.trim(), parse_weight(weight_value(parameter)?)?))
}

#[cfg(test)]
mod tests {
    use super::Coding::{Brotli, Gzip, Zstandard};
    use super::*;

    fn check(field: &str, available: &[(Coding, u64)], expected: Option<Coding>) {
        let members = field.split(',').map(|member| member.trim().as_bytes());
        assert_eq!(choose(&members, available), expected, "{field}");
    }

    #[test]
    fn selects_best_weight_then_smallest_file() {
        let all = [(Brotli, 80), (Zstandard, 85), (Gzip, 90)];
        check("gzip, deflate, br, zstd", &all, Some(Brotli));
        check("gzip, zstd", &all, Some(Zstandard));
        check("gzip", &all, Some(Gzip));
        check("x-gzip", &all, Some(Gzip));
        check("GZIP", &all, Some(Gzip));
        check("br;q=0.5, gzip;q=0.8", &all, Some(Gzip));
        check("br;q=0, gzip", &all, Some(Gzip));
        check("*", &all, Some(Brotli));
        check("br;q=0, *", &all, Some(Zstandard));
        check("*;q=0", &all, None);
        check("identity", &all, None);
        check("identity, gzip;q=0.5", &all, None);
        check("identity;q=0.5, gzip", &all, Some(Gzip));
        check("identity;q=0, gzip;q=0.1", &all, Some(Gzip));
        check("identity;q=0", &all, None);
        check("deflate", &all, None);
        check("", &all, None);
        check("br", &[(Gzip, 90)], None);
        check("gzip", &[], None);
    }

    #[test]
    fn a_coding_has_no_parameter_but_its_weight() {
        check("gzip;level=9", &[(Gzip, 1)], None);
        check("gzip ; Q = 0.3", &[(Gzip, 1)], Some(Gzip));
    }
}
