-- The changes to attachments, in the sequence of all changes. `revision` is that of the page at that time. The former
-- bytes are those that were replaced or deleted; of each attachment, the last ones are kept.
CREATE TABLE wiki.file_changes (
    sequence bigint PRIMARY KEY,
    page bigint NOT NULL REFERENCES wiki.pages (id) DEFERRABLE INITIALLY DEFERRED,
    revision bigint NOT NULL,
    kind bigint NOT NULL CHECK (kind BETWEEN 4 AND 6),
    time bigint NOT NULL,
    author text,
    comment text NOT NULL,
    bytes bigint NOT NULL,
    file text COLLATE "C" NOT NULL,
    former_digest text REFERENCES wiki.blobs (digest) DEFERRABLE INITIALLY DEFERRED,
    former_media_type text,
    former_bytes bigint,
    former_modified bigint
);
CREATE INDEX file_changes_page ON wiki.file_changes (page, revision, sequence);
CREATE INDEX file_changes_file ON wiki.file_changes (page, file, sequence);
-- Each change of a file looks for the versions that are too old.
CREATE INDEX file_changes_versions ON wiki.file_changes (page, file, sequence) WHERE former_digest IS NOT NULL;
CREATE INDEX file_changes_former ON wiki.file_changes (former_digest) WHERE former_digest IS NOT NULL;
