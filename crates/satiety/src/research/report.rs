//! What was found. Every sentence of the findings is taken from an accepted result or a page that was read, word for word,
//! and carries the number of its source; what a model wrote is kept apart and said to be a model's.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::assess::{Agreement, agreement};
use super::budget::{BudgetEnd, Spent};
use super::coverage::QuestionCoverage;
use super::gate::Reason;
use super::record::{ModelCalls, RoundRecord};
use super::session::Research;
use super::terms::{distinct, terms};
use super::unseen::Unseen;
use crate::text::{SentenceKind, jaccard, normalize, sentences};

/// The shape of [`Report`] as JSON.
pub(crate) const SCHEMA: &str = "satiety.research/1";
/// Sentences that share more of their terms than this say the same.
const SAME: f64 = 0.6;
/// The longest sentence that is quoted.
const LONGEST: usize = 400;

/// Why it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum StopReason {
    /// New results were no longer new.
    Saturated,
    /// Another search was not expected to pay.
    Outlook,
    /// The last round allowed.
    Cap,
    /// A limit was reached.
    Budget {
        /// Which one.
        limit: BudgetEnd,
    },
    /// No query is left that was not asked.
    NothingLeftToAsk,
    /// Somebody asked for it.
    Interrupted,
}

impl StopReason {
    pub(super) fn of(reason: Reason) -> Self {
        match reason {
            Reason::Saturated => Self::Saturated,
            Reason::Outlook => Self::Outlook,
            _ => Self::Cap,
        }
    }

    /// In words.
    pub fn words(&self) -> &'static str {
        match self {
            Self::Saturated => "new results were no longer new",
            Self::Outlook => {
                "what was new had little to do with the task, so another search was not expected to pay"
            }
            Self::Cap => "the last round allowed was made",
            Self::Budget { limit } => limit.words(),
            Self::NothingLeftToAsk => "no query was left that had not been asked",
            Self::Interrupted => "it was interrupted",
        }
    }
}

/// One sentence and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Word for word.
    pub text: String,
    /// The number of its source.
    pub source: usize,
}

/// What was found about one question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// How well it is covered.
    #[serde(flatten)]
    pub coverage: QuestionCoverage,
    /// Nothing that was accepted speaks of it.
    pub open: bool,
    /// Sentences about it.
    pub findings: Vec<Finding>,
}

/// An accepted result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Source {
    /// Its number.
    pub number: usize,
    /// Its title.
    pub title: String,
    /// Where it is.
    pub url: String,
    /// The round that brought it.
    pub round: u32,
    /// Other addresses of the same text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_at: Vec<String>,
    /// Whether a sentence of it is cited.
    pub cited: bool,
    /// It came with the round that ended the search.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub salvaged: bool,
}

/// What became of a page that was considered for reading.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Page {
    /// Where it is.
    pub url: String,
    /// The share of its snippet that was known before.
    pub overlap: f64,
    /// Characters read; absent where it was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chars: Option<usize>,
    /// Why it was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
    /// Its text as Markdown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// What was found, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// `SCHEMA`.
    pub schema: String,
    /// The run.
    pub run_id: String,
    /// What was asked.
    pub task: String,
    /// Where was searched.
    pub source: String,
    /// The seed of the gate's chance.
    pub seed: u64,
    /// Why it ended.
    pub stop: StopReason,
    /// The same in words.
    pub stop_words: String,
    /// Searches made.
    pub searches: usize,
    /// Rounds whose results were kept.
    pub rounds_accepted: usize,
    /// By question.
    pub answers: Vec<Answer>,
    /// Accepted results.
    pub sources: Vec<Source>,
    /// What is known, in few words.
    pub summary: String,
    /// The model that wrote the summary; absent where sentences were extracted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_by: Option<String>,
    /// Pages that were considered for reading.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<Page>,
    /// How much is unseen.
    pub unseen: Unseen,
    /// How far assessors agree.
    pub agreement: Vec<Agreement>,
    /// Calls of chat models.
    pub model_calls: ModelCalls,
    /// What it cost.
    pub spent: Spent,
    /// Things to know about this run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The rounds.
    pub rounds: Vec<RoundRecord>,
}

impl Report {
    /// Writes the report of a research.
    pub fn new(research: &Research, stop: StopReason, pages: Vec<Page>, spent: Spent) -> Self {
        let records = research.records().to_vec();
        let mut sources: Vec<Source> = research
            .kept()
            .iter()
            .enumerate()
            .map(|(at, kept)| Source {
                number: at + 1,
                title: kept.hit.title.clone(),
                url: kept.hit.url.clone(),
                round: kept.round,
                also_at: kept.also_at.clone(),
                cited: false,
                salvaged: kept.salvaged,
            })
            .collect();
        let texts = texts(research, &pages);
        let mut used = BTreeSet::new();
        let answers: Vec<Answer> = research
            .coverage()
            .into_iter()
            .map(|coverage| Answer {
                open: coverage.is_open(),
                findings: findings(
                    &coverage.question,
                    &texts,
                    research.settings().sentences_per_question,
                    &mut used,
                ),
                coverage,
            })
            .collect();
        for finding in answers.iter().flat_map(|answer| &answer.findings) {
            if let Some(source) = sources.get_mut(finding.source - 1) {
                source.cited = true;
            }
        }
        let mut calls = ModelCalls::default();
        for record in &records {
            calls.plan += record.model_calls.plan;
            calls.novelty += record.model_calls.novelty;
            calls.compress += record.model_calls.compress;
            calls.failed += record.model_calls.failed;
        }
        let novelties: Vec<_> = records.iter().map(|record| record.novelty.clone()).collect();
        Self {
            schema: SCHEMA.into(),
            run_id: String::new(),
            task: research.task().text.clone(),
            source: String::new(),
            seed: research.settings().gate.seed,
            stop_words: stop.words().into(),
            stop,
            searches: records.len(),
            rounds_accepted: records.iter().filter(|record| record.verdict.accepted).count(),
            answers,
            sources,
            summary: research.summary().to_owned(),
            summary_by: None,
            pages,
            unseen: records
                .last()
                .map(|record| record.unseen.clone())
                .unwrap_or_default(),
            agreement: agreement(&novelties, research.settings().gate.threshold),
            model_calls: calls,
            spent,
            notes: Vec::new(),
            rounds: records,
        }
    }

    /// The novelty that was compared, round by round.
    pub fn curve(&self) -> Vec<f64> {
        self.rounds
            .iter()
            .map(|record| record.verdict.novelty.unwrap_or(0.0))
            .collect()
    }
}

/// By source: its text, and that of the page if it was read.
fn texts(research: &Research, pages: &[Page]) -> Vec<Vec<String>> {
    research
        .kept()
        .iter()
        .map(|kept| {
            let mut texts = vec![kept.hit.snippet.clone()];
            let page = pages
                .iter()
                .find(|page| page.url == kept.hit.url && !page.text.is_empty());
            texts.extend(page.map(|page| page.text.clone()));
            texts
        })
        .collect()
}

/// The sentences that say most about a question: its terms, rare among all sentences weighing more, each thing said once.
fn findings(
    question: &str,
    texts: &[Vec<String>],
    count: usize,
    used: &mut BTreeSet<String>,
) -> Vec<Finding> {
    let wanted = distinct(question);
    let mut candidates: Vec<(String, usize, BTreeSet<String>)> = Vec::new();
    for (at, texts) in texts.iter().enumerate() {
        for sentence in texts.iter().flat_map(|text| sentences(text)) {
            if matches!(
                sentence.kind,
                SentenceKind::Code | SentenceKind::Heading | SentenceKind::TableRow
            ) {
                continue;
            }
            let text = one_line(sentence.text);
            let set: BTreeSet<String> = terms(&text).into_iter().collect();
            let about = wanted.iter().any(|(_, term)| set.contains(term));
            if about && text.chars().count() <= LONGEST && !text.ends_with('?') {
                candidates.push((text, at + 1, set));
            }
        }
    }
    let total = candidates.len().max(1) as f64;
    let weights: Vec<(String, f64)> = wanted
        .into_iter()
        .map(|(_, term)| {
            let with = candidates
                .iter()
                .filter(|(_, _, set)| set.contains(&term))
                .count() as f64;
            let weight = (1.0 + (total - with + 0.5) / (with + 0.5)).ln();
            (term, weight)
        })
        .collect();
    let score = |set: &BTreeSet<String>| {
        let have: f64 = weights
            .iter()
            .filter(|(term, _)| set.contains(term))
            .map(|(_, weight)| weight)
            .sum();
        have / (8.0 + set.len() as f64).sqrt()
    };
    let mut ranked: Vec<(f64, usize)> = candidates.iter().map(|(_, _, set)| score(set)).zip(0..).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut chosen: Vec<&(String, usize, BTreeSet<String>)> = Vec::new();
    for (_, at) in ranked {
        if chosen.len() >= count {
            break;
        }
        let Some(candidate) = candidates.get(at) else {
            continue;
        };
        let said = chosen.iter().any(|other| jaccard(&other.2, &candidate.2) > SAME);
        if !said && used.insert(normalize(&candidate.0)) {
            chosen.push(candidate);
        }
    }
    chosen
        .into_iter()
        .map(|(text, source, _)| Finding {
            text: text.clone(),
            source: *source,
        })
        .collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::research::{Hit, ResearchSettings, RoundOutcome};

    fn researched(task: &str, results: Vec<Hit>) -> Research {
        let mut research = Research::new(task, Vec::new(), ResearchSettings::default()).unwrap();
        let assessment = research.assess(&results, None);
        let (verdict, novelty) = research.decide(assessment, None);
        let summary = Some(research.extracted_summary(&results));
        let record = research.record(
            task.into(),
            true,
            RoundOutcome::Found,
            results,
            verdict,
            novelty,
            summary,
        );
        research.apply(record, None, true);
        research
    }

    #[test]
    fn every_sentence_is_in_its_source_word_for_word() {
        let results = vec![
            Hit::new(
                "Wings",
                "https://a.example/",
                "Heated wings bend\nupwards. Bread rises. Do wings bend?",
            ),
            Hit::new(
                "Alloys",
                "https://b.example/",
                "Wings of this alloy bend least. Heated wings bend upwards.",
            ),
        ];
        let research = researched(
            "How do heated wings bend? Which paint is cheapest?",
            results.clone(),
        );
        let report = Report::new(&research, StopReason::Cap, Vec::new(), Spent::default());
        let all: Vec<&Finding> = report
            .answers
            .iter()
            .flat_map(|answer| &answer.findings)
            .collect();
        assert!(!all.is_empty());
        for finding in &all {
            let source = &results[finding.source - 1];
            assert!(one_line(&source.snippet).contains(&finding.text), "{finding:?}");
        }
        assert!(
            all.iter()
                .any(|finding| finding.text == "Heated wings bend upwards.")
        );
        assert!(
            !all.iter().any(|finding| finding.text.contains("Bread")),
            "not on the task"
        );
        let open = report.answers.iter().filter(|answer| answer.open);
        let questions: Vec<&str> = open.map(|answer| answer.coverage.question.as_str()).collect();
        assert_eq!(questions, ["Which paint is cheapest?"]);
    }

    #[test]
    fn pages_that_were_read_can_be_cited() {
        let research = researched(
            "heated wings",
            vec![Hit::new(
                "Wings",
                "https://a.example/",
                "Short snippet about wings only.",
            )],
        );
        let page = Page {
            url: "https://a.example/".into(),
            overlap: 0.0,
            chars: Some(40),
            why_not: None,
            text: "# Title\n\nHeated wings lose a tenth of their stiffness.".into(),
        };
        let report = Report::new(&research, StopReason::Saturated, vec![page], Spent::default());
        let findings = &report.answers[0].findings;
        assert_eq!(findings[0].text, "Heated wings lose a tenth of their stiffness.");
        assert_eq!(findings[0].source, 1);
    }

    #[test]
    fn a_report_survives_json() {
        let research = Research::new("anything at all", Vec::new(), ResearchSettings::default()).unwrap();
        let report = Report::new(
            &research,
            StopReason::NothingLeftToAsk,
            Vec::new(),
            Spent::default(),
        );
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
    }
}
