//! Converts promptfoo assertions to expectations.

use serde_json::{Map, Value, json};

use super::{Importer, is_code, render_value};
use crate::bench::expected::{BenchmarkExpected, Mode};

/// Converts the assertions of a test.
pub(super) fn expectations(
    list: &[Value],
    vars: &Map<String, Value>,
    importer: &mut Importer<'_>,
) -> Vec<BenchmarkExpected> {
    list.iter()
        .map(|item| expectation(item, vars, importer))
        .collect()
}

fn expectation(item: &Value, vars: &Map<String, Value>, importer: &mut Importer<'_>) -> BenchmarkExpected {
    let Some(fields) = item.as_object() else {
        return BenchmarkExpected::unsupported(format!("assertion is not an object: {item}"));
    };
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    *importer.report.assertions.entry(kind.to_owned()).or_default() += 1;
    let (base, negate) = kind
        .strip_prefix("not-")
        .map_or((kind, false), |base| (base, true));
    let threshold = fields.get("threshold").and_then(Value::as_f64);
    let mut expected = if fields.contains_key("transform") {
        BenchmarkExpected::unsupported(format!("{kind}: requires a code transform of the answer"))
    } else if base == "assert-set" {
        let parts = fields
            .get("assert")
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        if parts.is_empty() {
            BenchmarkExpected::unsupported("assert-set without assertions")
        } else {
            BenchmarkExpected {
                parts: expectations(parts, vars, importer),
                threshold,
                ..BenchmarkExpected::of(Mode::All)
            }
        }
    } else {
        match value_of(fields, vars, importer) {
            Ok(value) => leaf(base, value, threshold)
                .unwrap_or_else(|reason| BenchmarkExpected::unsupported(format!("{kind}: {reason}"))),
            Err(reason) => BenchmarkExpected::unsupported(format!("{kind}: {reason}")),
        }
    };
    if expected.mode == Mode::Unsupported {
        *importer.report.unsupported.entry(kind.to_owned()).or_default() += 1;
    }
    expected.weight = fields
        .get("weight")
        .and_then(Value::as_f64)
        .unwrap_or(1.0)
        .max(0.0);
    expected.negate = negate;
    expected
}

/// Value of the assertion, with its file read and its variables substituted.
fn value_of(
    fields: &Map<String, Value>,
    vars: &Map<String, Value>,
    importer: &mut Importer<'_>,
) -> Result<Option<Value>, String> {
    match fields.get("value") {
        Some(Value::String(reference)) if reference.starts_with("file://") => {
            if is_code(reference) {
                return Err(format!("{reference} requires running code"));
            }
            let Some((name, text)) = importer.file(reference) else {
                return Err(format!("file not found: {reference}"));
            };
            let parsed = crate::bench::reader::parse(crate::bench::Named {
                file: &name,
                text: &text,
            });
            Ok(Some(parsed.unwrap_or(Value::String(text))))
        }
        Some(value) => Ok(Some(render_value(value, vars))),
        None => Ok(None),
    }
}

fn leaf(kind: &str, value: Option<Value>, threshold: Option<f64>) -> Result<BenchmarkExpected, String> {
    let ignore_case = kind.starts_with("icontains");
    let contains = |value: Value| BenchmarkExpected {
        ignore_case,
        keep_whitespace: true,
        ..BenchmarkExpected::with_value(Mode::Contains, value)
    };
    Ok(match kind {
        "equals" => BenchmarkExpected {
            keep_whitespace: true,
            ..BenchmarkExpected::with_value(Mode::Exact, value.ok_or("`value` is missing")?)
        },
        "contains" | "icontains" => contains(Value::String(text(value)?)),
        "contains-all" | "icontains-all" => contains(json!(texts(value)?)),
        "contains-any" | "icontains-any" => BenchmarkExpected {
            parts: texts(value)?
                .into_iter()
                .map(|text| contains(Value::String(text)))
                .collect(),
            ..BenchmarkExpected::of(Mode::Any)
        },
        "starts-with" => {
            let pattern = format!(r"\A{}", regex::escape(&text(value)?));
            BenchmarkExpected::with_value(Mode::Regex, pattern)
        }
        "regex" => {
            let pattern = text(value)?;
            regex::Regex::new(&pattern)
                .map_err(|_| format!("`{pattern}` is not a supported regular expression"))?;
            BenchmarkExpected::with_value(Mode::Regex, pattern)
        }
        "is-json" => {
            let schema = match value {
                None | Some(Value::Null) => json!(true),
                // Schemas may also be given as a YAML string.
                Some(Value::String(text)) => {
                    crate::yaml::parse(&text).map_err(|_| "cannot parse the schema")?
                }
                Some(schema) => schema,
            };
            crate::bench::json_schema::check(&schema).map_err(|error| format!("the schema {error}"))?;
            BenchmarkExpected::with_value(Mode::JsonSchema, schema)
        }
        "latency" => at_most("latency_ms", threshold.ok_or("`threshold` is missing")?),
        "cost" => at_most("cost_usd", threshold.ok_or("`threshold` is missing")?),
        "llm-rubric" | "model-graded-closedqa" | "g-eval" => BenchmarkExpected {
            threshold,
            ..BenchmarkExpected::with_value(
                Mode::LlmJudge,
                match value {
                    Some(Value::Array(items)) => Value::Array(items),
                    other => Value::String(text(other)?),
                },
            )
        },
        "similar" => return Err("requires an embedding model".to_owned()),
        "javascript" | "python" | "ruby" | "webhook" => return Err("requires running code".to_owned()),
        _ => return Err("not supported".to_owned()),
    })
}

fn at_most(metric: &str, bound: f64) -> BenchmarkExpected {
    BenchmarkExpected {
        metric_thresholds: Some([(metric.to_owned(), bound)].into()),
        ..BenchmarkExpected::of(Mode::MetricThreshold)
    }
}

fn text(value: Option<Value>) -> Result<String, String> {
    match value {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(Value::Bool(truth)) => Ok(truth.to_string()),
        _ => Err("`value` must be a string".to_owned()),
    }
}

/// Accepts a list, or a string with commas.
fn texts(value: Option<Value>) -> Result<Vec<String>, String> {
    let list: Vec<String> = match value {
        Some(Value::Array(items)) => items
            .into_iter()
            .map(|item| text(Some(item)))
            .collect::<Result<_, _>>()?,
        Some(Value::String(line)) => line
            .split(',')
            .map(|part| part.trim().to_owned())
            .filter(|part| !part.is_empty())
            .collect(),
        _ => Vec::new(),
    };
    if list.is_empty() {
        Err("`value` must be a list of strings".to_owned())
    } else {
        Ok(list)
    }
}
