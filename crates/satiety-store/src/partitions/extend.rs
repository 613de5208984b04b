//! Making partitions ahead of time, and dropping those whose rows are past their retention.

use std::time::Duration;

use super::convert::{self, Layout};
use super::{AHEAD, DAY, PARTITIONED, Partition, Partitioned, day_start, partitions};
use crate::lease::JobLease;
use crate::pool::Pool;
use crate::sql::{Fault, sql};
use crate::{StoreError, now_micros};

/// Name of the lease under which the layout of tables is changed.
const JOB: &str = "partitions";
/// Time without a heartbeat after which another process continues.
const LEASE: Duration = Duration::from_secs(10);
/// Pause between two looks at the work of another process.
const POLL: Duration = Duration::from_millis(200);
/// New partitions are made when fewer than this are ahead, so that few openings of a store have to.
const LOW: i64 = AHEAD - 2 * DAY;
/// How long a change waits for a lock. Everyone else waits behind it meanwhile.
pub(super) const LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '2s'; SET LOCAL statement_timeout = 0";
/// Attempts to get a lock before the caller gets an error.
const LOCK_ATTEMPTS: u32 = 60;

/// Partitions the tables and makes partitions ahead. One process does it, others wait until it is done.
pub(super) async fn ensure(pool: &Pool) -> Result<(), StoreError> {
    while !is_complete(pool, LOW).await? {
        if let Some(lease) = JobLease::take(pool, JOB, Duration::ZERO, LEASE).await? {
            let outcome = change_layout(pool).await;
            lease.release().await?;
            outcome?;
        } else {
            tokio::time::sleep(POLL).await;
        }
    }
    Ok(())
}

/// Returns true if every table is partitioned, and far enough ahead.
async fn is_complete(pool: &Pool, ahead: i64) -> Result<bool, StoreError> {
    let found = partitions(pool).await?;
    let until = now_micros() + ahead;
    Ok(PARTITIONED
        .iter()
        .all(|table| last_end(&found, table).is_some_and(|end| end >= until)))
}

/// End of the last partition of a table; `None` if it has none.
fn last_end(found: &[Partition], table: &Partitioned) -> Option<i64> {
    let own = found.iter().filter(|partition| partition.table == table.table);
    own.filter_map(|partition| partition.bounds.end()).max()
}

async fn change_layout(pool: &Pool) -> Result<(), StoreError> {
    let widths = widths(pool).await?;
    for (table, width) in PARTITIONED.iter().zip(widths) {
        let layout = Layout { table, width };
        convert::convert(pool, &layout).await?;
        let found = partitions(pool).await?;
        if let Some(end) = last_end(&found, table) {
            for (from, to) in periods(end, now_micros(), width) {
                add(pool, table, from, to).await?;
            }
        }
    }
    convert::index_owners(pool).await
}

/// Length of the periods of each table, from its retention rule: about a hundred partitions at most.
async fn widths(pool: &Pool) -> Result<Vec<i64>, StoreError> {
    let select =
        sql!("SELECT subject, CASE WHEN action = 'keep' THEN NULL ELSE keep_days END FROM retention_rules");
    let mut rules = std::collections::HashMap::new();
    for row in pool.rows(select).await? {
        rules.insert(row.get::<String>(0)?, row.get::<Option<i64>>(1)?);
    }
    let width = |table: &Partitioned| match rules.get(table.owner).copied().flatten() {
        Some(..=100) => DAY,
        Some(..=700) => 7 * DAY,
        _ => 28 * DAY,
    };
    Ok(PARTITIONED.iter().map(width).collect())
}

/// Periods to add after `end`, until [`AHEAD`] of now. A table that was not used for a while gets one for all
/// of that time.
pub(super) fn periods(end: i64, now: i64, width: i64) -> Vec<(i64, i64)> {
    let mut periods = Vec::new();
    let mut from = end;
    let today = day_start(now);
    if from < today {
        periods.push((from, today));
        from = today;
    }
    while from < now + AHEAD {
        periods.push((from, from + width));
        from += width;
    }
    periods
}

/// Name of the partition that starts at a time: `journal_p20261118`.
fn partition_name(table: &str, from: i64) -> String {
    let time = jiff::Timestamp::from_microsecond(from).unwrap_or_default();
    format!("{table}_p{}", time.strftime("%Y%m%d"))
}

/// Statements that add a partition, and move rows of its period out of the default partition.
pub(super) fn add_statements(table: &Partitioned, from: i64, to: i64) -> String {
    let name = partition_name(table.table, from);
    let (table, column) = (table.table, table.column);
    format!(
        "CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
         WITH moved AS (DELETE FROM {table}_default WHERE {column} >= {from} AND {column} < {to} RETURNING *)
             INSERT INTO {name} SELECT * FROM moved;
         ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({from}) TO ({to});"
    )
}

async fn add(pool: &Pool, table: &Partitioned, from: i64, to: i64) -> Result<(), StoreError> {
    tracing::debug!(table = table.table, from, to, "adding a partition");
    change(pool, &add_statements(table, from, to)).await
}

/// Runs statements in one transaction that gives up on a lock after a short time, and tries again.
pub(super) async fn change(pool: &Pool, statements: &str) -> Result<(), StoreError> {
    let mut attempts = 0;
    loop {
        let done = async {
            let mut transaction = pool.begin().await?;
            transaction.execute_raw(LOCK_TIMEOUT).await?;
            transaction.execute_raw(statements).await?;
            transaction.commit().await
        };
        match done.await {
            Err(fault) if attempts < LOCK_ATTEMPTS && is_lock_conflict(&fault) => {
                attempts += 1;
                tokio::time::sleep(POLL).await;
            }
            other => return other.map_err(StoreError::from),
        }
    }
}

/// A lock was not available in time, or two processes waited for each other.
fn is_lock_conflict(fault: &Fault) -> bool {
    fault.transient || matches!(fault.error, StoreError::Busy { .. })
}

/// Drops a partition. If `rows` is given, it must have exactly as many: a row that was written after the others
/// were archived stays. If `young` is given, it must select no row. Both are checked under a lock that keeps writers out.
pub(super) async fn drop_partition(
    pool: &Pool,
    name: &str,
    rows: Option<i64>,
    owner: Option<&str>,
    young: Option<&str>,
) -> Result<bool, StoreError> {
    let mut attempts = 0;
    loop {
        let done = async {
            let mut transaction = pool.begin().await?;
            transaction.execute_raw(LOCK_TIMEOUT).await?;
            // Writers change the owner first; the same order avoids deadlocks.
            if let Some(owner) = owner {
                let lock = format!("LOCK TABLE {owner} IN SHARE ROW EXCLUSIVE MODE");
                transaction.execute_raw(&lock).await?;
            }
            let lock = format!("LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE");
            transaction.execute_raw(&lock).await?;
            if let Some(young) = young
                && transaction.row(sql!(young.to_owned())).await?.is_some()
            {
                return Ok(false);
            }
            if let Some(rows) = rows {
                let count = format!("SELECT COUNT(*) FROM {name}");
                if transaction.one(sql!(count)).await?.get::<i64>(0)? != rows {
                    return Ok(false);
                }
            }
            transaction.execute_raw(&format!("DROP TABLE {name}")).await?;
            transaction.commit().await?;
            Ok::<_, Fault>(true)
        };
        match done.await {
            Err(fault) if attempts < LOCK_ATTEMPTS && is_lock_conflict(&fault) => {
                attempts += 1;
                tokio::time::sleep(POLL).await;
            }
            other => return other.map_err(StoreError::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_follow_the_last_one_and_cover_gaps() {
        let now = 100 * DAY + 5;
        assert_eq!(periods(108 * DAY, now, DAY), []);
        assert_eq!(
            periods(106 * DAY, now, DAY),
            [(106 * DAY, 107 * DAY), (107 * DAY, 108 * DAY)]
        );
        assert_eq!(
            periods(40 * DAY, now, 7 * DAY),
            [
                (40 * DAY, 100 * DAY),
                (100 * DAY, 107 * DAY),
                (107 * DAY, 114 * DAY)
            ]
        );
    }

    #[test]
    fn names_have_the_first_day() {
        assert_eq!(
            partition_name("rounds", 1_763_424_000_000_000),
            "rounds_p20251118"
        );
    }
}
