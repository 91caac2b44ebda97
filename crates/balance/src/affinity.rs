//! Client affinity by a cookie: the balancer's own, or an application's.

use std::fmt;
use std::time::Duration;

use breme_http::syntax::is_token;

use crate::GroupError;
use crate::error::AFFINITY_KEY_BYTES_MIN;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Affinity {
    Insert {
        cookie: String,
        /// The key of its tags.
        key: AffinityKey,
        /// Its Max-Age; None: a session cookie.
        max_age: Option<Duration>,
    },
    /// The balancer follows the route in an application's cookie, after the last separator.
    Follow {
        cookie: String,
        /// The character before the route; in most applications a dot.
        separator: char,
    },
}

/// The secret of affinity cookies. Not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct AffinityKey(Vec<u8>);

impl AffinityKey {
    /// A key of at least 16 bytes, better 32. Proxies with the same key accept each other's cookies.
    ///
    /// # Errors
    /// If it is shorter.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, GroupError> {
        let bytes = bytes.into();
        if bytes.len() < AFFINITY_KEY_BYTES_MIN { Err(GroupError::ShortKey) } else { Ok(Self(bytes)) }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for AffinityKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AffinityKey")
    }
}

impl Affinity {
    pub(crate) fn check(&self) -> Result<(), GroupError> {
        let (Self::Insert { cookie, .. } | Self::Follow { cookie, .. }) = self;
        if !is_token(cookie.as_bytes()) {
            return Err(GroupError::CookieName(cookie.clone()));
        }
        match self {
            Self::Follow { separator, .. } if !separator.is_ascii_punctuation() || "\",;\\".contains(*separator) => {
                Err(GroupError::Separator(*separator))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validates_names_keys_and_separators() {
        let follow = |cookie: &str, separator| Affinity::Follow { cookie: cookie.to_owned(), separator }.check();
        assert_eq!([follow("JSESSIONID", '.'), follow("__Host-s", '!')], [Ok(()), Ok(())]);
        for name in ["", "a b", "a=b", "a;b", "a\r\n", "ä"] {
            assert_eq!(follow(name, '.'), Err(GroupError::CookieName(name.to_owned())));
        }
        for separator in ['a', '0', ' ', ';', ',', '"', '\\', '\n', 'ä'] {
            assert_eq!(follow("s", separator), Err(GroupError::Separator(separator)));
        }
        assert_eq!(AffinityKey::new("fifteen bytes .").unwrap_err(), GroupError::ShortKey);
        assert_eq!(format!("{:?}", AffinityKey::new("sixteen byte key").unwrap()), "AffinityKey");
    }
}
