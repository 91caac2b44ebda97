//! Authentication of nodes.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use breme_cluster::engine::{EmbeddedEngine, Engine};
use breme_cluster::node::Node;
use breme_cluster::peers::{PeerTls, Peers};
use breme_session::{Durability, Route, Settings};
use http::StatusCode;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use crate::client::{Client, tokens};
use crate::host::{Host, name, on_this_machine, settings};
use crate::several::Cluster;

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A node with a certificate of this authority, which trusts `other`.
    fn node(&self, years: Range<i32>, other: &Self) -> Peers {
        Peers::over_tls(self.tls(years, other))
    }

    fn tls(&self, years: Range<i32>, other: &Self) -> PeerTls {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.not_before = rcgen::date_time_ymd(years.start, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.end, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        PeerTls::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes(), other.pem.as_bytes()).unwrap()
    }
}

const VALID: Range<i32> = 2000..4000;
const EXPIRED: Range<i32> = 2000..2001;
const NOT_YET_VALID: Range<i32> = 3000..3001;

#[tokio::test]
async fn sessions_and_requests_go_over_tls() {
    let authority = Authority::new();
    for route in [Route::Pull, Route::Forward { pull_after: None }] {
        let cluster = Cluster::start(3, route, |_| authority.node(VALID, &authority)).await;
        let client = Client::new();
        client.send(cluster.hosts[0].address, "begin/0").await.unwrap();
        for round in 1..10 {
            let host = &cluster.hosts[round % 3];
            let response = client.send(host.address, &format!("append/{round}")).await.unwrap();
            assert_eq!(tokens(&response.body), (0..=round as u64).collect::<Vec<_>>());
        }
        let moved = cluster.hosts.iter().map(|host| host.node.statistics().taken + host.node.statistics().forwarded);
        assert!(moved.sum::<u64>() >= 6);
    }
}

/// A node that is not a member of the cluster gets no session and no request; the clients get a 503.
#[tokio::test]
async fn strangers_get_nothing() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let secret = |secret: &str| Peers::on_this_machine(secret.as_bytes()).unwrap();
    let strangers: [[Peers; 2]; 4] = [
        [ours.node(VALID, &ours), theirs.node(VALID, &ours)],
        [ours.node(VALID, &ours), ours.node(EXPIRED, &ours)],
        [theirs.node(VALID, &ours), ours.node(VALID, &ours)],
        [secret("the nodes' secret"), secret("another secret of nodes")],
    ];
    for [owner, stranger] in strangers {
        for route in [Route::Pull, Route::Forward { pull_after: None }] {
            let folder = tempfile::tempdir().unwrap();
            let engine: Arc<dyn Engine> = Arc::new(EmbeddedEngine::open(folder.path(), Durability::Quorum).unwrap());
            let settings = Settings { wait_max: Duration::from_millis(500), ..settings(route) };
            let owner = Host::start("owner", &engine, settings.clone(), owner.clone());
            let stranger = Host::start("stranger", &engine, settings, stranger.clone());
            for host in [&owner, &stranger] {
                host.node.joined().await;
            }
            let client = Client::new();
            client.send(owner.address, "begin/1").await.unwrap();
            let response = client.send(stranger.address, "append/2").await.unwrap();
            assert_eq!(response.status, StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(tokens(&client.send(owner.address, "read").await.unwrap().body), [1]);
        }
    }
}

/// Nodes that do not trust each other serve what they own; what needs both gets a 503 until the certificate is
/// replaced.
#[tokio::test]
async fn a_certificate_is_replaced_while_its_node_runs() {
    let authority = Authority::new();
    for (years, invalid) in [(EXPIRED, 0), (EXPIRED, 1), (NOT_YET_VALID, 0), (NOT_YET_VALID, 1)] {
        for route in [Route::Pull, Route::Forward { pull_after: None }] {
            let folder = tempfile::tempdir().unwrap();
            let engine: Arc<dyn Engine> = Arc::new(EmbeddedEngine::open(folder.path(), Durability::Quorum).unwrap());
            let years_of = |place| if place == invalid { years.clone() } else { VALID };
            let tls = [0, 1].map(|place| authority.tls(years_of(place), &authority));
            let settings = Settings { wait_max: Duration::from_millis(500), ..settings(route) };
            let start =
                |place: usize, name| Host::start(name, &engine, settings.clone(), Peers::over_tls(tls[place].clone()));
            let [owner, other] = [start(0, "owner"), start(1, "other")];
            let [client, client_of_other] = [(); 2].map(|()| Client::new());
            for (host, client) in [(&owner, &client), (&other, &client_of_other)] {
                host.node.joined().await;
                assert_eq!(tokens(&client.send(host.address, "begin/1").await.unwrap().body), [1]);
            }
            let refused = client.send(other.address, "append/2").await.unwrap();
            assert_eq!(
                (refused.status, refused.outcome.as_deref()),
                (StatusCode::SERVICE_UNAVAILABLE, Some("refused"))
            );
            for (host, client) in [(&owner, &client), (&other, &client_of_other)] {
                assert_eq!(tokens(&client.send(host.address, "read").await.unwrap().body), [1]);
            }

            tls[invalid].replace(&authority.tls(VALID, &authority));
            let shown = loop {
                let response = client.send(other.address, "read").await.unwrap();
                match response.status {
                    StatusCode::SERVICE_UNAVAILABLE => {}
                    _ => break response.body,
                }
            };
            assert_eq!(tokens(&shown), [1]);
        }
    }
}

/// A client that finds the address at which nodes listen for each other.
#[tokio::test]
async fn clients_are_no_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let engine: Arc<dyn Engine> = Arc::new(EmbeddedEngine::open(folder.path(), Durability::Quorum).unwrap());
    let host = Host::start("n1", &engine, settings(Route::Pull), on_this_machine());
    assert_eq!(Client::new().send(host.internal, "begin/1").await.unwrap().status, StatusCode::FORBIDDEN);
    assert_eq!(host.node.statistics().requests, 0);
}

#[tokio::test]
async fn nothing_goes_over_a_network_in_plain_text() {
    let folder = tempfile::tempdir().unwrap();
    let engine: Arc<dyn Engine> = Arc::new(EmbeddedEngine::open(folder.path(), Durability::Quorum).unwrap());
    let refused = |address: &str, peers| {
        Node::start(Settings::new(address), name("n1"), Arc::clone(&engine), peers).unwrap_err().to_string()
    };
    assert!(refused("192.0.2.1:7000", on_this_machine()).contains("in plain text: give the nodes certificates"));
    assert!(refused("127.0.0.1", on_this_machine()).contains("a port is missing"));
    assert!(refused("", on_this_machine()).contains("is no address of a node"));
    let authority = Authority::new();
    let over_tls = Node::start(
        Settings::new("192.0.2.1:7000"),
        name("n1"),
        Arc::clone(&engine),
        authority.node(VALID, &authority),
    );
    assert!(over_tls.is_ok());
    assert!(Peers::on_this_machine(b"short").unwrap_err().to_string().contains("at least 16"));
    assert!(PeerTls::from_pem(b"", b"", b"").err().unwrap().to_string().contains("is missing"));
}
