//! The suite that every driver passes, on all of them.

#![allow(clippy::unwrap_used, reason = "a failure here is a failure of the test")]

mod common;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use breme_driver::{Clock, Kind, Listener, Settings, ShardPanic, start};
use breme_node::{Node, Shard};
use breme_testkit::{Limits, Played, Shape, Surroundings, World};

struct Sockets(Kind);

impl World for Sockets {
    fn name(&self) -> String {
        self.0.to_string()
    }

    fn limits(&self) -> Limits {
        Limits {
            lent_bytes_max: Settings::default().receive_bytes_max,
            bulk_bytes: 32 << 20,
            patience: common::PATIENCE,
        }
    }

    fn run<S, C>(
        &self,
        shape: Shape,
        server: impl Fn(Shard) -> S + Send + Sync + 'static,
        client: impl Fn(Shard, &Surroundings) -> C + Send + Sync + 'static,
    ) -> Played<S, C>
    where
        S: Node + Send + 'static,
        C: Node + Send + 'static,
    {
        let threads = match self.0 {
            Kind::Threads => shape.server_shards.max(shape.connections),
            Kind::Events | Kind::Uring => shape.server_shards,
        };
        let settings = common::settings(threads);
        let clock = Clock::start();
        let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), &settings).unwrap();
        let address = listener.address();
        let servers = start(self.0, vec![listener], &settings, clock, server).unwrap();
        let stopper = servers.stopper();
        let surroundings = {
            let stopper = stopper.clone();
            Surroundings { server: address, nobody: nobody(), stop_server: Arc::new(move || stopper.drain()) }
        };
        let settings = common::settings(shape.client_shards);
        let clients = start(self.0, Vec::new(), &settings, clock, |shard| client(shard, &surroundings)).unwrap();
        let clients = unharmed(clients.join());
        stopper.drain();
        Played { servers: unharmed(servers.join()), clients }
    }
}

fn unharmed<N>(nodes: Vec<Result<N, ShardPanic>>) -> Vec<N> {
    nodes.into_iter().map(|node| node.unwrap_or_else(|panic| panic!("{panic}"))).collect()
}

/// An address that was free a moment ago.
fn nobody() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

mod threads {
    breme_testkit::suite_tests!(super::Sockets(breme_driver::Kind::Threads));
}

mod events {
    breme_testkit::suite_tests!(super::Sockets(breme_driver::Kind::Events));
}

mod uring {
    breme_testkit::suite_tests!({
        if let Err(lack) = breme_driver::probe_uring() {
            eprintln!("not tested: {lack}");
            return;
        }
        super::Sockets(breme_driver::Kind::Uring)
    });
}
