//! Renders GitHub-flavoured Markdown for comments and files. Names, answers and reasons are untrusted, so
//! everything is escaped: no column breaks, no HTML, no mentions.

use crate::document::{Block, Chart, Document, Medium, Style, Table, Text, Tone};
use crate::terminal;

/// Row limit of limited tables.
const ROWS: usize = 50;
/// Columns of charts that are drawn with characters.
const WIDTH: usize = 100;
/// Character limit of a cell.
const LETTERS: usize = 300;

/// Renders the document with sections as headings from level two.
pub fn render(document: &Document) -> String {
    let mut out = blocks(&document.blocks, 2);
    out.push('\n');
    out
}

fn blocks(parts: &[Block], level: usize) -> String {
    let visible = parts.iter().map(|block| render_block(block, level));
    visible
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join("\n\n")
}

fn render_block(block: &Block, level: usize) -> String {
    match block {
        Block::Section(title, inner) => {
            let marks = "#".repeat(level.min(6));
            let inside = blocks(inner, level + 1);
            // Headings are bold by default.
            format!("{marks} {}\n\n{inside}", escape(&title.plain(), LETTERS))
                .trim_end()
                .to_owned()
        }
        Block::Text(text) => line(text, usize::MAX),
        Block::Verdict {
            tone,
            word,
            sentence,
            reasons,
        } => {
            let sign = match tone {
                Tone::Good => "✅ ",
                Tone::Bad => "❌ ",
                Tone::Unsure => "❔ ",
                Tone::Plain => "",
            };
            let colon = if sentence.is_empty() { "" } else { ": " };
            let word = cell(word);
            let mut lines = vec![format!("{sign}**{word}**{colon}{}", cell(sentence))];
            if !reasons.is_empty() {
                lines.push(String::new());
            }
            lines.extend(reasons.iter().map(|reason| format!("- {}", cell(reason))));
            lines.join("\n")
        }
        Block::List(items) => items
            .iter()
            .map(|item| format!("- {}", line(item, usize::MAX)))
            .collect::<Vec<_>>()
            .join("\n"),
        Block::Fields(fields) => {
            let rows = fields
                .iter()
                .map(|(name, value)| vec![Text::from(name.as_str()), value.clone()]);
            if fields.is_empty() {
                String::new()
            } else {
                table(&Table::new(&["", ""], &[], rows))
            }
        }
        Block::Table(found) => table(found),
        Block::Chart(Chart::Lines(lines)) => {
            let lines = Document::from(Block::Chart(Chart::Lines(lines.clone())));
            code(terminal::render(&lines))
        }
        Block::Chart(Chart::Timeline(timeline)) => code(terminal::plain_timeline(timeline, WIDTH)),
        Block::Chart(_) | Block::Only(Medium::Terminal, _) => String::new(),
        Block::Note(_, label, text) => format!("**{}:** {}", cell(label), line(text, usize::MAX)),
        Block::Marked(spans) => fenced(&Block::marked_text(spans)),
        Block::Verbatim(text) => fenced(text),
        Block::Details {
            summary,
            open,
            blocks: inner,
        } => {
            let open = if *open { " open" } else { "" };
            format!(
                "<details{open}><summary>{}</summary>\n\n{}\n\n</details>",
                escape(&summary.plain(), LETTERS),
                blocks(inner, level + 1)
            )
        }
        Block::Only(Medium::Page | Medium::Text, inner) => blocks(inner, level),
    }
}

/// A chart of characters as a code block.
fn code(drawn: String) -> String {
    if drawn.is_empty() {
        drawn
    } else {
        format!("```text\n{drawn}\n```")
    }
}

/// Code block; its fence is longer than any run of backticks in the text.
fn fenced(text: &str) -> String {
    let runs = text.split(|letter| letter != '`').map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or(0).max(2) + 1);
    format!("{fence}text\n{text}\n{fence}")
}

fn table(table: &Table) -> String {
    let row = |cells: &[String]| format!("| {} |", cells.join(" | "));
    let header: Vec<String> = table.header.iter().map(|name| cell(name)).collect();
    let rules: String = (0..header.len())
        .map(|column| {
            if table.numbers.contains(&column) {
                "--:|"
            } else {
                "---|"
            }
        })
        .collect();
    let mut lines = vec![row(&header), format!("|{rules}")];
    let (visible, left) = table.visible_rows(Some(ROWS));
    lines.extend(
        visible
            .iter()
            .map(|cells| row(&cells.iter().map(|cell| line(cell, LETTERS)).collect::<Vec<_>>())),
    );
    if left > 0 {
        lines.push(format!("\n… and {left} more."));
    }
    lines.join("\n")
}

/// Renders a line; only table cells are truncated.
fn line(text: &Text, most: usize) -> String {
    let spans = text.0.iter().map(|span| match &span.style {
        Style::Strong if !span.text.trim().is_empty() => format!("**{}**", escape(span.text.trim(), most)),
        Style::Link(to) if is_web_address(to) => format!("[{}]({to})", escape(&span.text, most)),
        _ => escape(&span.text, most),
    });
    spans.collect()
}

/// Whether a link leads somewhere from outside of its site, and ends where it should.
fn is_web_address(to: &str) -> bool {
    let is_complete = to.starts_with("http://") || to.starts_with("https://");
    is_complete
        && to
            .chars()
            .all(|letter| letter.is_ascii_graphic() && !"()<>\\".contains(letter))
}

fn cell(text: &str) -> String {
    escape(text.trim(), LETTERS)
}

/// Escapes untrusted text as one line: no column breaks, no HTML, no mentions, limited length.
pub fn escape(text: &str, most: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut space = false;
    for (count, letter) in text.chars().enumerate() {
        if count == most {
            out.push('…');
            break;
        }
        if letter.is_whitespace() {
            if !space {
                out.push(' ');
            }
            space = true;
            continue;
        }
        space = false;
        match letter {
            '|' => out.push_str("\\|"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // A zero-width space prevents `@name` from notifying a user; `ndcg@10` does not need it.
            '@' if !out.ends_with(|before: char| before.is_ascii_alphanumeric()) => out.push_str("@\u{200b}"),
            letter if letter.is_control() => {}
            letter => out.push(letter),
        }
    }
    out
}
