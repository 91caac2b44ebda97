//! Distributions out of records.

use breme_stats::Histogram;

/// The histogram of a record; none if there is none, or if it cannot be read.
pub(crate) fn decode(encoded: &str) -> Option<Histogram> {
    if encoded.is_empty() {
        return None;
    }
    Histogram::decode(encoded).ok().filter(|histogram| !histogram.is_empty())
}
