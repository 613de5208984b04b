-- Features of the memory's search under test, and what their shadow runs found. Columns are those of the specification;
-- `feature`, `state` and `difference` hold the whole of what the columns say a part of.

CREATE TABLE eval_ab_tests (
    feature_id           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    status               TEXT   NOT NULL CHECK (status IN ('running', 'graduated', 'rejected', 'paused')),
    log_likelihood_ratio DOUBLE PRECISION NOT NULL,
    upper_bound          DOUBLE PRECISION NOT NULL,
    lower_bound          DOUBLE PRECISION NOT NULL,
    sample_count         BIGINT NOT NULL,
    control_mrr_sum      DOUBLE PRECISION NOT NULL,
    treatment_mrr_sum    DOUBLE PRECISION NOT NULL,
    control_ndcg_sum     DOUBLE PRECISION NOT NULL,
    treatment_ndcg_sum   DOUBLE PRECISION NOT NULL,
    min_samples          BIGINT NOT NULL,
    graduation_threshold DOUBLE PRECISION NOT NULL,
    started_at           BIGINT NOT NULL,
    updated_at           BIGINT NOT NULL,
    graduated_at         BIGINT,
    decision             TEXT   NOT NULL,
    reason               TEXT,
    feature              TEXT   NOT NULL,
    state                TEXT   NOT NULL,
    checklist            TEXT,
    version              BIGINT NOT NULL
);

-- `open` until it is known what the lists were worth, then `counted`; `failed` when the shadow had no answer.
CREATE TABLE eval_shadow_runs (
    run_id               TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    query_id             TEXT COLLATE "C" NOT NULL,
    feature_id           TEXT COLLATE "C" NOT NULL,
    shown                TEXT   NOT NULL CHECK (shown IN ('control', 'treatment')),
    control_result_ids   TEXT   NOT NULL,
    treatment_result_ids TEXT   NOT NULL,
    rank_correlation     DOUBLE PRECISION,
    set_overlap          DOUBLE PRECISION,
    top_result_changed   BOOLEAN,
    order_differences    BIGINT,
    mrr_delta            DOUBLE PRECISION,
    ndcg_delta           DOUBLE PRECISION,
    control_latency_ms   DOUBLE PRECISION,
    treatment_latency_ms DOUBLE PRECISION,
    outcome              TEXT   NOT NULL CHECK (outcome IN ('open', 'counted', 'failed')),
    graded_by            TEXT,
    failure              TEXT,
    difference           TEXT   NOT NULL,
    created_at           BIGINT NOT NULL
);
CREATE UNIQUE INDEX eval_shadow_runs_once ON eval_shadow_runs (feature_id, query_id);
CREATE INDEX eval_shadow_runs_by_outcome ON eval_shadow_runs (feature_id, outcome, created_at);
CREATE INDEX eval_shadow_runs_by_time ON eval_shadow_runs (created_at);

INSERT INTO retention_rules (subject, keep_days, action, updated_at) VALUES
    ('eval_shadow_runs', 30, 'delete', 0),
    ('eval_ab_tests', NULL, 'keep', 0);
