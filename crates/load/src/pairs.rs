//! Pairs that users store in their sessions, and whether every response shows all of them.
//!
//! A request with `?name=K&value=V` stores a pair; a response with status 2xx acknowledges it and shows all pairs of
//! the session, one `K=V` per line. Each later response must show every pair that was acknowledged or shown before.
//! Without such a response it is unknown whether the pair was stored: both are correct until a response shows it.
//!
//! | | |
//! |---|---|
//! | inconsistent | a response that lacks a pair which was acknowledged before, or its own |
//! | stale | an inconsistent response whose pair a later one shows again; or the last of its session, if it is the first to lack one |
//! | lost | a pair that the last two responses of its session lack, and perhaps more |
//! | foreign | a line that no request of the session stored, or that appears twice |
//! | shared | a session id that the server issued to two sessions |

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use breme_load_plan::CONTENT_KEPT_MAX;
use parking_lot::Mutex;

/// The most session ids tracked.
const SESSION_ID_COUNT_MAX: usize = 1_000_000;
/// A cookie with a shorter value (up to its first `.`) is no session id: session ids have at least 64 bits.
const SESSION_ID_BYTES_MIN: usize = 16;

/// The content of a user's session according to its responses.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    /// The expected response: the lines of all known pairs, followed by that of the request.
    expected: Vec<u8>,
    /// Length of its known part: all but the line of the request.
    known_bytes: usize,
    /// Lines of requests without an acknowledgement.
    unknown: Vec<Box<[u8]>>,
    missing: Vec<Missing>,
    /// Numbers of inconsistent responses that are not known to be stale yet.
    inconsistent: Vec<u32>,
    response_count: u32,
    has_shared_id: bool,
    content: ResponseContent,
}

/// A known pair that the last response lacked.
#[derive(Clone, Debug)]
struct Missing {
    line: Box<[u8]>,
    /// The first response without it.
    since: u32,
}

/// The content of the response that is being read.
#[derive(Debug)]
enum ResponseContent {
    /// This many bytes, all as expected.
    Expected(usize),
    /// All of it, up to [`CONTENT_KEPT_MAX`].
    Other(Vec<u8>),
}

/// The findings in one response, or at the end of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    pub is_inconsistent: bool,
    pub stale: u64,
    pub lost: u64,
    pub foreign: u64,
    pub shared: u64,
}

impl Default for ResponseContent {
    fn default() -> Self {
        Self::Expected(0)
    }
}

impl Findings {
    /// Whether the response is correct.
    pub(crate) const fn is_right(&self) -> bool {
        !self.is_inconsistent && self.foreign == 0 && self.shared == 0
    }
}

impl Pairs {
    /// Starts a new session.
    pub(crate) fn clear(&mut self) {
        self.expected.clear();
        self.known_bytes = 0;
        self.unknown.clear();
        self.missing.clear();
        self.inconsistent.clear();
        self.response_count = 0;
        self.has_shared_id = false;
        self.content = ResponseContent::default();
    }

    /// Begins a request with this target.
    pub(crate) fn begin_request(&mut self, target: &[u8]) {
        self.expected.truncate(self.known_bytes);
        push_line(target, &mut self.expected);
        self.content = ResponseContent::default();
        self.has_shared_id = false;
    }

    /// Records that the response set a session id of another user.
    pub(crate) const fn note_shared_id(&mut self) {
        self.has_shared_id = true;
    }

    /// Adds a part of the response's content.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        match &mut self.content {
            ResponseContent::Expected(length) if self.expected[*length..].starts_with(bytes) => *length += bytes.len(),
            ResponseContent::Expected(length) => {
                let before = &self.expected[..(*length).min(CONTENT_KEPT_MAX)];
                let room = CONTENT_KEPT_MAX - before.len();
                self.content = ResponseContent::Other([before, &bytes[..bytes.len().min(room)]].concat());
            }
            ResponseContent::Other(content) => {
                let room = CONTENT_KEPT_MAX - content.len();
                content.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
        }
    }

    /// The request has no response, or one that acknowledges nothing. Returns whether it was to store a pair.
    pub(crate) fn end_unacknowledged(&mut self) -> bool {
        let line = self.expected[self.known_bytes..].strip_suffix(b"\n");
        let is_write = line.is_some();
        self.unknown.extend(line.map(Box::from));
        self.expected.truncate(self.known_bytes);
        is_write
    }

    /// The response is complete, and acknowledges its request.
    pub(crate) fn end_acknowledged(&mut self) -> Findings {
        let shared = u64::from(std::mem::take(&mut self.has_shared_id));
        let mut findings = Findings { shared, ..Findings::default() };
        match std::mem::take(&mut self.content) {
            ResponseContent::Expected(length) if length == self.expected.len() => self.known_bytes = length,
            ResponseContent::Expected(length) => {
                let content = self.expected[..length].to_vec();
                self.compare(&content, &mut findings);
            }
            ResponseContent::Other(content) => self.compare(&content, &mut findings),
        }
        if !self.missing.is_empty() {
            findings.is_inconsistent = true;
            self.inconsistent.push(self.response_count);
        }
        self.response_count += 1;
        findings
    }

    /// The session ends: pairs that were not shown again are lost.
    pub(crate) fn end_session(&mut self) -> Findings {
        let last = self.response_count.saturating_sub(1);
        let lost = self.missing.iter().filter(|missing| missing.since < last).count();
        let stale = u64::from(lost < self.missing.len());
        self.missing.clear();
        Findings { lost: lost as u64, stale, ..Findings::default() }
    }

    /// Compares an unexpected response line by line.
    fn compare(&mut self, content: &[u8], findings: &mut Findings) {
        #[derive(Clone, Copy, PartialEq)]
        enum LineState {
            /// Shown before, or of the request.
            Known,
            Unknown,
            Missing(u32),
            Seen,
        }
        let expected = std::mem::take(&mut self.expected);
        let unknown = std::mem::take(&mut self.unknown);
        let missing = std::mem::take(&mut self.missing);
        let mut lines: HashMap<&[u8], LineState> = HashMap::new();
        lines.extend(unknown.iter().map(|line| (&**line, LineState::Unknown)));
        lines.extend(missing.iter().map(|missing| (&*missing.line, LineState::Missing(missing.since))));
        lines.extend(lines_of(&expected).map(|line| (line, LineState::Known)));
        let mut returned = u32::MAX;
        for line in lines_of(content) {
            match lines.get_mut(line) {
                None | Some(LineState::Seen) => findings.foreign += 1,
                Some(known) => {
                    if let LineState::Missing(since) = *known {
                        returned = returned.min(since);
                    }
                    *known = LineState::Seen;
                    self.expected.extend_from_slice(line);
                    self.expected.push(b'\n');
                }
            }
        }
        self.known_bytes = self.expected.len();
        let is_at = |line: &[u8], state: LineState| lines.get(line) == Some(&state);
        self.unknown = unknown.iter().filter(|line| is_at(line, LineState::Unknown)).cloned().collect();
        self.missing = missing.iter().filter(|one| !is_at(&one.line, LineState::Seen)).cloned().collect();
        let new = lines_of(&expected).filter(|line| is_at(line, LineState::Known));
        let since = self.response_count;
        self.missing.extend(new.map(|line| Missing { line: line.into(), since }));
        let before = self.inconsistent.len();
        self.inconsistent.retain(|&response| response < returned);
        findings.stale += (before - self.inconsistent.len()) as u64;
    }
}

/// Appends the line of the pair stored by a request with this target, if any.
fn push_line(target: &[u8], line: &mut Vec<u8>) {
    let query = target.splitn(2, |&byte| byte == b'?').nth(1).unwrap_or_default();
    let parameter = |name: &[u8]| {
        let mut parameters = query.split(|&byte| byte == b'&');
        parameters.find_map(|parameter| parameter.strip_prefix(name)?.strip_prefix(b"="))
    };
    if let (Some(name), Some(value)) = (parameter(b"name"), parameter(b"value")) {
        decode_form(name, line);
        line.push(b'=');
        decode_form(value, line);
        line.push(b'\n');
    }
}

/// Decodes a part of a form: `+` is a space, and `%` begins a byte. Invalid encodings are kept.
fn decode_form(value: &[u8], out: &mut Vec<u8>) {
    let digit = |at: usize| value.get(at).and_then(|&byte| char::from(byte).to_digit(16));
    let mut at = 0;
    while let Some(&byte) = value.get(at) {
        at += 1;
        match (byte, digit(at), digit(at + 1)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 2;
            }
            (b'+', ..) => out.push(b' '),
            _ => out.push(byte),
        }
    }
}

fn lines_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\n").unwrap_or(line))
}

/// The session ids issued by the server; shared by the shards of a run.
#[derive(Debug, Default)]
pub(crate) struct SessionIds {
    hasher: RandomState,
    sessions: Mutex<HashMap<u64, u64>>,
}

impl SessionIds {
    /// Whether the cookie, set by a response to this session, has the id of another session.
    pub(crate) fn is_shared(&self, cookie: &[u8], session: u64) -> bool {
        let pair = cookie.split(|&byte| byte == b';').next().unwrap_or_default();
        let Some(equals) = memchr::memchr(b'=', pair) else { return false };
        let value = pair[equals + 1..].trim_ascii();
        // The suffix is a route, as in `JSESSIONID=4F0A….node2`, and may change.
        let id = value.split(|&byte| byte == b'.').next().unwrap_or_default();
        if id.len() < SESSION_ID_BYTES_MIN {
            return false;
        }
        let key = self.hasher.hash_one((pair[..equals].trim_ascii(), id));
        let mut sessions = self.sessions.lock();
        match sessions.get(&key) {
            Some(&other) => other != session,
            None if sessions.len() == SESSION_ID_COUNT_MAX => false,
            None => {
                sessions.insert(key, session);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn target(pair: &str) -> String {
        let (name, value) = pair.split_once('=').unwrap();
        format!("/session?name={name}&value={value}")
    }

    /// The findings of each request with its response (none: no acknowledgement), and of the end.
    fn findings(exchanges: &[(&str, Option<&str>)]) -> (Vec<Findings>, Findings) {
        let mut pairs = Pairs::default();
        let found = exchanges.iter().filter_map(|(pair, shown)| {
            let target = if pair.is_empty() { "/session".to_owned() } else { target(pair) };
            pairs.begin_request(target.as_bytes());
            match shown {
                None => assert_eq!(pairs.end_unacknowledged(), !pair.is_empty()),
                Some(shown) => {
                    let content: String = shown
                        .split(' ')
                        .filter(|line| !line.is_empty())
                        .fold(String::new(), |text, line| text + line + "\n");
                    content.as_bytes().chunks(3).for_each(|bytes| pairs.feed(bytes));
                    return Some(pairs.end_acknowledged());
                }
            }
            None
        });
        let found = found.collect();
        (found, pairs.end_session())
    }

    #[track_caller]
    fn check(exchanges: &[(&str, Option<&str>)], inconsistent: &[usize], expected: Findings) {
        let (found, end) = findings(exchanges);
        let at: Vec<usize> = (0..found.len()).filter(|&index| found[index].is_inconsistent).collect();
        let sum = found.iter().chain([&end]).fold(Findings::default(), |sum, one| Findings {
            stale: sum.stale + one.stale,
            lost: sum.lost + one.lost,
            foreign: sum.foreign + one.foreign,
            ..sum
        });
        assert_eq!((at.as_slice(), sum), (inconsistent, expected));
    }

    const RIGHT: Findings = Findings { is_inconsistent: false, stale: 0, lost: 0, foreign: 0, shared: 0 };

    #[test]
    fn a_list_that_grows_pair_by_pair_is_right() {
        check(&[("a=1", Some("a=1")), ("", Some("a=1")), ("b=2", Some("a=1 b=2"))], &[], RIGHT);
    }

    #[test]
    fn a_pair_that_comes_back_was_missing_in_stale_responses() {
        let stale = |stale| Findings { stale, ..RIGHT };
        check(&[("a=1", Some("a=1")), ("b=2", Some("b=2")), ("c=3", Some("a=1 b=2 c=3"))], &[1], stale(1));
        check(&[("a=1", Some("a=1")), ("", Some("")), ("", Some("")), ("", Some("a=1"))], &[1, 2], stale(2));
        check(&[("a=1", Some("a=1")), ("b=2", Some("a=1 b=2")), ("", Some("a=1"))], &[2], stale(1));
        check(&[("a=1", Some("")), ("", Some("a=1"))], &[0], stale(1)); // its own
    }

    #[test]
    fn a_pair_that_does_not_come_back_is_lost() {
        let lost = |lost, stale| Findings { lost, stale, ..RIGHT };
        let begun = [("a=1", Some("a=1")), ("b=2", Some("a=1 b=2"))];
        check(&[&begun[..], &[("c=3", Some("b=2 c=3")), ("d=4", Some("b=2 c=3 d=4"))]].concat(), &[2, 3], lost(1, 0));
        check(&[&begun[..], &[("c=3", Some("c=3")), ("d=4", Some("c=3 d=4"))]].concat(), &[2, 3], lost(2, 0));
        // One reappears, so the responses without it were stale; the other is lost.
        check(&[&begun[..], &[("c=3", Some("c=3")), ("d=4", Some("b=2 c=3 d=4"))]].concat(), &[2, 3], lost(1, 1));
    }

    #[test]
    fn a_request_without_an_acknowledgement_may_have_been_done() {
        check(&[("a=1", None), ("b=2", Some("b=2")), ("", Some("b=2"))], &[], RIGHT);
        check(&[("a=1", None), ("b=2", Some("a=1 b=2")), ("", Some("a=1 b=2"))], &[], RIGHT);
        check(&[("a=1", None), ("b=2", Some("b=2")), ("", Some("b=2 a=1"))], &[], RIGHT); // it took effect later
        let lost = Findings { lost: 1, ..RIGHT };
        let shown_then_gone = [("a=1", None), ("b=2", Some("a=1 b=2")), ("", Some("b=2")), ("", Some("b=2"))];
        check(&shown_then_gone, &[1, 2], lost);
    }

    #[test]
    fn a_pair_that_nobody_stored_is_foreign() {
        let foreign = |foreign| Findings { foreign, ..RIGHT };
        check(&[("a=1", Some("a=1 x=9")), ("b=2", Some("a=1 b=2"))], &[], foreign(1));
        check(&[("a=1", Some("a=1")), ("b=2", Some("a=1 b=2 b=2"))], &[], foreign(1)); // stored twice
        check(&[("a=1", Some("a=2"))], &[0], Findings { foreign: 1, stale: 1, ..RIGHT });
        check(&[("", Some("x=1 y=2"))], &[], foreign(2));
    }

    #[test]
    fn parameters_are_decoded_as_forms_are() {
        let line = |target: &str| {
            let mut line = Vec::new();
            push_line(target.as_bytes(), &mut line);
            String::from_utf8(line).unwrap()
        };
        assert_eq!(line("/session?value=a+b%C5%BE&name=k"), "k=a bž\n");
        assert_eq!(line("/session?name=k"), "");
        assert_eq!(line("/session"), "");
    }

    #[test]
    fn a_session_id_belongs_to_one_session() {
        let ids = SessionIds::default();
        let cookie = b"JSESSIONID=0123456789abcdef.n1; Path=/";
        assert!(!ids.is_shared(cookie, 1));
        assert!(!ids.is_shared(b"JSESSIONID=0123456789abcdef.n2; Path=/", 1), "another route");
        assert!(ids.is_shared(b"JSESSIONID=0123456789abcdef.n2", 2));
        assert!(!ids.is_shared(b"other=0123456789abcdef", 2));
        assert!(!ids.is_shared(b"lang=en", 1) && !ids.is_shared(b"lang=en", 2), "no id");
    }

    proptest! {
        /// A server that shows what it has, at most some requests of which were not acknowledged, is always correct.
        #[test]
        fn no_right_server_is_blamed(steps in proptest::collection::vec((any::<bool>(), 0..4_u8), 1..40)) {
            let mut pairs = Pairs::default();
            let mut stored = String::new();
            for (number, (is_write, fate)) in steps.into_iter().enumerate() {
                let target = if is_write { format!("/?name=k{number}&value=v") } else { "/".to_owned() };
                pairs.begin_request(target.as_bytes());
                let is_done = is_write && fate != 1;
                if is_done {
                    stored += &format!("k{number}=v\n");
                }
                if fate < 2 {
                    pairs.end_unacknowledged();
                    continue;
                }
                let cut = stored.len() / usize::from(fate);
                pairs.feed(&stored.as_bytes()[..cut]);
                pairs.feed(&stored.as_bytes()[cut..]);
                prop_assert_eq!(pairs.end_acknowledged(), Findings::default());
            }
            prop_assert_eq!(pairs.end_session(), Findings::default());
        }
    }
}
