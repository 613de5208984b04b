//! Parses responses of targets, leniently, so that existing programs with other formats work unchanged.
//!
//! Accepted formats: the protocol's own object; promptfoo's (`tokenUsage`, `cost`, `latencyMs`, `error` as
//! string); evaling's (`text` with `input_tokens` next to it); OpenAI's names inside `usage`; and plain text.
//! Each field is looked up under all known names, so a response may mix formats.

use serde_json::{Map, Value};

use super::{ErrorKind, Response, TargetError, ToolCall, Usage};

/// Parses the stdout of a process: one JSON object in a known format, or plain text without its trailing
/// newlines.
pub fn from_stdout(bytes: &[u8]) -> Result<Response, TargetError> {
    let text = utf8(bytes)?;
    match object(text) {
        Some(object) => from_object(object),
        None => Ok(Response::text(text.trim_end_matches(['\n', '\r']))),
    }
}

/// Parses one line of a worker. A line that is not a response is an error: it may be a stray print, and
/// accepting it would shift every later response by one.
pub fn from_line(bytes: &[u8]) -> Result<Response, TargetError> {
    let text = utf8(bytes)?;
    object(text).map_or_else(
        || {
            Err(TargetError::new(
                ErrorKind::Protocol,
                format!(
                    "expected one JSON object with `output` per line from the worker, got `{}`",
                    truncate(text)
                ),
            ))
        },
        from_object,
    )
}

/// Converts an object for which [`is_answer`] is true.
pub fn from_object(mut object: Map<String, Value>) -> Result<Response, TargetError> {
    if let Some(error) = object.get("error").filter(|error| !error.is_null()) {
        return Err(parse_error(error));
    }
    let cost_usd = number(&object, &["cost_usd", "cost"]);
    if let Some(cost) = cost_usd.filter(|cost| *cost < 0.0) {
        return Err(TargetError::new(
            ErrorKind::Protocol,
            format!("invalid cost in the answer: {cost} is negative"),
        ));
    }
    let output = object
        .remove("output")
        .or_else(|| object.remove("text"))
        .unwrap_or(Value::Null);
    Ok(Response {
        output,
        usage: parse_usage(&object),
        cost_usd,
        metrics: object
            .get("metrics")
            .and_then(Value::as_object)
            .map(|metrics| {
                metrics
                    .iter()
                    .filter_map(|(name, value)| Some((name.clone(), finite_number(value)?)))
                    .collect()
            })
            .unwrap_or_default(),
        tool_calls: list(&mut object, "tool_calls", tool_call),
        skills_used: list(&mut object, "skills_used", string),
        artifacts: list(&mut object, "artifacts", string),
        reported_latency_ms: number(&object, &["latency_ms", "latencyMs", "reported_latency_ms"]),
        metadata: match object.remove("metadata") {
            Some(Value::Object(metadata)) => metadata,
            _ => Map::new(),
        },
    })
}

/// Whether an object is a response rather than text that happens to be JSON.
pub fn is_answer(object: &Map<String, Value>) -> bool {
    object.contains_key("output")
        || object.get("text").is_some_and(Value::is_string)
        || object.get("error").is_some_and(|error| !error.is_null())
}

/// Token usage under any known name, inside `usage` or `tokenUsage` or at the top level.
pub fn parse_usage(object: &Map<String, Value>) -> Option<Usage> {
    let inside = ["usage", "tokenUsage", "token_usage"]
        .iter()
        .find_map(|name| object.get(*name)?.as_object());
    let from = inside.unwrap_or(object);
    let usage = Usage {
        input_tokens: count(from, &["input_tokens", "prompt_tokens", "prompt", "inputTokens"]),
        output_tokens: count(
            from,
            &["output_tokens", "completion_tokens", "completion", "outputTokens"],
        ),
        cache_read_tokens: count(from, &["cache_read_tokens", "cache_read_input_tokens", "cached"]),
        requests: count(from, &["requests", "numRequests", "num_requests"]),
    };
    // At the top level, `prompt` and similar keys hold the prompt itself rather than a count and are ignored.
    (usage != Usage::default()).then_some(usage)
}

fn object(text: &str) -> Option<Map<String, Value>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let object: Map<String, Value> = serde_json::from_str(text).ok()?;
    is_answer(&object).then_some(object)
}

fn utf8(bytes: &[u8]) -> Result<&str, TargetError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        TargetError::new(
            ErrorKind::Protocol,
            format!("the answer is not UTF-8: byte {at} of {}", bytes.len()),
        )
    })
}

/// Converts `{kind, message, retry_after_ms}`, or a string as in promptfoo. An unknown kind is attributed to
/// the target.
fn parse_error(error: &Value) -> TargetError {
    let Some(object) = error.as_object() else {
        let message = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
        return TargetError::new(ErrorKind::Target, message);
    };
    let message = object
        .get("message")
        .and_then(Value::as_str)
        .unwrap_or("the target reported an error without a message");
    let kind = match object.get("kind").and_then(Value::as_str) {
        Some("rate_limit") => ErrorKind::RateLimit,
        Some("overloaded") => ErrorKind::Overloaded,
        Some("timeout") => ErrorKind::Timeout,
        Some("refusal") => ErrorKind::Refusal,
        Some("infra") => ErrorKind::Infra,
        _ => ErrorKind::Target,
    };
    TargetError {
        kind,
        message: message.to_owned(),
        retry_after_ms: count(object, &["retry_after_ms"]),
    }
}

fn finite_number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|value| value.is_finite())
}

fn number(object: &Map<String, Value>, names: &[&str]) -> Option<f64> {
    names.iter().find_map(|name| finite_number(object.get(*name)?))
}

fn count(object: &Map<String, Value>, names: &[&str]) -> Option<u64> {
    names.iter().find_map(|name| object.get(*name)?.as_u64())
}

fn list<T>(object: &mut Map<String, Value>, name: &str, read: fn(Value) -> Option<T>) -> Vec<T> {
    match object.remove(name) {
        Some(Value::Array(items)) => items.into_iter().filter_map(read).collect(),
        _ => Vec::new(),
    }
}

fn tool_call(value: Value) -> Option<ToolCall> {
    serde_json::from_value(value).ok()
}

fn string(value: Value) -> Option<String> {
    match value {
        Value::String(string) => Some(string),
        _ => None,
    }
}

fn truncate(text: &str) -> String {
    let line = text.trim();
    let mut excerpt: String = line.chars().take(200).collect();
    if excerpt.len() < line.len() {
        excerpt.push('…');
    }
    excerpt
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_text_loses_only_trailing_newlines() {
        for (printed, output) in [
            ("42\n", "42"),
            ("a\r\n", "a"),
            ("", ""),
            (" two\n lines \n\n", " two\n lines "),
            ("{not json", "{not json"),
            ("{\"answer\":1}", "{\"answer\":1}"),
            ("[1,2]", "[1,2]"),
            ("{\"text\":5}", "{\"text\":5}"),
            ("{\"output\":1} trailing", "{\"output\":1} trailing"),
        ] {
            assert_eq!(
                from_stdout(printed.as_bytes()).unwrap(),
                Response::text(output),
                "{printed:?}"
            );
        }
    }

    #[test]
    fn three_formats_are_equivalent() {
        let ours = json!({"output": "x", "usage": {"input_tokens": 3, "output_tokens": 4}, "cost_usd": 0.5});
        let promptfoo =
            json!({"output": "x", "tokenUsage": {"total": 7, "prompt": 3, "completion": 4}, "cost": 0.5});
        let evaling = json!({"text": "x", "input_tokens": 3, "output_tokens": 4, "cost_usd": 0.5});
        let openai =
            json!({"output": "x", "usage": {"prompt_tokens": 3, "completion_tokens": 4}, "cost": 0.5});
        let expected = Response {
            usage: Some(Usage {
                input_tokens: Some(3),
                output_tokens: Some(4),
                ..Usage::default()
            }),
            cost_usd: Some(0.5),
            ..Response::text("x")
        };
        for answer in [ours, promptfoo, evaling, openai] {
            assert_eq!(
                from_stdout(answer.to_string().as_bytes()).unwrap(),
                expected,
                "{answer}"
            );
        }
    }

    #[test]
    fn all_protocol_fields_are_read() {
        let answer = json!({
            "output": {"a": 1}, "metrics": {"steps": 3, "bad": "x"}, "artifacts": ["out.txt", 3], "latencyMs": 12,
            "tool_calls": [{"name": "grep", "args": {"q": "x"}}, {"name": "ls"}, 7], "skills_used": ["pdf"],
            "usage": {"cache_read_tokens": 9, "requests": 2}, "error": null, "prompt": "p"
        });
        let response = from_line(answer.to_string().as_bytes()).unwrap();
        assert_eq!(response.output, json!({"a": 1}));
        assert_eq!(
            response.metrics.into_iter().collect::<Vec<_>>(),
            [("steps".to_owned(), 3.0)]
        );
        assert_eq!(response.artifacts, ["out.txt"]);
        assert_eq!(response.skills_used, ["pdf"]);
        assert_eq!(response.reported_latency_ms, Some(12.0));
        let names: Vec<_> = response
            .tool_calls
            .iter()
            .map(|call| call.name.as_str())
            .collect();
        assert_eq!(names, ["grep", "ls"]);
        let usage = response.usage.unwrap();
        assert_eq!((usage.cache_read_tokens, usage.requests), (Some(9), Some(2)));
        assert_eq!(usage.total_tokens(), None);
    }

    #[test]
    fn errors_have_kinds_and_strings_are_target_errors() {
        for (error, kind, message, pause) in [
            (
                json!({"kind": "rate_limit", "message": "slow down", "retry_after_ms": 50}),
                ErrorKind::RateLimit,
                "slow down",
                Some(50),
            ),
            (
                json!({"kind": "melted", "message": "m"}),
                ErrorKind::Target,
                "m",
                None,
            ),
            (json!("no such model"), ErrorKind::Target, "no such model", None),
            (
                json!({}),
                ErrorKind::Target,
                "the target reported an error without a message",
                None,
            ),
        ] {
            let answer = json!({"output": "ignored", "error": error}).to_string();
            let found = from_stdout(answer.as_bytes()).unwrap_err();
            assert_eq!(
                (found.kind, found.message.as_str(), found.retry_after_ms),
                (kind, message, pause)
            );
        }
    }

    #[test]
    fn invalid_utf8_and_stray_lines_are_reported() {
        let error = from_stdout(b"ab\xffc").unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol);
        assert!(error.message.contains("byte 2 of 4"), "{error}");
        for line in ["", "loading…", "{\"answer\":1}", "{\"output\":"] {
            assert_eq!(
                from_line(line.as_bytes()).unwrap_err().kind,
                ErrorKind::Protocol,
                "{line}"
            );
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = from_stdout(&bytes);
            let _ = from_line(&bytes);
        }

        #[test]
        fn plain_text_is_returned_unchanged(text in "[^{\\n\\r][^\\n\\r]{0,40}") {
            prop_assume!(!text.trim_start().starts_with('{'));
            prop_assert_eq!(from_stdout(text.as_bytes()).unwrap(), Response::text(text));
        }
    }
}
