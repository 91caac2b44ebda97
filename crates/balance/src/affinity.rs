//! How a client is known again, so that it comes back to the upstream that served it: by a cookie of the balancer's
//! own, or by an application's.

use std::fmt;
use std::time::Duration;

use crate::GroupError;
use crate::error::AFFINITY_KEY_BYTES_MIN;

/// How a client is known again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// By a cookie that the balancer gives.
    Insert {
        /// Its name.
        cookie: String,
        /// What its tags are made with.
        key: AffinityKey,
        /// How long a browser keeps it, from when it was given; none: as long as the browser runs.
        max_age: Option<Duration>,
    },
    /// By the route part of an application's own cookie: what stands behind the last separator.
    Follow {
        /// Its name.
        cookie: String,
        /// What stands before the route; in most applications a dot.
        separator: char,
    },
}

/// The secret of affinity cookies. It is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct AffinityKey(Vec<u8>);

impl AffinityKey {
    /// A key of at least 16 bytes, better 32. Proxies that share it understand each other's cookies.
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
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if cookie.is_empty() || !cookie.bytes().all(is_token) {
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
    fn names_keys_and_separators_are_checked() {
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
