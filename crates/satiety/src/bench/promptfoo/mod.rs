//! Imports promptfoo configurations as suites: each combination of prompt and test becomes a case, and its
//! assertions become expectations. A case with unsupported parts is *skipped* with the reason, so that it never
//! passes by accident, and every key that is not understood is reported with its place. Providers are kept as
//! metadata; the caller chooses the target.
//!
//! The caller provides the files that a configuration references. The report lists missing ones.

mod assertions;
mod code;
mod files;
mod results;
mod test_files;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::expected::{BenchmarkExpected, Mode};
use super::loss::{Loss, Losses};
use super::reader::{Named, SuiteError, parse};
use super::suite::{BenchmarkCase, BenchmarkSuite};
use assertions::expectations;
pub use files::ConfigFiles;
use files::{glob_pattern, looks_like_path};
pub use results::read_promptfoo_results;
use test_files::file_extension;

/// Maximum number of cases of a configuration. Lists of variables multiply: ten lists of ten would be ten
/// billion cases.
const MAX_CASES: usize = 100_000;

/// Keys of a configuration that are understood, or that only concern promptfoo's own output.
const CONFIG_KEYS: [&str; 22] = [
    "$schema",
    "description",
    "prompts",
    "providers",
    "targets",
    "tests",
    "scenarios",
    "defaultTest",
    "assertionTemplates",
    "evaluateOptions",
    "commandLineOptions",
    "env",
    "outputPath",
    "output",
    "sharing",
    "writeLatestResults",
    "tags",
    "metadata",
    "name",
    "version",
    "outputs",
    "tracing",
];
/// Keys of a configuration that change verdicts and are not supported.
const DECIDING_CONFIG_KEYS: [&str; 3] = ["redteam", "extensions", "nunjucksFilters"];
const TEST_KEYS: [&str; 11] = [
    "description",
    "vars",
    "assert",
    "threshold",
    "options",
    "metadata",
    "prompts",
    "provider",
    "providers",
    "name",
    "tags",
];
const DECIDING_TEST_KEYS: [&str; 2] = ["assertScoringFunction", "providerOutput"];
const OPTION_KEYS: [&str; 13] = [
    "disableVarExpansion",
    "disableDefaultAsserts",
    "transform",
    "postprocess",
    "prefix",
    "suffix",
    "repeat",
    "provider",
    "rubricPrompt",
    "runSerially",
    "storeOutputAs",
    "disableConversationVar",
    "factuality",
];
const DECIDING_OPTION_KEYS: [&str; 1] = ["transformVars"];

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
    files: &dyn ConfigFiles,
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
    if !["prompts", "tests", "scenarios", "providers", "targets"]
        .iter()
        .any(|key| config.contains_key(*key))
    {
        return Err(SuiteError::Field {
            file: file.file.to_owned(),
            field: "top level".to_owned(),
            reason:
                "has none of `prompts`, `tests`, `scenarios` and `providers`: not a promptfoo configuration"
                    .to_owned(),
        });
    }
    let mut import = Importer {
        files,
        report: ImportReport::default(),
        losses: Losses::default(),
        templates: config
            .get("assertionTemplates")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default(),
    };
    import.report_keys("", &config, &CONFIG_KEYS, &DECIDING_CONFIG_KEYS);
    import.report_provider_transforms(&config);
    let prompts = import.prompts(config.get("prompts"));
    let default_test = match import.resolve_reference(config.get("defaultTest")) {
        Some(Value::Object(test)) => test,
        Some(_) | None if config.get("defaultTest").is_some_and(|test| !test.is_null()) => {
            import.losses.push_deciding("defaultTest", "cannot be read");
            Map::new()
        }
        _ => Map::new(),
    };
    import.report_test_keys("defaultTest", &default_test);
    let mut tests = match (config.get("tests"), config.get("scenarios")) {
        (None, Some(_)) => Vec::new(),
        (tests, _) => import.tests(tests),
    };
    tests.extend(import.scenarios(config.get("scenarios")));
    let mut suite = BenchmarkSuite::new(suite_id);
    if let Some(Value::String(description)) = config.get("description") {
        suite.description.clone_from(description);
    }
    if let Some(providers) = config.get("providers").or(config.get("targets")) {
        suite.metadata.insert("providers".to_owned(), providers.clone());
    }
    suite.repeats = ["evaluateOptions", "commandLineOptions"]
        .iter()
        .find_map(|key| repeats(config.get(*key)?));
    let mut used_ids = BTreeSet::new();
    let mut copies: BTreeMap<String, usize> = BTreeMap::new();
    for (index, (place, test)) in tests.iter().enumerate() {
        import.report_test_keys(place, test);
        let default_asserts = default_test
            .get("assert")
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        let test = merge_tests(&default_test, test);
        let origin = Origin {
            index,
            place,
            default_asserts,
        };
        let remaining = MAX_CASES.saturating_sub(suite.cases.len()) / prompts.len().max(1);
        let expanded = import.expand_vars(&test, remaining).ok_or_else(|| SuiteError::Field {
            file: file.file.to_owned(),
            field: format!("{place}.vars"),
            reason: format!("expands to more than {MAX_CASES} cases; set `options.disableVarExpansion` to keep lists unexpanded"),
        })?;
        for vars in expanded {
            for (number, prompt) in prompts.iter().enumerate() {
                if !prompt.is_selected(test.get("prompts")) {
                    continue;
                }
                let mut case = import.case(&origin, &test, &vars, prompt);
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
                        if case.skip.is_some() {
                            import.losses.push_deciding(place.as_str(), reason.as_str());
                        }
                        import.report.skipped.insert(case.case_id.clone(), reason);
                    }
                    None => import.report.imported += 1,
                }
                suite.cases.push(case);
            }
        }
    }
    import.report.losses = import.losses.into_vec();
    if suite.cases.is_empty() {
        let lost = import.report.losses.iter().filter(|loss| loss.decides);
        let reasons: Vec<String> = std::iter::once("gives no cases".to_owned())
            .chain(lost.map(Loss::to_string))
            .collect();
        return Err(SuiteError::Field {
            file: file.file.to_owned(),
            field: "tests".to_owned(),
            reason: reasons.join("; "),
        });
    }
    Ok(PromptfooImport {
        suite,
        report: import.report,
    })
}

fn repeats(options: &Value) -> Option<u32> {
    let repeat = options.get("repeat")?.as_u64()?;
    u32::try_from(repeat).ok().filter(|repeat| *repeat > 1)
}

/// A prompt of the configuration.
struct Prompt {
    /// Names by which tests select it.
    names: Vec<String>,
    /// Template, or the reason why it is missing.
    template: Result<String, String>,
}

impl Prompt {
    fn text(template: impl Into<String>) -> Self {
        Self {
            names: Vec::new(),
            template: Ok(template.into()),
        }
    }

    fn missing(reason: impl Into<String>) -> Self {
        Self {
            names: Vec::new(),
            template: Err(reason.into()),
        }
    }

    /// Whether a test with this `prompts` filter uses the prompt.
    fn is_selected(&self, filter: Option<&Value>) -> bool {
        let wanted = match filter {
            Some(Value::String(name)) => vec![name.as_str()],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => return true,
        };
        wanted.iter().any(|wanted| {
            let prefix = wanted.strip_suffix('*');
            self.names
                .iter()
                .any(|name| name == wanted || prefix.is_some_and(|prefix| name.starts_with(prefix)))
        })
    }
}

/// Where a test comes from.
struct Origin<'a> {
    index: usize,
    /// Path of the test in its file.
    place: &'a str,
    /// Number of leading assertions that come from the default test.
    default_asserts: usize,
}

impl Origin<'_> {
    fn assertion(&self, index: usize) -> String {
        match index.checked_sub(self.default_asserts) {
            None => format!("defaultTest.assert[{index}]"),
            Some(own) => format!("{}.assert[{own}]", self.place),
        }
    }
}

struct Importer<'a> {
    files: &'a dyn ConfigFiles,
    report: ImportReport,
    losses: Losses,
    /// Assertions that others refer to by name.
    templates: Map<String, Value>,
}

impl Importer<'_> {
    /// Reports keys that are not understood; those that change verdicts decide.
    fn report_keys(&mut self, prefix: &str, fields: &Map<String, Value>, known: &[&str], deciding: &[&str]) {
        for key in deciding.iter().filter(|key| fields.contains_key(**key)) {
            self.losses
                .push_deciding(format!("{prefix}{key}"), "changes verdicts and is not supported");
        }
        let known: Vec<&str> = known.iter().chain(deciding).copied().collect();
        self.losses.unknown_keys(prefix, fields, &known);
    }

    fn report_test_keys(&mut self, place: &str, test: &Map<String, Value>) {
        self.report_keys(&format!("{place}."), test, &TEST_KEYS, &DECIDING_TEST_KEYS);
        if let Some(Value::Object(options)) = test.get("options") {
            let prefix = format!("{place}.options.");
            self.report_keys(&prefix, options, &OPTION_KEYS, &DECIDING_OPTION_KEYS);
        }
    }

    /// A transform of a provider changes the answers before they are checked.
    fn report_provider_transforms(&mut self, config: &Map<String, Value>) {
        let providers = config
            .get("providers")
            .or(config.get("targets"))
            .and_then(Value::as_array);
        for (index, provider) in providers.into_iter().flatten().enumerate() {
            if provider.get("transform").is_some() {
                self.losses.push_deciding(
                    format!("providers[{index}].transform"),
                    "let the target return the transformed answer, or move it to `defaultTest.options.transform`",
                );
            }
        }
    }

    /// Reads the text behind `file://name` or `name`.
    fn file(&mut self, reference: &str) -> Option<(String, String)> {
        let name = reference.strip_prefix("file://").unwrap_or(reference);
        let name = name.strip_prefix("./").unwrap_or(name);
        let found = self.files.read(name);
        if found.is_none() {
            self.report.needs.insert(name.to_owned());
        }
        found.map(|text| (name.to_owned(), text))
    }

    /// Names of the files that a reference means: itself, or all that match its wildcards.
    fn matching_files(&self, reference: &str) -> Vec<String> {
        let name = reference.strip_prefix("file://").unwrap_or(reference);
        let name = name.strip_prefix("./").unwrap_or(name);
        match glob_pattern(name) {
            None => vec![name.to_owned()],
            Some(pattern) => {
                let mut names = self.files.list();
                names.retain(|name| pattern.is_match(name));
                names.sort();
                names
            }
        }
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
            None | Some(Value::Null) => {
                self.report
                    .warnings
                    .push("no prompts; using the `prompt` variable of each test".to_owned());
                return vec![Prompt::text("{{prompt}}")];
            }
            Some(Value::Array(items)) => items.clone(),
            // Older configurations map a file to a label.
            Some(Value::Object(labels)) => labels
                .iter()
                .map(|(file, label)| json!({"id": file, "label": label}))
                .collect(),
            Some(one) => vec![one.clone()],
        };
        list.iter().flat_map(|item| self.prompt(item)).collect()
    }

    fn prompt(&mut self, item: &Value) -> Vec<Prompt> {
        let mut names = Vec::new();
        let raw = match item {
            Value::String(text) => text.clone(),
            Value::Object(fields) => {
                let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
                names.extend(["label", "id"].iter().filter_map(|key| text(key)));
                match text("raw").or_else(|| text("file")).or_else(|| text("id")) {
                    Some(text) => text,
                    None => return vec![Prompt::missing("prompt has no `raw` text")],
                }
            }
            other => return vec![Prompt::missing(format!("prompt is not a string: {other}"))],
        };
        names.push(raw.clone());
        let mut prompts = self.prompt_texts(&raw);
        for prompt in &mut prompts {
            prompt.names.extend(names.iter().cloned());
        }
        prompts
    }

    fn prompt_texts(&mut self, raw: &str) -> Vec<Prompt> {
        let is_reference = raw.starts_with("file://");
        if !is_reference && !looks_like_path(raw) {
            return vec![Prompt::text(raw)];
        }
        if is_code(raw) {
            return vec![Prompt::missing(format!("prompt {raw} requires running code"))];
        }
        let names = self.matching_files(raw);
        let mut prompts = Vec::new();
        for name in &names {
            match self.files.read(name) {
                Some(text) => prompts.extend(prompts_of_file(name, &text)),
                // A text with a slash may be a prompt.
                None if !is_reference => return vec![Prompt::text(raw)],
                None => {
                    self.report.needs.insert(name.clone());
                    prompts.push(Prompt::missing(format!("prompt file not found: {raw}")));
                }
            }
        }
        if prompts.is_empty() {
            prompts.push(Prompt::missing(format!("no prompt file matches {raw}")));
        }
        prompts
    }

    /// Tests with their places.
    fn tests(&mut self, value: Option<&Value>) -> Vec<(String, Map<String, Value>)> {
        let list = match value {
            None | Some(Value::Null) => return vec![("tests".to_owned(), Map::new())],
            Some(Value::Array(items)) => items.clone(),
            Some(one) => vec![one.clone()],
        };
        let mut tests = Vec::new();
        for (index, item) in list.into_iter().enumerate() {
            let place = format!("tests[{index}]");
            match item {
                Value::Object(test) if test.contains_key("path") && !test.contains_key("vars") => {
                    let path = test
                        .get("path")
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                        .to_owned();
                    tests.extend(self.tests_of_files(&place, &path));
                }
                Value::Object(test) => tests.push((place, test)),
                Value::String(reference) => tests.extend(self.tests_of_files(&place, &reference)),
                other => self
                    .losses
                    .push_deciding(place, format!("test is not an object: {other}")),
            }
        }
        tests
    }

    fn tests_of_files(&mut self, place: &str, reference: &str) -> Vec<(String, Map<String, Value>)> {
        if is_code(reference) {
            let reason = format!("{reference} generates tests by running code, which is not supported");
            self.losses.push_deciding(place, reason);
            return Vec::new();
        }
        if reference.contains("://") && !reference.starts_with("file://") {
            let reason = format!("{reference} is not a file; download it and name the file");
            self.losses.push_deciding(place, reason);
            return Vec::new();
        }
        let mut tests = Vec::new();
        let names = self.matching_files(reference);
        if names.is_empty() {
            self.losses
                .push_deciding(place, format!("no test file matches {reference}"));
        }
        for name in names {
            let Some((name, text)) = self.file(&name) else {
                self.losses
                    .push_deciding(place, format!("test file not found: {name}"));
                continue;
            };
            match test_files::read(&name, &text) {
                Ok(found) => tests.extend(
                    found
                        .into_iter()
                        .enumerate()
                        .map(|(index, test)| (format!("{name}[{index}]"), test)),
                ),
                Err(reason) => self.losses.push_deciding(place, format!("{name}: {reason}")),
            }
        }
        tests
    }

    /// A scenario runs each of its tests with each of its configurations.
    fn scenarios(&mut self, value: Option<&Value>) -> Vec<(String, Map<String, Value>)> {
        let mut tests = Vec::new();
        let list = value.and_then(Value::as_array).cloned().unwrap_or_default();
        for (index, scenario) in list.iter().enumerate() {
            let place = format!("scenarios[{index}]");
            let Some(Value::Object(scenario)) = self.resolve_reference(Some(scenario)) else {
                self.losses.push_deciding(place, "cannot be read");
                continue;
            };
            let configs = match self.resolve_reference(scenario.get("config")) {
                Some(Value::Array(configs)) => configs,
                _ => vec![Value::Object(Map::new())],
            };
            for (own_place, test) in self.tests(scenario.get("tests")) {
                for config in configs.iter().filter_map(Value::as_object) {
                    tests.push((format!("{place}.{own_place}"), merge_tests(config, &test)));
                }
            }
        }
        tests
    }

    /// Expands lists of values to all combinations, as promptfoo does unless `disableVarExpansion` is set.
    /// Returns `None` when there are more than `most` combinations.
    fn expand_vars(&mut self, test: &Map<String, Value>, max: usize) -> Option<Vec<Map<String, Value>>> {
        let mut vars = match self.resolve_reference(test.get("vars")) {
            Some(Value::Object(vars)) => vars,
            Some(Value::Null) | None if test.get("vars").is_none_or(Value::is_null) => Map::new(),
            _ => {
                self.losses.push_deciding("tests[].vars", "cannot be read");
                Map::new()
            }
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
        origin: &Origin<'_>,
        test: &Map<String, Value>,
        vars: &Map<String, Value>,
        prompt: &Prompt,
    ) -> BenchmarkCase {
        let vars = render_nested(vars);
        let description = test.get("description").and_then(Value::as_str);
        let case_id = description.map_or_else(|| format!("test {}", origin.index + 1), str::to_owned);
        let expected = self.expected(origin, test, &vars);
        let option = |key: &str| test.get("options").and_then(|options| options.get(key));
        let mut case = BenchmarkCase::new(case_id, "", expected);
        let around = |key: &str| option(key).and_then(Value::as_str).unwrap_or_default();
        match &prompt.template {
            Err(reason) => case.skip = Some(reason.clone()),
            Ok(template) => match render(
                &format!("{}{template}{}", around("prefix"), around("suffix")),
                &vars,
            ) {
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
        case.repeats = test.get("options").and_then(repeats);
        case.metadata.insert("vars".to_owned(), Value::Object(vars));
        for key in ["provider", "providers"] {
            case.metadata
                .extend(test.get(key).map(|provider| (key.to_owned(), provider.clone())));
        }
        if let Some(Value::Object(notes)) = test.get("metadata") {
            case.metadata.extend(notes.clone());
        }
        case
    }

    fn expected(
        &mut self,
        origin: &Origin<'_>,
        test: &Map<String, Value>,
        vars: &Map<String, Value>,
    ) -> BenchmarkExpected {
        let options = test.get("options").and_then(Value::as_object);
        let transforms: Vec<&Value> = ["transform", "postprocess"]
            .iter()
            .filter_map(|key| options?.get(*key))
            .collect();
        let list: &[Value] = test
            .get("assert")
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice);
        if list.is_empty() {
            self.losses
                .push_deciding(origin.place, "the test has no assertions");
            return BenchmarkExpected::unsupported("the test has no assertions");
        }
        let places = |index: usize| origin.assertion(index);
        let parts = expectations(list, &places, &transforms, vars, self);
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

/// Prompts of a file, by its ending.
fn prompts_of_file(name: &str, text: &str) -> Vec<Prompt> {
    let mut prompts: Vec<Prompt> = match file_extension(name).as_str() {
        "json" => vec![Prompt::text(text)],
        "yaml" | "yml" => {
            // All later steps expect chat prompts as JSON.
            let parsed = parse(Named { file: name, text });
            vec![parsed.map_or_else(|_| Prompt::text(text), |value| Prompt::text(value.to_string()))]
        }
        "jsonl" => text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(Prompt::text)
            .collect(),
        "csv" => match test_files::prompt_column(text) {
            Ok(prompts) => prompts.into_iter().map(Prompt::text).collect(),
            Err(reason) => vec![Prompt::missing(format!("{name}: {reason}"))],
        },
        // A text file may contain several prompts, separated by lines of three hyphens.
        "txt" => text
            .split("\n---\n")
            .map(|part| Prompt::text(part.trim()))
            .collect(),
        _ => vec![Prompt::text(text.trim())],
    };
    for prompt in &mut prompts {
        prompt.names.push(name.to_owned());
    }
    prompts
}

/// Whether a reference names a program, with or without a function (`file://grade.py:check`).
fn is_code(reference: &str) -> bool {
    let name = reference.strip_prefix("file://").unwrap_or(reference);
    let name = name.split(':').next().unwrap_or(name);
    matches!(
        file_extension(name).as_str(),
        "py" | "js" | "ts" | "mjs" | "cjs" | "mts" | "cts" | "rb"
    )
}

/// Merges a test with the default test.
fn merge_tests(default: &Map<String, Value>, test: &Map<String, Value>) -> Map<String, Value> {
    let mut out = default.clone();
    let without_defaults = test
        .get("options")
        .and_then(|options| options.get("disableDefaultAsserts"));
    if without_defaults == Some(&Value::Bool(true)) {
        out.remove("assert");
    }
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
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
