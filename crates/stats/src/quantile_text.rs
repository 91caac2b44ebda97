//! `.hgrm`: a distribution as text, in the layout of the HdrHistogram plotters.

use std::io::{self, Write};

use crate::Histogram;

/// Rows for each halving of the distance to 100 %: the usual density of the plotters.
const ROWS_PER_HALF_DISTANCE: u32 = 5;
/// Times are written in milliseconds.
const UNIT_NS: f64 = 1_000_000.0;

/// Writes the distribution of `histogram`, in milliseconds.
///
/// # Errors
///
/// Those of `out`.
pub fn write<W: Write>(out: &mut W, histogram: &Histogram) -> io::Result<()> {
    let counts = histogram.counts();
    writeln!(out, "{:>12} {:>14} {:>10} {:>14}\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")?;
    let mut total = 0;
    for step in counts.iter_quantiles(ROWS_PER_HALF_DISTANCE) {
        total += step.count_since_last_iteration();
        let value = step.value_iterated_to().min(histogram.max()) as f64 / UNIT_NS;
        let quantile = step.quantile_iterated_to();
        if quantile < 1.0 {
            writeln!(out, "{value:12.3} {quantile:2.12} {total:10} {:14.2}", 1.0 / (1.0 - quantile))?;
        } else {
            writeln!(out, "{value:12.3} {quantile:2.12} {total:10}")?;
        }
    }
    let (mean, stdev, max) =
        (histogram.mean() / UNIT_NS, histogram.stdev() / UNIT_NS, histogram.max() as f64 / UNIT_NS);
    writeln!(out, "#[Mean    = {mean:12.3}, StdDeviation   = {stdev:12.3}]")?;
    writeln!(out, "#[Max     = {max:12.3}, Total count    = {:12}]", histogram.count())?;
    writeln!(out, "#[Buckets = {:12}, SubBuckets     = {:12}]", counts.buckets(), 2048)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_at_all_samples_and_the_longest_time() {
        let mut histogram = Histogram::new();
        (1..=1_000).for_each(|millis| histogram.record(millis * 1_000_000));
        let mut out = Vec::new();
        write(&mut out, &histogram).unwrap();
        let text = String::from_utf8(out).unwrap();
        let rows: Vec<Vec<&str>> = text.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
        let last = rows.iter().rfind(|row| row.len() == 3).unwrap();
        assert_eq!(last[1..], ["1.000000000000", "1000"]);
        let half = rows.iter().find(|row| row[1] == "0.500000000000").unwrap();
        assert_eq!((half[2], half[3]), ("500", "2.00"));
        assert!(text.contains("#[Mean    =      500.500,"), "{text}");
    }
}
