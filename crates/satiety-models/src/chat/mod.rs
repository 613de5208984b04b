//! Chat models: what is asked, what comes back, and the promises every model keeps.
//!
//! [`open`] turns what a user writes (`ollama:MODEL`, `openai:MODEL`, `anthropic:MODEL`) into a [`Chat`]. What is
//! asked, and what follows from the answer, is the caller's business.
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

/// The pending answer of [`Chat::complete`].
pub type ChatFuture<'a> = Pin<Box<dyn Future<Output = Result<ChatAnswer, ChatError>> + Send + 'a>>;

/// Answers messages.
///
/// Every implementation keeps these promises: an answer has text; where a schema was given, the text is one complete
/// JSON value; what a model refuses to answer is an error, never an empty answer.
pub trait Chat: fmt::Debug + Send + Sync {
    /// Which model this is and where, as it may be shown: `ollama:llama3.2@http://localhost:11434`.
    fn id(&self) -> &str;

    /// Asks once. Retries are the model's business.
    fn complete(&self, request: ChatRequest) -> ChatFuture<'_>;
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// The conversation so far; the last message is the user's.
    pub messages: Vec<ChatMessage>,
    /// 0 asks for the likeliest answer. Left out for models that take none.
    pub temperature: Option<f64>,
    /// The longest answer in tokens, reasoning included where a provider counts it.
    pub max_tokens: u32,
    /// What the answer must look like, where it is to be JSON.
    pub schema: Option<JsonSchema>,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatMessage {
    /// Who says it.
    pub role: ChatRole,
    /// The words.
    pub text: String,
}

impl ChatMessage {
    /// Instructions.
    pub fn system(text: impl Into<String>) -> Self {
        Self::new(ChatRole::System, text)
    }

    /// What is asked.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(ChatRole::User, text)
    }

    /// What was answered before.
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

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatRole {
    /// Whoever gives the instructions.
    System,
    /// Whoever asks.
    User,
    /// The model.
    Assistant,
}

/// A JSON schema with the name that some protocols want.
///
/// Providers understand a subset: give every object `additionalProperties: false` and all its keys as `required`, and
/// leave bounds (`maxItems`, `minLength`) to the check of the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonSchema {
    /// Letters, digits, `_` and `-`.
    pub name: &'static str,
    /// The schema.
    pub schema: Value,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatAnswer {
    /// The words; JSON where a schema was given.
    pub text: String,
    /// What it cost.
    pub usage: Usage,
    /// Why it ends where it ends.
    pub stop: StopReason,
}

/// Tokens, where the server tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Read, whether from a cache or not.
    pub input_tokens: Option<u64>,
    /// Written.
    pub output_tokens: Option<u64>,
}

/// Why an answer ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// The model had said everything.
    End,
    /// [`ChatRequest::max_tokens`] or the model's own limit was reached.
    Limit,
    /// Something else, in the provider's word.
    Other(String),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// A specification that means nothing.
    #[error("`{spec}` names no chat model: {reason}")]
    BadSpec {
        /// What was written.
        spec: String,
        /// What was expected.
        reason: String,
    },
    /// The specification is well formed and what it names is not there.
    #[error("{what} is not there: {hint}")]
    NotThere {
        /// What was looked for.
        what: String,
        /// The way to get it.
        hint: String,
    },
    /// The server wants another key, or one at all.
    #[error("{url} gives no access (it answered {status}: {message})")]
    NoAccess {
        /// Whose key is missing or wrong.
        provider: Provider,
        /// The endpoint.
        url: String,
        /// 401 or 403.
        status: u16,
        /// The start of the body.
        message: String,
    },
    /// The exchange failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The model, or a filter around it, would not answer.
    #[error("{model} refused to answer: {reason}")]
    Refused {
        /// Which model.
        model: String,
        /// Its words, or the filter's.
        reason: String,
    },
    /// An answer without words.
    #[error("{model} sent an empty answer (it stopped with `{stop}`)")]
    Empty {
        /// Which model.
        model: String,
        /// Why, in the provider's word.
        stop: String,
    },
    /// JSON was asked for and the answer ended before the JSON did.
    #[error("{model} reached the limit of {limit} tokens before its JSON was complete")]
    CutOff {
        /// Which model.
        model: String,
        /// The limit that was set.
        limit: u32,
    },
    /// JSON was asked for and something else came.
    #[error("{model} was asked for JSON and sent `{beginning}` ({reason})")]
    NotJson {
        /// Which model.
        model: String,
        /// The start of what came.
        beginning: String,
        /// Where it stops being JSON.
        reason: String,
    },
}

/// Opens the model that the specification names. Nothing is sent yet, since every request may cost something.
pub fn open(spec: &Spec, settings: HttpSettings) -> Result<Box<dyn Chat>, ChatError> {
    Ok(Box::new(HttpChat::new(spec, settings)?))
}
