//! Capability handles: the engine's operations grouped by area, so that a caller depends only on the area it
//! uses.

use crate::Engine;

macro_rules! handles {
    ($($(#[$doc:meta])* $accessor:ident: $handle:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy)]
            pub struct $handle<'e> {
                pub(crate) engine: &'e Engine,
            }
        )*

        impl Engine {
            $(
                $(#[$doc])*
                pub fn $accessor(&self) -> $handle<'_> {
                    $handle { engine: self }
                }
            )*
        }
    };
}

handles! {
    /// Conversations: score, follow, sweep, and conversations that are continued over several calls.
    dialogue: DialogueOperations;
    /// Agents at work: logs, runs reported message by message, calibration.
    progress: ProgressOperations;
    /// Hooks of command-line agents.
    agent_hooks: AgentHookOperations;
    /// Research loops and the gate for search loops of other programs.
    research: ResearchOperations;
    /// Rankings, judgments and evaluation corpora.
    retrieval: RetrievalOperations;
    /// An agent's memories, sessions and tasks.
    memory: MemoryOperations;
    /// Experiments on the memory search.
    experiments: ExperimentOperations;
    /// Contexts, proposals and scorers of eviction.
    eviction: EvictionOperations;
    /// Suites, runs, gates, baselines and ablations.
    bench: BenchOperations;
    /// The evaluation harness and its ratchet.
    harness: HarnessOperations;
    /// Sentence and chat models.
    models: ModelOperations;
    /// The registry of tenants.
    tenants: TenantOperations;
    /// API tokens and the audit log.
    tokens: TokenOperations;
    /// The store: status, migration, retention, export, import, idempotency keys.
    database: DatabaseOperations;
}
