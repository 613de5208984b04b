//! Pages that need nothing from elsewhere: one file, readable in light and dark, on a phone and on paper.
//!
//! Everything that comes from outside goes through [`escape`]; what is an [`Html`] has been.

use std::fmt::{self, Display};

/// Text that may stand in a page as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Html(pub(crate) String);

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

/// A whole page.
pub fn page(title: &str, body: &[Html]) -> String {
    let title = escape(title);
    let body: String = body
        .iter()
        .map(|part| part.0.as_str())
        .collect::<Vec<_>>()
        .join("\n");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}\n</main>\n\
         </body>\n</html>\n"
    )
}

/// A heading with what belongs to it.
pub fn section(title: &str, parts: &[Html]) -> Html {
    let parts: String = parts
        .iter()
        .map(|part| part.0.as_str())
        .collect::<Vec<_>>()
        .join("\n");
    Html(format!(
        "<section>\n<h2>{}</h2>\n{parts}\n</section>",
        escape(title)
    ))
}

/// A paragraph.
pub fn paragraph(text: &str) -> Html {
    Html(format!("<p>{}</p>", escape(text)))
}

/// A verdict: a word that its class colours, and the sentence behind it. The word says it without the colour too.
pub fn verdict(class: &str, word: &str, sentence: &str) -> Html {
    Html(format!(
        "<p class=\"verdict {}\"><strong>{}</strong> {}</p>",
        escape(class),
        escape(word),
        escape(sentence)
    ))
}

/// A table; cells of columns named in `numbers` are aligned to the right.
pub fn table(header: &[&str], numbers: &[usize], rows: impl IntoIterator<Item = Vec<String>>) -> Html {
    let class = |column: usize| {
        if numbers.contains(&column) {
            " class=\"number\""
        } else {
            ""
        }
    };
    let cells = |tag: &str, cells: &[String]| -> String {
        let cells = cells
            .iter()
            .enumerate()
            .map(|(column, cell)| format!("<{tag}{}>{}</{tag}>", class(column), escape(cell)));
        cells.collect()
    };
    let head: Vec<String> = header.iter().map(ToString::to_string).collect();
    let rows: Vec<String> = rows
        .into_iter()
        .map(|row| format!("<tr>{}</tr>", cells("td", &row)))
        .collect();
    Html(format!(
        "<div class=\"wide\"><table>\n<thead><tr>{}</tr></thead>\n<tbody>\n{}\n</tbody>\n</table></div>",
        cells("th", &head),
        rows.join("\n")
    ))
}

/// A list of sentences.
pub fn list(items: &[String]) -> Html {
    let items: Vec<String> = items
        .iter()
        .map(|item| format!("<li>{}</li>", escape(item)))
        .collect();
    Html(format!("<ul>\n{}\n</ul>", items.join("\n")))
}

/// Text as it was written, line by line.
pub fn verbatim(text: &str) -> Html {
    Html(format!("<pre>{}</pre>", escape(text)))
}

/// Something that is shown when asked for.
pub fn details(summary: &str, parts: &[Html]) -> Html {
    let parts: String = parts
        .iter()
        .map(|part| part.0.as_str())
        .collect::<Vec<_>>()
        .join("\n");
    Html(format!(
        "<details><summary>{}</summary>\n{parts}\n</details>",
        escape(summary)
    ))
}

const STYLE: &str = ":root{color-scheme:light dark;--ink:#1c2024;--soft:#5b6470;--line:#d9dee3;--paper:#fff;--good:#1a7f4b;\
--bad:#b3261e;--unsure:#8a6100;--mark:#2f6fde}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ec;--soft:#9aa4af;--line:#343b43;--paper:#15191d;--good:#4cc38a;\
--bad:#ff8a80;--unsure:#e2b341;--mark:#7aa8ff}}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:64rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.6rem;line-height:1.25}h2{font-size:1.15rem;margin-top:2.2rem}
p,details{max-width:48rem}
p,ul{overflow-wrap:anywhere}
.verdict{border-left:.35rem solid var(--line);padding:.4rem .8rem;font-size:1.05rem}
.verdict.good{border-color:var(--good)}.verdict.good strong{color:var(--good)}
.verdict.bad{border-color:var(--bad)}.verdict.bad strong{color:var(--bad)}
.verdict.unsure{border-color:var(--unsure)}.verdict.unsure strong{color:var(--unsure)}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .9rem .25rem 0;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}
td.number{white-space:nowrap}th{overflow-wrap:anywhere;color:var(--soft);font-weight:600}.number{text-align:right}
summary{cursor:pointer;color:var(--mark)}
pre{white-space:pre-wrap;overflow-wrap:anywhere;border-left:.2rem solid var(--line);padding-left:.8rem;max-height:24rem;overflow-y:auto}
figure{margin:1rem 0;overflow-x:auto}figcaption{color:var(--soft);font-size:.9rem}
svg{max-width:100%;min-width:34rem;height:auto;font:12px system-ui,sans-serif}
svg text{fill:var(--soft)}svg .axis{stroke:var(--line)}svg .zero{stroke:var(--soft)}svg .margin{stroke:var(--bad);stroke-dasharray:4 3}
svg .up{fill:var(--good)}svg .down{fill:var(--bad)}svg .same{fill:var(--soft)}
svg .mark{fill:var(--mark)}svg .line{stroke:var(--mark);fill:none}svg .band{stroke:var(--mark)}
@media print{details{display:none}}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_outside_cannot_act() {
        let evil = "<script>alert('x')</script>\" onload=\"";
        let text = page(
            evil,
            &[
                section(evil, &[paragraph(evil), verdict(evil, evil, evil)]),
                table(&[evil], &[], [vec![evil.into()]]),
                details(evil, &[list(&[evil.into()]), verbatim(evil)]),
            ],
        );
        assert!(!text.contains("<script"), "{text}");
        assert!(!text.contains("\" onload"), "{text}");
    }

    #[test]
    fn a_page_asks_nobody_for_anything() {
        let text = page("t", &[]);
        for sign in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!text.contains(sign), "{sign}");
        }
    }
}
