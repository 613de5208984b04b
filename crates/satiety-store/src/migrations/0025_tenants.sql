-- Tenants of a server: each has a store of its own. The main store has this registry, the tokens, and the usage that
-- quotas are compared with. `satiety_owner` is in the tenant's store and says whose it is; it is not exported.

CREATE TABLE tenants (
    name                 TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    store_url            TEXT,
    root                 TEXT,
    requests_per_minute  BIGINT,
    requests_per_day     BIGINT,
    model_tokens_per_day BIGINT,
    storage_bytes        BIGINT,
    created_at           BIGINT NOT NULL,
    disabled_at          BIGINT
);

CREATE TABLE tenant_usage (
    tenant        TEXT COLLATE "C" NOT NULL,
    day           BIGINT NOT NULL,
    requests      BIGINT NOT NULL,
    model_tokens  BIGINT NOT NULL,
    storage_bytes BIGINT,
    PRIMARY KEY (tenant, day)
);
CREATE INDEX tenant_usage_by_day ON tenant_usage (day);

INSERT INTO retention_rules (subject, keep_days, action, updated_at) VALUES
    ('tenant_usage', 400, 'delete', 0);

CREATE TABLE satiety_owner (
    id     BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    tenant TEXT   NOT NULL
);

ALTER TABLE api_tokens ADD COLUMN tenant TEXT COLLATE "C";
