//! Chat models: request and answer types, and the guarantees of every model.
//!
//! [`open`] creates a [`Chat`] from a specification (`ollama:MODEL`, `openai:MODEL`, `anthropic:MODEL`).
//! Prompts and the use of answers are up to the caller.
mod http;
mod spec;
mod wire;

use std::fmt;
use std::pin::Pin;

use serde_json::Value;

pub use self::http::HttpChat;
pub use self::spec::{Provider, Spec};
use crate::http::HttpSettings;
use crate::transport::TransportError;

/// Future returned by [`Chat::complete`].
pub type ChatFuture<'a> = Pin<Box<dyn Future<Output = Result<ChatAnswer, ChatError>> + Send + 'a>>;

/// Answers messages.
///
/// Every implementation guarantees: an answer has text; if a schema was given, the text is one complete JSON
/// value; a refusal is an error, never an empty answer.
pub trait Chat: fmt::Debug + Send + Sync {
    /// Model and address, safe to display: `ollama:llama3.2@http://localhost:11434`.
    fn id(&self) -> &str;

    /// Sends one request, including retries.
    fn complete(&self, request: ChatRequest) -> ChatFuture<'_>;
}

#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// Conversation so far; the last message is the user's.
    pub messages: Vec<ChatMessage>,
    /// 0 requests the most likely answer. Omitted for models that do not support it.
    pub temperature: Option<f64>,
    /// Limit of the answer in tokens, including reasoning where a provider counts it.
    pub max_tokens: u32,
    /// JSON schema of the answer; `None` for free text.
    pub schema: Option<JsonSchema>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatMessage {
    pub role: ChatRole,
    pub text: String,
}

impl ChatMessage {
    pub fn system(text: impl Into<String>) -> Self {
        Self::new(ChatRole::System, text)
    }

    pub fn user(text: impl Into<String>) -> Self {
        Self::new(ChatRole::User, text)
    }

    pub fn assistant(text: impl Into<String>) -> Self {
        Self::new(ChatRole::Assistant, text)
    }

    fn new(role: ChatRole, text: impl Into<String>) -> Self {
        Self {
            role,
            text: text.into(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatRole {
    System,
    User,
    Assistant,
}

/// JSON schema with the name that some protocols require.
///
/// Providers support a subset: set `additionalProperties: false` and list all keys as `required` on every
/// object, and check bounds (`maxItems`, `minLength`) on the answer instead.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonSchema {
    /// Letters, digits, `_` and `-`.
    pub name: &'static str,
    pub schema: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatAnswer {
    /// Text of the answer; JSON if a schema was given.
    pub text: String,
    pub usage: Usage,
    pub stop: StopReason,
}

/// Token usage, if the server reports it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Includes cached input.
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
}

/// Reason why an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// The answer is complete.
    End,
    /// [`ChatRequest::max_tokens`] or the model's own limit was reached.
    Limit,
    /// Another reason, as named by the provider.
    Other(String),
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The specification cannot be parsed.
    #[error("invalid chat model `{spec}`: {reason}")]
    BadSpec { spec: String, reason: String },
    /// The specification is valid, but the model or server does not exist or is not reachable.
    #[error("{what} not found: {hint}")]
    NotFound {
        what: String,
        /// One action that fixes it.
        hint: String,
    },
    /// The API key is missing or invalid.
    #[error("{url} denied access (status {status}: {message})")]
    NoAccess {
        /// Provider whose key is missing or invalid.
        provider: Provider,
        url: String,
        /// 401 or 403.
        status: u16,
        /// Start of the response body.
        message: String,
    },
    /// The request failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The model, or a content filter, refused to answer.
    #[error("{model} refused to answer: {reason}")]
    Refused {
        model: String,
        /// Reason given by the model or the filter.
        reason: String,
    },
    /// A layer in front of the model refused the request; nothing was sent.
    #[error("{0}")]
    NotAdmitted(Box<dyn std::error::Error + Send + Sync>),
    /// The answer has no text.
    #[error("{model} sent an empty answer (stop reason `{stop}`)")]
    Empty {
        model: String,
        /// Stop reason, as named by the provider.
        stop: String,
    },
    /// The token limit was reached before the requested JSON was complete.
    #[error("{model} reached the limit of {limit} tokens before its JSON was complete")]
    CutOff { model: String, limit: u32 },
    /// The requested JSON is invalid.
    #[error("{model} did not answer with JSON: `{beginning}` ({reason})")]
    NotJson {
        model: String,
        /// Start of the answer.
        beginning: String,
        /// Parse error.
        reason: String,
    },
}

/// Opens the model without sending a request, because every request may cost money.
pub fn open(spec: &Spec, settings: HttpSettings) -> Result<Box<dyn Chat>, ChatError> {
    Ok(Box::new(HttpChat::new(spec, settings)?))
}
