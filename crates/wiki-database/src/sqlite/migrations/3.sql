-- The names in the page's links to which no page exists, separated by line feeds; NULL without any. A read thus looks up
-- no other page. They are in no order.
ALTER TABLE pages ADD COLUMN red_links TEXT;
UPDATE pages SET red_links = (
    SELECT group_concat(l.target, char(10)) FROM links l WHERE l.page = pages.id
    AND NOT EXISTS (SELECT 1 FROM pages q WHERE q.name = l.target AND q.live = 1)
) WHERE EXISTS (SELECT 1 FROM links l WHERE l.page = pages.id);

-- Pages whose entries in the index of words are of former texts or names. A search reads the texts of these pages
-- themselves, so their number is kept small; they may also be pages that exist no more.
CREATE TABLE unindexed (
    page INTEGER PRIMARY KEY
) STRICT;
