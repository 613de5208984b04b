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
    let body = joined(body);
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
    let parts = joined(parts);
    Html(format!(
        "<section>\n<h2>{}</h2>\n{parts}\n</section>",
        escape(title)
    ))
}

/// A paragraph; what stands between backticks is code.
pub fn paragraph(text: &str) -> Html {
    Html(format!("<p>{}</p>", told(text)))
}

/// Text from outside, made harmless, with what stands between backticks as code.
pub(crate) fn told(text: &str) -> Html {
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
pub fn table(header: &[&str], numbers: &[usize], rows: impl IntoIterator<Item = Vec<String>>) -> Html {
    let rows = rows.into_iter();
    table_of(
        header,
        numbers,
        rows.map(|row| row.iter().map(|cell| told(cell)).collect()),
    )
}

/// A table whose cells may hold links and marks.
pub fn table_of(header: &[&str], numbers: &[usize], rows: impl IntoIterator<Item = Vec<Html>>) -> Html {
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
    let parts = joined(parts);
    Html(format!(
        "<details><summary>{}</summary>\n{parts}\n</details>",
        escape(summary)
    ))
}

/// What every page looks like.
pub(crate) const STYLE: &str = include_str!("assets/base.css");

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
