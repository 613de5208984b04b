//! What holds now, on the command line: marks of results, duplicates and conflicts on save, filters and validity.

use serde_json::Value;

use crate::support::{Place, json_of};

fn place() -> Place {
    let place = Place::new();
    place.write("satiety.toml", "[models]\nembedder = \"none\"\n");
    place
}

fn json(place: &Place, arguments: &[&str]) -> Value {
    json_of(place, &[&["memory"], arguments, &["--format", "json"]].concat())
}

fn save(place: &Place, title: &str, content: &str, more: &[&str]) -> String {
    let saved = json(place, &[&["save", title, content], more].concat());
    saved["memory"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn results_say_what_replaced_them_and_what_contradicts_them() {
    let place = place();
    let old = save(&place, "Deploy day", "The deploy day is Monday.", &[]);
    let new = save(&place, "Shipping", "It moved to Thursdays.", &[]);
    let other = save(&place, "Habit", "People ship whenever they like.", &[]);
    json(&place, &["link", &new, "supersedes", &old]);
    json(&place, &["link", &other, "contradicts", &new]);
    let found = json(&place, &["search", "what is the deploy day"]);
    let ids: Vec<&str> = found["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids[0], new, "{found}");
    assert!(
        ids.contains(&old.as_str()) && ids.contains(&other.as_str()),
        "{found}"
    );
    let text = place.run(&["memory", "search", "what is the deploy day"]);
    assert!(text.contains(&format!("superseded by {new}")), "{text}");
    assert!(text.contains(&format!("contradicts {other}")), "{text}");
}

#[test]
fn saving_reports_duplicates_and_conflicts() {
    let place = place();
    let content = "The retry limit of the client is 3 attempts.";
    let id = save(&place, "Retry limit", content, &[]);
    let again = json(&place, &["save", "Retry limit", content]);
    assert_eq!(
        (&again["duplicates"][0]["id"], &again["duplicates"][0]["kind"]),
        (&id.clone().into(), &"identical".into())
    );
    let text = place.run(&[
        "memory",
        "save",
        "Retry limit",
        content,
        "--on-duplicate",
        "reject",
    ]);
    assert!(
        text.starts_with("exit 2") && text.contains("identical") && text.contains("hint:"),
        "{text}"
    );
    let text = place.run(&[
        "memory",
        "save",
        "Retry limit",
        "The retry limit of the client is 5 attempts.",
    ]);
    assert!(
        text.contains("conflict:") && text.contains("number: \"5\" against \"3\""),
        "{text}"
    );
    assert!(text.contains("supersedes"), "{text}");
    let merged = json(
        &place,
        &[
            "save",
            "Retry limit",
            content,
            "--on-duplicate",
            "merge",
            "--tag",
            "http",
        ],
    );
    let stored = json(&place, &["get", merged["memory"]["id"].as_str().unwrap()]);
    assert_eq!(
        (&merged["action"], &stored["tags"][0]),
        (&"merged".into(), &"http".into())
    );
}

#[test]
fn filters_and_validity_narrow_a_search() {
    let place = place();
    save(
        &place,
        "Lock A",
        "lock timeout ten",
        &["--tag", "db", "--kind", "decision", "--author", "Ada"],
    );
    save(
        &place,
        "Lock B",
        "lock timeout ten",
        &["--author", "Bo", "--observed-at", "2020-05-01"],
    );
    save(
        &place,
        "Lock C",
        "lock timeout ten",
        &["--valid-until", "2021-01-01"],
    );
    let titles = |arguments: &[&str]| -> Vec<String> {
        let found = json(&place, &[&["search", "lock timeout"], arguments].concat());
        let results = found["results"].as_array().unwrap().iter();
        results
            .map(|result| result["title"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(titles(&["--tag", "DB", "--kind", "decision"]), ["Lock A"]);
    assert_eq!(titles(&["--author", "bo"]), ["Lock B"]);
    assert_eq!(titles(&["--observed-until", "2021-01-01"]), ["Lock B"]);
    assert_eq!(titles(&[]).last().unwrap(), "Lock C", "no longer valid");
    assert_eq!(titles(&["--recorded-until", "2000-01-01"]), [] as [&str; 0]);
    let listed = json(&place, &["list", "--author", "Ada"]);
    assert_eq!(listed["memories"].as_array().unwrap().len(), 1);
    let text = place.run(&["memory", "search", "lock", "--as-of", "yesterday"]);
    assert!(text.starts_with("exit 2") && text.contains("RFC 3339"), "{text}");
    let text = place.run(&[
        "memory",
        "save",
        "x",
        "y",
        "--valid-from",
        "2022-01-01",
        "--valid-until",
        "2021-01-01",
    ]);
    assert!(
        text.starts_with("exit 2") && text.contains("valid_until"),
        "{text}"
    );
}
