//! Attacks from publications, as far as the other lists lack them.
//!
//! Each case is generated here; the modification of a message and its source are taken from the publications. Attacks
//! that require HTTP/2 or a pause are omitted.

use super::pieces::{Attack, hidden, hidden_in_chunks, one_request, post, refused, shown};

pub(super) fn attacks() -> Vec<Attack> {
    let mut attacks = every_byte();
    attacks.extend(letters());
    attacks.extend(hidden_fields());
    attacks.extend(fields_named_in_connection());
    attacks.extend(forked_chunks());
    attacks.extend(garden());
    attacks.extend(methods_with_content());
    attacks.extend(overflows_and_escapes());
    attacks.extend(mangled_request_lines());
    attacks
}

fn chunked(name: &str, content: impl AsRef<[u8]>) -> Attack {
    let content = content.as_ref();
    refused(format!("{name}: {}", shown(content)), post("Transfer-Encoding: chunked", content))
}

/// Each byte that is not visible ASCII at each position of a line, and the same byte at two positions ("smuggler" of
/// defparam, its exhaustive and its double list). A length is added, which ends before what the chunks hide.
fn every_byte() -> Vec<Attack> {
    let bytes = (1..=0x20).chain(0x7f..=0xff_u8);
    let lines = bytes.flat_map(|byte| {
        // Before the name, after it, before the value, after it.
        (1..16_u8).filter(|places| places.count_ones() <= 2).map(move |places| {
            let at = |place: u8, plain: &'static [u8]| match places >> place & 1 {
                1 => vec![byte],
                _ => plain.to_vec(),
            };
            [
                at(0, b""),
                b"Transfer-Encoding".to_vec(),
                at(1, b""),
                b":".to_vec(),
                at(2, b" "),
                b"chunked".to_vec(),
                at(3, b""),
            ]
            .concat()
        })
    });
    lines
        .map(|line| {
            let content = hidden_in_chunks();
            let size_line = content.find('\n').unwrap_or_default() + 1;
            let length_before = format!("Content-Length: {size_line}\r\n");
            let fields = [length_before.as_bytes(), &line].concat();
            refused(format!("smuggler: {}", shown(&line)), post(fields, content))
        })
        .collect()
}

/// Letters that are omitted, encoded, or have a diacritic (both "smuggler" and "http-request-smuggler"). Some result in
/// just other fields.
fn letters() -> Vec<Attack> {
    let length = format!("Content-Length: {}\r\n", hidden().len());
    let beside = |line: &[u8]| post([length.as_bytes(), line].concat(), hidden());
    let odd: [&[u8]; 6] = [
        b"Transf\x82r-Encoding: chunked",
        b"Transf\xc3\xa9r-Encoding: chunked",
        b"Transfer-Encoding: ch\x96nked",
        b"Transfer-Encoding: cow chunked bar",
        b"Transfer-Encoding: =?iso-8859-1?B?Y2h1bmtlZA==?=",
        b"Transfer-Encoding: %63hunked",
    ];
    let other =
        ["Transfer-%45ncoding: chunked", "Content-Encoding: chunked", "TransferEncoding: chunked", "TE: chunked"];
    let odd = odd.map(|line| refused(format!("letters: {}", shown(line)), beside(line)));
    let other = other.map(|line| one_request(format!("another field: {line}"), beside(line.as_bytes())));
    odd.into_iter().chain(other).collect()
}

/// Lines that only some parsers recognise as a field ("http-request-smuggler" of PortSwigger: its permutations and its
/// search for discrepancies of 2025; "HTTP Request Smuggling in 2020" by Klein). Parsers that do interpret the request
/// differently from those that do not.
fn hidden_fields() -> Vec<Attack> {
    let content = hidden();
    let length = content.len().to_string();
    [
        ("Transfer-Encoding", "chunked", format!("Content-Length: {}\r\n", content.len())),
        ("Content-Length", length.as_str(), String::new()),
        ("Host", "b", String::new()),
        ("Expect", "100-continue", format!("Content-Length: {}\r\n", content.len())),
    ]
    .into_iter()
    .flat_map(|(name, value, beside)| {
        let made = spellings(name, value).into_iter().chain(endings(name, value));
        made.map(move |lines| (beside.clone(), lines)).collect::<Vec<_>>()
    })
    .map(|(beside, lines)| {
        let name = format!("http-request-smuggler: {}", shown(lines.as_bytes()));
        refused(name, post(format!("{beside}{lines}"), hidden()))
    })
    .chain(first_lines())
    .collect()
}

/// The name or the value is written so that it may be missed.
fn spellings(name: &str, value: &str) -> Vec<String> {
    let (front, back) = name.split_at(3);
    let mut spellings = vec![
        format!("{name} : {value}"),
        format!("{name}\t: {value}"),
        format!("{name} x: {value}"),
        format!("{name}\n : {value}"),
        format!("{name}:\n {value}"),
        format!("{name}: \n\u{b}{value}"),
        format!("{name}: \r\n\t{value}"),
        format!("{name}:\r\n \r\n {value}"),
        format!("{front}\r{back}: {value}"),
        format!("{front}\\{back}: {value}"),
        format!("{front}\r\n{back}: {value}"),
        format!("{name} {value}"),
        format!("{name}={value}"),
        format!("{name}:{value}\0"),
        format!("{name}\0: {value}"),
    ];
    if let Some((first, second)) = name.split_once('-') {
        spellings.extend([format!("{first} {second}: {value}"), format!("{first}\\{second}: {value}")]);
        spellings.push(format!("{first}\0{second}: {value}"));
    }
    spellings
}

/// The line follows something that may be the end of another line, or of the head.
fn endings(name: &str, value: &str) -> Vec<String> {
    let ends = [
        "X: x\r",
        "X: x\n",
        "X: x\r\n\r",
        "X: x\n\n",
        "X: x\r\n\n",
        "X: x\n \n",
        "X: x\n\r\n",
        "X: x\r\n \r\n",
        "X: x\r\n ",
        "X: x\r\n\t",
        "X: \"\r\n\r\n\"\r\n",
        "X: x\0\r\n",
        "X: x\r\0\n\r\n",
        "X\r\n",
        ":\r\n",
        ":\r\n\r\n",
        ": x\r\n",
    ];
    // The empty line also ends the head for us, if everything before it is valid.
    let is_odd = |end: &&str| !end.starts_with("X: \"");
    ends.into_iter().filter(is_odd).map(|end| format!("{end}{name}: {value}")).collect()
}

/// A field folded into the request line.
fn first_lines() -> Vec<Attack> {
    let content = hidden_in_chunks();
    let fields =
        ["Transfer-Encoding: chunked".to_owned(), format!("Content-Length: {}", content.len()), "Host: b".to_owned()];
    let fronts = [" ", "\t", "\r ", "\n"];
    let pairs = fields.iter().flat_map(|field| fronts.map(|front| (field, front)));
    pairs
        .map(|(field, front)| {
            let head = format!("POST /bytes/3 HTTP/1.1\r\n{front}{field}\r\nHost: a\r\n\r\n{content}");
            refused(format!("http-request-smuggler: the first line {}", shown(front.as_bytes())), head.into_bytes())
        })
        .collect()
}

/// Fields named in Connection are for the next hop only, but not those that are needed to parse the message: a proxy
/// that removes them turns content into a request ("hop" of http-request-smuggler; "Abusing HTTP hop-by-hop request
/// headers" by Davison, 2019).
fn fields_named_in_connection() -> Vec<Attack> {
    let named = [
        "Content-Length",
        "content-length",
        "Host",
        "Host, Content-Length",
        "Via, X-Forwarded-For",
        "Expect",
        "TE, Trailer",
    ];
    named
        .iter()
        .flat_map(|named| {
            let length = format!("Content-Length: {}", hidden().len());
            [format!("{length}\r\nConnection: {named}"), format!("Connection: {named}\r\n{length}")]
        })
        .map(|fields| one_request(format!("named in Connection: {fields}"), post(&fields, hidden())))
        .collect()
}

/// Chunks in which parsers find the end of a line, or of a chunk, at different positions, constructed so that both
/// continue to a valid end, and only one of them finds the hidden request ("Funky chunks" by Weikop, 2025: TERM.EXT,
/// EXT.TERM, TERM.SPILL, SPILL.TERM, ONE.TWO and so on; in products CVE-2025-55315, CVE-2025-58056, CVE-2025-43859,
/// CVE-2025-22871).
fn forked_chunks() -> Vec<Attack> {
    forked_contents().iter().map(|content| chunked("funky chunks", content)).collect()
}

/// The contents alone, since responses have chunks too.
pub(super) fn forked_contents() -> Vec<String> {
    let ends = ["\n", "\r", "\rX", "\r\r", "\r\r\n", "\n\r", "", "XX", "\0"];
    let mut contents = Vec::new();
    for end in ends {
        for is_hidden_first in [true, false] {
            // These two are valid extensions.
            if !["", "XX"].contains(&end) {
                let fork = fork(is_hidden_first, 0);
                contents.push(format!("2;{end}xx\r\n{fork}"));
                contents.push(format!("2;a=\"{end}xx\"\r\n{fork}"));
            }
            // The first of the two sizes is on the same line as the bytes beyond the chunk.
            contents.push(format!("5\r\nAAAAA{end}{}", fork(is_hidden_first, 0)));
            // The number of bytes skipped after a chunk determines which digits are the next size.
            contents.push(format!("2\r\nXX{end}{}", fork(is_hidden_first, 1)));
        }
    }
    contents
}

/// Two consecutive sizes. With one, the hidden request is content; with the other it follows the end. `zeros` are
/// digits that may be treated as the end of the previous chunk.
fn fork(is_hidden_first: bool, zeros: usize) -> String {
    let short = "AAAABBBBCCCC\r\n0\r\n\r\n";
    let (inner, all) = (12, short.len() + hidden().len());
    let zeros = "0".repeat(zeros);
    let (first, second) = if is_hidden_first { (all + 4, inner) } else { (inner + 4, all) };
    format!("{zeros}{first:02x}\r\n{second:02x}\r\n{short}{}\r\n0\r\n\r\n", hidden())
}

/// Bugs found in servers and proxies with the HTTP Garden (Kallus and Anantharaman, 2024), unless in the other lists.
fn garden() -> Vec<Attack> {
    let size = hidden().len();
    let sizes = [
        format!("0_{size:x}"),
        format!("0x{:x}_{:x}", size >> 4, size & 15),
        format!("{size:x}these-bytes-are-not-read"),
        "-0x0".to_owned(),
        "0x".to_owned(),
        "Z".to_owned(),
        String::new(),
        format!("{size:x}\r\r;a"),
        format!("{size:x}\r;a"),
        format!("{size:x} \r;a"),
        format!("           {size:x}"),
    ];
    let sized = sizes.iter().map(|size| chunked("HTTP Garden", format!("{size}\r\n{}\r\n0\r\n\r\n", hidden())));
    let contents = [
        // Empty lines between chunks, and two bytes that may be treated as the last empty line.
        format!("1\r\nZ\r\n\r\n0\r\n\r\n{}", hidden()),
        format!("1\r\nZ\r\n\r\n\r\n{}", hidden()),
        format!("0\r\nX\r\n{}", hidden()),
        format!("0\r\nXX{}", hidden()),
        format!("0\r\n{}", hidden()),
        format!("Z\r\nZZ\r\nZZZ\r\n\r\n{}", hidden()),
        format!("2\r\r;a\r\n02\r\n{size:x}\r\n0\r\n\r\n{}", hidden()),
    ];
    let contents = contents.iter().map(|content| chunked("HTTP Garden", content));
    sized.chain(contents).chain(garden_heads()).chain([trailer_like_a_request()]).collect()
}

fn garden_heads() -> impl Iterator<Item = Attack> {
    let lines = [
        "GET /bytes/3 HTTP/4294967295.255",
        "GET /bytes/3 HTTP/4294967297.1",
        "GET /bytes/3 HTTP/............0596.7407.",
        "GET /bytes/3 HTTP/1.1\0",
        "G=\":<>(e),[T];?\" /bytes/3 HTTP/1.1",
        "\0 /bytes/3 HTTP/1.1",
        "GET /bytes/3\nHTTP/1.1",
        "GET\0/bytes/3 HTTP/1.1",
    ];
    let lines = lines.map(|line| {
        refused(format!("HTTP Garden: {}", shown(line.as_bytes())), format!("{line}\r\nHost: a\r\n\r\n").into())
    });
    let number = hidden().len();
    let fields = [
        format!("Content-Length {number}"),
        format!("Content-Length: +{}_{}", number / 10, number % 10),
        format!("Content-Length:\r\nContent-Length: {number}"),
        "Content-Length: blah\r\nTransfer-Encoding: chunked".to_owned(),
        "Transfer-\r\nEncoding: chunked".to_owned(),
        "X:\n\nGET /bytes/9?hidden HTTP/1.1".to_owned(),
        "X: x\n\r\0".to_owned(),
        ":\r\nX: cut off".to_owned(),
        "\rZGET /bytes/9?hidden HTTP/1.1: x\r\nHost: a".to_owned(),
        "a:b\r\nc\0".to_owned(),
    ];
    let fields =
        fields.map(|fields| refused(format!("HTTP Garden: {}", shown(fields.as_bytes())), post(&fields, hidden())));
    // The preface of HTTP/2, followed by a frame.
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    lines.into_iter().chain(fields).chain([refused("the preface of HTTP/2", preface.to_vec())])
}

/// Valid, and rewritten by breme: with a space after the colon (CVE-2023-40175).
fn trailer_like_a_request() -> Attack {
    let content = "3\r\nabc\r\n0\r\nX:GET /bytes/9?hidden HTTP/1.1\r\nY:a\r\n\r\n";
    one_request("a trailer like a request", post("Transfer-Encoding: chunked", content))
}

/// Methods whose content some servers do not expect ("TE.0" by Arnolfo and others, 2024; "CL.0", Kettle, 2022; T-Reqs
/// by Jabiyev and others, 2021).
fn methods_with_content() -> Vec<Attack> {
    let methods = ["OPTIONS", "DELETE", "PUT", "PATCH", "PROPFIND"];
    let length = format!("Content-Length: {}", hidden().len());
    let with = |method: &str, target: &str, field: &str, content: &str| {
        format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n{content}").into_bytes()
    };
    let made = methods.iter().flat_map(|method| {
        [
            one_request(format!("{method} with a length"), with(method, "/bytes/3", &length, &hidden())),
            one_request(
                format!("{method} with chunks"),
                with(method, "/bytes/3", "Transfer-Encoding: chunked", &hidden_in_chunks()),
            ),
            refused(
                format!("{method} with a folded length"),
                with(
                    method,
                    "/bytes/3",
                    &format!("Expect: 100-continue\r\n{}", length.replace(": ", ":\r\n ")),
                    &hidden(),
                ),
            ),
        ]
    });
    let get = with("GET", "/bytes/3", "Transfer-Encoding: chunked", &hidden_in_chunks());
    let trace = with("TRACE", "/bytes/3", "Transfer-Encoding: chunked", &hidden_in_chunks());
    made.chain([one_request("GET with chunks", get), refused("TRACE with chunks", trace)]).collect()
}

/// Numbers that overflow in some parsers, and encoded line ends that some parsers decode.
fn overflows_and_escapes() -> Vec<Attack> {
    let length = format!("Content-Length: {}", hidden().len());
    // A name so long that only its length modulo 256 or 65,536 is kept (CVE-2021-40346).
    let long_names = [242, 255, 256, 257].map(|more| {
        let fields = format!("Content-Length0{}:\r\n{length}", "a".repeat(more));
        one_request(format!("a name with {more} letters more"), post(fields, hidden()))
    });
    // In targets and values they are ordinary characters (CVE-2023-25690).
    let escaped = "%20HTTP/1.1%0d%0aHost:%20a%0d%0a%0d%0aGET%20/bytes/9?h%69dden";
    let targets = [format!("/bytes/3?{escaped}"), format!("http://a/bytes/3?{escaped}")].map(|target| {
        one_request(
            format!("escaped line ends in {target}"),
            format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes(),
        )
    });
    let values = [
        "%0d%0aTransfer-Encoding: chunked",
        "\\r\\nTransfer-Encoding: chunked",
        "x\u{560d}\u{560a}Transfer-Encoding: chunked",
    ]
    .map(|value| {
        one_request(format!("escaped line ends in {value}"), post(format!("X: {value}\r\n{length}"), hidden()))
    });
    long_names.into_iter().chain(targets).chain(values).collect()
}

/// A part of the request line is missing or repeated (T-Reqs, 2021).
fn mangled_request_lines() -> Vec<Attack> {
    let parts = ["GET", " ", "/bytes/3", " ", "HTTP", "/", "1.1", "\r\n"];
    let mangled = |at: usize, count: usize| {
        let parts = parts.iter().enumerate().map(|(number, part)| part.repeat(if number == at { count } else { 1 }));
        let line = parts.collect::<String>();
        refused(format!("T-Reqs: {}", shown(line.as_bytes())), format!("{line}Host: a\r\n\r\n").into_bytes())
    };
    // A repetition of these results in another valid method or path.
    let twice = (0..parts.len()).filter(|&at| parts[at] != "GET" && parts[at] != "/bytes/3");
    twice.map(|at| mangled(at, 2)).chain((0..parts.len()).map(|at| mangled(at, 0))).collect()
}
