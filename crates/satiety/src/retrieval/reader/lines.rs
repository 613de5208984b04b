//! Splits incoming chunks of bytes into blocks of complete UTF-8 lines.

use crate::retrieval::{RetrievalError, RetrievalResult};

/// State between chunks.
#[derive(Debug)]
pub(in crate::retrieval) struct Lines {
    /// Start of an incomplete line.
    partial: Vec<u8>,
    count: Count,
    /// Whether the next bytes may be a byte order mark.
    may_have_bom: bool,
}

/// Counts lines and rejects lines that are too long.
#[derive(Debug)]
pub(in crate::retrieval) struct Count {
    /// Number of completed lines.
    pub(in crate::retrieval) done: u64,
    /// Maximum length of a line in bytes.
    longest: usize,
}

impl Lines {
    pub(in crate::retrieval) fn new(longest: usize, may_have_bom: bool) -> Self {
        let count = Count { done: 0, longest };
        Self {
            partial: Vec::new(),
            count,
            may_have_bom,
        }
    }

    /// Number of lines so far.
    pub(in crate::retrieval) fn done(&self) -> u64 {
        self.count.done
    }

    /// Passes the complete lines of the next chunk to `take`, without the final line end. `None` marks the
    /// end of the input and flushes a last line without a line end. `take` must count the lines of its block.
    pub(in crate::retrieval) fn push(
        &mut self,
        chunk: Option<&[u8]>,
        mut take: impl FnMut(&mut Count, &[u8]) -> RetrievalResult<()>,
    ) -> RetrievalResult<()> {
        let Some(mut bytes) = chunk else {
            let line = std::mem::take(&mut self.partial);
            return if line.is_empty() {
                Ok(())
            } else {
                self.block(&line, &mut take)
            };
        };
        if !self.partial.is_empty() {
            let Some(end) = memchr::memchr(b'\n', bytes) else {
                return self.keep(bytes);
            };
            self.keep(&bytes[..end])?;
            let mut line = std::mem::take(&mut self.partial);
            self.block(&line, &mut take)?;
            line.clear();
            self.partial = line;
            bytes = &bytes[end + 1..];
        }
        let complete = memchr::memrchr(b'\n', bytes).map_or(0, |end| end + 1);
        let (block, rest) = bytes.split_at(complete);
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
        if std::mem::take(&mut self.may_have_bom) {
            // Skip a UTF-8 byte order mark.
            block = block.strip_prefix(b"\xef\xbb\xbf").unwrap_or(block);
        }
        if let Err(error) = std::str::from_utf8(block) {
            // Report earlier errors first, independent of how the input is split into chunks.
            let valid = &block[..error.valid_up_to()];
            if let Some(end) = memchr::memrchr(b'\n', valid) {
                take(&mut self.count, &valid[..end])?;
            }
            return Err(RetrievalError::at(self.count.done + 1, "not UTF-8 text"));
        }
        take(&mut self.count, block)
    }

    fn keep(&mut self, bytes: &[u8]) -> RetrievalResult<()> {
        if self.partial.len() + bytes.len() > self.count.longest {
            return Err(self.count.long(self.count.done + 1));
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }
}

impl Count {
    /// Calls `take` for each line of a block with its number.
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

    /// Number of the next line, which has `length` bytes.
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
