//! Facts for `doctor --fleet`, from both engines, and from a server with a replica and partitions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use satiety_store::bench::{LeaseHolder, ResultKey};
use satiety_store::fleet::Pooling;
use satiety_store::instances::InstanceRow;
use satiety_store::journal::Event;
use satiety_store::{Migrate, SCHEMA_VERSION, Store};
use serde_json::json;
use xtask::postgres::{Cluster, Options};

use crate::conformance::bench_run;
use crate::support::on_both_engines;

fn instance(id: &str) -> InstanceRow {
    InstanceRow {
        instance_id: id.into(),
        kind: "worker".into(),
        name: id.into(),
        url: None,
        version: "0".into(),
        started_at: 1,
        seen_at: 0,
        schema_version: None,
        clock_offset: None,
        draining_at: None,
    }
}

on_both_engines! {
    async fn leases_and_clocks_are_measured(fixture: Fixture) {
        let store = fixture.open().await;
        store.instances().announce(&instance("w1")).await.unwrap();
        let cases: Vec<ResultKey> = (0..3)
            .map(|number| ResultKey { case_id: format!("c{number}"), variant: String::new(), repeat: 0 })
            .collect();
        assert!(store.bench().enqueue_run(&bench_run("run-1"), &json!({}), &cases, None).await.unwrap());
        let holder = |lease| LeaseHolder { id: "h", name: "w1", lease };
        // One lease that is valid, and two that have expired: the next call returns both and takes one of them again.
        store.bench().take_work(&["run-1"], &holder(Duration::from_mins(1)), 1).await.unwrap();
        store.bench().take_work(&["run-1"], &holder(Duration::ZERO), 2).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        store.bench().take_work(&["run-1"], &holder(Duration::ZERO), 1).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        let facts = store.fleet_facts().await.unwrap();
        assert_eq!((facts.schema_version, facts.unknown.len()), (SCHEMA_VERSION, 0), "{facts:?}");
        assert!(facts.clock.offset.abs() < 5_000_000, "{facts:?}");
        let rows = facts.rows.unwrap();
        assert_eq!(rows.instances.len(), 1);
        let queue = rows.queue;
        assert_eq!((queue.waiting, queue.held, queue.expired, queue.retaken), (2, 1, 1, 1), "{queue:?}");
        assert!(queue.oldest_expired.unwrap() >= 20_000, "{queue:?}");
        assert_eq!(queue.most_taken.unwrap().2, 2);
        assert_eq!(queue.oldest_waiting.unwrap().0, "run-1");
        assert_eq!(queue.open_runs, 1);
    }
}

on_both_engines! {
    async fn an_old_schema_is_reported_and_left_alone(fixture: Fixture) {
        Store::open_with(&fixture.url, Migrate::UpTo(21)).await.unwrap().close().await;
        let store = Store::open_with(&fixture.url, Migrate::Never).await.unwrap();
        let facts = store.fleet_facts().await.unwrap();
        assert_eq!(facts.schema_version, 21);
        assert!(facts.rows.is_none());
        assert_eq!(store.status().await.unwrap().schema_version, 21);
    }
}

on_both_engines! {
    async fn overdue_rows_and_batches_are_reported(fixture: Fixture) {
        let store = fixture.open().await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let batches = Arc::clone(&seen);
        store.observe_batches(move |writer, rows| batches.lock().unwrap().push((writer, rows)));
        store.retention().set_rule(&"journal=30d:delete".parse().unwrap()).await.unwrap();
        let day = 24 * 3600 * 1_000_000;
        let old = Event { at: satiety_store::now_micros() - 40 * day, ..Event::now("test", "x", json!({})) };
        store.journal().append_all(vec![old, Event::now("test", "y", json!({}))]).await.unwrap();
        let facts = store.fleet_facts().await.unwrap();
        let retention = facts.rows.unwrap().retention;
        assert_eq!(retention.overdue.len(), 1, "{retention:?}");
        assert!((retention.overdue[0].1 - 10.0).abs() < 0.1, "{retention:?}");
        assert_eq!(*seen.lock().unwrap(), [("journal", 2)]);
        let usage = store.pool_usage();
        assert!(usage.iter().all(|usage| usage.in_use + usage.idle <= usage.most), "{usage:?}");
        assert!(usage.iter().any(|usage| usage.idle > 0), "{usage:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_partitions_and_transactions_of_postgres_are_found() {
    if std::env::var("SATIETY_TEST_POSTGRES").is_err() {
        println!("skipped: SATIETY_TEST_POSTGRES is not set");
        return;
    }
    let cluster = Cluster::start(Options::default()).unwrap();
    let url = cluster.create_database("satiety").unwrap();
    let store = Store::open(&url.parse().unwrap()).await.unwrap();
    cluster
        .sql(
            "satiety",
            "CREATE TABLE parts (at BIGINT NOT NULL) PARTITION BY RANGE (at);
             CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (1000);
             CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (1000) TO (2000);
             CREATE TABLE parts_default PARTITION OF parts DEFAULT;
             INSERT INTO parts VALUES (1), (5000), (6000); ANALYZE parts_default",
        )
        .unwrap();
    let replica = cluster.replica().unwrap();
    let pool = sqlx::PgPool::connect(&url).await.unwrap();
    let open = pool.begin().await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let facts = store.fleet_facts().await.unwrap();
    assert!(facts.unknown.is_empty(), "{facts:?}");
    let postgres = facts.postgres.unwrap();
    assert_eq!(postgres.pooling, Some(Pooling::Session));
    assert!(!postgres.is_replica);
    let (used, most) = postgres.connections.unwrap();
    assert!(used >= 2 && most == 97, "{used} of {most}");
    // The largest table has daily partitions for a week, each with at least four indexes.
    let locks = postgres.locks.as_ref().unwrap();
    assert!(locks.relations > 40 && locks.per_connection == 64, "{locks:?}");
    let parts = postgres
        .partitions
        .iter()
        .find(|found| found.table == "parts")
        .unwrap();
    assert_eq!(
        (parts.count, parts.ends_at, parts.default_rows),
        (2, Some(2000), 2)
    );
    assert_eq!(parts.default_partition.as_deref(), Some("parts_default"));
    assert_eq!(postgres.replicas.len(), 1, "{postgres:?}");
    assert_eq!(postgres.replicas[0].state, "streaming");
    assert!(postgres.longest_transaction.unwrap().seconds >= 0.4);
    assert_eq!(store.replication_lag().await.unwrap().len(), 1);
    open.rollback().await.unwrap();
    // The replica itself is recognized.
    let read = Store::open_with(&replica.url("satiety").parse().unwrap(), Migrate::Never)
        .await
        .unwrap();
    assert!(read.fleet_facts().await.unwrap().postgres.unwrap().is_replica);
    read.close().await;
    store.close().await;
}
