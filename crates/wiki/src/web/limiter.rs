//! Limits of the rate of requests from one address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The kind of a request, for rate limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    Write,
    /// A preview while the user types.
    Preview,
    /// A password attempt.
    SignIn,
}

impl Purpose {
    pub(super) fn from_path(path: &str) -> Self {
        match path {
            "/login" => Self::SignIn,
            "/preview" => Self::Preview,
            _ => Self::Write,
        }
    }

    fn per_minute(self, writes: u32) -> u32 {
        match self {
            Self::Write => writes,
            Self::Preview => 600,
            Self::SignIn => 10,
        }
    }
}

/// Limit of the tracked addresses. Beyond it, new ones share an entry.
const ADDRESSES_MAX: usize = 65_536;

/// Limits the rate of each address: tokens arrive at a steady rate, and a minute's worth may be spent at once.
#[derive(Debug, Default)]
pub(crate) struct Limiter {
    buckets: Mutex<HashMap<(IpAddr, Purpose), RateBucket>>,
}

#[derive(Clone, Copy, Debug)]
struct RateBucket {
    /// When the bucket will be full again.
    full_at: Instant,
}

impl Limiter {
    /// Takes a token, or returns the time until there is one.
    pub(crate) fn take(&self, address: IpAddr, purpose: Purpose, writes: u32, now: Instant) -> Result<(), Duration> {
        const MINUTE: Duration = Duration::from_secs(60);
        let each = MINUTE / purpose.per_minute(writes).max(1);
        let mut buckets = self.buckets.lock();
        let mut key = (network(address), purpose);
        if buckets.len() >= ADDRESSES_MAX && !buckets.contains_key(&key) {
            buckets.retain(|_, bucket| bucket.full_at > now);
            if buckets.len() >= ADDRESSES_MAX {
                key.0 = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
            }
        }
        let bucket = buckets.entry(key).or_insert(RateBucket { full_at: now });
        let full_at = bucket.full_at.max(now) + each;
        if full_at > now + MINUTE.max(each) {
            return Err(full_at - now - MINUTE.max(each));
        }
        bucket.full_at = full_at;
        Ok(())
    }
}

/// The addresses of one customer of a provider: an IPv4 address, or the /64 prefix of an IPv6 address.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (!0 << 64))),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_limited_by_address() {
        let (limiter, start) = (Limiter::default(), Instant::now());
        let take = |address: &str, seconds: u64| {
            limiter.take(address.parse().unwrap(), Purpose::Write, 2, start + Duration::from_secs(seconds)).is_ok()
        };
        assert_eq!([take("192.0.2.1", 0), take("192.0.2.1", 0), take("192.0.2.1", 0)], [true, true, false]);
        assert!(take("192.0.2.2", 0), "another address");
        assert!(take("2001:db8::1", 0) && take("2001:db8::2", 0) && !take("2001:db8::3", 0), "one subnet");
        assert_eq!([take("192.0.2.1", 29), take("192.0.2.1", 30), take("192.0.2.1", 31)], [false, true, false]);
    }

    #[test]
    fn guesses_at_passwords_are_few() {
        let (limiter, now, purpose) = (Limiter::default(), Instant::now(), Purpose::from_path("/login"));
        let guesses = (0..20).filter(|_| limiter.take(IpAddr::from([192, 0, 2, 1]), purpose, 600, now).is_ok());
        assert_eq!(guesses.count(), 10);
        assert!(limiter.take(IpAddr::from([192, 0, 2, 1]), Purpose::from_path("/wiki/A"), 600, now).is_ok());
    }

    #[test]
    fn the_table_of_addresses_is_bounded() {
        let (limiter, now) = (Limiter::default(), Instant::now());
        for index in 0..ADDRESSES_MAX as u32 + 100 {
            let address = IpAddr::from(index.to_be_bytes());
            let _ = limiter.take(address, Purpose::Write, 600, now);
        }
        assert_eq!(limiter.buckets.lock().len(), ADDRESSES_MAX + 1);
        let later = now + Duration::from_secs(120);
        assert!(limiter.take(IpAddr::from([250, 1, 1, 1]), Purpose::Write, 600, later).is_ok());
        assert_eq!(limiter.buckets.lock().len(), 1, "who has not written for a while is forgotten");
    }
}
