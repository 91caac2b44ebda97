//! The metrics of a site, beside those of every server.

use std::fmt;

use breme_http::Version;
use breme_origin::{ResponseCount, Site, SiteCounts};
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
        let SiteCounts { responses, pipelined, repeated, evicted, refusals, files, visitors, .. } = self.0.counts();
        // Whoever was refused that early was told so.
        let may_be = |kind: &&ResponseCount| kind.version.is_some() || kind.status_class >= 4;
        let responses = responses.iter().filter(may_be).map(|kind| {
            let labels =
                [("status", format!("{}xx", kind.status_class)), ("version", version(kind.version).to_owned())];
            (labels, kind.count)
        });
        families.counters("requests", "Completed responses, by status class and HTTP version.", responses)?;
        let help = "Pipelined requests: begun before the previous response was complete.";
        families.counter("requests_pipelined", help, pipelined)?;
        let help = "Requests handled by replay: byte-identical to an earlier one, and so not parsed again.";
        families.counter("requests_repeated", help, repeated)?;
        families.evicted(evicted)?;
        let refusals = refusals.iter().map(|(reason, count)| ([("reason", refusal_name(*reason))], *count));
        families.counters("refusals", "Requests refused as malformed, too large or too slow, by reason.", refusals)?;
        if let Some(files) = files {
            families.counter("file_cache_hits", "File lookups answered from the cache.", files.hits)?;
            families.counter("file_cache_misses", "File lookups that read the file system.", files.misses)?;
            families.gauge("file_cache_names", "Cached file names.", files.kept.names as u64)?;
            families.gauge("file_cache_open_files", "Cached open files.", files.kept.open_files as u64)?;
            let help = "File contents cached in memory.";
            families.gauge_of(&Unit::Bytes, "file_cache", help, files.kept.bytes as u64)?;
        }
        if let Some(visitors) = visitors {
            families.gauge("visitors", "Visitors remembered.", visitors.visitors)?;
            families.counter("visits", "Requests by visitors.", visitors.requests)?;
            families.counter("visitors_forgotten", "Visitors forgotten to make room.", visitors.forgotten)?;
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
