//! Servers under test: each with one worker, on a free port of the loopback address, on the server's processor, and ended with
//! its value.

mod configurations;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::instruments;
use crate::processes::Running;
use crate::workbench::{Workbench, find_program, printed_by};

use configurations::Place;
pub(crate) use configurations::{CONNECTIONS_SPARE, DESCRIPTORS_PER_CONNECTION};

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `breme site DIR --lab`, one thread.
    BremeSite,
    /// nginx with one worker, sendfile and a cache of open files; `/bytes/13` is a `return 200`.
    Nginx,
    /// lighttpd with one worker.
    Lighttpd,
    /// Apache with the event module and one process of many threads.
    Apache,
}

/// What is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) kind: Kind,
    pub(crate) tls: bool,
}

/// A running server.
pub(crate) struct Server {
    running: Running,
    address: SocketAddr,
    tls: bool,
    /// Its configuration and logs; removed when the server has ended.
    _folder: tempfile::TempDir,
}

/// How long a server may take until it accepts.
const READY_WITHIN: Duration = Duration::from_secs(10);

impl Kind {
    pub(crate) const fn program(self) -> &'static str {
        match self {
            Self::BremeSite => "breme",
            Self::Nginx => "nginx",
            Self::Lighttpd => "lighttpd",
            Self::Apache => "apache2",
        }
    }
}

impl Server {
    /// Starts one that can hold `connections`, and returns when it accepts.
    pub(crate) fn start(workbench: &Workbench, subject: Subject, connections: usize) -> Result<Self, String> {
        let folder = workbench.new_folder()?;
        match subject.kind {
            Kind::BremeSite => Self::start_site(workbench, subject.tls, connections, folder),
            _ => Self::start_peer(workbench, subject, connections, folder),
        }
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
                "{url}: two answers of status 200 and {bytes} bytes over one connection were expected; curl saw (status, bytes, new connections): {printed}"
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

    fn start_site(
        workbench: &Workbench,
        tls: bool,
        connections: usize,
        folder: tempfile::TempDir,
    ) -> Result<Self, String> {
        let mut command = workbench.breme_site(connections);
        command.arg(workbench.pages()).args(["--lab", "--listen", "127.0.0.1:0"]);
        if tls {
            let certificate = workbench.certificate()?;
            command.arg("--tls-cert").arg(&certificate.chain).arg("--tls-key").arg(&certificate.key);
        }
        let log = log_file(folder.path())?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut running = workbench.processes.start(&mut command, Some(workbench.cpus.server))?;
        let mut line = String::new();
        if let Some(output) = running.take_stdout() {
            BufReader::new(output).read_line(&mut line).map_err(|error| format!("breme site: {error}"))?;
        }
        let address = line.trim().split_once("://").and_then(|(_, address)| address.parse().ok());
        let address = address
            .ok_or_else(|| format!("breme site did not say where it listens, but {line:?}; {}", said(folder.path())))?;
        Ok(Self { running, address, tls, _folder: folder })
    }

    fn start_peer(
        workbench: &Workbench,
        subject: Subject,
        connections: usize,
        folder: tempfile::TempDir,
    ) -> Result<Self, String> {
        let address = free_address()?;
        let place = Place {
            folder: folder.path(),
            pages: &workbench.pages(),
            address,
            connections,
            certificate: subject.tls.then(|| workbench.certificate()).transpose()?,
        };
        let mut command = configurations::command(subject.kind, &place)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log_file(folder.path())?);
        let running = workbench.processes.start(&mut command, Some(workbench.cpus.server))?;
        let mut server = Self { running, address, tls: subject.tls, _folder: folder };
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
        "" => String::from("it said nothing"),
        text => format!("it said: {}", &text[..text.floor_char_boundary(LOG_BYTES_SHOWN)]),
    }
}

fn free_address() -> Result<SocketAddr, String> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map_err(|error| format!("no free port: {error}"))
}
