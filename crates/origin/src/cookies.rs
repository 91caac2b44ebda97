//! Parses Cookie as a server does (RFC 6265, 4.2): pairs separated by semicolons, in order.
//!
//! Pairs without `=` or without a name are ignored. Quotes belong to the value. Several field lines are parsed in
//! sequence: HTTP/1.1 clients send one, but intermediaries may have split it.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cookie<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// The cookies of all field lines.
pub(crate) fn parse<'a>(lines: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = Cookie<'a>> {
    lines.flat_map(|line| line.split(|&byte| byte == b';')).filter_map(parse_pair)
}

fn parse_pair(pair: &[u8]) -> Option<Cookie<'_>> {
    let equals = pair.iter().position(|&byte| byte == b'=')?;
    let name = pair[..equals].trim_ascii();
    (!name.is_empty()).then(|| Cookie { name, value: pair[equals + 1..].trim_ascii() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_pairs_in_order() {
        let lines: [&[u8]; 3] = [b"a=1; b=2;c=\"3\"", b"; =x; junk; d==; a=again ;", b"e="];
        let cookies: Vec<String> = parse(lines.into_iter())
            .map(|Cookie { name, value }| format!("{}={}", name.escape_ascii(), value.escape_ascii()))
            .collect();
        assert_eq!(cookies, ["a=1", "b=2", "c=\\\"3\\\"", "d==", "a=again", "e="]);
    }
}
