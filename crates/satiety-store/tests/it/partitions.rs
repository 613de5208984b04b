//! Time partitions on PostgreSQL: an existing database is partitioned while it is in use, whole periods are dropped,
//! and pages do not scan tables.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use satiety_store::journal::Event;
use satiety_store::retention::Rule;
use satiety_store::{LoggedQuery, Migrate, Store, StoreOptions, StoreUrl, now_micros};
use serde_json::json;
use sqlx::Row as _;
use xtask::postgres::{Cluster, Options};

use crate::conformance::{conversation, eval_query};
use crate::migrations::raw;
use crate::support::Fixture;

const DAY: i64 = 86_400_000_000;

/// Rows that a database of version 21 gets in each table that is partitioned later.
const ROWS: i64 = 3000;

/// Fills a database of version 21 by SQL, as its own version would have.
async fn fill_old(url: &str) {
    let now = now_micros();
    for statement in [
        format!(
            "INSERT INTO journal SELECT 'evt-old-' || n, {now} - n::bigint * 1000000, 'test.old', 's' || n % 7, '{{}}'
             FROM generate_series(1, {ROWS}) n"
        ),
        format!(
            "INSERT INTO eval_queries SELECT 'eq-old-' || n, 'query ' || n, NULL, NULL, 'session-' || n % 50, 'search', '[]',
             0, '{{}}', 1.5, NULL, NULL, NULL, {now} - n::bigint * 1000000, n % 100 = 0, NULL, '{{}}' FROM generate_series(1, {ROWS}) n"
        ),
        format!(
            "INSERT INTO bench_runs VALUES ('run-old', 'suite', 'hash', 'target', {now}, NULL, '{{}}', NULL, NULL)"
        ),
        format!(
            "INSERT INTO bench_results SELECT 'run-old', 'case-' || n, '', 0, 'pass', 1.0, 2.0, 3, NULL, '{{}}'
             FROM generate_series(1, {ROWS}) n"
        ),
        format!(
            "INSERT INTO conversations VALUES ('conv-old', 't', 'p', NULL, 'CONTINUE', NULL, '{{}}', {now}, {now})"
        ),
        format!(
            "INSERT INTO rounds SELECT 'conv-old', n, NULL, 'CONTINUE', NULL, NULL, '{{}}' FROM generate_series(1, {ROWS}) n"
        ),
        format!(
            "INSERT INTO agent_runs VALUES ('agent-old', 'work', 'CONTINUE', 'r', {ROWS}, 0, 0, NULL, NULL, {now}, {now})"
        ),
        format!("INSERT INTO agent_messages SELECT 'agent-old', n, '{{}}' FROM generate_series(1, {ROWS}) n"),
        format!(
            "INSERT INTO eval_shadow_runs SELECT 'shadow-old-' || n, 'eq-old-' || n, 'feature', 'control', '[]', '[]', NULL,
             NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'open', NULL, NULL, '{{}}', {now} - n::bigint * 1000000
             FROM generate_series(1, {ROWS}) n"
        ),
    ] {
        raw(url, &statement).await;
    }
}

async fn assert_old_rows(store: &Store) {
    assert_eq!(
        store.journal().latest("test.old", 9999).await.unwrap().len(),
        usize::try_from(ROWS).unwrap()
    );
    assert_eq!(
        store.bench().result_counts("run-old").await.unwrap(),
        [("pass".to_owned(), ROWS)]
    );
    assert_eq!(
        store.conversations().state("conv-old").await.unwrap().unwrap().1,
        ROWS
    );
    assert_eq!(
        store.agent_runs().messages("agent-old").await.unwrap().len(),
        usize::try_from(ROWS).unwrap()
    );
    assert_eq!(
        store.experiments().count_shadow_runs("feature").await.unwrap()[0],
        u64::try_from(ROWS).unwrap()
    );
    assert_eq!(store.evaluation().corpus(None, 9999).await.unwrap().len(), 30);
    let status = store.status().await.unwrap();
    let queries = status
        .tables
        .iter()
        .find(|table| table.name == "eval_queries")
        .unwrap();
    assert_eq!(queries.rows, ROWS);
}

/// Writes journal events and results as version 21 does, until it is told to stop or the database has a later layout.
/// Returns the acknowledged events.
async fn write_like_version_21(url: String, running: Arc<AtomicBool>) -> BTreeSet<String> {
    let pool = sqlx::PgPool::connect(&url).await.unwrap();
    let mut acknowledged = BTreeSet::new();
    let mut number = 0;
    while running.load(Ordering::Relaxed) {
        number += 1;
        let id = format!("evt-live-{number}");
        let insert =
            "INSERT INTO journal (id, at, kind, subject, body) VALUES ($1, $2, 'test.live', 's', '{}')
                      ON CONFLICT (id) DO NOTHING";
        let done = sqlx::query(insert)
            .bind(&id)
            .bind(now_micros())
            .execute(&pool)
            .await;
        match done {
            Ok(_) => drop(acknowledged.insert(id)),
            // "There is no unique constraint matching the ON CONFLICT specification": it fails and changes nothing.
            Err(error) => {
                let code = error
                    .as_database_error()
                    .and_then(|error| error.code().map(Into::into));
                let code: Option<String> = code;
                assert!(
                    matches!(code.as_deref(), Some("42P10" | "0A000" | "40P01")),
                    "{error}"
                );
                if code.as_deref() != Some("40P01") {
                    break;
                }
            }
        }
    }
    pool.close().await;
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_in_use_is_partitioned_without_losing_rows() {
    let Some(fixture) = Fixture::postgres().await else {
        return;
    };
    Store::open_with(&fixture.url, Migrate::UpTo(21))
        .await
        .unwrap()
        .close()
        .await;
    fill_old(&fixture.url_text).await;
    let running = Arc::new(AtomicBool::new(true));
    let writers: Vec<_> = (0..1)
        .map(|_| {
            tokio::spawn(write_like_version_21(
                fixture.url_text.clone(),
                Arc::clone(&running),
            ))
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let store = fixture.open().await;
    running.store(false, Ordering::Relaxed);
    for writer in writers {
        let acknowledged = writer.await.unwrap();
        let stored = store.journal().latest("test.live", i64::MAX).await.unwrap();
        let stored: BTreeSet<String> = stored.into_iter().map(|event| event.id).collect();
        println!("{} events were acknowledged meanwhile", acknowledged.len());
        assert!(!acknowledged.is_empty());
        assert!(acknowledged.is_subset(&stored));
    }
    assert_old_rows(&store).await;
    // Indexes were attached, not built again under the lock: each has the name it was built with.
    let pool = sqlx::PgPool::connect(&fixture.url_text).await.unwrap();
    let names = sqlx::query("SELECT indexname::text FROM pg_indexes WHERE tablename LIKE '%\\_before'")
        .fetch_all(&pool)
        .await
        .unwrap();
    for row in names {
        let name: String = row.get(0);
        assert!(
            name.ends_with("_before"),
            "{name} was built while the table was locked"
        );
    }
    // Writes of the version before fail, because later readers would not find their rows.
    for insert in [
        "INSERT INTO rounds (conversation_id, position, signal, body) VALUES ('conv-old', 9999, 'CONTINUE', '{}')",
        "INSERT INTO agent_messages (run_id, position, body) VALUES ('agent-old', 9999, '{}')",
    ] {
        let error = sqlx::query(insert).execute(&pool).await.unwrap_err();
        assert!(
            error
                .to_string()
                .contains("null value in column \"partition_at\""),
            "{error}"
        );
    }
    // New rows of old parents go next to the rows of the same parent; a repeated one is recognized.
    let (row, rounds) = conversation("conv-new", 3);
    store.conversations().put(&row, &rounds).await.unwrap();
    store.conversations().put(&row, &rounds).await.unwrap();
    assert_eq!(
        store.conversations().state("conv-new").await.unwrap().unwrap().1,
        3
    );
    let fleet = store.fleet_status().await.unwrap();
    assert_eq!(fleet.partitions.len(), 6);
    for table in &fleet.partitions {
        assert!(table.partitions >= 3 && table.default_rows == 0, "{table:?}");
        assert!(table.days_ahead.unwrap() >= 5, "{table:?}");
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_conversion_continues_from_every_step() {
    let Some(fixture) = Fixture::postgres().await else {
        return;
    };
    Store::open_with(&fixture.url, Migrate::UpTo(21))
        .await
        .unwrap()
        .close()
        .await;
    fill_old(&fixture.url_text).await;
    // Fails the n-th change of the schema; a sequence counts also what is rolled back.
    for statement in [
        "CREATE SEQUENCE ddl_count",
        "CREATE TABLE ddl_limit (most BIGINT)",
        "INSERT INTO ddl_limit VALUES (0)",
        "CREATE FUNCTION stop_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
             IF nextval('ddl_count') > (SELECT most FROM ddl_limit) THEN RAISE EXCEPTION 'power cut'; END IF; END $$",
        "CREATE EVENT TRIGGER stop_ddl ON ddl_command_end EXECUTE FUNCTION stop_ddl()",
    ] {
        raw(&fixture.url_text, statement).await;
    }
    let mut interruptions = 0;
    let store = loop {
        // Each attempt gets a little further than what is done already needs, never to the end at once.
        raw(
            &fixture.url_text,
            &format!(
                "UPDATE ddl_limit SET most = (SELECT last_value FROM ddl_count) + {}",
                1 + interruptions / 2
            ),
        )
        .await;
        match Store::open(&fixture.url).await {
            Ok(store) => break store,
            Err(error) => {
                assert!(error.to_string().contains("power cut"), "{error}");
                interruptions += 1;
            }
        }
        assert!(interruptions < 300, "the conversion makes no progress");
    };
    println!("continued after {interruptions} interruptions");
    assert!(interruptions > 10);
    assert_old_rows(&store).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_conversion_is_continued_by_another_process() {
    let Some(fixture) = Fixture::postgres().await else {
        return;
    };
    Store::open_with(&fixture.url, Migrate::UpTo(21))
        .await
        .unwrap()
        .close()
        .await;
    fill_old(&fixture.url_text).await;
    for pause in [30, 120, 250] {
        let mut child = crate::durability::start_writer(&fixture.url_text, "killed", Some(0));
        tokio::time::sleep(Duration::from_millis(pause)).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let store = fixture.open().await;
    assert_old_rows(&store).await;
    store.close().await;
}

/// A logged query at a time, with an id as the product makes them.
fn logged(at: i64, corpus: bool) -> LoggedQuery {
    let millis = u64::try_from(at / 1000).unwrap();
    let random = uuid::Uuid::now_v7().simple().to_string();
    let mut row = eval_query(&format!("eq-{millis:012x}7{}", &random[13..]), corpus);
    row.session_id = Some("s".into());
    LoggedQuery {
        row,
        at,
        events: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_periods_are_dropped_and_corpus_queries_stay() {
    let Some(fixture) = Fixture::postgres().await else {
        return;
    };
    let store = fixture.open().await;
    let now = now_micros();
    let queries: Vec<_> = (0..40).map(|n| logged(now + n % 4 * DAY, false)).collect();
    for query in &queries {
        store.query_log().append(query.clone()).await;
    }
    store.query_log().flush().await;
    // One of the first day becomes part of the query set: it moves to the first partition.
    let marked = &queries[0].row.query_id;
    let mark = satiety_store::golden::CorpusMark {
        query_id: marked.clone(),
        category: "c".into(),
        detail: json!({}),
    };
    store.evaluation().mark_corpus(&[mark]).await.unwrap();
    assert_eq!(
        store.evaluation().corpus(None, 9).await.unwrap()[0].0.query_id,
        *marked
    );
    assert!(store.evaluation().logged_query(marked).await.unwrap().is_some());
    // Writing the corpus again replaces the row, wherever it is.
    let again = &queries[4].row;
    let mut corpus = again.clone();
    corpus.is_eval_corpus = true;
    store.evaluation().put_corpus(&[corpus], &[]).await.unwrap();
    assert_eq!(
        store.evaluation().logged_queries(None, 999).await.unwrap().len(),
        40
    );

    let folder = fixture.folder.path();
    for (rule, archived) in [
        ("eval_queries=1d:delete", false),
        ("eval_queries=1d:archive", true),
    ] {
        store
            .retention()
            .set_rule(&rule.parse::<Rule>().unwrap())
            .await
            .unwrap();
        // After the first, and after the second day is past its retention time.
        let later = now + if archived { 3 * DAY } else { 2 * DAY };
        let before = store.fleet_status().await.unwrap().partitions[1].partitions;
        let started = Instant::now();
        let done = store.retention().apply(later, folder, false).await.unwrap();
        println!("retention took {:?}", started.elapsed());
        let outcome = done
            .outcomes
            .iter()
            .find(|o| o.rule.subject == "eval_queries")
            .unwrap();
        assert_eq!(outcome.rows, if archived { 10 } else { 8 });
        assert_eq!(outcome.archive.is_some(), archived);
        if let Some(path) = &outcome.archive {
            assert_eq!(fs_err::read_to_string(path).unwrap().lines().count(), 10);
        }
        let after = store.fleet_status().await.unwrap().partitions[1].partitions;
        assert_eq!(after, before - 1, "one partition is dropped");
    }
    assert_eq!(store.evaluation().corpus(None, 9).await.unwrap().len(), 2);
    assert_eq!(
        store.evaluation().logged_queries(None, 999).await.unwrap().len(),
        22
    );
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_of_expired_runs_are_dropped_with_their_period() {
    let Some(fixture) = Fixture::postgres().await else {
        return;
    };
    let store = fixture.open().await;
    let now = now_micros();
    let (row, rounds) = conversation("c", 3);
    store.conversations().put(&row, &rounds).await.unwrap();
    store
        .retention()
        .set_rule(&"conversations=1d:delete".parse::<Rule>().unwrap())
        .await
        .unwrap();
    // The period of 28 days has not passed: rows are deleted, the partition stays.
    store
        .retention()
        .apply(now + 3 * DAY, fixture.folder.path(), false)
        .await
        .unwrap();
    assert!(store.conversations().get("c").await.unwrap().is_none());
    store.conversations().put(&row, &rounds).await.unwrap();
    let before = store.fleet_status().await.unwrap().partitions[4].clone();
    assert_eq!(before.table, "rounds");
    store
        .retention()
        .apply(now + 60 * DAY, fixture.folder.path(), false)
        .await
        .unwrap();
    assert!(store.conversations().get("c").await.unwrap().is_none());
    let after = store.fleet_status().await.unwrap().partitions[4].clone();
    assert!(after.partitions < before.partitions, "{before:?} {after:?}");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rounds_stay_if_their_conversation_goes_on_while_retention_runs() {
    let Some(fixture) = Fixture::postgres().await else {
        return;
    };
    let store = fixture.open().await;
    let (row, rounds) = conversation("c", 3);
    store.conversations().put(&row, &rounds).await.unwrap();
    store
        .retention()
        .set_rule(&"conversations=1d:delete".parse::<Rule>().unwrap())
        .await
        .unwrap();
    // A writer changes the conversation, and commits after retention has looked for young rows.
    let later = now_micros() + 60 * DAY;
    let pool = sqlx::PgPool::connect(&fixture.url_text).await.unwrap();
    let mut writer = pool.begin().await.unwrap();
    let update = format!("UPDATE conversations SET updated_at = {later}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(update))
        .execute(&mut *writer)
        .await
        .unwrap();
    let (retaining, folder) = (store.clone(), fixture.folder.path().to_owned());
    let retention = tokio::spawn(async move { retaining.retention().apply(later, &folder, false).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    writer.commit().await.unwrap();
    retention.await.unwrap().unwrap();
    assert_eq!(store.conversations().state("c").await.unwrap().unwrap().1, 3);
    pool.close().await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_without_a_partition_are_kept_and_move_when_it_is_made() {
    let Some(fixture) = Fixture::postgres().await else {
        return;
    };
    let store = fixture.open().await;
    let ends_at = store.fleet_status().await.unwrap().partitions[0].ends_at.unwrap();
    let mut event = Event::now("test.event", "future", json!(1));
    event.at = ends_at + 5;
    store.journal().append(event).await.unwrap();
    assert_eq!(store.fleet_status().await.unwrap().partitions[0].default_rows, 1);
    // As if time had passed: without the last partitions, more are made.
    let pool = sqlx::PgPool::connect(&fixture.url_text).await.unwrap();
    let names = sqlx::query(
        "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'eval_queries'::regclass AND c.relname LIKE '%\\_p2%' ORDER BY 1 DESC LIMIT 6",
    )
    .fetch_all(&pool)
    .await
    .unwrap();
    for row in names {
        raw(
            &fixture.url_text,
            &format!("DROP TABLE {}", row.get::<String, _>(0)),
        )
        .await;
    }
    let mut query = logged(now_micros() + 4 * DAY, false);
    query.at = now_micros();
    store.query_log().append(query).await;
    store.query_log().flush().await;
    assert_eq!(store.fleet_status().await.unwrap().partitions[1].default_rows, 1);
    store.make_partitions().await.unwrap();
    let fleet = store.fleet_status().await.unwrap();
    assert_eq!(fleet.partitions[1].default_rows, 0);
    assert!(fleet.partitions[1].days_ahead.unwrap() >= 5);
    assert_eq!(store.evaluation().logged_queries(None, 9).await.unwrap().len(), 1);
    store.close().await;
}

#[tokio::test]
async fn slow_statements_are_reported_without_their_values() {
    let fixture = Fixture::sqlite();
    let options = StoreOptions {
        slow_query: Some(Duration::from_nanos(1)),
        ..StoreOptions::default()
    };
    let store = Store::open_configured(&fixture.url, Migrate::ToLatest, &options)
        .await
        .unwrap();
    let slow = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&slow);
    store.observe(move |operation, _| {
        if operation == satiety_store::Operation::SlowStatement {
            seen.store(true, Ordering::Relaxed);
        }
    });
    store.ping().await.unwrap();
    assert!(slow.load(Ordering::Relaxed));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_is_down_is_replaced_by_the_primary() {
    let Some(fixture) = Fixture::postgres().await else {
        return;
    };
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let options = StoreOptions {
        read_url: Some(format!("postgres://u:p@127.0.0.1:{free}/d").parse().unwrap()),
        ..StoreOptions::default()
    };
    let store = Store::open_configured(&fixture.url, Migrate::ToLatest, &options)
        .await
        .unwrap();
    store
        .journal()
        .append(Event::now("test.event", "s", json!(1)))
        .await
        .unwrap();
    let reader = store.for_reading();
    let started = Instant::now();
    assert_eq!(reader.journal().latest("test.event", 9).await.unwrap().len(), 1);
    assert_eq!(reader.journal().latest("test.event", 9).await.unwrap().len(), 1);
    assert!(started.elapsed() < Duration::from_secs(8));
    let replica = store.fleet_status().await.unwrap().replica.unwrap();
    assert!(
        replica.problem.is_some() && replica.lag_seconds.is_none(),
        "{replica:?}"
    );
    assert!(!replica.place.contains(":p@"), "{replica:?}");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_read_from_the_replica_and_survive_its_loss() {
    if std::env::var("SATIETY_TEST_POSTGRES").is_err() {
        println!("skipped: SATIETY_TEST_POSTGRES is not set");
        return;
    }
    let primary = Cluster::start(Options::default()).unwrap();
    let url: StoreUrl = primary.create_database("fleet").unwrap().parse().unwrap();
    Store::open(&url).await.unwrap().close().await;
    let replica = primary.start_replica().unwrap();
    let options = StoreOptions {
        read_url: Some(replica.url("fleet").parse().unwrap()),
        ..StoreOptions::default()
    };
    let store = Store::open_configured(&url, Migrate::ToLatest, &options)
        .await
        .unwrap();
    store
        .journal()
        .append(Event::now("test.event", "s", json!(1)))
        .await
        .unwrap();
    let reader = store.for_reading();
    let until = Instant::now() + Duration::from_secs(20);
    while reader.journal().latest("test.event", 9).await.unwrap().is_empty() {
        assert!(Instant::now() < until, "the replica does not follow");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let status = store.fleet_status().await.unwrap().replica.unwrap();
    assert!(
        status.problem.is_none() && status.lag_seconds.is_some(),
        "{status:?}"
    );
    // The primary sees no reads of lists: they are on the replica.
    let reads =
        "SELECT sum(seq_scan + coalesce(idx_scan, 0)) FROM pg_stat_user_tables WHERE relname LIKE 'journal%'";
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let before = primary.sql("fleet", reads).unwrap();
    for _ in 0..20 {
        reader.journal().latest("test.event", 9).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(primary.sql("fleet", reads).unwrap(), before);
    drop(replica);
    assert_eq!(reader.journal().latest("test.event", 9).await.unwrap().len(), 1);
    let mut exported = Vec::new();
    reader.export(&mut exported).await.unwrap();
    assert!(
        store
            .fleet_status()
            .await
            .unwrap()
            .replica
            .unwrap()
            .problem
            .is_some()
    );
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_read_from_the_primary_while_the_replica_is_far_behind() {
    if std::env::var("SATIETY_TEST_POSTGRES").is_err() {
        println!("skipped: SATIETY_TEST_POSTGRES is not set");
        return;
    }
    let primary = Cluster::start(Options::default()).unwrap();
    let url: StoreUrl = primary.create_database("fleet").unwrap().parse().unwrap();
    Store::open(&url).await.unwrap().close().await;
    let replica = primary.start_replica().unwrap();
    let options = StoreOptions {
        read_url: Some(replica.url("fleet").parse().unwrap()),
        max_replica_lag: Duration::from_secs(1),
        ..StoreOptions::default()
    };
    let store = Store::open_configured(&url, Migrate::ToLatest, &options)
        .await
        .unwrap();
    let reader = store.for_reading();
    let status = async || store.fleet_status().await.unwrap().replica.unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    while status().await.problem.is_some() {
        assert!(Instant::now() < until, "{:?}", status().await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let append = async |kind: &str| {
        let event = Event::now(kind, "s", json!(1));
        store.journal().append(event).await.unwrap();
    };
    // A replica knows its lag after the first transaction that it has replayed.
    append("test.first").await;
    while reader.journal().latest("test.first", 9).await.unwrap().is_empty() {
        assert!(Instant::now() < until, "{:?}", status().await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    replica.sql("fleet", "SELECT pg_wal_replay_pause()").unwrap();
    append("test.event").await;
    // The replica answers, but it will not get the event.
    while reader.journal().latest("test.event", 9).await.unwrap().is_empty() {
        assert!(Instant::now() < until, "{:?}", status().await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let late = status().await;
    assert!(late.lag_seconds.unwrap() > 1.0, "{late:?}");
    assert!(late.problem.unwrap().contains("s behind, more than 1 s"));
    replica.sql("fleet", "SELECT pg_wal_replay_resume()").unwrap();
    while status().await.problem.is_some() {
        assert!(Instant::now() < until, "{:?}", status().await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    store.close().await;
}
