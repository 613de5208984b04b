//! Converts promptfoo assertions to expectations.

use serde_json::{Map, Value, json};

use super::code::{extracted_objects, program};
use super::patterns::portable_pattern;
use super::template::render_value;
use super::{Importer, is_code};
use crate::bench::code_check::{CodeCheck, Language, Transform};
use crate::bench::expected::{BenchmarkExpected, Mode};

/// Keys of an assertion that are understood.
const KEYS: [&str; 10] = [
    "type",
    "value",
    "threshold",
    "weight",
    "metric",
    "transform",
    "assert",
    "config",
    "description",
    "name",
];
/// Keys of an assertion that concern the grading model, which the caller chooses.
const GRADER_KEYS: [&str; 4] = ["provider", "rubricPrompt", "options", "contextTransform"];

/// An expectation that any answer meets.
pub(super) fn answered() -> BenchmarkExpected {
    BenchmarkExpected::with_value(Mode::Regex, "")
}

/// Converts the assertions of a test. `place` gives the place of each.
pub(super) fn expectations(
    list: &[Value],
    place: &dyn Fn(usize) -> String,
    vars: &Map<String, Value>,
    importer: &mut Importer<'_>,
) -> Vec<BenchmarkExpected> {
    list.iter()
        .enumerate()
        .map(|(index, item)| expectation(item, &place(index), vars, importer))
        .collect()
}

fn expectation(
    item: &Value,
    place: &str,
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
                parts: expectations(parts, &places, vars, importer),
                threshold,
                ..BenchmarkExpected::of(Mode::All)
            }
        }
    } else {
        single(base, fields, vars, importer)
            .unwrap_or_else(|reason| BenchmarkExpected::unsupported(format!("{kind}: {reason}")))
    };
    if let Some(Value::String(code)) = fields.get("transform")
        && !code.is_empty()
    {
        match importer.transform(code) {
            Ok(transform) => expected.transforms.insert(0, transform),
            Err(reason) => expected = BenchmarkExpected::unsupported(format!("{kind}: {reason}")),
        }
    }
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
    expected.name = match render_value(fields.get("metric").unwrap_or(&Value::Null), vars, &importer.env) {
        Value::String(name) if !name.is_empty() => Some(name),
        _ => None,
    };
    expected
}

/// Converts an assertion without parts; the error is the reason why it is not supported.
fn single(
    kind: &str,
    fields: &Map<String, Value>,
    vars: &Map<String, Value>,
    importer: &mut Importer<'_>,
) -> Result<BenchmarkExpected, String> {
    let threshold = fields.get("threshold").and_then(Value::as_f64);
    let mode = match kind {
        "javascript" => Some(Mode::Javascript),
        "python" => Some(Mode::Python),
        _ => None,
    };
    if let Some(mode) = mode {
        let check = CodeCheck {
            config: fields.get("config").cloned(),
            ..code_of(fields.get("value"), mode, vars, importer)?
        };
        return Ok(BenchmarkExpected {
            threshold,
            ..BenchmarkExpected::with_value(mode, check.to_value())
        });
    }
    let value = value_of(fields, vars, importer)?;
    // Types and patterns without an own mode may have a program.
    leaf(kind, value.clone(), threshold).or_else(|reason| {
        let own = kind == "regex" || reason == NOT_SUPPORTED;
        match program(kind, value.as_ref(), threshold).filter(|_| own) {
            Some(code) => Ok(BenchmarkExpected {
                threshold: Some(code.threshold).filter(|least| *least > 0.0),
                ..BenchmarkExpected::with_value(Mode::Javascript, code.source?)
            }),
            None => Err(reason),
        }
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
    if !text.starts_with("file://") {
        let Value::String(code) = render_value(&Value::String(text.clone()), vars, &importer.env) else {
            return Err("`value` must be code".to_owned());
        };
        return Ok(CodeCheck::inline(code));
    }
    let found = importer.code_reference(text)?;
    let wanted = match mode {
        Mode::Python => Language::Python,
        _ => Language::Javascript,
    };
    if found.language != wanted {
        return Err(format!("{} is a file in another language", found.file));
    }
    Ok(CodeCheck {
        code: None,
        file: Some(found.file),
        function: found.function,
        config: None,
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
        Some(value) => Ok(Some(render_value(value, vars, &importer.env))),
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
            ..BenchmarkExpected::with_value(
                Mode::Exact,
                match value.ok_or("`value` is missing")? {
                    value @ (Value::Object(_) | Value::Array(_)) => value,
                    other => Value::String(super::template::as_js_text(&other)),
                },
            )
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
            let portable = portable_pattern(&pattern).ok_or("needs JavaScript")?;
            BenchmarkExpected::with_value(Mode::Regex, portable)
        }
        "is-json" => BenchmarkExpected::with_value(Mode::JsonSchema, schema(value)?),
        "contains-json" => BenchmarkExpected {
            transforms: vec![Transform::inline(extracted_objects())],
            ..BenchmarkExpected::with_value(
                Mode::JsonSchema,
                json!({"type": "array", "contains": schema(value)?}),
            )
        },
        "latency" => at_most("latency_ms", threshold.ok_or("`threshold` is missing")?),
        "cost" => at_most("cost_usd", threshold.ok_or("`threshold` is missing")?),
        "similar" | "similar:cosine" | "similar:dot" => similar(value, threshold.unwrap_or(0.75))?,
        // For vectors of length 1, a similarity s = 1 / (1 + distance) is a cosine of 1 - distance^2 / 2.
        "similar:euclidean" => {
            let distance = 1.0 / threshold.unwrap_or(0.75).max(f64::EPSILON) - 1.0;
            similar(value, 1.0 - distance * distance / 2.0)?
        }
        _ => match judged(kind, value.as_ref(), threshold) {
            Some(expected) => expected?,
            None => return Err(unsupported(kind).to_owned()),
        },
    })
}

/// Expectation for a judge, if the type is one.
fn judged(
    kind: &str,
    value: Option<&Value>,
    threshold: Option<f64>,
) -> Option<Result<BenchmarkExpected, String>> {
    let criterion = |before: &str| text(value.cloned()).map(|text| json!([format!("{before}{text}")]));
    let rubric = match kind {
        "llm-rubric" | "model-graded-closedqa" | "g-eval" | "agent-rubric" => match value {
            Some(Value::Array(items)) if items.iter().all(Value::is_string) => Ok(json!(items)),
            Some(object @ Value::Object(_)) => Ok(Value::String(object.to_string())),
            other => text(other.cloned()).map(Value::String),
        },
        "factuality" | "model-graded-factuality" => {
            criterion("The answer agrees with this reference and does not contradict it: ")
        }
        "answer-relevance" => Ok(json!([
            "The answer addresses the question and stays on its topic."
        ])),
        "context-recall" => criterion("The context given with the question supports this statement: "),
        "context-faithfulness" => Ok(json!([
            "The context given with the question supports every statement of the answer."
        ])),
        "context-relevance" => Ok(json!([
            "The context given with the question is relevant to answering it."
        ])),
        "conversation-relevance" => Ok(json!(["The answer is relevant to the conversation before it."])),
        _ => return None,
    };
    Some(rubric.map(|rubric| BenchmarkExpected {
        threshold: threshold.filter(|threshold| (0.0..=1.0).contains(threshold)),
        ..BenchmarkExpected::with_value(Mode::LlmJudge, rubric)
    }))
}

fn similar(value: Option<Value>, threshold: f64) -> Result<BenchmarkExpected, String> {
    let value = match value {
        Some(Value::Array(items)) if !items.is_empty() && items.iter().all(Value::is_string) => {
            Value::Array(items)
        }
        other => Value::String(text(other)?),
    };
    Ok(BenchmarkExpected {
        threshold: Some(threshold.clamp(0.0, 1.0)),
        ..BenchmarkExpected::with_value(Mode::Similar, value)
    })
}

/// JSON Schema of an assertion, which may be a string in YAML; `true` if there is none.
fn schema(value: Option<Value>) -> Result<Value, String> {
    let schema = match value {
        None | Some(Value::Null) => json!(true),
        Some(Value::String(text)) => crate::yaml::parse(&text).map_err(|_| "cannot parse the schema")?,
        Some(schema) => schema,
    };
    crate::bench::json_schema::check(&schema).map_err(|error| format!("the schema {error}"))?;
    Ok(schema)
}

/// Reason why a type is not supported.
fn unsupported(kind: &str) -> &'static str {
    match kind {
        "ruby" | "webhook" => "requires running code",
        "perplexity" | "perplexity-score" => "requires token probabilities, which targets do not report",
        "moderation" | "guardrails" | "pi" | "classifier" => "requires a hosted classifier",
        "select-best" | "max-score" => "compares the answers of several prompts, which is not supported",
        "human" => "requires a person; use a suite with the mode `human`",
        kind if kind.starts_with("trace") => "requires traces of the target",
        kind if kind.starts_with("promptfoo:redteam:") => "requires promptfoo's red-team graders",
        _ => NOT_SUPPORTED,
    }
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
        Some(value @ Value::Number(_)) => Ok(super::template::as_js_text(&value)),
        Some(Value::Bool(truth)) => Ok(truth.to_string()),
        _ => Err("`value` must be a string".to_owned()),
    }
}

/// Accepts a list, or a string with commas. Fields in double quotes may contain commas.
fn texts(value: Option<Value>) -> Result<Vec<String>, String> {
    let list: Vec<String> = match value {
        Some(Value::Array(items)) => items
            .into_iter()
            .map(|item| text(Some(item)))
            .collect::<Result<_, _>>()?,
        Some(Value::String(line)) => fields_of(&line),
        _ => Vec::new(),
    };
    if list.is_empty() {
        Err("`value` must be a list of strings".to_owned())
    } else {
        Ok(list)
    }
}

fn fields_of(line: &str) -> Vec<String> {
    let mut fields = Vec::new();
    let mut rest = line.trim_start_matches([' ', '\t', '\n', '\r', ',']);
    while !rest.is_empty() {
        let after = if let Some(quoted) = rest.strip_prefix('"') {
            let (mut field, mut left) = (String::new(), quoted);
            // A doubled quote stands for one.
            while let Some((part, after)) = left.split_once('"') {
                field += part;
                left = after;
                let Some(after) = after.strip_prefix('"') else {
                    break;
                };
                field.push('"');
                left = after;
            }
            fields.push(field);
            left
        } else {
            let (field, after) = rest.split_once(',').unwrap_or((rest, ""));
            fields.push(field.trim().to_owned());
            after
        };
        rest = after.trim_start_matches([' ', '\t', '\n', '\r', ',']);
    }
    fields
}
