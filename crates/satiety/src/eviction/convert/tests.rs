//! Uses are inferred from paths, ids and content that reappear.

use super::super::simulation::{read_trace, write_trace};
use super::*;
use crate::trajectory::read::{ReadOptions, read};

fn count(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// Strict and broad uses of each turn.
fn uses(log: &str) -> Vec<(Vec<String>, Vec<String>)> {
    let log = read(log.as_bytes(), ReadOptions::default()).unwrap();
    let session = convert(&log.trajectories[0], &ConvertOptions::default(), &count).unwrap();
    assert_eq!(
        read_trace(&write_trace(std::slice::from_ref(&session))).unwrap(),
        std::slice::from_ref(&session)
    );
    let turns = session.turns.into_iter();
    turns.map(|turn| (turn.uses, turn.broad_uses)).collect()
}

#[test]
fn a_file_that_is_edited_or_read_again_is_used() {
    let log = r#"[{"role":"user","content":"Fix it"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"c1","function":{"name":"read_file","arguments":"{\"path\":\"/repo/src/a.rs\"}"}}]},
        {"role":"tool","tool_call_id":"c1","content":"fn main() {}"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"c2","function":{"name":"bash","arguments":"{\"command\":\"ls docs\"}"}}]},
        {"role":"tool","tool_call_id":"c2","content":"index"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"c3","function":{"name":"bash","arguments":"{\"command\":\"sed -i s/a/b/ src/a.rs\"}"}}]},
        {"role":"tool","tool_call_id":"c3","content":"ok"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"c4","function":{"name":"bash","arguments":"{\"command\":\"cat ./src/a.rs\"}"}}]},
        {"role":"tool","tool_call_id":"c4","content":"fn main() { }"}]"#;
    let found = uses(log);
    assert_eq!(found[1].0, Vec::<String>::new());
    assert_eq!(found[2].0, Vec::<String>::new());
    // The edit uses what was read; the next reading uses what the edit returned.
    assert_eq!(found[3].0, ["file-2"]);
    assert_eq!(found[4].0, ["tool_result-6"]);
}

#[test]
fn an_id_that_a_later_call_names_is_used() {
    let log = r##"[{"role":"user","content":"Cancel my order"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"c1","function":{"name":"get_user","arguments":"{\"name\":\"mia\"}"}}]},
        {"role":"tool","tool_call_id":"c1","content":"{\"orders\": [\"#W4219264\"], \"items\": 12}"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"c2","function":{"name":"cancel_order","arguments":"{\"order_id\":\"#W4219264\",\"items\":\"12\"}"}}]},
        {"role":"tool","tool_call_id":"c2","content":"done"}]"##;
    assert_eq!(uses(log)[2].0, ["tool_result-2"]);
}

#[test]
fn content_that_reappears_is_a_broad_use_only() {
    let log = r#"[{"role":"system","content":"Be brief."},
        {"role":"user","content":"Why?"},
        {"role":"assistant","content":"The invoice exporter crashes with OverflowError in quarterly reports."},
        {"role":"user","content":"Go on."},
        {"role":"assistant","content":"Let me look at something else first."},
        {"role":"user","content":"Go on."},
        {"role":"assistant","content":"The OverflowError in the invoice exporter comes from the quarterly sum."}]"#;
    let found = uses(log);
    assert!(found.iter().all(|(strict, _)| strict.is_empty()), "{found:?}");
    assert_eq!(found[3].1, ["message-1"]);
    assert_eq!(found[2].1, Vec::<String>::new());
}

#[test]
fn the_task_is_pinned_and_text_can_be_left_out() {
    let log = r#"{"messages":[{"role":"user","content":"Do it"},{"role":"assistant","content":"Done."}]}"#;
    let log = read(log.as_bytes(), ReadOptions::default()).unwrap();
    let options = ConvertOptions {
        content: false,
        ..ConvertOptions::default()
    };
    let session = convert(&log.trajectories[0], &options, &count).unwrap();
    let task = &session.turns[0].add[0];
    assert!(task.pinned && task.content.is_none() && task.token_count == 2);
    assert!(convert(&Trajectory::default(), &options, &count).is_err());
}
