//! Parses the judge's reply, leniently in form and strictly in content: code fences and prose around the
//! object are ignored, a score outside the scale is clamped and marked, a criterion without an answer is an
//! error.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::bench::compare_values::shorten;
use crate::bench::expected::Direction;
use crate::bench::rubric::Rubric;
use crate::bench::run::{JudgeOpinion, NamedScore};

/// Parsed reply of a judge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JudgeAnswer {
    /// Score between 0 and 1: as given, or the fraction of criteria that are met.
    pub score: f64,
    /// Reason that the judge gave.
    pub reason: String,
    /// Answer per criterion, in the order of the rubric.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<CriterionAnswer>,
    /// Whether the score was outside the scale and was clamped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clamped: bool,
}

/// Answer of a judge about one criterion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CriterionAnswer {
    /// Text of the criterion.
    pub criterion: String,
    /// Whether the criterion is met.
    pub met: bool,
    /// Reason that the judge gave.
    pub reason: String,
}

/// Reason why a reply cannot be used. It is an error of the judge, not a failure of the target.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JudgeError {
    /// The reply contains no JSON object.
    #[error("cannot parse the judge's reply: expected a JSON object, got {0}")]
    NotJson(String),
    /// The object has no numeric score.
    #[error("cannot parse the judge's reply: `score` is missing or not a number")]
    NoScore,
    /// A criterion was not answered, or was answered more than once.
    #[error("cannot parse the judge's reply: criterion {number} has {times} answers, expected 1")]
    Criterion {
        /// Number of the criterion, from 1.
        number: usize,
        /// Number of answers it received.
        times: usize,
    },
}

/// Parses a judge's reply.
pub fn parse_answer(reply: &str, rubric: &Rubric) -> Result<JudgeAnswer, JudgeError> {
    let object = find_object(reply).ok_or_else(|| JudgeError::NotJson(shorten(reply)))?;
    if !rubric.criteria.is_empty() {
        return criteria(&object, rubric);
    }
    let given = match object.get("score") {
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(Value::Bool(met)) => Some(f64::from(u8::from(*met))),
        _ => None,
    }
    .filter(|score: &f64| score.is_finite())
    .ok_or(JudgeError::NoScore)?;
    let score = given.clamp(0.0, 1.0);
    Ok(JudgeAnswer {
        score,
        reason: text(&object, "reason"),
        criteria: Vec::new(),
        clamped: score != given,
    })
}

fn criteria(object: &Value, rubric: &Rubric) -> Result<JudgeAnswer, JudgeError> {
    let entries: &[Value] = object
        .get("criteria")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice);
    let mut answers = Vec::new();
    for (number, criterion) in (1..).zip(&rubric.criteria) {
        let numbered = |entry: &&Value| entry.get("number").and_then(Value::as_u64) == Some(number as u64);
        let matching: Vec<&Value> = entries.iter().filter(numbered).collect();
        let met = matching.first().and_then(|entry| match entry.get("met")? {
            Value::Bool(met) => Some(*met),
            Value::String(word) => match word.trim().to_ascii_lowercase().as_str() {
                "true" | "yes" => Some(true),
                "false" | "no" => Some(false),
                _ => None,
            },
            _ => None,
        });
        let (Some(met), [entry]) = (met, matching.as_slice()) else {
            let times = if met.is_none() { 0 } else { matching.len() };
            return Err(JudgeError::Criterion { number, times });
        };
        answers.push(CriterionAnswer {
            criterion: criterion.clone(),
            met,
            reason: text(entry, "reason"),
        });
    }
    let met = answers.iter().filter(|answer| answer.met).count();
    let unmet: Vec<&str> = answers
        .iter()
        .filter(|answer| !answer.met)
        .map(|answer| answer.criterion.as_str())
        .collect();
    Ok(JudgeAnswer {
        score: met as f64 / answers.len() as f64,
        reason: if unmet.is_empty() {
            "all criteria are met".to_owned()
        } else {
            format!("not met: {}", unmet.join("; "))
        },
        criteria: answers,
        clamped: false,
    })
}

fn text(object: &Value, key: &str) -> String {
    object
        .get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// Parses the reply itself, or the longest range from an opening brace to the last closing one that is valid
/// JSON.
fn find_object(reply: &str) -> Option<Value> {
    let end = reply.rfind('}')? + 1;
    reply
        .match_indices('{')
        // Replies are short; the search in a long one full of braces is bounded.
        .take(64)
        .filter_map(|(start, _)| serde_json::from_str::<Value>(reply.get(start..end)?).ok())
        .find(Value::is_object)
}

/// Mean score of several judges, with their opinions; `None` without answers.
pub fn combine(answers: &[(String, JudgeAnswer)]) -> Option<(f64, Vec<JudgeOpinion>)> {
    let scores: Vec<f64> = answers.iter().map(|(_, answer)| answer.score).collect();
    let opinions = answers
        .iter()
        .map(|(judge, answer)| JudgeOpinion {
            judge: judge.clone(),
            score: answer.score,
            reason: answer.reason.clone(),
            criteria: answer.criteria.clone(),
        })
        .collect();
    Some((crate::stats::mean(&scores).ok()?, opinions))
}

/// Criteria as named scores: the share of judges that find each met. A criterion passes if more than half do.
pub fn criterion_scores(opinions: &[JudgeOpinion]) -> Vec<NamedScore> {
    let first = opinions
        .first()
        .map_or(&[][..], |opinion| opinion.criteria.as_slice());
    let score = |(index, criterion): (usize, &CriterionAnswer)| {
        let answers: Vec<&CriterionAnswer> = opinions
            .iter()
            .filter_map(|opinion| opinion.criteria.get(index))
            .collect();
        let met = answers.iter().filter(|answer| answer.met).count() as f64 / answers.len().max(1) as f64;
        let reasons: Vec<&str> = answers
            .iter()
            .map(|answer| answer.reason.as_str())
            .filter(|reason| !reason.is_empty())
            .collect();
        NamedScore {
            passed: Some(met > 0.5),
            range: Some([0.0, 1.0]),
            direction: Some(Direction::Higher),
            decides: true,
            reason: Some(reasons.join("; ")).filter(|reason| !reason.is_empty()),
            ..NamedScore::new(criterion.criterion.clone(), Some(met))
        }
    };
    first.iter().enumerate().map(score).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_found_in_fences_and_prose() {
        let rubric = Rubric {
            text: Some("polite".into()),
            criteria: Vec::new(),
        };
        for (reply, score, clamped) in [
            (r#"{"reason": "ok", "score": 0.8}"#, 0.8, false),
            ("```json\n{\"score\": 1}\n```", 1.0, false),
            (
                "Here it is: {\"score\": \"0.25\", \"reason\": \"uses {braces}\"} Done.",
                0.25,
                false,
            ),
            (r#"{"score": 7}"#, 1.0, true),
            (r#"{"score": -1}"#, 0.0, true),
            (r#"{"score": true}"#, 1.0, false),
        ] {
            let found = parse_answer(reply, &rubric).unwrap();
            assert_eq!((found.score, found.clamped), (score, clamped), "{reply}");
        }
        for reply in [
            "",
            "0.8",
            "{\"score\": \"high\"}",
            "{}",
            "{\"score\": null}",
            "}{",
        ] {
            assert!(parse_answer(reply, &rubric).is_err(), "{reply}");
        }
    }

    #[test]
    fn every_criterion_is_answered_once() {
        let rubric = Rubric {
            text: None,
            criteria: vec!["a".into(), "b".into()],
        };
        let found = parse_answer(
            r#"{"criteria": [{"number": 2, "met": "no", "reason": "missing"}, {"number": 1, "met": true}]}"#,
            &rubric,
        )
        .unwrap();
        assert_eq!((found.score, found.reason.as_str()), (0.5, "not met: b"));
        assert_eq!(found.criteria[1].reason, "missing");
        for (reply, number, times) in [
            (r#"{"criteria": [{"number": 1, "met": true}]}"#, 2, 0),
            (
                r#"{"criteria": [{"number": 1, "met": true}, {"number": 1, "met": false}, {"number": 2, "met": true}]}"#,
                1,
                2,
            ),
            (r#"{"score": 1}"#, 1, 0),
            (
                r#"{"criteria": [{"number": 1, "met": "perhaps"}, {"number": 2, "met": true}]}"#,
                1,
                0,
            ),
        ] {
            assert_eq!(
                parse_answer(reply, &rubric),
                Err(JudgeError::Criterion { number, times }),
                "{reply}"
            );
        }
    }

    #[test]
    fn several_judges_are_averaged() {
        let answer = |score| JudgeAnswer {
            score,
            reason: String::new(),
            criteria: Vec::new(),
            clamped: false,
        };
        let (mean, opinions) = combine(&[("a".into(), answer(0.5)), ("b".into(), answer(1.0))]).unwrap();
        assert_eq!((mean, opinions.len()), (0.75, 2));
        assert_eq!(combine(&[]), None);
    }
}
