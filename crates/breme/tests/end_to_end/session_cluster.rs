//! A node or a cluster of sessions, and a client with its cookies.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use breme_conformance::Answer;
use rustix::process::Pid;

use crate::harness::{Signal, Site, breme, freeze, wait_until};
use crate::wiki::send;

/// A node, or a cluster, on free ports.
pub(crate) struct Cluster {
    pub(crate) site: Site,
    /// Of each node, in the order of their names, if there are several.
    pub(crate) nodes: Vec<Node>,
}

pub(crate) struct Node {
    pub(crate) address: SocketAddr,
    /// If it is a process of its own.
    process: Option<i32>,
    pub(crate) admin: Option<SocketAddr>,
}

impl Cluster {
    /// A node with its sessions in a folder.
    pub(crate) fn embedded(folder: &tempfile::TempDir, more: &[&str]) -> Self {
        let engine = format!("embedded:{}", folder.path().join("sessions").display());
        Self::start(&[&["--engine", &engine, "--durability", "quorum"], more].concat(), 0)
    }

    pub(crate) fn start(arguments: &[&str], nodes: usize) -> Self {
        let count = nodes.to_string();
        let more: &[&str] = if nodes == 0 { &[] } else { &["--nodes", &count] };
        Self::start_with(breme(), &[more, arguments].concat(), nodes)
    }

    /// With a command that execs the program.
    pub(crate) fn start_with(mut command: Command, arguments: &[&str], nodes: usize) -> Self {
        let listening = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--threads", "2"];
        command.arg("session").args(listening).args(arguments);
        if !arguments.contains(&"--wait") {
            // Elections take long on a busy machine.
            command.args(["--wait", "60s"]);
        }
        let mut site = Site::from_command(command, Stdio::inherit());
        let nodes = (0..nodes).map(|_| Node::from_line(&site.next_line())).collect();
        Self { site, nodes }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.site.address
    }

    /// SIGTERM, and status 0.
    pub(crate) fn end(mut self) {
        self.site.signal(Signal::TERM);
        assert!(self.site.wait().0.success());
    }

    pub(crate) fn kill(mut self) {
        self.site.signal(Signal::KILL);
        self.site.wait();
    }
}

impl Node {
    /// From `node n1 on http://127.0.0.1:4001, process 4711, metrics on …`.
    fn from_line(line: &str) -> Self {
        let mut parts = line.split(", ");
        let address = parts.next().and_then(|part| part.split("://").nth(1)).and_then(|text| text.parse().ok());
        let process = parts.next().and_then(|part| part.strip_prefix("process ")?.parse().ok());
        let metrics = parts.next().and_then(|part| part.strip_prefix("metrics on http://"));
        let admin = metrics.and_then(|text| text.strip_suffix("/metrics")?.parse().ok());
        Self { address: address.unwrap_or_else(|| panic!("printed {line:?}")), process, admin }
    }

    fn process(&self) -> Pid {
        Pid::from_raw(self.process.unwrap()).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.process(), signal).unwrap();
    }

    pub(crate) fn freeze(&self) {
        freeze(self.process());
    }
}

/// A client with its cookies.
#[derive(Clone, Default)]
pub(crate) struct User {
    pub(crate) cookies: Vec<(String, String)>,
}

impl User {
    /// For a request.
    pub(crate) fn cookie_line(&self) -> String {
        let cookies: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("Cookie: {}", cookies.join("; "))
    }

    pub(crate) fn send(&mut self, to: SocketAddr, method: &str, path: &str, body: &str) -> Answer {
        let cookies = self.cookie_line();
        let mut headers = vec!["Content-Type: application/x-www-form-urlencoded"];
        if !self.cookies.is_empty() {
            headers.push(&cookies);
        }
        let answer = send(to, method, path, &headers, body);
        for (_, set) in answer.fields.iter().filter(|(name, _)| name == "set-cookie") {
            let (name, value) = set.split(';').next().unwrap().split_once('=').unwrap();
            self.cookies.retain(|(known, _)| known != name);
            if !value.is_empty() {
                self.cookies.push((name.to_owned(), value.to_owned()));
            }
        }
        answer
    }

    /// Stores a pair. Returns the content of the session.
    pub(crate) fn add(&mut self, to: SocketAddr, pair: &str) -> String {
        let (name, value) = pair.split_once('=').unwrap();
        let answer = self.send(to, "GET", &format!("/session?name={name}&value={value}"), "");
        text(&answer)
    }

    pub(crate) fn pairs(&mut self, to: SocketAddr) -> String {
        text(&self.send(to, "GET", "/session", ""))
    }

    pub(crate) fn session(&self) -> &str {
        let found = self.cookies.iter().find(|(name, _)| name == "session");
        &found.unwrap().1
    }

    pub(crate) fn with_session(value: &str) -> Self {
        Self { cookies: vec![("session".to_owned(), value.to_owned())] }
    }
}

/// Of a successful response.
pub(crate) fn text(answer: &Answer) -> String {
    let content = String::from_utf8_lossy(&answer.content).into_owned();
    assert_eq!(answer.status, 200, "{content}");
    content
}

/// Of a response, which is successful or 503.
pub(crate) fn text_if_good(answer: &Answer) -> Option<String> {
    if answer.status == 503 {
        assert!(answer.field("retry-after").is_some() && answer.field("breme-session-outcome").is_some());
        return None;
    }
    Some(text(answer))
}

/// A request that may be refused while a node that thaws joins again; one that was not done is sent again.
pub(crate) fn until_served(user: &mut User, to: SocketAddr, path: &str) -> String {
    let mut shown = None;
    wait_until("the session is not served", || {
        let answer = user.send(to, "GET", path, "");
        shown = text_if_good(&answer);
        assert!(shown.is_some() || answer.field("breme-session-outcome") == Some("not-done"), "{path}: unknown");
        shown.is_some()
    });
    shown.unwrap()
}

/// Each request to another destination: the director, or any node.
pub(crate) fn add_everywhere(cluster: &Cluster, user: &mut User, expected: &mut String, count: usize) {
    let nodes = cluster.nodes.iter().map(|node| node.address);
    let places: Vec<_> = [cluster.address()].into_iter().chain(nodes).collect();
    for step in 0..count {
        let name = format!("p{}", expected.lines().count());
        expected.push_str(&format!("{name}={step}\n"));
        assert_eq!(user.add(places[step % places.len()], &format!("{name}={step}")), *expected);
    }
}
