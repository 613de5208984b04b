//! The use cases of Satiety, one per file: each has a request, a response and a method on [`Engine`].
//!
//! The engine loads the inputs, calls the library for the decision, records the result and returns it.
//! Surfaces (command line, HTTP, MCP) call these methods and render the response; they never access the
//! database themselves.

pub mod admission;
pub mod agent_hooks;
pub mod annotations;
pub mod bench;
mod category;
pub mod conversations;
pub mod database;
pub mod dialogue;
pub mod doctor;
mod embedding_cache;
mod error;
pub mod eviction;
pub mod experiment;
mod extraction;
pub mod fleet;
mod handles;
pub mod harness;
mod hooks;
pub mod instances;
pub mod judge_choice;
pub mod lists;
pub mod maintenance;
pub mod memory;
pub mod models;
pub mod operations;
#[cfg(feature = "imports")]
mod parquet_reader;
#[cfg(feature = "imports")]
mod parquet_writer;
#[cfg(not(feature = "imports"))]
mod parquet_writer {
    use satiety::bench::report::TableColumn;

    use crate::EngineError;

    pub(crate) fn parquet_bytes(_: &[TableColumn]) -> Result<Vec<u8>, EngineError> {
        Err(EngineError::Invalid {
            message: crate::feature_disabled("Parquet files", "imports"),
            hint: "export to another format".into(),
        })
    }
}
pub mod progress;
pub mod research;
pub mod retrieval;
pub mod root_path;
mod source_line;
pub mod sweep;
pub mod tenants;
pub mod tokens;
pub mod watch;
pub mod watch_work;
#[cfg(feature = "imports")]
mod zip_log;

pub use category::ErrorCategory;
pub use error::EngineError;
pub use handles::{
    AgentHookOperations, BenchOperations, DatabaseOperations, DialogueOperations, EvictionOperations,
    ExperimentOperations, HarnessOperations, MemoryOperations, ModelOperations, ResearchOperations,
    RetrievalOperations, TenantOperations, TokenOperations,
};
pub use hooks::{Alert, HarnessCycle, HookSettings};
use satiety::bench::SandboxRequirement;
pub use satiety_models::http;
pub use satiety_store::{StoreOptions, StoreUrl};

use std::path::PathBuf;
use std::sync::Arc;

use satiety_models::{CachingEmbedder, Chat, Embedder, EmbedderPool, PoolLimits};
use satiety_store::{Migrate, Store};
use tokio::sync::OnceCell;

/// Error message for a feature that is not compiled in, with the cargo feature that adds it.
pub fn feature_disabled(what: &str, feature: &str) -> String {
    format!("this build does not include {what}; build satiety with the cargo feature `{feature}`")
}

/// Complete configuration of the engine; it reads nothing from the environment.
#[derive(Clone)]
pub struct Settings {
    /// URL of the database.
    pub store: StoreUrl,
    /// Directory that retention archives to.
    pub archive_folder: PathBuf,
    /// Sentence model: `builtin`, `dir:PATH`, `ollama:MODEL`, `openai:MODEL`, or `none`.
    pub embedder: String,
    /// Chat model that sorts messages, on request: `ollama:MODEL`, `openai:MODEL` or `anthropic:MODEL`.
    pub chat: Option<String>,
    /// API key for OpenAI-compatible endpoints.
    pub api_key: Option<String>,
    /// API key for Anthropic endpoints.
    pub anthropic_key: Option<String>,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("store", &self.store)
            .field("archive_folder", &self.archive_folder)
            .field("embedder", &self.embedder)
            .field("chat", &self.chat)
            .field("api_key", &self.api_key.as_ref().map(|_| "***"))
            .field("anthropic_key", &self.anthropic_key.as_ref().map(|_| "***"))
            .finish()
    }
}

/// Concurrency limits for the sentence model on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelPool {
    /// Maximum number of concurrent calls.
    pub running: usize,
    /// Maximum number of queued calls.
    pub waiting: usize,
}

/// Entry point to all use cases. Opens the database and the models on first use.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    store_options: StoreOptions,
    store: OnceCell<Store>,
    /// The sentence model, shared with the engines of tenants.
    model: tenants::SharedModel,
    /// The sentence model with this engine's cache.
    embedder: OnceCell<Option<Box<dyn Embedder>>>,
    chat: OnceCell<Box<dyn Chat>>,
    conversations: conversations::ConversationCache,
    runs: progress::RunCache,
    traces: progress::TraceConversations,
    eviction: eviction::EvictionState,
    memory: memory::Cache,
    memory_settings: memory::MemorySettings,
    ab: experiment::State,
    sandbox: SandboxRequirement,
    hooks: HookSettings,
    compute: Arc<admission::ComputePool>,
    model_pool: Option<PoolLimits>,
    tenant: Option<tenants::Tenancy>,
}

impl Engine {
    /// Creates an engine with these settings; opens nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            store_options: StoreOptions::default(),
            store: OnceCell::new(),
            model: Arc::default(),
            embedder: OnceCell::new(),
            chat: OnceCell::new(),
            conversations: conversations::ConversationCache::default(),
            runs: progress::RunCache::default(),
            traces: progress::TraceConversations::default(),
            eviction: eviction::EvictionState::default(),
            memory: memory::Cache::default(),
            memory_settings: memory::MemorySettings::default(),
            ab: experiment::State::default(),
            sandbox: SandboxRequirement::default(),
            hooks: HookSettings::default(),
            compute: Arc::default(),
            model_pool: None,
            tenant: None,
        }
    }

    /// Returns the engine with these limits of the database connections, and this read replica.
    #[must_use]
    pub fn with_store_options(mut self, options: StoreOptions) -> Self {
        self.store_options = options;
        self
    }

    /// Returns the engine with these settings for experiments.
    #[must_use]
    pub fn with_experiments(mut self, settings: experiment::ExperimentSettings) -> Self {
        self.ab.settings = settings;
        self
    }

    /// Returns the engine with this sandbox requirement for targets that gates, harnesses, servers and
    /// workers run.
    #[must_use]
    pub fn with_sandbox(mut self, requirement: SandboxRequirement) -> Self {
        self.sandbox = requirement;
        self
    }

    /// Default sandbox requirement for target processes.
    pub fn sandbox_requirement(&self) -> SandboxRequirement {
        self.sandbox
    }

    /// Returns the engine with these hooks: alerts, and a harness whose cycles follow gated runs.
    #[must_use]
    pub fn with_hooks(mut self, hooks: HookSettings) -> Self {
        self.hooks = hooks;
        self
    }

    /// Returns the engine with these settings of eviction.
    #[must_use]
    pub fn with_eviction(mut self, settings: eviction::EvictionSettings) -> Self {
        self.eviction.settings = settings;
        self
    }

    /// Returns the engine with these memory settings.
    #[must_use]
    pub fn with_memory(mut self, settings: memory::MemorySettings) -> Self {
        self.memory_settings = settings;
        self
    }

    /// Returns the engine with these limits for calls of the sentence model; calls beyond the queue are
    /// refused.
    #[must_use]
    pub fn with_model_pool(mut self, limits: ModelPool) -> Self {
        self.model_pool = Some(PoolLimits {
            running: limits.running,
            waiting: Some(limits.waiting),
        });
        self
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    async fn store(&self) -> Result<&Store, EngineError> {
        let open = || async {
            let store = self.open_store(Migrate::ToLatest).await?;
            match &self.tenant {
                None => Ok(store),
                Some(tenant) => tenant.check_store(store).await,
            }
        };
        self.store.get_or_try_init(open).await
    }

    /// Opens the database once more, with a migration policy.
    pub(crate) async fn open_store(&self, migrate: Migrate) -> Result<Store, satiety_store::StoreError> {
        Store::open_configured(&self.settings.store, migrate, &self.store_options).await
    }

    /// Returns the database for lists, pages and exports, which a read replica may answer: not for anything that
    /// must see a write of the same request.
    async fn reader(&self) -> Result<Store, EngineError> {
        Ok(self.store().await?.for_reading())
    }

    /// Returns the configured sentence model, or `None` if the settings say `none`. A model that cannot be
    /// opened is an error, never silently skipped.
    async fn embedder(&self) -> Result<Option<&dyn Embedder>, EngineError> {
        let open_model = || async {
            let opened = models::open(&self.settings).await?;
            Ok::<_, EngineError>(opened.map(|embedder| match self.model_pool {
                Some(limits) => Arc::new(EmbedderPool::new(embedder, limits)) as Arc<dyn Embedder>,
                None => Arc::from(embedder),
            }))
        };
        let open = || async {
            let model = self.model.get_or_try_init(open_model).await?.clone();
            Ok::<_, EngineError>(model.map(|model| {
                let meter = self.meter().cloned();
                let shared = Box::new(tenants::SharedEmbedder { model, meter });
                let caching = Box::new(CachingEmbedder::new(shared));
                Box::new(admission::MeteredEmbedder::new(caching, self.model_cost())) as Box<dyn Embedder>
            }))
        };
        Ok(self.embedder.get_or_try_init(open).await?.as_deref())
    }

    /// Closes the database if it was opened. The usage of a tenant is sent to the registry first.
    pub async fn close(&self) {
        if let Some(tenant) = &self.tenant
            && let Err(error) = tenant
                .main
                .tenants()
                .synchronize(std::slice::from_ref(&tenant.meter))
                .await
        {
            tracing::warn!(tenant = tenant.name, "cannot record the usage: {error}");
        }
        if let Some(store) = self.store.get() {
            store.close().await;
        }
    }
}

/// Converts a database timestamp in microseconds.
pub(crate) fn time(micros: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_microsecond(micros).unwrap_or_default()
}
