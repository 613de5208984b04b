//! Reads result files of other tools from disk; the library recognizes them.

use std::path::Path;

use satiety::Hint;
use satiety::bench::result_file::{FilePlace, HELM_STATS, read_result_file, read_table};
use satiety::bench::{ResultFile, ResultOptions, SuiteError};

use super::{from_archive, read_parquet};
use crate::EngineError;
use crate::bench::suites::{display_path, read};

/// Contents of a file to import.
pub(in crate::bench) enum Contents {
    /// Results of a known tool.
    Results(Box<ResultFile>),
    /// Text of anything else, such as a suite.
    Text(String),
}

/// Whether a path is a file or a run directory of HELM, rather than the id of a run.
pub(in crate::bench) fn is_file(path: &Path) -> bool {
    path.is_file() || path.join(HELM_STATS).is_file()
}

/// Reads a file or a run directory of HELM, and recognizes results by extension and keys.
pub(in crate::bench) fn read_contents(path: &Path, options: &ResultOptions) -> Result<Contents, EngineError> {
    let stats = path.join(HELM_STATS);
    let path = if stats.is_file() { &stats } else { path };
    let name = display_path(path);
    let absolute = std::path::absolute(path).ok();
    let folder = absolute.as_deref().and_then(|path| path.parent()?.file_name());
    let place = FilePlace {
        path: &name,
        folder: &folder.map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        changed_at: changed_at(path)?,
        beside: &|name| {
            let path = path.with_file_name(name);
            Some((display_path(&path), fs_err::read_to_string(&path).ok()?))
        },
    };
    let extension = path.extension().and_then(|extension| extension.to_str());
    let found = match extension.unwrap_or_default().to_ascii_lowercase().as_str() {
        "eval" => {
            ResultFile::named("inspect", from_archive(path, &options.choice)?).checked(&name, options)?
        }
        "parquet" => {
            let rows = read_parquet(path)?;
            read_table(&place, "parquet", &rows, options)?.checked(&name, options)?
        }
        _ => {
            let text = read(path)?;
            match read_result_file(&place, &text, options)? {
                Some(found) => found,
                None => return Ok(Contents::Text(text)),
            }
        }
    };
    Ok(Contents::Results(Box::new(found)))
}

/// Reads the results of a file that must have some.
pub(in crate::bench) fn read_results(
    path: &Path,
    options: &ResultOptions,
) -> Result<ResultFile, EngineError> {
    match read_contents(path, options).map_err(with_flag)? {
        Contents::Results(found) => Ok(*found),
        Contents::Text(_) => Err(EngineError::Invalid {
            message: format!(
                "cannot read {}: it has no results of a known tool",
                path.display()
            ),
            hint: Hint::with_command("see which files are read", "satiety bench import --help"),
        }),
    }
}

fn changed_at(path: &Path) -> Result<jiff::Timestamp, EngineError> {
    let changed = fs_err::metadata(path)
        .and_then(|file| file.modified())
        .map_err(|cause| EngineError::file("read", path, cause))?;
    Ok(jiff::Timestamp::try_from(changed).unwrap_or_default())
}

/// Adds a hint about result files: the flag that makes the choice which a file leaves open, or the formats.
pub(in crate::bench) fn with_flag(error: EngineError) -> EngineError {
    let EngineError::Suite(cause) = &error else {
        return error;
    };
    let field = match cause {
        SuiteError::Field { field, .. } => field.as_str(),
        _ => "",
    };
    let hint = match field {
        "scorer" => Hint::with_command("name the scorer that decides", "--scorer NAME"),
        "threshold" => Hint::with_command(
            "say from which value a sample passes, or give the scale",
            "--threshold VALUE, --range MIN..MAX",
        ),
        "range" => Hint::with_command("give the scale of the scorer", "--range MIN..MAX"),
        "columns" => Hint::with_command(
            "say what the columns mean",
            "--map case=COLUMN,passed=COLUMN,score:NAME=COLUMN",
        ),
        _ => Hint::with_command("see which files are read", "satiety bench import --help"),
    };
    EngineError::Invalid {
        message: error.to_string(),
        hint,
    }
}
