//! Templates of prompts, variables and assertions. promptfoo renders them with Nunjucks, so values are
//! printed as JavaScript prints them, and undefined variables are empty.

use serde_json::{Map, Value};

use super::test_files::file_extension;

/// Maximum number of passes that substitute variables inside variables.
const MAX_PASSES: usize = 5;

/// Renders the prompt of a case. The strings of a prompt in JSON are rendered one by one, so that variables
/// need no escaping.
pub(super) fn render_prompt(
    template: &str,
    vars: &Map<String, Value>,
    env: &Map<String, Value>,
) -> Result<String, String> {
    if let Ok(parsed) = serde_json::from_str::<Value>(template) {
        let rendered = render_strings(&parsed, vars, env)?;
        return Ok(format!("{rendered:#}"));
    }
    let mut rendered = vars.clone();
    for value in rendered.values_mut() {
        if let Value::String(text) = value
            && text.contains("{{")
            && !is_unfinished(text)
        {
            *value = Value::String(render(text, vars, env)?);
        }
    }
    if is_unfinished(template) {
        return Ok(template.to_owned());
    }
    render(template, &rendered, env)
}

fn render_strings(
    value: &Value,
    vars: &Map<String, Value>,
    env: &Map<String, Value>,
) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => Value::String(render(text, vars, env)?),
        Value::Array(items) => items
            .iter()
            .map(|item| render_strings(item, vars, env))
            .collect::<Result<_, _>>()?,
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| Ok((key.clone(), render_strings(value, vars, env)?)))
            .collect::<Result<Map<_, _>, String>>()?
            .into(),
        other => other.clone(),
    })
}

/// Substitutes variables in a text, or in all texts of a list; a text that is not a template stays.
pub(super) fn render_value(value: &Value, vars: &Map<String, Value>, env: &Map<String, Value>) -> Value {
    match value {
        Value::String(text) => Value::String(render(text, vars, env).unwrap_or_else(|_| text.clone())),
        Value::Array(items) => items.iter().map(|item| render_value(item, vars, env)).collect(),
        other => other.clone(),
    }
}

/// Substitutes variables that are named inside other variables, and drops the newline at their end.
pub(super) fn resolve_vars(mut vars: Map<String, Value>) -> Map<String, Value> {
    for value in vars.values_mut() {
        if let Value::String(text) = value
            && text.ends_with('\n')
        {
            text.pop();
        }
    }
    for _ in 0..MAX_PASSES {
        let mut changed = false;
        for name in vars.keys().cloned().collect::<Vec<_>>() {
            let Some(Value::String(text)) = vars.get(&name) else {
                continue;
            };
            let found = placeholder(text).and_then(|(range, inner)| {
                let value = vars.get(inner).filter(|_| inner != name)?;
                Some(format!(
                    "{}{}{}",
                    &text[..range.start],
                    as_js_text(value),
                    &text[range.end..]
                ))
            });
            if let Some(text) = found {
                vars.insert(name, Value::String(text));
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    vars
}

/// The first `{{ name }}` of a text: its range and the name.
fn placeholder(text: &str) -> Option<(std::ops::Range<usize>, &str)> {
    let mut from = 0;
    while let Some(start) = text.get(from..)?.find("{{").map(|at| from + at) {
        let inside = text.get(start + 2..)?;
        let end = inside.find("}}")?;
        let name = inside.get(..end)?.trim();
        if !name.is_empty()
            && name
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        {
            return Some((start..start + 2 + end + 2, name));
        }
        from = start + 2;
    }
    None
}

/// Whether a line opens a tag that it does not close: such a text is not a template.
fn is_unfinished(text: &str) -> bool {
    let has_raw = text.contains("endraw");
    !has_raw
        && text.lines().any(|line| {
            [("{{", '}'), ("{%", '%'), ("{#", '#')]
                .iter()
                .any(|(open, close)| {
                    line.rsplit_once(open)
                        .is_some_and(|(_, rest)| !rest.contains(*close))
                })
        })
}

/// Text of a value as JavaScript converts it.
pub(super) fn as_js_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(number) => js_number(number.as_f64().unwrap_or(0.0), || number.to_string()),
        Value::Array(items) => items.iter().map(as_js_text).collect::<Vec<_>>().join(","),
        Value::Object(_) => "[object Object]".to_owned(),
        Value::Bool(truth) => truth.to_string(),
    }
}

/// Formats a number as JavaScript does: no fraction for whole numbers, an exponent from 1e21.
fn js_number(number: f64, otherwise: impl FnOnce() -> String) -> String {
    if number.abs() >= 1e21 {
        format!("{number:e}").replace('e', "e+")
    } else if number.fract() == 0.0 {
        format!("{number:.0}")
    } else {
        otherwise()
    }
}

/// Value of a variable in a file, by its ending.
pub(super) fn variable_of_file(name: &str, text: &str) -> Value {
    let parsed = match file_extension(name).as_str() {
        "yaml" | "yml" => crate::yaml::parse(text).ok(),
        _ => None,
    };
    Value::String(parsed.map_or_else(|| text.trim().to_owned(), |value: Value| value.to_string()))
}

/// Renders a template; undefined variables are empty, as in Nunjucks.
#[cfg(feature = "imports")]
pub(super) fn render(
    template: &str,
    vars: &Map<String, Value>,
    env: &Map<String, Value>,
) -> Result<String, String> {
    use minijinja::value::Serde;
    if !template.contains("{{") && !template.contains("{%") && !template.contains("{#") {
        return Ok(template.to_owned());
    }
    let mut environment = minijinja::Environment::new();
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Chainable);
    environment.set_formatter(|out, _, value| {
        let value = serde_json::to_value(value).unwrap_or_default();
        out.write_str(&as_js_text(&value)).map_err(minijinja::Error::from)
    });
    environment.add_filter("dump", |value: minijinja::Value| {
        serde_json::to_string(&value).unwrap_or_default()
    });
    environment.add_global("env", minijinja::Value::from(Serde(env.clone())));
    let rendered = environment.render_str(template, Serde(vars));
    // Unlike Nunjucks, the engine drops the newline at the end.
    let newline = if template.ends_with('\n') { "\n" } else { "" };
    rendered
        .map(|text| text + newline)
        .map_err(|error| error.to_string())
}

#[cfg(not(feature = "imports"))]
pub(super) fn render(_: &str, _: &Map<String, Value>, _: &Map<String, Value>) -> Result<String, String> {
    Err("not in this build (cargo feature `imports`)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn vars(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn values_print_as_in_javascript() {
        let vars = vars(
            &json!({"f": 2.0, "big": 1e21, "list": [1, [2, null], "x"], "o": {"a": 1}, "t": true, "n": null}),
        );
        let text = "{{f}} {{big}} {{list}} {{o}} {{t}} [{{n}}{{missing.deep}}]";
        assert_eq!(
            render(text, &vars, &Map::new()).unwrap(),
            "2 1e+21 1,2,,x [object Object] true []"
        );
    }

    #[test]
    fn variables_inside_of_variables_are_substituted() {
        let resolved = resolve_vars(vars(
            &json!({"a": "x {{ b }}\n", "b": "y {{c}}", "c": 3, "self": "{{self}}"}),
        ));
        assert_eq!(resolved["a"], "x y 3");
        assert_eq!(resolved["self"], "{{self}}");
    }

    #[test]
    fn strings_of_json_prompts_are_rendered_without_escaping() {
        let vars = vars(&json!({"q": "say \"hi\"\nnow"}));
        let text = render_prompt(r#"[{"role": "user", "content": "{{q}}"}]"#, &vars, &Map::new()).unwrap();
        let parsed: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed[0]["content"], "say \"hi\"\nnow");
        assert_eq!(render_prompt("a {{ b", &vars, &Map::new()).unwrap(), "a {{ b");
    }
}
