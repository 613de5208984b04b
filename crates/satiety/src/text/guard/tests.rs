//! Pairs that the guard must object to and pairs that it must accept, each checked in both directions.

use proptest::prelude::*;

use super::*;

fn check(kind: &str, pairs: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (a, b) in pairs {
        for (a, b) in [(a, b), (b, a)] {
            let found = differences(a, b);
            let names: Vec<String> = found.iter().map(ToString::to_string).collect();
            if kind.is_empty() != found.is_empty()
                || !(kind.is_empty() || names.iter().any(|name| name.starts_with(kind)))
            {
                wrong.push(format!("{a} | {b}: {names:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "expected {kind:?}:\n{}", wrong.join("\n"));
}

#[test]
fn numbers() {
    check(
        "number",
        &[
            ("3 nodes failed", "5 nodes failed"),
            ("three nodes failed", "five nodes failed"),
            ("It handles 10,000 requests", "It handles 1,000 requests"),
            ("Latency fell by 40%", "Latency fell by 14%"),
            ("Keep logs for 30 days", "Keep logs for 30 minutes"),
            ("The timeout is 5 s", "The timeout is 5 ms"),
            ("It costs $20 a month", "It costs $200 a month"),
        ],
    );
    check(
        "",
        &[
            ("3 nodes failed", "Three nodes have failed."),
            ("It handles 10,000 requests", "10k requests are handled"),
            ("The timeout is 5 minutes", "The timeout is 300 seconds"),
            ("Half of the users left", "50% of users left"),
            ("A fifth of the users left", "20% of users left"),
            ("A third of the users left", "33% of users left"),
            ("Above ten million rows", "Above 10 million rows"),
            ("Latency fell by 40%", "Latency fell"),
            ("Three of the five nodes failed", "5 nodes, of which 3 failed"),
        ],
    );
    check(
        "bound",
        &[
            ("It needs at least 5 replicas", "It needs at most 5 replicas"),
            ("Latency is below 20 ms", "Latency is above 20 ms"),
            ("Keep CPU < 80%", "Keep CPU > 80%"),
        ],
    );
    check(
        "",
        &[(
            "It needs at least 5 replicas",
            "It needs no fewer than 5 replicas",
        )],
    );
}

#[test]
fn negation() {
    check(
        "negation",
        &[
            ("The cache is safe", "The cache is not safe"),
            ("The cache is safe", "The cache is unsafe"),
            ("Retries help under load", "Retries don't help under load"),
            ("The job starts", "The job fails to start"),
            ("We still support Python 3.8", "We no longer support Python 3.8"),
            ("Deploy with the migration", "Deploy without the migration"),
            ("There are blockers", "There are no blockers"),
            ("The service always recovers", "The service never recovers"),
            ("Reads are blocking", "Reads are non-blocking"),
        ],
    );
    check(
        "",
        &[
            ("The cache is not safe", "The cache is unsafe"),
            ("The host cannot be reached", "The host is unreachable"),
            ("It does not start", "It fails to start"),
            ("It is not unsafe", "It is safe"),
            ("It is not only fast but cheap", "It is fast and cheap"),
            ("No blockers remain", "All blockers are resolved"),
            ("We cannot ship until legal signs", "We can ship once legal signs"),
            ("Nobody owns the rota", "The rota has no owner"),
            (
                "Staging does not resemble production",
                "Staging differs from production",
            ),
        ],
    );
}

#[test]
fn opposites() {
    check(
        "opposite",
        &[
            ("The change increases latency", "The change decreases latency"),
            ("Enable the flag in staging", "Disable the flag in staging"),
            (
                "Run the migration before the deploy",
                "Run the migration after the deploy",
            ),
            ("The new index is faster", "The new index is slower"),
        ],
    );
    check(
        "",
        &[
            (
                "Run the migration before the deploy",
                "The deploy comes after the migration has run",
            ),
            ("Do not disable the flag", "Keep the flag enabled"),
            ("Latency rose", "Latency increased"),
            (
                "The alert fires on every deploy",
                "Each deploy sets the alert off",
            ),
            (
                "Throughput rose because latency fell",
                "Latency fell, so throughput rose",
            ),
        ],
    );
}

#[test]
fn exchanged_roles() {
    check(
        "swapped",
        &[
            ("Service A calls service B", "Service B calls service A"),
            ("Alice approves Bob's PR", "Bob approves Alice's PR"),
            (
                "The gateway depends on the billing API",
                "The billing API depends on the gateway",
            ),
            (
                "Postgres is faster than Redis here",
                "Redis is faster than Postgres here",
            ),
            ("p50 is 20 ms and p99 is 80 ms", "p50 is 80 ms and p99 is 20 ms"),
            (
                "Retries fail because the disk is full",
                "The disk is full because retries fail",
            ),
        ],
    );
    check(
        "",
        &[
            ("Alice approves Bob's PR", "Bob's PR is approved by Alice"),
            ("Alice and Bob review it", "Bob and Alice review it"),
            (
                "When the disk is full, retries fail",
                "Retries fail when the disk is full",
            ),
            ("Step A comes before step B", "Step B comes after step A"),
            (
                "The schema of A matches the schema of B",
                "The schema of B matches the schema of A",
            ),
            ("In staging we use flags", "We use flags in staging"),
        ],
    );
}

#[test]
fn names() {
    check(
        "name",
        &[
            ("Deploy to us-east-1 first", "Deploy to us-west-2 first"),
            ("Use Redis for sessions", "Use Memcached for sessions"),
            ("Alice owns the rollout", "Bob owns the rollout"),
            ("Pin the client to v1.2.0", "Pin the client to v1.3.0"),
            ("The bug is in src/cache.rs", "The bug is in src/parser.rs"),
            ("We ship on Monday", "We ship on Thursday"),
            ("It is due on 15 March", "It is due on 15 May"),
            ("The p95 alert fires", "The p99 alert fires"),
        ],
    );
    check(
        "",
        &[
            ("Use Postgres for sessions", "Sessions go to PostgreSQL"),
            ("Run it on Kubernetes", "Run it on k8s"),
            ("The PR is merged", "The pull request is merged"),
            ("The bug is in src/cache.rs", "cache.rs has the bug"),
            ("Rename parse_header", "Rename parseHeader"),
            ("Caching helps", "A cache is useful"),
        ],
    );
}

#[test]
fn strength() {
    check(
        "quantifier",
        &[
            ("All tests pass on main", "Some tests pass on main"),
            ("Only admins can delete projects", "Admins can delete projects"),
            ("Most jobs fail at night", "A few jobs fail at night"),
        ],
    );
    check(
        "modality",
        &[
            ("Clients must send a token", "Clients may send a token"),
            (
                "The migration will break old clients",
                "The migration might break old clients",
            ),
        ],
    );
    check(
        "tense",
        &[(
            "We migrated the billing tables",
            "We will migrate the billing tables",
        )],
    );
    check(
        "",
        &[
            ("It only takes five minutes", "It takes five minutes"),
            ("All tests pass on main", "Every test passes on main"),
            ("Clients must send a token", "Clients have to send a token"),
        ],
    );
}

/// A pasted log may end up as a claim; the guard must stay fast on it.
#[test]
fn long_texts_are_fast() {
    let repeated = |word: fn(u32) -> String| (0..20_000).map(word).collect::<Vec<_>>().join(" ");
    let a = repeated(|n| format!("Name{n} rises-{n} is not {n}"));
    let b = repeated(|n| format!("Other{n} falls-{n} is {n}0"));
    for _ in 0..20 {
        assert!(!differences(&a, &b).is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn a_text_never_differs_from_itself(text in "\\PC{0,60}|[a-zA-Z0-9 .,'%$/_-]{0,60}") {
        prop_assert_eq!(differences(&text, &text), []);
    }

    #[test]
    fn differences_are_symmetric(
        a in "((not|no|the|alice|bob|3|5 ms|up|down|safe|unsafe|all|some|will|cached|cache|and|before|after) ){0,8}",
        b in "((not|no|the|alice|bob|3|5 ms|up|down|safe|unsafe|all|some|will|cached|cache|and|before|after) ){0,8}",
    ) {
        prop_assert_eq!(differences(&a, &b).is_empty(), differences(&b, &a).is_empty());
    }
}

proptest! {
    /// Statements that share most of their words, so that every kind of difference occurs.
    #[test]
    fn the_shortcut_finds_the_same_as_all_differences(a in statement(), b in statement()) {
        let found = differences(&a, &b);
        let (a, b) = (ParsedStatement::of(&a), ParsedStatement::of(&b));
        prop_assert_eq!(are_different(&a, &b), !found.is_empty());
        let number = found.iter().any(|found| matches!(found, Difference::Number { .. }));
        prop_assert_eq!(quantities::are_different(&a, &b), number);
    }
}

fn statement() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "claim", "number", "about", "subject", "is", "not", "new", "old", "all", "some", "must", "may",
        "one", "3", "5", "17", "3rd", "50%", "half", "a", "third", "33%", "20ms", "20", "ms", "at", "least",
        "most", "Berlin", "Lyon", "v1.2", "node-7", "node-8", "API", "fails", "passed",
    ]);
    prop::collection::vec(word, 1..9).prop_map(|words| words.join(" "))
}
