-- What `doctor --fleet` compares between processes: the schema that each knows, and its clock minus that of the database
-- in microseconds.
ALTER TABLE instances ADD COLUMN schema_version BIGINT;
ALTER TABLE instances ADD COLUMN clock_offset BIGINT;

-- Chunks that a process embeds, so that others embed different ones. A claim of a process that was killed expires.
CREATE TABLE embedding_claims (
    doc           BIGINT NOT NULL,
    embedder      TEXT COLLATE "C" NOT NULL,
    holder        TEXT   NOT NULL,
    claimed_until BIGINT NOT NULL,
    PRIMARY KEY (doc, embedder)
);
