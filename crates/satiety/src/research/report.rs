//! Research report. Every finding is quoted verbatim from an accepted result or a page that was
//! read, with the number of its source. Text written by a model is kept separate and labelled as such.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::{AnswerState, SourceText, extract};
use super::assess::{Agreement, agreement};
use super::budget::{BudgetLimit, Spent};
use super::coverage::QuestionCoverage;
use super::gate::Reason;
use super::hit::Hit;
use super::question::QuestionKind;
use super::record::{ModelCalls, RoundRecord};
use super::session::Research;
use super::unseen::Unseen;
use super::written::{AnswerTask, CitablePassage, WrittenAnswer};
use crate::text::document::{Document, LineSpan};
use crate::text::normalize;

/// Words of a passage of a page that was read.
const PASSAGE_WORDS: usize = 120;
/// Passages from which a model answers a question.
const PASSAGES_PER_ANSWER: usize = 8;

/// Schema identifier of [`Report`] in JSON.
pub(crate) const SCHEMA: &str = "satiety.research/1";
/// Reason why the research ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum StopReason {
    /// Results of the last round were not new.
    Saturated,
    /// Another search was not expected to pay off.
    Outlook,
    /// The estimate of what is missed is small enough.
    FewMissed,
    /// The maximum number of rounds was reached.
    Cap,
    /// A budget limit was reached.
    Budget {
        /// Limit that was reached.
        limit: BudgetLimit,
    },
    /// Every query that could be planned was already asked.
    NothingLeftToAsk,
    /// The run was interrupted from outside.
    Interrupted,
}

impl StopReason {
    pub(super) fn of(reason: Reason) -> Self {
        match reason {
            Reason::Saturated => Self::Saturated,
            Reason::Outlook => Self::Outlook,
            Reason::FewMissed => Self::FewMissed,
            _ => Self::Cap,
        }
    }

    /// Describes the reason as a clause.
    pub fn words(&self) -> &'static str {
        match self {
            Self::Saturated => "results were no longer new",
            Self::Outlook => {
                "new results had little to do with the task, so another search was not expected to pay off"
            }
            Self::FewMissed => "other searches are expected to find little more",
            Self::Cap => "the maximum number of rounds was reached",
            Self::Budget { limit } => limit.words(),
            Self::NothingLeftToAsk => "no new query was left",
            Self::Interrupted => "the run was interrupted",
        }
    }
}

/// A quotation and its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// A sentence, or a whole list, table or code block, verbatim.
    pub text: String,
    /// Number of the source in `sources`.
    pub source: usize,
}

/// Findings about one question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// Coverage of the question by accepted results.
    #[serde(flatten)]
    pub coverage: QuestionCoverage,
    /// What the question asks for.
    #[serde(default)]
    pub kind: QuestionKind,
    /// Whether the sources answer the question.
    #[serde(default)]
    pub state: AnswerState,
    /// Whether no source has what the question asks for.
    pub open: bool,
    /// Answer that a chat model wrote from the sources, with its unsupported sentences removed; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<WrittenAnswer>,
    /// Quoted sentences, lists, tables and code that answer the question; empty if nothing was found.
    pub findings: Vec<Finding>,
}

/// An accepted result that findings may cite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Source {
    /// Number used in citations, starting at 1.
    pub number: usize,
    /// Title of the search result.
    pub title: String,
    /// Address of the page or document.
    pub url: String,
    /// Lines of the document that it stands on; absent for pages and converted documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<LineSpan>,
    /// Round that returned it first.
    pub round: u32,
    /// Other addresses of the same text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_at: Vec<String>,
    /// Whether a finding cites this source.
    pub cited: bool,
    /// Whether it came with the round that ended the search.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub salvaged: bool,
}

/// A page that was considered for reading in full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Page {
    /// Address of the page.
    pub url: String,
    /// Share of its snippet that was known before its round.
    pub overlap: f64,
    /// Number of characters read; absent when the page was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chars: Option<usize>,
    /// Reason why the page was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
    /// Text of the page as Markdown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// Findings of a research run and how they were obtained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ResearchReport")]
pub struct Report {
    /// Schema identifier, `satiety.research/1`.
    pub schema: String,
    /// Id of the research run.
    pub run_id: String,
    /// Task that was researched.
    pub task: String,
    /// Search source that was used.
    pub source: String,
    /// Seed of the gate's random draws.
    pub seed: u64,
    /// Reason why the research ended.
    pub stop: StopReason,
    /// Reason why the research ended, in words.
    pub stop_words: String,
    /// Number of searches made.
    pub searches: usize,
    /// Number of rounds whose results were kept.
    pub rounds_accepted: usize,
    /// Findings for each question of the task.
    pub answers: Vec<Answer>,
    /// Accepted results in citation order.
    pub sources: Vec<Source>,
    /// Summary of the accepted results.
    pub summary: String,
    /// Model that wrote the summary; absent when sentences were extracted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_by: Option<String>,
    /// Pages that were considered for reading in full.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<Page>,
    /// Estimate of the share that is still unseen.
    pub unseen: Unseen,
    /// Agreement between the novelty assessors.
    pub agreement: Vec<Agreement>,
    /// Number of chat model calls in the run.
    pub model_calls: ModelCalls,
    /// Time, tokens and money spent.
    pub spent: Spent,
    /// Remarks on this run, such as fallbacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Records of all rounds.
    pub rounds: Vec<RoundRecord>,
}

impl Report {
    /// Builds the report of a research run.
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
                lines: kept.hit.lines,
                round: kept.round,
                also_at: kept.also_at.clone(),
                cited: false,
                salvaged: kept.salvaged,
            })
            .collect();
        let passages = passages(research, &pages);
        let texts = source_texts(&passages);
        let mut used = BTreeSet::new();
        let answers: Vec<Answer> = research
            .coverage()
            .into_iter()
            .map(|coverage| {
                let kind = QuestionKind::of(&coverage.question);
                let count = research.settings().sentences_per_question;
                let found = extract(&coverage.question, kind, &texts, count, &mut used);
                Answer {
                    kind,
                    state: found.state,
                    open: found.state != AnswerState::Answered,
                    written: None,
                    findings: found.findings,
                    coverage,
                }
            })
            .collect();
        for finding in answers.iter().flat_map(|answer| &answer.findings) {
            if let Some(source) = sources.get_mut(finding.source - 1) {
                source.cited = true;
            }
        }
        let mut calls = ModelCalls::default();
        for record in &records {
            calls += record.model_calls;
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

    /// The questions of a run with the passages that a model may answer them from, in the order of `answers`.
    pub fn answer_tasks(research: &Research, pages: &[Page]) -> Vec<AnswerTask> {
        let passages = passages(research, pages);
        let texts = source_texts(&passages);
        let questions = research.coverage().into_iter().map(|coverage| coverage.question);
        // Position of the text of each result; passages of a page that was read stand behind it.
        let results: Vec<usize> = (0..passages.len())
            .filter(|at| *at == 0 || passages[*at].source != passages[*at - 1].source)
            .collect();
        questions
            .map(|question| {
                let kind = QuestionKind::of(&question);
                let found = extract(&question, kind, &texts, 0, &mut BTreeSet::new());
                // Results of the search for this question come first, if the task has several.
                let query = normalize(&question);
                let mut records = research.records().iter();
                let own = records.find(|record| normalize(&record.query) == query);
                let own = own.into_iter().flat_map(|record| &record.results);
                let position = |hit: &Hit| research.kept().iter().position(|kept| kept.hit.url == hit.url);
                let searched: Vec<usize> = own
                    .filter_map(position)
                    .filter_map(|at| results.get(at).copied())
                    .chain(results.iter().copied())
                    .collect();
                // Rules and the search take turns: the search knows meanings, and a model may find in its results
                // what rules do not.
                let mut order: Vec<usize> = (0..passages.len())
                    .flat_map(|rank| [found.best_texts.get(rank), searched.get(rank)])
                    .flatten()
                    .copied()
                    .chain(0..passages.len())
                    .collect();
                let mut seen = BTreeSet::new();
                order.retain(|at| seen.insert(*at));
                order.truncate(PASSAGES_PER_ANSWER);
                AnswerTask {
                    question,
                    kind,
                    weights: found.weights,
                    passages: order.into_iter().map(|at| passages[at].clone()).collect(),
                }
            })
            .collect()
    }

    /// Adds the answer that a model wrote to a question, by its position in `answers`. A refusal opens the question,
    /// and a sentence that has what is asked for closes it; otherwise the quotations below it decide, as without a
    /// model.
    pub fn add_written(&mut self, position: usize, written: WrittenAnswer) {
        let Some(answer) = self.answers.get_mut(position) else {
            return;
        };
        if written.satisfies(&answer.coverage.question, answer.kind) {
            answer.state = AnswerState::Answered;
        } else if written.refused {
            answer.state = if answer.findings.is_empty() {
                AnswerState::NotFound
            } else {
                AnswerState::Related
            };
        } else if !written.sentences.is_empty() && answer.state == AnswerState::NotFound {
            answer.state = AnswerState::Related;
        }
        answer.open = answer.state != AnswerState::Answered;
        for quote in written.sentences.iter().flat_map(|sentence| &sentence.quotes) {
            if let Some(source) = self.sources.get_mut(quote.source - 1) {
                source.cited = true;
            }
        }
        answer.written = Some(written);
    }

    /// Novelty of each round, as compared with the threshold.
    pub fn curve(&self) -> Vec<f64> {
        self.rounds
            .iter()
            .map(|record| record.verdict.novelty.unwrap_or(0.0))
            .collect()
    }
}

/// The text of each source, and the passages of its page if it was read.
fn passages(research: &Research, pages: &[Page]) -> Vec<CitablePassage> {
    let mut passages = Vec::new();
    for (kept, source) in research.kept().iter().zip(1..) {
        let page = pages
            .iter()
            .find(|page| page.url == kept.hit.url && !page.text.is_empty());
        passages.push(CitablePassage {
            source,
            title: kept.hit.title.clone(),
            text: kept.hit.snippet.clone(),
        });
        let document = page.map(|page| Document::parse(&page.text, PASSAGE_WORDS));
        for passage in document.into_iter().flat_map(|document| document.passages) {
            let title = std::iter::once(kept.hit.title.as_str());
            passages.push(CitablePassage {
                source,
                title: title
                    .chain(passage.headings.iter().map(String::as_str))
                    .collect::<Vec<_>>()
                    .join(" > "),
                text: passage.text,
            });
        }
    }
    passages
}

fn source_texts(passages: &[CitablePassage]) -> Vec<SourceText<'_>> {
    let texts = passages.iter().map(|passage| SourceText {
        number: passage.source,
        title: &passage.title,
        text: &passage.text,
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::research::{ResearchSettings, RoundOutcome};

    fn one_line(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

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
    fn findings_quote_their_source_verbatim() {
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
    fn a_long_page_leaves_passages_of_other_results_to_the_model() {
        let research = researched(
            "How do heated wings bend?",
            vec![
                Hit::new("Wings", "https://a.example/", "Short snippet about heated wings."),
                Hit::new("Alloys", "https://b.example/", "Heated alloys of wings creep."),
            ],
        );
        let parts: Vec<String> = (0..20)
            .map(|number| format!("## Part {number}\n\nHeated wings bend in way {number}.\n\n"))
            .collect();
        let page = Page {
            url: "https://a.example/".into(),
            overlap: 0.0,
            chars: None,
            why_not: None,
            text: parts.concat(),
        };
        let tasks = Report::answer_tasks(&research, &[page]);
        let sources: Vec<usize> = tasks[0].passages.iter().map(|passage| passage.source).collect();
        assert_eq!(sources.len(), PASSAGES_PER_ANSWER);
        assert!(sources.contains(&2), "{sources:?}");
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
