//! The dashboard in a real browser: every page with data, wide and narrow, light and dark; nothing from elsewhere, no
//! complaint on the console, no serious finding of axe; and what people and agents wrote cannot act in it.

use std::process::Command;

use crate::serve::{get, start};
use crate::support::{Place, example, json_of};

/// Fills a store with a bit of everything.
fn fill(place: &Place) -> Vec<String> {
    place.write("satiety.toml", "[models]\nembedder = \"none\"\n");
    let run = |arguments: &[&str]| {
        let mut all = vec!["--format", "json"];
        all.extend(arguments);
        json_of(place, &all)
    };
    for name in ["two-agents-converge", "long-tail", "hidden-blocker"] {
        run(&["score", &example(&format!("calibration/{name}.json")), "--record"]);
    }
    run(&["memory", "index", &example("memory")]);
    let evil = run(&[
        "memory",
        "save",
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(2)> is what it says",
    ]);
    run(&["memory", "search", "why is the database locked"]);
    let heat = example("research/heat-pumps");
    let research = run(&[
        "research",
        "how do heat pumps cope with cold climates",
        "--in",
        &heat,
    ]);
    run(&["bench", "init", "suites/greeter"]);
    let bench = run(&["bench", "run", "suites/greeter"]);
    run(&["bench", "run", "suites/greeter"]);
    run(&[
        "ab",
        "start",
        "rrf",
        "--pipeline",
        "{\"fusion\": {\"reciprocal_rank\": {\"k\": 60}}}",
    ]);
    let items = r#"[{"ctx_id": "plan", "zone": "workspace", "kind": "note", "content": "the plan"},
        {"ctx_id": "<b>log</b>", "zone": "chronicle", "kind": "log", "content": "a long log that nobody reads again"}]"#;
    place.write("items.json", items);
    run(&["evict", "add", "scope-1", "items.json", "--turn", "3"]);
    run(&["evict", "propose", "scope-1", "--budget", "3"]);
    let bench = bench["run_id"].as_str().unwrap();
    let evil = evil["memory"]["id"].as_str().unwrap();
    let research = research["run_id"].as_str().unwrap();
    [
        "/".to_owned(),
        "/conversations".into(),
        "/conversations/calibration-long-tail".into(),
        "/research".into(),
        format!("/research/{research}"),
        "/memory".into(),
        format!("/memory/{evil}"),
        "/memory/search?q=database+locked".into(),
        "/retrieval".into(),
        "/retrieval/annotate".into(),
        "/ab".into(),
        "/ab/rrf".into(),
        "/bench".into(),
        format!("/bench/runs/{bench}"),
        "/eviction".into(),
        "/eviction/scope-1".into(),
        "/harness".into(),
        "/docs".into(),
    ]
    .to_vec()
}

#[test]
fn every_page_can_be_looked_at() {
    let place = Place::new();
    let paths = fill(&place);
    let server = start(&place, &[]);
    for path in &paths {
        let answer = get(&server.address, path, None);
        assert!(
            answer.starts_with("HTTP/1.1 200"),
            "{path}: {}",
            &answer[..200.min(answer.len())]
        );
        assert!(
            !answer.contains("<script>alert") && !answer.contains("<img src=x"),
            "{path}"
        );
        assert!(
            answer
                .to_lowercase()
                .contains("content-security-policy: default-src 'none'"),
            "{path}"
        );
    }
    assert!(get(&server.address, "/conversations/nobody", None).starts_with("HTTP/1.1 404"));
    assert!(get(&server.address, "/bench/runs/..%2F..%2Fetc%2Fpasswd", None).starts_with("HTTP/1.1 404"));
    let (Some(python), Some(browser)) = (
        std::env::var_os("SATIETY_TEST_PYTHON"),
        std::env::var_os("SATIETY_TEST_BROWSER"),
    ) else {
        eprintln!(
            "no browser: SATIETY_TEST_PYTHON or SATIETY_TEST_BROWSER is not set; `cargo xtask test` sets both"
        );
        return;
    };
    let pictures =
        std::env::var_os("SATIETY_TEST_PICTURES").map_or_else(|| place.path("pictures"), Into::into);
    fs_err::create_dir_all(&pictures).unwrap();
    let output = Command::new(python)
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/python/dashboard.py"
        ))
        .arg(browser)
        .arg(format!("http://{}", server.address))
        .arg(pictures)
        .args(&paths)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
