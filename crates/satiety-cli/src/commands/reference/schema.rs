//! JSON Schemas as Markdown: a phrase for a type, a table for the fields of an object.

use std::fmt::Write;

use serde_json::{Map, Value};

/// Limits that follow from the integer type in the source and say nothing about the field.
const TYPE_LIMITS: [f64; 8] = [
    0.0,
    u8::MAX as f64,
    u16::MAX as f64,
    i32::MAX as f64,
    i32::MIN as f64,
    u32::MAX as f64,
    9_007_199_254_740_991.0,
    -9_007_199_254_740_991.0,
];

/// Table of the fields of an object: name, type, description. Named types link to `page`.
pub(super) fn field_table(schema: &Value, page: &str) -> String {
    let Some(fields) = schema["properties"]
        .as_object()
        .filter(|fields| !fields.is_empty())
    else {
        return String::new();
    };
    let mut text = "| field | type | description |\n|---|---|---|\n".to_owned();
    for (name, field) in fields {
        let mut kinds = alternatives(field, page);
        let optional = if is_required(schema, name) {
            ""
        } else {
            // An optional field is omitted rather than null.
            kinds.retain(|kind| kind != "null");
            ", optional"
        };
        let _ = writeln!(
            text,
            "| `{name}` | {}{optional} | {} |",
            join(&kinds),
            description(field)
        );
    }
    text
}

/// Section about a named type.
pub(super) fn section(name: &str, schema: &Value) -> String {
    let mut text = format!("## {name}\n\n");
    let about = description(schema);
    if !about.is_empty() {
        let _ = write!(text, "{about}\n\n");
    }
    let fields = field_table(schema, "");
    let choices = choices(schema);
    if fields.is_empty() && choices.is_empty() {
        let _ = write!(text, "A JSON {}.\n\n", type_text(schema, ""));
        return text;
    }
    if !fields.is_empty() {
        let _ = writeln!(text, "{fields}");
    }
    // Alternatives that only require one field or another repeat the fields above.
    if fields.is_empty() || choices.iter().any(|choice| choice.get("type").is_some()) {
        let _ = writeln!(text, "| value | meaning |\n|---|---|");
        for choice in choices {
            let _ = writeln!(text, "| {} | {} |", type_text(choice, ""), description(choice));
        }
        text.push('\n');
    }
    text
}

fn choices(schema: &Value) -> Vec<&Value> {
    let lists = ["oneOf", "anyOf"].iter().filter_map(|key| schema[key].as_array());
    lists.flatten().collect()
}

fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema["required"].as_array();
    required.is_some_and(|all| all.iter().any(|one| one == name))
}

/// First paragraph of a description, for a cell of a table.
pub(super) fn description(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    let first = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = first.split_whitespace().collect();
    // Links between items of the source lead nowhere on a page.
    let text = words.join(" ").replace("[`", "`").replace("`]", "`");
    text.replace('|', "\\|")
}

/// Phrase for a type: `integer from 1 to 200`, `list of [Finding](#finding)`. Named types link to `page`.
pub(super) fn type_text(schema: &Value, page: &str) -> String {
    join(&alternatives(schema, page))
}

fn join(all: &[String]) -> String {
    match all {
        [] => "any value".into(),
        [only] => only.clone(),
        [others @ .., last] => format!("{} or {last}", others.join(", ")),
    }
}

/// The types that a value may have; empty if it may have any.
fn alternatives(schema: &Value, page: &str) -> Vec<String> {
    if let Some(name) = schema["$ref"]
        .as_str()
        .and_then(|target| target.rsplit('/').next())
    {
        let link = format!("[{name}]({page}#{})", name.to_lowercase());
        // The tag of an enum is added to the fields of its variant.
        return vec![match named_fields(schema, page) {
            Some(fields) => format!("{link} with {fields}"),
            None => link,
        }];
    }
    if let Some(value) = schema.get("const") {
        return vec![code(value)];
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(code).collect();
    }
    if let Some([only]) = schema["allOf"].as_array().map(Vec::as_slice) {
        return alternatives(only, page);
    }
    let choices = choices(schema);
    if !choices.is_empty() && schema.get("properties").is_none() {
        let mut all: Vec<String> = choices
            .into_iter()
            .flat_map(|choice| alternatives(choice, page))
            .collect();
        all.dedup();
        return all;
    }
    match &schema["type"] {
        Value::Array(kinds) => kinds
            .iter()
            .filter_map(Value::as_str)
            .map(|kind| of_kind(kind, schema, page))
            .collect(),
        Value::String(kind) => vec![of_kind(kind, schema, page)],
        _ => Vec::new(),
    }
}

fn of_kind(kind: &str, schema: &Value, page: &str) -> String {
    match kind {
        "array" => list(schema, page),
        "object" => object(schema, page),
        "string" => string(schema),
        "integer" | "number" => match range(schema, "minimum", "maximum") {
            Some(range) if range.contains(" to ") => format!("{kind} from {range}"),
            Some(range) => format!("{kind}, {range}"),
            None => kind.to_owned(),
        },
        other => other.to_owned(),
    }
}

fn list(schema: &Value, page: &str) -> String {
    if let Some(items) = schema["prefixItems"].as_array() {
        let items: Vec<String> = items.iter().map(|item| type_text(item, page)).collect();
        return format!("list with {}", items.join(", then "));
    }
    let items = schema
        .get("items")
        .map_or_else(|| "any value".into(), |items| type_text(items, page));
    match range(schema, "minItems", "maxItems") {
        Some(size) if size == "at least 1" => format!("non-empty list of {items}"),
        Some(size) => format!("list of {size} items, each {items}"),
        None => format!("list of {items}"),
    }
}

fn object(schema: &Value, page: &str) -> String {
    if let Some(fields) = named_fields(schema, page) {
        return format!("object with {fields}");
    }
    match schema.get("additionalProperties") {
        Some(values @ Value::Object(fields)) if *fields != Map::new() => {
            format!("map to {}", type_text(values, page))
        }
        _ => "object".into(),
    }
}

/// `name (type), …`, or nothing without fields.
fn named_fields(schema: &Value, page: &str) -> Option<String> {
    let fields = schema["properties"].as_object()?;
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, field)| format!("`{name}` ({})", type_text(field, page)))
        .collect();
    (!fields.is_empty()).then(|| fields.join(", "))
}

fn string(schema: &Value) -> String {
    match schema["format"].as_str() {
        Some("date-time") => return "time (RFC 3339)".into(),
        Some("date") => return "date (RFC 3339)".into(),
        _ => {}
    }
    match range(schema, "minLength", "maxLength") {
        Some(length) if length == "at least 1" => "non-empty string".into(),
        Some(length) => format!("string of {length} characters"),
        None => "string".into(),
    }
}

/// `1 to 20`, `at least 1` or `at most 20`.
fn range(schema: &Value, least: &str, most: &str) -> Option<String> {
    let limit = |key: &str| {
        let limit = schema.get(key)?.as_f64()?;
        Some((limit, TYPE_LIMITS.contains(&limit)))
    };
    match (limit(least), limit(most)) {
        (Some((least, _)), Some((most, false))) => Some(format!("{least} to {most}")),
        (None, Some((most, false))) => Some(format!("at most {most}")),
        (Some((least, false)), _) => Some(format!("at least {least}")),
        _ => None,
    }
}

fn code(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn types_are_described_with_their_bounds() {
        let check = |schema: Value, expected: &str| assert_eq!(type_text(&schema, "objects.md"), expected);
        check(
            json!({"type": "string", "maxLength": 9}),
            "string of at most 9 characters",
        );
        check(
            json!({"type": ["integer", "null"], "minimum": 0, "maximum": 4294967295_u32}),
            "integer or null",
        );
        check(
            json!({"type": "integer", "minimum": 1, "maximum": 200}),
            "integer from 1 to 200",
        );
        check(
            json!({"type": "number", "minimum": 0.0, "maximum": 1.0}),
            "number from 0 to 1",
        );
        check(
            json!({"anyOf": [{"$ref": "#/$defs/Tier"}, {"type": "null"}]}),
            "[Tier](objects.md#tier) or null",
        );
        check(
            json!({"oneOf": [{"const": "a"}, {"const": "b"}, {"const": "c"}]}),
            "`a`, `b` or `c`",
        );
        check(
            json!({"type": "array", "items": {"type": "string"}, "maxItems": 20}),
            "list of at most 20 items, each string",
        );
        check(
            json!({"type": "object", "additionalProperties": {"type": "number"}}),
            "map to number",
        );
        check(
            json!({"$ref": "#/$defs/Run", "type": "object", "properties": {"kind": {"const": "run"}}}),
            "[Run](objects.md#run) with `kind` (`run`)",
        );
        check(json!(true), "any value");
        check(json!({"type": "string", "minLength": 1}), "non-empty string");
        check(json!({"enum": ["a", "b", null]}), "`a`, `b` or null");
    }
}
