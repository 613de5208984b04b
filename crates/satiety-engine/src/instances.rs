//! Connected processes: servers and workers announce themselves in the database while they run.

use std::time::Duration;

use satiety::ids;
use satiety_store::instances::InstanceRow;
use satiety_store::{Store, now_micros};
use schemars::JsonSchema;
use serde::Serialize;

use crate::EngineError;
use crate::handles::DatabaseOperations;

/// Time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Age in microseconds after which a process without a heartbeat counts as ended.
pub(crate) const EXPIRES_AFTER: i64 = 45_000_000;

/// What a process is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstanceKind {
    /// Serves pages at this address.
    Server { url: String },
    /// Takes queued cases.
    Worker,
}

/// Connected processes at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Instances {
    /// Workers, latest start first.
    pub workers: Vec<WorkerInstance>,
    /// Addresses of the servers, latest start first.
    pub servers: Vec<String>,
}

/// Connected worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkerInstance {
    /// Name of the worker.
    pub name: String,
    /// Whether it finishes its cases and takes no new ones.
    pub draining: bool,
}

/// Announcement of this process: repeated in the background until [`Announcement::withdraw`].
#[derive(Debug)]
pub struct Announcement {
    store: Store,
    instance_id: String,
    heartbeat: tokio::task::JoinHandle<()>,
}

impl Announcement {
    /// Whether this process was asked to drain. An unreachable database asks for nothing.
    pub(crate) async fn is_draining(&self) -> bool {
        let asked = self.store.instances().is_draining(&self.instance_id).await;
        asked.unwrap_or(false)
    }

    /// Shows this process as draining.
    pub(crate) async fn set_draining(&self) {
        if let Err(error) = self.store.instances().set_draining(&self.instance_id).await {
            tracing::debug!(%error, "cannot show this process as draining");
        }
    }

    /// Removes the process from the list.
    pub async fn withdraw(self) {
        self.heartbeat.abort();
        // An entry that remains expires by itself.
        let _ = self.store.instances().remove(&self.instance_id).await;
    }
}

impl DatabaseOperations<'_> {
    /// Announces this process, now and as a heartbeat.
    pub async fn announce(self, kind: InstanceKind, name: &str) -> Result<Announcement, EngineError> {
        let store = self.engine.store().await?.clone();
        let now = now_micros();
        let (kind, url) = match kind {
            InstanceKind::Server { url } => ("server", Some(url)),
            InstanceKind::Worker => ("worker", None),
        };
        let instance = InstanceRow {
            instance_id: ids::prefixed(kind, uuid::Uuid::now_v7()),
            kind: kind.to_owned(),
            name: name.to_owned(),
            url,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: now,
            seen_at: now,
            schema_version: None,
            clock_offset: None,
            draining_at: None,
        };
        store.instances().announce(&instance).await?;
        let instance_id = instance.instance_id.clone();
        let beating = store.clone();
        let heartbeat = tokio::spawn(async move {
            loop {
                tokio::time::sleep(HEARTBEAT).await;
                if let Err(error) = beating.instances().announce(&instance).await {
                    tracing::debug!(%error, "cannot renew the announcement");
                }
            }
        });
        Ok(Announcement {
            store,
            instance_id,
            heartbeat,
        })
    }

    /// Returns the processes with a recent heartbeat.
    pub async fn instances(self) -> Result<Instances, EngineError> {
        let store = self.engine.store().await?;
        let mut found = Instances::default();
        for row in store.instances().seen_within(EXPIRES_AFTER).await? {
            match row.url {
                Some(url) => found.servers.push(url),
                None => found.workers.push(WorkerInstance {
                    name: row.name,
                    draining: row.draining_at.is_some(),
                }),
            }
        }
        Ok(found)
    }

    /// Asks the connected workers with this name to drain; returns how many there are.
    pub(crate) async fn drain_workers(self, name: &str) -> Result<u64, EngineError> {
        let store = self.engine.store().await?;
        Ok(store.instances().drain_workers(name, EXPIRES_AFTER).await?)
    }

    /// Name of the database engine.
    pub fn store_kind(self) -> &'static str {
        if matches!(self.engine.settings.store, crate::StoreUrl::Sqlite(_)) {
            "SQLite"
        } else {
            "PostgreSQL"
        }
    }

    /// Address of a page on the server that was started last; `None` if no server runs.
    pub async fn page_address(self, path: &str) -> Option<String> {
        let instances = self.instances().await.ok()?;
        let server = instances.servers.first()?;
        Some(format!("{}{path}", server.trim_end_matches('/')))
    }
}
