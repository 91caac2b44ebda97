//! Wrong nodes, which a simulation must detect.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use breme_base::Instant;
use breme_node::{
    Accepted, Actions, Close, CloseReason, ConnectTicket, ConnectionId, Node, Received, ShardId, TlsClientId,
};
use breme_sim::{Network, Simulation};
use breme_testkit::{Client, Script, Surroundings, TestContent, suite};

use crate::world::{SimulatedWorld, surroundings};

#[derive(Clone, Copy)]
enum Fault {
    /// Drops every byte that is lent alone: unnoticed on a calm network.
    DropsLoneBytes,
    TakesMoreThanLent,
    /// Waits for data that does not arrive.
    WaitsForMore,
    SendsAfterFinish,
    WakesNobody,
    /// Starts TLS with retained bytes.
    SecuresTooEarly,
}

struct Wrong(Fault);

impl Node for Wrong {
    fn handle_accepted(&mut self, _: Instant, _: ConnectionId, _: Accepted, _: &mut Actions) {}

    fn handle_received(&mut self, _: Instant, id: ConnectionId, input: Received<'_>, actions: &mut Actions) -> usize {
        let lent = input.bytes.len();
        if input.ended {
            actions.close(id, Close::Graceful);
        }
        match self.0 {
            Fault::DropsLoneBytes if lent == 1 => return 1,
            Fault::TakesMoreThanLent => return lent + 2,
            Fault::WaitsForMore => return 0,
            Fault::SendsAfterFinish => actions.finish(id),
            Fault::WakesNobody => actions.wake(ShardId(7), 0),
            Fault::SecuresTooEarly => {
                actions.start_tls(id, ConnectTicket(1), TlsClientId(0));
                return lent - 1;
            }
            Fault::DropsLoneBytes => {}
        }
        actions.send(id).extend_from_slice(input.bytes);
        lent
    }

    fn handle_closed(&mut self, _: Instant, _: ConnectionId, _: CloseReason, _: &mut Actions) {}

    fn handle_stopping(&mut self, _: Instant, _: &mut Actions) {}
}

/// The client's failures, or the panic.
fn failures(seed: u64, network: Network, fault: Fault) -> Result<Vec<String>, String> {
    let played = catch_unwind(AssertUnwindSafe(|| {
        let mut simulation = Simulation::new(seed, network);
        let server = simulation.serve("server", 1, |_| Wrong(fault));
        let surroundings = surroundings(&simulation, server);
        let content = TestContent::pattern(1, 600);
        let script = Script::new().connect().exchange(content.clone(), content);
        let client = simulation
            .client("client", 1, |_| Client::new(&surroundings, Duration::from_secs(9), vec![script.clone()]));
        simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
        simulation.take(client)[0].failures().to_vec()
    }));
    played.map_err(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())
}

#[test]
fn cuts_reveal_dropped_single_bytes() {
    assert_eq!(failures(0, Network::calm(), Fault::DropsLoneBytes), Ok(Vec::new()));
    let found = failures(0, Network::bytewise(), Fault::DropsLoneBytes).unwrap();
    assert!(found[0].contains("expected [") || found[0].contains("no progress"), "{found:?}");
    let rough = (0..50).filter(|&seed| failures(seed, Network::rough(), Fault::DropsLoneBytes) != Ok(Vec::new()));
    assert!(rough.count() > 0, "random cuts find it too");
}

#[test]
fn detects_overconsumption() {
    let panic = failures(0, Network::calm(), Fault::TakesMoreThanLent).unwrap_err();
    assert_eq!(panic, "server/0 took 602 of the 600 bytes that were lent on #0.0");
}

#[test]
fn detects_endless_wait() {
    let found = failures(0, Network::calm(), Fault::WaitsForMore).unwrap();
    assert!(found[0].contains("600 sent, 0 received") && found[0].contains("no progress within 9s"), "{found:?}");
}

#[test]
fn detects_send_after_finish() {
    let panic = failures(0, Network::calm(), Fault::SendsAfterFinish).unwrap_err();
    assert_eq!(panic, "server/0 sends 600 bytes on #0.0 after it has finished its sending");
}

#[test]
fn detects_wake_of_missing_shard() {
    let panic = failures(0, Network::calm(), Fault::WakesNobody).unwrap_err();
    assert_eq!(panic, "server/0 wakes shard 7, of 1");
}

/// A client without a deadline that waits forever.
struct Patient(Surroundings);

impl Node for Patient {
    fn handle_started(&mut self, _: Instant, actions: &mut Actions) {
        actions.connect(ConnectTicket(0), self.0.server);
    }
    fn handle_accepted(&mut self, _: Instant, _: ConnectionId, _: Accepted, _: &mut Actions) {}
    fn handle_received(&mut self, _: Instant, _: ConnectionId, _: Received<'_>, _: &mut Actions) -> usize {
        0
    }
    fn handle_closed(&mut self, _: Instant, _: ConnectionId, _: CloseReason, _: &mut Actions) {}
    fn handle_stopping(&mut self, _: Instant, _: &mut Actions) {}
}

#[test]
fn stuck_run_lists_open_connections() {
    let mut simulation = Simulation::new(3, Network::calm());
    let server = simulation.serve("server", 1, |_| Wrong(Fault::WaitsForMore));
    let surroundings = surroundings(&simulation, server);
    simulation.client("client", 1, |_| Patient(surroundings.clone()));
    let report = simulation.run().unwrap_err().to_string();
    assert!(report.contains("seed 3") && report.contains("no event is due"), "{report}");
    assert!(report.contains("client/0 #0.0: Open") && report.contains("server/0 #0.0: Open"), "{report}");
}

#[test]
fn failure_names_seed() {
    // Without space between the nodes, the suite's bulk data cannot be in transit.
    let outcome = catch_unwind(|| {
        suite::run("client_without_reading", &SimulatedWorld::new(42, Network::calm(), 16));
    });
    let panic = outcome.unwrap_err().downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(panic.contains("case `client_without_reading` on sim with seed 42"), "{panic}");
}

#[test]
fn detects_tls_start_with_retained_bytes() {
    let panic = failures(0, Network::calm(), Fault::SecuresTooEarly).unwrap_err();
    assert_eq!(panic, "server/0 begins TLS on #0.0 with 1 unconsumed bytes");
}
