//! Schema constraints for types that do not state their own, mostly types of the library. Both the OpenAPI
//! document and request validation are generated from this table.

use serde_json::{Map, Value, json};

use super::bound_numbers;
use crate::root_path::BELOW_ROOT;

/// Pattern of a non-blank string.
const NOT_BLANK: &str = "\\S";
/// Pattern of a retrieval measure.
pub(crate) const MEASURE: &str = "^(?:mrr|ndcg|ndcg_linear|recall|p|P|precision|map|success|bpref|judged|importance_recall|constitutional|constitutional_share|chain|ils|tier_p\\((?:temporary|normal|important|critical|constitutional)\\)|rbp\\(0\\.[0-9]{0,3}[1-9]\\))(?:@[1-9][0-9]{0,8})?$";

/// Parts of requests whose readers accept more than their schema describes: traces and session logs as
/// conversations, items with additional fields, rounds of other loops.
pub(super) const OPEN: &[(&str, &str)] = &[
    ("ScoreBody", "/properties/conversation"),
    ("UpdateScopeRequest", "/properties/add/items"),
    ("GateBody", "/properties/rounds/items"),
];

/// Constraints by type and property, added to the generated schema.
fn table() -> Vec<(&'static str, &'static str, Value)> {
    let share = || json!({"minimum": 0.0, "maximum": 1.0});
    let text = || json!({"minLength": 1, "pattern": NOT_BLANK});
    let percent = || json!({"minimum": 0.0, "maximum": 100.0});
    vec![
        ("GateSettings", "epsilon", share()),
        ("GateSettings", "grey_zone", share()),
        ("GateSettings", "max_missed", share()),
        ("GateSettings", "max_rounds", json!({"minimum": 1})),
        ("LookAhead", "yield_below", share()),
        ("RunBody", "suite", json!({"minLength": 1, "pattern": BELOW_ROOT})),
        (
            "Feature",
            "feature_id",
            json!({"minLength": 1, "maxLength": 64, "pattern": "^[A-Za-z0-9._-]+$"}),
        ),
        ("Feature", "rollout_percent", percent()),
        ("Feature", "shadow_percent", percent()),
        (
            "Feature",
            "min_samples",
            json!({"minimum": 1, "maximum": 1_000_000}),
        ),
        (
            "Feature",
            "graduation_threshold",
            json!({"minimum": 0.0, "maximum": 0.999}),
        ),
        ("Feature", "alpha", json!({"minimum": 1e-4, "maximum": 0.49})),
        ("Feature", "beta", json!({"minimum": 1e-4, "maximum": 0.5})),
        ("Feature", "effect", json!({"minimum": 0.001, "maximum": 1.0})),
        ("GateBody", "rounds", json!({"items": gate_round()})),
        ("ResearchBody", "task", text()),
        ("UpdateScopeRequest", "add", json!({"items": context_item()})),
    ]
}

/// Adds the constraints to the schemas of requests.
pub fn constrain(schemas: &mut Map<String, Value>) {
    for (name, property, constraints) in table() {
        let Some(schema) = schemas
            .get_mut(name)
            .and_then(|schema| schema.pointer_mut(&format!("/properties/{property}")))
            .and_then(Value::as_object_mut)
        else {
            continue;
        };
        if let Value::Object(constraints) = constraints {
            schema.extend(constraints);
        }
    }
    // Readers of these types treat absent and null alike.
    for (name, properties) in [
        ("Round", &["outputs", "inputs", "telemetry"][..]),
        (
            "Outputs",
            &[
                "claims",
                "decisions",
                "open_questions",
                "next_actions",
                "citations",
            ],
        ),
    ] {
        for property in properties {
            if let Some(schema) = schemas
                .get_mut(name)
                .and_then(|schema| schema.pointer_mut(&format!("/properties/{property}")))
            {
                let mut own = schema.take();
                let about = own.as_object_mut().and_then(|own| own.remove("description"));
                *schema = json!({"description": about, "anyOf": [own, {"type": "null"}]});
            }
        }
    }
    for (name, alternatives) in either() {
        if let Some(schema) = schemas.get_mut(name).and_then(Value::as_object_mut) {
            schema.insert("anyOf".into(), alternatives);
        }
    }
    for variant in schemas
        .get_mut("StopThreshold")
        .and_then(|schema| schema["oneOf"].as_array_mut())
        .into_iter()
        .flatten()
    {
        if let Some(score) = variant.pointer_mut("/properties/score") {
            score["maximum"] = json!(10);
        }
        if let Some(share) = variant.pointer_mut("/properties/share") {
            share["minimum"] = json!(0.0);
            share["maximum"] = json!(1.0);
        }
    }
    schemas.values_mut().for_each(bound_numbers);
}

/// Schema of a context item with its required fields.
fn context_item() -> Value {
    json!({
        "type": "object",
        "required": ["ctx_id", "zone", "token_count"],
        "properties": {
            "ctx_id": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[A-Za-z0-9_.:-]+$"},
            "zone": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[A-Za-z0-9_.:-]+$"},
            "token_count": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
            "content": {"type": "string"},
            "pinned": {"type": "boolean"},
        },
    })
}

/// Schema of a search-loop round: its results, or the error that it failed with.
fn gate_round() -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "properties": {
            "query": text,
            "results": {"type": "array", "items": {"type": "object", "required": ["title", "snippet"],
                "properties": {"title": text, "snippet": text}}},
            "error": text,
        },
        "anyOf": [{"required": ["results"]}, {"required": ["error"]}],
    })
}

/// Types that require one property or another.
fn either() -> Vec<(&'static str, Value)> {
    let with = |name: &str, kind: &str, other: &str| json!({"required": [name], "properties": {name: {"type": kind}, other: {"type": "null"}}});
    vec![
        (
            "ProposeScopeRequest",
            json!([
                with("budget_tokens", "integer", "free_tokens"),
                with("free_tokens", "integer", "budget_tokens"),
                {"properties": {"budget_tokens": {"type": "null"}, "free_tokens": {"type": "null"}}},
            ]),
        ),
        (
            "ResearchBody",
            json!([{"required": ["task"], "properties": {"task": {"type": "string"}}},
                {"required": ["resume"], "properties": {"resume": {"type": "string", "minLength": 1},
                    "task": {"type": "null"}, "source": {"type": "null"}}}]),
        ),
        (
            "ReplayBody",
            json!([{"properties": {"fail_if_worse": {"type": "null"}}},
                {"required": ["baseline"], "properties": {"baseline": {"type": "string", "minLength": 1}}}]),
        ),
    ]
}
