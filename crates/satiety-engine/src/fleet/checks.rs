//! Judgments about a fleet: each check is a function from facts to findings, with the command that helps.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use satiety_store::fleet::{
    ClockFacts, FleetFacts, Pooling, PostgresFacts, QueueFacts, ReplicaFacts, RetentionFacts,
};
use satiety_store::instances::InstanceRow;

use crate::doctor::{Finding, examine_replica};
use crate::instances::EXPIRES_AFTER;

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Difference between two clocks above which times in lists, retention and traces are visibly wrong.
const CLOCK_WARNING: i64 = SECOND;
/// Difference between two clocks above which tokens and idempotency keys expire at the wrong time.
const CLOCK_BAD: i64 = 30 * SECOND;
/// Time after which a lease that expired should have been taken by another worker.
const EXPIRED_LEASE: i64 = 2 * MINUTE;
/// Number of attempts after which a case probably ends the worker that takes it.
const MANY_TAKES: i64 = 5;
/// Time after which cases should have been taken.
const LONG_WAIT: i64 = 10 * MINUTE;
/// Days past its rule after which a row counts as overdue: retention runs hourly, and a server may have been down.
const OVERDUE_DAYS: f64 = 2.0;
/// Share of the connections that the server accepts above which to act.
const CONNECTIONS_WARNING: f64 = 0.8;
const CONNECTIONS_BAD: f64 = 0.95;
/// Lag of a replica above which pages that read from it are noticeably old.
const LAG_WARNING_SECONDS: f64 = 10.0;
const LAG_BAD_SECONDS: f64 = 300.0;
/// Time for which partitions must exist ahead.
const PARTITIONS_WARNING: i64 = 2 * DAY;
/// Share of the connections that must be able to read all partitions of a table at the same time: one of this many.
const LOCKING_CONNECTIONS: i64 = 4;
/// Setting of `max_locks_per_transaction` that suffices for a hundred partitions with nine indexes.
const MANY_LOCKS: i64 = 256;
/// Share of dead rows above which vacuum does not keep up; it starts at 20 % by default.
const DEAD_SHARE: f64 = 0.4;
/// Age of the statistics below which an index without a scan proves nothing.
const STATISTICS_SECONDS: f64 = 7.0 * 24.0 * 3600.0;
/// Age of a transaction above which it keeps vacuum from removing rows.
const TRANSACTION_WARNING_SECONDS: f64 = 300.0;
const TRANSACTION_BAD_SECONDS: f64 = 3600.0;

/// Checks everything that is known.
pub(super) fn examine(facts: &FleetFacts, now: i64) -> Vec<Finding> {
    let mut findings = vec![
        Finding::good("store", format!("{} answers", facts.place)),
        schema(facts),
        clock(facts.clock),
    ];
    if let Some(rows) = &facts.rows {
        // Heartbeats have the time of the database.
        let database_now = now - facts.clock.offset;
        findings.extend(instances(facts, &rows.instances, database_now));
        findings.push(queue(&rows.queue, workers(&rows.instances, database_now)));
        findings.push(leases(&rows.queue));
        findings.push(retention(&rows.retention));
    }
    if let Some(postgres) = &facts.postgres {
        findings.extend(connections(postgres));
        findings.push(replicas(postgres));
        findings.extend(partitions(postgres, now));
        findings.extend(locks(postgres));
        findings.push(vacuum(postgres));
        findings.extend(indexes(postgres));
        findings.push(transactions(postgres));
        findings.extend(pooling(postgres));
    }
    findings.extend(facts.read_replica.as_ref().map(examine_replica));
    // What could not be read is neither good nor bad.
    let is_unknown = |part: &str| facts.unknown.iter().any(|(unknown, _)| unknown == part);
    findings.retain(|finding| !is_unknown(&finding.part));
    findings.extend(facts.unknown.iter().map(|(part, reason)| unknown(part, reason)));
    findings
}

fn unknown(part: &str, reason: &str) -> Finding {
    let fix = if reason.contains("permission denied") {
        "let the user of the database read statistics: GRANT pg_monitor TO user"
    } else {
        "run `satiety doctor`; if the database works, set `store.url` to the server itself instead of its pooler"
    };
    Finding::warning(part, format!("unknown: {reason}"), fix)
}

fn schema(facts: &FleetFacts) -> Finding {
    let (found, latest) = (facts.schema_version, facts.latest_schema_version);
    match found.cmp(&latest) {
        std::cmp::Ordering::Equal => Finding::good("schema", format!("version {found} (latest)")),
        std::cmp::Ordering::Less => Finding::bad(
            "schema",
            format!("version {found}; this program writes version {latest}"),
            Some("satiety db migrate".into()),
        ),
        std::cmp::Ordering::Greater => Finding::bad(
            "schema",
            format!("version {found} is newer than this program, which knows version {latest}"),
            Some(
                "install the version of satiety that the other processes run (`satiety --version` there)"
                    .into(),
            ),
        ),
    }
}

fn clock(clock: ClockFacts) -> Finding {
    // Only what cannot be explained by the duration of the question.
    let certain = (clock.offset.abs() - clock.uncertainty).max(0);
    let detail = format!(
        "this machine is {} the database (± {})",
        ahead_or_behind(clock.offset),
        duration(clock.uncertainty)
    );
    by_skew(certain, detail)
}

fn by_skew(skew: i64, detail: String) -> Finding {
    let fix = "synchronize the clocks, for example with chrony: chronyc makestep";
    if skew > CLOCK_BAD {
        Finding::bad("clock", detail, Some(fix.into()))
    } else if skew > CLOCK_WARNING {
        Finding::warning("clock", detail, fix)
    } else {
        Finding::good("clock", detail)
    }
}

fn is_alive(instance: &InstanceRow, now: i64) -> bool {
    now - instance.seen_at <= EXPIRES_AFTER
}

fn workers(all: &[InstanceRow], now: i64) -> usize {
    all.iter()
        .filter(|instance| instance.kind == "worker" && is_alive(instance, now))
        .count()
}

/// Versions and clocks of the connected processes.
fn instances(facts: &FleetFacts, all: &[InstanceRow], now: i64) -> Vec<Finding> {
    let alive: Vec<&InstanceRow> = all.iter().filter(|instance| is_alive(instance, now)).collect();
    let mut by_kind: BTreeMap<&str, usize> = BTreeMap::new();
    let mut by_version: BTreeMap<&str, usize> = BTreeMap::new();
    for instance in &alive {
        *by_kind.entry(&instance.kind).or_default() += 1;
        *by_version.entry(&instance.version).or_default() += 1;
    }
    let kinds: Vec<String> = by_kind
        .iter()
        .map(|(kind, count)| format!("{count} {kind}{}", if *count == 1 { "" } else { "s" }))
        .collect();
    let kinds = if kinds.is_empty() {
        "no server or worker".to_owned()
    } else {
        kinds.join(" and ")
    };
    let versions: Vec<String> = by_version
        .iter()
        .map(|(version, count)| format!("{version} ({count})"))
        .collect();
    let mut findings = vec![if by_version.len() > 1 {
        Finding::warning(
            "instances",
            format!(
                "{kinds} connected, with different versions: {}",
                versions.join(", ")
            ),
            "finish the upgrade: restart the processes of the older version",
        )
    } else {
        Finding::good("instances", format!("{kinds} connected"))
    }];
    let silent = all.len() - alive.len();
    if silent > 0 {
        findings.push(Finding::warning(
            "instances",
            format!(
                "{silent} ended without a shutdown, or cannot reach the database: {}",
                names(all.iter().filter(|instance| !is_alive(instance, now)))
            ),
            "read their logs; entries disappear a day after the last heartbeat",
        ));
    }
    let older = alive.iter().copied().filter(|instance| {
        instance
            .schema_version
            .is_some_and(|version| version < facts.schema_version)
    });
    let older = names(older);
    if !older.is_empty() {
        findings.push(Finding::bad(
            "instances",
            format!(
                "these know an older schema than version {}: {older}",
                facts.schema_version
            ),
            Some("restart them with this version of satiety".into()),
        ));
    }
    let worst = alive
        .iter()
        .filter_map(|instance| Some((instance.clock_offset?, *instance)))
        .max_by_key(|(offset, _)| offset.abs());
    if let Some((offset, instance)) = worst
        && offset.abs() > CLOCK_WARNING
    {
        let detail = format!("{} is {} the database", label(instance), ahead_or_behind(offset));
        findings.push(by_skew(offset.abs(), detail));
    }
    findings
}

fn label(instance: &InstanceRow) -> String {
    match &instance.url {
        Some(url) => format!("{} {url}", instance.kind),
        None => format!("{} {}", instance.kind, instance.name),
    }
}

/// Names of the first few.
fn names<'a>(instances: impl Iterator<Item = &'a InstanceRow>) -> String {
    let all: Vec<String> = instances.map(label).collect();
    let more = all.len().saturating_sub(3);
    let mut text = all[..all.len() - more].join(", ");
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}

fn queue(queue: &QueueFacts, workers: usize) -> Finding {
    let detail = format!(
        "{} waiting, {} leased, of {} open runs",
        counted(queue.waiting, "case"),
        queue.held,
        queue.open_runs
    );
    match &queue.oldest_waiting {
        Some((run, waited)) if queue.waiting > 0 && workers == 0 => Finding::bad(
            "queue",
            format!(
                "{detail}; {run} has waited {} and no worker is connected",
                duration(*waited)
            ),
            Some("start a worker in a checkout with the suite: satiety worker".into()),
        ),
        Some((run, waited)) if *waited > LONG_WAIT => Finding::warning(
            "queue",
            format!("{detail}; cases of {run} have waited {}", duration(*waited)),
            format!("start more workers (now {workers}): satiety worker"),
        ),
        _ => Finding::good("queue", detail),
    }
}

fn leases(queue: &QueueFacts) -> Finding {
    if let Some((run, case, takes)) = &queue.most_taken
        && *takes >= MANY_TAKES
    {
        return Finding::bad(
            "leases",
            format!("case {case} of {run} was taken {takes} times without a result"),
            Some(format!(
                "look at why its workers end (memory, timeout), or drop the run: satiety bench cancel {run}"
            )),
        );
    }
    if let Some(age) = queue.oldest_expired
        && age > EXPIRED_LEASE
    {
        return Finding::warning(
            "leases",
            format!(
                "{} expired, the oldest {} ago, and no worker has taken them since",
                counted(queue.expired, "lease"),
                duration(age)
            ),
            "start a worker: satiety worker",
        );
    }
    Finding::good(
        "leases",
        format!(
            "{} held, {} expired, {} taken more than once",
            queue.held,
            queue.expired,
            counted(queue.retaken, "case")
        ),
    )
}

fn retention(retention: &RetentionFacts) -> Finding {
    let applied = retention.since_applied.map_or_else(
        || "never applied by a server".into(),
        |age| format!("applied {} ago", duration(age)),
    );
    let worst = retention
        .overdue
        .iter()
        .filter(|(_, days)| *days > OVERDUE_DAYS)
        .max_by(|(_, left), (_, right)| left.total_cmp(right));
    match worst {
        Some((rule, days)) => Finding::warning(
            "retention",
            format!("{applied}; rows of `{rule}` are {days:.0} days past their time"),
            "satiety db retain",
        ),
        None => Finding::good("retention", applied),
    }
}

fn connections(facts: &PostgresFacts) -> Option<Finding> {
    let (open, most) = facts.connections?;
    let detail = format!("{open} of {most} connections in use");
    let share = open as f64 / most.max(1) as f64;
    let fix = "put PgBouncer in front, or raise max_connections: ALTER SYSTEM SET max_connections = 200";
    Some(if share > CONNECTIONS_BAD {
        Finding::bad("connections", detail, Some(fix.into()))
    } else if share > CONNECTIONS_WARNING {
        Finding::warning("connections", detail, fix)
    } else {
        Finding::good("connections", detail)
    })
}

fn replicas(facts: &PostgresFacts) -> Finding {
    if facts.is_replica {
        return Finding::bad(
            "replicas",
            "`store.url` is a read-only replica",
            Some("set `store.url` to the primary server".into()),
        );
    }
    let lagging = facts.replicas.iter().max_by(|left, right| {
        left.lag_seconds
            .unwrap_or(0.0)
            .total_cmp(&right.lag_seconds.unwrap_or(0.0))
    });
    let Some(worst) = lagging else {
        return Finding::good("replicas", "none");
    };
    // The server hides these columns from users without the privilege.
    let is_hidden = |replica: &ReplicaFacts| replica.lag_seconds.is_none() && replica.lag_bytes.is_none();
    if facts.replicas.iter().any(is_hidden) {
        return Finding::warning(
            "replicas",
            format!(
                "{} connected; how far they are behind is unknown",
                facts.replicas.len()
            ),
            "let the user of the database read statistics: GRANT pg_monitor TO user",
        );
    }
    let lag = worst.lag_seconds.unwrap_or(0.0);
    let bytes = worst.lag_bytes.unwrap_or(0);
    let detail = format!(
        "{} connected; {} ({}) is {lag:.1} s and {bytes} bytes behind",
        facts.replicas.len(),
        worst.name,
        worst.state
    );
    let fix = "look at the load and the network of the replica: SELECT * FROM pg_stat_replication";
    if lag > LAG_BAD_SECONDS {
        Finding::bad("replicas", detail, Some(fix.into()))
    } else if lag > LAG_WARNING_SECONDS {
        Finding::warning("replicas", detail, fix)
    } else {
        Finding::good("replicas", detail)
    }
}

fn partitions(facts: &PostgresFacts, now: i64) -> Vec<Finding> {
    let mut findings = Vec::new();
    for table in &facts.partitions {
        if table.default_rows > 0 {
            findings.push(Finding::warning(
                "partitions",
                format!(
                    "{} of {} are in the default partition {}",
                    counted(table.default_rows, "row"),
                    table.table,
                    table.default_partition.as_deref().unwrap_or_default()
                ),
                "satiety db migrate",
            ));
        }
        let Some(ends_at) = table.ends_at else {
            continue;
        };
        let ahead = ends_at - now;
        if ahead < PARTITIONS_WARNING {
            let detail = if ahead > 0 {
                format!("the partitions of {} end in {}", table.table, duration(ahead))
            } else {
                format!("the partitions of {} ended {} ago", table.table, duration(-ahead))
            };
            let fix = "start a server, which makes them ahead: satiety serve";
            findings.push(if ahead > 0 {
                Finding::warning("partitions", detail, fix)
            } else {
                Finding::bad("partitions", detail, Some(fix.into()))
            });
        }
    }
    if findings.is_empty() {
        let count: i64 = facts.partitions.iter().map(|table| table.count).sum();
        findings.push(Finding::good(
            "partitions",
            match facts.partitions.len() {
                0 => "no table is partitioned".to_owned(),
                tables => format!("{count} of {tables} tables, made ahead"),
            },
        ));
    }
    findings
}

/// A query without a condition on time locks every partition and its indexes, and the server has one table of locks for
/// all connections.
fn locks(facts: &PostgresFacts) -> Option<Finding> {
    let locks = facts.locks.as_ref()?;
    let detail = format!(
        "a query of all partitions of {} locks {} tables and indexes; max_locks_per_transaction is {}",
        locks.table, locks.relations, locks.per_connection
    );
    let needed = locks.relations / LOCKING_CONNECTIONS;
    Some(if locks.per_connection < needed {
        Finding::warning(
            "locks",
            detail,
            format!(
                "ALTER SYSTEM SET max_locks_per_transaction = {}; then restart PostgreSQL",
                needed.max(MANY_LOCKS)
            ),
        )
    } else {
        Finding::good("locks", detail)
    })
}

fn vacuum(facts: &PostgresFacts) -> Finding {
    let share = |live: i64, dead: i64| dead as f64 / (live + dead).max(1) as f64;
    let worst = facts
        .dead_rows
        .iter()
        .max_by(|left, right| share(left.live, left.dead).total_cmp(&share(right.live, right.dead)));
    match worst {
        Some(table) if share(table.live, table.dead) > DEAD_SHARE => Finding::warning(
            "vacuum",
            format!(
                "{:.0} % of the rows of {} are dead; {}",
                share(table.live, table.dead) * 100.0,
                table.table,
                table.since_vacuum.map_or_else(
                    || "it was never vacuumed".to_owned(),
                    |seconds| format!("vacuumed {} ago", duration_of_seconds(seconds))
                )
            ),
            format!("VACUUM (ANALYZE) {}", table.table),
        ),
        _ => Finding::good("vacuum", "dead rows are removed in time"),
    }
}

fn indexes(facts: &PostgresFacts) -> Vec<Finding> {
    let mut findings: Vec<Finding> = facts
        .invalid_indexes
        .iter()
        .map(|index| {
            Finding::bad(
                "indexes",
                format!("{index} is invalid: its creation was interrupted"),
                Some(format!("REINDEX INDEX CONCURRENTLY {index}")),
            )
        })
        .collect();
    // An index without a scan proves nothing shortly after the statistics were reset.
    if facts.statistics_age.is_some_and(|age| age >= STATISTICS_SECONDS)
        && let Some(largest) = facts.unused_indexes.first()
    {
        findings.push(Finding::warning(
            "indexes",
            format!(
                "{} not used since the statistics were reset; the largest is {} of {} ({} MiB)",
                counted(i64::try_from(facts.unused_indexes.len()).unwrap_or(i64::MAX), "index"),
                largest.index,
                largest.table,
                largest.bytes >> 20
            ),
            "nothing on this server alone: a replica or a rare page may use it; compare pg_stat_user_indexes there",
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::good("indexes", "all valid"));
    }
    findings
}

fn transactions(facts: &PostgresFacts) -> Finding {
    let Some(longest) = &facts.longest_transaction else {
        return Finding::good("transactions", "no other transaction is open");
    };
    let detail = format!(
        "the oldest is open for {} ({}, {}, process {})",
        duration_of_seconds(longest.seconds),
        longest.application,
        longest.state,
        longest.pid
    );
    let fix = format!("SELECT pg_terminate_backend({})", longest.pid);
    if longest.seconds > TRANSACTION_BAD_SECONDS {
        Finding::bad("transactions", detail, Some(fix))
    } else if longest.seconds > TRANSACTION_WARNING_SECONDS {
        Finding::warning("transactions", detail, fix)
    } else {
        Finding::good("transactions", detail)
    }
}

fn pooling(facts: &PostgresFacts) -> Option<Finding> {
    Some(Finding::good(
        "pooler",
        match facts.pooling? {
            Pooling::Session => "none, or one in session mode",
            Pooling::Transaction => "transaction mode",
        },
    ))
}

fn counted(number: i64, noun: &str) -> String {
    match (number, noun) {
        (1, _) => format!("1 {noun}"),
        (_, "index") => format!("{number} indexes"),
        _ => format!("{number} {noun}s"),
    }
}

fn ahead_or_behind(offset: i64) -> String {
    if offset >= 0 {
        format!("{} ahead of", duration(offset))
    } else {
        format!("{} behind", duration(-offset))
    }
}

/// A number of microseconds for people.
fn duration(micros: i64) -> String {
    match micros {
        ..SECOND => format!("{:.1} ms", micros as f64 / 1e3),
        SECOND..MINUTE => format!("{:.1} s", micros as f64 / 1e6),
        MINUTE..HOUR => format!("{} min", micros / MINUTE),
        HOUR..DAY => format!("{} h", micros / HOUR),
        DAY.. => format!("{} days", micros / DAY),
    }
}

fn duration_of_seconds(seconds: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "ages of transactions and statistics are far below 2^63 microseconds"
    )]
    duration((seconds * 1e6) as i64)
}

#[cfg(test)]
mod tests;
