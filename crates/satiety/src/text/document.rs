//! Documents: splits Markdown and reStructuredText into passages with the headings above them.
//!
//! Front matter is metadata, not text. A `#` inside a code fence is not a heading. Tables and code blocks stay
//! whole as far as they fit, the header of a table that does not fit is context like a heading, and no passage ends
//! inside a sentence or a table row. HTML is converted to Markdown by the caller.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sentences;

/// A document split into passages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document {
    /// Title: the `title` of the front matter, or the first heading of the highest level.
    pub title: Option<String>,
    /// Fields of the front matter, in order.
    pub metadata: Vec<(String, String)>,
    /// Passages in order.
    pub passages: Vec<Passage>,
}

/// A passage of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// Headings above the passage, outermost first, without the title.
    pub headings: Vec<String>,
    /// Text of the passage, verbatim.
    pub text: String,
    /// Lines of the document that the passage stands on.
    pub lines: LineSpan,
}

/// A range of lines of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LineSpan {
    /// First line, counted from 1.
    pub first: u32,
    /// Last line; at least `first`.
    pub last: u32,
}

/// Kind of a block of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockKind {
    Heading(usize),
    Paragraph,
    List,
    Table,
    Code,
}

/// A block of text: consecutive lines that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block<'a> {
    pub(crate) kind: BlockKind,
    /// Text of the block; of a heading, without its marks.
    pub(crate) text: &'a str,
}

impl Document {
    /// Splits a text into passages of about `words` words; a code block or table may take twice that.
    pub fn parse(text: &str, words: usize) -> Self {
        let (metadata, body) = split_metadata(text);
        let blocks = blocks(body);
        let named = metadata
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case("title"))
            .map(|(_, value)| value.clone());
        let highest = blocks
            .iter()
            .filter_map(|block| match block.kind {
                BlockKind::Heading(level) => Some(level),
                _ => None,
            })
            .min();
        let first = blocks
            .iter()
            .find(|block| highest.is_some_and(|level| block.kind == BlockKind::Heading(level)));
        let title = named.or_else(|| first.map(|block| plain(block.text)));
        let mut packer = Packer {
            words,
            headings: Vec::new(),
            title: title.as_deref(),
            columns: None,
            text: String::new(),
            count: 0,
            lines: LineNumbers::of(text),
            span: None,
            passages: Vec::new(),
        };
        for block in &blocks {
            packer.add(block);
        }
        packer.flush();
        Self {
            passages: packer.passages,
            title,
            metadata,
        }
    }
}

struct Packer<'a> {
    words: usize,
    /// Headings above, with their levels.
    headings: Vec<(usize, String)>,
    title: Option<&'a str>,
    /// Header of the table that is being split, for the parts that do not have it.
    columns: Option<String>,
    text: String,
    count: usize,
    lines: LineNumbers,
    /// Lines of `text`.
    span: Option<LineSpan>,
    passages: Vec<Passage>,
}

impl Packer<'_> {
    fn add(&mut self, block: &Block<'_>) {
        match block.kind {
            BlockKind::Heading(level) => {
                self.flush();
                self.headings.retain(|(above, _)| *above < level);
                self.headings.push((level, plain(block.text)));
            }
            BlockKind::Code | BlockKind::Table | BlockKind::List => {
                let length = count_words(block.text);
                // A block stays with the sentence that introduces it, if both fit.
                if self.count > 0 && self.count + length > 2 * self.words {
                    self.flush();
                }
                if length > 2 * self.words {
                    self.split_lines(block);
                } else {
                    self.push(block.text, length);
                }
            }
            BlockKind::Paragraph => {
                let length = count_words(block.text);
                if self.count > 0 && self.count + length > self.words {
                    self.flush();
                }
                if length <= 2 * self.words {
                    self.push(block.text, length);
                    return;
                }
                for sentence in sentences(block.text) {
                    let length = count_words(sentence.text);
                    if self.count > 0 && self.count + length > self.words {
                        self.flush();
                    }
                    self.join(sentence.text, " ", length);
                }
            }
        }
    }

    /// Splits a long block between its lines. The header of a table becomes the last heading of the parts that do
    /// not have it, so that their text stays verbatim.
    fn split_lines(&mut self, block: &Block<'_>) {
        let lines: Vec<&str> = block.text.lines().collect();
        let has_header = block.kind == BlockKind::Table && lines.len() > 2 && is_rule(lines[1]);
        self.flush();
        for line in &lines {
            let length = count_words(line);
            let continues = block.kind == BlockKind::List && !is_list_item(line);
            if self.count > 0 && self.count + length > 2 * self.words && !continues {
                self.flush();
                if has_header {
                    let columns = lines[0].trim().trim_matches('|');
                    self.columns = Some(plain(columns));
                }
            }
            self.join(line, "\n", length);
        }
        self.flush();
        self.columns = None;
    }

    fn push(&mut self, text: &str, length: usize) {
        self.join(text, "\n\n", length);
    }

    fn join(&mut self, text: &str, separator: &str, length: usize) {
        if !self.text.is_empty() {
            self.text.push_str(separator);
        }
        self.text.push_str(text);
        self.count += length;
        // Blank lines at the beginning and the end are not part of a passage.
        if !text.trim().is_empty() {
            let added = self.lines.span(text);
            self.span = Some(LineSpan {
                first: self.span.map_or(added.first, |span| span.first),
                last: added.last,
            });
        }
    }

    fn flush(&mut self) {
        let text = std::mem::take(&mut self.text);
        self.count = 0;
        let Some(lines) = self.span.take().filter(|_| !text.trim().is_empty()) else {
            return;
        };
        let headings = self.headings.iter().map(|(_, heading)| heading.clone());
        self.passages.push(Passage {
            headings: headings
                .filter(|heading| Some(heading.as_str()) != self.title)
                .chain(self.columns.clone())
                .collect(),
            text: text.trim_matches(['\n', '\r']).trim_end().to_owned(),
            lines,
        });
    }
}

/// Line numbers of the parts of a text.
struct LineNumbers {
    /// Address of the text in memory, from which the offset of a part follows.
    address: usize,
    /// Offset of each line.
    starts: Vec<usize>,
}

impl LineNumbers {
    fn of(text: &str) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            address: text.as_ptr().addr(),
            starts: std::iter::once(0).chain(ends).collect(),
        }
    }

    /// Lines of a part, which must be a slice of the text.
    fn span(&self, part: &str) -> LineSpan {
        let offset = part.as_ptr().addr().saturating_sub(self.address);
        let line = |offset: usize| {
            let number = self.starts.partition_point(|start| *start <= offset);
            u32::try_from(number).unwrap_or(u32::MAX)
        };
        LineSpan {
            first: line(offset),
            last: line(offset + part.trim_end().len().saturating_sub(1)),
        }
    }
}

/// Front matter at the very beginning of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrontMatter<'a> {
    /// The text does not begin with a fence.
    Absent,
    /// The text begins with `---`, which is not closed.
    Unclosed,
    /// YAML between `---` and `---` or `...`, and the text behind it.
    Yaml(&'a str, &'a str),
    /// TOML between two `+++`, and the text behind it.
    Toml(&'a str, &'a str),
}

/// Finds the front matter of a text without a byte order mark.
pub(crate) fn front_matter(text: &str) -> FrontMatter<'_> {
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    let fence = first.trim_end();
    if !matches!(fence, "---" | "+++") || !first.ends_with('\n') {
        return FrontMatter::Absent;
    }
    let mut at = first.len();
    for line in lines {
        let (front, body) = (&text[first.len()..at], &text[at + line.len()..]);
        match (fence, line.trim_end()) {
            ("---", "---" | "...") => return FrontMatter::Yaml(front, body),
            ("+++", "+++") => return FrontMatter::Toml(front, body),
            _ => at += line.len(),
        }
    }
    if fence == "---" {
        FrontMatter::Unclosed
    } else {
        FrontMatter::Absent
    }
}

/// Returns the first heading of level 1, without its marks.
pub(crate) fn first_title(text: &str) -> Option<String> {
    let blocks = blocks(text);
    let first = blocks.iter().find(|block| block.kind == BlockKind::Heading(1))?;
    Some(plain(first.text))
}

/// Separates the fields of front matter from the text. Text between two rules is not front matter.
fn split_metadata(text: &str) -> (Vec<(String, String)>, &str) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let found = match front_matter(text) {
        FrontMatter::Yaml(front, body) => fields(front, ':').map(|fields| (fields, body)),
        FrontMatter::Toml(front, body) => fields(front, '=').map(|fields| (fields, body)),
        FrontMatter::Absent | FrontMatter::Unclosed => None,
    };
    found.unwrap_or((Vec::new(), text))
}

/// The fields of front matter; `None` if the text is not a list of fields, but a text between two rules.
fn fields(text: &str, assigns: char) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let belongs = line.starts_with([' ', '\t', '#', '-', '[', ']', '}']);
        let is_key = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '"' | '\'');
        match line.split_once(assigns) {
            Some((key, value)) if !key.trim_end().is_empty() && key.trim_end().chars().all(is_key) => {
                let value = value.trim().trim_matches(['"', '\'']);
                found.push((key.trim_end().to_owned(), value.to_owned()));
            }
            _ if belongs => {}
            _ => return None,
        }
    }
    (!found.is_empty()).then_some(found)
}

/// Splits a text into blocks.
pub(crate) fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut lines: Vec<(usize, &str)> = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        lines.push((at, line.trim_end_matches(['\n', '\r'])));
        at += line.len();
    }
    let mut found = Vec::new();
    let mut number = 0;
    while number < lines.len() {
        let (start, line) = lines[number];
        if line.trim().is_empty() {
            number += 1;
            continue;
        }
        if let Some((heading, level, used)) = heading(&lines[number..]) {
            found.push(Block {
                kind: BlockKind::Heading(level),
                text: heading,
            });
            number += used;
            continue;
        }
        let (kind, count) = extent(&lines[number..], found.last());
        let (last, text_of_last) = lines[number + count - 1];
        found.push(Block {
            kind,
            text: text[start..last + text_of_last.len()].trim_end(),
        });
        number += count;
    }
    found
}

/// Kind of the block that begins with the first line, and its number of lines.
fn extent(lines: &[(usize, &str)], before: Option<&Block<'_>>) -> (BlockKind, usize) {
    let first = lines[0].1;
    if let Some(fence) = fence(first) {
        let end = lines.iter().skip(1).position(|(_, line)| {
            line.trim_start().starts_with(fence)
                && line.trim().trim_start_matches(fence_mark(fence)).is_empty()
        });
        return (BlockKind::Code, end.map_or(lines.len(), |end| end + 2));
    }
    let literal = before.is_some_and(|block| block.text.trim_end().ends_with("::"));
    let directive = first.trim_start().starts_with(".. ") && first.contains("::");
    if directive || (literal && is_indented(first)) {
        let skip = usize::from(directive);
        let rest = lines.iter().skip(skip);
        let mut count = skip;
        let mut last = skip;
        for (_, line) in rest {
            if !line.trim().is_empty() && !is_indented(line) {
                break;
            }
            count += 1;
            if !line.trim().is_empty() {
                last = count;
            }
        }
        let kind = if directive && !first.contains("code") {
            BlockKind::Paragraph
        } else {
            BlockKind::Code
        };
        return (kind, last.max(1));
    }
    if is_table_row(first) {
        let count = lines.iter().take_while(|(_, line)| is_table_row(line)).count();
        return (BlockKind::Table, count);
    }
    if is_list_item(first) {
        let mut count = 0;
        let mut last = 0;
        for (position, (_, line)) in lines.iter().enumerate() {
            let blank = line.trim().is_empty();
            let after_blank = position > 0 && lines[position - 1].1.trim().is_empty();
            let ends = after_blank && !blank && !is_list_item(line) && !is_indented(line);
            if ends || (position > 0 && is_heading_line(line)) {
                break;
            }
            count += 1;
            if !blank {
                last = count;
            }
        }
        return (BlockKind::List, last.max(1));
    }
    let mut count = 1;
    for (position, (_, line)) in lines.iter().enumerate().skip(1) {
        let begins =
            fence(line).is_some() || is_heading_line(line) || is_list_item(line) || is_table_row(line);
        if line.trim().is_empty() || begins || heading(&lines[position..]).is_some() {
            break;
        }
        count += 1;
    }
    (BlockKind::Paragraph, count)
}

/// A heading at the first line: its text, its level and its number of lines. `# Title`, a line that is
/// underlined, or one between two rules (reStructuredText).
fn heading<'a>(lines: &[(usize, &'a str)]) -> Option<(&'a str, usize, usize)> {
    let first = lines.first()?.1;
    if is_heading_line(first) {
        let level = first.bytes().take_while(|byte| *byte == b'#').count();
        return Some((first[level..].trim().trim_end_matches('#').trim_end(), level, 1));
    }
    let second = lines.get(1).map_or("", |(_, line)| *line);
    if let (Some(mark), Some((_, third))) = (underline(first), lines.get(2))
        && underline(third) == Some(mark)
        && !second.trim().is_empty()
    {
        return Some((second.trim(), 1, 3));
    }
    let mark = underline(second)?;
    let is_text = !first.trim().is_empty()
        && !is_indented(first)
        && underline(first).is_none()
        && !is_list_item(first)
        && !is_table_row(first);
    let long_enough = second.trim().chars().count() + 2 >= first.trim().chars().count();
    (is_text && long_enough).then(|| (first.trim(), level_of(mark), 2))
}

fn level_of(mark: char) -> usize {
    match mark {
        '=' => 1,
        '-' => 2,
        '~' => 3,
        '^' => 4,
        _ => 5,
    }
}

/// The character of a line of at least three equal marks.
fn underline(line: &str) -> Option<char> {
    let line = line.trim_end();
    let mark = line.chars().next()?;
    let is_mark = matches!(mark, '=' | '-' | '~' | '^' | '"' | '\'' | '+');
    (is_mark && line.chars().count() >= 3 && line.chars().all(|c| c == mark)).then_some(mark)
}

fn is_heading_line(line: &str) -> bool {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    (1..=6).contains(&level) && line[level..].starts_with(' ') && !line[level..].trim().is_empty()
}

/// The line that opens a code block.
fn fence(line: &str) -> Option<&'static str> {
    let line = line.trim_start();
    ["```", "~~~"].into_iter().find(|fence| line.starts_with(fence))
}

fn fence_mark(fence: &str) -> char {
    fence.chars().next().unwrap_or('`')
}

fn is_indented(line: &str) -> bool {
    line.starts_with("  ") || line.starts_with('\t')
}

fn is_table_row(line: &str) -> bool {
    let line = line.trim();
    line.len() > 1
        && (line.starts_with('|') || line.starts_with("+-") || line.starts_with("+="))
        && !is_list_item(line)
}

/// Whether a line separates the header of a table from its rows.
fn is_rule(line: &str) -> bool {
    line.contains('-')
        && line
            .chars()
            .all(|c| matches!(c, '|' | '-' | ':' | ' ' | '+' | '='))
}

fn is_list_item(line: &str) -> bool {
    let line = line.trim_start();
    if ["- ", "* ", "+ ", "• "].iter().any(|mark| line.starts_with(mark)) {
        return true;
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    (1..=3).contains(&digits) && [". ", ") "].iter().any(|mark| line[digits..].starts_with(mark))
}

fn count_words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// A heading without emphasis, code marks and link targets.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('[') {
        plain.push_str(&rest[..open]);
        let after = &rest[open + 1..];
        let Some((label, tail)) = after.split_once("](") else {
            plain.push('[');
            rest = after;
            continue;
        };
        plain.push_str(label);
        rest = tail.split_once(')').map_or("", |(_, tail)| tail);
    }
    plain.push_str(rest);
    plain.retain(|c| !matches!(c, '`' | '*'));
    plain.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, words: usize) -> Vec<(String, String)> {
        let passages = Document::parse(text, words).passages;
        passages
            .into_iter()
            .map(|p| (p.headings.join(" > "), p.text))
            .collect()
    }

    #[test]
    fn front_matter_is_metadata_and_a_comment_in_code_is_not_a_title() {
        let text = "---\ntitle: \"Install\"\ntags: [a]\n---\n\n```sh\n# comment\nrun\n```\n\n## First steps\n\nDo it.\n";
        let document = Document::parse(text, 100);
        assert_eq!(document.title.as_deref(), Some("Install"));
        assert_eq!(document.metadata[0], ("title".into(), "Install".into()));
        assert!(
            document
                .passages
                .iter()
                .all(|passage| !passage.text.contains("tags"))
        );
        assert_eq!(document.passages[0].text, "```sh\n# comment\nrun\n```");
        assert_eq!(document.passages[1].headings, ["First steps"]);
        // Without a field, the highest heading is the title.
        let plain = Document::parse("```\n# no\n```\n\n# Yes\n\nText.\n", 100);
        assert_eq!(plain.title.as_deref(), Some("Yes"));
        // A rule is not front matter, and an unclosed one is text.
        assert_eq!(Document::parse("---\nno end", 100).metadata, Vec::new());
        let between = Document::parse("---\nSome words here.\n---\n\nMore.\n", 100);
        assert!(
            between
                .passages
                .iter()
                .any(|passage| passage.text.contains("Some words"))
                || between.title.is_some()
        );
    }

    #[test]
    fn a_passage_has_the_lines_of_its_document() {
        let text =
            "---\ntitle: T\n---\n\nOne.\n\nTwo,\nthree.\n\n## Part\n\n| a | b |\n|---|---|\n| c | d |\n";
        for words in [3, 100] {
            let document = Document::parse(text, words);
            for passage in &document.passages {
                let LineSpan { first, last } = passage.lines;
                let lines: Vec<&str> = text.lines().collect();
                let stored = lines[first as usize - 1..last as usize].join("\n");
                assert_eq!(stored, passage.text, "{words}");
            }
        }
        // Blank lines between the items of a long list belong to no passage.
        let list = Document::parse("- one two three\n\n- four five six\n\n- seven eight nine\n", 1);
        let lines: Vec<(u32, u32)> = list
            .passages
            .iter()
            .map(|p| (p.lines.first, p.lines.last))
            .collect();
        assert_eq!(lines, [(1, 1), (3, 3), (5, 5)]);
        // A long paragraph is split between its sentences, which may stand on the same line.
        let sentences = Document::parse("One two three four. Five six\nseven eight. Nine ten eleven.", 3);
        let lines: Vec<(u32, u32)> = sentences
            .passages
            .iter()
            .map(|p| (p.lines.first, p.lines.last))
            .collect();
        assert_eq!(lines, [(1, 1), (1, 2), (2, 2)]);
    }

    #[test]
    fn headings_are_context_and_code_stays_with_its_introduction() {
        let text = "# Guide\n\nIntro.\n\n## Use `it`\n\nRun this:\n\n```sh\na b\n\nc d\n```\n\n### [Deep](x.md)\n\nEnd.\n";
        assert_eq!(
            shown(text, 100),
            [
                (String::new(), "Intro.".to_owned()),
                ("Use it".into(), "Run this:\n\n```sh\na b\n\nc d\n```".into()),
                ("Use it > Deep".into(), "End.".into()),
            ]
        );
    }

    #[test]
    fn a_long_table_keeps_its_header_as_context_and_rows_stay_whole() {
        let rows: Vec<String> = (0..40)
            .map(|n| format!("| key{n} | the value of key {n} |"))
            .collect();
        let text = format!("# T\n\n| name | value |\n|---|---|\n{}\n", rows.join("\n"));
        let passages = shown(&text, 30);
        assert!(passages.len() > 2);
        assert!(passages[0].1.starts_with("| name | value |\n|---|---|\n| key0"));
        assert!(
            passages[1..].iter().all(|(heading, _)| heading == "name | value"),
            "{passages:?}"
        );
        for (_, part) in &passages {
            assert!(text.contains(part.as_str()), "{part}");
            assert!(
                part.lines()
                    .all(|line| line.starts_with('|') && line.ends_with('|'))
            );
        }
        for row in rows {
            assert_eq!(
                passages
                    .iter()
                    .filter(|(_, text)| text.lines().any(|line| line == row))
                    .count(),
                1
            );
        }
    }

    #[test]
    fn long_paragraphs_are_cut_between_sentences() {
        let sentence = |n: usize| format!("Sentence number {n} says e.g. that version 1.{n} is new.");
        let text: Vec<String> = (0..30).map(sentence).collect();
        for (_, text) in shown(&text.join(" "), 40) {
            assert!(
                text.starts_with("Sentence number") && text.ends_with("is new."),
                "{text}"
            );
        }
    }

    #[test]
    fn restructured_text_is_understood() {
        let text = "=====\nTitle\n=====\n\nIntro::\n\n    # code\n    run\n\nPart\n----\n\n.. code-block:: sh\n\n   go\n\n- one\n- two\n  more\n\nEnd.\n";
        let document = Document::parse(text, 100);
        assert_eq!(document.title.as_deref(), Some("Title"));
        let parts: Vec<BlockKind> = blocks(text).iter().map(|block| block.kind).collect();
        assert_eq!(
            parts,
            [
                BlockKind::Heading(1),
                BlockKind::Paragraph,
                BlockKind::Code,
                BlockKind::Heading(2),
                BlockKind::Code,
                BlockKind::List,
                BlockKind::Paragraph,
            ]
        );
        assert_eq!(document.passages[1].headings, ["Part"]);
    }

    #[test]
    fn every_word_is_kept_once() {
        let text = "# A\n\nOne two.\n\n- three\n- four\n\n> five\n\n| six |\n|---|\n| seven |\n\n```\neight\n```\nnine\n";
        let all: String = shown(text, 3).into_iter().map(|(_, text)| text + "\n").collect();
        for word in ["One", "two", "three", "four", "five", "seven", "eight", "nine"] {
            assert_eq!(all.matches(word).count(), 1, "{word}: {all}");
        }
    }
}
