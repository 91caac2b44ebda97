//! The flags.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use breme_axum_server::Limits;
use breme_cluster::engine::NatsSettings;
use breme_command::configuration;
use breme_command::failure::Failure;
use breme_command::server::application::LimitFlags;
use breme_command::server::{ListenPlace, TlsFlags, at_least_one, listen_address, resolve};
use breme_command::units;
use breme_driver::Address;
use breme_session::{Durability, NodeName, Reads, Route, Settings, SettingsError};
use clap::{Command, ValueEnum};

/// The name of the command.
pub(super) const ROLE: &str = "session";

const EXAMPLES: &str = "Examples:
  breme session                                 # http://127.0.0.1:8084/session, kept in ./sessions
  breme session --nodes 4                       # four nodes and a director
  curl -c jar -b jar 'http://127.0.0.1:8084/session?name=a&value=1'
  breme session --engine nats://10.0.0.1,nats://10.0.0.2,nats://10.0.0.3 --name n1 \\
    --cookie-key-file keys --peer-listen 10.0.1.1:8090 \\
    --peer-cert n1.pem --peer-key n1.key --peer-ca ca.pem

docs/SESSION.md describes the applications, the guarantees, and the behaviour on failures.
SIGTERM hands the sessions over to other nodes and shuts down gracefully.
Exit status: 0 after a shutdown, 1 if the node cannot run, 2 for wrong flags.";

const NODES_MAX: usize = 64;
/// Below it, nodes lose their leases while they wait for a CPU.
const LEASE_MIN: Duration = Duration::from_millis(100);

const CLUSTER: &str = "Cluster";
const SESSIONS: &str = "Sessions";
const LIMITS: &str = "Limits";

/// Run a node of a session cluster, with two applications that keep their data in sessions.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SessionArgs {
    #[command(flatten)]
    pub configuration: configuration::Flags,

    /// Listen address, HOST:PORT or :PORT; repeatable; port 0 picks a free port; with TLS, http://ADDR listens
    /// without it
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8084")]
    listen: Vec<String>,

    /// Address of the admin server (/metrics, /health, /ready), HOST:PORT, :PORT or unix:PATH; port 0 picks a free
    /// port [default: none]
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,

    /// Number of threads [default: one per processor]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub threads: Option<usize>,

    /// Where sessions are stored: embedded:DIR (a SQLite file in a folder of this machine, for this process only), or
    /// nats://HOST:PORT,… (NATS JetStream, nats-server 2.15.2 or newer; tls:// for TLS)
    #[arg(long, value_name = "ENGINE", default_value = "embedded:sessions", value_parser = engine_choice)]
    pub engine: EngineChoice,

    /// Folder of XML documents and XSL stylesheets for /xsl; needs xsltproc [default: none]
    #[arg(long, value_name = "DIR")]
    pub xsl: Option<PathBuf>,

    /// File with the secrets of session cookies, one per line, at least 16 bytes each: the first signs, all are
    /// accepted; must be the same on all nodes [default with embedded:DIR: DIR/cookie.keys; created if it does not
    /// exist]
    #[arg(long, value_name = "FILE")]
    pub cookie_key_file: Option<PathBuf>,

    /// Mark cookies Secure although this node has no TLS, because a proxy in front of it has
    #[arg(long)]
    pub secure_cookies: bool,

    #[command(flatten)]
    pub tls: TlsFlags,

    /// Run a whole cluster on this machine: nodes n1 to nN, and at --listen a director that sends each request to the
    /// node that has its session. With nats://, each node is a separate process, which is restarted if it ends; with
    /// embedded:DIR, all nodes are in this process
    #[arg(long, value_name = "N", value_parser = node_count, conflicts_with_all = ["peer_listen", "peer_address", "peer_secret_file", "peer_cert"], help_heading = CLUSTER)]
    pub nodes: Option<usize>,

    /// With --nodes: address at which clients reach a node without the director, HOST:PORT; once for each node
    /// [default: a free port of 127.0.0.1 for each]
    #[arg(long, value_name = "ADDR", requires = "nodes", help_heading = CLUSTER)]
    node_listen: Vec<String>,

    /// Read secrets and the ends of other nodes from standard input; used by --nodes only
    #[arg(long, hide = true)]
    pub supervised: bool,

    /// Name of this node: unique in its cluster, the same after a restart; a part of cookies
    #[arg(long, value_name = "NAME", default_value = "n1", value_parser = node_name, help_heading = CLUSTER)]
    pub name: NodeName,

    /// Name of the cluster, so that several may share NATS servers
    #[arg(long, value_name = "NAME", default_value = "sessions", value_parser = node_name, help_heading = CLUSTER)]
    cluster: NodeName,

    /// Number of NATS servers that store each session: 1, 3 or 5
    #[arg(long, value_name = "N", default_value = "3", value_parser = replicas, help_heading = CLUSTER)]
    replicas: usize,

    /// What to do with a request for another node's session: forward it to the owner, or pull the session to this node
    #[arg(long, value_name = "HOW", default_value = "forward", help_heading = CLUSTER)]
    route: RouteChoice,

    /// How long a session stays on this node after its last request when another node asks for it
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = units::duration, help_heading = CLUSTER)]
    release_delay: Duration,

    /// Duration of a node's lease, within which it may serve from memory; renewed after a third of it; must be the same
    /// on all nodes
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = units::duration, help_heading = CLUSTER)]
    lease: Duration,

    /// Listen address for other nodes, HOST:PORT; port 0 picks a free port [default: with nats://, 127.0.0.1:0; with
    /// embedded:DIR there are no other nodes]
    #[arg(long, value_name = "ADDR", help_heading = CLUSTER)]
    peer_listen: Option<String>,

    /// Address at which other nodes reach this one, HOST:PORT [default: that of --peer-listen]
    #[arg(long, value_name = "ADDR", help_heading = CLUSTER)]
    pub peer_address: Option<String>,

    /// File with the secret that the nodes share, at least 16 bytes; for nodes on one machine
    #[arg(long, value_name = "FILE", conflicts_with = "peer_cert", help_heading = CLUSTER)]
    pub peer_secret_file: Option<PathBuf>,

    /// Certificate chain of this node (PEM) for mutual TLS between nodes; it names the host of --peer-address
    #[arg(long, value_name = "FILE", requires_all = ["peer_key", "peer_ca"], help_heading = CLUSTER)]
    pub peer_cert: Option<PathBuf>,

    /// Private key of --peer-cert
    #[arg(long, value_name = "FILE", requires = "peer_cert", help_heading = CLUSTER)]
    pub peer_key: Option<PathBuf>,

    /// Certificate of the authority (PEM) that signs the nodes' certificates and no others
    #[arg(long, value_name = "FILE", requires = "peer_cert", help_heading = CLUSTER)]
    pub peer_ca: Option<PathBuf>,

    /// When a response is sent: memory (before the change is stored; may lose acknowledged changes), quorum (when the
    /// engine has stored it), quorum+fsync (and written it to disk; NATS: if its servers have sync_interval: always)
    #[arg(long, value_name = "LEVEL", default_value = "quorum+fsync", help_heading = SESSIONS)]
    durability: DurabilityChoice,

    /// How a node makes sure that its memory holds the newest state: leased (assumes that the clocks of all nodes run
    /// equally fast, to 1 %), or confirmed (each read is a write; assumes nothing); must be the same on
    /// all nodes
    #[arg(long, hide_short_help = true, value_name = "HOW", default_value = "leased", help_heading = SESSIONS)]
    reads: ReadsChoice,

    /// Time without use after which a session expires
    #[arg(long, value_name = "TIME", default_value = "20m", value_parser = units::duration, help_heading = SESSIONS)]
    idle: Duration,

    /// Maximum age of a session, however recently it was used
    #[arg(long, value_name = "TIME", default_value = "12h", value_parser = units::duration, help_heading = SESSIONS)]
    absolute: Duration,

    /// Size limit of a session's contents, in bytes, at most 1047552; a larger change gets 413
    #[arg(long, value_name = "SIZE", default_value = "512KiB", value_parser = units::memory, help_heading = LIMITS)]
    max_session: usize,

    /// Memory of a node for the contents of sessions, in bytes; beyond that, the least recently used
    /// contents are evicted from memory
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = units::memory, help_heading = LIMITS)]
    memory: usize,

    /// Time limit for a request to get its session, and for its changes to be stored; then 503
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration, help_heading = LIMITS)]
    wait: Duration,

    #[command(flatten)]
    limits: LimitFlags,

    /// Time limit after SIGTERM for handing sessions over and for open requests; then they are aborted
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::duration, help_heading = LIMITS)]
    drain_timeout: Duration,
}

/// The value of `--engine`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineChoice {
    /// A folder of this machine.
    Embedded(PathBuf),
    /// Servers, as in the flag.
    Nats(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum RouteChoice {
    Forward,
    Pull,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ReadsChoice {
    Leased,
    Confirmed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DurabilityChoice {
    Memory,
    Quorum,
    #[value(name = "quorum+fsync")]
    QuorumFsync,
}

fn engine_choice(text: &str) -> Result<EngineChoice, String> {
    match text.split_once(':') {
        Some(("embedded", folder)) if !folder.is_empty() => Ok(EngineChoice::Embedded(PathBuf::from(folder))),
        Some(("nats" | "tls", rest)) if rest.starts_with("//") => Ok(EngineChoice::Nats(text.to_owned())),
        _ => Err("write embedded:DIR or nats://HOST:PORT".to_owned()),
    }
}

fn node_name(text: &str) -> Result<NodeName, String> {
    NodeName::new(text).map_err(|error| error.to_string())
}

fn node_count(text: &str) -> Result<usize, String> {
    let count = at_least_one(text)?;
    if count <= NODES_MAX { Ok(count) } else { Err(format!("at most {NODES_MAX} nodes run on one machine")) }
}

fn replicas(text: &str) -> Result<usize, String> {
    match text {
        "1" | "3" | "5" => text.parse().map_err(|_| String::new()),
        _ => Err("write 1, 3 or 5".to_owned()),
    }
}

/// The command alone, for its configuration file.
pub fn command() -> Command {
    <SessionArgs as clap::Args>::augment_args(Command::new(ROLE))
}

impl SessionArgs {
    /// Rejects invalid flags before anything is written.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.places()?;
        self.nodes.map_or(Ok(Vec::new()), |count| self.node_places(count))?;
        self.admin()?;
        self.check_peer_address()?;
        self.settings("127.0.0.1:1".to_owned()).map(drop)
    }

    pub(super) fn places(&self) -> Result<Vec<ListenPlace>, Failure> {
        ListenPlace::all(&self.listen, self.tls.has_tls())
    }

    /// Where the nodes of `--nodes` listen for clients.
    pub(super) fn node_places(&self, count: usize) -> Result<Vec<ListenPlace>, Failure> {
        let texts = match self.node_listen.len() {
            0 => &vec!["127.0.0.1:0".to_owned(); count],
            given if given == count => &self.node_listen,
            given => {
                return Err(Failure::usage(format!(
                    "--node-listen: {given} addresses for {count} nodes; give one for each, or none"
                )));
            }
        };
        ListenPlace::all(texts, self.tls.has_tls())
    }

    /// The listening addresses of the director.
    pub(super) fn listen(&self) -> &[String] {
        &self.listen
    }

    pub(super) fn admin(&self) -> Result<Option<Address>, Failure> {
        self.admin.as_deref().map(|text| listen_address("--admin", text)).transpose()
    }

    /// Where it listens for other nodes; none if there cannot be any.
    pub(super) fn peer_place(&self) -> Result<Option<SocketAddr>, Failure> {
        match (&self.peer_listen, &self.engine) {
            (Some(text), EngineChoice::Nats(_)) => resolve("--peer-listen", text).map(Some),
            (None, EngineChoice::Nats(_)) => Ok(Some(SocketAddr::from(([127, 0, 0, 1], 0)))),
            (Some(text), EngineChoice::Embedded(_)) => Err(Failure::usage(format!(
                "--peer-listen {text}: needs an engine that nodes can share; use --engine nats://…"
            ))),
            (None, EngineChoice::Embedded(_)) => Ok(None),
        }
    }

    /// Other nodes cannot connect to an address that stands for all of this machine's.
    fn check_peer_address(&self) -> Result<(), Failure> {
        let place = self.peer_place()?;
        match place.filter(|place| place.ip().is_unspecified() && self.peer_address.is_none()) {
            None => Ok(()),
            Some(place) => Err(Failure::usage(format!(
                "--peer-listen {place}: other nodes cannot connect to this address; add --peer-address HOST:PORT, or listen at one of this machine"
            ))),
        }
    }

    /// Whether SIGHUP reloads a certificate for clients.
    pub(super) fn has_reloads(&self) -> bool {
        self.tls.tls_cert.is_some()
    }

    pub(super) fn durability(&self) -> Durability {
        match self.durability {
            DurabilityChoice::Memory => Durability::Memory,
            DurabilityChoice::Quorum => Durability::Quorum,
            DurabilityChoice::QuorumFsync => Durability::QuorumFsync,
        }
    }

    /// Whether clients use TLS, to this server or to a proxy in front of it.
    pub(super) fn has_secure_cookies(&self) -> bool {
        self.secure_cookies || self.tls.has_tls()
    }

    pub(super) fn drain_timeout(&self) -> Duration {
        self.drain_timeout
    }

    pub(super) fn wait(&self) -> Duration {
        self.wait
    }

    pub(super) fn nats(&self, servers: &str) -> NatsSettings {
        NatsSettings { servers: servers.to_owned(), cluster: self.cluster, replicas: self.replicas }
    }

    /// The settings of a node that others reach at this address.
    pub(super) fn settings(&self, address: String) -> Result<Settings, Failure> {
        let defaults = Settings::new(address);
        let settings = Settings {
            durability: self.durability(),
            reads: match self.reads {
                ReadsChoice::Leased => Reads::Leased,
                ReadsChoice::Confirmed => Reads::Confirmed,
            },
            route: match self.route {
                RouteChoice::Forward => defaults.route,
                RouteChoice::Pull => Route::Pull,
            },
            release_delay: self.release_delay,
            lease: self.lease,
            renew_every: self.lease / 3,
            wait_max: self.wait,
            idle: self.idle,
            absolute: self.absolute,
            body_max: self.max_session,
            memory_max: self.memory,
            ..defaults
        };
        if self.lease < LEASE_MIN {
            let problem =
                format!("--lease {:?}: must be at least {LEASE_MIN:?}: it is renewed after a third", self.lease);
            return Err(Failure::usage(problem));
        }
        if self.memory < self.max_session {
            return Err(Failure::usage("--memory: must be at least --max-session"));
        }
        settings.check().map(|()| settings).map_err(|error| Failure::usage(with_flag(&error)))
    }

    pub(super) fn limits(&self) -> Result<Limits, Failure> {
        // The client's, and one to another node.
        let of_connection = 2;
        self.limits.limits(self.listen.len() + 1, self.admin.is_some(), of_connection)
    }
}

/// The message of an error in a setting, with the flag that sets it.
fn with_flag(error: &SettingsError) -> String {
    let flag = match error.field {
        "body_max" => "--max-session",
        "wait_max" => "--wait",
        "idle" => "--idle",
        "absolute" => "--absolute",
        "lease" => "--lease",
        "release_delay" => "--release-delay",
        _ => return error.to_string(),
    };
    format!("{flag}: must be {}", error.allowed.replace("`idle`", "--idle"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_a_folder_or_servers() {
        assert_eq!(engine_choice("embedded:a/b"), Ok(EngineChoice::Embedded("a/b".into())));
        for servers in ["nats://a:1,nats://b:2", "tls://a:1"] {
            assert_eq!(engine_choice(servers), Ok(EngineChoice::Nats(servers.to_owned())));
        }
        for wrong in ["", "sessions", "embedded:", "nats:a", "http://a"] {
            assert!(engine_choice(wrong).is_err(), "{wrong}");
        }
    }
}
