//! Nodes that know each other by certificates, one of which has expired.

use std::io::BufRead;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ChildStderr, Stdio};

use rcgen::date_time_ymd;

use crate::admin::metrics;
use crate::harness::{Signal, Site, breme, get, replace_by_pipe, run, wait_until};
use crate::nats_servers::NatsServers;
use crate::session_cluster::{Cluster, User};
use crate::tls::{Authority, Signed};

/// A node as a process, and its standard error.
struct Node {
    site: Site,
    errors: std::io::BufReader<ChildStderr>,
}

impl Node {
    fn start(name: &str, servers: &NatsServers, keys: &Path, authority: &Authority, signed: &Signed) -> Self {
        let (certificate, key) = signed.files();
        let (engine, authority) = (servers.addresses(), authority.file());
        let mut command = breme();
        command.args(["session", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--threads", "2"]);
        command.args(["--engine", &engine, "--name", name, "--wait", "10s"]).arg("--cookie-key-file").arg(keys);
        command.args(["--peer-cert", certificate, "--peer-key", key, "--peer-ca", &authority]);
        let mut site = Site::from_command(command, Stdio::piped());
        let errors = site.stderr();
        wait_until("the node does not become ready", || get(site.admin.unwrap(), "/ready").status == 200);
        Self { site, errors }
    }

    fn address(&self) -> SocketAddr {
        self.site.address
    }

    /// Reads its standard error up to a line with these words.
    fn wait_for_line(&mut self, words: &str) {
        let mut lines = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.errors.read_line(&mut line).unwrap(), 0, "no {words:?} in {lines}");
            if line.contains(words) {
                return;
            }
            lines.push_str(&line);
        }
    }
}

/// The fingerprint of the certificate shown at this address.
fn shown_certificate(to: SocketAddr) -> String {
    let script = format!("openssl s_client -connect {to} </dev/null 2>/dev/null | openssl x509 -noout -fingerprint");
    run("sh", &["-c", &script])
}

/// The director and the nodes, whether they are processes or not.
#[test]
fn a_hangup_replaces_the_certificate_of_a_whole_cluster() {
    let (servers, folder) = (NatsServers::start(), tempfile::tempdir().unwrap());
    for engine in [format!("embedded:{}", folder.path().display()), servers.addresses()] {
        let authority = Authority::new();
        let signed = authority.server();
        let (certificate, key) = signed.files();
        let cluster = Cluster::start(&["--engine", &engine, "--tls-cert", certificate, "--tls-key", key], 2);
        let places = [cluster.address(), cluster.nodes[0].address, cluster.nodes[1].address];
        let before = shown_certificate(places[0]);
        authority.server();
        cluster.site.signal(Signal::HUP);
        for place in places {
            wait_until("the old certificate is still shown", || {
                let shown = shown_certificate(place);
                !shown.is_empty() && shown != before
            });
        }
        cluster.end();
    }
}

#[test]
fn an_expired_certificate_is_named_and_can_be_replaced() {
    let servers = NatsServers::start();
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    std::fs::write(&keys, "a secret of this test that is long enough\n").unwrap();
    let authority = Authority::new();
    let expired = authority.sign("expired", |params| params.not_after = date_time_ymd(2001, 1, 1));
    let mut valid = Node::start("n1", &servers, &keys, &authority, &authority.server());
    let mut other = Node::start("n2", &servers, &keys, &authority, &expired);
    other.wait_for_line("expired.pem: the certificate has expired");
    let expiry = "breme_tls_certificate_expiry_timestamp_seconds{shown_to=\"nodes\"}";
    assert_eq!(metrics(other.site.admin.unwrap())[expiry], 978_307_200.0);

    let mut users = [User::default(), User::default()];
    for (user, node) in users.iter_mut().zip([&valid, &other]) {
        assert_eq!(user.add(node.address(), "a=1"), "a=1\n", "each node serves its own sessions");
    }
    for (user, node) in users.iter_mut().zip([&other, &valid]) {
        let answer = user.send(node.address(), "GET", "/session?name=b&value=2", "");
        assert_eq!((answer.status, answer.field("breme-session-outcome")), (503, Some("refused")));
        assert!(answer.field("retry-after").is_some());
    }
    other.wait_for_line("the certificate of this node has expired: replace the file of --peer-cert and send SIGHUP");
    valid.wait_for_line("the certificate of the node at 127.0.0.1:");

    std::fs::write(expired.files().1, "no key").unwrap();
    other.site.signal(Signal::HUP);
    other.wait_for_line("keeping the old certificate for other nodes");
    replace_by_pipe(Path::new(expired.files().1));
    other.site.signal(Signal::HUP);
    other.wait_for_line("is not a regular file, and cannot be read again; keeping the old certificate for other nodes");
    std::fs::remove_file(expired.files().1).unwrap();
    authority.sign("expired", |_| {});
    other.site.signal(Signal::HUP);
    other.wait_for_line("reloaded the certificate for other nodes");
    for (user, node) in users.iter_mut().zip([&other, &valid]) {
        wait_until("the nodes do not trust each other", || {
            user.clone().send(node.address(), "GET", "/session", "").status == 200
        });
        assert_eq!(user.add(node.address(), "c=3"), "a=1\nc=3\n");
    }
    assert!(metrics(other.site.admin.unwrap())[expiry] > 4e9);
}
