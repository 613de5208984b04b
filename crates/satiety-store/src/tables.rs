//! The catalogue of tables: what export, import, retention and status go by.
//!
//! A test compares it with what the engine says is there, so a table that a migration adds cannot be forgotten here.

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text, also ids and JSON.
    Text,
    /// A whole number, also times in microseconds.
    Integer,
    /// A floating-point number.
    Float,
    /// True or false.
    Boolean,
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether it may be absent.
    pub optional: bool,
}

/// A table, in the order in which rows can be inserted without breaking a reference.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Its columns, in a fixed order.
    pub columns: &'static [Column],
    /// The columns that identify a row.
    pub key: &'static [&'static str],
    /// The time that decides a row's age, where retention applies.
    pub age: Option<&'static str>,
    /// The column that exempts a row from retention.
    pub keep: Option<&'static str>,
    /// Tables whose rows belong to a row of this one, with the column that says so.
    pub children: &'static [(&'static str, &'static str)],
    /// The schema version that brought it.
    pub since: i64,
}

const fn text(name: &'static str) -> Column {
    Column {
        name,
        kind: Kind::Text,
        optional: false,
    }
}
const fn integer(name: &'static str) -> Column {
    Column {
        name,
        kind: Kind::Integer,
        optional: false,
    }
}
const fn optional(column: Column) -> Column {
    Column {
        optional: true,
        ..column
    }
}
const fn float(name: &'static str) -> Column {
    Column {
        name,
        kind: Kind::Float,
        optional: false,
    }
}

const fn boolean(name: &'static str) -> Column {
    Column {
        name,
        kind: Kind::Boolean,
        optional: false,
    }
}

/// The schema version that brought eviction.
const EVICTION: i64 = 6;

/// All tables that hold what users put in.
pub const TABLES: &[Table] = &[
    Table {
        name: "journal",
        columns: &[
            text("id"),
            integer("at"),
            text("kind"),
            text("subject"),
            text("body"),
        ],
        key: &["id"],
        age: Some("at"),
        keep: None,
        children: &[],
        since: 1,
    },
    Table {
        name: "records",
        columns: &[
            text("key"),
            text("schema_version"),
            text("body"),
            integer("created_at"),
            integer("updated_at"),
            optional(integer("expires_at")),
        ],
        key: &["key"],
        age: Some("updated_at"),
        keep: None,
        children: &[],
        since: 1,
    },
    Table {
        name: "retention_rules",
        columns: &[
            text("subject"),
            optional(integer("keep_days")),
            text("action"),
            integer("updated_at"),
        ],
        key: &["subject"],
        age: None,
        keep: None,
        children: &[],
        since: 1,
    },
    Table {
        name: "conversations",
        columns: &[
            text("id"),
            text("topic"),
            text("profile"),
            optional(text("embedder")),
            text("signal"),
            optional(float("score")),
            text("report"),
            integer("created_at"),
            integer("updated_at"),
        ],
        key: &["id"],
        age: Some("updated_at"),
        keep: None,
        children: &[("rounds", "conversation_id")],
        since: 2,
    },
    Table {
        name: "rounds",
        columns: &[
            text("conversation_id"),
            integer("position"),
            optional(text("agent")),
            text("signal"),
            optional(float("novelty")),
            optional(float("readiness")),
            text("body"),
        ],
        key: &["conversation_id", "position"],
        age: None,
        keep: None,
        children: &[],
        since: 2,
    },
    Table {
        name: "eval_queries",
        columns: &[
            text("query_id"),
            text("query"),
            optional(text("intent")),
            optional(text("mode")),
            optional(text("session_id")),
            text("tool_name"),
            text("result_ids"),
            integer("result_count"),
            text("channel_contributions"),
            optional(float("total_latency_ms")),
            optional(text("fusion_weights")),
            optional(float("quality_proxy_score")),
            optional(text("trace_id")),
            integer("created_at"),
            boolean("is_eval_corpus"),
            optional(text("eval_category")),
            text("detail"),
        ],
        key: &["query_id"],
        age: Some("created_at"),
        keep: Some("is_eval_corpus"),
        children: &[],
        since: 3,
    },
    Table {
        name: "eval_judgments",
        columns: &[
            text("query_id"),
            text("memory_id"),
            text("source"),
            integer("relevance"),
            optional(text("annotator")),
            optional(float("confidence")),
            integer("created_at"),
        ],
        key: &["query_id", "memory_id", "source"],
        age: None,
        keep: None,
        children: &[],
        since: 3,
    },
    Table {
        name: "eval_results",
        columns: &[
            text("run_id"),
            text("run_type"),
            optional(text("feature_id")),
            optional(float("mrr_at_5")),
            optional(float("mrr_at_10")),
            optional(float("ndcg_at_5")),
            optional(float("ndcg_at_10")),
            optional(float("ndcg_at_20")),
            optional(float("recall_at_5")),
            optional(float("recall_at_10")),
            optional(float("constitutional_surfacing_rate")),
            optional(float("importance_weighted_recall")),
            optional(float("cold_start_mrr")),
            optional(float("session_personalization_lift")),
            optional(float("causal_chain_completeness")),
            optional(float("avg_latency_ms")),
            optional(text("channel_contribution_json")),
            optional(float("result_diversity_score")),
            integer("query_count"),
            optional(float("confidence_interval_lower")),
            optional(float("confidence_interval_upper")),
            optional(text("control_run_id")),
            optional(float("mrr_delta")),
            optional(float("ndcg_delta")),
            optional(float("p_value")),
            optional(boolean("is_significant")),
            integer("created_at"),
            text("per_query_results"),
            text("report"),
        ],
        key: &["run_id"],
        age: Some("created_at"),
        keep: None,
        children: &[],
        since: 3,
    },
    Table {
        name: "bench_runs",
        columns: &[
            text("run_id"),
            text("suite_id"),
            text("suite_hash"),
            text("target"),
            integer("started_at"),
            optional(integer("completed_at")),
            text("config_snapshot"),
            optional(text("summary")),
            optional(float("pass_rate")),
        ],
        key: &["run_id"],
        age: Some("started_at"),
        keep: None,
        children: &[("bench_results", "run_id")],
        since: 4,
    },
    Table {
        name: "bench_results",
        columns: &[
            text("run_id"),
            text("case_id"),
            text("variant"),
            integer("repeat"),
            text("status"),
            optional(float("score")),
            float("latency_ms"),
            integer("token_cost"),
            optional(text("human_label")),
            text("body"),
        ],
        key: &["run_id", "case_id", "variant", "repeat"],
        age: None,
        keep: None,
        children: &[],
        since: 4,
    },
    Table {
        name: "bench_baselines",
        columns: &[
            text("baseline_id"),
            text("suite_id"),
            text("run_id"),
            text("accepted_by"),
            text("reason"),
            integer("accepted_at"),
        ],
        key: &["baseline_id"],
        age: None,
        keep: None,
        children: &[],
        since: 4,
    },
    Table {
        name: "bench_gates",
        columns: &[
            text("gate_id"),
            text("suite_id"),
            text("baseline_run"),
            text("candidate_run"),
            text("verdict"),
            optional(text("accepted_by")),
            optional(text("accepted_why")),
            integer("decided_at"),
            text("report"),
        ],
        key: &["gate_id"],
        age: Some("decided_at"),
        keep: None,
        children: &[],
        since: 4,
    },
    Table {
        name: "bench_ablations",
        columns: &[
            text("ablation_id"),
            text("tag"),
            integer("decided_at"),
            text("report"),
        ],
        key: &["ablation_id"],
        age: Some("decided_at"),
        keep: None,
        children: &[],
        since: 4,
    },
    Table {
        name: "bench_responses",
        columns: &[text("key"), text("body"), integer("created_at")],
        key: &["key"],
        age: Some("created_at"),
        keep: None,
        children: &[],
        since: 4,
    },
    Table {
        name: "harness_ledger",
        columns: &[
            integer("seq"),
            text("prev"),
            text("at"),
            text("kind"),
            text("body"),
            text("hash"),
        ],
        key: &["seq"],
        // A chain with a part cut out is broken: it stays.
        age: None,
        keep: None,
        children: &[],
        since: 5,
    },
    Table {
        name: "harness_versions",
        columns: &[
            text("version"),
            text("manifest"),
            optional(text("files")),
            integer("created_at"),
        ],
        key: &["version"],
        age: None,
        keep: None,
        children: &[],
        since: 5,
    },
    Table {
        name: "harness_audits",
        columns: &[
            text("audit_id"),
            text("cycle_id"),
            text("auditor"),
            boolean("accepts"),
            text("note"),
            integer("at"),
        ],
        key: &["audit_id"],
        age: None,
        keep: None,
        children: &[],
        since: 5,
    },
    Table {
        name: "eviction_scopes",
        columns: &[
            text("scope_id"),
            integer("revision"),
            text("last_change"),
            integer("turn"),
            optional(text("goal")),
            integer("updated_at"),
        ],
        key: &["scope_id"],
        age: Some("updated_at"),
        keep: None,
        children: &[("eviction_items", "scope_id")],
        since: EVICTION,
    },
    Table {
        name: "eviction_items",
        columns: &[
            text("scope_id"),
            text("ctx_id"),
            optional(text("held_by")),
            optional(integer("evicted_at")),
            text("body"),
        ],
        key: &["scope_id", "ctx_id"],
        age: None,
        keep: None,
        children: &[],
        since: EVICTION,
    },
    Table {
        name: "eviction_proposals",
        columns: &[
            text("proposal_id"),
            text("scope_id"),
            integer("turn_number"),
            integer("proposed_at"),
            integer("deadline_at"),
            text("scorer_model"),
            optional(integer("resolved_at")),
            optional(text("resolved_by")),
            text("body"),
            optional(text("feedback")),
        ],
        key: &["proposal_id"],
        age: Some("proposed_at"),
        keep: None,
        children: &[],
        since: EVICTION,
    },
    Table {
        name: "eviction_scorers",
        columns: &[
            text("version"),
            text("variant"),
            integer("created_at"),
            text("body"),
            optional(text("fit")),
        ],
        key: &["version"],
        age: None,
        keep: None,
        children: &[],
        since: EVICTION,
    },
    Table {
        name: "eviction_activations",
        columns: &[
            text("activation_id"),
            text("version"),
            text("previous"),
            text("action"),
            optional(text("ablation_id")),
            text("activated_by"),
            text("reason"),
            integer("activated_at"),
        ],
        key: &["activation_id"],
        age: None,
        keep: None,
        children: &[],
        since: EVICTION,
    },
    Table {
        name: "eviction_opinions",
        columns: &[
            text("key"),
            text("model"),
            float("relevance"),
            integer("created_at"),
        ],
        key: &["key"],
        age: Some("created_at"),
        keep: None,
        children: &[],
        since: EVICTION,
    },
    Table {
        name: "research_runs",
        columns: &[
            text("run_id"),
            text("task"),
            text("source"),
            integer("started_at"),
            optional(integer("completed_at")),
            text("settings"),
            optional(text("stop_reason")),
            optional(text("report")),
        ],
        key: &["run_id"],
        age: Some("started_at"),
        keep: None,
        children: &[("research_rounds", "run_id")],
        since: 7,
    },
    Table {
        name: "research_rounds",
        columns: &[
            text("run_id"),
            integer("round"),
            text("query"),
            text("reason"),
            boolean("accepted"),
            optional(float("novelty")),
            text("body"),
        ],
        key: &["run_id", "round"],
        age: None,
        keep: None,
        children: &[],
        since: 7,
    },
    Table {
        name: "research_searches",
        columns: &[
            text("key"),
            text("source"),
            text("query"),
            text("body"),
            integer("created_at"),
        ],
        key: &["key"],
        age: Some("created_at"),
        keep: None,
        children: &[],
        since: 7,
    },
    Table {
        name: "memories",
        columns: &[
            text("memory_id"),
            text("title"),
            text("content"),
            text("tier"),
            text("triggers"),
            text("learnt"),
            text("folder"),
            text("kind"),
            optional(text("origin")),
            text("content_hash"),
            float("confidence"),
            integer("validations"),
            integer("created_at"),
            integer("updated_at"),
            optional(integer("expires_at")),
            integer("change"),
        ],
        key: &["memory_id"],
        // Memories go when they say so, not by age.
        age: None,
        keep: None,
        children: &[("memory_chunks", "memory_id")],
        since: 8,
    },
    Table {
        name: "memory_chunks",
        columns: &[
            integer("doc"),
            text("memory_id"),
            integer("position"),
            text("title"),
            text("body"),
            text("phrases"),
            optional(text("embedder")),
            optional(text("vector")),
        ],
        key: &["doc"],
        age: None,
        keep: None,
        children: &[],
        since: 8,
    },
    Table {
        name: "memory_links",
        columns: &[
            text("from_id"),
            text("to_id"),
            text("kind"),
            integer("created_at"),
        ],
        key: &["from_id", "to_id", "kind"],
        age: None,
        keep: None,
        children: &[],
        since: 8,
    },
    Table {
        name: "memory_counters",
        columns: &[text("name"), integer("value")],
        key: &["name"],
        age: None,
        keep: None,
        children: &[],
        since: 8,
    },
    Table {
        name: "eval_feedback",
        columns: &[
            text("feedback_id"),
            text("event_type"),
            text("session_id"),
            optional(text("query_id")),
            optional(text("memory_id")),
            optional(integer("rank_in_results")),
            text("metadata"),
            integer("created_at"),
        ],
        key: &["feedback_id"],
        age: Some("created_at"),
        keep: None,
        children: &[],
        since: 8,
    },
    Table {
        name: "eval_ab_tests",
        columns: &[
            text("feature_id"),
            text("status"),
            float("log_likelihood_ratio"),
            float("upper_bound"),
            float("lower_bound"),
            integer("sample_count"),
            float("control_mrr_sum"),
            float("treatment_mrr_sum"),
            float("control_ndcg_sum"),
            float("treatment_ndcg_sum"),
            integer("min_samples"),
            float("graduation_threshold"),
            integer("started_at"),
            integer("updated_at"),
            optional(integer("graduated_at")),
            text("decision"),
            optional(text("reason")),
            text("feature"),
            text("state"),
            optional(text("checklist")),
            integer("version"),
        ],
        key: &["feature_id"],
        age: Some("updated_at"),
        keep: None,
        children: &[],
        since: 11,
    },
    Table {
        name: "eval_shadow_runs",
        columns: &[
            text("run_id"),
            text("query_id"),
            text("feature_id"),
            text("shown"),
            text("control_result_ids"),
            text("treatment_result_ids"),
            optional(float("rank_correlation")),
            optional(float("set_overlap")),
            optional(boolean("top_result_changed")),
            optional(integer("order_differences")),
            optional(float("mrr_delta")),
            optional(float("ndcg_delta")),
            optional(float("control_latency_ms")),
            optional(float("treatment_latency_ms")),
            text("outcome"),
            optional(text("graded_by")),
            optional(text("failure")),
            text("difference"),
            integer("created_at"),
        ],
        key: &["run_id"],
        age: Some("created_at"),
        keep: None,
        children: &[],
        since: 11,
    },
];

impl Table {
    /// The table of that name.
    pub fn named(name: &str) -> Option<&'static Table> {
        TABLES.iter().find(|table| table.name == name)
    }

    /// `a, b, c`: its columns as a list.
    pub(crate) fn column_list(&self) -> String {
        self.columns
            .iter()
            .map(|column| column.name)
            .collect::<Vec<_>>()
            .join(", ")
    }
}
