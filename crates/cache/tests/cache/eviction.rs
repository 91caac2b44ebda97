//! Hit rate of the store compared with an LRU of the same size, for Zipf-distributed requests.

use std::collections::{BTreeMap, HashMap};

use breme_base::Random;
use breme_cache::{CacheDecision, CacheSettings};

use crate::world::World;

const REQUESTS: usize = 60_000;
const CONTENT_BYTES: usize = 1_000;

/// Zipf distribution with exponent 0.9, by inversion.
struct Zipf {
    cumulated: Vec<f64>,
    random: Random,
}

impl Zipf {
    fn new(count: usize, seed: u64) -> Self {
        let mut sum = 0.0;
        let weigh = |rank: usize| {
            sum += 1.0 / ((rank + 1) as f64).powf(0.9);
            sum
        };
        Self { cumulated: (0..count).map(weigh).collect(), random: Random::new(seed) }
    }

    fn draw(&mut self) -> usize {
        let point = self.random.unit() * self.cumulated[self.cumulated.len() - 1];
        self.cumulated.partition_point(|&sum| sum <= point)
    }
}

/// The reference: least recently used.
#[derive(Default)]
struct Lru {
    used: HashMap<usize, u64>,
    order: BTreeMap<u64, usize>,
    clock: u64,
}

impl Lru {
    /// Returns whether it was present, and inserts it.
    fn use_(&mut self, object: usize, capacity: usize) -> bool {
        self.clock += 1;
        let before = self.used.insert(object, self.clock);
        if let Some(before) = before {
            self.order.remove(&before);
        }
        self.order.insert(self.clock, object);
        if self.used.len() > capacity
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.used.remove(&oldest);
        }
        before.is_some()
    }
}

/// The hits of the store, and its final number of objects.
fn store_hits(requests: &[usize], memory_bytes: u64) -> (usize, usize) {
    let mut world = World::with(CacheSettings::new(memory_bytes));
    let body = "x".repeat(CONTENT_BYTES);
    let mut hits = 0;
    for object in requests {
        match world.look_up(&format!("GET /{object:07}"), "") {
            CacheDecision::Respond(_) | CacheDecision::RespondAndRefresh(..) => hits += 1,
            CacheDecision::Forward(forward) => {
                drop(world.respond(forward, 200, "Cache-Control: max-age=100000", &body));
            }
            CacheDecision::Wait(_) | CacheDecision::NotCached => panic!("one at a time"),
        }
    }
    (hits, world.cache.statistics().objects as usize)
}

fn object_bytes() -> u64 {
    let mut world = World::new();
    world.fetch("GET /0000000", "", 200, "Cache-Control: max-age=100000", &"x".repeat(CONTENT_BYTES));
    world.cache.hottest(1, world.now.instant)[0].bytes
}

/// Objects of 1000 bytes, memory for half of them. `BREME_CACHE_REQUESTS=1000000` runs the size of the published
/// comparisons (in a release build).
#[test]
fn hit_rate_exceeds_lru() {
    let requests: usize =
        std::env::var("BREME_CACHE_REQUESTS").ok().and_then(|text| text.parse().ok()).unwrap_or(REQUESTS);
    let objects = requests / 5;
    let mut zipf = Zipf::new(objects, 1);
    let requests: Vec<usize> = (0..requests).map(|_| zipf.draw()).collect();
    let (hits, held) = store_hits(&requests, object_bytes() * objects as u64 / 2);
    assert!(held > objects / 2 * 9 / 10, "{held} objects of {objects} are held: the tables cost too much");
    let mut lru = Lru::default();
    let lru_hits = requests.iter().filter(|&&object| lru.use_(object, held)).count();
    let share = |hits: usize| hits as f64 / requests.len() as f64;
    eprintln!("{objects} objects, {held} held: the store hits {:.4}, an LRU {:.4}", share(hits), share(lru_hits));
    assert!(hits >= lru_hits, "the store hits {:.4}, an LRU {:.4}", share(hits), share(lru_hits));
}
