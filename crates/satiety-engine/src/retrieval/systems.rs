//! Systems that a corpus can be replayed against: the built-in memory, a tool of any MCP server, or any HTTP
//! endpoint. Sends queries and parses responses; knows nothing of judgments.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use satiety::bench::contract::spec::{HttpSpec, McpSpec};
use satiety::bench::contract::{Request, TargetSpec};
use satiety::memory::{Mode, SessionHistory, ValidPipeline};
use satiety::retrieval::{AnswerPaths, DocumentMatcher, PRESETS, read_answer};
use serde_json::{Map, Value, json};

use super::golden_error::GoldenError;
use crate::bench::sandbox::SandboxContext;
use crate::bench::target::{Environment, Target, TargetContext};
use crate::memory::SearchRequest;
use crate::{Engine, EngineError};

/// How a tool is called, and where its answers have ids and texts.
#[derive(Debug, Clone, Default)]
pub struct ToolCall {
    /// Name of a preset; all other fields are optional then.
    pub preset: Option<String>,
    pub tool: Option<String>,
    /// Arguments as JSON, with `{{query}}` and `{{limit}}`.
    pub arguments: Option<String>,
    /// Paths of ids and texts in the answer.
    pub paths: AnswerPaths,
}

/// A system to query.
#[derive(Debug, Clone)]
pub enum SystemSpec {
    /// The memory in this database. Queries are not logged.
    Memory {
        /// Search depth; `None` to choose it by query.
        mode: Option<Mode>,
        /// Maximum tokens of all results; `None` for no limit, since the ranking is measured.
        token_budget: Option<usize>,
        /// Search pipeline.
        pipeline: Arc<ValidPipeline>,
    },
    /// A tool of an MCP server that is started as a child process.
    McpCommand {
        /// Command with its arguments, split as by a shell.
        command: String,
        /// Names of environment variables passed to it, in addition to `PATH`, `LANG` and `HOME`.
        env: Vec<String>,
        call: ToolCall,
    },
    /// A tool of a running MCP server.
    McpUrl {
        url: String,
        /// Environment variable with the bearer token.
        token_env: Option<String>,
        call: ToolCall,
    },
    /// An HTTP endpoint that takes a query as JSON.
    Http {
        url: String,
        /// Body as JSON, with `{{query}}` and `{{limit}}`.
        body: Option<String>,
        headers: BTreeMap<String, String>,
        /// Headers whose values are in environment variables.
        secret_headers: BTreeMap<String, String>,
        /// Paths of ids and texts in the response.
        paths: AnswerPaths,
    },
}

/// Environment of a system.
#[derive(Debug, Clone)]
pub struct SystemContext {
    /// Environment variables that may be named.
    pub environment: Environment,
    /// Directory for working directories.
    pub scratch: PathBuf,
    /// Timeout of an answer.
    pub timeout: Duration,
}

/// An opened system.
pub(super) struct System {
    /// Name in reports.
    pub(super) name: String,
    way: SystemClient,
    depth: usize,
    timeout: Duration,
}

enum SystemClient {
    Memory {
        mode: Option<Mode>,
        token_budget: Option<usize>,
        pipeline: Arc<ValidPipeline>,
    },
    Target {
        target: Box<Target>,
        paths: AnswerPaths,
    },
}

/// Ids with the rank in each channel that found them, best first.
pub(super) type Ranking = Vec<(String, BTreeMap<String, u32>)>;

/// Answer of a system to one query.
pub(super) struct SystemAnswer {
    /// The ranking, or the error message.
    pub(super) results: Result<Ranking, String>,
    pub(super) latency: Duration,
    pub(super) prose: bool,
    /// Effects of the session, if the query has one.
    pub(super) session: Option<SessionEffects>,
}

/// Effects of a session on a search of the built-in memory.
pub(super) struct SessionEffects {
    /// Results without the session.
    without_session: Vec<String>,
    /// Tokens of each result that the session already has.
    repeated_tokens: Vec<usize>,
}

impl SessionEffects {
    /// Fields of the trace of a run.
    pub(super) fn trace(&self) -> Value {
        let repeated = self
            .repeated_tokens
            .iter()
            .map(|tokens| json!({"tokens": tokens}));
        json!({"withoutSession": self.without_session, "removedDuplicates": repeated.collect::<Vec<_>>()})
    }
}

impl System {
    pub(super) fn open(
        spec: &SystemSpec,
        depth: usize,
        context: &SystemContext,
    ) -> Result<Self, EngineError> {
        let (name, way) = match spec {
            SystemSpec::Memory {
                mode,
                token_budget,
                pipeline,
            } => {
                let way = SystemClient::Memory {
                    mode: *mode,
                    token_budget: *token_budget,
                    pipeline: Arc::clone(pipeline),
                };
                let mode = mode.map_or("auto", Mode::name);
                (format!("memory, mode {mode}"), way)
            }
            SystemSpec::McpCommand { command, env, call } => {
                let mut words = split_command(command)?.into_iter();
                let program = words.next().ok_or_else(|| template("--mcp", "missing command"))?;
                let call = Call::of(call, depth)?;
                // Its data is most likely below the user's home directory.
                let env = [&["HOME".to_owned()], &env[..]].concat();
                let spec = McpSpec {
                    command: Some(program),
                    args: words.map(|word| absolute(&word)).collect(),
                    env,
                    set_env: BTreeMap::new(),
                    read: Vec::new(),
                    sandbox: None,
                    url: None,
                    token_env: None,
                    tool: call.tool.clone(),
                    arguments: call.arguments,
                };
                let name = format!("mcp: {command} # {}", call.tool);
                (name, target(&TargetSpec::Mcp(spec), call.paths, context)?)
            }
            SystemSpec::McpUrl { url, token_env, call } => {
                let call = Call::of(call, depth)?;
                let spec = McpSpec {
                    command: None,
                    args: Vec::new(),
                    env: Vec::new(),
                    set_env: BTreeMap::new(),
                    read: Vec::new(),
                    sandbox: None,
                    url: Some(url.clone()),
                    token_env: token_env.clone(),
                    tool: call.tool.clone(),
                    arguments: call.arguments,
                };
                let name = format!("mcp: {} # {}", without_secrets(url), call.tool);
                (name, target(&TargetSpec::Mcp(spec), call.paths, context)?)
            }
            SystemSpec::Http {
                url,
                body,
                headers,
                secret_headers,
                paths,
            } => {
                let body = match body {
                    Some(text) => object("--body", text)?,
                    None => Map::from_iter([
                        ("query".to_owned(), json!("{{query}}")),
                        ("limit".to_owned(), json!("{{limit}}")),
                    ]),
                };
                let mut spec: HttpSpec = serde_json::from_value(json!({"url": url}))?;
                spec.body = Some(fill_template(&Value::Object(body), depth));
                spec.headers = headers.clone();
                spec.secret_headers = secret_headers.clone();
                // Keep the whole response: ids are looked up later.
                spec.output_pointer = Some(String::new());
                let name = format!("http: {}", without_secrets(url));
                (name, target(&TargetSpec::Http(spec), paths.clone(), context)?)
            }
        };
        Ok(Self {
            name,
            way,
            depth,
            timeout: context.timeout,
        })
    }

    /// Sends one query. A failure of the system is part of the answer; only database errors are returned as
    /// errors.
    pub(super) async fn ask(
        &self,
        engine: &Engine,
        query: &str,
        known: &DocumentMatcher,
        history: Option<SessionHistory>,
    ) -> Result<SystemAnswer, EngineError> {
        match &self.way {
            SystemClient::Memory {
                mode,
                token_budget,
                pipeline,
            } => {
                let request = SearchRequest {
                    query: query.to_owned(),
                    mode: *mode,
                    limit: Some(self.depth.min(200)),
                    token_budget: Some(token_budget.unwrap_or(usize::MAX / 2)),
                    // Judgments refer to memories of any project.
                    scope: Some(satiety::memory::Scope::All),
                    history: history.clone().map(Arc::new),
                    ..SearchRequest::default()
                };
                let session = match history {
                    Some(_) => Some(Box::pin(session_effects(engine, pipeline, &request)).await?),
                    None => None,
                };
                let began = Instant::now();
                let asked =
                    tokio::time::timeout(self.timeout, engine.memory().search_with(pipeline, &request)).await;
                let latency = began.elapsed();
                let results = match asked {
                    Err(_) => Err(format!("no answer within {:?}", self.timeout)),
                    Ok(Err(EngineError::Store(error))) => return Err(EngineError::Store(error)),
                    Ok(Err(error)) => Err(error.to_string()),
                    Ok(Ok(found)) => {
                        let channels = |result: &crate::memory::MemoryResult| {
                            let ranks = result.channels.iter();
                            ranks
                                .map(|(channel, found)| (channel.name().to_owned(), found.rank))
                                .collect()
                        };
                        Ok(found
                            .results
                            .iter()
                            .map(|result| (result.id.clone(), channels(result)))
                            .collect())
                    }
                };
                Ok(SystemAnswer {
                    results,
                    latency,
                    prose: false,
                    session,
                })
            }
            SystemClient::Target { target, paths } => {
                let mut request = Request {
                    deadline_ms: u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX),
                    ..Request::default()
                };
                request.input.goal = query.to_owned();
                let attempt = target.call(&request).await;
                let said = attempt.stderr.trim();
                let failed = |error: String| {
                    if said.is_empty() {
                        error
                    } else {
                        format!("{error} ({said})")
                    }
                };
                let answered = attempt
                    .outcome
                    .map_err(|error| failed(error.to_string()))
                    .and_then(|response| read_answer(&response.output, paths));
                let prose = answered.as_ref().is_ok_and(|answered| answered.prose);
                let results = answered.map(|answered| {
                    let ranking = known.ranking(&answered.results).into_iter().take(self.depth);
                    ranking.map(|id| (id, BTreeMap::new())).collect()
                });
                Ok(SystemAnswer {
                    results,
                    latency: attempt.latency,
                    prose,
                    session: None,
                })
            }
        }
    }

    /// Returns true for the memory in this database.
    pub(super) fn is_memory(&self) -> bool {
        matches!(self.way, SystemClient::Memory { .. })
    }

    /// Stops processes and connections of the system.
    pub(super) async fn close(&self) {
        if let SystemClient::Target { target, .. } = &self.way {
            target.close().await;
        }
    }
}

/// Repeats a search without its session, and once more without what the session already has.
async fn session_effects(
    engine: &Engine,
    pipeline: &Arc<ValidPipeline>,
    request: &SearchRequest,
) -> Result<SessionEffects, EngineError> {
    let without = SearchRequest {
        history: None,
        ..request.clone()
    };
    let fresh = SearchRequest {
        skip_shown: true,
        ..request.clone()
    };
    let without = engine.memory().search_with(pipeline, &without).await?;
    let fresh = engine.memory().search_with(pipeline, &fresh).await?;
    // What an agent would have received a second time.
    let shown = without
        .results
        .iter()
        .map(|result| &result.id)
        .collect::<BTreeSet<_>>();
    let repeated = fresh
        .already_shown
        .iter()
        .filter(|result| shown.contains(&result.id));
    Ok(SessionEffects {
        repeated_tokens: repeated.map(|result| result.tokens).collect(),
        without_session: without.results.into_iter().map(|result| result.id).collect(),
    })
}

/// A tool call with all defaults resolved.
struct Call {
    tool: String,
    arguments: Map<String, Value>,
    paths: AnswerPaths,
}

impl Call {
    fn of(call: &ToolCall, depth: usize) -> Result<Self, EngineError> {
        let preset = match &call.preset {
            None => None,
            Some(name) => Some(
                PRESETS
                    .iter()
                    .find(|preset| preset.name == *name)
                    .ok_or_else(|| {
                        let known: Vec<&str> = PRESETS.iter().map(|preset| preset.name.as_str()).collect();
                        GoldenError::NoPreset {
                            name: name.clone(),
                            known: known.join(", "),
                        }
                    })?,
            ),
        };
        let tool = call
            .tool
            .clone()
            .or_else(|| preset.map(|preset| preset.tool.clone()));
        let tool = tool.ok_or_else(|| template("--tool", "missing tool name (or use --preset)"))?;
        let arguments = match (&call.arguments, preset) {
            (Some(text), _) => object("--args", text)?,
            (None, Some(preset)) => {
                let mut arguments = Map::from_iter([(preset.query_arg.clone(), json!("{{query}}"))]);
                if let Some(name) = &preset.limit_arg {
                    arguments.insert(name.clone(), json!("{{limit}}"));
                }
                arguments
            }
            (None, None) => Map::from_iter([("query".to_owned(), json!("{{query}}"))]),
        };
        let or = |typed: &Option<String>, known: Option<&Option<String>>| {
            typed.clone().or_else(|| known.and_then(Clone::clone))
        };
        // The paths of a preset belong together: an explicit one replaces both.
        let typed = call.paths != AnswerPaths::default();
        let known = preset.filter(|_| !typed);
        Ok(Self {
            tool,
            arguments: match fill_template(&Value::Object(arguments), depth) {
                Value::Object(arguments) => arguments,
                _ => Map::new(),
            },
            paths: AnswerPaths {
                id_path: or(&call.paths.id_path, known.map(|preset| &preset.id_path)),
                text_path: or(&call.paths.text_path, known.map(|preset| &preset.text_path)),
            },
        })
    }
}

fn target(
    spec: &TargetSpec,
    paths: AnswerPaths,
    context: &SystemContext,
) -> Result<SystemClient, EngineError> {
    for (what, path) in [("--id-path", &paths.id_path), ("--text-path", &paths.text_path)] {
        if path
            .as_ref()
            .is_some_and(|path| !path.starts_with('/') || !path.contains("/*"))
        {
            return Err(template(
                what,
                "a path is a JSON Pointer with `*` for each result, such as /results/*/id",
            )
            .into());
        }
    }
    let context = TargetContext {
        base: PathBuf::from("."),
        suite: PathBuf::from("."),
        scratch: context.scratch.clone(),
        keep_workdirs: false,
        helper: None,
        sandbox: SandboxContext::default(),
        environment: context.environment.clone(),
        api_key: None,
        anthropic_key: None,
    };
    Ok(SystemClient::Target {
        target: Box::new(Target::open(spec, &context)?),
        paths,
    })
}

/// Translates templates: targets call the query `goal` and have no limit.
fn fill_template(template: &Value, depth: usize) -> Value {
    match template {
        Value::String(text) if text.trim() == "{{limit}}" => json!(depth),
        Value::String(text) => {
            let text = text.replace("{{query}}", "{{goal}}");
            Value::String(text.replace("{{limit}}", &depth.to_string()))
        }
        Value::Array(items) => items.iter().map(|item| fill_template(item, depth)).collect(),
        Value::Object(map) => {
            let pairs = map
                .iter()
                .map(|(key, value)| (key.clone(), fill_template(value, depth)));
            Value::Object(pairs.collect())
        }
        other => other.clone(),
    }
}

fn object(what: &'static str, text: &str) -> Result<Map<String, Value>, GoldenError> {
    let value: Value = serde_json::from_str(text).map_err(|error| template(what, &error.to_string()))?;
    let Value::Object(map) = value else {
        return Err(template(
            what,
            "expected a JSON object such as {\"query\": \"{{query}}\"}",
        ));
    };
    if !text.contains("{{query}}") {
        return Err(template(
            what,
            "missing placeholder {{query}}: every query would be the same",
        ));
    }
    Ok(map)
}

/// Splits a command as a shell would: quotation marks keep spaces, a backslash escapes the next character.
fn split_command(command: &str) -> Result<Vec<String>, GoldenError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = command.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), character) if character == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(characters.next()),
            (None, character) if character.is_whitespace() => words.extend(word.take()),
            (_, character) => word.get_or_insert_default().push(character),
        }
    }
    if quote.is_some() {
        return Err(template("--mcp", "unclosed quotation mark"));
    }
    words.extend(word);
    Ok(words)
}

/// Makes file names absolute: a server runs in a separate directory.
fn absolute(word: &str) -> String {
    let path = std::path::Path::new(word);
    match std::path::absolute(path) {
        Ok(whole) if path.exists() => whole.to_string_lossy().into_owned(),
        _ => word.to_owned(),
    }
}

/// Formats a URL without credentials and parameters, which may contain keys.
fn without_secrets(url: &str) -> String {
    let bare = url.split(['?', '#']).next().unwrap_or_default();
    match bare.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
            format!("{scheme}://{host}/{path}")
        }
        None => bare.to_owned(),
    }
}

fn template(what: &'static str, reason: &str) -> GoldenError {
    GoldenError::Template {
        what,
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_like_in_a_shell() {
        for (command, expected) in [
            ("npx -y server", vec!["npx", "-y", "server"]),
            (
                "python3 'my server.py' --name \"a \\\"b\\\"\"",
                vec!["python3", "my server.py", "--name", "a \"b\""],
            ),
            ("a ''  b\\ c", vec!["a", "", "b c"]),
            ("", vec![]),
        ] {
            assert_eq!(split_command(command).unwrap(), expected, "{command}");
        }
        assert!(split_command("a 'b").is_err());
    }

    #[test]
    fn templates_are_filled_with_query_and_limit() {
        let found = fill_template(
            &json!({"q": "{{query}}", "n": "{{limit}}", "deep": [{"t": "top {{limit}}: {{query}}"}]}),
            7,
        );
        assert_eq!(
            found,
            json!({"q": "{{goal}}", "n": 7, "deep": [{"t": "top 7: {{goal}}"}]})
        );
        for (text, part) in [
            ("[1]", "expected a JSON object"),
            ("{", "EOF"),
            ("{\"q\": \"x\"}", "{{query}}"),
        ] {
            let error = object("--args", text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn secrets_of_addresses_are_not_shown() {
        assert_eq!(without_secrets("https://u:p@h:8/a/b?key=k#x"), "https://h:8/a/b");
        assert_eq!(without_secrets("http://h"), "http://h/");
    }

    #[test]
    fn arguments_override_presets() {
        let call = ToolCall {
            preset: Some("server-memory".into()),
            ..ToolCall::default()
        };
        let found = Call::of(&call, 10).unwrap();
        assert_eq!(
            (found.tool.as_str(), &found.arguments["query"]),
            ("search_nodes", &json!("{{goal}}"))
        );
        assert_eq!(found.paths.id_path.as_deref(), Some("/entities/*/name"));
        let typed = ToolCall {
            tool: Some("find".into()),
            paths: AnswerPaths {
                id_path: Some("/x/*/id".into()),
                text_path: None,
            },
            ..call
        };
        let found = Call::of(&typed, 10).unwrap();
        assert_eq!((found.tool.as_str(), found.paths.text_path), ("find", None));
        assert!(Call::of(&ToolCall::default(), 10).is_err());
        let unknown = ToolCall {
            preset: Some("unknown".into()),
            ..ToolCall::default()
        };
        assert!(
            Call::of(&unknown, 10)
                .err()
                .unwrap()
                .to_string()
                .contains("server-memory")
        );
    }
}
