//! What counts as right. One object says one thing; a list, or an object with `all` or `any`, says several with
//! weights. In files `expected` may be any of the three; here it is one tree.
//!
//! How an answer is held against it is in [`super::matching`]; what can be wrong with it in [`super::check`].

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// How an answer is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The answer is `value`, as text or as JSON.
    Exact,
    /// The answer contains `value`, or every text of the list.
    Contains,
    /// A model judges by the rubric or criteria in `value`.
    LlmJudge,
    /// Measured figures keep within `metric_thresholds`.
    MetricThreshold,
    /// A person decides later.
    Human,
    /// The regular expression in `value` matches somewhere.
    Regex,
    /// What `path` selects in the JSON answer is `value`; without a value something must be selected.
    JsonPath,
    /// The number in the answer is `value` within `tolerance`.
    Numeric,
    /// The JSON answer satisfies the schema in `value`.
    JsonSchema,
    /// Every part holds.
    All,
    /// At least one part holds.
    Any,
    /// Came from a file whose check cannot be carried out; the case is skipped and `reason` says why.
    Unsupported,
}

/// Which side of a threshold is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// At most the threshold.
    Lower,
    /// At least the threshold.
    Higher,
}

/// What must be true of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchmarkExpected {
    /// How it is judged.
    pub mode: Mode,
    /// The expected value, the schema, the pattern or the judge's criteria.
    pub value: Option<Value>,
    /// Figure → bound.
    pub metric_thresholds: Option<BTreeMap<String, f64>>,
    /// Which side is good, for figures whose name does not tell.
    pub directions: BTreeMap<String, Direction>,
    /// What is selected, in JSON path (RFC 9535).
    pub path: Option<String>,
    /// How far a number may be off, absolutely.
    pub tolerance: Option<f64>,
    /// How far a number may be off, as a share of the expected one.
    pub relative_tolerance: Option<f64>,
    /// Whether letters match regardless of case.
    pub ignore_case: bool,
    /// Whether white space around the text counts; it does not by default.
    pub keep_whitespace: bool,
    /// From which score on it passes: of a judge, or of the weighted parts.
    pub threshold: Option<f64>,
    /// How much it counts among its siblings.
    pub weight: f64,
    /// Whether it must not hold.
    pub negate: bool,
    /// Why it cannot be checked, or a note for whoever judges.
    pub reason: Option<String>,
    /// What `all` or `any` consists of.
    pub parts: Vec<BenchmarkExpected>,
}

impl BenchmarkExpected {
    /// An expectation without a value yet.
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
            weight: 1.0,
            negate: false,
            reason: None,
            parts: Vec::new(),
        }
    }

    /// An expectation with a value.
    pub fn with_value(mode: Mode, value: impl Into<Value>) -> Self {
        Self {
            value: Some(value.into()),
            ..Self::of(mode)
        }
    }

    /// Everything in the list must hold; a single one stands for itself.
    pub fn all(mut parts: Vec<BenchmarkExpected>) -> Self {
        if parts.len() == 1 && parts.first().is_some_and(|part| part.weight == 1.0) {
            // Just checked that there is one.
            return parts.swap_remove(0);
        }
        Self {
            parts,
            ..Self::of(Mode::All)
        }
    }

    /// A check that cannot be carried out.
    pub fn unsupported(reason: impl Into<String>) -> Self {
        Self {
            reason: Some(reason.into()),
            ..Self::of(Mode::Unsupported)
        }
    }

    /// Itself and everything below, depth first.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a BenchmarkExpected)) {
        visit(self);
        for part in &self.parts {
            part.walk(visit);
        }
    }

    /// Why the whole cannot be checked; absent when it can.
    pub fn unsupported_because(&self) -> Option<String> {
        let mut reasons: Vec<&str> = Vec::new();
        self.walk(&mut |part| {
            if part.mode == Mode::Unsupported {
                reasons.push(part.reason.as_deref().unwrap_or("cannot be checked"));
            }
        });
        reasons.dedup();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// Whether a judge is asked anywhere in it.
    pub fn needs_judge(&self) -> bool {
        let mut found = false;
        self.walk(&mut |part| found |= part.mode == Mode::LlmJudge);
        found
    }
}

/// The form in files: one object with every key.
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
    weight: Option<f64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    negate: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
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
            (_, Some(_), Some(_)) => return Err("has both `all` and `any`; nest one in the other"),
            (Some(_), Some(_), _) => return Err("has a mode and `all`; put the mode into the list"),
            (Some(_), _, Some(_)) => return Err("has a mode and `any`; put the mode into the list"),
            (Some(Mode::All | Mode::Any), None, None) => {
                return Err("has no parts; write them as a list under `all` or `any`");
            }
            (Some(mode), None, None) => (mode, Vec::new()),
            (None, None, None) => return Err("has no `mode`"),
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
            weight: self.weight.unwrap_or(1.0),
            negate: self.negate,
            reason: self.reason,
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
            "description": "What an answer must be: one expectation, or a list that must all hold.",
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
            weight: Some(it.weight).filter(|&weight| weight != 1.0),
            negate: it.negate,
            reason: it.reason,
            all,
            any,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for BenchmarkExpected {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectOrList;
        // A hand-written visitor instead of an untagged enum keeps the place of an error inside the object.
        impl<'de> Visitor<'de> for ObjectOrList {
            type Value = BenchmarkExpected;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an expectation, or a list of them")
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
