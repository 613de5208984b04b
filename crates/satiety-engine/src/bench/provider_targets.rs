//! Targets that stand for the providers of a promptfoo configuration.

use std::collections::BTreeMap;
use std::path::Path;

use satiety::bench::contract::TargetSpec;
use satiety::bench::contract::spec::{
    ChatSpec, DEFAULT_MAX_OUTPUT, EchoSpec, ExecSpec, HttpSpec, RequestForm, WorkerSpec,
};
use satiety::bench::promptfoo::PROVIDERS;
use satiety::bench::{BenchmarkCase, Language, Transform};
use serde_json::{Map, Value, json};

use super::code_host::{command, typescript_flags};
use super::plan::LocatedTarget;
use super::suites::LoadedSuite;

/// Processes of a provider that is a script; promptfoo makes as many calls at a time.
const WORKERS: u32 = 4;

/// Target of a provider.
#[derive(Debug, Clone)]
pub(super) struct ProviderTarget {
    /// Label or id, by which cases select it.
    pub(super) name: String,
    pub(super) located: LocatedTarget,
    /// Programs that change each answer before it is checked.
    pub(super) transforms: Vec<Transform>,
    /// What programs get to know about the provider.
    pub(super) summary: Value,
}

impl ProviderTarget {
    /// Whether a case runs with the provider.
    pub(super) fn answers(&self, case: &BenchmarkCase) -> bool {
        match case.metadata.get(PROVIDERS) {
            Some(Value::Array(names)) => names.iter().any(|name| name.as_str() == Some(&self.name)),
            _ => true,
        }
    }
}

/// Settings of chat providers that have a counterpart, or that only concern promptfoo.
const CHAT_SETTINGS: [&str; 11] = [
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "num_predict",
    "apiBaseUrl",
    "apiKeyEnvar",
    "apiKeyRequired",
    "showThinking",
    "cost",
    "maxRetries",
];

/// Settings of chat providers that their targets do not send, by provider.
pub(super) fn unused_settings(suite: &LoadedSuite, environment: &BTreeMap<String, String>) -> Vec<String> {
    let Some(Value::Array(providers)) = suite.suite.metadata.get(PROVIDERS) else {
        return Vec::new();
    };
    let unused = providers.iter().filter_map(|provider| {
        let id = provider.get("id")?.as_str()?;
        let config = provider.get("config")?.as_object()?;
        let is_chat = chat(id, config, environment).is_ok();
        is_chat.then_some(())?;
        let keys: Vec<&str> = config
            .keys()
            .map(String::as_str)
            .filter(|key| !CHAT_SETTINGS.contains(key))
            // A key that is written out would be stored with the run.
            .filter(|key| {
                let named = config.get("apiKey").and_then(Value::as_str).and_then(variable_of);
                *key != "apiKey" || named.is_none()
            })
            .collect();
        let name = provider.get("label").and_then(Value::as_str).unwrap_or(id);
        (!keys.is_empty()).then(|| {
            let keys = keys.join(", ");
            format!("provider `{name}`: these settings are not sent: {keys}")
        })
    });
    unused.collect()
}

/// Targets of the providers that have a counterpart, and the reasons why the others have none.
pub(super) fn provider_targets(
    suite: &LoadedSuite,
    environment: &BTreeMap<String, String>,
) -> (Vec<ProviderTarget>, Vec<String>) {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    let Some(Value::Array(providers)) = suite.suite.metadata.get(PROVIDERS) else {
        return (found, missing);
    };
    for provider in providers.iter().filter_map(Value::as_object) {
        let text = |key: &str| provider.get(key).and_then(Value::as_str);
        let id = text("id").unwrap_or_default();
        let name = text("label").unwrap_or(id).to_owned();
        let parent = suite.file.parent().unwrap_or(&suite.folder);
        let context = Context {
            folder: &suite.folder,
            // A file that is named without a directory is in the current one.
            home: if parent.as_os_str().is_empty() {
                Path::new(".")
            } else {
                parent
            },
            environment,
            own: suite.suite.metadata.get("env").and_then(Value::as_object),
        };
        match context.target(id, provider) {
            Ok((spec, own)) => {
                let listed = provider.get("transforms").cloned().unwrap_or_default();
                let more: Vec<Transform> = serde_json::from_value(listed).unwrap_or_default();
                found.push(ProviderTarget {
                    located: LocatedTarget {
                        spec,
                        base: suite.folder.clone(),
                        name: name.clone(),
                    },
                    transforms: own.into_iter().chain(more).collect(),
                    summary: json!({"id": id, "label": text("label"), "config": provider.get("config")}),
                    name,
                });
            }
            Err(reason) => missing.push(format!("provider `{name}`: {reason}")),
        }
    }
    (found, missing)
}

struct Context<'a> {
    /// Directory that the files of the suite are relative to.
    folder: &'a Path,
    /// Directory of the configuration, where commands and scripts run.
    home: &'a Path,
    environment: &'a BTreeMap<String, String>,
    /// Variables of the configuration.
    own: Option<&'a Map<String, Value>>,
}

impl Context<'_> {
    /// Description of a target, and a transform of its answers.
    fn target(
        &self,
        id: &str,
        provider: &Map<String, Value>,
    ) -> Result<(TargetSpec, Option<Transform>), String> {
        let empty = Map::new();
        let config = provider
            .get("config")
            .and_then(Value::as_object)
            .unwrap_or(&empty);
        if let Some(Value::String(problem)) = provider.get("problem") {
            return Err(problem.clone());
        }
        if id == "echo" {
            return Ok((TargetSpec::Echo(EchoSpec {}), None));
        }
        if let Some(command) = id.strip_prefix("exec:") {
            return self.command(command).map(|spec| (spec, None));
        }
        if let Some(Value::String(file)) = provider.get("file") {
            return self.script(file, provider).map(|spec| (spec, None));
        }
        if matches!(id.split_once(':').map_or(id, |(kind, _)| kind), "http" | "https") {
            return http(id, config, &self.templates());
        }
        let spec = chat(id, config, &self.templates())?;
        // promptfoo parses answers that follow a schema.
        let has_schema = config
            .get("response_format")
            .is_some_and(|format| format.get("type").and_then(Value::as_str) == Some("json_schema"));
        let transform = has_schema.then(|| {
            Transform::inline("(() => { try { return JSON.parse(output); } catch { return output; } })()")
        });
        Ok((TargetSpec::Chat(spec), transform))
    }

    /// Variables of the configuration and of the caller, as templates see them below `env`.
    fn templates(&self) -> BTreeMap<String, String> {
        let mut all = self.environment.clone();
        all.extend(self.own_variables());
        all
    }

    /// A command that gets the prompt, its options and its context as arguments.
    fn command(&self, line: &str) -> Result<TargetSpec, String> {
        let mut words = split_words(line).into_iter();
        let program = words.next().ok_or("has no command after `exec:`")?;
        // Commands run in a working directory of their own, so that files next to the configuration need
        // their full path.
        let located = |word: String| {
            let path = self.home.join(&word);
            match std::path::absolute(&path) {
                Ok(absolute) if path.is_file() => absolute.display().to_string(),
                _ => word,
            }
        };
        let text = words.clone().map(|word| self.home.join(word));
        let text: String = text
            .filter_map(|path| fs_err::read_to_string(path).ok())
            .collect();
        Ok(TargetSpec::Exec(ExecSpec {
            command: located(program),
            args: words.map(located).collect(),
            env: self.variables(&text),
            set_env: self.own_variables(),
            files: Vec::new(),
            skills: None,
            read: Vec::new(),
            request: RequestForm::Promptfoo,
            max_output_bytes: DEFAULT_MAX_OUTPUT,
            sandbox: None,
        }))
    }

    /// A script with a class or function that answers.
    fn script(&self, reference: &str, provider: &Map<String, Value>) -> Result<TargetSpec, String> {
        let (file, function) = match reference.rsplit_once(':') {
            Some((file, function)) if !function.contains('/') => (file, Some(function)),
            _ => (reference, None),
        };
        let path = self.folder.join(file);
        let path = if path.is_relative() {
            Path::new(".").join(path)
        } else {
            path
        };
        let ending = path
            .extension()
            .and_then(|ending| ending.to_str())
            .unwrap_or_default();
        let language = match ending {
            "py" => Language::Python,
            "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" => Language::Javascript,
            _ => {
                return Err(format!(
                    "cannot run {file} (expected a file in .js, .mjs, .cjs, .ts or .py)"
                ));
            }
        };
        let text = fs_err::read_to_string(&path).map_err(|error| error.to_string())?;
        let path = std::path::absolute(&path).map_err(|error| error.to_string())?;
        let root = std::path::absolute(self.home).map_err(|error| error.to_string())?;
        let mut options = provider.clone();
        options.retain(|key, _| !matches!(key.as_str(), "transforms" | "file" | "problem"));
        options.entry("config").or_insert_with(|| json!({}));
        let settings = json!({"root": root, "file": path, "function": function, "options": options});
        let (command, mut args) = command(language, &settings);
        if ending.ends_with("ts") {
            let search = self.environment.get("PATH").map(String::as_str);
            let flags = typescript_flags(search)
                .ok_or_else(|| format!("{file} is TypeScript, which needs Node.js 22.6 or later"))?;
            args.splice(0..0, flags);
        }
        Ok(TargetSpec::Worker(WorkerSpec {
            command: command.into(),
            args,
            env: self.variables(&text),
            set_env: self.own_variables(),
            files: Vec::new(),
            read: vec![root.display().to_string()],
            workers: WORKERS,
            fresh_workdir: false,
            max_output_bytes: DEFAULT_MAX_OUTPUT,
            sandbox: None,
        }))
    }

    /// Names of the environment variables that a script mentions, and of API keys.
    fn variables(&self, text: &str) -> Vec<String> {
        let names = self.environment.keys().filter(|name| {
            let mentioned = name.len() > 3 && text.contains(name.as_str());
            mentioned || name.ends_with("_API_KEY")
        });
        names.cloned().collect()
    }

    fn own_variables(&self) -> BTreeMap<String, String> {
        let own = self.own.into_iter().flatten();
        own.map(|(name, value)| {
            (
                name.clone(),
                value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            )
        })
        .collect()
    }
}

/// Vendors with an OpenAI-compatible address: their prefix, the address, and the variables of their key.
const COMPATIBLE: [(&str, &str, &[&str]); 14] = [
    (
        "openrouter",
        "https://openrouter.ai/api/v1",
        &["OPENROUTER_API_KEY"],
    ),
    ("groq", "https://api.groq.com/openai/v1", &["GROQ_API_KEY"]),
    ("deepseek", "https://api.deepseek.com/v1", &["DEEPSEEK_API_KEY"]),
    ("mistral", "https://api.mistral.ai/v1", &["MISTRAL_API_KEY"]),
    ("together", "https://api.together.xyz/v1", &["TOGETHER_API_KEY"]),
    ("togetherai", "https://api.together.xyz/v1", &["TOGETHER_API_KEY"]),
    (
        "fireworks",
        "https://api.fireworks.ai/inference/v1",
        &["FIREWORKS_API_KEY"],
    ),
    ("xai", "https://api.x.ai/v1", &["XAI_API_KEY"]),
    ("perplexity", "https://api.perplexity.ai", &["PERPLEXITY_API_KEY"]),
    ("cerebras", "https://api.cerebras.ai/v1", &["CEREBRAS_API_KEY"]),
    (
        "google",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    ),
    (
        "huggingface",
        "https://router.huggingface.co/v1",
        &["HF_TOKEN", "HF_API_TOKEN"],
    ),
    ("github", "https://models.github.ai/inference", &["GITHUB_TOKEN"]),
    ("litellm", "http://localhost:4000", &["LITELLM_API_KEY"]),
];

/// A chat model of a vendor that has a client here, or an OpenAI-compatible address.
fn chat(
    id: &str,
    config: &Map<String, Value>,
    environment: &BTreeMap<String, String>,
) -> Result<ChatSpec, String> {
    let unknown = || "has no counterpart here".to_owned();
    let (vendor, model) = id.split_once(':').ok_or_else(unknown)?;
    let agent = match (vendor, model.split(':').next().unwrap_or_default()) {
        ("anthropic", "claude-agent-sdk" | "claude-code") => Some("claude-code"),
        ("openai", "codex-sdk" | "codex-app-server" | "codex") => Some("codex"),
        _ => None,
    };
    if let Some(agent) = agent {
        return Err(format!(
            "an agent with its own program: use the target description `examples/bench/targets/{agent}.toml`"
        ));
    }
    let model = match model.split_once(':') {
        Some(("chat" | "messages" | "responses" | "completion", model)) => model,
        Some((kind @ ("embedding" | "image" | "realtime" | "moderation" | "speech"), _)) => {
            return Err(format!("`{kind}` is not a chat model"));
        }
        _ => model,
    };
    let text = |key: &str| config.get(key).and_then(Value::as_str);
    let compatible = COMPATIBLE.iter().find(|(name, _, _)| *name == vendor);
    let own = matches!(vendor, "openai" | "anthropic" | "ollama");
    if !own && compatible.is_none() {
        return Err(unknown());
    }
    let address = match text("apiBaseUrl").or_else(|| text("apiHost")) {
        Some(url) => Some(from_environment(url, "apiBaseUrl", environment)?),
        None => compatible.map(|(_, url, _)| (*url).to_owned()),
    };
    let address = address.map_or_else(String::new, |url| format!("@{url}"));
    let protocol = if own { vendor } else { "openai" };
    let mut fields = json!({"model": format!("{protocol}:{model}{address}")});
    if let Some(fields) = fields.as_object_mut() {
        let limits = [
            "max_tokens",
            "max_completion_tokens",
            "max_output_tokens",
            "num_predict",
        ];
        let limit = limits.iter().find_map(|key| config.get(*key));
        let limit = limit.filter(|limit| limit.is_u64());
        fields.extend(limit.map(|limit| ("max_tokens".to_owned(), limit.clone())));
        let temperature = config.get("temperature").filter(|value| value.is_number());
        fields.extend(temperature.map(|value| ("temperature".to_owned(), value.clone())));
        let named = text("apiKeyEnvar").or_else(|| text("apiKey").and_then(variable_of));
        let vendors = compatible.and_then(|(_, _, keys)| {
            let known = keys.iter().find(|key| environment.contains_key(**key));
            known.or(keys.first()).copied()
        });
        if let Some(name) = named.or(vendors) {
            // The other providers of the configuration run nevertheless.
            if !environment.contains_key(name) {
                return Err(format!("needs the environment variable {name}"));
            }
            fields.insert("key_env".to_owned(), json!(name));
        }
    }
    serde_json::from_value(fields).map_err(|error| error.to_string())
}

/// Name of the variable of a template that consists of one, such as `{{env.KEY}}`.
fn variable_of(text: &str) -> Option<&str> {
    let name = text
        .trim()
        .strip_prefix("{{")?
        .strip_suffix("}}")?
        .trim()
        .strip_prefix("env.")?;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    name.chars().all(is_plain).then_some(name)
}

/// Endings of variables with secrets, which a stored description must not contain.
const SECRETS: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];

/// Substitutes `{{env.NAME}}` in a setting that is stored with the run.
fn from_environment(
    text: &str,
    field: &str,
    environment: &BTreeMap<String, String>,
) -> Result<String, String> {
    if !text.contains("{{") {
        return Ok(text.to_owned());
    }
    let secret = environment.keys().find(|name| {
        let is_secret = SECRETS.iter().any(|ending| name.ends_with(ending));
        is_secret && text.contains(&format!("env.{name}"))
    });
    if let Some(name) = secret {
        return Err(format!(
            "`{field}` contains the secret {name}; pass it in a header"
        ));
    }
    let mut insides = text.split("{{").skip(1);
    if insides.any(|inside| !inside.trim_start().starts_with("env.")) {
        return Err(format!("`{field}` has variables that differ between cases"));
    }
    satiety::bench::promptfoo::render_environment(text, environment)
}

/// An HTTP endpoint with its body and the transform of its response.
fn http(
    id: &str,
    config: &Map<String, Value>,
    environment: &BTreeMap<String, String>,
) -> Result<(TargetSpec, Option<Transform>), String> {
    let raw;
    let config = match config.get("request").and_then(Value::as_str) {
        Some(request) => {
            raw = raw_request(request, config)?;
            &raw
        }
        None => config,
    };
    let text = |key: &str| config.get(key).and_then(Value::as_str);
    let url = from_environment(text("url").unwrap_or(id), "url", environment)?;
    if !(url.starts_with("http://") || url.starts_with("https://")) {
        let missing = "needs `config.url` with http:// or https://; is a variable of its address not set?";
        return Err(missing.into());
    }
    if text("method").is_some_and(|method| !method.eq_ignore_ascii_case("post")) {
        return Err("only the method POST is supported".into());
    }
    let body = match config.get("body") {
        None => json!({"prompt": "{{goal}}"}),
        Some(Value::String(body)) => {
            let quoted = quoted_variables(body);
            let parsed: Value = serde_json::from_str(&quoted).map_err(|_| "`body` is not JSON")?;
            placeholders(&parsed, environment)?
        }
        Some(body) => placeholders(body, environment)?,
    };
    let (mut headers, mut secret_headers) = (BTreeMap::new(), BTreeMap::new());
    for (name, value) in config
        .get("headers")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if value.contains("{{") {
            secret_headers.insert(name.clone(), named_variables(&value, environment)?);
        } else {
            headers.insert(name.clone(), value);
        }
    }
    let response = text("transformResponse").or_else(|| text("responseParser"));
    if response.is_some_and(|code| code.starts_with("file://")) {
        return Err("`transformResponse` in a file is not supported; write it as an expression".into());
    }
    let transform = response.map(|code| {
        let function = if code.contains("=>") || code.trim_start().starts_with("function") {
            format!("({code})")
        } else if code.contains('\n') {
            format!("((json, text, context) => {{\n{code}\n}})")
        } else {
            format!("((json, text, context) => ({code}))")
        };
        Transform::inline(format!("{function}(output, JSON.stringify(output), context)"))
    });
    let spec = HttpSpec {
        url,
        headers,
        secret_headers,
        body: Some(body),
        // The whole document: the transform selects the answer.
        output_pointer: Some(String::new()),
        usage_pointer: None,
        max_output_bytes: DEFAULT_MAX_OUTPUT,
    };
    Ok((TargetSpec::Http(spec), transform))
}

/// Settings of a request that is written out: method, path and version, headers, an empty line, and the body.
fn raw_request(request: &str, config: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    if request.starts_with("file://") {
        return Err("`request` in a file is not supported; use `url`, `headers` and `body`".into());
    }
    let request = request.trim().replace("\r\n", "\n");
    let (head, body) = request.split_once("\n\n").unwrap_or((&request, ""));
    let mut lines = head.lines();
    let mut first = lines.next().unwrap_or_default().split_whitespace();
    let (method, path) = first
        .next()
        .zip(first.next())
        .ok_or("`request` has no method and path")?;
    let mut headers = Map::new();
    let mut host = None;
    for line in lines {
        let (name, value) = line
            .split_once(':')
            .ok_or("`request` has a header without a colon")?;
        match name.trim().to_ascii_lowercase().as_str() {
            "host" => host = Some(value.trim().to_owned()),
            "content-length" | "connection" => {}
            _ => {
                headers.insert(name.trim().to_owned(), json!(value.trim()));
            }
        }
    }
    let url = if path.starts_with("http://") || path.starts_with("https://") {
        path.to_owned()
    } else {
        let host = host.ok_or("`request` has no header `Host`")?;
        let is_secure = config.get("useHttps").and_then(Value::as_bool).unwrap_or(false);
        format!("{}://{host}{path}", if is_secure { "https" } else { "http" })
    };
    let mut settings = config.clone();
    settings.extend([
        ("url".to_owned(), json!(url)),
        ("method".to_owned(), json!(method)),
        ("headers".to_owned(), Value::Object(headers)),
    ]);
    if !body.trim().is_empty() {
        settings.insert("body".into(), json!(body));
    }
    Ok(settings)
}

/// Quotes variables that a filter writes as JSON (`{{prompt | dump}}`), so that the body can be parsed.
fn quoted_variables(body: &str) -> String {
    let (mut out, mut rest) = (String::new(), body);
    while let Some((before, inside)) = rest.split_once("{{") {
        let Some((inner, after)) = inside.split_once("}}") else {
            break;
        };
        out += before;
        let mut parts = inner.split('|').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let is_json = parts.clone().any(|filter| matches!(filter, "dump" | "tojson"))
            && parts.all(|filter| matches!(filter, "dump" | "tojson" | "safe"));
        if is_json {
            out.extend(["\"{{", name, "}}\""]);
        } else {
            out.extend(["{{", inner, "}}"]);
        }
        rest = after;
    }
    out + rest
}

/// Replaces `{{env.NAME}}` by `{{NAME}}`, as headers with secrets name their variables.
fn named_variables(value: &str, environment: &BTreeMap<String, String>) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), value);
    while let Some((before, inside)) = rest.split_once("{{") {
        let (inner, after) = inside
            .split_once("}}")
            .ok_or("a header has an unfinished variable")?;
        let template = format!("{{{{{inner}}}}}");
        let name = variable_of(&template)
            .ok_or_else(|| format!("`{{{{{inner}}}}}` in a header is not supported"))?;
        if !environment.contains_key(name) {
            return Err(format!("needs the environment variable {name}"));
        }
        out += before;
        out.extend(["{{", name, "}}"]);
        rest = after;
    }
    Ok(out + rest)
}

/// Replaces promptfoo's variables in a body by placeholders of targets.
fn placeholders(body: &Value, environment: &BTreeMap<String, String>) -> Result<Value, String> {
    Ok(match body {
        Value::String(text) => {
            let mut out = String::new();
            let mut rest = text.as_str();
            while let Some((before, inside)) = rest.split_once("{{") {
                let (name, after) = inside
                    .split_once("}}")
                    .ok_or("`body` has an unfinished variable")?;
                let name = name.trim();
                if name.starts_with("env.") {
                    out += before;
                    out += &from_environment(&format!("{{{{{name}}}}}"), "body", environment)?;
                    rest = after;
                    continue;
                }
                let is_plain = name
                    .chars()
                    .all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
                if !is_plain {
                    return Err(format!("`{{{{{name}}}}}` in `body` is not supported"));
                }
                out += before;
                match name {
                    "prompt" => out += "{{goal}}",
                    name => out.extend(["{{input.config_overrides.vars.", name, "}}"]),
                }
                rest = after;
            }
            Value::String(out + rest)
        }
        Value::Array(items) => items
            .iter()
            .map(|item| placeholders(item, environment))
            .collect::<Result<_, _>>()?,
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| Ok((key.clone(), placeholders(value, environment)?)))
            .collect::<Result<Map<_, _>, String>>()?
            .into(),
        other => other.clone(),
    })
}

/// Splits a command line at spaces outside of quotes.
fn split_words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            None if letter == '"' || letter == '\'' => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            None if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_keep_quoted_words_together() {
        assert_eq!(
            split_words(r#" python3 "my script.py" --x='a b' '' "#),
            ["python3", "my script.py", "--x=a b", ""]
        );
    }

    #[test]
    fn chat_models_keep_their_settings() {
        let config = json!({"temperature": 0, "max_tokens": 8, "apiBaseUrl": "http://localhost:1/v1", "apiKeyEnvar": "K"});
        let none = BTreeMap::new();
        let with = |name: &str| BTreeMap::from([(name.to_owned(), "k".to_owned())]);
        assert!(chat("openai:chat:m:8b", config.as_object().unwrap(), &none).is_err());
        let spec = chat("openai:chat:m:8b", config.as_object().unwrap(), &with("K")).unwrap();
        assert_eq!(spec.model, "openai:m:8b@http://localhost:1/v1");
        assert_eq!((spec.temperature, spec.max_tokens), (Some(0.0), 8));
        assert_eq!(spec.key_env.as_deref(), Some("K"));
        let reason = chat("google:gemini-2.5-flash", &Map::new(), &none).unwrap_err();
        assert_eq!(reason, "needs the environment variable GEMINI_API_KEY");
        let spec = chat("google:gemini-2.5-flash", &Map::new(), &with("GEMINI_API_KEY")).unwrap();
        assert!(
            spec.model.starts_with("openai:gemini-2.5-flash@https://"),
            "{}",
            spec.model
        );
        assert_eq!(spec.key_env.as_deref(), Some("GEMINI_API_KEY"));
        let spec = chat("google:gemini-2.5-flash", &Map::new(), &with("GOOGLE_API_KEY")).unwrap();
        assert_eq!(spec.key_env.as_deref(), Some("GOOGLE_API_KEY"));
        for id in ["bedrock:m", "openai:embedding:m", "custom"] {
            assert!(chat(id, &Map::new(), &none).is_err(), "{id}");
        }
        let agent = chat("anthropic:claude-agent-sdk", &Map::new(), &none).unwrap_err();
        assert!(agent.contains("targets/claude-code.toml"), "{agent}");
    }

    #[test]
    fn bodies_name_the_goal_and_the_variables() {
        let config = json!({
            "url": "http://127.0.0.1:1/x", "method": "post", "body": {"q": "{{ prompt }}", "n": ["{{lang}}!"]},
            "transformResponse": "json.choices[0].text"
        });
        let none = BTreeMap::new();
        let (spec, transform) = http("http", config.as_object().unwrap(), &none).unwrap();
        let TargetSpec::Http(spec) = spec else {
            panic!("{spec:?}")
        };
        assert_eq!(
            spec.body.unwrap(),
            json!({"q": "{{goal}}", "n": ["{{input.config_overrides.vars.lang}}!"]})
        );
        assert!(transform.unwrap().code.unwrap().contains("json.choices[0].text"));
        for wrong in [
            json!({"url": "http://h", "method": "GET"}),
            json!({"body": {}}),
            json!({"url": "http://h", "body": "not JSON"}),
            json!({"url": "{{env.NOT_SET}}/chat"}),
            json!({"url": "http://h/{{session}}"}),
            json!({"url": "http://h", "headers": {"X": "{{ prompt }}"}}),
            json!({"url": "http://h", "headers": {"X": "{{ env.NOT_SET }}"}}),
            json!({"request": "POST /x HTTP/1.1\nContent-Type: text/plain\n\n{}"}),
        ] {
            assert!(
                http("http", wrong.as_object().unwrap(), &none).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn variables_of_the_environment_are_used_and_secrets_stay_out_of_the_description() {
        let environment: BTreeMap<String, String> =
            [("BASE_URL", "http://127.0.0.1:9"), ("APP_KEY", "s3cret")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into();
        let config = json!({
            "url": "{{ env.BASE_URL or 'http://localhost:1' }}/chat-messages",
            "headers": {"Authorization": "Bearer {{ env.APP_KEY }}", "X-Number": 7},
            "body": "{\"q\": {{prompt | dump}}, \"vars\": [{{ lang | dump | safe }}], \"s\": \"{{session}}\"}"
        });
        let (spec, _) = http("https:some/model", config.as_object().unwrap(), &environment).unwrap();
        let TargetSpec::Http(spec) = spec else {
            panic!("{spec:?}")
        };
        assert_eq!(spec.url, "http://127.0.0.1:9/chat-messages");
        assert_eq!(spec.headers["X-Number"], "7");
        assert_eq!(spec.secret_headers["Authorization"], "Bearer {{APP_KEY}}");
        assert!(!format!("{spec:?}").contains("s3cret"));
        let vars = |name: &str| format!("{{{{input.config_overrides.vars.{name}}}}}");
        assert_eq!(
            spec.body.unwrap(),
            json!({"q": "{{goal}}", "vars": [vars("lang")], "s": vars("session")})
        );
        let secret = json!({"url": "{{env.BASE_URL}}/?key={{env.APP_KEY}}"});
        let message = http("http", secret.as_object().unwrap(), &environment).unwrap_err();
        assert!(message.contains("secret APP_KEY"), "{message}");
    }

    #[test]
    fn requests_that_are_written_out_are_read() {
        let config = json!({
            "request": "POST /v1/chat HTTP/1.1\nHost: 127.0.0.1:8\nContent-Type: application/json\n\n{\"q\": \"{{prompt}}\"}",
            "useHttps": false
        });
        let (spec, _) = http("http", config.as_object().unwrap(), &BTreeMap::new()).unwrap();
        let TargetSpec::Http(spec) = spec else {
            panic!("{spec:?}")
        };
        assert_eq!(spec.url, "http://127.0.0.1:8/v1/chat");
        assert_eq!(spec.body.unwrap(), json!({"q": "{{goal}}"}));
        assert_eq!(spec.headers["Content-Type"], "application/json");
    }
}
