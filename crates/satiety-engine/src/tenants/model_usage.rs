//! Models that count tokens for a tenant, and refuse to work when its quota is used up.

use std::sync::Arc;

use satiety::admission::Workload;
use satiety_models::chat::{Chat, ChatError, ChatFuture, ChatRequest};
use satiety_models::{EmbedError, EmbedFuture, Embedder, EmbedderId};

use super::TenantMeter;
use crate::eviction::count_tokens;

/// The sentence model of the process, as one engine uses it. It is below the engine's cache, so that only computed
/// texts count; a cache of vectors is never shared, since its speed would tell what others have embedded.
#[derive(Debug)]
pub(crate) struct SharedEmbedder {
    pub(crate) model: Arc<dyn Embedder>,
    pub(crate) meter: Option<Arc<TenantMeter>>,
}

impl Embedder for SharedEmbedder {
    fn id(&self) -> &EmbedderId {
        self.model.id()
    }

    fn dimension(&self) -> usize {
        self.model.dimension()
    }

    fn embed<'a>(&'a self, texts: &'a [&'a str]) -> EmbedFuture<'a> {
        let Some(meter) = &self.meter else {
            return self.model.embed(texts);
        };
        Box::pin(async move {
            meter
                .admit_model_work()
                .map_err(|error| EmbedError::Refused(Box::new(error)))?;
            let vectors = self.model.embed(texts).await?;
            meter.add_tokens(Workload::for_texts(texts.iter().copied()).tokens);
            Ok(vectors)
        })
    }
}

/// A chat model that counts the tokens its server reports, or an estimate if it reports none.
#[derive(Debug)]
pub(crate) struct CountingChat {
    pub(crate) inner: Box<dyn Chat>,
    pub(crate) meter: Arc<TenantMeter>,
}

impl Chat for CountingChat {
    fn id(&self) -> &str {
        self.inner.id()
    }

    fn complete(&self, request: ChatRequest) -> ChatFuture<'_> {
        Box::pin(async move {
            if let Err(error) = self.meter.admit_model_work() {
                return Err(ChatError::Refused {
                    model: self.inner.id().to_owned(),
                    reason: error.to_string(),
                });
            }
            let asked: u64 = request
                .messages
                .iter()
                .map(|message| count_tokens(&message.text))
                .sum();
            let answer = self.inner.complete(request).await?;
            let input = answer.usage.input_tokens.unwrap_or(asked);
            let output = answer.usage.output_tokens;
            let output = output.unwrap_or_else(|| count_tokens(&answer.text));
            self.meter.add_tokens(input.saturating_add(output));
            Ok(answer)
        })
    }
}
