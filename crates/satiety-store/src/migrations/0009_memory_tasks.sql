-- Tasks that an agent began and closed: how much it knew before and after, how it went, and its session summed up.

CREATE TABLE memory_tasks (
    task_id        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session_id     TEXT   NOT NULL,
    folder         TEXT   NOT NULL,
    task           TEXT   NOT NULL,
    query_id       TEXT,
    preflight      TEXT   NOT NULL,
    outcome        TEXT CHECK (outcome IN ('success', 'partial', 'failure', 'abandoned')),
    postflight     TEXT,
    learning_index DOUBLE PRECISION,
    summary        TEXT,
    opened_at      BIGINT NOT NULL,
    closed_at      BIGINT
);
CREATE INDEX memory_tasks_by_session ON memory_tasks (session_id, opened_at);
CREATE INDEX memory_tasks_by_time ON memory_tasks (opened_at);
