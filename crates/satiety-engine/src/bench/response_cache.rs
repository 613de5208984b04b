//! Response cache in the database. Errors count as cache misses: a cache never fails a run.

use satiety::bench::contract::Response;
use satiety_store::Store;

use super::cache::{CacheFuture, ResponseCache};

#[derive(Debug, Clone)]
pub(super) struct StoredResponses(pub(super) Store);

impl ResponseCache for StoredResponses {
    fn get<'a>(&'a self, key: &'a str) -> CacheFuture<'a, Option<Response>> {
        Box::pin(async move {
            let body = self.0.bench().response(key).await.ok()??;
            serde_json::from_str(&body).ok()
        })
    }

    fn put<'a>(&'a self, key: &'a str, response: &'a Response) -> CacheFuture<'a, ()> {
        Box::pin(async move {
            let Ok(body) = serde_json::to_string(response) else {
                return;
            };
            if let Err(error) = self.0.bench().put_response(key, &body).await {
                tracing::warn!(%error, "cannot cache a response");
            }
        })
    }
}
