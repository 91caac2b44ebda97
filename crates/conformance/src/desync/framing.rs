//! Content-Length and Transfer-Encoding in spellings that some parsers recognise and others do not.

use super::pieces::{Attack, hidden, hidden_in_chunks, is_blank, odd_bytes, one_request, post, refused, shown};

pub(super) fn attacks() -> Vec<Attack> {
    let mut attacks = both();
    attacks.extend(coding_alone());
    attacks.extend(length_alone());
    attacks.extend(two_lengths());
    attacks.extend(old_version());
    attacks
}

/// Published lines that some parsers accept as `Transfer-Encoding: chunked`, and variants of them.
pub(super) const CODINGS: &[&[u8]] = &[
    b"Transfer-Encoding: chunked",
    b"transfer-encoding: CHUNKED",
    b"Transfer-Encoding:chunked",
    b"Transfer-Encoding:  chunked",
    b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding: identity, chunked",
    b"Transfer-Encoding: identity",
    b"Transfer-Encoding: identity, chunked, identity",
    b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nTransfer-encoding: cow",
    b"Transfer-Encoding: cow\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding:",
    b"Transfer-Encoding:\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: xchunked",
    b"Transfer-Encoding: chunkedx",
    b"Transfer-Encoding: x chunked",
    b"Transfer-Encoding: chunked x",
    b"Transfer-Encoding: chunk",
    b"Transfer-Encoding: chunke",
    b"Transfer-Encoding: cow, chunked",
    b"Transfer-Encoding: chunked, cow",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: chunked, gzip",
    b"Transfer-Encoding: compress, chunked",
    b"Transfer-Encoding: chunked, chunked",
    b"Transfer-Encoding: chunked,",
    b"Transfer-Encoding: ,chunked",
    b"Transfer-Encoding: ,",
    b"Transfer-Encoding:",
    b"Transfer-Encoding: chunked;",
    b"Transfer-Encoding: chunked; q=1",
    b"Transfer-Encoding: chunked;q=0",
    b"Transfer-Encoding: ;chunked",
    b"Transfer-Encoding: \"chunked\"",
    b"Transfer-Encoding: 'chunked'",
    b"Transfer-Encoding: \"\", chunked",
    b"Transfer-Encoding: gzip;a=\"b, chunked\"",
    b"Transfer-Encoding: [chunked]",
    b"Transfer-Encoding: {chunked}",
    b"Transfer-Encoding: (chunked)",
    b"Transfer-Encoding: (a) chunked",
    b"Transfer-Encoding: \\chunked",
    b"Transfer-Encoding: /chunked",
    b"Transfer-Encoding: @chunked",
    b"Transfer-Encoding: =chunked",
    b"Transfer-Encoding: chunked=",
    b"Transfer-Encoding: chu%6eked",
    b"Transfer-Encoding: =?utf-8?q?chunked?=",
    b"Transfer-Encoding: chun\xe2\x84\xaaed",
    b"Transfer-Encoding: chun\xc5\xbfked",
    b"Transfer-Encoding: \xef\xbb\xbfchunked",
    b"Transfer-Encoding: \xe2\x80\x8bchunked",
    b"Transfer-Encoding: \xc2\xa0chunked",
    b"Transfer-Encoding: false",
    b"Transfer-Encoding: 0",
    b"Transfer-Encoding:\r\n chunked",
    b"Transfer-Encoding:\r\n\tchunked",
    b"Transfer-Encoding: \r\n chunked",
    b"Transfer-Encoding:\n chunked",
    b"Transfer-Encoding:\nchunked",
    b"Transfer-Encoding\r\n: chunked",
    b"Transfer-Encoding\r\n : chunked",
    b"Transfer-\r\n Encoding: chunked",
    b"Transfer-Encoding: chun\r\n ked",
    b"Transfer-Encoding: x\r\n chunked",
    b"Transfer-Encoding: chunked\r\n x",
    b"Transfer-Encoding: chunked\r\n\t",
    b"X: x\r\n Transfer-Encoding: chunked",
    b"X: x\r\n\tTransfer-Encoding: chunked",
    b"X: x\nTransfer-Encoding: chunked",
    b"X: x\rTransfer-Encoding: chunked",
    b"X: x\r\rTransfer-Encoding: chunked",
    b"X: x\r\r\nTransfer-Encoding: chunked",
    b"X: x\r\n\rTransfer-Encoding: chunked",
    b"X: x\0\r\nTransfer-Encoding: chunked",
    b"X\r\nTransfer-Encoding: chunked",
    b": x\r\nTransfer-Encoding: chunked",
    b"\0: x\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r",
    b"Transfer-Encoding: chunked\r\r",
    b"Transfer-Encoding: chunked\nX: x",
    b"Transfer-Encoding: chunked\rX: x",
    b"Transfer Encoding: chunked",
    b"Transfer_Encoding: chunked",
    b"Transfer.Encoding: chunked",
    b"Transfer--Encoding: chunked",
    b"-Transfer-Encoding: chunked",
    b"Transfer-Encoding-: chunked",
    b"'Transfer-Encoding: chunked",
    b"(Transfer-Encoding: chunked",
    b"Transfer-Encoding): chunked",
    b"\"Transfer-Encoding\": chunked",
    b"Transfer-Encoding;: chunked",
    b"Transfer-Encoding, chunked",
    b"Transfer-Encoding=chunked",
    b"Transfer-Encoding; chunked",
    b"Transfer-Encoding chunked",
    b"Transfer-Encoding\xc2\xa0: chunked",
    b"Tran\xc5\xbffer-Encoding: chunked",
    b"Transfer\xe2\x80\x90Encoding: chunked",
    b"\xef\xbb\xbfTransfer-Encoding: chunked",
    b"Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked",
    b"TE: chunked\r\nTransfer-Encoding: chunked",
];

/// Whether the line is valid.
pub(super) fn is_proper(coding: &[u8]) -> bool {
    const EASY: [&[u8]; 6] = [
        b"Transfer-Encoding: chunked",
        b"transfer-encoding: CHUNKED",
        b"Transfer-Encoding:chunked",
        b"Transfer-Encoding:  chunked",
        b"Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked",
        b"TE: chunked\r\nTransfer-Encoding: chunked",
    ];
    EASY.contains(&coding)
}

/// A length and a coding, in both orders, with content for both interpretations: a parser that uses one finds a hidden
/// request where the other ends.
fn both() -> Vec<Attack> {
    let mut attacks = Vec::new();
    for coding in CODINGS
        .iter()
        .map(|coding| coding.to_vec())
        .chain(odd_lines("Transfer-Encoding", "chunked").map(|(line, _)| line))
    {
        let by_length = format!("0\r\n\r\n{}", hidden());
        let by_coding = hidden_in_chunks();
        let first_line = by_coding.find('\n').unwrap_or_default() + 1;
        for (name, content, length) in
            [("the length ends later", &by_length, by_length.len()), ("the coding ends later", &by_coding, first_line)]
        {
            let length = format!("Content-Length: {length}");
            let orders =
                [[length.as_bytes(), &coding].join(&b"\r\n"[..]), [&coding, length.as_bytes()].join(&b"\r\n"[..])];
            for fields in orders {
                attacks.push(refused(format!("{name}: {}", shown(&fields)), post(&fields, content)));
            }
        }
    }
    attacks
}

/// A coding without a length: a parser that ignores it finds a request where the content begins.
fn coding_alone() -> Vec<Attack> {
    let list = CODINGS.iter().map(|coding| (coding.to_vec(), is_proper(coding)));
    let made = list.chain(odd_lines("Transfer-Encoding", "chunked"));
    made.map(|(line, is_proper)| {
        let name = format!("a coding alone: {}", shown(&line));
        // For parsers that recognise it, the hidden request is content; for the others, it follows garbage.
        let send = post(&line, hidden_in_chunks());
        if is_proper { one_request(name, send) } else { refused(name, send) }
    })
    .collect()
}

/// Values that some parsers accept as the number they contain.
fn lengths() -> Vec<(Vec<u8>, bool)> {
    let length = hidden().len();
    let proper = [format!("{length}"), format!("  {length}"), format!("{length} \t ")];
    let odd = [
        format!("+{length}"),
        format!("-{length}"),
        format!("0{length}"),
        format!("00000000000000000000{length}"),
        format!("0x{length:x}"),
        format!("{length:x}h"),
        format!("0o{length:o}"),
        format!("{length}.0"),
        format!("{length}."),
        format!("{length}e0"),
        format!("{length}E+0"),
        format!("{length}_0"),
        format!("{length},"),
        format!(",{length}"),
        format!("{length},{length}"),
        format!("{length}, {length}"),
        format!("0, {length}"),
        format!("{length}, 0"),
        format!("{length};"),
        format!("{length};q=1"),
        format!("{length} {length}"),
        format!("0 {length}"),
        format!("{length} bytes"),
        format!("\"{length}\""),
        format!("'{length}'"),
        format!("({length})"),
        format!("{length}L"),
        format!("{length}%"),
        format!("%{:x}", b'0'),
        format!("{}", u128::from(u64::MAX) + 1 + length as u128),
        format!("{}", u64::from(u32::MAX) + 1 + length as u64) + "x",
        String::from("\u{ff10}"),
        String::from("\u{0665}\u{0660}"),
        String::from("\u{b2}"),
        format!("{length}\r\n {length}"),
        format!("\r\n {length}"),
        format!("{length}\r"),
        format!("{length}\nX: x"),
        format!("{length}\rX: x"),
        String::new(),
        String::from("chunked"),
        String::from("NaN"),
        String::from("inf"),
        String::from("-1"),
        String::from("-0"),
    ];
    let proper = proper.into_iter().map(|value| (value.into_bytes(), true));
    proper.chain(odd.into_iter().map(|value| (value.into_bytes(), false))).collect()
}

/// A length without a coding: a parser that ignores it finds the hidden request after the head.
fn length_alone() -> Vec<Attack> {
    let listed =
        lengths().into_iter().map(|(value, is_proper)| ([b"Content-Length: ", &value[..]].concat(), is_proper));
    let number = hidden().len().to_string();
    let names = [
        "Content_Length",
        "Content.Length",
        "Content Length",
        "Content--Length",
        "-Content-Length",
        "Content-Length-",
        "'Content-Length",
        "(Content-Length",
        "\"Content-Length\"",
        "Content-Length\u{a0}",
        "Content\u{2010}Length",
    ];
    let named = names.into_iter().map(|name| (format!("{name}: {number}").into_bytes(), false));
    let made = listed.chain(named).chain(odd_lines("Content-Length", &number));
    made.map(|(line, is_proper)| {
        let name = format!("a length alone: {}", shown(&line));
        let send = post(&line, hidden());
        if is_proper { one_request(name, send) } else { refused(name, send) }
    })
    .collect()
}

/// Two lengths, of which a parser may use either.
fn two_lengths() -> Vec<Attack> {
    let number = hidden().len().to_string();
    let proper = format!("Content-Length: {number}").into_bytes();
    let listed = lengths().into_iter().map(|(value, _)| [b"Content-Length: ", &value[..]].concat());
    let zero = [b"Content-Length: 0".to_vec(), b"content-length: 0".to_vec(), b"Content-Length: 00".to_vec()];
    let seconds = listed.chain(zero).chain(odd_lines("Content-Length", "0").map(|(line, _)| line));
    seconds
        .flat_map(|second| [[&proper[..], &second].join(&b"\r\n"[..]), [&second[..], &proper].join(&b"\r\n"[..])])
        .map(|fields| refused(format!("two lengths: {}", shown(&fields)), post(&fields, hidden())))
        .collect()
}

/// HTTP/1.0 has no codings, and its requests are not delimited by closing.
fn old_version() -> Vec<Attack> {
    let old = |fields: &[u8], behind: &str| {
        [b"POST /bytes/3 HTTP/1.0\r\nHost: a\r\n", fields, b"\r\n\r\n", behind.as_bytes()].concat()
    };
    let with_coding = CODINGS.iter().flat_map(|coding| {
        let kept = [b"Connection: keep-alive\r\n", *coding].concat();
        [old(coding, &hidden_in_chunks()), old(&kept, &format!("0\r\n\r\n{}", hidden()))]
            .map(|send| refused(format!("in HTTP/1.0: {}", shown(coding)), send))
    });
    with_coding.collect()
}

/// A field line with each odd byte at each position, and whether it is still valid.
pub(super) fn odd_lines(name: &'static str, value: &str) -> impl Iterator<Item = (Vec<u8>, bool)> {
    let value = value.to_owned();
    odd_bytes().flat_map(move |odd| {
        let (name, value) = (name.as_bytes(), value.as_bytes());
        let (name_front, name_back) = name.split_at(7);
        let (value_front, value_back) = value.split_at(1);
        let odd_slice = &[odd][..];
        let colon = &b": "[..];
        let blank_only = is_blank(odd);
        [
            ([odd_slice, name, colon, value].concat(), false),
            ([name_front, odd_slice, name_back, colon, value].concat(), false),
            ([name, odd_slice, colon, value].concat(), false),
            ([name, colon, odd_slice, value].concat(), blank_only),
            ([name, colon, value_front, odd_slice, value_back].concat(), blank_only && value_back.is_empty()),
            ([name, colon, value, odd_slice].concat(), blank_only),
        ]
    })
}
