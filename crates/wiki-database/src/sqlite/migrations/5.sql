-- The changes to attachments, in the sequence of all changes. `revision` is that of the page at that time. The former
-- bytes are those that were replaced or deleted; of each attachment, the last ones are kept.
CREATE TABLE file_changes (
    sequence INTEGER PRIMARY KEY,
    page INTEGER NOT NULL REFERENCES pages (id) DEFERRABLE INITIALLY DEFERRED,
    revision INTEGER NOT NULL,
    kind INTEGER NOT NULL CHECK (kind BETWEEN 4 AND 6),
    time INTEGER NOT NULL,
    author TEXT,
    comment TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    file TEXT NOT NULL,
    former_digest TEXT REFERENCES blobs (digest) DEFERRABLE INITIALLY DEFERRED,
    former_media_type TEXT,
    former_bytes INTEGER,
    former_modified INTEGER
) STRICT;
CREATE INDEX file_changes_page ON file_changes (page, revision, sequence);
CREATE INDEX file_changes_file ON file_changes (page, file, sequence);
-- Each change of a file looks for the versions that are too old.
CREATE INDEX file_changes_versions ON file_changes (page, file, sequence) WHERE former_digest IS NOT NULL;
CREATE INDEX file_changes_former ON file_changes (former_digest) WHERE former_digest IS NOT NULL;

-- Hangul is indexed by pairs of characters, as other scripts without reliable spaces: pages with it are indexed again.
INSERT OR IGNORE INTO unindexed (page)
SELECT p.id FROM pages p JOIN revisions r ON r.sequence = p.current
WHERE p.live = 1 AND p.name || r.text GLOB '*[ᄀ-ᇿ㄰-㆏ꥠ-꥿가-퟿ﾠ-ￜ]*';
