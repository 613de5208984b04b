//! Image of a [`LexicalIndex`]; see [`crate::memory::image`]. Written words are not kept, only their terms: a
//! word is stemmed again when it occurs in a new text.

use std::sync::Arc;

use crate::memory::ImageError;
use crate::memory::image::{
    Pack, Reader, Sink, Source, pack_struct, read_list, read_value, write_list, write_value,
};
use crate::text::StopWords;
use crate::text::language::Languages;
use crate::text::stem::Vocabulary;

use super::{GONE, LexicalIndex, Posting, PostingList, Span};

pack_struct!(Span {
    first,
    chunks,
    length
});

impl Pack for Posting {
    fn pack(&self, out: &mut Vec<u8>) {
        let Self { chunk, title, body } = self;
        chunk.pack(out);
        title.pack(out);
        body.pack(out);
    }

    fn unpack(input: &mut Reader<'_>) -> Option<Self> {
        Self::unpack_many(input, 1)?.pop()
    }

    fn unpack_many(input: &mut Reader<'_>, count: usize) -> Option<Vec<Self>> {
        let bytes = input.take(count.checked_mul(8)?)?;
        let (postings, _) = bytes.as_chunks::<8>();
        let posting = |[a, b, c, d, e, f, g, h]: &[u8; 8]| Self {
            chunk: u32::from_le_bytes([*a, *b, *c, *d]),
            title: u16::from_le_bytes([*e, *f]),
            body: u16::from_le_bytes([*g, *h]),
        };
        Some(postings.iter().map(posting).collect())
    }
}

impl Pack for PostingList {
    fn pack(&self, out: &mut Vec<u8>) {
        self.len().pack(out);
        for posting in self.parts().into_iter().flatten() {
            posting.pack(out);
        }
    }

    fn unpack(input: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            older: Arc::new(Vec::unpack(input)?),
            recent: None,
        })
    }
}

impl LexicalIndex {
    pub(crate) fn write_image<E>(&self, sink: Sink<'_, E>) -> Result<(), E> {
        let stop_words = match self.vocabulary.stop_words() {
            StopWords::Notes => 0_u8,
            StopWords::Conversation => 1,
            StopWords::Research => 2,
        };
        write_value(&stop_words, sink)?;
        write_value(&self.languages.bits(), sink)?;
        write_list(&self.vocabulary.terms(), sink)?;
        write_list(&self.owners, sink)?;
        write_list(&self.spans, sink)?;
        write_list(self.postings.iter(), sink)
    }

    pub(crate) fn read_image<E: From<ImageError>>(source: Source<'_, E>) -> Result<Self, E> {
        let stop_words = match read_value(source)? {
            0_u8 => StopWords::Notes,
            1 => StopWords::Conversation,
            2 => StopWords::Research,
            _ => return Err(ImageError.into()),
        };
        let languages = Languages::from_bits(read_value(source)?);
        let mut terms: Vec<Box<str>> = Vec::new();
        read_list(source, |term| terms.push(term))?;
        let mut index = Self {
            vocabulary: Vocabulary::with_terms(stop_words, terms).ok_or(ImageError)?,
            languages,
            ..Self::default()
        };
        read_list(source, |owner| index.owners.push(owner))?;
        read_list(source, |span| index.spans.push(span))?;
        read_list(source, |list| index.postings.push(list))?;
        index.derive().ok_or(ImageError)?;
        Ok(index)
    }

    /// Restores the sums; `None` if a number points nowhere.
    fn derive(&mut self) -> Option<()> {
        if self.postings.len() > self.vocabulary.len() {
            return None;
        }
        for span in self.spans.iter().filter(|span| span.chunks > 0) {
            if span.first.checked_add(span.chunks)? as usize > self.owners.len() {
                return None;
            }
            self.memories += 1;
            self.total_length += u64::from(span.length);
        }
        self.gone = self.owners.iter().filter(|owner| **owner == GONE).count();
        Some(())
    }
}
