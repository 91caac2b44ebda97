//! The metrics of a wiki.

use std::fmt;
use std::sync::Arc;

use breme_admin::Families;
use breme_wiki::web::Wiki;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;

/// Exports a wiki's counters.
pub(super) struct WikiMetrics(pub(super) Arc<Wiki>);

impl fmt::Debug for WikiMetrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WikiMetrics")
    }
}

impl Collector for WikiMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families::new(encoder);
        let reading = self.0.reading();
        let responses = (1..).zip(reading.responses);
        let responses = responses.map(|(class, count): (u8, u64)| ([("status", format!("{class}xx"))], count));
        families.counters("responses", "Responses, by status class.", responses)?;
        families.counter("requests", "Requests.", reading.requests)?;
        families.counter("wiki_writes", "Committed changes.", reading.writes)?;
        let help = "Changes refused because the page had changed in the meantime.";
        families.counter("wiki_conflicts", help, reading.conflicts)?;
        families.counter("wiki_rate_limited", "Requests refused by the rate limits.", reading.rate_limited)?;
        families.counter("wiki_render_hits", "Pages whose HTML was in memory.", reading.render_hits)?;
        families.counter("wiki_render_misses", "Pages rendered from Markdown.", reading.render_misses)?;
        families.gauge_of(&Unit::Bytes, "wiki_rendered", "Memory of rendered pages.", reading.rendered_bytes)?;
        let of_edges = |value: fn(&breme_wiki::purges::EdgeState) -> u64| {
            reading.edges.iter().map(move |edge| ([("edge", edge.authority.clone())], value(edge))).collect::<Vec<_>>()
        };
        if !reading.edges.is_empty() {
            let help = "Whether an edge confirms purges in time.";
            families.gauges("wiki_edge_live", help, of_edges(|edge| u64::from(edge.is_live)))?;
            families.counters("wiki_purges", "Purges that an edge has confirmed.", of_edges(|edge| edge.sent))?;
            families.counters(
                "wiki_purges_failed",
                "Failed attempts to purge an edge.",
                of_edges(|edge| edge.failed),
            )?;
        }
        Ok(())
    }
}
