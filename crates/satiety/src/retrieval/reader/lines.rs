//! Bytes that come in pieces, cut into blocks of whole lines that are text. Nothing here knows what a line means.

use crate::retrieval::{RetrievalError, RetrievalResult};

/// What is known between pieces.
#[derive(Debug)]
pub(in crate::retrieval) struct Lines {
    /// The beginning of a line whose end has not come yet.
    begun: Vec<u8>,
    count: Count,
    /// Whether the very first bytes may be a mark.
    marked: bool,
}

/// Counts lines and refuses long ones.
#[derive(Debug)]
pub(in crate::retrieval) struct Count {
    /// Lines that are done.
    pub(in crate::retrieval) done: u64,
    /// The most bytes of a line.
    longest: usize,
}

impl Lines {
    pub(in crate::retrieval) fn new(longest: usize, marked: bool) -> Self {
        let count = Count { done: 0, longest };
        Self {
            begun: Vec::new(),
            count,
            marked,
        }
    }

    /// How many lines there were.
    pub(in crate::retrieval) fn done(&self) -> u64 {
        self.count.done
    }

    /// Gives out the whole lines of the next piece, without the end of the last one; without a piece, the line that has
    /// no end. Whoever is given a block counts its lines.
    pub(in crate::retrieval) fn push(
        &mut self,
        piece: Option<&[u8]>,
        mut take: impl FnMut(&mut Count, &[u8]) -> RetrievalResult<()>,
    ) -> RetrievalResult<()> {
        let Some(mut bytes) = piece else {
            let line = std::mem::take(&mut self.begun);
            return if line.is_empty() {
                Ok(())
            } else {
                self.block(&line, &mut take)
            };
        };
        if !self.begun.is_empty() {
            let Some(end) = memchr::memchr(b'\n', bytes) else {
                return self.keep(bytes);
            };
            self.keep(&bytes[..end])?;
            let mut line = std::mem::take(&mut self.begun);
            self.block(&line, &mut take)?;
            line.clear();
            self.begun = line;
            bytes = &bytes[end + 1..];
        }
        let whole = memchr::memrchr(b'\n', bytes).map_or(0, |end| end + 1);
        let (block, rest) = bytes.split_at(whole);
        if let Some(block) = block.strip_suffix(b"\n") {
            self.block(block, &mut take)?;
        }
        self.keep(rest)
    }

    fn block(
        &mut self,
        block: &[u8],
        take: &mut impl FnMut(&mut Count, &[u8]) -> RetrievalResult<()>,
    ) -> RetrievalResult<()> {
        let mut block = block;
        if std::mem::take(&mut self.marked) {
            // Some editors mark UTF-8 with three bytes that belong to no id.
            block = block.strip_prefix(b"\xef\xbb\xbf").unwrap_or(block);
        }
        if let Err(error) = std::str::from_utf8(block) {
            // What is wrong before it is told first, however the bytes came.
            let valid = &block[..error.valid_up_to()];
            if let Some(end) = memchr::memrchr(b'\n', valid) {
                take(&mut self.count, &valid[..end])?;
            }
            return Err(RetrievalError::at(self.count.done + 1, "not UTF-8 text"));
        }
        take(&mut self.count, block)
    }

    fn keep(&mut self, bytes: &[u8]) -> RetrievalResult<()> {
        if self.begun.len() + bytes.len() > self.count.longest {
            return Err(self.count.long(self.count.done + 1));
        }
        self.begun.extend_from_slice(bytes);
        Ok(())
    }
}

impl Count {
    /// The lines of a block, one after the other, with their numbers.
    pub(in crate::retrieval) fn each(
        &mut self,
        block: &[u8],
        mut take: impl FnMut(u64, &[u8]) -> RetrievalResult<()>,
    ) -> RetrievalResult<()> {
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', block).chain([block.len()]) {
            let line = &block[start..end];
            start = end + 1;
            take(self.next(line.len())?, line)?;
        }
        Ok(())
    }

    /// The number of a line of so many bytes.
    #[inline]
    pub(in crate::retrieval) fn next(&mut self, length: usize) -> RetrievalResult<u64> {
        self.done += 1;
        if length > self.longest {
            return Err(self.long(self.done));
        }
        Ok(self.done)
    }

    #[cold]
    fn long(&self, line: u64) -> RetrievalError {
        RetrievalError::LongLine {
            line,
            limit: self.longest,
        }
    }
}
