//! Embedders an HTTP request away: Ollama's `/api/embed` and the OpenAI-compatible `/v1/embeddings`.
//!
//! Connecting asks for one vector, so a wrong address, key or model name shows at once and the dimension is known.
//! Answers are checked (count, dimension, finite numbers) and scaled to length 1. Retries live in `transport.rs`.
mod transport;
mod wire;

use std::fmt;
use std::time::Duration;

use self::transport::Transport;
pub use self::wire::Wire;
use crate::embedder::{EmbedError, EmbedFuture, Embedder, EmbedderId};

/// A secret that is sent and never shown.
#[derive(Clone)]
pub struct ApiKey(String);

impl ApiKey {
    /// Wraps a key; surrounding white space, as files and variables tend to have, is cut off.
    pub fn new(key: &str) -> Self {
        Self(key.trim().to_owned())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(***)")
    }
}

/// How to talk to a provider.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Sent as a bearer token if there is one.
    pub api_key: Option<ApiKey>,
    /// The limit for one attempt, from connecting to the last byte.
    pub timeout: Duration,
    /// Attempts after the first, for broken connections, timeouts, 429 and 5xx.
    pub retries: usize,
    /// The pause before the first retry; it doubles each time, with some jitter.
    pub first_pause: Duration,
    /// The longest pause. A server that asks for more with `Retry-After` gets no further attempt.
    pub longest_pause: Duration,
    /// Texts in one request.
    pub batch: usize,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            api_key: None,
            timeout: Duration::from_mins(1),
            retries: 4,
            first_pause: Duration::from_millis(250),
            longest_pause: Duration::from_secs(30),
            batch: 64,
        }
    }
}

/// A model behind an endpoint.
#[derive(Debug)]
pub struct HttpEmbedder {
    wire: Wire,
    model: String,
    transport: Transport,
    batch: usize,
    id: EmbedderId,
    dimension: usize,
}

impl HttpEmbedder {
    /// Connects, finds out the dimension and what identifies the weights.
    ///
    /// `url` is the server's base, such as `http://localhost:11434` or `https://api.openai.com/v1`.
    pub async fn connect(
        wire: Wire,
        model: &str,
        url: &str,
        settings: HttpSettings,
    ) -> Result<Self, EmbedError> {
        let batch = settings.batch.max(1);
        let transport = Transport::new(url, settings)?;
        let digest = match wire {
            Wire::Ollama => wire::ollama_digest(&transport, model).await?,
            Wire::OpenAi => None,
        };
        let probe = wire.embed(&transport, model, &["dimension"]).await?;
        let dimension = probe.first().map_or(0, Vec::len);
        if dimension == 0 {
            return Err(transport.bad_answer("a vector without components"));
        }
        let identity = digest.unwrap_or_else(|| format!("{}\n{model}\n{dimension}", transport.base()));
        let id = EmbedderId::new(model, &blake3::hash(identity.as_bytes()), "remote");
        Ok(Self {
            wire,
            model: model.to_owned(),
            transport,
            batch,
            id,
            dimension,
        })
    }

    async fn embed_batches(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in texts.chunks(self.batch) {
            let answer = self.wire.embed(&self.transport, &self.model, batch).await?;
            for mut vector in answer {
                self.normalize(&mut vector)?;
                vectors.push(vector);
            }
        }
        Ok(vectors)
    }

    fn normalize(&self, vector: &mut [f32]) -> Result<(), EmbedError> {
        if vector.len() != self.dimension {
            let reason = format!(
                "a vector has {} components, earlier ones had {}",
                vector.len(),
                self.dimension
            );
            return Err(self.transport.bad_answer(&reason));
        }
        let length = vector
            .iter()
            .map(|value| f64::from(*value).powi(2))
            .sum::<f64>()
            .sqrt();
        if !length.is_finite() || length == 0.0 {
            return Err(self
                .transport
                .bad_answer(&format!("a vector has length {length}")));
        }
        for value in vector {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a component of a unit vector fits an f32"
            )]
            let scaled = (f64::from(*value) / length) as f32;
            *value = scaled;
        }
        Ok(())
    }
}

impl Embedder for HttpEmbedder {
    fn id(&self) -> &EmbedderId {
        &self.id
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn embed<'a>(&'a self, texts: &'a [&'a str]) -> EmbedFuture<'a> {
        Box::pin(self.embed_batches(texts))
    }
}
