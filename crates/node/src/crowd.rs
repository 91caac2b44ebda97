//! Who may stay while others wait for a place.

use std::time::Duration;

use breme_base::Instant;

/// How long a connection may stay open with nothing under way while others wait for its place.
///
/// About what a round trip takes to the other side of the world: a client that asks for the next thing as soon as it
/// has an answer keeps its connection, and the first request on a new one is in time. Who thinks takes longer, and pays
/// for a new connection with one such round trip. Those who wait hardly notice it.
pub const CROWDED_IDLE_TIMEOUT: Duration = Duration::from_millis(200);

/// How long a client that goes on asking keeps its place while others wait for it. Then an answer says that it was the
/// last one on this connection, and the next in line is served.
///
/// So nobody has to wait for ever: where seven times as many wait as are served, it is for four seconds. A shorter turn
/// would make that less, and more of the work handshakes; clients that are far away would get few requests into one.
pub const CROWDED_TURN: Duration = Duration::from_millis(500);

/// What a server's node knows of those who wait (see [`Node::handle_crowded`](crate::Node::handle_crowded)).
#[derive(Clone, Copy, Debug, Default)]
pub struct Crowd {
    began: Option<Instant>,
}

impl Crowd {
    /// A crowd begins now; or (`is_crowded` is false) it is over.
    pub fn set(&mut self, now: Instant, is_crowded: bool) {
        self.began = is_crowded.then_some(now);
    }

    /// Others wait for the places of those who are connected.
    #[must_use]
    pub const fn is_there(self) -> bool {
        self.began.is_some()
    }

    /// How long a client may stay with nothing under way, where it may for `ordinary` while nobody waits.
    #[must_use]
    pub fn idle_timeout(self, ordinary: Duration) -> Duration {
        if self.is_there() { ordinary.min(CROWDED_IDLE_TIMEOUT) } else { ordinary }
    }

    /// Whether a client that was accepted at this instant should leave after its next answer. The crowd must have
    /// lasted as long as a turn: most are over sooner, since others are idle.
    #[inline]
    #[must_use]
    pub fn has_had_turn(self, accepted: Instant, now: Instant) -> bool {
        self.began.is_some_and(|began| now.since(began.max(accepted)) >= CROWDED_TURN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NANOSECOND: Duration = Duration::from_nanos(1);

    #[test]
    fn a_turn_begins_with_the_later_of_the_crowd_and_the_client() {
        let mut crowd = Crowd::default();
        let [early, late] = [1, 5].map(|seconds| Instant::ZERO + Duration::from_secs(seconds));
        let far = late + 10 * CROWDED_TURN;
        assert!(!crowd.has_had_turn(early, far));
        for (began, accepted) in [(early, late), (late, early)] {
            crowd.set(began, true);
            assert!(!crowd.has_had_turn(accepted, late + (CROWDED_TURN - NANOSECOND)));
            assert!(crowd.has_had_turn(accepted, late + CROWDED_TURN));
        }
        crowd.set(far, false);
        assert!(!crowd.has_had_turn(early, far + CROWDED_TURN));
    }

    #[test]
    fn only_a_crowd_makes_patience_shorter() {
        let mut crowd = Crowd::default();
        let long = 2 * CROWDED_IDLE_TIMEOUT;
        assert_eq!(crowd.idle_timeout(long), long);
        crowd.set(Instant::ZERO, true);
        assert_eq!(crowd.idle_timeout(long), CROWDED_IDLE_TIMEOUT);
        assert_eq!(crowd.idle_timeout(NANOSECOND), NANOSECOND);
    }
}
