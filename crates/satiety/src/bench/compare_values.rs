//! Lenient conversion of answers to text, JSON and numbers: models wrap JSON in code fences and numbers in
//! sentences.

use std::ops::Range;
use std::sync::LazyLock;

use serde_json::Value;

/// The answer as text: strings unchanged, all other values as JSON.
pub(super) fn as_text(output: &Value) -> String {
    match output {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        json => json.to_string(),
    }
}

/// The answer as JSON: strings are parsed, with or without a code fence around them.
pub(super) fn as_json(output: &Value) -> Option<Value> {
    let Value::String(text) = output else {
        return Some(output.clone());
    };
    let text = text.trim();
    serde_json::from_str(text).ok().or_else(|| {
        let inner = text.strip_prefix("```")?.strip_suffix("```")?;
        // The first line of a fence may name the language.
        let (_, inner) = inner.split_once('\n')?;
        serde_json::from_str(inner.trim()).ok()
    })
}

/// Compares two JSON values; 1 equals 1.0.
pub(super) fn same_json(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same_json(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, value)| right.get(key).is_some_and(|other| same_json(value, other)))
        }
        _ => left == right,
    }
}

/// The pattern is constant, and tests compile it.
static NUMBER: LazyLock<Option<regex::Regex>> = LazyLock::new(|| {
    regex::Regex::new(r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?").ok()
});

/// Extracts the number of an answer. JSON numbers are used directly; in a text the last number counts,
/// because results come at the end ("3 apples and 4 pears make 7"). Commas between groups of three digits are
/// ignored.
pub(super) fn number_in(output: &Value) -> Option<f64> {
    if let Value::Number(number) = output {
        return number.as_f64();
    }
    let text = as_text(output);
    if let Ok(number) = text.trim().parse::<f64>() {
        return number.is_finite().then_some(number);
    }
    numbers_of(&text).last().map(|(_, number)| number)
}

/// Place of the number that [`number_in`] takes from a text.
pub(super) fn number_span(text: &str) -> Option<Range<usize>> {
    if let Ok(number) = text.trim().parse::<f64>() {
        let start = text.len() - text.trim_start().len();
        return number.is_finite().then(|| start..start + text.trim().len());
    }
    numbers_of(text).last().map(|(range, _)| range)
}

/// Numbers of a text with their places, in order.
fn numbers_of(text: &str) -> impl Iterator<Item = (Range<usize>, f64)> + '_ {
    let found = NUMBER.as_ref().map(|regex| regex.find_iter(text));
    found.into_iter().flatten().filter_map(|found| {
        // A hyphen after a letter or digit joins words ("GPT-4", "10-12") and is not a minus sign.
        let joined = text[..found.start()]
            .chars()
            .next_back()
            .is_some_and(char::is_alphanumeric);
        let digits = found.as_str().replace(',', "");
        let digits = if joined {
            digits.trim_start_matches(['-', '+'])
        } else {
            &digits
        };
        let number = digits.parse::<f64>().ok()?;
        number.is_finite().then_some((found.range(), number))
    })
}

/// Quotes a text for a message, on one line and truncated to 80 characters.
pub(super) fn shorten(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= MAX_CHARS {
        return format!("`{line}`");
    }
    let cut: String = line.chars().take(MAX_CHARS).collect();
    format!("`{cut}…`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_in_answers() {
        for (text, expected) in [
            ("42", Some(42.0)),
            (" -1.5e3 ", Some(-1500.0)),
            ("The answer is 1,234.5.", Some(1234.5)),
            ("3 apples and 4 pears make 7", Some(7.0)),
            ("about .5", Some(0.5)),
            ("1,234,567 of them", Some(1_234_567.0)),
            ("use GPT-4", Some(4.0)),
            ("it is -4", Some(-4.0)),
            ("12,34", Some(34.0)),
            ("none", None),
            ("NaN", None),
        ] {
            assert_eq!(number_in(&json!(text)), expected, "{text}");
        }
        assert_eq!(number_in(&json!(2.5)), Some(2.5));
    }

    #[test]
    fn json_in_answers() {
        assert_eq!(as_json(&json!("{\"a\": 1}")), Some(json!({"a": 1})));
        assert_eq!(as_json(&json!("```json\n[1, 2]\n```")), Some(json!([1, 2])));
        assert_eq!(as_json(&json!("no json")), None);
        assert!(same_json(&json!({"a": [1.0]}), &json!({"a": [1]})));
        assert!(!same_json(&json!({"a": 1}), &json!({"a": 1, "b": 2})));
        assert!(!same_json(&json!([1, 2]), &json!([2, 1])));
    }
}
