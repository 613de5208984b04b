//! Facts about a database and the processes on it, for `doctor --fleet`. No judgment is made here.
//!
//! No question reads all rows of a table that grows, and those about PostgreSQL itself have a time limit, so that asking
//! is harmless on a large or overloaded database. A question that cannot be answered, for lack of a privilege for
//! instance, is reported as such and the others are still asked.

mod postgres;

use serde::Serialize;

pub use postgres::{
    DeadRows, IndexFacts, LockFacts, LongTransaction, PartitionFacts, Pooling, PostgresFacts, ReplicaFacts,
};

use crate::instances::InstanceRow;
use crate::partitions::{Bounds, Partition, partitions};
use crate::pool::Operation;
use crate::retention::{Action, Rule};
use crate::sql::sql;
use crate::{ReplicaStatus, SCHEMA_VERSION, Store, StoreError, Table, migrate, now_micros};

/// Microseconds of a day.
const DAY: i64 = 24 * 60 * 60 * 1_000_000;

/// What is known about a database and the processes on it at one time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FleetFacts {
    /// `sqlite` or `postgres`.
    pub engine: &'static str,
    /// Location of the store, password masked.
    pub place: String,
    pub schema_version: i64,
    /// Schema version that this program writes.
    pub latest_schema_version: i64,
    pub clock: ClockFacts,
    /// Facts that need the current schema; absent if the schema is older.
    pub rows: Option<RowFacts>,
    /// Facts that only PostgreSQL has.
    pub postgres: Option<PostgresFacts>,
    /// The replica that answers lists and pages, if one is configured.
    pub read_replica: Option<ReplicaStatus>,
    /// Questions that could not be answered: the check that needs the answer, and the reason.
    pub unknown: Vec<(String, String)>,
}

/// Clock of this machine compared with that of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClockFacts {
    /// Clock of this machine minus that of the database, in microseconds.
    pub offset: i64,
    /// Half of the round trip of the question: the offset is uncertain by this.
    pub uncertainty: i64,
}

/// Facts from the tables of the store.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowFacts {
    #[serde(skip)]
    pub instances: Vec<InstanceRow>,
    pub queue: QueueFacts,
    pub retention: RetentionFacts,
}

/// Cases that wait for workers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct QueueFacts {
    /// Number of cases without a valid lease, including those whose lease has expired.
    pub waiting: i64,
    /// Number of cases with a valid lease.
    pub held: i64,
    /// Number of cases whose lease has expired and that no worker has taken since.
    pub expired: i64,
    /// Age of the oldest expired lease since its expiry, in microseconds.
    pub oldest_expired: Option<i64>,
    /// Number of cases taken more than once.
    pub retaken: i64,
    /// The case taken most often: run, case, and how often.
    pub most_taken: Option<(String, String, i64)>,
    /// Run whose cases have waited longest, and for how long in microseconds.
    pub oldest_waiting: Option<(String, i64)>,
    /// Number of runs that are not closed.
    pub open_runs: i64,
}

/// When retention was applied, and what is older than its rule allows.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RetentionFacts {
    /// Microseconds since a server applied the rules.
    pub since_applied: Option<i64>,
    /// Rules with rows past their time: the rule, and by how many days the oldest row is.
    pub overdue: Vec<(String, f64)>,
}

impl Store {
    /// Gathers facts about the database and the processes on it. Changes nothing, and also works on an older schema.
    pub async fn fleet_facts(&self) -> Result<FleetFacts, StoreError> {
        let schema_version = migrate::version(&self.pool).await?;
        let clock = self.clock_facts().await?;
        let mut unknown = Vec::new();
        let rows = if schema_version == SCHEMA_VERSION {
            Some(RowFacts {
                instances: self.instances().seen_within(DAY).await?,
                queue: self.queue_facts().await?,
                retention: self.retention_facts().await.unwrap_or_else(|error| {
                    unknown.push(("retention".to_owned(), error.to_string()));
                    RetentionFacts::default()
                }),
            })
        } else {
            None
        };
        let postgres = if self.pool.is_postgres() {
            Some(self.postgres_facts(&mut unknown).await)
        } else {
            None
        };
        Ok(FleetFacts {
            engine: if self.pool.is_postgres() {
                "postgres"
            } else {
                "sqlite"
            },
            place: self.place().to_owned(),
            schema_version,
            latest_schema_version: SCHEMA_VERSION,
            clock,
            rows,
            postgres,
            read_replica: self.pool.replica_status().await,
            unknown,
        })
    }

    /// Compares the clocks: of several round trips the shortest one is the most precise.
    async fn clock_facts(&self) -> Result<ClockFacts, StoreError> {
        let select = format!("SELECT {}", self.pool.clock());
        let mut best: Option<ClockFacts> = None;
        for _ in 0..5 {
            let before = now_micros();
            let database: i64 = self.pool.one(sql!(select.clone())).await?.get(0)?;
            let after = now_micros();
            let measured = ClockFacts {
                offset: i64::midpoint(before, after) - database,
                uncertainty: (after - before).max(0) / 2 + 1,
            };
            if best.is_none_or(|best| measured.uncertainty < best.uncertainty) {
                best = Some(measured);
            }
        }
        Ok(best.unwrap_or(ClockFacts {
            offset: 0,
            uncertainty: i64::MAX,
        }))
    }

    /// Counts leases, and finds what waits longest. Reads the plans of open runs, the leased cases and those that
    /// were taken before, never all waiting ones: every scrape of the metrics asks this.
    pub async fn queue_facts(&self) -> Result<QueueFacts, StoreError> {
        let clock = self.pool.clock();
        // Both halves have an index: leased cases, and waiting cases of a run by `takes`. CROSS JOIN: otherwise SQLite
        // would read all waiting cases and look for their plans.
        let retaken = "SELECT w.run_id, w.position, w.case_id, w.takes FROM bench_work w
                 WHERE w.lease_until IS NOT NULL AND w.takes > 1
             UNION ALL SELECT w.run_id, w.position, w.case_id, w.takes FROM bench_plans p CROSS JOIN bench_work w
                 WHERE p.closed_at IS NULL AND w.run_id = p.run_id AND w.lease_until IS NULL AND w.takes > 1";
        // The clock is read once for each lease: PostgreSQL's runs on during a statement, and its planner keeps a
        // subquery with a volatile column.
        let counts = format!(
            "SELECT (SELECT CAST(COALESCE(SUM(p.waiting), 0) AS BIGINT) FROM bench_plans p WHERE p.closed_at IS NULL),
                 COUNT(*), CAST(COALESCE(SUM(CASE WHEN lease_until < now THEN 1 ELSE 0 END), 0) AS BIGINT),
                 MAX(CASE WHEN lease_until < now THEN now - lease_until END),
                 (SELECT COUNT(*) FROM ({retaken}) taken_again)
             FROM (SELECT lease_until, {clock} AS now FROM bench_work WHERE lease_until IS NOT NULL) leases"
        );
        let row = self.pool.one(sql!(counts)).await?;
        let (waiting, leased, expired): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let most_taken = format!(
            "SELECT run_id, case_id, takes FROM ({retaken}) taken_again ORDER BY takes DESC, run_id, position LIMIT 1"
        );
        let most_taken = self.pool.row(sql!(most_taken)).await?;
        let oldest = format!(
            "SELECT p.run_id, {clock} - p.enqueued_at FROM bench_plans p WHERE p.closed_at IS NULL AND (p.waiting > 0
                 OR p.run_id IN (SELECT w.run_id FROM bench_work w WHERE w.lease_until < {clock}))
             ORDER BY p.enqueued_at LIMIT 1"
        );
        let oldest = self.pool.row(sql!(oldest)).await?;
        let open = sql!("SELECT COUNT(*) FROM bench_plans WHERE closed_at IS NULL");
        Ok(QueueFacts {
            waiting: waiting + expired,
            held: leased - expired,
            expired,
            oldest_expired: row.get(3)?,
            retaken: row.get(4)?,
            most_taken: most_taken
                .map(|row| Ok::<_, StoreError>((row.get(0)?, row.get(1)?, row.get(2)?)))
                .transpose()?,
            oldest_waiting: oldest
                .map(|row| Ok::<_, StoreError>((row.get(0)?, row.get(1)?)))
                .transpose()?,
            open_runs: self.pool.one(open).await?.get(0)?,
        })
    }

    /// Finds rules with rows past their time: one row of each table, by its index on time.
    async fn retention_facts(&self) -> Result<RetentionFacts, StoreError> {
        let clock = self.pool.clock();
        let done =
            format!("SELECT {clock} - done_at FROM chores WHERE name = 'retention' AND done_at IS NOT NULL");
        let since_applied = self
            .pool
            .row(sql!(done))
            .await?
            .map(|row| row.get(0))
            .transpose()?;
        let now = now_micros();
        let partitions = partitions(&self.pool).await?;
        let mut overdue = Vec::new();
        for rule in self.retention().rules().await? {
            let Some(oldest) = self.oldest_row(&rule).await? else {
                continue;
            };
            let limit = rule.keep_days.unwrap_or_default().saturating_mul(DAY);
            let past = now - counts_from(&partitions, &rule.subject, oldest) - limit;
            if past > 0 {
                overdue.push((rule.to_string(), past as f64 / DAY as f64));
            }
        }
        Ok(RetentionFacts {
            since_applied,
            overdue,
        })
    }

    /// Time of the oldest row that a rule removes; `None` for rules that keep rows, and for prefixes of keys, whose
    /// age is not indexed.
    async fn oldest_row(&self, rule: &Rule) -> Result<Option<i64>, StoreError> {
        if rule.action == Action::Keep || rule.keep_days.is_none() {
            return Ok(None);
        }
        let Some((table, age)) = Table::named(&rule.subject).and_then(|table| Some((table, table.age?)))
        else {
            return Ok(None);
        };
        let kept = table
            .keep
            .map_or_else(String::new, |keep| format!("WHERE NOT {keep}"));
        let select = format!("SELECT MIN({age}) FROM {} {kept}", table.name);
        let rows = self.ask(&select).await?;
        rows.first().map_or(Ok(None), |row| row.get(0))
    }

    /// Lag of the replicas in seconds, by name; empty on SQLite and without replicas. For metrics.
    pub async fn replication_lag(&self) -> Result<Vec<(String, f64)>, StoreError> {
        if !self.pool.is_postgres() {
            return Ok(Vec::new());
        }
        let replicas = self.replicas().await?;
        let lag = |replica: ReplicaFacts| Some((replica.name, replica.lag_seconds?));
        Ok(replicas.into_iter().filter_map(lag).collect())
    }

    /// Asks one question with a time limit, in a transaction of its own.
    async fn ask(&self, select: &str) -> Result<Vec<crate::sql::Row>, StoreError> {
        let started = std::time::Instant::now();
        let work = async {
            let mut transaction = self.pool.begin_snapshot().await?;
            if self.pool.is_postgres() {
                transaction
                    .execute_raw("SET LOCAL statement_timeout = 2000")
                    .await?;
            }
            let rows = transaction.rows(sql!(select.to_owned())).await?;
            transaction.rollback().await?;
            Ok(rows)
        };
        let answer = work.await.map_err(|fault: crate::sql::Fault| fault.error);
        self.pool.report_duration(Operation::Read, started);
        answer
    }
}

/// Time from which the retention time of a row counts: the end of its partition, which is dropped as a whole, or its own
/// time.
fn counts_from(partitions: &[Partition], table: &str, time: i64) -> i64 {
    let mut own = partitions.iter().filter(|partition| partition.table == table);
    let end = own.find_map(|partition| match partition.bounds {
        Bounds::Period(from, to) if (from..to).contains(&time) => Some(to),
        _ => None,
    });
    end.unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_partition_are_due_after_its_period() {
        let partition = |table: &str, bounds| Partition {
            table: table.into(),
            name: String::new(),
            bounds,
        };
        let partitions = [
            partition("journal", Bounds::Before(100)),
            partition("journal", Bounds::Period(100, 170)),
            partition("journal", Bounds::Default),
            partition("eval_queries", Bounds::Period(0, 500)),
        ];
        for (time, expected) in [(99, 99), (100, 170), (169, 170), (170, 170), (300, 300)] {
            assert_eq!(counts_from(&partitions, "journal", time), expected, "{time}");
        }
        assert_eq!(counts_from(&[], "journal", 7), 7);
    }
}
