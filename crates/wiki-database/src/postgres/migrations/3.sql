-- When the contents of a revision, or the earlier version of an attachment, were erased for good.
ALTER TABLE wiki.revisions ADD COLUMN erased bigint;
ALTER TABLE wiki.file_changes ADD COLUMN erased bigint;
