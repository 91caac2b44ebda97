//! The lateness of requests.

use breme_load_result::Lateness;

use crate::tally::Tally;

pub(super) fn summary(tally: &Tally) -> Lateness {
    let (punctual, late) = (tally.punctual as f64, tally.lateness.count() as f64);
    // The quantile of all, as one of the late ones.
    let quantile = |quantile: f64| {
        let among_late = ((punctual + late) * quantile - punctual) / late;
        if among_late > 0.0 { tally.lateness.quantile(among_late.min(1.0)) } else { 0 }
    };
    Lateness {
        p50_ns: quantile(0.5),
        p90_ns: quantile(0.9),
        p99_ns: quantile(0.99),
        p999_ns: quantile(0.999),
        max_ns: quantile(1.0),
    }
}
