//! The simulation as a world of the suite.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use breme_node::{Node, Shard};
use breme_sim::{Host, Network, Simulation};
use breme_testkit::{NodeCounts, Played, Surroundings, World, WorldLimits};

pub(crate) struct SimulatedWorld {
    pub(crate) seed: u64,
    pub(crate) network: Network,
    pub(crate) bulk_bytes: u64,
    /// Kept, so that a later failed assertion prints the trace.
    pub(crate) last: RefCell<Option<Simulation>>,
}

impl SimulatedWorld {
    pub(crate) fn new(seed: u64, network: Network, bulk_bytes: u64) -> Self {
        Self { seed, network, bulk_bytes, last: RefCell::new(None) }
    }
}

pub(crate) fn surroundings<N>(simulation: &Simulation, server: Host<N>) -> Surroundings {
    let stopper = simulation.stopper(server);
    Surroundings {
        server: simulation.address(server).into(),
        nobody: Simulation::nobody(),
        stop_server: Arc::new(move || stopper.stop()),
    }
}

impl World for SimulatedWorld {
    fn name(&self) -> String {
        format!("sim with seed {}", self.seed)
    }

    fn limits(&self) -> WorldLimits {
        let lent_bytes_max = self.network.lent_bytes_max;
        let patience = Duration::from_secs(3_600);
        WorldLimits { lent_bytes_max, bulk_bytes: self.bulk_bytes, patience, has_resets: true }
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
        let mut simulation = Simulation::new(self.seed, self.network.clone());
        let servers = simulation.serve("server", shape.server_shards, server);
        let surroundings = surroundings(&simulation, servers);
        let clients = simulation.client("client", shape.client_shards, |shard| client(shard, &surroundings));
        simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
        let played = Played { servers: simulation.take(servers), clients: simulation.take(clients) };
        self.last.replace(Some(simulation));
        played
    }
}
