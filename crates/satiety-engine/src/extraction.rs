//! Sorting plain messages into claims, questions and actions with a chat model.

use satiety::dialogue::Transcript;
use satiety::dialogue::input::{MessageLog, extract};

use crate::{Engine, EngineError};

impl Engine {
    #[expect(clippy::unused_async, reason = "replaced when the chat branch is merged")]
    pub(crate) async fn extract_with_model(&self, log: &MessageLog) -> Result<Transcript, EngineError> {
        Ok(extract(log))
    }
}
