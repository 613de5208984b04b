//! Assertions of promptfoo as expectations of ours.

use serde_json::{Map, Value, json};

use super::{Importer, is_code, rendered};
use crate::bench::expected::{BenchmarkExpected, Mode};

/// A test's assertions.
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
        return BenchmarkExpected::unsupported(format!("an assertion that is no object: {item}"));
    };
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    *importer.report.assertions.entry(kind.to_owned()).or_default() += 1;
    let (base, negate) = kind
        .strip_prefix("not-")
        .map_or((kind, false), |base| (base, true));
    let threshold = fields.get("threshold").and_then(Value::as_f64);
    let mut expected = if fields.contains_key("transform") {
        BenchmarkExpected::unsupported(format!("{kind}: the answer is transformed by code first"))
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

/// The assertion's value with its file read and its variables put in.
fn value_of(
    fields: &Map<String, Value>,
    vars: &Map<String, Value>,
    importer: &mut Importer<'_>,
) -> Result<Option<Value>, String> {
    match fields.get("value") {
        Some(Value::String(reference)) if reference.starts_with("file://") => {
            if is_code(reference) {
                return Err(format!("{reference} is code"));
            }
            let Some((name, text)) = importer.file(reference) else {
                return Err(format!("{reference} was not found"));
            };
            let parsed = crate::bench::reader::parse(crate::bench::Named {
                file: &name,
                text: &text,
            });
            Ok(Some(parsed.unwrap_or(Value::String(text))))
        }
        Some(value) => Ok(Some(rendered(value, vars))),
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
            ..BenchmarkExpected::with_value(Mode::Exact, value.ok_or("has no value")?)
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
            regex::Regex::new(&pattern).map_err(|_| format!("`{pattern}` is no regular expression here"))?;
            BenchmarkExpected::with_value(Mode::Regex, pattern)
        }
        "is-json" => {
            let schema = match value {
                None | Some(Value::Null) => json!(true),
                // Schemas are written as YAML in a text, too.
                Some(Value::String(text)) => {
                    crate::yaml::parse(&text).map_err(|_| "the schema cannot be read")?
                }
                Some(schema) => schema,
            };
            crate::bench::json_schema::check(&schema).map_err(|error| format!("the schema {error}"))?;
            BenchmarkExpected::with_value(Mode::JsonSchema, schema)
        }
        "latency" => at_most("latency_ms", threshold.ok_or("has no threshold")?),
        "cost" => at_most("cost_usd", threshold.ok_or("has no threshold")?),
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
        "similar" => return Err("needs a sentence model".to_owned()),
        "javascript" | "python" | "ruby" | "webhook" => return Err("runs code outside".to_owned()),
        _ => return Err("is not supported".to_owned()),
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
        _ => Err("has no text as its value".to_owned()),
    }
}

/// A list, or a text with commas.
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
        Err("has no texts as its value".to_owned())
    } else {
        Ok(list)
    }
}
