//! Properties of the simulated network. Each is a range from which connections, segments or events draw their own.

use std::time::Duration;

use breme_base::{Random, nanos};

/// An inclusive range of durations.
#[derive(Clone, Copy, Debug)]
pub struct DurationRange {
    pub low: Duration,
    pub high: Duration,
}

impl DurationRange {
    #[must_use]
    pub const fn between(low: Duration, high: Duration) -> Self {
        Self { low, high }
    }

    #[must_use]
    pub const fn always(time: Duration) -> Self {
        Self { low: time, high: time }
    }

    pub(crate) fn draw(self, random: &mut Random) -> Duration {
        Duration::from_nanos(random.between(nanos(self.low), nanos(self.high)))
    }
}

/// An inclusive range of amounts, drawn uniformly by magnitude.
#[derive(Clone, Copy, Debug)]
pub struct AmountRange {
    pub low: u64,
    pub high: u64,
}

impl AmountRange {
    #[must_use]
    pub const fn between(low: u64, high: u64) -> Self {
        Self { low, high }
    }

    #[must_use]
    pub const fn always(amount: u64) -> Self {
        Self { low: amount, high: amount }
    }

    /// Integers only, so that all machines draw the same.
    pub(crate) fn draw(self, random: &mut Random) -> u64 {
        let doublings = u64::from((self.high / self.low.max(1)).max(1).ilog2());
        let floor = self.low.max(1) << random.below(doublings + 1);
        random.between(floor.max(self.low).min(self.high), (floor * 2).clamp(self.low, self.high))
    }
}

/// Where the stream is split into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cuts {
    /// Only at the end of the window.
    Nowhere,
    Anywhere,
    EveryByte,
}

/// Faults, as probabilities per connection.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// No listener.
    pub refused: f64,
    /// No response: the attempt times out.
    pub unanswered: f64,
    /// Reset by the network at both ends, some time after the start.
    pub reset: f64,
    /// Everything is dropped in both directions, from some time after the start.
    pub silence: f64,
    /// When resets and silence start, after the connection.
    pub begin: DurationRange,
}

impl Faults {
    pub const NONE: Self =
        Self { refused: 0.0, unanswered: 0.0, reset: 0.0, silence: 0.0, begin: DurationRange::always(Duration::ZERO) };
}

/// The network, and the limits of the drivers.
#[derive(Clone, Debug)]
pub struct Network {
    /// Transit time of a segment. Segments of one direction stay in order.
    pub delay: DurationRange,
    pub cuts: Cuts,
    /// Bytes in transit or unread at the receiver, per direction; beyond that the sender's queue grows.
    pub window_bytes: AmountRange,
    /// Probability that a direction is slow.
    pub slow: f64,
    /// Bytes per second of a slow direction.
    pub slow_rate: AmountRange,
    /// Receive buffer of a connection, and most bytes lent at once.
    pub lent_bytes_max: usize,
    /// High-water mark of a send queue, per end.
    pub long_queue_bytes: AmountRange,
    /// Probability of a short read.
    pub short_reads: f64,
    /// Delay of a driver's reaction; segments that arrive meanwhile are read together.
    pub lateness: DurationRange,
    /// Delay of deadlines.
    pub timer_lateness: DurationRange,
    pub connect_timeout: Duration,
    /// A graceful close without progress for this long is dropped; so is one that takes ten times as long.
    pub closing_timeout: Duration,
    /// Limit of bytes discarded by a graceful close.
    pub closing_bytes_max: u64,
    pub stopping_timeout: Duration,
    /// Retransmission time into a silent connection, after which it fails.
    pub resend_timeout: Duration,
    pub faults: Faults,
}

impl Network {
    /// Segments arrive whole, with constant delay.
    #[must_use]
    pub fn calm() -> Self {
        Self {
            delay: DurationRange::always(Duration::from_micros(50)),
            cuts: Cuts::Nowhere,
            window_bytes: AmountRange::always(64 << 10),
            slow: 0.0,
            slow_rate: AmountRange::always(1 << 20),
            lent_bytes_max: 64 << 10,
            long_queue_bytes: AmountRange::always(16 << 10),
            short_reads: 0.0,
            lateness: DurationRange::always(Duration::ZERO),
            timer_lateness: DurationRange::always(Duration::ZERO),
            connect_timeout: Duration::from_secs(10),
            closing_timeout: Duration::from_secs(5),
            closing_bytes_max: 16 << 20,
            stopping_timeout: Duration::from_secs(30),
            resend_timeout: Duration::from_secs(900),
            faults: Faults::NONE,
        }
    }

    /// Segments are cut anywhere, with random delays, small windows and slow readers. Nothing is lost, so a failure is
    /// a bug.
    #[must_use]
    pub fn rough() -> Self {
        Self {
            delay: DurationRange::between(Duration::from_micros(1), Duration::from_millis(20)),
            cuts: Cuts::Anywhere,
            window_bytes: AmountRange::between(512, 64 << 10),
            slow: 0.2,
            slow_rate: AmountRange::between(20_000, 2_000_000),
            long_queue_bytes: AmountRange::between(1, 32 << 10),
            short_reads: 0.3,
            lateness: DurationRange::between(Duration::ZERO, Duration::from_millis(2)),
            timer_lateness: DurationRange::between(Duration::ZERO, Duration::from_millis(1)),
            ..Self::calm()
        }
    }

    /// As [rough](Self::rough), cut after every byte.
    #[must_use]
    pub fn bytewise() -> Self {
        Self { cuts: Cuts::EveryByte, ..Self::rough() }
    }

    /// As [rough](Self::rough), with refused, unanswered, reset and silent connections.
    #[must_use]
    pub fn nasty() -> Self {
        let begin = DurationRange::between(Duration::ZERO, Duration::from_millis(200));
        Self { faults: Faults { refused: 0.05, unanswered: 0.02, reset: 0.15, silence: 0.1, begin }, ..Self::rough() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_cover_their_range() {
        let amounts = AmountRange::between(3, 50_000);
        let mut random = Random::new(1);
        let drawn: Vec<u64> = (0..2_000).map(|_| amounts.draw(&mut random)).collect();
        assert!(drawn.iter().all(|amount| (3..=50_000).contains(amount)));
        assert!(drawn.iter().any(|&amount| amount < 10) && drawn.iter().any(|&amount| amount > 20_000));
        assert_eq!(AmountRange::always(7).draw(&mut random), 7);
        assert_eq!(AmountRange::always(0).draw(&mut random), 0);
    }
}
