//! Atomic changes of suites on disk. Each change is one rename, so readers (and a killed process) see either
//! the old file or the new one, and every intermediate state is a working harness. All changes are
//! idempotent.

use std::collections::BTreeMap;
use std::path::Path;

use satiety::bench::{BenchmarkCase, BenchmarkSuite};
use satiety::harness::ExpansionProposals;
use satiety::harness::approval::to_hex;
use serde_json::{Value, json};

use super::HarnessError;
use super::apply_steps::{cases_folder, own_file};
use super::directory::{HarnessDirectory, RULES_FILE, display_path};
use crate::EngineError;

/// Writes a complete file durably.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), EngineError> {
    use std::io::Write as _;
    let failed = |cause| EngineError::file("write", path, cause);
    let folder = path.parent().unwrap_or(Path::new("."));
    fs_err::create_dir_all(folder).map_err(failed)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Hidden, with an extension that suite readers ignore; newly created, so that no link is followed.
    let mut file = tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .suffix(".partial")
        .tempfile_in(folder)
        .map_err(failed)?;
    file.write_all(bytes)
        .and_then(|()| file.as_file().sync_all())
        .map_err(failed)?;
    readable(file.as_file()).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    sync(folder)
}

/// Temporary files are private to their owner; suites must be readable for all users.
#[cfg(unix)]
fn readable(file: &std::fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn readable(_file: &std::fs::File) -> std::io::Result<()> {
    Ok(())
}

/// Rejects paths below the harness that are links or lead through one: the creator of the link would choose
/// where we write.
pub(super) fn check_places<'a>(
    root: &Path,
    names: impl Iterator<Item = &'a str>,
    what: &'static str,
) -> Result<(), EngineError> {
    for name in names {
        let mut path = root.to_path_buf();
        for part in Path::new(name).components() {
            path.push(part);
            let is_link = fs_err::symlink_metadata(&path).is_ok_and(|found| found.file_type().is_symlink());
            if is_link {
                return Err(HarnessError::LinkedFile {
                    what,
                    path: display_path(&path),
                }
                .into());
            }
        }
    }
    Ok(())
}

/// Removes a file durably; a missing file is not an error.
fn remove(path: &Path) -> Result<(), EngineError> {
    match fs_err::remove_file(path) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            Err(EngineError::file("remove", path, cause))
        }
        _ => sync(path.parent().unwrap_or(Path::new("."))),
    }
}

/// A rename is durable once its directory is synced.
fn sync(folder: &Path) -> Result<(), EngineError> {
    if !folder.is_dir() {
        return Ok(());
    }
    fs_err::File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|cause| EngineError::file("sync", folder, cause))
}

/// Updates only the proposed thresholds: comments and order are preserved.
pub(super) fn write_thresholds(
    folder: &HarnessDirectory,
    content: &ExpansionProposals,
) -> Result<(), EngineError> {
    if content.threshold_increases.is_empty() {
        return Ok(());
    }
    edit_rules(folder, |document| {
        for increase in &content.threshold_increases {
            document["thresholds"][&increase.name()]["value"] = toml_edit::value(increase.proposed);
        }
    })
}

/// Writes the record of retired cases, before the cases are removed.
pub(super) fn write_retirements(
    folder: &HarnessDirectory,
    content: &ExpansionProposals,
) -> Result<(), EngineError> {
    if content.retirements.is_empty() {
        return Ok(());
    }
    let hashes = folder.hashes();
    let suites = folder.suites();
    let mut entries = Vec::new();
    for retired in &content.retirements {
        let found = suites
            .iter()
            .find(|suite| suite.suite_id == retired.suite)
            .and_then(|suite| {
                Some((
                    suite,
                    suite.cases.iter().find(|case| case.case_id == retired.case_id)?,
                ))
            });
        // An already removed case has its record.
        if let Some((suite, case)) = found {
            let files = hashes.get(&retired.suite).cloned().unwrap_or_default();
            let entry = satiety::harness::manifest::CaseEntry::of(suite, case, &files);
            entries.push((entry, retired));
        }
    }
    edit_rules(folder, |document| {
        for (entry, retired) in &entries {
            let mut table = toml_edit::Table::new();
            for (name, value) in [
                ("suite", &retired.suite),
                ("case_id", &retired.case_id),
                ("input_hash", &entry.input_hash),
                ("reason", &retired.reason),
                ("audited_by", &retired.audited_by),
                ("replacement", &retired.replacement.case_id),
            ] {
                table.insert(name, toml_edit::value(value.as_str()));
            }
            let all = document
                .entry("retired")
                .or_insert_with(|| toml_edit::Item::Table(toml_edit::Table::new()));
            if let Some(all) = all.as_table_like_mut() {
                all.insert(&entry.hash, toml_edit::Item::Table(table));
            }
        }
    })?;
    for retired in &content.retirements {
        if let Some(cases) = folder.suite(&retired.suite).and_then(cases_folder)
            && let Some(file) = own_file(&cases, &retired.case_id)?
        {
            remove(&file)?;
        }
    }
    Ok(())
}

fn edit_rules(
    folder: &HarnessDirectory,
    edit: impl FnOnce(&mut toml_edit::DocumentMut),
) -> Result<(), EngineError> {
    let path = folder.root.join(RULES_FILE);
    let text = match fs_err::read_to_string(&path) {
        Ok(text) => text,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(cause) => return Err(EngineError::file("read", &path, cause)),
    };
    let mut document: toml_edit::DocumentMut =
        text.parse()
            .map_err(|error: toml_edit::TomlError| HarnessError::BadFile {
                file: display_path(&path),
                reason: error.message().to_owned(),
            })?;
    edit(&mut document);
    replace(&path, document.to_string().as_bytes())
}

/// Adds new suites with all cases disabled: written to a temporary directory and moved into place by one
/// rename.
pub(super) fn add_suites(
    folder: &HarnessDirectory,
    content: &ExpansionProposals,
    marker: &str,
) -> Result<(), EngineError> {
    for benchmark in content
        .new_benchmarks
        .iter()
        .filter(|suite| !suite.cases.is_empty())
    {
        let place = folder.root.join(&benchmark.id);
        if folder.suite(&benchmark.id).is_some() {
            continue;
        }
        if place.exists() {
            return Err(HarnessError::NotWritable {
                suite: benchmark.id.clone(),
                reason: format!(
                    "{} already exists and is not a suite of that name",
                    place.display()
                ),
            }
            .into());
        }
        let aside = folder.root.join(format!(".{}.partial", benchmark.id));
        if aside.exists() {
            fs_err::remove_dir_all(&aside).map_err(|cause| EngineError::file("remove", &aside, cause))?;
        }
        let mut suite = BenchmarkSuite::new(&benchmark.id);
        suite.name.clone_from(&benchmark.name);
        suite.description.clone_from(&benchmark.purpose);
        replace(&aside.join("suite.json"), &pretty(&suite)?)?;
        for case in &benchmark.cases {
            let file = aside.join("cases").join(format!("{}.json", case.case_id));
            replace(&file, &pretty(&disabled(case, marker))?)?;
        }
        fs_err::rename(&aside, &place).map_err(|cause| EngineError::file("write", &place, cause))?;
        sync(&folder.root)?;
    }
    Ok(())
}

/// Adds new cases to existing suites, disabled, including replacements of retired ones.
pub(super) fn add_cases(
    folder: &HarnessDirectory,
    content: &ExpansionProposals,
    marker: &str,
) -> Result<(), EngineError> {
    for (suite, case) in new_cases(content) {
        let known = folder.suite(suite).is_some_and(|loaded| {
            loaded
                .suite
                .cases
                .iter()
                .any(|known| known.case_id == case.case_id)
        });
        if !known {
            write_case(folder, suite, &disabled(case, marker))?;
        }
    }
    Ok(())
}

/// Enables a case that was added disabled.
pub(super) fn enable(
    folder: &HarnessDirectory,
    content: &ExpansionProposals,
    suite: &str,
    case_id: &str,
) -> Result<(), EngineError> {
    let of_new_suite = content
        .new_benchmarks
        .iter()
        .filter(|benchmark| benchmark.id == suite)
        .flat_map(|benchmark| &benchmark.cases);
    let of_known = new_cases(content)
        .filter(|(of, _)| *of == suite)
        .map(|(_, case)| case);
    for case in of_new_suite
        .chain(of_known)
        .filter(|case| case.case_id == case_id)
    {
        write_case(folder, suite, case)?;
    }
    Ok(())
}

fn new_cases(content: &ExpansionProposals) -> impl Iterator<Item = (&str, &BenchmarkCase)> {
    let edges = content
        .new_edge_cases
        .iter()
        .filter_map(|edge| Some((edge.suite.as_deref()?, edge.case.as_ref()?)));
    let replacements = content
        .retirements
        .iter()
        .map(|retired| (retired.suite.as_str(), &retired.replacement));
    edges.chain(replacements)
}

fn disabled(case: &BenchmarkCase, marker: &str) -> BenchmarkCase {
    BenchmarkCase {
        skip: Some(marker.to_owned()),
        ..case.clone()
    }
}

fn write_case(folder: &HarnessDirectory, suite: &str, case: &BenchmarkCase) -> Result<(), EngineError> {
    let Some(cases) = folder.suite(suite).and_then(cases_folder) else {
        return Err(HarnessError::NotWritable {
            suite: suite.to_owned(),
            reason: "it has no directory for cases".into(),
        }
        .into());
    };
    // Another file may contain it, if it was renamed meanwhile.
    let file =
        own_file(&cases, &case.case_id)?.unwrap_or_else(|| cases.join(format!("{}.json", case.case_id)));
    replace(&file, &pretty(case)?)
}

/// Restores archived files and removes what the proposal added.
pub(super) fn restore(
    root: &Path,
    archived: &BTreeMap<String, Vec<u8>>,
    content: &ExpansionProposals,
) -> Result<(), EngineError> {
    // Restore before removing: no intermediate state is weaker than the archive.
    for (name, bytes) in archived {
        let path = root.join(name);
        if fs_err::read(&path).ok().as_ref() != Some(bytes) {
            replace(&path, bytes)?;
        }
    }
    for benchmark in content
        .new_benchmarks
        .iter()
        .filter(|suite| !suite.cases.is_empty())
    {
        let (place, aside) = (
            root.join(&benchmark.id),
            root.join(format!(".{}.partial", benchmark.id)),
        );
        let inside = format!("{}/", benchmark.id);
        let was_there = archived.keys().any(|name| name.starts_with(&inside));
        if place.is_dir() && !was_there {
            if aside.exists() {
                fs_err::remove_dir_all(&aside).map_err(|cause| EngineError::file("remove", &aside, cause))?;
            }
            // Hidden in one step, then removed.
            fs_err::rename(&place, &aside).map_err(|cause| EngineError::file("remove", &place, cause))?;
        }
        if aside.is_dir() {
            fs_err::remove_dir_all(&aside).map_err(|cause| EngineError::file("remove", &aside, cause))?;
        }
    }
    let folder = HarnessDirectory::read(root)?;
    for (suite, case) in new_cases(content) {
        if let Some(cases) = folder.suite(suite).and_then(cases_folder)
            && let Some(file) = own_file(&cases, &case.case_id)?
            && !archived.contains_key(&display_path(file.strip_prefix(root).unwrap_or(&file)))
        {
            remove(&file)?;
        }
    }
    // There was no rules file: a harness without one has the defaults.
    if !archived.contains_key(RULES_FILE) {
        remove(&root.join(RULES_FILE))?;
    }
    Ok(())
}

/// Encodes files for the database: text as text, anything else as hex.
pub(super) fn packed(files: &BTreeMap<String, Vec<u8>>) -> Value {
    let entries = files.iter().map(|(name, bytes)| {
        let value = match std::str::from_utf8(bytes) {
            Ok(text) => json!({"text": text}),
            Err(_) => json!({"hex": to_hex(bytes)}),
        };
        (name.clone(), value)
    });
    Value::Object(entries.collect())
}

/// Decodes the output of [`packed`].
pub(super) fn unpacked(value: &Value) -> Option<BTreeMap<String, Vec<u8>>> {
    let entries = value.as_object()?.iter().map(|(name, value)| {
        let bytes = match (value["text"].as_str(), value["hex"].as_str()) {
            (Some(text), _) => text.as_bytes().to_vec(),
            (None, Some(hex)) => hex
                .as_bytes()
                .chunks(2)
                .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
                .collect::<Option<Vec<u8>>>()?,
            (None, None) => return None,
        };
        Some((name.clone(), bytes))
    });
    entries.collect()
}

fn pretty(value: &impl serde::Serialize) -> Result<Vec<u8>, EngineError> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    Ok(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restored_files_are_identical() {
        let files = BTreeMap::from([
            ("a.json".to_owned(), b"{}\n".to_vec()),
            ("b.bin".to_owned(), vec![0, 255, 10]),
            ("c".to_owned(), Vec::new()),
        ]);
        assert_eq!(unpacked(&packed(&files)), Some(files));
        assert_eq!(unpacked(&json!({"a": {"hex": "0g"}})), None);
        assert_eq!(unpacked(&json!({"a": {}})), None);
    }
}
