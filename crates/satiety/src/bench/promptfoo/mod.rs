//! Imports promptfoo configurations as suites: each combination of prompt and test becomes a case, and its
//! assertions become expectations. A case with unsupported parts is *skipped* with the reason, so that it never
//! passes by accident, and every key that is not understood is reported with its place. Providers are kept as
//! metadata; the caller chooses the targets.
//!
//! The caller provides the files that a configuration references, and runs the code that generates prompts,
//! tests and variables ([`CodeCall`]). The report lists missing files.

mod assertions;
mod calls;
mod code;
mod files;
mod patterns;
mod providers;
mod results;
mod template;
mod test_files;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::expected::{BenchmarkExpected, Mode};
use super::loss::{Loss, Losses};
use super::reader::{Named, SuiteError, parse};
use super::suite::{BenchmarkCase, BenchmarkSuite};
use crate::bench::code_check::{Language, Transform};
use crate::bench::derived::{DERIVED_METRICS, DerivedMetrics, check_expression};
use assertions::{answered, expectations};
pub use calls::CodeCall;
use calls::is_code;
pub use files::ConfigFiles;
use files::{glob_pattern, looks_like_path};
use providers::Provider;
pub use results::read_promptfoo_results;
use template::{render_prompt, resolve_vars, variable_of_file};
use test_files::file_extension;

/// Maximum number of cases of a configuration. Lists of variables multiply: ten lists of ten would be ten
/// billion cases.
const MAX_CASES: usize = 100_000;

/// Keys of a configuration that are understood, or that only concern promptfoo's own output.
const CONFIG_KEYS: [&str; 24] = [
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
    "derivedMetrics",
    "envPath",
];
/// Keys of a configuration that change verdicts and are not supported.
const DECIDING_CONFIG_KEYS: [&str; 3] = ["redteam", "extensions", "nunjucksFilters"];
const TEST_KEYS: [&str; 13] = [
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
    "assertScoringFunction",
    "providerOutput",
];
/// Key of the metadata of suites and cases with the providers to run them with.
pub const PROVIDERS: &str = "providers";
/// Options that make tests depend on the answers of others.
const DECIDING_OPTION_KEYS: [&str; 1] = ["storeOutputAs"];
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
    "disableConversationVar",
    "factuality",
    "transformVars",
];

/// Result of an import.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptfooImport {
    /// Suite with the imported cases.
    pub suite: BenchmarkSuite,
    /// Report of what was imported and skipped.
    pub report: ImportReport,
    /// Calls that have to be made before the next import; empty once the import is complete.
    pub calls: Vec<CodeCall>,
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
        templates: object(config.get("assertionTemplates")),
        env: object(config.get("env")),
        providers: Vec::new(),
        own_providers: BTreeSet::new(),
        derived: DerivedMetrics::default(),
        calls: Vec::new(),
    };
    import.report_keys("", &config, &CONFIG_KEYS, &DECIDING_CONFIG_KEYS);
    report_environment(&config, &import.env, &mut import.losses);
    let providers = config.get("providers").or(config.get("targets"));
    import.providers = import.read_providers(providers, "providers");
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
    let is_empty = |key: &str| config.get(key).is_none_or(Value::is_null);
    // Prompts alone are tests; without prompts there is nothing to ask.
    let mut tests = if is_empty("tests") && (!is_empty("scenarios") || is_empty("prompts")) {
        Vec::new()
    } else {
        import.tests(config.get("tests"))
    };
    tests.extend(import.scenarios(config.get("scenarios")));
    let mut suite = BenchmarkSuite::new(suite_id);
    if let Some(Value::String(description)) = config.get("description") {
        suite.description.clone_from(description);
    }
    let env = config.get("env").filter(|value| !value.is_null());
    suite
        .metadata
        .extend(env.map(|env| ("env".to_owned(), env.clone())));
    import.derived = derived_metrics(config.get("derivedMetrics"), &mut import.losses);
    suite.repeats = ["evaluateOptions", "commandLineOptions"]
        .iter()
        .find_map(|key| repeats(config.get(*key)?));
    import.add_cases(file, &mut suite, &prompts, &default_test, &tests)?;
    import.restrict_providers(&mut suite);
    if !import.derived.metrics.is_empty() {
        let derived = json!(import.derived);
        suite.metadata.insert(DERIVED_METRICS.to_owned(), derived);
    }
    import.report.losses = import.losses.into_vec();
    if suite.cases.is_empty() && import.calls.is_empty() {
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
        calls: import.calls,
    })
}

/// Substitutes `{{env.NAME}}` in a setting; other variables are empty, as in Nunjucks.
pub fn render_environment(text: &str, environment: &BTreeMap<String, String>) -> Result<String, String> {
    let env = environment
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)));
    template::render(text, &Map::new(), &env.collect())
}

/// Reports variables of the shell that templates name: they are not available, so that suites stay the same on
/// every machine.
fn report_environment(config: &Map<String, Value>, env: &Map<String, Value>, losses: &mut Losses) {
    let parts = ["prompts", "tests", "defaultTest", "scenarios"];
    let text: String = parts
        .iter()
        .filter_map(|key| Some(config.get(*key)?.to_string()))
        .collect();
    let mut names = BTreeSet::new();
    for (at, _) in text.match_indices("{{") {
        let inside = text.get(at + 2..).unwrap_or_default();
        let Some(inside) = inside.split("}}").next() else {
            continue;
        };
        if let Some(rest) = inside.trim().strip_prefix("env.") {
            let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let end = rest.find(|letter| !is_plain(letter)).unwrap_or(rest.len());
            names.insert(rest.get(..end).unwrap_or_default().to_owned());
        }
    }
    for name in names.iter().filter(|name| !env.contains_key(*name)) {
        losses.push(
            format!("env.{name}"),
            "templates do not see variables of the shell; set it under `env` of the file",
        );
    }
}

fn object(value: Option<&Value>) -> Map<String, Value> {
    value.and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Reads `derivedMetrics`; those that cannot be computed are listed as losses.
fn derived_metrics(value: Option<&Value>, losses: &mut Losses) -> DerivedMetrics {
    let mut derived = DerivedMetrics::default();
    let list = match value {
        None | Some(Value::Null) => return derived,
        Some(Value::Array(list)) => list.as_slice(),
        Some(_) => {
            losses.push(
                "derivedMetrics",
                "must be a list of objects with `name` and `value`",
            );
            return derived;
        }
    };
    for (index, item) in list.iter().enumerate() {
        let place = format!("derivedMetrics[{index}]");
        let text = |key: &str| item.get(key).and_then(Value::as_str).map(str::to_owned);
        let (Some(name), Some(expression)) = (text("name"), text("value")) else {
            losses.push(place, "must be an object with the texts `name` and `value`");
            continue;
        };
        match check_expression(&expression) {
            Ok(()) => derived.metrics.push((name, expression)),
            Err(reason) => losses.push(format!("{place}.value"), format!("cannot be computed: {reason}")),
        }
        if let Some(fields) = item.as_object() {
            losses.unknown_keys(&format!("derivedMetrics[{index}]."), fields, &["name", "value"]);
        }
    }
    derived
}

fn repeats(options: &Value) -> Option<u32> {
    let repeat = options.get("repeat")?.as_u64()?;
    u32::try_from(repeat).ok().filter(|repeat| *repeat > 1)
}

/// A prompt of the configuration.
struct Prompt {
    /// Names by which tests select it.
    names: Vec<String>,
    template: Template,
}

enum Template {
    Text(String),
    /// A function that returns the prompt, with its settings.
    Code {
        reference: String,
        config: Value,
    },
    /// The reason why there is none.
    Missing(String),
}

impl Prompt {
    fn text(template: impl Into<String>) -> Self {
        Self {
            names: Vec::new(),
            template: Template::Text(template.into()),
        }
    }

    fn missing(reason: impl Into<String>) -> Self {
        Self {
            names: Vec::new(),
            template: Template::Missing(reason.into()),
        }
    }

    /// Whether a test or a provider with this `prompts` filter uses the prompt.
    fn is_selected(&self, filter: Option<&Value>) -> bool {
        let wanted = match filter {
            Some(Value::String(name)) => vec![name.as_str()],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => return true,
        };
        wanted.iter().any(|wanted| {
            let prefix = wanted.strip_suffix('*');
            self.names.iter().any(|name| {
                name == wanted
                    || prefix.is_some_and(|prefix| name.starts_with(prefix))
                    || name
                        .strip_prefix(wanted)
                        .is_some_and(|rest| rest.starts_with(':'))
            })
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
    /// Variables of the configuration's own environment.
    env: Map<String, Value>,
    providers: Vec<Provider>,
    /// Names of the providers that only single tests use.
    own_providers: BTreeSet<String>,
    /// Metrics that are computed from the named scores.
    derived: DerivedMetrics,
    /// Calls whose results are missing.
    calls: Vec<CodeCall>,
}

impl Importer<'_> {
    /// Adds a case for each combination of test, variables and prompt.
    fn add_cases(
        &mut self,
        file: Named<'_>,
        suite: &mut BenchmarkSuite,
        prompts: &[Prompt],
        default_test: &Map<String, Value>,
        tests: &[(String, Map<String, Value>)],
    ) -> Result<(), SuiteError> {
        let mut used_ids = BTreeSet::new();
        let mut copies: BTreeMap<String, usize> = BTreeMap::new();
        let default_asserts = default_test.get("assert").and_then(Value::as_array);
        for (index, (place, test)) in tests.iter().enumerate() {
            self.report_test_keys(place, test);
            let test = merge_tests(default_test, test);
            let origin = Origin {
                index,
                place,
                default_asserts: default_asserts.map_or(0, Vec::len),
            };
            let remaining = MAX_CASES.saturating_sub(suite.cases.len()) / prompts.len().max(1);
            let expanded = self.expand_vars(&origin, &test, remaining).ok_or_else(|| SuiteError::Field {
                file: file.file.to_owned(),
                field: format!("{place}.vars"),
                reason: format!("expands to more than {MAX_CASES} cases; set `options.disableVarExpansion` to keep lists unexpanded"),
            })?;
            for vars in expanded {
                for (number, prompt) in prompts.iter().enumerate() {
                    if !prompt.is_selected(test.get("prompts")) {
                        continue;
                    }
                    let Some(mut case) = self.case(&origin, &test, &vars, prompt) else {
                        continue;
                    };
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
                                self.losses.push_deciding(place.as_str(), reason.as_str());
                            }
                            self.report.skipped.insert(case.case_id.clone(), reason);
                        }
                        None => self.report.imported += 1,
                    }
                    if let (false, Ok(number), true) = (
                        self.derived.metrics.is_empty(),
                        u32::try_from(number + 1),
                        prompts.len() > 1,
                    ) {
                        self.derived.prompts.insert(case.case_id.clone(), number);
                    }
                    suite.cases.push(case);
                }
            }
        }
        Ok(())
    }

    /// Keeps the providers as metadata. Those of single tests do not answer the other cases.
    fn restrict_providers(&mut self, suite: &mut BenchmarkSuite) {
        if !self.own_providers.is_empty() {
            let shared: Value = self
                .providers
                .iter()
                .map(Provider::name)
                .filter(|name| !self.own_providers.contains(*name))
                .collect();
            for case in &mut suite.cases {
                let list = case.metadata.entry(PROVIDERS.to_owned());
                list.or_insert_with(|| shared.clone());
            }
        }
        if !self.providers.is_empty() {
            let list: Vec<Value> = self.providers.drain(..).map(Provider::into_value).collect();
            suite.metadata.insert(PROVIDERS.to_owned(), Value::Array(list));
        }
    }

    /// Reads a transform: code, or a function in a file.
    fn transform(&mut self, text: &str) -> Result<Transform, String> {
        if !text.starts_with("file://") {
            return Ok(Transform::inline(text));
        }
        let found = self.code_reference(text)?;
        Ok(Transform {
            language: found.language,
            code: None,
            file: Some(found.file),
            function: found.function,
        })
    }

    /// Reports keys that are not understood; those that change verdicts decide.
    fn report_keys(&mut self, prefix: &str, fields: &Map<String, Value>, known: &[&str], deciding: &[&str]) {
        for key in deciding.iter().filter(|key| {
            let value = fields.get(**key);
            value.is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)))
        }) {
            self.losses
                .push_deciding(format!("{prefix}{key}"), "changes verdicts and is not supported");
        }
        let known: Vec<&str> = known.iter().chain(deciding).copied().collect();
        self.losses.unknown_keys(prefix, fields, &known);
    }

    fn report_test_keys(&mut self, place: &str, test: &Map<String, Value>) {
        self.report_keys(&format!("{place}."), test, &TEST_KEYS, &[]);
        if let Some(Value::Object(options)) = test.get("options") {
            let prefix = format!("{place}.options.");
            self.report_keys(&prefix, options, &OPTION_KEYS, &DECIDING_OPTION_KEYS);
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
        let mut config = json!({});
        let raw = match item {
            Value::String(text) => text.clone(),
            Value::Array(_) => item.to_string(),
            Value::Object(fields) => {
                let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
                names.extend(["label", "id"].iter().filter_map(|key| text(key)));
                config = fields.get("config").cloned().unwrap_or_else(|| json!({}));
                match text("raw").or_else(|| text("file")).or_else(|| text("id")) {
                    Some(text) => text,
                    // A conversation may be written out instead of its JSON.
                    None if fields.contains_key("role") => Value::Array(vec![item.clone()]).to_string(),
                    None => return vec![Prompt::missing("prompt has no `raw` text")],
                }
            }
            other => return vec![Prompt::missing(format!("prompt is not a string: {other}"))],
        };
        names.push(raw.clone());
        let mut prompts = self.prompt_texts(&raw, &config);
        for prompt in &mut prompts {
            prompt.names.extend(names.iter().cloned());
        }
        prompts
    }

    fn prompt_texts(&mut self, raw: &str, config: &Value) -> Vec<Prompt> {
        let is_reference = raw.starts_with("file://");
        if !is_reference && !looks_like_path(raw) {
            return vec![Prompt::text(raw)];
        }
        let names = self.matching_files(raw);
        let mut prompts = Vec::new();
        for name in &names {
            if is_code(name) {
                prompts.push(Prompt {
                    names: vec![name.clone()],
                    template: Template::Code {
                        reference: name.clone(),
                        config: config.clone(),
                    },
                });
                continue;
            }
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
                    tests.extend(self.tests_of_files(&place, &path, test.get("config")));
                }
                Value::Object(test) => tests.push((place, test)),
                Value::String(reference) => tests.extend(self.tests_of_files(&place, &reference, None)),
                other => self
                    .losses
                    .push_deciding(place, format!("test is not an object: {other}")),
            }
        }
        tests
    }

    fn tests_of_files(
        &mut self,
        place: &str,
        reference: &str,
        config: Option<&Value>,
    ) -> Vec<(String, Map<String, Value>)> {
        if is_code(reference) {
            return self.generated_tests(place, reference, config);
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

    /// Tests that a function returns.
    fn generated_tests(
        &mut self,
        place: &str,
        reference: &str,
        config: Option<&Value>,
    ) -> Vec<(String, Map<String, Value>)> {
        let arguments = config.cloned().into_iter().collect();
        match self.call_file(reference, "generate_tests", arguments) {
            Ok(Value::Array(items)) => {
                let mut tests = Vec::new();
                for (index, item) in items.into_iter().enumerate() {
                    match item {
                        Value::Object(test) => tests.push((format!("{reference}[{index}]"), test)),
                        other => self
                            .losses
                            .push_deciding(place, format!("test is not an object: {other}")),
                    }
                }
                return tests;
            }
            Ok(other) => self.losses.push_deciding(
                place,
                format!("{reference} returned no list of tests but {other}"),
            ),
            Err(Some(reason)) => self.losses.push_deciding(place, format!("{reference}: {reason}")),
            Err(None) => {}
        }
        Vec::new()
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

    /// Expands lists of texts to all combinations, as promptfoo does unless `disableVarExpansion` is set.
    /// Returns `None` when there are more than `max` combinations.
    fn expand_vars(
        &mut self,
        origin: &Origin<'_>,
        test: &Map<String, Value>,
        max: usize,
    ) -> Option<Vec<Map<String, Value>>> {
        let place = format!("{}.vars", origin.place);
        let mut vars = match self.resolve_reference(test.get("vars")) {
            Some(Value::Object(vars)) => vars,
            Some(Value::Null) | None if test.get("vars").is_none_or(Value::is_null) => Map::new(),
            _ => {
                self.losses.push_deciding(&place, "cannot be read");
                Map::new()
            }
        };
        let option = |key: &str| test.get("options").and_then(|options| options.get(key));
        if let Some(Value::String(transform)) = option("transformVars") {
            match self.transformed_vars(transform, &vars) {
                Ok(changed) => vars.extend(changed),
                Err(reason) => {
                    let field = format!("{}.options.transformVars", origin.place);
                    self.losses.push_deciding(field, reason.as_str());
                }
            }
        }
        let keep_lists = option("disableVarExpansion") == Some(&Value::Bool(true));
        let mut all = vec![Map::new()];
        for (name, value) in vars {
            let choices = match value {
                Value::Array(items) if !keep_lists && items.first().is_some_and(Value::is_string) => items,
                Value::String(reference) if reference.starts_with("file://") && !keep_lists => self
                    .matching_files(&reference)
                    .into_iter()
                    .map(|name| Value::String(format!("file://{name}")))
                    .collect(),
                value => vec![value],
            };
            if choices.is_empty() {
                self.losses
                    .push_deciding(format!("{place}.{name}"), "no file matches the wildcards");
            }
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

    fn transformed_vars(
        &mut self,
        transform: &str,
        vars: &Map<String, Value>,
    ) -> Result<Map<String, Value>, String> {
        let arguments = vec![Value::Object(vars.clone()), json!({"prompt": {}})];
        let returned = if transform.starts_with("file://") {
            self.call_file(transform, "get_transform", arguments)
        } else {
            self.call(CodeCall {
                language: Language::Javascript,
                code: Some(transform.to_owned()),
                file: None,
                function: None,
                arguments,
            })
        };
        match returned {
            Ok(Value::Object(changed)) => Ok(changed),
            Ok(other) => Err(format!("returned no object but {other}")),
            Err(reason) => Err(reason.unwrap_or_default()),
        }
    }

    /// Reads the files of variables and calls their functions; the error says what is missing, or is `None`
    /// for a call that has not been made.
    fn load_vars(
        &mut self,
        vars: &Map<String, Value>,
        prompt: &str,
    ) -> Result<Map<String, Value>, Option<String>> {
        let mut loaded = vars.clone();
        for (name, value) in vars {
            let Value::String(reference) = value else { continue };
            if !reference.starts_with("file://") {
                continue;
            }
            let value = if is_code(reference) {
                let arguments = vec![json!(name), json!(prompt), Value::Object(loaded.clone())];
                let returned = self.call_file(reference, "get_var", arguments)?;
                let output = returned.get("output").cloned().ok_or_else(|| {
                    Some(format!(
                        "{reference} returned no object with `output` but {returned}"
                    ))
                })?;
                match output {
                    Value::String(text) => Value::String(text.trim().to_owned()),
                    other => other,
                }
            } else {
                let (file, text) = self
                    .file(reference)
                    .ok_or_else(|| Some(format!("variable file not found: {reference}")))?;
                variable_of_file(&file, &text)
            };
            loaded.insert(name.clone(), value);
        }
        Ok(resolve_vars(loaded))
    }

    /// Text of the prompt for these variables.
    fn prompt_text(
        &mut self,
        prompt: &Prompt,
        vars: &Map<String, Value>,
        options: &Map<String, Value>,
    ) -> Result<String, Option<String>> {
        let around = |key: &str| options.get(key).and_then(Value::as_str).unwrap_or_default();
        let template = match &prompt.template {
            Template::Missing(reason) => return Err(Some(reason.clone())),
            Template::Text(text) => text.clone(),
            Template::Code { reference, config } => {
                let provider = self.providers.first().map(Provider::summary);
                let context = json!({"vars": vars, "provider": provider, "config": config});
                let returned = self
                    .call_file(reference, "", vec![context])
                    .map_err(|reason| reason.map(|reason| format!("prompt {reference}: {reason}")))?;
                match returned.get("prompt").unwrap_or(&returned) {
                    Value::String(text) => text.clone(),
                    Value::Null => return Err(Some(format!("prompt {reference} returned nothing"))),
                    other => other.to_string(),
                }
            }
        };
        let text = format!("{}{template}{}", around("prefix"), around("suffix"));
        render_prompt(&text, vars, &self.env)
            .map_err(|reason| Some(format!("cannot render the prompt: {reason}")))
    }

    /// Case of a test with a prompt; `None` if the prompt is for none of the test's providers.
    fn case(
        &mut self,
        origin: &Origin<'_>,
        test: &Map<String, Value>,
        vars: &Map<String, Value>,
        prompt: &Prompt,
    ) -> Option<BenchmarkCase> {
        let providers = self.providers_of(test, prompt, origin.place);
        if providers.as_ref().is_some_and(Vec::is_empty) {
            return None;
        }
        let options = object(test.get("options"));
        let raw = match &prompt.template {
            Template::Text(text) => text.as_str(),
            _ => "",
        };
        let (text, vars) = match self.load_vars(vars, raw) {
            Ok(vars) => (self.prompt_text(prompt, &vars, &options), vars),
            Err(reason) => (Err(reason), vars.clone()),
        };
        let description = test.get("description").and_then(Value::as_str);
        let case_id = description.map_or_else(|| format!("test {}", origin.index + 1), one_line);
        let expected = self.expected(origin, test, &vars);
        let mut case = BenchmarkCase::new(case_id, "", expected);
        match text {
            Ok(text) => case.input.goal = text,
            // A call that has not been made is not reported: the next import has its result.
            Err(reason) => case.skip = Some(reason.unwrap_or_default()),
        }
        case.repeats = test.get("options").and_then(repeats);
        if let Some(Value::Object(notes)) = test.get("metadata") {
            case.metadata.extend(notes.clone());
        }
        case.metadata.insert("vars".to_owned(), Value::Object(vars));
        case.metadata
            .extend(providers.map(|names| (PROVIDERS.to_owned(), json!(names))));
        Some(case)
    }

    fn expected(
        &mut self,
        origin: &Origin<'_>,
        test: &Map<String, Value>,
        vars: &Map<String, Value>,
    ) -> BenchmarkExpected {
        let list: &[Value] = test
            .get("assert")
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice);
        let places = |index: usize| origin.assertion(index);
        let mut parts = expectations(list, &places, vars, self);
        if parts.is_empty() {
            self.losses.push(
                origin.place,
                "the test has no assertions: it passes whenever the target answers",
            );
        }
        if parts.iter().all(|part| part.weight == 0.0) {
            parts.push(answered());
        }
        let threshold = test.get("threshold").and_then(Value::as_f64);
        let transforms = self.transforms_of(origin, test);
        let scorer = self.scorer_of(origin, test);
        if threshold.is_none() && transforms.is_empty() && scorer.is_none() {
            return BenchmarkExpected::all(parts);
        }
        BenchmarkExpected {
            threshold,
            transforms,
            scorer,
            parts,
            ..BenchmarkExpected::of(Mode::All)
        }
    }

    /// Transforms of the answer that apply to all assertions of a test.
    fn transforms_of(&mut self, origin: &Origin<'_>, test: &Map<String, Value>) -> Vec<Transform> {
        let mut transforms = Vec::new();
        if let Some(recorded) = test.get("providerOutput").filter(|value| !value.is_null()) {
            let place = format!("{}.providerOutput", origin.place);
            self.losses.push(
                place,
                "the recorded answer is checked, but the target is called too",
            );
            transforms.push(Transform::inline(format!("({recorded})")));
        }
        let option = |key: &str| test.get("options").and_then(|options| options.get(key)?.as_str());
        let own = ["transform", "postprocess"]
            .iter()
            .find_map(|key| Some((*key, option(key).filter(|code| !code.is_empty())?)));
        if let Some((key, code)) = own {
            match self.transform(code) {
                Ok(transform) => transforms.push(transform),
                Err(reason) => {
                    let place = format!("{}.options.{key}", origin.place);
                    self.losses.push_deciding(place, reason);
                }
            }
        }
        transforms
    }

    fn scorer_of(&mut self, origin: &Origin<'_>, test: &Map<String, Value>) -> Option<Transform> {
        let reference = test.get("assertScoringFunction")?.as_str()?;
        let place = format!("{}.assertScoringFunction", origin.place);
        match self.transform(reference) {
            Ok(mut scorer) => {
                if scorer.language == Language::Python && scorer.function.is_none() {
                    scorer.function = Some("get_score".to_owned());
                }
                Some(scorer)
            }
            Err(reason) => {
                self.losses.push_deciding(place, reason);
                None
            }
        }
    }
}

/// A description as an id: white space and control characters become single spaces.
fn one_line(description: &str) -> String {
    let words: Vec<&str> = description
        .split(|letter: char| letter.is_whitespace() || letter.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    if words.is_empty() {
        "test".to_owned()
    } else {
        words.join(" ")
    }
}

/// Prompts of a file, by its ending.
fn prompts_of_file(name: &str, text: &str) -> Vec<Prompt> {
    let mut prompts: Vec<Prompt> = match file_extension(name).as_str() {
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
        "txt" => {
            let lines: Vec<&str> = text.lines().collect();
            lines
                .split(|line| line.trim() == "---")
                .map(|part| part.join("\n").trim().to_owned())
                .filter(|part| !part.is_empty())
                .map(Prompt::text)
                .collect()
        }
        _ => vec![Prompt::text(text)],
    };
    for prompt in &mut prompts {
        prompt.names.push(name.to_owned());
    }
    prompts
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

#[cfg(test)]
mod tests;
