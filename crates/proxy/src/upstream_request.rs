//! Writes requests for upstreams.
//!
//! Host follows the rule; hop-by-hop fields are dropped; Via and CDN-Loop are continued; forwarding fields are kept
//! only from trusted clients (RFC 7239, 8.1). The rest is forwarded unchanged.

use breme_balance::OwnCookie;
use breme_http::{FieldBlock, Fields, Framing, InvalidField, Method, RequestHead};
use breme_http1::{FieldName, FieldWriter, RelayedRequest};

use crate::settings::Identity;
use crate::shared_state::{Role, SharedState};

#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientInfo<'a> {
    /// Without a port and brackets.
    pub(crate) address: &'a str,
    pub(crate) is_secured: bool,
    pub(crate) is_trusted: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ForwardOptions<'a> {
    /// The value of Host; None: that of the upstream, which is not chosen yet.
    pub(crate) authority: Option<&'a str>,
    /// The authority that the client requested.
    pub(crate) requested_authority: Option<&'a str>,
    pub(crate) client: ClientInfo<'a>,
    /// Forward Upgrade.
    pub(crate) with_upgrade: bool,
    /// The client accepts trailers.
    pub(crate) accepts_trailers: bool,
    /// The new Max-Forwards, if it changes.
    pub(crate) hops_left: Option<u64>,
    /// Conditions of the cache, replacing the client's.
    pub(crate) conditions: Option<&'a FieldBlock>,
    /// The balancer's cookie.
    pub(crate) own_cookie: Option<&'a OwnCookie>,
}

/// Writes the head without its empty line, which [`end`] writes when the upstream is known.
pub(crate) fn write(
    shared: &SharedState,
    head: &RequestHead<'_, '_>,
    options: &ForwardOptions<'_>,
    out: &mut Vec<u8>,
) -> Result<(), InvalidField> {
    let upgrade = if options.with_upgrade { joined(head.fields, "Upgrade") } else { None };
    let request = RelayedRequest {
        method: head.method,
        target: head.target,
        authority: options.authority,
        framing: framing(head),
        upgrade: upgrade.as_deref(),
        // TE is hop-by-hop. Announcing trailers is correct, since they are relayed (RFC 9110, 10.1.4).
        accepts_trailers: options.accepts_trailers,
    };
    let identity = &shared.settings.identity;
    let is_forward = matches!(shared.role, Role::Forward { .. });
    let mut writer = request.begin(out)?;
    let cookies = options.own_cookie.and_then(|own| cookies_without(own, head.fields));
    writer.relay(head.fields, |name| {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match name.len() {
            _ if begins(name, "X-Forwarded-") => options.client.is_trusted && !(identity.x_forwarded && is_own(name)),
            4 => !is("Host"),
            5 | 8 | 13 | 17 | 19 if options.conditions.is_some() && is_condition(name) => false,
            6 if cookies.is_some() && is("Cookie") => false,
            6 => head.expects_continue || !is("Expect"),
            // Fields that are continued below, or that cannot be trusted.
            9 if is("Forwarded") => options.client.is_trusted && !identity.forwarded,
            9 if begins(name, "X-Real-IP") => options.client.is_trusted,
            12 if options.hops_left.is_some() => !is("Max-Forwards"),
            // These credentials were for this proxy (RFC 9110, 11.7.2).
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
    if let Some(hops) = options.hops_left {
        writer.field("Max-Forwards", hops.to_string().as_bytes())?;
    }
    write_identity(identity, head, options, &mut writer)?;
    if let Some(conditions) = options.conditions {
        writer.block(conditions);
    }
    writer.leave_open();
    Ok(())
}

/// The Cookie lines without the balancer's cookie; None if it is not in them.
fn cookies_without(own: &OwnCookie, fields: Fields<'_, '_>) -> Option<Vec<Vec<u8>>> {
    if fields.hop_by_hop().has("Cookie") || !fields.all("Cookie").any(|line| own.taken_out_of(line).is_some()) {
        return None;
    }
    let lines = fields.all("Cookie").map(|line| own.taken_out_of(line).unwrap_or_else(|| line.to_vec()));
    Some(lines.filter(|line| !line.is_empty()).collect())
}

/// Ends the head, adding the upstream's Host if none was written.
pub(crate) fn end(upstream_name: Option<&str>, out: &mut Vec<u8>) {
    let mut writer = FieldWriter::resume(out);
    if let Some(name) = upstream_name {
        // Upstream names were validated with the list.
        let _ = writer.field("Host", host_of(name).as_bytes());
    }
    writer.end();
}

/// The Host of an upstream, by its name; of a Unix socket `localhost`, as with nginx.
pub(crate) fn host_of(name: &str) -> &str {
    if name.starts_with("unix:") { "localhost" } else { name }
}

/// Replaces the client's conditions by the cache's in a head that was [written](write) before.
pub(crate) fn replace_conditions(request: &mut Vec<u8>, conditions: &FieldBlock) {
    const LINE_END: &[u8] = b"\r\n";
    let mut kept = Vec::with_capacity(request.len() + conditions.as_bytes().len());
    // Values contain no line feed.
    for line in request.split_inclusive(|&byte| byte == b'\n') {
        let name = line.split(|&byte| byte == b':').next().and_then(|name| std::str::from_utf8(name).ok());
        if line.ends_with(LINE_END) && !name.is_some_and(is_condition) {
            kept.extend_from_slice(line);
        }
    }
    kept.extend_from_slice(conditions.as_bytes());
    *request = kept;
}

/// Conditional and range requests (RFC 9110, 13.1 and 14.2).
fn is_condition(name: &str) -> bool {
    const CONDITIONS: [&str; 6] =
        ["Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range"];
    CONDITIONS.iter().any(|condition| name.eq_ignore_ascii_case(condition))
}

/// Methods that usually have content announce a length of 0 (RFC 9110, 8.6).
fn framing(head: &RequestHead<'_, '_>) -> Framing {
    match (head.framing, head.method) {
        (Framing::None, Method::Post | Method::Put | Method::Patch) => Framing::Length(0),
        // A length of 0 has no meaning here, and some upstreams would respond differently.
        (Framing::Length(0), Method::Get | Method::Head) => Framing::None,
        (framing, _) => framing,
    }
}

/// Whether applications may see a name with this prefix: CGI maps both `-` and `_` to `_` (RFC 3875, 4.1.18).
fn begins(name: &str, prefix: &str) -> bool {
    let is_alike = |(own, known): (u8, u8)| own.eq_ignore_ascii_case(&known) || (own == b'_' && known == b'-');
    name.len() >= prefix.len() && name.bytes().zip(prefix.bytes()).all(is_alike)
}

/// Whether a field names the client of another proxy. Unless the client is trusted, it is dropped, and replaced by one
/// with the client's own address.
pub(crate) fn is_for_others(name: &str) -> bool {
    const ADDRESS: &str = "X-Real-IP";
    let is_address = name.len() == ADDRESS.len() && begins(name, ADDRESS);
    begins(name, "X-Forwarded-") || is_address || name.eq_ignore_ascii_case("Forwarded")
}

/// Whether the proxy writes the field itself, or an application may take it for such a field.
fn is_own(name: &str) -> bool {
    let is_alike = |own: &&str| name.len() == own.len() && begins(name, own);
    ["X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"].iter().any(is_alike)
}

/// All lines of a name as one; None if there are none.
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
    options: &ForwardOptions<'_>,
    writer: &mut FieldWriter<'_>,
) -> Result<(), InvalidField> {
    let client = &options.client;
    if !client.is_trusted {
        return write_client(identity, options.requested_authority, client, writer);
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
        let element = forwarded_element(options.requested_authority, client).concat();
        writer.field("Forwarded", &continued("Forwarded", &element))?;
    }
    if identity.x_forwarded {
        writer.field("X-Forwarded-For", &continued("X-Forwarded-For", client.address.as_bytes()))?;
        // These describe the request to the first proxy, not to this one.
        let host = joined(head.fields, "X-Forwarded-Host")
            .or_else(|| options.requested_authority.map(|host| host.as_bytes().to_vec()));
        if let Some(host) = host {
            writer.field("X-Forwarded-Host", &host)?;
        }
        let before = joined(head.fields, "X-Forwarded-Proto");
        writer.field("X-Forwarded-Proto", before.as_deref().unwrap_or(scheme(client.is_secured).as_bytes()))?;
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

/// Writes the fields that describe an untrusted client. `authority` is the one that it requested.
pub(crate) fn write_client(
    identity: &Identity,
    authority: Option<&str>,
    client: &ClientInfo<'_>,
    writer: &mut FieldWriter<'_>,
) -> Result<(), InvalidField> {
    if identity.forwarded {
        writer.field_from_parts(FORWARDED, &forwarded_element(authority, client))?;
    }
    if identity.x_forwarded {
        writer.field_from_parts(X_FORWARDED_FOR, &[client.address.as_bytes()])?;
        if let Some(authority) = authority {
            writer.field_from_parts(X_FORWARDED_HOST, &[authority.as_bytes()])?;
        }
        writer.field_from_parts(X_FORWARDED_PROTO, &[scheme(client.is_secured).as_bytes()])?;
    }
    Ok(())
}

/// The client's element of Forwarded, in parts. `authority` was validated on receipt. IPv6 addresses and hosts with a
/// port must be quoted (RFC 7239, 4).
fn forwarded_element<'a>(authority: Option<&'a str>, client: &ClientInfo<'a>) -> [&'a [u8]; 10] {
    let (open, close): (&[u8], &[u8]) = if client.address.contains(':') { (b"\"[", b"]\"") } else { (b"", b"") };
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    let (host, quote): (&[u8], &[u8]) = match authority {
        Some(authority) if authority.bytes().all(is_token) => (b";host=", b""),
        Some(_) => (b";host=", b"\""),
        None => (b"", b""),
    };
    let authority = authority.unwrap_or_default().as_bytes();
    let (address, scheme) = (client.address.as_bytes(), scheme(client.is_secured).as_bytes());
    [b"for=", open, address, close, b";proto=", scheme, host, quote, authority, quote]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use breme_balance::{Group, GroupSettings, UpstreamSettings};
    use breme_base::{UnixSeconds, WallClock};
    use breme_http::Limits;
    use breme_http1::{FieldStorage, Progress, ServerConnection};

    use super::*;
    use crate::parts::Parts;
    use crate::settings::{HostRule, Mode, Settings};

    fn shared(change: impl FnOnce(&mut Settings)) -> SharedState {
        let mut settings = Settings::new(Mode::Reverse { host: HostRule::Keep });
        change(&mut settings);
        let upstream =
            UpstreamSettings { name: "up:1".to_owned(), tls: false, addresses: Vec::new(), weight: 1, route: None };
        let group = Group::new(GroupSettings::default(), vec![upstream]).unwrap();
        let parts = Parts::new(settings, WallClock::starting_at(UnixSeconds(0)));
        SharedState::new(Parts { group: Some(Arc::new(group)), ..parts }).unwrap()
    }

    fn passed_by(shared: &SharedState, client: ClientInfo<'_>, request: &str) -> String {
        let (mut server, mut storage) = (ServerConnection::new(), FieldStorage::new());
        let progress = server.receive(request.as_bytes(), false, &Limits::default(), &mut storage);
        let Ok(Progress::Head { head, .. }) = progress else { panic!("{request}: {progress:?}") };
        let options = ForwardOptions {
            authority: head.authority,
            requested_authority: head.authority,
            client,
            with_upgrade: head.requests_upgrade,
            accepts_trailers: head.fields.accept_trailers(),
            hops_left: None,
            conditions: None,
            own_cookie: None,
        };
        let mut out = Vec::new();
        write(shared, &head, &options, &mut out).unwrap();
        end(head.authority.is_none().then_some("up:1"), &mut out);
        String::from_utf8(out).unwrap()
    }

    fn client(address: &str, is_secured: bool, is_trusted: bool) -> ClientInfo<'_> {
        ClientInfo { address, is_secured, is_trusted }
    }

    #[test]
    fn untrusted_forwarding_fields_are_replaced() {
        let shared = shared(|_| {});
        let request = "GET /a?b HTTP/1.1\r\nHost: a.example\r\nForwarded: for=1.1.1.1\r\nX-Forwarded-For: 1.1.1.1\r\nx-forwarded-port: 1\r\nX_Forwarded_For: 1.1.1.1\r\nX-Real-IP: 1.1.1.1\r\nX-Real_IP: 1.1.1.1\r\nVia: 1.0 other\r\nAccept: x\r\n\r\n";
        assert_eq!(
            passed_by(&shared, client("192.0.2.7", false, false), request),
            "GET /a?b HTTP/1.1\r\nHost: a.example\r\nVia: 1.0 other\r\nAccept: x\r\nVia: 1.1 breme (cde2f3e1)\r\nForwarded: for=192.0.2.7;proto=http;host=a.example\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Host: a.example\r\nX-Forwarded-Proto: http\r\n\r\n"
        );
    }

    #[test]
    fn a_client_without_an_address_is_unknown() {
        let shared = shared(|_| {});
        let passed = |request: &str| {
            passed_by(&shared, client("unknown", false, true), &format!("GET / HTTP/1.1\r\nHost: a\r\n{request}\r\n"))
        };
        let alone = passed("");
        assert!(alone.contains("Forwarded: for=unknown;proto=http;host=a\r\nX-Forwarded-For: unknown\r\n"), "{alone}");
        let continued = passed("X-Forwarded-For: 192.0.2.7\r\n");
        assert!(continued.contains("X-Forwarded-For: 192.0.2.7, unknown\r\n"), "{continued}");
    }

    #[test]
    fn a_unix_socket_is_localhost() {
        assert_eq!(
            [host_of("unix:/run/app.sock"), host_of("a:80"), host_of("[::1]:80")],
            ["localhost", "a:80", "[::1]:80"]
        );
    }

    #[test]
    fn recognises_forwarding_fields() {
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
                |is_trusted| passed_by(&shared, client("192.0.2.7", false, is_trusted), &request).contains(name);
            assert_eq!((passed(false), passed(true)), (!is_for_others(name), true), "{name}");
        }
    }

    #[test]
    fn omits_zero_length_for_get() {
        let shared = shared(|settings| (settings.identity.forwarded, settings.identity.x_forwarded) = (false, false));
        let passed = |method: &str| {
            let request = format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
            passed_by(&shared, client("192.0.2.7", false, false), &request).contains("Content-Length")
        };
        assert_eq!(["GET", "HEAD", "POST", "DELETE"].map(passed), [false, false, true, true]);
    }

    #[test]
    fn continues_trusted_forwarding_fields() {
        let shared = shared(|_| {});
        let request = "GET / HTTP/1.1\r\nHost: a.example:8443\r\nForwarded: for=1.1.1.1\r\nX-Forwarded-For: 1.1.1.1, 2.2.2.2\r\nX-Forwarded-For: 3.3.3.3\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: 1\r\nX-Real-IP: 1.1.1.1\r\n\r\n";
        assert_eq!(
            passed_by(&shared, client("2001:db8::7", true, true), request),
            "GET / HTTP/1.1\r\nHost: a.example:8443\r\nX-Forwarded-Port: 1\r\nX-Real-IP: 1.1.1.1\r\nVia: 1.1 breme (cde2f3e1)\r\nForwarded: for=1.1.1.1, for=\"[2001:db8::7]\";proto=https;host=\"a.example:8443\"\r\nX-Forwarded-For: 1.1.1.1, 2.2.2.2, 3.3.3.3, 2001:db8::7\r\nX-Forwarded-Host: a.example:8443\r\nX-Forwarded-Proto: https\r\n\r\n"
        );
    }

    /// Applications may take the names with underscores for the others.
    #[test]
    fn trusted_fields_have_no_doubles() {
        let shared = shared(|_| {});
        let request = "GET / HTTP/1.1\r\nHost: a\r\nX_Forwarded_For: 6.6.6.6\r\nX-Forwarded_Proto: https\r\nx_forwarded_host: b\r\nX_Forwarded_Port: 1\r\n\r\n";
        let passed = passed_by(&shared, client("192.0.2.7", false, true), request);
        assert!(!passed.contains("6.6.6.6") && !passed.contains("https") && !passed.contains(": b\r\n"), "{passed}");
        assert!(passed.contains("X_Forwarded_Port: 1\r\n"), "the proxy does not write it: {passed}");
    }

    #[test]
    fn identity_headers_can_be_disabled() {
        let shared = shared(|settings| {
            (settings.identity.via, settings.identity.forwarded, settings.identity.x_forwarded) = (false, false, false);
        });
        let request = "POST / HTTP/1.0\r\nExpect: x\r\nForwarded: for=1.1.1.1\r\nX-Forwarded-For: 1.1.1.1\r\nConnection: keep-alive\r\n\r\n";
        let untrusted = passed_by(&shared, client("192.0.2.7", false, false), request);
        assert_eq!(untrusted, "POST / HTTP/1.1\r\nContent-Length: 0\r\nHost: up:1\r\n\r\n");
        let trusted = passed_by(&shared, client("192.0.2.7", false, true), request);
        assert!(trusted.contains("Forwarded: for=1.1.1.1\r\nX-Forwarded-For: 1.1.1.1\r\n"), "{trusted}");
    }

    #[test]
    fn forwards_expect_continue() {
        let shared = shared(|settings| (settings.identity.forwarded, settings.identity.x_forwarded) = (false, false));
        let client = client("192.0.2.7", false, false);
        let request =
            "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\nTE: x\r\n\r\n";
        assert_eq!(
            passed_by(&shared, client, request),
            "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\nVia: 1.1 breme (cde2f3e1)\r\n\r\n"
        );
        let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: x-a, upgrade\r\nX-A: 1\r\nUpgrade: websocket\r\nUpgrade: y\r\n\r\n";
        assert_eq!(
            passed_by(&shared, client, request),
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket, y\r\nVia: 1.1 breme (cde2f3e1)\r\n\r\n"
        );
    }

    #[test]
    fn connection_header_cannot_remove_own_fields() {
        let shared = shared(|_| {});
        let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: X-Forwarded-For, Forwarded, Host, Via\r\n\r\n";
        let passed = passed_by(&shared, client("192.0.2.7", false, false), request);
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
