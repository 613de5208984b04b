-- A log of changes, so that readers of an index can follow: each write transaction adds a row with a random token, and
-- each deleted memory and each memory that got vectors adds one of its own. The token of the last change that a
-- persisted index contains proves that the index was made from this history and not from a restored or another store.

CREATE TABLE memory_changes (
    change    BIGINT NOT NULL PRIMARY KEY,
    token     BIGINT NOT NULL,
    memory_id TEXT COLLATE "C",
    action    TEXT CHECK (action IN ('deleted', 'embedded'))
);

-- Chunks whose vectors are still to be made.
CREATE INDEX memory_chunks_without_vector ON memory_chunks (doc) WHERE embedder IS NULL;

-- only sqlite
INSERT INTO memory_changes (change, token) SELECT value, random() FROM memory_counters WHERE name = 'change';
-- Word search uses the index in memory, so full text in the database only made saving slower.
DROP TRIGGER memory_fts_insert;
DROP TRIGGER memory_fts_delete;
DROP TABLE memory_fts;
-- only postgres
INSERT INTO memory_changes (change, token)
    SELECT value, CAST(random() * 9000000000000000000 AS BIGINT) FROM memory_counters WHERE name = 'change';
DROP INDEX memory_chunks_by_words;
-- both
DELETE FROM memory_counters WHERE name = 'deleted';
