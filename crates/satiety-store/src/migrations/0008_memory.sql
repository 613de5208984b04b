-- An agent's memories, the pieces that are searched, their vectors and causal links, and what was done with results.
-- Lines between `-- only sqlite` or `-- only postgres` and `-- both` are for one engine: full text has no common form.

CREATE TABLE memories (
    memory_id    TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    title        TEXT   NOT NULL,
    content      TEXT   NOT NULL,
    tier         TEXT   NOT NULL,
    triggers     TEXT   NOT NULL,
    learnt       TEXT   NOT NULL,
    folder       TEXT   NOT NULL,
    kind         TEXT   NOT NULL,
    origin       TEXT COLLATE "C",
    content_hash TEXT   NOT NULL,
    confidence   DOUBLE PRECISION NOT NULL,
    validations  BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    expires_at   BIGINT,
    change       BIGINT NOT NULL
);
CREATE INDEX memories_by_change ON memories (change);
CREATE INDEX memories_by_expiry ON memories (expires_at);
CREATE UNIQUE INDEX memories_by_origin ON memories (origin);

-- `doc` counts up and is never used twice: new pieces are those above the last one seen.
CREATE TABLE memory_chunks (
    doc       BIGINT NOT NULL PRIMARY KEY,
    memory_id TEXT COLLATE "C" NOT NULL REFERENCES memories (memory_id) ON DELETE CASCADE,
    position  BIGINT NOT NULL,
    title     TEXT   NOT NULL,
    body      TEXT   NOT NULL,
    phrases   TEXT   NOT NULL,
    embedder  TEXT,
    vector    TEXT
);
CREATE INDEX memory_chunks_by_memory ON memory_chunks (memory_id, position);

CREATE TABLE memory_links (
    from_id    TEXT COLLATE "C" NOT NULL REFERENCES memories (memory_id) ON DELETE CASCADE,
    to_id      TEXT COLLATE "C" NOT NULL REFERENCES memories (memory_id) ON DELETE CASCADE,
    kind       TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (from_id, to_id, kind)
);
CREATE INDEX memory_links_by_target ON memory_links (to_id);

-- Counters: `doc` and `change`, and `deleted`, which tells other processes to read everything again.
CREATE TABLE memory_counters (
    name  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value BIGINT NOT NULL
);

CREATE TABLE eval_feedback (
    feedback_id     TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    event_type      TEXT   NOT NULL CHECK (event_type IN ('read_after_search', 're_search', 'scroll_past', 'reference',
                        'validate_useful', 'validate_not_useful')),
    session_id      TEXT   NOT NULL,
    query_id        TEXT,
    memory_id       TEXT,
    rank_in_results BIGINT,
    metadata        TEXT   NOT NULL,
    created_at      BIGINT NOT NULL
);
CREATE INDEX eval_feedback_by_session ON eval_feedback (session_id, created_at);
CREATE INDEX eval_feedback_by_query ON eval_feedback (query_id);
CREATE INDEX eval_feedback_by_time ON eval_feedback (created_at);

INSERT INTO retention_rules (subject, keep_days, action, updated_at) VALUES
    ('eval_feedback', 90, 'delete', 0);

-- only sqlite
CREATE VIRTUAL TABLE memory_fts USING fts5 (
    title, body, phrases, content = 'memory_chunks', content_rowid = 'doc', tokenize = 'porter unicode61');
CREATE TRIGGER memory_fts_insert AFTER INSERT ON memory_chunks BEGIN
    INSERT INTO memory_fts (rowid, title, body, phrases) VALUES (new.doc, new.title, new.body, new.phrases);
END;
CREATE TRIGGER memory_fts_delete AFTER DELETE ON memory_chunks BEGIN
    INSERT INTO memory_fts (memory_fts, rowid, title, body, phrases)
        VALUES ('delete', old.doc, old.title, old.body, old.phrases);
END;
-- only postgres
CREATE INDEX memory_chunks_by_words ON memory_chunks
    USING gin (to_tsvector('english', title || ' ' || body || ' ' || phrases));
-- both
