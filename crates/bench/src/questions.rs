//! The questions, as one table: what is measured, ours, the rivals, and the goals.
//!
//! `cargo xtask bench` asks each about ours and the rivals with a goal; `cargo xtask peers` about all, and about ours
//! twice.

use crate::generators::{Generator, Load, Pattern};
use crate::servers::{Kind, OBJECT_BYTES, Store, Subject};

/// What a question compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// CPU time of the server for each unit of work.
    ServerCpu,
    /// CPU time of the generator for each unit of work.
    GeneratorCpu,
    /// Memory of the server for each idle connection.
    ServerMemory,
    /// Memory of the generator for each busy connection.
    GeneratorMemory,
    /// Memory of a cache per stored object, beyond the object's own bytes.
    ObjectMemory {
        /// Number of objects in the cache.
        objects: u64,
    },
    /// Percentage of requests that a cache forwards.
    Misses {
        /// Number of objects, requested by Zipf's law with [`ZIPF_EXPONENT`].
        objects: u64,
    },
}

/// As the popularity of pages is: the second half as often as the first.
pub(crate) const ZIPF_EXPONENT: f64 = 0.9;

/// A server, the request and the generator.
#[derive(Clone, Debug)]
pub(crate) struct Arm {
    pub(crate) label: &'static str,
    pub(crate) subject: Subject,
    pub(crate) path: &'static str,
    /// Required length of every response body.
    pub(crate) bytes: usize,
    pub(crate) load: Load,
}

/// A peer that ours is compared with.
#[derive(Clone, Debug)]
pub(crate) struct Rival {
    pub(crate) arm: Arm,
    /// Upper limit of ours ÷ this.
    pub(crate) goal: Option<f64>,
}

/// Ours against its rivals at one task.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// Description of the measurement, in a sentence or two.
    pub(crate) setting: &'static str,
    pub(crate) measure: Measure,
    /// The unit of work.
    pub(crate) unit: &'static str,
    pub(crate) ours: Arm,
    pub(crate) rivals: Vec<Rival>,
    /// Whether the rivals are other projects' programs, so that one side wins.
    pub(crate) is_contest: bool,
}

impl Question {
    pub(crate) fn arms(&self) -> impl Iterator<Item = &Arm> {
        std::iter::once(&self.ours).chain(self.rivals.iter().map(|rival| &rival.arm))
    }

    pub(crate) fn needs_tls(&self) -> bool {
        self.arms().any(|arm| arm.subject.tls)
    }

    pub(crate) fn needs_proxy(&self) -> bool {
        self.arms().any(|arm| matches!(arm.subject.kind, Kind::BremeProxy(_)))
    }

    /// Blocks take minutes, so that there are few of them, without ours a second time. What is counted hardly differs
    /// from one to the next.
    pub(crate) const fn is_long(&self) -> bool {
        matches!(self.measure, Measure::Misses { .. })
    }

    pub(crate) fn needs_rate(&self) -> bool {
        self.arms().any(|arm| arm.load.half_of_capacity)
    }
}

const CONNECTIONS: usize = 100;
const MANY_CONNECTIONS: usize = 10_000;

const THIRTEEN: Target = Target { path: "/bytes/13", bytes: 13 };
const ONE_KB: Target = Target { path: "/1k.html", bytes: 1_000 };
const TEN_KB: Target = Target { path: "/10k.html", bytes: 10_000 };
/// The fixed answer, under many URLs.
const THIRTEEN_OF_MANY: Pattern = Pattern { front: "/bytes/13?item=", end: "" };
/// Files of 1 kB.
const ONE_KB_OF_MANY: Pattern = Pattern { front: "/many/", end: ".html" };
const OBJECT: Target = Target { path: "/objects/", bytes: OBJECT_BYTES };

/// More than any question needs.
const ROOMY: Store = Store::Mebibytes(1_024);
/// Half of the bytes of 1,000,000 objects, with all overhead.
const HALF: Store = Store::InAll(500);

#[derive(Clone, Copy)]
struct Target {
    path: &'static str,
    bytes: usize,
}

/// Appends the note on identical requests to a setting.
macro_rules! equal_requests {
    ($setting:literal) => {
        concat!(
            $setting,
            " All requests are identical, and breme has a shortcut for a request header identical to a recent one; the same question with varied requests is closer to real traffic."
        )
    };
}

/// Appends the note on varied requests to a setting.
macro_rules! varied_requests {
    ($setting:literal) => {
        concat!(
            $setting,
            " Varied requests: the fields of eight browsers, a different cookie in each of 65,536 headers and 10,000 URLs, so that no shortcut for repeated headers applies."
        )
    };
}

/// Every question.
pub(crate) fn all() -> Vec<Question> {
    let mut all = of_the_generator();
    all.extend(of_the_server());
    all.extend(of_the_server_varied());
    all.extend(of_tls());
    all.extend(of_memory());
    all.extend(of_the_proxy());
    all.extend(of_the_cache());
    all.extend(of_proxies_varied());
    all
}

fn of_the_generator() -> Vec<Question> {
    let keep_alive = |name, title, setting, server, goal| {
        let arm = |label, generator| arm(label, server, THIRTEEN, load(generator));
        Question {
            name,
            title,
            setting,
            measure: Measure::GeneratorCpu,
            unit: "request",
            ours: arm("`breme load`", Generator::Breme),
            rivals: other_generators(arm, goal),
            is_contest: true,
        }
    };
    let pipelined = |name, title, setting, server, goal| {
        let arm = |label, generator| arm(label, server, THIRTEEN, Load { pipeline: 16, ..load(generator) });
        Question {
            name,
            title,
            setting,
            measure: Measure::GeneratorCpu,
            unit: "request",
            ours: arm("`breme load -p 16`", Generator::Breme),
            rivals: vec![rival(arm("`h2load --h1 -m16`", Generator::H2load), goal)],
            is_contest: true,
        }
    };
    let closed = arm("`breme load`, closed loop", Kind::Nginx, THIRTEEN, load(Generator::Breme));
    let half = Load { half_of_capacity: true, ..load(Generator::Breme) };
    vec![
        keep_alive(
            "load",
            "Generators on nginx: keep-alive GET of 13 bytes",
            "All on nginx `return 200`, 100 connections. `breme load` has a shortcut for a response header identical to the previous one; nginx's header changes once a second, with its date.",
            Kind::Nginx,
            Some(0.75),
        ),
        keep_alive(
            "load-site",
            "Generators on breme site: keep-alive GET of 13 bytes",
            "The same on `breme site /bytes/13`.",
            Kind::BremeSite,
            None,
        ),
        pipelined(
            "load-pipelined",
            "Generators on nginx: 16 requests outstanding",
            "100 connections with 16 requests outstanding on each. nginx answers them one at a time, so nginx is the bottleneck and the generators wait. wrk and ab cannot pipeline without a script.",
            Kind::Nginx,
            Some(0.5),
        ),
        pipelined(
            "load-pipelined-site",
            "Generators on breme site: 16 requests outstanding",
            "The same on `breme site`, which answers a batch with one write, so that the generator is the bottleneck.",
            Kind::BremeSite,
            Some(0.5),
        ),
        Question {
            name: "load-rate",
            title: "The cost of an open loop",
            setting: "`breme load -R` with 100 connections, at half the rate that the closed loop has just reached on the same nginx.",
            measure: Measure::GeneratorCpu,
            unit: "request",
            ours: Arm { label: "`breme load -R`, half of capacity", load: half, ..closed.clone() },
            rivals: vec![rival(closed, Some(1.5))],
            is_contest: false,
        },
    ]
}

fn of_the_server() -> Vec<Question> {
    let question = |name, title, setting, target, load, goal| {
        let (nginx, others) = if target_is_fixed(target) {
            ("nginx, `return 200`", ["lighttpd, a file", "Apache, a file"])
        } else {
            ("nginx", ["lighttpd", "Apache"])
        };
        Question {
            name,
            title,
            setting,
            measure: Measure::ServerCpu,
            unit: "request",
            ours: arm("`breme site`", Kind::BremeSite, target, load),
            rivals: vec![
                rival(arm(nginx, Kind::Nginx, target, load), Some(goal)),
                rival(arm(others[0], Kind::Lighttpd, target, load), None),
                rival(arm(others[1], Kind::Apache, target, load), None),
            ],
            is_contest: true,
        }
    };
    let wrk = load(Generator::Wrk);
    let pipelined = Load { pipeline: 16, ..load(Generator::H2load) };
    vec![
        question(
            "site-13",
            "Servers: a fixed response of 13 bytes",
            equal_requests!(
                "wrk, 100 connections, keep-alive. lighttpd and Apache need a module for a fixed response; they serve a file of 13 bytes."
            ),
            THIRTEEN,
            wrk,
            0.85,
        ),
        question(
            "site-1k",
            "Servers: a file of 1 kB",
            equal_requests!("wrk, 100 connections, keep-alive."),
            ONE_KB,
            wrk,
            0.55,
        ),
        question(
            "site-10k",
            "Servers: a file of 10 kB",
            equal_requests!("wrk, 100 connections, keep-alive."),
            TEN_KB,
            wrk,
            0.7,
        ),
        question(
            "site-pipelined",
            "Servers: 16 requests outstanding",
            equal_requests!("h2load, 100 connections with 16 requests for the 13 bytes outstanding on each."),
            THIRTEEN,
            pipelined,
            0.1,
        ),
    ]
}

fn varied(pattern: Pattern) -> Load {
    Load { varied: Some(pattern), ..load(Generator::Wrk) }
}

fn of_the_server_varied() -> Vec<Question> {
    let question = |name, title, setting, nginx, target, pattern, goal| Question {
        name,
        title,
        setting,
        measure: Measure::ServerCpu,
        unit: "request",
        ours: arm("`breme site`", Kind::BremeSite, target, varied(pattern)),
        rivals: vec![rival(arm(nginx, Kind::Nginx, target, varied(pattern)), goal)],
        is_contest: true,
    };
    vec![
        question(
            "site-13-varied",
            "Servers: a fixed response of 13 bytes, varied requests",
            varied_requests!("wrk with a script, 100 connections, keep-alive."),
            "nginx, `return 200`",
            THIRTEEN,
            THIRTEEN_OF_MANY,
            Some(0.85),
        ),
        question(
            "site-1k-varied",
            "Servers: 10,000 files of 1 kB, varied requests",
            varied_requests!("wrk with a script, 100 connections, keep-alive; nginx keeps all files open."),
            "nginx",
            ONE_KB,
            ONE_KB_OF_MANY,
            None,
        ),
    ]
}

fn of_proxies_varied() -> Vec<Question> {
    let ask = |label, kind| arm(label, kind, THIRTEEN, varied(THIRTEEN_OF_MANY));
    let question = |name, title, setting, store, nginx, other: (&'static str, Kind), goal| Question {
        name,
        title,
        setting,
        measure: Measure::ServerCpu,
        unit: "request",
        ours: ask("`breme proxy`", Kind::BremeProxy(store)),
        rivals: vec![rival(ask(nginx, Kind::NginxProxy(store)), Some(goal)), rival(ask(other.0, other.1), None)],
        is_contest: true,
    };
    vec![
        question(
            "proxy-13-varied",
            "Proxies: relaying 13 bytes, varied requests",
            varied_requests!("As `proxy-13`, but wrk has a script."),
            Store::Nothing,
            "nginx",
            ("HAProxy", Kind::Haproxy),
            0.75,
        ),
        question(
            "cache-13-varied",
            "Caches: a hit of 13 bytes, varied requests",
            varied_requests!(
                "As `cache-13`, but wrk has a script, and all 10,000 URLs are in the cache. nginx keeps all their files open; Varnish is configured to ignore cookies."
            ),
            ROOMY,
            "nginx, proxy_cache",
            ("Varnish", Kind::Varnish(ROOMY)),
            0.45,
        ),
    ]
}

fn of_tls() -> Vec<Question> {
    let question = |name, title, setting, unit, target: Target, load, goal| {
        let arm = |label, kind| Arm { subject: Subject { kind, tls: true }, ..arm(label, kind, target, load) };
        Question {
            name,
            title,
            setting,
            measure: Measure::ServerCpu,
            unit,
            ours: arm("`breme site`, rustls", Kind::BremeSite),
            rivals: vec![
                rival(arm("nginx, OpenSSL", Kind::Nginx), Some(goal)),
                rival(arm("lighttpd, OpenSSL", Kind::Lighttpd), None),
                rival(arm("Apache, OpenSSL", Kind::Apache), None),
            ],
            is_contest: true,
        }
    };
    vec![
        question(
            "tls-1k",
            "Servers: TLS 1.3, a file of 1 kB",
            "wrk, 100 connections, keep-alive. The 100 initial handshakes are included: about 1 % of the time. Certificate: ECDSA P-256.",
            "request",
            ONE_KB,
            load(Generator::Wrk),
            0.8,
        ),
        of_the_generator_over_tls(),
        question(
            "tls-handshakes",
            "Servers: full TLS 1.3 handshakes",
            "`ab -f TLS1.3` without keep-alive, 100 at a time: each time a new connection, a full handshake (X25519, ECDSA P-256, no resumption), a request for 13 bytes and the close. Handshakes per CPU second are 1,000,000 ÷ the CPU time of one in µs; twice as many correspond to a ratio of 0.5.",
            "handshake",
            THIRTEEN,
            Load { keep_alive: false, ..load(Generator::Ab) },
            1.0,
        ),
    ]
}

fn of_the_generator_over_tls() -> Question {
    let nginx = Subject { kind: Kind::Nginx, tls: true };
    let arm = |label, generator| Arm { subject: nginx, ..arm(label, Kind::Nginx, THIRTEEN, load(generator)) };
    Question {
        name: "load-tls",
        title: "Generators on nginx: TLS 1.3, keep-alive GET of 13 bytes",
        setting: "All on nginx `return 200` with OpenSSL, 100 connections; no generator verifies the certificate (ECDSA P-256). wrk, h2load and \
                  ab use OpenSSL, `breme load` rustls. The 100 initial handshakes are included.",
        measure: Measure::GeneratorCpu,
        unit: "request",
        ours: arm("`breme load`, rustls", Generator::Breme),
        rivals: other_generators(arm, Some(1.0)),
        is_contest: true,
    }
}

fn of_memory() -> Vec<Question> {
    let many = |generator| Load { connections: MANY_CONNECTIONS, ..load(generator) };
    let waiting = |label, kind| arm(label, kind, THIRTEEN, many(Generator::Wrk));
    let loading = |label, generator| arm(label, Kind::Nginx, THIRTEEN, many(generator));
    vec![
        Question {
            name: "idle-memory",
            title: "Servers: memory of an idle connection",
            setting: "10,000 connections (or as many as the descriptor limit allows), each served once and then kept open. The figure is the growth of the server's memory (proportional set size); the kernel's memory for a socket is not included. nginx allocates its table of connections at the start (`worker_connections`, here as large as necessary), so that the table is part of its total, but not of its growth.",
            measure: Measure::ServerMemory,
            unit: "connection",
            ours: waiting("`breme site`", Kind::BremeSite),
            rivals: vec![
                rival(waiting("nginx", Kind::Nginx), Some(1.0)),
                rival(waiting("lighttpd", Kind::Lighttpd), None),
                rival(waiting("Apache", Kind::Apache), None),
            ],
            is_contest: true,
        },
        Question {
            name: "load-memory",
            title: "Generators: memory of a connection",
            setting: "10,000 busy connections to nginx (or as many as the descriptor limit allows). The figure is the generator's peak memory, everything besides the connections included. A longer run shows whether it grows with time: \
                      `cargo xtask bench --seconds 60 load-memory`.",
            measure: Measure::GeneratorMemory,
            unit: "connection",
            ours: loading("`breme load`", Generator::Breme),
            rivals: other_generators(loading, None),
            is_contest: true,
        },
    ]
}

fn of_the_proxy() -> Vec<Question> {
    let relay = |name, title, target, haproxy| Question {
        name,
        title,
        setting: equal_requests!(
            "wrk, 100 connections, keep-alive. The origin of each proxy is `breme site`, the cheapest server here, on the generator's processor, so that the proxy is the bottleneck as far as possible; connections to the origin are kept open."
        ),
        measure: Measure::ServerCpu,
        unit: "request",
        ours: arm("`breme proxy`", Kind::BremeProxy(Store::Nothing), target, load(Generator::Wrk)),
        rivals: vec![
            rival(arm("nginx", Kind::NginxProxy(Store::Nothing), target, load(Generator::Wrk)), Some(0.7)),
            rival(arm("HAProxy", Kind::Haproxy, target, load(Generator::Wrk)), Some(haproxy)),
        ],
        is_contest: true,
    };
    let waiting = |label, kind| {
        let many = Load { connections: MANY_CONNECTIONS, ..load(Generator::Wrk) };
        arm(label, kind, THIRTEEN, many)
    };
    vec![
        relay("proxy-13", "Proxies: relaying 13 bytes", THIRTEEN, 0.7),
        relay("proxy-10k", "Proxies: relaying 10 kB", TEN_KB, 0.8),
        Question {
            name: "proxy-idle-memory",
            title: "Proxies: memory of an idle connection",
            setting: "10,000 client connections (or as many as the descriptor limit allows), each served once through the proxy and then kept open. The figure is the growth of the proxy's memory (proportional set size).",
            measure: Measure::ServerMemory,
            unit: "connection",
            ours: waiting("`breme proxy`", Kind::BremeProxy(Store::Nothing)),
            rivals: vec![
                rival(waiting("HAProxy", Kind::Haproxy), Some(1.0)),
                rival(waiting("nginx", Kind::NginxProxy(Store::Nothing)), None),
            ],
            is_contest: true,
        },
    ]
}

fn of_the_cache() -> Vec<Question> {
    let hit = |name, title, target, nginx, varnish| Question {
        name,
        title,
        setting: equal_requests!(
            "wrk, 100 connections, keep-alive. The origin is stopped before the load begins, so that every response comes from the cache. nginx stores responses in files, which are in the kernel's page cache; the others store them in their own memory."
        ),
        measure: Measure::ServerCpu,
        unit: "request",
        ours: arm("`breme proxy`", Kind::BremeProxy(ROOMY), target, load(Generator::Wrk)),
        rivals: vec![
            rival(arm("nginx, proxy_cache", Kind::NginxProxy(ROOMY), target, load(Generator::Wrk)), Some(nginx)),
            rival(arm("Varnish", Kind::Varnish(ROOMY), target, load(Generator::Wrk)), Some(varnish)),
        ],
        is_contest: true,
    };
    let keeping = |label, kind| arm(label, kind, OBJECT, load(Generator::Breme));
    vec![
        hit("cache-13", "Caches: a hit of 13 bytes", THIRTEEN, 0.4, 0.3),
        hit("cache-10k", "Caches: a hit of 10 kB", TEN_KB, 0.6, 0.4),
        Question {
            name: "cache-memory",
            title: "Caches: memory of an object of 1 kB, beyond its bytes",
            setting: "100,000 objects of 1,000 bytes are requested once. The figure is the growth of the proxy's memory (proportional set size) minus those bytes. Then the origin is stopped and every object is requested again: each must be in the cache.",
            measure: Measure::ObjectMemory { objects: 100_000 },
            unit: "object",
            ours: keeping("`breme proxy`", Kind::BremeProxy(ROOMY)),
            rivals: vec![rival(keeping("Varnish", Kind::Varnish(ROOMY)), Some(0.5))],
            is_contest: true,
        },
        Question {
            name: "cache-misses",
            title: "Caches: misses among 1,000,000 objects, with memory for half of them",
            setting: "Objects of 1,000 bytes, requested by Zipf's law with exponent 0.9, the same sequence for each cache; 2,000,000 requests fill the cache, and the next 1,000,000 count. Each cache has the limit at which its processes use 500 MB, half of all bytes: with an equal limit Varnish would use over 50 % more memory, since its limit does not cover all that it allocates. The table shows the memory in use. Fewer misses mean a higher hit ratio.",
            measure: Measure::Misses { objects: 1_000_000 },
            unit: "request",
            ours: keeping("`breme proxy`", Kind::BremeProxy(HALF)),
            rivals: vec![rival(keeping("Varnish", Kind::Varnish(HALF)), Some(1.0))],
            is_contest: true,
        },
    ]
}

fn target_is_fixed(target: Target) -> bool {
    target.path == THIRTEEN.path
}

fn load(generator: Generator) -> Load {
    Load { generator, connections: CONNECTIONS, pipeline: 1, keep_alive: true, half_of_capacity: false, varied: None }
}

fn arm(label: &'static str, kind: Kind, target: Target, load: Load) -> Arm {
    let Target { path, bytes } = target;
    Arm { label, subject: Subject { kind, tls: false }, path, bytes, load }
}

/// The generators that are not ours; the goal is held against wrk.
fn other_generators(arm: impl Fn(&'static str, Generator) -> Arm, goal: Option<f64>) -> Vec<Rival> {
    vec![
        rival(arm("wrk", Generator::Wrk), goal),
        rival(arm("h2load", Generator::H2load), None),
        rival(arm("ab", Generator::Ab), None),
    ]
}

fn rival(arm: Arm, goal: Option<f64>) -> Rival {
    Rival { arm, goal }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn proxies_that_keep_answers_are_held_against_others_that_do() {
        for question in all() {
            let keeps: BTreeSet<bool> = question.arms().map(|arm| arm.subject.kind.keeps_answers()).collect();
            assert_eq!(keeps.len(), 1, "{}", question.name);
        }
    }

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = all().iter().map(|question| question.name).collect();
        assert_eq!(names.len(), all().len());
    }

    /// A comparison must differ in one thing only.
    #[test]
    fn the_other_side_is_the_same_for_all_arms() {
        for question in all() {
            for arm in question.arms() {
                assert_eq!((arm.path, arm.bytes), (question.ours.path, question.ours.bytes), "{}", question.name);
                let (ours, this) = (&question.ours, arm);
                match question.measure {
                    Measure::ServerCpu
                    | Measure::ServerMemory
                    | Measure::ObjectMemory { .. }
                    | Measure::Misses { .. } => assert_eq!(ours.load, this.load, "{}", question.name),
                    Measure::GeneratorCpu | Measure::GeneratorMemory => {
                        assert_eq!(ours.subject, this.subject, "{}", question.name);
                    }
                }
            }
        }
    }

    /// A count of misses or of bytes is the same whoever asks.
    #[test]
    fn servers_are_not_judged_by_our_generator() {
        let judged_by_us = |question: &Question| {
            matches!(question.measure, Measure::ServerCpu | Measure::ServerMemory)
                && question.ours.load.generator == Generator::Breme
        };
        assert!(!all().iter().any(judged_by_us));
    }
}
