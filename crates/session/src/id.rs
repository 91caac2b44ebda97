//! Ids of sessions, and the cookies that carry them.
//!
//! An id is 256 random bits drawn by the server. The engine, logs and other nodes see only its [`SessionKey`], a hash
//! that does not reveal the id. A cookie's value is
//!
//! ```text
//!   id (43 characters, base64url)  signature (22 characters)  .  route (the owner's name)
//! ```
//!
//! The signature (HMAC with SHA-256, 128 bits) covers the id and the route, so that an id that this cluster did not
//! issue is refused before anything is looked up. The route is a hint for directors; correctness does not depend on it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::name::{NAME_MAX, NodeName};

const ID_BYTES: usize = 32;
const ID_CHARACTERS: usize = 43;
const SIGNATURE_BYTES: usize = 16;
const SIGNATURE_CHARACTERS: usize = 22;
const SEPARATOR: u8 = b'.';
pub const COOKIE_MAX: usize = ID_CHARACTERS + SIGNATURE_CHARACTERS + 1 + NAME_MAX;
pub const KEYS_MAX: usize = 4;
/// Minimum length of a signing secret.
pub const SECRET_MIN: usize = 16;
/// Domain separation, so that the same secret may sign other things.
const PURPOSE: &[u8] = b"breme session cookie 1\0";

/// The secret that identifies a client. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionId([u8; ID_BYTES]);

impl SessionId {
    /// A new id, drawn by the operating system.
    ///
    /// # Errors
    ///
    /// If the operating system has no random numbers.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; ID_BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Builds an id from given random bits, for simulations.
    #[must_use]
    pub const fn from_random(bytes: [u8; ID_BYTES]) -> Self {
        Self(bytes)
    }

    /// The name of the session inside the cluster.
    #[must_use]
    pub fn key(&self) -> SessionKey {
        let digest = Sha256::new().chain_update(b"breme session key 1\0").chain_update(self.0).finalize();
        let mut key = [0; 16];
        key.copy_from_slice(&digest[..16]);
        SessionKey(key)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SessionId(of {})", self.key())
    }
}

/// A hash of a session's id: the name of its register. Not secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey([u8; 16]);

impl SessionKey {
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    pub(crate) fn from_digits(digits: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if digits.len() != 32 || !digits.bytes().all(is_digit) {
            return None;
        }
        u128::from_str_radix(digits, 16).ok().map(|number| Self(number.to_be_bytes()))
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// The keys that sign cookies: the first signs, all are accepted, so that a key can be replaced while its cookies live.
#[derive(Clone)]
pub struct CookieKeys(Vec<Hmac<Sha256>>);

impl CookieKeys {
    /// Keys from secrets of any length from [`SECRET_MIN`] bytes. The first signs.
    ///
    /// # Errors
    ///
    /// If there is none, more than [`KEYS_MAX`], or one is too short.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, KeysError> {
        let mut keys = Vec::new();
        for secret in secrets {
            if secret.len() < SECRET_MIN {
                return Err(KeysError::Short(secret.len()));
            }
            // A secret of any length becomes one of the block's length.
            let mut block = [0; 64];
            block[..32].copy_from_slice(&Sha256::digest(secret));
            keys.push(Hmac::new(&block.into()));
        }
        if (1..=KEYS_MAX).contains(&keys.len()) { Ok(Self(keys)) } else { Err(KeysError::Count(keys.len())) }
    }

    /// The value of the cookie for a session that `route` owns.
    #[must_use]
    pub fn sign(&self, id: &SessionId, route: &NodeName) -> String {
        let signature = with_message(&self.0[0], &id.0, route).finalize().into_bytes();
        let mut value = String::with_capacity(COOKIE_MAX);
        URL_SAFE_NO_PAD.encode_string(id.0, &mut value);
        URL_SAFE_NO_PAD.encode_string(&signature[..SIGNATURE_BYTES], &mut value);
        value.push(SEPARATOR.into());
        value.push_str(route.as_str());
        value
    }

    /// Verifies a cookie's value and returns its id and route; none if this cluster did not issue it. Takes constant
    /// time, so that timing reveals nothing about a signature.
    #[must_use]
    pub fn check(&self, value: &[u8]) -> Option<(SessionId, NodeName)> {
        const ROUTE_AT: usize = ID_CHARACTERS + SIGNATURE_CHARACTERS;
        if value.len() > COOKIE_MAX || value.get(ROUTE_AT) != Some(&SEPARATOR) {
            return None;
        }
        let id: [u8; ID_BYTES] = decoded(&value[..ID_CHARACTERS])?;
        let signature: [u8; SIGNATURE_BYTES] = decoded(&value[ID_CHARACTERS..ROUTE_AT])?;
        let route = NodeName::from_bytes(&value[ROUTE_AT + 1..])?;
        let is_right = |key| with_message(key, &id, &route).verify_truncated_left(&signature).is_ok();
        self.0.iter().any(is_right).then_some((SessionId(id), route))
    }
}

impl fmt::Debug for CookieKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CookieKeys({})", self.0.len())
    }
}

fn with_message(key: &Hmac<Sha256>, id: &[u8; ID_BYTES], route: &NodeName) -> Hmac<Sha256> {
    let mut mac = key.clone();
    mac.update(PURPOSE);
    mac.update(id);
    mac.update(route.as_bytes());
    mac
}

/// Rejects bits that no encoder writes, so that an id has one spelling.
fn decoded<const BYTES: usize>(characters: &[u8]) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    let count = URL_SAFE_NO_PAD.decode_slice(characters, &mut bytes).ok()?;
    (count == BYTES).then_some(bytes)
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    #[error("{0} keys for session cookies: give 1 to {max}", max = KEYS_MAX)]
    Count(usize),
    #[error("a key for session cookies of {0} bytes: give at least {min}", min = SECRET_MIN)]
    Short(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(secrets: &[&str]) -> CookieKeys {
        CookieKeys::new(secrets.iter().map(|secret| secret.as_bytes())).unwrap()
    }

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    #[test]
    fn a_value_is_as_other_programs_compute_it() {
        // Python: hmac.new(sha256(b"0123456789abcdef").digest() + bytes(32), b"breme session cookie 1\0" +
        // bytes(range(32)) + b"node1", "sha256").digest()[:16], base64.urlsafe_b64encode
        let id = SessionId::from_random(std::array::from_fn(|index| index as u8));
        let value = keys(&["0123456789abcdef"]).sign(&id, &node("node1"));
        assert_eq!(value, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8bM6FaVEKAglGFzbRLvT1bA.node1");
        assert_eq!(id.key().to_string(), "0241b22dd8330b5c8245558038eb0e96");
    }

    #[test]
    fn every_changed_character_is_refused() {
        let keys = keys(&["0123456789abcdef"]);
        let id = SessionId::generate().unwrap();
        let value = keys.sign(&id, &node("n1"));
        assert_eq!(keys.check(value.as_bytes()), Some((id, node("n1"))));
        for place in 0..value.len() {
            for other in [b'A', b'_', b'.', b'=', b'9', 0, 255] {
                let mut changed = value.clone().into_bytes();
                changed[place] = other;
                assert!(changed == value.as_bytes() || keys.check(&changed).is_none(), "{place} {other}");
            }
            assert_eq!(keys.check(&value.as_bytes()[..place]), None, "truncated to {place}");
        }
        assert_eq!(keys.check(format!("{value}x").as_bytes()), None);
        assert_eq!(keys.check(value.repeat(50).as_bytes()), None);
    }

    #[test]
    fn a_replaced_key_is_accepted_until_it_goes() {
        let (old, new) = ("an old secret of ours", "a new secret of ours!");
        let id = SessionId::from_random([7; 32]);
        let value = keys(&[old]).sign(&id, &node("a"));
        assert!(keys(&[new, old]).check(value.as_bytes()).is_some());
        assert!(keys(&[new]).check(value.as_bytes()).is_none());
        let value = keys(&[new, old]).sign(&id, &node("a"));
        assert!(keys(&[new]).check(value.as_bytes()).is_some());
    }

    /// A cluster replaces a key in rolling restarts: first all nodes accept it, then all sign with it, then the old one
    /// goes. Of two nodes on either side of a step, each accepts what the other signs.
    #[test]
    fn a_key_is_replaced_node_by_node() {
        let (old, new) = ("an old secret of ours", "a new secret of ours!");
        let id = SessionId::from_random([7; 32]);
        let steps = [keys(&[old]), keys(&[old, new]), keys(&[new, old])];
        for pair in steps.windows(2) {
            for (signs, accepts) in [(&pair[0], &pair[1]), (&pair[1], &pair[0])] {
                let value = signs.sign(&id, &node("a"));
                assert_eq!(accepts.check(value.as_bytes()), Some((id.clone(), node("a"))));
            }
        }
        let value = steps[2].sign(&id, &node("a"));
        assert!(steps[0].check(value.as_bytes()).is_none(), "no step may be left out");
        assert!(keys(&[new]).check(value.as_bytes()).is_some());
    }

    #[test]
    fn secrets_have_limits() {
        assert_eq!(CookieKeys::new([]).err(), Some(KeysError::Count(0)));
        assert_eq!(CookieKeys::new([&[1; 15][..]]).err(), Some(KeysError::Short(15)));
        assert_eq!(CookieKeys::new([&[1; 16][..]; 5]).err(), Some(KeysError::Count(5)));
    }

    #[test]
    fn an_id_is_never_printed() {
        let id = SessionId::from_random([7; 32]);
        assert_eq!(format!("{id:?}"), format!("SessionId(of {})", id.key()));
    }
}
