//! What a proposal would make of the harness on disk, in memory; refused where there is no file that it could be written to.

use std::path::{Path, PathBuf};

use satiety::bench::{BenchmarkCase, Named};
use satiety::harness::amend::{Amended, amend};
use satiety::harness::{ExpansionProposals, Manifest};

use super::HarnessError;
use super::directory::{Folder, shown};
use crate::EngineError;
use crate::bench::suites;

/// The harness that a proposal leads to, if it can be carried out and written down.
pub(super) fn carry_out(
    folder: &Folder,
    content: &ExpansionProposals,
) -> Result<(Amended, Manifest), EngineError> {
    let mut hashes = folder.hashes();
    let amended = amend(&folder.suites(), &folder.rules, &hashes, content).map_err(HarnessError::from)?;
    writable(folder, content)?;
    // Files that only new cases name must be there already.
    for loaded in &folder.suites {
        let id = &loaded.suite.suite_id;
        if let Some(suite) = amended.suites.iter().find(|suite| suite.suite_id == *id) {
            hashes.insert(id.clone(), suites::file_hashes(suite, &loaded.folder)?);
        }
    }
    let new = amended
        .rules
        .manifest(&amended.suites, &hashes)
        .map_err(HarnessError::from)?;
    Ok((amended, new))
}

/// Whether every change has a file that it can be written to.
fn writable(folder: &Folder, content: &ExpansionProposals) -> Result<(), EngineError> {
    let refuse = |suite: &str, reason: &str| {
        Err(HarnessError::NotWritable {
            suite: suite.to_owned(),
            reason: reason.to_owned(),
        }
        .into())
    };
    let no_folder = "it has no folder for cases; make it a suite.json with cases/ first";
    for suite in content
        .new_edge_cases
        .iter()
        .filter(|edge| edge.case.is_some())
        .filter_map(|edge| edge.suite.as_deref())
    {
        if folder
            .suite(suite)
            .is_some_and(|loaded| cases_folder(loaded).is_none())
        {
            return refuse(suite, no_folder);
        }
    }
    for retired in &content.retirements {
        let Some(loaded) = folder.suite(&retired.suite) else {
            continue;
        };
        let Some(cases) = cases_folder(loaded) else {
            return refuse(&retired.suite, no_folder);
        };
        if own_file(&cases, &retired.case_id)?.is_none() {
            return refuse(
                &retired.suite,
                &format!(
                    "{} does not have a file of its own; move it to cases/{}.json first, which changes nothing about the harness",
                    retired.case_id, retired.case_id
                ),
            );
        }
    }
    let whole_folder_is_a_suite = folder
        .suites
        .iter()
        .any(|loaded| loaded.file.parent() == Some(&folder.root));
    if let (Some(benchmark), true) = (
        content
            .new_benchmarks
            .iter()
            .find(|suite| !suite.cases.is_empty()),
        whole_folder_is_a_suite,
    ) {
        return refuse(
            &benchmark.id,
            "the harness is one suite; put it into a folder of its own first",
        );
    }
    let files = |case: &BenchmarkCase| !case.input.files.is_empty();
    let with_files = content
        .new_benchmarks
        .iter()
        .find(|suite| suite.cases.iter().any(files));
    if let Some(suite) = with_files {
        return refuse(
            &suite.id,
            "cases of a new suite cannot bring files; add the suite without them",
        );
    }
    Ok(())
}

/// Where new cases of a suite are written.
pub(super) fn cases_folder(loaded: &suites::LoadedSuite) -> Option<PathBuf> {
    let is_evals = loaded.file.file_name().is_some_and(|name| name == "evals.json");
    (!is_evals).then(|| loaded.file.parent().map(|folder| folder.join("cases")))?
}

/// The file that holds this case and nothing else.
pub(super) fn own_file(cases: &Path, case_id: &str) -> Result<Option<PathBuf>, EngineError> {
    for path in suites::case_files(cases)? {
        let text = suites::read(&path)?;
        let file = shown(&path);
        let read = satiety::bench::read_cases(Named {
            file: &file,
            text: &text,
        })?;
        if let [(_, only)] = &read[..]
            && only.case_id == case_id
        {
            return Ok(Some(path));
        }
    }
    Ok(None)
}
