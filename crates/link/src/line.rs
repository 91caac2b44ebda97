//! One direction of the path: the order of flows, the bandwidth, delays and losses.

use std::collections::VecDeque;
use std::time::Duration;

use breme_base::{Instant, Random, nanos};

use crate::settings::{Bandwidth, SEGMENT_BYTES, Settings};

/// A segment is lost at most this often. It is then late by 255 time-outs.
const LOSSES_MAX: u32 = 8;

#[derive(Debug)]
pub(crate) struct Line {
    bandwidth: Option<Bandwidth>,
    delay_min: Duration,
    delay_spread: Duration,
    loss: f64,
    retransmission_timeout: Duration,
    resets: f64,
    random: Random,
    /// When the line can take the next segment.
    pub(crate) free_at: Instant,
    /// The flows with something to send, by connection index.
    pub(crate) turns: VecDeque<usize>,
}

/// The fate of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It arrives after this many losses.
    Arrives { at: Instant, losses: u32 },
    /// The path resets the connection, for both sides at this instant.
    Reset { at: Instant },
}

impl Line {
    pub(crate) fn new(settings: &Settings, bandwidth: Option<Bandwidth>, random: Random) -> Self {
        Self {
            bandwidth,
            delay_min: settings.delay.saturating_sub(settings.jitter),
            delay_spread: settings.jitter * 2,
            loss: settings.loss,
            retransmission_timeout: settings.retransmission_timeout,
            resets: settings.resets,
            random,
            free_at: Instant::ZERO,
            turns: VecDeque::new(),
        }
    }

    /// When it can serve the next flow; none if no flow waits.
    pub(crate) fn next(&self) -> Option<Instant> {
        (!self.turns.is_empty()).then_some(self.free_at)
    }

    /// Removes the flow whose turn it is, if the line is free by now.
    pub(crate) fn pop_turn(&mut self, now: Instant) -> Option<usize> {
        if self.free_at > now { None } else { self.turns.pop_front() }
    }

    /// Bytes that a flow sends in its turn: unlimited if the path has no bandwidth, jitter, loss or resets.
    pub(crate) fn segment_bytes(&self) -> usize {
        let is_plain =
            self.bandwidth.is_none() && self.delay_spread.is_zero() && self.loss == 0.0 && self.resets == 0.0;
        if is_plain { usize::MAX } else { SEGMENT_BYTES }
    }

    /// Sends this many bytes, which were ready at `ready_at`.
    pub(crate) fn send(&mut self, ready_at: Instant, bytes: usize) -> Fate {
        let busy = self.bandwidth.map_or(Duration::ZERO, |bandwidth| bandwidth.time_for(bytes));
        let left = self.free_at.max(ready_at) + busy;
        self.free_at = left;
        let arrives = left + self.draw_delay();
        if self.resets > 0.0 && self.random.chance(self.resets) {
            return Fate::Reset { at: arrives };
        }
        let losses = self.draw_losses();
        Fate::Arrives { at: arrives + self.retransmission_timeout.saturating_mul((1 << losses) - 1), losses }
    }

    pub(crate) fn draw_delay(&mut self) -> Duration {
        if self.delay_spread.is_zero() {
            return self.delay_min;
        }
        self.delay_min + Duration::from_nanos(self.random.between(0, nanos(self.delay_spread)))
    }

    fn draw_losses(&mut self) -> u32 {
        let mut losses = 0;
        while self.loss > 0.0 && losses < LOSSES_MAX && self.random.chance(self.loss) {
            losses += 1;
        }
        losses
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn settings() -> Settings {
        Settings::to(vec![SocketAddr::from(([127, 0, 0, 1], 80))])
    }

    fn line(settings: &Settings, megabits: Option<u64>) -> Line {
        let bandwidth = megabits.map(|count| Bandwidth { bits_per_second: count * 1_000_000 });
        Line::new(settings, bandwidth, Random::new(1))
    }

    fn ms(count: u64) -> Instant {
        Instant::from_nanos(count * 1_000_000)
    }

    #[test]
    fn segments_leave_one_after_another() {
        let delay = Duration::from_millis(10);
        let mut line = line(&Settings { delay, ..settings() }, Some(1));
        // 125 bytes take a millisecond.
        let mut arrival = |ready, bytes| match line.send(ready, bytes) {
            Fate::Arrives { at, losses: 0 } => at,
            other => panic!("{other:?}"),
        };
        assert_eq!(arrival(ms(0), 125), ms(11));
        assert_eq!(arrival(ms(0), 250), ms(13));
        assert_eq!(arrival(ms(100), 125), ms(111), "an idle line saves nothing up");
    }

    #[test]
    fn delays_fill_the_range_of_the_jitter() {
        let (delay, jitter) = (Duration::from_millis(10), Duration::from_millis(2));
        let mut line = line(&Settings { delay, jitter, ..settings() }, None);
        let drawn: Vec<f64> = (0..10_000).map(|_| line.draw_delay().as_secs_f64() * 1e3).collect();
        assert!(drawn.iter().all(|delay| (8.0..=12.0).contains(delay)));
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        // Uniform: the standard error of the mean is 4 / √12 / 100 = 0.012.
        assert!((mean - 10.0).abs() < 0.05, "{mean}");
        assert!(drawn.iter().any(|&delay| delay < 8.1) && drawn.iter().any(|&delay| delay > 11.9));
    }

    #[test]
    fn losses_make_late_by_doubled_time_outs() {
        let retransmission_timeout = Duration::from_millis(200);
        let mut line = line(&Settings { loss: 0.25, retransmission_timeout, ..settings() }, None);
        let mut counts = [0_u32; LOSSES_MAX as usize + 1];
        for _ in 0..100_000 {
            let Fate::Arrives { at, losses } = line.send(Instant::ZERO, 1) else { panic!("there are no resets") };
            assert_eq!(at, ms(200 * ((1 << losses) - 1)));
            counts[losses as usize] += 1;
        }
        // 75,000, 18,750, 4,688 expected; the standard deviations are 137, 123, 67.
        let near = |count: u32, expected: u32| count.abs_diff(expected) < 700;
        assert!(near(counts[0], 75_000) && near(counts[1], 18_750) && near(counts[2], 4_688), "{counts:?}");
    }
}
