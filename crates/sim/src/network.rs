//! What the simulated network is like. Every figure is a range, from which each connection, segment or event draws its
//! own.

use std::time::Duration;

use breme_base::{Random, nanos};

/// A range of times, both ends included.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The shortest.
    pub low: Duration,
    /// The longest.
    pub high: Duration,
}

impl Times {
    /// From `low` to `high`.
    #[must_use]
    pub const fn between(low: Duration, high: Duration) -> Self {
        Self { low, high }
    }

    /// Always the same.
    #[must_use]
    pub const fn always(time: Duration) -> Self {
        Self { low: time, high: time }
    }

    pub(crate) fn draw(self, random: &mut Random) -> Duration {
        Duration::from_nanos(random.between(nanos(self.low), nanos(self.high)))
    }
}

/// A range of amounts, both ends included. Drawn so that small ones are as frequent as large ones (evenly by
/// magnitude).
#[derive(Clone, Copy, Debug)]
pub struct Amounts {
    /// The smallest.
    pub low: u64,
    /// The largest.
    pub high: u64,
}

impl Amounts {
    /// From `low` to `high`.
    #[must_use]
    pub const fn between(low: u64, high: u64) -> Self {
        Self { low, high }
    }

    /// Always the same.
    #[must_use]
    pub const fn always(amount: u64) -> Self {
        Self { low: amount, high: amount }
    }

    /// Doubles from the low end a random number of times, then draws between: whole numbers only, so that every machine
    /// draws alike.
    pub(crate) fn draw(self, random: &mut Random) -> u64 {
        let doublings = u64::from((self.high / self.low.max(1)).max(1).ilog2());
        let floor = self.low.max(1) << random.below(doublings + 1);
        random.between(floor.max(self.low).min(self.high), (floor * 2).clamp(self.low, self.high))
    }
}

/// Where what is sent is cut into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cuts {
    /// Only where the window ends.
    Nowhere,
    /// Anywhere.
    Anywhere,
    /// After every byte.
    EveryByte,
}

/// What goes wrong, each as a probability for one connection.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Nobody seems to listen.
    pub refused: f64,
    /// Nobody answers: the attempt times out.
    pub unanswered: f64,
    /// Some time after it began, the network resets it at both ends.
    pub reset: f64,
    /// From some time after it began, everything vanishes, both ways.
    pub silence: f64,
    /// When resets and silences begin, after the connection did.
    pub begin: Times,
}

impl Faults {
    /// Nothing goes wrong.
    pub const NONE: Self =
        Self { refused: 0.0, unanswered: 0.0, reset: 0.0, silence: 0.0, begin: Times::always(Duration::ZERO) };
}

/// The network and the drivers' bounds.
#[derive(Clone, Debug)]
pub struct Network {
    /// How long a segment travels. Segments of one direction never overtake each other.
    pub delay: Times,
    /// Where segments are cut.
    pub cuts: Cuts,
    /// How much of one direction is on its way or waits unread at the receiver; then the sender's queue grows. Drawn
    /// for each direction.
    pub window_bytes: Amounts,
    /// How many directions are slow, as a probability.
    pub slow: f64,
    /// Bytes per second of a slow direction.
    pub slow_rate: Amounts,
    /// The most bytes of one connection that a driver keeps and lends.
    pub lent_bytes_max: usize,
    /// Past this length of a send queue the node is told. Drawn for each end.
    pub long_queue_bytes: Amounts,
    /// How often a driver reads only a part of what has arrived, as a probability.
    pub short_reads: f64,
    /// How late a driver turns to what has happened: segments that arrive meanwhile are read as one.
    pub lateness: Times,
    /// How late deadlines come.
    pub timer_lateness: Times,
    /// After this time without an answer, connecting fails.
    pub connect_timeout: Duration,
    /// A graceful close that makes no progress for so long is dropped; so is one that takes ten times as long.
    pub closing_timeout: Duration,
    /// How much a graceful close reads into nothing.
    pub closing_bytes_max: u64,
    /// After this time, what a stopping node still has open is dropped.
    pub stopping_timeout: Duration,
    /// Into a silent connection, the kernel sends again and again for so long; then the connection has failed.
    pub resend_timeout: Duration,
    /// What goes wrong.
    pub faults: Faults,
}

impl Network {
    /// Everything arrives whole and in the same time.
    #[must_use]
    pub fn calm() -> Self {
        Self {
            delay: Times::always(Duration::from_micros(50)),
            cuts: Cuts::Nowhere,
            window_bytes: Amounts::always(64 << 10),
            slow: 0.0,
            slow_rate: Amounts::always(1 << 20),
            lent_bytes_max: 64 << 10,
            long_queue_bytes: Amounts::always(16 << 10),
            short_reads: 0.0,
            lateness: Times::always(Duration::ZERO),
            timer_lateness: Times::always(Duration::ZERO),
            connect_timeout: Duration::from_secs(10),
            closing_timeout: Duration::from_secs(5),
            closing_bytes_max: 16 << 20,
            stopping_timeout: Duration::from_secs(30),
            resend_timeout: Duration::from_secs(900),
            faults: Faults::NONE,
        }
    }

    /// Everything arrives, but cut anywhere, at any time, through small windows, to slow readers. Nothing is lost: what
    /// fails here is wrong.
    #[must_use]
    pub fn rough() -> Self {
        Self {
            delay: Times::between(Duration::from_micros(1), Duration::from_millis(20)),
            cuts: Cuts::Anywhere,
            window_bytes: Amounts::between(512, 64 << 10),
            slow: 0.2,
            slow_rate: Amounts::between(20_000, 2_000_000),
            long_queue_bytes: Amounts::between(1, 32 << 10),
            short_reads: 0.3,
            lateness: Times::between(Duration::ZERO, Duration::from_millis(2)),
            timer_lateness: Times::between(Duration::ZERO, Duration::from_millis(1)),
            ..Self::calm()
        }
    }

    /// As [rough](Self::rough), and cut after every byte.
    #[must_use]
    pub fn bytewise() -> Self {
        Self { cuts: Cuts::EveryByte, ..Self::rough() }
    }

    /// As [rough](Self::rough), with connections that are refused, unanswered, reset and silenced.
    #[must_use]
    pub fn nasty() -> Self {
        let begin = Times::between(Duration::ZERO, Duration::from_millis(200));
        Self { faults: Faults { refused: 0.05, unanswered: 0.02, reset: 0.15, silence: 0.1, begin }, ..Self::rough() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_stay_in_their_range_and_reach_both_parts() {
        let amounts = Amounts::between(3, 50_000);
        let mut random = Random::new(1);
        let drawn: Vec<u64> = (0..2_000).map(|_| amounts.draw(&mut random)).collect();
        assert!(drawn.iter().all(|amount| (3..=50_000).contains(amount)));
        assert!(drawn.iter().any(|&amount| amount < 10) && drawn.iter().any(|&amount| amount > 20_000));
        assert_eq!(Amounts::always(7).draw(&mut random), 7);
        assert_eq!(Amounts::always(0).draw(&mut random), 0);
    }
}
