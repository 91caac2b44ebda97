//! The cases that every driver passes: a server, scripts and assertions each.

mod bytes;
mod close;
mod flow_control;
mod lifecycle;

use breme_node::{CloseReason, Node, Shard};

use crate::{CallRecord, Client, ContractChecker, NodeCounts, Script, Surroundings, World, WorldLimits};

pub struct Case<W> {
    pub name: &'static str,
    play: fn(&CaseContext<'_, W>),
}

impl<W: World> Case<W> {
    /// # Panics
    /// If an assertion fails; the message names the case and the world.
    pub fn run(&self, world: &W) {
        (self.play)(&CaseContext { world, name: self.name });
    }
}

/// Runs the case of this name; see [`suite_tests!`](crate::suite_tests).
///
/// # Panics
/// If it fails or does not exist.
pub fn run<W: World>(name: &str, world: &W) {
    let case = all::<W>().into_iter().find(|case| case.name == name);
    let Some(case) = case else { panic!("the suite has no case `{name}`") };
    case.run(world);
}

/// Lists the cases for [`all`] and `suite_tests!`. The dollar sign is an argument, since a macro cannot define a macro
/// with its own.
macro_rules! cases {
    ($dollar:tt $($module:ident: $($name:ident)*;)*) => {
        #[must_use]
        pub fn all<W: World>() -> Vec<Case<W>> {
            vec![$($(Case { name: stringify!($name), play: $module::$name::<W> },)*)*]
        }

        /// Generates one test per case, in the world of the expression (evaluated for each).
        #[macro_export]
        macro_rules! suite_tests {
            ($dollar world:expr) => {
                $($(
                    #[test]
                    fn $name() {
                        $dollar crate::suite::run(stringify!($name), &$dollar world);
                    }
                )*)*
            };
        }
    };
}

cases! { $
    bytes:
        echo_small echo_large echo_one_byte_at_a_time echo_writes_coalesced echo_on_many_connections
        retained_bytes_are_lent_again_with_more segments_are_sent_in_order large_file_part short_file_ends_connection;
    flow_control:
        retained_bytes_are_lent_on_resume slow_consumption_with_pauses paused_sender_is_bounded pause_holds_bytes_and_end
        client_without_reading drained_queue_lends_again
        long_queues_do_not_deadlock;
    close:
        end_alone end_with_bytes response_after_client_end response_before_request
        early_response_during_upload bulk_before_close_arrives abort_is_a_reset abort_discards_queue
        close_without_finish client_aborts exit_drops_connections;
    lifecycle:
        refused_connect deadlines_are_called two_connections_in_one_call stale_ids_are_ignored shards_wake_each_other
        stopping_without_connections stopping_closes_idle_connections stopping_lets_a_connection_finish;
}

/// Runs scripts in a world.
struct CaseContext<'a, W> {
    world: &'a W,
    name: &'static str,
}

/// The nodes after a case.
struct CaseResult<S> {
    servers: Vec<ContractChecker<S>>,
    client: CallRecord,
}

impl<W: World> CaseContext<'_, W> {
    fn limits(&self) -> WorldLimits {
        self.world.limits()
    }

    /// Takes many calls, but fits in transit.
    fn large_bytes(&self) -> u64 {
        self.limits().bulk_bytes.min(1 << 20)
    }

    /// Runs scripts against a server; all must succeed, without a breach of the contract.
    fn play<S: Node + Send + 'static>(
        &self,
        server: impl Fn() -> S + Send + Sync + 'static,
        scripts: Vec<Script>,
    ) -> CaseResult<S> {
        let WorldLimits { lent_bytes_max, patience, .. } = self.limits();
        let count = scripts.len();
        let played = self.world.run(
            NodeCounts::connections(count.max(1)),
            move |_: Shard| ContractChecker::new(server(), lent_bytes_max),
            move |_: Shard, surroundings: &Surroundings| {
                ContractChecker::new(Client::new(surroundings, patience, scripts.clone()), lent_bytes_max)
            },
        );
        let mut troubles = Vec::new();
        for client in &played.clients {
            troubles.extend(client.node().failures().iter().map(|failure| format!("client: {failure}")));
            if troubles.is_empty() && client.node().played_count() < count {
                troubles.push(String::from("client: the driver returned before the scripts were over"));
            }
        }
        record_violations(&mut troubles, "client", &played.clients);
        record_violations(&mut troubles, "server", &played.servers);
        self.require_none(&troubles);
        self.require(played.clients.len() == 1, "one client node comes back");
        let client = played.clients[0].record().clone();
        CaseResult { servers: played.servers, client }
    }

    fn require_none(&self, troubles: &[String]) {
        assert!(troubles.is_empty(), "case `{}` on {}:\n  {}", self.name, self.world.name(), troubles.join("\n  "));
    }

    fn require(&self, holds: bool, what: &str) {
        assert!(holds, "case `{}` on {}: expected that {what}", self.name, self.world.name());
    }

    #[expect(clippy::needless_pass_by_value, reason = "the cases read better without borrows")]
    fn require_equal<T: PartialEq + std::fmt::Debug>(&self, what: &str, found: T, expected: T) {
        let (name, world) = (self.name, self.world.name());
        assert!(found == expected, "case `{name}` on {world}: {what}: expected {expected:?}, found {found:?}");
    }
}

fn record_violations<N>(troubles: &mut Vec<String>, side: &str, nodes: &[ContractChecker<N>]) {
    for node in nodes {
        troubles.extend(node.final_violations().into_iter().map(|violation| format!("{side}: {violation}")));
    }
}

impl<S> CaseResult<S> {
    /// Sum over the server's nodes.
    fn server_sum(&self, count: impl Fn(&CallRecord) -> usize) -> usize {
        self.servers.iter().map(|server| count(server.record())).sum()
    }

    fn server_reasons(&self) -> Vec<CloseReason> {
        self.servers.iter().flat_map(|server| server.record().closed.iter().copied()).collect()
    }
}
