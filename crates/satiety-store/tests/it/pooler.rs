//! The store behind PgBouncer in transaction mode: a connection to the server belongs to a client for one transaction.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use satiety_store::journal::Event;
use satiety_store::{Migrate, Store, StoreError, StoreOptions};
use serde_json::json;
use xtask::pgbouncer::Pooler;
use xtask::postgres::{Cluster, Options};

/// Starts a pooler in front of the server of the tests.
fn pooler() -> Option<Pooler> {
    let Ok(server) = std::env::var("SATIETY_TEST_POSTGRES") else {
        println!("skipped: SATIETY_TEST_POSTGRES is not set");
        return None;
    };
    if std::env::var("SATIETY_TEST_POOLED").is_ok() {
        return None;
    }
    let port = server
        .rsplit_once(':')
        .unwrap()
        .1
        .split('/')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let pooler = Pooler::start(port).unwrap();
    if pooler.is_none() {
        println!("skipped: pgbouncer is not installed");
    }
    pooler
}

/// Modules whose tests run behind the pooler. Others start servers of their own, or check what these check.
const CONTRACT: [&str; 6] = [
    "browse::",
    "conformance::",
    "experiment::",
    "retention::",
    "work::",
    "whole_periods",
];

/// The tests of the contract, once more in a process whose server is the pooler.
#[test]
fn the_contract_holds_behind_a_transaction_pooler() {
    let Some(pooler) = pooler() else { return };
    let output = Command::new(std::env::current_exe().unwrap())
        .args(CONTRACT)
        .args(["--test-threads", "4", "--skip", "on_sqlite"])
        .env("SATIETY_TEST_POSTGRES", pooler.url("postgres"))
        .env("SATIETY_TEST_POOLED", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let summary = text
        .lines()
        .rev()
        .find(|line| line.starts_with("test result"))
        .unwrap_or_default();
    println!("{summary}");
    assert!(
        output.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let passed: u32 = summary.split_whitespace().nth(3).unwrap().parse().unwrap();
    assert!(passed > 30, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_pooler_is_recognized_and_clients_do_not_mix_statements() {
    let Some(pooler) = pooler() else { return };
    let fixture = crate::support::Fixture::postgres().await.unwrap();
    let direct = fixture.open().await;
    assert!(!direct.fleet_status().await.unwrap().transaction_pooling);
    let name = fixture.url_text.rsplit_once('/').unwrap().1;
    let url: satiety_store::StoreUrl = pooler.url(name).parse().unwrap();
    let mut clients = Vec::new();
    for _ in 0..4 {
        let store = Store::open(&url).await.unwrap();
        assert!(store.fleet_status().await.unwrap().transaction_pooling);
        clients.push(Arc::new(store));
    }
    let tasks: Vec<_> = (0..16)
        .map(|number| {
            let store = Arc::clone(&clients[number % clients.len()]);
            tokio::spawn(async move {
                let kind = format!("test.kind{number}");
                let key = format!("key{number}");
                for round in 0..30 {
                    store
                        .journal()
                        .append(Event::now(kind.as_str(), "s", json!(round)))
                        .await
                        .unwrap();
                    store
                        .records()
                        .put(&key, "1", &json!({"of": number}), None)
                        .await
                        .unwrap();
                    let found = store.journal().latest(&kind, 99).await.unwrap();
                    assert_eq!(found.len(), round + 1);
                    assert!(found.iter().all(|event| event.kind == kind));
                    let record = store.records().get(&key).await.unwrap().unwrap();
                    assert_eq!(record.body, json!({"of": number}));
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for store in clients {
        store.close().await;
    }
    direct.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_statements_are_cancelled_with_and_without_a_pooler() {
    let Some(pooler) = pooler() else { return };
    let fixture = crate::support::Fixture::postgres().await.unwrap();
    fixture.open().await.close().await;
    let name = fixture.url_text.rsplit_once('/').unwrap().1;
    // A lock that a statement waits for.
    let pool = sqlx::PgPool::connect(&fixture.url_text).await.unwrap();
    let mut blocker = pool.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE records IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *blocker)
        .await
        .unwrap();
    let options = StoreOptions {
        statement_timeout: Some(Duration::from_millis(200)),
        ..StoreOptions::default()
    };
    for url in [fixture.url_text.clone(), pooler.url(name)] {
        let store = Store::open_configured(&url.parse().unwrap(), Migrate::Never, &options)
            .await
            .unwrap();
        let read = store.records().get("key").await.unwrap_err().to_string();
        let write = store.records().put("key", "1", &json!({}), None).await;
        for error in [read, write.unwrap_err().to_string()] {
            assert!(error.contains("statement timeout"), "{error}");
        }
        store.close().await;
    }
    blocker.rollback().await.unwrap();
    pool.close().await;
}

/// A pooler reports it with a code of its own. Requests get 503 then, and workers wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_down_behind_a_pooler_is_unreachable() {
    if std::env::var("SATIETY_TEST_POSTGRES").is_err() {
        println!("skipped: SATIETY_TEST_POSTGRES is not set");
        return;
    }
    let cluster = Cluster::start(Options::default()).unwrap();
    let Some(pooler) = Pooler::start(cluster.port()).unwrap() else {
        println!("skipped: pgbouncer is not installed");
        return;
    };
    cluster.create_database("satiety").unwrap();
    let store = Store::open(&pooler.url("satiety").parse().unwrap())
        .await
        .unwrap();
    cluster.stop_immediately().unwrap();
    for _ in 0..2 {
        let read = store.records().get("key").await.unwrap_err();
        let write = store.records().put("key", "1", &json!({}), None).await;
        for error in [read, write.unwrap_err()] {
            assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
        }
    }
    store.close().await;
}
