-- Runs that are spread over machines: what a worker must know of a run, and which of its cases are left and who has them.
-- Beside it what is done once by all who share this store: chores, and notices that were sent.

CREATE TABLE bench_plans (
    run_id      TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES bench_runs (run_id) ON DELETE CASCADE,
    plan        TEXT   NOT NULL,
    enqueued_at BIGINT NOT NULL,
    closed_at   BIGINT
);
CREATE INDEX bench_plans_open ON bench_plans (run_id) WHERE closed_at IS NULL;

-- `holder` and `takes` together say which attempt a case is in: results of any other are not kept.
CREATE TABLE bench_work (
    run_id      TEXT COLLATE "C" NOT NULL REFERENCES bench_runs (run_id) ON DELETE CASCADE,
    position    BIGINT NOT NULL,
    case_id     TEXT   NOT NULL,
    variant     TEXT   NOT NULL,
    repeat      BIGINT NOT NULL,
    takes       BIGINT NOT NULL,
    holder      TEXT COLLATE "C",
    worker      TEXT,
    lease_until BIGINT,
    PRIMARY KEY (run_id, position)
);
-- What was never taken comes first: a case that ends its workers does so last.
CREATE INDEX bench_work_by_turn ON bench_work (run_id, takes, position);
CREATE INDEX bench_work_by_holder ON bench_work (holder) WHERE holder IS NOT NULL;

CREATE TABLE chores (
    name       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    holder     TEXT,
    held_until BIGINT,
    done_at    BIGINT
);

CREATE TABLE notices (
    subject TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    teller  TEXT   NOT NULL,
    told_at BIGINT NOT NULL
);
CREATE INDEX notices_by_time ON notices (told_at);

INSERT INTO retention_rules (subject, keep_days, action, updated_at) VALUES
    ('notices', 90, 'delete', 0);
