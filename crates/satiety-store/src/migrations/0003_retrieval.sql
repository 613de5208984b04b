-- Queries with what was found, judgments, and measured runs. Columns are those of the specification; ids of memories
-- are text, because collections from elsewhere have such ids.

CREATE TABLE eval_queries (
    query_id              TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    query                 TEXT    NOT NULL,
    intent                TEXT,
    mode                  TEXT,
    session_id            TEXT,
    tool_name             TEXT    NOT NULL,
    result_ids            TEXT    NOT NULL,
    result_count          BIGINT  NOT NULL,
    channel_contributions TEXT    NOT NULL,
    total_latency_ms      DOUBLE PRECISION,
    fusion_weights        TEXT,
    quality_proxy_score   DOUBLE PRECISION,
    trace_id              TEXT,
    created_at            BIGINT  NOT NULL,
    is_eval_corpus        BOOLEAN NOT NULL,
    eval_category         TEXT,
    detail                TEXT    NOT NULL
);
CREATE INDEX eval_queries_by_session ON eval_queries (session_id, created_at);
CREATE INDEX eval_queries_by_time ON eval_queries (created_at);

CREATE TABLE eval_judgments (
    query_id   TEXT COLLATE "C" NOT NULL,
    memory_id  TEXT COLLATE "C" NOT NULL,
    source     TEXT COLLATE "C" NOT NULL CHECK (source IN ('manual', 'implicit', 'bootstrapped', 'validated')),
    relevance  BIGINT NOT NULL,
    annotator  TEXT,
    confidence DOUBLE PRECISION,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (query_id, memory_id, source)
);
CREATE INDEX eval_judgments_by_memory ON eval_judgments (memory_id);

CREATE TABLE eval_results (
    run_id                       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    run_type                     TEXT   NOT NULL CHECK (run_type IN ('full', 'shadow', 'regression', 'ab_test')),
    feature_id                   TEXT,
    mrr_at_5                     DOUBLE PRECISION,
    mrr_at_10                    DOUBLE PRECISION,
    ndcg_at_5                    DOUBLE PRECISION,
    ndcg_at_10                   DOUBLE PRECISION,
    ndcg_at_20                   DOUBLE PRECISION,
    recall_at_5                  DOUBLE PRECISION,
    recall_at_10                 DOUBLE PRECISION,
    constitutional_surfacing_rate DOUBLE PRECISION,
    importance_weighted_recall   DOUBLE PRECISION,
    cold_start_mrr               DOUBLE PRECISION,
    session_personalization_lift DOUBLE PRECISION,
    causal_chain_completeness    DOUBLE PRECISION,
    avg_latency_ms               DOUBLE PRECISION,
    channel_contribution_json    TEXT,
    result_diversity_score       DOUBLE PRECISION,
    query_count                  BIGINT NOT NULL,
    confidence_interval_lower    DOUBLE PRECISION,
    confidence_interval_upper    DOUBLE PRECISION,
    control_run_id               TEXT,
    mrr_delta                    DOUBLE PRECISION,
    ndcg_delta                   DOUBLE PRECISION,
    p_value                      DOUBLE PRECISION,
    is_significant               BOOLEAN,
    created_at                   BIGINT NOT NULL,
    per_query_results            TEXT   NOT NULL,
    report                       TEXT   NOT NULL
);
CREATE INDEX eval_results_by_time ON eval_results (created_at);
CREATE INDEX eval_results_by_feature ON eval_results (feature_id, created_at);

INSERT INTO retention_rules (subject, keep_days, action, updated_at) VALUES
    ('eval_queries', 90, 'archive', 0),
    ('eval_results', NULL, 'keep', 0);
