//! Rate of an import: reading, splitting and storing texts, and making their vectors.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::{Result, ensure};
use cpu_time::ProcessTime;
use satiety::memory::Author;
use satiety_engine::memory::{ImportRequest, ImportSource};
use satiety_models::minilm::MiniLm;

use crate::corpus::Corpus;
use crate::{engine, resident};

/// Number of texts whose vectors are made; the rate does not depend on the number.
const EMBEDDED: usize = 1000;
/// Texts per batch of the model alone.
const BATCH: usize = 256;

pub(crate) async fn measure(size: usize) -> Result<()> {
    let corpus = Corpus::new(size, 1)?;
    let directory = tempfile::tempdir()?;
    let write = |name: &str, count: usize| -> Result<std::path::PathBuf> {
        let mut text = String::new();
        for (number, (title, content)) in corpus.texts.iter().take(count).enumerate() {
            let record = serde_json::json!({"id": number, "title": title, "content": content});
            let _ = writeln!(text, "{record}");
        }
        let path = directory.path().join(name);
        fs_err::write(&path, text)?;
        Ok(path)
    };
    let request = |path: &std::path::Path, embed: bool| ImportRequest {
        source: ImportSource::Path(path.to_path_buf()),
        format: None,
        name: None,
        folder: None,
        scope: None,
        author: Author::Person,
        dry_run: false,
        embed,
    };
    println!("import at {size} memories, from JSON Lines into SQLite");
    let path = write("all.jsonl", size)?;
    let words = engine(&directory.path().join("words.db"), "none");
    words.memory().health().await?;
    let before = resident();
    let mut most = before;
    let (began, cpu) = (Instant::now(), ProcessTime::now());
    let imported = words
        .memory()
        .import(request(&path, false), |_| {
            most = most.max(resident());
            true
        })
        .await?;
    ensure!(imported.added == size, "imported {} of {size}", imported.added);
    let (wall, spent) = (began.elapsed().as_secs_f64(), cpu.elapsed().as_secs_f64());
    println!(
        "  texts and words: {:.0} a second, {:.3} ms CPU each; {:.0} MB more memory at most",
        size as f64 / wall,
        spent * 1e3 / size as f64,
        most - before
    );
    let began = Instant::now();
    let again = words.memory().import(request(&path, false), |_| true).await?;
    ensure!(again.unchanged == size && again.added == 0, "not repeatable");
    println!(
        "  repeated, nothing to do: {:.0} a second",
        size as f64 / began.elapsed().as_secs_f64()
    );
    words.close().await;

    let count = EMBEDDED.min(size);
    let path = write("some.jsonl", count)?;
    let vectors = engine(&directory.path().join("vectors.db"), "builtin");
    vectors.memory().health().await?;
    let (began, cpu) = (Instant::now(), ProcessTime::now());
    let imported = vectors.memory().import(request(&path, true), |_| true).await?;
    ensure!(
        imported.pending == 0,
        "{} chunks have no vector",
        imported.pending
    );
    let (wall, with_vectors) = (began.elapsed().as_secs_f64(), cpu.elapsed().as_secs_f64());
    vectors.close().await;
    let model = MiniLm::builtin()?;
    let texts: Vec<String> = corpus
        .texts
        .iter()
        .take(count)
        .map(|(title, body)| format!("{title}\n{body}"))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let cpu = ProcessTime::now();
    for batch in texts.chunks(BATCH) {
        model.encode_on(batch, 2);
    }
    let alone = cpu.elapsed().as_secs_f64();
    println!(
        "  with vectors, {count} texts of {} chunks: {:.0} a second, {:.2} ms CPU each; the model alone {:.2} ms CPU each ({:.2} of the import)\n",
        imported.embedded,
        count as f64 / wall,
        with_vectors * 1e3 / count as f64,
        alone * 1e3 / count as f64,
        alone / with_vectors
    );
    Ok(())
}
