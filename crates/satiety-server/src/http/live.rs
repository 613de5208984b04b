//! Who waits for rounds of which conversation. Only a nudge: what is sent is read from the store, so that nothing is lost
//! between two of them and rounds that came through another server are sent as well, a little later.

use std::sync::Arc;

use tokio::sync::broadcast;

/// Nudges that may wait for a slow listener; one that has missed some just looks.
const WAITING: usize = 256;

/// Tells listeners that a conversation has grown.
#[derive(Debug)]
pub(crate) struct Live(broadcast::Sender<Arc<str>>);

impl Default for Live {
    fn default() -> Self {
        Self(broadcast::Sender::new(WAITING))
    }
}

impl Live {
    /// A conversation has grown.
    pub(crate) fn grown(&self, conversation_id: &str) {
        // Nobody listening is fine.
        let _ = self.0.send(conversation_id.into());
    }

    /// Listens.
    pub(crate) fn listen(&self) -> broadcast::Receiver<Arc<str>> {
        self.0.subscribe()
    }
}
