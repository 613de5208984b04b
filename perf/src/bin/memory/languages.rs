//! Search in other languages: notes and questions of `examples/languages.jsonl`, by words, by meaning and by both.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use satiety::memory::{Author, Mode, ValidPipeline};
use satiety_engine::memory::{SaveRequest, SearchRequest};
use serde::Deserialize;

use crate::engine;
use crate::quality::{DEFAULT_LABEL, pipelines};

#[derive(Deserialize)]
struct Note {
    language: String,
    id: String,
    text: String,
    query: String,
}

/// Prints by language how often the right note is the first of its language.
pub(crate) async fn measure(stores: &Path) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/languages.jsonl");
    let text = fs_err::read_to_string(&path)?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let notes: Vec<Note> = lines
        .map(|line| serde_json::from_str(line).with_context(|| path.display().to_string()))
        .collect::<Result<_>>()?;
    let store = stores.join("quality-languages.db");
    if store.exists() {
        fs_err::remove_file(&store)?;
    }
    let engine = engine(&store, "builtin");
    let mut ids = BTreeMap::new();
    for note in &notes {
        let request = SaveRequest {
            title: note.id.clone(),
            content: note.text.clone(),
            folder: note.language.clone(),
            author: Author::Person,
            ..SaveRequest::default()
        };
        ids.insert(note.id.clone(), engine.memory().save(request).await?.memory.id);
    }
    println!("languages: share of questions whose note is first, among the notes of the language");
    let labels = ["lexical alone", "vector alone", DEFAULT_LABEL];
    let pipelines: Vec<Arc<ValidPipeline>> = labels
        .iter()
        .filter_map(|label| pipelines().into_iter().find(|(own, _)| own == label))
        .map(|(_, pipeline)| pipeline.validate().map(Arc::new))
        .collect::<Result<_, _>>()?;
    println!(
        "  {:<10} {:>8} {:>8} {:>8} {:>8}",
        "", "words", "meaning", "both", "notes"
    );
    let mut languages: Vec<&str> = notes.iter().map(|note| note.language.as_str()).collect();
    languages.dedup();
    for language in languages {
        let own: Vec<&Note> = notes.iter().filter(|note| note.language == language).collect();
        let mut shares = Vec::new();
        for pipeline in &pipelines {
            let mut first = 0_usize;
            for note in &own {
                let request = SearchRequest {
                    query: note.query.clone(),
                    mode: Some(Mode::Focused),
                    folder: Some(language.to_owned()),
                    below_floor: true,
                    ..SearchRequest::default()
                };
                let found = engine.memory().search_with(pipeline, &request).await?;
                let best = found.results.first().map(|result| &result.id);
                first += usize::from(best == ids.get(&note.id));
            }
            shares.push(format!("{:>8.2}", first as f64 / own.len() as f64));
        }
        println!("  {language:<10} {} {:>8}", shares.join(" "), own.len());
    }
    println!();
    engine.close().await;
    Ok(())
}
