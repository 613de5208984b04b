//! Versioned migrations, run when a store is opened: one transaction each, one process at a time.
//!
//! Both engines use the same SQL text. A store with a newer schema is refused before anything is changed.

use std::time::Duration;

use crate::pool::{Pool, in_transaction};
use crate::sql::{first_column, sql};
use crate::{StoreError, now_micros, partitions};

/// One migration of the schema.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    /// Version; versions increase from 1, and a number may be unused.
    pub version: i64,
    /// Name, as in the file name.
    pub name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "foundation",
        sql: include_str!("migrations/0001_foundation.sql"),
    },
    Migration {
        version: 2,
        name: "dialogue",
        sql: include_str!("migrations/0002_dialogue.sql"),
    },
    Migration {
        version: 3,
        name: "retrieval",
        sql: include_str!("migrations/0003_retrieval.sql"),
    },
    Migration {
        version: 4,
        name: "bench",
        sql: include_str!("migrations/0004_bench.sql"),
    },
    Migration {
        version: 5,
        name: "harness",
        sql: include_str!("migrations/0005_harness.sql"),
    },
    Migration {
        version: 6,
        name: "eviction",
        sql: include_str!("migrations/0006_eviction.sql"),
    },
    Migration {
        version: 7,
        name: "research",
        sql: include_str!("migrations/0007_research.sql"),
    },
    Migration {
        version: 8,
        name: "memory",
        sql: include_str!("migrations/0008_memory.sql"),
    },
    Migration {
        version: 9,
        name: "memory_tasks",
        sql: include_str!("migrations/0009_memory_tasks.sql"),
    },
    Migration {
        version: 10,
        name: "golden",
        sql: include_str!("migrations/0010_golden.sql"),
    },
    Migration {
        version: 11,
        name: "ab",
        sql: include_str!("migrations/0011_ab.sql"),
    },
    Migration {
        version: 12,
        name: "server",
        sql: include_str!("migrations/0012_server.sql"),
    },
    Migration {
        version: 13,
        name: "work",
        sql: include_str!("migrations/0013_work.sql"),
    },
    Migration {
        version: 14,
        name: "memory_projects",
        sql: include_str!("migrations/0014_memory_projects.sql"),
    },
    Migration {
        version: 15,
        name: "harness_identity",
        sql: include_str!("migrations/0015_harness_identity.sql"),
    },
    Migration {
        version: 16,
        name: "progress",
        sql: include_str!("migrations/0016_progress.sql"),
    },
    Migration {
        version: 17,
        name: "hooks",
        sql: include_str!("migrations/0017_hooks.sql"),
    },
    Migration {
        version: 18,
        name: "memory_truth",
        sql: include_str!("migrations/0018_memory_truth.sql"),
    },
    Migration {
        version: 19,
        name: "memory_changes",
        sql: include_str!("migrations/0019_memory_changes.sql"),
    },
    Migration {
        version: 20,
        name: "dashboard",
        sql: include_str!("migrations/0020_dashboard.sql"),
    },
    Migration {
        version: 21,
        name: "annotations",
        sql: include_str!("migrations/0021_annotations.sql"),
    },
    Migration {
        version: 22,
        name: "dashboard_trends",
        sql: include_str!("migrations/0022_dashboard_trends.sql"),
    },
    Migration {
        version: 23,
        name: "partitions",
        sql: include_str!("migrations/0023_partitions.sql"),
    },
    Migration {
        version: 24,
        name: "queue",
        sql: include_str!("migrations/0024_queue.sql"),
    },
    Migration {
        version: 25,
        name: "tenants",
        sql: include_str!("migrations/0025_tenants.sql"),
    },
    Migration {
        version: 26,
        name: "fleet",
        sql: include_str!("migrations/0026_fleet.sql"),
    },
];

/// Schema version that this program writes.
pub const SCHEMA_VERSION: i64 = MIGRATIONS[MIGRATIONS.len() - 1].version;

/// Returns all migrations, oldest first.
pub fn migrations() -> &'static [Migration] {
    MIGRATIONS
}

const CREATE_VERSIONS: &str = "CREATE TABLE IF NOT EXISTS satiety_schema (
    version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)";

/// Arbitrary constant; it must be the same in all versions of Satiety.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7214058331102)";

/// Attempts to get locks, and the pause between two.
const MAX_ATTEMPTS: u32 = 60;
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Migrates the schema to `target`.
pub(crate) async fn run(pool: &Pool, target: i64) -> Result<(), StoreError> {
    refuse_foreign(pool).await?;
    refuse_newer(pool).await?;
    let mut known = applied(pool).await?;
    check_applied(pool, &known)?;
    for migration in MIGRATIONS.iter().filter(|migration| migration.version <= target) {
        if known.iter().any(|(version, _)| *version == migration.version) {
            continue;
        }
        apply(pool, migration).await?;
        known = applied(pool).await?;
        check_applied(pool, &known)?;
    }
    if target >= partitions::SINCE {
        partitions::ensure(pool).await?;
    }
    Ok(())
}

/// Refuses a store with a newer schema.
pub(crate) async fn refuse_newer(pool: &Pool) -> Result<(), StoreError> {
    let found = version(pool).await?;
    if found > SCHEMA_VERSION {
        return Err(StoreError::NewerSchema {
            place: pool.place.to_string(),
            found,
            known: SCHEMA_VERSION,
        });
    }
    Ok(())
}

/// Returns the schema version of the store; 0 if it is empty.
pub(crate) async fn version(pool: &Pool) -> Result<i64, StoreError> {
    Ok(applied(pool).await?.last().map_or(0, |(version, _)| *version))
}

/// Runs one migration. Where it limits the wait for a lock, a long transaction of another process makes it try
/// again later.
async fn apply(pool: &Pool, migration: &Migration) -> Result<(), StoreError> {
    let mut attempts = 0;
    loop {
        match apply_once(pool, migration).await {
            Err(StoreError::Busy { .. }) if pool.is_postgres() && attempts < MAX_ATTEMPTS => {
                attempts += 1;
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            other => return other,
        }
    }
}

/// Runs one migration, unless another process has done so while this one waited for the lock.
async fn apply_once(pool: &Pool, migration: &Migration) -> Result<(), StoreError> {
    let Migration { version, name, sql } = *migration;
    let postgres = pool.is_postgres();
    let text = for_engine(sql, postgres);
    let checksum = checksum(sql);
    tracing::debug!(version, name, "applying migration");
    in_transaction!(pool, |connection| {
        if postgres {
            connection.execute_raw(LOCK).await?;
        }
        connection.execute_raw(CREATE_VERSIONS).await?;
        let select = sql!("SELECT version FROM satiety_schema WHERE version = $1"; version);
        let done = connection.row(select).await?;
        if done.is_none() {
            connection.execute_raw(&text).await?;
            let insert = sql!(
                "INSERT INTO satiety_schema (version, name, checksum, applied_at) VALUES ($1, $2, $3, $4)";
                version, name, &checksum, now_micros()
            );
            connection.execute(insert).await?;
        }
    })
}

/// Returns a migration for one engine, without the lines for the other.
fn for_engine(sql: &str, postgres: bool) -> String {
    let other = if postgres {
        "-- only sqlite"
    } else {
        "-- only postgres"
    };
    let mut ours = true;
    let lines = sql.lines().filter(|line| {
        if line.starts_with("-- only ") || *line == "-- both" {
            ours = *line != other;
        }
        ours
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    if postgres {
        text
    } else {
        text.replace(r#"COLLATE "C""#, "COLLATE BINARY")
    }
}

/// Returns the applied versions with their checksums, oldest first.
async fn applied(pool: &Pool) -> Result<Vec<(i64, String)>, StoreError> {
    if !user_tables(pool)
        .await?
        .iter()
        .any(|table| table == "satiety_schema")
    {
        return Ok(Vec::new());
    }
    let rows = pool
        .rows(sql!(
            "SELECT version, checksum FROM satiety_schema ORDER BY version"
        ))
        .await?;
    rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
}

/// Detects a migration that was edited after it was applied: two different schemas would have the same
/// version.
fn check_applied(pool: &Pool, applied: &[(i64, String)]) -> Result<(), StoreError> {
    for migration in MIGRATIONS {
        if let Some((_, found)) = applied.iter().find(|(version, _)| *version == migration.version)
            && *found != checksum(migration.sql)
        {
            return Err(StoreError::ForeignMigration {
                place: pool.place.to_string(),
                version: migration.version,
                name: migration.name.into(),
            });
        }
    }
    Ok(())
}

/// Refuses a database that has tables, none of which belong to Satiety.
async fn refuse_foreign(pool: &Pool) -> Result<(), StoreError> {
    let tables = user_tables(pool).await?;
    // A PostgreSQL database may be shared on purpose; the path of a SQLite file is easily mistyped.
    if pool.is_postgres() || tables.is_empty() || tables.iter().any(|table| table == "satiety_schema") {
        return Ok(());
    }
    let shown = tables
        .iter()
        .take(3)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    Err(StoreError::ForeignDatabase {
        place: pool.place.to_string(),
        tables: shown,
    })
}

async fn user_tables(pool: &Pool) -> Result<Vec<String>, StoreError> {
    let select = if pool.is_postgres() {
        "SELECT table_name::text FROM information_schema.tables WHERE table_schema = current_schema() ORDER BY 1"
    } else {
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    };
    first_column(&pool.rows(sql!(select)).await?)
}

fn checksum(sql: &str) -> String {
    blake3::hash(sql.as_bytes()).to_hex()[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_consecutive() {
        let versions: Vec<i64> = MIGRATIONS.iter().map(|migration| migration.version).collect();
        assert_eq!(versions, (1..=SCHEMA_VERSION).collect::<Vec<_>>());
    }

    #[test]
    fn engine_specific_lines_are_selected() {
        let sql = "a COLLATE \"C\"\n-- only sqlite\nb\n-- only postgres\nc\n-- both\nd";
        assert_eq!(
            for_engine(sql, true),
            "a COLLATE \"C\"\n-- only postgres\nc\n-- both\nd"
        );
        assert_eq!(
            for_engine(sql, false),
            "a COLLATE BINARY\n-- only sqlite\nb\n-- both\nd"
        );
    }

    /// A released migration must not change: existing stores carry its checksum.
    #[test]
    fn released_migrations_are_not_edited() {
        let sums: Vec<String> = MIGRATIONS
            .iter()
            .map(|migration| checksum(migration.sql))
            .collect();
        assert_eq!(
            sums,
            [
                "2cdfa5c2a7c96d6d",
                "993da10ce39f9ba4",
                "146eba7b4f860603",
                "451e249ccf4303e3",
                "9b72c316547767c3",
                "ebf19e1999992379",
                "d4ce0c1432dcef68",
                "61404885d3cbb324",
                "f1c928939be5016f",
                "0376913880827dd2",
                "f5a053931b78aa54",
                "a7e445d4d532dde9",
                "1d4d11d80a1df139",
                "9cbb8fc48d32312c",
                "07b5793743a1e9bf",
                "44ae0073cf9ab845",
                "5d75765136b973eb",
                "24271a10654358d6",
                "5748679c4d715d9a",
                "7410e73c2e835a8d",
                "b012790be9eaf832",
                "4ae8e259cc4d8e07",
                "078b9045223f9047",
                "dc2b7046e292144e",
                "1ba118d3859a1710",
                "b968969255f5d9f0"
            ]
        );
    }
}
