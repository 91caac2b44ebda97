//! Each connection ends once, for the right reason, with exactly the loss that it implies.

use breme_node::{Close, CloseReason};
use bytes::Bytes;

use super::CaseContext;
use crate::{
    AfterResponse, Echo, Ending, FixedResponder, LineServer, ResponsePart, ResponseTrigger, Script, TestContent, World,
};

const REQUESTED: Ending = Ending::Exactly(CloseReason::Requested);
const RESET: Ending = Ending::Exactly(CloseReason::Reset);

/// Bytes a client sends during a graceful close. Every driver discards at least this much.
const DRAINED_BYTES: u64 = 256 << 10;

pub(super) fn end_alone<W: World>(case: &CaseContext<'_, W>) {
    let scene = case.play(Echo::new, vec![Script::new().connect().send("abc").expect("abc").part()]);
    case.require_equal("ends without bytes", scene.server_sum(|record| record.ended_alone_count), 1);
    case.require_equal("ends with bytes", scene.server_sum(|record| record.ended_with_bytes_count), 0);
}

pub(super) fn end_with_bytes<W: World>(case: &CaseContext<'_, W>) {
    let script = Script::new().connect().send("a").expect(".").finish().expect("a").part_after_end();
    let scene = case.play(|| LineServer, vec![script]);
    case.require_equal("ends with bytes", scene.server_sum(|record| record.ended_with_bytes_count), 1);
}

pub(super) fn response_after_client_end<W: World>(case: &CaseContext<'_, W>) {
    let answer = TestContent::pattern(1, case.large_bytes());
    let part = ResponsePart::Copied(answer.clone());
    let server =
        move || FixedResponder::new(ResponseTrigger::Ended, vec![part.clone()], AfterResponse::Close(Close::Graceful));
    let script = Script::new().connect().send("question").finish().expect(answer).part_after_end();
    let scene = case.play(server, vec![script]);
    let received: Vec<_> = scene.servers.iter().flat_map(|server| server.node().received()).collect();
    case.require_equal("received by the server", received, vec![&Bytes::from("question")]);
    case.require_equal("the server's reasons", scene.server_reasons(), vec![CloseReason::Requested]);
}

pub(super) fn response_before_request<W: World>(case: &CaseContext<'_, W>) {
    let question = TestContent::pattern(2, case.large_bytes());
    let server = || {
        FixedResponder::new(
            ResponseTrigger::Accepted,
            vec![ResponsePart::Copied("hello".into())],
            AfterResponse::Finish,
        )
    };
    let script = Script::new().connect().expect("hello").expect_end().send(question.clone());
    let scene = case.play(server, vec![script.close(Close::Graceful).expect_closed(REQUESTED)]);
    let received: Vec<_> = scene.servers.iter().flat_map(|server| server.node().received()).collect();
    case.require_equal("received after the server's end", received.len(), 1);
    let difference = question.first_difference(0, received[0]);
    case.require_equal("the place of a wrong byte", difference, None);
    case.require_equal("bytes received", received[0].len() as u64, question.length());
    case.require_equal("the server's reasons", scene.server_reasons(), vec![CloseReason::Requested]);
}

pub(super) fn early_response_during_upload<W: World>(case: &CaseContext<'_, W>) {
    let answer = TestContent::pattern(3, 100_000.min(case.large_bytes()));
    let upload = TestContent::pattern(4, DRAINED_BYTES.min(case.large_bytes()));
    let part = ResponsePart::Copied(answer.clone());
    let server = move || {
        FixedResponder::new(ResponseTrigger::FirstBytes, vec![part.clone()], AfterResponse::Close(Close::Graceful))
    };
    let script = Script::new().connect().exchange(upload, answer).expect_end();
    let scene = case.play(server, vec![script.close(Close::Graceful).expect_closed(REQUESTED)]);
    case.require_equal("the server's reasons", scene.server_reasons(), vec![CloseReason::Requested]);
}

pub(super) fn bulk_before_close_arrives<W: World>(case: &CaseContext<'_, W>) {
    let answer = TestContent::pattern(5, case.limits().bulk_bytes);
    let part = ResponsePart::Shared(answer.to_bytes());
    let server = move || {
        FixedResponder::new(ResponseTrigger::FirstBytes, vec![part.clone()], AfterResponse::Close(Close::Graceful))
    };
    let scene = case.play(server, vec![Script::new().connect().send("go").expect(answer).part()]);
    case.require_equal("the server's reasons", scene.server_reasons(), vec![CloseReason::Requested]);
}

pub(super) fn abort_is_a_reset<W: World>(case: &CaseContext<'_, W>) {
    let server = || FixedResponder::new(ResponseTrigger::FirstBytes, Vec::new(), AfterResponse::Close(Close::Abort));
    let script = expect_abort(case, Script::new().connect().send("x"));
    let scene = case.play(server, vec![script]);
    case.require_equal("the server's reasons", scene.server_reasons(), vec![CloseReason::Requested]);
}

pub(super) fn abort_discards_queue<W: World>(case: &CaseContext<'_, W>) {
    let answer = TestContent::pattern(6, case.limits().bulk_bytes);
    let part = ResponsePart::Shared(answer.to_bytes());
    let server = move || {
        FixedResponder::new(ResponseTrigger::FirstBytes, vec![part.clone()], AfterResponse::Close(Close::Abort))
    };
    // Part of it may arrive; a clean end must not, where there are resets.
    let script = expect_abort(case, Script::new().connect().send("x").expect_gone(answer));
    case.play(server, vec![script]);
}

/// What the peer of an aborted connection sees.
fn expect_abort<W: World>(case: &CaseContext<'_, W>, script: Script) -> Script {
    match case.limits().has_resets {
        true => script.expect_closed(RESET),
        false => script.expect_end().close(Close::Graceful).expect_closed(REQUESTED),
    }
}

pub(super) fn close_without_finish<W: World>(case: &CaseContext<'_, W>) {
    let script = Script::new().connect().send("x").expect("x").close(Close::Graceful).expect_closed(REQUESTED);
    let scene = case.play(Echo::new, vec![script]);
    case.require_equal("the server's reasons", scene.server_reasons(), vec![CloseReason::Requested]);
}

pub(super) fn client_aborts<W: World>(case: &CaseContext<'_, W>) {
    let script = Script::new().connect().send("x").expect("x").close(Close::Abort).expect_closed(REQUESTED);
    let scene = case.play(Echo::new, vec![script]);
    case.require_equal("ends told to the server", scene.server_reasons().len(), 1);
}

pub(super) fn exit_drops_connections<W: World>(case: &CaseContext<'_, W>) {
    let scripts = (0..3).map(|_| Script::new().connect().send("x").expect("x")).collect();
    let scene = case.play(Echo::new, scripts);
    case.require_equal("ends told to the server", scene.server_reasons().len(), 3);
}
