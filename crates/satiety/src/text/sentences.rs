//! Sentence splitting for prose and Markdown as people and models write it: Markdown lists, headings and code
//! fences first, then sentences by the Unicode rules (UAX 29), corrected where those break at an
//! abbreviation, an initial or the end of a line.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Serialize;
use unicode_segmentation::UnicodeSegmentation;

/// One statement of a longer text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Sentence<'a> {
    /// Text of the sentence without list markers and surrounding whitespace.
    pub text: &'a str,
    /// Kind of block that contains the sentence.
    pub kind: SentenceKind,
}

/// Kind of block that contains a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SentenceKind {
    /// Running text outside of other blocks.
    Prose,
    /// A bulleted or numbered list item.
    ListItem,
    /// A list item with an empty check box.
    OpenTask,
    /// A list item with a ticked check box.
    DoneTask,
    /// A heading of any level.
    Heading,
    /// A block quotation (`>`).
    Quote,
    /// A row of a table.
    TableRow,
    /// A fenced code block, not split further.
    Code,
}

/// Splits `text` into statements, in order. Empty statements and lines without a letter or digit (rules,
/// fences) are omitted.
///
/// ```
/// use satiety::text::{SentenceKind, sentences};
/// let found = sentences("It costs approx. 3.5 ms. Why?\n- [ ] read config.yaml");
/// let texts: Vec<&str> = found.iter().map(|sentence| sentence.text).collect();
/// assert_eq!(texts, ["It costs approx. 3.5 ms.", "Why?", "read config.yaml"]);
/// assert_eq!(found[2].kind, SentenceKind::OpenTask);
/// ```
pub fn sentences(text: &str) -> Vec<Sentence<'_>> {
    let mut found = Vec::new();
    for block in blocks(text) {
        let slice = &text[block.range];
        if matches!(
            block.kind,
            SentenceKind::Code | SentenceKind::Heading | SentenceKind::TableRow
        ) {
            push(&mut found, slice, block.kind);
        } else {
            split_block(slice, |sentence| push(&mut found, sentence, block.kind));
        }
    }
    found
}

fn push<'a>(found: &mut Vec<Sentence<'a>>, text: &'a str, kind: SentenceKind) {
    let text = text.trim();
    if text.chars().any(char::is_alphanumeric) {
        found.push(Sentence { text, kind });
    }
}

struct Block {
    kind: SentenceKind,
    range: Range<usize>,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut fence: Option<(&str, usize)> = None;
    let mut open = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let body = line.trim();
        let indent = start + (line.len() - line.trim_start().len());
        if let Some((marker, from)) = fence {
            if body.starts_with(marker) {
                blocks.push(Block {
                    kind: SentenceKind::Code,
                    range: from..start,
                });
                fence = None;
            }
            continue;
        }
        if let Some(marker) = ["```", "~~~"].into_iter().find(|marker| body.starts_with(marker)) {
            // A fence that opens and closes in one line is inline code.
            if !body[3..].contains(marker) {
                fence = Some((marker, at));
                open = false;
                continue;
            }
        }
        if body.is_empty() {
            open = false;
            continue;
        }
        let end = indent + body.len();
        let (kind, skip) = line_kind(body);
        let range = indent + skip..end;
        match kind {
            Some(kind) => {
                open = !matches!(kind, SentenceKind::Heading | SentenceKind::TableRow);
                // Lines of one quotation belong together, but the markers between them are not part of it, so
                // each line is a separate block.
                open &= kind != SentenceKind::Quote;
                blocks.push(Block { kind, range });
            }
            None => match blocks.last_mut() {
                Some(block) if open => block.range.end = end,
                _ => {
                    blocks.push(Block {
                        kind: SentenceKind::Prose,
                        range,
                    });
                    open = true;
                }
            },
        }
    }
    if let Some((_, from)) = fence {
        blocks.push(Block {
            kind: SentenceKind::Code,
            range: from..text.len(),
        });
    }
    blocks
}

/// Block kind of a line and the length of its marker in bytes; `None` for running text.
fn line_kind(body: &str) -> (Option<SentenceKind>, usize) {
    if let Some(rest) = body.strip_prefix('>') {
        return (Some(SentenceKind::Quote), body.len() - rest.trim_start().len());
    }
    if body.starts_with('|') && body.len() > 1 && body.ends_with('|') {
        return (Some(SentenceKind::TableRow), 1);
    }
    let hashes = body.len() - body.trim_start_matches('#').len();
    if (1..=6).contains(&hashes) && body[hashes..].starts_with(' ') {
        return (Some(SentenceKind::Heading), hashes + 1);
    }
    let Some(marker) = list_marker(body) else {
        return (None, 0);
    };
    let item = body[marker..].trim_start();
    let skip = body.len() - item.len();
    for (box_text, kind) in [
        ("[ ]", SentenceKind::OpenTask),
        ("[x]", SentenceKind::DoneTask),
        ("[X]", SentenceKind::DoneTask),
    ] {
        if let Some(rest) = item.strip_prefix(box_text) {
            return (Some(kind), body.len() - rest.trim_start().len());
        }
    }
    (Some(SentenceKind::ListItem), skip)
}

/// Length of a bullet (`-`, `*`, `+`, `•`) or a number with `.` or `)` before a space.
fn list_marker(body: &str) -> Option<usize> {
    let first = body.chars().next()?;
    if matches!(first, '-' | '*' | '+' | '•' | '–') {
        let rest = &body[first.len_utf8()..];
        return rest.starts_with([' ', '\t']).then_some(first.len_utf8());
    }
    let digits = body.bytes().take_while(u8::is_ascii_digit).count();
    let letter = usize::from(digits == 0 && first.is_ascii_lowercase());
    let label = digits + letter;
    // More digits would be a year or a number at the start of a sentence.
    if label == 0 || digits > 3 {
        return None;
    }
    let mark = *body.as_bytes().get(label)?;
    let closes = mark == b')' || (mark == b'.' && digits > 0);
    (closes && matches!(body.as_bytes().get(label + 1), Some(b' ' | b'\t'))).then_some(label + 1)
}

/// UAX 29 sentences, joined where the rules are known to break too early.
fn split_block<'a>(block: &'a str, mut each: impl FnMut(&'a str)) {
    let mut start = 0;
    let mut end = 0;
    for (at, segment) in block.split_sentence_bound_indices() {
        if end > start && !ends_sentence(&block[start..end], segment) {
            end = at + segment.len();
            continue;
        }
        if end > start {
            each(&block[start..end]);
        }
        start = at;
        end = at + segment.len();
    }
    if end > start {
        each(&block[start..end]);
    }
}

static ABBREVIATIONS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
    include_str!("data/abbreviations.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
});

/// Whether the text so far is a complete sentence, given the next segment.
fn ends_sentence(so_far: &str, next: &str) -> bool {
    let text = so_far
        .trim_end()
        .trim_end_matches(['"', '\'', ')', ']', '”', '’', '*', '_', '`']);
    // An odd number of backticks: the break is inside inline code.
    if so_far.matches('`').count() % 2 == 1 && next.contains('`') {
        return false;
    }
    // No space after the mark: inside an address, an expression or a name.
    if so_far.ends_with(|c: char| c.is_ascii() && !c.is_whitespace()) {
        return false;
    }
    let Some(before) = text.strip_suffix('.') else {
        // Not ended by punctuation: the Unicode rules broke at the end of a line.
        return text.ends_with(['!', '?', '…', '。', '！', '？']) || text.is_empty();
    };
    let word = before
        .rsplit(|c: char| c.is_whitespace() || matches!(c, '(' | '[' | '"'))
        .next()
        .unwrap_or_default();
    let lower = word.to_lowercase();
    if lower == "etc" {
        return next.trim_start().starts_with(char::is_uppercase);
    }
    // "no." and "min." are words as well; they are abbreviations only before a number.
    if matches!(
        lower.as_str(),
        "no" | "min" | "max" | "sec" | "fig" | "ch" | "p" | "art" | "ed" | "diff" | "est"
    ) {
        return !next.trim_start().starts_with(|c: char| c.is_ascii_digit());
    }
    // "ms" means milliseconds, not the title "Ms.".
    if word == "ms" {
        return true;
    }
    let is_initial = word.chars().count() == 1 && word.chars().all(char::is_uppercase) && word != "I";
    !(ABBREVIATIONS.contains(lower.as_str()) || is_initial)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expected: &[&str]) {
        let found: Vec<&str> = sentences(text).iter().map(|sentence| sentence.text).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn prose() {
        check(
            "One thing. Another one! A third? Yes.",
            &["One thing.", "Another one!", "A third?", "Yes."],
        );
        check(
            "It took 3.5 s on v1.2.3. We kept it.",
            &["It took 3.5 s on v1.2.3.", "We kept it."],
        );
        check(
            "Ask Dr. Smith, e.g. Monday. J. Doe agrees.",
            &["Ask Dr. Smith, e.g. Monday.", "J. Doe agrees."],
        );
        check(
            "Edit config.yaml. Then run main.rs.",
            &["Edit config.yaml.", "Then run main.rs."],
        );
        check(
            "See https://example.com/a.b?c=d. It helps.",
            &["See https://example.com/a.b?c=d.", "It helps."],
        );
        check(
            "Logs, metrics, etc. are kept. Logs, etc. We ship.",
            &["Logs, metrics, etc. are kept.", "Logs, etc.", "We ship."],
        );
        check(
            "See no. 5 of the list. The answer is no. We stop.",
            &["See no. 5 of the list.", "The answer is no.", "We stop."],
        );
        check(
            "He said \"stop.\" Then he left.",
            &["He said \"stop.\"", "Then he left."],
        );
        check("これは文です。次の文です。", &["これは文です。", "次の文です。"]);
        check("", &[]);
        check("---\n***\n", &[]);
    }

    #[test]
    fn a_line_end_does_not_end_a_sentence() {
        check(
            "The cache is\nwarm before the\nfirst request. Good.",
            &["The cache is\nwarm before the\nfirst request.", "Good."],
        );
        check(
            "First paragraph\n\nSecond paragraph",
            &["First paragraph", "Second paragraph"],
        );
        check(
            "With carriage\r\nreturns.\r\n\r\nNext.\r\n",
            &["With carriage\r\nreturns.", "Next."],
        );
    }

    #[test]
    fn markdown_blocks_have_kinds() {
        let text = "# Plan\n\n1. First step. It is easy.\n2) Second\n   goes on\n- [ ] open\n* [x] done\n> quoted\n\n\
                    | a | b |\n|---|---|\n```rust\nlet a = 1. + 2.;\n// Not. A. Sentence.\n```\nAfter.";
        let found: Vec<(&str, SentenceKind)> = sentences(text).iter().map(|s| (s.text, s.kind)).collect();
        assert_eq!(
            found,
            [
                ("Plan", SentenceKind::Heading),
                ("First step.", SentenceKind::ListItem),
                ("It is easy.", SentenceKind::ListItem),
                ("Second\n   goes on", SentenceKind::ListItem),
                ("open", SentenceKind::OpenTask),
                ("done", SentenceKind::DoneTask),
                ("quoted", SentenceKind::Quote),
                ("a | b |", SentenceKind::TableRow),
                ("let a = 1. + 2.;\n// Not. A. Sentence.", SentenceKind::Code),
                ("After.", SentenceKind::Prose),
            ]
        );
    }

    #[test]
    fn inline_code_and_an_unclosed_fence() {
        check(
            "Run `a. B. c` first. Then stop.",
            &["Run `a. B. c` first.", "Then stop."],
        );
        check("Text.\n```\ncode without end", &["Text.", "code without end"]);
        check("2024 was good. So was 2025.", &["2024 was good.", "So was 2025."]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn sentences_are_in_order_and_lose_no_letter(text in "[ a-zA-Z0-9.!?\n`#>*|\\[\\]-]{0,80}|\\PC{0,40}") {
            let mut at = 0;
            let mut left_out = String::new();
            for sentence in sentences(&text) {
                let start = sentence.text.as_ptr() as usize - text.as_ptr() as usize;
                prop_assert!(start >= at, "sentences overlap");
                left_out.push_str(&text[at..start]);
                at = start + sentence.text.len();
            }
            left_out.push_str(&text[at..]);
            // Only numbers of list items and the language of a fence may disappear.
            if !text.contains("```") && !text.contains("~~~") {
                prop_assert!(!left_out.contains(|c: char| c.is_uppercase()), "{left_out:?}");
            }
        }
    }
}
