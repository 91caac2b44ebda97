//! The scenario of a seed: a workload, a site, limits, shards.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use breme_base::{Instant, Random, ThinkTime};
use breme_http::{Limits, Version};
use breme_load_plan::{Arrivals, Expectations, OpenLoop, Pace, Settings, Target};
use breme_origin::{FileCacheLimits, Settings as SiteSettings};
use bytes::Bytes;
use sha2::{Digest, Sha256};

/// The random stream of the scenario: the network has its own.
const STREAM: u64 = 77;

#[derive(Clone, Debug)]
pub struct Scenario {
    pub load: Settings,
    pub site: SiteSettings,
    pub client_shards: usize,
    pub server_shards: usize,
    /// The content of `/file`.
    pub file: Letters,
    /// The file is served from an open file, not from memory.
    pub file_is_open: bool,
    pub stop_at: Option<Instant>,
    /// When other clients wait for connections to the server.
    pub pressures: Vec<Range<Instant>>,
}

impl Scenario {
    /// Contents have at most `content_bytes_max` bytes.
    pub fn draw(seed: u64, content_bytes_max: u64) -> Self {
        let random = &mut Random::stream(seed, STREAM);
        let file = Letters::draw(random, content_bytes_max);
        let mut scenario = Self {
            load: load(random),
            site: site(random),
            client_shards: 1 + random.below(2) as usize,
            server_shards: 1 + random.below(3) as usize,
            file: file.clone(),
            file_is_open: random.chance(0.3),
            stop_at: None,
            pressures: Vec::new(),
        };
        choose_requests(&mut scenario.load, random, &file.0, content_bytes_max);
        if random.chance(0.4) {
            come_by_a_schedule(&mut scenario.load, random);
        }
        scenario
    }

    /// Ends also after this time, since requests without a response would be waited for.
    pub fn for_at_most(mut self, duration: Duration) -> Self {
        self.load.duration = Some(duration);
        self
    }

    /// Other clients temporarily wait for connections, and the clients are slow.
    pub fn under_pressure(mut self, seed: u64) -> Self {
        let random = &mut Random::stream(seed, STREAM + 2);
        let mut at = 0;
        for _ in 0..1 + random.below(6) {
            let begin = at + 1 + random.below(500_000_000);
            at = begin + 1 + random.below(500_000_000);
            self.pressures.push(Instant::from_nanos(begin)..Instant::from_nanos(at));
        }
        self.load.think = Some(ThinkTime::Uniform(Duration::ZERO, Duration::from_millis(random.below(600))));
        self.load.open_loop = None;
        self
    }

    /// The server is stopped at an instant of the run.
    pub fn stopped_within(mut self, seed: u64) -> Self {
        let at = Random::stream(seed, STREAM + 1).below(200_000_000);
        self.stop_at = Some(Instant::from_nanos(at));
        self
    }
}

fn load(random: &mut Random) -> Settings {
    let version = if random.chance(0.2) { Version::Http10 } else { Version::Http11 };
    let keep_alive = random.chance(0.8);
    let may_pipeline = keep_alive && version == Version::Http11;
    let think = |random: &mut Random| ThinkTime::Uniform(Duration::ZERO, Duration::from_micros(random.below(20_000)));
    Settings {
        connections: 1 + random.below(6) as usize,
        requests: Some(1 + random.below(60)),
        duration: None,
        pipeline_depth: if may_pipeline && random.chance(0.6) { 1 + random.below(16) as usize } else { 1 },
        version,
        keep_alive,
        think: random.chance(0.3).then(|| think(random)),
        ramp: Duration::from_micros(if random.chance(0.3) { random.below(50_000) } else { 0 }),
        // More than a slow direction can need: a time-out is a fault, and faults belong to the network.
        timeout: Duration::from_secs(3_600),
        cookies: random.chance(0.2),
        seed: random.next_u64(),
        ..Settings::new("http://origin.example/")
    }
}

/// An open loop, in which nothing is dropped during the run.
fn come_by_a_schedule(load: &mut Settings, random: &mut Random) {
    let arrivals = if random.chance(0.5) { Arrivals::Even } else { Arrivals::Poisson };
    let pace = Pace::constant(10.0 + random.below(5_000) as f64, arrivals);
    let places = (load.connections * load.pipeline_depth) as u64;
    let in_flight_max = random.chance(0.3).then(|| 1 + random.below(places));
    load.open_loop = Some(OpenLoop { in_flight_max, ..OpenLoop::new(pace) });
    load.think = None;
}

fn site(random: &mut Random) -> SiteSettings {
    let limits = Limits {
        requests_max: if random.chance(0.4) { 1 + random.below(8) } else { u64::MAX },
        pipeline_depth_max: 1 + random.below(20) as usize,
        http10_only: random.chance(0.1),
        ..Limits::default()
    };
    let files = FileCacheLimits {
        bytes_max: if random.chance(0.2) { 0 } else { 1 << 20 },
        file_bytes_max: random.below(40_000),
        revalidate_after: Duration::from_millis(random.below(50)),
        ..FileCacheLimits::default()
    };
    SiteSettings {
        lab: true,
        limits,
        files,
        echo_held_bytes_max: random.below(20_000) as usize,
        ..SiteSettings::default()
    }
}

/// One kind of request, and the checks of its responses.
fn choose_requests(load: &mut Settings, random: &mut Random, file: &Bytes, content_bytes_max: u64) {
    let url = |path: &str| vec![Target::url(&format!("http://origin.example{path}"))];
    let expect_file = Expectations { content_sha256: Some(Sha256::digest(file).into()), ..Expectations::default() };
    match random.below(6) {
        0 => (load.targets, load.expectations) = (url("/file"), expect_file),
        1 => {
            let length = random.below(content_bytes_max);
            load.targets = url(&format!("/bytes/{length}"));
            load.expectations.content_bytes = Some(length);
        }
        2 => {
            // POST returns the request's content.
            (load.targets, load.expectations) = (url("/"), expect_file);
            load.content = Some(file.to_vec());
        }
        3 => load.targets = url(&format!("/bytes/{{uniform:0:{content_bytes_max}}}")),
        4 => load.targets = url(&format!("/delay/{{uniform:0:{}}}", random.below(40))),
        _ => {
            load.targets = ["/status/204", "/bytes/7", "/file", "/echo"].into_iter().flat_map(url).collect();
            load.targets[1].method = Some("HEAD".to_owned());
            load.targets[3].method = Some("OPTIONS".to_owned());
        }
    }
}

/// Bytes without a brace, which would be a placeholder in a request's content. Its debug output is only the length.
#[derive(Clone)]
pub struct Letters(pub Bytes);

impl Letters {
    fn draw(random: &mut Random, length_max: u64) -> Self {
        let length = random.below(length_max);
        Self((0..length).map(|_| b'a' + random.below(26) as u8).collect())
    }
}

impl fmt::Debug for Letters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} letters", self.0.len())
    }
}
