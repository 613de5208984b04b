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

#[test]
fn results_may_have_a_role_of_their_own() {
    let log = json!({"messages": [
        {"role": "user", "content": [{"type": "text", "text": "count"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "bash", "input": {"commands": "wc -l a"}}]},
        {"role": "tool_result", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "no such file", "is_error": true}]},
        {"role": "assistant", "content": [{"type": "text", "text": "It is missing."}]}
    ]});
    let log = read::read(log.to_string().as_bytes(), ReadOptions::default()).unwrap();
    let run = &log.trajectories[0];
    assert_eq!((log.format, run.steps.len()), (LogFormat::Chat, 2));
    assert_eq!(run.steps[0].calls[0].command(), Some("wc -l a"));
    assert_eq!(run.steps[0].calls[0].result.as_ref().unwrap().error, Some(true));
}

#[test]
fn odd_values_are_skipped_in_every_format() {
    let odd = [
        json!(null),
        json!(1),
        json!("text"),
        json!([]),
        json!([[], 1]),
        json!({}),
        json!({"role": 1, "content": {}, "type": [], "id": {}}),
    ];
    let known = [
        json!({"trajectory": [{"action": "ls", "observation": "", "thought": ""}], "history": 1, "info": []}),
        json!({"trajectory": [{"role": "ai", "text": null}]}),
        json!({"trajectory_format": "mini-swe-agent-1", "messages": [{"role": "assistant", "extra": []}], "info": 1}),
        json!({"history": [{"source": "agent", "action": "run", "args": null}]}),
        json!({"history": [{"kind": "ActionEvent", "tool_call": 1}]}),
        json!({"history": [{"role": "WebSurfer", "content": null}]}),
        json!({"messages": [{"type": "ToolCallRequestEvent", "content": 1}]}),
        json!({"messages": [{"type": "ai", "content": null, "tool_calls": {}}]}),
        json!({"run_type": "tool", "outputs": 1, "child_runs": [1]}),
        json!({"simulations": [{"messages": [{"role": "tool"}], "reward_info": 1}]}),
        json!({"samples": [{"epoch": 1, "messages": [{"role": "tool", "error": 1}], "scores": []}]}),
    ];
    for document in known {
        let clean = read::read(document.to_string().as_bytes(), ReadOptions::default()).unwrap();
        let mut mixed = document.clone();
        for (_, value) in mixed.as_object_mut().unwrap() {
            if let Some(list) = value.as_array_mut() {
                list.extend(odd.iter().cloned());
            }
        }
        let mixed = read::read(mixed.to_string().as_bytes(), ReadOptions::default()).unwrap();
        assert_eq!(clean.format, mixed.format, "{document}");
        assert!(mixed.trajectories.len() >= clean.trajectories.len(), "{document}");
    }
}
