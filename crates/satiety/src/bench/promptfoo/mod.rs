//! Imports promptfoo configurations as suites: each combination of prompt and test becomes a case, and its
//! assertions become expectations. A case with unsupported parts (code, embeddings, transforms) is *skipped*
//! with the reason, so that it never passes by accident. Providers are not imported; the caller chooses the
//! target.
//!
//! A lookup by name provides the files that a configuration references. The report lists missing ones.

mod assertions;
mod test_files;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::expected::{BenchmarkExpected, Mode};
use super::loss::Loss;
use super::reader::{Named, SuiteError, parse};
use super::suite::{BenchmarkCase, BenchmarkSuite};
use assertions::expectations;
use test_files::file_extension;

/// Maximum number of cases of a configuration. Lists of variables multiply: ten lists of ten would be ten
/// billion cases.
const MAX_CASES: usize = 100_000;

/// Returns the text of a referenced file (relative to the configuration), if it exists.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Result of an import.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptfooImport {
    /// Suite with the imported cases.
    pub suite: BenchmarkSuite,
    /// Report of what was imported and skipped.
    pub report: ImportReport,
}

/// Report of an import of a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImportReport {
    /// Number of cases that can be run and checked.
    pub imported: usize,
    /// Reason for each skipped case, by id.
    pub skipped: BTreeMap<String, String>,
    /// Number of assertions by type.
    pub assertions: BTreeMap<String, u64>,
    /// Number of unsupported assertions by type.
    #[serde(default)]
    pub unsupported: BTreeMap<String, u64>,
    /// Referenced files that were not found.
    pub needs: BTreeSet<String>,
    /// Parts that were ignored or interpreted differently.
    pub warnings: Vec<String>,
    /// Parts of the configuration that the suite does not have.
    #[serde(default)]
    pub losses: Vec<Loss>,
}

/// Imports a `promptfooconfig.yaml` (or `.json`).
pub fn import_promptfoo(
    file: Named<'_>,
    suite_id: &str,
    lookup: Lookup<'_>,
) -> Result<PromptfooImport, SuiteError> {
    if !cfg!(feature = "imports") {
        return Err(SuiteError::Syntax {
            file: file.file.to_owned(),
            reason: "cannot import promptfoo configurations: not in this build (cargo feature `imports`)"
                .to_owned(),
        });
    }
    let Value::Object(config) = parse(file)? else {
        return Err(SuiteError::Field {
            file: file.file.to_owned(),
            field: "top level".to_owned(),
            reason: "must be an object with `prompts` and `tests`".to_owned(),
        });
    };
    let mut import = Importer {
        lookup,
        report: ImportReport::default(),
    };
    for key in ["scenarios", "redteam"] {
        if config.contains_key(key) {
            import.report.warnings.push(format!("`{key}` is not imported"));
        }
    }
    let prompts = import.prompts(config.get("prompts"));
    let default_test = match import.resolve_reference(config.get("defaultTest")) {
        Some(Value::Object(test)) => test,
        _ => Map::new(),
    };
    let tests = import.tests(config.get("tests"));
    let mut suite = BenchmarkSuite::new(suite_id);
    if let Some(Value::String(description)) = config.get("description") {
        suite.description.clone_from(description);
    }
    if let Some(providers) = config.get("providers").or(config.get("targets")) {
        suite.metadata.insert("providers".to_owned(), providers.clone());
    }
    let mut used_ids = BTreeSet::new();
    let mut copies: BTreeMap<String, usize> = BTreeMap::new();
    for (index, test) in tests.iter().enumerate() {
        let test = merge_tests(&default_test, test);
        let remaining = MAX_CASES.saturating_sub(suite.cases.len()) / prompts.len().max(1);
        let expanded = import.expand_vars(&test, remaining).ok_or_else(|| SuiteError::Field {
            file: file.file.to_owned(),
            field: format!("tests[{index}].vars"),
            reason: format!("expands to more than {MAX_CASES} cases; set `options.disableVarExpansion` to keep lists unexpanded"),
        })?;
        for vars in expanded {
            for (number, prompt) in prompts.iter().enumerate() {
                let mut case = import.case(index, &test, &vars, prompt);
                if prompts.len() > 1 {
                    case.case_id = format!("{} / prompt {}", case.case_id, number + 1);
                }
                let wanted = case.case_id.clone();
                let copy = copies.entry(wanted.clone()).or_insert(1);
                while !used_ids.insert(case.case_id.clone()) {
                    *copy += 1;
                    case.case_id = format!("{wanted} ({copy})");
                }
                match case.skip.clone().or_else(|| case.expected.unsupported_reason()) {
                    Some(reason) => {
                        import.report.skipped.insert(case.case_id.clone(), reason);
                    }
                    None => import.report.imported += 1,
                }
                suite.cases.push(case);
            }
        }
    }
    Ok(PromptfooImport {
        suite,
        report: import.report,
    })
}

/// Template of a prompt, or the reason why it is missing.
enum Prompt {
    Text(String),
    Missing(String),
}

struct Importer<'a> {
    lookup: Lookup<'a>,
    report: ImportReport,
}

impl Importer<'_> {
    /// Reads the text behind `file://name`.
    fn file(&mut self, reference: &str) -> Option<(String, String)> {
        let name = reference.strip_prefix("file://")?;
        let found = (self.lookup)(name);
        if found.is_none() {
            self.report.needs.insert(name.to_owned());
        }
        found.map(|text| (name.to_owned(), text))
    }

    /// Returns the value, or the parsed file that it references.
    fn resolve_reference(&mut self, value: Option<&Value>) -> Option<Value> {
        match value? {
            Value::String(reference) if reference.starts_with("file://") => {
                let (name, text) = self.file(reference)?;
                parse(Named {
                    file: &name,
                    text: &text,
                })
                .ok()
            }
            value => Some(value.clone()),
        }
    }

    fn prompts(&mut self, value: Option<&Value>) -> Vec<Prompt> {
        let list = match value {
            None => {
                self.report
                    .warnings
                    .push("no prompts; using the `prompt` variable of each test".to_owned());
                return vec![Prompt::Text("{{prompt}}".to_owned())];
            }
            Some(Value::Array(items)) => items.clone(),
            Some(one) => vec![one.clone()],
        };
        list.iter().flat_map(|item| self.prompt(item)).collect()
    }

    fn prompt(&mut self, item: &Value) -> Vec<Prompt> {
        let raw = match item {
            Value::String(text) => text.clone(),
            Value::Object(fields) => match fields.get("raw").or(fields.get("id")).and_then(Value::as_str) {
                Some(text) => text.to_owned(),
                None => return vec![Prompt::Missing("prompt has no `raw` text".to_owned())],
            },
            other => return vec![Prompt::Missing(format!("prompt is not a string: {other}"))],
        };
        if !raw.starts_with("file://") {
            return vec![Prompt::Text(raw)];
        }
        if is_code(&raw) {
            return vec![Prompt::Missing(format!("prompt {raw} requires running code"))];
        }
        match self.file(&raw) {
            None => vec![Prompt::Missing(format!("prompt file not found: {raw}"))],
            // A text file may contain several prompts, separated by lines of three hyphens.
            Some((name, text)) if !matches!(file_extension(&name).as_str(), "json" | "yaml" | "yml") => text
                .split("\n---\n")
                .map(|part| Prompt::Text(part.trim().to_owned()))
                .collect(),
            Some((name, text)) if file_extension(&name) != "json" => {
                // All later steps expect chat prompts as JSON.
                let parsed = parse(Named {
                    file: &name,
                    text: &text,
                });
                vec![parsed.map_or(Prompt::Text(text), |value| Prompt::Text(value.to_string()))]
            }
            Some((_, text)) => vec![Prompt::Text(text)],
        }
    }

    fn tests(&mut self, value: Option<&Value>) -> Vec<Map<String, Value>> {
        let list = match value {
            None => return vec![Map::new()],
            Some(Value::Array(items)) => items.clone(),
            Some(one) => vec![one.clone()],
        };
        let mut tests = Vec::new();
        for item in list {
            match item {
                Value::Object(test) => tests.push(test),
                Value::String(reference) => match self.file(&reference) {
                    Some((name, text)) => match test_files::read(&name, &text) {
                        Ok(found) => tests.extend(found),
                        Err(reason) => self.report.warnings.push(format!("{name}: {reason}")),
                    },
                    None => self
                        .report
                        .warnings
                        .push(format!("test file not found: {reference}")),
                },
                other => self
                    .report
                    .warnings
                    .push(format!("test is not an object: {other}")),
            }
        }
        tests
    }

    /// Expands lists of values to all combinations, as promptfoo does unless `disableVarExpansion` is set.
    /// Returns `None` when there are more than `most` combinations.
    fn expand_vars(&mut self, test: &Map<String, Value>, max: usize) -> Option<Vec<Map<String, Value>>> {
        let mut vars = match self.resolve_reference(test.get("vars")) {
            Some(Value::Object(vars)) => vars,
            _ => Map::new(),
        };
        for value in vars.values_mut() {
            if let Value::String(reference) = value
                && reference.starts_with("file://")
                && let Some((_, text)) = self.file(&reference.clone())
            {
                *value = Value::String(text);
            }
        }
        let keep_lists = test
            .get("options")
            .and_then(|options| options.get("disableVarExpansion"))
            == Some(&Value::Bool(true));
        let mut all = vec![Map::new()];
        for (name, value) in vars {
            let choices = match value {
                Value::Array(items) if !keep_lists => items,
                value => vec![value],
            };
            if all.len().saturating_mul(choices.len()) > max {
                return None;
            }
            all = all
                .iter()
                .flat_map(|before: &Map<String, Value>| {
                    choices.iter().map(|choice| {
                        let mut vars = before.clone();
                        vars.insert(name.clone(), choice.clone());
                        vars
                    })
                })
                .collect();
        }
        Some(all)
    }

    fn case(
        &mut self,
        index: usize,
        test: &Map<String, Value>,
        vars: &Map<String, Value>,
        prompt: &Prompt,
    ) -> BenchmarkCase {
        let vars = render_nested(vars);
        let description = test.get("description").and_then(Value::as_str);
        let case_id = description.map_or_else(|| format!("test {}", index + 1), str::to_owned);
        let expected = self.expected(test, &vars);
        let mut case = BenchmarkCase::new(case_id, "", expected);
        match prompt {
            Prompt::Missing(reason) => case.skip = Some(reason.clone()),
            Prompt::Text(template) => match render(template, &vars) {
                Ok(text) => {
                    case.input.messages = messages(&text);
                    case.input.goal = case
                        .input
                        .messages
                        .as_ref()
                        .and_then(|messages| messages.last()?.get("content")?.as_str().map(str::to_owned))
                        .unwrap_or(text);
                }
                Err(reason) => case.skip = Some(format!("cannot render the prompt: {reason}")),
            },
        }
        // References to existing files have been substituted; a remaining one is missing.
        let missing = vars
            .values()
            .filter_map(Value::as_str)
            .find(|text| text.starts_with("file://"));
        if let Some(reference) = missing {
            case.skip
                .get_or_insert(format!("variable file not found: {reference}"));
        }
        case.metadata.insert("vars".to_owned(), Value::Object(vars));
        if let Some(Value::Object(notes)) = test.get("metadata") {
            case.metadata.extend(notes.clone());
        }
        case
    }

    fn expected(&mut self, test: &Map<String, Value>, vars: &Map<String, Value>) -> BenchmarkExpected {
        let transforms = test
            .get("options")
            .and_then(Value::as_object)
            .is_some_and(|options| options.contains_key("transform") || options.contains_key("postprocess"));
        if transforms {
            return BenchmarkExpected::unsupported("requires a code transform of the answer");
        }
        let list: &[Value] = test
            .get("assert")
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice);
        if list.is_empty() {
            return BenchmarkExpected::unsupported("the test has no assertions");
        }
        let parts = expectations(list, vars, self);
        let threshold = test.get("threshold").and_then(Value::as_f64);
        match threshold {
            None => BenchmarkExpected::all(parts),
            Some(_) => BenchmarkExpected {
                threshold,
                parts,
                ..BenchmarkExpected::of(Mode::All)
            },
        }
    }
}

/// Whether a reference names a program, with or without a function (`file://grade.py:check`).
fn is_code(reference: &str) -> bool {
    let name = reference.strip_prefix("file://").unwrap_or(reference);
    let name = name.split(':').next().unwrap_or(name);
    matches!(file_extension(name).as_str(), "py" | "js" | "ts" | "mjs" | "cjs")
}

/// Merges a test with the default test.
fn merge_tests(default: &Map<String, Value>, test: &Map<String, Value>) -> Map<String, Value> {
    let mut out = default.clone();
    for (key, value) in test {
        match (key.as_str(), out.get_mut(key), value) {
            ("vars" | "options" | "metadata", Some(Value::Object(before)), Value::Object(own)) => {
                before.extend(own.clone());
            }
            ("assert", Some(Value::Array(before)), Value::Array(own)) => before.extend(own.clone()),
            _ => {
                out.insert(key.clone(), value.clone());
            }
        }
    }
    out
}

/// Substitutes variables inside variables.
fn render_nested(vars: &Map<String, Value>) -> Map<String, Value> {
    vars.iter()
        .map(|(name, value)| {
            let value = match value {
                Value::String(text) if text.contains("{{") => {
                    render(text, vars).map_or_else(|_| value.clone(), Value::String)
                }
                value => value.clone(),
            };
            (name.clone(), value)
        })
        .collect()
}

/// Renders a template; undefined variables are empty, as in Nunjucks.
#[cfg(feature = "imports")]
fn render(template: &str, vars: &Map<String, Value>) -> Result<String, String> {
    let mut environment = minijinja::Environment::new();
    environment.add_filter("dump", |value: minijinja::Value| {
        serde_json::to_string(&value).unwrap_or_default()
    });
    environment
        .render_str(template, minijinja::value::Serde(vars))
        .map_err(|error| error.to_string())
}

#[cfg(not(feature = "imports"))]
fn render(_: &str, _: &Map<String, Value>) -> Result<String, String> {
    Err("not in this build (cargo feature `imports`)".to_owned())
}

/// Parses a prompt that is a conversation in JSON.
fn messages(text: &str) -> Option<Vec<Value>> {
    let Ok(Value::Array(items)) = serde_json::from_str(text.trim()) else {
        return None;
    };
    let is_message =
        |item: &Value| item.get("role").is_some_and(Value::is_string) && item.get("content").is_some();
    (!items.is_empty() && items.iter().all(is_message)).then_some(items)
}

/// Substitutes variables in all strings of a value.
fn render_value(value: &Value, vars: &Map<String, Value>) -> Value {
    match value {
        Value::String(text) => Value::String(render(text, vars).unwrap_or_else(|_| text.clone())),
        Value::Array(items) => items.iter().map(|item| render_value(item, vars)).collect(),
        other => json!(other),
    }
}

#[cfg(test)]
mod tests;
