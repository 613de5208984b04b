//! Renders for a terminal: aligned columns without rules, with colours that the writer strips when output is
//! not a terminal.

use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, presets};
use owo_colors::OwoColorize;

use crate::document::{Block, Chart, Document, Medium, Style, Table, Text, Tone};
use crate::series::Lines;
use crate::timeline::{self, Timeline};

/// Renders the document at the terminal's width.
pub fn render(document: &Document) -> String {
    blocks(&document.blocks, None)
}

/// Renders the document at a given width.
pub fn render_in(document: &Document, width: u16) -> String {
    blocks(&document.blocks, Some(width))
}

fn blocks(blocks: &[Block], width: Option<u16>) -> String {
    let mut rendered: Vec<(bool, String)> = Vec::new();
    collect(blocks, width, &mut rendered);
    let mut text = String::new();
    let mut before = true;
    for (is_line, part) in rendered {
        if !text.is_empty() {
            // Single lines are adjacent; larger blocks are surrounded by empty lines.
            text.push_str(if before && is_line { "\n" } else { "\n\n" });
        }
        text.push_str(&part);
        before = is_line;
    }
    text
}

/// Collects rendered blocks, each with whether it is a line block; verdicts come last.
fn collect(blocks: &[Block], width: Option<u16>, rendered: &mut Vec<(bool, String)>) {
    let is_verdict = |block: &&Block| matches!(block, Block::Verdict { .. });
    let others = blocks.iter().filter(|block| !is_verdict(block));
    for block in others.chain(blocks.iter().filter(is_verdict)) {
        let (is_line, text) = match block {
            Block::Only(Medium::Terminal | Medium::Text, inner) => {
                collect(inner, width, rendered);
                continue;
            }
            Block::Section(title, inner) => (false, section(title, &self::blocks(inner, width))),
            Block::Text(text) => (true, line(text)),
            Block::Verdict {
                tone,
                word,
                sentence,
                reasons,
            } => (false, verdict(*tone, word, sentence, reasons)),
            Block::List(items) => (
                true,
                items
                    .iter()
                    .map(|item| format!("- {}", line(item)))
                    .collect::<Vec<_>>()
                    .join("\n"),
            ),
            Block::Fields(fields) => (true, named(fields)),
            Block::Table(table) => (false, rows(table, width)),
            Block::Chart(Chart::Lines(lines)) => (true, curves(lines)),
            Block::Chart(Chart::Timeline(found)) => {
                let width = width.map_or_else(terminal_width, usize::from);
                (false, timeline(found, width, toned))
            }
            Block::Note(tone, label, text) => (
                true,
                format!("{} {}", toned(*tone, &format!("{label}:")), line(text)),
            ),
            Block::Marked(spans) => {
                let text = Block::marked_text(spans);
                (false, text.lines().map(visible).collect::<Vec<_>>().join("\n"))
            }
            Block::Verbatim(text) => (false, text.lines().map(visible).collect::<Vec<_>>().join("\n")),
            Block::Only(Medium::Page, _) | Block::Details { .. } | Block::Chart(_) => continue,
        };
        if !text.is_empty() {
            rendered.push((is_line, text));
        }
    }
}

fn section(title: &Text, inside: &str) -> String {
    let title = match title.0.as_slice() {
        // Make a plain title bold, to set it apart from its content.
        [only] if only.style == Style::Plain => visible(&only.text).bold().to_string(),
        _ => line(title),
    };
    if inside.is_empty() {
        title
    } else {
        format!("{title}\n{inside}")
    }
}

fn verdict(tone: Tone, word: &str, sentence: &str, reasons: &[String]) -> String {
    let mut text = toned(tone, &visible(word).to_uppercase()).bold().to_string();
    if !sentence.is_empty() {
        text.push_str(": ");
        text.push_str(&visible(sentence));
    }
    for reason in reasons {
        text.push_str("\n- ");
        text.push_str(&visible(reason));
    }
    text
}

fn toned(tone: Tone, word: &str) -> String {
    match tone {
        Tone::Good => word.green().to_string(),
        Tone::Bad => word.red().to_string(),
        Tone::Unsure => word.yellow().to_string(),
        Tone::Plain => word.to_owned(),
    }
}

/// Renders a line with its colours.
pub fn line(text: &Text) -> String {
    let spans = text.0.iter().map(|span| {
        let words = visible(&span.text);
        match &span.style {
            Style::Plain | Style::Time(_) | Style::Link(_) => words,
            Style::Strong => words.bold().to_string(),
            Style::Dim => words.dimmed().to_string(),
            Style::Badge(tone) => toned(*tone, &words),
        }
    });
    spans.collect()
}

/// Whether a character can move the cursor, change colours, break lines, reorder text, or is invisible.
pub fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
                | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Renders untrusted text as one line, with hidden characters as `\u{…}`. Emoji keep their joiners.
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => shown.push(' '),
            '\u{200d}' | '\u{fe0f}' => shown.push(letter),
            hidden if is_hidden(hidden) => shown.extend(hidden.escape_unicode()),
            letter => shown.push(letter),
        }
    }
    shown
}

fn named(fields: &[(String, Text)]) -> String {
    let widest = fields
        .iter()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or(0);
    let lines = fields
        .iter()
        .map(|(name, value)| format!("{:widest$}  {}", visible(name), line(value)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Renders a table; an empty header is omitted.
fn rows(table: &Table, width: Option<u16>) -> String {
    aligned(table, width, cell)
}

/// Renders a table whose cells already contain colour codes.
pub fn coloured_table(table: &Table) -> String {
    aligned(table, None, |text| Cell::new(text.plain()))
}

fn aligned(table: &Table, width: Option<u16>, cell: fn(&Text) -> Cell) -> String {
    let mut shown = comfy_table::Table::new();
    shown
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .enforce_styling()
        .style_text_only();
    if let Some(width) = width {
        shown.set_width(width);
    }
    if table.header.iter().any(|name| !name.is_empty()) {
        shown.set_header(table.header.iter().map(|name| visible(name)));
    }
    let (listed, left) = table.visible_rows(None);
    for row in listed {
        shown.add_row(row.iter().map(cell));
    }
    for index in &table.numbers {
        if let Some(column) = shown.column_mut(*index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for column in shown.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut lines: Vec<String> = shown.lines().map(|line| line.trim_end().to_owned()).collect();
    if left > 0 {
        lines.push(format!("… and {left} more"));
    }
    lines.join("\n")
}

/// Cell in a single style: the table measures characters, and colour codes inside a text would count.
fn cell(text: &Text) -> Cell {
    let cell = Cell::new(visible(&text.plain()));
    match text.0.as_slice() {
        [only] => match &only.style {
            Style::Plain | Style::Time(_) | Style::Link(_) | Style::Badge(Tone::Plain) => cell,
            Style::Strong => cell.add_attribute(Attribute::Bold),
            Style::Dim => cell.add_attribute(Attribute::Dim),
            Style::Badge(Tone::Good) => cell.fg(Color::DarkGreen),
            Style::Badge(Tone::Bad) => cell.fg(Color::DarkRed),
            Style::Badge(Tone::Unsure) => cell.fg(Color::DarkYellow),
        },
        _ => cell,
    }
}

/// Renders curves as rows of bars, one per series.
fn curves(chart: &Lines) -> String {
    let (low, high) = chart.scale();
    let curve = |values: &[Option<f64>]| {
        let values = values.iter().flatten().filter(|value| value.is_finite());
        sparkline(
            &values
                .map(|value| (value - low) / (high - low))
                .collect::<Vec<_>>(),
        )
    };
    let rows = chart
        .series
        .iter()
        .filter(|series| !chart.places.is_empty() && series.values.iter().any(Option::is_some))
        .map(|series| (series.name.clone(), Text::from(curve(&series.values))));
    named(&rows.collect::<Vec<_>>())
}

/// Renders a timeline at a given width without colours.
pub(crate) fn plain_timeline(found: &Timeline, width: usize) -> String {
    timeline(found, width, |_, symbols| symbols.to_owned())
}

/// Renders a timeline as rows of characters with the number of their first step, and a legend.
fn timeline(found: &Timeline, width: usize, paint: impl Fn(Tone, &str) -> String) -> String {
    if found.cells.is_empty() {
        return String::new();
    }
    let label = found.label_width();
    let mut lines: Vec<String> = Vec::new();
    for row in found.rows(width) {
        let Some((first, cells)) = row else {
            lines.push(format!("{:>label$}  …", ""));
            continue;
        };
        let groups: Vec<String> = timeline::groups(cells)
            .map(|group| {
                let series = group.chunk_by(|left, right| left.kind == right.kind);
                series
                    .map(|same| {
                        let symbols: String = same.iter().map(|cell| cell.kind.symbol).collect();
                        paint(same[0].kind.tone, &symbols)
                    })
                    .collect()
            })
            .collect();
        lines.push(format!("{first:>label$}  {}", groups.join(" ")));
    }
    let legend: Vec<String> = found
        .kinds()
        .iter()
        .map(|kind| format!("{} {}", paint(kind.tone, &kind.symbol.to_string()), kind.name))
        .collect();
    lines.push(format!("{:>label$}  {}", "", legend.join("  ")));
    lines.join("\n")
}

/// The terminal's width, or the default if the output is not a terminal.
fn terminal_width() -> usize {
    const USUAL: u16 = 80;
    comfy_table::Table::new().width().unwrap_or(USUAL).into()
}

/// Renders values from 0 to 1 as one line of block characters.
pub fn sparkline(values: &[f64]) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    values
        .iter()
        .map(|value| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "clamped to 0..=7 above"
            )]
            let index = (value * 7.0).round().clamp(0.0, 7.0) as usize;
            BLOCKS[index]
        })
        .collect()
}
