//! Executes research runs: asks the library for the next step, performs it, and stores each round before it
//! counts.

use crate::handles::ResearchOperations;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use satiety::research::report::{Answer, Page, Report, StopReason};
use satiety::research::{
    AnswerTask, Gate, Hit, Novelty, Research, ResearchSettings, RoundOutcome, RoundRecord, Spent, Step,
    WrittenAnswer,
};
use satiety::text::normalize;
use satiety_models::Embedder;
use satiety_store::research::{ResearchRoundRow, ResearchRunRow};
use satiety_store::{Store, now_micros};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::chat_model::{Prices, ResearchModel};
use super::fetch::{FetchSettings, Fetcher};
use super::sources::{self, IndexOptions, Recorder, Source, SourceSettings};
use crate::bench::Stop;
use crate::extraction::open_chat;
use crate::memory::cache_path;
use crate::{Engine, EngineError, ErrorCategory};

/// Default lifetime of cached searches.
const CACHE_TTL: Duration = Duration::from_hours(24);

/// Request to research a task.
#[derive(Debug, Clone)]
pub struct ResearchRequest {
    /// Research task in plain words.
    pub task: String,
    /// Initial queries; derived from the task if empty.
    pub planned: Vec<String>,
    /// Source to search: a directory or an engine.
    pub source: String,
    /// Settings of the loop.
    pub settings: ResearchSettings,
    /// Whether to use the configured chat model.
    pub use_model: bool,
    /// Prices of the chat model.
    pub prices: Prices,
    /// File to record searches to.
    pub record: Option<PathBuf>,
    /// Lifetime of cached searches; `None` disables the cache.
    pub remember: Option<Duration>,
    /// Run to resume: its id, or `last`.
    pub resume: Option<String>,
    /// How sources are accessed.
    pub reach: SourceSettings,
    /// Limits for fetching pages.
    pub fetch: FetchSettings,
}

impl ResearchRequest {
    /// Creates a request with defaults: the seed is derived from the task, searches are cached for a day, and
    /// the chat model is used if one is configured.
    pub fn new(task: impl Into<String>, source: impl Into<String>, reach: SourceSettings) -> Self {
        let task = task.into();
        let mut settings = ResearchSettings::default();
        settings.gate.seed = super::derive_seed(&task);
        Self {
            task,
            planned: Vec::new(),
            source: source.into(),
            settings,
            use_model: true,
            prices: Prices::default(),
            record: None,
            remember: Some(CACHE_TTL),
            resume: None,
            reach,
            fetch: FetchSettings::default(),
        }
    }
}

/// State stored with a run so that it can be resumed.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct ResumeState {
    task: String,
    planned: Vec<String>,
    source: String,
    settings: ResearchSettings,
    use_model: bool,
    prices: Prices,
}

/// Progress events of a run.
#[derive(Debug)]
pub enum ResearchProgress<'a> {
    /// The run was stored or resumed: from now on it can be read from the database.
    Begun {
        run_id: &'a str,
    },
    Searching {
        round: u32,
        query: &'a str,
    },
    /// A round was decided and stored.
    Decided(&'a RoundRecord),
    /// A page is being fetched.
    Reading {
        url: &'a str,
    },
    /// A question was answered, or found to be open.
    Answered(&'a Answer),
}

/// Result of a research run.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ResearchResponse {
    /// Report with findings, sources and statistics.
    #[serde(flatten)]
    pub report: Report,
    /// Whether the run was interrupted; if so, it can be resumed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

impl ResearchOperations<'_> {
    /// Researches a task and reports progress. A run that `stop` interrupts can be resumed.
    #[tracing::instrument(name = "research", skip_all)]
    pub async fn run(
        self,
        request: ResearchRequest,
        stop: &Stop,
        mut tell: impl FnMut(&ResearchProgress<'_>),
    ) -> Result<ResearchResponse, EngineError> {
        let store = self.engine.store().await?;
        let (old, request, rounds) = load_request(request, store).await?;
        let research = Research::new(&request.task, request.planned.clone(), request.settings.clone())?;
        let (embedder, mut notes) = match self.engine.embedder().await {
            Ok(embedder) => (embedder, Vec::new()),
            Err(error) => (
                None,
                vec![format!(
                    "The sentence model is not available, so words decide: {error}"
                )],
            ),
        };
        let cache = self.engine.memory_settings.index_directory.as_deref();
        let index = IndexOptions {
            embedder,
            kept: cache_path(&self.engine.settings.store, cache, "passages"),
            task: request.task.clone(),
        };
        let source = sources::open(&request.source, &request.reach, index).await?;
        notes.extend_from_slice(source.notes());
        let source: Box<dyn Source + '_> = match &request.record {
            Some(path) => Box::new(Recorder::new(source, path)),
            None => source,
        };
        let chat = match (&self.engine.settings.chat, request.use_model) {
            (Some(model), true) => Some(open_chat(model, self.engine)?),
            _ => None,
        };
        if chat.is_none() && request.settings.gate.assessor == satiety::research::Assessor::Model {
            return Err(EngineError::ResearchNeedsModel);
        }
        // Validate first: an invalid request is not stored.
        let run_id = match old {
            Some(id) => id,
            None => begin(&request, store).await?,
        };
        tell(&ResearchProgress::Begun { run_id: &run_id });
        let mut run = Run {
            engine: self.engine,
            store,
            id: run_id,
            research,
            model: ResearchModel::new(chat.as_deref(), request.prices),
            source: source.as_ref(),
            remember: request.remember,
            spent: Spent::default(),
            started: Instant::now(),
            embedder: None,
            sentence_model: embedder,
            notes,
        };
        for record in rounds {
            run.replay_round(record).await?;
        }
        let reason = run.rounds(stop, &mut tell).await;
        let reason = match reason {
            Ok(reason) => reason,
            Err(error) => {
                source.close().await;
                return Err(error);
            }
        };
        let interrupted = reason == StopReason::Interrupted;
        let pages = if interrupted {
            Vec::new()
        } else {
            run.pages(&request.fetch, stop, &mut tell).await?
        };
        let report = run.report(reason, pages, &mut tell).await?;
        source.close().await;
        Ok(ResearchResponse { report, interrupted })
    }
}

/// Returns the request, or that of a resumed run with its id and rounds.
async fn load_request(
    request: ResearchRequest,
    store: &Store,
) -> Result<(Option<String>, ResearchRequest, Vec<RoundRecord>), EngineError> {
    let Some(wanted) = &request.resume else {
        return Ok((None, request, Vec::new()));
    };
    let found = match wanted.as_str() {
        "last" => store.research().unfinished().await?,
        id => store.research().run(id).await?,
    };
    let run = found.ok_or_else(|| EngineError::NoResearch { run: wanted.clone() })?;
    if run.completed_at.is_some() {
        return Err(EngineError::ResearchEnded { run: run.run_id });
    }
    let kept: ResumeState = serde_json::from_value(run.settings)?;
    let mut rounds = Vec::new();
    for row in store.research().rounds(&run.run_id).await? {
        rounds.push(serde_json::from_str(&row.body)?);
    }
    let request = ResearchRequest {
        task: kept.task,
        planned: kept.planned,
        source: kept.source,
        settings: kept.settings,
        use_model: kept.use_model,
        prices: kept.prices,
        ..request
    };
    Ok((Some(run.run_id), request, rounds))
}

async fn begin(request: &ResearchRequest, store: &Store) -> Result<String, EngineError> {
    let id = satiety::ids::prefixed("research", uuid::Uuid::now_v7());
    let kept = ResumeState {
        task: request.task.clone(),
        planned: request.planned.clone(),
        source: request.source.clone(),
        settings: request.settings.clone(),
        use_model: request.use_model,
        prices: request.prices,
    };
    let run = ResearchRunRow {
        run_id: id.clone(),
        task: request.task.clone(),
        source: request.source.clone(),
        started_at: now_micros(),
        completed_at: None,
        settings: serde_json::to_value(kept)?,
        stop_reason: None,
        report: None,
    };
    store.research().begin(&run).await?;
    Ok(id)
}

/// A research run in progress.
struct Run<'a> {
    engine: &'a Engine,
    store: &'a Store,
    id: String,
    research: Research,
    model: ResearchModel<'a>,
    source: &'a dyn Source,
    remember: Option<Duration>,
    /// Budget spent so far, including earlier sittings; seconds count earlier sittings only.
    spent: Spent,
    started: Instant,
    /// Model that assessed novelty.
    embedder: Option<String>,
    /// Model that checks the sentences of a chat model.
    sentence_model: Option<&'a dyn Embedder>,
    notes: Vec<String>,
}

impl Run<'_> {
    fn spent(&self) -> Spent {
        Spent {
            seconds: self.spent.seconds + self.started.elapsed().as_secs_f64(),
            ..self.spent
        }
    }

    /// Replays a stored round.
    async fn replay_round(&mut self, record: RoundRecord) -> Result<(), EngineError> {
        self.spent += Spent {
            seconds: record.seconds,
            tokens: record.tokens,
            money: record.money,
        };
        let vectors = if record.verdict.accepted {
            self.vectors(&record.results).await?
        } else {
            None
        };
        self.research.apply(record, vectors.as_deref(), false);
        Ok(())
    }

    /// Searches until a stop condition is met.
    async fn rounds(
        &mut self,
        stop: &Stop,
        tell: &mut impl FnMut(&ResearchProgress<'_>),
    ) -> Result<StopReason, EngineError> {
        loop {
            if stop.is_requested() {
                return Ok(StopReason::Interrupted);
            }
            match self.research.next(&self.spent()) {
                Step::Stop(reason) => return Ok(reason),
                Step::Search {
                    round,
                    query,
                    planned,
                } => {
                    let began = Instant::now();
                    self.model.begin();
                    let query = self.better_query(query, planned).await;
                    tell(&ResearchProgress::Searching { round, query: &query });
                    let (outcome, results, from_cache) = self.search(&query).await?;
                    let record = self.judge(query, planned, outcome, results).await?;
                    let record = self.store_round(record, from_cache, began).await?;
                    tell(&ResearchProgress::Decided(&record));
                }
            }
        }
    }

    /// Returns the model's query for a gap, unless it has none or repeats one.
    async fn better_query(&mut self, query: String, planned: bool) -> String {
        if planned || self.research.summary().is_empty() {
            return query;
        }
        let task = self.research.task().text.clone();
        let asked = self.research.asked();
        let summary = self.research.summary().to_owned();
        match self.model.plan(&task, &summary, &asked).await {
            Some(better) if !self.research.was_asked(&better) => better,
            _ => query,
        }
    }

    /// Searches, or answers from the cache. Only an invalid request is an error here; a failed search is a
    /// failed round.
    async fn search(&self, query: &str) -> Result<(RoundOutcome, Vec<Hit>, bool), EngineError> {
        let count = self.research.settings().results_per_search;
        let remember = self.remember.filter(|_| self.source.is_cacheable());
        let key = blake3::hash(format!("{}\n{count}\n{}", self.source.id(), normalize(query)).as_bytes())
            .to_hex()
            .to_string();
        if let Some(time) = remember {
            let not_before = now_micros() - i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
            // A cache error falls back to searching.
            if let Ok(Some(body)) = self.store.research().cached_search(&key, not_before).await
                && let Ok(results) = serde_json::from_str::<Vec<Hit>>(&body)
            {
                return Ok((RoundOutcome::Found, results, true));
            }
        }
        match self.source.search(query, count).await {
            Ok(results) if results.is_empty() => Ok((RoundOutcome::Empty, results, false)),
            Ok(results) => {
                if remember.is_some() {
                    let body = serde_json::to_string(&results)?;
                    if let Err(error) = self
                        .store
                        .research()
                        .cache_search(&key, self.source.id(), query, &body)
                        .await
                    {
                        tracing::warn!(%error, "cannot cache a search");
                    }
                }
                Ok((RoundOutcome::Found, results, false))
            }
            Err(error) if error.category() == ErrorCategory::Invalid => Err(error.into()),
            Err(error) => {
                let error = match error.hint() {
                    Some(hint) => format!("{error} ({})", hint.action()),
                    None => error.to_string(),
                };
                Ok((RoundOutcome::Failed { error }, Vec::new(), false))
            }
        }
    }

    /// Decides on a round and builds its record.
    async fn judge(
        &mut self,
        query: String,
        planned: bool,
        outcome: RoundOutcome,
        results: Vec<Hit>,
    ) -> Result<(RoundRecord, Option<Vec<Vec<f32>>>), EngineError> {
        if outcome != RoundOutcome::Found {
            let verdict = self.research.decide_without_results(&outcome);
            let record = self.research.record(
                query,
                planned,
                outcome,
                results,
                verdict,
                Novelty::default(),
                None,
            );
            return Ok((record, None));
        }
        let vectors = self.vectors(&results).await?;
        let assessment = self.research.assess(&results, vectors.as_deref());
        let score = if assessment.needs_model {
            let summary = self.research.summary().to_owned();
            self.model.novelty(&summary, &results).await
        } else {
            None
        };
        let (verdict, novelty) = self.research.decide(assessment, score);
        let summary = if verdict.accepted {
            Some(self.summary(&results).await)
        } else {
            None
        };
        let record = self
            .research
            .record(query, planned, outcome, results, verdict, novelty, summary);
        Ok((record, vectors))
    }

    /// Returns the next summary: written by the model from the second accepted round on, extracted sentences
    /// otherwise.
    async fn summary(&mut self, results: &[Hit]) -> String {
        let known = self.research.summary().to_owned();
        let limit = self.research.settings().summary_chars;
        let written = if known.is_empty() {
            None
        } else {
            let shown = self.research.summarized_chars();
            self.model.compress(&known, results, limit, shown).await
        };
        written.unwrap_or_else(|| self.research.extracted_summary(results))
    }

    /// Stores a round before it counts.
    async fn store_round(
        &mut self,
        (mut record, vectors): (RoundRecord, Option<Vec<Vec<f32>>>),
        from_cache: bool,
        began: Instant,
    ) -> Result<RoundRecord, EngineError> {
        record.from_cache = from_cache;
        record.model_calls = self.model.calls;
        record.tokens = self.model.spent.tokens;
        record.money = self.model.spent.money;
        record.seconds = began.elapsed().as_secs_f64();
        self.spent.tokens = self.spent.tokens.saturating_add(record.tokens);
        self.spent.money += record.money;
        let row = ResearchRoundRow {
            round: i64::from(record.round),
            query: record.query.clone(),
            reason: serde_json::to_value(record.verdict.reason)?
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            accepted: record.verdict.accepted,
            novelty: record.verdict.novelty,
            body: serde_json::to_string(&record)?,
        };
        self.store.research().put_round(&self.id, &row).await?;
        Ok(self.research.apply(record, vectors.as_deref(), true).clone())
    }

    /// Returns vectors of the results' claims if the assessor needs them.
    async fn vectors(&mut self, results: &[Hit]) -> Result<Option<Vec<Vec<f32>>>, EngineError> {
        if !self.research.settings().gate.assessor.uses_vectors() {
            return Ok(None);
        }
        let Some(embedder) = self.engine.embedder().await? else {
            return Err(EngineError::NeedsEmbedder {
                what: "semantic novelty assessment",
            });
        };
        self.embedder = Some(embedder.id().to_string());
        let claims = Gate::claims(results);
        let texts: Vec<&str> = claims.iter().map(|claim| claim.text.as_str()).collect();
        Ok(Some(embedder.embed(&texts).await?))
    }

    /// Fetches the pages that are worth it.
    async fn pages(
        &self,
        settings: &FetchSettings,
        stop: &Stop,
        tell: &mut impl FnMut(&ResearchProgress<'_>),
    ) -> Result<Vec<Page>, EngineError> {
        let choices = self.research.pages_to_read();
        if choices.is_empty() {
            return Ok(Vec::new());
        }
        let fetcher = Fetcher::new(settings.clone())?;
        let mut pages = Vec::new();
        for choice in choices {
            let mut page = Page {
                url: choice.url,
                overlap: choice.overlap,
                chars: None,
                why_not: None,
                text: String::new(),
            };
            if !choice.read {
                page.why_not = Some(format!(
                    "{:.0} % of its snippet was already known",
                    100.0 * page.overlap
                ));
            } else if stop.is_requested() || self.research.budget_end(&self.spent()).is_some() {
                page.why_not = Some("time budget exhausted".into());
            } else {
                tell(&ResearchProgress::Reading { url: &page.url });
                match fetcher.read(&page.url).await {
                    Ok(text) => {
                        page.chars = Some(text.markdown.chars().count());
                        page.text = text.markdown;
                    }
                    Err(error) => page.why_not = Some(error.to_string()),
                }
            }
            pages.push(page);
        }
        Ok(pages)
    }

    /// Has the model write an answer, and checks every sentence. `None` if the model failed.
    async fn write_answer(&mut self, task: &AnswerTask) -> Option<WrittenAnswer> {
        let chat = self.model.chat?;
        let reply = self.model.answer(task).await?;
        self.spent.tokens = self.spent.tokens.saturating_add(self.model.spent.tokens);
        self.spent.money += self.model.spent.money;
        self.model.spent = Spent::default();
        let draft = task.draft(&reply);
        let vectors = match self.sentence_model {
            Some(embedder) if !draft.texts().is_empty() => match embedder.embed(&draft.texts()).await {
                Ok(vectors) => Some(vectors),
                Err(error) => {
                    self.notes.push(format!(
                        "The sentence model failed, so words decided which sentences are supported: {error}"
                    ));
                    None
                }
            },
            _ => None,
        };
        Some(draft.check(vectors.as_deref(), chat.id()))
    }

    /// Builds the report and, unless the run was interrupted, completes the run with it.
    async fn report(
        mut self,
        reason: StopReason,
        pages: Vec<Page>,
        tell: &mut impl FnMut(&ResearchProgress<'_>),
    ) -> Result<Report, EngineError> {
        let tasks = match self.model.chat {
            Some(_) if reason != StopReason::Interrupted => Report::answer_tasks(&self.research, &pages),
            _ => Vec::new(),
        };
        let mut report = Report::new(&self.research, reason, pages, self.spent());
        self.model.begin();
        for at in 0..report.answers.len() {
            if let Some(task) = tasks.get(at).filter(|task| !task.passages.is_empty()) {
                if self.research.budget_end(&self.spent()).is_some() {
                    let note = "The budget was exhausted before the chat model wrote every answer.";
                    if !self.notes.iter().any(|known| known == note) {
                        self.notes.push(note.into());
                    }
                } else if let Some(written) = self.write_answer(task).await {
                    report.add_written(at, written);
                }
            }
            if let Some(answer) = report
                .answers
                .get(at)
                .filter(|_| report.stop != StopReason::Interrupted)
            {
                tell(&ResearchProgress::Answered(answer));
            }
        }
        let compressed = report.model_calls.compress > report.model_calls.failed;
        report.model_calls += self.model.calls;
        report.spent = self.spent();
        report.notes.append(&mut self.notes);
        report.run_id.clone_from(&self.id);
        self.source.id().clone_into(&mut report.source);
        report.summary_by = self
            .model
            .chat
            .filter(|_| compressed)
            .map(|chat| chat.id().to_owned());
        report.notes.push(match self.model.chat {
            Some(chat) => format!(
                "Queries for gaps, the summary and the answers were written by {}; sentences that no source supports were removed, and all quotations are verbatim.",
                chat.id()
            ),
            None => "No chat model was used: queries were derived from the task and the results, and the summary was extracted.".into(),
        });
        if let Some(embedder) = &self.embedder {
            report
                .notes
                .push(format!("Semantic similarity was computed with {embedder}."));
        }
        if let Some(failure) = &self.model.failure {
            report.notes.push(format!(
                "{} calls of the chat model failed and fell back to rules; last error: {failure}",
                report.model_calls.failed
            ));
        }
        if report.stop == StopReason::Interrupted {
            return Ok(report);
        }
        let value = serde_json::to_value(&report)?;
        let stop = value["stop"]["kind"].as_str().unwrap_or_default().to_owned();
        self.store
            .research()
            .complete(&self.id, now_micros(), &stop, &value)
            .await?;
        let event = satiety_store::journal::Event::now(
            "research.completed",
            self.id.clone(),
            json!({"task": report.task, "stop": stop, "searches": report.searches, "accepted": report.rounds_accepted}),
        );
        self.store.journal().append(event).await?;
        Ok(report)
    }
}
