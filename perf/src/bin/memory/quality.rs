//! Ranking quality on judged collections: each channel alone, all together, and plain BM25 for comparison; and how often a
//! search says that nothing is relevant.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use satiety::memory::{ChannelSwitches, Fusion, Mode, Pipeline, SearchOutcome, TurnSettings, ValidPipeline};
use satiety_engine::Engine;
use satiety_engine::memory::{ListRequest, MemorySearch, SaveRequest, SearchRequest};
use serde::Deserialize;

use crate::plain::Bm25;
use crate::{dialogues, engine};

#[derive(Deserialize, Clone)]
pub(crate) struct Document {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) title: String,
    pub(crate) text: String,
}

pub(crate) type Judgments = BTreeMap<String, HashMap<String, f64>>;
/// For each query, documents best first.
type Run = BTreeMap<String, Vec<String>>;

/// Documents, queries and judgments.
#[derive(Default)]
pub(crate) struct Collection {
    pub(crate) name: String,
    pub(crate) documents: Vec<Document>,
    pub(crate) queries: Vec<Document>,
    pub(crate) judgments: Judgments,
    /// Kinds of queries, if the collection has them.
    pub(crate) kinds: BTreeMap<String, String>,
}

/// Queries that no collection answers.
const NONSENSE: [&str; 12] = [
    "what is the best recipe for lasagna",
    "who won the world cup in 1998",
    "capital of Mongolia",
    "lyrics of the national anthem of Peru",
    "how to tie a bow tie",
    "distance from the earth to the moon",
    "do cats dream",
    "how many calories are in an avocado",
    "xkqj vbnm plrt",
    "asdf qwer zxcv uiop",
    "florble the grimpish wazoo",
    "lorem ipsum dolor sit amet",
];

pub(crate) async fn measure(data: Option<&Path>, stores: &Path) -> Result<()> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/conversations");
    let mut collections = vec![dialogues::read(&examples)?];
    if let Some(data) = data {
        let mut paths: Vec<_> = fs_err::read_dir(data)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.join("corpus.jsonl").exists())
            .collect();
        paths.sort();
        ensure!(!paths.is_empty(), "no collections in {}", data.display());
        for path in paths {
            collections.push(read_collection(&path)?);
        }
    }
    for at in 0..collections.len() {
        measure_collection(&collections, at, stores).await?;
    }
    Ok(())
}

fn read_collection(path: &Path) -> Result<Collection> {
    let name = path.file_name().and_then(|name| name.to_str());
    Ok(Collection {
        name: name.unwrap_or("collection").to_owned(),
        documents: lines(&path.join("corpus.jsonl"))?,
        queries: lines(&path.join("queries.jsonl"))?,
        judgments: judgments(&path.join("qrels.tsv"))?,
        kinds: BTreeMap::new(),
    })
}

async fn measure_collection(collections: &[Collection], at: usize, stores: &Path) -> Result<()> {
    let collection = &collections[at];
    let Collection {
        name,
        documents,
        queries,
        judgments,
        ..
    } = collection;
    let engine = engine(&stores.join(format!("quality-{name}.db")), "builtin");
    let ids = filled(&engine, documents).await?;
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
    let bar = scored(&run, judgments);
    println!(
        "  {:<34} {:>9.4} {:>9.4}",
        "plain BM25 of whole texts", bar.0, bar.1
    );
    for (label, pipeline) in pipelines() {
        let pipeline = Arc::new(pipeline.validate()?);
        let mut run = Run::new();
        for query in queries {
            let found = search(&engine, &pipeline, &query.text, true).await?;
            let found = found
                .results
                .iter()
                .filter_map(|result| ids.get(&result.id).cloned());
            run.insert(query.id.clone(), found.collect());
        }
        let (ndcg, recall) = scored(&run, judgments);
        println!("  {label:<34} {ndcg:>9.4} {recall:>9.4} {:>+10.4}", ndcg - bar.0);
        if label == DEFAULT_LABEL {
            let kinds: std::collections::BTreeSet<&String> = collection.kinds.values().collect();
            for kind in kinds {
                let own = dialogues::of_kind(collection, kind);
                if !own.is_empty() {
                    let (ndcg, recall) = scored(&run, &own);
                    println!(
                        "    {:<32} {ndcg:>9.4} {recall:>9.4}   {} queries",
                        kind,
                        own.len()
                    );
                }
            }
        }
    }
    abstention(&engine, collections, at).await?;
    println!();
    engine.close().await;
    Ok(())
}

async fn search(
    engine: &Engine,
    pipeline: &Arc<ValidPipeline>,
    query: &str,
    below_floor: bool,
) -> Result<MemorySearch> {
    let request = SearchRequest {
        query: query.to_owned(),
        mode: Some(Mode::Focused),
        limit: Some(10),
        token_budget: Some(1_000_000),
        below_floor,
        ..SearchRequest::default()
    };
    Ok(engine.memory().search_with(pipeline, &request).await?)
}

/// Share of queries for which a search says that nothing is relevant: queries with an answer, and several kinds without.
async fn abstention(engine: &Engine, collections: &[Collection], at: usize) -> Result<()> {
    let own = &collections[at];
    let is_answerable = |query: &&Document| own.judgments.contains_key(&query.id);
    let unanswerable = |query: &&Document| {
        own.kinds
            .get(&query.id)
            .is_some_and(|kind| kind == "unanswerable")
    };
    let mut groups: Vec<(String, Vec<String>)> = vec![
        (
            "with an answer".into(),
            texts(own.queries.iter().filter(is_answerable)),
        ),
        (
            "never said in the conversations".into(),
            texts(own.queries.iter().filter(unanswerable)),
        ),
    ];
    for (number, other) in collections.iter().enumerate() {
        if number != at {
            let sample = other.queries.iter().step_by((other.queries.len() / 50).max(1));
            groups.push((format!("about {}", other.name), texts(sample)));
        }
    }
    groups.push((
        "nonsense and general knowledge".into(),
        NONSENSE.map(str::to_owned).into(),
    ));
    println!("  {:<34} {:>9} {:>9}", "nothing relevant:", "refused", "queries");
    let pipeline = ValidPipeline::standard();
    for (label, queries) in groups.into_iter().filter(|(_, queries)| !queries.is_empty()) {
        let mut refused = 0_usize;
        for query in &queries {
            let found = search(engine, pipeline, query, false).await?;
            refused += usize::from(found.outcome == SearchOutcome::NothingRelevant);
        }
        let share = refused as f64 / queries.len() as f64;
        println!("    {label:<32} {share:>9.3} {:>9}", queries.len());
    }
    Ok(())
}

fn texts<'a>(queries: impl Iterator<Item = &'a Document>) -> Vec<String> {
    queries.map(|query| query.text.clone()).collect()
}

pub(crate) const DEFAULT_LABEL: &str = "hybrid, standard scores (default)";

pub(crate) fn pipelines() -> Vec<(&'static str, Pipeline)> {
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
        (DEFAULT_LABEL, standard.clone()),
        (
            "hybrid, turns without neighbors",
            Pipeline {
                turns: TurnSettings {
                    before: 0.0,
                    after: 0.0,
                    second: 0.0,
                    seeds: 0,
                },
                ..standard.clone()
            },
        ),
        (
            "hybrid, scores",
            Pipeline {
                fusion: Fusion::Score,
                ..standard.clone()
            },
        ),
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
