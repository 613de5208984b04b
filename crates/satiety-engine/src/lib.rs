//! What Satiety does: one use case a file, each a request, a response and a method on [`Engine`].
//!
//! The engine reads what is needed, asks the library what follows from it, records that and returns it. Surfaces
//! (command line, HTTP, MCP) call these methods and print what comes back; they never touch the store themselves.

pub mod admission;
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
mod handles;
pub mod harness;
mod hooks;
pub mod maintenance;
pub mod memory;
pub mod models;
pub mod operations;
pub mod research;
pub mod retrieval;
pub mod root_path;
pub mod sweep;
pub mod tokens;
pub mod watch;

pub use category::ErrorCategory;
pub use error::EngineError;
pub use handles::{
    BenchOperations, DatabaseOperations, DialogueOperations, EvictionOperations, ExperimentOperations,
    HarnessOperations, MemoryOperations, ModelOperations, ResearchOperations, RetrievalOperations,
    TokenOperations,
};
pub use hooks::{Alert, HarnessCycle, HookSettings};
use satiety::bench::SandboxRequirement;
pub use satiety_models::http;
pub use satiety_store::StoreUrl;

use std::path::PathBuf;

use satiety_models::{CachingEmbedder, Chat, Embedder, EmbedderPool, PoolLimits};
use satiety_store::Store;
use tokio::sync::OnceCell;

/// Says that something was left out of this build, and how to build it in.
pub fn left_out(what: &str, feature: &str) -> String {
    format!("this build leaves out {what}; build satiety with the cargo feature `{feature}`")
}

/// Everything the engine must be told; nothing is read from the environment.
#[derive(Clone)]
pub struct Settings {
    /// Which store to use.
    pub store: StoreUrl,
    /// Where retention puts what it archives.
    pub archive_folder: PathBuf,
    /// Which sentence model to use: `builtin`, `dir:PATH`, `ollama:MODEL`, `openai:MODEL`, or `none`.
    pub embedder: String,
    /// Which chat model sorts messages, where one is asked to: `ollama:MODEL`, `openai:MODEL` or `anthropic:MODEL`.
    pub chat: Option<String>,
    /// The key for OpenAI-compatible endpoints.
    pub api_key: Option<String>,
    /// The key for Anthropic's endpoints.
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

/// How many calls of the sentence model a server allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelPool {
    /// Calls that are computed at the same time.
    pub running: usize,
    /// Calls that may wait.
    pub waiting: usize,
}

/// The use cases. The store and the models are opened when something first needs them.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    store: OnceCell<Store>,
    embedder: OnceCell<Option<Box<dyn Embedder>>>,
    chat: OnceCell<Box<dyn Chat>>,
    conversations: conversations::ConversationCache,
    eviction: eviction::Memory,
    memory: memory::Cache,
    memory_settings: memory::MemorySettings,
    ab: experiment::State,
    sandbox: SandboxRequirement,
    hooks: HookSettings,
    compute: admission::ComputePool,
    model_pool: Option<PoolLimits>,
}

impl Engine {
    /// An engine with these settings; opens nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            store: OnceCell::new(),
            embedder: OnceCell::new(),
            chat: OnceCell::new(),
            conversations: conversations::ConversationCache::default(),
            eviction: eviction::Memory::default(),
            memory: memory::Cache::default(),
            memory_settings: memory::MemorySettings::default(),
            ab: experiment::State::default(),
            sandbox: SandboxRequirement::default(),
            hooks: HookSettings::default(),
            compute: admission::ComputePool::default(),
            model_pool: None,
        }
    }

    /// The same engine with other rules for experiments.
    #[must_use]
    pub fn with_ab(mut self, settings: experiment::ExperimentSettings) -> Self {
        self.ab.settings = settings;
        self
    }

    /// The same engine with another requirement for the sandbox of targets that gates, harnesses, servers and workers run.
    #[must_use]
    pub fn with_sandbox(mut self, requirement: SandboxRequirement) -> Self {
        self.sandbox = requirement;
        self
    }

    /// Whether the processes of targets must be sandboxed where nobody asks for something else.
    pub fn sandbox_requirement(&self) -> SandboxRequirement {
        self.sandbox
    }

    /// The same engine with other alerts, and a harness whose cycles follow gated runs.
    #[must_use]
    pub fn with_hooks(mut self, hooks: HookSettings) -> Self {
        self.hooks = hooks;
        self
    }

    /// The same engine with other rules for the memory.
    #[must_use]
    pub fn with_memory(mut self, settings: memory::MemorySettings) -> Self {
        self.memory_settings = settings;
        self
    }

    /// The same engine with so many calls of the sentence model at a time and so many waiting for it; more are refused.
    #[must_use]
    pub fn with_model_pool(mut self, limits: ModelPool) -> Self {
        self.model_pool = Some(PoolLimits {
            running: limits.running,
            waiting: Some(limits.waiting),
        });
        self
    }

    /// What it was told.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    async fn store(&self) -> Result<&Store, EngineError> {
        Ok(self
            .store
            .get_or_try_init(|| Store::open(&self.settings.store))
            .await?)
    }

    /// The sentence model of the settings, or none where they say `none`. One that cannot be had is an error, never a
    /// silent skip.
    async fn embedder(&self) -> Result<Option<&dyn Embedder>, EngineError> {
        let open = || async {
            let opened = models::open(&self.settings).await?;
            Ok::<_, EngineError>(opened.map(|embedder| {
                let embedder = match self.model_pool {
                    Some(limits) => Box::new(EmbedderPool::new(embedder, limits)) as Box<dyn Embedder>,
                    None => embedder,
                };
                let remembering = Box::new(CachingEmbedder::new(embedder));
                Box::new(admission::MeteredChat::new(remembering, self.model_cost())) as Box<dyn Embedder>
            }))
        };
        Ok(self.embedder.get_or_try_init(open).await?.as_deref())
    }

    /// Closes what was opened.
    pub async fn close(&self) {
        if let Some(store) = self.store.get() {
            store.close().await;
        }
    }
}

/// A moment of the store.
pub(crate) fn time(micros: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_microsecond(micros).unwrap_or_default()
}
