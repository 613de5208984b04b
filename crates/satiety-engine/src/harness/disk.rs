//! Changes of the suites on disk. Each is one rename, so that whoever reads, or kills the program, finds either the old
//! file or the new one, and every state between two changes is a harness that works. Doing one twice does no harm.

use std::collections::BTreeMap;
use std::path::Path;

use satiety::bench::{BenchmarkCase, BenchmarkSuite};
use satiety::harness::ExpansionProposals;
use satiety::harness::approval::to_hex;
use serde_json::{Value, json};

use super::HarnessError;
use super::apply_steps::{cases_folder, own_file};
use super::directory::{Folder, RULES_FILE, shown};
use crate::EngineError;

/// Writes a file as a whole, durably.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), EngineError> {
    use std::io::Write as _;
    let failed = |cause| EngineError::file("write", path, cause);
    let folder = path.parent().unwrap_or(Path::new("."));
    fs_err::create_dir_all(folder).map_err(failed)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Hidden and with an ending that no reader of suites looks at; made anew, so that no link is followed.
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

/// Temporary files are for their owner alone; suites are for everybody who works with them.
#[cfg(unix)]
fn readable(file: &std::fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn readable(_file: &std::fs::File) -> std::io::Result<()> {
    Ok(())
}

/// Refuses names below the harness that are links, or that a link leads to: whoever made it chose where we would write.
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
                    path: shown(&path),
                }
                .into());
            }
        }
    }
    Ok(())
}

/// Takes a file away, durably; one that is gone is gone.
fn remove(path: &Path) -> Result<(), EngineError> {
    match fs_err::remove_file(path) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            Err(EngineError::file("remove", path, cause))
        }
        _ => sync(path.parent().unwrap_or(Path::new("."))),
    }
}

/// A rename is durable when its folder is.
fn sync(folder: &Path) -> Result<(), EngineError> {
    if !folder.is_dir() {
        return Ok(());
    }
    fs_err::File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|cause| EngineError::file("sync", folder, cause))
}

/// Thresholds as proposed, and nothing else about the file: comments and order stay.
pub(super) fn write_thresholds(folder: &Folder, content: &ExpansionProposals) -> Result<(), EngineError> {
    if content.threshold_increases.is_empty() {
        return Ok(());
    }
    edit_rules(folder, |document| {
        for increase in &content.threshold_increases {
            document["thresholds"][&increase.name()]["value"] = toml_edit::value(increase.proposed);
        }
    })
}

/// The record of retired cases, before the cases go.
pub(super) fn write_retirements(folder: &Folder, content: &ExpansionProposals) -> Result<(), EngineError> {
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
        // One that is gone already has its record.
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

fn edit_rules(folder: &Folder, edit: impl FnOnce(&mut toml_edit::DocumentMut)) -> Result<(), EngineError> {
    let path = folder.root.join(RULES_FILE);
    let text = match fs_err::read_to_string(&path) {
        Ok(text) => text,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(cause) => return Err(EngineError::file("read", &path, cause)),
    };
    let mut document: toml_edit::DocumentMut =
        text.parse()
            .map_err(|error: toml_edit::TomlError| HarnessError::BadFile {
                file: shown(&path),
                reason: error.message().to_owned(),
            })?;
    edit(&mut document);
    replace(&path, document.to_string().as_bytes())
}

/// New suites, every case of them disabled: written aside and put in place by one rename.
pub(super) fn add_suites(
    folder: &Folder,
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
                    "{} is there already and is no suite of that name",
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

/// New cases of suites that are there, disabled; replacements of retired ones too.
pub(super) fn add_cases(
    folder: &Folder,
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
    folder: &Folder,
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

fn write_case(folder: &Folder, suite: &str, case: &BenchmarkCase) -> Result<(), EngineError> {
    let Some(cases) = folder.suite(suite).and_then(cases_folder) else {
        return Err(HarnessError::NotWritable {
            suite: suite.to_owned(),
            reason: "it has no folder for cases".into(),
        }
        .into());
    };
    // A file of another name may hold it, if somebody renamed it meanwhile.
    let file =
        own_file(&cases, &case.case_id)?.unwrap_or_else(|| cases.join(format!("{}.json", case.case_id)));
    replace(&file, &pretty(case)?)
}

/// Brings archived files back and takes away what the proposal added.
pub(super) fn restore(
    root: &Path,
    archived: &BTreeMap<String, Vec<u8>>,
    content: &ExpansionProposals,
) -> Result<(), EngineError> {
    // What was there comes back before what was added goes: no state between asks less than the archive.
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
            // Out of sight in one step, then gone.
            fs_err::rename(&place, &aside).map_err(|cause| EngineError::file("remove", &place, cause))?;
        }
        if aside.is_dir() {
            fs_err::remove_dir_all(&aside).map_err(|cause| EngineError::file("remove", &aside, cause))?;
        }
    }
    let folder = Folder::read(root)?;
    for (suite, case) in new_cases(content) {
        if let Some(cases) = folder.suite(suite).and_then(cases_folder)
            && let Some(file) = own_file(&cases, &case.case_id)?
            && !archived.contains_key(&shown(file.strip_prefix(root).unwrap_or(&file)))
        {
            remove(&file)?;
        }
    }
    // There was no file of rules: a harness without one demands the defaults.
    if !archived.contains_key(RULES_FILE) {
        remove(&root.join(RULES_FILE))?;
    }
    Ok(())
}

/// Files as the store keeps them: text as text, anything else in hexadecimal digits.
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

/// The way back from [`packed`].
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
    fn files_come_back_byte_by_byte() {
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
