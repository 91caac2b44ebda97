-- The index of words is in tables of its own, in place of FTS5, whose table of words in memory took half of the time of
-- an import. All pages are indexed again when the file is opened.
DROP TABLE text_words;
INSERT OR IGNORE INTO unindexed (page) SELECT id FROM pages WHERE live = 1;

-- Each indexing of pages is a generation. A page has the one in which its words were indexed last.
ALTER TABLE pages ADD COLUMN generation INTEGER;
CREATE INDEX pages_generation ON pages (generation) WHERE generation IS NOT NULL;

-- The words of the pages of some generations: a segment. Its lists may also have pages that were indexed again in other
-- generations, or deleted, since it was written. The numbers are those of its pages, rows and bytes of words and lists.
CREATE TABLE text_segments (
    id INTEGER PRIMARY KEY,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    pages INTEGER NOT NULL,
    words INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;
-- The pages that have a word, in ascending order.
CREATE TABLE text_words (
    segment INTEGER NOT NULL,
    word TEXT NOT NULL,
    pages BLOB NOT NULL,
    PRIMARY KEY (segment, word)
) STRICT, WITHOUT ROWID;
