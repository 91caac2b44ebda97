//! Each connection ends once, for the right reason, and takes with it what it should and no more.

use breme_node::{Close, CloseReason};
use bytes::Bytes;

use super::Stage;
use crate::{Answering, Content, Echo, Ending, Holding, Part, Script, Then, When, World};

const REQUESTED: Ending = Ending::Exactly(CloseReason::Requested);
const RESET: Ending = Ending::Exactly(CloseReason::Reset);

/// How much a client still sends while the connection is closed gracefully. Every driver drains at least this much.
const DRAINED_BYTES: u64 = 256 << 10;

pub(super) fn the_end_alone<W: World>(stage: &Stage<'_, W>) {
    let scene = stage.play(Echo::new, vec![Script::new().connect().send("abc").expect("abc").part()]);
    stage.require_equal("ends without bytes", scene.server_sum(|record| record.ended_alone_count), 1);
    stage.require_equal("ends with bytes", scene.server_sum(|record| record.ended_with_bytes_count), 0);
}

pub(super) fn the_end_with_bytes<W: World>(stage: &Stage<'_, W>) {
    let script = Script::new().connect().send("a").expect(".").finish().expect("a").part_after_end();
    let scene = stage.play(|| Holding, vec![script]);
    stage.require_equal("ends with bytes", scene.server_sum(|record| record.ended_with_bytes_count), 1);
}

pub(super) fn answer_after_the_clients_end<W: World>(stage: &Stage<'_, W>) {
    let answer = Content::pattern(1, stage.large_bytes());
    let part = Part::Copied(answer.clone());
    let server = move || Answering::new(When::Ended, vec![part.clone()], Then::Close(Close::Graceful));
    let script = Script::new().connect().send("question").finish().expect(answer).part_after_end();
    let scene = stage.play(server, vec![script]);
    let received: Vec<_> = scene.servers.iter().flat_map(|server| server.node().received()).collect();
    stage.require_equal("received by the server", received, vec![&Bytes::from("question")]);
    stage.require_equal("the server's reasons", scene.server_reasons(), vec![CloseReason::Requested]);
}

pub(super) fn answer_before_anything_and_finish<W: World>(stage: &Stage<'_, W>) {
    let question = Content::pattern(2, stage.large_bytes());
    let server = || Answering::new(When::Accepted, vec![Part::Copied("hello".into())], Then::Finish);
    let script = Script::new().connect().expect("hello").expect_end().send(question.clone());
    let scene = stage.play(server, vec![script.close(Close::Graceful).expect_closed(REQUESTED)]);
    let received: Vec<_> = scene.servers.iter().flat_map(|server| server.node().received()).collect();
    stage.require_equal("received after the server's end", received.len(), 1);
    let difference = question.first_difference(0, received[0]);
    stage.require_equal("the place of a wrong byte", difference, None);
    stage.require_equal("bytes received", received[0].len() as u64, question.length());
    stage.require_equal("the server's reasons", scene.server_reasons(), vec![CloseReason::Requested]);
}

pub(super) fn early_answer_while_the_client_sends<W: World>(stage: &Stage<'_, W>) {
    let answer = Content::pattern(3, 100_000.min(stage.large_bytes()));
    let upload = Content::pattern(4, DRAINED_BYTES.min(stage.large_bytes()));
    let part = Part::Copied(answer.clone());
    let server = move || Answering::new(When::FirstBytes, vec![part.clone()], Then::Close(Close::Graceful));
    let script = Script::new().connect().exchange(upload, answer).expect_end();
    let scene = stage.play(server, vec![script.close(Close::Graceful).expect_closed(REQUESTED)]);
    stage.require_equal("the server's reasons", scene.server_reasons(), vec![CloseReason::Requested]);
}

pub(super) fn bulk_then_close_arrives_whole<W: World>(stage: &Stage<'_, W>) {
    let answer = Content::pattern(5, stage.limits().bulk_bytes);
    let part = Part::Shared(answer.to_bytes());
    let server = move || Answering::new(When::FirstBytes, vec![part.clone()], Then::Close(Close::Graceful));
    let scene = stage.play(server, vec![Script::new().connect().send("go").expect(answer).part()]);
    stage.require_equal("the server's reasons", scene.server_reasons(), vec![CloseReason::Requested]);
}

pub(super) fn abort_is_seen_as_reset<W: World>(stage: &Stage<'_, W>) {
    let server = || Answering::new(When::FirstBytes, Vec::new(), Then::Close(Close::Abort));
    let scene = stage.play(server, vec![Script::new().connect().send("x").expect_closed(RESET)]);
    stage.require_equal("the server's reasons", scene.server_reasons(), vec![CloseReason::Requested]);
}

pub(super) fn abort_loses_what_is_queued<W: World>(stage: &Stage<'_, W>) {
    let answer = Content::pattern(6, stage.limits().bulk_bytes);
    let part = Part::Shared(answer.to_bytes());
    let server = move || Answering::new(When::FirstBytes, vec![part.clone()], Then::Close(Close::Abort));
    // Some of it may arrive; a clean end must not.
    stage.play(server, vec![Script::new().connect().send("x").expect_gone(answer).expect_closed(RESET)]);
}

pub(super) fn close_without_finish<W: World>(stage: &Stage<'_, W>) {
    let script = Script::new().connect().send("x").expect("x").close(Close::Graceful).expect_closed(REQUESTED);
    let scene = stage.play(Echo::new, vec![script]);
    stage.require_equal("the server's reasons", scene.server_reasons(), vec![CloseReason::Requested]);
}

pub(super) fn client_aborts<W: World>(stage: &Stage<'_, W>) {
    let script = Script::new().connect().send("x").expect("x").close(Close::Abort).expect_closed(REQUESTED);
    let scene = stage.play(Echo::new, vec![script]);
    stage.require_equal("ends told to the server", scene.server_reasons().len(), 1);
}

pub(super) fn exit_drops_what_is_open<W: World>(stage: &Stage<'_, W>) {
    let scripts = (0..3).map(|_| Script::new().connect().send("x").expect("x")).collect();
    let scene = stage.play(Echo::new, scripts);
    stage.require_equal("ends told to the server", scene.server_reasons().len(), 3);
}
