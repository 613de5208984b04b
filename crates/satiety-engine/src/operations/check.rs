//! Validates requests against the published JSON Schema. Requests are deserialised first, because serde's
//! errors are more specific; this module then checks lengths, ranges and patterns.

use std::collections::HashMap;
use std::ops::BitOr;

use regex::Regex;
use serde_json::{Map, Value, json};

use super::CallError;

/// JSON Schema with compiled patterns.
#[derive(Debug)]
pub(super) struct Checker {
    schema: Value,
    patterns: HashMap<String, Regex>,
}

impl Checker {
    /// Creates a checker; references are resolved within the schema itself.
    pub(super) fn new(schema: Value) -> Self {
        let mut patterns = HashMap::new();
        collect_patterns(&schema, &mut patterns);
        Self { schema, patterns }
    }

    /// Returns an error naming the first field that violates the schema.
    pub(super) fn check(&self, value: &Value) -> Result<(), CallError> {
        self.check_part(&self.schema, value, "")
    }

    fn check_part(&self, schema: &Value, value: &Value, place: &str) -> Result<(), CallError> {
        let Value::Object(rules) = schema else {
            return match schema {
                Value::Bool(false) => Err(invalid(place, "is not allowed")),
                _ => Ok(()),
            };
        };
        if let Some(target) = rules.get("$ref").and_then(Value::as_str)
            && let Some(part) = self.schema.pointer(target.trim_start_matches('#'))
        {
            self.check_part(part, value, place)?;
        }
        check_type(rules, value, place)?;
        for part in list(rules, "allOf") {
            self.check_part(part, value, place)?;
        }
        self.check_alternatives(rules, value, place)?;
        match value {
            Value::Number(_) => check_number(rules, value.as_f64().unwrap_or(f64::NAN), place),
            Value::String(text) => self.check_text(rules, text, place),
            Value::Array(items) => {
                let count = items.len() as u64;
                check_length(rules, ("minItems", "maxItems"), count, "entries", place)?;
                let repeats = || (1..items.len()).any(|at| items[..at].contains(&items[at]));
                if rules.get("uniqueItems") == Some(&Value::Bool(true)) && repeats() {
                    return Err(invalid(place, "must not repeat an entry"));
                }
                let Some(schema) = rules.get("items") else {
                    return Ok(());
                };
                let mut numbered = items.iter().enumerate();
                numbered.try_for_each(|(at, item)| self.check_part(schema, item, &format!("{place}[{at}]")))
            }
            Value::Object(fields) => self.check_fields(rules, fields, place),
            Value::Null | Value::Bool(_) => Ok(()),
        }
    }

    fn check_alternatives(
        &self,
        rules: &Map<String, Value>,
        value: &Value,
        place: &str,
    ) -> Result<(), CallError> {
        for (name, most) in [("anyOf", usize::MAX), ("oneOf", 1)] {
            if !rules.contains_key(name) {
                continue;
            }
            let outcomes = list(rules, name).map(|part| self.check_part(part, value, place));
            let (fitting, failed): (Vec<_>, Vec<_>) = outcomes.partition(Result::is_ok);
            if (1..=most).contains(&fitting.len()) {
                continue;
            }
            // Alternatives of another type are irrelevant; report the error of the alternative of this type.
            let specific = failed.into_iter().filter_map(Result::err).find(
                |error| !matches!(error, CallError::Invalid { message, .. } if message.contains("must be of type")),
            );
            return Err(specific.unwrap_or_else(|| invalid(place, "does not match any of the allowed forms")));
        }
        Ok(())
    }

    fn check_text(&self, rules: &Map<String, Value>, text: &str, place: &str) -> Result<(), CallError> {
        let count = text.chars().count() as u64;
        check_length(rules, ("minLength", "maxLength"), count, "characters", place)?;
        match rules.get("pattern").and_then(Value::as_str) {
            Some(r"\S") if text.trim().is_empty() => Err(invalid(place, "must not be blank")),
            Some(pattern)
                if self
                    .patterns
                    .get(pattern)
                    .is_some_and(|regex| !regex.is_match(text)) =>
            {
                Err(invalid(place, &format!("must match `{pattern}`")))
            }
            _ => Ok(()),
        }
    }

    fn check_fields(
        &self,
        rules: &Map<String, Value>,
        fields: &Map<String, Value>,
        place: &str,
    ) -> Result<(), CallError> {
        let at = |name: &str| match place {
            "" => name.to_owned(),
            place => format!("{place}.{name}"),
        };
        for name in list(rules, "required").filter_map(Value::as_str) {
            if !fields.contains_key(name) {
                return Err(invalid(&at(name), "is missing"));
            }
        }
        let known = rules.get("properties").and_then(Value::as_object);
        for (name, value) in fields {
            match known.and_then(|known| known.get(name)) {
                Some(schema) => self.check_part(schema, value, &at(name))?,
                None => {
                    if let Some(schema) = rules.get("additionalProperties") {
                        self.check_part(schema, value, &at(name))?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn invalid(place: &str, what: &str) -> CallError {
    CallError::Invalid {
        message: format!("`{}` {what}", if place.is_empty() { "." } else { place }),
        place: place.to_owned(),
    }
}

fn list<'a>(rules: &'a Map<String, Value>, name: &str) -> impl Iterator<Item = &'a Value> {
    rules.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn check_type(rules: &Map<String, Value>, value: &Value, place: &str) -> Result<(), CallError> {
    let is = |kind: &str| match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        _ => true,
    };
    let fits = match rules.get("type") {
        Some(Value::String(kind)) => is(kind),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).any(is),
        _ => true,
    };
    if !fits {
        return Err(invalid(place, &format!("must be of type {}", rules["type"])));
    }
    let chosen = rules.get("const").is_none_or(|only| only == value)
        && (!rules.contains_key("enum") || list(rules, "enum").any(|choice| choice == value));
    if chosen {
        return Ok(());
    }
    let choices: Vec<String> = list(rules, "enum")
        .chain(rules.get("const"))
        .map(Value::to_string)
        .collect();
    Err(invalid(place, &format!("must be one of {}", choices.join(", "))))
}

fn check_number(rules: &Map<String, Value>, number: f64, place: &str) -> Result<(), CallError> {
    let bound = |name: &str| rules.get(name).and_then(Value::as_f64);
    let fails =
        |name: &str, fits: fn(f64, f64) -> bool| bound(name).is_some_and(|bound| !fits(number, bound));
    let (least, most) = (bound("minimum"), bound("maximum"));
    if fails("minimum", |number, bound| number >= bound) || fails("maximum", |number, bound| number <= bound)
    {
        return Err(invalid(
            place,
            &match (least, most) {
                (Some(least), Some(most)) => format!("must be from {least} to {most}"),
                (Some(least), None) => format!("must be at least {least}"),
                (_, most) => format!("must be at most {}", most.unwrap_or_default()),
            },
        ));
    }
    if fails("exclusiveMinimum", |number, bound| number > bound) {
        return Err(invalid(
            place,
            &format!("must be more than {}", rules["exclusiveMinimum"]),
        ));
    }
    if fails("exclusiveMaximum", |number, bound| number < bound) {
        return Err(invalid(
            place,
            &format!("must be less than {}", rules["exclusiveMaximum"]),
        ));
    }
    Ok(())
}

fn check_length(
    rules: &Map<String, Value>,
    (least, most): (&str, &str),
    count: u64,
    unit: &str,
    place: &str,
) -> Result<(), CallError> {
    if let Some(least) = rules
        .get(least)
        .and_then(Value::as_u64)
        .filter(|least| count < *least)
    {
        return Err(invalid(
            place,
            &match least {
                1 => "must not be empty".to_owned(),
                least => format!("must have at least {least} {unit}"),
            },
        ));
    }
    if let Some(most) = rules
        .get(most)
        .and_then(Value::as_u64)
        .filter(|most| count > *most)
    {
        return Err(invalid(place, &format!("must have at most {most} {unit}")));
    }
    Ok(())
}

fn collect_patterns(schema: &Value, patterns: &mut HashMap<String, Regex>) {
    match schema {
        Value::Object(rules) => {
            if let Some(Value::String(pattern)) = rules.get("pattern")
                && let Ok(regex) = Regex::new(pattern)
            {
                patterns.insert(pattern.clone(), regex);
            }
            rules.values().for_each(|part| collect_patterns(part, patterns));
        }
        Value::Array(parts) => parts.iter().for_each(|part| collect_patterns(part, patterns)),
        _ => {}
    }
}

/// Adds the range of the Rust type to integers, which `format` alone does not state.
pub fn bound_numbers(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            let range: Option<(i64, u64)> = match object.get("format").and_then(Value::as_str) {
                Some("uint8") => Some((0, u8::MAX.into())),
                Some("uint16") => Some((0, u16::MAX.into())),
                Some("uint32") => Some((0, u32::MAX.into())),
                // Largest integer that clients reading JSON numbers as doubles represent exactly.
                Some("uint64" | "uint") => Some((0, (1 << 53) - 1)),
                Some("int32") => Some((i32::MIN.into(), i32::MAX.unsigned_abs().into())),
                Some("int64") => Some((-((1 << 53) - 1), (1 << 53) - 1)),
                _ => None,
            };
            if let Some((least, most)) = range {
                object.entry("minimum").or_insert(json!(least));
                object.entry("maximum").or_insert(json!(most));
            }
            object.values_mut().for_each(bound_numbers);
        }
        Value::Array(list) => list.iter_mut().for_each(bound_numbers),
        _ => {}
    }
}

/// Rewrites numbers without a fraction as integers. Returns whether there were any.
pub(super) fn whole_numbers(value: &mut Value) -> bool {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(float) = number.as_f64()
                && float.fract() == 0.0
                && float.abs() < 9e15
            {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "it has no fraction and is small enough"
                )]
                let whole = float as i64;
                *value = Value::from(whole);
                return true;
            }
            false
        }
        Value::Array(list) => list.iter_mut().map(whole_numbers).fold(false, BitOr::bitor),
        Value::Object(object) => object.values_mut().map(whole_numbers).fold(false, BitOr::bitor),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_name_the_field_and_the_bound() {
        let checker = Checker::new(json!({
            "type": "object", "additionalProperties": false, "required": ["name"],
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "\\S"},
                "limit": {"type": ["integer", "null"], "minimum": 1, "maximum": 5},
                "share": {"type": "number", "exclusiveMinimum": 0.0},
                "tiers": {"type": "array", "items": {"$ref": "#/$defs/Tier"}, "uniqueItems": true},
                "either": {"anyOf": [{"type": "null"}, {"type": "integer", "maximum": 3}]},
            },
            "$defs": {"Tier": {"oneOf": [{"const": "low"}, {"const": "high"}]}},
        }));
        let said = |value: Value| match checker.check(&value) {
            Ok(()) => "fine".to_owned(),
            Err(error) => error.to_string(),
        };
        for (value, expected) in [
            (
                json!({"name": "x", "limit": null, "tiers": ["low", "high"], "either": 3}),
                "fine",
            ),
            (json!({"name": "x", "limit": 5.0}), "fine"),
            (json!({}), "`name` is missing"),
            (json!({"name": ""}), "`name` must not be empty"),
            (json!({"name": " "}), "`name` must not be blank"),
            (json!({"name": "abcd"}), "`name` must have at most 3 characters"),
            (json!({"name": "x", "limit": 6}), "`limit` must be from 1 to 5"),
            (json!({"name": "x", "share": 0}), "`share` must be more than 0.0"),
            (
                json!({"name": "x", "tiers": ["low", "low"]}),
                "`tiers` must not repeat an entry",
            ),
            (
                json!({"name": "x", "tiers": ["mid"]}),
                "`tiers[0]` must be one of \"low\"",
            ),
            (json!({"name": "x", "either": 4}), "`either` must be at most 3"),
            (json!({"name": "x", "other": 4}), "`other` is not allowed"),
            (json!([]), "`.` must be of type \"object\""),
        ] {
            assert_eq!(said(value.clone()), expected, "{value}");
        }
    }
}
