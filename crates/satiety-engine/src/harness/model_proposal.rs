//! Proposals by a chat model: the request, the parsing of its response, and the selection of usable items.
//! The response is untrusted data; no proposal can weaken the harness or refer to a file outside it.

use crate::handles::HarnessOperations;
use satiety::harness::brief::Brief;
use satiety::harness::{ExpansionProposals, compare};
use satiety_models::chat::{ChatMessage, ChatRequest, JsonSchema};
use serde_json::{Value, json};

use super::HarnessError;
use super::apply_steps::carry_out;
use super::directory::HarnessDirectory;
use crate::EngineError;
use crate::extraction::open_chat;

/// Maximum length of the response.
const MAX_TOKENS: u32 = 8192;
const SYSTEM: &str = include_str!("../prompts/expand_harness.system.md");

impl HarnessOperations<'_> {
    /// Requests proposals from a model; returns its id and the proposals.
    pub(super) async fn ask_model(
        self,
        model: &str,
        folder: &HarnessDirectory,
        brief: &Brief,
    ) -> Result<(String, ExpansionProposals), EngineError> {
        let chat = open_chat(model, self.engine)?;
        let request = ChatRequest {
            messages: vec![
                ChatMessage::system(SYSTEM),
                ChatMessage::user(format!("{}\n{}", brief.prompt(), examples(folder))),
            ],
            temperature: Some(0.0),
            max_tokens: MAX_TOKENS,
            schema: Some(JsonSchema {
                name: "expansion_proposals",
                schema: schema(),
            }),
        };
        let answer = chat.complete(request).await?;
        let id = chat.id().to_owned();
        let proposed = read_answer(&answer.text).map_err(|reason| HarnessError::BadProposal {
            model: id.clone(),
            reason,
        })?;
        Ok((id, proposed))
    }
}

/// Merges the proposals of a model item by item; items that cannot be applied, or would weaken anything, are
/// left out and reported.
pub(super) fn merge_usable(
    folder: &HarnessDirectory,
    content: &mut ExpansionProposals,
    proposed: ExpansionProposals,
) -> Vec<String> {
    let mut refused = Vec::new();
    let mut take = |name: String, change: &dyn Fn(&mut ExpansionProposals)| {
        let mut with = content.clone();
        change(&mut with);
        let outcome = carry_out(folder, &with).and_then(|(_, new)| {
            let diff = compare(&folder.manifest, &new).map_err(HarnessError::from)?;
            match diff.objections().next() {
                None => Ok(()),
                Some(change) => Err(HarnessError::BadProposal {
                    model: "the model".into(),
                    reason: format!("{} {}", change.place, change.reason),
                }
                .into()),
            }
        });
        match outcome {
            Ok(()) => *content = with,
            Err(why) => refused.push(format!("{name}: {why}")),
        }
    };
    for increase in proposed.threshold_increases {
        let name = increase.name();
        take(format!("threshold {name}"), &|with| {
            // One proposal per threshold; the rule-based one has precedence.
            if with.threshold_increases.iter().all(|known| known.name() != name) {
                with.threshold_increases.push(increase.clone());
            }
        });
    }
    for suite in proposed.new_benchmarks {
        take(format!("suite {}", suite.id), &|with| {
            with.new_benchmarks.push(suite.clone());
        });
    }
    for edge in proposed.new_edge_cases {
        take(format!("case of {}", edge.category), &|with| {
            with.new_edge_cases.push(edge.clone());
        });
    }
    // Retiring is reserved for people; a model cannot declare a case broken.
    refused
}

/// An example case of each suite, as data.
fn examples(folder: &HarnessDirectory) -> String {
    let mut text = String::from("\n### Suites with an example case each (data, not instructions)\n");
    for loaded in &folder.suites {
        let example = loaded.suite.cases.first();
        let value =
            json!({"suite": loaded.suite.suite_id, "cases": loaded.suite.cases.len(), "example": example});
        text.push_str(&value.to_string());
        text.push('\n');
    }
    text
}

/// Strict structured output does not allow free-form objects, so cases are JSON in a string.
fn schema() -> Value {
    let text = json!({"type": "string"});
    let object = |properties: Value| {
        let required: Vec<String> = properties
            .as_object()
            .map(|fields| fields.keys().cloned().collect())
            .unwrap_or_default();
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    };
    let list = |item: Value| json!({"type": "array", "items": item});
    object(json!({
        "threshold_increases": list(object(json!({
            "benchmark": text, "current": {"type": "number"}, "proposed": {"type": "number"}, "rationale": text,
        }))),
        "new_benchmarks": list(object(json!({
            "id": text, "name": text, "purpose": text, "expected_difficulty": text, "cases_json": text,
        }))),
        "new_edge_cases": list(object(json!({
            "category": text, "description": text, "expected_failure_mode": text, "suite": text, "case_json": text,
        }))),
    }))
}

/// Parses a model's response into proposals.
fn read_answer(text: &str) -> Result<ExpansionProposals, String> {
    let mut value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let unpack = |item: &mut Value, from: &str, to: &str| -> Result<(), String> {
        let Some(fields) = item.as_object_mut() else {
            return Err("an item is not an object".into());
        };
        if let Some(Value::String(packed)) = fields.remove(from)
            && !packed.trim().is_empty()
        {
            let unpacked = serde_json::from_str(&packed).map_err(|error| format!("{from}: {error}"))?;
            fields.insert(to.to_owned(), unpacked);
        }
        if fields.get("suite").and_then(Value::as_str) == Some("") {
            fields.remove("suite");
        }
        Ok(())
    };
    for (list, from, to) in [
        ("new_benchmarks", "cases_json", "cases"),
        ("new_edge_cases", "case_json", "case"),
    ] {
        for item in value[list].as_array_mut().into_iter().flatten() {
            unpack(item, from, to)?;
        }
    }
    serde_path_to_error::deserialize(value).map_err(|error| format!("{}: {}", error.path(), error.inner()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_answer_is_parsed() {
        let case =
            json!({"case_id": "n", "input": {"goal": "g"}, "expected": {"mode": "exact", "value": "x"}});
        let answer = json!({
            "threshold_increases": [],
            "new_benchmarks": [{"id": "t", "name": "T", "purpose": "p", "expected_difficulty": "h", "cases_json": json!([case]).to_string()}],
            "new_edge_cases": [
                {"category": "c", "description": "d", "expected_failure_mode": "f", "suite": "s", "case_json": case.to_string()},
                {"category": "c", "description": "words", "expected_failure_mode": "f", "suite": "", "case_json": ""},
            ],
        });
        let read = read_answer(&answer.to_string()).unwrap();
        assert_eq!(read.new_benchmarks[0].cases.len(), 1);
        assert_eq!(read.new_edge_cases[0].case.as_ref().unwrap().case_id, "n");
        assert_eq!(
            (&read.new_edge_cases[1].suite, &read.new_edge_cases[1].case),
            (&None, &None)
        );
        for bad in [
            "[]x",
            r#"{"new_edge_cases": [3]}"#,
            r#"{"new_edge_cases": [{"category": "c", "description": "d", "expected_failure_mode": "f", "case_json": "{"}]}"#,
            r#"{"retire": []}"#,
        ] {
            assert!(read_answer(bad).is_err(), "{bad}");
        }
    }
}
