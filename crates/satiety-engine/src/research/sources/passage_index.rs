//! Kept index of a directory: the passages of its files with their vectors, so that only changed files are read
//! and embedded again.
//!
//! The file is a cache and never trusted: it is used only if its version and its checksum are right. In every
//! other case the index is built again, the report says so, and the file is replaced.

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use satiety::text::document::LineSpan;
use serde::{Deserialize, Serialize};

use crate::memory::write_private_file;

/// First line of every file; its number changes with the layout and with the splitting of documents.
const HEADER: &str = "satiety-passages-2\n";
/// Files that changed within this time before the index was written are read again: their clock may be coarse.
const CLOCK_MICROS: i64 = 2_000_000;

/// Passages of a directory.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct PassageIndex {
    /// Model of the vectors; empty without vectors.
    pub(super) embedder: String,
    /// When it was written, in microseconds since 1970.
    written_at: i64,
    /// Files by their path below the directory.
    pub(super) files: BTreeMap<String, IndexedFile>,
}

/// A file of the directory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct IndexedFile {
    pub(super) size: u64,
    /// Time of the last change in microseconds since 1970.
    pub(super) modified: i64,
    hash: String,
    pub(super) passages: Vec<IndexedPassage>,
    /// Reason why the file has no passages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) problem: Option<String>,
}

/// A passage of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IndexedPassage {
    /// Title of the document and headings above the passage.
    pub(super) title: String,
    pub(super) text: String,
    /// Lines of the file; absent for converted files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lines: Option<LineSpan>,
    /// Vector as the memory stores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) vector: Option<String>,
}

/// What a directory was compared with.
#[derive(Debug)]
pub(super) enum Kept {
    /// No index is kept for the directory.
    Absent,
    Read(PassageIndex),
    /// The file is damaged, or of another version.
    Unusable,
}

impl PassageIndex {
    /// Reads a kept index.
    pub(super) fn read(path: &Path) -> Kept {
        let bytes = match fs_err::read(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Kept::Absent,
            Err(_) => return Kept::Unusable,
            Ok(bytes) => bytes,
        };
        let body = bytes.strip_prefix(HEADER.as_bytes());
        let parts = body.and_then(|body| body.split_at_checked(blake3::OUT_LEN));
        let body = parts.filter(|(checksum, body)| blake3::hash(body).as_bytes() == *checksum);
        match body.and_then(|(_, body)| serde_json::from_slice(body).ok()) {
            Some(index) => Kept::Read(index),
            None => Kept::Unusable,
        }
    }

    /// Writes the index, readable by its owner only.
    pub(super) fn write(&mut self, path: &Path) -> std::io::Result<()> {
        self.written_at = now();
        let body = serde_json::to_vec(self)?;
        write_private_file(path, |out| {
            out.write_all(HEADER.as_bytes())?;
            out.write_all(blake3::hash(&body).as_bytes())?;
            out.write_all(&body)
        })
    }

    /// Follows the files of a directory: reads those that changed, forgets those that are gone. Returns whether
    /// anything changed.
    pub(super) fn follow(
        &mut self,
        files: &[(String, PathBuf)],
        read: impl Fn(&Path, &[u8]) -> Result<Vec<IndexedPassage>, String>,
    ) -> bool {
        let mut old = std::mem::take(&mut self.files);
        let mut changed = false;
        for (name, path) in files {
            let before = old.remove(name);
            let (size, modified) = match fs_err::metadata(path) {
                Ok(known) => (known.len(), known.modified().map_or(0, micros)),
                Err(_) => (0, 0),
            };
            let settled = modified < self.written_at - CLOCK_MICROS;
            if let Some(same) = before
                .as_ref()
                .filter(|before| settled && (before.size, before.modified) == (size, modified))
            {
                self.files.insert(name.clone(), same.clone());
                continue;
            }
            let file = read_file(path, size, modified, before, &read);
            changed |= file.1;
            self.files.insert(name.clone(), file.0);
        }
        changed || !old.is_empty()
    }

    /// Forgets the vectors of another model.
    pub(super) fn use_embedder(&mut self, embedder: &str) {
        if self.embedder != embedder {
            embedder.clone_into(&mut self.embedder);
            let passages = self.files.values_mut().flat_map(|file| &mut file.passages);
            passages.for_each(|passage| passage.vector = None);
        }
    }
}

/// Reads a file, unless its content is that of before. Returns whether it changed. Unchanged passages keep their
/// vectors.
fn read_file(
    path: &Path,
    size: u64,
    modified: i64,
    before: Option<IndexedFile>,
    read: &impl Fn(&Path, &[u8]) -> Result<Vec<IndexedPassage>, String>,
) -> (IndexedFile, bool) {
    let mut file = IndexedFile {
        size,
        modified,
        ..IndexedFile::default()
    };
    let content = if size > super::local::MAX_FILE_BYTES {
        Err(format!("larger than {} MB", super::local::MAX_FILE_BYTES >> 20))
    } else {
        fs_err::read(path).map_err(|error| error.kind().to_string())
    };
    let passages = match content {
        Err(reason) => Err(reason),
        Ok(bytes) => {
            file.hash = blake3::hash(&bytes).to_hex().to_string();
            if let Some(before) = before.as_ref().filter(|before| before.hash == file.hash) {
                let changed = before.modified != modified;
                file.passages.clone_from(&before.passages);
                file.problem.clone_from(&before.problem);
                return (file, changed);
            }
            read(path, &bytes)
        }
    };
    match passages {
        Ok(passages) => file.passages = passages,
        Err(reason) => file.problem = Some(reason),
    }
    let old = before.map(|before| before.passages).unwrap_or_default();
    let mut vectors: HashMap<(String, String), Option<String>> = old
        .into_iter()
        .map(|passage| ((passage.title, passage.text), passage.vector))
        .collect();
    for passage in &mut file.passages {
        let key = (passage.title.clone(), passage.text.clone());
        passage.vector = vectors.remove(&key).flatten();
    }
    (file, true)
}

fn now() -> i64 {
    micros(SystemTime::now())
}

fn micros(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path) -> Vec<(String, PathBuf)> {
        let mut found: Vec<(String, PathBuf)> = fs_err::read_dir(folder)
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                (path.file_name().unwrap().to_string_lossy().into_owned(), path)
            })
            .collect();
        found.sort();
        found
    }

    fn read(_: &Path, bytes: &[u8]) -> Result<Vec<IndexedPassage>, String> {
        let text = String::from_utf8(bytes.to_vec()).map_err(|_| "not text".to_owned())?;
        let passage = |text: &str| IndexedPassage {
            title: String::new(),
            text: text.to_owned(),
            lines: None,
            vector: None,
        };
        Ok(text.lines().map(passage).collect())
    }

    /// Only changed files are read, and only their changed passages lose their vectors.
    #[test]
    fn the_index_follows_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let kept = tempfile::tempdir().unwrap().path().join("deep").join("index");
        for (name, text) in [("a", "one\ntwo"), ("b", "three"), ("c", "four")] {
            let path = folder.path().join(name);
            fs_err::write(&path, text).unwrap();
            let old = SystemTime::now() - std::time::Duration::from_mins(1);
            fs_err::File::open(&path)
                .unwrap()
                .into_parts()
                .0
                .set_modified(old)
                .unwrap();
        }
        let mut index = PassageIndex::default();
        assert!(index.follow(&files(folder.path()), read));
        index.use_embedder("m");
        for passage in index.files.values_mut().flat_map(|file| &mut file.passages) {
            passage.vector = Some(passage.text.clone());
        }
        index.write(&kept).unwrap();
        let Kept::Read(mut index) = PassageIndex::read(&kept) else {
            panic!("cannot read what was written");
        };
        let never = |_: &Path, _: &[u8]| -> Result<Vec<IndexedPassage>, String> { panic!("read again") };
        assert!(!index.follow(&files(folder.path()), never));
        fs_err::write(folder.path().join("a"), "one\nzwei").unwrap();
        fs_err::remove_file(folder.path().join("b")).unwrap();
        assert!(index.follow(&files(folder.path()), read));
        let vectors: Vec<Option<&str>> = index
            .files
            .values()
            .flat_map(|file| &file.passages)
            .map(|passage| passage.vector.as_deref())
            .collect();
        assert_eq!(vectors, [Some("one"), None, Some("four")]);
        index.use_embedder("other");
        assert!(index.files["c"].passages[0].vector.is_none());
    }

    #[test]
    fn a_damaged_or_foreign_file_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        assert!(matches!(PassageIndex::read(&path), Kept::Absent));
        PassageIndex::default().write(&path).unwrap();
        let bytes = fs_err::read(&path).unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            fs_err::write(&path, &changed).unwrap();
            assert!(matches!(PassageIndex::read(&path), Kept::Unusable), "byte {at}");
            fs_err::write(&path, &bytes[..at]).unwrap();
            assert!(matches!(PassageIndex::read(&path), Kept::Unusable), "{at} bytes");
        }
    }
}
