//! A client with its cookie and its observations.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex};

use breme_base::Instant;
use breme_cluster::layer::OUTCOME;
use breme_session::history::{Action, Operation, OperationOutcome};
use bytes::Bytes;
use http::header::{COOKIE, LOCATION, RETRY_AFTER, SET_COOKIE};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

#[derive(Clone)]
pub struct Client {
    http: Http<HttpConnector, Full<Bytes>>,
    /// `session=…`; copies share it.
    cookie: Arc<Mutex<Option<String>>>,
}

pub struct Response {
    pub status: StatusCode,
    pub body: Bytes,
    /// Of a 503.
    pub outcome: Option<String>,
    pub location: Option<String>,
    /// The complete Set-Cookie.
    pub set_cookie: Option<String>,
    /// It has a header that is for nodes only.
    pub names_node: bool,
}

impl Response {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Client {
    pub fn new() -> Self {
        Self { http: Http::builder(TokioExecutor::new()).build_http(), cookie: Arc::default() }
    }

    pub fn cookie(&self) -> Option<String> {
        self.cookie.lock().unwrap().clone()
    }

    /// The same client with a cookie jar of its own.
    pub fn fork(&self) -> Self {
        Self { http: self.http.clone(), cookie: Arc::new(Mutex::new(self.cookie())) }
    }

    pub fn set_cookie(&self, cookie: Option<String>) {
        *self.cookie.lock().unwrap() = cookie;
    }

    /// A POST, but a GET if there is no body.
    pub async fn send(&self, to: SocketAddr, path: &str) -> Result<Response, String> {
        self.send_body(to, path, Bytes::new()).await
    }

    pub async fn send_body(&self, to: SocketAddr, path: &str, body: Bytes) -> Result<Response, String> {
        self.send_whole(to, path, &[], body).await
    }

    pub async fn send_headers(&self, to: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Result<Response, String> {
        self.send_whole(to, path, headers, Bytes::new()).await
    }

    async fn send_whole(
        &self,
        to: SocketAddr,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Response, String> {
        let method = if path == "read" { "GET" } else { "POST" };
        let mut request = Request::builder().method(method).uri(format!("http://{to}/app/{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(cookie) = self.cookie() {
            request = request.header(COOKIE, format!("other=1; {cookie}"));
        }
        let request = request.body(Full::new(body)).unwrap();
        let response = self.http.request(request).await.map_err(|error| format!("{error:?}"))?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
        assert_eq!(head.status == StatusCode::SERVICE_UNAVAILABLE, head.headers.contains_key(RETRY_AFTER));
        let text = |name| head.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        let set_cookie = text(SET_COOKIE);
        if let Some(set) = &set_cookie {
            let cookie = set.split(';').next().unwrap().to_owned();
            self.set_cookie((cookie != "session=").then_some(cookie));
        }
        let names_node = head.headers.keys().any(|name| name.as_str().starts_with("breme-node"));
        let (outcome, location) = (text(OUTCOME), text(LOCATION));
        Ok(Response { status: head.status, body, outcome, location, set_cookie, names_node })
    }
}

/// A clock common to all clients of a test.
fn now() -> Instant {
    static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    Instant::from_nanos(START.elapsed().as_nanos() as u64)
}

pub fn tokens(body: &[u8]) -> Vec<u64> {
    std::str::from_utf8(body).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

/// The observations of clients.
#[derive(Clone, Default)]
pub struct History(Arc<Mutex<Vec<Operation>>>);

impl History {
    pub fn take(&self) -> Vec<Operation> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// No client has received this session's id.
    pub fn forget(&self, session: u64) {
        self.0.lock().unwrap().retain(|operation| operation.session != session);
    }

    /// Sends and records a request of the session that the test labels `session`, under the id that it labels `id`.
    pub async fn send(
        &self,
        client: &Client,
        to: SocketAddr,
        (session, id): (u64, u64),
        action: Action,
    ) -> OperationOutcome {
        let path = match action {
            Action::Append(token) if client.cookie().is_none() => format!("begin/{token}"),
            Action::Append(token) => format!("append/{token}"),
            Action::Read => "read".to_owned(),
            Action::LogOut => "logout".to_owned(),
            Action::Rotate { .. } => "renew".to_owned(),
        };
        let invoked = now();
        let response = client.send(to, &path).await;
        let outcome = outcome(&response);
        let operation = Operation { session, id, action, invoked, returned: now(), outcome: outcome.clone() };
        self.0.lock().unwrap().push(operation);
        outcome
    }
}

fn outcome(response: &Result<Response, String>) -> OperationOutcome {
    let Ok(response) = response else { return OperationOutcome::Unknown };
    match (response.status, response.outcome.as_deref()) {
        (StatusCode::OK, _) => OperationOutcome::Done(tokens(&response.body)),
        (StatusCode::GONE, _) => OperationOutcome::Absent,
        (StatusCode::SERVICE_UNAVAILABLE, Some("refused" | "not-done")) => OperationOutcome::Failed,
        (StatusCode::SERVICE_UNAVAILABLE, Some("unknown")) => OperationOutcome::Unknown,
        (status, outcome) => panic!("{status} {outcome:?}"),
    }
}
