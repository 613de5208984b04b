//! Runs a parser of foreign bytes with a limit on time and stack.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// The stack of a parser. Parsers go down by calling themselves.
const PARSE_STACK: usize = 64 << 20;
/// Parsers that were given up and may still run; with more of them nothing is parsed.
const MOST_GIVEN_UP: usize = 4;

/// How parsing ended.
pub(super) enum Parsed<T> {
    Done(T),
    /// The parser panicked, or could not be started.
    Failed,
    /// The parser was given up.
    Late,
}

/// Parses on a thread of its own that is given up after `limit`. A thread cannot be ended from outside, so those that were given
/// up are counted, and with too many of them nothing is parsed until one ends.
pub(super) fn in_time<T: Send + 'static>(
    limit: Duration,
    parse: impl FnOnce() -> T + Send + 'static,
) -> Parsed<T> {
    static GIVEN_UP: AtomicUsize = AtomicUsize::new(0);
    if GIVEN_UP.load(Ordering::SeqCst) >= MOST_GIVEN_UP {
        return Parsed::Late;
    }
    let (tell, told) = mpsc::sync_channel(1);
    // 0 while somebody waits, 1 once the parser is done, 2 once it was given up: whoever comes second counts.
    let state = std::sync::Arc::new(AtomicUsize::new(0));
    let own = std::sync::Arc::clone(&state);
    let parsing = move || {
        let outcome = catch_unwind(AssertUnwindSafe(parse));
        let _ = tell.send(outcome);
        if own.swap(1, Ordering::SeqCst) == 2 {
            GIVEN_UP.fetch_sub(1, Ordering::SeqCst);
        }
    };
    let started = std::thread::Builder::new()
        .name("parser".into())
        .stack_size(PARSE_STACK)
        .spawn(parsing);
    if started.is_err() {
        return Parsed::Failed;
    }
    match told.recv_timeout(limit) {
        Ok(Ok(page)) => Parsed::Done(page),
        Ok(Err(_)) | Err(mpsc::RecvTimeoutError::Disconnected) => Parsed::Failed,
        Err(mpsc::RecvTimeoutError::Timeout) => {
            GIVEN_UP.fetch_add(1, Ordering::SeqCst);
            if state.swap(2, Ordering::SeqCst) == 1 {
                GIVEN_UP.fetch_sub(1, Ordering::SeqCst);
            }
            Parsed::Late
        }
    }
}

/// Lines without white space at their ends, and never more than one empty line.
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

    /// A parser that was given up does not keep others from parsing, unless there are many.
    #[test]
    fn a_parser_that_takes_too_long_is_given_up() {
        let began = std::time::Instant::now();
        let outcome = in_time(Duration::from_millis(30), || {
            std::thread::sleep(Duration::from_millis(300));
        });
        assert!(matches!(outcome, Parsed::Late) && began.elapsed() < Duration::from_millis(250));
        assert!(matches!(in_time(Duration::from_secs(1), || 1), Parsed::Done(1)));
        assert!(matches!(
            in_time(Duration::from_secs(1), || panic!("a bad page")),
            Parsed::<()>::Failed
        ));
    }
}
