//! Times without a successful response.

use breme_base::Instant;
use breme_load_result::AvailabilitySummary;

use crate::availability::Gap;
use crate::error_kind::ErrorKind;
use crate::tally::Tally;

const SERVICE_UNAVAILABLE: usize = 503;

/// Of shards that are merged and closed, in a run that began at `started`.
pub(super) fn summary(tally: &Tally, started: Instant) -> AvailabilitySummary {
    let availability = &tally.availability;
    let from = |gap: Gap| if gap.length_ns == 0 { 0 } else { gap.since.nanos_since(started) };
    let since_start = |at: Instant| at.nanos_since(started);
    AvailabilitySummary {
        gap_ns: availability.gap.length_ns,
        gap_from_ns: from(availability.gap),
        user_gap_ns: availability.user_gap.length_ns,
        user_gap_from_ns: from(availability.user_gap),
        refused: tally.errors_of(ErrorKind::Refused) + tally.statuses.0[SERVICE_UNAVAILABLE],
        last_failure_ns: availability.last_failure.map(since_start),
        recovered_ns: availability.recovered.map(since_start),
    }
}
