//! Renders self-contained HTML pages: one file, readable in light and dark mode, on a phone and in print.
//!
//! All untrusted text goes through [`escape`]; an [`Html`] value is already escaped.

use std::fmt::{self, Display};

use satiety::bench::{MarkKind, MarkedSpan};

use crate::charts;
use crate::document::{Block, Chart, Document, Medium, Style, Table, Text, Tone};
use crate::series;
use crate::timeline;

/// Row limit of limited tables.
const ROWS: usize = 200;

/// Markup that is safe to insert into a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Html(pub String);

impl Display for Html {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Escapes untrusted text.
pub fn escape(text: &str) -> Html {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            letter => safe.push(letter),
        }
    }
    Html(safe)
}

/// Renders the document as a self-contained page.
pub fn render(document: &Document) -> String {
    page(&document.title, &[blocks(&document.blocks)])
}

/// Renders blocks as part of a page.
pub fn blocks(blocks: &[Block]) -> Html {
    nested(blocks, 2)
}

fn nested(blocks: &[Block], level: usize) -> Html {
    let parts: Vec<Html> = blocks.iter().map(|block| render_block(block, level)).collect();
    Html(joined(&parts))
}

fn render_block(block: &Block, level: usize) -> Html {
    match block {
        Block::Section(title, inner) => Html(format!(
            "<section>\n<h{level}>{}</h{level}>\n{}\n</section>",
            line(title),
            nested(inner, (level + 1).min(6))
        )),
        Block::Text(text) => Html(format!("<p>{}</p>", line(text))),
        Block::Verdict {
            tone,
            word,
            sentence,
            reasons,
        } => {
            let colon = if sentence.is_empty() || word.ends_with('.') {
                ""
            } else {
                ":"
            };
            let verdict = verdict(tone_class(*tone), &format!("{word}{colon}"), sentence);
            if reasons.is_empty() {
                return verdict;
            }
            Html(joined(&[verdict, render_block(&Block::list(reasons), level)]))
        }
        Block::List(items) => {
            let items: Vec<String> = items
                .iter()
                .map(|item| format!("<li>{}</li>", line(item)))
                .collect();
            Html(format!("<ul>\n{}\n</ul>", items.join("\n")))
        }
        Block::Fields(fields) => {
            let row = |(name, value): &(String, Text)| {
                format!(
                    "<tr><th scope=\"row\">{}</th><td>{}</td></tr>",
                    escape(name),
                    line(value)
                )
            };
            let rows: Vec<String> = fields.iter().map(row).collect();
            Html(format!(
                "<div class=\"wide\" tabindex=\"0\"><table>\n<tbody>\n{}\n</tbody>\n</table></div>",
                rows.join("\n")
            ))
        }
        Block::Table(table) => render_table(table),
        Block::Chart(chart) => render_chart(chart),
        Block::Note(tone, label, text) => Html(format!(
            "<p class=\"verdict {}\"><strong>{}:</strong> {}</p>",
            tone_class(*tone),
            escape(label),
            line(text)
        )),
        Block::Marked(spans) => marked(spans),
        Block::Verbatim(text) => Html(format!("<pre>{}</pre>", escape(text))),
        Block::Details {
            summary,
            open,
            blocks,
        } => Html(format!(
            "<details{}><summary>{}</summary>\n{}\n</details>",
            if *open { " open" } else { "" },
            line(summary),
            nested(blocks, level + 1)
        )),
        Block::Only(Medium::Page, inner) => nested(inner, level),
        Block::Only(Medium::Terminal | Medium::Text, _) => Html::default(),
    }
}

/// Renders an answer with marks. Each kind has its own element and decoration, not only a color.
pub fn marked(spans: &[MarkedSpan]) -> Html {
    marked_as(spans, "not expected", "expected, not in the answer")
}

/// The same with words for extra and missing parts, which a tooltip shows.
pub fn marked_as(spans: &[MarkedSpan], extra: &str, missing: &str) -> Html {
    let (extra, missing) = (escape(extra), escape(missing));
    let part = |span: &MarkedSpan| {
        let text = escape(&span.text);
        match span.kind {
            MarkKind::Plain => text.0,
            MarkKind::Match => format!("<mark>{text}</mark>"),
            MarkKind::Extra => format!("<ins title=\"{extra}\">{text}</ins>"),
            MarkKind::Missing => format!("<del title=\"{missing}\">{text}</del>"),
        }
    };
    Html(format!(
        "<pre class=\"marked\" tabindex=\"0\">{}</pre>",
        spans.iter().map(part).collect::<String>()
    ))
}

/// Renders a line with its styles.
pub fn line(text: &Text) -> Html {
    let spans = text.0.iter().map(|span| {
        let words = render_inline(&span.text);
        match &span.style {
            Style::Plain => words.0,
            Style::Time(exact) => {
                let title = exact.replace('T', " ").replace('Z', " UTC");
                format!(
                    "<time datetime=\"{}\" title=\"{}\">{words}</time>",
                    escape(exact),
                    escape(&title)
                )
            }
            Style::Strong => format!("<strong>{words}</strong>"),
            Style::Dim => format!("<small>{words}</small>"),
            Style::Badge(tone) => format!("<span class=\"badge {}\">{words}</span>", tone_class(*tone)),
            Style::Link(to) => link(to, &span.text).0,
        }
    });
    Html(spans.collect())
}

fn tone_class(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Unsure => "unsure",
        Tone::Plain => "plain",
    }
}

fn render_table(table: &Table) -> Html {
    let header: Vec<&str> = table.header.iter().map(String::as_str).collect();
    let (visible, left) = table.visible_rows(Some(ROWS));
    let rows = visible.iter().map(|row| row.iter().map(line).collect());
    let mut parts = vec![table_of(&header, &table.numbers, rows)];
    if left > 0 {
        parts.push(paragraph(&format!("… and {left} more.")));
    }
    Html(joined(&parts))
}

fn render_chart(chart: &Chart) -> Html {
    match chart {
        Chart::Changes(title, marks) => charts::changes(title, marks),
        Chart::Intervals(title, rows) => charts::intervals(title, rows),
        Chart::Shares(title, rows) => charts::shares(title, rows),
        Chart::Margins(title, rows) => charts::margins(title, rows),
        Chart::Lines(lines) => series::lines(lines),
        Chart::Calibration(found) => charts::calibration(found),
        Chart::Stack(found) => charts::stack(found),
        Chart::Timeline(found) => timeline::draw(found),
    }
}

/// Complete page around a body.
fn page(title: &str, body: &[Html]) -> String {
    let title = escape(title);
    let body = joined(body);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}\n</main>\n\
         </body>\n</html>\n"
    )
}

/// Renders a paragraph; text between backticks becomes code.
pub fn paragraph(text: &str) -> Html {
    Html(format!("<p>{}</p>", render_inline(text)))
}

/// Escapes untrusted text and renders text between backticks as code.
pub fn render_inline(text: &str) -> Html {
    let parts: Vec<&str> = text.split('`').collect();
    // An unpaired backtick is kept literally.
    if parts.len().is_multiple_of(2) {
        return escape(text);
    }
    let parts = parts.iter().enumerate().map(|(place, part)| match place % 2 {
        0 => escape(part).0,
        _ => format!("<code>{}</code>", escape(part)),
    });
    Html(parts.collect())
}

/// Renders a verdict: a word coloured by its class, and a sentence. The word is meaningful without the
/// colour.
pub fn verdict(class: &str, word: &str, sentence: &str) -> Html {
    Html(format!(
        "<p class=\"verdict {}\"><strong>{}</strong> {}</p>",
        escape(class),
        escape(word),
        render_inline(sentence)
    ))
}

/// Renders a table; columns listed in `numbers` are right-aligned, and text between backticks becomes code.
pub(crate) fn table(header: &[&str], numbers: &[usize], rows: impl IntoIterator<Item = Vec<String>>) -> Html {
    let rows = rows.into_iter();
    table_of(
        header,
        numbers,
        rows.map(|row| row.iter().map(|cell| render_inline(cell)).collect()),
    )
}

/// Tables with more columns than this show one cell per line on a narrow screen.
const NARROW_COLUMNS: usize = 2;

/// Renders a table whose cells may contain markup.
fn table_of(header: &[&str], numbers: &[usize], rows: impl IntoIterator<Item = Vec<Html>>) -> Html {
    let class = |column: usize| {
        if numbers.contains(&column) {
            " class=\"number\""
        } else {
            ""
        }
    };
    let stacked = header.len() > NARROW_COLUMNS;
    let label = |column: usize| match header.get(column) {
        Some(name) if stacked && !name.is_empty() => format!(" data-label=\"{}\"", escape(name)),
        _ => String::new(),
    };
    let head = header.iter().enumerate();
    let head = head.map(|(column, name)| format!("<th scope=\"col\"{}>{}</th>", class(column), escape(name)));
    let rows = rows.into_iter().map(|row| {
        let cells = row.iter().enumerate();
        let cells = cells.map(|(column, cell)| format!("<td{}{}>{cell}</td>", class(column), label(column)));
        format!("<tr>{}</tr>", cells.collect::<String>())
    });
    Html(format!(
        "<div class=\"wide\" tabindex=\"0\"><table{}>\n<thead><tr>{}</tr></thead>\n<tbody>\n{}\n</tbody>\n</table></div>",
        if stacked { " class=\"stack\"" } else { "" },
        head.collect::<String>(),
        rows.collect::<Vec<_>>().join("\n")
    ))
}

/// Renders a link within the same site.
pub fn link(to: &str, words: &str) -> Html {
    Html(format!("<a href=\"{}\">{}</a>", escape(to), escape(words)))
}

/// Concatenates parts, one per line.
pub fn joined(parts: &[Html]) -> String {
    parts
        .iter()
        .map(|part| part.0.as_str())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Renders a collapsible section.
pub(crate) fn details(summary: &str, parts: &[Html]) -> Html {
    let parts = joined(parts);
    Html(format!(
        "<details><summary>{}</summary>\n{parts}\n</details>",
        escape(summary)
    ))
}

/// Base style sheet of all pages.
pub const STYLE: &str = include_str!("assets/base.css");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_between_backticks_is_escaped_code() {
        assert_eq!(
            render_inline("run `a <b>` now").0,
            "run <code>a &lt;b&gt;</code> now"
        );
        assert_eq!(render_inline("one ` alone").0, "one ` alone");
        assert_eq!(render_inline("").0, "");
    }

    #[test]
    fn pages_are_self_contained() {
        let text = page("t", &[]);
        for sign in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!text.contains(sign), "{sign}");
        }
    }
}
