//! Facts that PostgreSQL knows about itself: connections, replicas, partitions, dead rows, indexes, transactions and
//! the pooler in front of it.

use serde::Serialize;

use crate::sql::Row;
use crate::{Store, StoreError};

/// Rows per list: the worst are enough to act on.
const MAX_ROWS: usize = 10;
/// Size in bytes below which an unused index, or dead rows, cost nothing.
const MIN_BYTES: i64 = 8 << 20;

/// What PostgreSQL knows about itself. A list is empty if there is nothing to report.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PostgresFacts {
    /// Whether this server is a replica.
    pub is_replica: bool,
    /// Open connections of all clients, and how many the server accepts from ordinary users.
    pub connections: Option<(i64, i64)>,
    pub replicas: Vec<ReplicaFacts>,
    pub partitions: Vec<PartitionFacts>,
    /// Locks of the table that needs most.
    pub locks: Option<LockFacts>,
    /// Tables with the most dead rows.
    pub dead_rows: Vec<DeadRows>,
    /// Large indexes that no query has used since the statistics were reset.
    pub unused_indexes: Vec<IndexFacts>,
    /// Indexes whose creation failed or was interrupted.
    pub invalid_indexes: Vec<String>,
    /// Age of the statistics in seconds, if they were ever reset.
    pub statistics_age: Option<f64>,
    /// Oldest open transaction of another connection.
    pub longest_transaction: Option<LongTransaction>,
    /// How connections reach the server.
    pub pooling: Option<Pooling>,
}

/// A replica that receives changes from this server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplicaFacts {
    pub name: String,
    /// `streaming`, `catchup`, `backup` and so on.
    pub state: String,
    /// Bytes of the log that it has not applied.
    pub lag_bytes: Option<i64>,
    /// Time by which it is behind; zero if it has applied everything.
    pub lag_seconds: Option<f64>,
}

/// A table that is partitioned by a range.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartitionFacts {
    pub table: String,
    /// Number of partitions, without the default partition.
    pub count: i64,
    /// Upper bound of the last partition, if it is a number: microseconds since the Unix epoch.
    pub ends_at: Option<i64>,
    /// Name of the default partition.
    pub default_partition: Option<String>,
    /// Estimated number of rows in the default partition.
    pub default_rows: i64,
}

/// Locks of a query that reads all partitions of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LockFacts {
    pub table: String,
    /// Number of tables and indexes that the query locks.
    pub relations: i64,
    /// Setting `max_locks_per_transaction`: the server has this many locks for each connection, shared by all.
    pub per_connection: i64,
}

/// Dead rows of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeadRows {
    pub table: String,
    pub live: i64,
    pub dead: i64,
    pub bytes: i64,
    /// Seconds since the last vacuum, automatic or not.
    pub since_vacuum: Option<f64>,
}

/// An index with its size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IndexFacts {
    pub index: String,
    pub table: String,
    pub bytes: i64,
}

/// An open transaction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LongTransaction {
    pub pid: i64,
    pub application: String,
    pub state: String,
    pub seconds: f64,
}

/// How connections reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// A connection has one server process.
    Session,
    /// Two transactions of a connection may have different server processes: a pooler in transaction mode.
    Transaction,
}

macro_rules! read {
    ($row:expr => $type:ident { $($field:ident),+ }) => {
        Ok($type { $($field: $row.get(stringify!($field))?),+ })
    };
}

impl Store {
    pub(super) async fn postgres_facts(&self, unknown: &mut Vec<(String, String)>) -> PostgresFacts {
        let mut note = |what: &str, error: &StoreError| unknown.push((what.to_owned(), error.to_string()));
        macro_rules! fact {
            ($what:literal, $question:expr) => {
                match $question.await {
                    Ok(found) => found,
                    Err(error) => {
                        note($what, &error);
                        Default::default()
                    }
                }
            };
        }
        PostgresFacts {
            is_replica: fact!("replicas", self.is_replica()),
            connections: fact!("connections", self.connections()),
            replicas: fact!("replicas", self.replicas()),
            partitions: fact!("partitions", self.partitions()),
            locks: fact!("locks", self.locks()),
            dead_rows: fact!("vacuum", self.dead_rows()),
            unused_indexes: fact!("indexes", self.unused_indexes()),
            invalid_indexes: fact!("indexes", self.invalid_indexes()),
            statistics_age: fact!("indexes", self.statistics_age()),
            longest_transaction: fact!("transactions", self.longest_transaction()),
            pooling: Some(if self.pool.uses_transaction_pooling() {
                Pooling::Transaction
            } else {
                Pooling::Session
            }),
        }
    }

    async fn is_replica(&self) -> Result<bool, StoreError> {
        let rows = self.ask("SELECT pg_is_in_recovery()").await?;
        rows.first().map_or(Ok(false), |row| row.get(0))
    }

    async fn connections(&self) -> Result<Option<(i64, i64)>, StoreError> {
        let rows = self
            .ask(
                "SELECT (SELECT COUNT(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
                     current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint",
            )
            .await?;
        let pair = |row: &Row| Ok((row.get(0)?, row.get(1)?));
        rows.first().map(pair).transpose()
    }

    pub(super) async fn replicas(&self) -> Result<Vec<ReplicaFacts>, StoreError> {
        // The lag that the server measures stays at its last value while nothing is written, so that a replica that
        // has applied everything counts as current.
        let rows = self
            .ask(
                "SELECT COALESCE(NULLIF(application_name, ''), client_addr::text, pid::text) AS name,
                     COALESCE(state, 'unknown') AS state,
                     CASE WHEN pg_is_in_recovery() THEN NULL
                         ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint END AS lag_bytes,
                     CASE WHEN NOT pg_is_in_recovery() AND replay_lsn >= pg_current_wal_lsn() THEN 0
                         ELSE EXTRACT(EPOCH FROM replay_lag)::float8 END AS lag_seconds
                 FROM pg_stat_replication ORDER BY 1 LIMIT 50",
            )
            .await?;
        let replica = |row: &Row| read!(row => ReplicaFacts { name, state, lag_bytes, lag_seconds });
        rows.iter().map(replica).collect()
    }

    async fn partitions(&self) -> Result<Vec<PartitionFacts>, StoreError> {
        // The upper bound is read from the expression `FOR VALUES FROM ('…') TO ('…')`.
        let rows = self
            .ask(
                "SELECT parent.relname::text AS table,
                     COUNT(child.oid) FILTER (WHERE pg_get_expr(child.relpartbound, child.oid) <> 'DEFAULT') AS count,
                     MAX(substring(pg_get_expr(child.relpartbound, child.oid) FROM 'TO \\(''?(-?[0-9]+)''?\\)')::bigint) AS ends_at,
                     MAX(child.relname::text) FILTER (WHERE pg_get_expr(child.relpartbound, child.oid) = 'DEFAULT')
                         AS default_partition,
                     COALESCE(SUM(GREATEST(pg_stat_get_live_tuples(child.oid), child.reltuples::bigint, 0))
                         FILTER (WHERE pg_get_expr(child.relpartbound, child.oid) = 'DEFAULT'), 0)::bigint AS default_rows
                 FROM pg_partitioned_table partitioned
                 JOIN pg_class parent ON parent.oid = partitioned.partrelid
                 JOIN pg_namespace place ON place.oid = parent.relnamespace AND place.nspname = current_schema()
                 LEFT JOIN pg_inherits ON pg_inherits.inhparent = parent.oid
                 LEFT JOIN pg_class child ON child.oid = pg_inherits.inhrelid
                 WHERE partitioned.partstrat = 'r' GROUP BY parent.relname ORDER BY parent.relname LIMIT 50",
            )
            .await?;
        let partitioned = |row: &Row| read!(row => PartitionFacts { table, count, ends_at, default_partition, default_rows });
        rows.iter().map(partitioned).collect()
    }

    async fn locks(&self) -> Result<Option<LockFacts>, StoreError> {
        let rows = self
            .ask(
                "SELECT parent.relname::text AS table,
                     (1 + COUNT(*) + SUM((SELECT COUNT(*) FROM pg_index i WHERE i.indrelid = pg_inherits.inhrelid)))::bigint
                         AS relations,
                     current_setting('max_locks_per_transaction')::bigint AS per_connection
                 FROM pg_inherits JOIN pg_class parent ON parent.oid = pg_inherits.inhparent AND parent.relkind = 'p'
                 JOIN pg_namespace place ON place.oid = parent.relnamespace AND place.nspname = current_schema()
                 GROUP BY parent.relname ORDER BY relations DESC LIMIT 1",
            )
            .await?;
        let locks = |row: &Row| read!(row => LockFacts { table, relations, per_connection });
        rows.first().map(locks).transpose()
    }

    async fn dead_rows(&self) -> Result<Vec<DeadRows>, StoreError> {
        let rows = self
            .ask(&format!(
                "SELECT relname::text AS table, n_live_tup AS live, n_dead_tup AS dead,
                     pg_relation_size(relid) AS bytes,
                     EXTRACT(EPOCH FROM now() - GREATEST(last_vacuum, last_autovacuum))::float8 AS since_vacuum
                 FROM pg_stat_user_tables WHERE schemaname = current_schema() AND n_dead_tup > 0
                 AND pg_relation_size(relid) >= {MIN_BYTES} ORDER BY n_dead_tup DESC LIMIT {MAX_ROWS}"
            ))
            .await?;
        let dead = |row: &Row| read!(row => DeadRows { table, live, dead, bytes, since_vacuum });
        rows.iter().map(dead).collect()
    }

    async fn unused_indexes(&self) -> Result<Vec<IndexFacts>, StoreError> {
        let rows = self
            .ask(&format!(
                "SELECT indexrelname::text AS index, relname::text AS table, pg_relation_size(s.indexrelid) AS bytes
                 FROM pg_stat_user_indexes s JOIN pg_index i ON i.indexrelid = s.indexrelid
                 WHERE schemaname = current_schema() AND idx_scan = 0 AND NOT i.indisunique
                 AND pg_relation_size(s.indexrelid) >= {MIN_BYTES} ORDER BY 3 DESC LIMIT {MAX_ROWS}"
            ))
            .await?;
        let index = |row: &Row| read!(row => IndexFacts { index, table, bytes });
        rows.iter().map(index).collect()
    }

    async fn invalid_indexes(&self) -> Result<Vec<String>, StoreError> {
        let rows = self
            .ask(&format!(
                "SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
                 JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = current_schema()
                 WHERE NOT i.indisvalid AND c.relkind = 'i' ORDER BY 1 LIMIT {MAX_ROWS}"
            ))
            .await?;
        rows.iter().map(|row| row.get(0)).collect()
    }

    async fn statistics_age(&self) -> Result<Option<f64>, StoreError> {
        let rows = self
            .ask(
                "SELECT EXTRACT(EPOCH FROM now() - stats_reset)::float8 FROM pg_stat_database
                 WHERE datname = current_database()",
            )
            .await?;
        rows.first().map_or(Ok(None), |row| row.get(0))
    }

    async fn longest_transaction(&self) -> Result<Option<LongTransaction>, StoreError> {
        let rows = self
            .ask(
                "SELECT pid::bigint AS pid, COALESCE(NULLIF(application_name, ''), usename::text, '') AS application,
                     COALESCE(state, 'unknown') AS state, EXTRACT(EPOCH FROM now() - xact_start)::float8 AS seconds
                 FROM pg_stat_activity WHERE datname = current_database() AND xact_start IS NOT NULL
                 AND pid <> pg_backend_pid() AND backend_type = 'client backend'
                 ORDER BY xact_start LIMIT 1",
            )
            .await?;
        let open = |row: &Row| read!(row => LongTransaction { pid, application, state, seconds });
        rows.first().map(open).transpose()
    }
}
