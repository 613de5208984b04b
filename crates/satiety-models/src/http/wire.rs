//! The two wire formats: JSON structures and paths. Connections and retries are handled elsewhere.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::embedder::EmbedError;
use crate::transport::{Transport, TransportError};

/// Protocol of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// `POST /api/embed`.
    Ollama,
    /// `POST /v1/embeddings`.
    OpenAi,
}

impl Wire {
    /// Sends one request. Returns as many vectors as texts, in order, or an error.
    pub(super) async fn embed(
        self,
        transport: &Transport,
        model: &str,
        texts: &[&str],
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        // Some servers reject an empty text; a space is equivalent for every model.
        let input = texts
            .iter()
            .map(|text| if text.is_empty() { " " } else { text })
            .collect();
        let vectors = match self {
            Self::Ollama => {
                ollama(
                    transport,
                    &Request {
                        model,
                        input,
                        encoding_format: None,
                    },
                )
                .await
            }
            Self::OpenAi => {
                openai(
                    transport,
                    &Request {
                        model,
                        input,
                        encoding_format: Some("float"),
                    },
                )
                .await
            }
        }
        .map_err(|error| self.explain(error, model))?;
        if vectors.len() != texts.len() {
            let reason = format!("{} vectors for {} texts", vectors.len(), texts.len());
            return Err(transport.bad_answer(&reason).into());
        }
        Ok(vectors)
    }

    /// Adds a hint to the error of an unknown model.
    fn explain(self, error: EmbedError, model: &str) -> EmbedError {
        match error {
            EmbedError::Transport(TransportError::Status {
                url,
                status: 404,
                message,
                ..
            }) => EmbedError::NotFound {
                what: format!("model {model} at {url}"),
                hint: match self {
                    Self::Ollama => format!("run `ollama pull {model}` ({message})"),
                    Self::OpenAi => format!("check the model name and the address ({message})"),
                },
            },
            other => other,
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct Request<'a> {
    model: &'a str,
    input: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding_format: Option<&'static str>,
}

async fn ollama(transport: &Transport, request: &Request<'_>) -> Result<Vec<Vec<f32>>, EmbedError> {
    #[derive(Deserialize)]
    struct Answer {
        embeddings: Vec<Vec<f32>>,
    }
    let answer: Answer = transport.post("/api/embed", request).await?;
    Ok(answer.embeddings)
}

async fn openai(transport: &Transport, request: &Request<'_>) -> Result<Vec<Vec<f32>>, EmbedError> {
    #[derive(Deserialize)]
    struct Answer {
        data: Vec<Item>,
    }
    #[derive(Deserialize)]
    struct Item {
        index: usize,
        embedding: Vec<f32>,
    }
    let path = if transport.base().ends_with("/v1") {
        "/embeddings"
    } else {
        "/v1/embeddings"
    };
    let mut answer: Answer = transport.post(path, request).await?;
    answer.data.sort_by_key(|item| item.index);
    if answer
        .data
        .iter()
        .enumerate()
        .any(|(place, item)| place != item.index)
    {
        return Err(transport.bad_answer("indexes are not consecutive").into());
    }
    Ok(answer.data.into_iter().map(|item| item.embedding).collect())
}

/// Digest of a model's weights, if the server reports it.
pub(super) async fn ollama_digest(transport: &Transport, model: &str) -> Result<Option<String>, EmbedError> {
    #[derive(Deserialize)]
    struct Tags {
        models: Vec<Tag>,
    }
    #[derive(Deserialize)]
    struct Tag {
        name: String,
        digest: String,
    }
    let tags: Tags = match transport.get("/api/tags").await {
        Ok(tags) => tags,
        // Servers that implement only part of the protocol have no list; the embedding request will show
        // whether the model exists.
        Err(TransportError::Status {
            status: 404 | 405 | 501,
            ..
        }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let latest = format!("{model}:latest");
    match tags
        .models
        .into_iter()
        .find(|tag| tag.name == model || tag.name == latest)
    {
        Some(tag) => Ok(Some(tag.digest)),
        None => Err(EmbedError::NotFound {
            what: format!("model {model} at {}", transport.base()),
            hint: format!("run `ollama pull {model}`"),
        }),
    }
}
