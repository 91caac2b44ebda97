//! The two formats of a line: the combined one, which every log analyser supports, and JSON.
//!
//! Values from clients may contain any bytes. In the combined format a quotation mark, a backslash and every byte that
//! is not printable ASCII are written as `\xHH`, which prevents forged lines and terminal escapes. JSON has its own
//! escapes; the control characters that it leaves unescaped (U+007F to U+009F, which some terminals interpret) are
//! escaped as well.

use std::cell::RefCell;
use std::io::{self, Write};
use std::net::IpAddr;
use std::time::Duration;

use breme_base::{CalendarTime, UnixMillis, UnixSeconds};
use breme_driver::Address;
use breme_http::Version;
use breme_proxy::ExchangeRecord;
use serde::Serialize as _;
use serde_json::Serializer;

/// `Combined`: as Apache and nginx write it, followed by the cache status, the upstream and two durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    Combined,
    Json,
}

impl LogFormat {
    pub fn write(self, exchange: &ExchangeRecord<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Combined => write_combined(exchange, out),
            Self::Json => write_json(exchange, out),
        }
        out.push(b'\n');
    }
}

/// `CLIENT - - [TIME] "METHOD TARGET VERSION" STATUS BYTES "REFERER" "USER-AGENT"`, followed by our own:
/// `"CACHE-STATUS" UPSTREAM UPSTREAM-SECONDS SECONDS ENDING`.
fn write_combined(exchange: &ExchangeRecord<'_>, out: &mut Vec<u8>) {
    push_client(client(exchange), out);
    out.extend_from_slice(b" - - [");
    push_second(TimeFormat::Common, exchange.began.second(), out);
    out.extend_from_slice(b"] \"");
    escape(exchange.method, out);
    out.push(b' ');
    escape(exchange.target, out);
    out.push(b' ');
    out.extend_from_slice(exchange.version.map_or("-", version).as_bytes());
    out.extend_from_slice(b"\" ");
    push_number(exchange.status.into(), out);
    out.push(b' ');
    push_number(exchange.sent_bytes, out);
    out.push(b' ');
    for text in [exchange.referer, exchange.user_agent, exchange.cache_status.map(str::as_bytes)] {
        quote(text, out);
        out.push(b' ');
    }
    escape(exchange.upstream.unwrap_or("-").as_bytes(), out);
    out.push(b' ');
    match exchange.upstream_duration {
        Some(duration) => push_seconds(duration, out),
        None => out.push(b'-'),
    }
    out.push(b' ');
    push_seconds(exchange.duration, out);
    out.push(b' ');
    out.extend_from_slice(exchange.completion.as_str().as_bytes());
}

/// The client named by a trusted balancer, if any (as nginx does with `real_ip`), rather than the balancer. None: a
/// client of a Unix socket.
fn client(exchange: &ExchangeRecord<'_>) -> Option<IpAddr> {
    exchange.forwarded_for.or_else(|| Some(exchange.client?.ip()))
}

fn version(version: Version) -> &'static str {
    match version {
        Version::Http10 => "HTTP/1.0",
        Version::Http11 => "HTTP/1.1",
    }
}

fn quote(text: Option<&[u8]>, out: &mut Vec<u8>) {
    out.push(b'"');
    escape(text.unwrap_or(b"-"), out);
    out.push(b'"');
}

/// Whether the byte is unescaped in both formats.
const fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')
}

/// Checks all bytes without an early exit, which vectorises.
fn are_plain(text: &[u8]) -> bool {
    text.iter().fold(true, |plain, &byte| plain & is_plain(byte))
}

fn escape(text: &[u8], out: &mut Vec<u8>) {
    if are_plain(text) {
        return out.extend_from_slice(text);
    }
    for &byte in text {
        if is_plain(byte) {
            out.push(byte);
        } else {
            let _ = write!(out, "\\x{byte:02X}");
        }
    }
}

/// No key is omitted: every line has the same columns.
fn write_json(exchange: &ExchangeRecord<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"time\":\"");
    push_millis(exchange.began, out);
    out.extend_from_slice(b"\",\"client\":\"");
    push_client(client(exchange), out);
    out.push(b'"');
    json_text("method", Some(exchange.method), out);
    json_text("scheme", Some(if exchange.is_secured { b"https" } else { b"http" }), out);
    json_text("authority", exchange.authority.map(str::as_bytes), out);
    json_text("target", Some(exchange.target), out);
    json_text("version", exchange.version.map(|known| version(known).as_bytes()), out);
    json_number("status", exchange.status.into(), out);
    json_number("sent_bytes", exchange.sent_bytes, out);
    json_number("received_bytes", exchange.received_bytes, out);
    json_seconds("duration_s", Some(exchange.duration), out);
    json_text("upstream", exchange.upstream.map(str::as_bytes), out);
    json_seconds("upstream_s", exchange.upstream_duration, out);
    json_number("retries", exchange.retries.into(), out);
    json_text("cache", exchange.cache_status.map(str::as_bytes), out);
    json_text("referer", exchange.referer, out);
    json_text("user_agent", exchange.user_agent, out);
    json_text("ending", Some(exchange.completion.as_str().as_bytes()), out);
    json_text("error", exchange.failure.map(str::as_bytes), out);
    out.push(b'}');
}

fn json_key(key: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
}

fn json_text(key: &str, text: Option<&[u8]>, out: &mut Vec<u8>) {
    json_key(key, out);
    match text {
        Some(text) if are_plain(text) => {
            out.push(b'"');
            out.extend_from_slice(text);
            out.push(b'"');
        }
        // Writing to memory cannot fail.
        Some(text) => {
            drop(String::from_utf8_lossy(text).serialize(&mut Serializer::with_formatter(out, WithoutControls)));
        }
        None => out.extend_from_slice(b"null"),
    }
}

fn json_number(key: &str, number: u64, out: &mut Vec<u8>) {
    json_key(key, out);
    push_number(number, out);
}

fn json_seconds(key: &str, duration: Option<Duration>, out: &mut Vec<u8>) {
    json_key(key, out);
    match duration {
        Some(duration) => push_seconds(duration, out),
        None => out.extend_from_slice(b"null"),
    }
}

/// JSON without control characters.
struct WithoutControls;

impl serde_json::ser::Formatter for WithoutControls {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
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

/// A format of calendar time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimeFormat {
    Common,
    Rfc3339,
}

/// `1994-11-06T08:49:37.042Z`: with milliseconds, to order the lines of several machines.
fn push_millis(time: UnixMillis, out: &mut Vec<u8>) {
    push_second(TimeFormat::Rfc3339, time.second(), out);
    let dot = out.len();
    // A leading digit keeps the zeros.
    push_number(1_000 + time.0 % 1_000, out);
    out[dot] = b'.';
    out.push(b'Z');
}

/// Formatted once per second.
fn push_second(form: TimeFormat, time: UnixSeconds, out: &mut Vec<u8>) {
    thread_local! {
        static LAST: RefCell<(TimeFormat, UnixSeconds, Vec<u8>)> =
            const { RefCell::new((TimeFormat::Common, UnixSeconds(u64::MAX), Vec::new())) };
    }
    LAST.with_borrow_mut(|(last_form, second, text)| {
        if (*last_form, *second) != (form, time) {
            (*last_form, *second) = (form, time);
            text.clear();
            let _ = match form {
                TimeFormat::Common => write_common(time.into(), text),
                TimeFormat::Rfc3339 => write!(text, "{}", CalendarTime::from(time)),
            };
        }
        out.extend_from_slice(text);
    });
}

/// `06/Nov/1994:08:49:37 +0000`
fn write_common(time: CalendarTime, out: &mut Vec<u8>) -> io::Result<()> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let CalendarTime { year, month, day, hour, minute, second } = time;
    let month = MONTHS[(month - 1) as usize];
    write!(out, "{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000")
}

/// `unix:` without an address, as in nginx's log.
fn push_client(client: Option<IpAddr>, out: &mut Vec<u8>) {
    match client {
        Some(address) => push_address(address, out),
        None => out.extend_from_slice(Address::UNIX.as_bytes()),
    }
}

/// As `Ipv4Addr` and `Ipv6Addr` format themselves; IPv4 takes a tenth of the time.
fn push_address(address: IpAddr, out: &mut Vec<u8>) {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [first, rest @ ..] = address.octets();
            push_number(first.into(), out);
            for octet in rest {
                out.push(b'.');
                push_number(octet.into(), out);
            }
        }
        IpAddr::V6(address) => drop(write!(out, "{address}")),
    }
}

/// `0.000286`: to the microsecond, more is noise.
fn push_seconds(duration: Duration, out: &mut Vec<u8>) {
    const MICROS: u64 = 1_000_000;
    let rounded = duration.saturating_add(Duration::from_nanos(500));
    push_number(rounded.as_secs(), out);
    let dot = out.len();
    // A leading digit keeps the zeros.
    push_number(MICROS + u64::from(rounded.subsec_micros()), out);
    out[dot] = b'.';
}

/// `write!` takes ten times as long.
fn push_number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_to_the_microsecond() {
        for (nanos, expected) in [
            (0, "0.000000"),
            (499, "0.000000"),
            (286_500, "0.000287"),
            (999_999_500, "1.000000"),
            (61_000_000_999, "61.000001"),
        ] {
            let mut out = Vec::new();
            push_seconds(Duration::from_nanos(nanos), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{nanos}");
        }
        let mut out = Vec::new();
        [0, 0, 1].into_iter().for_each(|second| push_second(TimeFormat::Common, UnixSeconds(second), &mut out));
        [0, 1_042, 1_999].into_iter().for_each(|millis| push_millis(UnixMillis(millis), &mut out));
        let (first, next) = ("01/Jan/1970:00:00:00 +0000", "01/Jan/1970:00:00:01 +0000");
        let millis = ["1970-01-01T00:00:00.000Z", "1970-01-01T00:00:01.042Z", "1970-01-01T00:00:01.999Z"];
        assert_eq!(String::from_utf8(out).unwrap(), [first, first, next].concat() + &millis.concat());
    }

    #[test]
    fn addresses_are_written_as_they_write_themselves() {
        for text in ["0.0.0.0", "10.200.3.255", "2001:db8::1", "::1"] {
            let mut out = Vec::new();
            push_address(text.parse().unwrap(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
        let mut out = Vec::new();
        push_address("::ffff:192.0.2.7".parse().unwrap(), &mut out);
        assert_eq!(out, b"192.0.2.7");
    }

    #[test]
    fn every_byte_that_a_client_may_send_is_read_again_from_json() {
        for byte in 0..=u8::MAX {
            let text = [b'a', byte, b'z'];
            let mut out = b"{\"a\":1".to_vec();
            json_text("key", Some(&text), &mut out);
            out.push(b'}');
            assert!(out.iter().all(|byte| !byte.is_ascii_control()), "{}", out.escape_ascii());
            let line: serde_json::Value = serde_json::from_slice(&out).unwrap();
            assert_eq!(line["key"], *String::from_utf8_lossy(&text));
        }
    }

    #[test]
    fn nobody_moves_a_cursor_by_json() {
        let mut out = Vec::new();
        let text = "a\u{9b}2J\n\u{7f}\u{85}é \u{1b}[m\u{9f}";
        text.serialize(&mut Serializer::with_formatter(&mut out, WithoutControls)).unwrap();
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
