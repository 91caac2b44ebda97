//! Nodes with their servers. Each has its own runtime, whose end is as sudden as `kill -9`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use breme_cluster::engine::Engine;
use breme_cluster::layer::{ClientAddress, Cookies, SessionLayer};
use breme_cluster::node::Node;
use breme_cluster::peers::{self, Peers};
use breme_session::{CookieKeys, NodeName, Route, Settings};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, mpsc};

use crate::application::{self, Application};

/// Requests wait long enough for a new owner on a busy machine.
pub fn settings(route: Route) -> Settings {
    Settings { route, wait_max: Duration::from_secs(60), ..Settings::new("") }
}

pub fn name(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

pub fn keys() -> CookieKeys {
    CookieKeys::new([&b"the secret of these tests"[..]]).unwrap()
}

pub fn on_this_machine() -> Peers {
    Peers::on_this_machine(b"the nodes' secret").unwrap()
}

pub struct Host {
    pub node: Node,
    /// For clients.
    pub address: SocketAddr,
    /// For other nodes.
    pub internal: SocketAddr,
    pub hanging: mpsc::UnboundedReceiver<()>,
    /// For handlers that wait for the test.
    pub permits: Arc<Semaphore>,
    runtime: Option<Runtime>,
}

impl Host {
    pub fn start(node_name: &str, engine: &Arc<dyn Engine>, mut settings: Settings, peers: Peers) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (hanging, is_hanging) = mpsc::unbounded_channel();
        let entered = runtime.enter();
        let [clients, nodes] = [listen(), listen()];
        let address = clients.local_addr().unwrap();
        let internal = nodes.local_addr().unwrap();
        settings.address = internal.to_string();
        let node = Node::start(settings, name(node_name), Arc::clone(engine), peers).unwrap();
        // No test waits for it to pass.
        let hour = Duration::from_secs(3_600);
        let layer = SessionLayer::new(node.clone(), Cookies::new(keys(), false)).with_forward_time(hour);
        let permits = Arc::new(Semaphore::new(0));
        let router = application::router(Application { hanging, permits: Arc::clone(&permits) }, layer);
        tokio::spawn(peers::serve(nodes, node.clone(), router.clone()));
        tokio::spawn(serve(clients, router));
        drop(entered);
        Self { node, address, internal, hanging: is_hanging, permits, runtime: Some(runtime) }
    }

    pub fn kill(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn listen() -> TcpListener {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    TcpListener::from_std(listener).unwrap()
}

async fn serve(listener: TcpListener, router: Router) {
    loop {
        let (stream, client) = listener.accept().await.unwrap();
        let service = TowerToHyperService::new(router.clone().layer(Extension(ClientAddress(client.ip()))));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}
