//! Small traces whose outcome can be counted by hand, and Belady's policy compared with every possible
//! choice.

use proptest::prelude::*;

use super::super::trace::{TraceTurn, read_trace};
use super::*;

fn trace(text: &str) -> Session {
    read_trace(text).unwrap().remove(0)
}

/// `a3` adds item a of 3 tokens, `?a` uses it.
fn session(script: &[&str]) -> Session {
    let mut text = String::new();
    for (turn, line) in script.iter().enumerate() {
        let words = || line.split_whitespace();
        let add: Vec<String> = words()
            .filter(|word| !word.starts_with('?'))
            .map(|word| {
                let (id, tokens) = word.split_at(1);
                format!(r#"{{"ctx_id":"{id}","zone":"workspace","token_count":{tokens}}}"#)
            })
            .collect();
        let uses: Vec<String> = words()
            .filter_map(|word| Some(format!("\"{}\"", word.strip_prefix('?')?)))
            .collect();
        let line = format!(
            "{{\"turn\":{turn},\"add\":[{}],\"use\":[{}]}}\n",
            add.join(","),
            uses.join(",")
        );
        text.push_str(&line);
    }
    trace(&text)
}

fn run(session: &Session, policy: &str, tokens: u64) -> Outcome {
    let options = ReplayOptions {
        budget: Budget::Tokens(tokens),
        headroom: 0.0,
        ..ReplayOptions::default()
    };
    replay(session, &policy.parse().unwrap(), &options).unwrap()
}

#[test]
fn policies_differ_as_they_should() {
    // Two items fit. After c is added, FIFO evicts a, LRU evicts b (a was used), size evicts the largest.
    let session = session(&["a1", "b2", "?a", "c1", "?a ?b ?c"]);
    let hits = |policy| run(&session, policy, 3).hits;
    assert_eq!(run(&session, "lru", 3).uses, 4);
    assert_eq!(hits("fifo"), 3);
    assert_eq!(hits("lru"), 3);
    let two = run(&session, "lru", 3);
    assert_eq!((two.answers, two.answers_preserved, two.flushes), (2, 1, 2));
    assert_eq!((two.use_tokens, two.hit_tokens), (5, 3));
    for policy in [
        "fifo",
        "lru",
        "size",
        "gdsf",
        "random",
        "heuristic",
        "belady",
        "belady-size",
    ] {
        let found = run(&session, policy, 3);
        assert_eq!((found.over_budget, found.turns), (0, 5), "{policy}");
        assert!(run(&session, policy, 100).hits == 4, "{policy}");
    }
}

#[test]
fn every_policy_spares_pins() {
    let session = trace(concat!(
        r#"{"turn":0,"add":[{"ctx_id":"p","zone":"system","token_count":9,"pinned":true}]}"#,
        "\n",
        r#"{"turn":1,"add":[{"ctx_id":"a","zone":"memory","token_count":5}]}"#,
        "\n",
        r#"{"turn":2,"use":["p"]}"#,
    ));
    for policy in [
        "fifo",
        "lru",
        "size",
        "gdsf",
        "random",
        "heuristic",
        "belady",
        "belady-size",
    ] {
        let found = run(&session, policy, 7);
        assert_eq!(
            (found.hits, found.over_budget, found.evicted),
            (1, 3, 1),
            "{policy}"
        );
    }
}

#[test]
fn exclusions_become_labels_and_settings_are_checked() {
    let session = session(&["a5", "b5", "c5", "?a", "d5", "?a"]);
    let policy: Policy = "heuristic".parse().unwrap();
    let agent = Agent::Foresight {
        horizon: 10,
        recall: 1.0,
        false_positive: 0.0,
    };
    let options = ReplayOptions {
        budget: Budget::Tokens(11),
        headroom: 0.0,
        agent: Some(agent),
        ..ReplayOptions::default()
    };
    let found = replay(&session, &policy, &options).unwrap();
    assert!(!found.labels.is_empty());
    assert!(
        found
            .labels
            .iter()
            .all(|label| label.kept_back == (label.ctx_id == "a"))
    );
    for wrong in [
        ReplayOptions {
            headroom: 1.0,
            ..options.clone()
        },
        ReplayOptions {
            budget: Budget::Share(1.5),
            ..options
        },
    ] {
        assert!(replay(&session, &policy, &wrong).is_err());
    }
}

/// Returns the maximum number of hits over all choices: a used item must be resident or read again, and at
/// most `capacity` items fit at the end of a turn.
fn most_hits(turns: &[TraceTurn], resident: &std::collections::BTreeSet<String>, capacity: usize) -> u64 {
    let Some((turn, rest)) = turns.split_first() else {
        return 0;
    };
    let new: std::collections::BTreeSet<String> = turn.add.iter().map(|item| item.ctx_id.clone()).collect();
    let hits = turn
        .uses
        .iter()
        .filter(|id| resident.contains(*id) && !new.contains(*id))
        .count() as u64;
    let all: Vec<String> = resident
        .iter()
        .chain(&new)
        .chain(&turn.uses)
        .cloned()
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    if all.len() <= capacity {
        return hits + most_hits(rest, &all.into_iter().collect(), capacity);
    }
    let subsets = (0..1_u32 << all.len()).filter(|subset| subset.count_ones() as usize == capacity);
    let best = subsets.map(|subset| {
        let kept = all
            .iter()
            .enumerate()
            .filter(|(i, _)| subset >> i & 1 == 1)
            .map(|(_, id)| id.clone())
            .collect();
        most_hits(rest, &kept, capacity)
    });
    hits + best.max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn for_items_of_one_size_nothing_beats_belady(uses in prop::collection::vec(0_usize..5, 1..7), capacity in 1_usize..4) {
        let names = ["a", "b", "c", "d", "e"];
        let mut script: Vec<String> = vec![names.map(|name| format!("{name}1")).join(" ")];
        script.extend(uses.iter().map(|used| format!("?{}", names[*used])));
        let session = session(&script.iter().map(String::as_str).collect::<Vec<_>>());
        let best = most_hits(&session.turns, &std::collections::BTreeSet::new(), capacity);
        prop_assert_eq!(run(&session, "belady", capacity as u64).hits, best);
        prop_assert_eq!(run(&session, "belady-size", capacity as u64).hits, best);
        for policy in ["lru", "fifo", "gdsf", "heuristic", "random", "size"] {
            prop_assert!(run(&session, policy, capacity as u64).hits <= best);
        }
    }
}
