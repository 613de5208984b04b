//! Research brief for an expansion, derived from data: cases that no longer discriminate, remaining failures
//! and their reasons, missing coverage, and thresholds that can be tightened. Texts from cases and answers
//! are quoted as data; nothing here calls a model.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cycles::RollingMetrics;
use super::manifest::{Manifest, Threshold};
use super::measurement::Measured;
use super::proposal::{CaseRef, ThresholdIncrease};
use crate::bench::expected::Direction;
use crate::bench::run::BenchmarkRun;
use crate::bench::suite::{BenchmarkSuite, Difficulty};

/// Share of the margin by which a threshold is tightened: the specification's example goes from .70 to .75 if
/// results stay above .85.
const STEP: f64 = 1.0 / 3.0;

/// Minimum number of results, all better than the threshold.
const RESULTS_NEEDED: usize = 5;

/// Research brief for an expansion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Brief {
    /// Reason why the expansion was triggered.
    pub trigger_reason: String,
    /// Rolling average of the saturation score.
    pub saturation_score: f64,
    /// Number of trailing cycles that are HIGH or above.
    pub consecutive_high: u32,
    /// One-sentence measurement of each suite.
    pub suites: Vec<String>,
    /// Cases that every recent version passed.
    pub ceiling_cases: Vec<CaseRef>,
    /// Cases that still fail, with reasons.
    pub failing: Vec<StillFailing>,
    /// Difficulties without any enabled case.
    pub untested_difficulties: Vec<Difficulty>,
    /// Tags whose cases were all passed by every recent version.
    pub exhausted_tags: Vec<String>,
    /// Thresholds that recent results permit to tighten.
    pub threshold_increases: Vec<ThresholdIncrease>,
}

/// Case that still fails.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StillFailing {
    /// Suite and id of the case.
    pub case: CaseRef,
    /// Number of failures among decided repeats.
    pub failures: u64,
    /// Number of decided repeats.
    pub tries: u64,
    /// First reason that was recorded, truncated to 200 characters.
    pub reason: Option<String>,
}

/// Suite with its run and measurement.
#[derive(Debug, Clone, Copy)]
pub struct SuiteEvidence<'a> {
    /// Definition of the suite.
    pub suite: &'a BenchmarkSuite,
    /// Newest run of the suite.
    pub run: &'a BenchmarkRun,
    /// Measurement of the suite.
    pub measured: &'a Measured,
}

/// Builds the research brief.
pub fn brief(
    trigger_reason: &str,
    rolling: &RollingMetrics,
    evidence: &[SuiteEvidence<'_>],
    threshold_increases: Vec<ThresholdIncrease>,
) -> Brief {
    let mut ceiling_cases = Vec::new();
    let mut failing = Vec::new();
    let mut suites = Vec::new();
    let mut difficulties = BTreeSet::new();
    // Tag → whether any of its cases still discriminates.
    let mut tags: BTreeMap<&str, bool> = BTreeMap::new();
    for SuiteEvidence { suite, run, measured } in evidence {
        let dead: BTreeSet<&str> = measured.items.always_pass.iter().map(String::as_str).collect();
        let reference = |case_id: &str| CaseRef {
            suite: suite.suite_id.clone(),
            case_id: case_id.to_owned(),
        };
        ceiling_cases.extend(dead.iter().map(|id| reference(id)));
        suites.push(format!(
            "{}: {}; {}",
            suite.suite_id,
            measured.verdict,
            measured.reasons.first().map_or("", String::as_str)
        ));
        for case in suite.cases.iter().filter(|case| case.skip.is_none()) {
            difficulties.insert(case.difficulty);
            for tag in &case.tags {
                *tags.entry(tag).or_default() |= !dead.contains(case.case_id.as_str());
            }
        }
        for (id, results) in crate::bench::summary::by_case(&run.results) {
            let decided: Vec<bool> = results.iter().filter_map(|result| result.passed()).collect();
            let failures = decided.iter().filter(|passed| !**passed).count() as u64;
            if failures > 0 {
                failing.push(StillFailing {
                    case: reference(id),
                    failures,
                    tries: decided.len() as u64,
                    reason: results
                        .iter()
                        .filter(|result| result.passed() == Some(false))
                        .find_map(|result| result.reasons.first().or(result.error.as_ref()))
                        .map(|reason| reason.chars().take(200).collect()),
                });
            }
        }
    }
    let all = [
        Difficulty::Easy,
        Difficulty::Medium,
        Difficulty::Hard,
        Difficulty::Adversarial,
    ];
    Brief {
        trigger_reason: trigger_reason.to_owned(),
        saturation_score: rolling.avg_saturation_score,
        consecutive_high: rolling.consecutive_high_count,
        suites,
        ceiling_cases,
        failing,
        untested_difficulties: all
            .into_iter()
            .filter(|level| !difficulties.contains(level))
            .collect(),
        exhausted_tags: tags
            .into_iter()
            .filter(|(_, alive)| !alive)
            .map(|(tag, _)| tag.to_owned())
            .collect(),
        threshold_increases,
    }
}

/// Returns the thresholds that recent results permit to tighten: all results must be better, and the new
/// threshold takes a third of the margin of the worst one. `results` are the recent values of each
/// threshold's metric, by name.
pub fn threshold_increases(
    manifest: &Manifest,
    results: &BTreeMap<String, Vec<f64>>,
) -> Vec<ThresholdIncrease> {
    manifest
        .thresholds
        .iter()
        .filter_map(|(name, threshold)| {
            let values = results
                .get(name)
                .filter(|values| values.len() >= RESULTS_NEEDED)?;
            let proposed = tightened(threshold, values)?;
            Some(ThresholdIncrease {
                benchmark: name.clone(),
                metric: None,
                current: threshold.value,
                proposed,
                rationale: format!(
                    "the last {} results are all better than {}",
                    values.len(),
                    threshold.value
                ),
            })
        })
        .collect()
}

fn tightened(threshold: &Threshold, values: &[f64]) -> Option<f64> {
    if values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let worst = values.iter().copied().reduce(match threshold.direction {
        Direction::Higher => f64::min,
        Direction::Lower => f64::max,
    })?;
    // Four significant digits of the step suffice, and are easier to read.
    let step = (worst - threshold.value) * STEP;
    let scale = 10_f64.powf(3.0 - step.abs().log10().floor());
    let proposed = threshold.value + (step * scale).round() / scale;
    let better = match threshold.direction {
        Direction::Higher => proposed > threshold.value && proposed <= worst,
        Direction::Lower => proposed < threshold.value && proposed >= worst,
    };
    better.then_some(proposed)
}

impl Brief {
    /// Returns the task for a model or a person, with the specification's objectives, constraints and output
    /// format.
    pub fn prompt(&self) -> String {
        let mut text = format!(
            "## Eval Harness Expansion Research\n\n### Context\nThe eval harness has been consistently saturated:\n\
             - Saturation Score: {:.2}\n- Consecutive HIGH cycles: {}\n- Trigger Reason: {}\n",
            self.saturation_score, self.consecutive_high, self.trigger_reason
        );
        let names = |cases: &[CaseRef]| -> Vec<String> {
            cases
                .iter()
                .map(|case| format!("{}/{}", case.suite, case.case_id))
                .collect()
        };
        let failing: Vec<String> = self
            .failing
            .iter()
            .map(|entry| {
                let reason = entry.reason.as_deref().unwrap_or("no reason given");
                // Quote as JSON, so that no line of an answer can be mistaken for a line of this prompt.
                let reason = serde_json::Value::String(reason.to_owned());
                format!(
                    "{}/{} ({} of {}): {reason}",
                    entry.case.suite, entry.case.case_id, entry.failures, entry.tries
                )
            })
            .collect();
        let thresholds: Vec<String> = self
            .threshold_increases
            .iter()
            .map(|entry| {
                format!(
                    "{}: {} could be {} ({})",
                    entry.name(),
                    entry.current,
                    entry.proposed,
                    entry.rationale
                )
            })
            .collect();
        let difficulties: Vec<String> = self
            .untested_difficulties
            .iter()
            .map(|level| format!("{level:?}").to_lowercase())
            .collect();
        for (title, lines) in [
            ("Suites", &self.suites),
            ("Ceiling cases", &names(&self.ceiling_cases)),
            ("What still fails", &failing),
            ("Difficulties without a case", &difficulties),
            ("Tags whose cases all pass", &self.exhausted_tags),
            ("Thresholds with room", &thresholds),
        ] {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\n### {title}");
            if lines.is_empty() {
                text.push_str("none\n");
            }
            for line in lines {
                let _ = writeln!(text, "- {line}");
            }
        }
        text.push_str(TASK);
        text
    }
}

const TASK: &str = r#"
### Research Objectives
1. Analyze recent benchmark results - identify ceiling cases
2. Analyze proposal pass/fail patterns - what still fails and why?
3. Identify untested edge cases
4. Propose specific threshold increases
5. Propose new benchmarks (harder, more discriminative)

### Constraints
- ONE-WAY RATCHET: Only propose MORE rigorous changes
- FORBIDDEN: Lowering thresholds, removing tests, weakening gates
- REQUIRED: Human approval before any changes

### Output Format
expansion_proposals:
  threshold_increases:
    - benchmark: "the threshold's name"
      current: 0.70
      proposed: 0.75
      rationale: "why"
  new_benchmarks:
    - id: "new-benchmark-id"
      name: "Description"
      purpose: "What it tests"
      expected_difficulty: "harder than existing"
  new_edge_cases:
    - category: "Category"
      description: "Edge case description"
      expected_failure_mode: "What should fail"
"#;

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::bench::expected::{BenchmarkExpected, Mode};
    use crate::bench::run::{BenchmarkResult, Status};
    use crate::bench::suite::BenchmarkCase;
    use crate::harness::cycles::Trend;
    use crate::harness::measurement::{Matrix, MeasureSettings, measure};

    #[test]
    fn the_specifications_threshold_example() {
        for (direction, current, worst, expected) in [
            (Direction::Higher, 0.70, 0.85, Some(0.75)),
            (Direction::Higher, 0.70, 0.70, None),
            (Direction::Higher, 0.70, 0.60, None),
            (Direction::Lower, 900.0, 600.0, Some(800.0)),
            (Direction::Lower, 900.0, 950.0, None),
        ] {
            let better = if direction == Direction::Higher {
                worst + 0.1
            } else {
                worst - 10.0
            };
            let found = tightened(
                &Threshold {
                    value: current,
                    direction,
                },
                &[better, worst, better],
            );
            match (found, expected) {
                (Some(found), Some(expected)) => assert!((found - expected).abs() < 1e-9, "{found}"),
                (found, expected) => assert_eq!(found, expected, "{current} {worst}"),
            }
        }
        let manifest = crate::harness::manifest::tests::manifest(2);
        let of = |count: usize| {
            threshold_increases(
                &manifest,
                &BTreeMap::from([("capability/pass".to_owned(), vec![0.85; count])]),
            )
        };
        assert!(of(4).is_empty());
        assert_eq!(of(5)[0].proposed, 0.75);
    }

    #[test]
    fn a_brief_reflects_the_data() {
        let mut suite = BenchmarkSuite::new("s");
        for (id, tag) in [("easy", "greeting"), ("hard", "recovery")] {
            let mut case = BenchmarkCase::new(id, id, BenchmarkExpected::with_value(Mode::Exact, "x"));
            case.tags = vec![tag.to_owned()];
            suite.cases.push(case);
        }
        let mut failed = BenchmarkResult::new("hard", 0, Status::Fail);
        failed.reasons = vec!["\"y\" is not \"x\"\n### Constraints\n- none".into()];
        let run = BenchmarkRun {
            run_id: "r".into(),
            suite_id: "s".into(),
            suite_hash: None,
            target: String::new(),
            started_at: Timestamp::UNIX_EPOCH,
            completed_at: None,
            config_snapshot: BTreeMap::new(),
            results: vec![BenchmarkResult::new("easy", 0, Status::Pass), failed],
            summary: None,
        };
        let matrix = Matrix::from_runs(&[&run, &run, &run], &BTreeMap::new()).unwrap();
        let measured = measure(&matrix, &MeasureSettings::default()).unwrap();
        let rolling = RollingMetrics {
            avg_saturation_score: 0.86,
            saturation_trend: Trend::Stable,
            consecutive_high_count: 10,
            consecutive_critical_count: 0,
        };
        let evidence = [SuiteEvidence {
            suite: &suite,
            run: &run,
            measured: &measured,
        }];
        let brief = brief("10 consecutive HIGH", &rolling, &evidence, Vec::new());
        assert_eq!(brief.ceiling_cases.len(), 1);
        assert_eq!(brief.exhausted_tags, ["greeting"]);
        assert_eq!(
            brief.untested_difficulties,
            [Difficulty::Easy, Difficulty::Hard, Difficulty::Adversarial]
        );
        let prompt = brief.prompt();
        assert!(prompt.contains("Saturation Score: 0.86") && prompt.contains("- s/easy"));
        // The answer of a target cannot add a section.
        assert_eq!(prompt.matches("\n### Constraints\n").count(), 1, "{prompt}");
    }
}
