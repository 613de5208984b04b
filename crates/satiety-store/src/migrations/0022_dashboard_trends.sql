-- Intervals of pass rates, so that trends can be drawn without reading summaries; and indexes for lists that are read
-- newest first over all suites, or sorted by a measure.

ALTER TABLE bench_runs ADD COLUMN pass_low DOUBLE PRECISION;
ALTER TABLE bench_runs ADD COLUMN pass_high DOUBLE PRECISION;
CREATE INDEX bench_gates_by_time ON bench_gates (decided_at);
CREATE INDEX bench_ablations_by_time ON bench_ablations (decided_at);
CREATE INDEX conversation_labels_by_time ON conversation_labels (created_at);
CREATE INDEX eviction_scopes_by_time ON eviction_scopes (updated_at);
CREATE INDEX eviction_proposals_open ON eviction_proposals (scope_id) WHERE resolved_at IS NULL;
CREATE INDEX conversations_by_score ON conversations ((COALESCE(score, -1.0)), id);
CREATE INDEX conversations_by_signal_and_score ON conversations (signal, (COALESCE(score, -1.0)), id);
CREATE INDEX agent_runs_by_waste ON agent_runs (wasted_steps, id);
CREATE INDEX agent_runs_by_signal_and_waste ON agent_runs (signal, wasted_steps, id);
CREATE INDEX bench_runs_by_rate ON bench_runs ((COALESCE(pass_rate, -1.0)), run_id);
CREATE INDEX bench_runs_by_suite_and_rate ON bench_runs (suite_id, (COALESCE(pass_rate, -1.0)), run_id);
