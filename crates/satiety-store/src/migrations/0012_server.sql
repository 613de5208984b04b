-- What the server needs: who may ask, and what was answered to a write that may be sent again.

CREATE TABLE api_tokens (
    token_id     TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    name         TEXT   NOT NULL,
    hash         TEXT   NOT NULL,
    scope        TEXT   NOT NULL CHECK (scope IN ('read', 'write', 'admin')),
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT,
    revoked_at   BIGINT,
    last_used_at BIGINT
);

CREATE TABLE idempotency_keys (
    caller       TEXT COLLATE "C" NOT NULL,
    key          TEXT COLLATE "C" NOT NULL,
    request_hash TEXT   NOT NULL,
    holder       TEXT   NOT NULL,
    status       BIGINT,
    body         TEXT,
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (caller, key)
);
CREATE INDEX idempotency_keys_by_time ON idempotency_keys (created_at);

INSERT INTO retention_rules (subject, keep_days, action, updated_at) VALUES
    ('idempotency_keys', 1, 'delete', 0);
