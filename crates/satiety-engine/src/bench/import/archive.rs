//! Packed Inspect logs: untrusted ZIP archives, decompressed within limits.

use std::io::Read;
use std::path::Path;

use satiety::bench::{RunImport, ScoreChoice, SuiteError, read_inspect_members};
use zip::ZipArchive;

use crate::EngineError;
use crate::bench::suites::display_path;

/// Size limit of all decompressed members together: a small file must not exhaust the memory.
const UNPACKED: u64 = 1 << 30;
/// Maximum compression ratio of a log larger than `LITTLE` when decompressed.
const RATIO: u64 = 200;
/// Decompressed size that is always allowed, whatever the ratio.
const LITTLE: u64 = 64 << 20;
/// Maximum number of members.
const MEMBERS: usize = 200_000;

/// Reads the header and the sample summaries of an `.eval` file; after a crash only the journal has them.
pub(super) fn from_archive(path: &Path, options: &ScoreChoice) -> Result<RunImport, EngineError> {
    let file = fs_err::File::open(path).map_err(|cause| EngineError::file("read", path, cause))?;
    let size = file
        .metadata()
        .map_err(|cause| EngineError::file("read", path, cause))?
        .len();
    let mut left = UNPACKED.min(size.saturating_mul(RATIO).max(LITTLE));
    let damaged = |cause: zip::result::ZipError| EngineError::Packed {
        path: display_path(path),
        cause: std::io::Error::other(cause),
    };
    let mut archive = ZipArchive::new(std::io::BufReader::new(file)).map_err(damaged)?;
    if archive.len() > MEMBERS {
        return Err(EngineError::Invalid {
            message: format!("cannot read {}: more than {MEMBERS} members", path.display()),
            hint: "export the log without its samples".into(),
        });
    }
    let mut names: Vec<String> = Vec::new();
    for name in archive.file_names() {
        names.push(name.map_err(damaged)?.into_owned());
    }
    let numbered = |name: &String| {
        let digits: String = name.chars().filter(char::is_ascii_digit).collect();
        (digits.parse::<u64>().unwrap_or(0), name.clone())
    };
    let below = |folder: &str| -> Vec<String> {
        let mut found: Vec<String> = names
            .iter()
            .filter(|name| name.starts_with(folder) && !name.ends_with('/'))
            .cloned()
            .collect();
        found.sort_by_key(numbered);
        found
    };
    let header = ["header.json", "_journal/start.json"]
        .into_iter()
        .find(|name| names.iter().any(|known| known == name))
        .ok_or_else(|| {
            EngineError::Suite(SuiteError::Field {
                file: display_path(path),
                field: "header.json".into(),
                reason: "is missing, and so is the journal; not an Inspect log".into(),
            })
        })?;
    let members = if names.iter().any(|name| name == "summaries.json") {
        vec!["summaries.json".to_owned()]
    } else {
        let journal = below("_journal/summaries/");
        // The samples themselves are large, so they are the last resort.
        if journal.is_empty() {
            below("samples/")
        } else {
            journal
        }
    };
    let header_text = member(&mut archive, path, header, &mut left)?;
    let texts: Vec<String> = members
        .iter()
        .map(|name| member(&mut archive, path, name, &mut left))
        .collect::<Result<_, _>>()?;
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    Ok(read_inspect_members(
        &display_path(path),
        &header_text,
        &texts,
        options,
    )?)
}

/// Reads a member, decompressed, if it fits into the `left` budget of all members. The declared size of a
/// member is not trusted.
fn member<R: Read + std::io::Seek>(
    archive: &mut ZipArchive<R>,
    path: &Path,
    name: &str,
    left: &mut u64,
) -> Result<String, EngineError> {
    let place = || format!("{}: {name}", path.display());
    let packed = |cause: std::io::Error| EngineError::Packed { path: place(), cause };
    let other = |cause: zip::result::ZipError| packed(std::io::Error::other(cause));
    let mut bytes = Vec::new();
    let plain = archive.by_name(name).map_err(other)?;
    plain.take(*left + 1).read_to_end(&mut bytes).map_err(packed)?;
    let length = bytes.len() as u64;
    if length > *left {
        return Err(EngineError::Invalid {
            message: format!(
                "cannot decompress {}: its members exceed {RATIO} times its size or {} MB in total",
                place(),
                UNPACKED >> 20
            ),
            hint: "export the log without its events".into(),
        });
    }
    *left -= length;
    String::from_utf8(bytes).map_err(|_| {
        EngineError::Suite(SuiteError::Syntax {
            file: place(),
            reason: "not UTF-8 text".into(),
        })
    })
}
