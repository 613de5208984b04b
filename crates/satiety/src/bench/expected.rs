//! Expectations for an answer. One object states one check; a list, or an object with `all` or `any`,
//! combines several with weights. In files `expected` may take any of these three forms; here it is one tree.
//!
//! [`super::matching`] assesses answers against it, [`super::check`] validates it.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::code_check::Transform;

/// How an answer is compared with the expectation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ComparisonMode")]
pub enum Mode {
    /// The answer equals `value`, as text or as JSON.
    Exact,
    /// The answer contains `value`, or every string of the list.
    Contains,
    /// A model judges the answer by the rubric or criteria in `value`.
    LlmJudge,
    /// Measured metrics stay within `metric_thresholds`.
    MetricThreshold,
    /// A person labels the answer later.
    Human,
    /// The regular expression in `value` matches somewhere in the answer.
    Regex,
    /// The nodes selected by `path` in the JSON answer equal `value`; without a value, at least one node must
    /// be selected.
    JsonPath,
    /// The number in the answer equals `value` within `tolerance`.
    Numeric,
    /// The JSON answer satisfies the schema in `value`.
    JsonSchema,
    /// The JavaScript program in `value` accepts the answer.
    Javascript,
    /// The Python program in `value` accepts the answer.
    Python,
    /// The meaning of the answer is similar to `value`, or to one text of the list: the cosine of their
    /// sentence vectors is at least `threshold`.
    Similar,
    /// Every part of the expectation holds.
    All,
    /// At least one part of the expectation holds.
    Any,
    /// Imported check that is not supported; the case is skipped, and `reason` explains why.
    Unsupported,
}

/// Which side of a threshold is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Values must be at most the threshold.
    Lower,
    /// Values must be at least the threshold.
    Higher,
}

/// Expectation that an answer must satisfy.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchmarkExpected {
    /// How the answer is compared.
    pub mode: Mode,
    /// Expected value, JSON Schema, regular expression, judge criteria or program.
    pub value: Option<Value>,
    /// Threshold per metric name.
    pub metric_thresholds: Option<BTreeMap<String, f64>>,
    /// Direction per metric name; required only when the name does not imply it.
    pub directions: BTreeMap<String, Direction>,
    /// JSON Path (RFC 9535) of the nodes to compare.
    pub path: Option<String>,
    /// Absolute tolerance of a numeric comparison.
    pub tolerance: Option<f64>,
    /// Tolerance of a numeric comparison as a fraction of the expected value.
    pub relative_tolerance: Option<f64>,
    /// Whether the comparison ignores letter case.
    pub ignore_case: bool,
    /// Whether leading and trailing white space is significant; false by default.
    pub keep_whitespace: bool,
    /// Minimum score to pass, between 0 and 1: of the judge, or of the weighted parts.
    pub threshold: Option<f64>,
    /// Name under which the score of this part is reported.
    pub name: Option<String>,
    /// Weight among sibling expectations.
    pub weight: f64,
    /// Whether the check must fail instead of hold.
    pub negate: bool,
    /// Reason why the check is unsupported, or a note for the judge.
    pub reason: Option<String>,
    /// Programs that change the answer before this expectation and its parts see it, in order.
    pub transforms: Vec<Transform>,
    /// Program that decides an `all` or `any` expectation from the named scores of its parts.
    pub scorer: Option<Transform>,
    /// Parts of an `all` or `any` expectation.
    pub parts: Vec<BenchmarkExpected>,
}

impl BenchmarkExpected {
    /// Creates an expectation without a value.
    pub fn of(mode: Mode) -> Self {
        Self {
            mode,
            value: None,
            metric_thresholds: None,
            directions: BTreeMap::new(),
            path: None,
            tolerance: None,
            relative_tolerance: None,
            ignore_case: false,
            keep_whitespace: false,
            threshold: None,
            name: None,
            weight: 1.0,
            negate: false,
            reason: None,
            transforms: Vec::new(),
            scorer: None,
            parts: Vec::new(),
        }
    }

    /// Creates an expectation with a value.
    pub fn with_value(mode: Mode, value: impl Into<Value>) -> Self {
        Self {
            value: Some(value.into()),
            ..Self::of(mode)
        }
    }

    /// Creates an expectation whose parts must all hold; a single part is returned unchanged.
    pub fn all(mut parts: Vec<BenchmarkExpected>) -> Self {
        if parts.len() == 1 && parts.first().is_some_and(|part| part.weight == 1.0) {
            // The length was just checked.
            return parts.swap_remove(0);
        }
        Self {
            parts,
            ..Self::of(Mode::All)
        }
    }

    /// Creates a check that is not supported.
    pub fn unsupported(reason: impl Into<String>) -> Self {
        Self {
            reason: Some(reason.into()),
            ..Self::of(Mode::Unsupported)
        }
    }

    /// Visits this expectation and all parts below it, depth first.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a BenchmarkExpected)) {
        visit(self);
        for part in &self.parts {
            part.walk(visit);
        }
    }

    /// Reasons why the expectation is unsupported; `None` when it can be checked.
    pub fn unsupported_reason(&self) -> Option<String> {
        let mut reasons: Vec<&str> = Vec::new();
        self.walk(&mut |part| {
            if part.mode == Mode::Unsupported {
                reasons.push(part.reason.as_deref().unwrap_or("cannot be checked"));
            }
        });
        reasons.dedup();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// Files with the programs of this expectation, relative to the suite's directory.
    pub fn check_files(&self) -> Vec<String> {
        let mut files = Vec::new();
        self.walk(&mut |part| {
            let programs = part.transforms.iter().chain(&part.scorer);
            files.extend(programs.filter_map(|program| program.file.clone()));
            if super::code_check::language(part.mode).is_some()
                && let Some(file) = super::code_check::parse_check(part)
                    .ok()
                    .and_then(|check| check.file)
            {
                files.push(file);
            }
        });
        files
    }

    /// Whether any part requires a judge.
    pub fn needs_judge(&self) -> bool {
        let mut found = false;
        self.walk(&mut |part| found |= part.mode == Mode::LlmJudge);
        found
    }
}

/// Form in files: one object with all keys.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wire {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<Mode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metric_thresholds: Option<BTreeMap<String, f64>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    directions: BTreeMap<String, Direction>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tolerance: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    relative_tolerance: Option<f64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ignore_case: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    keep_whitespace: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    threshold: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weight: Option<f64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    negate: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    transforms: Vec<Transform>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scorer: Option<Transform>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    all: Option<Vec<BenchmarkExpected>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    any: Option<Vec<BenchmarkExpected>>,
}

impl Wire {
    fn into_expected(self) -> Result<BenchmarkExpected, &'static str> {
        let (mode, parts) = match (self.mode, self.all, self.any) {
            (None | Some(Mode::All), Some(parts), None) => (Mode::All, parts),
            (None | Some(Mode::Any), None, Some(parts)) => (Mode::Any, parts),
            (_, Some(_), Some(_)) => return Err("cannot combine `all` and `any`: nest one in the other"),
            (Some(_), Some(_), _) => {
                return Err("cannot combine `mode` and `all`: move the mode into the list");
            }
            (Some(_), _, Some(_)) => {
                return Err("cannot combine `mode` and `any`: move the mode into the list");
            }
            (Some(Mode::All | Mode::Any), None, None) => {
                return Err("has no parts: list them under `all` or `any`");
            }
            (Some(mode), None, None) => (mode, Vec::new()),
            (None, None, None) => return Err("is missing `mode`"),
        };
        Ok(BenchmarkExpected {
            mode,
            value: self.value,
            metric_thresholds: self.metric_thresholds,
            directions: self.directions,
            path: self.path,
            tolerance: self.tolerance,
            relative_tolerance: self.relative_tolerance,
            ignore_case: self.ignore_case,
            keep_whitespace: self.keep_whitespace,
            threshold: self.threshold,
            name: self.name,
            weight: self.weight.unwrap_or(1.0),
            negate: self.negate,
            reason: self.reason,
            transforms: self.transforms,
            scorer: self.scorer,
            parts,
        })
    }
}

impl JsonSchema for BenchmarkExpected {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "BenchmarkExpected".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let one = Wire::json_schema(generator);
        let all = generator.subschema_for::<Vec<Self>>();
        schemars::json_schema!({
            "description": "Expectation for an answer: one object, or a list whose entries must all hold.",
            "anyOf": [one, all]
        })
    }
}

impl Serialize for BenchmarkExpected {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let it = self.clone();
        let (mode, all, any) = match it.mode {
            Mode::All => (None, Some(it.parts), None),
            Mode::Any => (None, None, Some(it.parts)),
            mode => (Some(mode), None, None),
        };
        Wire {
            mode,
            value: it.value,
            metric_thresholds: it.metric_thresholds,
            directions: it.directions,
            path: it.path,
            tolerance: it.tolerance,
            relative_tolerance: it.relative_tolerance,
            ignore_case: it.ignore_case,
            keep_whitespace: it.keep_whitespace,
            threshold: it.threshold,
            name: it.name,
            weight: Some(it.weight).filter(|&weight| weight != 1.0),
            negate: it.negate,
            reason: it.reason,
            transforms: it.transforms,
            scorer: it.scorer,
            all,
            any,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for BenchmarkExpected {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectOrList;
        // Unlike an untagged enum, a hand-written visitor preserves the path of an error inside the object.
        impl<'de> Visitor<'de> for ObjectOrList {
            type Value = BenchmarkExpected;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an expectation or a list of expectations")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Wire::deserialize(MapAccessDeserializer::new(map))?
                    .into_expected()
                    .map_err(A::Error::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(BenchmarkExpected::all)
            }
        }
        deserializer.deserialize_any(ObjectOrList)
    }
}
