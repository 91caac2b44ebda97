//! Servers under test: each started on a free port of the loopback address, pinned, and ended with the value.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cpu::SERVER_CPU;

/// A running server.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Removed when the server ends.
    _folder: tempfile::TempDir,
}

/// How to start one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `breme site DIR --lab`, one events thread.
    BremeSite,
    /// nginx with one worker, sendfile and a cache of open files; `/bytes/13` is a `return 200`.
    Nginx,
}

/// How long a server may take until it accepts.
const READY_WITHIN: Duration = Duration::from_secs(10);

impl Server {
    pub(crate) fn start(kind: Kind) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
        write_pages(folder.path())?;
        match kind {
            Kind::BremeSite => Self::start_site(folder),
            Kind::Nginx => Self::start_nginx(folder),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn start_site(folder: tempfile::TempDir) -> Result<Self, String> {
        let mut command = pinned(&breme()?);
        command.arg("site").arg(folder.path().join("pages")).args(["--lab", "--listen", "127.0.0.1:0"]);
        command.args(["--driver", "events", "--threads", "1"]);
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| format!("breme site: {error}"))?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(|error| format!("breme site: {error}"))?;
        }
        let address = line.trim().strip_prefix("listening on http://").and_then(|address| address.parse().ok());
        let address = address.ok_or_else(|| format!("breme site did not say where it listens but {line:?}"))?;
        Ok(Self { child, address, _folder: folder })
    }

    fn start_nginx(folder: tempfile::TempDir) -> Result<Self, String> {
        let address = free_address()?;
        let root = folder.path().display();
        let configuration = format!(
            "daemon off; master_process off; pid {root}/pid; error_log {root}/error.log crit;\n\
             worker_rlimit_nofile 40000;\n\
             events {{ worker_connections 20000; }}\n\
             http {{ access_log off; sendfile on; tcp_nopush on; tcp_nodelay on; keepalive_requests 1000000000;\n\
             open_file_cache max=1000; open_file_cache_valid 60s; types {{ text/html html; }}\n\
             client_body_temp_path {root}/body; proxy_temp_path {root}/proxy; fastcgi_temp_path {root}/fastcgi;\n\
             uwsgi_temp_path {root}/uwsgi; scgi_temp_path {root}/scgi;\n\
             server {{ listen {address} backlog=4096; root {root}/pages;\n\
             location = /bytes/13 {{ return 200 \"0123456789012\"; }} }} }}\n"
        );
        let path = folder.path().join("nginx.conf");
        fs::write(&path, configuration).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut command = pinned(Path::new("nginx"));
        command.arg("-c").arg(&path).arg("-p").arg(folder.path());
        let child = command.stderr(Stdio::null()).spawn().map_err(|error| format!("nginx: {error}"))?;
        let server = Self { child, address, _folder: folder };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn wait_until_ready(&self) -> Result<(), String> {
        let begun = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            if begun.elapsed() > READY_WITHIN {
                return Err(format!("nothing accepts on {} after {READY_WITHIN:?}", self.address));
            }
            std::thread::yield_now();
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The pages of study-sized files: 1 kB and 10 kB.
fn write_pages(folder: &Path) -> Result<(), String> {
    let pages = folder.join("pages");
    let written = fs::create_dir(&pages)
        .and_then(|()| fs::write(pages.join("1k.html"), "a".repeat(1_000)))
        .and_then(|()| fs::write(pages.join("10k.html"), "a".repeat(10_000)));
    written.map_err(|error| format!("{}: {error}", pages.display()))
}

/// A command on the server's CPU.
fn pinned(program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", SERVER_CPU]).arg(program);
    command
}

/// The `breme` that was built beside this program.
pub(crate) fn breme() -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|error| format!("where am I: {error}"))?;
    let breme = here.with_file_name("breme");
    if breme.exists() { Ok(breme) } else { Err(format!("{} is not built; use `cargo xtask bench`", breme.display())) }
}

fn free_address() -> Result<SocketAddr, String> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map_err(|error| format!("no free port: {error}"))
}
