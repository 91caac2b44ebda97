//! Runs a test with many seeds, each of which can be run alone.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Environment variable: run only this seed.
pub const ONE_SEED: &str = "BREME_SIM_SEED";
/// Environment variable: number of seeds to run.
pub const SEED_COUNT: &str = "BREME_SIM_SEEDS";

/// Calls `play` with seeds 0 to `count`, unless the environment ([`ONE_SEED`], [`SEED_COUNT`]) overrides it.
///
/// # Panics
///
/// With the panic of the first failing seed, after printing how to run it again; and on invalid environment variables.
pub fn seeds(count: u64, mut play: impl FnMut(u64)) {
    let read = |name: &str| std::env::var(name).ok();
    let planned = plan(count, read(ONE_SEED).as_deref(), read(SEED_COUNT).as_deref());
    for seed in planned.unwrap_or_else(|trouble| panic!("{trouble}")) {
        let outcome = catch_unwind(AssertUnwindSafe(|| play(seed)));
        if let Err(panic) = outcome {
            eprintln!("seed {seed} failed; to play it alone: {ONE_SEED}={seed} cargo test …");
            resume_unwind(panic);
        }
    }
}

fn plan(count: u64, one: Option<&str>, many: Option<&str>) -> Result<Range<u64>, String> {
    let number = |name: &str, text: &str| {
        text.trim().parse::<u64>().map_err(|_| format!("{name}={text} is not a whole number: give one, or unset it"))
    };
    match (one, many) {
        (Some(one), _) => number(ONE_SEED, one).map(|seed| seed..seed.saturating_add(1)),
        (None, Some(many)) => number(SEED_COUNT, many).map(|count| 0..count),
        (None, None) => Ok(0..count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_overrides_seeds() {
        assert_eq!(plan(10, None, None), Ok(0..10));
        assert_eq!(plan(10, None, Some("2000")), Ok(0..2_000));
        assert_eq!(plan(10, Some("17"), Some("2000")), Ok(17..18));
        assert_eq!(
            plan(10, Some("x"), None),
            Err("BREME_SIM_SEED=x is not a whole number: give one, or unset it".into())
        );
    }
}
