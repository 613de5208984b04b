//! Fills placeholders such as `{{goal}}` into arguments and bodies.

use satiety::bench::contract::{ErrorKind, Request, TargetError};
use serde_json::{Map, Value, json};

/// Returns a copy of the template with every placeholder filled in. A string that is a single placeholder
/// becomes the value itself.
pub(super) fn fill(template: &Value, request: &Request, workdir: Option<&str>) -> Result<Value, TargetError> {
    Ok(match template {
        Value::String(text) => fill_text(text, request, workdir)?,
        Value::Array(items) => Value::Array(
            items
                .iter()
                .map(|item| fill(item, request, workdir))
                .collect::<Result<_, _>>()?,
        ),
        Value::Object(map) => Value::Object(fill_map(map, request, workdir)?),
        other => other.clone(),
    })
}

/// Same as [`fill`] for an object.
pub(super) fn fill_map(
    map: &Map<String, Value>,
    request: &Request,
    workdir: Option<&str>,
) -> Result<Map<String, Value>, TargetError> {
    map.iter()
        .map(|(key, value)| Ok((key.clone(), fill(value, request, workdir)?)))
        .collect()
}

fn fill_text(text: &str, request: &Request, workdir: Option<&str>) -> Result<Value, TargetError> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once("{{") {
        let Some((name, after)) = inside.split_once("}}") else {
            break;
        };
        let value = look_up(name.trim(), request, workdir)?;
        if before.is_empty() && after.is_empty() && filled.is_empty() {
            return Ok(value);
        }
        filled.push_str(before);
        match value {
            Value::String(words) => filled.push_str(&words),
            other => filled.push_str(&other.to_string()),
        }
        rest = after;
    }
    filled.push_str(rest);
    Ok(Value::String(filled))
}

fn look_up(name: &str, request: &Request, workdir: Option<&str>) -> Result<Value, TargetError> {
    Ok(match name {
        "goal" => json!(request.input.goal),
        "case_id" => json!(request.case_id),
        "suite_id" => json!(request.suite_id),
        "run_id" => json!(request.run_id),
        "variant" => json!(request.variant),
        "repeat" => json!(request.repeat),
        "attempt" => json!(request.attempt),
        "seed" => json!(request.seed),
        "skill_dir" => json!(request.skill_dir),
        "workdir" => json!(workdir.or(request.workdir.as_deref())),
        _ => {
            let path = name
                .strip_prefix("input")
                .filter(|path| path.is_empty() || path.starts_with('.'))
                .ok_or_else(|| {
                    let known = "goal, case_id, suite_id, run_id, variant, repeat, attempt, seed, skill_dir, workdir, input or input.PATH";
                    TargetError::new(
                        ErrorKind::Harness,
                        format!("unknown placeholder `{{{{{name}}}}}` in the template (expected one of: {known})"),
                    )
                })?;
            let input = serde_json::to_value(&request.input).map_err(|error| {
                TargetError::new(ErrorKind::Harness, format!("cannot write the input: {error}"))
            })?;
            // A missing input is null, not an error: templates serve a whole suite.
            input
                .pointer(&path.replace('.', "/"))
                .cloned()
                .unwrap_or(Value::Null)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_keep_the_type_of_their_value() {
        let mut request = Request {
            case_id: "c1".into(),
            repeat: 2,
            ..Request::default()
        };
        request.input.goal = "say {{hi}} \"now\"".into();
        request.input.skill_args = Map::from_iter([("depth".to_owned(), json!(3))]);
        let template = json!({
            "q": "{{goal}}", "n": "{{ repeat }}", "d": "{{input.skill_args.depth}}", "none": "{{input.skill_args.x}}",
            "text": "{{case_id}}/{{repeat}}: {{goal}} in {{workdir}}", "list": ["{{variant}}", 1, null], "open": "{{goal"
        });
        let expected = json!({
            "q": "say {{hi}} \"now\"", "n": 2, "d": 3, "none": null,
            "text": "c1/2: say {{hi}} \"now\" in /w", "list": ["", 1, null], "open": "{{goal"
        });
        assert_eq!(fill(&template, &request, Some("/w")).unwrap(), expected);
        let error = fill(&json!("{{expected}}"), &request, None).unwrap_err();
        assert!(error.message.contains("{{expected}}"), "{error}");
        assert_eq!(error.kind, ErrorKind::Harness);
        assert!(fill(&json!("{{inputs}}"), &request, None).is_err());
    }
}
