//! The cases that every driver passes. Each is one function: a server, scripts, and what must hold afterwards.

mod bytes;
mod closing;
mod pressure;
mod turns;

use breme_node::{CloseReason, Node, Shard};

use crate::{Client, Limits, Record, Script, Shape, Surroundings, Watched, World};

/// One case.
pub struct Case<W> {
    /// Its name.
    pub name: &'static str,
    play: fn(&Stage<'_, W>),
}

impl<W: World> Case<W> {
    /// Runs it.
    ///
    /// # Panics
    ///
    /// If anything is otherwise than it must be; the message names the case and the world.
    pub fn run(&self, world: &W) {
        (self.play)(&Stage { world, name: self.name });
    }
}

/// Runs the case of this name; see [`suite_tests!`](crate::suite_tests).
///
/// # Panics
///
/// If it fails, or if there is no such case.
pub fn run<W: World>(name: &str, world: &W) {
    let case = all::<W>().into_iter().find(|case| case.name == name);
    let Some(case) = case else { panic!("the suite has no case `{name}`") };
    case.run(world);
}

/// Lists the cases once, for [`all`] and for `suite_tests!`. The dollar sign is handed in because a macro that is made
/// by a macro cannot be written with its own.
macro_rules! cases {
    ($dollar:tt $($module:ident: $($name:ident)*;)*) => {
        /// All cases.
        #[must_use]
        pub fn all<W: World>() -> Vec<Case<W>> {
            vec![$($(Case { name: stringify!($name), play: $module::$name::<W> },)*)*]
        }

        /// Makes one test of each case, in the world that the expression gives (evaluated once for each).
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
        untaken_bytes_are_lent_again_with_more segments_leave_in_order large_file_part short_file_ends_the_connection;
    pressure:
        nibbles_are_lent_on_resume slow_taking_with_pauses a_paused_sender_is_bounded a_pause_holds_bytes_and_end
        a_client_that_does_not_read a_queue_that_drains_lends_again
        two_long_queues_do_not_wait_for_each_other;
    closing:
        the_end_alone the_end_with_bytes answer_after_the_clients_end answer_before_anything_and_finish
        early_answer_while_the_client_sends bulk_then_close_arrives_whole abort_is_seen_as_reset abort_loses_what_is_queued
        close_without_finish client_aborts exit_drops_what_is_open;
    turns:
        connect_is_refused deadlines_come two_connections_in_one_call stale_ids_are_ignored shards_wake_each_other
        stopping_without_connections stopping_closes_idle_connections stopping_lets_a_connection_finish;
}

/// Where a case plays.
struct Stage<'a, W> {
    world: &'a W,
    name: &'static str,
}

/// The nodes after a case.
struct Scene<S> {
    servers: Vec<Watched<S>>,
    client: Record,
}

impl<W: World> Stage<'_, W> {
    fn limits(&self) -> Limits {
        self.world.limits()
    }

    /// A content that takes many calls, but need not fill everything on the way.
    fn large_bytes(&self) -> u64 {
        self.limits().bulk_bytes.min(1 << 20)
    }

    /// Plays scripts against a server; all of them must succeed, and nobody break the contract.
    fn play<S: Node + Send + 'static>(
        &self,
        server: impl Fn() -> S + Send + Sync + 'static,
        scripts: Vec<Script>,
    ) -> Scene<S> {
        let Limits { lent_bytes_max, patience, .. } = self.limits();
        let count = scripts.len();
        let played = self.world.run(
            Shape::connections(count.max(1)),
            move |_: Shard| Watched::new(server(), lent_bytes_max),
            move |_: Shard, surroundings: &Surroundings| {
                Watched::new(Client::new(surroundings, patience, scripts.clone()), lent_bytes_max)
            },
        );
        let mut troubles = Vec::new();
        for client in &played.clients {
            troubles.extend(client.node().failures().iter().map(|failure| format!("client: {failure}")));
            if troubles.is_empty() && client.node().played_count() < count {
                troubles.push(String::from("client: the driver returned before the scripts were over"));
            }
        }
        note_violations(&mut troubles, "client", &played.clients);
        note_violations(&mut troubles, "server", &played.servers);
        self.require_none(&troubles);
        self.require(played.clients.len() == 1, "one client node comes back");
        let client = played.clients[0].record().clone();
        Scene { servers: played.servers, client }
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

fn note_violations<N>(troubles: &mut Vec<String>, side: &str, nodes: &[Watched<N>]) {
    for node in nodes {
        troubles.extend(node.final_violations().into_iter().map(|violation| format!("{side}: {violation}")));
    }
}

impl<S> Scene<S> {
    /// The sum of a count over the server's nodes.
    fn server_sum(&self, count: impl Fn(&Record) -> usize) -> usize {
        self.servers.iter().map(|server| count(server.record())).sum()
    }

    fn server_reasons(&self) -> Vec<CloseReason> {
        self.servers.iter().flat_map(|server| server.record().closed.iter().copied()).collect()
    }
}
