//! Nobody is flooded: a slow node holds its peer back, and what waits is bounded.

use std::time::Duration;

use bytes::Bytes;

use super::Stage;
use crate::{Answering, Content, Echo, Gate, Pace, Part, Reluctant, Script, Taking, Then, When, World};

/// How long the nodes here are slow on purpose. No case depends on its length.
const REST: Duration = Duration::from_millis(5);
const SEGMENT_COUNT: u64 = 16;

pub(super) fn nibbles_are_lent_on_resume<W: World>(stage: &Stage<'_, W>) {
    let content = Content::pattern(1, 2_000);
    let server = || Echo::slow(Taking::AtMost(1), Pace::Resuming);
    stage.play(server, vec![Script::new().connect().echo(&content).part()]);
}

pub(super) fn slow_taking_with_pauses<W: World>(stage: &Stage<'_, W>) {
    let content = Content::pattern(2, 8_000);
    let server = || Echo::slow(Taking::AtMost(700), Pace::Resting(Duration::from_micros(500)));
    let script = Script::new().connect().echo(&content).part();
    stage.play(server, vec![script.clone(), script]);
}

pub(super) fn a_paused_sender_is_bounded<W: World>(stage: &Stage<'_, W>) {
    let content = Content::pattern(3, stage.limits().bulk_bytes);
    let expected = content.clone();
    let gate = Gate::new();
    let script = Script::new().connect().open_when_long(&gate).send(content).expect_drained().finish().expect("ok");
    let server = move || Reluctant::new(&gate, REST, expected.clone());
    let scene = stage.play(server, vec![script.part_after_end()]);
    stage.require(scene.client.long_count > 0, "a client that sends more than fits is told so");
    for server in &scene.servers {
        stage.require_equal("the place of a wrong byte", server.node().difference(), None);
    }
    // How much was lent at once is watched in every case.
}

pub(super) fn a_pause_holds_bytes_and_end<W: World>(stage: &Stage<'_, W>) {
    let gate = Gate::new();
    gate.open();
    let server = move || Reluctant::new(&gate, REST, "x".into());
    let scene = stage.play(server, vec![Script::new().connect().send("x").finish().expect("ok").part_after_end()]);
    stage.require_equal("deadlines of the server", scene.server_sum(|record| record.deadline_count).min(1), 1);
    for server in &scene.servers {
        stage.require_equal("the place of a wrong byte", server.node().difference(), None);
    }
}

pub(super) fn a_client_that_does_not_read<W: World>(stage: &Stage<'_, W>) {
    let (server, answer) = bulk_server(stage.limits().bulk_bytes, Then::Keep);
    let script = Script::new().connect().pause().send("go").wait(REST).send("and more").wait(REST).resume();
    let scene = stage.play(server, vec![script.expect(answer).part()]);
    stage.require(scene.server_sum(|record| record.long_count) > 0, "the server is told that its queue is long");
    let received: Vec<_> = scene.servers.iter().flat_map(|server| server.node().received()).collect();
    stage.require_equal("received by the server", received, vec![&Bytes::from("goand more")]);
}

/// The server is held back by its own queue, and takes nothing of the client's until the client reads.
pub(super) fn two_long_queues_do_not_wait_for_each_other<W: World>(stage: &Stage<'_, W>) {
    let content = Content::pattern(5, stage.limits().bulk_bytes);
    let script = Script::new().connect().pause().send_at_once(content.clone()).wait(REST).resume();
    let scene = stage.play(Echo::new, vec![script.expect(content).part()]);
    stage.require(scene.client.long_count > 0, "a client that sends more than fits is told so");
}

pub(super) fn a_queue_that_drains_lends_again<W: World>(stage: &Stage<'_, W>) {
    // The end arrives while the queue is long: nothing but the drained queue can let it be lent.
    let (server, answer) = bulk_server(stage.limits().bulk_bytes, Then::Keep);
    let (first, rest) = (answer.part(0, 1), answer.part(1, answer.length()));
    let script = Script::new().connect().send("go").expect(first).pause().finish().wait(REST).resume();
    let scene = stage.play(server, vec![script.expect(rest).part_after_end()]);
    let (long, drained) =
        (scene.server_sum(|record| record.long_count), scene.server_sum(|record| record.drained_count));
    stage.require(long > 0, "the server is told that its queue is long");
    stage.require(drained <= long, "no queue drains that was not long");
}

/// A server that answers the first bytes with more than fits on the way, in one call, by shared segments.
fn bulk_server(bulk_bytes: u64, then: Then) -> (impl Fn() -> Answering + Send + Sync + 'static, Content) {
    let length = bulk_bytes / SEGMENT_COUNT * SEGMENT_COUNT;
    let answer = Content::pattern(4, length);
    let bytes = answer.to_bytes();
    let segment = bytes.len() / SEGMENT_COUNT as usize;
    let parts: Vec<_> = (0..SEGMENT_COUNT as usize)
        .map(|index| Part::Shared(bytes.slice(index * segment..(index + 1) * segment)))
        .collect();
    (move || Answering::new(When::FirstBytes, parts.clone(), then), answer)
}
