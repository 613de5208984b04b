//! Labels of people on conversations and agents' runs: the ground truth that `satiety sweep --stored` calibrates on.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::post;
use jiff::Timestamp;
use satiety_engine::annotations::{AgentRunLabels, ConversationLabels};
use satiety_engine::conversations::StoredConversation;
use satiety_engine::progress::StoredRun;
use satiety_report::Text;
use satiety_report::html::{Html, joined, line, paragraph, render_inline};
use serde::Deserialize;
use serde_json::json;

use super::forms::{Form, Visitor, back_to, choice_field, count_field, name_field, optional_count};
use super::shell::{ago, count, percent, segment};
use super::{ErrorPage, FormFields};
use crate::http::App;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/conversations/{id}/labels", post(label_conversation))
        .route("/progress/{id}/labels", post(label_agent_run))
}

#[derive(Debug, Deserialize)]
struct ConversationForm {
    annotator: String,
    signal: String,
    stop_round: Option<String>,
}

async fn label_conversation(
    State(at): State<Arc<App>>,
    Path(id): Path<String>,
    visitor: Visitor,
    FormFields(said): FormFields<ConversationForm>,
) -> Result<Response, ErrorPage> {
    let signal = Some(said.signal).filter(|signal| !signal.is_empty());
    let stop_round = optional_count(said.stop_round.as_deref())?;
    let fields = json!({"id": id, "annotator": said.annotator, "signal": signal, "stop_round": stop_round});
    visitor.perform(&at, "label_conversation", fields).await?;
    Ok(back_to(&format!("/conversations/{}#labels", segment(&id))))
}

#[derive(Debug, Deserialize)]
struct AgentRunForm {
    annotator: String,
    solved: String,
    loop_step: Option<String>,
}

async fn label_agent_run(
    State(at): State<Arc<App>>,
    Path(id): Path<String>,
    visitor: Visitor,
    FormFields(said): FormFields<AgentRunForm>,
) -> Result<Response, ErrorPage> {
    let solved = match said.solved.as_str() {
        "" => None,
        answer => Some(answer == "yes"),
    };
    let loop_step = optional_count(said.loop_step.as_deref())?;
    let fields = json!({"id": id, "annotator": said.annotator, "solved": solved, "loop_step": loop_step});
    visitor.perform(&at, "label_agent_run", fields).await?;
    Ok(back_to(&format!("/progress/{}#labels", segment(&id))))
}

/// Labels of a conversation, and the form for one more.
pub(super) fn conversation(
    kept: &StoredConversation,
    found: &ConversationLabels,
    can_label: bool,
    now: Timestamp,
) -> Html {
    let items = found.labels.iter().map(|label| {
        let stop = label
            .stop_round
            .map_or_else(String::new, |round| format!(", stop after round {round}"));
        Text::from(format!("{}{stop}, {}, ", label.signal, label.annotator)).then(ago(label.created_at, now))
    });
    let mut parts = list(&items.collect::<Vec<_>>());
    if found.labelled > 0 {
        let share = found.agreeing as f64 / found.labelled as f64;
        parts.push(paragraph(&format!(
            "Signals agree with {} of {} ({}).",
            found.agreeing,
            count(found.labelled, "label", "labels of all conversations"),
            percent(Some(share))
        )));
    }
    if can_label {
        let form = Form {
            action: format!("/conversations/{}/labels", segment(&kept.conversation_id)),
            hidden: Vec::new(),
            fields: vec![
                name_field("annotator"),
                choice_field(
                    "signal",
                    "Right signal after the last round",
                    &[
                        ("CONTINUE", "CONTINUE"),
                        ("SHIP", "SHIP"),
                        ("STOP", "STOP"),
                        ("ESCALATE", "ESCALATE"),
                        ("", "remove my label"),
                    ],
                ),
                count_field(
                    "stop_round",
                    "Should have ended after round",
                    kept.rounds.len().max(1),
                ),
            ],
            button: "Label",
        };
        parts.push(form.render());
        parts.push(calibration("satiety sweep --stored"));
    }
    section(&parts)
}

/// Labels of an agent's run, and the form for one more.
pub(super) fn agent_run(run: &StoredRun, found: &AgentRunLabels, can_label: bool, now: Timestamp) -> Html {
    let items = found.labels.iter().map(|label| {
        let solved = if label.solved { "solved" } else { "not solved" };
        let noticed = label
            .loop_step
            .map_or_else(String::new, |step| format!(", loop noticed at step {step}"));
        Text::from(format!("{solved}{noticed}, {}, ", label.annotator)).then(ago(label.created_at, now))
    });
    let mut parts = list(&items.collect::<Vec<_>>());
    if can_label {
        let form = Form {
            action: format!("/progress/{}/labels", segment(&run.conversation_id)),
            hidden: Vec::new(),
            fields: vec![
                name_field("annotator"),
                choice_field(
                    "solved",
                    "Did the agent solve its task?",
                    &[("yes", "yes"), ("no", "no"), ("", "remove my label")],
                ),
                count_field("loop_step", "Loop noticed at step", run.report.steps.len().max(1)),
            ],
            button: "Label",
        };
        parts.push(form.render());
        parts.push(calibration("satiety sweep --stored --work"));
    }
    section(&parts)
}

fn calibration(command: &str) -> Html {
    Html(format!(
        "<p class=\"of\">{}</p>",
        render_inline(&format!(
            "Labels are what `{command}` measures the thresholds on."
        ))
    ))
}

fn list(items: &[Text]) -> Vec<Html> {
    if items.is_empty() {
        return Vec::new();
    }
    let items = items.iter().map(|item| Html(format!("<li>{}</li>", line(item))));
    let items: Vec<Html> = items.collect();
    vec![Html(format!("<ul class=\"claims\">{}</ul>", joined(&items)))]
}

fn section(parts: &[Html]) -> Html {
    if parts.is_empty() {
        return Html::default();
    }
    Html(format!(
        "<section id=\"labels\">\n<h2>Labels of people</h2>\n{}\n</section>",
        joined(parts)
    ))
}
