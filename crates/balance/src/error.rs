//! Errors in settings and lists of upstreams, and their limits.

use std::fmt;

pub const UPSTREAMS_MAX: usize = 1024;
pub const WEIGHT_MAX: u32 = 256;
/// The shortest key of affinity cookies.
pub(crate) const AFFINITY_KEY_BYTES_MIN: usize = 16;

/// An error in settings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupError {
    /// A group without upstreams.
    NoUpstream,
    /// More than [`UPSTREAMS_MAX`].
    TooManyUpstreams(usize),
    /// Too many removed upstreams still have outstanding requests.
    TooManyLeaving(usize),
    /// The same upstream twice.
    NamedTwice(String),
    /// Two upstreams with the same route.
    RouteTwice(String),
    /// A weight that is not from 1 to [`WEIGHT_MAX`].
    Weight {
        name: String,
        /// The invalid value.
        weight: u32,
    },
    /// Not a cookie name (RFC 6265, 4.1.1).
    CookieName(String),
    /// The key is too short to be secure.
    ShortKey,
    /// The character cannot occur in a cookie's value.
    Separator(char),
    /// A number out of its range.
    InvalidNumber {
        /// The setting.
        setting: &'static str,
        /// The permitted range.
        expected: &'static str,
    },
}

impl fmt::Display for GroupError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoUpstream => formatter.write_str("a group needs at least one upstream"),
            Self::TooManyUpstreams(count) => {
                write!(formatter, "{count} upstreams are too many: a group has at most {UPSTREAMS_MAX}")
            }
            Self::TooManyLeaving(count) => write!(
                formatter,
                "{count} removed upstreams still have outstanding requests; wait until some have finished, then change the list"
            ),
            Self::NamedTwice(name) => {
                write!(formatter, "the upstream {name} is listed twice; give it a larger weight instead")
            }
            Self::RouteTwice(route) => {
                write!(formatter, "two upstreams have the route {route:?}; each needs its own")
            }
            Self::Weight { name, weight } => write!(
                formatter,
                "the upstream {name} has weight {weight}; a weight is from 1 to {WEIGHT_MAX} (to send it no new clients, drain it)"
            ),
            Self::CookieName(name) => write!(
                formatter,
                "{name:?} is not a valid cookie name; use letters, digits and - _ . ! # $ % & ' * + ^ ` | ~"
            ),
            Self::ShortKey => {
                write!(formatter, "the key of the affinity cookie must have at least {AFFINITY_KEY_BYTES_MIN} bytes")
            }
            Self::Separator(character) => write!(
                formatter,
                "{character:?} cannot separate the parts of a cookie value; use an ASCII character other than a letter, digit, quote, comma, semicolon or space"
            ),
            Self::InvalidNumber { setting, expected } => write!(formatter, "{setting} must be {expected}"),
        }
    }
}

impl std::error::Error for GroupError {}
