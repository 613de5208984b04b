//! The three wire formats: JSON structures and paths. Retries are handled elsewhere, and answers are
//! validated in `http.rs`.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ChatMessage, ChatRequest, ChatRole, Provider, StopReason, Usage};
use crate::transport::{Transport, TransportError};

/// Parameters that a model supports.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dialect {
    /// Whether the model accepts a temperature.
    pub(super) temperature: bool,
    /// Whether the limit is named `max_completion_tokens` instead of `max_tokens`.
    pub(super) completion_limit: bool,
}

/// Answer in a common structure for all protocols.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) text: String,
    /// Reason for a refusal, if the server gives one.
    pub(super) refusal: Option<String>,
    pub(super) usage: Usage,
    pub(super) stop: StopReason,
    /// Stop reason, as named by the provider.
    pub(super) stop_word: String,
}

/// Sends one request and returns the reply.
pub(super) async fn exchange(
    provider: Provider,
    transport: &Transport,
    model: &str,
    request: &ChatRequest,
    dialect: Dialect,
) -> Result<Reply, TransportError> {
    let temperature = request.temperature.filter(|_| dialect.temperature);
    match provider {
        Provider::Ollama => ollama(transport, model, request, temperature).await,
        Provider::OpenAi => openai(transport, model, request, temperature, dialect).await,
        Provider::Anthropic => anthropic(transport, model, request, temperature).await,
    }
}

#[derive(Serialize, JsonSchema)]
struct WireMessage<'a> {
    role: &'static str,
    content: &'a str,
}

fn wire_message(message: &ChatMessage) -> WireMessage<'_> {
    WireMessage {
        role: match message.role {
            ChatRole::System => "system",
            ChatRole::User => "user",
            ChatRole::Assistant => "assistant",
        },
        content: &message.text,
    }
}

fn wire_messages(request: &ChatRequest) -> Vec<WireMessage<'_>> {
    request.messages.iter().map(wire_message).collect()
}

fn stop(word: Option<&str>, end: &[&str], limit: &[&str]) -> (StopReason, String) {
    let word = word.unwrap_or("none");
    let reason = if end.contains(&word) {
        StopReason::End
    } else if limit.contains(&word) {
        StopReason::Limit
    } else {
        StopReason::Other(word.to_owned())
    };
    (reason, word.to_owned())
}

fn path(transport: &Transport, rest: &str) -> String {
    if transport.base().ends_with("/v1") {
        rest.to_owned()
    } else {
        format!("/v1{rest}")
    }
}

async fn ollama(
    transport: &Transport,
    model: &str,
    request: &ChatRequest,
    temperature: Option<f64>,
) -> Result<Reply, TransportError> {
    #[derive(Serialize, JsonSchema)]
    struct Body<'a> {
        model: &'a str,
        messages: Vec<WireMessage<'a>>,
        stream: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        format: Option<&'a Value>,
        options: Options,
    }
    #[derive(Serialize, JsonSchema)]
    struct Options {
        #[serde(skip_serializing_if = "Option::is_none")]
        temperature: Option<f64>,
        num_predict: u32,
        num_ctx: u64,
    }
    #[derive(Deserialize)]
    struct Answer {
        message: Message,
        done_reason: Option<String>,
        prompt_eval_count: Option<u64>,
        eval_count: Option<u64>,
    }
    #[derive(Deserialize)]
    struct Message {
        content: String,
    }
    let body = Body {
        model,
        messages: wire_messages(request),
        stream: false,
        format: request.schema.as_ref().map(|schema| &schema.schema),
        options: Options {
            temperature,
            num_predict: request.max_tokens,
            num_ctx: context_length(request),
        },
    };
    let answer: Answer = transport.post("/api/chat", &body).await?;
    let (stop, stop_word) = stop(answer.done_reason.as_deref(), &["stop"], &["length"]);
    Ok(Reply {
        text: answer.message.content,
        refusal: None,
        usage: Usage {
            input_tokens: answer.prompt_eval_count,
            output_tokens: answer.eval_count,
        },
        stop,
        stop_word,
    })
}

/// Context length to request. Ollama silently truncates prompts longer than its context, and the default is
/// small. Reserves two bytes per token for the prompt, a ratio that few texts reach, plus the answer. Rounded
/// to powers of two, because Ollama reloads the model for every new length.
fn context_length(request: &ChatRequest) -> u64 {
    let bytes: usize = request.messages.iter().map(|message| message.text.len()).sum();
    (bytes as u64 / 2 + u64::from(request.max_tokens) + 64).next_power_of_two()
}

async fn openai(
    transport: &Transport,
    model: &str,
    request: &ChatRequest,
    temperature: Option<f64>,
    dialect: Dialect,
) -> Result<Reply, TransportError> {
    #[derive(Serialize, JsonSchema)]
    struct Body<'a> {
        model: &'a str,
        messages: Vec<WireMessage<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        temperature: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_tokens: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_completion_tokens: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        response_format: Option<Value>,
    }
    #[derive(Deserialize)]
    struct Answer {
        choices: Vec<Choice>,
        usage: Option<Tokens>,
    }
    #[derive(Deserialize)]
    struct Choice {
        message: Message,
        finish_reason: Option<String>,
    }
    #[derive(Deserialize)]
    struct Message {
        content: Option<String>,
        refusal: Option<String>,
    }
    #[derive(Deserialize)]
    struct Tokens {
        #[serde(rename = "prompt_tokens")]
        read: Option<u64>,
        #[serde(rename = "completion_tokens")]
        written: Option<u64>,
    }
    let limit = Some(request.max_tokens);
    let body = Body {
        model,
        messages: wire_messages(request),
        temperature,
        max_tokens: limit.filter(|_| !dialect.completion_limit),
        max_completion_tokens: limit.filter(|_| dialect.completion_limit),
        response_format: request.schema.as_ref().map(|schema| {
            let schema = json!({"name": schema.name, "strict": true, "schema": schema.schema});
            json!({"type": "json_schema", "json_schema": schema})
        }),
    };
    let answer: Answer = transport
        .post(&path(transport, "/chat/completions"), &body)
        .await?;
    let Some(choice) = answer.choices.into_iter().next() else {
        return Err(transport.bad_answer("`choices` is empty"));
    };
    let (stop, stop_word) = stop(choice.finish_reason.as_deref(), &["stop"], &["length"]);
    let refusal = choice.message.refusal.filter(|words| !words.is_empty());
    let filtered = (stop_word == "content_filter").then(|| "blocked by a content filter".to_owned());
    Ok(Reply {
        text: choice.message.content.unwrap_or_default(),
        refusal: refusal.or(filtered),
        usage: Usage {
            input_tokens: answer.usage.as_ref().and_then(|usage| usage.read),
            output_tokens: answer.usage.as_ref().and_then(|usage| usage.written),
        },
        stop,
        stop_word,
    })
}

/// `output_config.format` is the structured output of the Messages API since its general availability
/// (platform.claude.com, "Structured outputs").
async fn anthropic(
    transport: &Transport,
    model: &str,
    request: &ChatRequest,
    temperature: Option<f64>,
) -> Result<Reply, TransportError> {
    #[derive(Serialize, JsonSchema)]
    struct Body<'a> {
        model: &'a str,
        max_tokens: u32,
        #[serde(skip_serializing_if = "String::is_empty")]
        system: String,
        messages: Vec<WireMessage<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        temperature: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        output_config: Option<Value>,
    }
    #[derive(Deserialize)]
    struct Answer {
        content: Vec<Block>,
        stop_reason: Option<String>,
        usage: Option<Tokens>,
    }
    /// Thinking and tool use have separate blocks without `text`.
    #[derive(Deserialize)]
    struct Block {
        #[serde(rename = "type")]
        kind: String,
        text: Option<String>,
    }
    #[derive(Deserialize)]
    struct Tokens {
        #[serde(rename = "input_tokens")]
        fresh: Option<u64>,
        #[serde(rename = "cache_creation_input_tokens")]
        cached: Option<u64>,
        #[serde(rename = "cache_read_input_tokens")]
        from_cache: Option<u64>,
        #[serde(rename = "output_tokens")]
        written: Option<u64>,
    }
    let is_system = |message: &&ChatMessage| message.role == ChatRole::System;
    let system: Vec<&str> = request
        .messages
        .iter()
        .filter(is_system)
        .map(|message| message.text.as_str())
        .collect();
    let body = Body {
        model,
        max_tokens: request.max_tokens,
        system: system.join("\n\n"),
        messages: request
            .messages
            .iter()
            .filter(|message| !is_system(message))
            .map(wire_message)
            .collect(),
        temperature,
        output_config: request
            .schema
            .as_ref()
            .map(|schema| json!({"format": {"type": "json_schema", "schema": schema.schema}})),
    };
    let answer: Answer = transport.post(&path(transport, "/messages"), &body).await?;
    let text: String = answer
        .content
        .iter()
        .filter(|block| block.kind == "text")
        .filter_map(|block| block.text.as_deref())
        .collect();
    let (stop, stop_word) = stop(
        answer.stop_reason.as_deref(),
        &["end_turn", "stop_sequence"],
        &["max_tokens", "model_context_window_exceeded"],
    );
    let refusal = (stop_word == "refusal").then(|| match text.trim() {
        "" => "no reason given".to_owned(),
        words => words.to_owned(),
    });
    let usage = answer.usage.map_or(Usage::default(), |usage| Usage {
        // `input_tokens` excludes cached input.
        input_tokens: usage
            .fresh
            .map(|fresh| fresh + usage.cached.unwrap_or(0) + usage.from_cache.unwrap_or(0)),
        output_tokens: usage.written,
    });
    Ok(Reply {
        text,
        refusal,
        usage,
        stop,
        stop_word,
    })
}
