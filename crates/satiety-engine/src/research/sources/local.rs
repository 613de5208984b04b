//! Local source: a directory of documents, read once, split into passages and ranked by BM25. The same
//! directory and query always give the same results.

use std::path::{Path, PathBuf};

use satiety::research::Hit;
use satiety::research::document::Document;
use satiety::text::{LexicalIndex, StopWords};

use super::super::fetch::content;
use super::{SearchError, SearchFuture, Source};

/// Target words of a passage; code, tables and long paragraphs may take twice that.
const PASSAGE_WORDS: usize = 120;
/// Maximum bytes of a file; larger files are data, not documents.
const MAX_FILE_BYTES: u64 = 8 << 20;
/// Maximum number of passages in a directory.
const MAX_PASSAGES: usize = 500_000;
/// Maximum depth of subdirectories.
const MAX_DEPTH: usize = 16;

/// An indexed directory.
#[derive(Debug)]
pub struct Local {
    id: String,
    passages: Vec<Hit>,
    index: LexicalIndex,
}

impl Local {
    /// Indexes all Markdown, text, HTML and PDF files below a directory, or one file.
    pub fn open(path: &Path) -> Result<Self, SearchError> {
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
        let mut passages = Vec::new();
        let mut documents = 0;
        let mut skipped = Vec::new();
        for file in &files {
            let name = if single {
                file.display().to_string()
            } else {
                file.strip_prefix(path).unwrap_or(file).display().to_string()
            };
            match read(file) {
                Ok((title, document)) => {
                    documents += 1;
                    split_passages(&name, &document, &title, &mut passages);
                }
                Err(reason) => skipped.push((name, reason)),
            }
            if passages.len() > MAX_PASSAGES {
                return Err(unreadable(format!(
                    "more than {MAX_PASSAGES} passages; choose a smaller directory"
                )));
            }
        }
        if documents == 0 {
            let why = skipped
                .first()
                .map_or_else(String::new, |(name, reason)| format!(" ({name}: {reason})"));
            return Err(unreadable(format!(
                "no Markdown, text, HTML or PDF file found{why}"
            )));
        }
        for (name, reason) in &skipped {
            tracing::warn!(file = %name, %reason, "skipped a file");
        }
        let mut index = LexicalIndex::new(StopWords::Research);
        for (number, passage) in (0..).zip(&passages) {
            index.put(number, [("", passage.whole().as_str())]);
        }
        Ok(Self {
            id: format!("local:{}", path.display()),
            passages,
            index,
        })
    }

    /// Returns the best passages, at most one per document unless a document has several among the best.
    fn find(&self, query: &str, count: u32) -> Vec<Hit> {
        self.index
            .search(query, count as usize)
            .into_iter()
            .filter_map(|(at, score)| {
                let mut hit = self.passages.get(at as usize)?.clone();
                hit.score = Some(score);
                Some(hit)
            })
            .collect()
    }
}

impl Source for Local {
    fn id(&self) -> &str {
        &self.id
    }

    fn search<'a>(&'a self, query: &'a str, count: u32) -> SearchFuture<'a> {
        Box::pin(std::future::ready(Ok(self.find(query, count))))
    }

    fn is_cacheable(&self) -> bool {
        false
    }
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

/// Reads title and passages of a file.
fn read(path: &Path) -> Result<(String, Document), String> {
    let size = fs_err::metadata(path)
        .map_err(|error| error.kind().to_string())?
        .len();
    if size > MAX_FILE_BYTES {
        return Err(format!("larger than {} MB", MAX_FILE_BYTES >> 20));
    }
    let bytes = fs_err::read(path).map_err(|error| error.kind().to_string())?;
    let name = path
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default();
    let (title, text) = match kind_of(path).unwrap_or(Form::Text) {
        Form::Text => (None, content::decoded(&bytes, None)),
        Form::Html => {
            let page = content::extract_html(&content::decoded(&bytes, None), None)?;
            (Some(page.title).filter(|title| !title.is_empty()), page.markdown)
        }
        Form::Pdf => (None, content::extract_pdf(&bytes)?),
    };
    let document = Document::parse(&text, PASSAGE_WORDS);
    if document.passages.is_empty() {
        return Err("no text in the file".into());
    }
    let title = title.or_else(|| document.title.clone()).unwrap_or(name);
    Ok((title, document))
}

/// Splits a document into passages. The title of a passage is that of the document with the headings above it.
fn split_passages(name: &str, document: &Document, title: &str, passages: &mut Vec<Hit>) {
    for (number, passage) in (1..).zip(&document.passages) {
        // The URL of the first passage is the document; later ones add a fragment.
        let address = if number == 1 {
            name.to_owned()
        } else {
            format!("{name}#{number}")
        };
        let above = passage.headings.iter().map(String::as_str);
        let heading = std::iter::once(title)
            .chain(above)
            .collect::<Vec<_>>()
            .join(" > ");
        passages.push(Hit::new(heading, address, passage.text.as_str()));
    }
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
        let local = Local::open(folder.path()).unwrap();
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
        let local = Local::open(folder.path()).unwrap();
        let hit = &local.search("firewall", 5).await.unwrap()[0];
        assert_eq!(
            (hit.title.as_str(), hit.snippet.as_str()),
            ("Ports > Firewall", "Open 8787.")
        );
        assert_eq!(hit.url, "ports.md#2");
        assert!(local.search("secret", 5).await.unwrap().is_empty());
    }

    #[test]
    fn a_directory_without_documents_is_refused() {
        let empty = folder(&[("x.bin", b"1")]);
        let error = Local::open(empty.path()).unwrap_err().to_string();
        assert!(error.contains("no Markdown, text, HTML or PDF file"), "{error}");
        assert!(Local::open(Path::new("/nowhere/at/all")).is_err());
        let broken = folder(&[("x.pdf", b"%PDF-1.4 broken")]);
        let error = Local::open(broken.path()).unwrap_err().to_string();
        assert!(error.contains("x.pdf: "), "{error}");
    }
}
