-- What people say about stored results (notes on runs, labels of conversations and of agents' runs), and the servers
-- and workers that are connected to the database.

CREATE TABLE bench_notes (
    note_id    TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    run_id     TEXT COLLATE "C" NOT NULL REFERENCES bench_runs (run_id) ON DELETE CASCADE,
    author     TEXT   NOT NULL,
    note       TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX bench_notes_by_run ON bench_notes (run_id, created_at);

CREATE TABLE conversation_labels (
    conversation_id TEXT COLLATE "C" NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    annotator       TEXT COLLATE "C" NOT NULL,
    signal          TEXT   NOT NULL,
    stop_round      BIGINT,
    created_at      BIGINT NOT NULL,
    PRIMARY KEY (conversation_id, annotator)
);

CREATE TABLE agent_run_labels (
    run_id     TEXT COLLATE "C" NOT NULL REFERENCES agent_runs (id) ON DELETE CASCADE,
    annotator  TEXT COLLATE "C" NOT NULL,
    solved     BOOLEAN NOT NULL,
    loop_step  BIGINT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (run_id, annotator)
);

CREATE TABLE instances (
    instance_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    kind        TEXT   NOT NULL,
    name        TEXT   NOT NULL,
    url         TEXT,
    version     TEXT   NOT NULL,
    started_at  BIGINT NOT NULL,
    seen_at     BIGINT NOT NULL
);

CREATE INDEX bench_results_pending ON bench_results (run_id, case_id, variant, repeat) WHERE status = 'pending';
