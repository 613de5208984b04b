//! Applies a proposal to suites and rules, which gives the harness after it. Only fully specified changes are
//! applied; ideas without a case are reported. [`super::manifest`] decides whether the result is at least as
//! rigorous.

use std::collections::BTreeSet;

use thiserror::Error;

use super::manifest::{CaseEntry, Retirement};
use super::proposal::ExpansionProposals;
use super::rules::{FileHashes, Rules};
use crate::bench::check::check_case;
use crate::bench::suite::{BenchmarkCase, BenchmarkSuite};

/// Suites and rules after a proposal.
#[derive(Debug, Clone, PartialEq)]
pub struct Amended {
    /// Suites, with new ones last.
    pub suites: Vec<BenchmarkSuite>,
    /// Rules after the proposal.
    pub rules: Rules,
    /// Proposed ideas without a definition.
    pub ideas: Vec<String>,
}

/// Reason why a proposal cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AmendError {
    /// The threshold does not exist.
    #[error("{place}: unknown threshold `{name}` (expected one of: {})", list(.known))]
    NoThreshold {
        /// Field of the proposal.
        place: String,
        /// Name that was given.
        name: String,
        /// Names that exist.
        known: Vec<String>,
    },
    /// The suite does not exist.
    #[error("{place}: unknown suite `{name}` (expected one of: {})", list(.known))]
    NoSuite {
        /// Field of the proposal.
        place: String,
        /// Name that was given.
        name: String,
        /// Names that exist.
        known: Vec<String>,
    },
    /// The case does not exist.
    #[error("{place}: case `{case_id}` not found in suite {suite}")]
    NoCase {
        /// Field of the proposal.
        place: String,
        /// Id of the suite.
        suite: String,
        /// Id that was given.
        case_id: String,
    },
    /// An edge case has a definition but no suite.
    #[error("{place}: missing `suite` for the new case")]
    NoPlace {
        /// Field of the proposal.
        place: String,
    },
    /// The name is already in use.
    #[error("{place}: `{name}` already exists; choose another name")]
    Taken {
        /// Field of the proposal.
        place: String,
        /// Name that was given.
        name: String,
    },
    /// The name cannot be used as a file name.
    #[error("{place}: invalid file name `{name}` (expected letters, digits, `-`, `_` and `.`)")]
    BadName {
        /// Field of the proposal.
        place: String,
        /// Name that was given.
        name: String,
    },
    /// The case is invalid.
    #[error("{place}: {problem}")]
    BadCase {
        /// Field of the proposal.
        place: String,
        /// Problem with the case.
        problem: String,
    },
}

/// Applies a proposal to suites and rules.
pub fn amend(
    suites: &[BenchmarkSuite],
    rules: &Rules,
    files: &FileHashes,
    content: &ExpansionProposals,
) -> Result<Amended, AmendError> {
    let mut amended = Amended {
        suites: suites.to_vec(),
        rules: rules.clone(),
        ideas: Vec::new(),
    };
    for (index, increase) in content.threshold_increases.iter().enumerate() {
        let name = increase.name();
        let known = || amended.rules.thresholds.keys().cloned().collect();
        let Some(threshold) = amended.rules.thresholds.get(&name) else {
            return Err(AmendError::NoThreshold {
                place: format!("threshold_increases[{index}]"),
                known: known(),
                name,
            });
        };
        let mut tightened = *threshold;
        tightened.value = increase.proposed;
        amended.rules.thresholds.insert(name, tightened);
    }
    for (index, benchmark) in content.new_benchmarks.iter().enumerate() {
        let place = format!("new_benchmarks[{index}]");
        if benchmark.cases.is_empty() {
            amended
                .ideas
                .push(format!("suite {}: {}", benchmark.id, benchmark.purpose));
            continue;
        }
        check_file_name(&place, &benchmark.id)?;
        if amended.suites.iter().any(|suite| suite.suite_id == benchmark.id) {
            return Err(AmendError::Taken {
                place,
                name: benchmark.id.clone(),
            });
        }
        let mut suite = BenchmarkSuite::new(&benchmark.id);
        suite.name.clone_from(&benchmark.name);
        suite.description.clone_from(&benchmark.purpose);
        for (number, case) in benchmark.cases.iter().enumerate() {
            add(&format!("{place}.cases[{number}]"), &mut suite, case)?;
        }
        amended.suites.push(suite);
    }
    for (index, edge) in content.new_edge_cases.iter().enumerate() {
        let place = format!("new_edge_cases[{index}]");
        let Some(case) = &edge.case else {
            amended
                .ideas
                .push(format!("{}: {}", edge.category, edge.description));
            continue;
        };
        let name = edge
            .suite
            .as_deref()
            .ok_or_else(|| AmendError::NoPlace { place: place.clone() })?;
        add(
            &format!("{place}.case"),
            suite_named(&mut amended.suites, &place, name)?,
            case,
        )?;
    }
    for (index, retired) in content.retirements.iter().enumerate() {
        let place = format!("retirements[{index}]");
        let suite = suite_named(&mut amended.suites, &place, &retired.suite)?;
        let Some(position) = suite
            .cases
            .iter()
            .position(|case| case.case_id == retired.case_id)
        else {
            return Err(AmendError::NoCase {
                place,
                suite: retired.suite.clone(),
                case_id: retired.case_id.clone(),
            });
        };
        add(&format!("{place}.replacement"), suite, &retired.replacement)?;
        let broken = suite.cases.remove(position);
        let suite_files = files.get(&retired.suite).cloned().unwrap_or_default();
        let entry = CaseEntry::of(suite, &broken, &suite_files);
        amended.rules.retired.insert(
            entry.hash,
            Retirement {
                suite: retired.suite.clone(),
                case_id: retired.case_id.clone(),
                input_hash: entry.input_hash,
                reason: retired.reason.clone(),
                audited_by: retired.audited_by.clone(),
                replacement: retired.replacement.case_id.clone(),
            },
        );
    }
    Ok(amended)
}

fn suite_named<'a>(
    suites: &'a mut [BenchmarkSuite],
    place: &str,
    name: &str,
) -> Result<&'a mut BenchmarkSuite, AmendError> {
    let known: Vec<String> = suites.iter().map(|suite| suite.suite_id.clone()).collect();
    suites
        .iter_mut()
        .find(|suite| suite.suite_id == name)
        .ok_or_else(|| AmendError::NoSuite {
            place: place.to_owned(),
            name: name.to_owned(),
            known,
        })
}

fn add(place: &str, suite: &mut BenchmarkSuite, case: &BenchmarkCase) -> Result<(), AmendError> {
    check_file_name(place, &case.case_id)?;
    let ids: BTreeSet<&str> = suite.cases.iter().map(|case| case.case_id.as_str()).collect();
    if ids.contains(case.case_id.as_str()) {
        return Err(AmendError::Taken {
            place: place.to_owned(),
            name: case.case_id.clone(),
        });
    }
    if let Some(problem) = check_case(case, place, "").into_iter().next() {
        return Err(AmendError::BadCase {
            place: place.to_owned(),
            problem: format!("{}: {}", problem.field, problem.reason),
        });
    }
    if case.skip.is_some() {
        return Err(AmendError::BadCase {
            place: place.to_owned(),
            problem: "skip: not allowed in a proposed case; cases are enabled one at a time".to_owned(),
        });
    }
    suite.cases.push(case.clone());
    Ok(())
}

/// Checks a name that becomes a file name; the proposal may come from a model.
fn check_file_name(place: &str, name: &str) -> Result<(), AmendError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !name.is_empty() && name.len() <= 120 && name.bytes().all(plain) && !name.starts_with('.') {
        return Ok(());
    }
    Err(AmendError::BadName {
        place: place.to_owned(),
        name: name.to_owned(),
    })
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::bench::expected::{BenchmarkExpected, Direction, Mode};
    use crate::harness::manifest::{Threshold, compare};

    fn suites() -> Vec<BenchmarkSuite> {
        let mut suite = BenchmarkSuite::new("s");
        for id in ["a", "b"] {
            let expected = BenchmarkExpected::with_value(Mode::Exact, "x");
            suite.cases.push(BenchmarkCase::new(id, id, expected));
        }
        vec![suite]
    }

    fn rules() -> Rules {
        let mut rules = Rules::default();
        let threshold = Threshold {
            value: 0.7,
            direction: Direction::Higher,
        };
        rules.thresholds.insert("s/pass_rate".into(), threshold);
        rules
    }

    fn content(value: serde_json::Value) -> ExpansionProposals {
        serde_json::from_value(value).unwrap()
    }

    fn case(id: &str) -> serde_json::Value {
        json!({"case_id": id, "input": {"goal": id}, "expected": {"mode": "exact", "value": "y"}})
    }

    #[test]
    fn everything_fully_specified_is_applied_and_admissible() {
        let content = content(json!({
            "threshold_increases": [{"benchmark": "s", "metric": "pass_rate", "current": 0.7, "proposed": 0.75, "rationale": "r"}],
            "new_benchmarks": [
                {"id": "t", "name": "T", "purpose": "p", "expected_difficulty": "harder", "cases": [case("t1")]},
                {"id": "u", "name": "U", "purpose": "only words", "expected_difficulty": "harder"},
            ],
            "new_edge_cases": [
                {"category": "c", "description": "d", "expected_failure_mode": "f", "suite": "s", "case": case("c")},
                {"category": "c", "description": "words", "expected_failure_mode": "f"},
            ],
            "retirements": [{"suite": "s", "case_id": "b", "reason": "its answer is wrong", "audited_by": "anna", "replacement": case("b2")}],
        }));
        let (suites, rules, files) = (suites(), rules(), FileHashes::new());
        let amended = amend(&suites, &rules, &files, &content).unwrap();
        assert_eq!(amended.ideas, ["suite u: only words", "c: words"]);
        let ids = |suite: &BenchmarkSuite| -> Vec<String> {
            suite.cases.iter().map(|case| case.case_id.clone()).collect()
        };
        assert_eq!(ids(&amended.suites[0]), ["a", "c", "b2"]);
        assert_eq!(ids(&amended.suites[1]), ["t1"]);
        let old = rules.manifest(&suites, &files).unwrap();
        let new = amended.rules.manifest(&amended.suites, &files).unwrap();
        let diff = compare(&old, &new).unwrap();
        assert!(diff.admissible, "{:#?}", diff.changes);
        assert_eq!(new.thresholds["s/pass_rate"].value, 0.75);
    }

    #[test]
    fn invalid_proposals_are_rejected_with_their_field() {
        let edge = |suite: &str, case: serde_json::Value| json!({"new_edge_cases": [{"category": "c", "description": "d", "expected_failure_mode": "f", "suite": suite, "case": case}]});
        for (value, says) in [
            (
                json!({"threshold_increases": [{"benchmark": "x", "current": 1, "proposed": 2, "rationale": ""}]}),
                "threshold_increases[0]: unknown threshold `x` (expected one of: s/pass_rate)",
            ),
            (edge("x", case("n")), "unknown suite `x` (expected one of: s)"),
            (edge("s", case("a")), "`a` already exists"),
            (edge("s", case("../../etc")), "invalid file name `../../etc`"),
            (edge("s", case(".hidden")), "invalid file name"),
            (
                edge(
                    "s",
                    json!({"case_id": "n", "input": {"goal": "g"}, "expected": {"mode": "regex", "value": "("}}),
                ),
                "new_edge_cases[0].case: ",
            ),
            (
                edge(
                    "s",
                    json!({"case_id": "n", "skip": "later", "input": {"goal": "g"}, "expected": {"mode": "exact", "value": "x"}}),
                ),
                "skip",
            ),
            (
                json!({"retirements": [{"suite": "s", "case_id": "z", "reason": "r", "audited_by": "a", "replacement": case("n")}]}),
                "case `z` not found in suite s",
            ),
        ] {
            let error = amend(&suites(), &rules(), &FileHashes::new(), &content(value))
                .unwrap_err()
                .to_string();
            assert!(error.contains(says), "{error} has no {says}");
        }
    }
}
