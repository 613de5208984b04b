//! Research loop as a state machine without I/O: [`Research::next`] returns the next step, the caller passes
//! back its result, and a list of records restores the same state.

use super::assess::{ModelScore, Novelty};
use super::budget::{BudgetLimit, Spent};
use super::claims::extract_claims;
use super::compress;
use super::coverage::{QuestionCoverage, Task, coverage};
use super::enrich::{self, PageChoice};
use super::gate::{Decision, Gate, GateEvaluation, Reason, RoundInput, Verdict, without_results};
use super::hit::Hit;
use super::literal;
use super::merge::{Kept, Merged};
use super::plan;
use super::prompts;
use super::record::{ModelCalls, RoundOutcome, RoundRecord};
use super::report::StopReason;
use super::settings::{ResearchSettings, SettingsError};
use super::unseen::unseen;
use crate::text::normalize;

/// Next step of the loop.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Run a search.
    Search {
        /// Number of the round, starting at 1.
        round: u32,
        /// Query to search for.
        query: String,
        /// Whether the query was planned from the start; a model may replace one that was not.
        planned: bool,
    },
    /// End the loop.
    Stop(StopReason),
}

/// Results that were scored and not decided yet.
#[derive(Debug, Clone)]
pub struct Assessment {
    /// Scores of the novelty assessors.
    pub novelty: Novelty,
    /// Whether a model has to be asked first.
    pub needs_model: bool,
    evaluation: GateEvaluation,
}

/// State of a research run.
#[derive(Debug, Clone)]
pub struct Research {
    settings: ResearchSettings,
    task: Task,
    planned: Vec<String>,
    gate: Gate,
    merged: Merged,
    summary: String,
    records: Vec<RoundRecord>,
    stopped: Option<StopReason>,
    /// Term statistics of the kept results.
    readings: plan::TermStatistics,
    /// Results that were decided and not added yet.
    pending: Option<GateEvaluation>,
}

impl Research {
    /// Starts a research run. Without planned queries the task itself is the first query.
    pub fn new(task: &str, planned: Vec<String>, settings: ResearchSettings) -> Result<Self, SettingsError> {
        settings.check()?;
        let task = Task::new(task);
        if task.is_empty() {
            return Err(SettingsError::NoTask);
        }
        let mut queries: Vec<String> = Vec::new();
        let given = if planned.is_empty() {
            plan::planned(&task)
        } else {
            planned
        };
        for query in given {
            let query = query.trim().to_owned();
            // A duplicate query would be a round that cannot return anything new.
            if !query.is_empty() && !queries.iter().any(|old| normalize(old) == normalize(&query)) {
                queries.push(query);
            }
        }
        Ok(Self {
            gate: Gate::new(settings.gate, &task.text)?,
            merged: Merged::new().map_err(|error| SettingsError::OutOfRange {
                name: "near-duplicate threshold",
                range: "above 0 and at most 1",
                value: error.0,
            })?,
            settings,
            task,
            planned: queries,
            summary: String::new(),
            records: Vec::new(),
            stopped: None,
            readings: plan::TermStatistics::default(),
            pending: None,
        })
    }

    /// Settings of the run.
    pub fn settings(&self) -> &ResearchSettings {
        &self.settings
    }

    /// Parsed task of the run.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// Current summary of the accepted results.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// Records of the rounds so far.
    pub fn records(&self) -> &[RoundRecord] {
        &self.records
    }

    /// Results of accepted rounds, deduplicated.
    pub fn kept(&self) -> &[Kept] {
        self.merged.kept()
    }

    /// All queries asked so far.
    pub fn asked(&self) -> Vec<String> {
        self.records.iter().map(|record| record.query.clone()).collect()
    }

    /// Coverage of each question so far.
    pub fn coverage(&self) -> Vec<QuestionCoverage> {
        let hits: Vec<&Hit> = self.kept().iter().map(|kept| &kept.hit).collect();
        coverage(&self.task, &hits)
    }

    /// Returns the next step, given what was spent so far.
    pub fn next(&self, spent: &Spent) -> Step {
        if let Some(reason) = &self.stopped {
            return Step::Stop(reason.clone());
        }
        if let Some(end) = self.settings.budget.end(spent) {
            return Step::Stop(StopReason::Budget { limit: end });
        }
        let asked = self.asked();
        let round = u32::try_from(asked.len()).unwrap_or(u32::MAX).saturating_add(1);
        if let Some(query) = self.planned.get(asked.len()) {
            return Step::Search {
                round,
                query: query.clone(),
                planned: true,
            };
        }
        match plan::gap_query(&self.task, &self.readings, &asked) {
            Some(query) => Step::Search {
                round,
                query,
                planned: false,
            },
            None => Step::Stop(StopReason::NothingLeftToAsk),
        }
    }

    /// Whether a query was already asked, ignoring spelling variants.
    pub fn was_asked(&self, query: &str) -> bool {
        let normal = normalize(query);
        self.records
            .iter()
            .any(|record| normalize(&record.query) == normal)
    }

    /// Scores results without changing the state.
    pub fn assess(&self, results: &[Hit], vectors: Option<&[Vec<f32>]>) -> Assessment {
        let evaluation = self.evaluate(results, vectors);
        let novelty = evaluation.novelty.clone();
        let needs_model = novelty.needs_model(&self.settings.gate);
        Assessment {
            novelty,
            needs_model,
            evaluation,
        }
    }

    fn evaluate(&self, results: &[Hit], vectors: Option<&[Vec<f32>]>) -> GateEvaluation {
        self.gate.evaluate(&RoundInput {
            results,
            summary: Some(&self.summary),
            vectors,
            ..RoundInput::default()
        })
    }

    /// Decides and counts a round that was scored, with a model's score if one was requested.
    pub fn decide(&mut self, assessment: Assessment, model: Option<ModelScore>) -> (Verdict, Novelty) {
        let novelty = match model {
            Some(score) => assessment.novelty.with_model(score),
            None => assessment.novelty,
        };
        let verdict = self.gate.decide(&novelty, &assessment.evaluation.discovery);
        self.pending = Some(assessment.evaluation);
        (verdict, novelty)
    }

    /// Decides and counts a round without results.
    pub fn decide_without_results(&mut self, outcome: &RoundOutcome) -> Verdict {
        self.gate.skip_round();
        let reason = match outcome {
            RoundOutcome::Failed { .. } => Reason::Failed,
            _ => Reason::Empty,
        };
        without_results(&self.settings.gate, self.gate.rounds(), reason)
    }

    /// Extractive summary that would follow if these results were accepted.
    pub fn extracted_summary(&self, results: &[Hit]) -> String {
        let limit = self.settings.summary_chars;
        if self.summary.is_empty() && self.settings.gate.assessor == super::Assessor::Seed {
            literal::first_summary(results, limit)
        } else {
            let own;
            let claims = if let Some(evaluation) = &self.pending {
                &evaluation.claims
            } else {
                own = extract_claims(results);
                &own
            };
            let new = claims.iter().map(|claim| claim.text.as_str());
            compress::extract(&self.task, &self.summary, new, limit)
        }
    }

    /// Characters of new results that a model reads for the next summary: the specification's number with its
    /// assessor.
    pub fn summarized_chars(&self) -> usize {
        if self.settings.gate.assessor == super::Assessor::Seed {
            literal::SUMMARISED_CHARS
        } else {
            prompts::SUMMARISED_CHARS
        }
    }

    /// Builds the record of a decided round. `summary` is the new summary of an accepted round.
    #[expect(clippy::too_many_arguments, reason = "each is a part of the record")]
    pub fn record(
        &self,
        query: String,
        planned: bool,
        outcome: RoundOutcome,
        results: Vec<Hit>,
        verdict: Verdict,
        novelty: Novelty,
        summary: Option<String>,
    ) -> RoundRecord {
        let summary = summary.unwrap_or_else(|| self.summary.clone());
        RoundRecord {
            round: verdict.round,
            query,
            planned,
            outcome,
            results,
            from_cache: false,
            novelty,
            verdict,
            new_results: 0,
            summary_chars: summary.chars().count(),
            summary,
            unseen: unseen(self.gate.abundances()),
            model_calls: ModelCalls::default(),
            tokens: 0,
            money: 0.0,
            seconds: 0.0,
        }
    }

    /// Applies a record: one just made, or, with `counted` false, one of a run that is being resumed.
    pub fn apply(
        &mut self,
        mut record: RoundRecord,
        vectors: Option<&[Vec<f32>]>,
        counted: bool,
    ) -> &RoundRecord {
        if !counted {
            self.gate.skip_round();
        }
        if record.verdict.accepted {
            let evaluation = match self.pending.take() {
                Some(evaluation) => evaluation,
                None => self.evaluate(&record.results, vectors),
            };
            self.gate
                .accept(&record.results, &evaluation, vectors, Some(&record.summary));
            record.new_results = self.merged.add(record.round, &record.results);
            for kept in self.merged.kept().iter().rev().take(record.new_results).rev() {
                self.readings.add(&kept.hit);
            }
            self.summary.clone_from(&record.summary);
            record.unseen = unseen(self.gate.abundances());
        } else if record.verdict.reason == Reason::Saturated
            && self.settings.gate.assessor != super::Assessor::Seed
        {
            // State and summary stay unchanged and no model is called, but the pages were already paid for.
            record.new_results = self.merged.salvage(record.round, &record.results);
        }
        self.pending = None;
        if record.verdict.decision == Decision::Stop {
            self.stopped = Some(StopReason::of(record.verdict.reason));
        }
        self.records.push(record);
        // The record was just pushed.
        &self.records[self.records.len() - 1]
    }

    /// Selects the pages to read in full. With the literal rules, snippets are compared with the final summary,
    /// otherwise with the summary before their round.
    pub fn pages_to_read(&self) -> Vec<PageChoice> {
        let literal = self.settings.gate.assessor == super::Assessor::Seed;
        let before = |round: u32| {
            if literal {
                return self.summary.as_str();
            }
            let earlier = self.records.iter().rev().find(|record| record.round < round);
            earlier.map_or("", |record| record.summary.as_str())
        };
        enrich::choose(
            self.kept(),
            before,
            self.settings.enrich_overlap,
            self.settings.enrich_pages,
        )
    }

    /// Returns the budget limit that is reached, if any.
    pub fn budget_end(&self, spent: &Spent) -> Option<BudgetLimit> {
        self.settings.budget.end(spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::research::GateSettings;
    use crate::research::budget::Budget;

    fn settings() -> ResearchSettings {
        ResearchSettings {
            gate: GateSettings {
                epsilon: 0.0,
                look_ahead: None,
                ..GateSettings::default()
            },
            ..ResearchSettings::default()
        }
    }

    fn hits(number: u32) -> Vec<Hit> {
        vec![Hit::new(
            format!("Page {number}"),
            format!("https://example.org/{number}"),
            format!(
                "Heated wings of kind {number} bend by {number}0 degrees. Maker number {number} says so."
            ),
        )]
    }

    fn play(research: &mut Research, search: impl Fn(u32) -> Result<Vec<Hit>, String>) -> StopReason {
        loop {
            let (round, query, planned) = match research.next(&Spent::default()) {
                Step::Search {
                    round,
                    query,
                    planned,
                } => (round, query, planned),
                Step::Stop(reason) => return reason,
            };
            let (outcome, results) = match search(round) {
                Ok(results) if results.is_empty() => (RoundOutcome::Empty, results),
                Ok(results) => (RoundOutcome::Found, results),
                Err(error) => (RoundOutcome::Failed { error }, Vec::new()),
            };
            let (verdict, novelty, summary) = if outcome == RoundOutcome::Found {
                let assessment = research.assess(&results, None);
                let (verdict, novelty) = research.decide(assessment, None);
                let summary = verdict.accepted.then(|| research.extracted_summary(&results));
                (verdict, novelty, summary)
            } else {
                (
                    research.decide_without_results(&outcome),
                    Novelty::default(),
                    None,
                )
            };
            let record = research.record(query, planned, outcome, results, verdict, novelty, summary);
            research.apply(record, None, true);
        }
    }

    fn research() -> Research {
        Research::new(
            "how do heated wings of aircraft bend under load",
            Vec::new(),
            settings(),
        )
        .unwrap()
    }

    #[test]
    fn repetition_stops_and_keeps_the_summary() {
        let mut research = research();
        let reason = play(&mut research, |round| Ok(hits(round.min(2))));
        assert_eq!(reason, StopReason::Saturated);
        assert_eq!(
            research.records().len(),
            3,
            "two accepted rounds cost three searches"
        );
        assert_eq!(research.kept().len(), 2);
        assert!(research.kept().iter().all(|kept| !kept.salvaged));
        let [_, second, third] = research.records() else {
            panic!()
        };
        assert!(!third.verdict.accepted);
        assert_eq!(third.summary, second.summary, "a rejected round changes nothing");
        let queries = research.asked();
        assert_eq!(
            queries.len(),
            queries.iter().collect::<std::collections::BTreeSet<_>>().len()
        );
    }

    #[test]
    fn new_pages_of_the_final_round_are_salvaged() {
        let last = |round: u32| {
            if round < 3 {
                return hits(round);
            }
            // Four known results and a new one: less than a quarter is new.
            let mut results: Vec<Hit> = [1, 1, 2, 2].into_iter().flat_map(hits).collect();
            results.push(Hit::new("New", "https://example.org/new", "Spars crack early."));
            results
        };
        let mut research = research();
        assert_eq!(
            play(&mut research, |round| Ok(last(round))),
            StopReason::Saturated
        );
        let salvaged: Vec<&str> = research
            .kept()
            .iter()
            .filter(|kept| kept.salvaged)
            .map(|kept| kept.hit.title.as_str())
            .collect();
        assert_eq!(salvaged, ["New"]);
        assert!(
            !research.summary().contains("Spars"),
            "the summary stays as it was"
        );
        let mut literal = settings();
        literal.gate.assessor = crate::research::Assessor::Seed;
        let mut research =
            Research::new("heated wings of aircraft bend under load", Vec::new(), literal).unwrap();
        play(&mut research, |round| Ok(last(round.min(3))));
        assert!(
            research.kept().iter().all(|kept| !kept.salvaged),
            "the literal rules discard a rejected round"
        );
    }

    #[test]
    fn failed_and_empty_searches_count_as_rounds_but_not_saturation() {
        let mut research = research();
        let reason = play(&mut research, |round| match round {
            2 => Err("503".into()),
            3 => Ok(Vec::new()),
            round => Ok(hits(round)),
        });
        assert_eq!(reason, StopReason::Cap);
        let reasons: Vec<Reason> = research
            .records()
            .iter()
            .map(|record| record.verdict.reason)
            .collect();
        assert_eq!(
            reasons,
            [
                Reason::FirstRounds,
                Reason::Failed,
                Reason::Empty,
                Reason::Novel,
                Reason::Cap
            ]
        );
    }

    #[test]
    fn records_restore_the_same_state() {
        let mut whole = research();
        play(&mut whole, |round| Ok(hits(round)));
        let mut again = research();
        for record in &whole.records()[..3] {
            again.apply(record.clone(), None, false);
        }
        let reason = play(&mut again, |round| Ok(hits(round)));
        assert_eq!(reason, StopReason::Cap);
        assert_eq!(again.records(), whole.records());
        assert_eq!(again.summary(), whole.summary());
    }

    #[test]
    fn budgets_stop_before_the_next_search() {
        let mut limited = settings();
        limited.budget = Budget {
            tokens: Some(10),
            ..Budget::default()
        };
        let research = Research::new("heated wings", Vec::new(), limited).unwrap();
        let spent = Spent {
            tokens: 10,
            ..Spent::default()
        };
        assert_eq!(
            research.next(&spent),
            Step::Stop(StopReason::Budget {
                limit: BudgetLimit::Tokens
            })
        );
        assert!(Research::new(" ", Vec::new(), settings()).is_err());
    }

    #[test]
    fn planned_queries_come_first_and_once() {
        let planned = vec![
            "first query".into(),
            "First  query".into(),
            " ".into(),
            "second query".into(),
        ];
        let mut research = Research::new("heated wings of aircraft and load", planned, settings()).unwrap();
        play(&mut research, |round| Ok(hits(round)));
        assert_eq!(research.asked()[..2], ["first query", "second query"]);
        let planned: Vec<bool> = research.records().iter().map(|record| record.planned).collect();
        assert_eq!(planned, [true, true, false, false, false]);
    }

    /// The specification's loop: two planned rounds, novelty by words, the first summary without a model, and pages
    /// by their overlap with the final summary.
    #[test]
    fn the_literal_loop_follows_the_specification() {
        let mut settings = settings();
        settings.gate = GateSettings {
            epsilon: 0.0,
            ..GateSettings::literal()
        };
        settings.enrich_pages = 3;
        let planned = vec!["first".to_owned(), "second".to_owned()];
        let mut research = Research::new("how do heated wings bend", planned, settings).unwrap();
        let pages = [
            "alpha beta gamma delta",
            "alpha beta gamma delta",
            "alpha beta gamma",
        ];
        let reason = play(&mut research, |round| {
            let number = round.min(3);
            let body = pages[number as usize - 1];
            Ok(vec![Hit::new("t", format!("https://example.org/{number}"), body)])
        });
        assert_eq!(reason, StopReason::Saturated);
        let scores: Vec<Option<u8>> = research
            .records()
            .iter()
            .map(|record| record.verdict.score)
            .collect();
        assert_eq!(
            scores,
            [Some(10), Some(0), Some(0)],
            "the first two rounds are not gated"
        );
        assert_eq!(research.records()[0].summary, "alpha beta gamma delta");
        assert_eq!(research.summarized_chars(), 800);
        assert_eq!(research.records()[2].summary, research.records()[1].summary);
        assert!(
            research
                .pages_to_read()
                .iter()
                .all(|page| !page.read && page.overlap > 0.6),
            "the summary contains the snippets of accepted rounds: {:?}",
            research.pages_to_read()
        );
    }

    #[test]
    fn pages_are_chosen_by_the_summary_before_their_round() {
        let mut settings = settings();
        settings.enrich_pages = 2;
        let mut research =
            Research::new("heated wings of aircraft bend under load", Vec::new(), settings).unwrap();
        play(&mut research, |round| Ok(hits(round)));
        let pages = research.pages_to_read();
        assert!(
            pages[0].read,
            "the first round is not skipped by construction: {pages:?}"
        );
    }
}
