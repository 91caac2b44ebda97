//! Bytes arrive complete, in order and once, however they are segmented and lent.

use std::sync::Arc;

use breme_node::{CloseReason, FileRange};

use super::CaseContext;
use crate::{
    AfterResponse, Echo, FixedResponder, LineServer, ResponsePart, ResponseTrigger, Script, TestContent, World,
};

pub(super) fn echo_small<W: World>(case: &CaseContext<'_, W>) {
    let scene = case.play(Echo::new, vec![Script::new().connect().send("hello").expect("hello").part()]);
    case.require_equal("accepted", scene.server_sum(|record| record.accepted_count), 1);
    case.require_equal("connected", scene.client.connected_count, 1);
    case.require_equal("the server's reasons", scene.server_reasons(), vec![CloseReason::Requested]);
    case.require_equal("the client's reasons", scene.client.closed, vec![CloseReason::Requested]);
}

pub(super) fn echo_large<W: World>(case: &CaseContext<'_, W>) {
    let content = TestContent::pattern(1, case.large_bytes());
    let scene = case.play(Echo::new, vec![Script::new().connect().echo(&content).part()]);
    let consumed: u64 = scene.servers.iter().map(|server| server.record().taken_bytes).sum();
    case.require_equal("taken by the server", consumed, case.large_bytes());
    case.require_equal("taken by the client", scene.client.taken_bytes, case.large_bytes());
}

pub(super) fn echo_one_byte_at_a_time<W: World>(case: &CaseContext<'_, W>) {
    let content = TestContent::pattern(2, 300);
    case.play(Echo::new, vec![Script::new().connect().send_bytewise(content.clone()).expect(content).part()]);
}

pub(super) fn echo_writes_coalesced<W: World>(case: &CaseContext<'_, W>) {
    let script = Script::new().connect().send("several ").send("writes ").send("of one call").finish();
    let script = script.expect("several writes of one call").part_after_end();
    case.play(Echo::new, vec![script]);
}

pub(super) fn echo_on_many_connections<W: World>(case: &CaseContext<'_, W>) {
    let scripts: Vec<_> = (0..16)
        .map(|number| {
            let content = TestContent::pattern(number, 3_000 + 100 * number);
            Script::new().connect().echo(&content).part()
        })
        .collect();
    let scene = case.play(Echo::new, scripts);
    case.require_equal("accepted", scene.server_sum(|record| record.accepted_count), 16);
    case.require_equal("the server's reasons", scene.server_reasons(), vec![CloseReason::Requested; 16]);
}

pub(super) fn retained_bytes_are_lent_again_with_more<W: World>(case: &CaseContext<'_, W>) {
    // Single bytes cannot be segmented, so each is lent in its own call and answered with a dot.
    let script = Script::new().connect().send("a").expect(".").send("b").expect(".").send("\n").expect("ab\n");
    let scene = case.play(|| LineServer, vec![script.part()]);
    case.require_equal("calls that lent again", scene.server_sum(|record| record.lent_again_count), 2);
}

pub(super) fn segments_are_sent_in_order<W: World>(case: &CaseContext<'_, W>) {
    let whole = TestContent::pattern(4, 20_000);
    let bytes = whole.to_bytes();
    let file = file_of(&bytes);
    let parts = [0..10, 10..11, 11..5_000, 5_000..5_001, 5_001..12_000, 12_000..12_100, 12_100..20_000];
    let kinds = parts.into_iter().enumerate().map(|(index, range)| match index % 3 {
        0 => ResponsePart::Copied(bytes.slice(range).into()),
        1 => ResponsePart::Shared(bytes.slice(range)),
        _ => ResponsePart::File(FileRange {
            file: file.clone(),
            offset: range.start as u64,
            length: (range.end - range.start) as u64,
        }),
    });
    let parts: Vec<_> = kinds.collect();
    let server = move || FixedResponder::new(ResponseTrigger::FirstBytes, parts.clone(), AfterResponse::Keep);
    let scripts = (0..2).map(|_| Script::new().connect().send("go").expect(whole.clone()).part()).collect();
    case.play(server, scripts);
}

pub(super) fn large_file_part<W: World>(case: &CaseContext<'_, W>) {
    let whole = TestContent::pattern(5, case.large_bytes());
    let bytes = whole.to_bytes();
    let (offset, length) = (777, case.large_bytes() - 1_000);
    let file = file_of(&bytes);
    let part = ResponsePart::File(FileRange { file, offset, length });
    let server = move || FixedResponder::new(ResponseTrigger::FirstBytes, vec![part.clone()], AfterResponse::Finish);
    let expected = bytes.slice(offset as usize..(offset + length) as usize);
    case.play(server, vec![Script::new().connect().send("go").expect(expected).part()]);
}

pub(super) fn short_file_ends_connection<W: World>(case: &CaseContext<'_, W>) {
    let file = file_of(b"ten bytes.");
    let part = ResponsePart::File(FileRange { file, offset: 0, length: 20 });
    let server = move || FixedResponder::new(ResponseTrigger::FirstBytes, vec![part.clone()], AfterResponse::Keep);
    let scene = case.play(server, vec![Script::new().connect().send("go").expect_gone("ten bytes.")]);
    let reasons = scene.server_reasons();
    case.require_equal("ends told to the server", reasons.len(), 1);
    case.require(reasons[0] != CloseReason::Requested, "an answer that is not whole is not a requested end");
}

fn file_of(bytes: &[u8]) -> Arc<std::fs::File> {
    use std::io::Write;
    let mut file = tempfile::tempfile().expect("a temporary file can be made");
    file.write_all(bytes).expect("a temporary file can be written");
    Arc::new(file)
}
