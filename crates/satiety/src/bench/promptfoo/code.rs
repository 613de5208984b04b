//! Assertions as JavaScript: those that promptfoo evaluates in JavaScript itself, and simple ones behind a
//! transform, which is JavaScript and has to run first.

use serde_json::{Value, json};

/// First line of every program: the answer as text.
const TEXT: &str = "const text = typeof output === 'string' ? output : JSON.stringify(output);";

/// Program of an assertion; `None` if it has none, the error says what is wrong with its value.
pub(super) fn program(
    kind: &str,
    value: Option<&Value>,
    threshold: Option<f64>,
) -> Option<Result<String, String>> {
    let value = value.cloned().unwrap_or(Value::Null);
    let list = || match &value {
        Value::String(line) => json!(line.split(',').map(str::trim).collect::<Vec<_>>()),
        value => value.clone(),
    };
    let lower = kind.starts_with('i') && kind != "is-json";
    let (answer, fold) = if lower {
        ("text.toLowerCase()", "String(part).toLowerCase()")
    } else {
        ("text", "String(part)")
    };
    let body = match kind {
        "equals" if value.is_object() || value.is_array() => format!(
            "return process.mainModule.require('node:util').isDeepStrictEqual(JSON.parse(text), {value});"
        ),
        "equals" => format!("return text === String({value});"),
        "contains" | "icontains" => format!("return [{value}].every((part) => {answer}.includes({fold}));"),
        "contains-all" | "icontains-all" => {
            format!("return {}.every((part) => {answer}.includes({fold}));", list())
        }
        "contains-any" | "icontains-any" => {
            format!("return {}.some((part) => {answer}.includes({fold}));", list())
        }
        "starts-with" => format!("return text.startsWith({value});"),
        "regex" => format!("return new RegExp({value}).test(text);"),
        "is-json" if value.is_null() => "JSON.parse(text);\nreturn true;".to_owned(),
        "contains-json" if value.is_null() => CONTAINS_JSON.to_owned(),
        "levenshtein" => format!(
            "const other = {value};\n{LEVENSHTEIN}\nreturn row[other.length] <= {};",
            threshold.unwrap_or(5.0)
        ),
        "word-count" => match word_bounds(&value) {
            Some((low, high)) => format!(
                "const words = text.split(/\\s+/).filter((word) => word).length;\nreturn words >= {low} && words <= {high};"
            ),
            None => {
                return Some(Err(
                    "`value` must be a number, or an object with `min` or `max`".to_owned()
                ));
            }
        },
        _ => return None,
    };
    let needs_value = !matches!(kind, "is-json" | "contains-json");
    if needs_value && value.is_null() {
        return Some(Err("`value` is missing".to_owned()));
    }
    Some(Ok(format!("{TEXT}\n{body}")))
}

/// Whether any bracket in the text opens valid JSON.
const CONTAINS_JSON: &str = "for (let start = 0; start < text.length; start += 1) {
  if (text[start] !== '{' && text[start] !== '[') continue;
  for (let end = text.length; end > start + 1; end -= 1) {
    if (text[end - 1] !== '}' && text[end - 1] !== ']') continue;
    try {
      JSON.parse(text.slice(start, end));
      return true;
    } catch {}
  }
}
return false;";

/// Edit distance between `text` and `other`, in the last element of `row`.
const LEVENSHTEIN: &str = "let row = Array.from({ length: other.length + 1 }, (_, index) => index);
for (let at = 1; at <= text.length; at += 1) {
  const next = [at];
  for (let to = 1; to <= other.length; to += 1) {
    const same = text[at - 1] === other[to - 1] ? 0 : 1;
    next.push(Math.min(row[to] + 1, next[to - 1] + 1, row[to - 1] + same));
  }
  row = next;
}";

fn word_bounds(value: &Value) -> Option<(f64, String)> {
    let infinite = || "Infinity".to_owned();
    match value {
        Value::Object(bounds) => {
            let bound = |key: &str| bounds.get(key).and_then(Value::as_f64);
            let (low, high) = (bound("min"), bound("max"));
            (low.is_some() || high.is_some()).then(|| {
                (
                    low.unwrap_or(0.0),
                    high.map_or_else(infinite, |high| high.to_string()),
                )
            })
        }
        Value::Number(count) => count.as_f64().map(|count| (count, count.to_string())),
        Value::String(text) => {
            let count: f64 = text.trim().parse().ok()?;
            Some((count, count.to_string()))
        }
        _ => None,
    }
}
