//! Communication between nodes: hand-overs and forwarded requests, over HTTP/1.1.
//!
//! Each node listens for the others at a separate address. A forwarded request is the client's, with its hops in a
//! header, which replaces any header of that name. Nodes authenticate with certificates of the cluster's own authority
//! (mutual TLS), or, on one machine, with a shared secret.

mod connection;
mod error;
mod listener;
mod message;
mod tls;

use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use breme_session::{ForwardResult, HandOverAnswer, HandOverRequest};
use bytes::Bytes;
use http::uri::{self, Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use self::connection::Connector;
pub use self::error::{AddressError, PeersError, SECRET_MIN};
pub(crate) use self::listener::Hops;
pub use self::listener::{CONNECTIONS_MAX, serve};
use self::message::{HAND_OVER, MESSAGE, RAN_ON, SECRET, STRANGER};
pub use self::tls::PeerTls;
use crate::reports::Reports;

/// Limit of the idle connections to one node.
const IDLE_MAX: usize = 256;
/// Idle time of connections. The other node's is longer, so that none is closed during a request.
const IDLE_TIME: Duration = Duration::from_secs(20);
/// Headers that concern one connection only.
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Client of the other nodes. Clones share its connections.
#[derive(Clone)]
pub struct Peers {
    trust: Trust,
    client: Client<Connector, Full<Bytes>>,
    reports: Arc<Reports>,
}

/// How nodes authenticate.
#[derive(Clone)]
enum Trust {
    /// On one machine: the value of [`SECRET`].
    Secret(HeaderValue),
    Tls(PeerTls),
}

impl Peers {
    /// Nodes of one machine, which share a secret.
    ///
    /// # Errors
    ///
    /// If the secret is shorter than [`SECRET_MIN`].
    pub fn on_this_machine(secret: &[u8]) -> Result<Self, PeersError> {
        use base64::Engine as _;
        use base64::engine::general_purpose::STANDARD;

        if secret.len() < SECRET_MIN {
            return Err(PeersError::ShortSecret(secret.len()));
        }
        let mut value = HeaderValue::try_from(STANDARD.encode(secret))?;
        value.set_sensitive(true);
        Ok(Self::new(Trust::Secret(value), Connector::plain()))
    }

    /// Nodes on any machines, which authenticate with certificates.
    #[must_use]
    pub fn over_tls(tls: PeerTls) -> Self {
        Self::new(Trust::Tls(tls.clone()), Connector::tls(tls))
    }

    fn new(trust: Trust, connector: Connector) -> Self {
        Self { trust, client: client(connector), reports: Arc::default() }
    }

    /// Parses an address. Rejects those to which sessions would be sent in plain text over a network.
    pub(crate) fn parse_address(&self, address: &str) -> Result<Authority, AddressError> {
        let Ok(authority) = address.parse::<Authority>() else {
            return Err(AddressError::Invalid(address.to_owned()));
        };
        if authority.port_u16().is_none() {
            return Err(AddressError::NoPort(address.to_owned()));
        }
        let host = authority.host().trim_matches(['[', ']']);
        let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        if matches!(self.trust, Trust::Secret(_)) && !is_here {
            return Err(AddressError::PlainText(address.to_owned()));
        }
        Ok(authority)
    }

    /// Requests a session from a node; none if there was no valid response.
    pub(crate) async fn request_hand_over(&self, address: &str, question: HandOverRequest) -> Option<HandOverAnswer> {
        let mut request = Request::new(Full::new(message::encode_question(&question).into()));
        *request.method_mut() = Method::POST;
        request.headers_mut().insert(MESSAGE, HAND_OVER);
        let response = self.send(address, request).await.ok()?;
        match response.status() {
            StatusCode::OK => {
                let body = Limited::new(response.into_body(), message::ANSWER_MAX).collect().await.ok()?;
                message::decode_answer(&question.session, &body.to_bytes())
            }
            StatusCode::CONFLICT => Some(HandOverAnswer::Refused),
            _ => None,
        }
    }

    /// Forwards a client's request.
    pub(crate) async fn forward(
        &self,
        address: &str,
        method: Method,
        uri: &Uri,
        headers: HeaderMap,
        body: Bytes,
        hops: u8,
    ) -> Result<Response<Incoming>, ForwardResult> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers;
        remove_hop_by_hop(request.headers_mut());
        request.headers_mut().insert(MESSAGE, HeaderValue::from(u16::from(hops)));
        let mut response = self.send(address, request).await?;
        remove_hop_by_hop(response.headers_mut());
        if let Some(ran_on) = response.headers_mut().remove(RAN_ON).and_then(|value| message::decode_ran_on(&value)) {
            response.extensions_mut().insert(ran_on);
        }
        Ok(response)
    }

    async fn send(
        &self,
        address: &str,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, ForwardResult> {
        // A record may contain any address: nodes do not send to addresses that they would not use themselves.
        let authority = self.parse_address(address).map_err(|_| ForwardResult::Unreachable)?;
        let mut parts = uri::Parts::default();
        parts.scheme = Some(Scheme::HTTP);
        parts.authority = Some(authority);
        parts.path_and_query = Some(request.uri().path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/")));
        *request.uri_mut() = Uri::from_parts(parts).map_err(|_| ForwardResult::Unreachable)?;
        if let Trust::Secret(secret) = &self.trust {
            request.headers_mut().insert(SECRET, secret.clone());
        }
        let response = self.client.request(request).await.map_err(|error| {
            self.report_distrust(&format!("the node at {address}"), &error);
            let is_unsent = error.is_connect() || tls::is_refusal(&error);
            if is_unsent { ForwardResult::Unreachable } else { ForwardResult::Broken }
        })?;
        let is_refused = response.headers().get(MESSAGE) == Some(&STRANGER);
        if is_refused { Err(ForwardResult::Unreachable) } else { Ok(response) }
    }

    /// Prints why a connection to or from another node failed, if one of them does not trust the other.
    fn report_distrust(&self, other: &str, error: &(dyn Error + 'static)) {
        if let Some(text) = tls::describe_distrust(other, error) {
            self.reports.report(&text);
        }
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.trust {
            Trust::Secret(_) => "Peers(on this machine)",
            Trust::Tls(_) => "Peers(over TLS)",
        })
    }
}

fn client(connector: Connector) -> Client<Connector, Full<Bytes>> {
    Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE_TIME)
        .pool_max_idle_per_host(IDLE_MAX)
        .pool_timer(TokioTimer::new())
        .build(connector)
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}
