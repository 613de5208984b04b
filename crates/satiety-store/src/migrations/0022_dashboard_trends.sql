-- Intervals of pass rates, so that trends can be drawn without reading summaries; and indexes for lists that are read
-- newest first over all suites.

ALTER TABLE bench_runs ADD COLUMN pass_low DOUBLE PRECISION;
ALTER TABLE bench_runs ADD COLUMN pass_high DOUBLE PRECISION;
CREATE INDEX bench_gates_by_time ON bench_gates (decided_at);
CREATE INDEX bench_ablations_by_time ON bench_ablations (decided_at);
CREATE INDEX conversation_labels_by_time ON conversation_labels (created_at);
