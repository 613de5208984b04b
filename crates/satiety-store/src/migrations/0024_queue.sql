-- Sharing of workers between runs, rate limits that all workers share, and workers that are about to end.
--
-- `turn` is the position of a run on a virtual time line, `served` the position when it was served last, and `waiting`
-- the number of its cases without a lease.
ALTER TABLE bench_plans ADD COLUMN weight BIGINT NOT NULL DEFAULT 4;
ALTER TABLE bench_plans ADD COLUMN turn BIGINT NOT NULL DEFAULT 0;
ALTER TABLE bench_plans ADD COLUMN served BIGINT NOT NULL DEFAULT 0;
ALTER TABLE bench_plans ADD COLUMN waiting BIGINT NOT NULL DEFAULT 0;
UPDATE bench_plans SET waiting =
    (SELECT COUNT(*) FROM bench_work w WHERE w.run_id = bench_plans.run_id AND w.lease_until IS NULL)
    WHERE closed_at IS NULL;

-- A case waits if it has no lease; expired leases are removed by the next worker that looks for work.
CREATE INDEX bench_work_waiting ON bench_work (run_id, takes, position) WHERE lease_until IS NULL;
CREATE INDEX bench_work_leased ON bench_work (lease_until) WHERE lease_until IS NOT NULL;
DROP INDEX bench_work_by_turn;

ALTER TABLE instances ADD COLUMN draining_at BIGINT;

CREATE TABLE rate_limits (
    name         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    requests_at  BIGINT NOT NULL,
    tokens_at    BIGINT NOT NULL,
    paused_until BIGINT NOT NULL,
    used_at      BIGINT NOT NULL
);
