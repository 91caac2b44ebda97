//! Nodes as processes, which are restarted when they exit.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use breme_admin::{AdminListener, Families, Maintenance, ProcessMetrics, Readiness};
use breme_command::failure::Failure;
use breme_command::server::{ListenPlace, Tls};
use breme_session::NodeName;
use futures_util::future::{join_all, try_join_all};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use rustix::process::Signal;
use tokio::sync::{broadcast, watch};
use tokio::time::{sleep, timeout};

use super::super::arguments::{ROLE, SessionArgs};
use super::super::host::LEAVE_TIME;
use super::super::metrics::registry;
use super::super::secrets::{cookie_keys, random_secret};
use super::super::supervisor::{Exit, secrets_line};
use super::director::is_true;
use super::front::{Front, end_signal, wait_for_nodes};
use super::hangups::Hangups;
use super::node_place::{NodePlace, node_name};
use super::program::{News, Program, cannot_start};

/// The first pause before a failed restart is repeated; it doubles with each attempt.
const RESTART_PAUSE: Duration = Duration::from_millis(50);
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(5);
/// Time limit for the end of a node's process, in addition to its own limits.
const END_TIME: Duration = Duration::from_secs(5);
/// Limit of exits that a node has not processed.
const EXITS_MAX: usize = 1024;

/// Shared by all nodes.
struct Family<'a> {
    args: &'a SessionArgs,
    /// The flags in effect, as a file.
    configuration: &'a Path,
    /// The first line of standard input of each.
    secrets: String,
    /// The last exited process of each node.
    ended: RefCell<BTreeMap<NodeName, u64>>,
    exits: broadcast::Sender<Exit>,
    /// Nodes that serve sessions.
    ready: RefCell<BTreeSet<NodeName>>,
    readiness: Readiness,
    counts: Arc<NodeProcessCounts>,
}

/// Counts of nodes.
#[derive(Debug, Default)]
struct NodeProcessCounts {
    running: AtomicU64,
    ended: AtomicU64,
}

struct Member<'a> {
    family: &'a Family<'a>,
    name: NodeName,
    place: ListenPlace,
    program: Program,
    nonce: u64,
    admin: Option<SocketAddr>,
    exits: broadcast::Receiver<Exit>,
}

/// Runs each node as a process of its own. The calling thread starts them, and they end with it.
pub(crate) async fn serve_processes(args: &SessionArgs, count: usize, configuration: &str) -> Result<(), Failure> {
    let process = ProcessMetrics::starting_now();
    let admin = args.admin()?.map(AdminListener::bind).transpose()?;
    let fault = |error| Failure::run(format!("cannot write a temporary file: {error}"));
    let mut file = tempfile::Builder::new().prefix("breme-session-").suffix(".toml").tempfile().map_err(fault)?;
    file.write_all(configuration.as_bytes()).map_err(fault)?;
    let counts = Arc::<NodeProcessCounts>::default();
    let readiness = Readiness::starting();
    let family = Family {
        args,
        configuration: file.path(),
        secrets: secrets(args)?,
        ended: RefCell::default(),
        exits: broadcast::Sender::new(EXITS_MAX),
        ready: RefCell::default(),
        readiness: readiness.clone(),
        counts: Arc::clone(&counts),
    };
    let hangups = Hangups::catch(args)?;
    let is_ending = end_signal(readiness.clone())?;
    let places = args.node_places(count)?;
    // Each of them reads it again; here it is checked once, and reported.
    drop(Tls::from_flags(ROLE, &args.tls, &[])?);
    let names = (1..=count).map(node_name).collect::<Result<Vec<_>, _>>()?;
    let starting = names.into_iter().zip(&places).map(|(name, place)| family.start(name, place));
    let mut members = try_join_all(starting).await?;
    let mut registry = registry(process, Maintenance::default(), Vec::new());
    registry.sub_registry_with_prefix("breme").register_collector(Box::new(ProcessCounts(counts)));
    let front = Front::start(args, admin, registry, readiness, hangups.clone())?;
    wait_for_nodes(join_all(members.iter_mut().map(Member::joined)), is_ending.clone()).await;
    let nodes: Vec<_> = members.iter().map(Member::node_place).collect();
    let (stop_nodes, nodes_stop) = watch::channel(false);
    let ahead = async {
        let served = front.serve(&nodes, is_ending).await;
        let _ = stop_nodes.send(true);
        served
    };
    let keeping = members.into_iter().map(|member| member.keep(nodes_stop.clone(), hangups.clone()));
    let (served, _) = tokio::join!(ahead, join_all(keeping));
    served
}

/// The secret shared by the nodes, and the one of cookies unless a file is named.
fn secrets(args: &SessionArgs) -> Result<String, Failure> {
    let peers = random_secret()?;
    if args.cookie_key_file.is_some() {
        // Now, so that the nodes find the file.
        cookie_keys(args)?;
        return Ok(secrets_line(&peers, None));
    }
    breme_base::error_line!(
        "breme session: cookies are signed with a temporary key; to keep sessions, use --cookie-key-file FILE"
    );
    Ok(secrets_line(&peers, Some(&random_secret()?)))
}

impl<'a> Family<'a> {
    async fn start(&'a self, name: NodeName, place: &ListenPlace) -> Result<Member<'a>, Failure> {
        let fault = |why: &str| cannot_start(&format!("node {name}"), why);
        // Before it starts: it is notified of later exits, and reads earlier ones.
        let exits = self.exits.subscribe();
        let mut program = Program::start(&self.arguments(name, place)).map_err(|error| fault(&error.to_string()))?;
        program.write(&self.secrets).await;
        let ended: String = self.ended.borrow().iter().map(|(&node, &nonce)| Exit { node, nonce }.line()).collect();
        program.write(&ended).await;
        let Some(printed) = program.printed(1).await else { return Err(fault(&program.wait().await)) };
        let (Some(nonce), Some(place)) = (printed.nonce, printed.places.first().cloned()) else {
            return Err(fault("it did not print its identifier and its address"));
        };
        self.counts.running.fetch_add(1, Ordering::Relaxed);
        self.note_readiness(name, printed.is_ready);
        Ok(Member { family: self, name, place, program, nonce, admin: printed.admin, exits })
    }

    fn arguments(&self, name: NodeName, place: &ListenPlace) -> Vec<OsString> {
        let listen = place.to_string();
        let flags = ["session", "--supervised", "--admin", "127.0.0.1:0", "--name", name.as_str(), "--listen", &listen];
        let mut arguments: Vec<OsString> = flags.map(OsString::from).to_vec();
        arguments.extend([OsString::from("--config"), self.configuration.into()]);
        arguments
    }

    /// The cluster serves if one node does.
    fn note_readiness(&self, node: NodeName, is_ready: bool) {
        let mut ready = self.ready.borrow_mut();
        if is_ready {
            ready.insert(node)
        } else {
            ready.remove(&node)
        };
        self.readiness.set_lack(ready.is_empty().then(|| "no node is ready".to_owned()));
    }

    fn note_end(&self, node: NodeName, nonce: u64) {
        self.counts.running.fetch_sub(1, Ordering::Relaxed);
        self.counts.ended.fetch_add(1, Ordering::Relaxed);
        self.ended.borrow_mut().insert(node, nonce);
        self.note_readiness(node, false);
        // Without other nodes there is no receiver.
        let _ = self.exits.send(Exit { node, nonce });
    }
}

impl Member<'_> {
    fn node_place(&self) -> NodePlace {
        NodePlace { name: self.name, place: self.place.clone(), process: self.program.pid(), admin: self.admin }
    }

    /// Waits until the node serves sessions, or its process has exited; [`Member::keep`] restarts it.
    async fn joined(&mut self) {
        while !self.family.ready.borrow().contains(&self.name)
            && let News::IsReady(is_ready) = self.program.news().await
        {
            self.family.note_readiness(self.name, is_ready);
        }
    }

    /// Passes on exits of other processes and SIGHUP, and restarts this one when it exits, until the cluster ends.
    async fn keep(mut self, is_ending: watch::Receiver<bool>, mut hangups: Hangups) {
        loop {
            let how = tokio::select! {
                news = self.program.news() => match news {
                    News::Ended(how) => how,
                    News::IsReady(is_ready) => {
                        self.family.note_readiness(self.name, is_ready);
                        continue;
                    }
                },
                exit = self.exits.recv() => {
                    if let Ok(exit) = exit && exit.node != self.name {
                        self.program.write(&exit.line()).await;
                    }
                    continue;
                }
                () = hangups.next() => {
                    self.program.signal(Signal::HUP);
                    continue;
                }
                () = is_true(is_ending.clone()) => return self.end().await,
            };
            self.family.note_end(self.name, self.nonce);
            breme_base::error_line!("breme session: node {} ended ({how}); restarting it", self.name);
            tokio::select! {
                member = self.start_again() => self = member,
                () = is_true(is_ending.clone()) => return,
            }
        }
    }

    async fn start_again(&self) -> Self {
        let mut pause = RESTART_PAUSE;
        loop {
            match self.family.start(self.name, &self.place).await {
                Ok(member) => {
                    let process = member.program.pid().unwrap_or_default();
                    breme_base::error_line!("breme session: node {} is process {process} now", self.name);
                    return member;
                }
                Err(failure) => breme_base::error_line!("breme session: {}; retrying in {pause:?}", failure.message),
            }
            sleep(pause).await;
            pause = (2 * pause).min(RESTART_PAUSE_MAX);
        }
    }

    async fn end(mut self) {
        self.program.close_input();
        // It has the same time limit.
        let time = self.family.args.drain_timeout() + LEAVE_TIME + END_TIME;
        if timeout(time, self.program.wait()).await.is_err() {
            breme_base::error_line!("breme session: node {} did not end; killing it", self.name);
        }
    }
}

/// Exports the counts.
#[derive(Debug)]
struct ProcessCounts(Arc<NodeProcessCounts>);

impl Collector for ProcessCounts {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families::new(encoder);
        let running = self.0.running.load(Ordering::Relaxed);
        families.gauge("session_nodes", "Nodes whose process runs.", running)?;
        let ended = self.0.ended.load(Ordering::Relaxed);
        families.counter("session_node_ends", "Processes of nodes that ended and were started again.", ended)
    }
}
