//! Checks that are programs: JavaScript and Python, as an expression, a function body or a function in a file.
//! Programs may also change the answer before it is checked.
//!
//! This module describes programs and interprets what a check returned; the caller runs them. A check returns
//! whether the answer passes, a score, or an object with `pass`, `score` and `reason`. A check that throws has
//! failed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::expected::{BenchmarkExpected, Mode};

/// Language of a program.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "CheckLanguage")]
pub enum Language {
    /// Runs with Node.js.
    #[default]
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
                config: None,
            } => Value::String(code.clone()),
            check => serde_json::to_value(check).unwrap_or_default(),
        }
    }
}

/// A program that changes the answer before it is checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AnswerTransform")]
pub struct Transform {
    /// Language of the program.
    #[serde(default)]
    pub language: Language,
    /// Expression or function body with `output` and `context`; absent if `file` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// File with the function, relative to the suite's directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Name of the function in the file; the default export, or `get_transform` in Python.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
}

impl Transform {
    /// Creates a transform from a JavaScript expression or function body.
    pub fn inline(code: impl Into<String>) -> Self {
        Self {
            language: Language::Javascript,
            code: Some(code.into()),
            file: None,
            function: None,
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

/// Verdict of a check, after negation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckOutcome {
    /// Whether the answer passes.
    pub passed: bool,
    /// Score as returned; 1 or 0 if the check only said whether it passes.
    pub score: f64,
    /// Why the answer does not pass.
    pub reason: Option<String>,
    /// Further scores that the check returned, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub named: BTreeMap<String, f64>,
}

impl CheckOutcome {
    /// Outcome of a check without a verdict, which fails even if it is negated.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self {
            reason: Some(reason.into()),
            ..Self::default()
        }
    }
}

/// Interprets what a check returned. A number passes if it reaches the threshold, or is positive without one.
/// A negated check passes if it would fail otherwise; a value that is not a verdict fails either way.
pub fn parse_outcome(
    returned: &Value,
    language: Language,
    threshold: Option<f64>,
    negate: bool,
) -> CheckOutcome {
    let python = language == Language::Python;
    let parsed = match returned {
        Value::Bool(passed) => Some(of_truth(*passed, negate)),
        Value::Number(number) => Some(of_score(number.as_f64().unwrap_or(0.0), threshold, negate)),
        Value::Object(fields) => of_object(fields, threshold.filter(|_| python), negate),
        // Python programs may print a verdict into a string.
        Value::String(text) if python => match text.to_ascii_lowercase().as_str() {
            "true" => Some(of_truth(true, negate)),
            "false" => Some(of_truth(false, negate)),
            text if text.starts_with('{') => match serde_json::from_str(text) {
                Ok(Value::Object(fields)) => of_object(&fields, threshold, negate),
                _ => None,
            },
            text => text
                .trim()
                .parse()
                .ok()
                .map(|score| of_score(score, threshold, negate)),
        },
        _ => None,
    };
    parsed.unwrap_or_else(|| {
        let expected = "a boolean, a number or an object with `pass`, `score` and `reason`";
        CheckOutcome::failed(format!("the check returned {returned} instead of {expected}"))
    })
}

fn of_truth(truth: bool, negate: bool) -> CheckOutcome {
    let passed = truth != negate;
    CheckOutcome {
        passed,
        score: f64::from(u8::from(passed)),
        reason: (!passed).then(|| format!("the check returned {truth}")),
        named: BTreeMap::new(),
    }
}

fn of_score(score: f64, threshold: Option<f64>, negate: bool) -> CheckOutcome {
    let reached = threshold.map_or(score > 0.0, |least| score >= least);
    let passed = reached != negate;
    CheckOutcome {
        passed,
        score,
        reason: (!passed).then(|| format!("the check returned {score}")),
        named: BTreeMap::new(),
    }
}

fn of_object(
    fields: &serde_json::Map<String, Value>,
    threshold: Option<f64>,
    negate: bool,
) -> Option<CheckOutcome> {
    // `pass` is a keyword of Python, so that names with an underscore are usual there.
    let field = |names: [&str; 2]| names.iter().find_map(|name| fields.get(*name));
    let score = field(["score", "score_"])?.as_f64()?;
    let stated = field(["pass", "pass_"])?.as_bool()?;
    let reason = fields.get("reason")?.as_str()?;
    let passed = (stated && threshold.is_none_or(|least| score >= least)) != negate;
    let named = field(["namedScores", "named_scores"]).and_then(Value::as_object);
    Some(CheckOutcome {
        passed,
        score,
        reason: (!passed).then(|| match reason {
            "" => format!("the check returned pass: {stated}"),
            reason => reason.to_owned(),
        }),
        named: named
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn returned_values_become_outcomes() {
        use Language::{Javascript, Python};
        let verdict = |score: f64| json!({"pass": true, "score": score, "reason": "ok"});
        for (value, language, threshold, passed, score) in [
            (json!(true), Javascript, None, true, 1.0),
            (json!(false), Javascript, None, false, 0.0),
            (json!(0.4), Javascript, None, true, 0.4),
            (json!(0), Javascript, None, false, 0.0),
            (json!(0.4), Javascript, Some(0.5), false, 0.4),
            (json!(3), Javascript, Some(3.0), true, 3.0),
            (verdict(0.2), Javascript, None, true, 0.2),
            // A threshold applies to the object of a Python program only, as in promptfoo.
            (verdict(0.2), Javascript, Some(0.5), true, 0.2),
            (verdict(0.2), Python, Some(0.5), false, 0.2),
            (
                json!({"pass_": true, "score_": 1, "reason": ""}),
                Python,
                None,
                true,
                1.0,
            ),
            (json!("True"), Python, None, true, 1.0),
            (json!("0.7"), Python, None, true, 0.7),
            (json!("true"), Javascript, None, false, 0.0),
            (json!(null), Javascript, None, false, 0.0),
            (json!({"score": 0.9}), Python, None, false, 0.0),
        ] {
            let found = parse_outcome(&value, language, threshold, false);
            assert_eq!((found.passed, found.score), (passed, score), "{value}");
            assert_eq!(found.reason.is_some(), !passed, "{value}");
        }
    }

    #[test]
    fn negation_turns_verdicts_around_but_not_missing_ones() {
        let negated = |value: Value, threshold| parse_outcome(&value, Language::Javascript, threshold, true);
        assert!(!negated(json!(true), None).passed);
        assert_eq!(negated(json!(false), None).score, 1.0);
        let low = negated(json!(0.2), Some(0.5));
        assert_eq!((low.passed, low.score), (true, 0.2));
        assert!(!negated(json!("yes"), None).passed);
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
