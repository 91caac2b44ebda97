//! Whether the steady part is found if there is one, and rejected if there is none: the table of the module's
//! documentation.

use breme_base::Random;
use breme_stats::steady_state::{SeriesChange, Steadiness, find_steady};

use crate::at_most;
use crate::noise::{autocorrelated, heavy, normal};

const SERIES: usize = 300;

/// How many of the series are never steady, and how many have a warm-up.
fn judged(count: usize, make: impl Fn(usize, &mut Random) -> Vec<f64>) -> (usize, usize) {
    let mut random = Random::new(47);
    let (mut never, mut warm) = (0, 0);
    for _ in 0..SERIES {
        match find_steady(&make(count, &mut random)).steadiness {
            Steadiness::NeverSteady => never += 1,
            Steadiness::AfterWarmUp => warm += 1,
            Steadiness::Flat => {}
            Steadiness::TooShort => panic!("{count} values are enough"),
        }
    }
    (never, warm)
}

fn noisy(count: usize, memory: f64, deviation: f64, random: &mut Random, level: impl Fn(f64) -> f64) -> Vec<f64> {
    let noise = autocorrelated(count, memory, random);
    let place = |index: usize| index as f64 / count as f64;
    noise.into_iter().enumerate().map(|(index, noise)| level(place(index)) + deviation * noise).collect()
}

fn frozen(count: usize, length: usize, period: usize, random: &mut Random) -> Vec<f64> {
    let start = random.below(period as u64) as usize;
    let is_frozen = |index: usize| (index + start) % period < length;
    (0..count).map(|index| if is_frozen(index) { 0.0 } else { 1.0 + 0.02 * normal(random) }).collect()
}

#[test]
fn noise_is_no_reason_to_refuse() {
    for count in [30, 60, 120] {
        let check = |name: &str, most: f64, make: &dyn Fn(usize, &mut Random) -> Vec<f64>| {
            let (never, _) = judged(count, make);
            assert!(at_most(never, SERIES, most), "{name}, {count} values: {never} of {SERIES}");
        };
        check("normal", 0.01, &|count, random| noisy(count, 0.0, 0.1, random, |_| 1.0));
        check("autocorrelated", 0.05, &|count, random| noisy(count, 0.7, 0.1, random, |_| 1.0));
        check("heavy tails", 0.01, &|count, random| (0..count).map(|_| 1.0 + 0.05 * heavy(random)).collect());
        check("log-normal", 0.01, &|count, random| (0..count).map(|_| (0.4 * normal(random)).exp()).collect());
        check("a dip in ten", 0.01, &|count, random| frozen(count, 1, 10, random));
        check("two in twenty", 0.01, &|count, random| frozen(count, 2, 20, random));
    }
}

/// A freeze of one second every ten, in a trial of thirty seconds with ten values per second, or of two minutes with
/// one.
#[test]
fn freezes_that_come_again_are_part_of_it() {
    for (count, length, period) in [(300, 10, 100), (120, 1, 10), (120, 6, 60)] {
        let (never, _) = judged(count, |count, random| frozen(count, length, period, random));
        assert!(at_most(never, SERIES, 0.01), "{length} in {period}: {never} of {SERIES}");
    }
}

#[test]
fn a_changing_series_is_refused() {
    let check = |name: &str, count: usize, least: f64, make: &dyn Fn(usize, &mut Random) -> Vec<f64>| {
        let (never, _) = judged(count, make);
        assert!(never as f64 >= least * SERIES as f64, "{name}, {count} values: {never} of {SERIES}");
    };
    let step = |share: f64| move |place: f64| if place < 0.6 { 1.0 } else { 1.0 - share };
    let hump = |place: f64| if (0.65..0.85).contains(&place) { 0.9 } else { 1.0 };
    let leak = |share: f64| move |place: f64| 1.0 - share * place;
    for (count, least) in [(60, 0.9), (120, 0.97)] {
        check("a step of 10 %", count, least, &|count, random| noisy(count, 0.0, 0.05, random, step(0.1)));
        check("a while of 10 % less", count, least, &|count, random| noisy(count, 0.0, 0.03, random, hump));
        check("a leak of 20 %", count, least, &|count, random| noisy(count, 0.0, 0.05, random, leak(0.2)));
        check("a fast leak", count, least, &|count, random| noisy(count, 0.7, 0.05, random, leak(0.5)));
    }
    check("a step beside freezes", 120, 0.9, &|count, random| {
        let mut series = noisy(count, 0.0, 0.03, random, step(0.1));
        series.iter_mut().skip(7).step_by(12).for_each(|value| *value = 0.0);
        series
    });
    check("a leak of 10 %", 120, 0.9, &|count, random| noisy(count, 0.0, 0.03, random, leak(0.1)));
    check("a step of 20 %", 120, 0.9, &|count, random| noisy(count, 0.7, 0.05, random, step(0.2)));
    check("a step of 5 %", 30, 0.9, &|count, random| noisy(count, 0.0, 0.01, random, step(0.05)));
}

#[test]
fn a_tiny_change_is_no_reason_to_refuse() {
    let step = |place: f64| if place < 0.6 { 1.0 } else { 1.01 };
    for count in [60, 120] {
        let judged = judged(count, |count, random| noisy(count, 0.0, 0.003, random, step));
        assert_eq!(judged, (0, 0), "{count} values");
    }
}

#[test]
fn a_warm_up_is_cut_off() {
    let check = |name: &str, at_least: f64, level: &dyn Fn(f64) -> f64| {
        for count in [60, 120] {
            let mut random = Random::new(53);
            let found = (0..SERIES).filter(|_| {
                let part = find_steady(&noisy(count, 0.0, 0.04, &mut random, level));
                let from = part.from as f64 / count as f64;
                part.steadiness == Steadiness::AfterWarmUp && from >= at_least - 0.02 && from <= 0.51
            });
            let found = found.count();
            assert!(found * 100 >= SERIES * 97, "{name}, {count} values: {found} of {SERIES}");
        }
    };
    check("half the rate for a third", 1.0 / 3.0, &|place| if place < 1.0 / 3.0 { 0.5 } else { 1.0 });
    check("20 % less for 45 %", 0.45, &|place| if place < 0.45 { 0.8 } else { 1.0 });
    check("an exponential approach", 0.1, &|place| 1.0 - 0.6 * (-15.0 * place).exp());
    check("a ramp", 0.25, &|place| (0.3 + 0.7 * place / 0.3).min(1.0));
}

/// A disturbance of a sixth of the trial, anywhere in its first half: only series that begin within it may be mistaken
/// for a warm-up.
#[test]
fn a_disturbance_is_seldom_taken_for_a_warm_up() {
    for count in [50, 100] {
        let mut random = Random::new(61);
        let mut cut = 0;
        for _ in 0..SERIES {
            let from = 0.02 + 0.3 * random.unit();
            let level = |place: f64| if (from..from + 0.17).contains(&place) { 1.5 } else { 1.0 };
            cut += usize::from(find_steady(&noisy(count, 0.3, 0.08, &mut random, level)).from > 0);
        }
        assert!(cut * 100 <= SERIES * 17, "{count} values: {cut} of {SERIES}");
    }
}

/// A server that needs 20 s to warm up, in a trial of a minute and in one of half a minute: there it only gets faster.
#[test]
fn a_warm_up_longer_than_half_is_none() {
    let mut random = Random::new(59);
    let minute: Vec<f64> =
        (0..60).map(|second| if second < 20 { 300.0 } else { 1_000.0 + 20.0 * normal(&mut random) }).collect();
    assert_eq!(find_steady(&minute).steadiness, Steadiness::AfterWarmUp);
    assert!((20..=30).contains(&find_steady(&minute).from));
    let half = find_steady(&minute[..30]);
    assert_eq!(half.steadiness, Steadiness::NeverSteady);
    let Some(SeriesChange::Level { from, to, share }) = half.change else { panic!("{half:?}") };
    assert!((18..=22).contains(&from) && to == 30 && share > 0.5, "{half:?}");
}
