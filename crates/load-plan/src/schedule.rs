//! When requests are due in an open loop: a pure function of the seed and the number of the request.
//!
//! The rate over time is a chain of straight lines; its integral from the beginning is the **position**: the number of
//! requests due until then, as a real number. Number `k` of an even schedule is due where the position is `k`; those of
//! a Poisson process are due where the positions of a Poisson process of rate 1 are (a process of any rate is one of
//! rate 1 on another time axis). So one function, from position to time, covers every combination in closed form, and
//! the schedule does not depend on the caller, the time of the call, or the number of threads.
//!
//! The Poisson process of rate 1 is cut into cells of [`CELL`]. The arrivals in a cell follow from the seed and the
//! number of the cell alone: exponentially distributed steps, from the cell's start to its end (the process is
//! memoryless, so cells are independent).

use breme_base::Random;

use crate::pace::{Arrivals, Pace, Shape};

/// The mean number of arrivals in a cell of the Poisson process: few enough to draw a cell quickly, many enough to have
/// few cells.
const CELL: f64 = 32.0;
/// Separates the random stream of arrivals from other uses of the run's seed.
const ARRIVALS_STREAM: u64 = 0xA5A5_0000_0000_0001;
const NANOS_PER_SECOND: f64 = 1e9;

/// The instants of all arrivals, in nanoseconds from the start of the run.
///
/// Numbers and instants must be passed in ascending order, so that a Poisson process need not start again for each
/// call.
#[derive(Debug)]
pub struct Schedule {
    rates: Rates,
    /// The positions of the arrivals; none if they are the numbers themselves.
    by_number: Option<Cells>,
    by_time: Option<Cells>,
}

impl Schedule {
    #[must_use]
    pub fn new(pace: &Pace, seed: u64) -> Self {
        let cells = (pace.arrivals == Arrivals::Poisson).then(|| Cells::new(seed));
        Self { rates: Rates::new(pace), by_number: cells.clone(), by_time: cells }
    }

    /// When `number` is due; none if it never is. Numbers must ascend.
    pub fn due(&mut self, number: u64) -> Option<u64> {
        let position = match &mut self.by_number {
            None => number as f64,
            Some(cells) => cells.position_of(number),
        };
        self.rates.nanos_at(position)
    }

    /// How many are due until `nanos`, inclusive. Instants must ascend.
    pub fn count_until(&mut self, nanos: u64) -> u64 {
        let position = self.rates.position_at(nanos);
        let rates = &self.rates;
        let is_due = |position: f64| rates.nanos_at(position).is_some_and(|due| due <= nanos);
        match &mut self.by_time {
            None => {
                // Rounding to nanoseconds may move it by one.
                let mut count = position as u64;
                while is_due(count as f64) {
                    count += 1;
                }
                while count > 0 && !is_due((count - 1) as f64) {
                    count -= 1;
                }
                count
            }
            Some(cells) => cells.count_while(position, is_due),
        }
    }
}

/// The rate over time, as straight lines.
#[derive(Clone, Debug)]
struct Rates {
    lines: Vec<RateLine>,
}

#[derive(Clone, Copy, Debug)]
struct RateLine {
    start_s: f64,
    length_s: f64,
    /// The position at its start.
    start_position: f64,
    rate: f64,
    /// The increase of the rate per second.
    slope: f64,
}

impl Rates {
    fn new(pace: &Pace) -> Self {
        let mut lines = Vec::with_capacity(pace.stages.len() + 1);
        let (mut start_s, mut start_position, mut before) = (0.0, 0.0, pace.rate);
        for stage in &pace.stages {
            let length_s = stage.duration.as_secs_f64();
            let rate = if stage.shape == Shape::Step { stage.rate } else { before };
            if length_s > 0.0 {
                let line = RateLine { start_s, length_s, start_position, rate, slope: (stage.rate - rate) / length_s };
                lines.push(line);
                start_position += (rate + stage.rate) / 2.0 * length_s;
                start_s += length_s;
            }
            before = stage.rate;
        }
        lines.push(RateLine { start_s, length_s: f64::INFINITY, start_position, rate: before, slope: 0.0 });
        Self { lines }
    }

    /// The line at this second.
    fn line_at(&self, second: f64) -> RateLine {
        let place = self.lines.partition_point(|line| line.start_s <= second).max(1) - 1;
        self.lines[place]
    }

    fn position_at(&self, nanos: u64) -> f64 {
        let second = nanos as f64 / NANOS_PER_SECOND;
        let line = self.line_at(second);
        let since = second - line.start_s;
        line.start_position + since * (line.rate + line.slope * since / 2.0)
    }

    /// The first instant after which the position is above this one; none if it never is. (If the rate is 0 for a
    /// while, an arrival at its edge is due after the pause, as at the start.)
    fn nanos_at(&self, position: f64) -> Option<u64> {
        let place = self.lines.partition_point(|line| line.start_position <= position).max(1) - 1;
        let line = self.lines[place];
        if line.rate == 0.0 && line.slope == 0.0 {
            return None; // of several lines that begin here, this is the last
        }
        let rest = position - line.start_position;
        // The root of rate·t + slope·t²/2 = rest, in the numerically stable form; rounding may put it beyond the line's
        // end.
        let root = (line.rate * line.rate + 2.0 * line.slope * rest).max(0.0).sqrt();
        let since = if rest > 0.0 { (2.0 * rest / (line.rate + root)).min(line.length_s) } else { 0.0 };
        since.is_finite().then(|| ((line.start_s + since) * NANOS_PER_SECOND).round() as u64)
    }
}

/// A position in the Poisson process of rate 1, which only advances.
#[derive(Clone, Debug)]
struct Cells {
    seed: u64,
    cell: u64,
    /// The number of the first arrival in the cell.
    first: u64,
    /// The positions of its arrivals, ascending.
    positions: Vec<f64>,
    /// How many arrivals of this cell were counted as due.
    counted: usize,
}

impl Cells {
    fn new(seed: u64) -> Self {
        let mut cells = Self { seed, cell: 0, first: 0, positions: Vec::with_capacity(2 * CELL as usize), counted: 0 };
        cells.draw();
        cells
    }

    fn position_of(&mut self, number: u64) -> f64 {
        while number >= self.first + self.positions.len() as u64 {
            self.move_on();
        }
        self.positions[(number.saturating_sub(self.first)) as usize]
    }

    /// Counts the arrivals that are due, none of which is far beyond `position`.
    fn count_while(&mut self, position: f64, is_due: impl Fn(f64) -> bool) -> u64 {
        while (self.cell + 1) as f64 * CELL <= position - 1.0 {
            self.move_on();
        }
        loop {
            while self.positions.get(self.counted).is_some_and(|&position| is_due(position)) {
                self.counted += 1;
            }
            let is_cell_done = self.counted == self.positions.len() && (self.cell + 1) as f64 * CELL <= position;
            if !is_cell_done {
                return self.first + self.counted as u64;
            }
            self.move_on();
        }
    }

    fn move_on(&mut self) {
        self.first += self.positions.len() as u64;
        self.cell += 1;
        self.counted = 0;
        self.draw();
    }

    fn draw(&mut self) {
        let mut random = Random::stream(self.seed ^ ARRIVALS_STREAM, self.cell);
        self.positions.clear();
        let mut within = exponential(&mut random);
        while within < CELL {
            self.positions.push(self.cell as f64 * CELL + within);
            within += exponential(&mut random);
        }
    }
}

fn exponential(random: &mut Random) -> f64 {
    -(1.0 - random.unit()).ln()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::pace::PaceStage;

    fn ramp(seconds: f64, rate: f64) -> PaceStage {
        PaceStage { duration: Duration::from_secs_f64(seconds), rate, shape: Shape::Ramp }
    }

    fn step(seconds: f64, rate: f64) -> PaceStage {
        PaceStage { shape: Shape::Step, ..ramp(seconds, rate) }
    }

    fn dues(pace: &Pace, count: u64) -> Vec<u64> {
        let mut schedule = Schedule::new(pace, 7);
        (0..count).map_while(|number| schedule.due(number)).collect()
    }

    #[test]
    fn an_even_rate_has_equal_distances() {
        let pace = Pace::constant(20_000.0, Arrivals::Even);
        let dues = dues(&pace, 100_000);
        assert!(dues.iter().enumerate().all(|(number, &due)| due == number as u64 * 50_000));
        let thirds = Schedule::new(&Pace::constant(3.0, Arrivals::Even), 1).due(3_000_000_000).unwrap();
        assert_eq!(thirds, 1_000_000_000_000_000_000, "no error adds up");
    }

    #[test]
    fn a_ramp_rises_in_a_straight_line() {
        // From 0 to 1000/s in 10 s: k arrivals until sqrt(k / 50) s.
        let pace = Pace { stages: vec![ramp(10.0, 1_000.0)], ..Pace::constant(0.0, Arrivals::Even) };
        let dues = dues(&pace, 6_000);
        for (number, &due) in dues.iter().enumerate().take(5_000) {
            let expected = (number as f64 / 50.0).sqrt() * 1e9;
            assert!((due as f64 - expected).abs() <= 1.0, "{number}: {due} is not {expected}");
        }
        assert_eq!(dues[5_500], 10_500_000_000, "after it, the rate stays");
    }

    #[test]
    fn a_ramp_may_fall_to_nothing() {
        let pace = Pace { stages: vec![ramp(10.0, 0.0)], ..Pace::constant(100.0, Arrivals::Even) };
        let dues = dues(&pace, 1_000);
        assert_eq!(dues.len(), 500);
        assert_eq!(dues[499], 9_552_786_405, "10 s - √(2 · 1 / 10)");
    }

    #[test]
    fn steps_hold_and_pauses_pause() {
        let stages = vec![step(1.0, 10.0), step(1.0, 0.0), step(1.0, 2.0)];
        let dues = dues(&Pace { stages, ..Pace::constant(0.0, Arrivals::Even) }, 14);
        let tenths: Vec<u64> = dues.iter().map(|due| due / 100_000_000).collect();
        assert_eq!(tenths, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 25, 30, 35]);
    }

    #[test]
    fn a_rate_of_nothing_is_never_due() {
        assert!(dues(&Pace::constant(0.0, Arrivals::Even), 5).is_empty());
        assert!(dues(&Pace::constant(0.0, Arrivals::Poisson), 5).is_empty());
    }

    #[test]
    fn poisson_arrivals_have_exponential_distances() {
        let count = 200_000;
        let dues = dues(&Pace::constant(1_000.0, Arrivals::Poisson), count);
        let gaps: Vec<f64> = dues.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Mean and deviation are 1 ms; five standard errors.
        assert!((mean - 1.0).abs() < 5.0 / (count as f64).sqrt(), "{mean}");
        assert!((variance - 1.0).abs() < 5.0 * (8.0 / count as f64).sqrt(), "{variance}");
        for quantile in [0.1, 0.5, 0.9, 0.99] {
            let limit = -(1.0_f64 - quantile).ln();
            let share = gaps.iter().filter(|&&gap| gap <= limit).count() as f64 / gaps.len() as f64;
            assert!((share - quantile).abs() < 0.005, "{quantile}: {share}");
        }
        // Neighbouring distances are independent, also across the borders of cells.
        let products: f64 = gaps.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
        assert!((products / variance / gaps.len() as f64).abs() < 0.012);
    }

    #[test]
    fn another_seed_gives_another_process() {
        let pace = Pace::constant(10.0, Arrivals::Poisson);
        assert_ne!(Schedule::new(&pace, 1).due(0), Schedule::new(&pace, 2).due(0));
    }

    fn any_pace() -> impl Strategy<Value = Pace> {
        let rate = prop_oneof![Just(0.0), 1.0..2_000.0_f64];
        let stage = (0..3_000_u64, rate.clone(), any::<bool>()).prop_map(|(millis, rate, is_ramp)| PaceStage {
            duration: Duration::from_millis(millis),
            rate,
            shape: if is_ramp { Shape::Ramp } else { Shape::Step },
        });
        (rate, proptest::collection::vec(stage, 0..5), any::<bool>()).prop_map(|(rate, stages, is_even)| Pace {
            rate,
            stages,
            arrivals: if is_even { Arrivals::Even } else { Arrivals::Poisson },
        })
    }

    proptest! {
        #[test]
        fn counts_agree_with_due_instants(pace in any_pace(), seed in 0..50_u64) {
            let mut listed = Schedule::new(&pace, seed);
            let dues: Vec<u64> = (0..3_000).map_while(|number| listed.due(number)).collect();
            prop_assert!(dues.is_sorted());
            let mut counted = Schedule::new(&pace, seed);
            let mut random = Random::new(seed);
            let mut nanos = 0;
            while dues.last().is_some_and(|&last| nanos < last) {
                let expected = dues.partition_point(|&due| due <= nanos) as u64;
                if expected < 3_000 {
                    prop_assert_eq!(counted.count_until(nanos), expected, "at {}", nanos);
                }
                nanos = match random.below(3) {
                    0 => nanos + random.below(1_000_000_000),
                    1 => nanos + 1,
                    _ => dues[(expected as usize).min(dues.len() - 1)].max(nanos + 1), // exactly when the next is due
                };
            }
        }

        #[test]
        fn position_and_time_are_inverse(pace in any_pace(), position in 0.0..5_000.0_f64) {
            let rates = Rates::new(&pace);
            if let Some(nanos) = rates.nanos_at(position) {
                let back = rates.position_at(nanos);
                // Half a nanosecond at 2,000/s, plus floating-point error.
                prop_assert!((back - position).abs() < 1e-4, "{} became {}", position, back);
            }
        }
    }
}
