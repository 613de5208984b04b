//! Packed Inspect logs as benchmark runs.

use std::path::Path;

use satiety::bench::{RunImport, ScoreChoice, SuiteError, read_inspect_members};

use crate::EngineError;
use crate::bench::suites::display_path;
use crate::zip_log::ZipLog;

/// Reads the header and the sample summaries of an `.eval` file; after a crash only the journal has them.
pub(super) fn from_archive(path: &Path, options: &ScoreChoice) -> Result<RunImport, EngineError> {
    let file = fs_err::File::open(path).map_err(|cause| EngineError::file("read", path, cause))?;
    let size = file
        .metadata()
        .map_err(|cause| EngineError::file("read", path, cause))?
        .len();
    let mut log = ZipLog::open(display_path(path), std::io::BufReader::new(file), size)?;
    let header = ["header.json", "_journal/start.json"]
        .into_iter()
        .find(|name| log.contains(name))
        .ok_or_else(|| {
            EngineError::Suite(SuiteError::Field {
                file: display_path(path),
                field: "header.json".into(),
                reason: "is missing, and so is the journal; not an Inspect log".into(),
            })
        })?;
    let members = if log.contains("summaries.json") {
        vec!["summaries.json".to_owned()]
    } else {
        let journal = log.below("_journal/summaries/");
        // The samples themselves are large, so they are the last resort.
        if journal.is_empty() {
            log.below("samples/")
        } else {
            journal
        }
    };
    let header_text = log.read(header)?;
    let texts: Vec<String> = members
        .iter()
        .map(|name| log.read(name))
        .collect::<Result<_, _>>()?;
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    Ok(read_inspect_members(
        &display_path(path),
        &header_text,
        &texts,
        options,
    )?)
}
