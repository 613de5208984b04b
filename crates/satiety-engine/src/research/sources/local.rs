//! Local source: a directory of documents, split into passages and searched like the memory, by words and by
//! meaning. The passages are kept with their vectors, so that only changed files are read again.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use satiety::memory::{
    Action, Channel, IndexedChunk, IndexedMemory, MemoryFilter, MemoryIndex, MemorySearch, Mode, Observation,
    Pipeline, Provenance, Scope, SearchMachine, SearchQuery, SessionHistory, ValidPipeline, encode_vector,
};
use satiety::research::Hit;
use satiety::retrieval::Tier;
use satiety::text::document::Document;
use satiety_models::Embedder;
use serde_json::json;

use super::super::fetch::content;
use super::passage_index::{IndexedPassage, Kept, PassageIndex};
use super::{SearchError, SearchFuture, Source};
use crate::memory::embedded_text;
use crate::retrieval::blocking;

/// Target words of a passage; code, tables and long paragraphs may take twice that.
const PASSAGE_WORDS: usize = 120;
/// Maximum bytes of a file; larger files are data, not documents.
pub(super) const MAX_FILE_BYTES: u64 = 8 << 20;
/// Maximum number of passages in a directory.
const MAX_PASSAGES: usize = 500_000;
/// Maximum depth of subdirectories.
const MAX_DEPTH: usize = 16;
/// Tokens of all results: no limit in practice.
const MAX_TOKENS: usize = 10_000_000;
/// Passages embedded at once.
const EMBED_BATCH: usize = 64;
/// Passages that words find for the task, which are embedded first.
const EMBED_FIRST: usize = 200;
/// Time for embedding in one run; what is left is found by words, and embedded by the next run.
const EMBED_TIME: Duration = Duration::from_secs(45);
/// Skipped files that the report names.
const MAX_SKIPPED_SHOWN: usize = 3;
/// Passages from which on an index without vectors is worth a file.
const MIN_PASSAGES_FOR_FILE: usize = 500;

/// How a directory is indexed.
#[derive(Debug, Clone, Default)]
pub struct IndexOptions<'e> {
    /// Sentence model; without one, only words are searched.
    pub embedder: Option<&'e dyn Embedder>,
    /// Path of the kept index without the suffix for the directory; without one, nothing is kept.
    pub kept: Option<PathBuf>,
    /// Task whose passages are embedded first.
    pub task: String,
}

/// An indexed directory.
#[derive(Debug)]
pub struct Local<'e> {
    id: String,
    passages: Vec<Hit>,
    index: Arc<MemoryIndex>,
    embedder: Option<&'e dyn Embedder>,
    notes: Vec<String>,
}

impl<'e> Local<'e> {
    /// Indexes all Markdown, text, HTML and PDF files below a directory, or one file.
    pub async fn open(path: &Path, options: IndexOptions<'e>) -> Result<Self, SearchError> {
        let kept = options.kept.map(|kept| {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            let key = blake3::hash(absolute.as_os_str().as_encoded_bytes()).to_hex();
            let mut name = kept.into_os_string();
            name.push(format!("-{}", &key[..12]));
            PathBuf::from(name)
        });
        let mut notes = Vec::new();
        let embedder = options.embedder.map(|embedder| embedder.id().to_string());
        let (root, file) = (path.to_owned(), kept.clone());
        let read = move || Ok(read_directory(&root, file.as_deref(), embedder.as_deref()));
        let (mut stored, mut changed, unusable) = finished(path, blocking(read).await)??;
        if unusable {
            notes.push(
                "The kept index of the directory was damaged or of another version; it was built again."
                    .into(),
            );
        }
        notes.extend(skipped_files(&stored));
        if let Some(embedder) = options.embedder {
            let (embedded, left) = embed(&mut stored, embedder, &options.task).await;
            changed |= embedded > 0;
            if left > 0 {
                notes.push(format!(
                    "{left} passages of the directory have no vector yet and are found by their words alone; the next run embeds more."
                ));
            }
        }
        let dimension = options.embedder.map_or(0, Embedder::dimension);
        let build = move || {
            let problem = kept.and_then(|kept| write(&mut stored, &kept, changed).err());
            let passages = hits(&stored);
            let index = memory_index(&stored, dimension);
            Ok((passages, index, problem))
        };
        let (passages, index, problem) = finished(path, blocking(build).await)?;
        notes.extend(
            problem.map(|problem| format!("The index of the directory was not kept: {}.", problem.kind())),
        );
        Ok(Self {
            id: format!("local:{}", path.display()),
            passages,
            index: Arc::new(index),
            embedder: options.embedder,
            notes,
        })
    }

    /// Returns the best passages: those that share words with the query, and those that mean the same.
    async fn find(&self, query: &str, count: u32) -> Vec<Hit> {
        let vector = match self.embedder {
            Some(embedder) => match embedder.embed(&[query]).await {
                Ok(mut vectors) => vectors.pop(),
                Err(error) => {
                    tracing::warn!(%error, "cannot embed the query; searching by words");
                    None
                }
            },
            None => None,
        };
        let text = |doc: i64| {
            let at = usize::try_from(doc).unwrap_or(usize::MAX);
            self.passages.get(at).map(|hit| hit.snippet.clone())
        };
        let found = search(&self.index, query, count as usize, vector.as_deref(), text);
        // A passage that is merely nearer than the others is not a result.
        let results = found
            .results
            .into_iter()
            .filter(|result| result.relevant || result.channels.contains_key(&Channel::Lexical));
        let hits = results.filter_map(|result| {
            let mut hit = self.passages.get(result.id.parse::<usize>().ok()?)?.clone();
            hit.score = Some(result.score);
            Some(hit)
        });
        hits.collect()
    }
}

impl Source for Local<'_> {
    fn id(&self) -> &str {
        &self.id
    }

    fn search<'a>(&'a self, query: &'a str, count: u32) -> SearchFuture<'a> {
        Box::pin(async move { Ok(self.find(query, count).await) })
    }

    fn is_cacheable(&self) -> bool {
        false
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// Runs a search of the memory over passages.
fn search(
    index: &Arc<MemoryIndex>,
    query: &str,
    count: usize,
    vector: Option<&[f32]>,
    text: impl Fn(i64) -> Option<String>,
) -> MemorySearch {
    let query = SearchQuery {
        text: query.to_owned(),
        mode: Some(Mode::Deep),
        limit: Some(count),
        token_budget: Some(MAX_TOKENS),
        token_usage: None,
        folder: String::new(),
        scope: Scope::All,
        skip_shown: false,
        filter: MemoryFilter::default(),
        as_of: None,
        below_floor: true,
    };
    let mut machine = SearchMachine::new(Arc::clone(&PIPELINE), query);
    loop {
        let observation = match machine.next() {
            Action::EmbedQuery => Observation::QueryVector {
                vector: vector.map(<[f32]>::to_vec),
                took_ms: 0.0,
            },
            Action::OpenIndex => Observation::Index {
                index: Arc::clone(index),
                history: SessionHistory::default(),
                now: 0,
            },
            Action::Compute { .. } => {
                machine.compute(&|| 0.0);
                continue;
            }
            Action::ReadLinks(_) => Observation::Links(Vec::new()),
            Action::ReadTexts(docs) => {
                let texts = docs.into_iter().filter_map(|doc| Some((doc, text(doc)?)));
                Observation::Texts(texts.collect())
            }
            Action::Done => break,
        };
        machine.observe(observation);
    }
    machine.finish(String::new(), String::new(), None, 0.0)
}

/// Passages have no trigger phrases, no links and no synonyms of their own.
static PIPELINE: LazyLock<Arc<ValidPipeline>> = LazyLock::new(|| {
    let changes = json!({
        "channels": {"trigger": false, "graph": false},
        "modes": {"deep": {"expand": false}},
    });
    Pipeline::with(&changes).map_or_else(|_| Arc::clone(ValidPipeline::standard()), Arc::new)
});

/// The result of background work on a directory.
fn finished<T>(path: &Path, done: Result<T, crate::EngineError>) -> Result<T, SearchError> {
    done.map_err(|error| SearchError::Unreadable {
        path: path.display().to_string(),
        reason: error.to_string(),
    })
}

/// A note about the files that could not be read.
fn skipped_files(stored: &PassageIndex) -> Option<String> {
    let skipped: Vec<String> = stored
        .files
        .iter()
        .filter_map(|(name, file)| Some(format!("{name} ({})", file.problem.as_ref()?)))
        .collect();
    let more = match skipped.len().saturating_sub(MAX_SKIPPED_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = skipped.iter().take(MAX_SKIPPED_SHOWN);
    let shown = shown.map(String::as_str).collect::<Vec<_>>().join(", ");
    (!skipped.is_empty()).then(|| format!("Files without text were skipped: {shown}{more}."))
}

/// Reads the documents of a directory as far as they changed. Returns the passages, whether they changed, and
/// whether a kept index was unusable.
fn read_directory(
    path: &Path,
    kept: Option<&Path>,
    embedder: Option<&str>,
) -> Result<(PassageIndex, bool, bool), SearchError> {
    let unreadable = |reason: String| SearchError::Unreadable {
        path: path.display().to_string(),
        reason,
    };
    let mut files = Vec::new();
    let single = path.is_file();
    if single {
        files.push(path.to_owned());
    } else {
        collect(path, 0, &mut files).map_err(|error| unreadable(error.kind().to_string()))?;
    }
    files.sort();
    let name = |file: &PathBuf| {
        if single {
            file.display().to_string()
        } else {
            file.strip_prefix(path).unwrap_or(file).display().to_string()
        }
    };
    let files: Vec<(String, PathBuf)> = files.into_iter().map(|file| (name(&file), file)).collect();
    let (mut stored, unusable) = match kept.map_or(Kept::Absent, PassageIndex::read) {
        Kept::Read(stored) => (stored, false),
        Kept::Absent => (PassageIndex::default(), false),
        Kept::Unusable => (PassageIndex::default(), true),
    };
    let mut changed = stored.follow(&files, read) || unusable;
    if let Some(embedder) = embedder {
        changed |= stored.embedder != embedder;
        stored.use_embedder(embedder);
    }
    let skipped: Vec<(&String, &String)> = stored
        .files
        .iter()
        .filter_map(|(name, file)| Some((name, file.problem.as_ref()?)))
        .collect();
    if skipped.len() == stored.files.len() {
        let why = skipped
            .first()
            .map_or_else(String::new, |(name, reason)| format!(" ({name}: {reason})"));
        return Err(unreadable(format!(
            "no Markdown, text, HTML or PDF file found{why}"
        )));
    }
    if stored
        .files
        .values()
        .map(|file| file.passages.len())
        .sum::<usize>()
        > MAX_PASSAGES
    {
        return Err(unreadable(format!(
            "more than {MAX_PASSAGES} passages; choose a smaller directory"
        )));
    }
    Ok((stored, changed, unusable))
}

/// Embeds passages without a vector, those that words find for the task first. Returns how many it embedded and how
/// many are left.
async fn embed(stored: &mut PassageIndex, embedder: &dyn Embedder, task: &str) -> (usize, usize) {
    let mut passages: Vec<&mut IndexedPassage> = stored
        .files
        .values_mut()
        .flat_map(|file| &mut file.passages)
        .collect();
    let mut pending: Vec<usize> = (0..passages.len())
        .filter(|at| passages[*at].vector.is_none())
        .collect();
    if pending.len() > EMBED_FIRST && !task.trim().is_empty() {
        let words = Arc::new(index_passages(passages.iter().map(|passage| &**passage), "", 0));
        let text = |doc: i64| {
            passages
                .get(usize::try_from(doc).ok()?)
                .map(|passage| passage.text.clone())
        };
        let found = search(&words, task, EMBED_FIRST, None, text).results;
        let first: Vec<usize> = found.iter().filter_map(|result| result.id.parse().ok()).collect();
        let place = |at: &usize| first.iter().position(|found| found == at).unwrap_or(first.len());
        pending.sort_by_cached_key(place);
    }
    let began = Instant::now();
    let mut done = 0;
    for batch in pending.chunks(EMBED_BATCH) {
        if began.elapsed() > EMBED_TIME {
            break;
        }
        let texts: Vec<String> = batch
            .iter()
            .map(|at| embedded_text(&passages[*at].title, &passages[*at].text))
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        match embedder.embed(&texts).await {
            Ok(vectors) => {
                for (at, vector) in batch.iter().zip(vectors) {
                    passages[*at].vector = Some(encode_vector(&vector));
                }
                done += batch.len();
            }
            Err(error) => {
                tracing::warn!(%error, "cannot embed passages; searching by words");
                break;
            }
        }
    }
    (done, pending.len() - done)
}

/// Keeps the index if it changed and reading it is cheaper than building it.
fn write(stored: &mut PassageIndex, path: &Path, changed: bool) -> std::io::Result<()> {
    let passages = stored
        .files
        .values()
        .map(|file| file.passages.len())
        .sum::<usize>();
    if changed && (!stored.embedder.is_empty() || passages >= MIN_PASSAGES_FOR_FILE) {
        stored.write(path)?;
    }
    Ok(())
}

fn memory_index(stored: &PassageIndex, dimension: usize) -> MemoryIndex {
    let passages = stored.files.values().flat_map(|file| &file.passages);
    index_passages(passages, &stored.embedder, dimension)
}

/// Indexes every passage as a memory; ids and chunk numbers are positions.
fn index_passages<'a>(
    passages: impl Iterator<Item = &'a IndexedPassage>,
    embedder: &str,
    dimension: usize,
) -> MemoryIndex {
    let mut index = MemoryIndex::new(if dimension == 0 { "" } else { embedder }, dimension);
    for (number, passage) in (0_i64..).zip(passages) {
        // Ties are ordered by id.
        let id = format!("{number:08}");
        index.put(IndexedMemory {
            id: id.clone(),
            title: passage.title.clone(),
            tier: Tier::Normal,
            kind: String::new(),
            confidence: 0.5,
            expires_at: None,
            bytes: passage.text.len(),
            folder: String::new(),
            project: None,
            phrases: Vec::new(),
            provenance: Provenance::default(),
        });
        let vector = passage.vector.as_deref().map(|vector| (embedder, vector));
        index.set_chunks(
            &id,
            &[IndexedChunk {
                doc: number,
                title: &passage.title,
                phrases: "",
                body: &passage.text,
                vector,
            }],
        );
    }
    index
}

/// Passages as search results. The address of the first passage is the document; later ones add a fragment.
fn hits(stored: &PassageIndex) -> Vec<Hit> {
    let mut hits = Vec::new();
    for (name, file) in &stored.files {
        for (number, passage) in (1..).zip(&file.passages) {
            let address = if number == 1 {
                name.clone()
            } else {
                format!("{name}#{number}")
            };
            hits.push(Hit {
                lines: passage.lines,
                ..Hit::new(passage.title.as_str(), address, passage.text.as_str())
            });
        }
    }
    hits
}

/// Collects files that may be documents. Skips hidden files and directories, and symbolic links: a link may
/// lead out of the directory, or form a cycle.
fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs_err::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if hidden || kind.is_symlink() {
            continue;
        }
        let path = entry.path();
        if kind.is_dir() && depth < MAX_DEPTH {
            collect(&path, depth + 1, files)?;
        } else if kind.is_file() && kind_of(&path).is_some() {
            files.push(path);
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Html,
    Pdf,
}

fn kind_of(path: &Path) -> Option<Form> {
    let ending = path.extension()?.to_string_lossy().to_ascii_lowercase();
    Some(match ending.as_str() {
        "md" | "markdown" | "txt" | "text" | "rst" | "adoc" => Form::Text,
        "html" | "htm" | "xhtml" => Form::Html,
        "pdf" => Form::Pdf,
        _ => return None,
    })
}

/// Reads the passages of a file.
fn read(path: &Path, bytes: &[u8]) -> Result<Vec<IndexedPassage>, String> {
    let name = path
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default();
    let form = kind_of(path).unwrap_or(Form::Text);
    // UTF-16 has zero bytes, and a byte order mark.
    let has_mark = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    if form != Form::Pdf && !has_mark && bytes.contains(&0) {
        return Err("not a text file".into());
    }
    let (title, text) = match form {
        Form::Text => (None, content::decoded(bytes, None)),
        Form::Html => {
            let page = content::extract_html(&content::decoded(bytes, None), None)?;
            (Some(page.title).filter(|title| !title.is_empty()), page.markdown)
        }
        Form::Pdf => (None, content::extract_pdf(bytes)?),
    };
    let document = Document::parse(&text, PASSAGE_WORDS);
    if document.passages.is_empty() {
        return Err("no text in the file".into());
    }
    let title = title.or(document.title).unwrap_or(name);
    let passages = document.passages.into_iter().map(|passage| IndexedPassage {
        title: std::iter::once(title.as_str())
            .chain(passage.headings.iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join(" > "),
        text: passage.text,
        // Lines of a converted file are not those of the file.
        lines: (form == Form::Text).then_some(passage.lines),
        vector: None,
    });
    Ok(passages.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, content).unwrap();
        }
        folder
    }

    async fn open(path: &Path) -> Result<Local<'static>, SearchError> {
        Local::open(path, IndexOptions::default()).await
    }

    #[tokio::test]
    async fn documents_of_every_kind_are_found() {
        let folder = folder(&[
            ("a.md", b"# Heated wings\n\nWings bend when they are heated.\n"),
            ("sub/b.txt", b"Ribs of the wing carry the load."),
            (
                "c.html",
                b"<html><head><title>Skin</title></head><body><p>Skin panels of a wing buckle.</p><script>wing()</script></body></html>",
            ),
            (".hidden.md", b"wing wing wing"),
            ("d.bin", b"wing"),
            ("latin.txt", b"Fl\xfcgel are wings in German."),
        ]);
        let local = open(folder.path()).await.unwrap();
        let hits = local.search("wing", 10).await.unwrap();
        let mut urls: Vec<&str> = hits.iter().map(|hit| hit.url.as_str()).collect();
        urls.sort_unstable();
        assert_eq!(urls, ["a.md", "c.html", "latin.txt", "sub/b.txt"]);
        let heated = &local.search("heated", 10).await.unwrap()[0];
        assert_eq!(
            (heated.title.as_str(), heated.snippet.as_str()),
            ("Heated wings", "Wings bend when they are heated.")
        );
        let skin = &local.search("buckle", 10).await.unwrap()[0];
        assert_eq!(skin.title, "Skin");
        assert!(!skin.snippet.contains("wing()"), "{skin:?}");
        assert!(
            local.search("Flügel", 1).await.unwrap()[0]
                .snippet
                .contains("Flügel")
        );
        assert!(
            local
                .search("nothing of the kind xyz", 3)
                .await
                .unwrap()
                .is_empty()
        );
        assert_eq!(local.search("wing", 2).await.unwrap().len(), 2);
    }

    #[tokio::test]
    async fn passages_carry_their_headings_and_front_matter_is_left_out() {
        let text = b"---\ntitle: Ports\nsecret: zebra\n---\n\n```sh\n# zebra crossing\n```\n\n## Firewall\n\nOpen 8787.\n";
        let folder = folder(&[("ports.md", text)]);
        let local = open(folder.path()).await.unwrap();
        let hit = &local.search("firewall", 5).await.unwrap()[0];
        assert_eq!(
            (hit.title.as_str(), hit.snippet.as_str()),
            ("Ports > Firewall", "Open 8787.")
        );
        assert_eq!(hit.url, "ports.md#2");
        assert_eq!(hit.lines.map(|lines| (lines.first, lines.last)), Some((12, 12)));
        assert!(local.search("secret", 5).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_directory_without_documents_is_refused() {
        let empty = folder(&[("x.bin", b"1")]);
        let error = open(empty.path()).await.unwrap_err().to_string();
        assert!(error.contains("no Markdown, text, HTML or PDF file"), "{error}");
        assert!(open(Path::new("/nowhere/at/all")).await.is_err());
        let binary = folder(&[("x.md", b"\x7fELF\0\0port"), ("y.md", b"---\ntitle: T\n---\n")]);
        let error = open(binary.path()).await.unwrap_err().to_string();
        assert!(error.contains("x.md: not a text file"), "{error}");
        fs_err::write(binary.path().join("z.md"), "The port is 8787.").unwrap();
        let local = open(binary.path()).await.unwrap();
        assert_eq!(
            local.notes(),
            ["Files without text were skipped: x.md (not a text file), y.md (no text in the file)."]
        );
        assert_eq!(local.search("port", 5).await.unwrap().len(), 1);
        let broken = folder(&[("x.pdf", b"%PDF-1.4 broken")]);
        let error = open(broken.path()).await.unwrap_err().to_string();
        assert!(error.contains("x.pdf: "), "{error}");
    }
}
