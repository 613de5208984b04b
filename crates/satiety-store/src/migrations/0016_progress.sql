-- Runs of agents at work, reported message by message, with the latest verdict about each.

CREATE TABLE agent_runs (
    id               TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    kind             TEXT   NOT NULL,
    signal           TEXT   NOT NULL,
    reason           TEXT   NOT NULL,
    messages         BIGINT NOT NULL,
    steps            BIGINT NOT NULL,
    wasted_steps     BIGINT NOT NULL,
    first_nudge_step BIGINT,
    first_stop_step  BIGINT,
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL
);
CREATE INDEX agent_runs_by_time ON agent_runs (updated_at);

CREATE TABLE agent_messages (
    run_id   TEXT COLLATE "C" NOT NULL REFERENCES agent_runs (id) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    body     TEXT   NOT NULL,
    PRIMARY KEY (run_id, position)
);

INSERT INTO retention_rules (subject, keep_days, action, updated_at) VALUES ('agent_runs', NULL, 'keep', 0);
