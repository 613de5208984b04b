//! Pages that need nothing from elsewhere: one file, readable in light and dark, on a phone and on paper.
//!
//! Everything that comes from outside goes through [`escape`]; what is an [`Html`] has been.

use std::fmt::{self, Display};

use crate::charts;
use crate::document::{Block, Chart, Document, Medium, Style, Table, Text, Tone};
use crate::series;

/// Rows of a table that may be long.
const ROWS: usize = 200;

/// Text that may stand in a page as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Html(pub String);

impl Display for Html {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Text from outside, made harmless.
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

/// The document as a page in one file.
pub fn render(document: &Document) -> String {
    page(&document.title, &[blocks(&document.blocks)])
}

/// Blocks as a part of a page.
pub fn blocks(blocks: &[Block]) -> Html {
    nested(blocks, 2)
}

fn nested(blocks: &[Block], level: usize) -> Html {
    let parts: Vec<Html> = blocks.iter().map(|block| one(block, level)).collect();
    Html(joined(&parts))
}

fn one(block: &Block, level: usize) -> Html {
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
            let told = verdict(tone_class(*tone), &format!("{word}{colon}"), sentence);
            if reasons.is_empty() {
                return told;
            }
            Html(joined(&[told, one(&Block::list(reasons), level)]))
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
        Block::Table(table) => listed(table),
        Block::Chart(chart) => drawn(chart),
        Block::Note(tone, label, text) => Html(format!(
            "<p class=\"verdict {}\"><strong>{}:</strong> {}</p>",
            tone_class(*tone),
            escape(label),
            line(text)
        )),
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

/// A line of text with its styles.
pub fn line(text: &Text) -> Html {
    let spans = text.0.iter().map(|span| {
        let words = told(&span.text);
        match &span.style {
            Style::Plain => words.0,
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

fn listed(table: &Table) -> Html {
    let header: Vec<&str> = table.header.iter().map(String::as_str).collect();
    let (shown, left) = table.shown(Some(ROWS));
    let rows = shown.iter().map(|row| row.iter().map(line).collect());
    let mut parts = vec![table_of(&header, &table.numbers, rows)];
    if left > 0 {
        parts.push(paragraph(&format!("… and {left} more.")));
    }
    Html(joined(&parts))
}

fn drawn(chart: &Chart) -> Html {
    match chart {
        Chart::Changes(title, marks) => charts::changes(title, marks),
        Chart::Intervals(title, rows) => charts::intervals(title, rows),
        Chart::Shares(title, rows) => charts::shares(title, rows),
        Chart::Margins(title, rows) => charts::margins(title, rows),
        Chart::Lines(lines) => series::lines(lines),
        Chart::Calibration(found) => charts::calibration(found),
        Chart::Stack(found) => charts::stack(found),
    }
}

/// A whole page.
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

/// A paragraph; what stands between backticks is code.
pub fn paragraph(text: &str) -> Html {
    Html(format!("<p>{}</p>", told(text)))
}

/// Text from outside, made harmless, with what stands between backticks as code.
pub fn told(text: &str) -> Html {
    let parts: Vec<&str> = text.split('`').collect();
    // Backticks that do not come in pairs are backticks.
    if parts.len().is_multiple_of(2) {
        return escape(text);
    }
    let parts = parts.iter().enumerate().map(|(place, part)| match place % 2 {
        0 => escape(part).0,
        _ => format!("<code>{}</code>", escape(part)),
    });
    Html(parts.collect())
}

/// A verdict: a word that its class colours, and the sentence behind it. The word says it without the colour too.
pub fn verdict(class: &str, word: &str, sentence: &str) -> Html {
    Html(format!(
        "<p class=\"verdict {}\"><strong>{}</strong> {}</p>",
        escape(class),
        escape(word),
        told(sentence)
    ))
}

/// A table; cells of columns named in `numbers` are aligned to the right, and what stands between backticks is code.
pub(crate) fn table(header: &[&str], numbers: &[usize], rows: impl IntoIterator<Item = Vec<String>>) -> Html {
    let rows = rows.into_iter();
    table_of(
        header,
        numbers,
        rows.map(|row| row.iter().map(|cell| told(cell)).collect()),
    )
}

/// A table whose cells may hold links and marks.
fn table_of(header: &[&str], numbers: &[usize], rows: impl IntoIterator<Item = Vec<Html>>) -> Html {
    let class = |column: usize| {
        if numbers.contains(&column) {
            " class=\"number\""
        } else {
            ""
        }
    };
    let cells = |tag: &str, scope: &str, cells: &[Html]| -> String {
        let cells = cells
            .iter()
            .enumerate()
            .map(|(column, cell)| format!("<{tag}{scope}{}>{cell}</{tag}>", class(column)));
        cells.collect()
    };
    let head: Vec<Html> = header.iter().map(|name| escape(name)).collect();
    let rows: Vec<String> = rows
        .into_iter()
        .map(|row| format!("<tr>{}</tr>", cells("td", "", &row)))
        .collect();
    Html(format!(
        "<div class=\"wide\" tabindex=\"0\"><table>\n<thead><tr>{}</tr></thead>\n<tbody>\n{}\n</tbody>\n</table></div>",
        cells("th", " scope=\"col\"", &head),
        rows.join("\n")
    ))
}

/// A link inside the same site.
pub fn link(to: &str, words: &str) -> Html {
    Html(format!("<a href=\"{}\">{}</a>", escape(to), escape(words)))
}

/// Parts one after the other.
pub fn joined(parts: &[Html]) -> String {
    parts
        .iter()
        .map(|part| part.0.as_str())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Something that is shown when asked for.
pub(crate) fn details(summary: &str, parts: &[Html]) -> Html {
    let parts = joined(parts);
    Html(format!(
        "<details><summary>{}</summary>\n{parts}\n</details>",
        escape(summary)
    ))
}

/// What every page looks like.
pub const STYLE: &str = include_str!("assets/base.css");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_between_backticks_is_code_and_harmless() {
        assert_eq!(told("run `a <b>` now").0, "run <code>a &lt;b&gt;</code> now");
        assert_eq!(told("one ` alone").0, "one ` alone");
        assert_eq!(told("").0, "");
    }

    #[test]
    fn a_page_asks_nobody_for_anything() {
        let text = page("t", &[]);
        for sign in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!text.contains(sign), "{sign}");
        }
    }
}
