//! Image of a [`TriggerIndex`]; see [`crate::memory::image`].

use crate::memory::ImageError;
use crate::memory::image::{Sink, Source, pack_struct, read_list, write_list};

use super::{Phrase, TriggerIndex};

/// Phrases under the word that they are indexed by.
struct Entry {
    word: Box<str>,
    phrases: Vec<Phrase>,
}

pack_struct!(Phrase {
    memory,
    words,
    before,
    count
});
pack_struct!(Entry { word, phrases });

impl TriggerIndex {
    pub(in crate::memory) fn write_image<E>(&self, sink: Sink<'_, E>) -> Result<(), E> {
        let mut words: Vec<&Box<str>> = self.by_word.keys().collect();
        words.sort_unstable();
        let entries: Vec<Entry> = words
            .into_iter()
            .map(|word| Entry {
                word: word.clone(),
                phrases: self.by_word.get(word).cloned().unwrap_or_default(),
            })
            .collect();
        write_list(&entries, sink)
    }

    pub(in crate::memory) fn read_image<E: From<ImageError>>(source: Source<'_, E>) -> Result<Self, E> {
        let mut index = Self::default();
        read_list(source, |Entry { word, phrases }| {
            for phrase in &phrases {
                index.kept.entry(phrase.memory).push(word.clone());
            }
            index.by_word.insert(word, phrases);
        })?;
        Ok(index)
    }
}
