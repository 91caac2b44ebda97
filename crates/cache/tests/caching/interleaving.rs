//! Threads that ask, fill and purge the same few pages at once: no older answer after a purge, no bytes of another
//! page, no bound passed, and nobody is left waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use breme_base::{Instant, Random, UnixSeconds};
use breme_cache::{
    Answer, Asked, Cache, Content, Fault, Followed, Follower, Forward, Manner, Moment, Purge, Reading, Request,
    ResponseHead, Scheme, Settings, Waiter, Wakes,
};
use breme_http1::{
    ClientConnection, ClientProgress, FieldBlock, FieldStorage, Limits, Method, Progress, ServerConnection,
};

const PAGES: u64 = 6;
const THREADS: u64 = 4;
const ROUNDS: u64 = 1_500;
const MEMORY_BYTES: u64 = 200_000;
const MOMENT: Moment = Moment { now: Instant::ZERO, wall: UnixSeconds(1_600_000_000) };

/// What all threads share: the cache, each page's version as its origin knows it, and up to which version purges are
/// done.
struct Site {
    cache: Arc<Cache>,
    versions: Vec<AtomicU64>,
    purged: Vec<AtomicU64>,
}

impl Site {
    fn ask(&self, page: u64, waiter: Waiter) -> Asked {
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
            is_unheard: |_| false,
            has_content: false,
        };
        self.cache.ask(&request, MOMENT, waiter)
    }

    fn version(&self, page: u64) -> u64 {
        self.versions[page as usize].load(Ordering::SeqCst)
    }

    /// The origin changes a page, and purges it when that is done.
    fn change(&self, page: u64, by_key: bool) {
        let version = self.versions[page as usize].fetch_add(1, Ordering::SeqCst) + 1;
        let purge =
            if by_key { Purge::Key(format!("k{page}")) } else { Purge::Url(format!("http://a.example/{page}")) };
        self.cache.purge(&purge, Manner::Hard, MOMENT.now).unwrap();
        self.purged[page as usize].fetch_max(version, Ordering::SeqCst);
    }

    /// Asks upstream: the version is read somewhere on the way.
    fn fetch(&self, page: u64, mut forward: Forward, random: &mut Random) -> u64 {
        let mut wakes = Wakes::new();
        let version = self.version(page);
        let content = format!("{page} {version} {}", "x".repeat(random.below(20_000) as usize));
        let framed = if random.chance(0.5) { format!("Content-Length: {}\r\n", content.len()) } else { String::new() };
        let text = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nSurrogate-Key: k{page}\r\n{framed}\r\n");
        let (mut connection, mut storage) = (ClientConnection::new(), FieldStorage::new());
        connection.sent(Method::Get);
        let Ok(ClientProgress::Head { head, .. }) =
            connection.receive(text.as_bytes(), false, &Limits::default(), &mut storage)
        else {
            panic!("{text}")
        };
        let added = FieldBlock::new();
        let length = (!framed.is_empty()).then_some(content.len() as u64);
        forward.handle_head(
            MOMENT,
            &ResponseHead { status: 200, fields: head.fields, length, added: &added },
            &mut wakes,
        );
        let fails = random.chance(0.1);
        for piece in content.as_bytes().chunks(4_000) {
            std::thread::yield_now();
            forward.handle_content(piece, &mut wakes);
            if fails {
                forward.handle_failure(MOMENT, Fault::Own, &mut wakes);
                return version;
            }
        }
        forward.handle_end(&mut wakes);
        version
    }

    /// Checks an answer that was asked for when the page had at least this version.
    fn check(page: u64, known: u64, content: &[u8]) {
        let text = std::str::from_utf8(content).unwrap();
        let mut words = text.split(' ');
        assert_eq!(words.next(), Some(page.to_string().as_str()), "another page's content");
        let version: u64 = words.next().unwrap().parse().unwrap();
        assert!(version >= known, "page {page}: version {version} was given after a purge at {known}");
    }

    fn check_answer(page: u64, known: u64, answer: &Answer) {
        let Content::One(bytes) = answer.content() else { panic!("{answer:?}") };
        Self::check(page, known, bytes);
    }

    /// Follows without being woken: a simple loop, so that a lost wake-up is a matter of the tests in which time is a
    /// number.
    fn follow(&self, page: u64, known: u64, mut follower: Follower, random: &mut Random) {
        loop {
            match follower.poll(MOMENT) {
                Followed::Waiting => std::thread::yield_now(),
                Followed::Answer(answer) => return Self::check_answer(page, known, &answer),
                Followed::LetGo => return self.take(page, known, follower.ask_again(MOMENT), random),
                Followed::Failed(_) => unreachable!("no fault is everyone's"),
                Followed::Stream(_) => break,
            }
        }
        let mut content = Vec::new();
        loop {
            match follower.read(&mut content, 3_000) {
                Reading::Waiting => std::thread::yield_now(),
                Reading::Copied(_) => {}
                Reading::Rest(bytes) => {
                    content.extend_from_slice(&bytes);
                    return Self::check(page, known, &content);
                }
                Reading::End => return Self::check(page, known, &content),
                Reading::Broken => return,
            }
        }
    }

    fn take(&self, page: u64, known: u64, asked: Asked, random: &mut Random) {
        match asked {
            Asked::Answer(answer) | Asked::Refresh(answer, _) => Self::check_answer(page, known, &answer),
            Asked::Forward(forward) => assert!(self.fetch(page, forward, random) >= known),
            Asked::Wait(follower) => self.follow(page, known, follower, random),
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
                self.take(page, known, self.ask(page, waiter), &mut random);
            }
            assert!(self.cache.statistics().bytes <= MEMORY_BYTES);
        }
    }
}

#[test]
fn threads_that_ask_fill_and_purge_at_once() {
    let site = Arc::new(Site {
        cache: Cache::new(Settings::new(MEMORY_BYTES)).unwrap(),
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
        assert!(matches!(site.ask(page, waiter), Asked::Forward(_)), "nothing older is there after a purge");
    }
}
