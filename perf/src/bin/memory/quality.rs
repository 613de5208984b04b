//! Ranking quality on judged collections: each channel alone, all together, and plain BM25 for comparison.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use satiety::memory::{ChannelSwitches, Fusion, Mode, Pipeline};
use satiety_engine::Engine;
use satiety_engine::memory::{ListRequest, SaveRequest, SearchRequest};
use serde::Deserialize;

use crate::engine;
use crate::plain::Bm25;

#[derive(Deserialize)]
struct Document {
    id: String,
    #[serde(default)]
    title: String,
    text: String,
}

type Judgments = BTreeMap<String, HashMap<String, f64>>;
/// For each query, documents best first.
type Run = BTreeMap<String, Vec<String>>;

pub(crate) async fn measure(data: &Path, stores: &Path) -> Result<()> {
    let mut collections: Vec<_> = fs_err::read_dir(data)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("corpus.jsonl").exists())
        .collect();
    collections.sort();
    ensure!(!collections.is_empty(), "no collections in {}", data.display());
    for collection in collections {
        measure_collection(&collection, stores).await?;
    }
    Ok(())
}

async fn measure_collection(collection: &Path, stores: &Path) -> Result<()> {
    let name = collection
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("collection");
    let documents: Vec<Document> = lines(&collection.join("corpus.jsonl"))?;
    let queries: Vec<Document> = lines(&collection.join("queries.jsonl"))?;
    let judgments = judgments(&collection.join("qrels.tsv"))?;
    let engine = engine(&stores.join(format!("quality-{name}.db")), "builtin");
    let ids = filled(&engine, &documents).await?;
    println!(
        "quality on {name}: {} documents, {} judged queries",
        documents.len(),
        judgments.len()
    );
    println!(
        "  {:<34} {:>9} {:>9} {:>10}",
        "", "nDCG@10", "recall@10", "vs. BM25"
    );
    let texts: Vec<String> = documents
        .iter()
        .map(|one| format!("{} {}", one.title, one.text))
        .collect();
    let plain = Bm25::new(texts.iter().map(String::as_str));
    let run: Run = queries
        .iter()
        .map(|query| {
            let found = plain.search(&query.text, 10).into_iter();
            (
                query.id.clone(),
                found.map(|at| documents[at].id.clone()).collect(),
            )
        })
        .collect();
    let bar = scored(&run, &judgments);
    println!(
        "  {:<34} {:>9.4} {:>9.4}",
        "plain BM25 of whole texts", bar.0, bar.1
    );
    for (label, pipeline) in pipelines() {
        let pipeline = Arc::new(pipeline.validate()?);
        let mut run = Run::new();
        for query in &queries {
            let request = SearchRequest {
                query: query.text.clone(),
                mode: Some(Mode::Focused),
                limit: Some(10),
                token_budget: Some(1_000_000),
                ..SearchRequest::default()
            };
            let found = engine.memory().search_with(&pipeline, &request).await?;
            let found = found
                .results
                .iter()
                .filter_map(|result| ids.get(&result.id).cloned());
            run.insert(query.id.clone(), found.collect());
        }
        let (ndcg, recall) = scored(&run, &judgments);
        println!("  {label:<34} {ndcg:>9.4} {recall:>9.4} {:>+10.4}", ndcg - bar.0);
    }
    println!();
    engine.close().await;
    Ok(())
}

fn pipelines() -> Vec<(&'static str, Pipeline)> {
    let standard = Pipeline::default();
    let only = |lexical: bool, vector: bool| Pipeline {
        channels: ChannelSwitches {
            lexical,
            vector,
            trigger: false,
            graph: false,
        },
        ..standard.clone()
    };
    let ranks = |k: u32| Pipeline {
        fusion: Fusion::ReciprocalRank { k },
        ..standard.clone()
    };
    vec![
        ("lexical alone", only(true, false)),
        ("vector alone", only(false, true)),
        ("hybrid, scores (default)", standard.clone()),
        ("hybrid, reciprocal ranks, k = 60", ranks(60)),
        ("hybrid, reciprocal ranks, k = 10", ranks(10)),
    ]
}

/// Saves missing documents; returns the document of each memory.
async fn filled(engine: &Engine, documents: &[Document]) -> Result<HashMap<String, String>> {
    let mut ids = HashMap::new();
    let mut request = ListRequest {
        limit: Some(500),
        ..ListRequest::default()
    };
    loop {
        let page = engine.memory().list(&request).await?;
        // The kind of a memory holds the id of its document.
        ids.extend(page.memories.into_iter().map(|one| (one.id, one.kind)));
        let Some(next) = page.next else { break };
        request.cursor = Some(next.to_string());
    }
    let there: std::collections::HashSet<String> = ids.values().cloned().collect();
    for document in documents.iter().filter(|document| !there.contains(&document.id)) {
        let text = if document.text.trim().is_empty() {
            &document.title
        } else {
            &document.text
        };
        let title: String = document.title.chars().take(300).collect();
        if text.trim().is_empty() {
            continue;
        }
        let saved = engine
            .memory()
            .save(SaveRequest {
                title: if title.trim().is_empty() {
                    document.id.clone()
                } else {
                    title
                },
                content: text.clone(),
                kind: Some(document.id.clone()),
                author: satiety::memory::Author::Person,
                ..SaveRequest::default()
            })
            .await?;
        ids.insert(saved.memory.id, document.id.clone());
    }
    Ok(ids)
}

fn lines<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Vec<T>> {
    let text = fs_err::read_to_string(path)?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| serde_json::from_str(line).with_context(|| path.display().to_string()))
        .collect()
}

fn judgments(path: &Path) -> Result<Judgments> {
    let mut judgments = Judgments::new();
    for line in fs_err::read_to_string(path)?.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [query, _, document, grade] = fields[..] else {
            continue;
        };
        let Ok(grade) = grade.parse::<f64>() else { continue };
        judgments
            .entry(query.to_owned())
            .or_default()
            .insert(document.to_owned(), grade.max(0.0));
    }
    judgments.retain(|_, grades| grades.values().any(|grade| *grade > 0.0));
    Ok(judgments)
}

/// Means over judged queries of nDCG@10 with linear gain, as in `trec_eval`, and of recall@10.
fn scored(run: &Run, judgments: &Judgments) -> (f64, f64) {
    let discounted = |grades: &mut dyn Iterator<Item = f64>| -> f64 {
        grades
            .take(10)
            .enumerate()
            .map(|(at, grade)| grade / (at as f64 + 2.0).log2())
            .sum()
    };
    let mut sums = (0.0, 0.0);
    for (query, grades) in judgments {
        let found = run.get(query).map(Vec::as_slice).unwrap_or_default();
        let gains: Vec<f64> = found
            .iter()
            .map(|id| grades.get(id).copied().unwrap_or(0.0))
            .collect();
        let mut best: Vec<f64> = grades.values().copied().collect();
        best.sort_by(|a, b| b.total_cmp(a));
        sums.0 += discounted(&mut gains.iter().copied()) / discounted(&mut best.iter().copied());
        let relevant = best.iter().filter(|grade| **grade > 0.0).count();
        sums.1 += gains.iter().take(10).filter(|gain| **gain > 0.0).count() as f64 / relevant as f64;
    }
    let count = judgments.len() as f64;
    (sums.0 / count, sums.1 / count)
}
