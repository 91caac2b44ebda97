//! The two forms of a line: the combined one that every tool for logs reads, and JSON.
//!
//! What clients send can hold anything. In the combined form a quotation mark, a backslash and every byte that is not printable ASCII are
//! written as `\xHH`, so that nobody can forge a line or move a terminal's cursor. JSON has its own escapes, and the control characters that it leaves as
//! they are (U+007F to U+009F, which some terminals obey) are written in the same way.

use std::cell::RefCell;
use std::io::{self, Write};
use std::time::Duration;

use breme_base::UnixSeconds;
use breme_http1::Version;
use breme_proxy::Exchange;
use serde::Serialize;
use serde_json::Serializer;

use super::calendar::Moment;

/// The form of a line: as Apache and nginx write it, with the cache's status, the upstream and two times behind it; or an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    Combined,
    Json,
}

impl Format {
    /// Appends the line of an exchange.
    pub fn write(self, exchange: &Exchange<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Combined => write_combined(exchange, out),
            Self::Json => write_json(exchange, out),
        }
        out.push(b'\n');
    }
}

/// `CLIENT - - [TIME] "METHOD TARGET VERSION" STATUS BYTES "REFERER" "USER-AGENT" "CACHE-STATUS" UPSTREAM UPSTREAM-SECONDS SECONDS ENDING`
fn write_combined(exchange: &Exchange<'_>, out: &mut Vec<u8>) {
    let _ = write!(out, "{} - - [", exchange.client.ip().to_canonical());
    write_time(exchange.began, out);
    out.extend_from_slice(b"] \"");
    escape(exchange.method.as_bytes(), out);
    out.push(b' ');
    escape(exchange.target.as_bytes(), out);
    let version = exchange.version.map_or("-", version);
    let _ = write!(out, " {version}\" {} {} ", exchange.status, exchange.sent_bytes);
    for text in [exchange.referer, exchange.user_agent, exchange.cache_status.map(str::as_bytes)] {
        quote(text, out);
        out.push(b' ');
    }
    match exchange.upstream {
        Some(upstream) => escape(upstream.as_bytes(), out),
        None => out.push(b'-'),
    }
    match exchange.upstream_duration {
        Some(duration) => write_seconds(duration, out),
        None => out.extend_from_slice(b" -"),
    }
    write_seconds(exchange.duration, out);
    out.push(b' ');
    out.extend_from_slice(exchange.ending.as_str().as_bytes());
}

/// The calendar is worked out once a second.
fn write_time(time: UnixSeconds, out: &mut Vec<u8>) {
    thread_local! {
        static LAST: RefCell<(UnixSeconds, Vec<u8>)> = const { RefCell::new((UnixSeconds(u64::MAX), Vec::new())) };
    }
    LAST.with_borrow_mut(|(second, text)| {
        if *second != time {
            *second = time;
            text.clear();
            Moment::of(time.0).write_common(text);
        }
        out.extend_from_slice(text);
    });
}

/// ` 0.000286`: whole numbers are written several times as fast as fractions.
fn write_seconds(duration: Duration, out: &mut Vec<u8>) {
    let micros = (duration.as_nanos() + 500) / 1_000;
    let _ = write!(out, " {}.{:06}", micros / 1_000_000, micros % 1_000_000);
}

fn version(version: Version) -> &'static str {
    match version {
        Version::Http10 => "HTTP/1.0",
        Version::Http11 => "HTTP/1.1",
    }
}

fn quote(text: Option<&[u8]>, out: &mut Vec<u8>) {
    out.push(b'"');
    match text {
        Some(text) => escape(text, out),
        None => out.push(b'-'),
    }
    out.push(b'"');
}

fn escape(text: &[u8], out: &mut Vec<u8>) {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    let mut rest = text;
    while !rest.is_empty() {
        let plain = rest.iter().position(|byte| !is_plain(byte)).unwrap_or(rest.len());
        out.extend_from_slice(&rest[..plain]);
        rest = &rest[plain..];
        if let [byte, behind @ ..] = rest {
            let _ = write!(out, "\\x{byte:02X}");
            rest = behind;
        }
    }
}

/// The object of a line. Keys are not left out, so that every line has the same columns.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    client: String,
    method: &'a str,
    scheme: &'a str,
    authority: Option<&'a str>,
    target: &'a str,
    version: Option<&'a str>,
    status: u16,
    sent_bytes: u64,
    received_bytes: u64,
    duration_s: f64,
    upstream: Option<&'a str>,
    upstream_s: Option<f64>,
    retries: u8,
    cache: Option<&'a str>,
    referer: Option<String>,
    user_agent: Option<String>,
    ending: &'a str,
}

fn write_json(exchange: &Exchange<'_>, out: &mut Vec<u8>) {
    let mut time = Vec::new();
    Moment::of(exchange.began.0).write_rfc3339(&mut time);
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let line = Line {
        time: lossy(&time),
        client: exchange.client.ip().to_canonical().to_string(),
        method: exchange.method,
        scheme: if exchange.is_secured { "https" } else { "http" },
        authority: exchange.authority,
        target: exchange.target,
        version: exchange.version.map(version),
        status: exchange.status,
        sent_bytes: exchange.sent_bytes,
        received_bytes: exchange.received_bytes,
        duration_s: micros(exchange.duration),
        upstream: exchange.upstream,
        upstream_s: exchange.upstream_duration.map(micros),
        retries: exchange.retries,
        cache: exchange.cache_status,
        referer: exchange.referer.map(lossy),
        user_agent: exchange.user_agent.map(lossy),
        ending: exchange.ending.as_str(),
    };
    let _ = line.serialize(&mut Serializer::with_formatter(out, Harmless)); // it has no maps, and memory does not fail
}

/// JSON without control characters.
struct Harmless;

impl serde_json::ser::Formatter for Harmless {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if fragment.bytes().all(|byte| byte < 0x7f) {
            return writer.write_all(fragment.as_bytes());
        }
        for piece in fragment.split_inclusive(char::is_control) {
            match piece.chars().next_back().filter(|last| last.is_control()) {
                Some(control) => {
                    let plain = &piece[..piece.len() - control.len_utf8()];
                    write!(writer, "{plain}\\u{:04x}", u32::from(control))?;
                }
                None => writer.write_all(piece.as_bytes())?,
            }
        }
        Ok(())
    }
}

/// Seconds, to the microsecond: more is noise.
fn micros(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_to_the_microsecond() {
        for (nanos, expected) in
            [(0, " 0.000000"), (499, " 0.000000"), (286_500, " 0.000287"), (61_000_000_999, " 61.000001")]
        {
            let mut out = Vec::new();
            write_seconds(Duration::from_nanos(nanos), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{nanos}");
        }
        let mut out = Vec::new();
        [0, 0, 1].into_iter().for_each(|second| write_time(UnixSeconds(second), &mut out));
        let (first, next) = ("01/Jan/1970:00:00:00 +0000", "01/Jan/1970:00:00:01 +0000");
        assert_eq!(String::from_utf8(out).unwrap(), [first, first, next].concat());
    }

    #[test]
    fn nobody_moves_a_cursor_by_json() {
        let mut out = Vec::new();
        let text = "a\u{9b}2J\n\u{7f}\u{85}é \u{1b}[m\u{9f}";
        text.serialize(&mut Serializer::with_formatter(&mut out, Harmless)).unwrap();
        let written = String::from_utf8(out).unwrap();
        assert_eq!(written, r#""a\u009b2J\n\u007f\u0085é \u001b[m\u009f""#);
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
    }

    #[test]
    fn nobody_forges_a_line() {
        let mut out = Vec::new();
        quote(Some(b"a\" 200 1\n\x1b[2J\\ \xe4 z"), &mut out);
        quote(None, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), r#""a\x22 200 1\x0A\x1B[2J\x5C \xE4 z""-""#);
    }
}
