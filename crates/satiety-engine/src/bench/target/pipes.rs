//! Bounded capture of process output.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Number of bytes of stderr to keep.
const TAIL: usize = 64 << 10;
const CHUNK: usize = 16 << 10;

/// The output exceeded the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Overflow;

/// Captures a complete stream, up to a limit.
#[derive(Debug)]
pub(in super::super) struct Capture {
    pub(in super::super) bytes: Vec<u8>,
    limit: usize,
}

impl Capture {
    pub(in super::super) fn new(limit: u64) -> Self {
        Self {
            bytes: Vec::new(),
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
        }
    }

    /// Reads to the end. A read error counts as the end.
    pub(in super::super) async fn fill(
        &mut self,
        mut stream: impl AsyncRead + Unpin,
    ) -> Result<(), Overflow> {
        loop {
            if self.bytes.len() > self.limit {
                return Err(Overflow);
            }
            // At most one chunk beyond the limit.
            self.bytes.reserve(CHUNK.min(self.limit.saturating_add(1)));
            match stream.read_buf(&mut self.bytes).await {
                Ok(0) | Err(_) => return Ok(()),
                Ok(_) => {}
            }
        }
    }
}

/// Captures the end of a stream.
#[derive(Debug, Default)]
pub(in super::super) struct Tail(Vec<u8>);

impl Tail {
    /// Reads to the end and keeps the last bytes.
    pub(in super::super) async fn fill(&mut self, mut stream: impl AsyncRead + Unpin) {
        let mut chunk = Vec::with_capacity(CHUNK);
        loop {
            chunk.clear();
            match stream.read_buf(&mut chunk).await {
                Ok(0) | Err(_) => return,
                Ok(_) => self.push(&chunk),
            }
        }
    }

    pub(in super::super) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        // Truncating only at twice the length makes moving bytes cheap on average.
        if self.0.len() > 2 * TAIL {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let surplus = self.0.len().saturating_sub(TAIL);
        self.0.drain(..surplus);
    }

    /// Takes the captured text and resets the buffer.
    pub(in super::super) fn take(&mut self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        self.cut();
        let text = String::from_utf8_lossy(&self.0).into_owned();
        self.0.clear();
        text
    }
}

/// Reads to the end into a shared buffer.
pub(in super::super) async fn keep_tail(mut from: impl AsyncRead + Unpin, tail: Arc<Mutex<Tail>>) {
    let mut chunk = Vec::with_capacity(4 << 10);
    loop {
        chunk.clear();
        match from.read_buf(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(_) => tail.lock().unwrap_or_else(PoisonError::into_inner).push(&chunk),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_capture_stops_at_its_limit_and_a_tail_keeps_the_end() {
        let data = vec![b'a'; 100_000];
        let mut exact = Capture::new(100_000);
        assert_eq!(exact.fill(data.as_slice()).await, Ok(()));
        assert_eq!(exact.bytes.len(), 100_000);
        let mut small = Capture::new(99_999);
        assert_eq!(small.fill(data.as_slice()).await, Err(Overflow));
        let endless = tokio::io::repeat(b'x');
        let mut bounded = Capture::new(1 << 20);
        assert_eq!(bounded.fill(endless).await, Err(Overflow));
        assert!(bounded.bytes.capacity() < 4 << 20, "{}", bounded.bytes.capacity());

        let mut data = vec![b'a'; 300_000];
        data.extend_from_slice(b"the end");
        let mut tail = Tail::default();
        tail.fill(data.as_slice()).await;
        let text = tail.take();
        assert_eq!(text.len(), TAIL);
        assert!(text.ends_with("the end"));
        assert_eq!(tail.take(), "");
    }
}
