-- Names, keys and values are compared byte by byte: the same order in every database.

-- A page, or the place of a deleted one: its revision numbers continue when it is created again.
CREATE TABLE wiki.pages (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    -- The name without case and accents.
    folded text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    current bigint NOT NULL,
    links_version bigint NOT NULL,
    live boolean NOT NULL
);
CREATE INDEX pages_folded ON wiki.pages (folded, name) WHERE live;

-- All revisions of all pages; `sequence` is the sequence of all changes.
CREATE TABLE wiki.revisions (
    sequence bigint PRIMARY KEY,
    page bigint NOT NULL REFERENCES wiki.pages (id) DEFERRABLE INITIALLY DEFERRED,
    revision bigint NOT NULL,
    kind bigint NOT NULL CHECK (kind BETWEEN 0 AND 3),
    time bigint NOT NULL,
    author text,
    comment text NOT NULL,
    bytes bigint NOT NULL,
    redirect text COLLATE "C",
    -- JSON as text: jsonb would refuse some characters and change numbers.
    fields text,
    text text NOT NULL,
    UNIQUE (page, revision)
);
ALTER TABLE wiki.pages ADD FOREIGN KEY (current) REFERENCES wiki.revisions (sequence) DEFERRABLE INITIALLY DEFERRED;

-- The links of the present texts, also those to names without a page.
CREATE TABLE wiki.links (
    page bigint NOT NULL REFERENCES wiki.pages (id),
    target text COLLATE "C" NOT NULL,
    PRIMARY KEY (page, target)
);
CREATE INDEX links_target ON wiki.links (target, page);

-- The fields of the present texts: a row for each path and value.
CREATE TABLE wiki.fields (
    path text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    page bigint NOT NULL REFERENCES wiki.pages (id),
    PRIMARY KEY (path, value, page)
);
CREATE INDEX fields_page ON wiki.fields (page);

-- The bytes of attachments, each once.
CREATE TABLE wiki.blobs (
    digest text PRIMARY KEY,
    bytes bytea NOT NULL
);
CREATE TABLE wiki.attachments (
    page bigint NOT NULL REFERENCES wiki.pages (id),
    file text COLLATE "C" NOT NULL,
    media_type text NOT NULL,
    digest text NOT NULL REFERENCES wiki.blobs (digest) DEFERRABLE INITIALLY DEFERRED,
    bytes bigint NOT NULL,
    modified bigint NOT NULL,
    PRIMARY KEY (page, file)
);
CREATE INDEX attachments_digest ON wiki.attachments (digest);

-- The indexes of the searches: which page has which words, and which name has which groups of letters. The wiki folds
-- them itself, so that no extension and no dictionary is needed.
CREATE TABLE wiki.words (
    page bigint PRIMARY KEY REFERENCES wiki.pages (id),
    words tsvector NOT NULL
);
CREATE INDEX words_words ON wiki.words USING gin (words);
CREATE TABLE wiki.grams (
    page bigint PRIMARY KEY REFERENCES wiki.pages (id),
    grams tsvector NOT NULL
);
CREATE INDEX grams_grams ON wiki.grams USING gin (grams);

-- The surrogate keys to purge, and how far each edge has confirmed them. `everything` is set when an edge was too far
-- behind: it has to purge everything, then continue after that place.
CREATE TABLE wiki.purges (
    sequence bigint PRIMARY KEY,
    key text NOT NULL
);
CREATE TABLE wiki.newest_purge (
    sequence bigint NOT NULL
);
INSERT INTO wiki.newest_purge VALUES (0);
CREATE TABLE wiki.edges (
    edge text COLLATE "C" PRIMARY KEY,
    through bigint NOT NULL,
    everything bigint
);

-- What the wiki keeps for itself: secrets, accounts, tokens.
CREATE TABLE wiki.values (
    key text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);
