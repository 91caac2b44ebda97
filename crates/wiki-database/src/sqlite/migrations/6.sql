-- When the contents of a revision, or the earlier version of an attachment, were erased for good. The column follows the
-- long ones, but lists of changes do not read these: a NULL has no bytes, and an erased revision no text.
ALTER TABLE revisions ADD COLUMN erased INTEGER;
ALTER TABLE file_changes ADD COLUMN erased INTEGER;
