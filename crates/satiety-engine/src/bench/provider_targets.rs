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
        let context = Context {
            folder: &suite.folder,
            home: suite.file.parent().unwrap_or(&suite.folder),
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
        if id == "echo" {
            return Ok((TargetSpec::Echo(EchoSpec {}), None));
        }
        if let Some(command) = id.strip_prefix("exec:") {
            return self.command(command).map(|spec| (spec, None));
        }
        if let Some(Value::String(file)) = provider.get("file") {
            return self.script(file, provider).map(|spec| (spec, None));
        }
        if matches!(id, "http" | "https") || id.starts_with("http://") || id.starts_with("https://") {
            return http(id, config);
        }
        chat(id, config).map(|spec| (TargetSpec::Chat(spec), None))
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
        options.retain(|key, _| !matches!(key.as_str(), "transforms" | "file"));
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

/// A chat model of a vendor that has a client here.
fn chat(id: &str, config: &Map<String, Value>) -> Result<ChatSpec, String> {
    let unknown = || "has no counterpart here".to_owned();
    let (vendor, model) = id.split_once(':').ok_or_else(unknown)?;
    let model = match model.split_once(':') {
        Some(("chat" | "messages" | "responses" | "completion", model)) => model,
        _ => model,
    };
    let is_agent = matches!(model, "claude-agent-sdk" | "claude-code");
    if !matches!(vendor, "openai" | "anthropic" | "ollama") || is_agent {
        return Err(unknown());
    }
    let text = |key: &str| config.get(key).and_then(Value::as_str);
    let address = text("apiBaseUrl").map_or_else(String::new, |url| format!("@{url}"));
    let mut fields = json!({"model": format!("{vendor}:{model}{address}")});
    if let Some(fields) = fields.as_object_mut() {
        let limit = config.get("max_tokens").or(config.get("max_completion_tokens"));
        let limit = limit.filter(|limit| limit.is_u64());
        fields.extend(limit.map(|limit| ("max_tokens".to_owned(), limit.clone())));
        let temperature = config.get("temperature").filter(|value| value.is_number());
        fields.extend(temperature.map(|value| ("temperature".to_owned(), value.clone())));
        fields.extend(text("apiKeyEnvar").map(|name| ("key_env".to_owned(), json!(name))));
    }
    serde_json::from_value(fields).map_err(|error| error.to_string())
}

/// An HTTP endpoint with its body and the transform of its response.
fn http(id: &str, config: &Map<String, Value>) -> Result<(TargetSpec, Option<Transform>), String> {
    let text = |key: &str| config.get(key).and_then(Value::as_str);
    let url = text("url").unwrap_or(id);
    if !(url.starts_with("http://") || url.starts_with("https://")) || url.contains("{{") {
        return Err("needs `config.url` without variables".into());
    }
    if text("method").is_some_and(|method| !method.eq_ignore_ascii_case("post")) {
        return Err("only the method POST is supported".into());
    }
    if config.contains_key("request") {
        return Err("raw requests are not supported; use `url`, `headers` and `body`".into());
    }
    let body = match config.get("body") {
        None => json!({"prompt": "{{goal}}"}),
        Some(Value::String(body)) => {
            let parsed: Value = serde_json::from_str(body).map_err(|_| "`body` is not JSON")?;
            placeholders(&parsed)?
        }
        Some(body) => placeholders(body)?,
    };
    let headers: BTreeMap<String, String> = config
        .get("headers")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .collect();
    if headers.values().any(|value| value.contains("{{")) {
        return Err(
            "headers with variables are not supported; describe a target with `secret_headers`".into(),
        );
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
        url: url.to_owned(),
        headers,
        secret_headers: BTreeMap::new(),
        body: Some(body),
        // The whole document: the transform selects the answer.
        output_pointer: Some(String::new()),
        usage_pointer: None,
        max_output_bytes: DEFAULT_MAX_OUTPUT,
    };
    Ok((TargetSpec::Http(spec), transform))
}

/// Replaces promptfoo's variables in a body by placeholders of targets.
fn placeholders(body: &Value) -> Result<Value, String> {
    Ok(match body {
        Value::String(text) => {
            let mut out = String::new();
            let mut rest = text.as_str();
            while let Some((before, inside)) = rest.split_once("{{") {
                let (name, after) = inside
                    .split_once("}}")
                    .ok_or("`body` has an unfinished variable")?;
                let name = name.trim();
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
        Value::Array(items) => items.iter().map(placeholders).collect::<Result<_, _>>()?,
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| Ok((key.clone(), placeholders(value)?)))
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
        let spec = chat("openai:chat:m:8b", config.as_object().unwrap()).unwrap();
        assert_eq!(spec.model, "openai:m:8b@http://localhost:1/v1");
        assert_eq!((spec.temperature, spec.max_tokens), (Some(0.0), 8));
        assert_eq!(spec.key_env.as_deref(), Some("K"));
        assert!(chat("google:gemini", &Map::new()).is_err());
        assert!(chat("anthropic:claude-agent-sdk", &Map::new()).is_err());
    }

    #[test]
    fn bodies_name_the_goal_and_the_variables() {
        let config = json!({
            "url": "http://127.0.0.1:1/x", "method": "post", "body": {"q": "{{ prompt }}", "n": ["{{lang}}!"]},
            "transformResponse": "json.choices[0].text"
        });
        let (spec, transform) = http("http", config.as_object().unwrap()).unwrap();
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
            json!({"url": "http://h", "body": "{{prompt | dump}}"}),
        ] {
            assert!(http("http", wrong.as_object().unwrap()).is_err(), "{wrong}");
        }
    }
}
