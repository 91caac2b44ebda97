//! The metrics of session nodes.

use std::fmt;

use breme_admin::{Families, Label, Maintenance, ProcessMetrics, application_registry};
use breme_cluster::node::{Node, Stages};
use breme_session::{Durability, Gauges, Statistics};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::{Registry, Unit};

use super::arguments::ROLE;

/// Exports the counters of nodes.
#[derive(Debug)]
struct SessionMetrics(Vec<Node>);

/// All metrics of a process with these nodes.
pub(super) fn registry(process: ProcessMetrics, maintenance: Maintenance, nodes: Vec<Node>) -> Registry {
    application_registry(ROLE, process, [Box::new(maintenance), Box::new(SessionMetrics(nodes))])
}

/// Name, help, and value.
type Metric<T, V> = (&'static str, &'static str, fn(&T) -> V);
/// A label and its value.
type Labelled<T, V> = (&'static str, fn(&T) -> V);

const COUNTERS: [Metric<Statistics, u64>; 13] = [
    ("session_requests", "Requests for sessions.", |counts| counts.requests),
    ("session_leased_reads", "Reads served from memory under the node's lease.", |counts| counts.leased_reads),
    ("session_commits", "Committed compare-and-sets of sessions.", |counts| counts.commits),
    ("session_conflicts", "Compare-and-sets of sessions that conflicted with another node's.", |counts| {
        counts.conflicts
    }),
    ("session_lookups", "Compare-and-sets without a response, whose outcome was looked up.", |counts| counts.looked_up),
    ("session_lost", "Sessions served here and found to be another node's: writes were fenced.", |counts| counts.lost),
    ("session_claimed", "Sessions claimed after a failure, or because no node had them.", |counts| counts.claimed),
    ("session_given", "Sessions handed over to another node.", |counts| counts.given),
    ("session_taken", "Sessions taken over from a live node.", |counts| counts.taken),
    ("session_fenced", "Incarnations of this node fenced by another node.", |counts| counts.fenced),
    ("session_fenced_others", "Incarnations of other nodes fenced by this node.", |counts| counts.fenced_others),
    ("session_expired", "Sessions that expired.", |counts| counts.expired),
    ("session_damaged", "Records that were damaged, or older than one already seen.", |counts| counts.damaged),
];

/// Requests by outcome.
const OUTCOMES: [Labelled<Statistics, u64>; 6] = [
    ("done", |counts| counts.done),
    ("not-done", |counts| counts.not_done),
    ("unknown", |counts| counts.unknown),
    ("refused", |counts| counts.refused),
    ("absent", |counts| counts.absent),
    ("forwarded", |counts| counts.forwarded),
];

const GAUGES: [Metric<Gauges, usize>; 4] = [
    ("session_owned", "Sessions that the node owns.", |gauges| gauges.owned),
    ("session_known", "Sessions in memory, including those known to be elsewhere.", |gauges| gauges.sessions),
    ("session_memory_bytes", "Contents of the sessions in memory, in bytes.", |gauges| gauges.memory),
    ("session_engine_requests", "Requests to the engine without a response yet.", |gauges| gauges.engine_questions),
];

/// Requests by what they wait for.
const STAGES: [Labelled<Stages, usize>; 4] = [
    ("turn", |stages| stages.waiting),
    ("running", |stages| stages.running),
    ("commit", |stages| stages.held),
    ("forwarded", |stages| stages.forwarded),
];

impl Collector for SessionMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families::new(encoder);
        let nodes: Vec<_> = self.0.iter().map(|node| (label(node), node.statistics(), node.gauges())).collect();
        for (name, help, count) in COUNTERS {
            let values = nodes.iter().map(|(label, counts, _)| ([label.clone()], count(counts)));
            families.counters(name, help, values)?;
        }
        let outcomes = nodes.iter().flat_map(|(label, counts, _)| {
            OUTCOMES.map(|(name, count)| ([label.clone(), ("outcome", name.to_owned())], count(counts)))
        });
        families.counters("session_outcomes", "Requests for sessions, by what became of them.", outcomes)?;
        for (name, help, value) in GAUGES {
            let values = nodes.iter().map(|(label, _, gauges)| ([label.clone()], value(gauges) as u64));
            families.gauges(name, help, values)?;
        }
        let stages = self.0.iter().flat_map(|node| {
            let stages = node.stages();
            STAGES.map(|(name, count)| ([label(node), ("stage", name.to_owned())], count(&stages) as u64))
        });
        families.gauges("session_requests_open", "Requests for sessions, by what they wait for.", stages)?;
        let margins = nodes.iter().map(|(label, _, gauges)| ([label.clone()], gauges.lease_margin.as_secs_f64()));
        let help = "Remaining validity of the node's lease.";
        families.numbers_of(&Unit::Seconds, "session_lease_margin", help, margins)?;
        self.times(&mut families)
    }
}

impl SessionMetrics {
    fn times(&self, families: &mut Families<'_>) -> fmt::Result {
        let times: Vec<_> = self.0.iter().map(|node| (node, node.times())).collect();
        let turns = times.iter().map(|(node, times)| ([label(node)], times.turn.into()));
        families.histograms("session_turn_wait", "Time that requests waited for their sessions and turns.", turns)?;
        let commits = times.iter().map(|(node, times)| ([label(node), durability(node)], times.commit.into()));
        families.histograms("session_commit", "Time of the engine's commits, by durability.", commits)?;
        let holds = times.iter().map(|(node, times)| ([label(node), durability(node)], times.hold.into()));
        let help = "Time from a handler's response until it may leave, by durability; memory may lose acknowledged \
            changes.";
        families.histograms("session_hold", help, holds)
    }
}

fn label(node: &Node) -> Label {
    ("node", node.name().to_string())
}

fn durability(node: &Node) -> Label {
    let name = match node.settings().durability {
        Durability::Memory => "memory",
        Durability::Quorum => "quorum",
        Durability::QuorumFsync => "quorum+fsync",
    };
    ("durability", name.to_owned())
}
