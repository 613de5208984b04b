//! A passage that a research run found, shown in its page: the text of the page if it was read in full, otherwise the
//! passages of the same document that the run has seen. Parts that findings quote are marked.

use std::collections::BTreeMap;

use satiety::bench::{MarkKind, MarkedSpan};
use satiety::research::{Hit, RoundRecord};
use satiety_engine::research::StoredResearch;
use satiety_report::document::{dim, link};
use satiety_report::{Block, Text};

use super::research::{passage_path, rounds};
use super::shell::count;

/// Characters of a page shown before and after the passage.
const AROUND: usize = 2000;

/// Numbers of the sources that findings cite and that have an address.
pub(super) fn cited_sources<'a>(kept: &'a StoredResearch, url: &'a str) -> impl Iterator<Item = usize> + 'a {
    let sources = kept.report.iter().flat_map(|report| &report.sources);
    sources
        .filter(move |source| {
            source.cited && (source.url == url || source.also_at.iter().any(|at| at == url))
        })
        .map(|source| source.number)
}

/// A result of a round with what the run knows about its page.
pub(super) struct Passage<'a> {
    kept: &'a StoredResearch,
    round: &'a RoundRecord,
    number: usize,
    hit: &'a Hit,
}

impl<'a> Passage<'a> {
    /// `None` if the round has no such result; results count from 1.
    pub(super) fn find(kept: &'a StoredResearch, round: &'a RoundRecord, number: usize) -> Option<Self> {
        let hit = round.results.get(number.checked_sub(1)?)?;
        Some(Self {
            kept,
            round,
            number,
            hit,
        })
    }

    pub(super) fn title(&self) -> &'a str {
        match (self.hit.title.trim(), self.hit.url.trim()) {
            ("", "") => "Passage",
            ("", url) => url,
            (title, _) => title,
        }
    }

    pub(super) fn blocks(&self) -> Vec<Block> {
        let quotes = self.quotes();
        let mut body = vec![self.facts(quotes.len())];
        if !quotes.is_empty() {
            body.push(Block::text("Marked parts are quoted in the findings."));
        }
        body.push(Block::section(
            "Passage",
            vec![Block::Marked(mark_quotes(&self.hit.snippet, &quotes))],
        ));
        body.extend(self.page());
        body
    }

    fn facts(&self, quotes: usize) -> Block {
        let hit = self.hit;
        let cited: Vec<String> = cited_sources(self.kept, &hit.url)
            .map(|number| format!("[{number}]"))
            .collect();
        let seen = self.others(|other| other.url == hit.url);
        let again: Vec<Text> = seen
            .into_iter()
            .filter(|(round, number, _)| (*round, *number) != (self.round.round, self.number))
            .map(|(round, number, _)| link(self.path(round, number), format!("round {round}, rank {number}")))
            .collect();
        let again = again.into_iter().reduce(|all, one| all.then("; ").then(one));
        Block::fields([
            (
                "found by",
                Some(
                    format!(
                        "round {}, rank {}: “{}”",
                        self.round.round, self.number, self.round.query
                    )
                    .into(),
                ),
            ),
            ("also found by", again),
            ("address", Some((&hit.url).into())),
            ("score", hit.score.map(|score| format!("{score:.3}").into())),
            ("published", hit.published.as_ref().map(Text::from)),
            (
                "cited",
                Some(if cited.is_empty() {
                    "no".into()
                } else {
                    format!(
                        "as {}, {}",
                        cited.join(" "),
                        count(quotes, "quotation", "quotations")
                    )
                    .into()
                }),
            ),
        ])
    }

    fn path(&self, round: u32, number: usize) -> String {
        passage_path(&self.kept.run_id, round, number)
    }

    /// Texts that findings and answers quote from this passage.
    fn quotes(&self) -> Vec<&'a str> {
        let sources: Vec<usize> = cited_sources(self.kept, &self.hit.url).collect();
        let answers = self.kept.report.iter().flat_map(|report| &report.answers);
        let quoted = answers.flat_map(|answer| {
            let written = answer.written.iter().flat_map(|written| &written.sentences);
            let written = written.flat_map(|sentence| &sentence.quotes);
            answer.findings.iter().chain(written)
        });
        let mut found: Vec<&str> = quoted
            .filter(|finding| sources.contains(&finding.source))
            .map(|finding| finding.text.as_str())
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Results of all rounds that match, with round and rank.
    fn others(&self, matches: impl Fn(&Hit) -> bool) -> Vec<(u32, usize, &'a Hit)> {
        let all = rounds(self.kept).iter().flat_map(|round| {
            let results = round.results.iter().enumerate();
            results.map(|(place, hit)| (round.round, place + 1, hit))
        });
        all.filter(|(_, _, hit)| matches(hit)).collect()
    }

    /// The passage in its page.
    fn page(&self) -> Option<Block> {
        let pages = self.kept.report.iter().flat_map(|report| &report.pages);
        let read = pages
            .filter(|page| page.url == self.hit.url && !page.text.is_empty())
            .map(|page| page.text.as_str())
            .next();
        if let Some(text) = read {
            let title = format!("In the page ({} characters)", text.chars().count());
            let around = around(text, &self.hit.snippet);
            return Some(Block::section(title, vec![Block::Marked(around)]));
        }
        // Passages of one file have its path, and their number behind it.
        let (document, _) = document_and_number(&self.hit.url);
        let mut passages: BTreeMap<usize, (u32, usize, &Hit)> = BTreeMap::new();
        for (round, number, hit) in self.others(|hit| document_and_number(&hit.url).0 == document) {
            let place = document_and_number(&hit.url).1;
            passages.entry(place).or_insert((round, number, hit));
        }
        if passages.len() < 2 {
            return None;
        }
        let parts = passages.iter().flat_map(|(place, (round, number, hit))| {
            let heading: Text = if hit.url == self.hit.url {
                dim(format!("Passage {place}, this one"))
            } else {
                link(self.path(*round, *number), format!("Passage {place}"))
            };
            let text = if hit.url == self.hit.url {
                vec![MarkedSpan {
                    kind: MarkKind::Match,
                    text: hit.snippet.clone(),
                }]
            } else {
                vec![MarkedSpan {
                    kind: MarkKind::Plain,
                    text: hit.snippet.clone(),
                }]
            };
            [Block::Text(heading), Block::Marked(text)]
        });
        let title = format!(
            "In its document: {} seen by this run",
            count(passages.len(), "passage", "passages")
        );
        Some(Block::section(title, parts.collect()))
    }
}

/// Splits the address of a passage of a file into the path and the number of the passage.
fn document_and_number(url: &str) -> (&str, usize) {
    match url.rsplit_once('#') {
        Some((document, number)) => match number.parse() {
            Ok(number) => (document, number),
            Err(_) => (url, 1),
        },
        None => (url, 1),
    }
}

/// Marks every quotation in a text. Quotations are verbatim; one that a later version shortened is not marked.
fn mark_quotes(text: &str, quotes: &[&str]) -> Vec<MarkedSpan> {
    let mut marked = vec![false; text.len()];
    for quote in quotes.iter().filter(|quote| !quote.trim().is_empty()) {
        for (at, found) in text.match_indices(quote) {
            if let Some(part) = marked.get_mut(at..at + found.len()) {
                part.fill(true);
            }
        }
    }
    let mut spans: Vec<MarkedSpan> = Vec::new();
    for (at, letter) in text.char_indices() {
        let kind = if marked.get(at) == Some(&true) {
            MarkKind::Match
        } else {
            MarkKind::Plain
        };
        match spans.last_mut() {
            Some(last) if last.kind == kind => last.text.push(letter),
            _ => spans.push(MarkedSpan {
                kind,
                text: letter.to_string(),
            }),
        }
    }
    spans
}

/// The part of a page around a passage, with the passage marked; the beginning of the page if it is not found verbatim.
fn around(page: &str, passage: &str) -> Vec<MarkedSpan> {
    let span = |kind: MarkKind, text: String| MarkedSpan { kind, text };
    let passage = passage.trim();
    let Some(at) = page.find(passage).filter(|_| !passage.is_empty()) else {
        let beginning: String = page.chars().take(2 * AROUND).collect();
        let rest = if beginning.len() < page.len() { "\n…" } else { "" };
        return vec![span(MarkKind::Plain, format!("{beginning}{rest}"))];
    };
    let (before, rest) = page.split_at(at);
    let (found, after) = rest.split_at(passage.len());
    let skipped = before.chars().count().saturating_sub(AROUND);
    let lead = if skipped > 0 { "…" } else { "" };
    let before: String = before.chars().skip(skipped).collect();
    let tail: String = after.chars().take(AROUND).collect();
    let end = if tail.len() < after.len() { "…" } else { "" };
    vec![
        span(MarkKind::Plain, format!("{lead}{before}")),
        span(MarkKind::Match, found.to_owned()),
        span(MarkKind::Plain, format!("{tail}{end}")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(spans: &[MarkedSpan]) -> String {
        spans
            .iter()
            .map(|span| match span.kind {
                MarkKind::Match => format!("[{}]", span.text),
                _ => span.text.clone(),
            })
            .collect()
    }

    #[test]
    fn quotations_are_marked_where_they_stand() {
        let text = "Pumps work at −25 °C. They need grout. Pumps work.";
        let quotes = ["They need grout.", "work at −25 °C.", ""];
        assert_eq!(
            marked(&mark_quotes(text, &quotes)),
            "Pumps [work at −25 °C.] [They need grout.] Pumps work."
        );
        assert_eq!(marked(&mark_quotes("", &quotes)), "");
    }

    #[test]
    fn a_passage_is_shown_with_its_surroundings() {
        let page = format!("{} middle {}", "a".repeat(3000), "ü".repeat(3000));
        let shown = marked(&around(&page, " middle "));
        assert!(shown.starts_with("…a") && shown.ends_with("ü…"), "{shown}");
        assert!(shown.contains("[middle]"), "{shown}");
        assert_eq!(marked(&around("short", "absent")), "short");
    }

    #[test]
    fn passages_of_a_file_have_a_number() {
        assert_eq!(document_and_number("a/b.md"), ("a/b.md", 1));
        assert_eq!(document_and_number("a/b.md#3"), ("a/b.md", 3));
        assert_eq!(document_and_number("https://x/#top"), ("https://x/#top", 1));
    }
}
