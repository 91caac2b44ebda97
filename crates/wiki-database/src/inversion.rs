//! Inversion: from pages with their words to words with their pages.

use std::hash::BuildHasher;

use hashbrown::HashTable;

use crate::postings::Postings;
use crate::words::each_index_word;

/// The words of some pages, each with the pages that contain it.
///
/// A text of 5 kB has 900 words, and each is looked up: most of the time is spent waiting for memory. So the data of a
/// look-up are small (the indices of words, their concatenated texts, a few numbers of each), and the lists of pages
/// are built at the end.
#[derive(Debug, Default)]
pub(crate) struct Inversion {
    hasher: foldhash::fast::RandomState,
    /// Indices into `words`, by text.
    places: HashTable<u32>,
    words: Vec<Word>,
    /// The concatenated texts of all words.
    texts: String,
    /// The number of each page, and where its words end in `of_pages`.
    pages: Vec<(u64, usize)>,
    /// The indices of the words of all pages.
    of_pages: Vec<u32>,
}

#[derive(Debug)]
struct Word {
    /// The end of its text, which starts at the end of the previous word.
    end: u32,
    /// The last page that contains it, counted from 1, and the number of pages.
    last: u32,
    pages: u32,
}

impl Inversion {
    /// Adds a page with a number greater than all before. The words of all pages must have less than 4 GiB.
    pub(crate) fn add(&mut self, page: u64, name: &str, text: &str) {
        let index = self.pages.len() as u32 + 1;
        let mut distinct = 0;
        each_index_word(name, text, |word| {
            let place = self.place(&word);
            let known = &mut self.words[place as usize];
            if known.last != index {
                known.last = index;
                known.pages += 1;
                self.of_pages.push(place);
                distinct += word.len() + 1;
            }
            distinct
        });
        self.pages.push((page, self.of_pages.len()));
    }

    fn place(&mut self, word: &str) -> u32 {
        let (hasher, words, texts) = (&self.hasher, &self.words, &self.texts);
        let hash = |place: &u32| hasher.hash_one(text_of(words, texts, *place));
        let entry = self.places.entry(hasher.hash_one(word), |place| text_of(words, texts, *place) == word, hash);
        let place = *entry.or_insert(words.len() as u32).get();
        if place as usize == self.words.len() {
            self.texts.push_str(word);
            self.words.push(Word { end: self.texts.len() as u32, last: 0, pages: 0 });
        }
        place
    }

    pub(crate) fn pages(&self) -> u64 {
        self.pages.len() as u64
    }

    /// The words in sorted order.
    pub(crate) fn into_sorted(self) -> Vec<(Box<str>, Postings)> {
        let lists = self.lists();
        let text = |place: &u32| text_of(&self.words, &self.texts, *place);
        let mut places: Vec<u32> = (0..self.words.len() as u32).collect();
        places.sort_unstable_by_key(text);
        let list = |place: u32| {
            let (end, length) = (lists.ends[place as usize], self.words[place as usize].pages as usize);
            lists.pages[end - length..end].iter().map(|index| self.pages[*index as usize].0).collect()
        };
        places.into_iter().map(|place| (Box::from(text(&place)), list(place))).collect()
    }

    /// The indices of the pages of each word.
    fn lists(&self) -> Lists {
        let mut ends = Vec::with_capacity(self.words.len());
        let mut start = 0;
        for word in &self.words {
            ends.push(start);
            start += word.pages as usize;
        }
        let mut pages = vec![0; start];
        let mut from = 0;
        for (index, (_, to)) in self.pages.iter().enumerate() {
            for place in &self.of_pages[from..*to] {
                let end = &mut ends[*place as usize];
                pages[*end] = index as u32;
                *end += 1;
            }
            from = *to;
        }
        Lists { ends, pages }
    }
}

/// Concatenated lists, in the order of the words' indices.
struct Lists {
    ends: Vec<usize>,
    pages: Vec<u32>,
}

fn text_of<'a>(words: &[Word], texts: &'a str, place: u32) -> &'a str {
    let place = place as usize;
    let start = if place == 0 { 0 } else { words[place - 1].end as usize };
    &texts[start..words[place].end as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postings::PostingsIter;

    #[test]
    fn each_word_has_the_pages_with_it_in_the_name_or_the_text() {
        let mut inversion = Inversion::default();
        inversion.add(3, "Castle", "old old castle");
        inversion.add(7, "!", "");
        inversion.add(9, "Town", "Old: tower");
        assert_eq!(inversion.pages(), 3);
        let words = inversion.into_sorted();
        let words: Vec<(&str, Vec<u64>)> =
            words.iter().map(|(word, pages)| (&**word, PostingsIter::from_bytes(pages.bytes()).collect())).collect();
        assert_eq!(words, [("castle", vec![3]), ("old", vec![3, 9]), ("tower", vec![9]), ("town", vec![9])]);
    }

    #[test]
    fn many_words_remain_apart() {
        let mut inversion = Inversion::default();
        for page in 1..=50 {
            let words: Vec<String> = (page..page + 1000).map(|word| format!("w{word}")).collect();
            inversion.add(page, "x", &words.join(" "));
        }
        for (word, pages) in inversion.into_sorted() {
            let number: u64 = word.strip_prefix('w').map_or(1000, |number| number.parse().unwrap());
            let first = if number > 1000 { number - 999 } else { 1 };
            assert!(PostingsIter::from_bytes(pages.bytes()).eq(first..=number.min(50)), "{word}");
        }
    }
}
