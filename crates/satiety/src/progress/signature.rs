//! What of a step is compared: its action and its outcome as hashes and word sets.

use std::hash::{Hash, Hasher};
use std::sync::LazyLock;

use regex::{RegexSet, RegexSetBuilder};
use rustc_hash::FxHasher;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::trajectory::{Call, CallClass, CallKind, CallResult, Step, classify};

/// Words beyond this many bytes at the beginning and at the end of a text are not compared one by one; the
/// hash still covers the whole text.
const COMPARED_BYTES: usize = 16 * 1024;

/// The compared part of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Signature {
    pub(super) action: Words,
    pub(super) outcome: Words,
    /// Hash of the names of the called tools.
    pub(super) tools: u64,
    /// The most consequential kind of the calls; `None` for a turn without calls.
    pub(super) kind: Option<CallKind>,
    /// Some call is a command line.
    pub(super) runs_command: bool,
    pub(super) waits: bool,
    pub(super) failed: bool,
    /// What the results say as a whole; `None` if there is none.
    pub(super) answer: Option<Answer>,
    /// Hashes of the files and queries that the step is about.
    pub(super) targets: Vec<u64>,
    /// Hashes of replaced and replacing text of each edit.
    pub(super) replacements: Vec<(u64, u64)>,
    pub(super) tokens: Option<u64>,
    pub(super) time: Option<jiff::Timestamp>,
}

/// What the results of a step say as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// Something that can be new.
    Content,
    /// Nothing was found, whatever was asked for.
    Empty,
    /// What was asked for has been done; the next answer may well be the same.
    Done,
}

/// Hash and set of the words of a text.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Words {
    pub(super) hash: u64,
    /// Hash of the numbers in their order.
    pub(super) numbers: u64,
    /// Sorted hashes of distinct words.
    #[serde(with = "super::snapshot::packed_words")]
    set: Vec<u32>,
}

impl Words {
    pub(super) fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// Number of distinct words.
    pub(super) fn len(&self) -> usize {
        self.set.len()
    }

    /// Jaccard similarity, or `None` if it is below `least`.
    pub(super) fn similarity(&self, other: &Self, least: f64) -> Option<f64> {
        if self.hash == other.hash {
            return Some(1.0);
        }
        let (short, long) = if self.set.len() <= other.set.len() {
            (&self.set, &other.set)
        } else {
            (&other.set, &self.set)
        };
        if short.is_empty() || (short.len() as f64) < least * long.len() as f64 {
            return None;
        }
        let mut common = 0_usize;
        let mut rest = long.as_slice();
        for word in short {
            while let Some((first, tail)) = rest.split_first() {
                if first < word {
                    rest = tail;
                } else {
                    if first == word {
                        common += 1;
                        rest = tail;
                    }
                    break;
                }
            }
        }
        let similarity = common as f64 / (short.len() + long.len() - common) as f64;
        (similarity >= least).then_some(similarity)
    }
}

impl Signature {
    pub(super) fn new(step: &Step) -> Self {
        let mut action = Collector::default();
        let mut outcome = Collector::default();
        let mut tools = FxHasher::default();
        let mut kind = None;
        let mut runs_command = false;
        let mut waits = false;
        let mut failed = false;
        let mut answer = None;
        let mut targets = Vec::new();
        let mut replacements = Vec::new();
        for call in &step.calls {
            let class = classify(call);
            call.tool.hash(&mut tools);
            action.text(&call.tool);
            collect_arguments(&call.arguments, &mut action);
            if let Some(result) = &call.result {
                outcome.text_without_volatile(&result.content);
                failed |= has_failed(result);
                answer = Some(answer.map_or_else(
                    || answer_of(&result.content),
                    |known| {
                        if known == answer_of(&result.content) {
                            known
                        } else {
                            Answer::Content
                        }
                    },
                ));
                if let Some(code) = result.exit_code {
                    outcome.number(code);
                }
            }
            runs_command |= call.command().is_some();
            waits |= class.waits;
            collect_targets(call, &class, &mut targets);
            collect_replacement(call, &mut replacements);
            kind = Some(kind.map_or(class.kind, |kind: CallKind| more_consequential(kind, class.kind)));
        }
        if step.calls.is_empty() {
            action.text(&step.text);
        }
        for reply in &step.replies {
            outcome.text_without_volatile(&reply.text);
            answer.get_or_insert(Answer::Content);
        }
        Self {
            action: action.finish(),
            outcome: outcome.finish(),
            tools: tools.finish(),
            kind,
            runs_command,
            waits,
            failed,
            answer,
            targets,
            replacements,
            tokens: step.usage.tokens,
            time: step.time,
        }
    }

    /// Whether the step has a result or reply.
    pub(super) fn has_result(&self) -> bool {
        self.answer.is_some()
    }

    /// Whether nothing was found.
    pub(super) fn is_empty_answer(&self) -> bool {
        self.answer == Some(Answer::Empty)
    }

    /// Whether the outcome says nothing: no output at all, or a word or two.
    pub(super) fn is_silent(&self) -> bool {
        self.outcome.len() <= 2
    }

    /// Whether this is the same call as `other` with other numbers in its result, as when an agent polls
    /// something that makes progress. For edits and failures, another number is nothing new.
    pub(super) fn polls(&self, other: &Self) -> bool {
        !self.failed
            && self.action.hash == other.action.hash
            && self.outcome.numbers != other.outcome.numbers
            && matches!(
                self.kind,
                Some(CallKind::Read | CallKind::Search | CallKind::Run | CallKind::Wait)
            )
    }

    /// Whether the step changed something and succeeded.
    pub(super) fn is_successful_edit(&self) -> bool {
        self.kind == Some(CallKind::Edit) && !self.failed
    }
}

fn more_consequential(left: CallKind, right: CallKind) -> CallKind {
    let rank = |kind: CallKind| match kind {
        CallKind::Finish => 7,
        CallKind::Edit => 6,
        CallKind::Run => 5,
        CallKind::Ask => 4,
        CallKind::Wait => 3,
        CallKind::Search => 2,
        CallKind::Read => 1,
        CallKind::Plan => 0,
    };
    if rank(left) >= rank(right) { left } else { right }
}

/// Adds the arguments in canonical order: keys sorted, values as text.
fn collect_arguments(value: &Value, into: &mut Collector) {
    match value {
        Value::Null => {}
        Value::String(text) => into.text(text),
        Value::Bool(flag) => into.number(i64::from(*flag)),
        Value::Number(number) => into.text(&number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| collect_arguments(item, into)),
        Value::Object(object) => {
            // `serde_json` may keep the order of insertion; the order of keys has no meaning.
            let mut keys: Vec<&String> = object.keys().collect();
            keys.sort_unstable();
            for key in keys {
                into.text(key);
                collect_arguments(&object[key.as_str()], into);
            }
        }
    }
}

fn collect_targets(call: &Call, class: &CallClass, into: &mut Vec<u64>) {
    for edit in class.edits.iter().filter(|edit| !edit.path.is_empty()) {
        into.push(hash_of(&edit.path));
    }
    match &call.arguments {
        Value::Object(object) => {
            for value in object.values() {
                if let Value::String(text) = value
                    && text.len() <= 512
                {
                    into.push(hash_of(text));
                }
            }
        }
        Value::String(text) => {
            for word in text.split_whitespace().take(64) {
                if word.contains(['/', '.']) || word.len() > 3 {
                    into.push(hash_of(word.trim_matches(['"', '\''])));
                }
            }
        }
        _ => {}
    }
}

fn collect_replacement(call: &Call, into: &mut Vec<(u64, u64)>) {
    let text = |keys: &[&str]| keys.iter().find_map(|key| call.arguments.get(key)?.as_str());
    if let (Some(old), Some(new)) = (text(&["old_str", "old_string"]), text(&["new_str", "new_string"])) {
        into.push((hash_of(old.trim()), hash_of(new.trim())));
    }
}

fn hash_of(text: &str) -> u64 {
    let mut hasher = FxHasher::default();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Collects words and their hashes.
#[derive(Default)]
struct Collector {
    hasher: FxHasher,
    numbers: FxHasher,
    words: Vec<u32>,
}

impl Collector {
    fn text(&mut self, text: &str) {
        self.collect(text, false);
    }

    /// Adds a text without what differs between two runs of the same command: durations, times, addresses,
    /// long hexadecimal ids.
    fn text_without_volatile(&mut self, text: &str) {
        self.collect(text, true);
    }

    fn number(&mut self, number: i64) {
        number.hash(&mut self.hasher);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a hash")]
        self.words.push(number as u32);
    }

    fn collect(&mut self, text: &str, without_volatile: bool) {
        let bytes = text.as_bytes();
        let mut index = 0;
        let tail_begins = bytes.len().saturating_sub(COMPARED_BYTES);
        while index < bytes.len() {
            if !is_word_byte(bytes[index]) {
                // Punctuation is not part of a word, but it distinguishes one command from another.
                if !bytes[index].is_ascii_whitespace() {
                    self.hasher.write_u8(bytes[index]);
                }
                index += 1;
                continue;
            }
            let begin = index;
            while index < bytes.len() && is_word_byte(bytes[index]) {
                index += 1;
            }
            let word = &bytes[begin..index];
            if without_volatile
                && is_volatile(
                    word,
                    bytes.get(index).copied(),
                    begin.checked_sub(1).map(|at| bytes[at]),
                )
            {
                continue;
            }
            let mut hasher = FxHasher::default();
            for byte in word {
                hasher.write_u8(byte.to_ascii_lowercase());
            }
            let hash = hasher.finish();
            self.hasher.write_u64(hash);
            if word.iter().all(u8::is_ascii_digit) {
                self.numbers.write_u64(hash);
            }
            if begin < COMPARED_BYTES || begin >= tail_begins {
                self.words.push((hash >> 32) as u32);
            }
        }
    }

    fn finish(mut self) -> Words {
        self.words.sort_unstable();
        self.words.dedup();
        Words {
            hash: self.hasher.finish(),
            numbers: self.numbers.finish(),
            set: self.words,
        }
    }
}

/// Letters, digits, underscores, and everything beyond ASCII.
fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Whether a word is likely to differ between two runs with the same result.
fn is_volatile(word: &[u8], next: Option<u8>, previous: Option<u8>) -> bool {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    // 0x7f3a..., and hexadecimal ids of at least twelve digits.
    if word.starts_with(b"0x") && word.len() > 4 {
        return true;
    }
    if word.len() >= 12 && word.iter().all(u8::is_ascii_hexdigit) && word.iter().any(u8::is_ascii_digit) {
        return true;
    }
    // 12s, 340ms, 5us
    if digits > 0 && matches!(&word[digits..], b"s" | b"ms" | b"us" | b"ns" | b"sec" | b"secs") {
        return true;
    }
    // The parts of 10:42:17 and of 2026-11-17T10:42:17.
    digits == word.len() && digits == 2 && (next == Some(b':') || previous == Some(b':'))
}

/// Whether a result reports a failure: by its flag, its exit code, or the look of its first and last lines.
pub fn has_failed(result: &CallResult) -> bool {
    match (result.error, result.exit_code) {
        (Some(true), _) => true,
        (_, Some(code)) => code != 0,
        (Some(false), None) => false,
        (None, None) => looks_failed(&result.content),
    }
}

/// The line of a result that says most: of a failed result the last error message, otherwise the first line.
/// Lines without a letter or digit and rules such as `=====` around a text are left out.
pub fn telling_line(result: &CallResult) -> Option<&str> {
    let lines = || {
        let lines = result.content.lines().map(without_rule);
        lines.filter(|line| line.contains(char::is_alphanumeric))
    };
    if !has_failed(result) {
        return lines().next();
    }
    let patterns = &*RESULT_PATTERNS;
    let last = |set: &RegexSet| lines().rfind(|line| set.is_match(head(line)));
    last(&patterns.messages)
        .or_else(|| last(&patterns.last))
        .or_else(|| last(&patterns.first))
        .or_else(|| lines().next_back())
}

/// A line without the rule that is drawn around it.
fn without_rule(line: &str) -> &str {
    const SHORTEST: usize = 3;
    let text = line.trim();
    let rule = text.chars().next().filter(|first| "=-_*#~".contains(*first));
    match rule {
        Some(rule) if text.chars().take_while(|letter| *letter == rule).count() >= SHORTEST => {
            text.trim_matches(rule).trim()
        }
        _ => text,
    }
}

fn looks_failed(content: &str) -> bool {
    let patterns = &*RESULT_PATTERNS;
    let content = content.trim();
    let first = content
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take(2);
    if first.map(head).any(|line| patterns.first.is_match(line)) {
        return true;
    }
    let last = content
        .lines()
        .rev()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take(4);
    last.map(head).any(|line| patterns.last.is_match(line))
}

/// What a result says as a whole. Only short results say nothing but "none" or "done".
fn answer_of(content: &str) -> Answer {
    const LONGEST: usize = 240;
    let content = content.trim();
    if content.len() > LONGEST {
        return Answer::Content;
    }
    let patterns = &*RESULT_PATTERNS;
    if content.is_empty() || patterns.empty.is_match(content) {
        Answer::Empty
    } else if patterns.done.is_match(content) {
        Answer::Done
    } else {
        Answer::Content
    }
}

/// The first bytes of a line, cut at a character.
fn head(line: &str) -> &str {
    const LONGEST: usize = 200;
    if line.len() <= LONGEST {
        return line;
    }
    let mut end = LONGEST;
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    &line[..end]
}

struct ResultPatterns {
    first: RegexSet,
    messages: RegexSet,
    last: RegexSet,
    empty: RegexSet,
    done: RegexSet,
}

#[derive(Deserialize)]
struct ResultPatternTexts {
    first_lines: Vec<String>,
    messages: Vec<String>,
    last_lines: Vec<String>,
    empty_results: Vec<String>,
    done_results: Vec<String>,
}

#[expect(clippy::expect_used, reason = "the file is compiled in, and a test uses it")]
static RESULT_PATTERNS: LazyLock<ResultPatterns> = LazyLock::new(|| {
    let texts: ResultPatternTexts =
        toml::from_str(include_str!("data/results.toml")).expect("data/results.toml is valid");
    let set = |patterns: &[String]| {
        RegexSetBuilder::new(patterns)
            .case_insensitive(true)
            .build()
            .expect("data/results.toml has valid expressions")
    };
    ResultPatterns {
        first: set(&texts.first_lines),
        messages: set(&texts.messages),
        last: set(&texts.last_lines),
        empty: set(&texts.empty_results),
        done: set(&texts.done_results),
    }
});

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Words {
        let mut collector = Collector::default();
        collector.text_without_volatile(text);
        collector.finish()
    }

    #[test]
    fn the_message_of_an_error_says_more_than_the_summary_below_it() {
        let line = |content: &str, exit_code| {
            let result = CallResult {
                content: content.into(),
                exit_code: Some(exit_code),
                ..CallResult::default()
            };
            telling_line(&result).map(str::to_owned)
        };
        let pytest = "====== ERRORS ======\n__ ERROR collecting t.py __\nE   ImportError: cannot import name 'x'\n\
            === short test summary info ===\nERROR t.py\n====== 1 error in 0.31s ======";
        assert_eq!(
            line(pytest, 1).as_deref(),
            Some("E   ImportError: cannot import name 'x'")
        );
        assert_eq!(
            line("compiling\n--- 2 failed ---\n-----", 1).as_deref(),
            Some("2 failed")
        );
        assert_eq!(line("first\nsecond", 2).as_deref(), Some("second"));
        assert_eq!(line("=====\nall good\nsecond", 0).as_deref(), Some("all good"));
        assert_eq!(line("-x: an option", 0).as_deref(), Some("-x: an option"));
        assert_eq!(line("\n---\n", 1), None);
    }

    #[test]
    fn durations_times_and_addresses_do_not_distinguish() {
        let first = words("3 passed in 0.53s at 10:42:17, object 0x7f3a19 id 9f8e7d6c5b4a3f2e");
        let second = words("3 passed in 0.61s at 11:05:59, object 0x55d0aa id 1f2e3d4c5b6a7f8e");
        assert_ne!(words("3 passed").hash, words("4 passed").hash);
        assert!(first.similarity(&second, 0.8).is_some());
    }

    #[test]
    fn similarity_is_the_jaccard_index() {
        let similarity = words("a b c d").similarity(&words("b c d e"), 0.1).unwrap();
        assert!((similarity - 0.6).abs() < 1e-12);
        assert_eq!(words("a b c d").similarity(&words("b c d e"), 0.8), None);
        assert_eq!(words("").similarity(&words("a"), 0.1), None);
    }

    #[test]
    fn empty_results_and_acknowledgements_are_recognized() {
        for text in [
            "",
            "[]",
            "None",
            "No results found for 'topic 3'.",
            "0 matches",
            "Found 0 documents matching the query",
            "{\"results\": []}",
            "{\"hits\": [ ], \"total\": 0}",
            "Nothing found.",
            "Sorry, I could not find any record of that order.",
        ] {
            assert_eq!(answer_of(text), Answer::Empty, "{text}");
        }
        for text in [
            "Done.",
            "Item 3 processed successfully",
            "{\"status\": \"ok\"}",
            "12 passed in 0.1s",
        ] {
            assert_eq!(answer_of(text), Answer::Done, "{text}");
        }
        for text in [
            "The order was shipped on Monday.",
            "No. 5 Downing Street: found in section 2",
            "status: pending",
            "a\nb\nc",
        ] {
            assert_eq!(answer_of(text), Answer::Content, "{text}");
        }
    }

    #[test]
    fn failures_are_recognized_without_a_flag() {
        for text in [
            "Traceback (most recent call last):\n  File \"x.py\"\nKeyError: 'a'",
            "bash: foo: command not found",
            "cat: a.txt: No such file or directory",
            "===== 2 failed, 3 passed in 0.1s =====",
            "Your proposed edit has introduced new syntax error(s). Please read",
            "Error: connection refused",
        ] {
            assert!(looks_failed(text), "{text}");
        }
        for text in [
            "",
            "3 passed in 0.1s",
            "[File: /a/b.py (37 lines total)]\n1: def error():\n2:     raise Error\n\nok",
            "0 failed, 3 passed",
            "src/errors.rs\nsrc/lib.rs",
        ] {
            assert!(!looks_failed(text), "{text}");
        }
    }
}
