//! `satiety db`: maintenance of the store.

use std::fmt::Write;
use std::path::Path;

use satiety::memory::Author;
use satiety_engine::Engine;
use satiety_engine::database::{
    BackupKind, BackupResponse, MigrateResponse, Outcome, Retained, Rule, Status, TransferReport,
};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::io::BufReader;

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
        } => {
            if is_dash(&file) {
                return Err(Failure::bad_input(
                    "cannot write Parquet to standard output",
                    "name a new directory",
                ));
            }
            let moved = engine.database().export_parquet(&file).await?;
            printer.answer(&Transfer {
                verb: "exported",
                moved,
            })?;
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
        let rows = self
            .tables
            .iter()
            .map(|table| vec![table.name.clone(), table.rows.to_string()]);
        text.push_str(&table(&["table", "rows"], &[1], rows));
        text
    }
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

impl Render for BackupResponse {
    fn human(&self) -> String {
        let how = match self.kind {
            BackupKind::SqliteFile => "use it with `--db sqlite:FILE`",
            BackupKind::Export => "restore it into an empty store with `satiety db import FILE`",
        };
        format!("{} ({}); {how}", self.path.display(), bytes(self.bytes))
    }
}
