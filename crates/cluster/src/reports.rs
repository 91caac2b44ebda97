//! Messages for operators about other nodes and the engine. The same one is repeated only after some time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The same message is printed this often at most.
const INTERVAL: Duration = Duration::from_secs(10);
/// Limit of the messages within that time: anyone may connect.
const MESSAGES_MAX: usize = 32;

/// The last messages.
#[derive(Debug, Default)]
pub(crate) struct Reports(Mutex<HashMap<String, Instant>>);

impl Reports {
    pub(crate) fn report(&self, message: &str) {
        if self.is_news(message, Instant::now()) {
            breme_base::error_line!("breme session: {message}");
        }
    }

    fn is_news(&self, message: &str, now: Instant) -> bool {
        let mut recent = self.0.lock();
        recent.retain(|_, printed| now.duration_since(*printed) < INTERVAL);
        if recent.contains_key(message) || recent.len() >= MESSAGES_MAX {
            return false;
        }
        recent.insert(message.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_repeated_after_some_time() {
        let reports = Reports::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(reports.is_news("a", at(0)));
        assert!(reports.is_news("b", at(5)));
        assert!(!reports.is_news("a", at(9)));
        assert!(reports.is_news("a", at(10)));
        assert!(!reports.is_news("b", at(14)));
    }

    #[test]
    fn only_so_many_messages_are_printed() {
        let reports = Reports::default();
        let start = Instant::now();
        let printed = (0..1_000).filter(|number| reports.is_news(&number.to_string(), start)).count();
        assert_eq!(printed, MESSAGES_MAX);
        assert!(reports.is_news("later", start + INTERVAL));
    }
}
