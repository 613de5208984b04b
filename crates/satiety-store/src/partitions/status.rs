//! State of what a fleet depends on: partitions made ahead, rows without a partition, the read replica.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bounds, PARTITIONED, SINCE, partitions};
use crate::sql::sql;
use crate::{Store, StoreError, migrate, now_micros};

/// Rows of a default partition are counted up to this number.
const MAX_COUNTED: i64 = 10_000;

/// Partitions, read replica and connection pooler of a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetStatus {
    /// Partitioned tables; empty on SQLite and on a schema from before partitions.
    pub partitions: Vec<PartitionStatus>,
    /// Read replica, if one is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica: Option<ReplicaStatus>,
    /// Whether connections go through a pooler that assigns a server connection to each transaction.
    pub transaction_pooling: bool,
}

/// Partitions of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartitionStatus {
    /// Name of the partitioned table.
    pub table: String,
    /// Number of partitions, including the first and the default one; 0 if the table is not partitioned yet.
    pub partitions: usize,
    /// End of the last partition, in microseconds since the Unix epoch; later rows go to the default partition.
    pub ends_at: Option<i64>,
    /// Time from now until that end in whole days; negative if it has passed.
    pub days_ahead: Option<i64>,
    /// Number of rows in the default partition, counted up to 10,000. They move to a partition when one is made
    /// for their time.
    pub default_rows: i64,
}

/// State of the read replica.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplicaStatus {
    /// URL of the replica, password masked.
    pub place: String,
    /// Seconds that the replica is behind the primary; absent if it is unreachable or not a replica.
    pub lag_seconds: Option<f64>,
    /// Why reads go to the primary, if they do.
    pub problem: Option<String>,
}

impl Store {
    /// Returns the state of partitions and of the read replica. Changes nothing.
    pub async fn fleet_status(&self) -> Result<FleetStatus, StoreError> {
        let mut status = FleetStatus {
            partitions: Vec::new(),
            replica: self.pool.replica_status().await,
            transaction_pooling: self.pool.uses_transaction_pooling(),
        };
        if !self.pool.is_postgres() || migrate::version(&self.pool).await? < SINCE {
            return Ok(status);
        }
        let found = partitions(&self.pool).await?;
        for table in PARTITIONED {
            let own: Vec<_> = found
                .iter()
                .filter(|partition| partition.table == table.table)
                .collect();
            let ends_at = own.iter().filter_map(|partition| partition.bounds.end()).max();
            let mut default_rows = 0;
            for partition in own.iter().filter(|partition| partition.bounds == Bounds::Default) {
                let count = format!(
                    "SELECT COUNT(*) FROM (SELECT 1 FROM {} LIMIT {MAX_COUNTED}) counted",
                    partition.name
                );
                default_rows += self.pool.one(sql!(count)).await?.get::<i64>(0)?;
            }
            status.partitions.push(PartitionStatus {
                table: table.table.into(),
                partitions: own.len(),
                ends_at,
                days_ahead: ends_at.map(|end| (end - now_micros()).div_euclid(super::DAY)),
                default_rows,
            });
        }
        Ok(status)
    }

    /// Makes partitions ahead, if fewer than five days of them are left. One process does, others wait for it. Does
    /// nothing on SQLite.
    pub async fn make_partitions(&self) -> Result<(), StoreError> {
        super::ensure(&self.pool).await
    }
}
