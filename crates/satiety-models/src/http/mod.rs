//! Outgoing HTTP client, and embedders over HTTP: Ollama's `/api/embed` and the OpenAI-compatible
//! `/v1/embeddings`.
//!
//! Connecting requests one vector, so that a wrong address, key or model name is reported immediately and the
//! dimension is known. Responses are validated (count, dimension, finite numbers) and scaled to unit length.
mod client;
mod wire;

pub use self::client::{
    AddressGuard, Client, HttpAnswer, HttpError, HttpPolicy, Redirects, excerpt, install_tls_provider,
    with_causes,
};
pub use self::wire::Wire;
use crate::embedder::{EmbedError, EmbedFuture, Embedder, EmbedderId};
pub use crate::transport::{ApiKey, HttpSettings, TransportError};
use crate::transport::{Head, Transport};
pub use reqwest::{Method, RequestBuilder, Url, header};

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
    /// Connects and determines the dimension and the identity of the weights.
    ///
    /// `url` is the server's base, such as `http://localhost:11434` or `https://api.openai.com/v1`.
    pub async fn connect(
        wire: Wire,
        model: &str,
        url: &str,
        settings: HttpSettings,
    ) -> Result<Self, EmbedError> {
        let batch = settings.batch.max(1);
        let transport = Transport::new(url, Head::Bearer, settings)?;
        let digest = match wire {
            Wire::Ollama => wire::ollama_digest(&transport, model).await?,
            Wire::OpenAi => None,
        };
        let probe = wire.embed(&transport, model, &["dimension"]).await?;
        let dimension = probe.first().map_or(0, Vec::len);
        if dimension == 0 {
            return Err(transport.bad_answer("vector without components").into());
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
                "vector has {} components, expected {}",
                vector.len(),
                self.dimension
            );
            return Err(self.transport.bad_answer(&reason).into());
        }
        let length = vector
            .iter()
            .map(|value| f64::from(*value).powi(2))
            .sum::<f64>()
            .sqrt();
        if !length.is_finite() || length == 0.0 {
            return Err(self
                .transport
                .bad_answer(&format!("vector has length {length}"))
                .into());
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
