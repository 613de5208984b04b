-- Conversations as they were observed, round by round, each with the verdict that stood after it.

CREATE TABLE conversations (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    topic      TEXT   NOT NULL,
    profile    TEXT   NOT NULL,
    embedder   TEXT,
    signal     TEXT   NOT NULL,
    score      DOUBLE PRECISION,
    report     TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX conversations_by_time ON conversations (updated_at);

CREATE TABLE rounds (
    conversation_id TEXT COLLATE "C" NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    position        BIGINT NOT NULL,
    agent           TEXT,
    signal          TEXT   NOT NULL,
    novelty         DOUBLE PRECISION,
    readiness       DOUBLE PRECISION,
    body            TEXT   NOT NULL,
    PRIMARY KEY (conversation_id, position)
);

INSERT INTO retention_rules (subject, keep_days, action, updated_at) VALUES ('conversations', NULL, 'keep', 0);
