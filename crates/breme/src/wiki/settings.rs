//! Converts the flags to settings; rejects unsafe combinations.

use breme_base::{HttpUrl, without_http};
use breme_command::failure::Failure;
use breme_command::server::ListenPlace;
use breme_sys::read_bounded;
use breme_wiki::settings::{Edge, Readers, Settings, Writers};

use super::arguments::{ReadChoice, ServeArgs, WriteChoice};

/// With purges, a cache may keep a page until it changes.
const PURGED: &str = "public, max-age=0, s-maxage=86400, stale-while-revalidate=60";
const TOKEN_BYTES_MAX: u64 = 4096;

pub(super) fn settings(args: &ServeArgs, places: &[ListenPlace], has_accounts: bool) -> Result<Settings, Failure> {
    let defaults = Settings::default();
    let cache_control = match &args.cache_control {
        Some(text) => text.parse().map_err(|_| {
            Failure::usage(format!("--cache-control {text:?}: not valid in a header; write printable ASCII"))
        })?,
        None if !args.edge.is_empty() => http::HeaderValue::from_static(PURGED),
        None => defaults.cache_control,
    };
    let readers = match args.read {
        ReadChoice::Anyone => Readers::Anyone,
        ReadChoice::Members => Readers::Members,
    };
    if readers == Readers::Members && !has_accounts {
        let message =
            "--read members: nobody could read, as there are no accounts; add one with `breme wiki user add NAME`";
        return Err(Failure::usage(message));
    }
    Ok(Settings {
        title: args.title.clone(),
        cache_control,
        public_url: args.public_url.as_deref().map(public_url).transpose()?,
        readers,
        writers: writers(args.write, places, has_accounts)?,
        has_accounts,
        requires_condition: args.require_condition,
        trusted_proxies: args.trusted_proxy.clone(),
        page_bytes_max: args.max_page,
        attachment_bytes_max: args.max_attachment,
        rendered_bytes_max: args.render_cache,
        writes_per_minute: args.write_rate,
        edges: edges(args)?,
        waits_for_edges: args.wait_for_edges,
        edge_timeout: args.edge_timeout,
    })
}

/// Who may write: as configured, or a safe default.
fn writers(choice: Option<WriteChoice>, places: &[ListenPlace], has_accounts: bool) -> Result<Writers, Failure> {
    let is_local = places.iter().all(ListenPlace::is_local);
    match choice {
        Some(WriteChoice::Anyone) => Ok(Writers::Anyone),
        Some(WriteChoice::Nobody) => Ok(Writers::Nobody),
        Some(WriteChoice::Members) if !has_accounts => Err(Failure::usage(
            "--write members: nobody could write, as there are no accounts; add one with `breme wiki user add NAME`",
        )),
        Some(WriteChoice::Members) => Ok(Writers::Members),
        None if has_accounts => Ok(Writers::Members),
        None if is_local => Ok(Writers::Local),
        None => {
            let place = places.iter().find(|place| !place.is_local());
            let address = place.map(|place| place.address.to_string()).unwrap_or_default();
            Err(Failure::usage(format!(
                "--listen {address}: anyone who can reach this address could change pages, because the wiki has no accounts; add one (breme wiki user add NAME), or set --write nobody or --write anyone"
            )))
        }
    }
}

/// A remark for operators about the permissions.
pub(super) fn notice(settings: &Settings) -> Option<String> {
    match settings.writers {
        Writers::Local => Some("no accounts: requests from this machine may change pages, others may not".to_owned()),
        writers if is_open(writers) => {
            Some("anyone who can reach the wiki may change pages (--write anyone)".to_owned())
        }
        _ => None,
    }
}

fn public_url(text: &str) -> Result<http::Uri, Failure> {
    let fault = |problem: &str| {
        Failure::usage(format!("--public-url {text}: {problem}; write https://HOST or http://HOST:PORT"))
    };
    let url = text.trim_end_matches('/');
    let parts = HttpUrl::parse(url).map_err(|problem| fault(&problem.to_string()))?;
    if parts.user_info.is_some() || url.contains(['?', '#']) {
        return Err(fault("only a host and a port are allowed"));
    }
    if parts.authority.ends_with(':') {
        return Err(fault("the port is missing"));
    }
    if !parts.target.is_empty() {
        return Err(fault("the wiki is served at the root of its host, so there is no path"));
    }
    url.parse().map_err(|_| fault("it is not a URL"))
}

fn edges(args: &ServeArgs) -> Result<Vec<Edge>, Failure> {
    let Some(path) = &args.edge_token_file else { return Ok(Vec::new()) };
    let fault = |problem: String| Failure::usage(format!("--edge-token-file {}: {problem}", path.display()));
    let bytes = read_bounded(path, TOKEN_BYTES_MAX).map_err(|error| fault(format!("cannot be read: {error}")))?;
    let token = String::from_utf8_lossy(&bytes).trim().to_owned();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(fault("a token has printable characters without spaces".to_owned()));
    }
    args.edge.iter().map(|text| edge(text, &token)).collect()
}

fn edge(text: &str, token: &str) -> Result<Edge, Failure> {
    let fault = |problem: &str| {
        Failure::usage(format!("--edge {text}: {problem}; write HOST:PORT, the --admin address of the proxy"))
    };
    let authority = without_http(text).trim_end_matches('/');
    if authority.contains("://") || authority.contains(['/', '@']) {
        return Err(fault("it is not an address"));
    }
    let parsed: http::uri::Authority = authority.parse().map_err(|_| fault("it is not an address"))?;
    match parsed.port_u16() {
        Some(_) => Ok(Edge { authority: authority.to_owned(), token: token.to_owned() }),
        None => Err(fault("the port is missing")),
    }
}

/// Whether clients without an account may write.
fn is_open(writers: Writers) -> bool {
    matches!(writers, Writers::Anyone | Writers::Local)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(texts: &[&str]) -> Vec<ListenPlace> {
        texts.iter().map(|text| ListenPlace::from_text(text, false).unwrap()).collect()
    }

    #[test]
    fn a_wiki_is_never_open_to_others_by_default() {
        let (loopback, public) = (places(&["127.0.0.1:80"]), places(&["0.0.0.0:80"]));
        assert_eq!(writers(None, &loopback, false).unwrap(), Writers::Local);
        assert_eq!(writers(None, &loopback, true).unwrap(), Writers::Members);
        assert_eq!(writers(None, &public, true).unwrap(), Writers::Members);
        let both = places(&["127.0.0.1:80", "0.0.0.0:80"]);
        let message = writers(None, &both, false).unwrap_err().message;
        assert!(message.contains("--listen 0.0.0.0:80") && message.contains("user add"), "{message}");
        assert_eq!(writers(Some(WriteChoice::Anyone), &public, false).unwrap(), Writers::Anyone);
        assert!(writers(Some(WriteChoice::Members), &public, false).is_err());
    }

    #[test]
    fn edges_are_addresses() {
        assert_eq!(edge("http://127.0.0.1:9091/", "t").unwrap().authority, "127.0.0.1:9091");
        assert_eq!(edge("HTTP://a:9091", "t").unwrap().authority, "a:9091");
        assert_eq!(edge("[::1]:9091", "t").unwrap().authority, "[::1]:9091");
        for wrong in ["127.0.0.1", "https://a:1", "http://a:1/x", "u@a:1", ""] {
            assert!(edge(wrong, "t").is_err(), "{wrong}");
        }
    }

    #[test]
    fn public_urls_are_of_a_host_and_a_port() {
        assert_eq!(public_url("https://wiki.example/").unwrap().host(), Some("wiki.example"));
        for (wrong, problem) in [
            ("wiki.example", "the scheme is missing"),
            ("ftp://a", "the scheme must be"),
            ("https://a/b", "there is no path"),
            ("https://u:p@a", "only a host and a port"),
            ("https://a?x", "only a host and a port"),
            ("https://a/#x", "only a host and a port"),
            ("https://a:", "the port is missing"),
            ("https://a:/", "the port is missing"),
        ] {
            let message = public_url(wrong).unwrap_err().message;
            assert!(message.contains(problem), "{message}");
        }
    }
}
