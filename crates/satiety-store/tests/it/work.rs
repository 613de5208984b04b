//! Queued cases: leased by one worker, stored once, returned; and tasks that one process does for all.

use std::collections::BTreeSet;
use std::time::Duration;

use satiety::bench::queue::{Priority, longest_wait};
use satiety_store::Store;
use satiety_store::bench::{BenchResultRow, Lease, LeaseHolder, ResultKey, StoredOutcome, WorkDepth};
use serde_json::json;
use sqlx::Row as _;

use crate::conformance::{bench_result, bench_run};
use crate::support::on_both_engines;

const LONG: Duration = Duration::from_mins(10);
const SHORT: Duration = Duration::from_millis(150);

fn holder(id: &str, lease: Duration) -> LeaseHolder<'_> {
    LeaseHolder {
        id,
        name: "host \0 1",
        lease,
    }
}

fn cases(count: usize) -> Vec<ResultKey> {
    (0..count)
        .map(|number| ResultKey {
            case_id: format!("case-{number:03}"),
            variant: String::new(),
            repeat: 0,
        })
        .collect()
}

fn result_of(taken: &Lease, status: &str) -> StoredOutcome {
    StoredOutcome {
        position: taken.position,
        takes: taken.takes,
        row: BenchResultRow {
            key: taken.key.clone(),
            status: status.into(),
            ..bench_result("x", 0)
        },
    }
}

async fn enqueue(store: &Store, run_id: &str, count: usize) -> bool {
    let plan = json!({"suite": "suites/a"});
    store
        .bench()
        .enqueue_run(&bench_run(run_id), &plan, &cases(count), None)
        .await
        .unwrap()
}

/// Adds rows to the tables of queued work and of one-time tasks.
pub(crate) async fn fill(store: &Store) {
    assert!(enqueue(store, "run-spread", 3).await);
    store
        .bench()
        .take_work(&["run-spread"], &holder("h", LONG), 1)
        .await
        .unwrap();
    let turn = store
        .maintenance()
        .acquire_turn("retention \0", LONG, LONG)
        .await
        .unwrap()
        .unwrap();
    turn.done().await.unwrap();
    assert!(
        store
            .maintenance()
            .claim_notice("bench.alert/run \0", "me \0")
            .await
            .unwrap()
    );
}

on_both_engines! {
    async fn a_case_is_leased_by_one_worker_and_stored_once(fixture: Fixture) {
        let store = fixture.open().await;
        assert!(enqueue(&store, "run-1", 5).await);
        assert!(!enqueue(&store, "run-1", 5).await, "the run is already open");
        let taken = store.bench().take_work(&["run-1"], &holder("a", LONG), 2).await.unwrap();
        assert_eq!(taken.iter().map(|taken| taken.key.case_id.as_str()).collect::<Vec<_>>(), ["case-000", "case-001"]);
        assert!(taken.iter().all(|taken| taken.takes == 1));
        let others = store.bench().take_work(&["run-1"], &holder("b", LONG), 10).await.unwrap();
        assert_eq!(others.len(), 3);
        assert!(store.bench().take_work(&["run-1"], &holder("c", LONG), 10).await.unwrap().is_empty());
        assert_eq!(store.bench().work_depth().await.unwrap(), WorkDepth { waiting: 0, taken: 5 });

        // A worker cannot submit a case that another one holds, or an outdated attempt.
        let foreign = store.bench().settle_work("run-1", "b", &[result_of(&taken[0], "fail")]).await.unwrap();
        assert_eq!((foreign.kept, foreign.left), (vec![], true));
        let late = StoredOutcome { takes: 2, ..result_of(&taken[0], "fail") };
        assert!(store.bench().settle_work("run-1", "a", &[late]).await.unwrap().kept.is_empty());
        let both: Vec<StoredOutcome> = taken.iter().map(|taken| result_of(taken, "pass")).collect();
        assert_eq!(store.bench().settle_work("run-1", "a", &both).await.unwrap().kept, [0, 1]);
        assert!(store.bench().settle_work("run-1", "a", &both).await.unwrap().kept.is_empty());
        let rest: Vec<StoredOutcome> = others.iter().map(|taken| result_of(taken, "pass")).collect();
        let settled = store.bench().settle_work("run-1", "b", &rest).await.unwrap();
        assert_eq!((settled.kept, settled.left), (vec![2, 3, 4], false));
        assert_eq!(store.bench().result_counts("run-1").await.unwrap(), [("pass".to_owned(), 5)]);
        let open = store.bench().open_runs().await.unwrap();
        assert!(open.len() == 1 && !open[0].left && !open[0].ready, "{open:?}");
    }
}

on_both_engines! {
    async fn expired_leases_are_lost_and_renewed_ones_stay(fixture: Fixture) {
        let store = fixture.open().await;
        enqueue(&store, "run-1", 2).await;
        let silent = store.bench().take_work(&["run-1"], &holder("silent", SHORT), 1).await.unwrap();
        let alive = store.bench().take_work(&["run-1"], &holder("alive", SHORT), 1).await.unwrap();
        let held = [("run-1".to_owned(), alive[0].position)];
        for _ in 0..6 {
            tokio::time::sleep(SHORT / 3).await;
            assert_eq!(store.bench().extend_work(&holder("alive", LONG), &held).await.unwrap(), 1);
        }
        assert_eq!(store.bench().extend_work(&holder("other", LONG), &held).await.unwrap(), 0);
        let again = store.bench().take_work(&["run-1"], &holder("next", LONG), 10).await.unwrap();
        assert_eq!(again.len(), 1);
        assert_eq!((again[0].position, again[0].takes), (silent[0].position, 2));
        // The silent worker returns with an answer: the case has another owner now.
        assert!(store.bench().settle_work("run-1", "silent", &[result_of(&silent[0], "fail")]).await.unwrap().kept.is_empty());
        assert_eq!(store.bench().settle_work("run-1", "next", &[result_of(&again[0], "pass")]).await.unwrap().kept, [again[0].position]);
        assert_eq!(store.bench().result_counts("run-1").await.unwrap(), [("pass".to_owned(), 1)]);
    }
}

on_both_engines! {
    async fn returned_cases_do_not_count_as_attempts(fixture: Fixture) {
        let store = fixture.open().await;
        enqueue(&store, "run-1", 3).await;
        store.bench().take_work(&["run-1"], &holder("a", LONG), 2).await.unwrap();
        assert_eq!(store.bench().work_left("run-1").await.unwrap(), WorkDepth { waiting: 1, taken: 2 });
        assert_eq!(store.bench().release_work("a", None).await.unwrap(), 2);
        assert_eq!(store.bench().release_work("a", None).await.unwrap(), 0);
        let taken = store.bench().take_work(&["run-1"], &holder("b", LONG), 9).await.unwrap();
        assert_eq!(taken.iter().map(|taken| (taken.position, taken.takes)).collect::<Vec<_>>(), [(0, 1), (1, 1), (2, 1)]);
    }
}

on_both_engines! {
    async fn closed_runs_are_skipped_and_can_be_reopened(fixture: Fixture) {
        let store = fixture.open().await;
        enqueue(&store, "run-1", 3).await;
        let taken = store.bench().take_work(&["run-1"], &holder("a", LONG), 1).await.unwrap();
        assert_eq!(store.bench().close_plan("run-1").await.unwrap(), Some(3));
        assert_eq!(store.bench().close_plan("run-1").await.unwrap(), None);
        assert!(store.bench().settle_work("run-1", "a", &[result_of(&taken[0], "pass")]).await.unwrap().kept.is_empty());
        assert!(store.bench().open_runs().await.unwrap().is_empty());
        assert!(store.bench().plan("run-1").await.unwrap().unwrap().closed_at.is_some());
        assert!(enqueue(&store, "run-1", 2).await);
        assert_eq!(store.bench().work_depth().await.unwrap(), WorkDepth { waiting: 2, taken: 0 });
        store.bench().close_plan("run-1").await.unwrap();
        // A complete run stays closed, and keeps its first end.
        store.bench().complete_distributed_run("run-1", &json!({"a": 1}), Some(0.5)).await.unwrap();
        let first = store.bench().run("run-1").await.unwrap().unwrap();
        store.bench().complete_distributed_run("run-1", &json!({"a": 2}), None).await.unwrap();
        assert_eq!(store.bench().run("run-1").await.unwrap().unwrap(), first);
        assert!(!enqueue(&store, "run-1", 2).await);
        assert_eq!(store.bench().plan("none").await.unwrap(), None);
    }
}

on_both_engines! {
    async fn concurrent_workers_get_distinct_cases(fixture: Fixture) {
        let store = fixture.open().await;
        enqueue(&store, "run-1", 300).await;
        let tasks: Vec<_> = (0..6)
            .map(|number| {
                let url = fixture.url.clone();
                tokio::spawn(async move {
                    // Each with its own connections, like separate processes.
                    let store = Store::open(&url).await.unwrap();
                    let (id, mut kept) = (format!("h{number}"), Vec::new());
                    loop {
                        let taken = store.bench().take_work(&["run-1"], &holder(&id, LONG), 7).await.unwrap();
                        assert!(taken.len() <= 7);
                        if taken.is_empty() {
                            return kept;
                        }
                        let results: Vec<StoredOutcome> = taken.iter().map(|taken| result_of(taken, "pass")).collect();
                        kept.extend(store.bench().settle_work("run-1", &id, &results).await.unwrap().kept);
                    }
                })
            })
            .collect();
        let (mut all, mut count) = (BTreeSet::new(), 0);
        for task in tasks {
            let kept = task.await.unwrap();
            count += kept.len();
            all.extend(kept);
        }
        assert_eq!((count, all.len()), (300, 300));
        assert_eq!(store.bench().result_counts("run-1").await.unwrap(), [("pass".to_owned(), 300)]);
    }
}

on_both_engines! {
    async fn runs_share_the_workers_by_priority_and_none_starves(fixture: Fixture) {
        let store = fixture.open().await;
        let priorities = [Priority::High, Priority::Normal, Priority::Normal, Priority::Low];
        let ids = ["run-0", "run-1", "run-2", "run-3"];
        let plan = json!({"suite": "suites/a"});
        for (id, priority) in ids.iter().zip(priorities) {
            let cases = cases(120);
            assert!(store.bench().enqueue_run(&bench_run(id), &plan, &cases, Some(priority)).await.unwrap());
        }
        let (mut taken, mut waited, mut left) = ([0_u64; 4], [0_u64; 4], [120_u64; 4]);
        let late = ["run-0", "run-1", "run-2", "run-3", "run-4"];
        for claim in 0..250 {
            // A run that arrives late neither waits behind the others nor overtakes them all.
            if claim == 100 {
                assert!(enqueue(&store, "run-4", 5).await);
            }
            let got = store.bench().take_work(&late, &holder("a", LONG), 1).await.unwrap();
            assert_eq!(got.len(), 1);
            let at = late.iter().position(|id| *id == got[0].run_id).unwrap();
            if at == 4 {
                assert!((100..100 + 5 * 12).contains(&claim), "the late run is served at claim {claim}");
                continue;
            }
            (taken[at], left[at], waited[at]) = (taken[at] + 1, left[at] - 1, 0);
            for other in (0..4).filter(|other| *other != at && left[*other] > 0) {
                waited[other] += 1;
                let mut others = priorities.to_vec();
                others[other] = Priority::Normal;
                assert!(waited[other] <= longest_wait(priorities[other], &others), "{other} at claim {claim}");
            }
        }
        // 16 : 4 : 4 : 1 until the first run has no case left.
        assert_eq!(left[0], 0);
        assert!(taken[1].abs_diff(taken[2]) <= 1 && taken[3] >= 10 && taken[3] < taken[1], "{taken:?}");
        let queued = store.bench().queued_runs(10).await.unwrap();
        assert_eq!(queued.iter().map(|run| run.waiting).sum::<i64>(), 485 - 250);
        assert!(queued.iter().all(|run| run.age >= 0 && run.taken > 0));
        assert!(store.bench().oldest_waiting().await.unwrap().is_some_and(|age| age >= 0));
        // The priority of an open run can be changed.
        assert!(!store.bench().enqueue_run(&bench_run("run-3"), &plan, &cases(1), Some(Priority::High)).await.unwrap());
        let run = store.bench().queued_runs(10).await.unwrap().into_iter().find(|run| run.run_id == "run-3").unwrap();
        assert_eq!((run.weight, run.waiting), (16, i64::try_from(left[3]).unwrap()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_takes_cases_of_the_next_run_while_others_take_all_of_the_first() {
    let Some(fixture) = crate::support::Fixture::postgres().await else {
        return;
    };
    let store = fixture.open().await;
    for id in ["run-0", "run-1", "run-2"] {
        enqueue(&store, id, 2).await;
    }
    // Another worker's transaction that has not committed yet.
    let pool = sqlx::PgPool::connect(&fixture.url_text).await.unwrap();
    let mut other = pool.begin().await.unwrap();
    sqlx::raw_sql("SELECT position FROM bench_work WHERE run_id = 'run-0' FOR UPDATE")
        .execute(&mut *other)
        .await
        .unwrap();
    let runs = ["run-0", "run-1", "run-2"];
    let taken = store
        .bench()
        .take_work(&runs, &holder("a", LONG), 1)
        .await
        .unwrap();
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].run_id, "run-1");
    let none = store
        .bench()
        .take_work(&["run-0"], &holder("a", LONG), 1)
        .await
        .unwrap();
    assert!(none.is_empty());
    other.rollback().await.unwrap();
    pool.close().await;
    let taken = store
        .bench()
        .take_work(&runs, &holder("a", LONG), 1)
        .await
        .unwrap();
    assert_eq!(taken[0].run_id, "run-0");
    store.close().await;
}

on_both_engines! {
    async fn a_run_keeps_its_place_when_the_runs_before_it_are_closed(fixture: Fixture) {
        let store = fixture.open().await;
        enqueue(&store, "run-0", 50).await;
        for _ in 0..2 {
            store.bench().take_work(&["run-0"], &holder("a", LONG), 20).await.unwrap();
        }
        enqueue(&store, "run-1", 3).await;
        store.bench().close_plan("run-0").await.unwrap();
        // It neither waits for as many cases of a later run as the closed one had, nor does that one wait for it.
        enqueue(&store, "run-2", 50).await;
        let mut served = Vec::new();
        for _ in 0..4 {
            let taken = store.bench().take_work(&["run-1", "run-2"], &holder("a", LONG), 1).await.unwrap();
            served.push(taken[0].run_id.clone());
        }
        assert_eq!(served, ["run-1", "run-2", "run-1", "run-2"]);
    }
}

on_both_engines! {
    async fn the_number_of_waiting_cases_stays_exact(fixture: Fixture) {
        let store = fixture.open().await;
        for id in ["run-0", "run-1", "run-2"] {
            enqueue(&store, id, 40).await;
        }
        let runs = ["run-0", "run-1", "run-2"];
        let mut random = 12345_u64;
        let mut below = |limit: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % limit
        };
        let mut held: Vec<(&str, Lease)> = Vec::new();
        let counter = RowCounter::connect(&fixture).await;
        for step in 0..120 {
            let id = ["a", "b", "c"][usize::try_from(below(3)).unwrap()];
            match below(5) {
                0 | 1 => {
                    let lease = if id == "c" { Duration::from_millis(1) } else { LONG };
                    let most = usize::try_from(below(6)).unwrap() + 1;
                    let taken = store.bench().take_work(&runs, &holder(id, lease), most).await.unwrap();
                    held.extend(taken.into_iter().map(|taken| (id, taken)));
                }
                2 => {
                    store.bench().open_runs().await.unwrap();
                }
                3 => {
                    let places: Vec<(String, i64)> =
                        held.iter().map(|(_, lease)| (lease.run_id.clone(), lease.position)).collect();
                    store.bench().extend_work(&holder(id, SHORT), &places).await.unwrap();
                }
                _ if below(2) == 0 => {
                    if let Some((id, lease)) = held.pop() {
                        store.bench().settle_work(&lease.run_id, id, &[result_of(&lease, "pass")]).await.unwrap();
                    }
                }
                _ => {
                    let places: Vec<(String, i64)> =
                        held.iter().take(2).map(|(_, lease)| (lease.run_id.clone(), lease.position)).collect();
                    let only = (below(2) == 0).then_some(&places[..]);
                    store.bench().release_work(id, only).await.unwrap();
                }
            }
            let mut sum = 0;
            for run in runs {
                let left = store.bench().work_left(run).await.unwrap();
                sum += left.waiting + left.taken;
                assert!(left.waiting >= 0);
            }
            let (rows, free, kept) = counter.count().await;
            assert_eq!((rows, free), (sum, kept), "step {step}");
        }
    }
}

on_both_engines! {
    async fn the_number_of_waiting_cases_stays_exact_if_leases_expire_while_others_renew_theirs(fixture: Fixture) {
        let store = fixture.open().await;
        enqueue(&store, "run-0", 60).await;
        let tasks: Vec<_> = (0..4)
            .map(|number| {
                let url = fixture.url.clone();
                tokio::spawn(async move {
                    let store = Store::open(&url).await.unwrap();
                    let (id, brief) = (format!("h{number}"), Duration::from_millis(2));
                    for step in 0..40 {
                        let taken = store.bench().take_work(&["run-0"], &holder(&id, brief), 5).await.unwrap();
                        let places: Vec<(String, i64)> =
                            taken.iter().map(|lease| (lease.run_id.clone(), lease.position)).collect();
                        store.bench().extend_work(&holder(&id, brief), &places).await.unwrap();
                        store.bench().open_runs().await.unwrap();
                        if let Some(lease) = taken.first().filter(|_| step % 8 == 0) {
                            store.bench().settle_work("run-0", &id, &[result_of(lease, "pass")]).await.unwrap();
                        }
                        if step % 3 == 0 {
                            store.bench().release_work(&id, (step % 2 == 0).then_some(&places[..])).await.unwrap();
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let (_, free, kept) = RowCounter::connect(&fixture).await.count().await;
        assert_eq!(free, kept);
    }
}

/// Connections of a test's own, to look at rows.
enum RowCounter {
    Sqlite(sqlx::SqlitePool),
    Postgres(sqlx::PgPool),
}

impl RowCounter {
    async fn connect(fixture: &crate::support::Fixture) -> Self {
        let url = &fixture.url_text;
        if url.starts_with("sqlite:") {
            Self::Sqlite(sqlx::SqlitePool::connect(url).await.unwrap())
        } else {
            Self::Postgres(sqlx::PgPool::connect(url).await.unwrap())
        }
    }

    /// Remaining cases, those without a lease, and the number of waiting cases that is kept with the runs.
    async fn count(&self) -> (i64, i64, i64) {
        let select = "SELECT (SELECT COUNT(*) FROM bench_work),
            (SELECT COUNT(*) FROM bench_work WHERE lease_until IS NULL),
            (SELECT CAST(SUM(waiting) AS BIGINT) FROM bench_plans)";
        match self {
            Self::Sqlite(pool) => sqlx::query_as(select).fetch_one(pool).await.unwrap(),
            // Not prepared: the server may be behind a pooler, where another client may have a statement of that name.
            Self::Postgres(pool) => {
                let row = sqlx::raw_sql(select).fetch_one(pool).await.unwrap();
                (row.get(0), row.get(1), row.get(2))
            }
        }
    }
}

on_both_engines! {
    async fn a_late_result_counts_if_no_other_worker_has_begun(fixture: Fixture) {
        let store = fixture.open().await;
        enqueue(&store, "run-1", 1).await;
        let late = store.bench().take_work(&["run-1"], &holder("a", SHORT), 1).await.unwrap();
        tokio::time::sleep(SHORT * 2).await;
        assert_eq!(store.bench().work_depth().await.unwrap(), WorkDepth { waiting: 1, taken: 0 });
        assert!(store.bench().oldest_waiting().await.unwrap().is_some());
        assert!(store.bench().open_runs().await.unwrap()[0].ready);
        let settled = store.bench().settle_work("run-1", "a", &[result_of(&late[0], "pass")]).await.unwrap();
        assert_eq!((settled.kept, settled.left), (vec![0], false));
        assert_eq!(store.bench().work_depth().await.unwrap(), WorkDepth::default());
        assert_eq!(store.bench().oldest_waiting().await.unwrap(), None);
    }
}

on_both_engines! {
    async fn fifty_races_for_a_turn_have_one_winner_each(fixture: Fixture) {
        let (one, two) = (fixture.open().await, fixture.open().await);
        for round in 0..50 {
            let name = format!("chore-{round}");
            let (first, second) = tokio::join!(one.maintenance().acquire_turn(&name, LONG, LONG), two.maintenance().acquire_turn(&name, LONG, LONG));
            let mut turns: Vec<_> = [first.unwrap(), second.unwrap()].into_iter().flatten().collect();
            assert_eq!(turns.len(), 1, "round {round}");
            if round > 2 {
                turns.pop().unwrap().done().await.unwrap();
                continue;
            }
            assert!(one.maintenance().acquire_turn(&name, LONG, LONG).await.unwrap().is_none(), "the turn is taken");
            turns.pop().unwrap().done().await.unwrap();
            for store in [&one, &two] {
                assert!(store.maintenance().acquire_turn(&name, LONG, LONG).await.unwrap().is_none(), "the task was just done");
            }
            // A caller with a shorter interval gets it again.
            let turn = two.maintenance().acquire_turn(&name, Duration::ZERO, LONG).await.unwrap().unwrap();
            turn.let_go().await.unwrap();
        }
    }
}

on_both_engines! {
    async fn a_turn_is_released_when_its_holder_dies(fixture: Fixture) {
        let (one, two) = (fixture.open().await, fixture.open().await);
        let lost = one.maintenance().acquire_turn("chore", LONG, SHORT).await.unwrap().unwrap();
        assert!(two.maintenance().acquire_turn("chore", LONG, SHORT).await.unwrap().is_none());
        // Dropped, as by a process that dies: the connection is gone, or the row expires.
        drop(lost);
        let until = std::time::Instant::now() + Duration::from_secs(10);
        let turn = loop {
            if let Some(turn) = two.maintenance().acquire_turn("chore", LONG, SHORT).await.unwrap() {
                break turn;
            }
            assert!(std::time::Instant::now() < until, "the dead holder keeps the turn");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        turn.done().await.unwrap();
        // A turn that was released without being done can be taken at once.
        let turn = one.maintenance().acquire_turn("other", LONG, LONG).await.unwrap().unwrap();
        turn.let_go().await.unwrap();
        assert!(two.maintenance().acquire_turn("other", LONG, LONG).await.unwrap().is_some());
    }
}

on_both_engines! {
    async fn one_of_many_sends_the_alert(fixture: Fixture) {
        let store: Store = fixture.open().await;
        let tasks: Vec<_> = (0..8)
            .map(|number| {
                let store = store.clone();
                tokio::spawn(async move { store.maintenance().claim_notice("bench.alert/run-1", &format!("t{number}")).await.unwrap() })
            })
            .collect();
        let mut winners = 0;
        for task in tasks {
            winners += usize::from(task.await.unwrap());
        }
        assert_eq!(winners, 1);
        assert!(store.maintenance().claim_notice("bench.alert/run-2", "t1").await.unwrap());
    }
}
