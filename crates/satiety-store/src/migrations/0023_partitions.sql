-- Tables that grow are partitioned by time on PostgreSQL. A unique key of a partitioned table contains the column that
-- it is partitioned by, so rows get a time that follows from their key: that of the parent for the rows of a run or a
-- conversation, that of the id for logged queries. 0 stands for rows from before, for ids without a time, and for
-- queries of the query set, which stay. SQLite has the column as well, so that both engines share statements and exports.

-- only postgres
-- The columns need a short exclusive lock; a long reader must not make all others wait behind it.
SET LOCAL lock_timeout = '2s';
-- both
ALTER TABLE eval_queries ADD COLUMN partition_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE eval_shadow_runs ADD COLUMN partition_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE bench_runs ADD COLUMN partition_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE bench_results ADD COLUMN partition_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE conversations ADD COLUMN partition_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE rounds ADD COLUMN partition_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE agent_runs ADD COLUMN partition_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE agent_messages ADD COLUMN partition_at BIGINT NOT NULL DEFAULT 0;

-- only sqlite
-- PostgreSQL builds these without blocking writers, when the tables are partitioned.
CREATE INDEX journal_by_kind ON journal (kind, at, id);
CREATE INDEX eval_queries_corpus ON eval_queries (query_id) WHERE is_eval_corpus;
CREATE INDEX eval_shadow_runs_by_feature ON eval_shadow_runs (feature_id, created_at);
-- Statements about the results of a run name the time, which the indexes must contain to be used.
DROP INDEX bench_results_by_outcome;
DROP INDEX bench_results_pending;
CREATE INDEX bench_results_by_outcome
    ON bench_results (run_id, case_id, variant, repeat, status, score, latency_ms, token_cost, partition_at);
CREATE INDEX bench_results_pending
    ON bench_results (run_id, case_id, variant, repeat, partition_at) WHERE status = 'pending';
CREATE INDEX bench_results_labelled
    ON bench_results (run_id, case_id, variant, repeat, partition_at) WHERE human_label IS NOT NULL;
-- both
