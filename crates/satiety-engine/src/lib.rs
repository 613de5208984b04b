//! What Satiety does: one use case a file, each a request, a response and a method on [`Engine`].
//!
//! The engine reads what is needed, asks the library what follows from it, records that and returns it. Surfaces
//! (command line, HTTP, MCP) call these methods and print what comes back; they never touch the store themselves.

pub mod database;
pub mod doctor;
mod error;

pub use error::{EngineError, Fault};
pub use satiety_store::StoreUrl;

use std::path::PathBuf;

use satiety_store::Store;
use tokio::sync::OnceCell;

/// Everything the engine must be told; nothing is read from the environment.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which store to use.
    pub store: StoreUrl,
    /// Where retention puts what it archives.
    pub archive_folder: PathBuf,
    /// Which sentence model to use: `builtin`, `dir:PATH`, `ollama:MODEL`, `openai:MODEL`, or `none`.
    pub embedder: String,
}

/// The use cases. The store and the models are opened when something first needs them.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    store: OnceCell<Store>,
}

impl Engine {
    /// An engine with these settings; opens nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            store: OnceCell::new(),
        }
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

    /// Closes what was opened.
    pub async fn close(&self) {
        if let Some(store) = self.store.get() {
            store.close().await;
        }
    }
}
