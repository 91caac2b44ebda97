//! Connecting, deadlines, wake-ups, stale ids and stopping.

use std::time::Duration;

use breme_node::{CloseReason, Shard};

use super::{CaseContext, record_violations};
use crate::{ContractChecker, Echo, NodeCounts, Script, Surroundings, Wakes, World, WorldLimits};

const BURST: u64 = 100;
const SHARDS: usize = 3;

pub(super) fn refused_connect<W: World>(case: &CaseContext<'_, W>) {
    let refused = Script::new().connect_refused();
    let other = Script::new().connect().send("x").expect("x").part();
    let scene = case.play(Echo::new, vec![refused.clone(), other, refused]);
    case.require_equal("connected", scene.client.connected_count, 1);
}

pub(super) fn deadlines_are_called<W: World>(case: &CaseContext<'_, W>) {
    let wait = |script: Script| script.wait(Duration::from_micros(300));
    let script = (0..5).fold(Script::new(), |script, _| wait(script)).connect().send("x").expect("x");
    let scene = case.play(Echo::new, vec![script.wait(Duration::ZERO).part()]);
    case.require(scene.client.deadline_count >= 5, "every deadline comes");
    case.require_equal("deadlines that nobody asked for", scene.server_sum(|record| record.deadline_count), 0);
}

pub(super) fn two_connections_in_one_call<W: World>(case: &CaseContext<'_, W>) {
    // When the second is connected, one call sends a1, b1, a2, b2.
    let first = Script::new().connect().signal(1).await_signal(2).send("a1").signal(3).await_signal(4).send("a2");
    let second = Script::new().connect().await_signal(1).signal(2).await_signal(3).send("b1").signal(4).send("b2");
    let scripts = vec![first.expect("a1a2").part(), second.expect("b1b2").part()];
    let scene = case.play(Echo::new, scripts);
    case.require_equal("accepted", scene.server_sum(|record| record.accepted_count), 2);
}

pub(super) fn stale_ids_are_ignored<W: World>(case: &CaseContext<'_, W>) {
    let first = Script::new().connect().send("first").expect("first").part().signal(1);
    let second = Script::new().await_signal(1).connect().use_stale_ids().send("second").expect("second");
    let second = second.use_stale_ids().send("third").expect("third").part().use_stale_ids().signal(2);
    let third = Script::new().await_signal(2).use_stale_ids().connect().send("x").expect("x").part();
    let scene = case.play(Echo::new, vec![first, second, third]);
    case.require_equal("the server's reasons", scene.server_reasons(), vec![CloseReason::Requested; 3]);
}

pub(super) fn shards_wake_each_other<W: World>(case: &CaseContext<'_, W>) {
    let WorldLimits { lent_bytes_max, patience, .. } = case.limits();
    let shape = NodeCounts { server_shards: 1, client_shards: SHARDS, connections: 1 };
    let played = case.world.run(
        shape,
        move |_: Shard| ContractChecker::new(Echo::new(), lent_bytes_max),
        move |shard: Shard, _: &Surroundings| ContractChecker::new(Wakes::new(shard, BURST, patience), lent_bytes_max),
    );
    let mut troubles = Vec::new();
    record_violations(&mut troubles, "client", &played.clients);
    case.require_none(&troubles);
    case.require_equal("client nodes", played.clients.len(), SHARDS);
    for client in &played.clients {
        case.require(!client.node().timed_out(), "every wake-up comes");
        let mut messages: Vec<u64> = client.record().woken.iter().copied().filter(|&message| message < BURST).collect();
        messages.sort_unstable();
        case.require_equal("messages of wake-ups", messages, (0..BURST).collect());
    }
}

pub(super) fn stopping_without_connections<W: World>(case: &CaseContext<'_, W>) {
    let scene = case.play(Echo::new, Vec::new());
    case.require(!scene.servers.is_empty(), "the server's nodes come back");
    for server in &scene.servers {
        case.require_equal("calls of handle_stopping", server.record().stopping_count, 1);
    }
}

pub(super) fn stopping_closes_idle_connections<W: World>(case: &CaseContext<'_, W>) {
    let script = Script::new().connect().send("x").expect("x").stop_server().part_after_end();
    let scene = case.play(Echo::new, vec![script]);
    case.require_equal("the server's reasons", scene.server_reasons(), vec![CloseReason::Requested]);
}

pub(super) fn stopping_lets_a_connection_finish<W: World>(case: &CaseContext<'_, W>) {
    let script = Script::new().connect().send("x").expect("x").stop_server().expect("bye").signal(1).await_signal(2);
    let script = script.send("late").expect("late").part();
    let late = Script::new().await_signal(1).connect_refused_by_server().signal(2);
    let scene = case.play(|| Echo::with_farewell("bye"), vec![script, late]);
    case.require_equal("the server's reasons", scene.server_reasons(), vec![CloseReason::Requested]);
    for server in &scene.servers {
        case.require_equal("calls of handle_stopping", server.record().stopping_count, 1);
    }
}
