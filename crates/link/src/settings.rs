use std::net::SocketAddr;
use std::time::Duration;

use breme_base::nanos;
use breme_node::ConnectError;
use thiserror::Error;

use crate::Direction;

/// Content of a TCP segment on Ethernet: 1500 bytes less the headers of IPv4 and TCP. Losses and jitter are drawn for
/// each segment, and flows take turns by segments.
pub const SEGMENT_BYTES: usize = 1460;
/// Limit of bytes in all flows together.
pub const HELD_BYTES_MAX: usize = 512 << 20;
/// The minimum window, so that one connection can fill a path of short delay.
const WINDOW_BYTES_MIN: u64 = 256 << 10;
/// Without a bandwidth limit, windows are sized for this one: a single connection is limited to about twice that.
const WINDOW_BANDWIDTH: Bandwidth = Bandwidth { bits_per_second: 1_000_000_000 };

#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Addresses of the server, tried in turn.
    pub servers: Vec<SocketAddr>,
    /// One way, in each direction.
    pub delay: Duration,
    /// The delay of a segment is uniform from `delay - jitter` to `delay + jitter`.
    pub jitter: Duration,
    /// By [`Direction`]; none: unlimited.
    pub bandwidths: [Option<Bandwidth>; 2],
    pub loss: f64,
    /// The delay of a lost segment; it doubles with each further loss of the same segment.
    pub retransmission_timeout: Duration,
    /// The probability, per segment, that the path resets the connection.
    pub resets: f64,
    pub seed: u64,
    /// Called with the last error when no address could be connected to.
    pub report_unreachable: fn(ConnectError),
}

/// The capacity of a line. Only the content of TCP connections is counted, no headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// Above 0.
    pub bits_per_second: u64,
}

impl Bandwidth {
    pub(crate) fn time_for(self, bytes: usize) -> Duration {
        let nanos = bytes as u128 * 8 * 1_000_000_000 / u128::from(self.bits_per_second);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn bytes_in(self, time: Duration) -> u64 {
        let bytes = u128::from(nanos(time)) * u128::from(self.bits_per_second) / 8 / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

impl Settings {
    /// A path without delay, bandwidth limits and loss.
    #[must_use]
    pub fn to(servers: Vec<SocketAddr>) -> Self {
        Self {
            servers,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            bandwidths: [None; 2],
            loss: 0.0,
            retransmission_timeout: Duration::from_millis(200),
            resets: 0.0,
            seed: 0,
            report_unreachable: |_| (),
        }
    }

    /// The window: how many bytes of one connection a direction holds. Twice the data in transit at full use, so that
    /// it is never the limit.
    #[must_use]
    pub fn window(&self, direction: Direction) -> usize {
        let bandwidth = self.bandwidths[direction.index()].unwrap_or(WINDOW_BANDWIDTH);
        let stall = if self.loss > 0.0 { self.retransmission_timeout } else { Duration::ZERO };
        let in_transit = bandwidth.bytes_in(self.delay + self.jitter + stall);
        let window = in_transit.saturating_mul(2).clamp(WINDOW_BYTES_MIN, HELD_BYTES_MAX as u64);
        usize::try_from(window).unwrap_or(usize::MAX)
    }

    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        if self.servers.is_empty() {
            return Err(SettingsError::NoServer);
        }
        if self.jitter > self.delay {
            return Err(SettingsError::Jitter);
        }
        if self.bandwidths.iter().flatten().any(|bandwidth| bandwidth.bits_per_second == 0) {
            return Err(SettingsError::Bandwidth);
        }
        for (probability, error) in [(self.loss, SettingsError::Loss), (self.resets, SettingsError::Resets)] {
            if !(0.0..1.0).contains(&probability) {
                return Err(error);
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SettingsError {
    #[error("the server has no address")]
    NoServer,
    #[error("the jitter is larger than the delay; lower it or raise the delay")]
    Jitter,
    #[error("the bandwidth is 0; it must be at least 1 bit/s")]
    Bandwidth,
    #[error("the loss must be below 100 %")]
    Loss,
    #[error("the share of resets must be below 100 %")]
    Resets,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::to(vec![SocketAddr::from(([127, 0, 0, 1], 80))])
    }

    #[test]
    fn a_window_is_twice_what_is_in_transit() {
        let megabits = |count: u64| Some(Bandwidth { bits_per_second: count * 1_000_000 });
        let delay = Duration::from_millis(18);
        let slow = Settings { delay, bandwidths: [megabits(1), megabits(1_000)], ..settings() };
        assert_eq!(slow.window(Direction::ToServer), 256 << 10);
        assert_eq!(slow.window(Direction::ToClient), 4_500_000);
        let lossy = Settings { loss: 0.01, ..slow };
        assert_eq!(lossy.window(Direction::ToClient), 4_500_000 + 50_000_000);
    }

    #[test]
    fn invalid_settings_are_refused() {
        assert_eq!(settings().check(), Ok(()));
        let wrong = [
            (Settings { servers: Vec::new(), ..settings() }, SettingsError::NoServer),
            (Settings { jitter: Duration::from_nanos(1), ..settings() }, SettingsError::Jitter),
            (
                Settings { bandwidths: [None, Some(Bandwidth { bits_per_second: 0 })], ..settings() },
                SettingsError::Bandwidth,
            ),
            (Settings { loss: 1.0, ..settings() }, SettingsError::Loss),
            (Settings { resets: f64::NAN, ..settings() }, SettingsError::Resets),
        ];
        for (settings, error) in wrong {
            assert_eq!(settings.check(), Err(error));
        }
    }

    #[test]
    fn a_segment_keeps_a_line_busy() {
        let bandwidth = Bandwidth { bits_per_second: 1_000_000 };
        assert_eq!(bandwidth.time_for(SEGMENT_BYTES), Duration::from_micros(11_680));
        assert_eq!(bandwidth.bytes_in(Duration::from_millis(18)), 2_250);
    }
}
