//! Answers without a model: extracts from accepted results what a question asks for, verbatim.
//!
//! The kind of the question steers the extraction: sentences, or whole lists, tables and code blocks. A question
//! is answered if a text covers its words and has what its kind asks for; if no text does, "not found in these
//! sources" is the answer.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::question::QuestionKind;
use super::report::Finding;
use super::terms::{distinct, terms};
use crate::text::document::{BlockKind, blocks};
use crate::text::{SentenceKind, jaccard, normalize, sentences};

/// Whether the sources answer a question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerState {
    /// A source has what the question asks for.
    Answered,
    /// Sources are about the subject, but none has what the question asks for.
    Related,
    /// Not found in these sources.
    #[default]
    NotFound,
}

/// Text of a source to extract from.
#[derive(Debug, Clone, Copy)]
pub(super) struct SourceText<'a> {
    /// Number of the source, starting at 1.
    pub(super) number: usize,
    /// Title and headings above the text.
    pub(super) title: &'a str,
    pub(super) text: &'a str,
}

/// An answer: what is quoted, and whether it satisfies the question.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Extracted {
    pub(super) state: AnswerState,
    pub(super) findings: Vec<Finding>,
    /// Positions of the texts with the best candidates, best first.
    pub(super) best_texts: Vec<usize>,
    /// Weights of the question's terms among the texts.
    pub(super) weights: QuestionWeights,
}

/// Sentences with a term overlap above this say the same.
const SAME: f64 = 0.6;
/// Maximum length of a quoted sentence in characters.
const MAX_SENTENCE_CHARS: usize = 400;
/// Maximum length of a quoted list, table or code block in characters.
const MAX_BLOCK_CHARS: usize = 2400;
/// Share of the question's weight that an answer covers, with its headings.
const MIN_COVERED: f64 = 0.55;
/// Share of the question's weight below which a text is not about its subject.
const MIN_RELATED: f64 = 0.4;
/// Weight of a term that only the headings or the sentence before have.
const CONTEXT: f64 = 0.7;
/// Weight of a term that only other parts of the same passage have.
const PASSAGE: f64 = 0.5;
/// Factor of the score for texts that have what the question asks for.
const SATISFIED: f64 = 1.6;

/// Factor of the score for lists, tables and code where the question asks for such.
const PREFERRED: f64 = 1.25;

/// Weights of the terms of a question, which tell how much of it a text covers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct QuestionWeights {
    weights: Vec<(String, f64)>,
    total: f64,
}

/// Terms of a statement and of what stands around it.
pub(super) struct StatementTerms<'a> {
    pub(super) own: &'a BTreeSet<String>,
    /// Terms of the headings and of the sentence before.
    pub(super) context: &'a BTreeSet<String>,
    /// Terms of the whole passage.
    pub(super) passage: &'a BTreeSet<String>,
    /// Whether it is a list, a table or a code block.
    pub(super) is_block: bool,
}

impl QuestionWeights {
    /// Weight of each term of a question, from 1 to 2: the rarer among the texts, the more. A term that no text
    /// has weighs most, but not so much that one word in other words leaves a question open.
    pub(super) fn of(question: &str, texts: &[BTreeSet<String>]) -> Self {
        let count = texts.len() as f64;
        let rarity = |with: f64| (1.0 + (count - with + 0.5) / (with + 0.5)).ln();
        let weights: Vec<(String, f64)> = distinct(question)
            .into_iter()
            .map(|(_, term)| {
                let with = texts.iter().filter(|text| text.contains(&term)).count() as f64;
                (term, 1.0 + rarity(with) / rarity(0.0))
            })
            .collect();
        Self {
            total: weights.iter().map(|(_, weight)| weight).sum(),
            weights,
        }
    }

    /// Share of the question's weight that a statement covers, with what stands around it.
    fn covered(&self, statement: &StatementTerms<'_>) -> f64 {
        let (mut own, mut around) = (0.0, 0.0);
        for (term, weight) in &self.weights {
            if statement.own.contains(term) {
                own += weight;
            } else if statement.context.contains(term) {
                around += CONTEXT * weight;
            } else if statement.passage.contains(term) {
                around += PASSAGE * weight;
            }
        }
        // A sentence without a word of the question says nothing about it; a code block or table may.
        if own > 0.0 || statement.is_block {
            (own + around) / self.total.max(f64::MIN_POSITIVE)
        } else {
            0.0
        }
    }

    /// Whether a statement is about what the question asks.
    pub(super) fn is_about(&self, statement: &StatementTerms<'_>) -> bool {
        self.covered(statement) >= MIN_COVERED
    }
}

/// A text that may be quoted.
struct Candidate {
    text: String,
    source: usize,
    /// Position of its text.
    at: usize,
    terms: BTreeSet<String>,
    context: BTreeSet<String>,
    satisfies: bool,
    /// Whether it has the form that answers of this kind usually have.
    preferred: bool,
    /// Whether it is a list, a table or a code block, and not a sentence.
    whole: bool,
}

/// Extracts at most `count` findings that answer a question. `used` are findings of earlier questions.
pub(super) fn extract(
    question: &str,
    kind: QuestionKind,
    texts: &[SourceText<'_>],
    count: usize,
    used: &mut BTreeSet<String>,
) -> Extracted {
    let mut candidates = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        collect(question, kind, at, text, &mut candidates);
    }
    let sets: Vec<BTreeSet<String>> = texts
        .iter()
        .map(|text| terms(text.title).into_iter().chain(terms(text.text)).collect())
        .collect();
    let weights = QuestionWeights::of(question, &sets);
    let covered = |candidate: &Candidate| {
        weights.covered(&StatementTerms {
            own: &candidate.terms,
            context: &candidate.context,
            passage: &sets[candidate.at],
            is_block: candidate.whole,
        })
    };
    let mut ranked: Vec<(f64, f64, usize)> = candidates
        .iter()
        .enumerate()
        .map(|(at, candidate)| {
            let covered = covered(candidate);
            let brief = 1.0 / (12.0 + candidate.terms.len() as f64).powf(0.25);
            let fit = if candidate.satisfies { SATISFIED } else { 1.0 };
            let form = if candidate.preferred { PREFERRED } else { 1.0 };
            let score = covered * brief * fit * form;
            (score, covered, at)
        })
        .filter(|(_, covered, _)| *covered >= MIN_RELATED)
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.2.cmp(&b.2)));
    let answers = |covered: f64, at: usize| covered >= MIN_COVERED && candidates[at].satisfies;
    let state = if ranked.iter().any(|(_, covered, at)| answers(*covered, *at)) {
        AnswerState::Answered
    } else if ranked.is_empty() {
        AnswerState::NotFound
    } else {
        AnswerState::Related
    };
    let mut best_texts: Vec<usize> = Vec::new();
    let mut chosen: Vec<&Candidate> = Vec::new();
    // The answer comes first; what is only related follows.
    let (first, rest): (Vec<&(f64, f64, usize)>, Vec<_>) =
        ranked.iter().partition(|(_, covered, at)| answers(*covered, *at));
    for &(_, _, at) in first.into_iter().chain(rest) {
        let candidate = &candidates[at];
        if !best_texts.contains(&candidate.at) {
            best_texts.push(candidate.at);
        }
        if chosen.len() >= count {
            continue;
        }
        let contains =
            |other: &&Candidate| other.text.contains(&candidate.text) || candidate.text.contains(&other.text);
        let said = chosen
            .iter()
            .any(|other| jaccard(&other.terms, &candidate.terms) > SAME || contains(other));
        if !said && used.insert(normalize(&candidate.text)) {
            chosen.push(candidate);
        }
    }
    Extracted {
        state,
        best_texts,
        weights,
        findings: chosen
            .into_iter()
            .map(|candidate| Finding {
                text: candidate.text.clone(),
                source: candidate.source,
            })
            .collect(),
    }
}

/// Collects what can be quoted from a text: its sentences, and its lists, tables and code blocks as a whole.
fn collect(
    question: &str,
    kind: QuestionKind,
    at: usize,
    source: &SourceText<'_>,
    candidates: &mut Vec<Candidate>,
) {
    let title: BTreeSet<String> = terms(source.title).into_iter().collect();
    let mut before: BTreeSet<String> = BTreeSet::new();
    let mut push = |text: String, block: BlockKind, context: BTreeSet<String>| {
        candidates.push(Candidate {
            terms: terms(&text).into_iter().collect(),
            satisfies: kind.is_satisfied_by(question, &text, block),
            whole: block != BlockKind::Paragraph,
            preferred: kind.prefers(question, &text, block),
            source: source.number,
            at,
            context,
            text,
        });
    };
    // A paragraph that ends with a colon introduces the block behind it, and is quoted with it.
    let mut introduction: Option<&str> = None;
    for block in blocks(source.text) {
        let context: BTreeSet<String> = title.union(&before).cloned().collect();
        let whole = match introduction.take() {
            Some(introduction) => format!("{introduction}\n\n{}", block.text),
            None => block.text.to_owned(),
        };
        let fits = whole.chars().count() <= MAX_BLOCK_CHARS;
        match block.kind {
            BlockKind::Heading(_) => {
                before = terms(block.text).into_iter().collect();
                continue;
            }
            BlockKind::Code | BlockKind::Table if fits => push(whole, block.kind, context),
            BlockKind::List if fits => {
                push(whole, block.kind, context.clone());
                for item in sentences(block.text) {
                    push_sentence(item.text, &context, &mut push);
                }
            }
            _ => {
                for sentence in sentences(block.text) {
                    if !matches!(
                        sentence.kind,
                        SentenceKind::Heading | SentenceKind::Code | SentenceKind::TableRow
                    ) {
                        push_sentence(sentence.text, &context, &mut push);
                    }
                }
            }
        }
        if block.kind == BlockKind::Paragraph && block.text.ends_with(':') {
            introduction = Some(block.text.rsplit("\n\n").next().unwrap_or(block.text));
        }
        let lines: Vec<&str> = block.text.lines().rev().take(2).collect();
        before = lines.iter().flat_map(|line| terms(line)).collect();
    }
}

fn push_sentence(
    text: &str,
    context: &BTreeSet<String>,
    push: &mut impl FnMut(String, BlockKind, BTreeSet<String>),
) {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_tag = text.starts_with('<') && text.ends_with('>');
    if text.chars().count() <= MAX_SENTENCE_CHARS && !text.ends_with('?') && !is_tag {
        push(text, BlockKind::Paragraph, context.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(question: &str, texts: &[(&str, &str)]) -> Extracted {
        let texts: Vec<SourceText<'_>> = texts
            .iter()
            .zip(1..)
            .map(|((title, text), number)| SourceText { number, title, text })
            .collect();
        extract(
            question,
            QuestionKind::of(question),
            &texts,
            3,
            &mut BTreeSet::new(),
        )
    }

    const PORTS: &str = "The firewall must let the agents in. These ports must be open on every server.\n\n\
        | port | used by |\n|---|---|\n| 8787 | clients |\n| 4317 | traces |\n\nPorts are configured by an administrator.";

    #[test]
    fn a_table_is_quoted_whole_for_a_number() {
        let found = answer(
            "Which ports must be open?",
            &[("Firewall", PORTS), ("Other", "Open the door.")],
        );
        assert_eq!(found.state, AnswerState::Answered);
        assert!(
            found.findings[0]
                .text
                .contains("| 8787 | clients |\n| 4317 | traces |"),
            "{found:?}"
        );
        assert_eq!(found.findings[0].source, 1);
    }

    #[test]
    fn instructions_are_code_and_lists() {
        let text = "# Install\n\nInstalling the server is easy. Install the server with pip:\n\n```sh\npip install it\n```\n\nIt is free.";
        let found = answer("How do I install the server?", &[("Guide", text)]);
        assert_eq!(found.state, AnswerState::Answered);
        assert!(
            found
                .findings
                .iter()
                .any(|finding| finding.text.contains("pip install it")),
            "{found:?}"
        );
    }

    #[test]
    fn what_the_sources_do_not_have_is_not_found() {
        let texts = [
            ("Firewall", PORTS),
            (
                "Server",
                "The server stores data in a database. It listens on 8787.",
            ),
        ];
        let found = answer("How do I deploy the dashboard to Kubernetes?", &texts);
        assert_eq!(
            (found.state, found.findings.len()),
            (AnswerState::NotFound, 0),
            "{found:?}"
        );
        // About the subject, without what is asked for.
        let found = answer("Why does the server store data in a database?", &texts);
        assert_eq!(found.state, AnswerState::Related, "{found:?}");
    }

    #[test]
    fn findings_are_verbatim() {
        let found = answer(
            "Where does the server store data?",
            &[("S", "The server\nstores data in `/var/lib/x`. More.")],
        );
        assert_eq!(found.findings[0].text, "The server stores data in `/var/lib/x`.");
        assert_eq!(found.state, AnswerState::Answered);
    }
}
