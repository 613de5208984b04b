//! Runs a parser of untrusted bytes with limits on time and stack.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Stack size of a parser thread; parsers are recursive.
const PARSE_STACK: usize = 64 << 20;
/// Maximum number of abandoned parsers that may still run; beyond it nothing is parsed.
const MAX_ABANDONED: usize = 4;

/// Outcome of parsing.
pub(super) enum Parsed<T> {
    Done(T),
    /// The parser panicked, or its thread could not be started.
    Failed,
    /// The parser timed out and was abandoned.
    Late,
}

/// Runs a parser on a separate thread and abandons it after `limit`. A thread cannot be killed, so abandoned
/// ones are counted; with too many of them nothing is parsed until one ends.
pub(super) fn run_with_timeout<T: Send + 'static>(
    limit: Duration,
    parse: impl FnOnce() -> T + Send + 'static,
) -> Parsed<T> {
    static ABANDONED: AtomicUsize = AtomicUsize::new(0);
    if ABANDONED.load(Ordering::SeqCst) >= MAX_ABANDONED {
        return Parsed::Late;
    }
    let (sender, receiver) = mpsc::sync_channel(1);
    // 0 while the caller waits, 1 once the parser is done, 2 once it was abandoned: the second to change it
    // updates the count.
    let state = std::sync::Arc::new(AtomicUsize::new(0));
    let own = std::sync::Arc::clone(&state);
    let parsing = move || {
        let outcome = catch_unwind(AssertUnwindSafe(parse));
        let _ = sender.send(outcome);
        if own.swap(1, Ordering::SeqCst) == 2 {
            ABANDONED.fetch_sub(1, Ordering::SeqCst);
        }
    };
    let started = std::thread::Builder::new()
        .name("parser".into())
        .stack_size(PARSE_STACK)
        .spawn(parsing);
    if started.is_err() {
        return Parsed::Failed;
    }
    match receiver.recv_timeout(limit) {
        Ok(Ok(page)) => Parsed::Done(page),
        Ok(Err(_)) | Err(mpsc::RecvTimeoutError::Disconnected) => Parsed::Failed,
        Err(mpsc::RecvTimeoutError::Timeout) => {
            ABANDONED.fetch_add(1, Ordering::SeqCst);
            if state.swap(2, Ordering::SeqCst) == 1 {
                ABANDONED.fetch_sub(1, Ordering::SeqCst);
            }
            Parsed::Late
        }
    }
}

/// Trims lines and collapses consecutive empty lines.
pub(super) fn tidy(text: &str) -> String {
    let mut tidy = String::with_capacity(text.len());
    let mut empty = 0;
    for line in text.lines().map(str::trim_end) {
        empty = if line.trim().is_empty() { empty + 1 } else { 0 };
        if empty > 1 {
            continue;
        }
        tidy.push_str(if empty == 1 { "" } else { line });
        tidy.push('\n');
    }
    tidy.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An abandoned parser does not keep others from parsing, unless there are many.
    #[test]
    fn a_slow_parser_times_out() {
        let began = std::time::Instant::now();
        let outcome = run_with_timeout(Duration::from_millis(30), || {
            std::thread::sleep(Duration::from_millis(300));
        });
        assert!(matches!(outcome, Parsed::Late) && began.elapsed() < Duration::from_millis(250));
        assert!(matches!(
            run_with_timeout(Duration::from_secs(1), || 1),
            Parsed::Done(1)
        ));
        assert!(matches!(
            run_with_timeout(Duration::from_secs(1), || panic!("a bad page")),
            Parsed::<()>::Failed
        ));
    }
}
