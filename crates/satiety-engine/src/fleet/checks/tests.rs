//! Each check with facts on both sides of its limit.

use satiety_store::ReplicaStatus;
use satiety_store::fleet::{DeadRows, IndexFacts, LockFacts, LongTransaction, PartitionFacts, RowFacts};

use super::*;
use crate::doctor::Health;

const NOW: i64 = 1_800_000_000 * SECOND;

fn healthy() -> FleetFacts {
    FleetFacts {
        engine: "postgres",
        place: "postgres://db".into(),
        schema_version: 26,
        latest_schema_version: 26,
        clock: ClockFacts {
            offset: 300,
            uncertainty: 200,
        },
        rows: Some(RowFacts {
            instances: vec![instance("server"), instance("worker")],
            queue: QueueFacts::default(),
            retention: RetentionFacts {
                since_applied: Some(HOUR),
                overdue: vec![("journal=90d:delete".into(), 0.5)],
            },
        }),
        postgres: Some(PostgresFacts {
            connections: Some((12, 97)),
            replicas: vec![replica(0.2)],
            partitions: vec![partition(14 * DAY, 0)],
            locks: Some(locks(256, 64)),
            pooling: Some(Pooling::Session),
            statistics_age: Some(30.0 * 24.0 * 3600.0),
            ..PostgresFacts::default()
        }),
        read_replica: None,
        unknown: Vec::new(),
    }
}

fn read_replica(lag_seconds: Option<f64>, problem: Option<&str>) -> ReplicaStatus {
    ReplicaStatus {
        place: "postgres://replica".into(),
        lag_seconds,
        problem: problem.map(str::to_owned),
    }
}

fn instance(kind: &str) -> InstanceRow {
    InstanceRow {
        instance_id: format!("{kind}-1"),
        kind: kind.into(),
        name: kind.into(),
        url: (kind == "server").then(|| "http://127.0.0.1:8787".into()),
        version: "0.2.0".into(),
        started_at: NOW - HOUR,
        seen_at: NOW - 10 * SECOND,
        schema_version: Some(26),
        clock_offset: Some(1000),
        draining_at: None,
    }
}

fn replica(lag: f64) -> ReplicaFacts {
    ReplicaFacts {
        name: "replica1".into(),
        state: "streaming".into(),
        lag_bytes: Some(100),
        lag_seconds: Some(lag),
    }
}

fn partition(ahead: i64, default_rows: i64) -> PartitionFacts {
    PartitionFacts {
        table: "journal".into(),
        count: 30,
        ends_at: Some(NOW + ahead),
        default_partition: Some("journal_default".into()),
        default_rows,
    }
}

fn locks(relations: i64, per_connection: i64) -> LockFacts {
    LockFacts {
        table: "eval_queries".into(),
        relations,
        per_connection,
    }
}

/// Worst health of a part and the details of its findings.
fn health_of(facts: &FleetFacts, part: &str) -> (Health, String) {
    let findings = examine(facts, NOW);
    let of_part: Vec<&Finding> = findings.iter().filter(|finding| finding.part == part).collect();
    let worst = |wanted| of_part.iter().any(|finding| finding.health == wanted);
    let health = if worst(Health::Bad) {
        Health::Bad
    } else if worst(Health::Warning) {
        Health::Warning
    } else {
        Health::Good
    };
    for finding in &findings {
        assert_eq!(
            finding.fix.is_some(),
            finding.health != Health::Good,
            "{finding:?}"
        );
    }
    let details: Vec<&str> = of_part.iter().map(|finding| finding.detail.as_str()).collect();
    (health, details.join("; "))
}

#[test]
fn a_healthy_fleet_has_no_findings_to_act_on() {
    for finding in examine(&healthy(), NOW) {
        assert_eq!(finding.health, Health::Good, "{finding:?}");
    }
}

#[test]
fn each_check_warns_and_fails_at_its_limit() {
    type Change = fn(&mut FleetFacts);
    fn rows(facts: &mut FleetFacts) -> &mut RowFacts {
        facts.rows.as_mut().unwrap()
    }
    fn postgres(facts: &mut FleetFacts) -> &mut PostgresFacts {
        facts.postgres.as_mut().unwrap()
    }
    let cases: &[(&str, Health, &str, Change)] = &[
        ("schema", Health::Bad, "version 21", |facts| {
            facts.schema_version = 21;
        }),
        ("schema", Health::Bad, "newer", |facts| facts.schema_version = 99),
        ("clock", Health::Warning, "ahead of", |facts| {
            facts.clock.offset = 2 * SECOND;
        }),
        ("clock", Health::Bad, "behind", |facts| {
            facts.clock.offset = -40 * SECOND;
        }),
        // A slow question proves nothing.
        ("clock", Health::Good, "ahead of", |facts| {
            facts.clock = ClockFacts {
                offset: 2 * SECOND,
                uncertainty: 2 * SECOND,
            };
        }),
        ("clock", Health::Bad, "worker worker is 1 min ahead", |facts| {
            rows(facts).instances[1].clock_offset = Some(MINUTE);
        }),
        ("instances", Health::Warning, "different versions", |facts| {
            rows(facts).instances[1].version = "0.1.0".into();
        }),
        ("instances", Health::Warning, "without a shutdown", |facts| {
            rows(facts).instances[1].seen_at = NOW - 2 * MINUTE;
        }),
        ("instances", Health::Bad, "older schema", |facts| {
            rows(facts).instances[0].schema_version = Some(21);
        }),
        ("queue", Health::Bad, "no worker", |facts| {
            rows(facts).instances.truncate(1);
            rows(facts).queue.waiting = 3;
            rows(facts).queue.oldest_waiting = Some(("run-1".into(), SECOND));
        }),
        ("queue", Health::Warning, "have waited 20 min", |facts| {
            rows(facts).queue.waiting = 3;
            rows(facts).queue.oldest_waiting = Some(("run-1".into(), 20 * MINUTE));
        }),
        ("leases", Health::Warning, "1 lease expired", |facts| {
            rows(facts).queue.expired = 1;
            rows(facts).queue.oldest_expired = Some(5 * MINUTE);
        }),
        ("leases", Health::Bad, "taken 6 times", |facts| {
            rows(facts).queue.most_taken = Some(("run-1".into(), "c".into(), 6));
        }),
        ("retention", Health::Warning, "5 days past", |facts| {
            rows(facts).retention.overdue = vec![("journal=90d:delete".into(), 5.2)];
        }),
        ("connections", Health::Warning, "85 of 97", |facts| {
            postgres(facts).connections = Some((85, 97));
        }),
        ("connections", Health::Bad, "97 of 97", |facts| {
            postgres(facts).connections = Some((97, 97));
        }),
        ("replicas", Health::Warning, "30.0 s", |facts| {
            postgres(facts).replicas = vec![replica(30.0)];
        }),
        ("replicas", Health::Bad, "900.0 s", |facts| {
            postgres(facts).replicas.push(replica(900.0));
        }),
        ("replicas", Health::Bad, "read-only", |facts| {
            postgres(facts).is_replica = true;
        }),
        ("replicas", Health::Warning, "is unknown", |facts| {
            postgres(facts).replicas.push(ReplicaFacts {
                lag_bytes: None,
                lag_seconds: None,
                ..replica(0.0)
            });
        }),
        ("replica", Health::Good, "0.5 s behind", |facts| {
            facts.read_replica = Some(read_replica(Some(0.5), None));
        }),
        ("replica", Health::Warning, "90 s behind", |facts| {
            facts.read_replica = Some(read_replica(Some(90.0), None));
        }),
        ("replica", Health::Warning, "reads go to the primary", |facts| {
            facts.read_replica = Some(read_replica(None, Some("cannot connect")));
        }),
        ("partitions", Health::Warning, "end in 23 h", |facts| {
            postgres(facts).partitions = vec![partition(DAY - 1, 0)];
        }),
        ("partitions", Health::Bad, "ended 1 h ago", |facts| {
            postgres(facts).partitions = vec![partition(-HOUR, 0)];
        }),
        ("partitions", Health::Warning, "7 rows of journal", |facts| {
            postgres(facts).partitions = vec![partition(14 * DAY, 7)];
        }),
        (
            "locks",
            Health::Warning,
            "locks 500 tables and indexes",
            |facts| {
                postgres(facts).locks = Some(locks(500, 64));
            },
        ),
        ("locks", Health::Good, "is 256", |facts| {
            postgres(facts).locks = Some(locks(500, 256));
        }),
        ("vacuum", Health::Warning, "never vacuumed", |facts| {
            postgres(facts).dead_rows = vec![DeadRows {
                table: "bench_work".into(),
                live: 10,
                dead: 90,
                bytes: 1 << 30,
                since_vacuum: None,
            }];
        }),
        ("indexes", Health::Warning, "1 index not used", |facts| {
            postgres(facts).unused_indexes = vec![IndexFacts {
                index: "i".into(),
                table: "t".into(),
                bytes: 1 << 30,
            }];
        }),
        ("indexes", Health::Good, "valid", |facts| {
            postgres(facts).statistics_age = Some(60.0);
            postgres(facts).unused_indexes = vec![IndexFacts {
                index: "i".into(),
                table: "t".into(),
                bytes: 1 << 30,
            }];
        }),
        ("indexes", Health::Bad, "interrupted", |facts| {
            postgres(facts).invalid_indexes = vec!["i".into()];
        }),
        ("transactions", Health::Warning, "10 min", |facts| {
            postgres(facts).longest_transaction = Some(transaction(600.0));
        }),
        ("transactions", Health::Bad, "2 h", |facts| {
            postgres(facts).longest_transaction = Some(transaction(7200.0));
        }),
        (
            "replicas",
            Health::Warning,
            "unknown: permission denied",
            |facts| {
                facts
                    .unknown
                    .push(("replicas".into(), "permission denied".into()));
            },
        ),
    ];
    for (part, health, words, change) in cases {
        let mut facts = healthy();
        change(&mut facts);
        let (found, detail) = health_of(&facts, part);
        assert_eq!(found, *health, "{part}: {detail}");
        assert!(detail.contains(words), "{part}: {detail}");
    }
}

fn transaction(seconds: f64) -> LongTransaction {
    LongTransaction {
        pid: 42,
        application: "psql".into(),
        state: "idle in transaction".into(),
        seconds,
    }
}
