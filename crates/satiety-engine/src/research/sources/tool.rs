//! MCP tools and programs as sources: they take the query and return results as JSON.
//!
//! Processes, connections and limits are shared with benchmark targets, which clean up after themselves.

use std::path::Path;
use std::pin::Pin;

use satiety::bench::contract::spec::RequestForm;
use satiety::bench::contract::{Request, TargetSpec};
use satiety::research::Hit;
use serde_json::Value;

use super::{SearchError, SearchFuture, Source, SourceSettings};
use crate::bench::named_target;
use crate::bench::sandbox::SandboxContext;
use crate::bench::target::{Target, TargetContext};

#[derive(Debug)]
pub(super) struct Tool {
    id: String,
    target: Target,
    deadline_ms: u64,
}

impl Tool {
    /// Opens a tool of an MCP server, described in a file as for `satiety bench` (`type = "mcp"`); its
    /// arguments default to `{"query": "{{goal}}"}`.
    pub(super) fn mcp(file: &str, settings: &SourceSettings) -> Result<Self, SearchError> {
        let bad = |reason: String| SearchError::BadSpec {
            spec: format!("mcp:{file}"),
            reason,
        };
        if !Path::new(file).is_file() {
            return Err(bad(
                "give a file with type = \"mcp\", command or url, and tool".into()
            ));
        }
        let mut spec = named_target(file).map_err(|error| bad(error.to_string()))?;
        let TargetSpec::Mcp(mcp) = &mut spec else {
            return Err(bad("the file does not have type = \"mcp\"".into()));
        };
        // The `goal` of benchmarks is called `query` by search tools.
        if mcp.arguments.len() == 1 && mcp.arguments.get("goal") == Some(&Value::String("{{goal}}".into())) {
            mcp.arguments.clear();
            mcp.arguments
                .insert("query".into(), Value::String("{{goal}}".into()));
        }
        let id = format!("mcp:{file}#{}", mcp.tool);
        let base = Path::new(file).parent().unwrap_or(Path::new("")).to_owned();
        Self::open(id, &spec, &base, settings)
    }

    /// Opens a program that reads the query on standard input and prints results.
    pub(super) fn command(command: &str, settings: &SourceSettings) -> Result<Self, SearchError> {
        let bad = |reason: String| SearchError::BadSpec {
            spec: format!("command:{command}"),
            reason,
        };
        let mut spec = named_target(&format!("exec:{command}")).map_err(|error| bad(error.to_string()))?;
        if let TargetSpec::Exec(exec) = &mut spec {
            exec.request = RequestForm::Goal;
        }
        Self::open(format!("command:{command}"), &spec, Path::new("."), settings)
    }

    fn open(
        id: String,
        spec: &TargetSpec,
        base: &Path,
        settings: &SourceSettings,
    ) -> Result<Self, SearchError> {
        let context = TargetContext {
            base: base.to_owned(),
            suite: base.to_owned(),
            scratch: settings.scratch.clone(),
            keep_workdirs: false,
            helper: None,
            sandbox: SandboxContext::default(),
            environment: settings.environment.clone(),
            api_key: None,
            anthropic_key: None,
        };
        let target = Target::open(spec, &context).map_err(|error| SearchError::BadSpec {
            spec: id.clone(),
            reason: error.to_string(),
        })?;
        Ok(Self {
            id,
            target,
            deadline_ms: settings.api.timeout.map_or(u64::MAX, |limit| {
                u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)
            }),
        })
    }

    async fn ask(&self, query: &str, count: u32) -> Result<Vec<Hit>, SearchError> {
        let mut request = Request {
            deadline_ms: self.deadline_ms,
            ..Request::default()
        };
        request.input.goal = query.to_owned();
        let attempt = self.target.call(&request).await;
        let response = attempt.outcome.map_err(|error| {
            let said = attempt.stderr.trim();
            let said = if said.is_empty() {
                String::new()
            } else {
                format!(" ({said})")
            };
            SearchError::Tool {
                name: self.id.clone(),
                reason: format!("{error}{said}"),
            }
        })?;
        let mut hits = parse_results(&response.output).map_err(|reason| SearchError::BadAnswer {
            url: self.id.clone(),
            reason,
        })?;
        hits.retain(|hit| !hit.is_blank());
        hits.truncate(count as usize);
        Ok(hits)
    }
}

impl Source for Tool {
    fn id(&self) -> &str {
        &self.id
    }

    fn search<'a>(&'a self, query: &'a str, count: u32) -> SearchFuture<'a> {
        Box::pin(self.ask(query, count))
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.target.close())
    }
}

/// Parses results in any common shape: a list, an object with `results`, `items`, `hits` or `data`, JSON
/// Lines, or any of these as text; empty output means no results.
fn parse_results(output: &Value) -> Result<Vec<Hit>, String> {
    match output {
        Value::Array(items) => items
            .iter()
            .map(|item| match item {
                Value::String(text) => Ok(Hit::new("", "", text.as_str())),
                item => {
                    serde_json::from_value(item.clone()).map_err(|error| format!("invalid result: {error}"))
                }
            })
            .collect(),
        Value::Object(object) => {
            let list = ["results", "items", "hits", "data"]
                .iter()
                .find_map(|name| object.get(*name));
            match list {
                Some(list) => parse_results(list),
                None => Ok(vec![
                    serde_json::from_value(output.clone())
                        .map_err(|error| format!("invalid result: {error}"))?,
                ]),
            }
        }
        Value::String(text) => {
            let text = text.trim();
            if text.is_empty() {
                return Ok(Vec::new());
            }
            if let Ok(value @ (Value::Array(_) | Value::Object(_))) = serde_json::from_str(text) {
                return parse_results(&value);
            }
            text.lines()
                .filter(|line| !line.trim().is_empty())
                .map(|line| {
                    serde_json::from_str::<Hit>(line).map_err(|error| {
                        let start: String = line.chars().take(80).collect();
                        format!("expected results as JSON Lines or a JSON list; `{start}` is not valid JSON ({error})")
                    })
                })
                .collect()
        }
        Value::Null => Ok(Vec::new()),
        other => Err(format!("expected a list of results, got `{other}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn results_come_in_many_shapes() {
        let one = json!({"title": "t", "url": "u", "snippet": "s"});
        let expected = vec![Hit::new("t", "u", "s")];
        for output in [
            json!([one]),
            json!({"results": [one]}),
            json!({"query": "x", "items": [one]}),
            json!(json!([one]).to_string()),
            json!(format!("{one}\n\n")),
            json!({"title": "t", "link": "u", "description": "s"}),
        ] {
            assert_eq!(parse_results(&output).unwrap(), expected, "{output}");
        }
        assert!(parse_results(&json!("")).unwrap().is_empty());
        assert!(parse_results(&json!(null)).unwrap().is_empty());
        assert_eq!(
            parse_results(&json!(["plain words"])).unwrap()[0].snippet,
            "plain words"
        );
        assert!(
            parse_results(&json!("no json"))
                .unwrap_err()
                .contains("`no json` is not valid JSON")
        );
        assert!(parse_results(&json!(7)).is_err());
    }
}
