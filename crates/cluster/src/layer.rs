//! Sessions for axum: a layer that provides each request with its session, and holds each response until it is
//! confirmed.
//!
//! ```text
//!   no cookie, or of no session ──► handler ──► wrote? ──► new id, stored ──► response with Set-Cookie
//!   cookie of a session ──► turn here ──► handler ──► committed ──► response
//!                      └──► another node's ──► forwarded there
//! ```
//!
//! A response that must not be sent is replaced by a 503 with Retry-After (413 if the session has grown too large);
//! [`OUTCOME`] contains the reason.

mod cookies;
mod session;

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::OriginalUri;
use axum::response::{IntoResponse, Response};
use breme_session::{Access, Change, ForwardResult, NodeName, Outcome, Refusal, SessionId, SessionTarget};
use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{CACHE_CONTROL, RETRY_AFTER, SET_COOKIE};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, request};
use tokio::time::sleep;
use tower_layer::Layer;
use tower_service::Service;

use crate::node::{Forwarded, Node, Released, Running, Turn};
use crate::peers::Hops;

pub use self::cookies::Cookies;
use self::session::Wish;
pub use self::session::{Session, SessionError};

/// Default limit of the body of a forwarded request, in bytes.
pub const FORWARD_BODY_MAX: usize = 1 << 20;
/// Default time limit for another node's response.
pub const FORWARD_TIME: Duration = Duration::from_secs(10);
/// How long a response from a node whose life has ended may be in transit.
const OVER_TIME: Duration = Duration::from_millis(500);
/// In a 503, the outcome of the request: `refused` and `not-done` (the session is unchanged), or `unknown`.
pub const OUTCOME: HeaderName = HeaderName::from_static("breme-session-outcome");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The client's address: an extension that the server may set. It is appended to X-Forwarded-For in a request that is
/// forwarded to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

/// Provides requests with their sessions, as an extension and [extractor](Session).
#[derive(Clone, Debug)]
pub struct SessionLayer(Arc<LayerSettings>);

#[derive(Clone, Debug)]
struct LayerSettings {
    node: Node,
    cookies: Cookies,
    access: fn(&request::Parts) -> Access,
    forward_body_max: usize,
    forward_time: Duration,
}

impl SessionLayer {
    /// Sessions of this node, named by these cookies.
    #[must_use]
    pub fn new(node: Node, cookies: Cookies) -> Self {
        Self(Arc::new(LayerSettings {
            node,
            cookies,
            access: |_| Access::Exclusive,
            forward_body_max: FORWARD_BODY_MAX,
            forward_time: FORWARD_TIME,
        }))
    }

    /// Lets requests that only read run together. One that writes nevertheless gets a 503, and has written nothing.
    #[must_use]
    pub fn with_access(mut self, access: fn(&request::Parts) -> Access) -> Self {
        Arc::make_mut(&mut self.0).access = access;
        self
    }

    /// Requests with larger bodies get a 413 if they would have to be forwarded.
    #[must_use]
    pub fn with_forward_body_max(mut self, bytes: usize) -> Self {
        Arc::make_mut(&mut self.0).forward_body_max = bytes;
        self
    }

    /// Forwarded requests without a response in this time get a 503.
    #[must_use]
    pub fn with_forward_time(mut self, time: Duration) -> Self {
        Arc::make_mut(&mut self.0).forward_time = time;
        self
    }
}

impl<S> Layer<S> for SessionLayer {
    type Service = SessionService<S>;

    fn layer(&self, inner: S) -> SessionService<S> {
        SessionService { settings: Arc::clone(&self.0), inner }
    }
}

/// A service whose requests have sessions.
#[derive(Clone, Debug)]
pub struct SessionService<S> {
    settings: Arc<LayerSettings>,
    inner: S,
}

impl<S> Service<Request<Body>> for SessionService<S>
where
    S: Service<Request<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Response: IntoResponse,
    S::Future: Send,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let clone = self.inner.clone();
        // The clone that is ready handles the request.
        let handler = Handler(std::mem::replace(&mut self.inner, clone));
        let settings = Arc::clone(&self.settings);
        Box::pin(async move { Ok(settings.serve(handler, request).await.unwrap_or_else(|refusal| *refusal)) })
    }
}

struct Handler<S>(S);

impl<S> Handler<S>
where
    S: Service<Request<Body>, Error = Infallible>,
    S::Response: IntoResponse,
{
    /// A handler that panics has changed nothing. For the node that forwarded its request, that is a response, not a
    /// broken connection.
    async fn run(mut self, mut request: Request<Body>, session: &Session) -> Result<Response, Refused> {
        request.extensions_mut().insert(session.clone());
        let response = AssertUnwindSafe(async move { self.0.call(request).await }).catch_unwind().await;
        let failed = |_| Box::new((StatusCode::INTERNAL_SERVER_ERROR, "the handler failed\n").into_response());
        response.map(|Ok(response)| response.into_response()).map_err(failed)
    }
}

/// A response that replaces the handler's.
type Refused = Box<Response>;

/// Where a request runs.
enum Placed {
    Here(Running, Request<Body>),
    Absent(Request<Body>),
    /// On another node, which has responded.
    Elsewhere(Response),
}

impl LayerSettings {
    async fn serve<S>(&self, handler: Handler<S>, request: Request<Body>) -> Result<Response, Refused>
    where
        S: Service<Request<Body>, Error = Infallible> + Send,
        S::Response: IntoResponse,
        S::Future: Send,
    {
        let Some((id, route)) = self.cookies.find(request.headers()) else {
            return self.serve_new(handler, request).await;
        };
        match self.place(SessionTarget::Existing(id.key()), request).await? {
            Placed::Here(running, request) => self.serve_here(handler, request, running, &id, route).await,
            Placed::Absent(request) => self.serve_new(handler, request).await,
            Placed::Elsewhere(response) => Ok(response),
        }
    }

    /// The request has no session. A draining node creates none: another node runs the request, if there is one.
    async fn serve_new<S>(&self, handler: Handler<S>, request: Request<Body>) -> Result<Response, Refused>
    where
        S: Service<Request<Body>, Error = Infallible> + Send,
        S::Response: IntoResponse,
        S::Future: Send,
    {
        if !self.node.is_draining() {
            return self.serve_without(handler, request).await;
        }
        match self.place(SessionTarget::New(new_id()?.key()), request).await? {
            Placed::Here(_, request) | Placed::Absent(request) => self.serve_without(handler, request).await,
            Placed::Elsewhere(response) => Ok(response),
        }
    }

    /// Waits until the request may run on its session here, or another node has responded to it.
    async fn place(&self, target: SessionTarget, request: Request<Body>) -> Result<Placed, Refused> {
        let (head, mut body) = request.into_parts();
        let hops = head.extensions.get().map_or(0, |Hops(hops)| *hops);
        let mut waiting = self.node.begin(target, (self.access)(&head), hops);
        loop {
            match waiting.turn().await {
                Turn::Run(running) => return Ok(Placed::Here(running, Request::from_parts(head, body))),
                Turn::Absent => return Ok(Placed::Absent(Request::from_parts(head, body))),
                Turn::Refused { why, retry_after } => return Err(refusal(why, retry_after)),
                Turn::Ended(outcome) => return Err(self.replacement(outcome)),
                Turn::Forward(mut forwarded) => {
                    let whole = self.whole(body).await?;
                    body = Body::from(whole.clone());
                    match self.forward(&mut forwarded, &head, whole, hops).await {
                        Ok(response) => {
                            forwarded.responded(response.extensions().get().copied());
                            return Ok(Placed::Elsewhere(response));
                        }
                        Err(result) => waiting = forwarded.failed(result),
                    }
                }
            }
        }
    }

    /// Runs the request on its session.
    async fn serve_here<S>(
        &self,
        handler: Handler<S>,
        request: Request<Body>,
        running: Running,
        id: &SessionId,
        route: NodeName,
    ) -> Result<Response, Refused>
    where
        S: Service<Request<Body>, Error = Infallible>,
        S::Response: IntoResponse,
    {
        let session = Session::new(running.body().clone());
        let ran_on = running.ran_on();
        let mut response = handler.run(request, &session).await?;
        let mut cookie = None;
        let change = match session.close() {
            Wish::Nothing => Change::Unchanged,
            Wish::Write(body) => Change::Write(body),
            Wish::Destroy => {
                cookie = Some(self.cookies.clear());
                Change::Destroy
            }
            Wish::Rotate(body) => {
                let id = new_id()?;
                cookie = Some(self.cookies.set(&id, &self.node.name()));
                Change::Rotate { to: id.key(), body }
            }
        };
        let Released { outcome, keeps_session } = running.finish(change).await;
        if outcome != Outcome::Done {
            return Err(self.replacement(outcome));
        }
        // Not after a concurrent login or logout: its response must not be undone by an id that has ended.
        if cookie.is_none() && keeps_session && route != self.node.name() {
            cookie = Some(self.cookies.set(id, &self.node.name()));
        }
        if let Some(cookie) = cookie {
            set_cookie(&mut response, cookie);
        }
        response.extensions_mut().insert(ran_on);
        Ok(response)
    }

    /// Runs the request, and creates a session if it writes.
    async fn serve_without<S>(&self, handler: Handler<S>, request: Request<Body>) -> Result<Response, Refused>
    where
        S: Service<Request<Body>, Error = Infallible>,
        S::Response: IntoResponse,
    {
        let session = Session::new(Bytes::new());
        let mut response = handler.run(request, &session).await?;
        let (Wish::Write(body) | Wish::Rotate(body)) = session.close() else { return Ok(response) };
        if !body.is_empty() {
            let id = new_id()?;
            self.store(&id, body).await?;
            set_cookie(&mut response, self.cookies.set(&id, &self.node.name()));
        }
        Ok(response)
    }

    async fn store(&self, id: &SessionId, body: Bytes) -> Result<(), Refused> {
        // The handler has run, so no other node can run it.
        let hops = self.node.settings().hops_max;
        match self.node.begin(SessionTarget::New(id.key()), Access::Exclusive, hops).turn().await {
            Turn::Run(running) => match running.finish(Change::Write(body)).await.outcome {
                Outcome::Done => Ok(()),
                outcome => Err(self.replacement(outcome)),
            },
            Turn::Refused { why, retry_after } => Err(refusal(why, retry_after)),
            Turn::Forward(_) | Turn::Absent => Err(self.replacement(Outcome::NotDone)),
            Turn::Ended(outcome) => Err(self.replacement(outcome)),
        }
    }

    async fn whole(&self, body: Body) -> Result<Bytes, Refused> {
        // A client that disconnects gets no response anyway.
        to_bytes(body, self.forward_body_max).await.map_err(|_| {
            let text = format!("a body of more than {} bytes, or cut short\n", self.forward_body_max);
            Box::new((StatusCode::PAYLOAD_TOO_LARGE, text).into_response())
        })
    }

    async fn forward(
        &self,
        forwarded: &mut Forwarded,
        head: &request::Parts,
        body: Bytes,
        hops: u8,
    ) -> Result<Response, ForwardResult> {
        // The handlers of a nested router see only part of the path.
        let uri = head.extensions.get().map_or(&head.uri, |OriginalUri(uri)| uri);
        let address = forwarded.address().to_owned();
        let mut headers = head.headers.clone();
        self.name_client(head, &mut headers);
        let method = head.method.clone();
        let response = self.node.peers().forward(&address, method, uri, headers, body, hops.saturating_add(1));
        let is_late = async {
            tokio::select! {
                () = sleep(self.forward_time) => {}
                // For example a node that was frozen and fenced.
                () = forwarded.over() => sleep(OVER_TIME).await,
            }
        };
        tokio::select! {
            response = response => response.map(|response| response.map(Body::new)),
            () = is_late => Err(ForwardResult::Broken),
        }
    }

    /// Like a proxy: the node that runs the request only sees this one.
    fn name_client(&self, head: &request::Parts, headers: &mut HeaderMap) {
        if let Some(ClientAddress(client)) = head.extensions.get() {
            let before = headers.get_all(X_FORWARDED_FOR).iter().map(HeaderValue::as_bytes);
            let mut names: Vec<u8> = before.flat_map(|names| [names, b", "]).flatten().copied().collect();
            names.extend_from_slice(client.to_string().as_bytes());
            // It consists of a valid value and an address.
            if let Ok(names) = HeaderValue::from_bytes(&names) {
                headers.insert(X_FORWARDED_FOR, names);
            }
        }
        let scheme = if self.cookies.are_secure() { "https" } else { "http" };
        headers.entry(X_FORWARDED_PROTO).or_insert(HeaderValue::from_static(scheme));
    }

    /// Replaces a response that must not be sent.
    fn replacement(&self, outcome: Outcome) -> Refused {
        match outcome {
            Outcome::TooLarge => {
                let text = "the session has grown too large\n";
                Box::new((StatusCode::PAYLOAD_TOO_LARGE, text).into_response())
            }
            Outcome::Unknown => unavailable("unknown", "unknown", self.node.settings().response_max),
            Outcome::NotDone | Outcome::Done => unavailable("not-done", "not done", self.node.settings().response_max),
        }
    }
}

fn refusal(why: Refusal, retry_after: Duration) -> Refused {
    let why = match why {
        Refusal::Busy => "too many requests wait",
        Refusal::Timeout => "the session could not be had in time",
        Refusal::Damaged => "the session's record is damaged",
    };
    unavailable("refused", why, retry_after)
}

fn unavailable(outcome: &'static str, why: &str, retry_after: Duration) -> Refused {
    let seconds = retry_after.as_secs() + u64::from(retry_after.subsec_nanos() > 0);
    let text = format!("the session is not available now: {why}\n");
    let mut response = (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
    response.headers_mut().insert(OUTCOME, HeaderValue::from_static(outcome));
    Box::new(response)
}

fn new_id() -> Result<SessionId, Refused> {
    SessionId::generate().map_err(|_| unavailable("refused", "no random numbers", Duration::from_secs(1)))
}

/// A shared cache must not store a response with the cookie of one client.
fn set_cookie(response: &mut Response, cookie: HeaderValue) {
    let headers = response.headers_mut();
    headers.append(SET_COOKIE, cookie);
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("private"));
}
