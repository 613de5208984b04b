//! An agent's memory: save, search, learn.

use axum::http::Method;

use crate::http::operations::{Binding, bind};

pub(super) fn bindings() -> Vec<Binding> {
    vec![
        bind("list_memories", Method::GET, "/v1/memories"),
        bind("save_memory", Method::POST, "/v1/memories").status(201),
        bind("get_memory", Method::GET, "/v1/memories/{id}"),
        // The project that it is in now is in the query, the one that it moves to in the body.
        bind("update_memory", Method::PATCH, "/v1/memories/{id}")
            .query(&["project"])
            .hide(&["unlearn"])
            .rename(&[("project", "move_to")]),
        bind("delete_memory", Method::DELETE, "/v1/memories/{id}").rename(&[("id", "ids")]),
        bind("validate_memory", Method::POST, "/v1/memories/{id}/validate").query(&["project"]),
        bind("link_memories", Method::POST, "/v1/memory/links"),
        bind("search_memory", Method::POST, "/v1/memory/search").hide(&["explain"]),
        bind("match_triggers", Method::POST, "/v1/memory/match"),
        bind("memory_health", Method::GET, "/v1/memory/health"),
        bind("index_memory", Method::POST, "/v1/memory/index"),
    ]
}
