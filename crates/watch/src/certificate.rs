//! Expiry of a target's certificate, by the wall clock.

const DAY_S: i64 = 86_400;

/// When a certificate expires, at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateExpiry {
    /// Unix time, seconds.
    pub at_s: i64,
    /// Seconds until then; negative after it.
    pub left_s: i64,
    /// Whether less time is left than it should be.
    pub is_soon: bool,
}

impl CertificateExpiry {
    /// `expires_at` and `within_s` are in seconds, `now_ms` in milliseconds. With `within_s` 0 it is never soon.
    #[must_use]
    pub fn new(expires_at: u64, now_ms: i64, within_s: u64) -> Self {
        let seconds = |value| i64::try_from(value).unwrap_or(i64::MAX);
        let left_s = seconds(expires_at).saturating_sub(now_ms.div_euclid(1_000));
        Self { at_s: seconds(expires_at), left_s, is_soon: within_s > 0 && left_s < seconds(within_s) }
    }

    /// Complete days until then; negative after it.
    #[must_use]
    pub const fn days_left(&self) -> i64 {
        self.left_s.div_euclid(DAY_S)
    }
}

/// What is known after intervals of which the latest handshake `seen` showed this expiry. Intervals that are up without
/// a handshake are those of a target without TLS; others leave what was known.
#[must_use]
pub const fn latest_expiry(known: Option<u64>, seen: Option<u64>, is_up: bool) -> Option<u64> {
    match seen {
        None if !is_up => known,
        seen => seen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_soon_below_the_limit() {
        let left = |seconds: i64, within_s| CertificateExpiry::new(1_000_000, (1_000_000 - seconds) * 1_000, within_s);
        let soon = [100, 99, 0, -1].map(|seconds| left(seconds, 100).is_soon);
        assert_eq!(soon, [false, true, true, true]);
        assert!(!left(-1, 0).is_soon, "no limit");
        let days = [2 * DAY_S, 2 * DAY_S - 1, 0, -1].map(|seconds| left(seconds, 100).days_left());
        assert_eq!(days, [2, 1, 0, -1]);
        assert_eq!(CertificateExpiry::new(u64::MAX, i64::MIN, u64::MAX).left_s, i64::MAX);
    }
}
