//! Versions that the run writes into pages, and the detection of stale responses.
//!
//! A request whose content contains `{page_version}` writes a version: a mark with the run, the page (the request's
//! target) and the number of the write. A GET of the same target is judged by the newest mark of that page in its
//! response. The response is **stale** if the write of that version had ended before another write of the page began,
//! and that one was acknowledged before the GET was sent. Its **age** is the time from the first such acknowledgement
//! to the sending of the GET.
//!
//! A write is acknowledged by a complete response with a status from 200 to 399. Of all other writes, and of
//! overlapping ones, it is unknown which took effect last; their versions are never called stale.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use breme_base::Instant;
use breme_load_plan::{MARK_BLANK, MARK_BYTES};
use memchr::memmem;
use parking_lot::Mutex;

/// Limit of pages whose versions are tracked.
const PAGE_COUNT_MAX: usize = 1_000_000;
/// Limit of versions of all pages; beyond it, each new one replaces the oldest of its page.
const VERSION_COUNT_MAX: usize = 4_000_000;
/// Pages listed in a result: those with the most stale responses.
const WORST_PAGES: usize = 10;

/// Prefix of a mark. Markdown, HTML and JSON leave letters, digits and single hyphens unchanged.
const PREFIX: &str = "breme-version-";
const SUFFIX: &str = "-end";
const RUN_DIGITS: usize = 16;
const PAGE_DIGITS: usize = 7;
const NUMBER_DIGITS: usize = 9;
const NUMBER_MAX: u32 = 999_999_999;

const _: () = {
    let bytes = PREFIX.len() + RUN_DIGITS + 1 + PAGE_DIGITS + 1 + NUMBER_DIGITS + SUFFIX.len();
    assert!(bytes == MARK_BYTES, "a mark takes the place that templates leave for it");
};

/// A request's relation to versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Write(Written),
    /// It reads this page.
    Read(u32),
}

/// A version that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    page: u32,
    number: u32,
}

/// The verdict on a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// A version that may have been the newest.
    Current,
    /// An old one; its age.
    Stale(Duration),
    /// No version, although one had been acknowledged.
    Unversioned,
    /// No version had been acknowledged, or the one shown is no longer stored.
    Unknown,
}

/// The versions of a run, shared by its shards.
#[derive(Debug)]
pub(crate) struct Versions {
    run: u64,
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    numbers: HashMap<Box<[u8]>, u32>,
    list: Vec<Page>,
    version_count: usize,
    /// Writes of pages beyond [`PAGE_COUNT_MAX`].
    not_followed: u64,
}

#[derive(Debug)]
struct Page {
    target: Box<[u8]>,
    last_number: u32,
    /// By number, the oldest first.
    versions: VecDeque<Version>,
    stale: u64,
    age_max: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Version {
    number: u32,
    sent: Instant,
    /// [`Instant::FAR`]: not, or not yet.
    acknowledged: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StalePage {
    pub target: String,
    pub stale: u64,
    pub age_max: Duration,
}

impl Versions {
    /// For the run with this number, which is unique among the runs that write to the same server.
    pub(crate) fn new(run: u64) -> Self {
        Self { run, pages: Mutex::default() }
    }

    /// The next version of the page; none if it is not tracked.
    pub(crate) fn begin_write(&self, target: &[u8], now: Instant) -> Option<Written> {
        self.pages.lock().begin_write(target, now)
    }

    /// The page, if a version of it was written.
    pub(crate) fn page(&self, target: &[u8]) -> Option<u32> {
        self.pages.lock().numbers.get(target).copied()
    }

    /// The response to the write of a version is complete and successful.
    pub(crate) fn acknowledge(&self, written: Written, done: Instant) {
        let mut pages = self.pages.lock();
        let Some(page) = pages.list.get_mut(written.page as usize) else { return };
        if let Some(version) = page.version_mut(written.number) {
            version.acknowledged = done;
        }
    }

    /// Judges a response to a GET of a page sent at this instant.
    pub(crate) fn judge(&self, page: u32, shown: Option<u32>, sent: Instant) -> Judgement {
        let mut pages = self.pages.lock();
        let Some(page) = pages.list.get_mut(page as usize) else { return Judgement::Unknown };
        let judgement = page.judge(shown, sent);
        if let Judgement::Stale(age) = judgement {
            page.stale += 1;
            page.age_max = page.age_max.max(age);
        }
        judgement
    }

    /// The mark of a version, which replaces [`MARK_BLANK`].
    pub(crate) fn mark(&self, written: Option<Written>) -> [u8; MARK_BYTES] {
        let Written { page, number } = written.unwrap_or(Written { page: PAGE_COUNT_MAX as u32, number: 0 });
        let text = format!("{}{number:0NUMBER_DIGITS$}{SUFFIX}", self.prefix(page));
        let mut mark = MARK_BLANK;
        mark.copy_from_slice(text.as_bytes());
        mark
    }

    /// Common prefix of all marks of a page.
    fn prefix(&self, page: u32) -> String {
        format!("{PREFIX}{:0RUN_DIGITS$x}-{page:0PAGE_DIGITS$}-", self.run)
    }

    /// A search for the marks of a page.
    pub(crate) fn search(&self, page: u32) -> Search {
        Search { prefix: self.prefix(page), tail: Vec::new(), newest: None }
    }

    /// The pages with the most stale responses, and the number of writes of pages that are not tracked.
    pub(crate) fn worst(&self) -> (Vec<StalePage>, u64) {
        let pages = self.pages.lock();
        let mut worst: Vec<&Page> = pages.list.iter().filter(|page| page.stale > 0).collect();
        worst.sort_by(|one, other| other.stale.cmp(&one.stale).then_with(|| one.target.cmp(&other.target)));
        let stale_page = |page: &&Page| StalePage {
            target: String::from_utf8_lossy(&page.target).into_owned(),
            stale: page.stale,
            age_max: page.age_max,
        };
        (worst.iter().take(WORST_PAGES).map(stale_page).collect(), pages.not_followed)
    }
}

impl Pages {
    fn begin_write(&mut self, target: &[u8], now: Instant) -> Option<Written> {
        let index = match self.numbers.get(target) {
            Some(&index) => index,
            None if self.list.len() == PAGE_COUNT_MAX => {
                self.not_followed += 1;
                return None;
            }
            None => self.add(target),
        };
        let is_full = self.version_count == VERSION_COUNT_MAX;
        let page = &mut self.list[index as usize];
        if page.last_number == NUMBER_MAX || (is_full && page.versions.pop_front().is_none()) {
            self.not_followed += 1;
            return None;
        }
        self.version_count += usize::from(!is_full);
        page.last_number += 1;
        page.versions.push_back(Version { number: page.last_number, sent: now, acknowledged: Instant::FAR });
        Some(Written { page: index, number: page.last_number })
    }

    fn add(&mut self, target: &[u8]) -> u32 {
        let index = self.list.len() as u32; // below PAGE_COUNT_MAX
        self.numbers.insert(target.into(), index);
        self.list.push(Page {
            target: target.into(),
            last_number: 0,
            versions: VecDeque::new(),
            stale: 0,
            age_max: Duration::ZERO,
        });
        index
    }
}

impl Page {
    /// Numbers have no gaps.
    fn place(&self, number: u32) -> Option<usize> {
        let first = self.versions.front()?.number;
        number.checked_sub(first).map(|place| place as usize).filter(|&place| place < self.versions.len())
    }

    fn version_mut(&mut self, number: u32) -> Option<&mut Version> {
        let place = self.place(number)?;
        self.versions.get_mut(place)
    }

    fn judge(&self, shown: Option<u32>, sent: Instant) -> Judgement {
        let Some(shown) = shown else {
            let was_written = self.versions.iter().any(|version| version.acknowledged <= sent);
            return if was_written { Judgement::Unversioned } else { Judgement::Unknown };
        };
        let Some(place) = self.place(shown) else { return Judgement::Unknown };
        // FAR while it is unknown whether it was done: no write begins after that.
        let over = self.versions[place].acknowledged;
        let mut replaced = Instant::FAR;
        for newer in self.versions.iter().skip(place + 1) {
            if newer.sent >= replaced {
                break; // acknowledged later still
            }
            if newer.sent >= over {
                replaced = replaced.min(newer.acknowledged);
            }
        }
        if replaced <= sent { Judgement::Stale(sent.since(replaced)) } else { Judgement::Current }
    }
}

/// Searches content that arrives in pieces for the newest version of a page.
#[derive(Debug, Default)]
pub(crate) struct Search {
    prefix: String,
    /// The last bytes before the current piece, in which a mark may begin.
    tail: Vec<u8>,
    newest: Option<u32>,
}

impl Search {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        const TAIL: usize = MARK_BYTES - 1;
        if !self.tail.is_empty() {
            let before = self.tail.len();
            self.tail.extend_from_slice(&bytes[..bytes.len().min(TAIL)]);
            let seam = std::mem::take(&mut self.tail);
            self.look(&seam, before);
            self.tail = seam;
            self.tail.truncate(before);
        }
        self.look(bytes, bytes.len());
        let surplus = (self.tail.len() + bytes.len()).saturating_sub(TAIL);
        self.tail.drain(..surplus.min(self.tail.len()));
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL)..]);
    }

    /// Searches marks that begin before `end`.
    fn look(&mut self, bytes: &[u8], end: usize) {
        for at in memmem::find_iter(bytes, self.prefix.as_bytes()).take_while(|&at| at < end) {
            let rest = &bytes[at + self.prefix.len()..];
            let Some((digits, rest)) = rest.split_at_checked(NUMBER_DIGITS) else { return };
            let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u32>().ok());
            if rest.starts_with(SUFFIX.as_bytes()) {
                self.newest = self.newest.max(number);
            }
        }
    }

    pub(crate) const fn newest(&self) -> Option<u32> {
        self.newest
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(count: u64) -> Instant {
        Instant::from_nanos(count * 1_000_000)
    }

    /// Writes with the instants of their sending and of their acknowledgement.
    fn written(writes: &[(u64, Option<u64>)]) -> Versions {
        let versions = Versions::new(7);
        for &(sent, acknowledged) in writes {
            let written = versions.begin_write(b"/p", ms(sent)).unwrap();
            if let Some(done) = acknowledged {
                versions.acknowledge(written, ms(done));
            }
        }
        versions
    }

    #[track_caller]
    fn check(writes: &[(u64, Option<u64>)], shown: Option<u32>, sent: u64, expected: Judgement) {
        assert_eq!(written(writes).judge(0, shown, ms(sent)), expected);
    }

    const fn stale(milliseconds: u64) -> Judgement {
        Judgement::Stale(Duration::from_millis(milliseconds))
    }

    #[test]
    fn a_version_is_stale_once_a_later_write_is_acknowledged() {
        let writes = [(0, Some(10)), (20, Some(30)), (40, Some(50))];
        check(&writes, Some(1), 29, Judgement::Current);
        check(&writes, Some(1), 30, stale(0));
        check(&writes, Some(1), 65, stale(35)); // since the second, not since the third
        check(&writes, Some(2), 65, stale(15));
        check(&writes, Some(3), 65, Judgement::Current);
    }

    #[test]
    fn writes_that_overlap_have_no_order() {
        // The second was sent before the first was acknowledged: either may be the page.
        check(&[(0, Some(10)), (9, Some(20))], Some(1), 100, Judgement::Current);
        check(&[(0, Some(10)), (9, Some(20))], Some(2), 100, Judgement::Current);
        // The third came after both.
        check(&[(0, Some(10)), (9, Some(20)), (20, Some(25))], Some(1), 100, stale(75));
        check(&[(0, Some(10)), (9, Some(20)), (20, Some(25))], Some(2), 100, stale(75));
        // Of two later ones, the one that was acknowledged first counts.
        check(&[(0, Some(10)), (12, Some(90)), (15, Some(20))], Some(1), 100, stale(80));
    }

    #[test]
    fn a_write_of_unknown_outcome_is_never_stale_and_makes_none() {
        check(&[(0, None), (20, Some(30))], Some(1), 100, Judgement::Current);
        check(&[(0, Some(10)), (20, None)], Some(1), 100, Judgement::Current);
        check(&[(0, Some(10)), (20, None)], Some(2), 100, Judgement::Current);
    }

    #[test]
    fn a_page_without_a_version_is_counted_only_after_an_acknowledgement() {
        check(&[(0, Some(10))], None, 9, Judgement::Unknown);
        check(&[(0, Some(10))], None, 10, Judgement::Unversioned);
        check(&[(0, None)], None, 100, Judgement::Unknown);
        check(&[(0, Some(10))], Some(9), 100, Judgement::Unknown);
        assert_eq!(Versions::new(1).page(b"/p"), None);
    }

    #[test]
    fn pages_with_stale_responses_are_named() {
        let versions = written(&[(0, Some(10)), (20, Some(30))]);
        versions.judge(0, Some(1), ms(40));
        versions.judge(0, Some(1), ms(35));
        versions.judge(0, Some(2), ms(99));
        let page = StalePage { target: "/p".to_owned(), stale: 2, age_max: Duration::from_millis(10) };
        assert_eq!(versions.worst(), (vec![page], 0));
    }

    #[test]
    fn the_oldest_versions_are_forgotten_first() {
        let mut page = Pages { version_count: VERSION_COUNT_MAX - 2, ..Pages::default() };
        let numbers: Vec<_> = (0..4).map(|at| page.begin_write(b"/p", ms(at)).unwrap().number).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        assert_eq!(page.list[0].versions.iter().map(|version| version.number).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(page.list[0].judge(Some(1), ms(99)), Judgement::Unknown);
        assert_eq!((page.begin_write(b"/q", ms(9)), page.not_followed), (None, 1));
    }

    proptest! {
        #[test]
        fn the_newest_mark_of_the_page_is_found(
            numbers in proptest::collection::vec((0..3_usize, 1..5_usize), 0..6),
            cuts in proptest::collection::vec(0..400_usize, 0..12),
        ) {
            let versions = Versions::new(0xFEED);
            let pages: Vec<Vec<Written>> = [&b"/0"[..], b"/1", b"/2"]
                .iter()
                .map(|page| (0..5).map(|at| versions.begin_write(page, ms(at)).unwrap()).collect())
                .collect();
            let mut content = b"breme-version-000000000000feed-0000001-0000".to_vec();
            for &(page, number) in &numbers {
                content.extend_from_slice(b" <p>");
                content.extend_from_slice(&versions.mark(Some(pages[page][number])));
                content.extend_from_slice(b"</p>");
            }
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(content.len())).collect();
            cuts.extend([0, content.len()]);
            cuts.sort_unstable();
            let mut search = versions.search(1);
            cuts.windows(2).for_each(|cut| search.feed(&content[cut[0]..cut[1]]));
            let expected = numbers.iter().filter(|(page, _)| *page == 1).map(|(_, number)| *number as u32 + 1).max();
            prop_assert_eq!(search.newest(), expected);
        }
    }
}
