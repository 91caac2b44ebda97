//! Errors in settings and lists of upstreams, and their limits.

use thiserror::Error;

pub const UPSTREAMS_MAX: usize = 1024;
pub const WEIGHT_MAX: u32 = 256;
/// The shortest key of affinity cookies.
pub(crate) const AFFINITY_KEY_BYTES_MIN: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GroupError {
    #[error("a group needs at least one upstream")]
    NoUpstream,
    #[error("{0} upstreams are too many: a group has at most {max}", max = UPSTREAMS_MAX)]
    TooManyUpstreams(usize),
    #[error(
        "{0} removed upstreams still have outstanding requests; wait until some have finished, then change the list"
    )]
    TooManyLeaving(usize),
    #[error("the upstream {0} is listed twice; give it a larger weight instead")]
    NamedTwice(String),
    #[error("two upstreams have the route {0:?}; each needs its own")]
    RouteTwice(String),
    #[error(
        "the upstream {name} has weight {weight}; a weight is from 1 to {max} (to send it no new clients, drain it)",
        max = WEIGHT_MAX
    )]
    Weight { name: String, weight: u32 },
    /// RFC 6265, 4.1.1.
    #[error("{0:?} is not a valid cookie name; use letters, digits and - _ . ! # $ % & ' * + ^ ` | ~")]
    CookieName(String),
    #[error("the key of the affinity cookie must have at least {min} bytes", min = AFFINITY_KEY_BYTES_MIN)]
    ShortKey,
    #[error(
        "{0:?} cannot separate the parts of a cookie value; use an ASCII character other than a letter, digit, quote, comma, semicolon or space"
    )]
    Separator(char),
    #[error("{setting} must be {expected}")]
    InvalidNumber {
        setting: &'static str,
        /// The permitted range.
        expected: &'static str,
    },
}
