//! The tools as a value: what each is called, when to call it, what goes in and out, and who answers. Which of them are
//! offered is a choice, because an agent pays for the description of every tool in every request.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use satiety_engine::EngineError;
use satiety_engine::eviction::count_tokens;
use satiety_engine::operations::{self, CallError, View};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::call::{Call, Problem, Work};
use super::{schema, tools};
use crate::auth::Scope;

/// Why an argument is not offered to remote callers.
const REMOTE: &str = "it cannot be named from elsewhere; that of the server's settings is meant";

/// Which tools are offered. Each profile has those of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// What an agent needs to remember and to learn: at most eight tools.
    Core,
    /// Everything about the memory.
    Memory,
    /// Everything.
    Full,
}

impl Profile {
    /// All profiles, the smallest first.
    pub const ALL: [Self; 3] = [Self::Core, Self::Memory, Self::Full];

    /// Its name, as it is written.
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

/// A choice of tools that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// No profile of that name.
    #[error("`{0}` is no profile; there are core, memory and full")]
    NoProfile(String),
    /// No tool of that name.
    #[error("there is no tool `{name}`{}", near.as_ref().map_or_else(String::new, |near| format!("; did you mean `{near}`?")))]
    NoTool {
        /// What was asked for.
        name: String,
        /// The one that is called almost so.
        near: Option<String>,
    },
}

/// What a call does to what is kept, for clients that ask before some calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing that anybody would miss.
    Reads,
    /// Something new is kept.
    Adds,
    /// Something is changed; the same call again changes nothing more.
    Changes,
    /// Something is gone afterwards.
    Deletes,
    /// Programs are started.
    Runs,
}

/// What is said about a tool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spec {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// What it does and when to call it.
    pub(super) about: &'static str,
    pub(super) profile: Profile,
    pub(super) effect: Effect,
    /// Fields of the answer that hold text which somebody wrote: data, never instructions.
    pub(super) data: &'static [&'static str],
}

/// How an operation is offered as a tool.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ToolProfile {
    /// Fields of the request that are no arguments.
    pub(super) hidden: &'static [&'static str],
    /// Values of fields that are not given, where they differ from the operation's.
    pub(super) defaults: &'static [(&'static str, u32)],
    /// What of the response is returned; all of it where absent.
    pub(super) view: Option<&'static View>,
}

impl ToolProfile {
    /// The fields of a request: the arguments, with the connection's session and defaults for what is not given.
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

/// A tool.
#[derive(Clone)]
pub struct Tool {
    pub(super) spec: Spec,
    pub(super) input: Arc<Map<String, Value>>,
    pub(super) output: Arc<Map<String, Value>>,
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
    /// A tool whose arguments are an `A` and whose answer is a `T`.
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
                    Box::pin(async move { marked(spec.data, serde_json::to_value(answer.await?)) })
                }
            }
        };
        Self {
            spec,
            input: Arc::new(schema::input(A::json_schema)),
            output: Arc::new(schema::output(T::json_schema, None, spec.data)),
            run: Arc::new(run),
        }
    }

    /// A tool that calls an operation; none where the table has no such operation.
    pub(super) fn of_operation(operation: &'static str, spec: Spec, offer: ToolProfile) -> Option<Self> {
        let operation = operations::find(operation)?;
        let mut input = schema::input(operation.request.schema);
        if let Some(Value::Object(properties)) = input.get_mut("properties") {
            properties.retain(|name, _| !offer.hidden.contains(&name.as_str()));
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
                marked(
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
            run: Arc::new(run),
        })
    }

    /// Without these arguments.
    pub(super) fn hide(mut self, arguments: &[&'static str]) -> Self {
        for argument in arguments {
            self.remove(argument, "no such argument is offered here");
        }
        self
    }

    /// Takes an argument away: it is neither offered nor understood.
    fn remove(&mut self, argument: &'static str, why: &'static str) {
        let mut input = Map::clone(&self.input);
        if let Some(Value::Object(properties)) = input.get_mut("properties") {
            properties.remove(argument);
        }
        self.input = Arc::new(input);
        let run = Arc::clone(&self.run);
        self.run = Arc::new(move |call, arguments: Value| {
            if arguments.get(argument).is_some() {
                let problem = Problem::new(format!("`{argument}`: {why}"), "leave it out");
                return Box::pin(std::future::ready(Err(problem)));
            }
            run(call, arguments)
        });
    }

    /// Keeps it for callers with this scope.
    fn keep_for(&mut self, needed: Scope) {
        let run = Arc::clone(&self.run);
        self.run = Arc::new(move |call, arguments| {
            if call.scope < needed {
                let problem = Problem::new(
                    format!(
                        "this needs a token of scope `{needed}`, and this one has `{}`",
                        call.scope
                    ),
                    "ask who keeps the server to do it, or for such a token",
                );
                return Box::pin(std::future::ready(Err(problem)));
            }
            run(call, arguments)
        });
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.spec.name
    }

    /// What it does and when to call it.
    pub fn description(&self) -> &'static str {
        self.spec.about
    }

    /// The smallest profile that has it.
    pub fn profile(&self) -> Profile {
        self.spec.profile
    }

    /// The JSON Schema of its arguments.
    pub fn input_schema(&self) -> &Map<String, Value> {
        &self.input
    }

    /// The JSON Schema of its answer.
    pub fn output_schema(&self) -> &Map<String, Value> {
        &self.output
    }

    /// Tokens that a model reads for it in every request: name, description and arguments.
    pub fn tokens(&self) -> u64 {
        let shown =
            json!({"name": self.spec.name, "description": self.spec.about, "input_schema": *self.input});
        count_tokens(&shown.to_string())
    }
}

/// Says which fields of an answer are data.
fn marked(data: &'static [&'static str], answer: serde_json::Result<Value>) -> Result<Value, Problem> {
    match answer {
        Ok(Value::Object(mut fields)) => {
            if !data.is_empty() {
                fields.insert(schema::DATA_FIELDS.into(), json!(data));
            }
            Ok(Value::Object(fields))
        }
        Ok(other) => Err(Problem::bug(&format!("an answer that is no object: {other}"))),
        Err(error) => Err(Problem::bug(&error.to_string())),
    }
}

/// What a choice of tools costs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Tools that are offered.
    pub tools: Vec<ToolCost>,
    /// Tokens that a model reads for all of them in every request, by `o200k_base`.
    pub tokens: u64,
}

/// What a tool costs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolCost {
    /// Its name.
    pub name: String,
    /// The smallest profile that has it.
    pub profile: Profile,
    /// Tokens of name, description and arguments.
    pub tokens: u64,
    /// What it does and when to call it.
    pub description: String,
}

/// The tools that are offered.
#[derive(Debug, Clone)]
pub struct Registry {
    tools: Vec<Tool>,
}

impl Registry {
    /// All tools of a profile.
    pub fn of_profile(profile: Profile) -> Self {
        let mut tools = tools::all();
        tools.retain(|tool| tool.spec.profile <= profile);
        Self { tools }
    }

    /// Without arguments that name files and programs: for callers who need not be on this machine. Tools about the harness
    /// are for the folder that the server's settings name, a suite is run against what its own folder describes. What needs
    /// scope `admin` at another door needs it at this one.
    pub fn for_callers_elsewhere(mut self) -> Self {
        for tool in &mut self.tools {
            if matches!(tool.name(), "bench_run" | "harness_record") {
                tool.keep_for(Scope::Admin);
            }
            match tool.name() {
                "bench_run" => tool.remove("target", REMOTE),
                name if name.starts_with("harness_") => tool.remove("folder", REMOTE),
                _ => {}
            }
        }
        self
    }

    /// The tools with these names, in this order.
    pub fn of_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, RegistryError> {
        let all = tools::all();
        let mut chosen: Vec<Tool> = Vec::new();
        for name in names {
            let Some(tool) = all.iter().find(|tool| tool.name() == name) else {
                let name = name.to_owned();
                let near = all.iter().map(Tool::name).find(|known| alike(known, &name));
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

    /// What is offered.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name() == name)
    }

    /// What the tools cost a model that reads them.
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

/// Whether one name is meant by the other: it is a part of it, or of the same words.
fn alike(known: &str, asked: &str) -> bool {
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
    fn who_is_elsewhere_can_name_no_file() {
        let all = Registry::of_profile(Profile::Full);
        let elsewhere = Registry::of_profile(Profile::Full).for_callers_elsewhere();
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
