-- Sessions of command-line agents that call our hooks: the state between two calls, and counts of the calls.

CREATE TABLE hook_sessions (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    host       TEXT   NOT NULL,
    state      TEXT   NOT NULL,
    judge      TEXT   NOT NULL,
    revision   BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX hook_sessions_by_time ON hook_sessions (updated_at);

CREATE TABLE hook_calls (
    session_id   TEXT COLLATE "C" NOT NULL REFERENCES hook_sessions (id) ON DELETE CASCADE,
    event        TEXT COLLATE "C" NOT NULL,
    decision     TEXT COLLATE "C" NOT NULL,
    calls        BIGINT NOT NULL,
    total_micros BIGINT NOT NULL,
    max_micros   BIGINT NOT NULL,
    reason       TEXT   NOT NULL,
    updated_at   BIGINT NOT NULL,
    PRIMARY KEY (session_id, event, decision)
);

INSERT INTO retention_rules (subject, keep_days, action, updated_at) VALUES ('hook_sessions', 30, 'delete', 0);
