//! One run of a scenario, and its result.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use breme_base::{UnixSeconds, WallClock};
use breme_load::{ErrorKind, Load, Run};
use breme_load_plan::Plan;
use breme_origin::{DirectoryListing, FileContent, FileStamp, MemoryRoot, OpenError, OpenedFile, Root, Site};
use breme_sim::{Network, Simulation, Summary};
use breme_testkit::ContractChecker;

use crate::scenario::Scenario;

/// The counts of the nodes.
pub struct Ending {
    pub summary: Summary,
    pub issued: u64,
    pub answered: u64,
    pub unfinished: u64,
    /// Requests without a response, by kind; only kinds that occurred.
    pub failed: Vec<(ErrorKind, u64)>,
    /// Unexpected responses.
    pub wrong_answers: u64,
    pub answered_by_server: u64,
    /// Idle clients that were evicted because others waited.
    pub evicted: u64,
    pub digest: u64,
}

/// Plays a scenario to its end.
///
/// # Panics
///
/// If it does not end, or if a node or driver violates the contract.
pub fn play(seed: u64, network: &Network, scenario: &Scenario) -> Ending {
    let most = network.lent_bytes_max;
    let wall = WallClock::starting_at(UnixSeconds(1_700_000_000));
    let site = Site::new(scenario.site.clone(), Some(root(scenario)), None, wall.clone()).unwrap();
    let mut simulation = Simulation::new(seed, network.clone());
    let server =
        simulation.serve("origin", scenario.server_shards, |shard| ContractChecker::new(site.node(shard), most));
    let plan = Plan::new(scenario.load.clone()).unwrap();
    let run = Arc::new(Run::new(plan, vec![vec![simulation.address(server)]], scenario.client_shards, wall));
    let client = simulation
        .client("load", scenario.client_shards, |shard| ContractChecker::new(Load::new(Arc::clone(&run), shard), most));
    if let Some(at) = scenario.stop_at {
        simulation.stop_at(server, at);
    }
    for pressure in &scenario.pressures {
        simulation.pressure_at(server, pressure.start, true);
        simulation.pressure_at(server, pressure.end, false);
    }
    let summary = simulation.run().unwrap_or_else(|stuck| panic!("{stuck}\n{scenario:?}"));
    let loads = simulation.take(client);
    for violations in loads.iter().map(ContractChecker::final_violations) {
        assert_eq!(violations, [""; 0], "of the load's shards: {scenario:?}");
    }
    for violations in simulation.take(server).iter().map(ContractChecker::final_violations) {
        assert_eq!(violations, [""; 0], "of the origin's shards: {scenario:?}");
    }
    let sum = |count: &dyn Fn(&Load) -> u64| loads.iter().map(|load| count(load.node())).sum::<u64>();
    let errors = ErrorKind::ALL.map(|kind| (kind, sum(&|load| load.errors_of(kind))));
    let happened = errors.into_iter().filter(|&(kind, count)| count > 0 && !kind.is_unbegun());
    let (wrong, failed): (Vec<_>, Vec<_>) = happened.partition(|(kind, _)| kind.is_answered());
    Ending {
        summary,
        issued: sum(&Load::issued),
        answered: sum(&Load::answered),
        unfinished: sum(&Load::unfinished),
        failed,
        wrong_answers: wrong.iter().map(|(_, count)| count).sum(),
        answered_by_server: site.responses_total(),
        evicted: site.counts().evicted,
        digest: simulation.trace().digest(),
    }
}

fn root(scenario: &Scenario) -> Arc<dyn Root> {
    if scenario.file_is_open {
        return Arc::new(OpenFile::holding(&scenario.file.0));
    }
    let memory = MemoryRoot::new();
    memory.write("file", scenario.file.0.clone(), 0);
    Arc::new(memory)
}

/// A folder with one real file, so that sending from an open file is simulated too.
struct OpenFile(Arc<File>);

impl OpenFile {
    fn holding(content: &[u8]) -> Self {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        Self(Arc::new(file))
    }
}

impl Root for OpenFile {
    fn open(&self, name: &str) -> Result<OpenedFile, OpenError> {
        match name {
            "file" => {
                let stamp = FileStamp::from_metadata(&self.0.metadata().unwrap());
                Ok(OpenedFile { stamp, content: FileContent::File(Arc::clone(&self.0)) })
            }
            "" => Ok(OpenedFile { stamp: FileStamp::default(), content: FileContent::Directory }),
            _ => Err(OpenError::NotFound),
        }
    }

    fn list(&self, _: &str, _: usize, _: &dyn Fn(&str) -> bool) -> Result<DirectoryListing, OpenError> {
        Ok(DirectoryListing::default())
    }
}
