use std::io::BufReader;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn values(text: &str) -> Vec<(u64, Result<Value, String>)> {
    // A tiny buffer: records span many reads.
    let records = JsonRecords::new(BufReader::with_capacity(256, text.as_bytes()));
    records
        .map(|record| record.map(|record| (record.line, record.value)).unwrap())
        .collect()
}

fn fine(text: &str) -> Vec<Value> {
    values(text)
        .into_iter()
        .map(|(_, value)| value.unwrap())
        .collect()
}

#[test]
fn lines_lists_and_documents_give_the_same_records() {
    let expected = vec![json!({"a": "x,]}\"\\"}), json!({"a": [1, {"b": 2}]})];
    let (one, two) = (expected[0].to_string(), expected[1].to_string());
    assert_eq!(fine(&format!("{one}\n\n{two}\n")), expected);
    assert_eq!(fine(&format!("{one}\r\n{two}")), expected);
    assert_eq!(fine(&format!("\u{feff}[{one},\n {two}\n]")), expected);
    assert_eq!(
        fine(&format!(
            "{{\"count\": 2, \"results\": [{one}, {two}], \"next\": null}}"
        )),
        expected
    );
    assert_eq!(
        fine(&format!("{{\n  \"memories\": [\n{one},\n{two}]\n}}\n")),
        expected
    );
    let pretty =
        serde_json::to_string_pretty(&json!({"messages": [{"role": "user", "content": "x"}]})).unwrap();
    assert_eq!(fine(&pretty).len(), 1);
    let with_data = vec![json!({"content": "x", "data": [1, 2]}), json!({"content": "y"})];
    assert_eq!(fine(&format!("{}\n{}", with_data[0], with_data[1])), with_data);
    assert_eq!(fine("[]"), [] as [Value; 0]);
    assert_eq!(fine("  \n "), [] as [Value; 0]);
}

#[test]
fn a_broken_record_is_reported_with_its_line_and_the_others_are_read() {
    let found = values("{\"a\": 1}\n{\"a\": \n{\"a\": 3}\nnonsense\n{\"a\": 5}");
    let lines: Vec<(u64, bool)> = found.iter().map(|(line, value)| (*line, value.is_ok())).collect();
    assert_eq!(lines, [(1, true), (2, false), (3, true), (4, false), (5, true)]);
    let found = values("[\n{\"a\": 1},\n{\"a\": tru},\n{\"a\": 3}\n]");
    let lines: Vec<(u64, bool)> = found.iter().map(|(line, value)| (*line, value.is_ok())).collect();
    assert_eq!(lines, [(2, true), (3, false), (4, true)]);
    let found = values("[\n{\"a\": 1},\n{\"a\": \"x");
    assert_eq!(found.len(), 2);
    assert!(found[1].1.as_ref().unwrap_err().contains("incomplete"));
}

proptest! {
    /// Any bytes are read to their end without a panic, and a serialized list is read back.
    #[test]
    fn any_input_ends(text in ".{0,200}", values in proptest::collection::vec(any::<u32>(), 0..20)) {
        let _ = super::tests::values(&text);
        let list: Vec<Value> = values.iter().map(|number| json!({"n": number, "t": text})).collect();
        prop_assert_eq!(fine(&serde_json::to_string(&list).unwrap()), list.clone());
        prop_assert_eq!(fine(&serde_json::to_string_pretty(&list).unwrap()), list);
    }
}

fn records(record: &Value) -> Vec<ImportRecord> {
    import_records(ImportFormat::detect(record).unwrap(), record).unwrap()
}

#[test]
fn chatgpt_conversations_are_read_along_the_current_branch() {
    let node =
        |parent: Option<&str>, message: Value| json!({"parent": parent, "children": [], "message": message});
    let message = |id: &str, role: &str, text: &str| {
        json!({"id": id, "author": {"role": role}, "create_time": 1_714_559_580.5,
            "content": {"content_type": "text", "parts": [text]}, "recipient": "all", "metadata": {}})
    };
    let conversation = json!({
        "title": "Locked database", "conversation_id": "c-1", "create_time": 1_714_559_580.0, "current_node": "n5",
        "mapping": {
            "root": node(None, Value::Null),
            "n1": node(Some("root"), message("m1", "system", "You are helpful")),
            "n2": node(Some("n1"), message("m2", "user", "Why is SQLite locked?")),
            "old": node(Some("n2"), message("m9", "assistant", "An answer that was regenerated")),
            "n3": node(Some("n2"), message("m3", "assistant", "Use WAL mode.")),
            "n4": node(Some("n3"), message("m4", "user", "And the timeout?")),
            "n5": node(Some("n4"), message("m5", "assistant", "Set busy_timeout.")),
        },
    });
    let found = records(&conversation);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].key, "c-1/m2");
    assert_eq!(found[0].draft.title, "Locked database: Why is SQLite locked?");
    assert_eq!(
        found[0].draft.content,
        "User (2024-05-01 10:33 UTC): Why is SQLite locked?\n\nAssistant (2024-05-01 10:33 UTC): Use WAL mode."
    );
    assert_eq!(found[1].key, "c-1/m4");
    assert_eq!(found[0].at, Some(1_714_559_580_500_000));
    // A cycle ends.
    let mut cyclic = conversation;
    cyclic["mapping"]["root"]["parent"] = json!("n5");
    assert_eq!(import_records(ImportFormat::Chatgpt, &cyclic).unwrap().len(), 2);
}

#[test]
fn claude_and_api_messages_become_exchanges() {
    let claude = json!({"uuid": "u", "name": "Plans", "chat_messages": [
        {"uuid": "a", "sender": "human", "text": "old text", "content": [{"type": "text", "text": "When do we deploy?"}],
         "created_at": "2025-03-07T09:00:00.123456+00:00"},
        {"uuid": "b", "sender": "assistant", "text": "On Mondays.", "content": [], "created_at": "2025-03-07T09:00:05Z"},
        {"uuid": "c", "sender": "assistant", "text": " "},
    ]});
    let found = records(&claude);
    assert_eq!((found.len(), found[0].key.as_str()), (1, "u/a"));
    assert!(
        found[0]
            .draft
            .content
            .ends_with("Assistant (2025-03-07 09:00 UTC): On Mondays.")
    );
    let openai = json!({"id": "x", "messages": [
        {"role": "system", "content": "rules"}, {"role": "user", "content": "one"}, {"role": "user", "content": "more"},
        {"role": "assistant", "content": [{"type": "text", "text": "two"}, {"type": "tool_use", "name": "t"}]},
        {"role": "tool", "content": "result"}, {"role": "user", "content": "three"},
    ]});
    let found = records(&openai);
    let keys: Vec<&str> = found.iter().map(|record| record.key.as_str()).collect();
    assert_eq!(keys, ["x/0", "x/3"]);
    assert_eq!(
        found[0].draft.content,
        "User: one\n\nUser: more\n\nAssistant: two"
    );
    assert_eq!(found[1].draft.title, "three");
}

#[test]
fn graphs_and_mem0_are_read() {
    let entity = json!({"type": "entity", "name": "John_Smith", "entityType": "person",
        "observations": ["Speaks fluent Spanish", "Graduated in 2019"]});
    let found = records(&entity);
    assert_eq!(found[0].key, "entity:John_Smith");
    assert_eq!(
        found[0].draft.content,
        "- Speaks fluent Spanish\n- Graduated in 2019"
    );
    assert_eq!(found[0].draft.kind, "person");
    let relation = json!({"type": "relation", "from": "A", "to": "B", "relationType": "works_at"});
    let found = records(&relation);
    assert_eq!(
        (found[0].draft.content.as_str(), &found[0].link),
        ("A works at B", &None)
    );
    let causal = json!({"type": "relation", "from": "A", "to": "B", "relationType": "replaces"});
    let link = records(&causal).remove(0).link.unwrap();
    assert_eq!(link, ("entity:A".into(), LinkKind::Supersedes, "entity:B".into()));
    assert!(import_records(ImportFormat::ServerMemory, &json!({"type": "entity"})).is_err());
    let mem0 = json!({"id": "892db2ae", "memory": "Name is Alice. Loves hiking.", "hash": "d3b07384", "metadata": null,
        "user_id": "alice", "categories": ["personal_details"], "created_at": "2024-07-29T13:05:41.286978-07:00"});
    let found = records(&mem0);
    assert_eq!(
        (found[0].key.as_str(), found[0].draft.folder.as_str()),
        ("892db2ae", "alice")
    );
    assert_eq!(found[0].draft.kind, "personal_details");
    assert!(found[0].at.is_some());
}

#[test]
fn plain_records_need_only_text() {
    let found = records(&json!({"text": "# A heading\nand more", "tags": "one; two", "id": 7}));
    assert_eq!(
        (found[0].key.as_str(), found[0].draft.title.as_str()),
        ("7", "A heading")
    );
    assert_eq!(found[0].draft.triggers, ["one", "two"]);
    let long = records(&json!({"content": "word ".repeat(100)}));
    assert!(long[0].draft.title.chars().count() <= 81 && long[0].draft.title.ends_with("word…"));
    assert_eq!(
        long[0].key,
        records(&json!({"content": "word ".repeat(100)}))[0].key
    );
    assert_eq!(ImportFormat::detect(&json!({"x": 1})), None);
    let error = import_records(ImportFormat::Jsonl, &json!({"title": "x"})).unwrap_err();
    assert!(error.starts_with("missing text"), "{error}");
    let error = import_records(ImportFormat::Jsonl, &json!({"content": "x", "tier": "gold"})).unwrap_err();
    assert!(error.contains("unknown tier"), "{error}");
}

#[test]
fn tables_are_read_by_their_header() {
    let mut found = Vec::new();
    let table = "Title,Text,Tags\nFirst,\"two\nlines\",a|b\nsecond,,\n\"third\",text\nFourth,last,\n";
    csv_records(table.as_bytes(), b',', |line, record| {
        found.push((line, record.map(|record| record.draft.title)));
        true
    })
    .unwrap();
    assert_eq!(found[0], (2, Ok("First".into())));
    assert!(found[1].1.as_ref().unwrap_err().starts_with("missing text"));
    assert_eq!(found[1].0, 4);
    assert!(found[2].1.is_err(), "a row of another length: {found:?}");
    assert_eq!(found[3], (6, Ok("Fourth".into())));
    let error = csv_records("a,b\n1,2\n".as_bytes(), b',', |_, _| true).unwrap_err();
    assert!(error.contains("found: a, b"), "{error}");
}

#[test]
fn formats_have_names() {
    for format in ImportFormat::ALL {
        assert_eq!(format.name().parse(), Ok(format));
    }
    assert!(
        "xml"
            .parse::<ImportFormat>()
            .unwrap_err()
            .contains("server-memory")
    );
}
