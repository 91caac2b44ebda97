//! Everything else that a driver's turn brings: connecting, deadlines, wake-ups, stale ids, stopping.

use std::time::Duration;

use breme_node::{CloseReason, Shard};

use super::{Stage, note_violations};
use crate::{Echo, Limits, Script, Shape, Surroundings, Wakes, Watched, World};

const BURST: u64 = 100;
const SHARDS: usize = 3;

pub(super) fn connect_is_refused<W: World>(stage: &Stage<'_, W>) {
    let refused = Script::new().connect_refused();
    let other = Script::new().connect().send("x").expect("x").part();
    let scene = stage.play(Echo::new, vec![refused.clone(), other, refused]);
    stage.require_equal("connected", scene.client.connected_count, 1);
}

pub(super) fn deadlines_come<W: World>(stage: &Stage<'_, W>) {
    let wait = |script: Script| script.wait(Duration::from_micros(300));
    let script = (0..5).fold(Script::new(), |script, _| wait(script)).connect().send("x").expect("x");
    let scene = stage.play(Echo::new, vec![script.wait(Duration::ZERO).part()]);
    stage.require(scene.client.deadline_count >= 5, "every deadline comes");
    stage.require_equal("deadlines that nobody asked for", scene.server_sum(|record| record.deadline_count), 0);
}

pub(super) fn two_connections_in_one_call<W: World>(stage: &Stage<'_, W>) {
    // When the second is connected, one call sends a1, b1, a2, b2.
    let first = Script::new().connect().signal(1).await_signal(2).send("a1").signal(3).await_signal(4).send("a2");
    let second = Script::new().connect().await_signal(1).signal(2).await_signal(3).send("b1").signal(4).send("b2");
    let scripts = vec![first.expect("a1a2").part(), second.expect("b1b2").part()];
    let scene = stage.play(Echo::new, scripts);
    stage.require_equal("accepted", scene.server_sum(|record| record.accepted_count), 2);
}

pub(super) fn stale_ids_are_ignored<W: World>(stage: &Stage<'_, W>) {
    let first = Script::new().connect().send("first").expect("first").part().signal(1);
    let second = Script::new().await_signal(1).connect().use_stale_ids().send("second").expect("second");
    let second = second.use_stale_ids().send("third").expect("third").part().use_stale_ids().signal(2);
    let third = Script::new().await_signal(2).use_stale_ids().connect().send("x").expect("x").part();
    let scene = stage.play(Echo::new, vec![first, second, third]);
    stage.require_equal("the server's reasons", scene.server_reasons(), vec![CloseReason::Requested; 3]);
}

pub(super) fn shards_wake_each_other<W: World>(stage: &Stage<'_, W>) {
    let Limits { lent_bytes_max, patience, .. } = stage.limits();
    let shape = Shape { server_shards: 1, client_shards: SHARDS, connections: 1 };
    let played = stage.world.run(
        shape,
        move |_: Shard| Watched::new(Echo::new(), lent_bytes_max),
        move |shard: Shard, _: &Surroundings| Watched::new(Wakes::new(shard, BURST, patience), lent_bytes_max),
    );
    let mut troubles = Vec::new();
    note_violations(&mut troubles, "client", &played.clients);
    stage.require_none(&troubles);
    stage.require_equal("client nodes", played.clients.len(), SHARDS);
    for client in &played.clients {
        stage.require(!client.node().gave_up(), "every wake-up comes");
        let mut messages: Vec<u64> = client.record().woken.iter().copied().filter(|&message| message < BURST).collect();
        messages.sort_unstable();
        stage.require_equal("messages of wake-ups", messages, (0..BURST).collect());
    }
}

pub(super) fn stopping_without_connections<W: World>(stage: &Stage<'_, W>) {
    let scene = stage.play(Echo::new, Vec::new());
    stage.require(!scene.servers.is_empty(), "the server's nodes come back");
    for server in &scene.servers {
        stage.require_equal("calls of handle_stopping", server.record().stopping_count, 1);
    }
}

pub(super) fn stopping_closes_idle_connections<W: World>(stage: &Stage<'_, W>) {
    let script = Script::new().connect().send("x").expect("x").stop_server().part_after_end();
    let scene = stage.play(Echo::new, vec![script]);
    stage.require_equal("the server's reasons", scene.server_reasons(), vec![CloseReason::Requested]);
}

pub(super) fn stopping_lets_a_connection_finish<W: World>(stage: &Stage<'_, W>) {
    let script = Script::new().connect().send("x").expect("x").stop_server().expect("bye").signal(1).await_signal(2);
    let script = script.send("late").expect("late").part();
    let late = Script::new().await_signal(1).connect_refused_by_server().signal(2);
    let scene = stage.play(|| Echo::with_farewell("bye"), vec![script, late]);
    stage.require_equal("the server's reasons", scene.server_reasons(), vec![CloseReason::Requested]);
    for server in &scene.servers {
        stage.require_equal("calls of handle_stopping", server.record().stopping_count, 1);
    }
}
