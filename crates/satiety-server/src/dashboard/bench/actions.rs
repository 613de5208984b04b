//! What a person does with a run: label results, write notes, accept it as the baseline, repeat failed cases; and the
//! jobs of this server, which can be stopped.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::response::{Html as Page_, Response};
use axum::routing::{get, post};
use jiff::Timestamp;
use satiety_engine::bench::{LabelStep, NextLabelRequest, RunHead, RunNote, UnlabelledCase};
use satiety_report::document::{badge, link};
use satiety_report::html::{Html, blocks, escape, joined, line};
use satiety_report::{Block, Table, Text, Tone, row};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::forms::{
    Form, Visitor, back_to, choice_field, count_field, name_field, optional_count, text_field,
};
use super::super::shell::{ago, command, count, empty_state, frame, lead, percent, segment, short_id, trail};
use super::super::{ErrorPage, FormFields, Page, Pairs, stored_only};
use crate::auth::Scope;
use crate::http::{App, JobProgress, JobState, JobView};

/// Maximum number of characters of an answer that a person labels.
const MAX_ANSWER: usize = 20_000;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/bench/runs/{id}/notes", post(add_note))
        .route("/bench/runs/{id}/baseline", post(accept))
        .route("/bench/runs/{id}/rerun", post(rerun))
        .route("/bench/runs/{id}/label", get(label_next).post(label))
        .route("/bench/start", get(start_page).post(start))
        .route("/bench/jobs", get(jobs))
        .route("/bench/jobs/{id}", get(job))
        .route("/bench/jobs/{id}/stop", post(stop))
}

fn run_path(id: &str) -> String {
    format!("/bench/runs/{}", segment(id))
}

#[derive(Debug, Deserialize)]
struct NoteForm {
    author: String,
    note: String,
}

async fn add_note(
    State(at): State<Arc<App>>,
    Path(id): Path<String>,
    visitor: Visitor,
    FormFields(said): FormFields<NoteForm>,
) -> Result<Response, ErrorPage> {
    stored_only(&id)?;
    let fields = json!({"id": id, "author": said.author, "note": said.note});
    visitor.perform(&at, "add_note", fields).await?;
    Ok(back_to(&format!("{}#notes", run_path(&id))))
}

#[derive(Debug, Deserialize)]
struct AcceptForm {
    by: String,
    reason: String,
}

async fn accept(
    State(at): State<Arc<App>>,
    Path(id): Path<String>,
    visitor: Visitor,
    FormFields(said): FormFields<AcceptForm>,
) -> Result<Response, ErrorPage> {
    stored_only(&id)?;
    let fields = json!({"id": id, "by": said.by, "reason": said.reason});
    visitor.perform(&at, "accept_baseline", fields).await?;
    Ok(back_to(&run_path(&id)))
}

#[derive(Debug, Deserialize)]
struct NoForm {}

async fn rerun(
    State(at): State<Arc<App>>,
    Path(id): Path<String>,
    visitor: Visitor,
    FormFields(_): FormFields<NoForm>,
) -> Result<Response, ErrorPage> {
    stored_only(&id)?;
    let head = at.engine.bench().run_head(&id).await?;
    let Some(suite) = suite_below_root(&at, &head) else {
        return Err(ErrorPage::invalid_field(
            "the suite of this run is not below the root of the server",
        ));
    };
    let fields = json!({"suite": suite, "failed_in": id});
    let job = visitor.perform(&at, "start_run", fields).await?;
    Ok(back_to(&job_path(&job)))
}

#[derive(Debug, Deserialize)]
struct StartForm {
    suite: String,
    repeats: Option<String>,
    gate: Option<String>,
}

async fn start(
    State(at): State<Arc<App>>,
    visitor: Visitor,
    FormFields(said): FormFields<StartForm>,
) -> Result<Response, ErrorPage> {
    let repeats = optional_count(said.repeats.as_deref())?;
    let fields = json!({"suite": said.suite, "repeats": repeats, "gate": said.gate.is_some()});
    let job = visitor.perform(&at, "start_run", fields).await?;
    Ok(back_to(&job_path(&job)))
}

fn job_path(job: &Value) -> String {
    let id = job["job_id"].as_str().unwrap_or_default();
    format!("/bench/jobs/{}", segment(id))
}

async fn stop(
    State(at): State<Arc<App>>,
    Path(id): Path<String>,
    visitor: Visitor,
    FormFields(_): FormFields<NoForm>,
) -> Result<Response, ErrorPage> {
    visitor.perform(&at, "stop_job", json!({"id": id})).await?;
    Ok(back_to(&format!("/bench/jobs/{}", segment(&id))))
}

/// Path of the suite of a run, relative to the root of the server; `None` if it is elsewhere.
pub(super) fn suite_below_root(at: &App, head: &RunHead) -> Option<String> {
    let file = head.config_snapshot.get("suite_file")?.as_str()?;
    let root = at.folders.root.as_ref()?.canonicalize().ok()?;
    let file = std::path::Path::new(file).canonicalize().ok()?;
    let relative = file.strip_prefix(&root).ok()?;
    Some(relative.to_str()?.to_owned())
}

/// Page with the suites below the root, any of which can be run.
async fn start_page(State(at): State<Arc<App>>, visitor: Visitor) -> Page {
    visitor.require(Scope::Admin)?;
    let suites = visitor.perform(&at, "list_suites", json!({})).await?;
    let suites: Vec<(String, String)> = suites["suites"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|suite| {
            let file = suite["file"].as_str()?.to_owned();
            let words = format!("{} ({file})", suite["suite_id"].as_str()?);
            Some((file, words))
        })
        .collect();
    let trail = trail(&[("/bench", "Bench")]);
    if suites.is_empty() {
        let hint = empty_state(
            "No suite below the root of the server. Create a small one there:",
            "satiety bench init DIR",
        );
        return Ok(Page_(frame("/bench", "Start a run", &[trail, hint])));
    }
    let options: Vec<(&str, &str)> = suites.iter().map(|(file, words)| (&**file, &**words)).collect();
    let gate = Html(
        "<label class=\"flag\"><input type=\"checkbox\" name=\"gate\" value=\"1\">compare with the baseline</label>"
            .into(),
    );
    let form = Form {
        action: "/bench/start".into(),
        hidden: Vec::new(),
        fields: vec![
            choice_field("suite", "Suite", &options),
            count_field("repeats", "Repeats", 100),
            gate,
        ],
        button: "Start",
    };
    let lead =
        lead("The run is a job of this server, with the target in the suite's directory and in a sandbox.");
    Ok(Page_(frame(
        "/bench",
        "Start a run",
        &[trail, lead, form.render()],
    )))
}

/// What a person can do with a run, as far as the scope allows.
#[expect(
    clippy::struct_excessive_bools,
    reason = "the flags are independent, and named where they are set"
)]
pub(in crate::dashboard) struct RunActions {
    pub(super) notes: Vec<RunNote>,
    pub(super) can_note: bool,
    /// Whether labels, baseline and jobs may be changed.
    pub(super) can_decide: bool,
    /// Whether the suite is below the root of the server, so that it can be run here.
    pub(super) can_run: bool,
    /// Whether the suite belongs to the locked harness.
    pub(super) is_locked: bool,
}

impl RunActions {
    pub(super) async fn read(at: &Arc<App>, visitor: &Visitor, head: &RunHead) -> Result<Self, ErrorPage> {
        Ok(Self {
            notes: at.engine.bench().notes(&head.run.run_id).await?,
            can_note: visitor.has(Scope::Write),
            can_decide: visitor.has(Scope::Admin),
            can_run: suite_below_root(at, head).is_some(),
            is_locked: at
                .engine
                .harness()
                .is_locked_suite(&at.folders.harness, &head.run.suite_id),
        })
    }

    /// Section with the actions and notes of a run; nothing if there is neither.
    pub(super) fn render(&self, head: &RunHead, now: Timestamp) -> Html {
        let path = run_path(&head.run.run_id);
        let mut parts = Vec::new();
        if self.can_decide {
            parts.extend(self.decisions(head, &path));
        }
        if !self.notes.is_empty() {
            let items = self.notes.iter().map(|note| {
                let who = Text::from(format!("{}, ", note.author)).then(ago(note.created_at, now));
                format!("<li>{}<small>{}</small></li>", escape(&note.note), line(&who))
            });
            parts.push(Html(format!(
                "<h3 id=\"notes\">Notes</h3><ul class=\"claims\">{}</ul>",
                items.collect::<String>()
            )));
        }
        if self.can_note {
            let form = Form {
                action: format!("{path}/notes"),
                hidden: Vec::new(),
                fields: vec![name_field("author"), text_field("note", "Note", 4000)],
                button: "Add note",
            };
            parts.push(form.render());
        }
        if parts.is_empty() {
            return Html::default();
        }
        Html(format!(
            "<section>\n<h2>Review</h2>\n{}\n</section>",
            joined(&parts)
        ))
    }

    fn decisions(&self, head: &RunHead, path: &str) -> Vec<Html> {
        let mut parts = Vec::new();
        let counts = &head.counts;
        let failed = counts.fail + counts.timeout + counts.error;
        let mut links = Vec::new();
        if counts.pending > 0 {
            links.push(link(
                format!("{path}/label"),
                format!("Label {}", count(counts.pending, "open result", "open results")),
            ));
        }
        if counts.pass + counts.fail > 0 {
            links.push(link(
                format!("{path}/label?all=1"),
                "Label decided results, to measure the judge",
            ));
        }
        let links: Vec<Html> = links
            .iter()
            .map(|one| Html(format!("<p>{}</p>", line(one))))
            .collect();
        parts.extend(links);
        if failed > 0 && self.can_run {
            let form = Form {
                action: format!("{path}/rerun"),
                hidden: Vec::new(),
                fields: Vec::new(),
                button: "Run failed cases again",
            };
            parts.push(form.render());
        } else if failed > 0 {
            parts.push(Html(format!(
                "<details><summary>Run failed cases again</summary>{}</details>",
                command(&format!(
                    "satiety bench run SUITE --failed-in {}",
                    head.run.run_id
                ))
            )));
        }
        if head.run.completed_at.is_some() && head.run.pass_rate.is_some() {
            let inside = if self.is_locked {
                let words = "This suite belongs to a locked harness. Changing its baseline needs a signature on your own \
                             terminal:";
                let run = format!(
                    "satiety bench baseline {} --suite DIR --reason TEXT",
                    head.run.run_id
                );
                Html(format!("<p>{words}</p>{}", command(&run)))
            } else {
                Form {
                    action: format!("{path}/baseline"),
                    hidden: Vec::new(),
                    fields: vec![name_field("by"), text_field("reason", "Reason", 1000)],
                    button: "Accept",
                }
                .render()
            };
            parts.push(Html(format!(
                "<details><summary>Accept this run as the baseline</summary>{inside}</details>"
            )));
        }
        parts
    }
}

#[derive(Debug, Deserialize)]
struct LabelForm {
    verdict: String,
    #[serde(default)]
    case_id: String,
    #[serde(default)]
    repeat: u32,
    #[serde(default)]
    variant: String,
    #[serde(default)]
    all: String,
    #[serde(default)]
    skip: u32,
    /// Result that was labelled before this one, for undo: case, repeat and variant as JSON.
    #[serde(default)]
    last: String,
}

/// Place of a person in the queue of results.
struct QueuePlace {
    all: bool,
    skip: u32,
    /// Result labelled last, as JSON.
    last: String,
}

async fn label_next(
    State(at): State<Arc<App>>,
    Path(id): Path<String>,
    Query(pairs): Pairs,
    visitor: Visitor,
) -> Page {
    stored_only(&id)?;
    let address = super::super::table::Address::new("", pairs);
    let place = QueuePlace {
        all: address.get("all").is_some(),
        skip: optional_count(address.get("skip"))?.unwrap_or(0),
        last: String::new(),
    };
    queue_page(&at, &visitor, &id, &place).await
}

async fn queue_page(at: &Arc<App>, visitor: &Visitor, id: &str, place: &QueuePlace) -> Page {
    visitor.require(Scope::Admin)?;
    let request = NextLabelRequest {
        id: id.to_owned(),
        all: place.all,
        skip: place.skip,
    };
    let step = at.engine.bench().next_label(&request).await?;
    Ok(Page_(label_page(id, &step, place)))
}

async fn label(
    State(at): State<Arc<App>>,
    Path(id): Path<String>,
    visitor: Visitor,
    FormFields(said): FormFields<LabelForm>,
) -> Page {
    stored_only(&id)?;
    let all = !said.all.is_empty();
    let mut place = QueuePlace {
        all,
        skip: said.skip,
        last: String::new(),
    };
    let pass = match said.verdict.as_str() {
        "pass" => true,
        "fail" => false,
        "undo" => {
            let last: Value = serde_json::from_str(&said.last)
                .map_err(|_| ErrorPage::invalid_field("there is no label to undo"))?;
            let fields =
                json!({"id": id, "case_id": last[0], "repeat": last[1], "variant": last[2], "pass": null});
            visitor.perform(&at, "label_result", fields).await?;
            return queue_page(&at, &visitor, &id, &place).await;
        }
        _ => {
            place.skip += 1;
            place.last = said.last;
            return queue_page(&at, &visitor, &id, &place).await;
        }
    };
    let variant = Some(said.variant).filter(|variant| !variant.is_empty());
    let fields =
        json!({"id": id, "case_id": said.case_id, "repeat": said.repeat, "variant": variant, "pass": pass});
    visitor.perform(&at, "label_result", fields).await?;
    place.last = json!([said.case_id, said.repeat, variant]).to_string();
    queue_page(&at, &visitor, &id, &place).await
}

/// One result to label, without what the judge said, so that the label is independent of it.
fn label_page(id: &str, step: &LabelStep, place: &QueuePlace) -> String {
    let path = run_path(id);
    let mut body = vec![trail(&[("/bench", "Bench"), (&path, &short_id(id))])];
    let all = if place.all { "1" } else { "" };
    let skip = place.skip.to_string();
    let common = [("all", all), ("skip", &*skip), ("last", &*place.last)]
        .map(|(name, value)| super::super::forms::hidden(name, value));
    let undo = if place.last.is_empty() {
        ""
    } else {
        "<button name=\"verdict\" value=\"undo\" data-key=\"u\" formnovalidate><kbd>u</kbd> undo</button>"
    };
    if let Some(next) = &step.next {
        body.push(blocks(&question(next)));
        let fields = [
            ("case_id", next.case_id.as_str()),
            ("repeat", &next.repeat.to_string()),
            ("variant", next.variant.as_deref().unwrap_or_default()),
        ]
        .map(|(name, value)| super::super::forms::hidden(name, value));
        body.push(Html(format!(
                "<form class=\"grades\" method=\"post\" action=\"{}/label\">{}{}\
                 <button name=\"verdict\" value=\"pass\" data-key=\"p\"><kbd>p</kbd> right</button>\
                 <button name=\"verdict\" value=\"fail\" data-key=\"f\"><kbd>f</kbd> wrong</button>\
                 <button name=\"verdict\" value=\"skip\" data-key=\"s\"><kbd>s</kbd> skip</button>{undo}</form>",
                escape(&path),
                joined(&common),
                joined(&fields)
            )));
    } else {
        let words = if step.left > 0 {
            "Only skipped results are left."
        } else {
            "No result is left to label."
        };
        body.push(blocks(&[Block::verdict(Tone::Good, "Done.", words, &[])]));
        if !undo.is_empty() {
            body.push(Html(format!(
                "<form class=\"grades\" method=\"post\" action=\"{}/label\">{}{undo}</form>",
                escape(&path),
                joined(&common)
            )));
        }
        if step.left > 0 {
            let again = if place.all { "?all=1" } else { "" };
            body.push(Html(format!(
                "<p><a href=\"{}/label{again}\">Show the skipped results</a></p>",
                escape(&path)
            )));
        }
    }
    body.push(blocks(&[progress(step)]));
    frame("/bench", "Label results", &body)
}

fn question(next: &UnlabelledCase) -> Vec<Block> {
    let mut name = Text::from(format!("Case {}", next.case_id));
    if next.repeat > 0 {
        name = name.then(format!(", repeat {}", next.repeat + 1));
    }
    if let Some(variant) = &next.variant {
        name = name.then(format!(", {variant}"));
    }
    let mut parts = vec![Block::Text(name)];
    let goal = next.goal.as_deref().unwrap_or("not stored with this run");
    parts.push(Block::section("Input", vec![Block::Verbatim(shortened(goal))]));
    if let Some(note) = &next.note {
        parts.push(Block::section(
            "What counts as right",
            vec![Block::text(shortened(note))],
        ));
    }
    parts.push(Block::section(
        "Answer",
        vec![Block::Verbatim(shortened(&next.output))],
    ));
    parts
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_ANSWER) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}

/// Labels so far, and how far the judge agrees with people.
fn progress(step: &LabelStep) -> Block {
    let outcome = &step.outcome;
    let agreement = outcome.calibration.as_ref().map(|found| {
        let both = found.both_pass + found.both_fail;
        let all = both + found.only_judge_passes + found.only_human_passes;
        let ci = found.agreement_interval;
        let kappa = found
            .kappa
            .map_or_else(String::new, |kappa| format!(", kappa {kappa:.2}"));
        format!(
            "{both} of {all} ({}, 95 % interval {:.1} to {:.1}{kappa})",
            percent(Some(found.agreement)),
            100.0 * ci.low,
            100.0 * ci.high
        )
    });
    let mut fields = vec![
        ("left to label", Some(Text::from(step.left.to_string()))),
        ("labels of this run", Some(outcome.labels.to_string().into())),
        ("judge agrees with people", agreement.map(Text::from)),
        ("pass rate", Some(percent(outcome.pass_rate).into())),
    ];
    fields.extend(
        outcome
            .warnings
            .iter()
            .map(|warning| ("note", Some(warning.into()))),
    );
    Block::fields(fields)
}

async fn jobs(State(at): State<Arc<App>>) -> Page {
    let jobs = at.jobs.list();
    if jobs.is_empty() {
        let hint = empty_state(
            "No jobs since the server started. Start a run on the page Bench, or from a terminal:",
            "curl -X POST http://127.0.0.1:8787/v1/bench/runs -H 'content-type: application/json' -d '{\"suite\": \"DIR\"}'",
        );
        return Ok(Page_(frame(
            "/bench",
            "Jobs",
            &[trail(&[("/bench", "Bench")]), hint],
        )));
    }
    let now = Timestamp::now();
    let rows = jobs.iter().map(|job| {
        let done = job.progress.as_ref().map(done_of);
        row![
            link(
                format!("/bench/jobs/{}", segment(&job.job_id)),
                short_id(&job.job_id)
            ),
            job.kind.replace('_', " "),
            &job.subject,
            state_badge(job.state),
            done.map_or_else(
                || "–".to_owned(),
                |(done, planned)| format!("{done} of {planned}")
            ),
            ago(job.created_at, now),
        ]
    });
    let header = ["job", "kind", "subject", "state", "done", "requested"];
    let table = Block::Table(Table::new(&header, &[], rows));
    let body = [
        trail(&[("/bench", "Bench")]),
        lead(
            "Work that this server does in the background. Results are stored, and a stopped run can be resumed.",
        ),
        blocks(&[table]),
    ];
    Ok(Page_(frame("/bench", "Jobs", &body)))
}

fn state_badge(state: JobState) -> Text {
    let (tone, word) = match state {
        JobState::Waiting => (Tone::Plain, "waiting"),
        JobState::Running => (Tone::Plain, "running"),
        JobState::Done => (Tone::Good, "done"),
        JobState::Failed => (Tone::Bad, "failed"),
        JobState::Stopped => (Tone::Unsure, "stopped"),
    };
    badge(tone, word)
}

fn done_of(progress: &JobProgress) -> (usize, usize) {
    let fields = json!(progress);
    let number = |name: &str| usize::try_from(fields[name].as_u64().unwrap_or(0)).unwrap_or_default();
    (number("done"), number("planned"))
}

async fn job(State(at): State<Arc<App>>, Path(id): Path<String>, visitor: Visitor) -> Page {
    let found = at.jobs.get(&id).map(|job| (job.last_number(), job.view()));
    let (seen, job) = found.ok_or_else(|| ErrorPage {
        status: axum::http::StatusCode::NOT_FOUND,
        words: format!("job `{id}` not found on this server"),
        hint: Some("jobs are forgotten when a server restarts; their results are in the list of runs".into()),
    })?;
    let is_stored = match &job.run_id {
        Some(run) => at.engine.bench().is_stored(run).await?,
        None => false,
    };
    Ok(Page_(job_page(&job, seen, is_stored, visitor.has(Scope::Admin))))
}

fn job_page(job: &JobView, seen: u64, is_stored: bool, can_stop: bool) -> String {
    let now = Timestamp::now();
    let mut body = vec![trail(&[("/bench", "Bench"), ("/bench/jobs", "Jobs")])];
    if !job.state.is_finished() {
        // The page reloads when the state or the number of results changes.
        body.push(Html(format!(
            "<div data-live=\"/v1/jobs/{}/events\" data-events=\"progress state\" data-rounds=\"{seen}\"></div>",
            escape(&segment(&job.job_id))
        )));
    }
    let run = job.run_id.as_ref().filter(|_| is_stored);
    let fields = Block::fields([
        ("state", Some(state_badge(job.state))),
        ("suite, task or system", Some((&job.subject).into())),
        (
            "done",
            job.progress.as_ref().map(|progress| {
                let (done, planned) = done_of(progress);
                Text::from(format!("{done} of {planned}"))
            }),
        ),
        ("error", job.error.as_ref().map(Text::from)),
        ("run", run.map(|run| link(run_path(run), short_id(run)))),
        ("requested", Some(ago(job.created_at, now))),
        ("ended", job.ended_at.map(|at| ago(at, now))),
    ]);
    body.push(blocks(&[fields]));
    if can_stop && !job.state.is_finished() {
        let form = Form {
            action: format!("/bench/jobs/{}/stop", segment(&job.job_id)),
            hidden: Vec::new(),
            fields: Vec::new(),
            button: "Stop",
        };
        body.push(form.render());
    }
    frame("/bench", &format!("Job {}", short_id(&job.job_id)), &body)
}
