//! An upstream accepts a request and does not respond, while clients on many shards wait for the response: it gets at
//! most two requests, however late each shard learns of the failure.

use std::sync::Arc;
use std::time::Duration;

use breme_balance::{Group, GroupSettings};
use breme_base::{Instant, Timers, UnixMillis, WallClock};
use breme_cache::Cache;
use breme_node::{Accepted, Actions, Close, CloseReason, ConnectionId, Node, Received};
use breme_proxy::{Parts, Proxy};
use breme_sim::{DurationRange, Network, Simulation, seeds};
use breme_testkit::{Client, Script, Surroundings};

use crate::support::{THEN, failure, silent, text, upstream_at};

const CLIENTS: usize = 24;
const SHARDS: usize = 6;
/// By then all clients wait.
const FIRST_FAILS_AFTER: Duration = Duration::from_secs(1);

/// An upstream that closes each connection after a request, the first one after a delay, and counts requests.
#[derive(Debug, Default)]
struct Broken {
    requests: usize,
    first: Option<ConnectionId>,
    timers: Timers,
}

impl Node for Broken {
    fn handle_accepted(&mut self, _now: Instant, _id: ConnectionId, _accepted: Accepted, _actions: &mut Actions) {}

    fn handle_received(
        &mut self,
        now: Instant,
        id: ConnectionId,
        received: Received<'_>,
        actions: &mut Actions,
    ) -> usize {
        if received.bytes.ends_with(b"\r\n\r\n") {
            self.requests += 1;
            match self.requests {
                1 => {
                    self.first = Some(id);
                    self.timers.set(id.key(), now + FIRST_FAILS_AFTER);
                }
                _ => actions.close(id, Close::Graceful),
            }
        }
        received.bytes.len()
    }

    fn handle_closed(&mut self, _now: Instant, _id: ConnectionId, _reason: CloseReason, _actions: &mut Actions) {}

    fn handle_deadline(&mut self, now: Instant, actions: &mut Actions) {
        while self.timers.pop_due(now).is_some() {
            if let Some(first) = self.first {
                actions.close(first, Close::Graceful);
            }
        }
    }

    fn handle_stopping(&mut self, _now: Instant, _actions: &mut Actions) {}

    fn next_deadline(&self) -> Option<Instant> {
        self.timers.next()
    }
}

fn failed() -> String {
    failure(502, "connection_terminated", "the upstream closed the connection before it sent a response")
}

#[test]
fn followers_on_all_shards_share_one_retry() {
    seeds(60, |seed| {
        // Each shard processes events up to a fifth of a second late: longer than the upstream needs to fail again.
        let network =
            Network { lateness: DurationRange::between(Duration::ZERO, Duration::from_millis(200)), ..Network::calm() };
        let mut simulation = Simulation::new(seed, network);
        let upstream = simulation.serve("upstream", 1, |_| Broken::default());
        let list = vec![upstream_at("up0.example:80", simulation.address(upstream))];
        let group = Arc::new(Group::new(GroupSettings::default(), list).unwrap());
        let cache = Cache::new(breme_cache::CacheSettings::new(4 << 20)).unwrap();
        let parts = Parts::new(silent(), WallClock::new(|_| UnixMillis(THEN * 1_000)));
        let proxy = Proxy::new(Parts { group: Some(group), cache: Some(cache.clone()), ..parts }).unwrap();
        let node = proxy.clone();
        let server = simulation.serve("proxy", SHARDS, |shard| node.node(shard));
        let stopper = simulation.stopper(server);
        let surroundings = Surroundings {
            server: simulation.address(server).into(),
            nobody: Simulation::nobody(),
            stop_server: Arc::new(move || stopper.stop()),
        };
        let script =
            || Script::new().connect().send("GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n").expect(text(failed()));
        let scripts: Vec<Script> = (0..CLIENTS).map(|_| script().part()).collect();
        let patience = Duration::from_secs(60);
        let client = simulation.client("client", 1, |_| Client::new(&surroundings, patience, scripts.clone()));
        simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
        assert_eq!(simulation.take(client)[0].failures(), [""; 0], "{}", simulation.trace());
        assert_eq!(simulation.take(upstream)[0].requests, 2, "{}", simulation.trace());
        assert_eq!((proxy.counts().exchanges_open, cache.statistics().fills), (0, 0));
    });
}
