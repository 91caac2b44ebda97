//! Authentication and authorisation of requests.
//!
//! **Forged requests.** A page of another site can make a browser send a form here, with the user's cookies. Browsers
//! indicate that: every request that changes something has Sec-Fetch-Site, or from older browsers Origin, and both must
//! name this site. The wiki checks these headers instead of tokens in forms, because a token belongs to one visitor:
//! pages with forms could not be cached publicly. Programs other than browsers send neither header, and are accepted
//! unless they send a cookie.

use std::net::IpAddr;
use std::time::Instant;

use breme_http::forwarded_address;
use http::header::{AUTHORIZATION, FORWARDED, ORIGIN, VIA};
use http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};

use super::limiter::Purpose;
use super::problem::Problem;
use super::state::Wiki;
use super::validators::{cookie, is_safe};
use super::visitor::{Identity, Visitor, authority};
use crate::accounts;
use crate::settings::{Settings, Writers};

/// The name of the session cookie; over TLS, the prefix binds it to this host.
const COOKIE: &str = "session";
const SECURE_COOKIE: &str = "__Host-session";

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Identifies the sender of a request.
pub(crate) async fn identify(wiki: &Wiki, headers: &HeaderMap, uri: &Uri, peer: IpAddr) -> Result<Visitor, Problem> {
    let address = client_address(headers, peer, &wiki.settings.trusted_proxies);
    let is_local = peer.is_loopback() && is_from_loopback(headers) && is_local_name(&authority(headers, uri));
    let mut identity = Identity::Anonymous;
    if let Some(secret) = bearer_token(headers) {
        let Some(token) = accounts::token(&*wiki.database, secret).await? else {
            let detail =
                "The API token is not valid; `breme wiki token add` creates one, for `Authorization: Bearer TOKEN`.";
            return Err(Problem::new(StatusCode::UNAUTHORIZED, detail).with_header(header::WWW_AUTHENTICATE, "Bearer"));
        };
        identity = Identity::Token { label: token.label, scope: token.scope };
    } else if let Some(secret) = session_cookie(headers, &wiki.settings)
        && let Some((name, user)) = accounts::session(&*wiki.database, secret).await?
    {
        identity = Identity::User { name, scope: user.scope };
    }
    Ok(Visitor { address, identity, is_local })
}

/// The token of the wiki in a request. Other schemes are those of a proxy in front, such as nginx with `auth_basic`,
/// which forwards what it has checked.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, secret) = text.split_once(' ').unwrap_or((text, ""));
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

/// Whether the request may be passed to its handler.
pub(crate) fn admit(
    wiki: &Wiki,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    visitor: &Visitor,
) -> Result<(), Problem> {
    let (path, settings) = (uri.path(), &wiki.settings);
    let signs_in = path == "/login" || path == "/logout";
    if !is_safe(method) {
        refuse_forged(headers, uri, settings, visitor)?;
        let purpose = Purpose::from_path(path);
        if let Err(wait) = wiki.limiter.take(visitor.address, purpose, settings.writes_per_minute, Instant::now()) {
            wiki.counts.rate_limited.add(1);
            let seconds = wait.as_secs() + 1;
            let detail = format!("Too many requests from your address; try again in {seconds} s.");
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, detail);
            return Err(problem.with_header(header::RETRY_AFTER, seconds.to_string()));
        }
    }
    if signs_in || path.starts_with("/assets/") {
        return Ok(());
    }
    if !visitor.may_read(settings) {
        return Err(needs_account(visitor, "read this wiki"));
    }
    if is_safe(method) { Ok(()) } else { require_writer(wiki, visitor) }
}

/// Rejects visitors who must not change pages.
pub(crate) fn require_writer(wiki: &Wiki, visitor: &Visitor) -> Result<(), Problem> {
    let writers = wiki.writers();
    if visitor.may_write(writers) {
        return Ok(());
    }
    Err(match writers {
        Writers::Nobody => Problem::new(StatusCode::FORBIDDEN, "This wiki is read-only."),
        Writers::Local => Problem::new(
            StatusCode::FORBIDDEN,
            "Only requests from the wiki's own machine may change pages. To let others in, add accounts with `breme wiki user add`.",
        ),
        _ => needs_account(visitor, "change pages"),
    })
}

fn needs_account(visitor: &Visitor, to: &str) -> Problem {
    if visitor.identity == Identity::Anonymous {
        let detail = format!("Sign in, or send an API token, to {to}.");
        return Problem::new(StatusCode::UNAUTHORIZED, detail).with_header(header::WWW_AUTHENTICATE, "Bearer");
    }
    Problem::new(StatusCode::FORBIDDEN, "Your account or API token may only read pages.")
}

fn refuse_forged(headers: &HeaderMap, uri: &Uri, settings: &Settings, visitor: &Visitor) -> Result<(), Problem> {
    // Another site cannot add a token to a request.
    if matches!(visitor.identity, Identity::Token { .. }) {
        return Ok(());
    }
    let is_ours = match (headers.get("sec-fetch-site"), headers.get(ORIGIN)) {
        (Some(site), _) => site == "same-origin" || site == "none",
        (None, Some(origin)) => {
            let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
            let own = authority(headers, uri);
            let public = settings.public_url.as_ref().and_then(|url| Some(url.authority()?.as_str()));
            origin.is_some_and(|(scheme, origin)| {
                let origin = without_default_port(scheme, origin);
                [Some(own.as_str()), public]
                    .into_iter()
                    .flatten()
                    .any(|one| without_default_port(scheme, one) == origin)
            })
        }
        // Not a browser, or one from before 2020: it must not act with a cookie that it was made to send.
        (None, None) => visitor.identity == Identity::Anonymous,
    };
    if is_ours {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::FORBIDDEN,
        "The request was sent by a page of another site; send it from a page of this wiki.",
    ))
}

fn without_default_port(scheme: &str, authority: &str) -> String {
    let default = if scheme == "https" { ":443" } else { ":80" };
    authority.strip_suffix(default).unwrap_or(authority).to_ascii_lowercase()
}

/// A site that a browser reaches under its own name, and whose owner then points that name here (DNS rebinding), is not
/// local.
fn is_local_name(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn client_address(headers: &HeaderMap, peer: IpAddr, trusted: &[IpAddr]) -> IpAddr {
    let is_trusted = |address: &IpAddr| address.is_loopback() || trusted.contains(address);
    if !is_trusted(&peer) {
        return peer;
    }
    // From the nearest to the farthest; whatever a client wrote itself lies behind the first untrusted address.
    let mut address = peer;
    for one in forwarded_for(headers).into_iter().rev() {
        let Some(one) = one else { break };
        address = one;
        if !is_trusted(&address) {
            break;
        }
    }
    address
}

/// Whether the proxies in front of the wiki, if any, name only clients on this machine. In doubt they do not: without
/// accounts, this machine may write.
fn is_from_loopback(headers: &HeaderMap) -> bool {
    let clients = forwarded_for(headers);
    if clients.is_empty() {
        // A proxy that does not name its client here.
        return !headers.contains_key(FORWARDED) && !headers.contains_key(VIA);
    }
    clients.iter().all(|client| client.is_some_and(|address| address.is_loopback()))
}

/// The clients that proxies name, from the farthest to the nearest; `None` for one without a readable address.
fn forwarded_for(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let lines = headers.get_all(X_FORWARDED_FOR).iter().map(|value| value.to_str().unwrap_or_default());
    lines.flat_map(|line| line.split(',')).map(|text| forwarded_address(text.trim())).collect()
}

pub(crate) fn session_cookie<'a>(headers: &'a HeaderMap, settings: &Settings) -> Option<&'a str> {
    cookie(headers, if is_secure(settings) { SECURE_COOKIE } else { COOKIE })
}

/// The header that sets the session cookie; without a value, one that removes it.
pub(crate) fn set_cookie(settings: &Settings, value: Option<&str>) -> String {
    let (name, secure) = if is_secure(settings) { (SECURE_COOKIE, "; Secure") } else { (COOKIE, "") };
    let age = if value.is_some() { accounts::SESSION_MILLIS / 1000 } else { 0 };
    format!("{name}={}; Path=/; HttpOnly; SameSite=Lax; Max-Age={age}{secure}", value.unwrap_or_default())
}

fn is_secure(settings: &Settings) -> bool {
    settings.public_url.as_ref().is_some_and(|url| url.scheme_str() == Some("https"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::Scope;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn forged_requests_are_refused() {
        let user = Identity::User { name: "ana".into(), scope: Scope::Write };
        let token = Identity::Token { label: "ci".into(), scope: Scope::Write };
        let public = Settings { public_url: Some("https://wiki.example".parse().unwrap()), ..Settings::default() };
        let passes = |identity: &Identity, settings: &Settings, pairs: &[(&'static str, &str)]| {
            let visitor = Visitor { address: IpAddr::from([127, 0, 0, 1]), identity: identity.clone(), is_local: true };
            refuse_forged(&headers(pairs), &Uri::from_static("/wiki/A"), settings, &visitor).is_ok()
        };
        let local = Settings::default();
        for (identity, settings, pairs, expected) in [
            (&user, &local, &[("sec-fetch-site", "same-origin")][..], true),
            (&user, &local, &[("sec-fetch-site", "none")], true),
            (&user, &local, &[("sec-fetch-site", "same-site")], false),
            (&user, &local, &[("sec-fetch-site", "cross-site"), ("origin", "http://a:1"), ("host", "a:1")], false),
            (&user, &local, &[("origin", "http://a:1"), ("host", "A:1")], true),
            (&user, &local, &[("origin", "http://a"), ("host", "a:80")], true),
            (&user, &local, &[("origin", "http://a.evil"), ("host", "a")], false),
            (&user, &local, &[("origin", "null"), ("host", "a")], false),
            (&user, &public, &[("origin", "https://wiki.example"), ("host", "10.0.0.1:8080")], true),
            (&user, &local, &[("host", "a")], false),
            (&Identity::Anonymous, &local, &[("host", "a")], true),
            (&Identity::Anonymous, &local, &[("host", "a"), ("origin", "https://evil")], false),
            (&token, &local, &[("origin", "https://evil"), ("host", "a")], true),
        ] {
            assert_eq!(passes(identity, settings, pairs), expected, "{identity:?} {pairs:?}");
        }
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        let trusted: IpAddr = "10.0.0.1".parse().unwrap();
        let address = |peer: &str, forwarded: &str| {
            let headers = headers(&[("x-forwarded-for", forwarded)]);
            client_address(&headers, peer.parse().unwrap(), &[trusted]).to_string()
        };
        assert_eq!(address("127.0.0.1", "192.0.2.1"), "192.0.2.1");
        assert_eq!(address("127.0.0.1", "192.0.2.9, 192.0.2.1, 10.0.0.1"), "192.0.2.1");
        assert_eq!(address("192.0.2.7", "127.0.0.1"), "192.0.2.7");
        assert_eq!(address("127.0.0.1", "nonsense"), "127.0.0.1");
        assert_eq!(address("::1", "127.0.0.1"), "127.0.0.1");
        assert_eq!(address("127.0.0.1", "192.0.2.1:4711"), "192.0.2.1");
        assert_eq!(address("127.0.0.1", "[2001:db8::1]:4711"), "2001:db8::1");
        assert_eq!(address("127.0.0.1", "[2001:db8::1], 127.0.0.1:80"), "2001:db8::1");
    }

    #[test]
    fn forwarded_requests_are_local_only_without_doubt() {
        for (pairs, expected) in [
            (&[][..], true),
            (&[("x-forwarded-for", "127.0.0.1")], true),
            (&[("x-forwarded-for", "127.0.0.1:4711, [::1]:4712, ::1, [::1]"), ("via", "1.1 a")], true),
            (&[("x-forwarded-for", "127.0.0.1"), ("x-forwarded-for", "192.0.2.1")], false),
            (&[("x-forwarded-for", "192.0.2.1, 127.0.0.1")], false),
            (&[("x-forwarded-for", "192.0.2.1:4711")], false),
            (&[("x-forwarded-for", "[2001:db8::1]:4711")], false),
            (&[("x-forwarded-for", "unknown")], false),
            (&[("x-forwarded-for", "unknown, 127.0.0.1")], false),
            (&[("x-forwarded-for", "")], false),
            (&[("x-forwarded-for", "\u{e9}")], false),
            (&[("forwarded", "for=192.0.2.1")], false),
            (&[("forwarded", "for=127.0.0.1")], false),
            (&[("via", "1.1 proxy")], false),
        ] {
            assert_eq!(is_from_loopback(&headers(pairs)), expected, "{pairs:?}");
        }
    }

    #[test]
    fn only_names_of_this_machine_are_local() {
        for (name, expected) in [
            ("localhost:8080", true),
            ("127.0.0.1", true),
            ("[::1]:80", true),
            ("evil.example:8080", false),
            ("localhost.evil.example", false),
            ("", false),
        ] {
            assert_eq!(is_local_name(name), expected, "{name}");
        }
    }
}
