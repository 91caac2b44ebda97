//! Runs the suite on all drivers.

#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod common;

use std::net::Ipv4Addr;
use std::sync::Arc;

use breme_driver::{Clock, DriverKind, DriverSettings, Listener, ShardPanic, start};
use breme_node::{Endpoint, Node, Shard, TlsClientId};
use breme_testkit::{NodeCounts, Played, Surroundings, World, WorldLimits};

struct Sockets {
    kind: DriverKind,
    is_secured: bool,
}

impl World for Sockets {
    fn name(&self) -> String {
        format!("{}{}", self.kind, if self.is_secured { " with TLS" } else { "" })
    }

    fn limits(&self) -> WorldLimits {
        WorldLimits {
            lent_bytes_max: DriverSettings::default().receive_bytes_max,
            bulk_bytes: 32 << 20,
            patience: common::PATIENCE,
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
        let settings = common::settings(threads);
        let clock = Clock::start();
        let mut listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), &settings).unwrap();
        let address = listener.address();
        let tls = self.is_secured.then(|| common::Laboratory::new(&["127.0.0.1"]));
        if let Some(tls) = &tls {
            listener = listener.secured_by(tls.server());
        }
        let servers = start(self.kind, vec![listener], &settings, clock, server).unwrap();
        let stopper = servers.stopper();
        let surroundings = {
            let stopper = stopper.clone();
            let server = match &tls {
                None => Endpoint::tcp(address),
                Some(_) => Endpoint::tls(address, TlsClientId(0)),
            };
            Surroundings { server, nobody: common::nobody(), stop_server: Arc::new(move || stopper.drain()) }
        };
        let tls_clients = tls.map(|tls| tls.client("127.0.0.1")).into_iter().collect::<Vec<_>>().into();
        let settings = DriverSettings { tls_clients, ..common::settings(shape.client_shards) };
        let clients = start(self.kind, Vec::new(), &settings, clock, |shard| client(shard, &surroundings)).unwrap();
        let clients = unharmed(clients.join());
        stopper.drain();
        Played { servers: unharmed(servers.join()), clients }
    }
}

fn unharmed<N>(nodes: Vec<Result<N, ShardPanic>>) -> Vec<N> {
    nodes.into_iter().map(|node| node.unwrap_or_else(|panic| panic!("{panic}"))).collect()
}

mod threads {
    breme_testkit::suite_tests!(super::Sockets { kind: breme_driver::DriverKind::Threads, is_secured: false });
}

mod events {
    breme_testkit::suite_tests!(super::Sockets { kind: breme_driver::DriverKind::Events, is_secured: false });
}

mod threads_with_tls {
    breme_testkit::suite_tests!(super::Sockets { kind: breme_driver::DriverKind::Threads, is_secured: true });
}

mod events_with_tls {
    breme_testkit::suite_tests!(super::Sockets { kind: breme_driver::DriverKind::Events, is_secured: true });
}

/// None, with a message, where io_uring is unavailable.
fn uring(is_secured: bool) -> Option<Sockets> {
    match breme_driver::probe_uring() {
        Ok(()) => Some(Sockets { kind: DriverKind::Uring, is_secured }),
        Err(error) => {
            eprintln!("not tested: {error}");
            None
        }
    }
}

mod uring {
    breme_testkit::suite_tests!({
        let Some(world) = super::uring(false) else { return };
        world
    });
}

mod uring_with_tls {
    breme_testkit::suite_tests!({
        let Some(world) = super::uring(true) else { return };
        world
    });
}
