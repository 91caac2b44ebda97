//! Servers under test: each with one worker, on a free port of the loopback address, on the server's processor, and
//! ended with its value. Proxies have an origin behind them, on the generator's processor: the proxy alone is what is
//! measured.

mod configurations;
mod kind;
mod place;
mod proxies;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::instruments;
use crate::processes::Running;
use crate::workbench::{Workbench, find_program, printed_by};

use kind::ORIGIN_STATUS;
pub(crate) use kind::{Kind, OBJECT_BYTES, Store, Subject};
use place::Place;
pub(crate) use place::{CONNECTIONS_SPARE, DESCRIPTORS_PER_CONNECTION};

/// A running server.
pub(crate) struct Server {
    running: Running,
    address: SocketAddr,
    tls: bool,
    /// Behind a proxy.
    origin: Option<Box<Server>>,
    /// Its configuration and logs; removed when the server has ended.
    _folder: tempfile::TempDir,
}

/// How long a server may take until it accepts.
const READY_WITHIN: Duration = Duration::from_secs(10);

impl Server {
    /// Starts one that can hold `connections`, with whatever stands behind it, and returns when it accepts.
    pub(crate) fn start(workbench: &Workbench, subject: Subject, connections: usize) -> Result<Self, String> {
        let origin = if subject.kind.is_proxy() {
            Some(Box::new(Self::start_origin(workbench, subject.kind, connections)?))
        } else {
            None
        };
        match subject.kind {
            Kind::BremeSite => Self::start_site(workbench, subject.tls, connections, workbench.cpus.server),
            Kind::BremeProxy(store) => Self::start_proxy(workbench, store, connections, origin),
            _ => Self::start_peer(workbench, subject, connections, origin),
        }
    }

    /// Ends what stands behind a proxy: what is answered from now on was kept.
    pub(crate) fn end_origin(&mut self) {
        self.origin = None;
    }

    /// How many requests have come to what stands behind a proxy.
    pub(crate) fn requests_at_origin(&self) -> Result<u64, String> {
        let origin = self.origin.as_ref().ok_or("this server has no origin")?;
        let mut command = Command::new(find_program("curl")?);
        let printed = printed_by(command.args(["-sS", "--max-time", "10", &origin.url(ORIGIN_STATUS)]))?;
        // "server accepts handled requests", and the numbers in the next line; this question is one of them.
        let numbers = printed.lines().nth(2).and_then(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok());
        numbers.map(|count| count.saturating_sub(1)).ok_or_else(|| format!("the origin's status was:\n{printed}"))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", if self.tls { "https" } else { "http" }, self.address)
    }

    /// CPU time of the server so far, all its processes together.
    pub(crate) fn cpu_time(&self) -> Result<Duration, String> {
        instruments::cpu_time_of_session(self.running.pid())
    }

    /// Memory of the server, all its processes together, in bytes.
    pub(crate) fn memory(&self) -> Result<u64, String> {
        instruments::memory_of_session(self.running.pid())
    }

    /// Asks twice over one connection, and fails unless both answers are right: another program judges, since a server
    /// that answers an error quickly would win every comparison. Tells what was agreed on for TLS.
    pub(crate) fn check(&self, workbench: &Workbench, path: &str, bytes: usize) -> Result<Option<String>, String> {
        let url = self.url(path);
        let mut command = Command::new(find_program("curl")?);
        command.args(["-sS", "--max-time", "10", "-w", "%{http_code} %{size_download} %{num_connects}\\n"]);
        if self.tls {
            command.arg("--tlsv1.3").arg("--cacert").arg(&workbench.certificate()?.chain);
        }
        command.args(["-o", "/dev/null", &url, "-o", "/dev/null", &url]);
        let printed = printed_by(&mut command)?;
        if printed != format!("200 {bytes} 1\n200 {bytes} 0\n") {
            return Err(format!(
                "{url}: expected two responses of status 200 and {bytes} bytes on one connection; curl saw (status, bytes, new connections): {printed}"
            ));
        }
        if self.tls { self.cipher_suite().map(Some) } else { Ok(None) }
    }

    fn cipher_suite(&self) -> Result<String, String> {
        let mut command = Command::new(find_program("openssl")?);
        command.args(["s_client", "-brief", "-connect", &self.address.to_string()]);
        let printed = printed_by(&mut command)?;
        let suite = printed.lines().find_map(|line| line.strip_prefix("Ciphersuite: "));
        suite.map(str::to_owned).ok_or_else(|| format!("openssl s_client on {} printed:\n{printed}", self.address))
    }

    /// What stands behind a proxy, on the generator's processor. Behind one that only relays it is the cheapest server
    /// that there is here, for all proxies alike: otherwise that processor would be the limit, and a proxy that waits
    /// half of its time costs more for each request.
    fn start_origin(workbench: &Workbench, proxy: Kind, connections: usize) -> Result<Self, String> {
        if proxy.keeps_answers() {
            let origin = Subject { kind: Kind::Origin, tls: false };
            return Self::start_peer(workbench, origin, connections, None);
        }
        Self::start_site(workbench, false, connections, workbench.cpus.generator)
    }

    fn start_site(workbench: &Workbench, tls: bool, connections: usize, cpu: usize) -> Result<Self, String> {
        let mut command = workbench.breme("site", connections);
        command.arg(workbench.pages()).arg("--lab");
        if tls {
            let certificate = workbench.certificate()?;
            command.arg("--tls-cert").arg(&certificate.chain).arg("--tls-key").arg(&certificate.key);
        }
        Self::start_ours(workbench, command, cpu, tls, None)
    }

    fn start_proxy(
        workbench: &Workbench,
        store: Store,
        connections: usize,
        origin: Option<Box<Self>>,
    ) -> Result<Self, String> {
        let mut command = workbench.breme("proxy", connections);
        command.args(origin.as_ref().map(|origin| format!("--upstream={}", origin.url(""))));
        if let Some(mebibytes) = store.limit(proxies::HELD_BY_BREME) {
            command.arg(format!("--cache-memory={mebibytes}MiB"));
        }
        Self::start_ours(workbench, command, workbench.cpus.server, false, origin)
    }

    /// Starts one of our own servers, which tells where it listens.
    fn start_ours(
        workbench: &Workbench,
        mut command: Command,
        cpu: usize,
        tls: bool,
        origin: Option<Box<Self>>,
    ) -> Result<Self, String> {
        let folder = workbench.new_folder()?;
        command.args(["--listen", "127.0.0.1:0"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log_file(folder.path())?);
        let mut running = workbench.processes.start(&mut command, Some(cpu))?;
        let mut line = String::new();
        if let Some(output) = running.take_stdout() {
            BufReader::new(output).read_line(&mut line).map_err(|error| format!("breme: {error}"))?;
        }
        let address = line.trim().split_once("://").and_then(|(_, address)| address.parse().ok());
        let address =
            address.ok_or_else(|| format!("breme printed {line:?} instead of its address; {}", said(folder.path())))?;
        Ok(Self { running, address, tls, origin, _folder: folder })
    }

    fn start_peer(
        workbench: &Workbench,
        subject: Subject,
        connections: usize,
        origin: Option<Box<Self>>,
    ) -> Result<Self, String> {
        let folder = workbench.new_folder()?;
        let address = free_address()?;
        let place = Place {
            folder: folder.path(),
            pages: &workbench.pages(),
            address,
            connections,
            certificate: subject.tls.then(|| workbench.certificate()).transpose()?,
            upstream: origin.as_ref().map(|origin| origin.address),
        };
        let mut command = configurations::command(subject.kind, &place)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log_file(folder.path())?);
        let is_behind = subject.kind == Kind::Origin;
        let cpu = if is_behind { workbench.cpus.generator } else { workbench.cpus.server };
        let running = workbench.processes.start(&mut command, Some(cpu))?;
        let mut server = Self { running, address, tls: subject.tls, origin, _folder: folder };
        server.wait_until_ready().map_err(|error| format!("{}: {error}", subject.kind.program()))?;
        Ok(server)
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            if let Some(status) = self.running.status() {
                return Err(format!("ended with {status}; {}", said(self._folder.path())));
            }
            if begun.elapsed() > READY_WITHIN {
                return Err(format!("nothing accepts on {} after {READY_WITHIN:?}", self.address));
            }
            std::thread::yield_now();
        }
        Ok(())
    }
}

const LOG: &str = "stderr";

fn log_file(folder: &Path) -> Result<fs::File, String> {
    let path = folder.join(LOG);
    fs::File::create(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// How much of a log goes into an error: programs begin with what is wrong and end with advice.
const LOG_BYTES_SHOWN: usize = 600;

fn said(folder: &Path) -> String {
    let text = fs::read_to_string(folder.join(LOG)).unwrap_or_default();
    match text.trim() {
        "" => String::from("it printed nothing"),
        text => format!("it said: {}", &text[..text.floor_char_boundary(LOG_BYTES_SHOWN)]),
    }
}

fn free_address() -> Result<SocketAddr, String> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map_err(|error| format!("no free port: {error}"))
}
