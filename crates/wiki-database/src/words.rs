//! Folding, words and letter groups: what both engines index, and how queries match it.
//!
//! Folding removes case, accents and other marks of Latin, Greek, Cyrillic, Hebrew and Arabic, and compatibility forms.
//! Scripts that put no spaces between words (Chinese, Japanese, Thai, …), or between words and their particles
//! (Hangul), are indexed by their characters and by pairs of characters. The index returns candidates;
//! [`TextQuery::rate`] reads their texts, drops false ones, and rates the others. Names are indexed by groups of one,
//! two and three characters, which find any part of a name.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::{ControlFlow, Range};
use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Limit of the bytes of one page's words in the index; the rest of a longer text is not found. PostgreSQL's `tsvector`
/// is limited to 1 MiB.
const INDEXED_BYTES_MAX: usize = 512 * 1024;

/// Longer words are indexed by their first characters.
const WORD_CHARS_MAX: usize = 40;

/// Limit of a query, in bytes; the rest is ignored.
const QUERY_BYTES_MAX: usize = 1024;

/// Limit of the words of a query; the rest are ignored.
const QUERY_WORDS_MAX: usize = 16;

/// Limit of the letter groups used to find candidates of a title query; complete names are compared afterwards.
const QUERY_GRAMS_MAX: usize = 16;

/// Characters of text before and after the first match in an excerpt.
const EXCERPT_BEFORE_CHARS: usize = 60;
const EXCERPT_AFTER_CHARS: usize = 180;

/// Delimiters of a match in an excerpt.
const MATCH_START: char = '\u{e000}';
const MATCH_END: char = '\u{e001}';

/// Removes case, accents and compatibility forms.
pub(crate) fn fold(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Cow::Owned(text.to_ascii_lowercase());
        }
        return Cow::Borrowed(text);
    }
    if let Some(folded) = fold_alphabetic(text) {
        return Cow::Owned(folded);
    }
    Cow::Owned(fold_any(text))
}

fn fold_any(text: &str) -> String {
    let decomposed = text.nfkd().filter(|c| !is_dropped(*c)).flat_map(char::to_lowercase);
    let mut folded = String::with_capacity(text.len());
    for c in decomposed.nfc() {
        match base_letters(c) {
            Some(letters) => folded.push_str(letters),
            None => folded.push(c),
        }
    }
    folded
}

/// The end of Latin, Greek and Cyrillic in Unicode.
const ALPHABETS_END: usize = 0x530;

/// Folding data of a character of these alphabets.
struct Letter {
    class: Class,
    /// The folded form, if it is one character and context-free.
    folded: Option<char>,
    /// The first character of the folded and decomposed form, if it is context-free.
    first: Option<char>,
}

static LETTERS: LazyLock<Vec<Letter>> = LazyLock::new(|| {
    let letter = |code| {
        let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        let folded = fold_any(c.encode_utf8(&mut [0; 4]));
        let mut characters = folded.chars();
        let is_alone = |_: &char| !is_combining_mark(c);
        let single = characters.next().filter(|_| characters.next().is_none()).filter(is_alone);
        Letter { class: class_of_any(c), folded: single, first: first_folded_of_any(c) }
    };
    (0..ALPHABETS_END as u32).map(letter).collect()
});

/// Folds letters of Latin, Greek and Cyrillic one by one, ten times as fast; `None` if the text contains others, or
/// marks.
fn fold_alphabetic(text: &str) -> Option<String> {
    let letters = &*LETTERS;
    let mut folded = String::with_capacity(text.len());
    for c in text.chars() {
        folded.push(letters.get(c as usize)?.folded?);
    }
    Some(folded)
}

/// The first character of a folded text that begins with `c`, decomposed; `None` if it depends on the following
/// characters.
fn first_folded(c: char) -> Option<char> {
    if c.is_ascii() {
        return Some(c.to_ascii_lowercase());
    }
    LETTERS.get(c as usize).map_or_else(|| first_folded_of_any(c), |letter| letter.first)
}

fn first_folded_of_any(c: char) -> Option<char> {
    let folded = fold_any(c.encode_utf8(&mut [0; 4])).nfd().next();
    folded.filter(|_| !is_dropped(c) && !is_combining_mark(c))
}

/// Marks that users omit when they type a query, and characters that only join others.
fn is_dropped(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}'                                  // Latin, Greek, Cyrillic
        | '\u{591}'..='\u{5c7}'                                // Hebrew points
        | '\u{610}'..='\u{61a}' | '\u{640}' | '\u{64b}'..='\u{65f}' | '\u{670}' // Arabic vowels, tatweel
        | '\u{200c}' | '\u{200d}' | '\u{ad}')
}

/// Letters that Unicode does not decompose, but people type as others.
fn base_letters(c: char) -> Option<&'static str> {
    Some(match c {
        'đ' | 'ð' => "d",
        'ł' => "l",
        'ø' => "o",
        'ı' => "i",
        'ß' => "ss",
        'æ' => "ae",
        'œ' => "oe",
        'þ' => "th",
        'ς' => "σ",
        _ => return None,
    })
}

/// A part of a text that a search can match.
enum Token {
    /// A word between separators.
    Word(Range<usize>),
    /// Characters of a script whose words spaces do not separate.
    Run(Range<usize>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Word,
    Run,
    Separator,
}

fn class(c: char) -> Class {
    LETTERS.get(c as usize).map_or_else(|| class_of_any(c), |letter| letter.class)
}

fn class_of_any(c: char) -> Class {
    if c.is_ascii() {
        return if c.is_ascii_alphanumeric() { Class::Word } else { Class::Separator };
    }
    if matches!(c, '\u{200c}' | '\u{200d}' | '\u{ad}') {
        return Class::Word;
    }
    if !c.is_alphanumeric() && !is_combining_mark(c) {
        return Class::Separator;
    }
    let unspaced = matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' // Thai, Lao, Burmese, Khmer
        | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{ff66}'..='\u{ff9f}' // kana
        | '\u{1100}'..='\u{11ff}' | '\u{3130}'..='\u{318f}' | '\u{a960}'..='\u{a97f}' // Hangul
        | '\u{ac00}'..='\u{d7ff}' | '\u{ffa0}'..='\u{ffdc}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}');
    if unspaced { Class::Run } else { Class::Word }
}

fn tokens(text: &str) -> impl Iterator<Item = Token> {
    let mut start = 0;
    std::iter::from_fn(move || {
        loop {
            let c = text[start..].chars().next()?;
            let kind = class(c);
            let mut end = start + c.len_utf8();
            if kind == Class::Separator {
                start = end;
                continue;
            }
            loop {
                // Most characters of most texts are ASCII and need no decoding.
                while kind == Class::Word && text.as_bytes().get(end).is_some_and(u8::is_ascii_alphanumeric) {
                    end += 1;
                }
                match text[end..].chars().next() {
                    Some(c) if class(c) == kind => end += c.len_utf8(),
                    _ => break,
                }
            }
            let range = start..end;
            start = end;
            return Some(if kind == Class::Run { Token::Run(range) } else { Token::Word(range) });
        }
    })
}

/// A folded word in the form of the index: ASCII letters and digits and all non-ASCII characters.
fn index_word(word: &str) -> Cow<'_, str> {
    if word.is_ascii() {
        let end = word.len().min(WORD_CHARS_MAX);
        return fold(&word[..end]);
    }
    let folded = fold(word);
    Cow::Owned(folded.chars().filter(|c| !c.is_ascii() || c.is_ascii_alphanumeric()).take(WORD_CHARS_MAX).collect())
}

/// The distinct words of a page, separated by spaces.
pub(crate) fn index_words(name: &str, text: &str) -> String {
    let mut words = Words::new(text.len());
    each_index_word(name, text, |word| {
        words.add(word);
        words.joined.len()
    });
    words.joined
}

/// Calls `add` for each word of a page in the form of the index, including repetitions. `add` returns the bytes of
/// distinct words so far: those after [`INDEXED_BYTES_MAX`] are skipped.
pub(crate) fn each_index_word<'a>(name: &'a str, text: &'a str, mut add: impl FnMut(Cow<'a, str>) -> usize) {
    let mut add = |word| if add(word) > INDEXED_BYTES_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let mut words = [name, text].into_iter().flat_map(|part| tokens(part).map(move |token| (part, token)));
    let _ = words.try_for_each(|(part, token)| match token {
        Token::Word(range) => match index_word(&part[range]) {
            word if word.is_empty() => ControlFlow::Continue(()),
            word => add(word),
        },
        Token::Run(range) => each_run_word(&part[range], &mut add),
    });
}

/// The characters of a run, and each pair of neighbours. A run may be a whole page: it has no spaces.
fn each_run_word<'a>(run: &str, mut add: impl FnMut(Cow<'a, str>) -> ControlFlow<()>) -> ControlFlow<()> {
    let folded = fold(run);
    let mut before = None;
    for (at, c) in folded.char_indices() {
        let end = at + c.len_utf8();
        if let Some(before) = before {
            add(Cow::Owned(folded[before..end].to_owned()))?;
        }
        add(Cow::Owned(folded[at..end].to_owned()))?;
        before = Some(at);
    }
    ControlFlow::Continue(())
}

/// Distinct words, joined by spaces in order of occurrence.
struct Words<'a> {
    seen: HashSet<Cow<'a, str>, foldhash::fast::RandomState>,
    joined: String,
}

impl<'a> Words<'a> {
    fn new(text_bytes: usize) -> Self {
        Self { seen: HashSet::default(), joined: String::with_capacity(text_bytes.min(INDEXED_BYTES_MAX)) }
    }

    fn add(&mut self, word: Cow<'a, str>) {
        if self.seen.contains(&word) {
            return;
        }
        if !self.joined.is_empty() {
            self.joined.push(' ');
        }
        self.joined.push_str(&word);
        self.seen.insert(word);
    }
}

/// A full-text query.
pub(crate) struct TextQuery {
    terms: Vec<Term>,
    /// The first character of each word, which rules out most words of a text.
    firsts: Vec<Option<char>>,
}

enum Term {
    Word(String),
    Run(String),
}

/// How well a page matches, and the text around its first match.
pub(crate) struct Rating {
    pub(crate) score: f64,
    pub(crate) excerpt: String,
}

impl TextQuery {
    /// `None` if the text contains no word.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = &text[..text.floor_char_boundary(QUERY_BYTES_MAX)];
        let mut terms = Vec::new();
        for token in tokens(text).take(QUERY_WORDS_MAX) {
            match token {
                Token::Word(range) => {
                    let word = index_word(&text[range]).into_owned();
                    if !word.is_empty() {
                        terms.push(Term::Word(word));
                    }
                }
                Token::Run(range) => terms.push(Term::Run(fold(&text[range]).into_owned())),
            }
        }
        let first = |term: &Term| match term {
            Term::Word(word) => word.chars().next().and_then(first_folded),
            Term::Run(_) => None,
        };
        let firsts = terms.iter().map(first).collect();
        (!terms.is_empty()).then_some(Self { terms, firsts })
    }

    /// The index words that a page must contain: no quotes, spaces or operators.
    pub(crate) fn index_words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for term in &self.terms {
            match term {
                Term::Word(word) => words.push(word.clone()),
                Term::Run(run) => {
                    let characters: Vec<char> = run.chars().collect();
                    let size = characters.len().min(2);
                    words.extend(characters.windows(size.max(1)).take(QUERY_WORDS_MAX).map(String::from_iter));
                }
            }
        }
        words
    }

    /// Compares the query with a page: `None` if the page does not match.
    pub(crate) fn rate(&self, name: &str, text: &str) -> Option<Rating> {
        let mut hits_of_term = vec![0_u32; self.terms.len()];
        let mut hits: Vec<Range<usize>> = Vec::new();
        let mut words = 0_u32;
        for token in tokens(text) {
            words += 1;
            if let Some((term, range)) = self.hit(text, &token) {
                hits_of_term[term] += 1;
                if hits.len() < 64 {
                    hits.push(range);
                }
            }
        }
        let mut score = 0.0;
        for (term, hits) in hits_of_term.iter().enumerate() {
            let in_name = tokens(name).any(|token| self.hit_of(term, name, &token).is_some());
            if *hits == 0 && !in_name {
                return None;
            }
            score += f64::from(1 + hits).ln() / f64::from(1 + words).sqrt() + if in_name { 1.0 } else { 0.0 };
        }
        Some(Rating { score, excerpt: excerpt(text, &hits) })
    }

    fn hit(&self, text: &str, token: &Token) -> Option<(usize, Range<usize>)> {
        if let Token::Word(range) = token
            && let Some(first) = text[range.clone()].chars().next().and_then(first_folded)
            && !self.firsts.iter().any(|wanted| wanted.is_none_or(|wanted| wanted == first))
        {
            return None;
        }
        (0..self.terms.len()).find_map(|term| Some((term, self.hit_of(term, text, token)?)))
    }

    fn hit_of(&self, term: usize, text: &str, token: &Token) -> Option<Range<usize>> {
        match (&self.terms[term], token) {
            (Term::Word(wanted), Token::Word(range)) => {
                let word = &text[range.clone()];
                let is_hit = if word.is_ascii() {
                    word[..word.len().min(WORD_CHARS_MAX)].eq_ignore_ascii_case(wanted)
                } else {
                    index_word(word) == *wanted
                };
                is_hit.then(|| range.clone())
            }
            (Term::Run(wanted), Token::Run(range)) => {
                let folded = fold(&text[range.clone()]);
                let at = folded.find(wanted.as_str())?;
                Some(part_of_run(text, range, &folded, at, wanted))
            }
            _ => None,
        }
    }
}

/// The position in the text of `wanted`, which begins at byte `at` of `folded`: the whole run, if folding changed its
/// length.
fn part_of_run(text: &str, run: &Range<usize>, folded: &str, at: usize, wanted: &str) -> Range<usize> {
    let original = &text[run.clone()];
    if original.chars().count() != folded.chars().count() {
        return run.clone();
    }
    let first = folded[..at].chars().count();
    let mut starts = original.char_indices().map(|(at, _)| at).chain([original.len()]).skip(first);
    let start = starts.next().unwrap_or(0);
    let end = starts.nth(wanted.chars().count().saturating_sub(1)).unwrap_or(original.len());
    run.start + start..run.start + end
}

/// The text around the first of `hits`, or its beginning, without line breaks and with delimited hits.
fn excerpt(text: &str, hits: &[Range<usize>]) -> String {
    let first = hits.first().map_or(0, |hit| hit.start);
    let start = text[..first].char_indices().rev().nth(EXCERPT_BEFORE_CHARS - 1).map_or(0, |(at, _)| at);
    let end = text[first..].char_indices().nth(EXCERPT_AFTER_CHARS).map_or(text.len(), |(at, _)| first + at);
    let mut out = String::with_capacity(end - start + 32);
    if start > 0 {
        out.push('…');
    }
    let mut at = start;
    for hit in hits.iter().filter(|hit| hit.end <= end) {
        push_plain(&mut out, &text[at..hit.start]);
        out.push(MATCH_START);
        push_plain(&mut out, &text[hit.clone()]);
        out.push(MATCH_END);
        at = hit.end;
    }
    push_plain(&mut out, &text[at..end]);
    if end < text.len() {
        out.push('…');
    }
    out.trim().to_owned()
}

/// Appends text of a page: white space becomes single spaces, and delimiters of matches are removed.
fn push_plain(out: &mut String, text: &str) {
    for c in text.chars() {
        if c.is_whitespace() {
            if !out.ends_with(' ') {
                out.push(' ');
            }
        } else if !matches!(c, MATCH_START | MATCH_END) && !c.is_control() {
            out.push(c);
        }
    }
}

/// The distinct groups of one, two and three letters of a folded name, separated by spaces.
pub(crate) fn index_grams(folded: &str) -> String {
    let characters: Vec<char> = folded.chars().map(gram_char).collect();
    let mut grams = Words::new(characters.len() * 9);
    for size in 1..=3 {
        for group in characters.windows(size) {
            grams.add(Cow::Owned(group.iter().collect()));
        }
    }
    grams.joined
}

/// Maps ASCII separators to private characters, so that a group that contains them remains one word of the index.
fn gram_char(c: char) -> char {
    if c.is_ascii_alphanumeric() || !c.is_ascii() {
        return c;
    }
    char::from_u32(0xe000 + u32::from(c)).unwrap_or(c)
}

/// A query for a part of a name.
pub(crate) struct TitleQuery {
    pub(crate) folded: String,
    /// The letter groups that a matching name contains.
    pub(crate) grams: Vec<String>,
}

impl TitleQuery {
    /// `None` if no name can match.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.len() > QUERY_BYTES_MAX || text.contains('\0') {
            return None;
        }
        let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c == '_').filter(|w| !w.is_empty()).collect();
        let folded = fold(&words.join(" ")).into_owned();
        let characters: Vec<char> = folded.chars().map(gram_char).collect();
        if characters.is_empty() {
            return None;
        }
        let size = characters.len().min(3);
        let mut grams: Vec<String> = characters.windows(size).map(String::from_iter).collect();
        grams.sort_unstable();
        grams.dedup();
        grams.truncate(QUERY_GRAMS_MAX);
        Some(Self { folded, grams })
    }

    /// The first text after all those with this prefix, in byte order; `None` if there is none.
    pub(crate) fn end_of_prefix(&self) -> Option<String> {
        let mut characters: Vec<char> = self.folded.chars().collect();
        while let Some(last) = characters.pop() {
            let next = ((last as u32 + 1)..=0x0010_ffff).find_map(char::from_u32);
            if let Some(next) = next {
                characters.push(next);
                return Some(characters.into_iter().collect());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_removes_case_accents_and_forms() {
        for (text, folded) in [
            ("Škocjanske JAME", "skocjanske jame"),
            ("Đorđe Łódź Straße", "dorde lodz strasse"),
            ("ΌΔΟΣ ὁδός", "οδοσ οδοσ"),
            ("ＡＢＣ ﬁ", "abc fi"),
            ("한국어", "한국어"),
            ("がパ", "がパ"),
            ("हिन्दी", "हिन्दी"),
        ] {
            assert_eq!(fold(text), folded);
        }
    }

    #[test]
    fn the_short_way_folds_as_the_long_one() {
        for code in (0..0x3000).filter_map(char::from_u32) {
            let text = format!("a{code}Ž");
            assert_eq!(fold(&text), fold_any(&text), "{code:?}");
            let first = first_folded(code).is_none_or(|first| fold(&text[1..]).nfd().next() == Some(first));
            assert!(first, "{code:?}");
        }
    }

    #[test]
    fn words_are_indexed_once_and_unspaced_scripts_by_pairs() {
        assert_eq!(index_words("Page", "A page, a-PAGE; žaba_1"), "page a zaba 1");
        assert_eq!(index_words("x", "東京都"), "x 東 東京 京 京都 都");
        assert_eq!(index_words("x", "한국어 \u{1112}\u{1161}"), "x 한 한국 국 국어 어 하");
    }

    #[test]
    fn the_index_of_a_page_is_bounded() {
        let text: String = (0..200_000).map(|n| format!("word{n} ")).collect();
        assert!(index_words("x", &text).len() < INDEXED_BYTES_MAX + 200);
        // Characters whose pairs are all different, without a space.
        let characters: Vec<char> = ('\u{4e00}'..'\u{9f00}').collect();
        let run: String = (1..20).flat_map(|step| characters.iter().step_by(step)).collect();
        assert!(run.len() > INDEXED_BYTES_MAX / 4, "{}", run.len());
        assert!(index_words("x", &run).len() < INDEXED_BYTES_MAX + 200);
        assert_eq!(index_words("", &"x".repeat(100)).len(), WORD_CHARS_MAX);
    }

    fn rate(query: &str, name: &str, text: &str) -> Option<String> {
        TextQuery::parse(query).unwrap().rate(name, text).map(|rating| rating.excerpt)
    }

    #[test]
    fn a_page_matches_with_all_words_wherever_they_are() {
        assert_eq!(rate("GRAD ljubljana", "Ljubljana", "Old\n\ngrad here").unwrap(), "Old \u{e000}grad\u{e001} here");
        assert!(rate("grad maribor", "Ljubljana", "grad").is_none());
        assert_eq!(rate("京都", "x", "私は京都へ").unwrap(), "私は\u{e000}京都\u{e001}へ");
        assert_eq!(rate("한국", "x", "나는 한국어를").unwrap(), "나는 \u{e000}한국\u{e001}어를");
        // Both pairs occur, but not the three characters in a row.
        assert!(rate("東京都", "x", "東京 京都").is_none());
    }

    #[test]
    fn an_excerpt_has_no_marks_of_its_own_and_a_bounded_length() {
        let text = format!("{} word\u{e000}\u{e001} {}", "a ".repeat(500), "é".repeat(500));
        let found = rate("word", "x", &text).unwrap();
        assert_eq!(found.matches('\u{e000}').count(), 1);
        assert!(found.starts_with('…') && found.ends_with('…'));
        assert!(found.chars().count() < EXCERPT_BEFORE_CHARS + EXCERPT_AFTER_CHARS + 8);
    }

    #[test]
    fn queries_have_no_syntax() {
        for text in ["\"", "* ^ :", "", "-", "\0", "()"] {
            assert!(TextQuery::parse(text).is_none(), "{text:?}");
        }
        let words = TextQuery::parse("NEAR(\"a b\") OR text:c* '); DROP").unwrap().index_words();
        assert_eq!(words, ["near", "a", "b", "or", "text", "c", "drop"]);
        assert!(TextQuery::parse(&"w ".repeat(5000)).unwrap().index_words().len() <= QUERY_WORDS_MAX);
    }

    #[test]
    fn a_part_of_a_name_has_only_groups_that_the_name_has() {
        let grams = index_grams(&fold("Ljubljanski grad (Župa)"));
        let has = |part: &str| {
            let query = TitleQuery::parse(part).unwrap();
            query.grams.iter().all(|gram| grams.split(' ').any(|other| other == gram))
        };
        for part in ["l", "ki", "ski gr", "SKI_GR", "(", " (ž", "grad (zupa)"] {
            assert!(has(part), "{part:?}");
        }
        assert!(!has("gradu") && !has("%") && !has("*"));
    }

    #[test]
    fn the_end_of_a_prefix_follows_all_its_continuations() {
        let end = |text: &str| TitleQuery::parse(text).unwrap().end_of_prefix();
        assert_eq!(end("ab").unwrap(), "ac");
        assert_eq!(end("\u{10ffff}"), None);
        assert_eq!(end("\u{d7ff}").unwrap(), "\u{e000}");
    }
}
