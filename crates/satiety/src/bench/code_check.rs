//! Checks that are programs: JavaScript and Python, as an expression, a function body or a function in a file.
//!
//! This module describes a check and interprets what it returned; the caller runs it. A check returns whether
//! the answer passes, a score, or an object with `pass`, `score` and `reason`. A check that throws has failed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::expected::{BenchmarkExpected, Mode};

/// Language of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "CheckLanguage")]
pub enum Language {
    /// Runs with Node.js.
    Javascript,
    /// Runs with Python 3.
    Python,
}

/// A program that checks an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodeCheck {
    /// Expression or function body with `output` and `context`; absent if `file` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// File with the function, relative to the suite's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Name of the function in the file; the default export, or `get_assert` in Python.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// JavaScript expressions that change the output before it is checked, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transforms: Vec<String>,
    /// Settings that the check gets as `context.config`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
}

impl CodeCheck {
    /// Creates a check from an expression or a function body.
    pub fn inline(code: impl Into<String>) -> Self {
        Self {
            code: Some(code.into()),
            file: None,
            function: None,
            transforms: Vec::new(),
            config: None,
        }
    }

    /// The value of an expectation: the code alone if there is nothing else.
    pub fn to_value(&self) -> Value {
        match self {
            Self {
                code: Some(code),
                file: None,
                function: None,
                transforms,
                config: None,
            } if transforms.is_empty() => Value::String(code.clone()),
            check => serde_json::to_value(check).unwrap_or_default(),
        }
    }
}

/// Reads the check of an expectation; the error says what is wrong with its value.
pub fn parse_check(expected: &BenchmarkExpected) -> Result<CodeCheck, String> {
    let check = match &expected.value {
        Some(Value::String(code)) => CodeCheck::inline(code),
        Some(value @ Value::Object(_)) => {
            serde_json::from_value(value.clone()).map_err(|error| error.to_string())?
        }
        _ => return Err("must be code, or an object with `code` or `file`".to_owned()),
    };
    if check.code.is_some() == check.file.is_some() {
        return Err("must have exactly one of `code` and `file`".to_owned());
    }
    if expected.mode == Mode::Python && !check.transforms.is_empty() {
        return Err("must not have `transforms`: they are JavaScript".to_owned());
    }
    Ok(check)
}

/// Language of an expectation that is a program.
pub fn language(mode: Mode) -> Option<Language> {
    match mode {
        Mode::Javascript => Some(Language::Javascript),
        Mode::Python => Some(Language::Python),
        _ => None,
    }
}

/// Verdict of a check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckOutcome {
    /// Whether the answer passes.
    pub passed: bool,
    /// Score as returned; 1 or 0 if the check only said whether it passes.
    pub score: f64,
    /// Why the answer does not pass.
    pub reason: Option<String>,
}

impl CheckOutcome {
    /// Outcome of a check that threw an exception.
    pub fn thrown(message: &str) -> Self {
        Self {
            passed: false,
            score: 0.0,
            reason: Some(format!("the check threw an exception: {message}")),
        }
    }
}

/// Interprets what a check returned. A number passes if it reaches the threshold, or is positive without one.
pub fn parse_outcome(returned: &Value, threshold: Option<f64>) -> Result<CheckOutcome, String> {
    let of_score = |score: f64| match threshold {
        Some(threshold) => score >= threshold,
        None => score > 0.0,
    };
    match returned {
        Value::Bool(passed) => Ok(CheckOutcome {
            passed: *passed,
            score: f64::from(u8::from(*passed)),
            reason: (!passed).then(|| "the check returned false".to_owned()),
        }),
        Value::Number(number) => {
            let score = number.as_f64().unwrap_or(0.0);
            let passed = of_score(score);
            Ok(CheckOutcome {
                passed,
                score,
                reason: (!passed).then(|| format!("the check returned {score}")),
            })
        }
        Value::Object(fields) => {
            let field = |names: [&str; 2]| names.iter().find_map(|name| fields.get(*name));
            let score = field(["score", "score_"]).and_then(Value::as_f64);
            let passed = match field(["pass", "pass_"]).and_then(Value::as_bool) {
                // A threshold also applies to a score next to a verdict.
                Some(passed) => {
                    passed && threshold.is_none_or(|least| score.is_none_or(|score| score >= least))
                }
                None => of_score(score.ok_or("the check returned an object without `pass` and `score`")?),
            };
            let reason = fields.get("reason").and_then(Value::as_str);
            Ok(CheckOutcome {
                passed,
                score: score.unwrap_or(f64::from(u8::from(passed))),
                reason: reason
                    .map(str::to_owned)
                    .or_else(|| (!passed).then(|| "the check returned pass: false".to_owned())),
            })
        }
        other => Err(format!(
            "the check returned {other} instead of a boolean, a number or an object with `pass`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn returned_values_become_outcomes() {
        for (value, threshold, passed, score) in [
            (json!(true), None, true, 1.0),
            (json!(false), None, false, 0.0),
            (json!(0.4), None, true, 0.4),
            (json!(0), None, false, 0.0),
            (json!(0.4), Some(0.5), false, 0.4),
            (
                json!({"pass": true, "score": 0.2, "reason": "ok"}),
                None,
                true,
                0.2,
            ),
            (json!({"pass_": true, "score_": 1}), None, true, 1.0),
            (json!({"pass": true, "score": 0.2}), Some(0.5), false, 0.2),
            (json!({"score": 0.9}), Some(0.5), true, 0.9),
        ] {
            let found = parse_outcome(&value, threshold).unwrap();
            assert_eq!((found.passed, found.score), (passed, score), "{value}");
        }
        for value in [json!("yes"), json!(null), json!([1]), json!({"reason": "x"})] {
            assert!(parse_outcome(&value, None).is_err(), "{value}");
        }
    }

    #[test]
    fn a_check_has_code_or_a_file() {
        let check = |value: Value| parse_check(&BenchmarkExpected::with_value(Mode::Javascript, value));
        assert_eq!(check(json!("output")).unwrap().to_value(), json!("output"));
        let file = json!({"file": "a.js", "function": "f"});
        assert_eq!(check(file.clone()).unwrap().to_value(), file);
        for wrong in [
            json!(1),
            json!({}),
            json!({"code": "x", "file": "y"}),
            json!({"cod": "x"}),
        ] {
            assert!(check(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
