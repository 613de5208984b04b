//! The OpenAPI document matches the server, and the repository contains the current one.

use serde_json::Value;

use crate::support::start;

/// A change of the API is a visible difference.
#[test]
fn the_committed_document_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/openapi.json");
    let committed: Value = serde_json::from_str(&fs_err::read_to_string(path).unwrap()).unwrap();
    assert!(
        committed == satiety_server::openapi::document(),
        "the API has changed: run `cargo xtask gen` and review the diff of docs/reference/openapi.json"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_and_its_page_are_served() {
    let server = start().await;
    let served = server.get("/openapi.json").await.ok(200);
    assert_eq!(served["openapi"], "3.1.0");
    assert_eq!(served, satiety_server::openapi::document());
    let page = server.get("/docs").await;
    assert_eq!(page.status, 200);
    assert!(page.header("content-type").starts_with("text/html"));
    assert_eq!(server.get("/docs/style.css").await.status, 200);
}

/// Every documented path is routed: no response is "path not found".
#[tokio::test(flavor = "multi_thread")]
async fn every_documented_path_has_a_handler() {
    let server = start().await;
    let document = satiety_server::openapi::document();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let path = path.replace("{id}", "x");
        for (method, operation) in methods.as_object().unwrap() {
            let request = server.request(method.to_uppercase().parse().unwrap(), &path);
            let response = request.send().await.unwrap();
            let status = response.status().as_u16();
            assert_ne!(status, 405, "{method} {path}");
            assert!(
                operation["responses"].get(status.to_string()).is_some(),
                "{method} {path}: {status}"
            );
            if status == 404 {
                let text = response.text().await.unwrap();
                assert!(!text.contains("path not found"), "{method} {path}");
            }
        }
    }
}

/// The guide lists the metrics of the registry, and no others.
#[test]
fn the_guide_lists_every_metric() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/server.md");
    let guide = fs_err::read_to_string(path).unwrap();
    let mut listed: Vec<&str> = guide
        .lines()
        .filter_map(|line| {
            line.strip_prefix("| `satiety_")?
                .split_once('`')
                .map(|(name, _)| name)
        })
        .collect();
    let names = satiety_server::metrics::names();
    let mut there: Vec<&str> = names
        .iter()
        .map(|(name, _)| name.strip_prefix("satiety_").unwrap())
        .collect();
    listed.sort_unstable();
    there.sort_unstable();
    assert_eq!(listed, there);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_database_shows_the_first_steps_instead_of_zeros() {
    let server = start().await;
    let page = server.get("/").await;
    assert_eq!(page.status, 200);
    assert!(
        page.text.contains("Get started") && page.text.contains("satiety demo --keep"),
        "{}",
        page.text
    );
    assert!(!page.text.contains("All clear"), "{}", page.text);
}
