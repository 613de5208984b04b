//! Chat model specifications.
//!
//! | specification | meaning |
//! |---|---|
//! | `ollama:MODEL[@URL]` | a model served by Ollama |
//! | `openai:MODEL[@URL]` | any OpenAI-compatible chat endpoint |
//! | `anthropic:MODEL[@URL]` | Anthropic's Messages API, or a compatible endpoint |
use std::fmt;
use std::str::FromStr;

use super::ChatError;
use crate::transport::{OLLAMA, OPENAI, model_and_address};

const ANTHROPIC: &str = "https://api.anthropic.com";

/// Parsed specification. Displays in the same syntax, with the address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    pub provider: Provider,
    pub model: String,
    pub url: String,
}

/// Protocol of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// `POST /api/chat`.
    Ollama,
    /// `POST /v1/chat/completions`.
    OpenAi,
    /// `POST /v1/messages`.
    Anthropic,
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ollama => "ollama",
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
        })
    }
}

impl FromStr for Spec {
    type Err = ChatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = |reason: &str| ChatError::BadSpec {
            spec: text.to_owned(),
            reason: reason.to_owned(),
        };
        let expected = "expected ollama:MODEL[@URL], openai:MODEL[@URL] or anthropic:MODEL[@URL]";
        let (provider, rest) = text.trim().split_once(':').ok_or_else(|| bad(expected))?;
        let (provider, default) = match provider {
            "ollama" => (Provider::Ollama, OLLAMA),
            "openai" => (Provider::OpenAi, OPENAI),
            "anthropic" => (Provider::Anthropic, ANTHROPIC),
            _ => return Err(bad(expected)),
        };
        let (model, url) = model_and_address(rest);
        if model.is_empty() || model.contains(char::is_whitespace) {
            return Err(bad(
                "expected a model name, as in ollama:llama3.2 or openai:NAME@https://HOST/v1",
            ));
        }
        Ok(Self {
            provider,
            model: model.to_owned(),
            url: url.unwrap_or(default).to_owned(),
        })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}@{}", self.provider, self.model, self.url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_round_trip() {
        for (text, full) in [
            ("ollama:llama3.2", "ollama:llama3.2@http://localhost:11434"),
            (
                " ollama:qwen3:8b@http://10.0.0.7:11434 ",
                "ollama:qwen3:8b@http://10.0.0.7:11434",
            ),
            (
                "openai:gpt-4.1-mini",
                "openai:gpt-4.1-mini@https://api.openai.com/v1",
            ),
            ("openai:a@b@https://host/v1", "openai:a@b@https://host/v1"),
            (
                "anthropic:claude-haiku-4-5",
                "anthropic:claude-haiku-4-5@https://api.anthropic.com",
            ),
        ] {
            let spec: Spec = text.parse().unwrap();
            assert_eq!(spec.to_string(), full);
            assert_eq!(full.parse::<Spec>().unwrap(), spec);
        }
    }

    #[test]
    fn invalid_specifications_name_the_expected_form() {
        for (text, part) in [
            ("", "expected ollama:MODEL"),
            ("llama3.2", "expected ollama:MODEL"),
            ("builtin", "expected ollama:MODEL"),
            ("gemini:x", "expected ollama:MODEL"),
            ("ollama:", "expected a model name"),
            ("openai:@https://host/v1", "expected a model name"),
            ("openai:two words", "expected a model name"),
        ] {
            let message = text.parse::<Spec>().unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
