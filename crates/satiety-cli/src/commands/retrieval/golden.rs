//! Golden data: harvested queries, judgments from feedback, agreement, and the list of runs.

use std::fmt::Write;

use owo_colors::OwoColorize;
use satiety::retrieval::{Agreement, HarvestSettings, SkipReason};
use satiety::stats::Interval;
use satiety_engine::Engine;
use satiety_engine::retrieval::{
    FeedbackOutcome, HarvestRequest, HarvestResponse, JudgeFeedbackRequest, JudgedCorpus, MeasuredRun,
    MeasuredRuns,
};
use satiety_report::document::count;

use super::format::{format_metric, interval, queries};
use crate::args::{AgreementArgs, HarvestArgs, JudgeArgs, RunsArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::table::table;

/// Maximum number of judgments shown with reasons.
const MAX_SHOWN: usize = 10;

pub(super) async fn harvest(
    arguments: HarvestArgs,
    engine: &Engine,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let request = HarvestRequest {
        settings: HarvestSettings {
            share: arguments.share,
            near_duplicate: arguments.near_duplicate,
            seed: arguments.seed,
        },
        dry_run: arguments.dry_run,
    };
    printer.answer(&engine.retrieval().harvest_queries(request).await?)?;
    Ok(Exit::Done)
}

pub(super) async fn judge(arguments: JudgeArgs, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    let request = JudgeFeedbackRequest {
        min_confidence: arguments.min_confidence,
        dry_run: arguments.dry_run,
        rederive: arguments.rederive,
    };
    printer.answer(&engine.retrieval().judge_from_feedback(request).await?)?;
    Ok(Exit::Done)
}

pub(super) async fn agreement(
    arguments: AgreementArgs,
    engine: &Engine,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let found = engine
        .retrieval()
        .annotation_agreement(arguments.resamples, arguments.seed, arguments.show)
        .await?;
    printer.answer(&found)?;
    Ok(if found.alpha.is_none() {
        Exit::Inconclusive
    } else {
        Exit::Done
    })
}

pub(super) async fn runs(arguments: RunsArgs, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    printer.answer(&engine.retrieval().measured_runs(arguments.limit).await?)?;
    Ok(Exit::Done)
}

impl Render for HarvestResponse {
    fn human(&self) -> String {
        let wanted = self.harvest.strata.iter().filter(|stratum| stratum.target > 0);
        let (found, missing): (Vec<_>, Vec<_>) =
            wanted.partition(|stratum| stratum.had + stratum.fitting > 0);
        let missing = missing.len();
        let rows = found.into_iter().map(|stratum| {
            vec![
                stratum.category.clone(),
                stratum.intent.clone().unwrap_or_default(),
                stratum.target.to_string(),
                stratum.had.to_string(),
                stratum.fitting.to_string(),
                stratum.taken.to_string(),
            ]
        });
        let header = ["category", "intent", "target", "existing", "eligible", "added"];
        let mut text = table(&header, &[2, 3, 4, 5], rows);
        if missing > 0 {
            let _ = write!(
                text,
                "\n{} without an eligible query",
                count(missing, "more category", "more categories")
            );
        }
        let skipped = |wanted: &dyn Fn(&SkipReason) -> bool| {
            let left = self.harvest.left_out.iter();
            left.filter(|one| wanted(&one.because)).count()
        };
        let same = skipped(&|because| {
            matches!(
                because,
                SkipReason::SameWords { .. } | SkipReason::NearDuplicate { .. }
            )
        });
        let enough = skipped(&|because| matches!(because, SkipReason::Enough { .. }));
        let _ = write!(
            text,
            "\n\n{} {} from {} in the log; {}, {enough} beyond the target",
            if self.dry_run { "would add" } else { "added" },
            queries(self.harvest.taken.len()).bold(),
            queries(self.logged),
            count(same, "duplicate", "duplicates"),
        );
        let _ = write!(
            text,
            "\nthe corpus {} {}",
            if self.dry_run { "would have" } else { "has" },
            queries(self.corpus_before + self.harvest.taken.len())
        );
        for query in self.harvest.taken.iter().take(MAX_SHOWN) {
            let _ = write!(
                text,
                "\n  {}: {} ({})",
                query.category,
                query.query.trim(),
                query.because
            );
        }
        if self.harvest.taken.len() > MAX_SHOWN {
            let _ = write!(
                text,
                "\n  and {} more; use --format json for all",
                self.harvest.taken.len() - MAX_SHOWN
            );
        }
        text
    }
}

impl Render for JudgedCorpus {
    fn human(&self) -> String {
        let grades: Vec<String> = self
            .grades
            .iter()
            .map(|(grade, count)| format!("grade {grade}: {count}"))
            .collect();
        let mut text = format!(
            "{} {} from {} about {} of {}",
            if self.dry_run { "would write" } else { "wrote" },
            count(self.written, "judgment", "judgments").bold(),
            count(self.events, "event", "events"),
            self.with_feedback,
            queries(self.queries),
        );
        if !grades.is_empty() {
            let _ = write!(text, " ({})", grades.join(", "));
        }
        let _ = write!(
            text,
            "\n{} below the confidence threshold, {} skipped because people judged them",
            self.uncertain, self.by_people
        );
        if self.removed > 0 {
            let _ = write!(
                text,
                "\n{} earlier judgments from feedback are gone",
                self.removed
            );
        }
        if let Some(beside) = &self.beside_people {
            let kappa = beside.kappa.map_or_else(|| "-".into(), format_metric);
            let _ = write!(
                text,
                "\nagreement with people over {} results: same grade {:.0} %, same relevance {:.0} %, kappa {kappa}",
                beside.results,
                100.0 * beside.same_grade,
                100.0 * beside.same_side
            );
        }
        let shown = self.judgments.iter().take(MAX_SHOWN).map(|one| {
            let outcome = match one.outcome {
                FeedbackOutcome::Written => "",
                FeedbackOutcome::Uncertain => "uncertain",
                FeedbackOutcome::ByPerson => "judged by a person",
            };
            vec![
                one.query_id.clone(),
                one.memory_id.clone(),
                one.judged.grade.to_string(),
                format!("{:.2}", one.judged.confidence),
                one.judged.reasons.join(", "),
                outcome.to_owned(),
            ]
        });
        let header = ["query", "result", "grade", "confidence", "reason", ""];
        let rows: Vec<Vec<String>> = shown.collect();
        if !rows.is_empty() {
            let _ = write!(text, "\n\n{}", table(&header, &[2, 3], rows));
        }
        text
    }
}

impl Render for Agreement {
    fn human(&self) -> String {
        let value = |value: Option<f64>, ci: Option<Interval>| match (value, ci) {
            (Some(value), Some(ci)) => format!("{} ({})", format_metric(value), interval(ci)),
            (Some(value), None) => format_metric(value),
            (None, _) => "-".into(),
        };
        let mut text = format!(
            "{} results with two or more grades, {} grades in all\nalpha (ordinal) {}: {}",
            self.results,
            self.grades,
            value(self.alpha, self.alpha_ci).bold(),
            self.verdict
        );
        if !self.pairs.is_empty() {
            let rows = self.pairs.iter().map(|pair| {
                vec![
                    pair.one.clone(),
                    pair.other.clone(),
                    pair.results.to_string(),
                    format!("{:.0} %", 100.0 * pair.same),
                    value(pair.kappa, pair.kappa_ci),
                    format!("{:+.2}", pair.shift),
                ]
            });
            let header = [
                "annotator A",
                "annotator B",
                "results",
                "same grade",
                "kappa (quadratic)",
                "B minus A",
            ];
            let _ = write!(text, "\n\n{}", table(&header, &[2, 3, 5], rows));
        }
        if !self.furthest.is_empty() {
            text.push_str("\n\nlargest disagreements:");
        }
        for one in &self.furthest {
            let grades: Vec<String> = one
                .grades
                .iter()
                .map(|(who, grade)| format!("{who} {grade}"))
                .collect();
            let _ = write!(
                text,
                "\n  {} {}: {}",
                one.query_id,
                one.memory_id,
                grades.join(", ")
            );
        }
        text
    }
}

impl Render for MeasuredRuns {
    fn human(&self) -> String {
        if self.runs.is_empty() && self.unfinished.is_empty() {
            return "no runs yet; start one with `satiety retrieval run --memory`".into();
        }
        let cell = |run: &MeasuredRun, name: &str| {
            run.figures
                .get(name)
                .map_or_else(|| "-".into(), |value| format_metric(*value))
        };
        let rows = self.runs.iter().map(|run| {
            vec![
                run.run_id.clone(),
                run.measured_at.get(..16).unwrap_or_default().replace('T', " "),
                run.system.clone(),
                run.queries.to_string(),
                cell(run, "ndcg_at_10"),
                cell(run, "mrr_at_10"),
                cell(run, "recall_at_10"),
                run.figures
                    .get("avg_latency_ms")
                    .map_or_else(|| "-".into(), |ms| format!("{ms:.1}")),
            ]
        });
        let header = [
            "run",
            "measured",
            "system",
            "queries",
            "ndcg@10",
            "mrr@10",
            "recall@10",
            "mean ms",
        ];
        let mut text = table(&header, &[3, 4, 5, 6, 7], rows);
        for run in &self.unfinished {
            let _ = write!(
                text,
                "\nunfinished: {} has {} of {} answers; resume with --resume {}",
                run.run_id, run.answers, run.system, run.run_id
            );
        }
        text
    }
}
