//! Reads a test run of `DeepEval` (`.deepeval/.latest_test_run.json`, or a file of its results folder): each test
//! case is a case, each metric a named score. All metrics decide, as in `DeepEval`, unless one is chosen.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::hash::content_hash;
use super::imported_run::{
    RepeatCounter, ResultOrigin, RunImport, ScoreChoice, decide_by_scores, field_error, run_of_content,
};
use super::loss::Losses;
use super::reader::{Named, SuiteError, parse};
use super::run::{BenchmarkResult, ErrorOwner, NamedScore, Status};

/// Lists of test cases in a test run.
const LISTS: [&str; 2] = ["testCases", "conversationalTestCases"];

/// Keys of a test case that a result has in another form, or that only describe the case.
const KEYS: [&str; 26] = [
    "name",
    "input",
    "actualOutput",
    "expectedOutput",
    "context",
    "retrievalContext",
    "toolsCalled",
    "expectedTools",
    "tokenCost",
    "inputTokenCount",
    "outputTokenCount",
    "completionTime",
    "success",
    "metricsData",
    "runDuration",
    "evaluationCost",
    "order",
    "scenario",
    "expectedOutcome",
    "userDescription",
    "turns",
    "flaky",
    "trace",
    "tags",
    "comments",
    "metadata",
];

/// Reads a test run. The fields are those of the file, or those of its member `testRunData`.
pub fn read_deepeval(
    file: Named<'_>,
    mut origin: ResultOrigin,
    choice: &ScoreChoice,
) -> Result<RunImport, SuiteError> {
    let document = parse(file)?;
    let run = document.get("testRunData").unwrap_or(&document);
    let name = ["testFile", "datasetAlias", "identifier"]
        .iter()
        .find_map(|key| text(run.get(*key)));
    origin.suite_id = name.unwrap_or(origin.suite_id);
    let mut losses = Losses::default();
    let mut results = Vec::new();
    let mut repeats = RepeatCounter::default();
    let mut contents: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for list in LISTS {
        let cases = match run.get(list) {
            None | Some(Value::Null) => continue,
            Some(Value::Array(cases)) => cases,
            Some(_) => return Err(field_error(file.file, list, "must be a list")),
        };
        for (index, case) in cases.iter().enumerate() {
            let place = format!("{list}[{index}]");
            let Some(fields) = case.as_object() else {
                return Err(field_error(file.file, &place, "must be an object"));
            };
            losses.unknown_keys(&format!("{list}[]."), fields, &KEYS);
            let name = text(fields.get("name"))
                .ok_or_else(|| field_error(file.file, &format!("{place}.name"), "is missing"))?;
            let content = content_hash(&["input", "expectedOutput", "scenario"].map(|key| fields.get(key)));
            // Parametrized tests share a name; only equal inputs are repeats.
            let known = contents.entry(name.clone()).or_default();
            let number = known
                .iter()
                .position(|known| *known == content)
                .unwrap_or_else(|| {
                    known.push(content.clone());
                    known.len() - 1
                });
            let case_id = if number == 0 {
                name
            } else {
                losses.push(
                    format!("{list}[].name"),
                    format!("`{name}` has several inputs: a number was added"),
                );
                format!("{name} ({})", number + 1)
            };
            let repeat = repeats.next(&case_id);
            let mut result = read_case(fields, case_id, repeat)
                .map_err(|(key, reason)| field_error(file.file, &format!("{place}.{key}"), &reason))?;
            result.case_hash = Some(content);
            results.push(result);
        }
    }
    if results.is_empty() {
        return Err(field_error(
            file.file,
            LISTS[0],
            "is empty: the test run has no test cases",
        ));
    }
    repeats.report("testCases[].name", &mut losses);
    let is_chosen = choice.scorer.is_some() || choice.threshold.is_some();
    let decision = if is_chosen {
        for result in &mut results {
            for score in &mut result.scores {
                score.decides = false;
            }
            if matches!(result.status, Status::Pass | Status::Fail) {
                result.status = Status::Pending;
                result.reasons.clear();
            }
        }
        decide_by_scores(file.file, &mut results, choice)?
    } else {
        None
    };
    Ok(run_of_content(
        "deepeval",
        &file.text,
        origin,
        results,
        decision.as_ref(),
        losses,
    ))
}

/// Reads a test case; the error is a key and what is wrong with it.
fn read_case(
    fields: &Map<String, Value>,
    case_id: String,
    repeat: u32,
) -> Result<BenchmarkResult, (String, String)> {
    let mut result = BenchmarkResult::new(case_id, repeat, Status::Skipped);
    let metrics = fields.get("metricsData").and_then(Value::as_array);
    let mut seen = RepeatCounter::default();
    for (index, metric) in metrics.into_iter().flatten().enumerate() {
        let name = text(metric.get("name"))
            .ok_or_else(|| (format!("metricsData[{index}].name"), "is missing".to_owned()))?;
        let is_flaky = metric.get("flaky").and_then(Value::as_bool) == Some(true);
        let passed = metric.get("success").and_then(Value::as_bool);
        let reason = text(metric.get("reason"));
        if let Some(error) = text(metric.get("error")) {
            result.error.get_or_insert(format!("{name}: {error}"));
        } else if passed == Some(false) && !is_flaky {
            let reason = reason.as_deref().unwrap_or("below its threshold");
            result.reasons.push(format!("{name}: {reason}"));
        }
        // A metric may be used twice, with two thresholds.
        let count = seen.next(&name);
        let name = if count == 0 {
            name
        } else {
            format!("{name} ({})", count + 1)
        };
        result.scores.push(NamedScore {
            passed,
            reason,
            decides: !is_flaky,
            ..NamedScore::new(name, metric.get("score").and_then(Value::as_f64))
        });
    }
    let has_failed = result
        .scores
        .iter()
        .any(|score| score.decides && score.passed == Some(false));
    result.status = match fields.get("success").and_then(Value::as_bool) {
        // DeepEval reports a metric that could not be computed as failed.
        Some(false) | None if result.error.is_some() && result.reasons.is_empty() => {
            result.error_owner = Some(ErrorOwner::Judge);
            Status::Error
        }
        Some(true) => Status::Pass,
        Some(false) => Status::Fail,
        None if has_failed => Status::Fail,
        None => {
            result.reasons.push("the test case has no verdict".to_owned());
            Status::Skipped
        }
    };
    if result.status != Status::Error {
        result.error = None;
    }
    let number = |key: &str| {
        fields
            .get(key)
            .and_then(Value::as_f64)
            .filter(|number| *number >= 0.0)
    };
    let count = |key: &str| fields.get(key).and_then(Value::as_u64);
    result.actual_output = text(fields.get("actualOutput"));
    // The run's duration includes the metrics, so it is not the latency of the target.
    result.latency_ms = number("completionTime").unwrap_or(0.0) * 1e3;
    result.cost_usd = number("tokenCost");
    result.tokens_in = count("inputTokenCount");
    result.tokens_out = count("outputTokenCount");
    let tokens = [result.tokens_in, result.tokens_out].into_iter().flatten();
    result.token_cost = tokens.fold(0, u64::saturating_add);
    Ok(result)
}

fn text(value: Option<&Value>) -> Option<String> {
    let text = value?.as_str()?;
    (!text.trim().is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, scorer: Option<&str>) -> Result<RunImport, String> {
        let origin = ResultOrigin {
            suite_id: "run".to_owned(),
            target: "run.json".to_owned(),
            recorded_at: jiff::Timestamp::UNIX_EPOCH,
        };
        let choice = ScoreChoice {
            scorer: scorer.map(str::to_owned),
            threshold: scorer.map(|_| 0.5),
            ..ScoreChoice::default()
        };
        let file = Named {
            file: "run.json",
            text,
        };
        read_deepeval(file, origin, &choice).map_err(|error| error.to_string())
    }

    const RUN: &str = r#"{"testRunData": {"testFile": "test_bot.py", "testCases": [
        {"name": "test_a", "input": "q", "actualOutput": "x", "success": false, "completionTime": 1.5, "tokenCost": 0.01, "order": 0, "surprise": 1, "metricsData": [
            {"name": "Answer Relevancy", "threshold": 0.7, "success": true, "score": 0.9, "reason": "fits"},
            {"name": "Faithfulness", "threshold": 0.5, "success": false, "score": 0.2, "reason": "made up"}]},
        {"name": "test_a", "input": "other", "success": true, "metricsData": [
            {"name": "Answer Relevancy", "success": true, "score": 0.8}, {"name": "Faithfulness", "success": false, "flaky": true, "score": 0.1}]},
        {"name": "test_a", "input": "q", "success": true, "metricsData": [{"name": "Faithfulness", "success": true, "score": 0.6}, {"name": "Faithfulness", "success": true, "score": 0.7}]},
        {"name": "test_b", "input": "z", "success": false, "metricsData": [{"name": "Faithfulness", "success": false, "error": "timeout of the judge"}]}],
        "conversationalTestCases": [], "metricsScores": []}}"#;

    #[test]
    fn all_metrics_decide_as_in_deepeval() {
        let import = read(RUN, None).unwrap();
        let seen: Vec<(&str, u32, Status)> = import
            .run
            .results
            .iter()
            .map(|result| (result.case_id.as_str(), result.repeat, result.status))
            .collect();
        assert_eq!(
            seen,
            [
                ("test_a", 0, Status::Fail),
                ("test_a (2)", 0, Status::Pass),
                ("test_a", 1, Status::Pass),
                ("test_b", 0, Status::Error),
            ]
        );
        let first = &import.run.results[0];
        assert_eq!(first.reasons, ["Faithfulness: made up"]);
        assert_eq!((first.latency_ms, first.cost_usd), (1500.0, Some(0.01)));
        assert_eq!(import.run.results[3].error_owner, Some(ErrorOwner::Judge));
        assert_eq!(import.run.results[2].metric("Faithfulness (2)"), Some(0.7));
        assert_eq!(import.run.suite_id, "test_bot.py");
        let places: Vec<&str> = import.losses.iter().map(|loss| loss.place.as_str()).collect();
        assert_eq!(
            places,
            ["testCases[].name", "testCases[].name", "testCases[].surprise"]
        );
    }

    #[test]
    fn a_chosen_metric_decides_alone() {
        let import = read(RUN, Some("Answer Relevancy")).unwrap();
        let statuses: Vec<Status> = import.run.results.iter().map(|result| result.status).collect();
        assert_eq!(
            statuses,
            [Status::Pass, Status::Pass, Status::Skipped, Status::Error]
        );
        for (text, expected) in [
            (r#"{"testCases": {}}"#, "testCases: must be a list"),
            (r#"{"testCases": [{}]}"#, "testCases[0].name: is missing"),
            (r#"{"testCases": []}"#, "testCases: is empty"),
            (
                r#"{"testCases": [{"name": "a", "metricsData": [{}]}]}"#,
                "testCases[0].metricsData[0].name: is missing",
            ),
        ] {
            assert!(read(text, None).unwrap_err().contains(expected), "{text}");
        }
    }
}
