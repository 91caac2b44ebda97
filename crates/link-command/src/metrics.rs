//! The metrics of a path, in addition to those of every server.

use std::fmt;

use breme_admin::{Families, Label};
use breme_link::{Direction, DirectionCounts, Link};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;

/// Exports a path's counters.
#[derive(Debug)]
pub(super) struct LinkMetrics(pub(super) Link);

impl Collector for LinkMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families::new(encoder);
        let counts = self.0.counts();
        let of = |value: fn(&DirectionCounts) -> u64| {
            Direction::ALL.map(|direction| ([to(direction)], value(&counts.directions[direction as usize])))
        };
        families.counter("link_connections", "Client connections accepted.", counts.connections)?;
        let help = "Client connections reset because the server could not be reached.";
        families.counter("link_connects_failed", help, counts.connects_failed)?;
        families.counter("link_resets", "Connections reset by the path (--reset).", counts.resets)?;
        families.counters("link_bytes", "Bytes delivered, by destination.", of(|counts| counts.bytes))?;
        families.counters("link_losses", "Segments lost and sent again (--loss).", of(|counts| counts.losses))?;
        let help = "Bytes that wait for bandwidth or are in transit.";
        families.gauges_of(&Unit::Bytes, "link_held", help, of(|counts| counts.held_bytes))
    }
}

fn to(direction: Direction) -> Label {
    let to = match direction {
        Direction::ToServer => "server",
        Direction::ToClient => "client",
    };
    ("to", to.to_owned())
}
