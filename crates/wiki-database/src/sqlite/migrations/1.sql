-- A page, or the place of a deleted one: its revision numbers continue when it is created again.
CREATE TABLE pages (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    -- The name without case and accents.
    folded TEXT NOT NULL,
    revision INTEGER NOT NULL,
    -- Of `revisions`. A foreign key would make each new revision search all pages for those that wait for it.
    current INTEGER NOT NULL,
    links_version INTEGER NOT NULL,
    live INTEGER NOT NULL CHECK (live IN (0, 1))
) STRICT;
CREATE INDEX pages_folded ON pages (folded) WHERE live = 1;

-- All revisions of all pages; `sequence` is the sequence of all changes. The long columns are the last ones, so that
-- lists of changes do not read them.
CREATE TABLE revisions (
    sequence INTEGER PRIMARY KEY,
    page INTEGER NOT NULL REFERENCES pages (id) DEFERRABLE INITIALLY DEFERRED,
    revision INTEGER NOT NULL,
    kind INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 3),
    time INTEGER NOT NULL,
    author TEXT,
    comment TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    redirect TEXT,
    fields TEXT,
    text TEXT NOT NULL,
    UNIQUE (page, revision)
) STRICT;

-- The links of the present texts, also those to names without a page.
CREATE TABLE links (
    page INTEGER NOT NULL REFERENCES pages (id),
    target TEXT NOT NULL,
    PRIMARY KEY (page, target)
) STRICT, WITHOUT ROWID;
CREATE INDEX links_target ON links (target, page);

-- The fields of the present texts: a row for each path and value.
CREATE TABLE fields (
    path TEXT NOT NULL,
    value TEXT NOT NULL,
    page INTEGER NOT NULL REFERENCES pages (id),
    PRIMARY KEY (path, value, page)
) STRICT, WITHOUT ROWID;
CREATE INDEX fields_page ON fields (page);

-- The bytes of attachments, each once.
CREATE TABLE blobs (
    digest TEXT NOT NULL UNIQUE,
    bytes BLOB NOT NULL
) STRICT;

CREATE TABLE attachments (
    page INTEGER NOT NULL REFERENCES pages (id),
    file TEXT NOT NULL,
    media_type TEXT NOT NULL,
    digest TEXT NOT NULL REFERENCES blobs (digest) DEFERRABLE INITIALLY DEFERRED,
    bytes INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    PRIMARY KEY (page, file)
) STRICT, WITHOUT ROWID;
CREATE INDEX attachments_digest ON attachments (digest);

-- The indexes of the searches: only which page has which words, and which name has which groups of letters. The words
-- arrive folded and separated by spaces.
CREATE VIRTUAL TABLE text_words USING fts5 (
    words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
);
CREATE VIRTUAL TABLE title_grams USING fts5 (
    grams, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
);

-- The surrogate keys to purge, and how far each edge has confirmed them. `everything` is set when an edge was too far
-- behind: it has to purge everything, then continue after that place.
CREATE TABLE purges (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL
) STRICT;
CREATE TABLE edges (
    edge TEXT PRIMARY KEY,
    through INTEGER NOT NULL,
    everything INTEGER
) STRICT, WITHOUT ROWID;

-- What the wiki keeps for itself: secrets, accounts, tokens.
CREATE TABLE wiki_values (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
