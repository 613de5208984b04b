//! Prices of prompt caches: built in, or from a file of the user.

use std::path::Path;

use satiety::eviction::{PriceList, Pricing, SessionState};

use super::proposal::ProposeScopeRequest;
use crate::EngineError;
use crate::handles::EvictionOperations;

/// Settings of eviction.
#[derive(Debug, Clone, PartialEq)]
pub struct EvictionSettings {
    /// Prices of prompt caches, by provider.
    pub prices: PriceList,
    /// Provider whose prices apply if a request names none.
    pub provider: String,
}

impl Default for EvictionSettings {
    fn default() -> Self {
        Self {
            prices: PriceList::built_in(),
            provider: "anthropic".into(),
        }
    }
}

impl EvictionSettings {
    /// Adds the prices of a file to the built-in ones, and checks that the provider is among them.
    pub fn load(prices: Option<&Path>, provider: &str) -> Result<Self, EngineError> {
        let list = match prices {
            None => PriceList::built_in(),
            Some(path) => {
                let text =
                    fs_err::read_to_string(path).map_err(|cause| EngineError::file("read", path, cause))?;
                PriceList::built_in()
                    .overridden(&text)
                    .map_err(|error| EngineError::Invalid {
                        message: format!("cannot read {}: {error}", path.display()),
                        hint: error.hint(),
                    })?
            }
        };
        list.find(provider)?;
        Ok(Self {
            prices: list,
            provider: provider.to_owned(),
        })
    }
}

impl EvictionOperations<'_> {
    /// Prices that apply to a request in this turn.
    pub(super) fn pricing(self, request: &ProposeScopeRequest, turn: u64) -> Result<Pricing, EngineError> {
        let settings = &self.engine.eviction.settings;
        let provider = request.provider.as_deref().unwrap_or(&settings.provider);
        let session = SessionState {
            turn,
            remaining_turns: request.remaining_turns,
            idle_seconds: request.idle_seconds.unwrap_or(0),
            window_tokens: request.window_tokens,
        };
        Ok(settings.prices.pricing(provider, &session)?)
    }
}
