//! Database maintenance: status, migration, retention, export, import and backup.

use crate::handles::DatabaseOperations;
use std::path::{Path, PathBuf};
use std::time::Duration;

use satiety::memory::Author;
pub use satiety_store::retention::{Outcome, Retained, Rule};
pub use satiety_store::transfer::{BackupKind, TransferReport};
pub use satiety_store::{FleetStatus, Status};
use satiety_store::{Migrate, Store};

mod manifest;
mod partitions;
pub(crate) mod stored_export;
use manifest::LockedExport;
pub use manifest::{ColumnManifest, ExportManifest, FileManifest, TableManifest, export_schema};
use partitions::PartitionWriter;
pub use partitions::{ExportProgress, ParquetExport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncWrite, AsyncWriteExt, BufReader, BufWriter};

use crate::EngineError;

/// Time without a heartbeat after which other processes consider a retention run lost.
const LEASE: Duration = Duration::from_mins(1);

/// Result of a schema migration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MigrateResponse {
    /// URL or path of the database.
    pub place: String,
    /// Schema version before the migration.
    pub from: i64,
    /// Schema version after the migration.
    pub to: i64,
}

/// Result of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackupResponse {
    /// Path of the backup file.
    pub path: PathBuf,
    /// Format of the backup file.
    pub kind: BackupKind,
    /// Size of the backup file in bytes.
    pub bytes: u64,
}

/// Verifies the hash chain of every harness in the database.
async fn verify_ledgers(store: &Store) -> Result<(), EngineError> {
    for harness_id in store.harness().ids().await? {
        let entries = crate::harness::ledger_entries(store, &harness_id).await?;
        satiety::harness::ledger::verify_chain(&entries).map_err(crate::harness::HarnessError::from)?;
    }
    Ok(())
}

impl DatabaseOperations<'_> {
    /// Reports the contents of the database without creating or migrating it; `check` also reads all of it to
    /// detect corruption, rows that refer to missing ones, and broken logs of harnesses.
    pub async fn status(self, check: bool) -> Result<Status, EngineError> {
        let store = self.engine.open_store(Migrate::Never).await?;
        let mut status = store.status().await?;
        if status.engine == "postgres" {
            status.fleet = Some(store.fleet_status().await?);
        }
        if check {
            store.check_integrity().await?;
            if status.schema_version == status.latest_schema_version {
                verify_ledgers(&store).await?;
            }
        }
        store.close().await;
        Ok(status)
    }

    /// Migrates the schema to the current version; creates the database if it does not exist.
    pub async fn migrate(self) -> Result<MigrateResponse, EngineError> {
        let from = match self.engine.open_store(Migrate::Never).await {
            Ok(store) => store.status().await?.schema_version,
            Err(satiety_store::StoreError::NoStore { .. }) => 0,
            Err(error) => return Err(error.into()),
        };
        let status = self.engine.store().await?.status().await?;
        Ok(MigrateResponse {
            place: status.place,
            from,
            to: status.schema_version,
        })
    }

    /// Returns the retention rules.
    pub async fn retention_rules(self) -> Result<Vec<Rule>, EngineError> {
        Ok(self.engine.store().await?.retention().rules().await?)
    }

    /// Sets retention rules.
    pub async fn set_retention_rules(self, rules: &[Rule]) -> Result<(), EngineError> {
        let store = self.engine.store().await?;
        for rule in rules {
            store.retention().set_rule(rule).await?;
        }
        Ok(())
    }

    /// Applies the retention rules, or only reports the effect for `dry_run`.
    pub async fn retain(self, dry_run: bool) -> Result<Retained, EngineError> {
        let store = self.engine.store().await?;
        Ok(store
            .retention()
            .apply(
                satiety_store::now_micros(),
                &self.engine.settings.archive_folder,
                dry_run,
            )
            .await?)
    }

    /// Applies the retention rules, unless another process on this database is doing so or has done so within
    /// `every`.
    pub async fn apply_retention_if_due(self, every: Duration) -> Result<Option<Retained>, EngineError> {
        let store = self.engine.store().await?;
        let Some(turn) = store
            .maintenance()
            .acquire_turn("retention", every, LEASE)
            .await?
        else {
            return Ok(None);
        };
        match self.retain(false).await {
            Ok(retained) => {
                turn.done().await?;
                Ok(Some(retained))
            }
            Err(error) => {
                // Another process may succeed, for instance with its archive on another disk.
                turn.let_go().await?;
                Err(error)
            }
        }
    }

    /// Exports the database as JSON Lines to a file, which appears only when complete.
    pub async fn export_file(self, path: &Path) -> Result<TransferReport, EngineError> {
        let failed = |cause| EngineError::file("write", path, cause);
        let partial = path.with_added_extension("partial");
        let mut file = BufWriter::new(fs_err::tokio::File::create(&partial).await.map_err(failed)?);
        let moved = match self.export(&mut file).await {
            Ok(moved) => moved,
            Err(error) => {
                let _ = fs_err::tokio::remove_file(&partial).await;
                return Err(error);
            }
        };
        file.get_ref().sync_all().await.map_err(failed)?;
        fs_err::tokio::rename(&partial, path).await.map_err(failed)?;
        Ok(moved)
    }

    /// Exports the database as Parquet files below a directory: `TABLE/day=DATE/NUMBER-HASH.parquet` for tables with
    /// a time, `TABLE/NUMBER-HASH.parquet` for others. If the directory has an export of this database, only files
    /// whose rows have changed are written, and files that are superseded are removed. `full` also reads the days
    /// that cannot have changed.
    pub async fn export_parquet(
        self,
        directory: &Path,
        full: bool,
        mut progress: impl FnMut(ExportProgress) + Send,
    ) -> Result<ParquetExport, EngineError> {
        let store = self.engine.reader().await?;
        let exported_at = jiff::Timestamp::now();
        let mut database = store.place().to_owned();
        // A relative path is another file elsewhere, and an absolute one may be the same file.
        if let crate::StoreUrl::Sqlite(path) = &self.engine.settings.store {
            let path = fs_err::canonicalize(path).map_err(|cause| EngineError::file("read", path, cause))?;
            database = crate::StoreUrl::Sqlite(path).to_string();
        }
        let target = LockedExport::open(directory, satiety_store::SCHEMA_VERSION, &database)?;
        let next = ExportManifest::new(satiety_store::SCHEMA_VERSION, &database);
        let mut writer = PartitionWriter::new(target, next, full, &mut progress);
        store.rows_by_day(&mut writer).await?;
        writer.finish(exported_at)
    }

    /// Exports the database as JSON Lines.
    pub async fn export(
        self,
        out: &mut (impl AsyncWrite + Unpin + Send),
    ) -> Result<TransferReport, EngineError> {
        let moved = self.engine.reader().await?.export(out).await?;
        out.flush()
            .await
            .map_err(|cause| EngineError::file("write", Path::new("the export"), cause))?;
        Ok(moved)
    }

    /// Imports an export from a file into this database.
    pub async fn import_file(self, path: &Path, author: Author) -> Result<TransferReport, EngineError> {
        let file = fs_err::tokio::File::open(path)
            .await
            .map_err(|cause| EngineError::file("read", path, cause))?;
        self.import(&mut BufReader::new(file), author).await
    }

    /// Imports an export into this database, which must be empty. Constitutional memories are imported only
    /// for a human author.
    pub async fn import(
        self,
        input: &mut (impl AsyncBufRead + Unpin + Send),
        author: Author,
    ) -> Result<TransferReport, EngineError> {
        let store = self.engine.store().await?;
        Ok(match author {
            Author::Person => store.import(input).await?,
            Author::Agent => store.import_without_rules(input).await?,
        })
    }

    /// Creates a backup while the database stays in use.
    pub async fn backup(self, path: &Path) -> Result<BackupResponse, EngineError> {
        let kind = self.engine.store().await?.backup(path).await?;
        let bytes = fs_err::tokio::metadata(path)
            .await
            .map_err(|cause| EngineError::file("read", path, cause))?
            .len();
        Ok(BackupResponse {
            path: path.to_path_buf(),
            kind,
            bytes,
        })
    }
}
