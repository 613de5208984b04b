-- The eval harness: a chained log of everything that happened to it, its versions with their archived files, and what
-- auditors said. Cycles, the window and expansions are records under the specification's keys.

CREATE TABLE harness_ledger (
    seq  BIGINT NOT NULL PRIMARY KEY,
    prev TEXT   NOT NULL,
    at   TEXT   NOT NULL,
    kind TEXT   NOT NULL,
    body TEXT   NOT NULL,
    hash TEXT   NOT NULL
);

CREATE TABLE harness_versions (
    version    TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    manifest   TEXT   NOT NULL,
    files      TEXT,
    created_at BIGINT NOT NULL
);

CREATE TABLE harness_audits (
    audit_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    cycle_id TEXT    NOT NULL,
    auditor  TEXT    NOT NULL,
    accepts  BOOLEAN NOT NULL,
    note     TEXT    NOT NULL,
    at       BIGINT  NOT NULL
);
CREATE INDEX harness_audits_by_time ON harness_audits (at);
