//! Request lines, field lines and Host in spellings on which parsers disagree: the target, the host, or the end of the
//! head.

use super::pieces::{Attack, HIDDEN_TARGET, hidden, is_blank, odd_bytes, one_request, refused, shown};

pub(super) fn attacks() -> Vec<Attack> {
    let mut attacks = odd_request_lines();
    attacks.extend(request_lines());
    attacks.extend(fields());
    attacks.extend(hosts());
    attacks.extend(ends_of_heads());
    attacks
}

fn get(line: &[u8]) -> Vec<u8> {
    [line, b"\r\nHost: a\r\n\r\n"].concat()
}

/// Each odd byte at each position of a request line.
fn odd_request_lines() -> Vec<Attack> {
    let places = [
        ("", "GET /bytes/3 HTTP/1.1"),
        ("G", "ET /bytes/3 HTTP/1.1"),
        ("GET", " /bytes/3 HTTP/1.1"),
        ("GET", "/bytes/3 HTTP/1.1"),
        ("GET ", "/bytes/3 HTTP/1.1"),
        ("GET /by", "tes/3 HTTP/1.1"),
        ("GET /bytes/3?a", "b HTTP/1.1"),
        ("GET /bytes/3", " HTTP/1.1"),
        ("GET /bytes/3", "HTTP/1.1"),
        ("GET /bytes/3 ", "HTTP/1.1"),
        ("GET /bytes/3 HTTP", "/1.1"),
        ("GET /bytes/3 HTTP/", "1.1"),
        ("GET /bytes/3 HTTP/1.", "1"),
        ("GET /bytes/3 HTTP/1.1", ""),
        ("GET http://a", "/bytes/3 HTTP/1.1"),
        ("GET http://", "a/bytes/3 HTTP/1.1"),
    ];
    odd_bytes()
        .flat_map(|odd| places.map(|(front, back)| [front.as_bytes(), &[odd], back.as_bytes()].concat()))
        // The only valid line among them, generated twice.
        .filter(|line| line != b"GET /bytes/3 HTTP/1.1")
        .map(|line| refused(format!("the request line {}", shown(&line)), get(&line)))
        .collect()
}

fn request_lines() -> Vec<Attack> {
    let odd = [
        "GET /bytes/3",
        "GET /bytes/3 ",
        "GET /bytes/3 HTTP",
        "GET /bytes/3 HTTP/",
        "GET /bytes/3 HTTP/1",
        "GET /bytes/3 HTTP/1.",
        "GET /bytes/3 HTTP/.1",
        "GET /bytes/3 HTTP/1.10",
        "GET /bytes/3 HTTP/1.01",
        "GET /bytes/3 HTTP/01.1",
        "GET /bytes/3 HTTP/10.1",
        "GET /bytes/3 HTTP/1,1",
        "GET /bytes/3 HTTP/-1.1",
        "GET /bytes/3 HTTP/+1.1",
        "GET /bytes/3 HTTP/1.1.1",
        "GET /bytes/3 HTTP/0.9",
        "GET /bytes/3 HTTP/2",
        "GET /bytes/3 HTTP/2.0",
        "GET /bytes/3 HTTP/3.0",
        "GET /bytes/3 http/1.1",
        "GET /bytes/3 Http/1.1",
        "GET /bytes/3 HTTPS/1.1",
        "GET /bytes/3 XHTTP/1.1",
        "GET /bytes/3 HTTP/1.1 HTTP/1.1",
        "GET /bytes/3 HTTP/1.1 x",
        "GET /bytes/3 x HTTP/1.1",
        "GET /bytes/3\\ HTTP/1.1 x",
        "GET",
        "GET ",
        "/bytes/3",
        "/bytes/3 HTTP/1.1",
        "HTTP/1.1",
        "PRI * HTTP/2.0",
        "GET bytes/3 HTTP/1.1",
        "GET ?x HTTP/1.1",
        "GET a HTTP/1.1",
        "GET a:80 HTTP/1.1",
        "GET * HTTP/1.1",
        "POST * HTTP/1.1",
        "GET @a/bytes/3 HTTP/1.1",
        "GET \\bytes\\3 HTTP/1.1",
        "GET /bytes\\3 HTTP/1.1",
        "GET http:/bytes/3 HTTP/1.1",
        "GET http:///bytes/3 HTTP/1.1",
        "GET http://u@a/bytes/3 HTTP/1.1",
        "GET http://u:p@a/bytes/3 HTTP/1.1",
        "GET http://@a/bytes/3 HTTP/1.1",
        "GET http://a:/b@c/bytes/3#x HTTP/1.1",
        "GET http://a:99999/bytes/3 HTTP/1.1",
        "GET http://a:-1/bytes/3 HTTP/1.1",
        "GET http://a:b/bytes/3 HTTP/1.1",
        "GET http://[::1/bytes/3 HTTP/1.1",
        "GET http://::1/bytes/3 HTTP/1.1",
        "GET http://a\\b/bytes/3 HTTP/1.1",
        "GET http://a,b/bytes/3\"HTTP/1.1",
        "GET ftp://a/bytes/3 HTTP/1.1",
        "GET file:///bytes/3 HTTP/1.1",
        "GET //a/bytes/3# HTTP/1.1",
        "GET /bytes/3# HTTP/1.1",
        "GET /bytes/3#/../x HTTP/1.1",
        "GET /bytes/<3> HTTP/1.1",
        "GET /bytes/\"3\" HTTP/1.1",
        "CONNECT /bytes/3 HTTP/1.1",
        "CONNECT http://a/bytes/3 HTTP/1.1",
        "CONNECT * HTTP/1.1",
        "CONNECT a HTTP/1.1",
        "G(T /bytes/3 HTTP/1.1",
        "G:T /bytes/3 HTTP/1.1",
        "G{T /bytes/3 HTTP/1.1",
        "\"GET\" /bytes/3 HTTP/1.1",
        "GET,POST /bytes/3 HTTP/1.1",
    ];
    odd.into_iter().map(|line| refused(format!("the request line {line}"), get(line.as_bytes()))).collect()
}

/// A head with an additional line that contains another request, or that a parser may treat as the end of the head.
fn fields() -> Vec<Attack> {
    let lines = [
        "X",
        "X x",
        "X;x",
        " X: x",
        "\tX: x",
        ": x",
        " : x",
        "X : x",
        "X\t: x",
        "X\u{b}: x",
        "X Y: x",
        "(X): x",
        "X[]: x",
        "X/Y: x",
        "X=Y: x",
        "X@Y: x",
        "X,Y: x",
        "\"X\": x",
        "X\\: x",
        "X{: x",
        "X: x\r\n y",
        "X: x\r\n\ty",
        "X:\r\n y",
        "X: x\r\n ",
        "X: x\n",
        "X: x\ny",
        "X: x\nY: y",
        "X: x\r",
        "X: x\ry",
        "X: x\rY: y",
        "X: \0",
        "X: x\0y",
        "X: x\u{1b}",
        "X\0: x",
        "\0",
        "\u{7f}: x",
        "GET /bytes/9?hidden HTTP/1.1",
        "X: x\n\nGET /bytes/9?hidden HTTP/1.1\nHost: a\n\n",
        "X: x\r\rGET /bytes/9?hidden HTTP/1.1\rHost: a\r\r",
        "X: x\n\rGET /bytes/9?hidden HTTP/1.1\n\rHost: a\n\r\n\r",
        "X: \0\r\n\0\r\nGET /bytes/9?hidden HTTP/1.1",
        "Expect: 100-continue, x",
        "Expect: x",
        "Expect: 100-continuex",
        "Expect: x 100-continue",
        "Connection\u{a0}: close",
        "Host\u{a0}: b",
        "\u{feff}Host: b",
        "H\u{f6}st: b",
    ];
    let between = lines.iter().map(|line| (format!("GET /bytes/3 HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n"), line));
    let first = lines.iter().map(|line| (format!("GET /bytes/3 HTTP/1.1\r\n{line}\r\nHost: a\r\n\r\n"), line));
    between
        .chain(first)
        .map(|(send, line)| refused(format!("the line {}", shown(line.as_bytes())), send.into_bytes()))
        .collect()
}

/// The host of a request.
fn hosts() -> Vec<Attack> {
    let request = |fields: &[u8]| [b"GET /bytes/3 HTTP/1.1\r\n", fields, b"\r\n\r\n"].concat();
    let odd = [
        "X: x",
        "Host:",
        "Host: ",
        "Host: a\r\nHost: a",
        "Host: a\r\nHost: b",
        "Host: a\r\nhost: b",
        "Host: a\r\nHost:",
        "Host:\r\nHost: a",
        "Host: a\r\nX: x\r\nHOST: a",
        "Host: a\r\nHost : b",
        "Host: a\r\n Host: b",
        "Host : a",
        " Host: a",
        "Host\t: a",
        "Host: a b",
        "Host: a, b",
        "Host: a,b",
        "Host: a/b",
        "Host: a?b",
        "Host: a#b",
        "Host: u@a",
        "Host: u:p@a",
        "Host: @a",
        "Host: a@",
        "Host: http://a",
        "Host: //a",
        "Host: a:b",
        "Host: a:+80",
        "Host: a:-80",
        "Host: a:99999",
        "Host: a:80:80",
        "Host: a:80a",
        "Host: a:80@b",
        "Host: :80",
        "Host: :",
        "Host: [::1",
        "Host: ::1",
        "Host: [::1]x",
        "Host: [::1]:x",
        "Host: [a]",
        "Host: [::1%25lo]",
        "Host: [::1%lo]",
        "Host: a\\b",
        "Host: \"a\"",
        "Host: <a>",
        "Host: a|b",
        "Host: a^b",
        "Host: a`b",
        "Host: {a}",
        "Host: a%0d%0ab: c#",
        "Host: a\u{e9}",
        "Host: a\u{3002}b",
        "Host: \u{ff41}",
        "Host: a\r\n b",
        "Host:\r\n a",
        "Host: a\0",
        "Host: a\0.b",
        "Host: a\r",
        "Host: a\nHost: b",
    ];
    let listed = odd
        .into_iter()
        .map(|fields| refused(format!("the host {}", shown(fields.as_bytes())), request(fields.as_bytes())));
    let made = odd_bytes().flat_map(|odd| {
        [
            (&b"Host: "[..], &b"a"[..], is_blank(odd)),
            (b"Host: a", b"b", false),
            (b"Host: a", b"", is_blank(odd)),
            (b"Host", b": a", false),
            (b"Ho", b"st: a", false),
            (b"", b"Host: a", false),
        ]
        .map(|(front, back, is_proper)| ([front, &[odd], back].concat(), is_proper))
    });
    let made = made.map(move |(line, is_proper)| {
        let name = format!("the host {}", shown(&line));
        if is_proper { one_request(name, request(&line)) } else { refused(name, request(&line)) }
    });
    listed.chain(made).collect()
}

/// The end of a head, and the bytes after it.
fn ends_of_heads() -> Vec<Attack> {
    let head = "GET /bytes/3 HTTP/1.1\r\nHost: a";
    let ends = [
        "\n\n",
        "\r\n\n",
        "\n\r\n",
        "\r\r",
        "\r\n\r\r\n",
        "\r\n\r \n",
        "\r\n \r\n",
        "\r\n\t\r\n",
        "\r\n\0\r\n",
        "\0\r\n\r\n",
        "\r\n\u{b}\r\n",
        "\r\r\n\r\n",
        "\r\n\rX",
    ];
    let odd_ends = ends.into_iter().map(|end| {
        refused(format!("a head ended by {}", shown(end.as_bytes())), format!("{head}{end}{}", hidden()).into_bytes())
    });
    let fronts = [
        "\r\n\r\n",
        "\n",
        "\r",
        "\n\n",
        " ",
        " \r\n",
        "\r\n ",
        "\t\r\n",
        "\0",
        "\0\r\n",
        "\u{feff}",
        "\u{1b}",
        "x\r\n",
        "0\r\n\r\n",
        "\r\n0\r\n\r\n",
    ];
    let before = fronts.into_iter().map(|front| {
        refused(
            format!("before a request {}", shown(front.as_bytes())),
            format!("{front}{head}\r\n\r\n{}", hidden()).into_bytes(),
        )
    });
    let cut = (1..head.len()).step_by(3).map(|at| {
        // Half a head, then a complete one: they must not be joined.
        refused(
            format!("half a head of {at} bytes"),
            format!("{}\nGET {HIDDEN_TARGET} HTTP/1.1\r\nHost: a\r\n\r\n", &head[..at]).into_bytes(),
        )
    });
    odd_ends.chain(before).chain(cut).collect()
}
