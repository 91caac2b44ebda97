//! Threads that look up, fill and purge a few pages concurrently: no old response after a purge, no bytes of another
//! page, no bound exceeded, and no request left waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use breme_base::{Instant, Random, UnixSeconds};
use breme_cache::{
    BodyRead, Cache, CacheDecision, CacheSettings, CachedResponse, FetchError, Follower, FollowerPoll, Forward, Now,
    Purge, PurgeMode, Request, ResponseBody, ResponseHead, Scheme, Waiter, Wakes,
};
use breme_http::{FieldBlock, Limits, Method};
use breme_http1::{ClientConnection, ClientProgress, FieldStorage, Progress, ServerConnection};

const PAGES: u64 = 6;
const THREADS: u64 = 4;
const ROUNDS: u64 = 1_500;
const MEMORY_BYTES: u64 = 200_000;
const NOW: Now = Now { instant: Instant::ZERO, wall: UnixSeconds(1_600_000_000) };

/// State shared by the threads: the cache, the version of each page at its origin, and the version up to which purges
/// are complete.
struct Site {
    cache: Arc<Cache>,
    versions: Vec<AtomicU64>,
    purged: Vec<AtomicU64>,
}

impl Site {
    fn look_up(&self, page: u64, waiter: Waiter) -> CacheDecision {
        let text = format!("GET /{page} HTTP/1.1\r\nHost: a.example\r\n\r\n");
        let (mut connection, mut storage) = (ServerConnection::new(), FieldStorage::new());
        let Ok(Progress::Head { head, .. }) =
            connection.receive(text.as_bytes(), false, &Limits::default(), &mut storage)
        else {
            panic!("{text}")
        };
        let path = format!("/{page}");
        let request = Request {
            method: Method::Get,
            scheme: Scheme::Http,
            authority: "a.example",
            path: &path,
            query: None,
            fields: head.fields,
            is_stripped: |_| false,
            has_body: false,
        };
        self.cache.look_up(&request, NOW, waiter)
    }

    fn version(&self, page: u64) -> u64 {
        self.versions[page as usize].load(Ordering::SeqCst)
    }

    /// Changes a page at the origin, then purges it.
    fn change(&self, page: u64, by_key: bool) {
        let version = self.versions[page as usize].fetch_add(1, Ordering::SeqCst) + 1;
        let purge =
            if by_key { Purge::Key(format!("k{page}")) } else { Purge::Url(format!("http://a.example/{page}")) };
        self.cache.purge(&purge, PurgeMode::Hard, NOW.instant).unwrap();
        self.purged[page as usize].fetch_max(version, Ordering::SeqCst);
    }

    /// Fetches a page; its version is read at some point during the fetch.
    fn fetch(&self, page: u64, mut forward: Forward, random: &mut Random) -> u64 {
        let mut wakes = Wakes::new();
        let version = self.version(page);
        let body = format!("{page} {version} {}", "x".repeat(random.below(20_000) as usize));
        let framed = if random.chance(0.5) { format!("Content-Length: {}\r\n", body.len()) } else { String::new() };
        let text = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nSurrogate-Key: k{page}\r\n{framed}\r\n");
        let (mut connection, mut storage) = (ClientConnection::new(), FieldStorage::new());
        connection.sent(Method::Get);
        let Ok(ClientProgress::Head { head, .. }) =
            connection.receive(text.as_bytes(), false, &Limits::default(), &mut storage)
        else {
            panic!("{text}")
        };
        let added = FieldBlock::new();
        let length = (!framed.is_empty()).then_some(body.len() as u64);
        forward.handle_head(NOW, &ResponseHead { status: 200, fields: head.fields, length, added: &added }, &mut wakes);
        let fails = random.chance(0.1);
        for piece in body.as_bytes().chunks(4_000) {
            std::thread::yield_now();
            forward.handle_body(piece, &mut wakes);
            if fails {
                forward.handle_failure(NOW, FetchError::Request, &mut wakes);
                return version;
            }
        }
        forward.handle_end(&mut wakes);
        version
    }

    /// Checks a response to a request sent when the page had at least this version.
    fn check(page: u64, known: u64, body: &[u8]) {
        let text = std::str::from_utf8(body).unwrap();
        let mut words = text.split(' ');
        assert_eq!(words.next(), Some(page.to_string().as_str()), "another page's content");
        let version: u64 = words.next().unwrap().parse().unwrap();
        assert!(version >= known, "page {page}: version {version} was given after a purge at {known}");
    }

    fn check_answer(page: u64, known: u64, response: &CachedResponse) {
        let ResponseBody::One(bytes) = response.body() else { panic!("{response:?}") };
        Self::check(page, known, bytes);
    }

    /// Polls instead of waiting for wake-ups: lost wake-ups are tested elsewhere, with a simulated clock.
    fn follow(&self, page: u64, known: u64, mut follower: Follower, random: &mut Random) {
        loop {
            match follower.poll(NOW) {
                FollowerPoll::Pending => std::thread::yield_now(),
                FollowerPoll::Response(response) => return Self::check_answer(page, known, &response),
                FollowerPoll::Retry => return self.follow_decision(page, known, follower.retry(NOW), random),
                FollowerPoll::Failed(_) => unreachable!("no fault is everyone's"),
                FollowerPoll::Stream(_) => break,
            }
        }
        let mut body = Vec::new();
        loop {
            match follower.read(&mut body, 3_000) {
                BodyRead::Pending => std::thread::yield_now(),
                BodyRead::Copied(_) => {}
                BodyRead::Rest(bytes) => {
                    body.extend_from_slice(&bytes);
                    return Self::check(page, known, &body);
                }
                BodyRead::End => return Self::check(page, known, &body),
                BodyRead::Aborted => return,
            }
        }
    }

    fn follow_decision(&self, page: u64, known: u64, decision: CacheDecision, random: &mut Random) {
        match decision {
            CacheDecision::Respond(response) | CacheDecision::RespondAndRefresh(response, _) => {
                Self::check_answer(page, known, &response);
            }
            CacheDecision::Forward(forward) => assert!(self.fetch(page, forward, random) >= known),
            CacheDecision::Wait(follower) => self.follow(page, known, follower, random),
            CacheDecision::NotCached => panic!("no request has only-if-cached"),
        }
    }

    fn work(&self, thread: u64) {
        let mut random = Random::new(thread);
        for round in 0..ROUNDS {
            let page = random.below(PAGES);
            if random.chance(0.1) {
                self.change(page, random.chance(0.5));
            } else {
                let known = self.purged[page as usize].load(Ordering::SeqCst);
                let waiter = Waiter { shard: thread as usize, message: round };
                self.follow_decision(page, known, self.look_up(page, waiter), &mut random);
            }
            assert!(self.cache.statistics().bytes <= MEMORY_BYTES);
        }
    }
}

#[test]
fn concurrent_lookups_fills_and_purges() {
    let site = Arc::new(Site {
        cache: Cache::new(CacheSettings::new(MEMORY_BYTES)).unwrap(),
        versions: (0..PAGES).map(|_| AtomicU64::new(0)).collect(),
        purged: (0..PAGES).map(|_| AtomicU64::new(0)).collect(),
    });
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let site = Arc::clone(&site);
            #[allow(clippy::disallowed_methods)] // this is about threads
            std::thread::spawn(move || site.work(thread))
        })
        .collect();
    for thread in threads {
        thread.join().expect("a thread found something wrong");
    }
    assert_eq!(site.cache.statistics().fills, 0);
    for page in 0..PAGES {
        site.change(page, false);
        let waiter = Waiter { shard: 0, message: 0 };
        assert!(
            matches!(site.look_up(page, waiter), CacheDecision::Forward(_)),
            "nothing older is there after a purge"
        );
    }
}
