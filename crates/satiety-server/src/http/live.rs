//! Notifies listeners of new rounds. Only a wake-up: the rounds are read from the store, so that none is lost
//! and rounds added through another server are sent as well, a little later.

use std::sync::Arc;

use tokio::sync::broadcast;

/// Notifications buffered for a slow listener; one that missed some reads the store anyway.
const BUFFER: usize = 256;

/// Broadcasts that a conversation has new rounds.
#[derive(Debug)]
pub(crate) struct Live(broadcast::Sender<Arc<str>>);

impl Default for Live {
    fn default() -> Self {
        Self(broadcast::Sender::new(BUFFER))
    }
}

impl Live {
    /// Announces new rounds of a conversation.
    pub(crate) fn notify(&self, conversation_id: &str) {
        // Having no listeners is fine.
        let _ = self.0.send(conversation_id.into());
    }

    /// Subscribes to announcements.
    pub(crate) fn listen(&self) -> broadcast::Receiver<Arc<str>> {
        self.0.subscribe()
    }
}
