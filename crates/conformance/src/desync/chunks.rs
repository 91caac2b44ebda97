//! Chunked content whose end may be found at two positions.

use super::pieces::{Attack, Reading, hidden, is_blank, odd_bytes, one_request, post, refused, shown};

const CHUNKED: &str = "Transfer-Encoding: chunked";

pub(super) fn attacks() -> Vec<Attack> {
    let mut attacks = size_lines();
    attacks.extend(odd_size_lines());
    attacks.extend(ends_of_chunks());
    attacks.extend(last_chunks());
    attacks.extend(trailers());
    attacks
}

fn chunked(name: String, content: Vec<u8>, is_proper: bool) -> Attack {
    let send = post(CHUNKED, content);
    if is_proper { one_request(name, send) } else { refused(name, send) }
}

/// A chunk that contains the hidden request, with this size line.
fn under(line: &[u8]) -> Vec<u8> {
    [line, hidden().as_bytes(), b"\r\n0\r\n\r\n"].concat()
}

fn size_lines() -> Vec<Attack> {
    let size = format!("{:x}", hidden().len());
    let proper = ["\r\n", ";a\r\n", ";a=b\r\n", ";a=\"b\"\r\n", ";a=\";\\\"\"\r\n", "; a = b\r\n", ";a;b=c\r\n"];
    let odd = [
        "\n",
        "\r",
        "\r\r\n",
        "\n\r",
        "\r\n\n",
        "\r\n\r\n",
        " \r\n",
        "\t\r\n",
        " ;a\r\n",
        ";\r\n",
        ";;\r\n",
        ";=\r\n",
        ";a=\r\n",
        ";a=\"\r\n",
        ";a=\"b\r\n",
        ";a\n",
        ";\n",
        ";a\r",
        ";a\nb\r\n",
        ";a\rb\r\n",
        ";a=\"\n\"\r\n",
        ";a=\"\r\n\"\r\n",
        ";a=\"\\\r\n\"\r\n",
        ";a=b c\r\n",
        ",a\r\n",
        " a\r\n",
        "#a\r\n",
        ":a\r\n",
        "=a\r\n",
        "h\r\n",
        ".0\r\n",
        "_0\r\n",
        "e+0\r\n",
        ";a\0\r\n",
        ";a=\"\0\"\r\n",
        ";a=\x7f\r\n",
        ";[a]=b\r\n",
        ";a=\"\u{1}\"\r\n",
        "\u{b}\r\n",
        "\u{c}\r\n",
        "\u{a0}\r\n",
        "\u{2028}\r\n",
    ];
    let fronts = [
        "0x",
        "0X",
        "+",
        "-",
        " ",
        "\t",
        "\\",
        "$",
        "\"",
        "'",
        "{",
        "\u{b}",
        "\0",
        "\r",
        "\n",
        "\r\n",
        ";",
        "#",
        "00000000000000000",
        "10000000000000000",
        "ffffffffffffffff",
    ];
    let behind = |end: &str, is_proper| (format!("{size}{end}"), is_proper);
    let in_front = fronts.iter().map(|front| (format!("{front}{size}\r\n"), false));
    let zeros = [format!("0{size}\r\n"), format!("00000000{size}\r\n"), size.to_uppercase() + "\r\n"];
    let as_they_are = proper.iter().map(|end| behind(end, true)).chain(odd.iter().map(|end| behind(end, false)));
    as_they_are
        .chain(in_front)
        .chain(zeros.into_iter().map(|line| (line, true)))
        .map(|(line, is_proper)| {
            chunked(format!("a chunk under {}", shown(line.as_bytes())), under(line.as_bytes()), is_proper)
        })
        .collect()
}

/// Each odd byte at each position of a size line with an extension.
fn odd_size_lines() -> Vec<Attack> {
    let size = format!("{:x}", hidden().len());
    odd_bytes()
        .flat_map(|odd| {
            let at = |front: &str, back: &str| [front.as_bytes(), &[odd], back.as_bytes()].concat();
            let (first, rest) = size.split_at(1);
            let is_text = is_blank(odd) || odd >= 0x80;
            [
                (at("", &format!("{size}\r\n")), false),
                (at(first, &format!("{rest}\r\n")), false),
                (at(&size, "\r\n"), false),
                (at(&size, ";a\r\n"), false),
                (at(&format!("{size};"), "a\r\n"), is_blank(odd)),
                (at(&format!("{size};a"), "b\r\n"), false),
                (at(&format!("{size};a=\"b"), "c\"\r\n"), is_text),
                (at(&format!("{size};a=b"), "\r\n"), false),
                (at(&format!("{size}\r"), "\n"), false),
            ]
        })
        .map(|(line, is_proper)| chunked(format!("a chunk under {}", shown(&line)), under(&line), is_proper))
        .collect()
}

/// Bytes between a chunk's content and the next size.
fn ends_of_chunks() -> Vec<Attack> {
    let odd = odd_bytes()
        .flat_map(|odd| [vec![odd], vec![odd, b'\r', b'\n'], vec![b'\r', odd, b'\n'], vec![b'\r', b'\n', odd]]);
    let listed = [&b""[..], b"\n", b"\r", b"\n\n", b"\n\r", b"XX", b"X\r\n", b"\r\n\r\n", b"0", b";", b"\r\nX"]
        .map(<[u8]>::to_vec);
    odd.chain(listed)
        // The valid end of a chunk.
        .filter(|end| end != b"\r\n")
        .map(|end| {
            let content = [b"3\r\nabc", &end[..], b"0\r\n\r\n", hidden().as_bytes()].concat();
            chunked(format!("a chunk ended by {}", shown(&end)), content, false)
        })
        .collect()
}

/// Invalid or early ends of content.
fn last_chunks() -> Vec<Attack> {
    let odd = [
        "0\n\n",
        "0\n\r\n",
        "0\r\n\n",
        "0\r\r\n\r\n",
        "0\r\n\r\r\n",
        "0\r\n\rX",
        "0\r\nX\r\n\r\n",
        "-0\r\n\r\n",
        "+0\r\n\r\n",
        "0x0\r\n\r\n",
        "0;\r\n\r\n",
        "0 \r\n\r\n",
        " 0\r\n\r\n",
        "0\t\r\n\r\n",
        "0\0\r\n\r\n",
        "00000000000000000\r\n\r\n",
        "\r\n",
        "\r\n\r\n",
        "0\r\n \r\n\r\n",
        "0\r\n\t\r\n",
        "0\r\n:\r\n\r\n",
        "0\r\n: x\r\n\r\n",
        "0.\r\n\r\n",
        "0,\r\n\r\n",
        "0_\r\n\r\n",
    ];
    let proper = ["0\r\n\r\n", "000\r\n\r\n", "0;a\r\n\r\n", "0;a=\"b\"\r\n\r\n", "0\r\nX: x\r\n\r\n"];
    let accepted = |reading| {
        move |end: &str| {
            let content = format!("3\r\nabc\r\n{end}{}", "GET /bytes/3 HTTP/1.1\r\nHost: a\r\n\r\n");
            Attack {
                name: format!("content ended by {}", shown(end.as_bytes())),
                send: post(CHUNKED, content),
                reading,
            }
        }
    };
    let refused = odd.iter().map(|end| {
        let content = format!("3\r\nabc\r\n{end}{}", hidden());
        refused(format!("content ended by {}", shown(end.as_bytes())), post(CHUNKED, content))
    });
    refused.chain(proper.into_iter().map(accepted(Reading::Requests(2)))).collect()
}

/// Trailers that a recipient might merge into the head, or parse as a request.
fn trailers() -> Vec<Attack> {
    let names = [
        "Content-Length",
        "Transfer-Encoding",
        "Host",
        "Authorization",
        "Trailer",
        "Content-Encoding",
        "Content-Type",
        "Content-Range",
    ];
    let named = names.into_iter().map(|name| (format!("{name}: 3\r\n").into_bytes(), false));
    let odd = odd_bytes().flat_map(|odd| {
        let at = |front: &str, back: &str| [front.as_bytes(), &[odd], back.as_bytes()].concat();
        let is_text = is_blank(odd) || odd >= 0x80;
        [
            (at("", "X: x\r\n"), false),
            (at("X", ": x\r\n"), false),
            (at("X: x", "y\r\n"), is_text),
            (at("X: x\r", "\n"), false),
        ]
    });
    let content = |lines: &[u8]| [b"3\r\nabc\r\n0\r\n", lines, b"\r\n"].concat();
    named
        .chain(odd)
        .map(|(lines, is_proper)| chunked(format!("the trailer {}", shown(&lines)), content(&lines), is_proper))
        .collect()
}
