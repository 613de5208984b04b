//! Connected processes: servers and workers announce themselves in the database while they run.

use std::time::Duration;

use satiety::ids;
use satiety_store::instances::InstanceRow;
use satiety_store::{Store, now_micros};

use crate::EngineError;
use crate::handles::DatabaseOperations;

/// Time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Age in microseconds after which a process without a heartbeat counts as ended.
const EXPIRES_AFTER: i64 = 45_000_000;

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
    /// Names of the workers.
    pub workers: Vec<String>,
    /// Addresses of the servers, latest start first.
    pub servers: Vec<String>,
}

/// Announcement of this process: repeated in the background until [`Announcement::withdraw`].
#[derive(Debug)]
pub struct Announcement {
    store: Store,
    instance_id: String,
    heartbeat: tokio::task::JoinHandle<()>,
}

impl Announcement {
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
        for row in store.instances().seen_since(now_micros() - EXPIRES_AFTER).await? {
            match row.url {
                Some(url) => found.servers.push(url),
                None => found.workers.push(row.name),
            }
        }
        Ok(found)
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
