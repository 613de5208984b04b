//! HTTP bindings of the operations, one per line.

use axum::http::Method;

use crate::http::operations::{Binding, bind};

pub(super) fn bindings() -> Vec<Binding> {
    const GET: Method = Method::GET;
    const POST: Method = Method::POST;
    vec![
        bind("score", POST, "/v1/score"),
        bind("list_conversations", GET, "/v1/conversations"),
        bind("begin_conversation", POST, "/v1/conversations").status(201),
        bind("get_conversation", GET, "/v1/conversations/{id}"),
        bind("append_rounds", POST, "/v1/conversations/{id}/rounds")
            .status(201)
            .rename(&[("id", "conversation_id")]),
        bind("list_conversation_labels", GET, "/v1/conversations/{id}/labels"),
        bind("label_conversation", POST, "/v1/conversations/{id}/labels"),
        bind("append_messages", POST, "/v1/conversations/{id}/messages")
            .status(201)
            .rename(&[("id", "conversation_id")]),
        bind("judge_progress", POST, "/v1/progress"),
        bind("list_agent_runs", GET, "/v1/progress"),
        bind("get_agent_run", GET, "/v1/progress/{id}"),
        bind("list_agent_run_labels", GET, "/v1/progress/{id}/labels"),
        bind("label_agent_run", POST, "/v1/progress/{id}/labels"),
        bind("receive_traces", POST, "/v1/traces").protobuf(),
        bind("gate", POST, "/v1/gate"),
        bind("list_memories", GET, "/v1/memories"),
        bind("save_memory", POST, "/v1/memories").status(201),
        bind("import_memories", POST, "/v1/memories/import"),
        bind("get_memory", GET, "/v1/memories/{id}"),
        // The query has the project that the memory is in, the body the project it moves to.
        bind("update_memory", Method::PATCH, "/v1/memories/{id}")
            .query(&["project"])
            .hide(&["unlearn"])
            .rename(&[("project", "move_to")]),
        bind("delete_memory", Method::DELETE, "/v1/memories/{id}").rename(&[("id", "ids")]),
        bind("validate_memory", POST, "/v1/memories/{id}/validate").query(&["project"]),
        bind("link_memories", POST, "/v1/memory/links"),
        bind("search_memory", POST, "/v1/memory/search").hide(&["explain"]),
        bind("match_triggers", POST, "/v1/memory/match"),
        bind("memory_health", GET, "/v1/memory/health"),
        bind("index_memory", POST, "/v1/memory/index"),
        bind("list_sources", GET, "/v1/research/sources"),
        bind("list_research", GET, "/v1/research/runs"),
        bind("get_research", GET, "/v1/research/runs/{id}"),
        bind("start_research", POST, "/v1/research/runs").status(202),
        bind("evaluate_retrieval", POST, "/v1/retrieval/evaluate"),
        bind("compare_retrieval", POST, "/v1/retrieval/compare"),
        bind("judge_feedback", POST, "/v1/retrieval/judgments"),
        bind("list_retrieval_runs", GET, "/v1/retrieval/runs"),
        bind("start_retrieval_run", POST, "/v1/retrieval/runs").status(202),
        bind("get_retrieval_run", GET, "/v1/retrieval/runs/{id}"),
        bind("retrieval_run_changes", GET, "/v1/retrieval/runs/{id}/changes"),
        bind("list_features", GET, "/v1/ab"),
        bind("start_feature", POST, "/v1/ab").status(201),
        bind("propose_weights", POST, "/v1/ab-proposals"),
        bind("get_feature", GET, "/v1/ab/{id}"),
        bind("rollout_feature", POST, "/v1/ab/{id}/rollout"),
        bind("pause_feature", POST, "/v1/ab/{id}/pause"),
        bind("resume_feature", POST, "/v1/ab/{id}/resume"),
        bind("check_feature", POST, "/v1/ab/{id}/check"),
        bind("graduate_feature", POST, "/v1/ab/{id}/graduate"),
        bind("rollback_feature", POST, "/v1/ab/{id}/rollback"),
        bind("reject_feature", POST, "/v1/ab/{id}/reject"),
        bind("list_scopes", GET, "/v1/eviction/scopes"),
        bind("update_scope", POST, "/v1/eviction/scopes"),
        bind("get_scope", GET, "/v1/eviction/scopes/{id}"),
        bind("scope_timeline", GET, "/v1/eviction/scopes/{id}/timeline"),
        bind("refresh_scope", POST, "/v1/eviction/scopes/{id}/refresh"),
        bind("propose_eviction", POST, "/v1/eviction/propose"),
        bind("resolve_eviction", POST, "/v1/eviction/resolve"),
        bind("eviction_feedback", GET, "/v1/eviction/feedback"),
        bind("calibrate_scorer", POST, "/v1/eviction/scorers").status(201),
        bind("scorer_variants", POST, "/v1/eviction/scorers/variants"),
        bind("list_scorers", GET, "/v1/eviction/scorers"),
        bind("activate_scorer", POST, "/v1/eviction/scorers/activate"),
        bind("rollback_scorer", POST, "/v1/eviction/scorers/rollback"),
        bind("list_suites", GET, "/v1/bench/suites"),
        bind("list_baselines", GET, "/v1/bench/suites/{id}/baselines"),
        bind("list_runs", GET, "/v1/bench/runs"),
        bind("get_run", GET, "/v1/bench/runs/{id}"),
        bind("next_label", GET, "/v1/bench/runs/{id}/labels"),
        bind("label_result", POST, "/v1/bench/runs/{id}/labels"),
        bind("accept_baseline", POST, "/v1/bench/runs/{id}/baseline").status(201),
        bind("list_notes", GET, "/v1/bench/runs/{id}/notes"),
        bind("add_note", POST, "/v1/bench/runs/{id}/notes").status(201),
        bind("start_run", POST, "/v1/bench/runs")
            .status(202)
            .hide(&["target"]),
        bind("compare_runs", POST, "/v1/bench/compare"),
        bind("get_queue", GET, "/v1/bench/queue"),
        bind("drain_workers", POST, "/v1/bench/workers/{id}/drain"),
        bind("list_jobs", GET, "/v1/jobs"),
        bind("get_job", GET, "/v1/jobs/{id}"),
        bind("stop_job", POST, "/v1/jobs/{id}/stop"),
        bind("live", GET, "/healthz").public(),
        bind("ready", GET, "/readyz").public(),
        bind("health", GET, "/v1/health"),
        bind("audit_log", GET, "/v1/audit"),
        bind("fleet", GET, "/v1/fleet"),
        bind("list_tenants", GET, "/v1/tenants"),
        // Files and other servers are named on the command line.
        bind("create_tenant", POST, "/v1/tenants")
            .status(201)
            .hide(&["store_url", "root", "existing"]),
        bind("get_tenant", GET, "/v1/tenants/{id}"),
        bind("update_tenant", Method::PATCH, "/v1/tenants/{id}").hide(&["store_url", "root"]),
        bind("delete_tenant", Method::DELETE, "/v1/tenants/{id}"),
        bind("get_usage", GET, "/v1/usage"),
        bind("list_tokens", GET, "/v1/tokens"),
        bind("create_token", POST, "/v1/tokens").status(201).secret(),
        bind("revoke_token", Method::DELETE, "/v1/tokens/{id}"),
        bind("harness_status", GET, "/v1/harness").hide(&["folder"]),
        bind("harness_history", GET, "/v1/harness/history"),
        bind("record_cycle", POST, "/v1/harness/cycles")
            .status(201)
            .hide(&["folder"]),
    ]
}
