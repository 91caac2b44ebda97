//! The stored responses that one shard sends again without parsing the request.

use std::sync::Arc;
use std::time::Duration;

use breme_base::Instant;
use breme_cache::Validity;
use breme_http1::{ReplayCache, ReplayEntry};
use bytes::Bytes;
use memchr::memmem;

use super::log_entry::{LoggedRequest, cache_status_text};

/// Entries per shard.
const SLOTS: usize = 4096;
/// Memory of one shard's entries, without bodies shared with the store.
const BYTES_MAX: usize = 8 << 20;
/// A body shared with the store is released at most this long after its eviction from the store.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Memory of a logged request.
const LOGGED_REQUEST_BYTES: usize = 512;
const HEAD_END: &[u8; 4] = b"\r\n\r\n";
const AGE_NAME: &[u8] = b"\r\nAge: ";

#[derive(Debug)]
pub(super) struct HitReplayCache {
    requests: ReplayCache<HitReplay, SLOTS>,
    /// When entries that are no longer valid were last removed.
    swept_at: Instant,
}

/// A stored response, ready to be sent.
#[derive(Debug)]
pub(super) struct HitReplay {
    is_secured: bool,
    is_trusted: bool,
    validity: Validity,
    /// The response up to its Age.
    head_start: Box<[u8]>,
    /// The complete response, or all of it but the body.
    response: Vec<u8>,
    content: Bytes,
    has_content: bool,
    age_s: u64,
    pub(super) status: u16,
    /// For the access log.
    pub(super) logged_request: Option<Arc<LoggedRequest>>,
    /// For the access log.
    cache_status_text: String,
    /// Hits not yet reported to the store.
    hits: u32,
}

/// A response from the store that was just sent.
#[derive(Debug)]
pub(super) struct CapturedHit {
    pub(super) validity: Validity,
    pub(super) status: u16,
    /// The head, and the body if it was copied.
    pub(super) sent: Vec<u8>,
    pub(super) content: Bytes,
}

#[derive(Debug)]
pub(super) struct NewHit<'a> {
    pub(super) head: &'a [u8],
    pub(super) is_secured: bool,
    pub(super) is_trusted: bool,
    pub(super) captured: CapturedHit,
    pub(super) logged_request: Option<Arc<LoggedRequest>>,
    /// Longer bodies are shared with the store.
    pub(super) copied_max: usize,
}

impl HitReplayCache {
    pub(super) fn new(seed: u64) -> Self {
        Self { requests: ReplayCache::new(seed, BYTES_MAX), swept_at: Instant::ZERO }
    }

    /// The valid entry for the request at the start of `input`, with its current age. A trusted client's forwarding
    /// fields may select the response.
    #[inline]
    pub(super) fn find(
        &mut self,
        input: &[u8],
        is_secured: bool,
        is_trusted: bool,
        now: Instant,
        name: &str,
    ) -> Option<&mut ReplayEntry<HitReplay>> {
        let is_alike = |replay: &HitReplay| replay.is_secured == is_secured && replay.is_trusted == is_trusted;
        let (position, request) = self.requests.find(input, is_alike)?;
        if !request.value.validity.is_valid(now) {
            self.requests.remove(position);
            return None;
        }
        let request = self.requests.entry(position)?;
        request.value.update_age(now, name);
        Some(request)
    }

    /// Whether to insert an entry for this head. All regular hits pass here on some shard, so invalid entries are
    /// removed here.
    pub(super) fn should_insert(&mut self, head: &[u8], now: Instant) -> bool {
        if now.since(self.swept_at) >= SWEEP_INTERVAL {
            self.swept_at = now;
            self.requests.remove_if(|replay| !replay.has_content && !replay.validity.is_valid(now));
        }
        self.requests.should_insert(head, |_| false)
    }

    pub(super) fn insert(&mut self, new_entry: NewHit<'_>, now: Instant, name: &str) {
        let NewHit { head, is_secured, is_trusted, captured, logged_request, copied_max } = new_entry;
        let CapturedHit { validity, status, sent, content } = captured;
        let Some(lead_bytes) = memmem::find(&sent, AGE_NAME) else { return };
        let mut replay = HitReplay {
            is_secured,
            is_trusted,
            head_start: sent[..lead_bytes].into(),
            response: Vec::new(),
            has_content: content.len() <= copied_max,
            content,
            age_s: validity.age_s(now),
            validity,
            status,
            logged_request,
            cache_status_text: String::new(),
            hits: 0,
        };
        replay.write(now, name);
        let value_bytes = replay.bytes();
        self.requests.insert(head, replay, value_bytes);
    }
}

impl HitReplay {
    /// The bytes to copy.
    pub(super) fn response(&self) -> &[u8] {
        &self.response
    }

    /// The body to send after them, shared with the store.
    pub(super) fn shared_content(&self) -> Option<Bytes> {
        (!self.has_content).then(|| self.content.clone())
    }

    pub(super) fn content_bytes(&self) -> u64 {
        self.content.len() as u64
    }

    pub(super) fn cache_status_text(&self) -> &str {
        &self.cache_status_text
    }

    pub(super) fn count_hit(&mut self) {
        if self.hits == 0 {
            // The first hit is reported at once, so that rare ones are counted too.
            self.validity.count_hits(1);
        }
        self.hits += 1;
    }

    #[inline]
    fn update_age(&mut self, now: Instant, name: &str) {
        let age_s = self.validity.age_s(now);
        if age_s != self.age_s {
            self.age_s = age_s;
            self.flush_hits();
            self.write(now, name);
        }
    }

    fn flush_hits(&mut self) {
        let pending = std::mem::take(&mut self.hits).saturating_sub(1);
        if pending > 0 {
            self.validity.count_hits(pending);
        }
    }

    #[cold]
    fn write(&mut self, now: Instant, name: &str) {
        let out = &mut self.response;
        out.clear();
        out.extend_from_slice(&self.head_start);
        out.extend_from_slice(AGE_NAME);
        out.extend_from_slice(self.age_s.to_string().as_bytes());
        out.extend_from_slice(b"\r\nCache-Status: ");
        let cache_status = self.validity.cache_status(now);
        cache_status.write(name, out);
        if self.logged_request.is_some() {
            self.cache_status_text = cache_status_text(cache_status);
        }
        out.extend_from_slice(HEAD_END);
        if self.has_content {
            out.extend_from_slice(&self.content);
        }
    }

    fn bytes(&self) -> usize {
        let content = if self.has_content { self.content.len() } else { 0 };
        // The request line and headers are logged from the head, which is counted where it is stored.
        let logged_request = if self.logged_request.is_some() { LOGGED_REQUEST_BYTES } else { 0 };
        2 * self.head_start.len() + content + logged_request
    }
}

impl Drop for HitReplay {
    fn drop(&mut self) {
        self.flush_hits();
    }
}

#[cfg(test)]
mod tests {
    use breme_base::UnixSeconds;
    use breme_cache::{
        Cache, CacheDecision, CacheSettings, Now, Purge, PurgeMode, Request, ResponseBody, Scheme, Waiter, Wakes,
    };
    use breme_http::{FieldBlock, Limits, Method};
    use breme_http1::{ClientConnection, ClientProgress, FieldStorage, Progress, ServerConnection};

    use super::*;

    const HEAD: &[u8] = b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n";
    const CONTENT: &[u8] = &[b'x'; 5000];

    fn cache_now() -> Now {
        Now { instant: Instant::ZERO, wall: UnixSeconds(0) }
    }

    fn look_up(cache: &Arc<Cache>) -> CacheDecision {
        let (mut upstream, mut storage) = (ServerConnection::new(), FieldStorage::new());
        let progress = upstream.receive(HEAD, false, &Limits::default(), &mut storage);
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
        cache.look_up(&request, cache_now(), Waiter { shard: 0, message: 0 })
    }

    fn store(cache: &Arc<Cache>) {
        let CacheDecision::Forward(mut forward) = look_up(cache) else { panic!("nothing is stored yet") };
        let (mut client, mut storage) = (ClientConnection::new(), FieldStorage::new());
        client.sent(Method::Get);
        let text = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 5000\r\n\r\n";
        let progress = client.receive(text, false, &Limits::default(), &mut storage);
        let Ok(ClientProgress::Head { head, .. }) = progress else { panic!("{progress:?}") };
        let (length, added) = (Some(CONTENT.len() as u64), FieldBlock::new());
        let head = breme_cache::ResponseHead { status: 200, fields: head.fields, length, added: &added };
        let _ = forward.handle_head(cache_now(), &head, &mut Wakes::new());
        forward.handle_body(CONTENT, &mut Wakes::new());
        forward.handle_end(&mut Wakes::new());
    }

    #[test]
    fn releases_bodies_evicted_from_the_store() {
        let cache = Cache::new(CacheSettings::new(1 << 20)).unwrap();
        store(&cache);
        let CacheDecision::Respond(response) = look_up(&cache) else { panic!("it is stored") };
        let ResponseBody::One(content) = response.body().clone() else { panic!("all of it") };
        let sent = b"HTTP/1.1 200 OK\r\nAge: 0\r\n\r\n".to_vec();
        let captured =
            CapturedHit { validity: response.validity().unwrap().clone(), status: 200, sent, content: content.clone() };
        drop(response);
        let (mut answers, now) = (HitReplayCache::new(1), Instant::ZERO);
        assert!(!answers.should_insert(HEAD, now) && answers.should_insert(HEAD, now));
        let new_entry = NewHit {
            head: HEAD,
            is_secured: false,
            is_trusted: false,
            captured,
            logged_request: None,
            copied_max: 2048,
        };
        answers.insert(new_entry, now, "c");
        assert!(answers.find(HEAD, false, false, now, "c").is_some());
        assert!(answers.find(HEAD, false, true, now, "c").is_none());
        cache.purge(&Purge::All, PurgeMode::Hard, now).unwrap();
        assert!(!content.is_unique());
        answers.should_insert(b"GET / HTTP/1.1\r\n\r\n", now + SWEEP_INTERVAL);
        assert!(content.is_unique(), "nobody else holds it");
    }
}
