-- Cases as they were when they ran, stored once by content, and the cases of each run: pages show what was asked and
-- expected, and filter by tag. Indexes for pages that must not read the large columns.

CREATE TABLE bench_cases (
    case_hash  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    body       TEXT   NOT NULL,
    used_at    BIGINT NOT NULL
);
CREATE INDEX bench_cases_by_time ON bench_cases (used_at);

CREATE TABLE bench_run_cases (
    run_id    TEXT COLLATE "C" NOT NULL REFERENCES bench_runs (run_id) ON DELETE CASCADE,
    case_id   TEXT COLLATE "C" NOT NULL,
    case_hash TEXT COLLATE "C" NOT NULL,
    title     TEXT   NOT NULL,
    tags      TEXT   NOT NULL,
    PRIMARY KEY (run_id, case_id)
);

CREATE INDEX bench_results_by_outcome
    ON bench_results (run_id, case_id, variant, repeat, status, score, latency_ms, token_cost);
CREATE INDEX bench_gates_by_candidate ON bench_gates (candidate_run, decided_at);
CREATE INDEX conversations_by_signal ON conversations (signal, updated_at);
CREATE INDEX agent_runs_by_signal ON agent_runs (signal, updated_at);

INSERT INTO retention_rules (subject, keep_days, action, updated_at) VALUES ('bench_cases', NULL, 'keep', 0);
