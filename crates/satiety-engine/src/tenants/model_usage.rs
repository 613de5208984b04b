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
            self.meter
                .admit_model_work()
                .map_err(|error| ChatError::NotAdmitted(Box::new(error)))?;
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

#[cfg(test)]
mod tests {
    use satiety::memory::Mode;
    use satiety::quota::Quotas;

    use super::*;
    use crate::memory::{SaveRequest, SearchRequest};
    use crate::tenants::CreateTenantRequest;
    use crate::{Engine, EngineError, Settings, StoreUrl};

    /// Has the same vector for every text.
    #[derive(Debug)]
    struct Constant(EmbedderId);

    impl Embedder for Constant {
        fn id(&self) -> &EmbedderId {
            &self.0
        }

        fn dimension(&self) -> usize {
            3
        }

        fn embed<'a>(&'a self, texts: &'a [&'a str]) -> EmbedFuture<'a> {
            Box::pin(async move { Ok(texts.iter().map(|_| vec![1.0, 0.0, 0.0]).collect()) })
        }
    }

    #[tokio::test]
    async fn without_model_tokens_a_tenant_searches_by_words() {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::new(Settings {
            store: StoreUrl::sqlite(folder.path().join("main.db")),
            archive_folder: folder.path().join("archive"),
            embedder: "builtin".into(),
            chat: None,
            api_key: None,
            anthropic_key: None,
        });
        let model: Arc<dyn Embedder> = Arc::new(Constant("constant:ab12cd34:mean".parse().unwrap()));
        assert!(engine.model.set(Some(model)).is_ok());
        let engine = Arc::new(engine);
        let request = CreateTenantRequest {
            name: "acme".into(),
            quotas: Quotas {
                model_tokens_per_day: Some(1),
                ..Quotas::default()
            },
            ..CreateTenantRequest::default()
        };
        engine.tenants().create(request).await.unwrap();
        let tenant = engine.tenant("acme").await.unwrap();
        let save = |title: &str| SaveRequest {
            title: title.into(),
            content: format!("the {title} is blue"),
            ..SaveRequest::default()
        };
        // The call that crosses the limit is completed.
        tenant.memory().save(save("lighthouse")).await.unwrap();
        assert!(tenant.meter().unwrap().snapshot().1.tokens > 1);
        let refused = tenant.memory().save(save("harbour")).await.unwrap_err();
        assert!(matches!(refused, EngineError::QuotaExceeded { .. }), "{refused}");
        let search = SearchRequest {
            query: "lighthouse".into(),
            mode: Some(Mode::Focused),
            below_floor: true,
            ..SearchRequest::default()
        };
        let found = tenant.memory().search(search).await.unwrap();
        assert_eq!(found.results.len(), 1);
        assert!(found.degraded.unwrap().contains("model_tokens_per_day"));
        tenant.close_with_registry().await;
    }
}
