//! Exports of runs to files that other programs read.

use std::path::{Path, PathBuf};

use satiety::Hint;
use satiety::bench::BenchmarkRun;
use satiety::bench::report::{inspect_eval_log, junit_xml, result_columns};
use satiety_report::{Document, Table, csv};
use schemars::JsonSchema;
use serde::Serialize;

use super::history::Detail;
use super::suites::display_path;
use crate::EngineError;
use crate::handles::BenchOperations;
use crate::parquet_writer::parquet_bytes;

/// File format of an exported run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExportFormat {
    /// One row per result, comma-separated.
    Csv,
    /// Apache Parquet with one row per result.
    Parquet,
    /// Test report with one test per case.
    Junit,
    /// Evaluation log of Inspect in JSON.
    Inspect,
    /// The run itself, which every command for runs reads.
    Json,
}

/// File extensions with the format that they stand for.
const EXTENSIONS: [(&str, ExportFormat); 5] = [
    ("csv", ExportFormat::Csv),
    ("parquet", ExportFormat::Parquet),
    ("xml", ExportFormat::Junit),
    ("json", ExportFormat::Json),
    ("eval.json", ExportFormat::Inspect),
];

/// Run to write to a file.
#[derive(Debug, Clone)]
pub struct ExportRequest {
    /// Run id, `latest`, or a file.
    pub run: String,
    /// Path of the file to write; it is overwritten.
    pub file: PathBuf,
    /// Format of the file; by its extension if `None`.
    pub format: Option<ExportFormat>,
}

/// Run that was written to a file.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ExportedRun {
    /// Id of the benchmark run.
    pub run_id: String,
    /// Path of the written file.
    pub file: String,
    /// Format of the written file.
    pub format: ExportFormat,
    /// Number of results in the run.
    pub results: usize,
}

impl BenchOperations<'_> {
    /// Writes a run to a file for other programs.
    pub async fn export(self, request: ExportRequest) -> Result<ExportedRun, EngineError> {
        let format = match request.format {
            Some(format) => format,
            None => format_of(&request.file)?,
        };
        let run = self.find_run(&request.run, Detail::Full).await?;
        let bytes = match format {
            ExportFormat::Csv => results_csv(&run).into_bytes(),
            ExportFormat::Parquet => parquet_bytes(&result_columns(&run))?,
            ExportFormat::Junit => junit_xml([&run]).into_bytes(),
            ExportFormat::Inspect => serde_json::to_vec(&inspect_eval_log(&run))?,
            ExportFormat::Json => serde_json::to_vec(&run)?,
        };
        fs_err::write(&request.file, bytes)
            .map_err(|cause| EngineError::file("write", &request.file, cause))?;
        Ok(ExportedRun {
            run_id: run.run_id,
            file: display_path(&request.file),
            format,
            results: run.results.len(),
        })
    }
}

/// The format that a file name stands for; the longest extension wins.
fn format_of(file: &Path) -> Result<ExportFormat, EngineError> {
    let name = file
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_ascii_lowercase();
    let found = EXTENSIONS
        .iter()
        .filter(|(extension, _)| name.ends_with(&format!(".{extension}")))
        .max_by_key(|(extension, _)| extension.len());
    found.map(|(_, format)| *format).ok_or_else(|| {
        let known: Vec<String> = EXTENSIONS
            .iter()
            .map(|(extension, _)| format!(".{extension}"))
            .collect();
        EngineError::Invalid {
            message: format!(
                "cannot export to {}: unknown extension (expected one of: {})",
                file.display(),
                known.join(", ")
            ),
            hint: Hint::with_command("name the format", "--to FORMAT"),
        }
    })
}

/// One line per result, after a header line.
fn results_csv(run: &BenchmarkRun) -> String {
    let columns = result_columns(run);
    let header: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let texts: Vec<Vec<String>> = columns.iter().map(|column| column.values.to_texts()).collect();
    let rows = (0..run.results.len()).map(|row| {
        let cells = texts
            .iter()
            .map(|column| column.get(row).cloned().unwrap_or_default());
        cells.map(Into::into).collect()
    });
    let mut document = Document::new("Results", Vec::new());
    document.data = Some(Table::new(&header, &[], rows));
    csv::render(&document).unwrap_or_default() + "\n"
}
