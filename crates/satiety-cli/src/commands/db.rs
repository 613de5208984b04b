//! `satiety db`: maintenance of the store.

use std::fmt::Write;
use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

use satiety::memory::Author;
use satiety_engine::Engine;
use satiety_engine::database::{
    BackupKind, BackupResponse, FleetStatus, MigrateResponse, Outcome, ParquetExport, Retained, Rule, Status,
    TransferReport,
};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::io::BufReader;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::confirm::confirm_on_terminal;
use crate::args::{Db, DbExportTo};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::table::{bytes, table};

pub(super) async fn run(command: Db, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    match command {
        Db::Status { check } => printer.answer(&engine.database().status(check).await?)?,
        Db::Migrate => printer.answer(&engine.database().migrate().await?)?,
        Db::Retain { dry_run, set, list } => retain(engine, printer, dry_run, &set, list).await?,
        Db::Export {
            file,
            to: DbExportTo::Parquet,
            full,
        } => {
            if is_dash(&file) {
                return Err(Failure::bad_input(
                    "cannot write Parquet to standard output",
                    "name a directory",
                ));
            }
            let spinner = spinner(printer);
            let exported = engine.database().export_parquet(&file, full, |progress| {
                spinner.set_message(format!(
                    "{}: {} rows read, {} files written",
                    progress.table, progress.rows, progress.written_files
                ));
            });
            let exported = exported.await;
            spinner.finish_and_clear();
            printer.answer(&ExportOutput {
                directory: file.display().to_string(),
                export: exported?,
            })?;
        }
        Db::Export { full: true, .. } => {
            return Err(Failure::bad_input(
                "--full is for Parquet; JSON Lines always have all rows",
                "pass --to parquet",
            ));
        }
        Db::Export { file, .. } if is_dash(&file) => {
            // The export itself goes to stdout; other output would corrupt it.
            engine.database().export(&mut tokio::io::stdout()).await?;
        }
        Db::Export { file, .. } => {
            let moved = engine.database().export_file(&file).await?;
            printer.answer(&Transfer {
                verb: "exported",
                moved,
            })?;
        }
        Db::Import { file } => {
            let moved = if is_dash(&file) {
                // A pipe cannot be read again after the confirmation.
                let mut input = BufReader::new(tokio::io::stdin());
                engine.database().import(&mut input, Author::Agent).await?
            } else {
                match engine.database().import_file(&file, Author::Agent).await {
                    Err(refusal) if refusal.needs_person() => {
                        confirm_on_terminal(refusal, &[("import", &file.display().to_string())])?;
                        engine.database().import_file(&file, Author::Person).await?
                    }
                    moved => moved?,
                }
            };
            printer.answer(&Transfer {
                verb: "imported",
                moved,
            })?;
        }
        Db::Backup { file } => printer.answer(&engine.database().backup(&file).await?)?,
    }
    Ok(Exit::Done)
}

async fn retain(
    engine: &Engine,
    printer: &Printer,
    dry_run: bool,
    set: &[String],
    list: bool,
) -> Result<(), Failure> {
    let rules: Vec<Rule> = set
        .iter()
        .map(|rule| rule.parse())
        .collect::<Result<_, _>>()
        .map_err(satiety_engine::EngineError::from)?;
    engine.database().set_retention_rules(&rules).await?;
    if list {
        return printer.answer(&RetentionRules {
            rules: engine.database().retention_rules().await?,
        });
    }
    printer.answer(&engine.database().retain(dry_run).await?)
}

fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

impl Render for Status {
    fn human(&self) -> String {
        let size = bytes(u64::try_from(self.bytes).unwrap_or(0));
        let state = if self.schema_version == self.latest_schema_version {
            "current"
        } else {
            "outdated"
        };
        let mut text = format!(
            "{}\n{} {}, {size}, schema version {} ({state})\n\n",
            self.place, self.engine, self.engine_version, self.schema_version
        );
        let rows = self.tables.iter().map(|table| {
            let about = if table.estimated { "about " } else { "" };
            vec![table.name.clone(), format!("{about}{}", table.rows)]
        });
        text.push_str(&table(&["table", "rows"], &[1], rows));
        if let Some(fleet) = &self.fleet {
            text.push_str(&fleet_lines(fleet));
        }
        text
    }
}

/// Partitions made ahead, and the read replica.
fn fleet_lines(fleet: &FleetStatus) -> String {
    let mut text = String::new();
    let rows = fleet.partitions.iter().map(|table| {
        let ahead = table
            .days_ahead
            .map_or_else(|| "none".into(), |days| days.to_string());
        vec![
            table.table.clone(),
            table.partitions.to_string(),
            ahead,
            table.default_rows.to_string(),
        ]
    });
    if !fleet.partitions.is_empty() {
        let heads = [
            "partitioned table",
            "partitions",
            "days ahead",
            "rows without partition",
        ];
        let _ = write!(text, "\n\n{}", table(&heads, &[1, 2, 3], rows));
    }
    if let Some(replica) = &fleet.replica {
        let state = match (&replica.problem, replica.lag_seconds) {
            (Some(problem), _) => format!("not used: {problem}"),
            (None, lag) => format!("{:.1} s behind", lag.unwrap_or(0.0)),
        };
        let _ = write!(text, "\n\nread replica {}: {state}", replica.place);
    }
    if fleet.transaction_pooling {
        text.push_str("\n\nconnected through a pooler, one server connection for each transaction");
    }
    text
}

impl Render for MigrateResponse {
    fn human(&self) -> String {
        let Self { place, from, to } = self;
        if from == to {
            format!("{place} is up to date (schema version {to})")
        } else {
            format!("migrated {place} from schema version {from} to {to}")
        }
    }
}

/// Retention rules.
#[derive(Serialize, JsonSchema)]
pub(super) struct RetentionRules {
    /// One rule per table that has one.
    rules: Vec<Rule>,
}

impl Render for RetentionRules {
    fn human(&self) -> String {
        self.rules
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

impl Render for Retained {
    fn human(&self) -> String {
        let rows = self.outcomes.iter().map(|Outcome { rule, rows, archive }| {
            let archive = archive
                .as_ref()
                .map(|path| path.display().to_string())
                .unwrap_or_default();
            vec![rule.to_string(), rows.to_string(), archive]
        });
        let removed = if self.dry_run {
            "would be removed"
        } else {
            "removed"
        };
        let mut text = table(&["rule", removed, "archive"], &[1], rows);
        if self.expired_records > 0 {
            let _ = write!(text, "\n{} expired records {removed}", self.expired_records);
        }
        text
    }
}

#[derive(Serialize)]
struct Transfer {
    #[serde(skip)]
    verb: &'static str,
    #[serde(flatten)]
    moved: TransferReport,
}

impl Render for Transfer {
    fn human(&self) -> String {
        let tables = self
            .moved
            .tables
            .iter()
            .map(|(table, rows)| vec![table.clone(), rows.to_string()]);
        format!(
            "{} rows {}\n\n{}",
            self.moved.rows,
            self.verb,
            table(&["table", "rows"], &[1], tables)
        )
    }
}

/// Spinner on stderr, if it is a terminal: the number of rows is not known before.
fn spinner(printer: &Printer) -> ProgressBar {
    if printer.is_quiet() || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{spinner} {msg}  {elapsed}");
    spinner.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    spinner.enable_steady_tick(Duration::from_millis(200));
    spinner
}

/// Result of an export to Parquet.
#[derive(Serialize, JsonSchema)]
pub(super) struct ExportOutput {
    /// Directory of the export.
    directory: String,
    #[serde(flatten)]
    export: ParquetExport,
}

impl Render for ExportOutput {
    fn human(&self) -> String {
        let export = &self.export;
        let mut text = format!(
            "{}: {} rows in {} files\n{} files written ({} rows, {}), {} superseded files removed",
            self.directory,
            export.rows,
            export.files,
            export.written_files,
            export.written_rows,
            bytes(export.written_bytes),
            export.removed_files,
        );
        if export.unread_rows > 0 {
            let _ = write!(
                text,
                "\n{} rows of past days that cannot have changed were not read (--full reads them)",
                export.unread_rows
            );
        }
        text
    }
}

impl Render for BackupResponse {
    fn human(&self) -> String {
        let how = match self.kind {
            BackupKind::SqliteFile => "use it with `--db sqlite:FILE`",
            BackupKind::Export => "restore it into an empty store with `satiety db import FILE`",
        };
        format!("{} ({}); {how}", self.path.display(), bytes(self.bytes))
    }
}
