//! Rubrics for a judge: prose, or criteria that are assessed individually.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::expected::BenchmarkExpected;

/// Rubric by which a judge scores an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rubric {
    /// Rubric in prose; the judge gives a score between 0 and 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Individual criteria; the score is the fraction that is met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<String>,
}

impl Rubric {
    /// Default pass threshold: all criteria, or 0.7 for a prose rubric.
    pub(crate) fn default_threshold(&self) -> f64 {
        if self.criteria.is_empty() { 0.7 } else { 1.0 }
    }
}

/// Extracts the rubric from an expectation's `value`: a string, a list of criteria, or an object with
/// `rubric` and `criteria`.
pub fn parse_rubric(expected: &BenchmarkExpected) -> Option<Rubric> {
    let rubric = match expected.value.as_ref()? {
        Value::String(text) => Rubric {
            text: Some(text.clone()),
            criteria: Vec::new(),
        },
        Value::Array(items) => Rubric {
            text: None,
            criteria: criteria(items)?,
        },
        Value::Object(fields) => {
            if fields.keys().any(|key| key != "rubric" && key != "criteria") {
                return None;
            }
            Rubric {
                text: match fields.get("rubric") {
                    None => None,
                    Some(text) => Some(text.as_str()?.to_owned()),
                },
                criteria: match fields.get("criteria") {
                    None => Vec::new(),
                    Some(items) => criteria(items.as_array()?)?,
                },
            }
        }
        _ => return None,
    };
    let says_something =
        rubric.text.as_ref().is_some_and(|text| !text.trim().is_empty()) || !rubric.criteria.is_empty();
    says_something.then_some(rubric)
}

fn criteria(items: &[Value]) -> Option<Vec<String>> {
    items
        .iter()
        .map(|item| {
            item.as_str()
                .filter(|text| !text.trim().is_empty())
                .map(str::to_owned)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::expected::Mode;
    use serde_json::json;

    #[test]
    fn all_forms_of_a_rubric_are_read() {
        let of = |value: Value| parse_rubric(&BenchmarkExpected::with_value(Mode::LlmJudge, value));
        assert_eq!(of(json!("is polite")).unwrap().text.as_deref(), Some("is polite"));
        assert_eq!(of(json!(["a", "b"])).unwrap().criteria, ["a", "b"]);
        let both = of(json!({"rubric": "polite", "criteria": ["greets"]})).unwrap();
        assert_eq!((both.text.as_deref(), both.criteria.len()), (Some("polite"), 1));
        for nothing in [
            json!(""),
            json!([]),
            json!({}),
            json!(3),
            json!([1]),
            json!({"rubrik": "x"}),
        ] {
            assert_eq!(of(nothing.clone()), None, "{nothing}");
        }
    }
}
