//! Records of other memory servers: the graph of `@modelcontextprotocol/server-memory`, and memories of mem0.

use serde_json::Value;

use super::fields::text;
use super::{ImportRecord, hashed_key, time_of, title_of};
use crate::memory::{Draft, LinkKind};
use crate::retrieval::Tier;

/// Reads an entity with its observations, or a relation. A relation becomes a memory, so that it is found, and
/// a link if its type is causal.
pub(super) fn record(record: &Value) -> Result<ImportRecord, String> {
    let string = |key: &str| {
        let value = record.get(key).and_then(Value::as_str).map(str::trim);
        value
            .filter(|value| !value.is_empty())
            .ok_or_else(|| format!("missing `{key}`"))
    };
    match record.get("type").and_then(Value::as_str) {
        Some("entity") => {
            let name = string("name")?;
            let kind = string("entityType").unwrap_or("entity");
            let observations: Vec<&str> = record
                .get("observations")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|observation| {
                    observation
                        .as_str()
                        .or_else(|| observation.get("content")?.as_str())
                })
                .collect();
            let content = match &observations[..] {
                [] => format!("{name} ({kind})"),
                [only] => (*only).to_owned(),
                all => format!("- {}", all.join("\n- ")),
            };
            Ok(ImportRecord {
                key: entity_key(name),
                draft: draft(name, content, kind, "")?,
                at: time_of(record.get("createdAt")),
                link: None,
            })
        }
        Some("relation") => {
            let (from, kind, to) = (string("from")?, string("relationType")?, string("to")?);
            let sentence = format!("{from} {} {to}", kind.replace('_', " "));
            Ok(ImportRecord {
                key: format!("relation:{from}|{kind}|{to}"),
                draft: draft(&sentence, sentence.clone(), "relation", "")?,
                at: time_of(record.get("createdAt")),
                link: link_kind(kind).map(|kind| (entity_key(from), kind, entity_key(to))),
            })
        }
        other => Err(format!(
            "unknown record type {} (expected `entity` or `relation`)",
            other.map_or("(none)".to_owned(), |other| format!("`{other}`"))
        )),
    }
}

fn entity_key(name: &str) -> String {
    format!("entity:{name}")
}

/// Causal links among the free relation types of the graph.
fn link_kind(relation: &str) -> Option<LinkKind> {
    let name = relation.trim().to_lowercase().replace([' ', '-'], "_");
    Some(match name.as_str() {
        "caused" | "causes" | "cause_of" => LinkKind::Caused,
        "enabled" | "enables" => LinkKind::Enabled,
        "supersedes" | "superseded" | "replaces" | "replaced" => LinkKind::Supersedes,
        "contradicts" | "contradicted" => LinkKind::Contradicts,
        "supports" | "supported" => LinkKind::Supports,
        _ => return None,
    })
}

/// Reads a memory of mem0; the user that it belongs to becomes its folder.
pub(super) fn mem0(record: &Value) -> Result<ImportRecord, String> {
    let fields = record.as_object().ok_or("expected an object")?;
    let content = text(fields, &["memory", "text", "data", "content"]).ok_or("missing `memory`")?;
    let metadata = fields.get("metadata").and_then(Value::as_object);
    let category = fields.get("categories").and_then(|list| list.get(0)?.as_str());
    let kind = category
        .map(str::to_owned)
        .or_else(|| text(metadata?, &["category", "type", "kind"]))
        .unwrap_or_default();
    let folder = text(fields, &["user_id", "agent_id", "app_id"]).unwrap_or_default();
    let draft = draft(&title_of(&content), content.clone(), &kind, &folder)?;
    Ok(ImportRecord {
        key: text(fields, &["id", "hash"]).unwrap_or_else(|| hashed_key(&draft)),
        at: time_of(fields.get("created_at")),
        draft,
        link: None,
    })
}

fn draft(title: &str, content: String, kind: &str, folder: &str) -> Result<Draft, String> {
    let draft = Draft {
        // Names of other systems may be longer than a title or a kind.
        title: title.chars().take(300).collect(),
        content,
        tier: Tier::Normal,
        triggers: Vec::new(),
        folder: folder.to_owned(),
        kind: kind.chars().take(25).collect(),
    };
    draft.checked().map_err(|error| error.to_string())
}
