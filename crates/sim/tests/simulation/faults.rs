//! Faults occur, and each connection still ends once at each end.

use std::time::Duration;

use breme_base::Instant;
use breme_node::CloseReason;
use breme_sim::{Faults, Network, Simulation, Stuck, Summary, seeds};
use breme_testkit::{Client, ContractChecker, Echo, Script, TestContent};

use crate::world::surroundings;

const PATIENCE: Duration = Duration::from_secs(100);

struct Run {
    outcome: Result<Summary, Stuck>,
    server: ContractChecker<Echo>,
    clients: Vec<ContractChecker<Client>>,
}

fn run(seed: u64, network: &Network, patience: Duration) -> Run {
    let most = network.lent_bytes_max;
    let mut simulation = Simulation::new(seed, network.clone());
    let server = simulation.serve("server", 1, |_| ContractChecker::new(Echo::new(), most));
    let surroundings = surroundings(&simulation, server);
    let client = simulation.client("client", 4, |_| {
        let content = TestContent::pattern(3, 4_000);
        let script = Script::new().connect().echo(&content).part();
        ContractChecker::new(Client::new(&surroundings, patience, vec![script]), most)
    });
    let outcome = simulation.run();
    let server = simulation.take(server).remove(0);
    Run { outcome, server, clients: simulation.take(client) }
}

#[test]
fn all_faults_occur_within_contract() {
    let mut total = Summary::default();
    let mut failed = 0;
    seeds(300, |seed| {
        let run = run(seed, &Network::nasty(), PATIENCE);
        let summary = run.outcome.unwrap_or_else(|stuck| panic!("{stuck}"));
        assert_eq!(run.server.final_violations(), [""; 0]);
        for client in &run.clients {
            assert_eq!(client.final_violations(), [""; 0]);
        }
        failed += run.clients.iter().filter(|client| !client.node().failures().is_empty()).count();
        total.failed_connect_count += summary.failed_connect_count;
        total.reset_count += summary.reset_count;
        total.silenced_count += summary.silenced_count;
        let harmed = summary.failed_connect_count + summary.reset_count + summary.silenced_count;
        let failures: Vec<_> = run.clients.iter().flat_map(|client| client.node().failures()).collect();
        assert!(failures.len() as u64 <= harmed, "more failures than faults: {failures:?}");
    });
    let are_all_played = [breme_sim::ONE_SEED, breme_sim::SEED_COUNT].iter().all(|name| std::env::var(name).is_err());
    if are_all_played {
        assert!(total.failed_connect_count > 10 && total.reset_count > 10 && total.silenced_count > 10, "{total:?}");
        assert!(failed > 10, "{failed} clients noticed");
    }
}

#[test]
fn silence_ends_with_failure() {
    let begin = breme_sim::DurationRange::always(Duration::from_micros(60));
    let network = Network { faults: Faults { silence: 1.0, begin, ..Faults::NONE }, ..Network::calm() };
    let run = run(1, &network, Duration::from_secs(100_000));
    run.outcome.unwrap_or_else(|stuck| panic!("{stuck}"));
    for client in &run.clients {
        assert_eq!(client.record().closed, [CloseReason::Failed(std::io::ErrorKind::TimedOut)]);
    }
    assert_eq!(run.server.record().accepted_count, 4);
    assert_eq!(run.server.final_violations(), [""; 0]);
}

#[test]
fn detects_endless_loop() {
    struct Restless;
    impl breme_node::Node for Restless {
        fn next_deadline(&self) -> Option<Instant> {
            Some(Instant::ZERO)
        }
        fn handle_accepted(
            &mut self,
            _: Instant,
            _: breme_node::ConnectionId,
            _: breme_node::Accepted,
            _: &mut breme_node::Actions,
        ) {
        }
        fn handle_received(
            &mut self,
            _: Instant,
            _: breme_node::ConnectionId,
            _: breme_node::Received<'_>,
            _: &mut breme_node::Actions,
        ) -> usize {
            0
        }
        fn handle_closed(
            &mut self,
            _: Instant,
            _: breme_node::ConnectionId,
            _: CloseReason,
            _: &mut breme_node::Actions,
        ) {
        }
        fn handle_stopping(&mut self, _: Instant, _: &mut breme_node::Actions) {}
    }
    let mut simulation = Simulation::new(5, Network::calm());
    simulation.limit_steps(1_000);
    simulation.client("restless", 1, |_| Restless);
    let stuck = simulation.run().unwrap_err();
    assert!(stuck.reason.contains("1000 events"), "{stuck}");
    assert!(stuck.to_string().contains("seed 5"), "{stuck}");
}

#[test]
fn stopped_server_drops_connections() {
    let mut simulation = Simulation::new(1, Network::calm());
    let server = simulation.serve("server", 1, |_| ContractChecker::new(Echo::with_farewell("bye"), 64 << 10));
    let surroundings = surroundings(&simulation, server);
    simulation.stop_at(server, Instant::ZERO + Duration::from_secs(1));
    let script =
        Script::new().connect().expect("bye").expect_closed(breme_testkit::Ending::Exactly(CloseReason::Reset));
    let client = simulation.client("client", 1, |_| Client::new(&surroundings, PATIENCE, vec![script.clone()]));
    let summary = simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
    assert_eq!(simulation.take(client)[0].failures(), [""; 0]);
    assert_eq!(simulation.take(server)[0].record().closed, [CloseReason::Dropped]);
    assert_eq!(summary.ended_at.as_secs(), 31, "the server's own 30 seconds");
}
