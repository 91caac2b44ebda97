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

/// How long a client may take to send a request while others wait for its place, unless the content comes at
/// [`CROWDED_RECEIVE_RATE`] at least. So long may a client that has ended its sending wait for a response, too: it may
/// be gone, or have closed one direction only, which nobody can tell.
pub const CROWDED_SENDING_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes a second. With less than this, 1,000 clients could hold all threads of a pool for minutes.
const CROWDED_RECEIVE_RATE: u64 = 16 * 1024;

/// How long a client may take to read what waits for it while others wait for its place. The kernel says that there is
/// room when a third of its buffer is free, which may be hundreds of kilobytes: with 1 Mbit/s that takes some seconds.
pub const CROWDED_READING_TIMEOUT: Duration = Duration::from_secs(5);

/// Clients that one node lets go at a time, as long as others wait: it does not know how many these are, and where it
/// has thousands they should not all pay for one newcomer.
const LEAVERS_AT_A_TIME: u32 = 16;
/// After how long the next ones may have to go: a driver sees by then whether still somebody waits.
const LEAVERS_PAUSE: Duration = Duration::from_millis(20);

/// What a server's node knows of those who wait (see [`Node::handle_crowded`](crate::Node::handle_crowded)).
#[derive(Debug, Default)]
pub struct Crowd {
    began: Option<Instant>,
    /// When the first of those who went together did.
    leaving_since: Instant,
    /// How many have asked since then.
    leaver_count: u32,
}

impl Crowd {
    /// A crowd begins now; or (`is_crowded` is false) it is over.
    pub fn set(&mut self, now: Instant, is_crowded: bool) {
        self.began = is_crowded.then_some(now);
    }

    /// Others wait for the places of those who are connected.
    #[must_use]
    pub const fn is_there(&self) -> bool {
        self.began.is_some()
    }

    /// How long a client may stay with nothing under way, where it may for `ordinary` while nobody waits.
    #[must_use]
    pub fn idle_timeout(&self, ordinary: Duration) -> Duration {
        if self.is_there() { ordinary.min(CROWDED_IDLE_TIMEOUT) } else { ordinary }
    }

    /// How long a client may take to send a request's head, or what is read into nothing, where it may take `ordinary`
    /// while nobody waits.
    #[must_use]
    pub fn sending_timeout(&self, ordinary: Duration) -> Duration {
        if self.is_there() { ordinary.min(CROWDED_SENDING_TIMEOUT) } else { ordinary }
    }

    /// When content of a request that began at `began` comes too slowly, if `bytes` are all that comes.
    #[must_use]
    pub fn content_deadline(&self, began: Instant, bytes: u64) -> Instant {
        let paid_for = Duration::from_millis(bytes.saturating_mul(1_000) / CROWDED_RECEIVE_RATE);
        if self.is_there() { began + CROWDED_SENDING_TIMEOUT + paid_for } else { Instant::FAR }
    }

    /// When a client that has ended its sending at `since` has waited for too long.
    #[must_use]
    pub fn half_closed_deadline(&self, since: Instant) -> Instant {
        if self.is_there() { since + CROWDED_SENDING_TIMEOUT } else { Instant::FAR }
    }

    /// When a client to which nothing could be sent since `since` has read too slowly.
    #[must_use]
    pub fn reading_deadline(&self, since: Instant) -> Instant {
        if self.is_there() { since + CROWDED_READING_TIMEOUT } else { Instant::FAR }
    }

    /// Whether a client that was accepted at this instant may have to leave after its next answer. The crowd must have
    /// lasted as long as a turn: most are over sooner, since others are idle.
    #[inline]
    #[must_use]
    pub fn should_leave(&self, accepted: Instant, now: Instant) -> bool {
        self.began.is_some_and(|began| now.since(began.max(accepted)) >= CROWDED_TURN) && self.may_let_go(now)
    }

    fn may_let_go(&self, now: Instant) -> bool {
        self.leaver_count < LEAVERS_AT_A_TIME || now.since(self.leaving_since) >= LEAVERS_PAUSE
    }

    /// Lets a client go since others wait.
    ///
    /// # Errors
    /// Enough have gone just now: it is this one's turn after so long, if still somebody waits then.
    pub fn let_go(&mut self, now: Instant) -> Result<(), Duration> {
        if now.since(self.leaving_since) >= LEAVERS_PAUSE {
            (self.leaving_since, self.leaver_count) = (now, 0);
        }
        let others = self.leaver_count / LEAVERS_AT_A_TIME;
        self.leaver_count += 1;
        if others == 0 { Ok(()) } else { Err(LEAVERS_PAUSE * others) }
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
        assert!(!crowd.should_leave(early, far));
        for (began, accepted) in [(early, late), (late, early)] {
            crowd.set(began, true);
            assert!(!crowd.should_leave(accepted, late + (CROWDED_TURN - NANOSECOND)));
            assert!(crowd.should_leave(accepted, late + CROWDED_TURN));
        }
        crowd.set(far, false);
        assert!(!crowd.should_leave(early, far + CROWDED_TURN));
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

    #[test]
    fn clients_go_a_few_at_a_time_and_each_is_told_when() {
        let mut crowd = Crowd::default();
        crowd.set(Instant::ZERO, true);
        let begin = Instant::ZERO + 10 * CROWDED_TURN;
        let mut waiting: Vec<Instant> = vec![begin; 100];
        for round in 0..100_u32.div_ceil(LEAVERS_AT_A_TIME) {
            let now = begin + LEAVERS_PAUSE * round;
            let due = waiting.iter().filter(|&&at| at <= now).count();
            waiting.retain(|&at| at > now);
            assert_eq!(crowd.should_leave(Instant::ZERO, now), due > 0);
            let later = (0..due).filter_map(|_| crowd.let_go(now).err());
            waiting.extend(later.map(|later| now + later));
            let gone = 100 - waiting.len();
            assert_eq!(gone, 100.min((round + 1) as usize * LEAVERS_AT_A_TIME as usize));
            assert_eq!(crowd.should_leave(Instant::ZERO, now), due < LEAVERS_AT_A_TIME as usize);
        }
    }
}
