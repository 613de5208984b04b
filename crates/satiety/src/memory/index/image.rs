//! Image of a [`MemoryIndex`]: what cannot be derived from the rest. See [`crate::memory::image`].

use std::collections::HashMap;
use std::hash::Hash;

use crate::memory::image::{pack_struct, read_list, read_value, write_list, write_value};
use crate::memory::{
    ImageError, LexicalIndex, Project, Provenance, TEXT_ANALYSIS_VERSION, TriggerIndex, VectorIndex,
};

use super::{ChunkEntry, IndexedChunk, IndexedMemory, MemoryHeader, MemoryIndex, Tier, to_u32};

pack_struct!(MemoryHeader {
    id,
    title,
    tier,
    kind,
    confidence,
    expires_at,
    bytes,
    folder,
    project,
    author,
    tags,
    recorded_at,
    observed_at,
    valid_from,
    valid_until,
    first,
    chunks,
    live,
    turn
});
pack_struct!(ChunkEntry {
    memory,
    doc,
    bytes,
    vector,
    other_model
});
pack_struct!(Project { id, label });

/// Text with every kind of word that the analysis treats differently. Its image changes whenever words are
/// split, folded, stemmed or left out differently, or the layout changes.
const PROBE: &str = "The readers' caches were caching naïve Café résumés; don't re-index user_id HTTPServer2 v1.2.3 at \
    10,000 ms or 3.14%! Ein größeres Haus, les données étaient chargées, los niños corrían, быстрые базы данных, \
    数据库连接池被锁定了。検索エンジンのキャッシュ、검색 색인이 느립니다, ฐานข้อมูลล็อก, قاعدة البيانات, https://example.org/a?b=c \
    snake_case camelCase kebab-case e.g. U.S.A. C++ #42 @name 2026-11-17T22:00:00Z running ran runs better studies";

impl MemoryIndex {
    /// Number that identifies the layout of images and the analysis of texts: an image of another fingerprint
    /// must not be read.
    pub fn image_fingerprint() -> u64 {
        let mut index = Self::new("probe", 2);
        index.put(IndexedMemory {
            id: "id".into(),
            title: PROBE.into(),
            tier: Tier::Normal,
            kind: "note".into(),
            confidence: 0.5,
            expires_at: Some(1),
            bytes: PROBE.len(),
            folder: "a/b".into(),
            project: Some(Project {
                id: "p".into(),
                label: "l".into(),
            }),
            phrases: vec![PROBE.into()],
            provenance: Provenance {
                author: Some("a".into()),
                tags: vec!["t".into()],
                ..Provenance::default()
            },
        });
        let chunk = IndexedChunk {
            doc: 1,
            title: PROBE,
            phrases: PROBE,
            body: PROBE,
            vector: Some(("probe", "/38BgA")),
        };
        index.set_chunks("id", &[chunk]);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&TEXT_ANALYSIS_VERSION.to_le_bytes());
        let written: Result<(), std::convert::Infallible> = index.write_image(&mut |frame| {
            hasher.update(&(frame.len() as u64).to_le_bytes());
            hasher.update(frame);
            Ok(())
        });
        let Ok(()) = written;
        let hash = hasher.finalize();
        hash.as_bytes()
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// Passes the image of this index to `sink`, in frames of about a megabyte.
    pub fn write_image<E>(&self, sink: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        write_value(&self.embedder, sink)?;
        write_value(&self.folders, sink)?;
        write_value(&self.projects, sink)?;
        write_value(&self.authors, sink)?;
        write_value(&self.tag_sets, sink)?;
        write_list(self.headers.iter(), sink)?;
        write_list(self.chunks.iter(), sink)?;
        self.lexical.write_image(sink)?;
        self.vectors.write_image(sink)?;
        self.triggers.write_image(sink)
    }

    /// Reads an image. `source` returns the frames as they were written.
    pub fn read_image<E: From<ImageError>>(
        source: &mut dyn FnMut() -> Result<Vec<u8>, E>,
    ) -> Result<Self, E> {
        let mut index = Self {
            embedder: read_value(source)?,
            folders: read_value(source)?,
            projects: read_value(source)?,
            authors: read_value(source)?,
            tag_sets: read_value(source)?,
            ..Self::default()
        };
        read_list(source, |header: MemoryHeader| index.headers.push(header))?;
        read_list(source, |chunk: ChunkEntry| index.chunks.push(chunk))?;
        index.lexical = LexicalIndex::read_image(source)?;
        index.vectors = VectorIndex::read_image(source)?;
        index.triggers = TriggerIndex::read_image(source)?;
        index.derive().ok_or(ImageError)?;
        Ok(index)
    }

    /// Restores the parts that the image omits; `None` if a number points nowhere.
    fn derive(&mut self) -> Option<()> {
        self.folder_numbers = numbered(&self.folders);
        self.project_numbers = numbered(&self.projects);
        self.author_numbers = numbered(&self.authors);
        self.tag_set_numbers = numbered(&self.tag_sets);
        let (headers, chunks, vectors) = (self.headers.len(), self.chunks.len(), self.vectors.slots());
        for (at, header) in self.headers.iter().enumerate() {
            let end = header.first.checked_add(header.chunks)?;
            let fits = end as usize <= chunks
                && (header.folder as usize) < self.folders.len()
                && (header.project as usize) < self.projects.len()
                && (header.author as usize) < self.authors.len()
                && (header.tags as usize) < self.tag_sets.len();
            if !fits {
                return None;
            }
            if header.live {
                let at = to_u32(at);
                self.positions.insert(header.id.clone(), at);
                super::set_member(&mut self.constitutional, at, header.tier == Tier::Constitutional);
                super::set_member(&mut self.expiring, at, header.expires_at.is_some());
            }
        }
        for chunk in self.chunks.iter() {
            let fits = (chunk.memory as usize) < headers
                && chunk.vector.is_none_or(|vector| (vector as usize) < vectors);
            if !fits {
                return None;
            }
        }
        self.count_chunks();
        Some(())
    }
}

/// Positions of distinct values in their list.
fn numbered<T: Clone + Eq + Hash>(values: &[T]) -> HashMap<T, u32> {
    (0..)
        .zip(values)
        .map(|(number, value)| (value.clone(), number))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Scope, encode_vector, query_terms};
    use proptest::prelude::*;

    fn frames(index: &MemoryIndex) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let written: Result<(), ImageError> = index.write_image(&mut |frame| {
            frames.push(frame.to_vec());
            Ok(())
        });
        written.unwrap();
        frames
    }

    fn read(frames: &[Vec<u8>]) -> Result<MemoryIndex, ImageError> {
        let mut rest = frames.iter();
        MemoryIndex::read_image(&mut || rest.next().cloned().ok_or(ImageError))
    }

    /// Applies changes: a memory number, its number of chunks (0 deletes it), and a word.
    fn changed(index: &mut MemoryIndex, changes: &[(u8, u8, u8)], first_doc: i64) {
        for (step, (memory, chunks, word)) in changes.iter().enumerate() {
            let id = format!("m{memory}");
            if *chunks == 0 {
                index.remove(&id);
                continue;
            }
            index.put(IndexedMemory {
                id: id.clone(),
                title: format!("title {word}"),
                tier: if word % 7 == 0 {
                    Tier::Constitutional
                } else {
                    Tier::Normal
                },
                kind: "note".into(),
                confidence: 0.5,
                expires_at: (word % 5 == 0).then_some(50),
                bytes: 10,
                folder: format!("f{}", word % 3),
                project: None,
                phrases: vec![format!("phrase word{word}")],
                provenance: Provenance {
                    author: (word % 2 == 0).then(|| format!("author {}", word % 4)),
                    tags: (0..word % 3).map(|tag| format!("tag {tag}")).collect(),
                    observed_at: (word % 4 == 0).then_some(i64::from(*word)),
                    ..Provenance::default()
                },
            });
            let bodies: Vec<String> = (0..*chunks)
                .map(|at| format!("body word{} number{at}", word % 9))
                .collect();
            let vectors: Vec<String> = (0..*chunks)
                .map(|at| encode_vector(&[0.6, 0.8 - f32::from(at) / 100.0]))
                .collect();
            let rows: Vec<IndexedChunk<'_>> = bodies
                .iter()
                .zip(&vectors)
                .enumerate()
                .map(|(at, (body, vector))| IndexedChunk {
                    doc: first_doc + i64::try_from(step * 10 + at).unwrap(),
                    title: "title",
                    phrases: "",
                    body,
                    vector: (at % 3 != 2).then_some(("e", vector.as_str())),
                })
                .collect();
            index.set_chunks(&id, &rows);
        }
    }

    /// Everything that a search sees of an index.
    fn view(index: &MemoryIndex) -> String {
        let filter = index.filter("f1", &Scope::All, 60);
        let terms = query_terms("word1 word2 body number1", false).weighed(0.5);
        let question = index.lexical.question(&terms);
        let words = question.search(crate::text::Bm25::default(), 100, |_| true);
        let near = index.vectors.nearest(&[0.6, 0.8], 100, |_| true);
        let mut ids: Vec<&str> = index.ids().collect();
        ids.sort_unstable();
        let triggers = index.match_triggers("a phrase word3 and phrase word14", &Scope::All, 0, 100);
        let counts = (
            index.len(),
            index.chunk_count(),
            index.embedded_chunks(),
            index.other_vectors(),
        );
        format!(
            "{:?}",
            (
                words,
                near,
                ids,
                triggers,
                index.rules(&filter, "f1"),
                index
                    .headers
                    .iter()
                    .filter(|header| header.live)
                    .map(|header| index.provenance(header))
                    .collect::<Vec<_>>(),
                counts,
                index.embedder()
            )
        )
    }

    #[test]
    fn the_fingerprint_is_stable_within_a_process() {
        assert_eq!(MemoryIndex::image_fingerprint(), MemoryIndex::image_fingerprint());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// An image that was read back is searched and changed like the original.
        #[test]
        fn an_image_is_the_index(
            before in proptest::collection::vec((0..20_u8, 0..4_u8, any::<u8>()), 0..40),
            after in proptest::collection::vec((0..20_u8, 0..4_u8, any::<u8>()), 0..20),
        ) {
            let mut index = MemoryIndex::new("e", 2);
            changed(&mut index, &before, 1);
            let mut copy = read(&frames(&index)).unwrap();
            prop_assert_eq!(view(&copy), view(&index));
            changed(&mut index, &after, 10_000);
            changed(&mut copy, &after, 10_000);
            prop_assert_eq!(view(&copy), view(&index));
        }

        /// Without checksums: damaged frames are refused or give an index that can be searched and changed.
        #[test]
        fn damage_never_panics(
            changes in proptest::collection::vec((0..20_u8, 0..4_u8, any::<u8>()), 1..30),
            frame in any::<proptest::sample::Index>(), byte in any::<proptest::sample::Index>(), value in any::<u8>(),
            cut in any::<bool>(),
        ) {
            let mut index = MemoryIndex::new("e", 2);
            changed(&mut index, &changes, 1);
            let mut frames = frames(&index);
            let at = frame.index(frames.len());
            if cut {
                frames.truncate(at);
                prop_assert!(read(&frames).is_err());
            } else {
                let place = byte.index(frames[at].len());
                frames[at][place] = value;
                if let Ok(mut index) = read(&frames) {
                    let _ = view(&index);
                    changed(&mut index, &changes, 10_000);
                    let _ = view(&index);
                }
            }
        }
    }
}
