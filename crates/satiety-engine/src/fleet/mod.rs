//! Diagnostics of a fleet (`satiety doctor --fleet`, `GET /v1/fleet`): the database and all processes on it.
//!
//! The store gathers facts, `checks` judges them. The checks are pure, so that each can be tested with facts that are
//! hard to produce.

mod checks;

use satiety_store::Migrate;

use crate::EngineError;
use crate::doctor::{Examination, Finding};
use crate::handles::DatabaseOperations;

impl DatabaseOperations<'_> {
    /// Checks the database and all processes on it. Changes nothing: an older schema is reported, not migrated.
    pub async fn examine_fleet(self) -> Examination {
        let findings = match self.fleet_findings().await {
            Ok(findings) => findings,
            Err(error) => vec![Finding::bad(
                "store",
                error.to_string(),
                error.hint().map(|hint| hint.to_string()),
            )],
        };
        Examination { findings }
    }

    async fn fleet_findings(self) -> Result<Vec<Finding>, EngineError> {
        let store = self.engine.open_store(Migrate::Never).await?;
        let facts = store.fleet_facts().await;
        store.close().await;
        Ok(checks::examine(&facts?, satiety_store::now_micros()))
    }
}
