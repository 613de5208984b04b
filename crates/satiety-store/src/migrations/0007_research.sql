-- Research runs with every round, and searches that need not be made twice within a day.

CREATE TABLE research_runs (
    run_id       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    task         TEXT   NOT NULL,
    source       TEXT   NOT NULL,
    started_at   BIGINT NOT NULL,
    completed_at BIGINT,
    settings     TEXT   NOT NULL,
    stop_reason  TEXT,
    report       TEXT
);
CREATE INDEX research_runs_by_time ON research_runs (started_at);

CREATE TABLE research_rounds (
    run_id   TEXT COLLATE "C" NOT NULL REFERENCES research_runs (run_id) ON DELETE CASCADE,
    round    BIGINT NOT NULL,
    query    TEXT   NOT NULL,
    reason   TEXT   NOT NULL,
    accepted BOOLEAN NOT NULL,
    novelty  DOUBLE PRECISION,
    body     TEXT   NOT NULL,
    PRIMARY KEY (run_id, round)
);

CREATE TABLE research_searches (
    key        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    source     TEXT   NOT NULL,
    query      TEXT   NOT NULL,
    body       TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX research_searches_by_time ON research_searches (created_at);

INSERT INTO retention_rules (subject, keep_days, action, updated_at) VALUES
    ('research_runs', NULL, 'keep', 0),
    ('research_searches', 1, 'delete', 0);
