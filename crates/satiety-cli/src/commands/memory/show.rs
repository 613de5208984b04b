//! Rendering of memory results.

use std::fmt::Write;

use owo_colors::OwoColorize;
use satiety::memory::{Project, SearchOutcome, Validity};
use satiety_engine::memory::{
    DeleteResponse, IndexResponse, LinkResponse, MatchedTriggers, Memories, Memory, MemoryHealth,
    MemoryResult, MemorySearch, SaveAction, SaveResponse, TaskMetrics, ValidateResponse,
};
use satiety_report::document::count;

use crate::printer::Render;
use crate::table::{bytes, table};

impl Render for SaveResponse {
    fn human(&self) -> String {
        let by = match (&self.embedder, self.chunks) {
            (_, 0) => "search index unchanged".to_owned(),
            (Some(embedder), count) => format!("{count} {}, embedded by {embedder}", chunks(count)),
            (None, count) if self.pending => {
                format!("{count} {}, vectors follow in the background", chunks(count))
            }
            (None, count) => format!(
                "{count} {}, not embedded: found by words and triggers only",
                chunks(count)
            ),
        };
        let mut text = format!("{}  {}\n{by}", self.memory.id.bold(), self.memory.title);
        match self.action {
            SaveAction::Saved => {}
            SaveAction::Updated if self.duplicates.is_empty() => {}
            SaveAction::Updated => text.push_str("\nupdated the existing memory that says the same"),
            SaveAction::Merged => text.push_str("\nmerged into the existing memory that says the same"),
        }
        for one in &self.duplicates {
            let _ = write!(
                text,
                "\n{}: {}  {}  similarity {:.2}; --on-duplicate {} would have changed it",
                one.kind.name(),
                one.id,
                one.title,
                one.similarity,
                one.proposal.name()
            );
        }
        for one in &self.conflicts {
            let _ = write!(
                text,
                "\nconflict: {}  {}  {}; link with `satiety memory link {} {} {}`",
                one.id,
                one.title,
                one.reasons.join(", "),
                self.memory.id,
                one.suggested_link,
                one.id
            );
        }
        text
    }
}

/// Name of a project; memories without a project are global.
fn project(project: Option<&Project>) -> &str {
    project.map_or("global", |project| project.label.as_str())
}

fn chunks(count: usize) -> &'static str {
    if count == 1 { "chunk" } else { "chunks" }
}

impl Render for MemorySearch {
    fn human(&self) -> String {
        let mut text = String::new();
        for result in &self.results {
            let channels: Vec<String> = result
                .channels
                .iter()
                .map(|(channel, found)| format!("{} #{}", channel.name(), found.rank))
                .collect();
            let why = if channels.is_empty() && !result.constitutional_only {
                "by link".to_owned()
            } else if channels.is_empty() {
                "constitutional".to_owned()
            } else {
                channels.join(", ")
            };
            let _ = writeln!(
                text,
                "{:>2}. {}  {:.3}  confidence {:.2}  {}",
                result.rank,
                result.title.bold(),
                result.score,
                result.confidence,
                why.dimmed()
            );
            let place = if result.folder.is_empty() {
                "-"
            } else {
                &result.folder
            };
            let _ = writeln!(
                text,
                "    {}  {}  {place}  {}",
                result.id,
                result.tier.name(),
                project(result.project.as_ref()).dimmed()
            );
            for mark in marks(result) {
                let _ = writeln!(text, "    {}", mark.yellow());
            }
            let more = if result.partial { "    …" } else { "" };
            for line in first_lines(&result.excerpt, 3) {
                let _ = writeln!(text, "    {line}");
            }
            let _ = writeln!(text, "{more}");
        }
        if self.outcome == SearchOutcome::NothingRelevant {
            text.push_str("nothing relevant\n");
        }
        let intent = self.intent.intent.map_or_else(
            || "intent unknown".into(),
            |intent| format!("intent {}", intent.name()),
        );
        let _ = write!(
            text,
            "{}, {} tokens; mode {}, {intent}; {:.1} ms, of which {:.1} ms embedding",
            count(self.results.len(), "result", "results"),
            self.tokens,
            self.mode.selected_mode,
            self.telemetry.total_latency_ms,
            self.telemetry.embedding_latency_ms
        );
        for (count, what) in [
            (self.already_shown.len(), "the session already has"),
            (self.over_budget.len(), "exceeded the budget"),
            (
                self.below_floor.len(),
                "are not relevant (--below-floor prints them)",
            ),
        ] {
            if count > 0 {
                let _ = write!(text, "\n{count} more that {what}");
            }
        }
        text
    }
}

/// Statements about a result that is not simply current.
fn marks(result: &MemoryResult) -> Vec<String> {
    let mut marks = Vec::new();
    if let Some(current) = &result.superseded_by {
        marks.push(format!("superseded by {current}"));
    }
    match result.validity {
        Some(Validity::Past) => marks.push("no longer valid".into()),
        Some(Validity::Future) => marks.push("not valid yet".into()),
        Some(Validity::Current) | None => {}
    }
    if !result.contradicts.is_empty() {
        marks.push(format!("contradicts {}", result.contradicts.join(", ")));
    }
    marks
}

fn first_lines(text: &str, most: usize) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .take(most)
        .map(|line| line.chars().take(110).collect())
        .collect()
}

impl Render for MatchedTriggers {
    fn human(&self) -> String {
        if self.matches.is_empty() {
            return "no trigger phrase matches".into();
        }
        let rows = self.matches.iter().map(|one| {
            vec![
                one.id.clone(),
                one.title.clone(),
                one.tier.name().into(),
                format!("{:.2}", one.score),
            ]
        });
        table(&["id", "title", "tier", "score"], &[3], rows)
    }
}

impl Render for Memories {
    fn human(&self) -> String {
        if self.memories.is_empty() {
            return "no memories; save one with `satiety memory save TITLE TEXT`".into();
        }
        let rows = self.memories.iter().map(|one| {
            let confidence = format!("{:.2}", one.confidence);
            vec![
                one.id.clone(),
                one.title.clone(),
                one.tier.name().into(),
                one.folder.clone(),
                project(one.project.as_ref()).to_owned(),
                confidence,
            ]
        });
        let mut text = table(
            &["id", "title", "tier", "folder", "project", "confidence"],
            &[5],
            rows,
        );
        if let Some(next) = self.next {
            let _ = write!(text, "\nnext page: --after {next}");
        }
        text
    }
}

impl Render for Memory {
    fn human(&self) -> String {
        let list = |values: &[String]| {
            if values.is_empty() {
                "-".to_owned()
            } else {
                values.join(", ")
            }
        };
        format!(
            "{}  {}\ntier {}, kind {}, folder {}, project {}\ntriggers {}; learned {}\nconfidence {:.2} after {} validations; changed {}{}\n\n{}",
            self.id.bold(),
            self.title,
            self.tier.name(),
            self.kind,
            if self.folder.is_empty() { "-" } else { &self.folder },
            project(self.project.as_ref()),
            list(&self.triggers),
            list(&self.learnt_triggers),
            self.confidence,
            self.validations,
            self.updated_at,
            self.expires_at
                .as_ref()
                .map_or_else(String::new, |at| format!("; expires {at}")),
            self.content
        )
    }
}

impl Render for DeleteResponse {
    fn human(&self) -> String {
        format!("deleted: {}", self.deleted.join(", "))
    }
}

impl Render for ValidateResponse {
    fn human(&self) -> String {
        let mut text = format!(
            "{}  confidence {:.2} after {}",
            self.id,
            self.confidence,
            count(self.validations, "validation", "validations")
        );
        if self.promotion_eligible {
            text.push_str("\neligible for promotion: `satiety memory update --tier`");
        }
        if let Some(phrase) = &self.learnt_trigger {
            let _ = write!(text, "\nlearned the trigger `{phrase}`");
        }
        text
    }
}

impl Render for LinkResponse {
    fn human(&self) -> String {
        let state = if self.linked { "linked" } else { "unlinked" };
        format!("{state}: {} {} {}", self.from, self.kind, self.to)
    }
}

impl Render for IndexResponse {
    fn human(&self) -> String {
        let mut text = format!(
            "{} new, {} changed, {} unchanged, {} deleted",
            self.added, self.changed, self.unchanged, self.removed
        );
        for refused in &self.refused {
            let _ = write!(text, "\nnot indexed: {}: {}", refused.file, refused.reason);
        }
        if !self.lowered.is_empty() {
            let _ = write!(
                text,
                "\ntier lowered to important, the highest tier allowed for files: {}",
                self.lowered.join(", ")
            );
        }
        text
    }
}

impl Render for MemoryHealth {
    fn human(&self) -> String {
        let mut text = format!(
            "{} memories, {} constitutional, in {}\n{} chunks, {} with a vector of {}; {} of vectors in RAM",
            self.memories,
            self.constitutional,
            self.store,
            self.chunks,
            self.embedded,
            self.embedder.as_deref().unwrap_or("no model"),
            bytes(self.vector_bytes as u64)
        );
        if self.embedding.pending > 0 {
            let left = self.embedding.seconds_left;
            let left = left.map_or_else(String::new, |seconds| format!(", about {seconds:.0} s left"));
            let _ = write!(
                text,
                "\n{} chunks wait for a vector{left}",
                self.embedding.pending
            );
        }
        if self.index.loads_from_file + self.index.loads_from_database > 0 {
            let source = if self.index.loads_from_database == 0 {
                "its file"
            } else {
                "the database"
            };
            let _ = write!(text, "\nindex read from {source} in {:.0} ms", self.index.load_ms);
        }
        if let Some(problem) = &self.index.file_problem {
            let _ = write!(text, "\nthe index file could not be used: {problem}");
        }
        if self.vectors_of_other_models > 0 {
            let _ = write!(
                text,
                "\n{} vectors of other models are ignored",
                self.vectors_of_other_models
            );
        }
        text.push_str(&tasks(&self.tasks));
        if let Some(run) = &self.latest_metrics {
            let metrics: Vec<String> = ["ndcg_at_10", "mrr_at_10", "recall_at_10"]
                .iter()
                .filter_map(|name| {
                    Some(format!(
                        "{} {:.4}",
                        name.replace("_at_", "@"),
                        run.figures.get(*name)?
                    ))
                })
                .collect();
            let (queries, system, at) = (run.queries, &run.system, &run.measured_at);
            let _ = write!(
                text,
                "\nmeasured {at} ({system}, {queries} queries): {}",
                metrics.join(", ")
            );
        }
        if self.log.lost > 0 {
            let reason = self.log.problem.as_deref().unwrap_or_default();
            let _ = write!(text, "\n{} searches could not be logged: {reason}", self.log.lost);
        }
        if let Some(reason) = &self.degraded {
            let _ = write!(text, "\n{} {reason}", "degraded:".yellow());
        }
        text
    }
}

/// Task statistics in one line; empty without tasks.
fn tasks(metrics: &TaskMetrics) -> String {
    if metrics.open + metrics.closed == 0 {
        return String::new();
    }
    let mut text = format!("\n{} tasks closed, {} open", metrics.closed, metrics.open);
    let share = |rate: f64| format!("{:.0} %", 100.0 * rate);
    if let Some(rate) = metrics.success_rate {
        let _ = write!(text, "; {} succeeded", share(rate));
    }
    if let (Some(with), Some(without)) = (
        metrics.success_rate_with_memory,
        metrics.success_rate_without_memory,
    ) {
        let _ = write!(
            text,
            " ({} with a memory used, {} without)",
            share(with),
            share(without)
        );
    }
    if let Some(index) = metrics.mean_learning_index {
        let _ = write!(text, "; mean learning index {index:.1}");
    }
    text
}
