//! How good, how fast and how large the memory's search is, and what its log and a save cost.
//!
//! `cargo run --release -p perf --bin memory -- --data FOLDER --python PYTHON` runs everything; `--section quality`,
//! `speed`, `log` and `save` run by themselves, `--sizes 1000,100000` says how many memories. FOLDER holds collections
//! with judgments, each a folder of `corpus.jsonl`, `queries.jsonl` and `qrels.tsv`; without it quality is left out.
//! PYTHON is an interpreter with numpy and bm25s; without it the peer is left out. Times of a search are without the
//! question's embedding, which is printed beside them. CPU time is beside wall time, because neighbours are not ours.
#![expect(
    clippy::print_stdout,
    reason = "the printed tables are what the program is for"
)]

mod corpus;
mod costs;
mod plain;
mod quality;
mod speed;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use satiety_engine::{Engine, Settings, StoreUrl};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Section {
    /// nDCG and recall on collections with judgments.
    Quality,
    /// Searches, loading, following changes, memory.
    Speed,
    /// What the log costs a search.
    Log,
    /// What a save costs.
    Save,
}

#[derive(Parser)]
struct Arguments {
    /// Only these sections.
    #[arg(long, value_delimiter = ',')]
    section: Vec<Section>,
    /// Memories, for speed, log and save.
    #[arg(long, value_delimiter = ',', default_value = "1000,10000,100000")]
    sizes: Vec<usize>,
    /// Searches that are timed.
    #[arg(long, default_value_t = 300)]
    searches: usize,
    /// A folder with collections.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Where stores are kept, to be used again by the next run; a temporary folder otherwise.
    #[arg(long)]
    stores: Option<PathBuf>,
    /// A Python with numpy and bm25s.
    #[arg(long)]
    python: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let temporary = tempfile::tempdir()?;
    let folder = arguments
        .stores
        .clone()
        .unwrap_or_else(|| temporary.path().into());
    fs_err::create_dir_all(&folder)?;
    let runs = |section| arguments.section.is_empty() || arguments.section.contains(&section);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        if runs(Section::Quality) {
            match &arguments.data {
                Some(data) => quality::measure(data, &folder).await?,
                None => println!("quality: no --data FOLDER, left out\n"),
            }
        }
        for size in &arguments.sizes {
            if runs(Section::Speed) {
                speed::measure(*size, arguments.searches, &folder, arguments.python.as_deref()).await?;
            }
            if runs(Section::Log) {
                costs::log(*size, arguments.searches, &folder).await?;
            }
            if runs(Section::Save) {
                costs::save(*size, &folder).await?;
            }
        }
        Ok(())
    })
}

/// An engine over a store, with the built-in model or without one.
fn engine(store: &std::path::Path, embedder: &str) -> Engine {
    Engine::new(Settings {
        store: StoreUrl::sqlite(store),
        archive_folder: PathBuf::new(),
        embedder: embedder.into(),
        chat: None,
        api_key: None,
        anthropic_key: None,
    })
}

/// Milliseconds of many runs, sorted when they are asked for.
#[derive(Debug, Clone, Default)]
struct Times(Vec<f64>);

impl Times {
    fn at(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a place in a short list"
        )]
        let at = (share * last as f64).round() as usize;
        sorted.get(at).copied().unwrap_or(f64::NAN)
    }

    fn line(&self) -> String {
        format!(
            "{:>8.2} {:>8.2} {:>8.2}",
            self.at(0.5),
            self.at(0.95),
            self.at(0.99)
        )
    }
}

/// Resident memory of this process, in megabytes.
fn resident() -> f64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kilobytes.map_or(f64::NAN, |kilobytes| kilobytes * 1024.0 / 1e6)
}
