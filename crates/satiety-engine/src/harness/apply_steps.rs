//! Applies a proposal to the harness in memory; an error if a change has no file to be written to.

use std::path::{Path, PathBuf};

use satiety::bench::{BenchmarkCase, Named};
use satiety::harness::amend::{Amended, amend};
use satiety::harness::{ExpansionProposals, Manifest};

use super::HarnessError;
use super::directory::{HarnessDirectory, display_path};
use crate::EngineError;
use crate::bench::suites;

/// Returns the harness that results from a proposal, if it can be applied and written.
pub(super) fn carry_out(
    folder: &HarnessDirectory,
    content: &ExpansionProposals,
) -> Result<(Amended, Manifest), EngineError> {
    let mut hashes = folder.hashes();
    let amended = amend(&folder.suites(), &folder.rules, &hashes, content).map_err(HarnessError::from)?;
    check_writable(folder, content)?;
    // Files that only new cases refer to must already exist.
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

/// Checks that every change has a file to be written to.
fn check_writable(folder: &HarnessDirectory, content: &ExpansionProposals) -> Result<(), EngineError> {
    let refuse = |suite: &str, reason: &str| {
        Err(HarnessError::NotWritable {
            suite: suite.to_owned(),
            reason: reason.to_owned(),
        }
        .into())
    };
    let no_folder = "it has no directory for cases; convert it to a suite.json with cases/ first";
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
                    "{} is not in a separate file; move it to cases/{}.json first, which does not change the harness",
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
            "the harness is a single suite; move it into a separate directory first",
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
            "cases of a new suite cannot have files; add the suite without them",
        );
    }
    Ok(())
}

/// Directory for new cases of a suite.
pub(super) fn cases_folder(loaded: &suites::LoadedSuite) -> Option<PathBuf> {
    let is_evals = loaded.file.file_name().is_some_and(|name| name == "evals.json");
    (!is_evals).then(|| loaded.file.parent().map(|folder| folder.join("cases")))?
}

/// File that contains only this case.
pub(super) fn own_file(cases: &Path, case_id: &str) -> Result<Option<PathBuf>, EngineError> {
    for path in suites::case_files(cases)? {
        let text = suites::read(&path)?;
        let file = display_path(&path);
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
