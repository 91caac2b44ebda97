//! Servers behind a proxy in the tests: real ones of several implementations, each of which counts its requests.
//!
//! A proxy and its upstream must agree on where each request ends. Otherwise the upstream sees more requests than the
//! proxy sent, and a client gets a response that is not its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use breme_testkit::reserved_address;

use crate::harness::{PATIENCE, POLL_PAUSE, Site, get, wait_accepting};

/// A server with the responses of the conformance cases, as far as its implementation supports them.
pub(crate) enum Backend {
    Breme(Site),
    Peer(Peer),
}

/// Another implementation.
pub(crate) struct Peer {
    name: &'static str,
    child: Child,
    address: SocketAddr,
    count: Count,
    _folder: tempfile::TempDir,
}

/// How a peer reports its number of requests.
enum Count {
    /// nginx: a page of its own, whose third line has the number; requests for that page are counted too.
    Status(SocketAddr),
    /// Apache: a line per request, written after the response was sent.
    Log(std::path::PathBuf),
    /// Node: a port that sends the number.
    Port(SocketAddr),
}

impl Backend {
    pub(crate) fn all() -> Vec<Self> {
        vec![Self::Breme(Site::lab("auto")), Self::Peer(nginx()), Self::Peer(apache()), Self::Peer(node())]
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Breme(_) => "breme site",
            Self::Peer(peer) => peer.name,
        }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        match self {
            Self::Breme(site) => site.address,
            Self::Peer(peer) => peer.address,
        }
    }

    /// Whether it counts a request on receipt; if not, some time after the response.
    pub(crate) const fn counts_at_once(&self) -> bool {
        !matches!(self, Self::Peer(Peer { count: Count::Log(_), .. }))
    }

    /// How many requests it has counted, once there are at least `wanted`; `looks` is the number of earlier calls.
    pub(crate) fn seen(&self, wanted: u64, looks: u64) -> u64 {
        match self {
            Self::Breme(site) => site.counter() - looks,
            Self::Peer(peer) => peer.seen(wanted, looks),
        }
    }
}

impl Peer {
    fn seen(&self, wanted: u64, looks: u64) -> u64 {
        match &self.count {
            Count::Status(address) => {
                let text = String::from_utf8(get(*address, "/").content).unwrap();
                let number = text.lines().nth(2).unwrap().split_whitespace().nth(2).unwrap();
                number.parse::<u64>().unwrap() - looks - 1
            }
            Count::Log(path) => {
                let begun = Instant::now();
                let lines = || fs::read(path).unwrap().iter().filter(|&&byte| byte == b'\n').count() as u64;
                while lines() < wanted && begun.elapsed() < PATIENCE {
                    std::thread::sleep(POLL_PAUSE);
                }
                lines()
            }
            Count::Port(address) => String::from_utf8(get(*address, "/").content).unwrap().parse().unwrap(),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `/bytes/N` as files.
fn pages(folder: &std::path::Path) {
    let bytes = folder.join("pages/bytes");
    fs::create_dir_all(&bytes).unwrap();
    for count in 0..=10 {
        fs::write(bytes.join(count.to_string()), &"0123456789"[..count]).unwrap();
    }
}

fn folder() -> tempfile::TempDir {
    let mut builder = tempfile::Builder::new();
    // For Apache's workers, which drop root privileges.
    let folder = builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755)).tempdir().unwrap();
    pages(folder.path());
    folder
}

fn nginx() -> Peer {
    let folder = folder();
    let (address, status) = (reserved_address(), reserved_address());
    let root = folder.path().display();
    let configuration = format!(
        "daemon off; master_process off; pid {root}/pid; error_log {root}/error.log crit;\n\
         events {{ worker_connections 1000; }}\n\
         http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {root}/a; proxy_temp_path {root}/b;\n\
         fastcgi_temp_path {root}/c; uwsgi_temp_path {root}/d; scgi_temp_path {root}/e; default_type text/plain;\n\
         large_client_header_buffers 4 32k;\n\
         server {{ listen {address}; root {root}/pages; location /status/ {{ return 204; }} }}\n\
         server {{ listen {status}; location = / {{ stub_status; }} }} }}\n"
    );
    let path = folder.path().join("nginx.conf");
    fs::write(&path, configuration).unwrap();
    let mut command = Command::new("nginx");
    let child = command.arg("-c").arg(&path).arg("-p").arg(folder.path()).spawn().unwrap();
    wait_accepting("nginx", address);
    Peer { name: "nginx", child, address, count: Count::Status(status), _folder: folder }
}

fn apache() -> Peer {
    let folder = folder();
    let address = reserved_address();
    let root = folder.path().display();
    let modules: String = ["mpm_event", "authz_core"]
        .map(|module| format!("LoadModule {module}_module /usr/lib/apache2/modules/mod_{module}.so\n"))
        .concat();
    let user = if rustix::process::geteuid().is_root() { "User nobody\nGroup nogroup\n" } else { "" };
    let log = folder.path().join("access.log");
    let configuration = format!(
        "{modules}{user}ServerRoot {root}\nDefaultRuntimeDir {root}\nPidFile {root}/pid\nServerName localhost\nListen {address}\n\
         ErrorLog {root}/error.log\nLogLevel crit\nStartServers 1\nServerLimit 1\nThreadsPerChild 25\nMaxRequestWorkers 25\n\
         KeepAlive On\nMaxKeepAliveRequests 0\nKeepAliveTimeout 60\nLimitRequestLine 16384\n\
         LogFormat %>s short\nCustomLog {log} short\nDocumentRoot {root}/pages\n\
         <Directory />\nAllowOverride None\nOptions None\nRequire all granted\n</Directory>\n",
        log = log.display(),
    );
    let path = folder.path().join("apache.conf");
    fs::write(&path, configuration).unwrap();
    // One process: workers would have a process group of their own, and outlive it.
    let child = Command::new("apache2").args(["-X", "-f"]).arg(&path).spawn().unwrap();
    wait_accepting("apache2", address);
    Peer { name: "Apache", child, address, count: Count::Log(log), _folder: folder }
}

/// Requests accepted by Node's parser, counted on receipt; rejected ones count too.
const NODE: &str = r#"
const http = require('http');
let seen = 0;
const pattern = n => '0123456789'.repeat(n / 10 + 1).slice(0, n);
const server = http.createServer((request, response) => {
    seen++;
    const chunks = [];
    request.on('data', chunk => chunks.push(chunk));
    request.on('end', () => {
        const bytes = /^(?:http:\/\/[^/]*)?\/bytes\/(\d{1,4})/.exec(request.url);
        const status = /^\/status\/(\d{3})$/.exec(request.url);
        if (status) { response.statusCode = Number(status[1]); response.end(); }
        else if (request.method === 'POST') response.end(Buffer.concat(chunks));
        else if (bytes) response.end(pattern(Number(bytes[1])));
        else { response.statusCode = 404; response.end('no'); }
    });
});
server.on('clientError', (error, socket) => {
    // What is broken off has been counted when it began.
    if (/^HPE_/.test(error.code) && error.code !== 'HPE_INVALID_EOF_STATE') seen++;
    if (socket.writable) socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
});
server.keepAliveTimeout = 60000;
server.maxRequestsPerSocket = 0;
const teller = http.createServer((request, response) => response.end(String(seen)));
server.listen(0, '127.0.0.1', () => teller.listen(0, '127.0.0.1', () => console.log(server.address().port + ' ' + teller.address().port)));
"#;

fn node() -> Peer {
    let mut child = Command::new("node").args(["-e", NODE]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ports: Vec<u16> = line.split_whitespace().map(|port| port.parse().unwrap()).collect();
    let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
    Peer { name: "Node", child, address: at(ports[0]), count: Count::Port(at(ports[1])), _folder: folder() }
}
