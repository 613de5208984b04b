//! Chat model behind an HTTP endpoint: sends requests, detects which parameters the model supports, validates
//! answers.
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::wire::{Dialect, Reply};
use super::{Chat, ChatAnswer, ChatError, ChatFuture, ChatRequest, Provider, Spec, StopReason, wire};
use crate::http::{HttpSettings, excerpt, with_causes};
use crate::transport::{Head, Transport, TransportError};

#[derive(Debug)]
pub struct HttpChat {
    provider: Provider,
    model: String,
    id: String,
    transport: Transport,
    /// Set once the model has rejected a temperature.
    refuses_temperature: AtomicBool,
    /// Set for OpenAI, and once another server has asked for the newer name of the limit.
    wants_completion_limit: AtomicBool,
}

impl HttpChat {
    /// Creates a client without sending a request.
    pub fn new(spec: &Spec, settings: HttpSettings) -> Result<Self, ChatError> {
        let head = match spec.provider {
            Provider::Anthropic => Head::Anthropic,
            Provider::Ollama | Provider::OpenAi => Head::Bearer,
        };
        let transport = Transport::new(&spec.url, head, settings)?;
        let own = spec.provider == Provider::OpenAi && transport.base() == crate::transport::OPENAI;
        Ok(Self {
            provider: spec.provider,
            model: spec.model.clone(),
            id: format!("{}:{}@{}", spec.provider, spec.model, transport.base()),
            transport,
            refuses_temperature: AtomicBool::new(false),
            wants_completion_limit: AtomicBool::new(own),
        })
    }

    fn dialect(&self) -> Dialect {
        Dialect {
            temperature: !self.refuses_temperature.load(Ordering::Relaxed),
            completion_limit: self.wants_completion_limit.load(Ordering::Relaxed),
        }
    }

    async fn ask(&self, request: ChatRequest) -> Result<ChatAnswer, ChatError> {
        loop {
            let dialect = self.dialect();
            match wire::exchange(self.provider, &self.transport, &self.model, &request, dialect).await {
                Ok(reply) => return self.check(&request, reply),
                Err(error) if self.learn(&error, &request, dialect) => {}
                Err(error) => return Err(self.explain(error)),
            }
        }
    }

    /// Newer models reject parameters that older ones need, and only the error says which. Returns true if
    /// the next attempt will differ from this one, which happens at most twice per client.
    fn learn(&self, error: &TransportError, request: &ChatRequest, sent: Dialect) -> bool {
        let TransportError::Status {
            status: 400, message, ..
        } = error
        else {
            return false;
        };
        if self.provider == Provider::OpenAi
            && !sent.completion_limit
            && message.contains("max_completion_tokens")
        {
            self.wants_completion_limit.store(true, Ordering::Relaxed);
            return true;
        }
        if sent.temperature && request.temperature.is_some() && message.contains("temperature") {
            self.refuses_temperature.store(true, Ordering::Relaxed);
            return true;
        }
        false
    }

    /// Adds a hint to errors that a user can fix.
    fn explain(&self, error: TransportError) -> ChatError {
        match (self.provider, error) {
            (Provider::Ollama, TransportError::Unreachable { url, source }) => ChatError::NotFound {
                what: format!("Ollama server at {url}"),
                hint: format!(
                    "start it with `ollama serve`, or set another address with @URL ({})",
                    with_causes(&*source)
                ),
            },
            (
                provider,
                TransportError::Status {
                    url,
                    status: 404,
                    message,
                    ..
                },
            ) => ChatError::NotFound {
                what: format!("model {} at {url}", self.model),
                hint: match provider {
                    Provider::Ollama => format!("run `ollama pull {}` ({message})", self.model),
                    _ => format!("check the model name and the address ({message})"),
                },
            },
            (
                provider,
                TransportError::Status {
                    url,
                    status: status @ (401 | 403),
                    message,
                    ..
                },
            ) => ChatError::NoAccess {
                provider,
                url,
                status,
                message,
            },
            (_, error) => error.into(),
        }
    }

    /// Enforces the guarantees of [`Chat`].
    fn check(&self, request: &ChatRequest, reply: Reply) -> Result<ChatAnswer, ChatError> {
        let model = || self.id.clone();
        if let Some(reason) = reply.refusal {
            return Err(ChatError::Refused {
                model: model(),
                reason: excerpt(reason.as_bytes()),
            });
        }
        let cut = reply.stop == StopReason::Limit;
        if cut && request.schema.is_some() {
            return Err(ChatError::CutOff {
                model: model(),
                limit: request.max_tokens,
            });
        }
        if reply.text.trim().is_empty() {
            return Err(ChatError::Empty {
                model: model(),
                stop: reply.stop_word,
            });
        }
        let text = if request.schema.is_some() {
            let json = without_fence(&reply.text);
            serde_json::from_str::<Value>(json).map_err(|error| ChatError::NotJson {
                model: model(),
                beginning: excerpt(reply.text.as_bytes()),
                reason: error.to_string(),
            })?;
            json.to_owned()
        } else {
            reply.text
        };
        Ok(ChatAnswer {
            text,
            usage: reply.usage,
            stop: reply.stop,
        })
    }
}

impl Chat for HttpChat {
    fn id(&self) -> &str {
        &self.id
    }

    fn complete(&self, request: ChatRequest) -> ChatFuture<'_> {
        Box::pin(self.ask(request))
    }
}

/// Servers that ignore the schema often wrap the JSON in a Markdown code block.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let Some(inner) = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else {
        return text;
    };
    inner.strip_prefix("json").unwrap_or(inner).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_code_fence_is_removed() {
        assert_eq!(without_fence(" {} \n"), "{}");
        assert_eq!(without_fence("```json\n{}\n```\n"), "{}");
        assert_eq!(without_fence("```\n{}\n```"), "{}");
        assert_eq!(without_fence("```json\n{}"), "```json\n{}");
        assert_eq!(without_fence("Here: ```{}```"), "Here: ```{}```");
        assert_eq!(without_fence("```"), "```");
    }
}
