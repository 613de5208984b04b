//! Servers and workers that are connected to the database. Each announces itself and repeats it as a heartbeat, so that
//! other processes know where the dashboard is and how many workers there are.

use crate::sql::{Row, columns, sql};
use crate::{Store, StoreError, now_micros};

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
    /// Time of the latest heartbeat, in microseconds since the Unix epoch; set by the store.
    pub seen_at: i64,
}

/// Connected processes: [`Store::instances`].
#[derive(Debug, Clone, Copy)]
pub struct Instances<'s>(pub(crate) &'s Store);

impl Instances<'_> {
    /// Announces a process, or repeats its heartbeat. Removes processes that ended without doing so themselves.
    pub async fn announce(self, instance: &InstanceRow) -> Result<(), StoreError> {
        let now = now_micros();
        let delete = sql!("DELETE FROM instances WHERE seen_at < $1"; now - EXPIRED);
        self.0.pool.execute(delete).await?;
        let insert = sql!(
            "INSERT INTO instances (instance_id, kind, name, url, version, started_at, seen_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (instance_id) DO UPDATE SET seen_at = excluded.seen_at";
            &instance.instance_id, &instance.kind, &instance.name, &instance.url, &instance.version,
            instance.started_at, now
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }

    /// Removes a process that ends.
    pub async fn remove(self, instance_id: &str) -> Result<(), StoreError> {
        let delete = sql!("DELETE FROM instances WHERE instance_id = $1"; instance_id);
        self.0.pool.execute(delete).await?;
        Ok(())
    }

    /// Returns the processes with a heartbeat since a time, latest start first.
    pub async fn seen_since(self, since: i64) -> Result<Vec<InstanceRow>, StoreError> {
        let select = sql!(
            "SELECT instance_id, kind, name, url, version, started_at, seen_at FROM instances WHERE seen_at >= $1
             ORDER BY started_at DESC, instance_id DESC LIMIT 1000";
            since
        );
        let rows = self.0.pool.rows(select).await?;
        let instance = |row: &Row| {
            Ok(columns!(row => InstanceRow { instance_id, kind, name, url, version, started_at, seen_at }))
        };
        rows.iter().map(instance).collect()
    }
}
