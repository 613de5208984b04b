//! What a process knows about its own use of the store, for metrics: connections of the pools, sizes of commits.

use std::sync::{Arc, OnceLock};

use crate::Store;
use crate::pool::Engine;

/// Connections of a pool at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolUsage {
    /// `read` and `write` on SQLite, `all` on PostgreSQL.
    pub pool: &'static str,
    pub in_use: u32,
    pub idle: u32,
    /// Maximum number of open connections.
    pub most: u32,
}

type ObserveBatch = Box<dyn Fn(&'static str, usize) + Send + Sync>;

/// Optional observer of batches, shared by all clones.
#[derive(Clone, Default)]
pub(crate) struct BatchObserver(Arc<OnceLock<ObserveBatch>>);

impl std::fmt::Debug for BatchObserver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BatchObserver")
    }
}

impl BatchObserver {
    /// Reports that a writer has committed rows in one transaction.
    pub(crate) fn report(&self, writer: &'static str, rows: usize) {
        if let Some(observe) = self.0.get() {
            observe(writer, rows);
        }
    }
}

impl Store {
    /// Reports the number of rows of every transaction of the background writers, `journal` and `query_log`; the
    /// first observer is kept.
    pub fn observe_batches(&self, observe: impl Fn(&'static str, usize) + Send + Sync + 'static) {
        let _ = self.pool.batches.0.set(Box::new(observe));
    }

    /// Returns the use of the connection pools. Asks the database nothing.
    pub fn pool_usage(&self) -> Vec<PoolUsage> {
        match &self.pool.engine {
            Engine::Sqlite { read, write } => {
                vec![usage("read", read.pool(), read.kept()), usage("write", write, 0)]
            }
            #[cfg(feature = "postgres")]
            Engine::Postgres(servers) => {
                let all = &servers.primary.connections;
                vec![usage("all", all.pool(), all.kept())]
            }
        }
    }
}

/// Connections that readers keep are idle, although the pool counts them as in use.
fn usage<DB: sqlx::Database>(name: &'static str, pool: &sqlx::Pool<DB>, kept: usize) -> PoolUsage {
    let size = pool.size();
    let free = pool.num_idle().saturating_add(kept);
    let idle = u32::try_from(free).unwrap_or(u32::MAX).min(size);
    PoolUsage {
        pool: name,
        in_use: size - idle,
        idle,
        most: pool.options().get_max_connections(),
    }
}
