-- One text for both engines: TEXT, BIGINT, DOUBLE PRECISION and BOOLEAN mean the same in SQLite and PostgreSQL
-- (REAL and INTEGER do not), and COLLATE "C", order by bytes, is SQLite's BINARY (put in its place when applied). Times are microseconds since 1970, UTC. JSON is TEXT and is never queried by.

CREATE TABLE journal (
    id      TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    at      BIGINT NOT NULL,
    kind    TEXT   NOT NULL,
    subject TEXT   NOT NULL,
    body    TEXT   NOT NULL
);
CREATE INDEX journal_by_time ON journal (at);
CREATE INDEX journal_by_subject ON journal (subject, at);

CREATE TABLE records (
    key            TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    schema_version TEXT   NOT NULL,
    body           TEXT   NOT NULL,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    expires_at     BIGINT
);
CREATE INDEX records_by_expiry ON records (expires_at);

CREATE TABLE retention_rules (
    subject    TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    keep_days  BIGINT,
    action     TEXT   NOT NULL CHECK (action IN ('keep', 'delete', 'archive')),
    updated_at BIGINT NOT NULL
);
INSERT INTO retention_rules (subject, keep_days, action, updated_at) VALUES
    ('journal', 365, 'archive', 0),
    ('records:eval-harness/saturation/cycles/', 90, 'delete', 0);
