//! What an upstream is told: the request, written anew.
//!
//! Host by the rule; fields that concern the client's connection left out; Via and CDN-Loop continued; what the client
//! says of those before it kept only if it is trusted (RFC 7239, 8.1). The rest is passed on as it came.

use breme_balance::OwnCookie;
use breme_http1::{
    FieldBlock, FieldName, FieldWriter, Fields, Framing, InvalidField, Method, RelayedRequest, RequestHead,
};

use crate::settings::Identity;
use crate::shared::{Role, Shared};

/// What the proxy knows of the client that asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker<'a> {
    /// Its address, without a port and without brackets.
    pub(crate) address: &'a str,
    pub(crate) is_secured: bool,
    pub(crate) is_trusted: bool,
}

/// How a request is to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passing<'a> {
    /// The value of Host; none: it is not known yet who will be asked, and Host is to be the upstream's.
    pub(crate) authority: Option<&'a str>,
    /// Whom the client asked, as the upstream is told.
    pub(crate) asked: Option<&'a str>,
    pub(crate) asker: Asker<'a>,
    /// The request to go on with another protocol is passed on.
    pub(crate) with_upgrade: bool,
    /// The client takes trailers.
    pub(crate) accepts_trailers: bool,
    /// What Max-Forwards is to be from here on, if it is to change.
    pub(crate) hops_left: Option<u64>,
    /// Conditions of the cache's, which take the place of the client's.
    pub(crate) conditions: Option<&'a FieldBlock>,
    /// A cookie that is between the proxy and its clients.
    pub(crate) own_cookie: Option<&'a OwnCookie>,
}

/// Writes the head up to its empty line, which [`end`] writes when it is known who is asked.
pub(crate) fn write(
    shared: &Shared,
    head: &RequestHead<'_, '_>,
    passing: &Passing<'_>,
    out: &mut Vec<u8>,
) -> Result<(), InvalidField> {
    let upgrade = if passing.with_upgrade { joined(head.fields, "Upgrade") } else { None };
    let request = RelayedRequest {
        method: head.method,
        target: head.target,
        authority: passing.authority,
        framing: framing(head),
        upgrade: upgrade.as_deref(),
        // TE is for us; what we say is true, since we pass on what comes (RFC 9110, 10.1.4).
        accepts_trailers: passing.accepts_trailers,
    };
    let identity = &shared.settings.identity;
    let is_forward = matches!(shared.role, Role::Forward { .. });
    let mut writer = request.begin(out)?;
    let cookies = passing.own_cookie.and_then(|own| cookies_without(own, head.fields));
    writer.relay(head.fields, |name| {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match name.len() {
            _ if begins(name, "X-Forwarded-") => passing.asker.is_trusted && !(identity.x_forwarded && is_own(name)),
            4 => !is("Host"),
            5 | 8 | 13 | 17 | 19 if passing.conditions.is_some() && is_condition(name) => false,
            6 if cookies.is_some() && is("Cookie") => false,
            6 => head.expects_continue || !is("Expect"),
            // Lines that will be continued, or that nobody vouches for.
            9 if is("Forwarded") => passing.asker.is_trusted && !identity.forwarded,
            9 if begins(name, "X-Real-IP") => passing.asker.is_trusted,
            12 if passing.hops_left.is_some() => !is("Max-Forwards"),
            // These credentials were for us (RFC 9110, 11.7.2).
            19 if is_forward => !is("Proxy-Authorization"),
            _ => true,
        }
    });
    for line in cookies.iter().flatten() {
        writer.field("Cookie", line)?;
    }
    if head.framing == Framing::Chunked {
        writer.announce_trailers(head.fields);
    }
    shared.loop_marks.write(head.version, &mut writer);
    if let Some(hops) = passing.hops_left {
        writer.field("Max-Forwards", hops.to_string().as_bytes())?;
    }
    write_identity(identity, head, passing, &mut writer)?;
    if let Some(conditions) = passing.conditions {
        writer.block(conditions);
    }
    writer.leave_open();
    Ok(())
}

/// The lines of Cookie without our own; none if they can go as they are.
fn cookies_without(own: &OwnCookie, fields: Fields<'_, '_>) -> Option<Vec<Vec<u8>>> {
    if fields.hop_by_hop().has("Cookie") || !fields.all("Cookie").any(|line| own.taken_out_of(line).is_some()) {
        return None;
    }
    let lines = fields.all("Cookie").map(|line| own.taken_out_of(line).unwrap_or_else(|| line.to_vec()));
    Some(lines.filter(|line| !line.is_empty()).collect())
}

/// Ends the head; with the Host of who is asked, if that was not written.
pub(crate) fn end(upstream_host: Option<&str>, out: &mut Vec<u8>) {
    let mut writer = FieldWriter::resume(out);
    if let Some(host) = upstream_host {
        // The name of an upstream was checked when it came into the list.
        let _ = writer.field("Host", host.as_bytes());
    }
    writer.end();
}

/// Puts the cache's conditions in the place of the client's in a head that was [written](write) before it was known
/// that there would be any.
pub(crate) fn replace_conditions(request: &mut Vec<u8>, conditions: &FieldBlock) {
    const LINE_END: &[u8] = b"\r\n";
    let mut kept = Vec::with_capacity(request.len() + conditions.as_bytes().len());
    // Values hold no line feed.
    for line in request.split_inclusive(|&byte| byte == b'\n') {
        let name = line.split(|&byte| byte == b':').next().and_then(|name| std::str::from_utf8(name).ok());
        if line.ends_with(LINE_END) && !name.is_some_and(is_condition) {
            kept.extend_from_slice(line);
        }
    }
    kept.extend_from_slice(conditions.as_bytes());
    *request = kept;
}

/// What asks for an answer under a condition, or for a part of one (RFC 9110, 13.1 and 14.2).
fn is_condition(name: &str) -> bool {
    const CONDITIONS: [&str; 6] =
        ["Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range"];
    CONDITIONS.iter().any(|condition| name.eq_ignore_ascii_case(condition))
}

/// The methods that are expected to have content say that they have none (RFC 9110, 8.6).
fn framing(head: &RequestHead<'_, '_>) -> Framing {
    match (head.framing, head.method) {
        (Framing::None, Method::Post | Method::Put | Method::Patch) => Framing::Length(0),
        // It says nothing, and an upstream that minds it would answer otherwise than to those who do not say it.
        (Framing::Length(0), Method::Get | Method::Head) => Framing::None,
        (framing, _) => framing,
    }
}

/// Whether an upstream may take the name for one that begins so: applications are given both `-` and `_` as `_` (RFC
/// 3875, 4.1.18).
fn begins(name: &str, prefix: &str) -> bool {
    let is_alike = |(own, known): (u8, u8)| own.eq_ignore_ascii_case(&known) || (own == b'_' && known == b'-');
    name.len() >= prefix.len() && name.bytes().zip(prefix.bytes()).all(is_alike)
}

/// Whether it is a line by which a client speaks for others. Of one that is not trusted it is not passed on; what is
/// said in its place follows from the target and from the client's address.
pub(crate) fn is_for_others(name: &str) -> bool {
    const ADDRESS: &str = "X-Real-IP";
    let is_address = name.len() == ADDRESS.len() && begins(name, ADDRESS);
    begins(name, "X-Forwarded-") || is_address || name.eq_ignore_ascii_case("Forwarded")
}

/// Whether it is one of those that are written here.
fn is_own(name: &str) -> bool {
    ["X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"].iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// All lines of a name as one; none if there is none.
fn joined(fields: Fields<'_, '_>, name: &str) -> Option<Vec<u8>> {
    let mut lines = fields.all(name);
    let mut joined = lines.next()?.to_vec();
    for line in lines {
        joined.extend_from_slice(b", ");
        joined.extend_from_slice(line);
    }
    Some(joined)
}

fn write_identity(
    identity: &Identity,
    head: &RequestHead<'_, '_>,
    passing: &Passing<'_>,
    writer: &mut FieldWriter<'_>,
) -> Result<(), InvalidField> {
    let asker = &passing.asker;
    if !asker.is_trusted {
        return write_client(identity, passing.asked, asker, writer);
    }
    let continued = |name: &str, own: &[u8]| match joined(head.fields, name).filter(|before| !before.is_empty()) {
        Some(mut value) => {
            value.extend_from_slice(b", ");
            value.extend_from_slice(own);
            value
        }
        None => own.to_vec(),
    };
    if identity.forwarded {
        let element = forwarded_element(passing.asked, asker).concat();
        writer.field("Forwarded", &continued("Forwarded", &element))?;
    }
    if identity.x_forwarded {
        writer.field("X-Forwarded-For", &continued("X-Forwarded-For", asker.address.as_bytes()))?;
        // These two tell what the one in front was asked, not what we were.
        let host =
            joined(head.fields, "X-Forwarded-Host").or_else(|| passing.asked.map(|host| host.as_bytes().to_vec()));
        if let Some(host) = host {
            writer.field("X-Forwarded-Host", &host)?;
        }
        let before = joined(head.fields, "X-Forwarded-Proto");
        writer.field("X-Forwarded-Proto", before.as_deref().unwrap_or(scheme(asker.is_secured).as_bytes()))?;
    }
    Ok(())
}

fn scheme(is_secured: bool) -> &'static str {
    if is_secured { "https" } else { "http" }
}

const FORWARDED: FieldName = FieldName::new("Forwarded");
const X_FORWARDED_FOR: FieldName = FieldName::new("X-Forwarded-For");
const X_FORWARDED_HOST: FieldName = FieldName::new("X-Forwarded-Host");
const X_FORWARDED_PROTO: FieldName = FieldName::new("X-Forwarded-Proto");

/// Writes what the upstream is told of a client that is not trusted to say it itself. `authority` is what it asked for.
pub(crate) fn write_client(
    identity: &Identity,
    authority: Option<&str>,
    asker: &Asker<'_>,
    writer: &mut FieldWriter<'_>,
) -> Result<(), InvalidField> {
    if identity.forwarded {
        writer.field_from_parts(FORWARDED, &forwarded_element(authority, asker))?;
    }
    if identity.x_forwarded {
        writer.field_from_parts(X_FORWARDED_FOR, &[asker.address.as_bytes()])?;
        if let Some(authority) = authority {
            writer.field_from_parts(X_FORWARDED_HOST, &[authority.as_bytes()])?;
        }
        writer.field_from_parts(X_FORWARDED_PROTO, &[scheme(asker.is_secured).as_bytes()])?;
    }
    Ok(())
}

/// The client's element of Forwarded, in parts. `authority` was checked when it was received. An IPv6 address and a
/// host with a port must be quoted (RFC 7239, 4).
fn forwarded_element<'a>(authority: Option<&'a str>, asker: &Asker<'a>) -> [&'a [u8]; 10] {
    let (open, close): (&[u8], &[u8]) = if asker.address.contains(':') { (b"\"[", b"]\"") } else { (b"", b"") };
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    let (host, quote): (&[u8], &[u8]) = match authority {
        Some(authority) if authority.bytes().all(is_token) => (b";host=", b""),
        Some(_) => (b";host=", b"\""),
        None => (b"", b""),
    };
    let authority = authority.unwrap_or_default().as_bytes();
    let (address, scheme) = (asker.address.as_bytes(), scheme(asker.is_secured).as_bytes());
    [b"for=", open, address, close, b";proto=", scheme, host, quote, authority, quote]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use breme_balance::{Group, GroupSettings, UpstreamSettings};
    use breme_base::{UnixSeconds, WallClock};
    use breme_http1::{FieldStorage, Limits, Progress, ServerConnection};

    use super::*;
    use crate::parts::Parts;
    use crate::settings::{HostRule, Mode, Settings};

    fn shared(change: impl FnOnce(&mut Settings)) -> Shared {
        let mut settings = Settings::new(Mode::Reverse { host: HostRule::Keep });
        change(&mut settings);
        let upstream =
            UpstreamSettings { name: "up:1".to_owned(), tls: false, addresses: Vec::new(), weight: 1, route: None };
        let group = Group::new(GroupSettings::default(), vec![upstream]).unwrap();
        let parts = Parts::new(settings, WallClock::starting_at(UnixSeconds(0)));
        Shared::new(Parts { group: Some(Arc::new(group)), ..parts }).unwrap()
    }

    fn passed_by(shared: &Shared, asker: Asker<'_>, request: &str) -> String {
        let (mut server, mut storage) = (ServerConnection::new(), FieldStorage::new());
        let progress = server.receive(request.as_bytes(), false, &Limits::default(), &mut storage);
        let Ok(Progress::Head { head, .. }) = progress else { panic!("{request}: {progress:?}") };
        let passing = Passing {
            authority: head.authority,
            asked: head.authority,
            asker,
            with_upgrade: head.requests_upgrade,
            accepts_trailers: head.fields.accept_trailers(),
            hops_left: None,
            conditions: None,
            own_cookie: None,
        };
        let mut out = Vec::new();
        write(shared, &head, &passing, &mut out).unwrap();
        end(head.authority.is_none().then_some("up:1"), &mut out);
        String::from_utf8(out).unwrap()
    }

    fn asker(address: &str, is_secured: bool, is_trusted: bool) -> Asker<'_> {
        Asker { address, is_secured, is_trusted }
    }

    #[test]
    fn a_client_cannot_speak_for_others() {
        let shared = shared(|_| {});
        let request = "GET /a?b HTTP/1.1\r\nHost: a.example\r\nForwarded: for=1.1.1.1\r\nX-Forwarded-For: 1.1.1.1\r\nx-forwarded-port: 1\r\nX_Forwarded_For: 1.1.1.1\r\nX-Real-IP: 1.1.1.1\r\nX-Real_IP: 1.1.1.1\r\nVia: 1.0 other\r\nAccept: x\r\n\r\n";
        assert_eq!(
            passed_by(&shared, asker("192.0.2.7", false, false), request),
            "GET /a?b HTTP/1.1\r\nHost: a.example\r\nVia: 1.0 other\r\nAccept: x\r\nVia: 1.1 breme (cde2f3e1)\r\nForwarded: for=192.0.2.7;proto=http;host=a.example\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Host: a.example\r\nX-Forwarded-Proto: http\r\n\r\n"
        );
    }

    #[test]
    fn what_stands_for_others_is_what_is_not_passed_on() {
        let shared = shared(|settings| (settings.identity.forwarded, settings.identity.x_forwarded) = (false, false));
        for name in [
            "Forwarded",
            "X-Forwarded-Proto",
            "x-forwarded-port",
            "X_Forwarded_Host",
            "X-Real-IP",
            "X-Real",
            "Forward",
            "Accept",
        ] {
            let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{name}: b\r\n\r\n");
            let passed =
                |is_trusted| passed_by(&shared, asker("192.0.2.7", false, is_trusted), &request).contains(name);
            assert_eq!((passed(false), passed(true)), (!is_for_others(name), true), "{name}");
        }
    }

    #[test]
    fn no_content_is_not_mentioned_where_none_is_expected() {
        let shared = shared(|settings| (settings.identity.forwarded, settings.identity.x_forwarded) = (false, false));
        let passed = |method: &str| {
            let request = format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
            passed_by(&shared, asker("192.0.2.7", false, false), &request).contains("Content-Length")
        };
        assert_eq!(["GET", "HEAD", "POST", "DELETE"].map(passed), [false, false, true, true]);
    }

    #[test]
    fn who_is_trusted_is_continued() {
        let shared = shared(|_| {});
        let request = "GET / HTTP/1.1\r\nHost: a.example:8443\r\nForwarded: for=1.1.1.1\r\nX-Forwarded-For: 1.1.1.1, 2.2.2.2\r\nX-Forwarded-For: 3.3.3.3\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: 1\r\nX-Real-IP: 1.1.1.1\r\n\r\n";
        assert_eq!(
            passed_by(&shared, asker("2001:db8::7", true, true), request),
            "GET / HTTP/1.1\r\nHost: a.example:8443\r\nX-Forwarded-Port: 1\r\nX-Real-IP: 1.1.1.1\r\nVia: 1.1 breme (cde2f3e1)\r\nForwarded: for=1.1.1.1, for=\"[2001:db8::7]\";proto=https;host=\"a.example:8443\"\r\nX-Forwarded-For: 1.1.1.1, 2.2.2.2, 3.3.3.3, 2001:db8::7\r\nX-Forwarded-Host: a.example:8443\r\nX-Forwarded-Proto: https\r\n\r\n"
        );
    }

    #[test]
    fn the_proxy_may_be_silent() {
        let shared = shared(|settings| {
            (settings.identity.via, settings.identity.forwarded, settings.identity.x_forwarded) = (false, false, false);
        });
        let request = "POST / HTTP/1.0\r\nExpect: x\r\nForwarded: for=1.1.1.1\r\nX-Forwarded-For: 1.1.1.1\r\nConnection: keep-alive\r\n\r\n";
        let untrusted = passed_by(&shared, asker("192.0.2.7", false, false), request);
        assert_eq!(untrusted, "POST / HTTP/1.1\r\nContent-Length: 0\r\nHost: up:1\r\n\r\n");
        let trusted = passed_by(&shared, asker("192.0.2.7", false, true), request);
        assert!(trusted.contains("Forwarded: for=1.1.1.1\r\nX-Forwarded-For: 1.1.1.1\r\n"), "{trusted}");
    }

    #[test]
    fn what_the_client_waits_for_is_passed_on() {
        let shared = shared(|settings| (settings.identity.forwarded, settings.identity.x_forwarded) = (false, false));
        let asker = asker("192.0.2.7", false, false);
        let request =
            "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\nTE: x\r\n\r\n";
        assert_eq!(
            passed_by(&shared, asker, request),
            "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\nVia: 1.1 breme (cde2f3e1)\r\n\r\n"
        );
        let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: x-a, upgrade\r\nX-A: 1\r\nUpgrade: websocket\r\nUpgrade: y\r\n\r\n";
        assert_eq!(
            passed_by(&shared, asker, request),
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket, y\r\nVia: 1.1 breme (cde2f3e1)\r\n\r\n"
        );
    }

    #[test]
    fn a_field_that_a_client_calls_hop_by_hop_is_still_said_by_us() {
        let shared = shared(|_| {});
        let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: X-Forwarded-For, Forwarded, Host, Via\r\n\r\n";
        let passed = passed_by(&shared, asker("192.0.2.7", false, false), request);
        for line in [
            "Host: a\r\n",
            "Via: 1.1 breme (cde2f3e1)\r\n",
            "X-Forwarded-For: 192.0.2.7\r\n",
            "Forwarded: for=192.0.2.7",
        ] {
            assert!(passed.contains(line), "{line} in {passed}");
        }
    }
}
