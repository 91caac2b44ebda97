//! A blocking HTTP client for single requests: readiness and resets of subjects, counters, pushed messages. Loads come
//! from the load generator.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use breme_base::{HttpUrl, InvalidUrl, loopback_addresses};
use thiserror::Error;
use ureq::AsSendBody;
use ureq::config::Config;
use ureq::http::{Request, Uri};
use ureq::tls::TlsConfig;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};

/// The longest response body read.
const CONTENT_BYTES_MAX: u64 = 4 << 20;

#[derive(Clone, Debug)]
pub struct HttpClient {
    /// Verifies certificates.
    strict: ureq::Agent,
    /// For servers on this machine, whose certificates are often self-signed.
    lenient: ureq::Agent,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{url:?} is not a URL: {source}; write http://HOST:PORT or https://HOST:PORT")]
pub struct UrlError {
    url: String,
    source: InvalidUrl,
}

/// Why there is no response, or not the expected one.
#[derive(Debug, Error)]
pub enum RequestError {
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The method, the URL or a header cannot be sent.
    #[error("{method} {url}: {source}")]
    Invalid { method: String, url: String, source: ureq::http::Error },
    #[error("{method} {url}: {source}")]
    Exchange { method: String, url: String, source: Box<ureq::Error> },
    #[error("GET {url} returned status {status}, not 200")]
    Status { url: String, status: u16 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    pub status: u16,
    /// The value of Retry-After.
    pub retry_after: Option<String>,
    pub content: Vec<u8>,
}

impl Default for HttpClient {
    fn default() -> Self {
        Self::new()
    }
}

impl HttpClient {
    #[must_use]
    pub fn new() -> Self {
        Self { strict: agent(false), lenient: agent(true) }
    }

    /// Sends a request without a body. A response of any status is a result.
    ///
    /// # Errors
    /// An invalid request, or no response within the time.
    pub fn request(
        &self,
        method: &str,
        url: &str,
        headers: &[(String, String)],
        within: Duration,
    ) -> Result<HttpResponse, RequestError> {
        self.send(method, url, headers, (), within)
    }

    /// Sends a POST with a body. A response of any status is a result.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub fn post(
        &self,
        url: &str,
        headers: &[(String, String)],
        content: &[u8],
        within: Duration,
    ) -> Result<HttpResponse, RequestError> {
        self.send("POST", url, headers, content, within)
    }

    /// Fetches a page as text.
    ///
    /// # Errors
    /// If the status is not 200, or no response arrives in time.
    pub fn fetch(&self, url: &str, headers: &[(String, String)], within: Duration) -> Result<String, RequestError> {
        let response = self.request("GET", url, headers, within)?;
        match response.status {
            200 => Ok(String::from_utf8_lossy(&response.content).into_owned()),
            status => Err(RequestError::Status { url: url.to_owned(), status }),
        }
    }

    fn send(
        &self,
        method: &str,
        url: &str,
        headers: &[(String, String)],
        content: impl AsSendBody,
        within: Duration,
    ) -> Result<HttpResponse, RequestError> {
        let (named, at) = (|| method.to_owned(), || url.to_owned());
        let fault = |error| RequestError::Exchange { method: named(), url: at(), source: Box::new(error) };
        let host_port = HostPort::parse(url)?;
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request =
            request.body(content).map_err(|source| RequestError::Invalid { method: named(), url: at(), source })?;
        let agent = if host_port.is_here() { &self.lenient } else { &self.strict };
        let request = agent.configure_request(request).timeout_global(Some(within)).build();
        let mut response = agent.run(request).map_err(fault)?;
        let status = response.status().as_u16();
        let retry_after =
            response.headers().get("Retry-After").and_then(|value| value.to_str().ok()).map(str::to_owned);
        let content = response.body_mut().with_config().limit(CONTENT_BYTES_MAX).read_to_vec();
        Ok(HttpResponse { status, retry_after, content: content.map_err(fault)? })
    }
}

fn agent(trusts_all: bool) -> ureq::Agent {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = TlsConfig::builder().unversioned_rustls_crypto_provider(provider).disable_verification(trusts_all);
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        // Requests go to the server itself, whatever proxy the environment names.
        .proxy(None)
        // Servers close connections that are idle for seconds, and the next request must not fail because of that.
        .max_idle_connections(0)
        .tls_config(tls.build());
    ureq::Agent::with_parts(config.build(), DefaultConnector::default(), LoopbackResolver::default())
}

/// The system's resolver, which names of this machine do not need.
#[derive(Debug, Default)]
struct LoopbackResolver(DefaultResolver);

impl Resolver for LoopbackResolver {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let Some(addresses) = uri.host().and_then(loopback_addresses) else {
            return self.0.resolve(uri, config, timeout);
        };
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let mut found = self.empty();
        addresses.into_iter().for_each(|address| found.push(SocketAddr::new(address, port)));
        Ok(found)
    }
}

/// Host and port of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// Without the brackets of an IPv6 address.
    pub host: String,
    pub port: u16,
}

impl HostPort {
    /// By default the port of the URL's scheme.
    ///
    /// # Errors
    /// If it is not an `http` or `https` URL.
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        let (host, port) = HttpUrl::split(url)
            .and_then(|parts| parts.host_and_port())
            .map_err(|source| UrlError { url: url.to_owned(), source })?;
        Ok(Self { host: host.to_owned(), port })
    }

    /// `127.0.0.1:8080`, `[::1]:8080`.
    #[must_use]
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    fn is_here(&self) -> bool {
        loopback_addresses(&self.host).is_some() || self.host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
    }
}

/// Appends a path to a URL: `http://h:1/` and `/x` give `http://h:1/x`. A complete URL is returned unchanged.
#[must_use]
pub fn with_path(url: &str, path: &str) -> String {
    match path {
        path if path.contains("://") => path.to_owned(),
        path => format!("{}/{}", url.trim_end_matches('/'), path.trim_start_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_url_has_a_host_and_a_port() {
        let check = |url, address: &str, is_here| {
            let host_port = HostPort::parse(url).unwrap();
            assert_eq!((host_port.address().as_str(), host_port.is_here()), (address, is_here), "{url}");
        };
        check("http://127.0.0.1:81/x", "127.0.0.1:81", true);
        check("https://example.org", "example.org:443", false);
        check("http://[::1]:9", "[::1]:9", true);
        check("http://localhost/", "localhost:80", true);
        check("https://app.localhost", "app.localhost:443", true);
        for wrong in ["", "127.0.0.1:80", "ftp://a", "/x", "http://"] {
            assert!(HostPort::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_of_this_machine_need_no_resolver() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://app.localhost:{}/", listener.local_addr().unwrap().port());
        let server = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                client.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi").unwrap();
        });
        assert_eq!(HttpClient::new().fetch(&url, &[], Duration::from_secs(10)).unwrap(), "hi");
        server.join().unwrap();
    }

    #[test]
    fn a_path_is_appended_to_the_url() {
        assert_eq!(with_path("http://h:1/", "/x"), "http://h:1/x");
        assert_eq!(with_path("http://h:1/a", "x?y"), "http://h:1/a/x?y");
        assert_eq!(with_path("http://h:1", "https://z/"), "https://z/");
    }
}
