//! Scripted clients and upstreams around a proxy, in virtual time.

pub mod driven;
mod meter;
mod names;
mod upstream;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use breme_balance::{Group, GroupSettings, UpstreamSettings};
use breme_base::{Instant, UnixSeconds, WallClock};
use breme_cache::Cache;
use breme_proxy::{HostRule, Identity, Mode, Parts, Proxy, ProxyCounts, Resolver, Settings};
use breme_sim::{Network, Simulation};
use breme_testkit::{Client, Script, Surroundings};
use bytes::Bytes;
use meter::Meter;
pub use names::Names;
pub use upstream::{Acts, ScriptedUpstream};

/// Sun, 06 Nov 1994 08:49:37 GMT.
pub const THEN: u64 = 784_111_777;
/// How long a client waits before the test fails.
const PATIENCE: Duration = Duration::from_secs(3600);

/// A reverse proxy that does not identify itself, so that its output is predictable.
pub fn silent() -> Settings {
    let identity = Identity { via: false, forwarded: false, x_forwarded: false, ..Identity::default() };
    Settings { identity, ..Settings::new(Mode::Reverse { host: HostRule::Keep }) }
}

/// A proxy, its clients and its upstreams, for one simulation.
pub struct Play {
    pub settings: Settings,
    pub group: GroupSettings,
    pub network: Network,
    pub seed: u64,
    /// For each upstream, the scripts of its connections, in the order of opening.
    pub upstreams: Vec<Vec<Acts>>,
    /// A further upstream without a listener, which is tried first.
    pub has_dead_upstream: bool,
    pub clients: Vec<Script>,
    /// Of a forward proxy: names with their addresses; those without addresses have that of the first upstream.
    pub names: Names,
    /// When other clients wait for connections to the proxy.
    pub pressure: Option<Range<Duration>>,
    /// When the proxy is stopped.
    pub stops_at: Option<Duration>,
    pub cache: Option<Arc<Cache>>,
}

/// The results.
pub struct Played {
    pub counts: ProxyCounts,
    /// The most that the proxy had sent on one connection, up to some time.
    pub sent_max: u64,
    /// Its upstreams.
    pub group: Option<Arc<Group>>,
}

impl Play {
    pub fn new(clients: Vec<Script>, upstream: Vec<Acts>) -> Self {
        Self {
            settings: silent(),
            group: GroupSettings::default(),
            network: Network::calm(),
            seed: 1,
            upstreams: vec![upstream],
            has_dead_upstream: false,
            clients,
            names: Names::default(),
            pressure: None,
            stops_at: None,
            cache: None,
        }
    }

    /// Runs the simulation. Deviations from the scripts fail the test.
    pub fn run(self) -> ProxyCounts {
        self.play(Duration::ZERO).counts
    }

    /// As [`run`](Self::run); also returns the most that the proxy had sent on one connection by `until`.
    pub fn run_until(self, until: Duration) -> (ProxyCounts, u64) {
        let Played { counts, sent_max, .. } = self.play(until);
        (counts, sent_max)
    }

    /// As [`run`](Self::run); also returns the balancer.
    pub fn run_balanced(self) -> (ProxyCounts, Arc<Group>) {
        let Played { counts, group, .. } = self.play(Duration::ZERO);
        (counts, group.unwrap())
    }

    fn play(self, until: Duration) -> Played {
        let mut simulation = Simulation::new(self.seed, self.network);
        let scripts = self.upstreams;
        let mut hosts = Vec::new();
        let mut list = Vec::new();
        if self.has_dead_upstream {
            let address = Simulation::nobody();
            list.push(upstream_at("dead.example:80", address));
        }
        for (index, acts) in scripts.into_iter().enumerate() {
            let host = simulation.serve(&format!("upstream {index}"), 1, |_| ScriptedUpstream::new(acts.clone()));
            list.push(upstream_at(&format!("up{index}.example:80"), simulation.address(host)));
            hosts.push(host);
        }
        let parts = Parts::new(self.settings, WallClock::starting_at(UnixSeconds(THEN)));
        let addresses = list.iter().flat_map(|upstream| upstream.addresses.clone()).collect();
        let resolver: Arc<dyn Resolver> = Arc::new(self.names.resolver(addresses));
        let group = Group::new(self.group, list).ok().map(Arc::new);
        let proxy =
            Proxy::new(Parts { group: group.clone(), resolver: Some(resolver), cache: self.cache, ..parts }).unwrap();
        let node = proxy.clone();
        let peak = Arc::new(AtomicU64::new(0));
        let server = simulation.serve("proxy", 1, |shard| {
            let until = Instant::ZERO + until;
            Meter { node: node.node(shard), until, peak: peak.clone(), sent: HashMap::new() }
        });
        let stopper = simulation.stopper(server);
        let surroundings = Surroundings {
            server: simulation.address(server).into(),
            nobody: Simulation::nobody(),
            stop_server: Arc::new(move || stopper.stop()),
        };
        if let Some(pressure) = self.pressure {
            simulation.pressure_at(server, Instant::ZERO + pressure.start, true);
            simulation.pressure_at(server, Instant::ZERO + pressure.end, false);
        }
        if let Some(at) = self.stops_at {
            simulation.stop_at(server, Instant::ZERO + at);
        }
        let clients = self.clients;
        let client = simulation.client("client", 1, |_| Client::new(&surroundings, PATIENCE, clients.clone()));
        simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
        assert_eq!(simulation.take(client)[0].failures(), [""; 0], "{}", simulation.trace());
        for host in hosts {
            assert_eq!(simulation.take(host)[0].failures(), [""; 0], "{}", simulation.trace());
        }
        let counts = proxy.counts();
        assert_eq!(counts.exchanges_open, 0, "{counts:?}");
        assert_eq!((counts.pool_idle, counts.pool_busy, counts.tunnels_open), (0, 0, 0), "{counts:?}");
        Played { counts, sent_max: peak.load(Ordering::Relaxed), group }
    }
}

/// An upstream of a group.
pub fn upstream_at(name: &str, address: SocketAddr) -> UpstreamSettings {
    UpstreamSettings { name: name.to_owned(), tls: false, addresses: vec![address], weight: 1, route: None }
}

/// Lines of a message, each with its line ending, and the empty line.
pub fn head(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\r\n")).collect::<String>() + "\r\n"
}

/// An error response of the proxy itself at 08:49:37, with further header lines.
pub fn error_response(status: u16, lines: &[&str], content: &str) -> String {
    let phrase = breme_http::reason_phrase(status);
    let status_line = format!("HTTP/1.1 {status} {phrase}");
    let length = format!("Content-Length: {}", content.len());
    let common = [
        status_line.as_str(),
        length.as_str(),
        "Date: Sun, 06 Nov 1994 08:49:37 GMT",
        "Content-Type: text/plain; charset=utf-8",
        "Cache-Control: no-store",
    ];
    head(&[&common[..], lines].concat()) + content
}

/// The error response if there is no response of an upstream.
pub fn failure(status: u16, error: &str, reason: &str) -> String {
    error_response(status, &[&format!("Proxy-Status: breme; error={error}")], &format!("Proxy error: {reason}.\n"))
}

/// The error response to a request that has passed the proxy before.
pub fn loop_detected() -> String {
    let reason = "the request has already passed through this proxy (forwarding loop)";
    failure(508, "proxy_loop_detected", reason)
}

/// A response of 08:49:37, generated this many seconds later.
pub fn later(seconds: u64, response: impl Into<String>) -> String {
    response.into().replace("08:49:37", &format!("08:49:{}", 37 + seconds))
}

/// Runs a simulation on a calm network, and on many that cut and delay the data anywhere.
pub fn on_all_networks(play: impl Fn() -> Play) {
    check_on_all_networks(play, drop);
}

/// As [`on_all_networks`]; `check` receives the counters.
pub fn check_on_all_networks(play: impl Fn() -> Play, check: impl Fn(ProxyCounts)) {
    check(play().run());
    for seed in 0..12 {
        for network in [Network::rough(), Network::bytewise()] {
            check(Play { seed, network, ..play() }.run());
        }
    }
}

/// Bytes that a script sends or expects.
pub fn text(text: impl Into<String>) -> Bytes {
    text.into().into()
}
