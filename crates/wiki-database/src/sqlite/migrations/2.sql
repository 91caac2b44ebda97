-- FTS5 collects the words of a transaction in memory, up to this many bytes, and then writes them as one segment. Segments
-- are merged when a level has 16 of them: each word is written again seldom, and a search still opens few segments.
INSERT INTO text_words (text_words, rank) VALUES ('hashsize', 16777216), ('automerge', 16);
INSERT INTO title_grams (title_grams, rank) VALUES ('hashsize', 16777216), ('automerge', 16);
