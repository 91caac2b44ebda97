//! Requests that came before, byte for byte, and whose stored answers still stand. (For those that go upstream see
//! [`familiar`](super::familiar).)
//!
//! A shard keeps the heads that came last ([`ReplayCache`]) with their answers, and gives these again without
//! reading the head, asking the cache or writing fields anew; only Age and Cache-Status are, once a second. Nothing is
//! decided here: a head becomes familiar after it was answered the usual way, and its answer is given only while it
//! [valid](Validity::is_valid): fresh, in the store, and nothing newer beside it. So a purge, a replacement and an end
//! are seen with the very next request. Nor is anything written that other shards read: hits are told to the store once
//! a second.
//!
//! Content that is long is not kept here but shared with the store.

use std::sync::Arc;
use std::time::Duration;

use breme_base::Instant;
use breme_cache::Validity;
use breme_http1::{ReplayCache, ReplayEntry};
use bytes::Bytes;
use memchr::memmem;

use super::notes::{Noted, cache_words};

/// Heads that are kept at most; each has one place.
const SLOTS: usize = 4096;
/// All that is kept, in one shard, beside what is shared with the store.
const BYTES_MAX: usize = 8 << 20;
/// Content that is shared with the store is held here for so long at most after the store has let it go.
const SWEPT_EVERY: Duration = Duration::from_secs(1);
/// What the log is told of a request.
const NOTED_BYTES: usize = 512;
const HEAD_END: &[u8; 4] = b"\r\n\r\n";
const AGE_NAME: &[u8] = b"\r\nAge: ";

/// A shard's familiar requests.
#[derive(Debug)]
pub(super) struct StandingAnswers {
    requests: ReplayCache<Known, SLOTS>,
    /// When those were last let go whose answers no longer stand.
    swept: Instant,
}

/// The answer to a request that came before.
#[derive(Debug)]
pub(super) struct Known {
    is_secured: bool,
    is_trusted: bool,
    standing: Validity,
    /// The answer up to its Age.
    lead: Box<[u8]>,
    /// Lead, Age, Cache-Status and content, or all but the content.
    answer: Vec<u8>,
    content: Bytes,
    has_content: bool,
    age_s: u64,
    pub(super) status: u16,
    /// For the log, if there is one: the request …
    pub(super) noted: Option<Arc<Noted>>,
    /// … and what the cache did.
    cache_words: String,
    /// Hits that the store does not know of.
    hits: u32,
}

/// An answer that was given just now.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) standing: Validity,
    pub(super) status: u16,
    /// The head, and perhaps the content behind it.
    pub(super) sent: Vec<u8>,
    pub(super) content: Bytes,
}

/// What there is to learn of a request.
#[derive(Debug)]
pub(super) struct Lesson<'a> {
    pub(super) head: &'a [u8],
    pub(super) is_secured: bool,
    pub(super) is_trusted: bool,
    pub(super) given: Given,
    pub(super) noted: Option<Arc<Noted>>,
    /// Longer content is shared with the store.
    pub(super) copied_max: usize,
}

impl StandingAnswers {
    pub(super) fn new(seed: u64) -> Self {
        Self { requests: ReplayCache::new(seed, BYTES_MAX), swept: Instant::ZERO }
    }

    /// The request with which `input` begins, if it is familiar and its answer still stands. Its answer has today's
    /// age. What a client says for others may choose the answer if it is trusted.
    #[inline]
    pub(super) fn find(
        &mut self,
        input: &[u8],
        is_secured: bool,
        is_trusted: bool,
        now: Instant,
        name: &str,
    ) -> Option<&mut ReplayEntry<Known>> {
        let is_alike = |known: &Known| known.is_secured == is_secured && known.is_trusted == is_trusted;
        let (place, request) = self.requests.find(input, is_alike)?;
        if !request.value.standing.is_valid(now) {
            self.requests.remove(place);
            return None;
        }
        let request = self.requests.entry(place)?;
        request.value.keep_age(now, name);
        Some(request)
    }

    /// Whether a request that is not familiar should become it. What comes into the store is asked for here first, on
    /// one shard or another; so this is where memory is given back that the store has let go.
    pub(super) fn is_wanted(&mut self, head: &[u8], now: Instant) -> bool {
        if now.since(self.swept) >= SWEPT_EVERY {
            self.swept = now;
            self.requests.remove_if(|known| !known.has_content && !known.standing.is_valid(now));
        }
        self.requests.should_insert(head, |_| false)
    }

    /// Makes a request familiar that was answered just now.
    pub(super) fn learn(&mut self, lesson: Lesson<'_>, now: Instant, name: &str) {
        let Lesson { head, is_secured, is_trusted, given, noted, copied_max } = lesson;
        let Given { standing, status, sent, content } = given;
        let Some(lead_bytes) = memmem::find(&sent, AGE_NAME) else { return };
        let mut known = Known {
            is_secured,
            is_trusted,
            lead: sent[..lead_bytes].into(),
            answer: Vec::new(),
            has_content: content.len() <= copied_max,
            content,
            age_s: standing.age_s(now),
            standing,
            status,
            noted,
            cache_words: String::new(),
            hits: 0,
        };
        known.write(now, name);
        let value_bytes = known.bytes();
        self.requests.insert(head, known, value_bytes);
    }
}

impl Known {
    /// What is to be copied.
    pub(super) fn answer(&self) -> &[u8] {
        &self.answer
    }

    /// What is to be shared behind it.
    pub(super) fn shared_content(&self) -> Option<Bytes> {
        (!self.has_content).then(|| self.content.clone())
    }

    pub(super) fn content_bytes(&self) -> u64 {
        self.content.len() as u64
    }

    pub(super) fn cache_words(&self) -> &str {
        &self.cache_words
    }

    pub(super) fn count_hit(&mut self) {
        if self.hits == 0 {
            // The first at once, so that what is asked for seldom is seen too.
            self.standing.count_hits(1);
        }
        self.hits += 1;
    }

    #[inline]
    fn keep_age(&mut self, now: Instant, name: &str) {
        let age_s = self.standing.age_s(now);
        if age_s != self.age_s {
            self.age_s = age_s;
            self.tell_hits();
            self.write(now, name);
        }
    }

    fn tell_hits(&mut self) {
        let untold = std::mem::take(&mut self.hits).saturating_sub(1);
        if untold > 0 {
            self.standing.count_hits(untold);
        }
    }

    #[cold]
    fn write(&mut self, now: Instant, name: &str) {
        let out = &mut self.answer;
        out.clear();
        out.extend_from_slice(&self.lead);
        out.extend_from_slice(AGE_NAME);
        out.extend_from_slice(self.age_s.to_string().as_bytes());
        out.extend_from_slice(b"\r\nCache-Status: ");
        let report = self.standing.cache_status(now);
        report.write(name, out);
        if self.noted.is_some() {
            self.cache_words = cache_words(report);
        }
        out.extend_from_slice(HEAD_END);
        if self.has_content {
            out.extend_from_slice(&self.content);
        }
    }

    fn bytes(&self) -> usize {
        let content = if self.has_content { self.content.len() } else { 0 };
        // What the log is told was written from the head, which is counted where it is kept.
        let noted = if self.noted.is_some() { NOTED_BYTES } else { 0 };
        2 * self.lead.len() + content + noted
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        self.tell_hits();
    }
}

#[cfg(test)]
mod tests {
    use breme_base::UnixSeconds;
    use breme_cache::{
        Cache, CacheDecision, CacheSettings, Now, Purge, PurgeMode, Request, ResponseBody, Scheme, Waiter, Wakes,
    };
    use breme_http1::{
        ClientConnection, ClientProgress, FieldBlock, FieldStorage, Limits, Method, Progress, ServerConnection,
    };

    use super::*;

    const HEAD: &[u8] = b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n";
    const CONTENT: &[u8] = &[b'x'; 5000];

    fn moment() -> Now {
        Now { instant: Instant::ZERO, wall: UnixSeconds(0) }
    }

    fn ask(cache: &Arc<Cache>) -> CacheDecision {
        let (mut server, mut storage) = (ServerConnection::new(), FieldStorage::new());
        let progress = server.receive(HEAD, false, &Limits::default(), &mut storage);
        let Ok(Progress::Head { head, .. }) = progress else { panic!("{progress:?}") };
        let request = Request {
            method: Method::Get,
            scheme: Scheme::Http,
            authority: "a",
            path: "/long",
            query: None,
            fields: head.fields,
            is_stripped: |_| false,
            has_body: false,
        };
        cache.look_up(&request, moment(), Waiter { shard: 0, message: 0 })
    }

    fn store(cache: &Arc<Cache>) {
        let CacheDecision::Forward(mut forward) = ask(cache) else { panic!("nothing is stored yet") };
        let (mut client, mut storage) = (ClientConnection::new(), FieldStorage::new());
        client.sent(Method::Get);
        let text = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 5000\r\n\r\n";
        let progress = client.receive(text, false, &Limits::default(), &mut storage);
        let Ok(ClientProgress::Head { head, .. }) = progress else { panic!("{progress:?}") };
        let (length, added) = (Some(CONTENT.len() as u64), FieldBlock::new());
        let head = breme_cache::ResponseHead { status: 200, fields: head.fields, length, added: &added };
        let _ = forward.handle_head(moment(), &head, &mut Wakes::new());
        forward.handle_body(CONTENT, &mut Wakes::new());
        forward.handle_end(&mut Wakes::new());
    }

    #[test]
    fn content_that_the_store_lets_go_is_let_go_here() {
        let cache = Cache::new(CacheSettings::new(1 << 20)).unwrap();
        store(&cache);
        let CacheDecision::Respond(answer) = ask(&cache) else { panic!("it is stored") };
        let ResponseBody::One(content) = answer.body().clone() else { panic!("all of it") };
        let sent = b"HTTP/1.1 200 OK\r\nAge: 0\r\n\r\n".to_vec();
        let given = Given { standing: answer.validity().unwrap().clone(), status: 200, sent, content: content.clone() };
        drop(answer);
        let (mut answers, now) = (StandingAnswers::new(1), Instant::ZERO);
        assert!(!answers.is_wanted(HEAD, now) && answers.is_wanted(HEAD, now));
        let lesson = Lesson { head: HEAD, is_secured: false, is_trusted: false, given, noted: None, copied_max: 2048 };
        answers.learn(lesson, now, "c");
        assert!(answers.find(HEAD, false, false, now, "c").is_some());
        assert!(answers.find(HEAD, false, true, now, "c").is_none());
        cache.purge(&Purge::All, PurgeMode::Hard, now).unwrap();
        assert!(!content.is_unique());
        answers.is_wanted(b"GET / HTTP/1.1\r\n\r\n", now + SWEPT_EVERY);
        assert!(content.is_unique(), "nobody else holds it");
    }
}
