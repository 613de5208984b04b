-- Contexts and what may be dropped from them: items by scope, proposals with what came of them, versions of the scorer, and
-- who put which into force.

CREATE TABLE eviction_scopes (
    scope_id    TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    revision    BIGINT NOT NULL,
    last_change TEXT   NOT NULL,
    turn        BIGINT NOT NULL,
    goal        TEXT,
    updated_at  BIGINT NOT NULL
);

CREATE TABLE eviction_items (
    scope_id   TEXT COLLATE "C" NOT NULL REFERENCES eviction_scopes (scope_id) ON DELETE CASCADE,
    ctx_id     TEXT COLLATE "C" NOT NULL,
    held_by    TEXT,
    evicted_at BIGINT,
    body       TEXT   NOT NULL,
    PRIMARY KEY (scope_id, ctx_id)
);
CREATE INDEX eviction_items_resident ON eviction_items (scope_id, evicted_at);

CREATE TABLE eviction_proposals (
    proposal_id  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    scope_id     TEXT COLLATE "C" NOT NULL,
    turn_number  BIGINT NOT NULL,
    proposed_at  BIGINT NOT NULL,
    deadline_at  BIGINT NOT NULL,
    scorer_model TEXT   NOT NULL,
    resolved_at  BIGINT,
    resolved_by  TEXT,
    body         TEXT   NOT NULL,
    feedback     TEXT
);
CREATE INDEX eviction_proposals_by_scope ON eviction_proposals (scope_id, proposed_at);
CREATE INDEX eviction_proposals_by_time ON eviction_proposals (proposed_at);

CREATE TABLE eviction_scorers (
    version    TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    variant    TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    body       TEXT   NOT NULL,
    fit        TEXT
);

CREATE TABLE eviction_activations (
    activation_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    version       TEXT   NOT NULL,
    previous      TEXT   NOT NULL,
    action        TEXT   NOT NULL,
    ablation_id   TEXT,
    activated_by  TEXT   NOT NULL,
    reason        TEXT   NOT NULL,
    activated_at  BIGINT NOT NULL
);
CREATE INDEX eviction_activations_by_time ON eviction_activations (activated_at);

CREATE TABLE eviction_opinions (
    key        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    model      TEXT   NOT NULL,
    relevance  DOUBLE PRECISION NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX eviction_opinions_by_time ON eviction_opinions (created_at);

INSERT INTO retention_rules (subject, keep_days, action, updated_at) VALUES
    ('eviction_scopes', NULL, 'keep', 0),
    ('eviction_proposals', NULL, 'keep', 0),
    ('eviction_opinions', 30, 'delete', 0);
