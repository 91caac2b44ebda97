//! A node made from a closure, and helpers of driver tests.

#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use breme_base::Instant;
use breme_driver::{
    ClientOptions, ClientTls, Clock, DriverHandle, DriverKind, DriverSettings, Identity, Listener, ServerTls, Trust,
    start,
};
use breme_node::{
    Accepted, Actions, Close, CloseReason, ConnectResult, ConnectTicket, ConnectionId, Node, Received, Shard,
};

/// The drivers available here. Unavailable ones are reported, so that skipped tests are visible.
static KINDS: LazyLock<Vec<DriverKind>> = LazyLock::new(|| match breme_driver::probe_uring() {
    Ok(()) => vec![DriverKind::Threads, DriverKind::Events, DriverKind::Uring],
    Err(error) => {
        eprintln!("the driver uring is not tested: {error}");
        vec![DriverKind::Threads, DriverKind::Events]
    }
});

pub fn kinds() -> impl Iterator<Item = DriverKind> {
    KINDS.iter().copied()
}

/// Timeout of a test; long, since machines may be busy.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// All events of a node.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    Started,
    Accepted(ConnectionId),
    Connected(ConnectTicket, ConnectResult),
    Received(ConnectionId, Received<'a>),
    Sent(ConnectionId, u64),
    Closed(ConnectionId, CloseReason),
    Deadline,
    Woken(u64),
    Pressure(bool),
    Stopping,
}

pub struct Context<'a> {
    pub shard: Shard,
    pub now: Instant,
    pub actions: &'a mut Actions,
    pub deadline: &'a mut Option<Instant>,
}

/// A node whose behaviour is a closure; its result is used for [`Event::Received`] only.
pub struct Scripted<F> {
    shard: Shard,
    deadline: Option<Instant>,
    script: F,
}

impl<F: FnMut(&mut Context<'_>, Event<'_>) -> usize> Scripted<F> {
    pub fn new(shard: Shard, script: F) -> Self {
        Self { shard, deadline: None, script }
    }

    fn call(&mut self, now: Instant, actions: &mut Actions, event: Event<'_>) -> usize {
        let mut context = Context { shard: self.shard, now, actions, deadline: &mut self.deadline };
        (self.script)(&mut context, event)
    }
}

impl<F: FnMut(&mut Context<'_>, Event<'_>) -> usize> Node for Scripted<F> {
    fn handle_started(&mut self, now: Instant, actions: &mut Actions) {
        self.call(now, actions, Event::Started);
    }

    fn handle_accepted(&mut self, now: Instant, id: ConnectionId, _: Accepted, actions: &mut Actions) {
        self.call(now, actions, Event::Accepted(id));
    }

    fn handle_connected(&mut self, now: Instant, ticket: ConnectTicket, result: ConnectResult, actions: &mut Actions) {
        self.call(now, actions, Event::Connected(ticket, result));
    }

    fn handle_received(&mut self, now: Instant, id: ConnectionId, input: Received<'_>, actions: &mut Actions) -> usize {
        self.call(now, actions, Event::Received(id, input))
    }

    fn handle_sent(&mut self, now: Instant, id: ConnectionId, unsent_bytes: u64, actions: &mut Actions) {
        self.call(now, actions, Event::Sent(id, unsent_bytes));
    }

    fn handle_closed(&mut self, now: Instant, id: ConnectionId, reason: CloseReason, actions: &mut Actions) {
        self.call(now, actions, Event::Closed(id, reason));
    }

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        self.deadline = None;
        self.call(now, actions, Event::Deadline);
    }

    fn handle_woken(&mut self, now: Instant, message: u64, actions: &mut Actions) {
        self.call(now, actions, Event::Woken(message));
    }

    fn handle_pressure(&mut self, now: Instant, is_under_pressure: bool, actions: &mut Actions) {
        self.call(now, actions, Event::Pressure(is_under_pressure));
    }

    fn handle_stopping(&mut self, now: Instant, actions: &mut Actions) {
        self.call(now, actions, Event::Stopping);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

/// Echoes until the peer's end.
pub fn echo(context: &mut Context<'_>, event: Event<'_>) -> usize {
    let Event::Received(id, received) = event else { return 0 };
    context.actions.send(id).extend_from_slice(received.bytes);
    if received.ended {
        context.actions.close(id, Close::Graceful);
    }
    received.bytes.len()
}

/// `node`, which also reports why its connections are closed.
pub fn report_closes(
    say: Sender<CloseReason>,
    mut node: impl FnMut(&mut Context<'_>, Event<'_>) -> usize,
) -> impl FnMut(&mut Context<'_>, Event<'_>) -> usize {
    move |context, event| {
        if let Event::Closed(_, reason) = event {
            say.send(reason).unwrap();
        }
        node(context, event)
    }
}

/// A channel from a node to its test.
pub fn event_channel<T>() -> (Sender<T>, EventReceiver<T>) {
    let (sender, receiver) = channel();
    (sender, EventReceiver(receiver))
}

pub struct EventReceiver<T>(Receiver<T>);

impl<T> EventReceiver<T> {
    pub fn next(&self) -> T {
        self.0.recv_timeout(PATIENCE).expect("the node says nothing more")
    }

    /// All events until the nodes ended.
    pub fn rest(&self) -> Vec<T> {
        self.0.iter().collect()
    }
}

pub fn settings(threads: usize) -> DriverSettings {
    DriverSettings { threads, ..DriverSettings::default() }
}

/// A server at a free port, with nodes from `factory`.
pub fn serve<F>(
    kind: DriverKind,
    settings: &DriverSettings,
    factory: impl FnMut() -> F,
) -> (DriverHandle<Scripted<F>>, SocketAddr)
where
    F: FnMut(&mut Context<'_>, Event<'_>) -> usize + Send + 'static,
{
    serve_at(kind, listener(settings), settings, factory)
}

/// Likewise with TLS.
pub fn serve_secured<F>(
    kind: DriverKind,
    tls: &ServerTls,
    settings: &DriverSettings,
    factory: impl FnMut() -> F,
) -> (DriverHandle<Scripted<F>>, SocketAddr)
where
    F: FnMut(&mut Context<'_>, Event<'_>) -> usize + Send + 'static,
{
    serve_at(kind, listener(settings).with_tls(tls.clone()), settings, factory)
}

fn listener(settings: &DriverSettings) -> Listener {
    Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), settings).unwrap()
}

fn serve_at<F>(
    kind: DriverKind,
    listener: Listener,
    settings: &DriverSettings,
    mut factory: impl FnMut() -> F,
) -> (DriverHandle<Scripted<F>>, SocketAddr)
where
    F: FnMut(&mut Context<'_>, Event<'_>) -> usize + Send + 'static,
{
    let address = listener.address().tcp().unwrap();
    let running =
        start(kind, vec![listener], settings, Clock::start(), |shard| Scripted::new(shard, factory())).unwrap();
    (running, address)
}

/// Nodes without a listener.
pub fn run<F>(kind: DriverKind, settings: &DriverSettings, mut factory: impl FnMut() -> F) -> DriverHandle<Scripted<F>>
where
    F: FnMut(&mut Context<'_>, Event<'_>) -> usize + Send + 'static,
{
    start(kind, Vec::new(), settings, Clock::start(), |shard| Scripted::new(shard, factory())).unwrap()
}

/// Stops a server without open connections.
pub fn drain<N>(running: DriverHandle<N>) {
    running.stopper().drain();
    for outcome in running.join() {
        if let Err(panic) = outcome {
            panic!("{panic}");
        }
    }
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Reads to the peer's end.
pub fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    all
}

/// Bytes with a long period, so that lost or repeated pieces are detected.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32).flat_map(|index| index.wrapping_mul(2_654_435_761).to_le_bytes()).take(length).collect()
}

/// A self-signed certificate for some names, with its servers and clients.
pub struct SelfSigned {
    pub certificate: String,
    pub key: String,
}

impl SelfSigned {
    pub fn new(names: &[&str]) -> Self {
        Self::with_parameters(names, |_| {})
    }

    /// With changed parameters.
    pub fn with_parameters(names: &[&str], change: impl FnOnce(&mut rcgen::CertificateParams)) -> Self {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(names).unwrap();
        change(&mut params);
        Self { certificate: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
    }

    pub fn identity(&self) -> Identity {
        Identity::from_pem(self.certificate.as_bytes(), self.key.as_bytes()).unwrap()
    }

    pub fn server(&self) -> ServerTls {
        ServerTls::new(&self.identity(), &[]).unwrap()
    }

    pub fn trust(&self) -> Trust {
        Trust::from_pem(self.certificate.as_bytes()).unwrap()
    }

    /// A client that trusts only this certificate.
    pub fn client(&self, host: &str) -> Arc<ClientTls> {
        Arc::new(ClientTls::new(host, &options(self.trust())).unwrap())
    }
}

pub fn options(trust: Trust) -> ClientOptions<'static> {
    ClientOptions { trust, identity: None, protocols: &[], resumption: true, version: None }
}
