//! Rank of the memory that replaced an obsolete one, for queries that repeat the words of the obsolete one.

use std::path::Path;

use anyhow::Result;
use satiety::memory::{LinkKind, Mode};
use satiety_engine::Engine;
use satiety_engine::memory::{LinkRequest, SaveRequest, SearchRequest};

use crate::engine;

const SERVICES: [&str; 12] = [
    "billing",
    "search",
    "login",
    "mail",
    "checkout",
    "reporting",
    "catalogue",
    "inventory",
    "shipping",
    "analytics",
    "support chat",
    "payroll",
];
/// Attribute, obsolete statement, question in its words, and the statement that replaced it, in other words.
const FACTS: [(&str, &str, &str, &str); 5] = [
    (
        "database",
        "The {} service stores its data in MySQL 5.7 on a single machine.",
        "where does the {} service store its data, which MySQL version",
        "Since the migration, {} runs on PostgreSQL with a replica.",
    ),
    (
        "deployment",
        "Deploy the {} service by hand on Tuesdays with the release script.",
        "how do I deploy the {} service by hand with the release script",
        "{} goes live automatically once the pipeline is green.",
    ),
    (
        "owner",
        "Ask Petra about the {} service, she is on call for it.",
        "who is on call for the {} service, Petra?",
        "Team Orion has taken over {}; write to their channel.",
    ),
    (
        "limit",
        "The {} service accepts at most 100 requests a minute per customer.",
        "how many requests a minute does the {} service accept per customer",
        "The quota for {} was raised: 500 calls every sixty seconds.",
    ),
    (
        "backup",
        "Backups of the {} service are written to tape every Sunday night.",
        "when are backups of the {} service written to tape",
        "Snapshots of {} go to object storage each hour.",
    ),
];

/// Mean reciprocal rank of the successors, with and without the links that say so.
pub(crate) async fn measure(stores: &Path) -> Result<()> {
    let engine = engine(&stores.join("quality-truth.db"), "builtin");
    println!(
        "superseded facts: reciprocal rank of the successor for a question in the words of the obsolete memory"
    );
    let mut pairs = Vec::new();
    for service in SERVICES {
        for (attribute, old, question, new) in FACTS {
            let old = save(
                &engine,
                &format!("{service}: {attribute}"),
                &old.replace("{}", service),
            )
            .await?;
            let new = save(&engine, &format!("{service}: news"), &new.replace("{}", service)).await?;
            pairs.push((old, new, question.replace("{}", service)));
        }
    }
    let without = mean_reciprocal_rank(&engine, &pairs).await?;
    for (old, new, _) in &pairs {
        let link = LinkRequest {
            from: new.clone(),
            kind: LinkKind::Supersedes,
            to: old.clone(),
            remove: false,
            scope: None,
        };
        engine.memory().link(link).await?;
    }
    let with = mean_reciprocal_rank(&engine, &pairs).await?;
    println!("  {:<34} {:>9} {:>9}", "", "MRR@10", "above old");
    for (label, (rank, above)) in [("without links", without), ("with `supersedes` links", with)] {
        println!("  {label:<34} {rank:>9.4} {above:>9.3}   {} queries", pairs.len());
    }
    println!();
    engine.close().await;
    Ok(())
}

async fn save(engine: &Engine, title: &str, content: &str) -> Result<String> {
    let request = SaveRequest {
        title: title.into(),
        content: content.into(),
        author: satiety::memory::Author::Person,
        ..SaveRequest::default()
    };
    Ok(engine.memory().save(request).await?.memory.id)
}

/// Mean reciprocal rank of the successors, and the share of queries that have them above the obsolete memory.
async fn mean_reciprocal_rank(engine: &Engine, pairs: &[(String, String, String)]) -> Result<(f64, f64)> {
    let (mut sum, mut above) = (0.0, 0_usize);
    for (old, new, question) in pairs {
        let request = SearchRequest {
            query: question.clone(),
            mode: Some(Mode::Focused),
            limit: Some(10),
            token_budget: Some(1_000_000),
            below_floor: true,
            ..SearchRequest::default()
        };
        let found = engine.memory().search(request).await?.results;
        let place = |id: &str| found.iter().position(|result| result.id == id);
        let (old, new) = (place(old), place(new));
        sum += new.map_or(0.0, |at| 1.0 / (at + 1) as f64);
        above += usize::from(new.is_some_and(|new| old.is_none_or(|old| new < old)));
    }
    let count = pairs.len().max(1) as f64;
    Ok((sum / count, above as f64 / count))
}
