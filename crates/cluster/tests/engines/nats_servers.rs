//! A cluster of three NATS servers on loopback, for a test.

use std::array;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use breme_testkit::reserved_address;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

const SERVERS: usize = 3;
/// How long they may need to elect a leader, beside a busy machine.
const ELECTION_MAX: Duration = Duration::from_secs(60);

/// Three servers that sync each commit; dropping this value stops them.
pub(crate) struct NatsServers {
    servers: Vec<Server>,
    _folder: tempfile::TempDir,
}

/// What the servers may store.
#[derive(Clone, Copy)]
pub(crate) enum StorageLimit {
    /// 1 GB each.
    Ample,
    /// `max_file_store` of each server, in kB.
    Server(u32),
    /// `max_store` of the clients' account on all servers together, in kB. An account of its own: other limits do not
    /// show what it has stored.
    Account(u32),
}

struct Server {
    child: Option<Child>,
    configuration: PathBuf,
    store: PathBuf,
    /// The part of the configuration that does not change.
    addresses: String,
    client_port: u16,
    monitor_port: u16,
}

impl NatsServers {
    pub(crate) fn start() -> Self {
        Self::start_within(StorageLimit::Ample)
    }

    pub(crate) fn start_within(limit: StorageLimit) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ports: [[u16; SERVERS]; 3] = array::from_fn(|_| array::from_fn(|_| reserved_address().port()));
        let [client_ports, cluster_ports, monitor_ports] = ports;
        let routes: Vec<String> = cluster_ports.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        let servers = (0..SERVERS).map(|number| {
            let [client_port, cluster_port, monitor_port] =
                [client_ports, cluster_ports, monitor_ports].map(|ports| ports[number]);
            let configuration = folder.path().join(format!("{number}.conf"));
            let store = folder.path().join(number.to_string());
            let routes = routes.join(", ");
            let addresses = format!(
                "server_name: n{number}\nlisten: 127.0.0.1:{client_port}\nmax_payload: 1MB\n\
                 http: 127.0.0.1:{monitor_port}\n\
                 cluster {{ name: test, listen: 127.0.0.1:{cluster_port}, routes: [{routes}] }}\n"
            );
            let mut server = Server { child: None, configuration, store, addresses, client_port, monitor_port };
            server.configure(limit);
            server.start();
            server
        });
        let servers = Self { servers: servers.collect(), _folder: folder };
        servers.wait_leader();
        servers
    }

    fn wait_leader(&self) {
        self.servers.iter().for_each(Server::wait_leader);
    }

    /// For [`NatsSettings::servers`](breme_cluster::engine::NatsSettings).
    pub(crate) fn addresses(&self) -> String {
        let addresses = self.servers.iter().map(|server| format!("nats://127.0.0.1:{}", server.client_port));
        addresses.collect::<Vec<_>>().join(",")
    }

    pub(crate) fn kill(&mut self, number: usize) {
        self.servers[number].kill();
    }

    pub(crate) fn start_again(&mut self, number: usize) {
        self.servers[number].start();
    }

    /// Kills all servers, and starts them with another limit.
    pub(crate) fn restart_within(&mut self, limit: StorageLimit) {
        for server in &mut self.servers {
            server.kill();
            server.configure(limit);
        }
        self.servers.iter_mut().for_each(Server::start);
        self.wait_leader();
    }

    /// Stops a server until it is thawed.
    pub(crate) fn freeze(&self, number: usize) {
        let process = self.servers[number].process();
        kill_process(process, Signal::STOP).unwrap();
        // Until all its threads are stopped: the signal reaches them one after another.
        // A server that has ended is left for `kill`, or its process id could be that of another process by then.
        let changes = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let change = waitid(WaitId::Pid(process), changes).unwrap();
        assert!(change.is_some_and(|status| status.stopped()), "the server has ended");
    }

    pub(crate) fn thaw(&self, number: usize) {
        kill_process(self.servers[number].process(), Signal::CONT).unwrap();
    }
}

impl Server {
    fn configure(&self, limit: StorageLimit) {
        let (server_kb, account) = match limit {
            StorageLimit::Ample => (1_000_000, String::new()),
            StorageLimit::Server(kb) => (kb, String::new()),
            StorageLimit::Account(kb) => {
                let users = "[{ user: test, password: test }]";
                let limits = format!("{{ max_store: {kb}KB }}");
                let account = format!("accounts {{ test: {{ jetstream: {limits}, users: {users} }} }}\n");
                (1_000_000, format!("{account}no_auth_user: test\n"))
            }
        };
        let store = self.store.display();
        let jetstream = format!(
            "jetstream {{ store_dir: \"{store}\", sync_interval: always, max_mem: 64MB, max_file: {server_kb}KB }}\n"
        );
        fs::write(&self.configuration, [&self.addresses, &jetstream, &account].map(String::as_str).concat()).unwrap();
    }

    fn process(&self) -> Pid {
        Pid::from_child(self.child.as_ref().unwrap())
    }

    fn start(&mut self) {
        let mut command = Command::new(program());
        command.arg("--config").arg(&self.configuration).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
    }

    /// Until it knows the leader of JetStream.
    fn wait_leader(&self) {
        let begun = Instant::now();
        while !self.is_healthy().unwrap_or(false) {
            assert!(begun.elapsed() < ELECTION_MAX, "NATS on port {} has no leader", self.client_port);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn is_healthy(&self) -> std::io::Result<bool> {
        let mut monitor = TcpStream::connect(("127.0.0.1", self.monitor_port))?;
        monitor.write_all(b"GET /healthz?js-meta-only=true HTTP/1.0\r\n\r\n")?;
        let mut response = String::new();
        monitor.read_to_string(&mut response)?;
        Ok(response.starts_with("HTTP/1.0 200 "))
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Where xtask installs it: next to cargo's folder for tests.
fn program() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let program = target.join("nats/nats-server");
    assert!(program.exists(), "{} is missing; `cargo xtask packages` installs it", program.display());
    program
}
