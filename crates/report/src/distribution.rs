//! Histograms of records.

use breme_stats::Histogram;

/// Decodes the histogram of a record; none if it is absent or invalid.
pub(crate) fn decode(encoded: &str) -> Option<Histogram> {
    if encoded.is_empty() {
        return None;
    }
    Histogram::decode(encoded).ok().filter(|histogram| !histogram.is_empty())
}
