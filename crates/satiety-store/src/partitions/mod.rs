//! Time partitions of the tables that grow, on PostgreSQL. SQLite keeps plain tables.
//!
//! A partitioned table has a partition for everything before a time (`_before`, which also has the rows whose
//! time is 0), one for each period after it (`_pDATE`), and `_default` for rows that fit nowhere. Partitions
//! are made [`AHEAD`] when a store is opened and by servers once a day. How long a period is follows from the
//! retention rule, so that a table has about a hundred partitions at most. State is read from the catalog of
//! the database, never remembered.

#[cfg(feature = "postgres")]
mod convert;
mod expire;
#[cfg(feature = "postgres")]
mod extend;
mod status;

pub(crate) use expire::ExpiredPartitions;
pub use status::{FleetStatus, PartitionStatus, ReplicaStatus};

use crate::StoreError;
use crate::pool::Pool;
#[cfg(feature = "postgres")]
use crate::sql::sql;

/// Microseconds of a day.
pub(crate) const DAY: i64 = 24 * 60 * 60 * 1_000_000;
/// Schema version since which the tables can be partitioned.
pub(crate) const SINCE: i64 = 23;
/// Time that partitions are made ahead.
#[cfg(feature = "postgres")]
pub(crate) const AHEAD: i64 = 7 * DAY;

/// A table that is partitioned on PostgreSQL.
#[derive(Debug)]
pub(crate) struct Partitioned {
    pub(crate) table: &'static str,
    /// Time column that rows are assigned by.
    pub(crate) column: &'static str,
    /// Table whose retention rule applies: the table itself, or the parent of its rows.
    pub(crate) owner: &'static str,
    /// Indexes: name, whether it is unique, and columns with condition. A unique one contains the time column.
    pub(crate) indexes: &'static [(&'static str, bool, &'static str)],
}

/// All partitioned tables.
pub(crate) const PARTITIONED: &[Partitioned] = &[
    Partitioned {
        table: "journal",
        column: "at",
        owner: "journal",
        indexes: &[
            ("journal_key", true, "(id, at)"),
            ("journal_by_time", false, "(at)"),
            ("journal_by_subject", false, "(subject, at)"),
            ("journal_by_kind", false, "(kind, at, id)"),
        ],
    },
    Partitioned {
        table: "eval_queries",
        column: "partition_at",
        owner: "eval_queries",
        indexes: &[
            ("eval_queries_key", true, "(query_id, partition_at)"),
            ("eval_queries_by_session", false, "(session_id, created_at)"),
            ("eval_queries_by_time", false, "(created_at)"),
            ("eval_queries_corpus", false, "(query_id) WHERE is_eval_corpus"),
        ],
    },
    Partitioned {
        table: "eval_shadow_runs",
        column: "partition_at",
        owner: "eval_shadow_runs",
        indexes: &[
            ("eval_shadow_runs_key", true, "(run_id, partition_at)"),
            (
                "eval_shadow_runs_once",
                true,
                "(feature_id, query_id, partition_at)",
            ),
            (
                "eval_shadow_runs_by_outcome",
                false,
                "(feature_id, outcome, created_at)",
            ),
            ("eval_shadow_runs_by_feature", false, "(feature_id, created_at)"),
            ("eval_shadow_runs_by_time", false, "(created_at)"),
        ],
    },
    Partitioned {
        table: "bench_results",
        column: "partition_at",
        owner: "bench_runs",
        indexes: &[
            (
                "bench_results_key",
                true,
                "(run_id, case_id, variant, repeat, partition_at)",
            ),
            (
                "bench_results_by_outcome",
                false,
                "(run_id, case_id, variant, repeat, status, score, latency_ms, token_cost, partition_at)",
            ),
            (
                "bench_results_pending",
                false,
                "(run_id, case_id, variant, repeat, partition_at) WHERE status = 'pending'",
            ),
            (
                "bench_results_labelled",
                false,
                "(run_id, case_id, variant, repeat, partition_at) WHERE human_label IS NOT NULL",
            ),
        ],
    },
    Partitioned {
        table: "rounds",
        column: "partition_at",
        owner: "conversations",
        indexes: &[("rounds_key", true, "(conversation_id, position, partition_at)")],
    },
    Partitioned {
        table: "agent_messages",
        column: "partition_at",
        owner: "agent_runs",
        indexes: &[("agent_messages_key", true, "(run_id, position, partition_at)")],
    },
];

/// Indexes of parents by the time that their rows' partitions have, for retention.
#[cfg(feature = "postgres")]
const OWNER_INDEXES: &[(&str, &str)] = &[
    ("bench_runs", "bench_runs_by_partition"),
    ("conversations", "conversations_by_partition"),
    ("agent_runs", "agent_runs_by_partition"),
];

/// Period of a partition, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bounds {
    /// Everything before a time.
    Before(i64),
    /// From a time, inclusive, to a time, exclusive.
    Period(i64, i64),
    Default,
}

/// A partition as the catalog has it.
#[derive(Debug, Clone)]
pub(crate) struct Partition {
    pub(crate) table: String,
    pub(crate) name: String,
    pub(crate) bounds: Bounds,
}

impl Bounds {
    /// Parses `FOR VALUES FROM (MINVALUE) TO ('1763510400000000')`.
    fn parse(text: &str) -> Option<Self> {
        if text == "DEFAULT" {
            return Some(Self::Default);
        }
        let mut ends = text.split('(').skip(1).map(|part| {
            let end = part.split(')').next().unwrap_or_default();
            end.trim_matches('\'')
        });
        let (from, to) = (ends.next()?, ends.next()?.parse().ok()?);
        if from == "MINVALUE" {
            return Some(Self::Before(to));
        }
        Some(Self::Period(from.parse().ok()?, to))
    }

    /// First time after the period.
    pub(crate) fn end(self) -> Option<i64> {
        match self {
            Self::Before(end) | Self::Period(_, end) => Some(end),
            Self::Default => None,
        }
    }
}

/// Returns the time of a logged query's row from its id, in microseconds; 0 for ids without a time. The time of
/// a row follows from its key, so that the key stays unique over all partitions.
pub(crate) fn time_of_id(id: &str) -> i64 {
    let Some((_, digits)) = id.rsplit_once('-') else {
        return 0;
    };
    let is_uuid_v7 = digits.len() == 32
        && digits
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        && digits.as_bytes()[12] == b'7';
    if !is_uuid_v7 {
        return 0;
    }
    i64::from_str_radix(&digits[..12], 16).map_or(0, |millis| millis.saturating_mul(1000))
}

/// Start of the day of a time.
#[cfg(feature = "postgres")]
pub(crate) fn day_start(micros: i64) -> i64 {
    micros - micros.rem_euclid(DAY)
}

/// Partitions the tables and makes partitions ahead, if that is not done.
pub(crate) async fn ensure(pool: &Pool) -> Result<(), StoreError> {
    #[cfg(feature = "postgres")]
    if pool.is_postgres() {
        return extend::ensure(pool).await;
    }
    let _ = pool;
    Ok(())
}

/// Drops a partition, unless it should have exactly `rows` rows and has others, or `young` selects a row; returns
/// whether it did. `owner` is the table that writers change before rows of the partition.
async fn drop_partition(
    pool: &Pool,
    name: &str,
    rows: Option<i64>,
    owner: Option<&str>,
    young: Option<&str>,
) -> Result<bool, StoreError> {
    #[cfg(feature = "postgres")]
    if pool.is_postgres() {
        return extend::drop_partition(pool, name, rows, owner, young).await;
    }
    let _ = (pool, name, rows, owner, young);
    Ok(false)
}

/// Returns the partitions of all tables, from the catalog; none on SQLite.
pub(crate) async fn partitions(pool: &Pool) -> Result<Vec<Partition>, StoreError> {
    #[cfg(feature = "postgres")]
    if pool.is_postgres() {
        let select = sql!(
            "SELECT p.relname::text, c.relname::text, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i
             JOIN pg_class p ON p.oid = i.inhparent JOIN pg_class c ON c.oid = i.inhrelid
             JOIN pg_namespace n ON n.oid = p.relnamespace
             WHERE p.relkind = 'p' AND n.nspname = current_schema() ORDER BY 1, 2"
        );
        let mut found = Vec::new();
        for row in pool.rows(select).await? {
            let (table, name, bounds): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            if !PARTITIONED.iter().any(|partitioned| partitioned.table == table) {
                continue;
            }
            if let Some(bounds) = Bounds::parse(&bounds) {
                found.push(Partition { table, name, bounds });
            }
        }
        return Ok(found);
    }
    let _ = pool;
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_parsed() {
        for (text, bounds) in [
            ("DEFAULT", Some(Bounds::Default)),
            (
                "FOR VALUES FROM (MINVALUE) TO ('86400')",
                Some(Bounds::Before(86400)),
            ),
            ("FOR VALUES FROM ('5') TO ('9')", Some(Bounds::Period(5, 9))),
            ("FOR VALUES IN ('5')", None),
        ] {
            assert_eq!(Bounds::parse(text), bounds, "{text}");
        }
    }

    #[test]
    fn ids_have_their_time_or_zero() {
        // 2025-11-13T20:36:49.984Z
        let id = "eq-019a7ee0b1807a3c8f0e1d2c3b4a5968";
        assert_eq!(time_of_id(id), 0x019a_7ee0_b180_i64 * 1000);
        for other in [
            "golden-17",
            "plain",
            "",
            "eq-019a7ee0b1804a3c8f0e1d2c3b4a5968",
            "eq-019A7EE0B1807A3C8F0E1D2C3B4A5968",
            "eq-ßßßßßßßßßßßßßßßß",
        ] {
            assert_eq!(time_of_id(other), 0, "{other}");
        }
    }
}
