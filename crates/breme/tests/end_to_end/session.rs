//! Sessions as a program: one node and its restart; clusters whose nodes are killed; an unavailable engine.

use std::process::Stdio;

use breme_testkit::reserved_address;

use crate::admin::metrics;
use crate::harness::{Signal, Site, breme, get, wait_accepting, wait_until};
use crate::nats_servers::NatsServers;
use crate::session_cluster::{Cluster, User, add_everywhere, text, until_served};

#[test]
fn sessions_outlive_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let node = Cluster::embedded(&folder, &[]);
    let mut user = User::default();
    assert_eq!(user.add(node.address(), "a=1"), "a=1\n");
    assert_eq!(user.add(node.address(), "c%20d=%C5%BE+%3D"), "a=1\nc d=ž =\n");
    let answer = user.send(node.address(), "POST", "/session", "name=b&value=2");
    assert_eq!(text(&answer), "a=1\nc d=ž =\nb=2\n");
    assert_eq!(answer.field("cache-control"), Some("no-store"));
    assert_eq!(user.add(node.address(), "a=3"), "a=3\nc d=ž =\nb=2\n", "a name keeps its place");
    let counts = metrics(node.site.admin.unwrap());
    assert_eq!(counts["breme_session_owned{node=\"n1\"}"], 1.0);
    assert_eq!(counts["breme_session_commit_seconds_count{node=\"n1\",durability=\"quorum\"}"], 4.0);
    node.end();
    let node = Cluster::embedded(&folder, &[]);
    assert_eq!(user.pairs(node.address()), "a=3\nc d=ž =\nb=2\n");
    assert_eq!(User::default().pairs(node.address()), "");
}

#[test]
fn acknowledged_pairs_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut users = vec![User::default(); 4];
    let mut expected = String::new();
    for round in 0..3 {
        let node = Cluster::embedded(&folder, &[]);
        for step in 0..5 {
            expected.push_str(&format!("k{round}-{step}=v\n"));
            for user in &mut users {
                assert_eq!(user.add(node.address(), &format!("k{round}-{step}=v")), expected);
            }
        }
        node.kill();
    }
    let node = Cluster::embedded(&folder, &[]);
    for user in &mut users {
        assert_eq!(user.pairs(node.address()), expected);
    }
}

#[test]
fn forged_cookies_are_of_no_session() {
    let folder = tempfile::tempdir().unwrap();
    let node = Cluster::embedded(&folder, &[]);
    let mut user = User::default();
    user.add(node.address(), "secret=1");
    let cookie = user.session().to_owned();
    let mut changed = cookie.clone().into_bytes();
    changed[3] = if changed[3] == b'A' { b'B' } else { b'A' };
    let changed = String::from_utf8(changed).unwrap();
    let unsigned = format!("{}{}.n1", "A".repeat(43), "A".repeat(22));
    for forged in [&cookie[..cookie.len() - 4], &cookie[..20], "", "x", &cookie.repeat(40), &changed, &unsigned] {
        let mut stranger = User::with_session(forged);
        assert_eq!(stranger.pairs(node.address()), "", "{forged}");
        assert_eq!(stranger.add(node.address(), "own=2"), "own=2\n", "{forged}");
        assert!(stranger.session() != forged && stranger.session() != cookie);
    }
    assert_eq!(user.pairs(node.address()), "secret=1\n");
}

#[test]
fn too_large_values_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let node = Cluster::embedded(&folder, &[]);
    let mut user = User::default();
    user.add(node.address(), "a=1");
    for size in [1_000_000, 1 << 20, 4 << 20] {
        let large = format!("name=b&value={}", "x".repeat(size));
        assert_eq!(user.send(node.address(), "POST", "/session", &large).status, 413, "{size}");
        assert_eq!(User::default().send(node.address(), "POST", "/session", &large).status, 413, "{size}");
    }
    for wrong in ["name=a%0Ab&value=1", "name=a%3Db&value=1", "name=a&value=1%0Ab=2"] {
        assert_eq!(user.send(node.address(), "GET", &format!("/session?{wrong}"), "").status, 400, "{wrong}");
    }
    assert_eq!(user.pairs(node.address()), "a=1\n");
}

/// Through the node that has the session, and through another one. Encoded, a character may have three bytes.
#[test]
fn a_value_may_have_a_megabyte() {
    let folder = tempfile::tempdir().unwrap();
    let engine = format!("embedded:{}", folder.path().display());
    let cluster = Cluster::start(&["--engine", &engine, "--durability", "quorum", "--max-session", "1047552"], 2);
    let [owner, other] = &cluster.nodes[..] else { panic!() };
    let mut user = User::default();
    assert_eq!(user.add(owner.address, "a=1"), "a=1\n");
    for (to, character, encoded) in [(other, "x", "x"), (owner, "y", "%79"), (other, "z", "%7A")] {
        let form = format!("name=b&value={}", encoded.repeat(1_000_000));
        let expected = format!("a=1\nb={}\n", character.repeat(1_000_000));
        assert!(text(&user.send(to.address, "POST", "/session", &form)) == expected, "{encoded}");
        for node in &cluster.nodes {
            assert!(user.pairs(node.address) == expected, "{encoded}");
        }
    }
    cluster.end();
}

#[test]
fn login_renews_and_logout_ends() {
    let folder = tempfile::tempdir().unwrap();
    let node = Cluster::embedded(&folder, &[]);
    let mut user = User::default();
    user.add(node.address(), "a=1");
    let before = user.session().to_owned();
    assert_eq!(text(&user.send(node.address(), "POST", "/login", "")), "a=1\n");
    assert_ne!(user.session(), before);
    assert_eq!(user.pairs(node.address()), "a=1\n");
    assert_eq!(User::with_session(&before).pairs(node.address()), "", "the id from before the login");
    let mut after = user.clone();
    assert_eq!(user.send(node.address(), "POST", "/logout", "").status, 204);
    assert!(!user.cookies.iter().any(|(name, _)| name == "session"));
    assert_eq!(after.pairs(node.address()), "");
}

#[test]
fn documents_are_transformed() {
    let folder = tempfile::tempdir().unwrap();
    let documents = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/session-cluster/xsl");
    let node = Cluster::embedded(&folder, &["--xsl", documents]);
    let mut user = User::default();
    assert_eq!(user.send(node.address(), "GET", "/xsl", "").status, 409);
    assert_eq!(user.send(node.address(), "GET", "/xsl?xml=elements.xml&xsl=elements.xsl", "").status, 204);
    assert!(text(&user.send(node.address(), "GET", "/xsl", "")).contains("<html"));
    assert_eq!(user.pairs(node.address()), "xml=elements.xml\nxsl=elements.xsl\n");
    assert_eq!(user.send(node.address(), "GET", "/xsl?xml=../README.md&xsl=elements.xsl", "").status, 204);
    assert_eq!(user.send(node.address(), "GET", "/xsl", "").status, 403);
}

#[test]
fn several_nodes_in_a_process_share_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let engine = format!("embedded:{}", folder.path().display());
    for route in ["forward", "pull"] {
        let cluster = Cluster::start(&["--engine", &engine, "--durability", "quorum", "--route", route], 4);
        let mut users = vec![(User::default(), String::new()); 6];
        for (user, expected) in &mut users {
            add_everywhere(&cluster, user, expected, 11);
        }
        let counts = metrics(cluster.site.admin.unwrap());
        let owned = (1..=4).map(|node| counts[&format!("breme_session_owned{{node=\"n{node}\"}}")]);
        assert_eq!(owned.sum::<f64>(), 6.0, "each has one owner");
        cluster.end();
        let cluster = Cluster::start(&["--engine", &engine, "--durability", "quorum"], 2);
        for (user, expected) in &mut users {
            add_everywhere(&cluster, user, expected, 3);
        }
        cluster.end();
    }
}

#[test]
fn clients_are_accepted_when_all_nodes_have_joined() {
    let servers = NatsServers::start();
    let cluster = Cluster::start(&["--engine", &servers.addresses()], 3);
    for node in &cluster.nodes {
        assert_eq!(get(node.admin.unwrap(), "/ready").status, 200);
    }
    cluster.end();
}

/// Other processes have the names of its nodes at first.
#[test]
fn a_cluster_is_not_ready_until_its_nodes_have_joined() {
    let servers = NatsServers::start();
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "a secret of this test that is long enough\n").unwrap();
    let (engine, secret) = (servers.addresses(), secret.display().to_string());
    let shared = ["--engine", &engine, "--cookie-key-file", &secret];
    let others = ["n1", "n2"].map(|name| {
        let node = Cluster::start(&[&shared[..], &["--peer-secret-file", &secret, "--name", name]].concat(), 0);
        wait_until("a node has not joined", || get(node.site.admin.unwrap(), "/ready").status == 200);
        node
    });
    let admin = reserved_address();
    let mut command = breme();
    command.args(["session", "--nodes", "2", "--listen", "127.0.0.1:0", "--admin", &admin.to_string()]).args(shared);
    std::thread::scope(|scope| {
        let cluster = scope.spawn(|| Site::from_command(command, Stdio::inherit()));
        wait_accepting("the cluster's admin server", admin);
        let refused = get(admin, "/ready");
        assert_eq!((refused.status, &*refused.content), (503, &b"starting\n"[..]));
        others.into_iter().for_each(Cluster::end);
        let _cluster = cluster.join().unwrap();
        wait_until("the cluster does not become ready", || get(admin, "/ready").status == 200);
    });
}

#[test]
fn a_killed_owner_takes_no_pair_with_it() {
    let servers = NatsServers::start();
    let cluster = Cluster::start(&["--engine", &servers.addresses(), "--route", "forward"], 4);
    let mut users = vec![(User::default(), String::new()); 8];
    for (user, expected) in &mut users {
        add_everywhere(&cluster, user, expected, 6);
    }
    for victim in 0..2 {
        cluster.nodes[victim].signal(Signal::KILL);
        let other = cluster.nodes[3].address;
        for (user, expected) in &mut users {
            assert_eq!(user.pairs(other), *expected, "without the owner");
        }
        wait_until("the killed node is not started again", || {
            std::net::TcpStream::connect(cluster.nodes[victim].address).is_ok()
        });
        for (user, expected) in &mut users {
            add_everywhere(&cluster, user, expected, 6);
        }
    }
    assert_eq!(metrics(cluster.site.admin.unwrap())["breme_session_node_ends_total"], 2.0);
    cluster.end();
}

/// The remaining servers have no majority: nothing can be stored, and data in memory may be stale.
#[test]
fn without_its_engine_a_node_refuses_and_recovers() {
    let mut servers = NatsServers::start();
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    std::fs::write(&keys, "a secret of this test that is long enough\n").unwrap();
    let keys = keys.display().to_string();
    let arguments =
        ["--engine", &servers.addresses(), "--cookie-key-file", &keys, "--peer-secret-file", &keys, "--wait", "10s"];
    let cluster = Cluster::start(&arguments, 0);
    let mut user = User::default();
    user.add(cluster.address(), "a=1");
    servers.kill(0);
    servers.kill(1);
    let answer = user.send(cluster.address(), "GET", "/session?name=b&value=2", "");
    assert_eq!(answer.status, 503);
    assert!(answer.field("retry-after").is_some());
    let ready = || get(cluster.site.admin.unwrap(), "/ready").status;
    wait_until("the node seems ready without its engine", || ready() == 503);
    servers.start_again(0);
    servers.start_again(1);
    wait_until("the node does not become ready again", || ready() == 200);
    // The unacknowledged pair may have been stored.
    let held = until_served(&mut user, cluster.address(), "/session");
    assert!(["a=1\n", "a=1\nb=2\n"].contains(&held.as_str()), "{held}");
    let added = until_served(&mut user, cluster.address(), "/session?name=c&value=3");
    assert_eq!(added, format!("{held}c=3\n"));
}

/// The nodes read the flags from a temporary file, but find the key where the command was started.
#[test]
fn relative_paths_are_those_of_the_command() {
    let servers = NatsServers::start();
    let [folder, temporary] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let start = || {
        let mut command = breme();
        command.current_dir(folder.path()).env("TMPDIR", temporary.path());
        Cluster::start_with(
            command,
            &["--nodes", "2", "--engine", &servers.addresses(), "--cookie-key-file", "keys"],
            2,
        )
    };
    let mut user = User::default();
    let cluster = start();
    assert_eq!(user.add(cluster.address(), "a=1"), "a=1\n");
    let only_configuration = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().file_name().to_string_lossy().starts_with("breme-session-")
    };
    assert!(std::fs::read_dir(temporary.path()).unwrap().all(only_configuration), "no key is created there");
    let ready = || get(cluster.site.admin.unwrap(), "/ready").status;
    wait_until("the cluster does not become ready", || ready() == 200);
    cluster.end();
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
    let cluster = start();
    assert_eq!(until_served(&mut user, cluster.address(), "/session"), "a=1\n", "the same key signs");
    cluster.end();
}

#[test]
fn a_form_in_a_get_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let node = Cluster::embedded(&folder, &[]);
    let mut user = User::default();
    user.add(node.address(), "a=1");
    assert_eq!(text(&user.send(node.address(), "GET", "/session", "name=b&value=2")), "a=1\n");
}

#[test]
fn wrong_flags_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str]| {
        let mut command = breme();
        let output = command.arg("session").args(arguments).current_dir(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is written");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let nats = ["--engine", "nats://127.0.0.1:1"];
    assert!(refused(&nats).contains("--cookie-key-file FILE is missing"));
    assert!(refused(&["--engine", "sessions"]).contains("write embedded:DIR or nats://HOST:PORT"));
    assert!(refused(&["--nodes", "2", "--node-listen", "127.0.0.1:0"]).contains("1 addresses for 2 nodes"));
    assert!(refused(&["--peer-listen", "127.0.0.1:0"]).contains("an engine that nodes can share"));
    assert!(refused(&["--name", "a.b"]).contains("ASCII letters"));
    assert!(refused(&["--max-session", "2MiB"]).contains("--max-session: must be at most 1,047,552 bytes"));
    assert!(refused(&["--memory", "1KiB"]).contains("--memory: must be at least --max-session"));
    let endless = ["--idle", "100000000000h", "--absolute", "100000000000h"];
    assert!(refused(&endless).contains("--idle: must be at most 3,650 days"));
    let anywhere = refused(&[&nats[..], &["--peer-listen", ":8090"]].concat());
    assert!(anywhere.contains("add --peer-address HOST:PORT"), "{anywhere}");
    assert!(refused(&["--lease", "1ms"]).contains("--lease 1ms: must be at least 100ms"));
}
