-- One log for each harness instead of one for each store. What is there has no identity yet: it belongs to the first
-- harness that is used with the store, which then takes it over.

CREATE TABLE harness_ledger_new (
    seq        BIGINT NOT NULL,
    prev       TEXT   NOT NULL,
    at         TEXT   NOT NULL,
    kind       TEXT   NOT NULL,
    body       TEXT   NOT NULL,
    hash       TEXT   NOT NULL,
    harness_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (harness_id, seq)
);
INSERT INTO harness_ledger_new (seq, prev, at, kind, body, hash, harness_id)
    SELECT seq, prev, at, kind, body, hash, '' FROM harness_ledger;
DROP TABLE harness_ledger;
ALTER TABLE harness_ledger_new RENAME TO harness_ledger;

CREATE TABLE harness_versions_new (
    version    TEXT COLLATE "C" NOT NULL,
    manifest   TEXT   NOT NULL,
    files      TEXT,
    created_at BIGINT NOT NULL,
    harness_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (harness_id, version)
);
INSERT INTO harness_versions_new (version, manifest, files, created_at, harness_id)
    SELECT version, manifest, files, created_at, '' FROM harness_versions;
DROP TABLE harness_versions;
ALTER TABLE harness_versions_new RENAME TO harness_versions;

ALTER TABLE harness_audits ADD COLUMN harness_id TEXT COLLATE "C" NOT NULL DEFAULT '';
