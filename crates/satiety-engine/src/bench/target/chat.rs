//! Chat model as the system under test. Retries are left to the caller, so that each attempt is recorded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use satiety::bench::contract::spec::ChatSpec;
use satiety::bench::contract::{ErrorKind, Message, Request, Response, TargetError, Usage};
use satiety_models::chat::{self, ChatError, ChatMessage, ChatRequest, Provider, Spec};
use satiety_models::http::{ApiKey, HttpPolicy, HttpSettings, TransportError, with_causes};
use satiety_models::{AddressOrigin, Chat, KeyOwner};
use serde_json::Value;
use tokio::time::timeout;

use super::exec::too_long;
use super::{Attempt, OpenError, TargetContext};
use crate::tenants::{CountingChat, TenantMeter};

/// Above any deadline; the deadline itself is enforced around the whole exchange.
const HTTP_TIMEOUT: Duration = Duration::from_hours(24);

#[derive(Debug)]
pub struct ChatTarget {
    model: Box<dyn Chat>,
    spec: ChatSpec,
}

impl ChatTarget {
    pub(super) fn open(spec: &ChatSpec, context: &TargetContext) -> Result<Self, OpenError> {
        let bad = |error: ChatError| OpenError::description("model", error.to_string());
        let parsed: Spec = spec.model.parse().map_err(bad)?;
        let api_key = match &spec.key_env {
            Some(name) => {
                let key = context.environment.get(name).ok_or_else(|| {
                    OpenError::description("key_env", format!("the environment variable {name} is not set"))
                })?;
                Some(ApiKey::new(key, KeyOwner::from_variable(name)))
            }
            None => match parsed.provider {
                Provider::Anthropic => context.anthropic_key.clone(),
                Provider::OpenAi => context.api_key.clone(),
                Provider::Ollama => None,
            },
        };
        let settings = HttpSettings {
            api_key,
            // Descriptions are untrusted: they may name their own key, but must not send a provider's key
            // elsewhere.
            address_origin: AddressOrigin::Described,
            policy: HttpPolicy {
                timeout: Some(HTTP_TIMEOUT),
                retries: 0,
                ..HttpPolicy::default()
            },
            ..HttpSettings::default()
        };
        Ok(Self {
            model: chat::open(&parsed, settings).map_err(bad)?,
            spec: spec.clone(),
        })
    }

    /// Counts its tokens for a tenant, and refuses calls beyond the quota.
    pub(super) fn count_for(self, meter: &Arc<TenantMeter>) -> Self {
        Self {
            model: Box::new(CountingChat {
                inner: self.model,
                meter: Arc::clone(meter),
            }),
            spec: self.spec,
        }
    }

    pub(super) async fn call(&self, request: &Request) -> Attempt {
        let question = match self.question(request) {
            Ok(question) => question,
            Err(error) => return Attempt::bare(Err(error), Duration::ZERO),
        };
        let started = Instant::now();
        let limit = Duration::from_millis(request.deadline_ms);
        let outcome = match timeout(limit, self.model.complete(question)).await {
            Ok(Ok(answer)) => Ok(Response {
                usage: Some(Usage {
                    input_tokens: answer.usage.input_tokens,
                    output_tokens: answer.usage.output_tokens,
                    cache_read_tokens: None,
                    requests: Some(1),
                }),
                ..Response::text(answer.text)
            }),
            Ok(Err(error)) => Err(failed(&error)),
            Err(_) => Err(too_long(request.deadline_ms)),
        };
        Attempt::bare(outcome, started.elapsed())
    }

    /// Builds the messages: instructions, the conversation so far, then context and goal.
    fn question(&self, request: &Request) -> Result<ChatRequest, TargetError> {
        let mut messages: Vec<ChatMessage> = self.spec.system.iter().map(ChatMessage::system).collect();
        // A prompt of promptfoo may be a conversation in JSON.
        let conversation = request
            .input
            .messages
            .is_empty()
            .then(|| conversation(&request.input.goal))
            .flatten();
        for message in conversation.as_ref().unwrap_or(&request.input.messages) {
            let words = message.content.as_str();
            messages.push(match message.role.as_str() {
                "system" => ChatMessage::system(words),
                "user" => ChatMessage::user(words),
                "assistant" => ChatMessage::assistant(words),
                other => {
                    return Err(TargetError::new(
                        ErrorKind::Harness,
                        format!("unknown role `{other}` (expected one of: system, user, assistant)"),
                    ));
                }
            });
        }
        let context: Vec<String> = request
            .input
            .context
            .iter()
            .map(|item| match item {
                Value::String(words) => words.clone(),
                other => other.to_string(),
            })
            .collect();
        if conversation.is_none() {
            messages.push(ChatMessage::user(if context.is_empty() {
                request.input.goal.clone()
            } else {
                format!("Context:\n{}\n\n{}", context.join("\n\n"), request.input.goal)
            }));
        }
        Ok(ChatRequest {
            messages,
            temperature: self.spec.temperature,
            max_tokens: self.spec.max_tokens,
            schema: None,
        })
    }
}

/// Messages of a goal that is a JSON list of objects with `role` and `content`.
fn conversation(goal: &str) -> Option<Vec<Message>> {
    if !goal.trim_start().starts_with('[') {
        return None;
    }
    let messages: Vec<Message> = serde_json::from_str(goal).ok()?;
    (!messages.is_empty()).then_some(messages)
}

fn failed(error: &ChatError) -> TargetError {
    let message = with_causes(error);
    let (kind, pause) = match error {
        ChatError::Transport(TransportError::Status {
            status, retry_after, ..
        }) => (super::http::kind_of_status(*status), *retry_after),
        ChatError::Transport(TransportError::Unreachable { .. } | TransportError::Timeout { .. }) => {
            (ErrorKind::Infra, None)
        }
        ChatError::Transport(TransportError::BadAnswer { .. }) => (ErrorKind::Protocol, None),
        ChatError::Refused { .. } => (ErrorKind::Refusal, None),
        ChatError::Empty { .. } | ChatError::CutOff { .. } | ChatError::NotJson { .. } => {
            (ErrorKind::Target, None)
        }
        // An invalid name, address or key says nothing about the model.
        _ => (ErrorKind::Harness, None),
    };
    TargetError {
        kind,
        message,
        retry_after_ms: pause.map(|pause| u64::try_from(pause.as_millis()).unwrap_or(u64::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lists_of_messages_are_conversations() {
        let found = conversation(
            r#" [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]"#,
        );
        assert_eq!(found.unwrap()[1].content, "Hi");
        for goal in [
            "Hi",
            "[1, 2]",
            "[]",
            r#"[{"role": "user"}]"#,
            r#"{"role": "user", "content": "x"}"#,
        ] {
            assert!(conversation(goal).is_none(), "{goal}");
        }
    }
}
