//! Converts promptfoo assertions to expectations.

use serde_json::{Map, Value, json};

use super::code::program;
use super::{Importer, is_code, render_value};
use crate::bench::code_check::CodeCheck;
use crate::bench::expected::{BenchmarkExpected, Mode};

/// Keys of an assertion that are understood.
const KEYS: [&str; 9] = [
    "type",
    "value",
    "threshold",
    "weight",
    "metric",
    "transform",
    "assert",
    "config",
    "description",
];
/// Keys of an assertion that concern the grading model, which the caller chooses.
const GRADER_KEYS: [&str; 3] = ["provider", "rubricPrompt", "options"];

/// Converts the assertions of a test. `place` gives the place of each; `transforms` change the answer first.
pub(super) fn expectations(
    list: &[Value],
    place: &dyn Fn(usize) -> String,
    transforms: &[&Value],
    vars: &Map<String, Value>,
    importer: &mut Importer<'_>,
) -> Vec<BenchmarkExpected> {
    list.iter()
        .enumerate()
        .map(|(index, item)| expectation(item, &place(index), transforms, vars, importer))
        .collect()
}

fn expectation(
    item: &Value,
    place: &str,
    transforms: &[&Value],
    vars: &Map<String, Value>,
    importer: &mut Importer<'_>,
) -> BenchmarkExpected {
    let template = item.get("$ref").and_then(Value::as_str).map(|reference| {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        importer.templates.get(name).cloned()
    });
    let item = match &template {
        Some(Some(template)) => template,
        _ => item,
    };
    let Some(fields) = item.as_object().filter(|fields| fields.contains_key("type")) else {
        let reason = format!("assertion has no `type`: {item}");
        importer.losses.push_deciding(place, reason.as_str());
        return BenchmarkExpected::unsupported(reason);
    };
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    *importer.report.assertions.entry(kind.to_owned()).or_default() += 1;
    let known: Vec<&str> = KEYS.iter().chain(&GRADER_KEYS).copied().collect();
    importer.losses.unknown_keys(&format!("{place}."), fields, &known);
    for key in GRADER_KEYS.iter().filter(|key| fields.contains_key(**key)) {
        importer.losses.push(
            format!("{place}.{key}"),
            "the caller chooses the judge and its prompt",
        );
    }
    let (base, negate) = kind
        .strip_prefix("not-")
        .map_or((kind, false), |base| (base, true));
    let threshold = fields.get("threshold").and_then(Value::as_f64);
    let transforms: Vec<&Value> = transforms
        .iter()
        .copied()
        .chain(fields.get("transform"))
        .collect();
    let mut expected = if base == "assert-set" {
        let parts = fields
            .get("assert")
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        if parts.is_empty() {
            BenchmarkExpected::unsupported("assert-set without assertions")
        } else {
            let places = |index: usize| format!("{place}.assert[{index}]");
            BenchmarkExpected {
                parts: expectations(parts, &places, &transforms, vars, importer),
                threshold,
                ..BenchmarkExpected::of(Mode::All)
            }
        }
    } else {
        single(base, fields, &transforms, vars, importer)
            .unwrap_or_else(|reason| BenchmarkExpected::unsupported(format!("{kind}: {reason}")))
    };
    if expected.mode == Mode::Unsupported {
        *importer.report.unsupported.entry(kind.to_owned()).or_default() += 1;
        let reason = expected.reason.clone().unwrap_or_default();
        importer.losses.push_deciding(place, reason);
    }
    expected.weight = fields
        .get("weight")
        .and_then(Value::as_f64)
        .unwrap_or(1.0)
        .max(0.0);
    expected.negate = negate;
    expected.name = match render_value(fields.get("metric").unwrap_or(&Value::Null), vars) {
        Value::String(name) if !name.is_empty() => Some(name),
        _ => None,
    };
    expected
}

/// Converts an assertion without parts; the error is the reason why it is not supported.
fn single(
    kind: &str,
    fields: &Map<String, Value>,
    transforms: &[&Value],
    vars: &Map<String, Value>,
    importer: &mut Importer<'_>,
) -> Result<BenchmarkExpected, String> {
    let threshold = fields.get("threshold").and_then(Value::as_f64);
    let transforms = transforms
        .iter()
        .map(|transform| match transform.as_str() {
            Some(code) if !code.starts_with("file://") => Ok(code.to_owned()),
            _ => Err("a transform in a file is not supported; write it as an expression".to_owned()),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mode = match kind {
        "javascript" => Some(Mode::Javascript),
        "python" => Some(Mode::Python),
        _ => None,
    };
    if let Some(mode) = mode {
        if mode == Mode::Python && !transforms.is_empty() {
            return Err("a transform before a Python check is not supported".to_owned());
        }
        let check = CodeCheck {
            transforms,
            config: fields.get("config").cloned(),
            ..code_of(fields.get("value"), mode, vars, importer)?
        };
        return Ok(BenchmarkExpected {
            threshold: threshold.filter(|threshold| (0.0..=1.0).contains(threshold)),
            ..BenchmarkExpected::with_value(mode, check.to_value())
        });
    }
    let value = value_of(fields, vars, importer)?;
    let in_javascript = || {
        program(kind, value.as_ref(), threshold).map(|code| {
            let check = CodeCheck {
                transforms: transforms.clone(),
                ..CodeCheck::inline(code?)
            };
            Ok(BenchmarkExpected::with_value(Mode::Javascript, check.to_value()))
        })
    };
    if !transforms.is_empty() && !matches!(kind, "latency" | "cost") {
        return in_javascript().unwrap_or_else(|| {
            Err("requires a transform of the answer, which is not supported here".to_owned())
        });
    }
    // Types and patterns without an own mode may have a program.
    leaf(kind, value.clone(), threshold).or_else(|reason| match in_javascript() {
        Some(Ok(expected)) if kind == "regex" || reason == NOT_SUPPORTED => Ok(expected),
        Some(Err(reason)) => Err(reason),
        _ => Err(reason),
    })
}

/// Code of a program: inline, or in a file with an optional function.
fn code_of(
    value: Option<&Value>,
    mode: Mode,
    vars: &Map<String, Value>,
    importer: &mut Importer<'_>,
) -> Result<CodeCheck, String> {
    let Some(Value::String(text)) = value else {
        return Err("`value` must be code or the path of a file".to_owned());
    };
    let Some(reference) = text.strip_prefix("file://") else {
        let Value::String(code) = render_value(&Value::String(text.clone()), vars) else {
            return Err("`value` must be code".to_owned());
        };
        return Ok(CodeCheck::inline(code));
    };
    let (file, function) = match reference.split_once(':') {
        Some((file, function)) => (file, Some(function.to_owned())),
        None => (reference, None),
    };
    let ending = super::file_extension(file);
    let runs = match mode {
        Mode::Python => ending == "py",
        _ => matches!(ending.as_str(), "js" | "mjs" | "cjs"),
    };
    if !runs {
        return Err(format!(
            "cannot run {file} (expected a file in .js, .mjs, .cjs or .py)"
        ));
    }
    let (file, _) = importer
        .file(file)
        .ok_or_else(|| format!("file not found: {file}"))?;
    Ok(CodeCheck {
        code: None,
        file: Some(file),
        function,
        ..CodeCheck::inline("")
    })
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

/// Reason for a type that no mode checks.
const NOT_SUPPORTED: &str = "not supported";

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
            threshold: threshold.filter(|threshold| (0.0..=1.0).contains(threshold)),
            ..BenchmarkExpected::with_value(
                Mode::LlmJudge,
                match value {
                    Some(Value::Array(items)) => Value::Array(items),
                    other => Value::String(text(other)?),
                },
            )
        },
        "factuality" | "model-graded-factuality" => BenchmarkExpected::with_value(
            Mode::LlmJudge,
            json!([format!(
                "The answer agrees with this reference and does not contradict it: {}",
                text(value)?
            )]),
        ),
        "similar" => return Err("requires an embedding model".to_owned()),
        "ruby" | "webhook" => return Err("requires running code".to_owned()),
        _ => return Err(NOT_SUPPORTED.to_owned()),
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
