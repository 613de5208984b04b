//! Tool registry: name, description, schemas and handler of each tool. Which tools are offered is
//! configurable, because a model pays for every tool description in every request.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use satiety_engine::EngineError;
use satiety_engine::eviction::count_tokens;
use satiety_engine::operations::{self, CallError, View};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::call::{Call, Problem, Work};
use super::{schema, tools};
use crate::auth::Scope;

/// Server instructions; each line is sent only if all tools that it names are offered.
const INSTRUCTIONS: &str = include_str!("instructions.md");
static TOOL_NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| tools::all().iter().map(Tool::name).collect());

/// Reason why an argument is not offered to remote callers.
const REMOTE: &str = "not allowed for remote callers; the server's configured value is used";

/// Set of offered tools. Each profile includes the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[schemars(rename = "ToolProfile")]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// The tools that say when to stop, and the essential memory tools; at most nine.
    Core,
    /// Also all other memory tools, and tasks.
    Memory,
    /// All tools.
    Full,
}

impl Profile {
    /// All profiles, smallest first.
    pub const ALL: [Self; 3] = [Self::Core, Self::Memory, Self::Full];

    /// Name of the profile.
    pub fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Memory => "memory",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = RegistryError;

    fn from_str(text: &str) -> Result<Self, RegistryError> {
        let found = Self::ALL.into_iter().find(|profile| profile.name() == text);
        found.ok_or_else(|| RegistryError::NoProfile(text.into()))
    }
}

/// Invalid selection of tools.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Unknown profile name.
    #[error("unknown profile `{0}` (expected one of: core, memory, full)")]
    NoProfile(String),
    /// Unknown tool name.
    #[error("unknown tool `{name}`{}", near.as_ref().map_or_else(String::new, |near| format!("; did you mean `{near}`?")))]
    NoTool {
        /// Name as given.
        name: String,
        /// Most similar known name.
        near: Option<String>,
    },
}

/// Effect of a call on stored data, for clients that ask the user before some calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Reads only.
    Reads,
    /// Adds data.
    Adds,
    /// Changes data idempotently.
    Changes,
    /// Deletes data.
    Deletes,
    /// Runs programs.
    Runs,
}

/// Description of a tool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spec {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Purpose of the tool, and when to call it.
    pub(super) about: &'static str,
    pub(super) profile: Profile,
    pub(super) effect: Effect,
    /// Fields of the answer with untrusted text: data, never instructions.
    pub(super) data: &'static [&'static str],
}

/// How an operation is offered as a tool.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ToolProfile {
    /// Request fields that are not offered as arguments.
    pub(super) hidden: &'static [&'static str],
    /// Default values that differ from the operation's.
    pub(super) defaults: &'static [(&'static str, u32)],
    /// Projection of the response; `None` returns all of it.
    pub(super) view: Option<&'static View>,
    /// Objects among the arguments that are described by one sentence instead of a schema per field.
    pub(super) brief: &'static [(&'static str, &'static str)],
}

impl ToolProfile {
    /// Request fields: the arguments, plus the connection's session and defaults.
    fn fields(&self, call: &Call, arguments: Value, has_session: bool) -> Result<Value, EngineError> {
        let Value::Object(mut fields) = arguments else {
            return Ok(arguments);
        };
        if let Some(name) = fields.keys().find(|name| self.hidden.contains(&name.as_str())) {
            let invalid = CallError::Invalid {
                message: format!("unknown field `{name}`"),
                place: name.clone(),
            };
            return Err(invalid.into());
        }
        let is_blank = |value: &Value| value.as_str().is_some_and(|text| text.trim().is_empty());
        if has_session
            && fields
                .get("session")
                .is_none_or(|named| named.is_null() || is_blank(named))
        {
            fields.insert("session".into(), json!(call.session));
        }
        for (name, value) in self.defaults {
            fields.entry(*name).or_insert(json!(value));
        }
        Ok(Value::Object(fields))
    }
}

/// Tool of the registry.
#[derive(Clone)]
pub struct Tool {
    pub(super) spec: Spec,
    pub(super) input: Arc<Map<String, Value>>,
    pub(super) output: Arc<Map<String, Value>>,
    /// Schema of the request with all bounds, which `input` omits to save tokens.
    request: fn(&mut SchemaGenerator) -> Schema,
    pub(super) run: Arc<dyn Fn(Call, Value) -> Work + Send + Sync>,
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}

impl Tool {
    /// Creates a tool with arguments `A` and answer `T`.
    pub(super) fn new<A, T, F>(spec: Spec, run: impl Fn(Call, A) -> F + Send + Sync + 'static) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        T: Serialize + JsonSchema + 'static,
        F: Future<Output = Result<T, Problem>> + Send + 'static,
    {
        let run = move |call: Call, arguments: Value| -> Work {
            let parsed = serde_path_to_error::deserialize::<_, A>(arguments);
            match parsed {
                Err(error) => Box::pin(std::future::ready(Err(Problem::arguments(spec.name, &error)))),
                Ok(arguments) => {
                    let answer = run(call, arguments);
                    Box::pin(async move { with_data_fields(spec.data, serde_json::to_value(answer.await?)) })
                }
            }
        };
        Self {
            spec,
            input: Arc::new(schema::input(A::json_schema)),
            output: Arc::new(schema::output(T::json_schema, None, spec.data)),
            request: A::json_schema,
            run: Arc::new(run),
        }
    }

    /// Creates a tool that calls an operation; `None` if there is none with that name.
    pub(super) fn of_operation(operation: &'static str, spec: Spec, offer: ToolProfile) -> Option<Self> {
        let operation = operations::find(operation)?;
        let mut input = schema::input(operation.request.schema);
        if let Some(Value::Object(properties)) = input.get_mut("properties") {
            properties.retain(|name, _| !offer.hidden.contains(&name.as_str()));
            for (name, about) in offer.brief {
                if let Some(schema) = properties.get_mut(*name) {
                    *schema = json!({"type": "object", "description": about});
                }
            }
        }
        let properties = input.get("properties");
        let has_session = properties.is_some_and(|properties| properties.get("session").is_some());
        let run = move |call: Call, arguments: Value| -> Work {
            Box::pin(async move {
                let fields = offer.fields(&call, arguments, has_session);
                let work =
                    fields.and_then(|fields| Ok((operation.start(call.operation(), &fields)?, fields)));
                let (work, fields) = work.map_err(|error| call.problem(spec.name, error))?;
                let response = work.await.map_err(|error| call.problem(spec.name, error))?;
                let response = serde_json::from_slice(&response);
                with_data_fields(
                    spec.data,
                    match offer.view {
                        Some(view) => response.map(|response| view.apply(&response, &fields)),
                        None => response,
                    },
                )
            })
        };
        Some(Self {
            spec,
            input: Arc::new(input),
            output: Arc::new(schema::output(operation.response.schema, offer.view, spec.data)),
            request: operation.request.schema,
            run: Arc::new(run),
        })
    }

    /// Removes these arguments.
    pub(super) fn hide(mut self, arguments: &[&'static str]) -> Self {
        for argument in arguments {
            self.remove(argument, "unknown argument");
        }
        self
    }

    /// Removes an argument from the schema and rejects it.
    fn remove(&mut self, argument: &'static str, why: &'static str) {
        let mut input = Map::clone(&self.input);
        if let Some(Value::Object(properties)) = input.get_mut("properties") {
            properties.remove(argument);
        }
        self.input = Arc::new(input);
        let run = Arc::clone(&self.run);
        self.run = Arc::new(move |call, arguments: Value| {
            if arguments.get(argument).is_some() {
                let problem = Problem::new(format!("`{argument}`: {why}"), "omit it");
                return Box::pin(std::future::ready(Err(problem)));
            }
            run(call, arguments)
        });
    }

    /// Restricts the tool to callers with this scope.
    fn require_scope(&mut self, needed: Scope) {
        let run = Arc::clone(&self.run);
        self.run = Arc::new(move |call, arguments| {
            if call.scope < needed {
                let problem = Problem::new(
                    format!(
                        "scope `{needed}` is required, but the token has scope `{}`",
                        call.scope
                    ),
                    "ask the server's operator for such a token",
                );
                return Box::pin(std::future::ready(Err(problem)));
            }
            run(call, arguments)
        });
    }

    /// Name of the tool.
    pub fn name(&self) -> &'static str {
        self.spec.name
    }

    /// Purpose of the tool, and when to call it.
    pub fn description(&self) -> &'static str {
        self.spec.about
    }

    /// Smallest profile that includes it.
    pub fn profile(&self) -> Profile {
        self.spec.profile
    }

    /// Effect of a call on stored data.
    pub fn effect(&self) -> Effect {
        self.spec.effect
    }

    /// Fields of the answer with untrusted text.
    pub fn data_fields(&self) -> &'static [&'static str] {
        self.spec.data
    }

    /// JSON Schema of the arguments with all bounds, as calls are checked. Models get the shorter
    /// [`Tool::input_schema`].
    pub fn full_schema(&self) -> Value {
        let mut schema = schema::full(self.request);
        let offered = self.input.get("properties").and_then(Value::as_object);
        if let (Some(Value::Object(fields)), Some(offered)) = (schema.get_mut("properties"), offered) {
            fields.retain(|name, _| offered.contains_key(name));
            for (name, field) in fields {
                if let Some(about) = offered.get(name).and_then(|field| field.get("description")) {
                    field["description"] = about.clone();
                }
            }
        }
        schema
    }

    /// JSON Schema of the arguments.
    pub fn input_schema(&self) -> &Map<String, Value> {
        &self.input
    }

    /// JSON Schema of the answer.
    pub fn output_schema(&self) -> &Map<String, Value> {
        &self.output
    }

    /// Tokens that a model reads per request: name, description and arguments.
    pub fn tokens(&self) -> u64 {
        let shown =
            json!({"name": self.spec.name, "description": self.spec.about, "input_schema": *self.input});
        count_tokens(&shown.to_string())
    }
}

/// Adds the list of data fields to an answer.
fn with_data_fields(
    data: &'static [&'static str],
    answer: serde_json::Result<Value>,
) -> Result<Value, Problem> {
    match answer {
        Ok(Value::Object(mut fields)) => {
            if !data.is_empty() {
                fields.insert(schema::DATA_FIELDS.into(), json!(data));
            }
            Ok(Value::Object(fields))
        }
        Ok(other) => Err(Problem::bug(&format!("the answer is not an object: {other}"))),
        Err(error) => Err(Problem::bug(&error.to_string())),
    }
}

/// Token cost of a selection of tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ToolList")]
pub struct Cost {
    /// Offered tools.
    pub tools: Vec<ToolCost>,
    /// Tokens of all tools in every request, counted with `o200k_base`.
    pub tokens: u64,
}

/// Token cost of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ToolCost {
    /// Name of the tool.
    pub name: String,
    /// Smallest profile that includes it.
    pub profile: Profile,
    /// Tokens of name, description and arguments.
    pub tokens: u64,
    /// Purpose of the tool, and when to call it.
    pub description: String,
}

/// Registry of the offered tools.
#[derive(Debug, Clone)]
pub struct Registry {
    tools: Vec<Tool>,
}

impl Registry {
    /// All tools of a profile.
    pub fn from_profile(profile: Profile) -> Self {
        let mut tools = tools::all();
        tools.retain(|tool| tool.spec.profile <= profile);
        Self { tools }
    }

    /// Removes arguments that name files and programs, for remote callers. Harness tools use the configured
    /// directory, and a suite runs against the target described next to it. Operations that need scope
    /// `admin` over HTTP need it here, too.
    pub fn for_remote_callers(mut self) -> Self {
        for tool in &mut self.tools {
            if matches!(tool.name(), "bench_run" | "harness_record") {
                tool.require_scope(Scope::Admin);
            }
            match tool.name() {
                "bench_run" => tool.remove("target", REMOTE),
                name if name.starts_with("harness_") => tool.remove("folder", REMOTE),
                _ => {}
            }
        }
        self
    }

    /// Tools with these names, in this order.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, RegistryError> {
        let all = tools::all();
        let mut chosen: Vec<Tool> = Vec::new();
        for name in names {
            let Some(tool) = all.iter().find(|tool| tool.name() == name) else {
                let name = name.to_owned();
                let near = all.iter().map(Tool::name).find(|known| is_similar(known, &name));
                return Err(RegistryError::NoTool {
                    near: near.map(str::to_owned),
                    name,
                });
            };
            if !chosen.iter().any(|one| one.name() == name) {
                chosen.push(tool.clone());
            }
        }
        Ok(Self { tools: chosen })
    }

    /// Offered tools.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// Finds a tool by name.
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name() == name)
    }

    /// Instructions for the model on connection: when to call the offered tools, and what is untrusted.
    pub fn instructions(&self) -> String {
        let is_offered = |word: &str| !TOOL_NAMES.contains(&word) || self.get(word).is_some();
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let lines = INSTRUCTIONS
            .lines()
            .filter(|line| line.split(|letter| !is_word(letter)).all(is_offered));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Token cost of the offered tools.
    pub fn cost(&self) -> Cost {
        let tools: Vec<ToolCost> = self
            .tools
            .iter()
            .map(|tool| ToolCost {
                name: tool.name().into(),
                profile: tool.profile(),
                tokens: tool.tokens(),
                description: tool.description().into(),
            })
            .collect();
        Cost {
            tokens: tools.iter().map(|tool| tool.tokens).sum(),
            tools,
        }
    }
}

/// Whether two names are similar: one contains the other, or they have the same words.
fn is_similar(known: &str, asked: &str) -> bool {
    let words = |name: &str| {
        let mut words: Vec<String> = name
            .to_lowercase()
            .split(|character: char| !character.is_alphanumeric())
            .map(str::to_owned)
            .collect();
        words.sort();
        words
    };
    !asked.is_empty() && (known.contains(asked) || asked.contains(known) || words(known) == words(asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_name_only_offered_tools() {
        let memory = Registry::from_profile(Profile::Memory).instructions();
        assert_eq!(memory, INSTRUCTIONS.trim_end());
        let core = Registry::from_profile(Profile::Core).instructions();
        assert!(
            core.contains("report_step") && !core.contains("task_preflight"),
            "{core}"
        );
        let one = Registry::from_names(["gate"]).unwrap().instructions();
        assert!(
            TOOL_NAMES.iter().all(|name| !one.contains(name)) && one.contains("untrusted data"),
            "{one}"
        );
    }

    #[test]
    fn remote_callers_cannot_name_files() {
        let all = Registry::from_profile(Profile::Full);
        let elsewhere = Registry::from_profile(Profile::Full).for_remote_callers();
        for (name, argument) in [
            ("bench_run", "target"),
            ("harness_status", "folder"),
            ("harness_record", "folder"),
            ("harness_propose", "folder"),
        ] {
            let has = |registry: &Registry| {
                registry.get(name).unwrap().input["properties"]
                    .get(argument)
                    .is_some()
            };
            assert!(has(&all) && !has(&elsewhere), "{name}");
        }
        assert_eq!(all.tools().len(), elsewhere.tools().len());
    }
}
