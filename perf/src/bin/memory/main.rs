//! Measures quality, speed and size of memory search, and the cost of its log and of a save.
//!
//! `cargo run --release -p perf --bin memory -- --data DIR --python PYTHON` runs everything; `--section
//! quality`, `speed`, `log` and `save` run alone, `--sizes 1000,100000` sets the numbers of memories. DIR
//! `--section import` measures the import of a file, and `--section postgres` compares searches on both
//! database engines, on a private PostgreSQL server. Texts and vectors of the speed sections are synthetic: random
//! words with the frequencies of a language, and mixtures of real vectors. DIR contains judged collections, each
//! a directory of `corpus.jsonl`, `queries.jsonl` and `qrels.tsv`; without it quality is measured on
//! `examples/conversations` alone. PYTHON is an interpreter with numpy and bm25s; without it the peer is skipped.
//! `--server-memory COMMAND` starts the MCP server `@modelcontextprotocol/server-memory` as a second peer.
//! Search times exclude embedding the question, which is printed separately. CPU time is printed next to wall
//! time, because it depends less on other processes.
#![expect(clippy::print_stdout, reason = "prints the measurements")]

mod corpus;
mod costs;
mod dialogues;
mod import;
mod languages;
mod plain;
mod postgres;
mod quality;
mod speed;
mod truth;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use satiety_engine::{Engine, Settings, StoreUrl};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Section {
    /// nDCG and recall on judged collections
    Quality,
    /// Searches, loading, updates, memory
    Speed,
    /// Cost of the query log per search
    Log,
    /// Cost of a save
    Save,
    /// Rate of an import, without and with vectors
    Import,
    /// Searches on SQLite and PostgreSQL in one run
    Postgres,
}

#[derive(Parser)]
struct Arguments {
    /// Sections to run [default: all]
    #[arg(long, value_delimiter = ',')]
    section: Vec<Section>,
    /// Numbers of memories for speed, log and save
    #[arg(long, value_delimiter = ',', default_value = "1000,10000,100000")]
    sizes: Vec<usize>,
    /// Number of timed searches
    #[arg(long, default_value_t = 300)]
    searches: usize,
    /// Directory with judged collections
    #[arg(long)]
    data: Option<PathBuf>,
    /// Directory to keep stores in for the next run [default: temporary]
    #[arg(long)]
    stores: Option<PathBuf>,
    /// Python interpreter with numpy and bm25s
    #[arg(long)]
    python: Option<PathBuf>,
    /// Command that starts the MCP server `@modelcontextprotocol/server-memory`
    #[arg(long)]
    server_memory: Option<String>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let temporary = tempfile::tempdir()?;
    let directory = arguments
        .stores
        .clone()
        .unwrap_or_else(|| temporary.path().into());
    fs_err::create_dir_all(&directory)?;
    let runs = |section| arguments.section.is_empty() || arguments.section.contains(&section);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        if runs(Section::Quality) {
            quality::measure(arguments.data.as_deref(), &directory).await?;
            languages::measure(&directory).await?;
            truth::measure(&directory).await?;
        }
        for size in &arguments.sizes {
            if runs(Section::Speed) {
                let peers = speed::Peers {
                    python: arguments.python.as_deref(),
                    server_memory: arguments.server_memory.as_deref(),
                };
                speed::measure(*size, arguments.searches, &directory, peers).await?;
            }
            if runs(Section::Log) {
                costs::log(*size, arguments.searches, &directory).await?;
            }
            if runs(Section::Save) {
                costs::save(*size, &directory).await?;
            }
            if runs(Section::Import) {
                import::measure(*size).await?;
            }
            if arguments.section.contains(&Section::Postgres) {
                postgres::measure(*size, arguments.searches).await?;
            }
        }
        Ok(())
    })
}

/// Engine over a store, with or without the built-in model.
fn engine(store: &std::path::Path, embedder: &str) -> Engine {
    engine_on(StoreUrl::sqlite(store), embedder)
}

fn engine_on(store: StoreUrl, embedder: &str) -> Engine {
    Engine::new(Settings {
        store,
        archive_folder: PathBuf::new(),
        embedder: embedder.into(),
        chat: None,
        api_key: None,
        anthropic_key: None,
    })
}

/// Durations in milliseconds, sorted on demand.
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

/// Resident memory of this process in megabytes.
fn resident() -> f64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kilobytes.map_or(f64::NAN, |kilobytes| kilobytes * 1024.0 / 1e6)
}
