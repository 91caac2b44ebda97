//! Runs the suite on all drivers.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use breme_driver::{Clock, DriverKind, DriverSettings, Listener, ShardPanic, UnixSockets, start};
use breme_node::{Endpoint, Node, Shard, TlsClientId};
use breme_testkit::{NodeCounts, Played, Surroundings, World, WorldLimits, reserved_address};

struct Sockets {
    kind: DriverKind,
    transport: Transport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Tcp,
    Tls,
    Unix,
}

impl World for Sockets {
    fn name(&self) -> String {
        format!("{} on {:?}", self.kind, self.transport)
    }

    fn limits(&self) -> WorldLimits {
        WorldLimits {
            lent_bytes_max: DriverSettings::default().receive_bytes_max,
            bulk_bytes: 32 << 20,
            patience: crate::common::PATIENCE,
            has_resets: self.transport != Transport::Unix,
        }
    }

    fn run<S, C>(
        &self,
        shape: NodeCounts,
        server: impl Fn(Shard) -> S + Send + Sync + 'static,
        client: impl Fn(Shard, &Surroundings) -> C + Send + Sync + 'static,
    ) -> Played<S, C>
    where
        S: Node + Send + 'static,
        C: Node + Send + 'static,
    {
        let threads = match self.kind {
            DriverKind::Threads => shape.server_shards.max(shape.connections),
            DriverKind::Events | DriverKind::Uring => shape.server_shards,
        };
        let settings = crate::common::settings(threads);
        let clock = Clock::start();
        let folder = tempfile::tempdir().unwrap();
        let unix_sockets = UnixSockets::default();
        let (mut listener, address) = if self.transport == Transport::Unix {
            let path = folder.path().join("socket");
            (Listener::bind(&*path, &settings).unwrap(), unix_sockets.address_of(&path).unwrap())
        } else {
            let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &settings).unwrap();
            let address = listener.address().tcp().unwrap();
            (listener, address)
        };
        let tls = (self.transport == Transport::Tls).then(|| crate::common::SelfSigned::new(&["127.0.0.1"]));
        if let Some(tls) = &tls {
            listener = listener.with_tls(tls.server());
        }
        let servers = start(self.kind, vec![listener], &settings, clock, server).unwrap();
        let stopper = servers.stopper();
        let surroundings = {
            let stopper = stopper.clone();
            let server = match &tls {
                None => Endpoint::tcp(address),
                Some(_) => Endpoint::tls(address, TlsClientId(0)),
            };
            Surroundings { server, nobody: reserved_address(), stop_server: Arc::new(move || stopper.drain()) }
        };
        let tls_clients = tls.map(|tls| tls.client("127.0.0.1")).into_iter().collect::<Vec<_>>().into();
        let settings = DriverSettings { tls_clients, unix_sockets, ..crate::common::settings(shape.client_shards) };
        let clients = start(self.kind, Vec::new(), &settings, clock, |shard| client(shard, &surroundings)).unwrap();
        let clients = unharmed(clients.join());
        stopper.drain();
        Played { servers: unharmed(servers.join()), clients }
    }
}

fn unharmed<N>(nodes: Vec<Result<N, ShardPanic>>) -> Vec<N> {
    nodes.into_iter().map(|node| node.unwrap_or_else(|panic| panic!("{panic}"))).collect()
}

/// None, with a message, where io_uring is unavailable.
fn sockets(kind: DriverKind, transport: Transport) -> Option<Sockets> {
    if kind == DriverKind::Uring
        && let Err(error) = breme_driver::probe_uring()
    {
        eprintln!("not tested: {error}");
        return None;
    }
    Some(Sockets { kind, transport })
}

/// The suite as a module for each driver and transport.
macro_rules! suites {
    ($($name:ident: $kind:ident, $transport:ident;)*) => {$(
        mod $name {
            use super::{DriverKind, Transport, sockets};

            breme_testkit::suite_tests!({
                let Some(world) = sockets(DriverKind::$kind, Transport::$transport) else { return };
                world
            });
        }
    )*};
}

suites! {
    threads: Threads, Tcp;
    threads_with_tls: Threads, Tls;
    threads_on_unix: Threads, Unix;
    events: Events, Tcp;
    events_with_tls: Events, Tls;
    events_on_unix: Events, Unix;
    uring: Uring, Tcp;
    uring_with_tls: Uring, Tls;
    uring_on_unix: Uring, Unix;
}
