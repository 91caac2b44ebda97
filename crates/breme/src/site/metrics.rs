//! What a site tells at `/metrics` besides what every server does.

use std::fmt;

use breme_http1::Version;
use breme_origin::{AnswerCount, Site, SiteCounts};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;

use crate::admin::{Families, refusal_name};

/// Reads a site's counters.
#[derive(Debug)]
pub(super) struct SiteMetrics(pub(super) Site);

impl Collector for SiteMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families::new(encoder);
        let SiteCounts { answers, pipelined, repeated, crowded_out, refusals, files, visitors, .. } = self.0.counts();
        // Whoever was refused that early was told so.
        let may_be = |kind: &&AnswerCount| kind.version.is_some() || kind.status_class >= 4;
        let answers = answers.iter().filter(may_be).map(|kind| {
            let labels =
                [("status", format!("{}xx", kind.status_class)), ("version", version(kind.version).to_owned())];
            (labels, kind.count)
        });
        families.counters("requests", "Requests that were answered completely, by status and version.", answers)?;
        let help = "Requests that had begun to come when the answer before them was complete.";
        families.counter("requests_pipelined", help, pipelined)?;
        let help = "Requests that were answered as the same ones before, without being read anew.";
        families.counter("requests_repeated", help, repeated)?;
        families.crowded_out(crowded_out)?;
        let refusals = refusals.iter().map(|(reason, count)| ([("reason", refusal_name(*reason))], *count));
        families.counters("refusals", "Requests that were refused, by reason.", refusals)?;
        if let Some(files) = files {
            families.counter("file_cache_hits", "Names that were asked for and known.", files.hits)?;
            families.counter("file_cache_misses", "Names for which the file system was read.", files.misses)?;
            families.gauge("file_cache_names", "Names that are kept.", files.kept.names as u64)?;
            families.gauge("file_cache_open_files", "Files that are kept open.", files.kept.open_files as u64)?;
            let help = "Bytes of files that are kept in memory.";
            families.gauge_of(&Unit::Bytes, "file_cache", help, files.kept.bytes as u64)?;
        }
        if let Some(visitors) = visitors {
            families.gauge("visitors", "Visitors who are remembered.", visitors.visitors)?;
            families.counter("visits", "Requests of visitors.", visitors.requests)?;
            families.counter("visitors_forgotten", "Visitors who are not remembered any more.", visitors.forgotten)?;
        }
        Ok(())
    }
}

fn version(version: Option<Version>) -> &'static str {
    match version {
        Some(Version::Http10) => "1.0",
        Some(Version::Http11) => "1.1",
        None => "unknown",
    }
}
