//! Refused changes of a harness as findings: the rule, and the line where the change is.

use satiety::harness::{Change, RigorDiff};
use satiety_report::finding::{Finding, Level, Rule};

use super::directory::{HarnessDirectory, RULES_FILE};
use super::keys::ring_within;
use super::tree::{LOCK_FILE, Side};
use crate::bench::suites::LoadedSuite;
use crate::bench::{baseline_file, target_file};
use crate::source_line::{SourceLine, case_line, key_line};

/// Findings for every change that a check refuses.
pub(super) fn findings(diff: &RigorDiff, new: &Side) -> Vec<Finding> {
    let finding = |change: &Change, message: String| {
        let (rule, line) = locate(&change.place, new);
        line.finding(rule, Level::Error, &change.place, message, new.top())
    };
    let refused = diff
        .objections()
        .map(|change| finding(change, change.reason.clone()));
    let unsigned = diff
        .needing_approval()
        .map(|change| finding(change, format!("{}; requires a signature", change.reason)));
    refused.chain(unsigned).collect()
}

/// Rule and line of a place such as `suites.planner.c1.repeats`. Names may contain dots, so they are compared with
/// those of the harness.
fn locate(place: &str, new: &Side) -> (Rule, SourceLine) {
    let folder = &new.tree.folder;
    let in_rules =
        |table: &[&str], field: Option<&str>| key_line(&folder.root.join(RULES_FILE), table, field);
    let in_lock = || SourceLine {
        path: folder.root.join(LOCK_FILE),
        line: 1,
    };
    if place == LOCK_FILE {
        return (Rule::InvalidLock, in_lock());
    }
    let (kind, name) = place.split_once('.').unwrap_or((place, ""));
    match kind {
        "suites" => {
            let line = match suite_and_rest(folder, name) {
                Some((loaded, rest)) => {
                    let (case_id, field) = case_and_field(loaded, rest);
                    case_line(&loaded.file, case_id, field)
                }
                // The whole suite is gone; its file cannot be annotated.
                None if new.tree.lock_file.is_some() => in_lock(),
                None => in_rules(&[kind], None),
            };
            (Rule::WeakerCase, line)
        }
        "retired" => (Rule::WeakerCase, in_rules(&[kind, name], None)),
        "thresholds" => (Rule::WeakerThreshold, in_rules(&[kind, name], None)),
        "gates" => {
            let (gate, field) = name
                .rsplit_once('.')
                .map_or((name, None), |(gate, field)| (gate, Some(field)));
            (Rule::WeakerGate, in_rules(&[kind, gate], field))
        }
        "judges" => {
            let judge = name.strip_suffix(".votes");
            let field = judge.map(|_| "votes");
            (Rule::WeakerJudge, in_rules(&[kind, judge.unwrap_or(name)], field))
        }
        "judge_prompt" => (Rule::WeakerJudge, in_lock()),
        "targets" => {
            let file = suite_and_rest(folder, name).and_then(|(loaded, _)| target_file(loaded));
            let line = file.map_or_else(in_lock, |path| SourceLine { path, line: 1 });
            (Rule::ChangedTarget, line)
        }
        "baselines" => {
            let line = suite_and_rest(folder, name).map_or_else(in_lock, |(loaded, rest)| {
                key_line(&baseline_file(loaded), &[rest], None)
            });
            (Rule::WeakerBaseline, line)
        }
        "keys" => {
            let key = name.strip_prefix("approvers.").unwrap_or(name);
            let file = ring_within(&folder.root, new.top())
                .ok()
                .and_then(|(file, _)| file);
            let line = file.map_or_else(in_lock, |path| key_line(&path, &[key], None));
            (Rule::ChangedKeys, line)
        }
        "id" | "transitions" => (Rule::WeakerRules, in_lock()),
        _ => (Rule::WeakerRules, in_rules(&[kind], None)),
    }
}

/// Suite that a name starts with, and the rest of the name.
fn suite_and_rest<'a>(folder: &'a HarnessDirectory, name: &'a str) -> Option<(&'a LoadedSuite, &'a str)> {
    let suites = folder.suites.iter();
    suites
        .filter_map(|loaded| Some((loaded, after(name, &loaded.suite.suite_id)?)))
        .min_by_key(|(_, rest)| rest.len())
}

/// Case that a name starts with, and the field after it. A case that is gone has no field.
fn case_and_field<'a>(loaded: &LoadedSuite, name: &'a str) -> (&'a str, Option<&'a str>) {
    let cases = loaded.suite.cases.iter();
    let rest = cases
        .filter_map(|case| after(name, &case.case_id))
        .min_by_key(|rest| rest.len());
    match rest {
        Some("") | None => (name, None),
        Some(field) => {
            let case_id = name.strip_suffix(field).and_then(|case| case.strip_suffix('.'));
            (case_id.unwrap_or(name), Some(field))
        }
    }
}

/// What follows a name and a dot; empty for the name itself.
fn after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(name)?;
    if rest.is_empty() {
        return Some(rest);
    }
    rest.strip_prefix('.')
}
