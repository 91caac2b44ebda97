//! The metrics of a site, in addition to those of every server.

use std::fmt;

use breme_admin::{Families, refusal_name};
use breme_http::Version;
use breme_origin::{FileCounts, ResponseCount, Site, SiteCounts, VisitorTotals};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

/// Exports a site's counters.
#[derive(Debug)]
pub(super) struct SiteMetrics(pub(super) Site);

impl Collector for SiteMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families::new(encoder);
        let counts = self.0.counts();
        // A request without a version was rejected.
        let may_be = |kind: &&ResponseCount| kind.version.is_some() || kind.status_class >= 4;
        let responses = counts.responses.iter().filter(may_be).map(|kind| {
            let labels = [
                ("status", format!("{}xx", kind.status_class)),
                ("version", kind.version.map_or("unknown", Version::name).to_owned()),
            ];
            (labels, kind.count)
        });
        families.counters("requests", "Completed responses, by status class and HTTP version.", responses)?;
        families.table(SiteCounts::METRICS, &counts)?;
        let refusals = counts.refusals.iter().map(|(reason, count)| ([("reason", refusal_name(*reason))], *count));
        families.counters("refusals", "Requests refused as malformed, too large or too slow, by reason.", refusals)?;
        counts.files.map_or(Ok(()), |files| families.table(FileCounts::METRICS, &files))?;
        counts.visitors.map_or(Ok(()), |visitors| families.table(VisitorTotals::METRICS, &visitors))
    }
}
