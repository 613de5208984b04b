//! Reads recorded search loops and recommends a stop rule for them.

use std::collections::BTreeMap;
use std::io::Read;

use satiety::research::Hit;
use satiety::research::recommend::{Recommendation, RecordedLoop, recommend};
use serde::Deserialize;

use crate::EngineError;
use crate::handles::ResearchOperations;

/// A value of the file: a round as `satiety gate` reads it, with the useful results, or a whole report of
/// `satiety research`.
#[derive(Debug, Default, Deserialize)]
struct Recorded {
    #[serde(default, alias = "run_id", alias = "session", alias = "session_id")]
    run: Option<serde_json::Value>,
    #[serde(default)]
    task: Option<String>,
    /// Number of the round; a run without a name restarts at 1.
    #[serde(default)]
    round: Option<u32>,
    #[serde(default, alias = "hits")]
    results: Option<Vec<Hit>>,
    #[serde(default)]
    error: Option<serde_json::Value>,
    /// Addresses of useful results.
    #[serde(default)]
    relevant: Vec<String>,
    /// Rounds of a report.
    #[serde(default)]
    rounds: Vec<ReportedRound>,
    /// Sources of a report.
    #[serde(default)]
    sources: Vec<ReportedSource>,
}

#[derive(Debug, Default, Deserialize)]
struct ReportedRound {
    #[serde(default)]
    results: Vec<Hit>,
}

#[derive(Debug, Default, Deserialize)]
struct ReportedSource {
    #[serde(default)]
    url: String,
    #[serde(default)]
    cited: bool,
}

impl ResearchOperations<'_> {
    /// Compares stop rules on recorded loops and recommends one. `max_missed` is the share of the useful results that
    /// may be missed; `name` is the file name.
    pub fn recommend_stop(
        name: &str,
        input: impl Read,
        max_missed: f64,
    ) -> Result<Recommendation, EngineError> {
        let loops = read_loops(name, input)?;
        if loops.iter().all(|one| one.relevant.is_empty()) {
            return Err(EngineError::GateLine {
                name: name.to_owned(),
                line: 1,
                reason: "no result is marked as useful: add `relevant`, a list of addresses, to the rounds"
                    .into(),
            });
        }
        Ok(recommend(&loops, max_missed)?)
    }
}

/// Reads JSON values, one behind the other.
fn read_loops(name: &str, input: impl Read) -> Result<Vec<RecordedLoop>, EngineError> {
    let mut loops: Vec<RecordedLoop> = Vec::new();
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    let values =
        serde_json::Deserializer::from_reader(std::io::BufReader::new(input)).into_iter::<Recorded>();
    for (number, value) in (1_usize..).zip(values) {
        let wrong = |line: usize, reason: String| EngineError::GateLine {
            name: name.to_owned(),
            line,
            reason,
        };
        let value = value.map_err(|error| wrong(error.line(), error.to_string()))?;
        if !value.rounds.is_empty() {
            loops.push(reported(value));
            continue;
        }
        if value.results.is_none() && value.error.is_none() {
            let reason = "missing field `results` (a list, may be empty), `error` or `rounds`";
            return Err(wrong(number, reason.into()));
        }
        let key = value.run.as_ref().map(ToString::to_string).unwrap_or_default();
        if value.run.is_none() && value.round == Some(1) {
            runs.remove(&key);
        }
        let at = *runs.entry(key).or_insert_with(|| {
            loops.push(RecordedLoop::default());
            loops.len() - 1
        });
        let one = &mut loops[at];
        one.task = value.task.unwrap_or(std::mem::take(&mut one.task));
        one.rounds.push(value.results.unwrap_or_default());
        one.relevant.extend(value.relevant);
    }
    Ok(loops)
}

/// The loop of a report: what its answers cite is useful.
fn reported(value: Recorded) -> RecordedLoop {
    let cited = value.sources.into_iter().filter(|source| source.cited);
    let relevant = if value.relevant.is_empty() {
        cited.map(|source| source.url).collect()
    } else {
        value.relevant
    };
    RecordedLoop {
        task: value.task.unwrap_or_default(),
        rounds: value.rounds.into_iter().map(|round| round.results).collect(),
        relevant,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_and_reports_are_read() {
        let text = r#"
{"run": "a", "task": "t", "results": [{"url": "u1", "body": "x"}], "relevant": ["u2"]}
{"run": "a", "results": [{"url": "u2", "body": "y"}]}
{"run": "b", "error": "503"}
{
  "task": "whole", "rounds": [{"results": [{"url": "u3"}]}, {"results": []}],
  "sources": [{"url": "u3", "cited": true}, {"url": "u4", "cited": false}]
}"#;
        let loops = read_loops("loops.jsonl", text.as_bytes()).unwrap();
        assert_eq!(loops.len(), 3);
        assert_eq!((loops[0].task.as_str(), loops[0].rounds.len()), ("t", 2));
        assert_eq!(loops[0].relevant, ["u2"]);
        assert_eq!(
            (loops[2].rounds.len(), loops[2].relevant.as_slice()),
            (2, &["u3".to_owned()][..])
        );
    }

    #[test]
    fn unusable_input_is_refused() {
        for (text, part) in [
            ("{\"results\": []}\nno json", "loops.jsonl:2: "),
            ("{}", "missing field `results`"),
            ("{\"results\": []}", "no result is marked as useful"),
            ("", "no result is marked as useful"),
        ] {
            let error = ResearchOperations::recommend_stop("loops.jsonl", text.as_bytes(), 0.1).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
