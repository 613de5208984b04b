//! `satiety memory preflight`, `postflight` and `sessions`: task state before and after, and rendering of
//! sessions.

use std::fmt::Write as _;

use owo_colors::OwoColorize;
use satiety::memory::{Scope, SessionEvalSummary, TaskDeltas};
use satiety_engine::Engine;
use satiety_engine::memory::{
    Lesson, Postflight, PostflightRequest, Preflight, PreflightRequest, ReadMemory, Sessions,
};

use super::text_or_input;
use crate::args::{MemoryPostflightArgs, MemoryPreflightArgs};
use crate::failure::{Failure, warn};
use crate::printer::{Printer, Render};
use crate::table::table;

pub(super) async fn begin(
    arguments: MemoryPreflightArgs,
    scope: Option<Scope>,
    engine: &Engine,
    printer: &Printer,
) -> Result<(), Failure> {
    let begun = engine
        .memory()
        .task_preflight(PreflightRequest {
            task: arguments.task,
            task_id: arguments.task_id,
            folder: arguments.folder,
            session: arguments.session,
            knowledge_score: arguments.scores.knowledge,
            uncertainty_score: arguments.scores.uncertainty,
            context_score: arguments.scores.context,
            knowledge_gaps: arguments.gaps,
            token_budget: arguments.budget,
            token_usage: arguments.usage,
            scope,
        })
        .await?;
    if let Some(reason) = &begun.context.degraded {
        warn(reason);
    }
    printer.answer(&begun)
}

pub(super) async fn close(
    arguments: MemoryPostflightArgs,
    scope: Option<Scope>,
    engine: &Engine,
    printer: &Printer,
) -> Result<(), Failure> {
    let outcome = arguments.outcome.parse().map_err(|message: String| {
        Failure::bad_input(message, "use success, partial, failure or abandoned")
    })?;
    let learnt = arguments
        .learnt
        .iter()
        .map(|text| lesson(text))
        .collect::<Result<_, _>>()?;
    let closed = engine
        .memory()
        .task_postflight(PostflightRequest {
            task_id: arguments.task_id,
            session: arguments.session,
            outcome,
            knowledge_score: arguments.scores.knowledge,
            uncertainty_score: arguments.scores.uncertainty,
            context_score: arguments.scores.context,
            gaps_closed: arguments.gaps_closed,
            new_gaps: arguments.new_gaps,
            text: arguments.text.map(text_or_input).transpose()?,
            useful: arguments.useful,
            not_useful: arguments.not_useful,
            learnt,
            scope,
        })
        .await?;
    printer.answer(&closed)
}

/// Parses `TITLE: TEXT`.
fn lesson(text: &str) -> Result<Lesson, Failure> {
    let (title, content) = text.split_once(": ").ok_or_else(|| {
        Failure::bad_input(
            format!("--learnt `{text}` has no title"),
            "use `TITLE: TEXT`, such as `Use WAL: readers never wait for the writer`",
        )
    })?;
    Ok(Lesson {
        title: title.to_owned(),
        content: content.to_owned(),
        triggers: Vec::new(),
    })
}

impl Render for Preflight {
    fn human(&self) -> String {
        format!(
            "{}  started in session {}\n\n{}",
            self.task_id.bold(),
            self.session_id,
            self.context.human()
        )
    }
}

impl Render for Postflight {
    fn human(&self) -> String {
        let mut text = format!(
            "{}  closed: {}{}",
            self.task_id.bold(),
            self.outcome,
            deltas(&self.deltas)
        );
        let lists = [("quoted", &self.referenced), ("saved", &self.saved)];
        for (what, ids) in lists {
            if !ids.is_empty() {
                let _ = write!(text, "\n{what}: {}", ids.join(", "));
            }
        }
        for one in &self.not_validated {
            let _ = write!(text, "\nused, not yet validated: {}  {}", one.id, one.title);
        }
        let _ = write!(text, "\n{}", session_metrics(&self.summary));
        text
    }
}

fn deltas(deltas: &TaskDeltas) -> String {
    let parts = [
        ("knowledge", deltas.knowledge_delta),
        ("uncertainty reduction", deltas.uncertainty_reduction),
        ("context", deltas.context_improvement),
        ("learning index", deltas.learning_index),
    ];
    let said = parts
        .into_iter()
        .filter_map(|(name, value)| Some(format!("; {name} {:+}", value?)));
    said.collect()
}

fn session_metrics(summary: &SessionEvalSummary) -> String {
    let of = &summary.aggregate_metrics;
    let mut text = format!(
        "{} searches, {} memories used or validated",
        of.total_searches, of.total_memories_accessed
    );
    let share = |rate: f64| format!("{:.0} %", 100.0 * rate);
    let parts = [
        ("used", of.used_rate.map(share)),
        ("repeated queries", of.re_search_rate.map(share)),
        (
            "reciprocal rank of used memories",
            of.avg_selection_mrr.map(|mean| format!("{mean:.2}")),
        ),
        (
            "of memories judged relevant",
            of.avg_mrr.map(|mean| format!("{mean:.2}")),
        ),
    ];
    for (name, value) in parts {
        if let Some(value) = value {
            let _ = write!(text, "; {name} {value}");
        }
    }
    text
}

impl Render for ReadMemory {
    fn human(&self) -> String {
        let mut text = self.memory.human();
        for link in &self.links {
            let _ = write!(
                text,
                "\n{} {} {}  {}",
                link.from,
                link.kind,
                link.to,
                link.title.dimmed()
            );
        }
        text
    }
}

impl Render for Sessions {
    fn human(&self) -> String {
        if self.sessions.is_empty() {
            return "no sessions; start one with `satiety memory preflight TASK`".into();
        }
        let rows = self.sessions.iter().map(|one| {
            let tasks: Vec<String> = one
                .tasks
                .iter()
                .map(|task| {
                    let outcome = task.outcome.map_or("open", |outcome| outcome.name());
                    format!("{} ({outcome})", task.task_id)
                })
                .collect();
            vec![
                one.session_id.clone(),
                one.searches.to_string(),
                one.last_at.strftime("%Y-%m-%d %H:%M").to_string(),
                tasks.join(", "),
            ]
        });
        table(&["session", "searches", "last", "tasks"], &[1], rows)
    }
}

impl Render for SessionEvalSummary {
    fn human(&self) -> String {
        let mut text = format!("{}\n{}", self.session_id.bold(), session_metrics(self));
        for task in &self.task_outcomes {
            let _ = write!(
                text,
                "\n{}  {}{}",
                task.task_id,
                task.outcome,
                deltas(&task.deltas)
            );
        }
        for query in &self.queries {
            let again = if query.re_search { "  repeated query" } else { "" };
            let _ = write!(
                text,
                "\n{}  {}: {} found, {} used{again}",
                query.query_id,
                query.query,
                query.result_ids.len(),
                query.selected_ids.len()
            );
        }
        text
    }
}
