//! Flow control: a slow node stops its peer, and queues are bounded.

use std::time::Duration;

use bytes::Bytes;

use super::CaseContext;
use crate::{
    AfterResponse, ConsumePolicy, Echo, FixedResponder, Gate, PausingServer, ResponsePart, ResponseTrigger,
    ResumePolicy, Script, TestContent, World,
};

/// Delay of slow nodes. No case depends on its length.
const REST: Duration = Duration::from_millis(5);
const SEGMENT_COUNT: u64 = 16;

pub(super) fn retained_bytes_are_lent_on_resume<W: World>(case: &CaseContext<'_, W>) {
    let content = TestContent::pattern(1, 2_000);
    let server = || Echo::slow(ConsumePolicy::AtMost(1), ResumePolicy::AtOnce);
    case.play(server, vec![Script::new().connect().echo(&content).part()]);
}

pub(super) fn slow_consumption_with_pauses<W: World>(case: &CaseContext<'_, W>) {
    let content = TestContent::pattern(2, 8_000);
    let server = || Echo::slow(ConsumePolicy::AtMost(700), ResumePolicy::After(Duration::from_micros(500)));
    let script = Script::new().connect().echo(&content).part();
    case.play(server, vec![script.clone(), script]);
}

pub(super) fn paused_sender_is_bounded<W: World>(case: &CaseContext<'_, W>) {
    let content = TestContent::pattern(3, case.limits().bulk_bytes);
    let expected = content.clone();
    let gate = Gate::new();
    let script = Script::new().connect().open_when_long(&gate).send(content).expect_drained().finish().expect("ok");
    let server = move || PausingServer::new(&gate, REST, expected.clone());
    let scene = case.play(server, vec![script.part_after_end()]);
    case.require(scene.client.long_count > 0, "a client that sends more than fits is told so");
    for server in &scene.servers {
        case.require_equal("the place of a wrong byte", server.node().difference(), None);
    }
    // The maximum of lent bytes is checked in every case.
}

pub(super) fn pause_holds_bytes_and_end<W: World>(case: &CaseContext<'_, W>) {
    let gate = Gate::new();
    gate.open();
    let server = move || PausingServer::new(&gate, REST, "x".into());
    let scene = case.play(server, vec![Script::new().connect().send("x").finish().expect("ok").part_after_end()]);
    case.require_equal("deadlines of the server", scene.server_sum(|record| record.deadline_count).min(1), 1);
    for server in &scene.servers {
        case.require_equal("the place of a wrong byte", server.node().difference(), None);
    }
}

pub(super) fn client_without_reading<W: World>(case: &CaseContext<'_, W>) {
    let (server, answer) = bulk_server(case.limits().bulk_bytes, AfterResponse::Keep);
    let script = Script::new().connect().pause().send("go").wait(REST).send("and more").wait(REST).resume();
    let scene = case.play(server, vec![script.expect(answer).part()]);
    case.require(scene.server_sum(|record| record.long_count) > 0, "the server is told that its queue is long");
    let received: Vec<_> = scene.servers.iter().flat_map(|server| server.node().received()).collect();
    case.require_equal("received by the server", received, vec![&Bytes::from("goand more")]);
}

/// The server's own queue stops it from consuming until the client reads.
pub(super) fn long_queues_do_not_deadlock<W: World>(case: &CaseContext<'_, W>) {
    let content = TestContent::pattern(5, case.limits().bulk_bytes);
    let script = Script::new().connect().pause().send_at_once(content.clone()).wait(REST).resume();
    let scene = case.play(Echo::new, vec![script.expect(content).part()]);
    case.require(scene.client.long_count > 0, "a client that sends more than fits is told so");
}

pub(super) fn drained_queue_lends_again<W: World>(case: &CaseContext<'_, W>) {
    // The end arrives while the queue is long: only draining it allows the end to be lent.
    let (server, answer) = bulk_server(case.limits().bulk_bytes, AfterResponse::Keep);
    let (first, rest) = (answer.part(0, 1), answer.part(1, answer.length()));
    let script = Script::new().connect().send("go").expect(first).pause().finish().wait(REST).resume();
    let scene = case.play(server, vec![script.expect(rest).part_after_end()]);
    let (long, drained) =
        (scene.server_sum(|record| record.long_count), scene.server_sum(|record| record.drained_count));
    case.require(long > 0, "the server is told that its queue is long");
    case.require(drained <= long, "no queue drains that was not long");
}

/// Responds to the first bytes with more than fits in transit, in one call, in shared segments.
fn bulk_server(
    bulk_bytes: u64,
    then: AfterResponse,
) -> (impl Fn() -> FixedResponder + Send + Sync + 'static, TestContent) {
    let length = bulk_bytes / SEGMENT_COUNT * SEGMENT_COUNT;
    let answer = TestContent::pattern(4, length);
    let bytes = answer.to_bytes();
    let segment = bytes.len() / SEGMENT_COUNT as usize;
    let parts: Vec<_> = (0..SEGMENT_COUNT as usize)
        .map(|index| ResponsePart::Shared(bytes.slice(index * segment..(index + 1) * segment)))
        .collect();
    (move || FixedResponder::new(ResponseTrigger::FirstBytes, parts.clone(), then), answer)
}
