//! What a proposal makes of the suites and rules: the harness that it leads to. Only what is written out can be done;
//! ideas without a case stay ideas and are told. Whether the result is at least as rigorous is [`super::manifest`]'s to say.

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
    /// The suites, new ones last.
    pub suites: Vec<BenchmarkSuite>,
    /// The rules.
    pub rules: Rules,
    /// What was proposed in words only.
    pub ideas: Vec<String>,
}

/// Why a proposal cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AmendError {
    /// There is no threshold of that name.
    #[error("{place}: there is no threshold `{name}`; the harness has {}", list(.known))]
    NoThreshold {
        /// Where in the proposal.
        place: String,
        /// What was named.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// There is no suite of that name.
    #[error("{place}: there is no suite `{name}`; the harness has {}", list(.known))]
    NoSuite {
        /// Where in the proposal.
        place: String,
        /// What was named.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// There is no case of that name.
    #[error("{place}: suite {suite} has no case `{case_id}`")]
    NoCase {
        /// Where in the proposal.
        place: String,
        /// The suite.
        suite: String,
        /// What was named.
        case_id: String,
    },
    /// An edge case that is written out goes nowhere.
    #[error("{place}: say which suite the case goes to with `suite`")]
    NoPlace {
        /// Where in the proposal.
        place: String,
    },
    /// The name is in use.
    #[error("{place}: `{name}` is there already; a new case or suite needs a name of its own")]
    Taken {
        /// Where in the proposal.
        place: String,
        /// The name.
        name: String,
    },
    /// A name that could lead out of its folder.
    #[error("{place}: `{name}` cannot be the name of a file; use letters, digits, `-`, `_` and `.`")]
    BadName {
        /// Where in the proposal.
        place: String,
        /// The name.
        name: String,
    },
    /// A case that no suite could hold.
    #[error("{place}: {problem}")]
    BadCase {
        /// Where in the proposal.
        place: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// Carries a proposal out on suites and rules.
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
        file_name(&place, &benchmark.id)?;
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
        let of_suite = files.get(&retired.suite).cloned().unwrap_or_default();
        let entry = CaseEntry::of(suite, &broken, &of_suite);
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
    file_name(place, &case.case_id)?;
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
            problem: "skip: a proposed case is enabled in its turn; leave this out".to_owned(),
        });
    }
    suite.cases.push(case.clone());
    Ok(())
}

/// Names become files, and a proposal may come from a model.
fn file_name(place: &str, name: &str) -> Result<(), AmendError> {
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
    fn everything_that_is_written_out_is_done_and_is_admissible() {
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
    fn what_cannot_be_done_is_named() {
        let edge = |suite: &str, case: serde_json::Value| json!({"new_edge_cases": [{"category": "c", "description": "d", "expected_failure_mode": "f", "suite": suite, "case": case}]});
        for (value, says) in [
            (
                json!({"threshold_increases": [{"benchmark": "x", "current": 1, "proposed": 2, "rationale": ""}]}),
                "threshold_increases[0]: there is no threshold `x`; the harness has s/pass_rate",
            ),
            (edge("x", case("n")), "there is no suite `x`; the harness has s"),
            (edge("s", case("a")), "`a` is there already"),
            (
                edge("s", case("../../etc")),
                "`../../etc` cannot be the name of a file",
            ),
            (edge("s", case(".hidden")), "cannot be the name"),
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
                "suite s has no case `z`",
            ),
        ] {
            let error = amend(&suites(), &rules(), &FileHashes::new(), &content(value))
                .unwrap_err()
                .to_string();
            assert!(error.contains(says), "{error} has no {says}");
        }
    }
}
