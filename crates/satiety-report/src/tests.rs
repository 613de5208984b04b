//! Renders one document in every format, with hostile input.

use satiety::bench::{MarkKind, MarkedSpan};

use crate::charts::Mark;
use crate::document::{Block, Chart, Document, Medium, Table, Text, Tone, badge, dim, link, strong};
use crate::series::{Lines, Series};
use crate::{csv, html, markdown, row, terminal};

const EVIL: &str = "<script>x</script> a|b @all \"c\" & d\n=1+1";

fn marks(text: &str) -> Vec<MarkedSpan> {
    let kinds = [
        MarkKind::Plain,
        MarkKind::Match,
        MarkKind::Extra,
        MarkKind::Missing,
    ];
    let span = |kind| MarkedSpan {
        kind,
        text: text.to_owned(),
    };
    kinds.map(span).into()
}

fn everything(text: &str) -> Document {
    let table = Table::new(
        &["name", text],
        &[1],
        [
            row![text, badge(Tone::Good, text)],
            row![link(text, text), dim(text)],
        ],
    );
    let mut document = Document::new(
        text,
        vec![
            Block::verdict(Tone::Bad, text, text, &[text.to_owned()]),
            Block::section(
                text,
                vec![
                    Block::text(strong(text).then(text)),
                    Block::list(&[text.to_owned()]),
                    Block::Fields(vec![(text.to_owned(), text.into())]),
                    Block::Table(table.clone()),
                    Block::note(text),
                    Block::details(
                        text,
                        vec![Block::Verbatim(text.to_owned()), Block::Marked(marks(text))],
                    ),
                ],
            ),
        ],
    );
    document.data = Some(table);
    document
}

fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            letters.by_ref().find(char::is_ascii_alphabetic);
        } else {
            out.push(letter);
        }
    }
    out
}

#[test]
fn html_escapes_untrusted_text() {
    let page = html::render(&everything(EVIL));
    assert!(!page.contains("<script") && !page.contains("\"c\" "), "{page}");
    assert!(page.contains("&lt;script&gt;"), "{page}");
}

#[test]
fn markdown_escapes_untrusted_text() {
    let page = markdown::render(&everything(EVIL));
    // A code block shows its content without interpreting it.
    let (before, fenced) = page.split_once("```text").unwrap();
    assert!(!before.contains("<script") && !before.contains("@all"), "{page}");
    for line in before.lines().filter(|line| line.starts_with("| ")) {
        assert_eq!(line.replace("\\|", "").matches('|').count(), 3, "{line}");
    }
    assert!(fenced.contains("\n```\n\n</details>"), "{page}");
    let fences = Document::from(Block::Verbatim("```\nend of block\n```".into()));
    assert_eq!(
        markdown::render(&fences),
        "````text\n```\nend of block\n```\n````\n"
    );
    assert_eq!(markdown::escape(&"x".repeat(400), 300).chars().count(), 301);
}

#[test]
fn csv_quotes_cells_and_keeps_values_unchanged() {
    let data = Table::new(
        &["a", "b"],
        &[],
        [
            row!["x,\"y\"", "two\nlines"],
            row!["=1+1", badge(Tone::Bad, "no")],
        ],
    );
    let mut document = Document::default();
    assert_eq!(csv::render(&document), None);
    document.data = Some(data);
    assert_eq!(
        csv::render(&document).unwrap(),
        "a,b\n\"x,\"\"y\"\"\",\"two\nlines\"\n=1+1,no"
    );
}

#[test]
fn numbers_align_next_to_wide_characters_and_colours() {
    let rows = [row!["a", 7_u64], row!["日本", badge(Tone::Bad, "123")]];
    let table = Document::from(Block::Table(Table::new(&["what", "rows"], &[1], rows)));
    assert_eq!(
        plain(&terminal::render_in(&table, 80)),
        "what  rows\na        7\n日本   123"
    );
}

#[test]
fn tables_respect_width_and_row_limit() {
    let long = "word ".repeat(40);
    let rows = (0..300).map(|_| row!["name", &*long]);
    let document = Document::from(Block::Table(Table::new(&["a", "b"], &[], rows).limit(2)));
    let shown = terminal::render_in(&document, 60);
    assert!(shown.lines().all(|line| line.chars().count() <= 60), "{shown}");
    assert!(shown.ends_with("… and 298 more"), "{shown}");
    assert!(markdown::render(&document).ends_with("… and 250 more.\n"));
    assert!(html::render(&document).contains("… and 100 more."));
}

#[test]
fn lines_are_adjacent_and_the_verdict_is_last() {
    let document = Document::new(
        "",
        vec![
            Block::verdict(Tone::Good, "Pass", "", &["enough cases".into()]),
            Block::section("suite", vec![Block::text("one"), Block::note("two")]),
            Block::Table(Table::new(&["a"], &[], [row!["1"]])),
            Block::details("hidden", vec![]),
            Block::Only(Medium::Page, vec![Block::text("page")]),
            Block::Only(Medium::Terminal, vec![Block::text("terminal")]),
        ],
    );
    let shown = plain(&terminal::render_in(&document, 80));
    assert_eq!(
        shown,
        "suite\none\nnote: two\n\na\n1\n\nterminal\n\nPASS\n- enough cases"
    );
    let page = markdown::render(&document);
    assert!(
        page.starts_with("✅ **Pass**\n\n- enough cases\n\n## suite\n\none\n\n**note:** two\n"),
        "{page}"
    );
    assert!(page.contains("page") && !page.contains("terminal"), "{page}");
}

#[test]
fn text_renders_curves_as_bars_and_omits_other_charts() {
    let series = vec![Series::new("new", vec![Some(0.0), None, Some(1.0)])];
    let places = vec!["1".into(), "2".into(), "3".into()];
    let lines = Chart::Lines(Lines::shares("t", "round", places, series));
    let mark = Mark {
        label: "q".into(),
        value: 0.5,
        hint: String::new(),
    };
    let document = Document::new(
        "",
        vec![
            Block::Chart(lines),
            Block::Chart(Chart::Changes("t".into(), vec![mark])),
        ],
    );
    assert_eq!(terminal::render_in(&document, 80), "new  ▁█");
    assert_eq!(markdown::render(&document), "```text\nnew  ▁█\n```\n");
    assert_eq!(html::render(&document).matches("<figure").count(), 2);
    assert_eq!(
        terminal::sparkline(&[0.0, 0.5, 1.0, 7.0, -1.0, f64::NAN]),
        "▁▅██▁▁"
    );
}

#[test]
fn markdown_links_only_complete_addresses() {
    let rendered = |to: &str| {
        let text = Block::Text(link(to, "Open [it]"));
        markdown::render(&Document::new("", vec![text]))
    };
    let linked = rendered("http://[::1]:8787/bench/runs/run-1");
    assert!(
        linked.contains("](http://[::1]:8787/bench/runs/run-1)"),
        "{linked}"
    );
    for other in ["/bench/runs/run-1", "http://a/) b", "javascript:alert(1)"] {
        assert!(!rendered(other).contains("]("), "{other}");
    }
}

#[test]
fn backticks_are_code_on_a_page() {
    let line = html::line(&Text::from("run `a <b>` now"));
    assert_eq!(line.0, "run <code>a &lt;b&gt;</code> now");
}

#[test]
fn terminal_escapes_untrusted_text() {
    let evil = "\u{1b}[2J\u{1b}[8mgone\u{202e}\r\nend ⚠\u{fe0f}";
    let shown = plain(&terminal::render_in(&everything(evil), 400));
    assert!(!shown.contains(['\u{1b}', '\r', '\u{202e}']), "{shown}");
    assert!(
        shown.contains("\\u{1b}[2J\\u{1b}[8mgone\\u{202e}\\u{d} end ⚠\u{fe0f}"),
        "{shown}"
    );
}
