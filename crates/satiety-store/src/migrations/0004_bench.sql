-- Benchmark runs with every result, accepted baselines, what gates and ablations said, and answers that need not be
-- paid for twice.

CREATE TABLE bench_runs (
    run_id          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    suite_id        TEXT COLLATE "C" NOT NULL,
    suite_hash      TEXT   NOT NULL,
    target          TEXT   NOT NULL,
    started_at      BIGINT NOT NULL,
    completed_at    BIGINT,
    config_snapshot TEXT   NOT NULL,
    summary         TEXT,
    pass_rate       DOUBLE PRECISION
);
CREATE INDEX bench_runs_by_suite ON bench_runs (suite_id, started_at);
CREATE INDEX bench_runs_by_time ON bench_runs (started_at);

CREATE TABLE bench_results (
    run_id      TEXT COLLATE "C" NOT NULL REFERENCES bench_runs (run_id) ON DELETE CASCADE,
    case_id     TEXT COLLATE "C" NOT NULL,
    variant     TEXT COLLATE "C" NOT NULL,
    repeat      BIGINT NOT NULL,
    status      TEXT   NOT NULL,
    score       DOUBLE PRECISION,
    latency_ms  DOUBLE PRECISION NOT NULL,
    token_cost  BIGINT NOT NULL,
    human_label TEXT,
    body        TEXT   NOT NULL,
    PRIMARY KEY (run_id, case_id, variant, repeat)
);

CREATE TABLE bench_baselines (
    baseline_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    suite_id    TEXT COLLATE "C" NOT NULL,
    run_id      TEXT   NOT NULL,
    accepted_by TEXT   NOT NULL,
    reason      TEXT   NOT NULL,
    accepted_at BIGINT NOT NULL
);
CREATE INDEX bench_baselines_by_suite ON bench_baselines (suite_id, accepted_at);

CREATE TABLE bench_gates (
    gate_id       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    suite_id      TEXT COLLATE "C" NOT NULL,
    baseline_run  TEXT   NOT NULL,
    candidate_run TEXT   NOT NULL,
    verdict       TEXT   NOT NULL,
    accepted_by   TEXT,
    accepted_why  TEXT,
    decided_at    BIGINT NOT NULL,
    report        TEXT   NOT NULL
);
CREATE INDEX bench_gates_by_suite ON bench_gates (suite_id, decided_at);

CREATE TABLE bench_ablations (
    ablation_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    tag         TEXT   NOT NULL,
    decided_at  BIGINT NOT NULL,
    report      TEXT   NOT NULL
);
CREATE INDEX bench_ablations_by_tag ON bench_ablations (tag, decided_at);

CREATE TABLE bench_responses (
    key        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    body       TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX bench_responses_by_time ON bench_responses (created_at);

INSERT INTO retention_rules (subject, keep_days, action, updated_at) VALUES
    ('bench_runs', NULL, 'keep', 0),
    ('bench_gates', NULL, 'keep', 0),
    ('bench_ablations', NULL, 'keep', 0),
    ('bench_responses', 14, 'delete', 0);
