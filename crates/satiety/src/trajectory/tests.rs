use serde_json::json;

use super::*;

#[test]
fn openai_calls_and_results_are_connected_by_id() {
    let log = json!([
        {"role": "system", "content": "policy"},
        {"role": "user", "content": "find a and b"},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "search", "arguments": "{\"q\": \"a\"}"}},
            {"id": "2", "type": "function", "function": {"name": "search", "arguments": "{\"q\": \"b\"}"}}]},
        {"role": "tool", "tool_call_id": "2", "content": "B"},
        {"role": "tool", "tool_call_id": "1", "content": "A"},
        {"role": "assistant", "content": "Both found."}
    ]);
    let log = read::read(log.to_string().as_bytes(), ReadOptions::default()).unwrap();
    assert_eq!(log.format, LogFormat::Chat);
    let run = &log.trajectories[0];
    assert_eq!(run.task.as_deref(), Some("find a and b"));
    assert_eq!(run.steps.len(), 2);
    let calls = &run.steps[0].calls;
    assert_eq!(calls[0].arguments, json!({"q": "a"}));
    assert_eq!(calls[0].result.as_ref().unwrap().content, "A");
    assert_eq!(calls[1].result.as_ref().unwrap().content, "B");
}
