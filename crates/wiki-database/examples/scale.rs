//! Measures the SQLite database with many pages: prints the table of docs/WIKI.md, section "Scale".
//!
//! ```text
//! cargo run --release -p breme-wiki-database --example scale -- FOLDER [PAGES …]
//! ```
//!
//! In FOLDER it creates one database for each number of pages (1000 and 1,000,000 by default), and removes it at the
//! end; a million pages of 5 kB need about 7 GB. Texts, names and queries come from a fixed seed.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use breme_wiki_database::Database;
use breme_wiki_database::name::Name;
use breme_wiki_database::page::{Condition, Content, Found, Write, WriteAction};
use breme_wiki_database::sqlite::{CACHE_BYTES_DEFAULT, SqliteDatabase};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const PAGE_BYTES: usize = 5_000;
const VOCABULARY: u64 = 60_000;
const LINKS: u64 = 5;
const IMPORT_CHUNK: u64 = 250_000;
const READS: u64 = 50_000;
const SEARCHES: u64 = 2_000;
const WRITERS: u64 = 64;
const WRITES: u64 = 20_000;

#[tokio::main]
async fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: scale FOLDER [PAGES …]")?;
    let mut counts = arguments.map(|count| count.parse()).collect::<Result<Vec<u64>, _>>()?;
    if counts.is_empty() {
        counts = vec![1_000, 1_000_000];
    }
    println!("| pages | measurement | rate | median | 95th percentile | CPU each |\n|---|---|---|---|---|---|");
    for count in counts {
        let path = Path::new(&folder).join(format!("scale-{count}.db"));
        let measured = measure(&path, count).await;
        for suffix in ["", "-wal", "-shm", "-lock"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
        }
        measured?;
    }
    Ok(())
}

async fn measure(path: &Path, count: u64) -> Outcome {
    let database = Arc::new(SqliteDatabase::open(path, CACHE_BYTES_DEFAULT)?);
    let mut importing = Stopwatch::stopped();
    for from in (0..count).step_by(IMPORT_CHUNK as usize) {
        let pages: Vec<Write> = (from..count.min(from + IMPORT_CHUNK)).map(page).collect();
        // Generating the pages is not part of the measurement.
        importing.resume();
        database.import(Box::new(pages.into_iter())).await?;
        importing.stop();
    }
    importing.row(count, "import", count, &mut []);
    println!("| {count} | size of the file and its log: {} MB | | | | |", bytes(path)? / 1_000_000);

    for (measurement, cache) in [("read, cache off", 0), ("read", CACHE_BYTES_DEFAULT)] {
        let reader: &dyn Database = match cache {
            0 => &SqliteDatabase::open_to_read(path)?,
            _ => &*database,
        };
        reads(reader, count, 10_000, 1).await?;
        let mut start = Stopwatch::start();
        let mut times = reads(reader, count, READS, 2).await?;
        start.row(count, measurement, READS, &mut times);
    }
    let mut start = Stopwatch::start();
    let times = searches(count, |number| {
        let (database, query) = (Arc::clone(&database), title_query(number, count));
        async move { database.search_titles(&query, 20).await.map(|found| found.len()) }
    });
    start.row(count, "title search", SEARCHES, &mut times.await?);
    let mut start = Stopwatch::start();
    let times = searches(count, |number| {
        let (database, query) = (Arc::clone(&database), text_query(number));
        async move { database.search_text(&query, 20).await.map(|found| found.len()) }
    });
    start.row(count, "full-text search", SEARCHES, &mut times.await?);
    let mut start = Stopwatch::start();
    let mut times = writes(&database, count).await?;
    start.row(count, "write, 64 at a time", WRITES, &mut times);
    if count <= 100_000 {
        let faults = database.verify().await?;
        println!("| {count} | verify: {} faults | | | | |", faults.len());
        if let Some(fault) = faults.first() {
            return Err(fault.clone().into());
        }
    }
    Ok(())
}

fn bytes(path: &Path) -> Outcome<u64> {
    Ok(std::fs::metadata(path)?.len() + std::fs::metadata(format!("{}-wal", path.display()))?.len())
}

async fn reads(database: &dyn Database, count: u64, reads: u64, seed: u64) -> Outcome<Vec<Duration>> {
    let mut random = Random(seed);
    let mut times = Vec::new();
    for _ in 0..reads {
        let name = name(random.below(count));
        let start = Instant::now();
        let found = database.page(&name).await?;
        times.push(start.elapsed());
        if !matches!(found, Found::Page(_)) {
            return Err(format!("page {name} is missing").into());
        }
    }
    Ok(times)
}

async fn searches<F>(count: u64, search: impl Fn(u64) -> F) -> Outcome<Vec<Duration>>
where
    F: Future<Output = Result<usize, breme_wiki_database::DatabaseError>>,
{
    let mut times = Vec::new();
    let mut found = 0;
    for number in 0..SEARCHES {
        let start = Instant::now();
        found += search(number).await?;
        times.push(start.elapsed());
    }
    if found == 0 && count > 0 {
        return Err("the searches found nothing".into());
    }
    Ok(times)
}

async fn writes(database: &Arc<SqliteDatabase>, count: u64) -> Outcome<Vec<Duration>> {
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let database = Arc::clone(database);
            tokio::spawn(async move {
                let mut random = Random(writer + 1000);
                let mut times = Vec::new();
                for _ in 0..WRITES / WRITERS {
                    let write = page(random.below(count));
                    let start = Instant::now();
                    database.write(write).await.map_err(|error| format!("{error:?}"))?;
                    times.push(start.elapsed());
                }
                Ok::<_, String>(times)
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await??);
    }
    Ok(times)
}

/// Wall and CPU time while it runs.
struct Stopwatch {
    running: Option<(Instant, Duration)>,
    wall: Duration,
    cpu: Duration,
}

impl Stopwatch {
    fn start() -> Self {
        let mut started = Self::stopped();
        started.resume();
        started
    }

    fn stopped() -> Self {
        Self { running: None, wall: Duration::ZERO, cpu: Duration::ZERO }
    }

    fn resume(&mut self) {
        self.running = Some((Instant::now(), cpu_time()));
    }

    fn stop(&mut self) {
        if let Some((wall, cpu)) = self.running.take() {
            self.wall += wall.elapsed();
            self.cpu += cpu_time() - cpu;
        }
    }

    fn row(&mut self, count: u64, measurement: &str, operations: u64, times: &mut [Duration]) {
        self.stop();
        let rate = operations as f64 / self.wall.as_secs_f64();
        let cpu = self.cpu.as_secs_f64() * 1e6 / operations as f64;
        times.sort_unstable();
        let quantile = |share: f64| match times.len() {
            0 => String::new(),
            length => format!("{:.3} ms", times[((length - 1) as f64 * share) as usize].as_secs_f64() * 1e3),
        };
        println!("| {count} | {measurement} | {rate:.0}/s | {} | {} | {cpu:.1} µs |", quantile(0.5), quantile(0.95));
    }
}

/// User and system time of this process, in steps of 10 ms.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A rank in the vocabulary, with Zipf-distributed frequencies.
    fn rank(&mut self) -> u64 {
        let share = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        (VOCABULARY as f64).powf(share) as u64 - 1
    }
}

/// A word for each rank: short ones for the frequent ranks.
fn word(rank: u64) -> String {
    const ONSETS: [&str; 16] = ["b", "č", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "ž"];
    const VOWELS: [&str; 5] = ["a", "e", "i", "o", "u"];
    let mut word = String::new();
    let mut rest = rank;
    loop {
        word.push_str(ONSETS[(rest % 16) as usize]);
        word.push_str(VOWELS[(rest / 16 % 5) as usize]);
        rest /= 80;
        if rest == 0 {
            return word;
        }
    }
}

fn name(number: u64) -> Name {
    let mut random = Random(number ^ 0x5eed);
    let text = format!("{} {} {number}", word(random.rank()), word(random.rank()));
    Name::parse(&text).unwrap_or_else(|error| unreachable!("{text}: {error}"))
}

fn page(number: u64) -> Write {
    let mut random = Random(number);
    let mut text = String::with_capacity(PAGE_BYTES + 100);
    let links: Vec<Name> = (0..LINKS).map(|_| name(random.below(number + 1))).collect();
    for link in &links {
        text.push_str(&format!("[[{link}]]\n\n"));
    }
    while text.len() < PAGE_BYTES {
        text.push_str(&word(random.rank()));
        text.push(if random.below(12) == 0 { '\n' } else { ' ' });
    }
    let action = WriteAction::Save { content: Content { text, ..Content::default() }, links };
    let (author, comment) = (None, String::from("scale"));
    Write { name: name(number), condition: Condition::Any, action, author, comment, time: 1_700_000_000_000 }
}

/// Part of a name, of one to ten characters, as typed by a user.
fn title_query(seed: u64, count: u64) -> String {
    let mut random = Random(seed ^ 0x0071_71e5);
    let name = name(random.below(count));
    let characters: Vec<char> = name.as_str().chars().collect();
    let from = if random.below(2) == 0 { 0 } else { random.below(characters.len() as u64) as usize };
    characters[from..].iter().take(1 + random.below(10) as usize).collect()
}

/// One to three words: in a third of the queries frequent ones, in the others of any rank.
fn text_query(seed: u64) -> String {
    let mut random = Random(seed ^ 0x7e97);
    let is_frequent = random.below(3) == 0;
    let words: Vec<String> = (0..1 + random.below(3))
        .map(|_| word(if is_frequent { random.below(100) } else { random.below(VOCABULARY) }))
        .collect();
    words.join(" ")
}
