//! Sessions whose nodes are frozen, restarted or without a disk, and whose clients share or steal them.

use std::cell::OnceCell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use breme_conformance::{Answer, read_answers};
use serde_json::Value;

use crate::admin::metrics;
use crate::harness::{Signal, connect, load_json, wait_until};
use crate::nats_servers::NatsServers;
use crate::session_cluster::{Cluster, User, text, text_if_good, until_served};

/// A request that waits for its response.
struct Waiting(TcpStream);

impl Waiting {
    fn send(user: &User, to: SocketAddr, path: &str) -> Self {
        let mut stream = connect(to);
        let cookie = user.cookie_line();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{cookie}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        Self(stream)
    }

    fn response(mut self) -> Answer {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes).unwrap();
        read_answers(&bytes, |_| false).unwrap().remove(0)
    }
}

/// Others serve the sessions of a frozen node. When it thaws, requests are in its queue.
#[test]
fn a_node_that_thaws_shows_nothing_old() {
    let servers = NatsServers::start();
    let cluster = Cluster::start(&["--engine", &servers.addresses()], 3);
    let [frozen, other, third] = &cluster.nodes[..] else { panic!() };
    let mut users = vec![User::default(); 6];
    for user in &mut users {
        assert_eq!(user.add(frozen.address, "a=1"), "a=1\n");
    }
    frozen.freeze();
    let reads: Vec<_> = users.iter().map(|user| Waiting::send(user, frozen.address, "/session")).collect();
    let write = Waiting::send(&users[0], frozen.address, "/session?name=c&value=3");
    for user in &users {
        // A request forwarded to the frozen node before its lease expired has an unknown outcome.
        wait_until("no other node serves the session", || {
            let answer = user.clone().send(other.address, "GET", "/session?name=b&value=2", "");
            text_if_good(&answer).is_some_and(|shown| shown == "a=1\nb=2\n")
        });
    }
    frozen.signal(Signal::CONT);
    for (place, read) in reads.into_iter().enumerate() {
        let shown = text_if_good(&read.response());
        let expected = |shown: &str| shown == "a=1\nb=2\n" || (place == 0 && shown == "a=1\nb=2\nc=3\n");
        assert!(shown.as_deref().is_none_or(expected), "session {place}: {shown:?}");
    }
    let written = text_if_good(&write.response());
    assert!(written.as_deref().is_none_or(|shown| shown == "a=1\nb=2\nc=3\n"), "{written:?}");
    for (place, user) in users.iter_mut().enumerate() {
        let mut expected = until_served(user, frozen.address, "/session");
        assert!(["a=1\nb=2\n", "a=1\nb=2\nc=3\n"].contains(&expected.as_str()), "{expected}");
        assert!(written.is_none() || place > 0 || expected.contains("c=3"), "{expected}");
        for (step, node) in [third, frozen, other, frozen].into_iter().enumerate() {
            expected.push_str(&format!("d{step}=4\n"));
            assert_eq!(until_served(user, node.address, &format!("/session?name=d{step}&value=4")), expected);
        }
    }
    cluster.end();
}

#[test]
fn the_director_takes_requests_away_from_a_frozen_node() {
    let servers = NatsServers::start();
    let cluster = Cluster::start(&["--engine", &servers.addresses()], 3);
    let mut user = User::default();
    assert_eq!(user.add(cluster.address(), "a=1"), "a=1\n");
    let (_, owner) = user.session().rsplit_once(".n").unwrap();
    let frozen = &cluster.nodes[owner.parse::<usize>().unwrap() - 1];
    frozen.freeze();
    let add = |number: u8| Waiting::send(&user, cluster.address(), &format!("/session?name=b&value={number}"));
    for waiting in [1, 2].map(add) {
        let shown = text_if_good(&waiting.response());
        assert!(shown.as_deref().is_none_or(|shown| shown.starts_with("a=1\nb=")), "{shown:?}");
    }
    wait_until("the session is not served without its owner", || {
        text_if_good(&user.clone().send(cluster.address(), "GET", "/session", "")).is_some()
    });
    frozen.signal(Signal::CONT);
    assert!(until_served(&mut user, cluster.address(), "/session").starts_with("a=1\n"));
    cluster.end();
}

/// A small file system for the program, as root of a user namespace, in which it may mount.
fn on_a_small_disk(disk: &Path) -> Command {
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=2m tmpfs \"$0\" && exec \"$@\"";
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    command.arg(disk).arg(env!("CARGO_BIN_EXE_breme"));
    command
}

/// Fills the rest of the disk. Returns the file used for that.
fn fill(disk: &Path) -> PathBuf {
    let path = disk.join("filler");
    let mut file = std::fs::File::create(&path).unwrap();
    for size in [1 << 16, 1 << 12, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
    path
}

#[test]
fn without_space_a_node_refuses_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let engine = format!("embedded:{}", disk.join("sessions").display());
    let cluster = Cluster::start_with(on_a_small_disk(&disk), &["--engine", &engine, "--wait", "5s"], 0);
    let mut users = vec![User::default(); 3];
    for user in &mut users {
        assert_eq!(user.add(cluster.address(), "a=1"), "a=1\n");
    }
    // As the program sees it.
    let seen =
        Path::new("/proc").join(cluster.site.pid().to_string()).join("root").join(disk.strip_prefix("/").unwrap());
    let filler = fill(&seen);
    let path = format!("/session?name=b&value={}", "x".repeat(8_192));
    for user in &mut users {
        let answer = user.send(cluster.address(), "GET", &path, "");
        assert_eq!(answer.status, 503);
        assert!(answer.field("retry-after").is_some());
    }
    let mut stranger = User::default();
    assert_eq!(stranger.send(cluster.address(), "GET", &path, "").status, 503);
    assert!(stranger.cookies.is_empty(), "a session that is not stored has no cookie");
    let ready = || crate::harness::get(cluster.site.admin.unwrap(), "/ready").status;
    wait_until("the node seems ready without space", || ready() == 503);
    std::fs::remove_file(filler).unwrap();
    wait_until("the node does not become ready again", || ready() == 200);
    for user in &mut users {
        wait_until("the session does not come back", || {
            user.clone().send(cluster.address(), "GET", "/session", "").status == 200
        });
        let held = user.pairs(cluster.address());
        // The unacknowledged pair may have been stored.
        assert!(held == "a=1\n" || held == format!("a=1\nb={}\n", "x".repeat(8_192)), "{held}");
        assert_eq!(user.add(cluster.address(), "c=3"), format!("{held}c=3\n"));
    }
    cluster.end();
}

/// A user who sends requests to the director, until `is_over`; with the refusals.
fn keep_adding(
    mut user: User,
    to: SocketAddr,
    progress: &AtomicUsize,
    is_over: &AtomicBool,
) -> (User, String, Vec<String>) {
    let (mut expected, mut refused) = (String::new(), Vec::new());
    for step in 0.. {
        let answer = user.send(to, "GET", &format!("/session?name=k{step}&value=v"), "");
        progress.fetch_add(1, Ordering::SeqCst);
        let pair = format!("k{step}=v\n");
        match text_if_good(&answer) {
            Some(shown) => {
                expected.push_str(&pair);
                assert_eq!(shown, expected);
            }
            None => {
                refused.push(String::from_utf8_lossy(&answer.content).into_owned());
                // It may have been stored nevertheless.
                let shown = OnceCell::new();
                wait_until("the session does not come back", || {
                    let answer = user.clone().send(to, "GET", "/session", "");
                    text_if_good(&answer).is_some_and(|text| shown.set(text).is_ok())
                });
                let shown = shown.into_inner().unwrap();
                assert!(shown == expected || shown == format!("{expected}{pair}"), "{shown} after {expected}");
                expected = shown;
            }
        }
        if is_over.load(Ordering::SeqCst) {
            break;
        }
    }
    (user, expected, refused)
}

#[test]
fn a_rolling_restart_loses_nothing() {
    let servers = NatsServers::start();
    let cluster = Cluster::start(&["--engine", &servers.addresses()], 3);
    let (progress, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let read = |name: &str| metrics(cluster.site.admin.unwrap())[name];
    let ends = thread::scope(|scope| {
        let begin = || {
            let mut user = User::default();
            user.send(cluster.address(), "POST", "/login", "");
            scope.spawn(|| keep_adding(user, cluster.address(), &progress, &is_over))
        };
        let users: Vec<_> = (0..6).map(|_| begin()).collect();
        let more_requests = || {
            let before = progress.load(Ordering::SeqCst);
            wait_until("no request ends", || progress.load(Ordering::SeqCst) > before + 60);
        };
        for (ended, node) in (1..).zip(&cluster.nodes) {
            more_requests();
            node.signal(Signal::TERM);
            wait_until("the node is not started again", || {
                read("breme_session_node_ends_total") == f64::from(ended) && read("breme_session_nodes") == 3.0
            });
            // It receives sessions once it is a member: if the others left before, no node could.
            wait_until("the node does not join the cluster", || {
                User::default().send(node.address, "GET", "/session?name=a&value=1", "").status == 200
            });
        }
        more_requests();
        is_over.store(true, Ordering::SeqCst);
        users.into_iter().map(|user| user.join().unwrap()).collect::<Vec<_>>()
    });
    for (mut user, expected, refused) in ends {
        assert_eq!(refused, Vec::<String>::new());
        for node in &cluster.nodes {
            assert_eq!(user.pairs(node.address), expected);
        }
    }
    cluster.end();
}

/// Ten clients, each of which sends its requests to all nodes: each response is a state of the same session.
#[test]
fn clients_that_share_a_session_see_one_order() {
    let folder = tempfile::tempdir().unwrap();
    let engine = format!("embedded:{}", folder.path().display());
    for route in ["forward", "pull"] {
        let cluster = Cluster::start(&["--engine", &engine, "--durability", "quorum", "--route", route], 4);
        let mut owner = User::default();
        owner.add(cluster.address(), "begin=1");
        let add = |client: usize| {
            let mut user = owner.clone();
            let one = |step: usize| {
                let pair = format!("c{client}-{step}=v");
                let shown = user.add(cluster.nodes[(client + step) % 4].address, &pair);
                assert_eq!(shown.lines().last(), Some(pair.as_str()), "the newest pair is one's own");
                shown
            };
            (0..12).map(one).collect::<Vec<_>>()
        };
        let mut shown: Vec<String> = thread::scope(|scope| {
            let clients: Vec<_> = (0..10).map(|client| scope.spawn(move || add(client))).collect();
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
        });
        shown.sort_by_key(String::len);
        for pair in shown.windows(2) {
            assert!(pair[1].starts_with(&pair[0]) && pair[1] != pair[0], "{} and {}", pair[0], pair[1]);
        }
        assert_eq!(owner.pairs(cluster.address()), *shown.last().unwrap());
        assert_eq!(shown.last().unwrap().lines().count(), 1 + 10 * 12);
        cluster.end();
    }
}

/// Session fixation: an attacker makes a client use a known id. After the login the id is invalid, on any node.
#[test]
fn a_fixed_id_is_worth_nothing_after_the_login() {
    let folder = tempfile::tempdir().unwrap();
    let engine = format!("embedded:{}", folder.path().display());
    let cluster = Cluster::start(&["--engine", &engine, "--durability", "quorum"], 3);
    let mut thief = User::default();
    thief.add(cluster.nodes[0].address, "cart=1");
    let mut victim = thief.clone();
    assert_eq!(text(&victim.send(cluster.nodes[1].address, "POST", "/login", "")), "cart=1\n");
    assert_eq!(victim.add(cluster.nodes[2].address, "name=v"), "cart=1\nname=v\n");
    for node in &cluster.nodes {
        assert_eq!(thief.clone().pairs(node.address), "");
        assert_eq!(thief.clone().add(node.address, "own=2"), "own=2\n");
        assert_eq!(victim.pairs(node.address), "cart=1\nname=v\n");
    }
    cluster.end();
}

/// Clients, the director and the nodes use TLS; each response is checked pair by pair.
#[test]
fn a_cluster_serves_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let engine = format!("embedded:{}", folder.path().display());
    let cluster = Cluster::start(&["--engine", &engine, "--durability", "quorum", "--tls-self-signed"], 3);
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/session-cluster/pairs.scenario.toml");
    let places = [cluster.address(), cluster.nodes[0].address, cluster.nodes[2].address];
    for place in places {
        let url = format!("https://{place}");
        let result = load_json(&["--insecure", "--scenario", scenario, "-c", "4", "-n", "4", "--seed", "1", &url]);
        let [responses, wrong] = ["responses", "inconsistent"].map(|count| &result["pairs"][count]);
        assert_eq!((responses, wrong), (&Value::from(4 * 50), &Value::from(0)), "{result:#}");
    }
    let owned =
        (1..=3).map(|node| metrics(cluster.site.admin.unwrap())[&format!("breme_session_owned{{node=\"n{node}\"}}")]);
    assert_eq!(owned.sum::<f64>(), 12.0);
    cluster.end();
}
