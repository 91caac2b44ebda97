//! When a message is sent again.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use breme_base::Random;
use breme_http::parse_http_date;

/// Longest pause after the first failed attempt; it doubles.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Longest pause that a receiver can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// Exponential pauses. Each is drawn from the upper half of its range, so that senders do not return together.
#[derive(Debug)]
pub(super) struct Backoff {
    random: Random,
    longest: Duration,
}

impl Backoff {
    pub(super) const fn new(random: Random) -> Self {
        Self { random, longest: PAUSE_MIN }
    }

    /// Begins anew, with the next message.
    pub(super) const fn reset(&mut self) {
        self.longest = PAUSE_MIN;
    }

    /// The next pause; at least what the receiver asks for, within bounds.
    pub(super) fn pause(&mut self, retry_after: Option<Duration>) -> Duration {
        let pause = self.longest.mul_f64(0.5 + self.random.unit() / 2.0);
        self.longest = (self.longest * 2).min(PAUSE_MAX);
        pause.max(retry_after.unwrap_or_default().min(RETRY_AFTER_MAX))
    }
}

/// A generator whose numbers other senders do not draw.
pub(super) fn random_of_clock() -> Random {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Random::stream(u64::from(now.subsec_nanos()), u64::from(std::process::id()))
}

/// The value of Retry-After: seconds, or a date (RFC 9110, 10.2.3).
pub(super) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(value.parse().map_or(RETRY_AFTER_MAX, Duration::from_secs));
    }
    let date = u64::try_from(parse_http_date(value.as_bytes())?).unwrap_or_default();
    Some((UNIX_EPOCH + Duration::from_secs(date)).duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use breme_http::http_date;

    use super::*;

    #[test]
    fn pauses_double_and_differ() {
        let mut backoff = Backoff::new(Random::new(7));
        let pauses: Vec<Duration> = (0..9).map(|_| backoff.pause(None)).collect();
        for (pause, longest_s) in pauses.iter().zip([1, 2, 4, 8, 16, 32, 60, 60, 60]) {
            let longest = Duration::from_secs(longest_s);
            assert!((longest / 2..=longest).contains(pause), "{pause:?} of {longest:?}");
        }
        assert_ne!(pauses[7], pauses[8]);
        assert_ne!(Backoff::new(Random::new(8)).pause(None), pauses[0]);
        backoff.reset();
        assert!(backoff.pause(None) <= PAUSE_MIN);
    }

    #[test]
    fn a_receiver_can_ask_for_longer_pauses() {
        let mut backoff = Backoff::new(Random::new(7));
        assert_eq!(backoff.pause(Some(Duration::from_secs(3))), Duration::from_secs(3));
        assert_eq!(backoff.pause(Some(Duration::MAX)), RETRY_AFTER_MAX);
        assert!(backoff.pause(Some(Duration::ZERO)) >= PAUSE_MIN);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (value, seconds) in [
            ("3", Some(3)),
            (" 120 ", Some(120)),
            ("99999999999999999999", Some(300)),
            ("Sun, 06 Nov 1994 08:49:40 GMT", Some(3)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("Sun, 06 Nov 1994 25:49:00 GMT", None),
            ("Thu, 00 Jan 1970 00:00:00 GMT", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(retry_after(value, now), seconds.map(Duration::from_secs), "{value}");
        }
    }

    #[test]
    fn dates_are_those_that_servers_write() {
        for day in 0..73_000 {
            let seconds = day * 86_400 + day;
            let date = String::from_utf8(http_date(seconds).to_vec()).unwrap();
            assert_eq!(retry_after(&date, UNIX_EPOCH), Some(Duration::from_secs(seconds)), "{date}");
        }
    }
}
