//! Catalogue of tables, used by export, import, retention and status.
//!
//! A test compares it with the schema of the engine, so that a table added by a migration cannot be missing
//! here.

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text, including ids and JSON.
    Text,
    /// Integer, including times in microseconds.
    Integer,
    Float,
    Boolean,
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    /// Whether it is nullable.
    pub optional: bool,
}

/// A table, in an order in which rows can be inserted without breaking foreign keys.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    pub name: &'static str,
    /// Columns in a fixed order.
    pub columns: &'static [Column],
    /// Primary key columns.
    pub key: &'static [&'static str],
    /// Time column that determines a row's age, if retention applies.
    pub age: Option<&'static str>,
    /// Column that exempts a row from retention.
    pub keep: Option<&'static str>,
    /// Tables whose rows belong to a row of this one, with the foreign key column.
    pub children: &'static [(&'static str, &'static str)],
    /// Schema version that added it.
    pub since: i64,
}

/// Catalogue as a list of constants: a table, its properties, and `column: kind` or `column: optional kind`.
macro_rules! tables {
    (@kind text) => { Kind::Text };
    (@kind integer) => { Kind::Integer };
    (@kind float) => { Kind::Float };
    (@kind boolean) => { Kind::Boolean };
    (@column $name:ident optional $kind:ident) => {
        Column { name: stringify!($name), kind: tables!(@kind $kind), optional: true }
    };
    (@column $name:ident $kind:ident) => {
        Column { name: stringify!($name), kind: tables!(@kind $kind), optional: false }
    };
    (@some) => { None };
    (@some $name:ident) => { Some(stringify!($name)) };
    ($($table:ident since $since:literal key($($key:ident),+) $(age($age:ident))? $(keep($keep:ident))?
       $(children($($child:ident.$reference:ident),+))? { $($column:ident: $($kind:ident)+),+ })+) => {
        &[$(Table {
            name: stringify!($table),
            columns: &[$(tables!(@column $column $($kind)+)),+],
            key: &[$(stringify!($key)),+],
            age: tables!(@some $($age)?),
            keep: tables!(@some $($keep)?),
            children: &[$($((stringify!($child), stringify!($reference))),+)?],
            since: $since,
        }),+]
    };
}

/// All tables with user data.
pub const TABLES: &[Table] = tables! {
    journal since 1 key(id) age(at) {
        id: text, at: integer, kind: text, subject: text, body: text
    }
    records since 1 key(key) age(updated_at) {
        key: text, schema_version: text, body: text, created_at: integer, updated_at: integer,
        expires_at: optional integer
    }
    retention_rules since 1 key(subject) {
        subject: text, keep_days: optional integer, action: text, updated_at: integer
    }
    conversations since 2 key(id) age(updated_at) children(rounds.conversation_id, conversation_labels.conversation_id) {
        id: text, topic: text, profile: text, embedder: optional text, signal: text, score: optional float,
        report: text, created_at: integer, updated_at: integer, partition_at: integer
    }
    rounds since 2 key(conversation_id, position) {
        conversation_id: text, position: integer, agent: optional text, signal: text, novelty: optional float,
        readiness: optional float, body: text, partition_at: integer
    }
    eval_queries since 3 key(query_id) age(created_at) keep(is_eval_corpus) {
        query_id: text, query: text, intent: optional text, mode: optional text, session_id: optional text,
        tool_name: text, result_ids: text, result_count: integer, channel_contributions: text,
        total_latency_ms: optional float, fusion_weights: optional text, quality_proxy_score: optional float,
        trace_id: optional text, created_at: integer, is_eval_corpus: boolean, eval_category: optional text,
        detail: text, partition_at: integer
    }
    eval_judgments since 3 key(query_id, memory_id, source) {
        query_id: text, memory_id: text, source: text, relevance: integer, annotator: optional text,
        confidence: optional float, created_at: integer
    }
    eval_results since 3 key(run_id) age(created_at) {
        run_id: text, run_type: text, feature_id: optional text, mrr_at_5: optional float,
        mrr_at_10: optional float, ndcg_at_5: optional float, ndcg_at_10: optional float,
        ndcg_at_20: optional float, recall_at_5: optional float, recall_at_10: optional float,
        constitutional_surfacing_rate: optional float, importance_weighted_recall: optional float,
        cold_start_mrr: optional float, session_personalization_lift: optional float,
        causal_chain_completeness: optional float, avg_latency_ms: optional float,
        channel_contribution_json: optional text, result_diversity_score: optional float,
        query_count: integer, confidence_interval_lower: optional float,
        confidence_interval_upper: optional float, control_run_id: optional text, mrr_delta: optional float,
        ndcg_delta: optional float, p_value: optional float, is_significant: optional boolean,
        created_at: integer, per_query_results: text, report: text
    }
    bench_runs since 4 key(run_id) age(started_at) children(bench_results.run_id, bench_plans.run_id, bench_work.run_id,
       bench_run_cases.run_id, bench_notes.run_id) {
        run_id: text, suite_id: text, suite_hash: text, target: text, started_at: integer,
        completed_at: optional integer, config_snapshot: text, summary: optional text,
        pass_rate: optional float, pass_low: optional float, pass_high: optional float, partition_at: integer
    }
    bench_results since 4 key(run_id, case_id, variant, repeat) {
        run_id: text, case_id: text, variant: text, repeat: integer, status: text, score: optional float,
        latency_ms: float, token_cost: integer, human_label: optional text, body: text, partition_at: integer
    }
    bench_baselines since 4 key(baseline_id) {
        baseline_id: text, suite_id: text, run_id: text, accepted_by: text, reason: text, accepted_at: integer
    }
    bench_gates since 4 key(gate_id) age(decided_at) {
        gate_id: text, suite_id: text, baseline_run: text, candidate_run: text, verdict: text,
        accepted_by: optional text, accepted_why: optional text, decided_at: integer, report: text
    }
    bench_ablations since 4 key(ablation_id) age(decided_at) {
        ablation_id: text, tag: text, decided_at: integer, report: text
    }
    bench_responses since 4 key(key) age(created_at) {
        key: text, body: text, created_at: integer
    }
    // Deleting an entry would break the hash chain, so retention does not apply.
    harness_ledger since 5 key(harness_id, seq) {
        seq: integer, prev: text, at: text, kind: text, body: text, hash: text, harness_id: text
    }
    harness_versions since 5 key(harness_id, version) {
        version: text, manifest: text, files: optional text, created_at: integer, harness_id: text
    }
    harness_audits since 5 key(audit_id) {
        audit_id: text, cycle_id: text, auditor: text, accepts: boolean, note: text, at: integer,
        harness_id: text
    }
    eviction_scopes since 6 key(scope_id) age(updated_at) children(eviction_items.scope_id) {
        scope_id: text, revision: integer, last_change: text, turn: integer, goal: optional text,
        updated_at: integer
    }
    eviction_items since 6 key(scope_id, ctx_id) {
        scope_id: text, ctx_id: text, held_by: optional text, evicted_at: optional integer, body: text
    }
    eviction_proposals since 6 key(proposal_id) age(proposed_at) {
        proposal_id: text, scope_id: text, turn_number: integer, proposed_at: integer, deadline_at: integer,
        scorer_model: text, resolved_at: optional integer, resolved_by: optional text, body: text,
        feedback: optional text
    }
    eviction_scorers since 6 key(version) {
        version: text, variant: text, created_at: integer, body: text, fit: optional text
    }
    eviction_activations since 6 key(activation_id) {
        activation_id: text, version: text, previous: text, action: text, ablation_id: optional text,
        activated_by: text, reason: text, activated_at: integer
    }
    eviction_opinions since 6 key(key) age(created_at) {
        key: text, model: text, relevance: float, created_at: integer
    }
    research_runs since 7 key(run_id) age(started_at) children(research_rounds.run_id) {
        run_id: text, task: text, source: text, started_at: integer, completed_at: optional integer,
        settings: text, stop_reason: optional text, report: optional text
    }
    research_rounds since 7 key(run_id, round) {
        run_id: text, round: integer, query: text, reason: text, accepted: boolean, novelty: optional float,
        body: text
    }
    research_searches since 7 key(key) age(created_at) {
        key: text, source: text, query: text, body: text, created_at: integer
    }
    // Memories expire individually, not by age.
    memories since 8 key(memory_id) children(memory_chunks.memory_id) {
        memory_id: text, title: text, content: text, tier: text, triggers: text, learnt: text, folder: text,
        kind: text, origin: optional text, content_hash: text, confidence: float, validations: integer,
        created_at: integer, updated_at: integer, expires_at: optional integer, change: integer,
        project: optional text, project_label: optional text, author: optional text, tags: optional text,
        observed_at: optional integer, valid_from: optional integer, valid_until: optional integer
    }
    memory_chunks since 8 key(doc) {
        doc: integer, memory_id: text, position: integer, title: text, body: text, phrases: text,
        embedder: optional text, vector: optional text
    }
    memory_links since 8 key(from_id, to_id, kind) {
        from_id: text, to_id: text, kind: text, created_at: integer
    }
    memory_counters since 8 key(name) {
        name: text, value: integer
    }
    memory_changes since 19 key(change) {
        change: integer, token: integer, memory_id: optional text, action: optional text
    }
    eval_feedback since 8 key(feedback_id) age(created_at) {
        feedback_id: text, event_type: text, session_id: text, query_id: optional text,
        memory_id: optional text, rank_in_results: optional integer, metadata: text, created_at: integer
    }
    memory_tasks since 9 key(task_id) age(opened_at) {
        task_id: text, session_id: text, folder: text, task: text, query_id: optional text, preflight: text,
        outcome: optional text, postflight: optional text, learning_index: optional float,
        summary: optional text, opened_at: integer, closed_at: optional integer
    }
    api_tokens since 12 key(token_id) {
        token_id: text, name: text, hash: text, scope: text, created_at: integer,
        expires_at: optional integer, revoked_at: optional integer, last_used_at: optional integer,
        tenant: optional text
    }
    tenants since 25 key(name) {
        name: text, store_url: optional text, root: optional text, requests_per_minute: optional integer,
        requests_per_day: optional integer, model_tokens_per_day: optional integer, storage_bytes: optional integer,
        created_at: integer, disabled_at: optional integer
    }
    tenant_usage since 25 key(tenant, day) age(day) {
        tenant: text, day: integer, requests: integer, model_tokens: integer, storage_bytes: optional integer
    }
    idempotency_keys since 12 key(caller, key) age(created_at) {
        caller: text, key: text, request_hash: text, holder: text, status: optional integer,
        body: optional text, created_at: integer
    }
    eval_annotations since 10 key(query_id, memory_id, annotator) {
        query_id: text, memory_id: text, annotator: text, relevance: optional integer, created_at: integer
    }
    eval_answers since 10 key(run_id, query_id) {
        run_id: text, query_id: text, system: text, results: text, latency_ms: optional float,
        error: optional text, created_at: integer, detail: optional text
    }
    eval_ab_tests since 11 key(feature_id) age(updated_at) {
        feature_id: text, status: text, log_likelihood_ratio: float, upper_bound: float, lower_bound: float,
        sample_count: integer, control_mrr_sum: float, treatment_mrr_sum: float, control_ndcg_sum: float,
        treatment_ndcg_sum: float, min_samples: integer, graduation_threshold: float, started_at: integer,
        updated_at: integer, graduated_at: optional integer, decision: text, reason: optional text,
        feature: text, state: text, checklist: optional text, version: integer
    }
    eval_shadow_runs since 11 key(run_id) age(created_at) {
        run_id: text, query_id: text, feature_id: text, shown: text, control_result_ids: text,
        treatment_result_ids: text, rank_correlation: optional float, set_overlap: optional float,
        top_result_changed: optional boolean, order_differences: optional integer, mrr_delta: optional float,
        ndcg_delta: optional float, control_latency_ms: optional float, treatment_latency_ms: optional float,
        outcome: text, graded_by: optional text, failure: optional text, difference: text, created_at: integer, partition_at: integer
    }
    bench_plans since 13 key(run_id) {
        run_id: text, plan: text, enqueued_at: integer, closed_at: optional integer, weight: integer,
        turn: integer, served: integer, waiting: integer
    }
    bench_work since 13 key(run_id, position) {
        run_id: text, position: integer, case_id: text, variant: text, repeat: integer, takes: integer,
        holder: optional text, worker: optional text, lease_until: optional integer
    }
    chores since 13 key(name) {
        name: text, holder: optional text, held_until: optional integer, done_at: optional integer
    }
    notices since 13 key(subject) age(told_at) {
        subject: text, teller: text, told_at: integer
    }
    agent_runs since 16 key(id) age(updated_at) children(agent_messages.run_id, agent_run_labels.run_id) {
        id: text, kind: text, signal: text, reason: text, messages: integer, steps: integer, wasted_steps: integer,
        first_nudge_step: optional integer, first_stop_step: optional integer, created_at: integer,
        updated_at: integer, partition_at: integer
    }
    agent_messages since 16 key(run_id, position) {
        run_id: text, position: integer, body: text, partition_at: integer
    }
    hook_sessions since 17 key(id) age(updated_at) children(hook_calls.session_id) {
        id: text, host: text, state: text, judge: text, revision: integer, created_at: integer, updated_at: integer
    }
    hook_calls since 17 key(session_id, event, decision) {
        session_id: text, event: text, decision: text, calls: integer, total_micros: integer, max_micros: integer,
        reason: text, updated_at: integer
    }
    bench_cases since 20 key(case_hash) age(used_at) {
        case_hash: text, body: text, used_at: integer
    }
    bench_run_cases since 20 key(run_id, case_id) {
        run_id: text, case_id: text, case_hash: text, title: text, tags: text
    }
    bench_notes since 21 key(note_id) {
        note_id: text, run_id: text, author: text, note: text, created_at: integer
    }
    conversation_labels since 21 key(conversation_id, annotator) {
        conversation_id: text, annotator: text, signal: text, stop_round: optional integer, created_at: integer
    }
    agent_run_labels since 21 key(run_id, annotator) {
        run_id: text, annotator: text, solved: boolean, loop_step: optional integer, created_at: integer
    }
    // Processes remove their rows, and those of processes that were killed.
    instances since 21 key(instance_id) {
        instance_id: text, kind: text, name: text, url: optional text, version: text, started_at: integer,
        seen_at: integer, schema_version: optional integer, clock_offset: optional integer,
        draining_at: optional integer
    }
    // Processes remove their rows; those of processes that were killed are replaced after they have expired.
    embedding_claims since 26 key(doc, embedder) {
        doc: integer, embedder: text, holder: text, claimed_until: integer
    }
    // Workers remove rows that nothing has used for a day.
    rate_limits since 24 key(name) {
        name: text, requests_at: integer, tokens_at: integer, paused_until: integer, used_at: integer
    }
};

impl Table {
    /// Finds a table by name.
    pub fn named(name: &str) -> Option<&'static Table> {
        TABLES.iter().find(|table| table.name == name)
    }

    /// Returns the columns as a list: `a, b, c`.
    pub(crate) fn column_list(&self) -> String {
        self.columns
            .iter()
            .map(|column| column.name)
            .collect::<Vec<_>>()
            .join(", ")
    }
}
