//! Servers and workers that are connected to the database. Each announces itself and repeats it as a heartbeat, so that
//! other processes know where the dashboard is and how many workers there are.

use crate::sql::{Row, columns, sql};
use crate::{SCHEMA_VERSION, Store, StoreError, now_micros};

/// Time without a heartbeat after which a process is removed, in microseconds.
const EXPIRED: i64 = 24 * 60 * 60 * 1_000_000;

/// A server or worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceRow {
    /// Unique id; new for each start.
    pub instance_id: String,
    /// `server` or `worker`.
    pub kind: String,
    pub name: String,
    /// Address of a server's pages.
    pub url: Option<String>,
    pub version: String,
    /// Time in microseconds since the Unix epoch.
    pub started_at: i64,
    /// Time of the latest heartbeat by the clock of the database, in microseconds since the Unix epoch; set by the
    /// store.
    pub seen_at: i64,
    /// Latest schema version that the process knows; set by the store.
    pub schema_version: Option<i64>,
    /// Clock of the process minus that of the database at the latest heartbeat, in microseconds; set by the store.
    pub clock_offset: Option<i64>,
    /// Time when the process began to finish its work, or was asked to, in microseconds since the Unix epoch.
    pub draining_at: Option<i64>,
}

/// Connected processes: [`Store::instances`].
#[derive(Debug, Clone, Copy)]
pub struct Instances<'s>(pub(crate) &'s Store);

impl Instances<'_> {
    /// Announces a process, or repeats its heartbeat. Removes processes that ended without doing so themselves.
    ///
    /// Times are those of the database, because the clocks of two machines differ.
    pub async fn announce(self, instance: &InstanceRow) -> Result<(), StoreError> {
        let clock = self.0.pool.clock();
        let delete = format!("DELETE FROM instances WHERE seen_at < {clock} - $1");
        self.0.pool.execute(sql!(delete; EXPIRED)).await?;
        let insert = format!(
            "INSERT INTO instances (instance_id, kind, name, url, version, started_at, seen_at, schema_version, clock_offset,
                 draining_at)
             VALUES ($1, $2, $3, $4, $5, $6, {clock}, $7, $8 - {clock}, $9)
             ON CONFLICT (instance_id) DO UPDATE SET seen_at = excluded.seen_at, clock_offset = excluded.clock_offset"
        );
        let insert = sql!(
            insert;
            &instance.instance_id, &instance.kind, &instance.name, &instance.url, &instance.version,
            instance.started_at, SCHEMA_VERSION, now_micros(), instance.draining_at
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }

    /// Marks a process as draining; returns false if it is not announced. The first time counts.
    pub async fn set_draining(self, instance_id: &str) -> Result<bool, StoreError> {
        let update = sql!(
            "UPDATE instances SET draining_at = COALESCE(draining_at, $2) WHERE instance_id = $1";
            instance_id, now_micros()
        );
        Ok(self.0.pool.execute(update).await? > 0)
    }

    /// Asks the workers with this name to drain; returns how many have a heartbeat within this many microseconds.
    pub async fn drain_workers(self, name: &str, micros: i64) -> Result<u64, StoreError> {
        let update = format!(
            "UPDATE instances SET draining_at = COALESCE(draining_at, $3)
             WHERE kind = 'worker' AND name = $1 AND seen_at >= {} - $2",
            self.0.pool.clock()
        );
        self.0
            .pool
            .execute(sql!(update; name, micros, now_micros()))
            .await
    }

    /// Whether a process is draining or was asked to.
    pub async fn is_draining(self, instance_id: &str) -> Result<bool, StoreError> {
        let select = sql!(
            "SELECT instance_id FROM instances WHERE instance_id = $1 AND draining_at IS NOT NULL";
            instance_id
        );
        Ok(self.0.pool.row(select).await?.is_some())
    }

    /// Removes a process that ends.
    pub async fn remove(self, instance_id: &str) -> Result<(), StoreError> {
        let delete = sql!("DELETE FROM instances WHERE instance_id = $1"; instance_id);
        self.0.pool.execute(delete).await?;
        Ok(())
    }

    /// Returns the processes with a heartbeat within this many microseconds, latest start first.
    pub async fn seen_within(self, micros: i64) -> Result<Vec<InstanceRow>, StoreError> {
        let select = format!(
            "SELECT instance_id, kind, name, url, version, started_at, seen_at, schema_version, clock_offset, draining_at
             FROM instances WHERE seen_at >= {} - $1 ORDER BY started_at DESC, instance_id DESC LIMIT 1000",
            self.0.pool.clock()
        );
        let rows = self.0.pool.rows(sql!(select; micros)).await?;
        let instance = |row: &Row| {
            Ok(columns!(row => InstanceRow {
                instance_id, kind, name, url, version, started_at, seen_at, schema_version, clock_offset, draining_at
            }))
        };
        rows.iter().map(instance).collect()
    }
}
