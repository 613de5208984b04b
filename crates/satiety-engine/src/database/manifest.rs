//! Manifest of a Parquet export: which files belong to it, and how a new set of files replaces the old one.
//!
//! Files are written as `NAME.parquet.new` first. Then the new manifest is written as `manifest.next.json`, which
//! decides: from there on, new files are renamed, superseded ones removed, and `manifest.next.json` becomes
//! `manifest.json`. A process that is killed before leaves the old export untouched; one that is killed after is
//! completed by the next export or reader of the directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::TryLockError;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use satiety::Hint;
use satiety_store::{Kind, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::EngineError;

/// Version of the manifest's format.
const FORMAT: u32 = 1;
const MANIFEST: &str = "manifest.json";
const NEXT: &str = "manifest.next.json";
const LOCK: &str = "export.lock";
/// Name of [`MANIFEST`] while it is written.
const FIRST_PARTIAL: &str = "manifest.partial";
/// Key that only the manifest of an export has, among the first bytes of the file.
const MARK: &[u8] = b"\"satiety_parquet_export\"";
const MARK_WITHIN: u64 = 4096;
/// Ending of files that are complete, but not part of the export yet.
const NEW: &str = "new";

/// Endings of files that interrupted exports leave.
const LEFTOVERS: [&str; 2] = [".parquet.new", ".parquet.partial"];

/// Contents of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportManifest {
    /// Version of the format of this file.
    pub satiety_parquet_export: u32,
    /// Schema version of the database.
    pub schema_version: i64,
    /// Path or URL of the database, without a password.
    pub database: String,
    /// Time of the snapshot; absent until the first export is complete.
    pub exported_at: Option<jiff::Timestamp>,
    /// Files and columns by table.
    pub tables: BTreeMap<String, TableManifest>,
}

/// Files and columns of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TableManifest {
    /// Columns of every file of the table.
    pub columns: Vec<ColumnManifest>,
    /// Time by which rows are assigned to days, such as `bench_runs.started_at`; absent if the table has none.
    pub day_of: Option<String>,
    /// Latest time of `day_of` in the table; absent if that is a column of another table.
    pub watermark: Option<jiff::Timestamp>,
    /// Number of rows in all files.
    pub rows: u64,
    /// Files in order of day and time.
    pub files: Vec<FileManifest>,
}

/// A column and its type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ColumnManifest {
    /// Name of the column.
    pub name: String,
    /// Type: `string`, `int64`, `double`, `boolean` or `timestamp` (microseconds, UTC).
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether a value may be absent.
    pub optional: bool,
}

/// A file of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileManifest {
    /// Path relative to the manifest, with `/` as separator.
    pub path: String,
    /// Day of the rows in UTC; absent for rows without a time.
    pub day: Option<jiff::civil::Date>,
    /// Number of rows in the file.
    pub rows: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// BLAKE3 hash of the rows as JSON Lines.
    pub rows_hash: String,
    /// BLAKE3 hash of the file.
    pub file_hash: String,
}

/// Directory of rows without a time in a table that has days, as Hive names it.
const NO_DAY: &str = "__HIVE_DEFAULT_PARTITION__";

/// Statements that name every table of the export for `DuckDB`.
const VIEWS: &str = "views.sql";

/// Columns that have JSON, by the name of the column; columns of the same name in other tables have JSON, too.
const JSON_COLUMNS: &[&str] = &[
    "channel_contribution_json",
    "channel_contributions",
    "checklist",
    "config_snapshot",
    "control_result_ids",
    "detail",
    "difference",
    "feature",
    "feedback",
    "fit",
    "fusion_weights",
    "manifest",
    "metadata",
    "per_query_results",
    "plan",
    "postflight",
    "preflight",
    "report",
    "result_ids",
    "results",
    "settings",
    "state",
    "treatment_result_ids",
];

/// Tables and columns of every export, without files.
pub fn export_schema() -> Vec<(&'static str, TableManifest)> {
    let tables = satiety_store::TABLES.iter();
    tables
        .map(|table| (table.name, TableManifest::empty(table)))
        .collect()
}

impl TableManifest {
    /// Description of a table without rows.
    pub(super) fn empty(table: &'static Table) -> Self {
        let day = table.day_column();
        Self {
            columns: columns_of(table),
            day_of: day.map(|time| format!("{}.{}", time.table.name, time.column)),
            ..Self::default()
        }
    }
}

impl ColumnManifest {
    /// What the values are, if the type does not say it: a unit, or JSON.
    pub fn unit(&self) -> &'static str {
        match self.name.as_str() {
            _ if self.kind == "timestamp" => "UTC, microseconds",
            name if name.ends_with("_ms") => "milliseconds",
            name if name.ends_with("_micros") => "microseconds",
            name if name.contains("token_cost") => "tokens",
            name if name.ends_with("_rate") || name == "novelty" || name == "readiness" => "0 to 1",
            name if JSON_COLUMNS.contains(&name) || (name == "body" && self.kind == "string") => "JSON",
            _ => "",
        }
    }
}

/// Directory of a table's rows of a day, relative to the manifest.
pub(super) fn folder_of(table: &'static Table, day: Option<jiff::civil::Date>) -> String {
    match day {
        Some(day) => format!("{}/day={day}", table.name),
        None if table.day_column().is_some() => format!("{}/day={NO_DAY}", table.name),
        None => table.name.to_owned(),
    }
}

/// Columns of a table as they are exported.
pub(super) fn columns_of(table: &Table) -> Vec<ColumnManifest> {
    let columns = table.columns.iter().map(|column| ColumnManifest {
        name: column.name.to_owned(),
        kind: match column.kind {
            _ if column.is_time() => "timestamp",
            Kind::Text => "string",
            Kind::Integer => "int64",
            Kind::Float => "double",
            Kind::Boolean => "boolean",
        }
        .to_owned(),
        optional: column.optional,
    });
    columns.collect()
}

impl ExportManifest {
    pub(super) fn new(schema_version: i64, database: &str) -> Self {
        Self {
            satiety_parquet_export: FORMAT,
            schema_version,
            database: database.to_owned(),
            exported_at: None,
            tables: BTreeMap::new(),
        }
    }

    fn paths(&self) -> BTreeSet<&str> {
        let files = self.tables.values().flat_map(|table| &table.files);
        files.map(|file| file.path.as_str()).collect()
    }

    /// Reads a manifest; `None` if there is none.
    fn read(path: &Path) -> Result<Option<Self>, EngineError> {
        let text = match fs_err::read_to_string(path) {
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|cause| EngineError::file("read", path, cause))?,
        };
        let invalid = |cause: String| EngineError::Invalid {
            message: format!("cannot read {}: {cause}", path.display()),
            hint: "name a directory that `satiety db export --to parquet` wrote, or a new one".into(),
        };
        let manifest: Self = serde_json::from_str(&text).map_err(|cause| invalid(cause.to_string()))?;
        if manifest.satiety_parquet_export != FORMAT {
            return Err(invalid(format!(
                "unsupported format {} (expected {FORMAT})",
                manifest.satiety_parquet_export
            )));
        }
        for path in manifest.paths() {
            let mut parts = Path::new(path).components();
            if !parts.all(|part| matches!(part, std::path::Component::Normal(_))) {
                return Err(invalid(format!("`{path}` is not a path inside the directory")));
            }
        }
        Ok(Some(manifest))
    }
}

/// Whether a directory has an export. Other tools write a `manifest.json`, too.
pub(crate) fn is_export(directory: &Path) -> bool {
    let mut start = Vec::new();
    let read = fs_err::File::open(directory.join(MANIFEST))
        .and_then(|file| file.take(MARK_WITHIN).read_to_end(&mut start));
    read.is_ok() && start.windows(MARK.len()).any(|window| window == MARK)
}

/// A directory that this process alone changes.
#[derive(Debug)]
pub(super) struct LockedExport {
    pub(super) directory: PathBuf,
    pub(super) manifest: ExportManifest,
    /// Released when it is dropped.
    _lock: std::fs::File,
}

impl LockedExport {
    /// Opens or creates the directory, and completes an export that was interrupted while it replaced files.
    pub(super) fn open(directory: &Path, schema_version: i64, database: &str) -> Result<Self, EngineError> {
        let failed = |cause| EngineError::file("create", directory, cause);
        fs_err::create_dir_all(directory).map_err(failed)?;
        let entries = fs_err::read_dir(directory).map_err(failed)?;
        let names: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.file_name()))
            .collect();
        // A process that is killed before its first manifest is complete leaves a part of it.
        let is_ours = names.iter().any(|name| name == MANIFEST)
            || names.iter().all(|name| name == LOCK || name == FIRST_PARTIAL);
        if !is_ours {
            return Err(EngineError::Invalid {
                message: format!(
                    "cannot export to {}: the directory has files, but no {MANIFEST} of an export",
                    directory.display()
                ),
                hint: Hint::new("name a new directory; other files would be taken for part of the export"),
            });
        }
        let lock = fs_err::File::create(directory.join(LOCK))
            .map_err(failed)?
            .into_parts()
            .0;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(EngineError::Invalid {
                    message: format!(
                        "cannot export to {}: another export to this directory is running",
                        directory.display()
                    ),
                    hint: "wait until it has ended".into(),
                });
            }
            // Some network file systems have no locks.
            Err(TryLockError::Error(cause)) => return Err(EngineError::file("lock", directory, cause)),
        }
        recover(directory)?;
        let manifest = if let Some(found) = ExportManifest::read(&directory.join(MANIFEST))? {
            found
        } else {
            let manifest = ExportManifest::new(schema_version, database);
            write_manifest(directory, MANIFEST, &manifest)?;
            manifest
        };
        if manifest.database != database {
            return Err(EngineError::Invalid {
                message: format!(
                    "cannot export to {}: it has the export of another database, {}",
                    directory.display(),
                    manifest.database
                ),
                hint: "name a new directory".into(),
            });
        }
        Ok(Self {
            directory: directory.to_owned(),
            manifest,
            _lock: lock,
        })
    }

    /// Replaces the export by the files of `next`. Returns the number of files that were removed.
    pub(super) fn commit(self, next: &ExportManifest) -> Result<usize, EngineError> {
        let removed = self.manifest.paths().difference(&next.paths()).count();
        sync_pending(&self.directory, next)?;
        write_manifest(&self.directory, NEXT, next)?;
        recover(&self.directory)?;
        remove_leftovers(&self.directory, next);
        write_durably(&self.directory.join(VIEWS), views(next).as_bytes())?;
        Ok(removed)
    }
}

/// Path of a file that is not part of the export yet.
pub(super) fn pending(path: &Path) -> PathBuf {
    path.with_added_extension(NEW)
}

/// Makes the names of new files durable, before a manifest decides that they are part of the export.
fn sync_pending(directory: &Path, next: &ExportManifest) -> Result<(), EngineError> {
    let mut folders = BTreeSet::new();
    for path in next.paths() {
        let path = directory.join(path);
        if pending(&path).exists() {
            // The directory of a day may be new, too.
            let above = path.ancestors().skip(1);
            folders.extend(
                above
                    .take_while(|above| above.starts_with(directory))
                    .map(Path::to_owned),
            );
        }
    }
    folders.iter().try_for_each(|folder| sync_folder(folder))
}

/// Reads the manifest of a complete export, also of one that was interrupted while it replaced files.
pub(super) fn read_export(directory: &Path) -> Result<ExportManifest, EngineError> {
    let next = ExportManifest::read(&directory.join(NEXT))?;
    let current = ExportManifest::read(&directory.join(MANIFEST))?;
    // A reader does not change files: it reads those that are there under either name.
    next.or(current)
        .filter(|manifest| manifest.exported_at.is_some())
        .ok_or_else(|| EngineError::Invalid {
            message: format!("cannot read {}: it has no complete export", directory.display()),
            hint: Hint::with_command("export the database first", "satiety db export DIR --to parquet"),
        })
}

/// Path of a file of an export, which an interrupted export may not have renamed yet.
pub(super) fn existing(directory: &Path, file: &FileManifest) -> PathBuf {
    let path = directory.join(&file.path);
    if path.exists() { path } else { pending(&path) }
}

/// Completes the replacement of files, if one was decided.
fn recover(directory: &Path) -> Result<(), EngineError> {
    let Some(next) = ExportManifest::read(&directory.join(NEXT))? else {
        return Ok(());
    };
    let old = ExportManifest::read(&directory.join(MANIFEST))?;
    let mut folders = BTreeSet::new();
    for path in next.paths() {
        let path = directory.join(path);
        let from = pending(&path);
        if from.exists() {
            fs_err::rename(&from, &path).map_err(|cause| EngineError::file("write", &path, cause))?;
            folders.extend(path.parent().map(Path::to_owned));
        }
    }
    folders.iter().try_for_each(|folder| sync_folder(folder))?;
    let kept = next.paths();
    for path in old
        .iter()
        .flat_map(ExportManifest::paths)
        .filter(|path| !kept.contains(path))
    {
        let path = directory.join(path);
        match fs_err::remove_file(&path) {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
                return Err(EngineError::file("remove", &path, cause));
            }
            _ => {}
        }
        // Succeeds only for a day without other files.
        if let Some(folder) = path.parent() {
            let _ = fs_err::remove_dir(folder);
        }
    }
    let manifest = directory.join(MANIFEST);
    fs_err::rename(directory.join(NEXT), &manifest)
        .map_err(|cause| EngineError::file("write", &manifest, cause))?;
    sync_folder(directory)
}

/// Statements that make a view of every table; paths are relative to the export.
fn views(manifest: &ExportManifest) -> String {
    let mut text = "-- Written by `satiety db export --to parquet`: run DuckDB in this directory and `.read views.sql`.\n\
                    -- Days and weeks are those of UTC, like the days of the files.\n\
                    SET TimeZone = 'UTC';\n"
        .to_owned();
    for (table, about) in &manifest.tables {
        let partitioned = about.day_of.is_some();
        let _ = writeln!(
            text,
            "CREATE OR REPLACE VIEW {table} AS SELECT * FROM read_parquet('{table}/**/*.parquet', hive_partitioning = {partitioned});"
        );
    }
    text
}

/// Removes files of interrupted exports that the export does not have.
fn remove_leftovers(directory: &Path, manifest: &ExportManifest) {
    for table in manifest.tables.keys() {
        let mut folders = vec![directory.join(table)];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = fs_err::read_dir(&folder) else {
                continue;
            };
            for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
                let is_leftover = path
                    .to_str()
                    .is_some_and(|name| LEFTOVERS.iter().any(|ending| name.ends_with(ending)));
                if path.is_dir() {
                    folders.push(path);
                } else if is_leftover {
                    let _ = fs_err::remove_file(&path);
                }
            }
        }
    }
}

/// Writes a file so that it is there completely or not at all, and survives a power failure.
pub(super) fn write_durably(path: &Path, bytes: &[u8]) -> Result<(), EngineError> {
    let failed = |cause| EngineError::file("write", path, cause);
    let partial = path.with_extension("partial");
    let mut file = fs_err::File::create(&partial).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    fs_err::rename(&partial, path).map_err(failed)
}

fn write_manifest(directory: &Path, name: &str, manifest: &ExportManifest) -> Result<(), EngineError> {
    let mut text = serde_json::to_vec_pretty(manifest)?;
    text.push(b'\n');
    write_durably(&directory.join(name), &text)?;
    sync_folder(directory)
}

/// Makes renames in a directory durable.
fn sync_folder(folder: &Path) -> Result<(), EngineError> {
    // Windows cannot open a directory as a file; renames are durable there when they return.
    if cfg!(windows) {
        return Ok(());
    }
    let sync = fs_err::File::open(folder).and_then(|folder| folder.sync_all());
    sync.map_err(|cause| EngineError::file("write", folder, cause))
}
