//! Labels of people on stored conversations and agents' runs. They are stored next to the verdicts, compared with them,
//! and are the ground truth that `sweep` measures profiles on.

use std::collections::BTreeSet;

use satiety::dialogue::{Round, Signal};
use satiety::trajectory::{Feed, RunOutcome, Trajectory};
use satiety_store::labels::{AgentRunLabelRow, ConversationLabelRow};
use satiety_store::now_micros;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::EngineError;
use crate::handles::{DialogueOperations, ProgressOperations};

/// Maximum number of labels that are read at once.
const LABELS: u32 = 10_000;

/// Label of a conversation to store or to remove.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ConversationLabelBody")]
pub struct LabelConversationRequest {
    /// Id of the conversation.
    #[schemars(length(min = 1, max = 256))]
    pub id: String,
    /// Name of the person who labels.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"\S"))]
    pub annotator: String,
    /// Signal that would have been right after the last round; null removes the label.
    pub signal: Option<Signal>,
    /// Round after which the conversation should have ended.
    #[serde(default)]
    #[schemars(range(min = 1, max = 5000))]
    pub stop_round: Option<u32>,
}

/// Label of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ConversationLabel {
    /// Id of the conversation.
    pub conversation_id: String,
    /// Name of the person who labelled.
    pub annotator: String,
    /// Signal that would have been right after the last round.
    pub signal: String,
    /// Round after which the conversation should have ended.
    pub stop_round: Option<i64>,
    /// Time of the label.
    pub created_at: jiff::Timestamp,
}

/// Labels of one conversation, and how often signals agree with people.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ConversationLabels {
    /// Labels of this conversation, newest first.
    pub labels: Vec<ConversationLabel>,
    /// Number of labels of all conversations, at most the latest 1,000.
    pub labelled: usize,
    /// Number of these labels that agree with the signal of their conversation.
    pub agreeing: usize,
}

/// Label of an agent's run to store or to remove.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AgentRunLabelBody")]
pub struct LabelAgentRunRequest {
    /// Id of the run.
    #[schemars(length(min = 1, max = 256))]
    pub id: String,
    /// Name of the person who labels.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"\S"))]
    pub annotator: String,
    /// Whether the agent solved its task; null removes the label.
    pub solved: Option<bool>,
    /// Step (from 1) at which the person noticed that the agent was in a loop.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100_000))]
    pub loop_step: Option<u32>,
}

/// Label of an agent's run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AgentRunLabel {
    /// Id of the run.
    pub run_id: String,
    /// Name of the person who labelled.
    pub annotator: String,
    /// Whether the agent solved its task.
    pub solved: bool,
    /// Step (from 1) at which the person noticed a loop.
    pub loop_step: Option<i64>,
    /// Time of the label.
    pub created_at: jiff::Timestamp,
}

/// Labels of one run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AgentRunLabels {
    /// Labels of this run, newest first.
    pub labels: Vec<AgentRunLabel>,
    /// Number of labels of all runs, counted up to 1,000.
    pub labelled: usize,
}

impl DialogueOperations<'_> {
    /// Stores or removes the label of a conversation.
    pub async fn label_conversation(
        self,
        request: LabelConversationRequest,
    ) -> Result<ConversationLabels, EngineError> {
        let store = self.engine.store().await?;
        let (_, rounds) = store
            .conversations()
            .state(&request.id)
            .await?
            .ok_or_else(|| not_found("conversation", &request.id))?;
        if let Some(stop) = request.stop_round.filter(|stop| i64::from(*stop) > rounds) {
            return Err(EngineError::Invalid {
                message: format!("cannot label round {stop}: the conversation has {rounds} rounds"),
                hint: "name a round of the conversation, or none".into(),
            });
        }
        let annotator = request.annotator.trim();
        match request.signal {
            None => {
                store
                    .labels()
                    .remove_conversation_label(&request.id, annotator)
                    .await?;
            }
            Some(signal) => {
                let row = ConversationLabelRow {
                    conversation_id: request.id.clone(),
                    annotator: annotator.to_owned(),
                    signal: signal.to_string(),
                    stop_round: request.stop_round.map(i64::from),
                    created_at: now_micros(),
                };
                store.labels().put_conversation_label(&row).await?;
            }
        }
        self.conversation_labels(&request.id).await
    }

    /// Returns the labels of a conversation, and the agreement of signals with people over all labels.
    pub async fn conversation_labels(self, id: &str) -> Result<ConversationLabels, EngineError> {
        let store = self.engine.store().await?;
        let rows = store.labels().conversation_labels(Some(id), LABELS).await?;
        let (labelled, agreeing) = store.labels().agreement().await?;
        let label = |row: ConversationLabelRow| ConversationLabel {
            conversation_id: row.conversation_id,
            annotator: row.annotator,
            signal: row.signal,
            stop_round: row.stop_round,
            created_at: crate::time(row.created_at),
        };
        Ok(ConversationLabels {
            labels: rows.into_iter().map(label).collect(),
            labelled,
            agreeing,
        })
    }

    /// Stored conversations with a label: id, signal, stop round and rounds. The latest label of a conversation counts.
    pub(crate) async fn labelled_conversations(
        self,
    ) -> Result<Vec<(String, Signal, Option<u32>, Vec<Round>)>, EngineError> {
        let store = self.engine.store().await?;
        let mut found: Vec<(String, Signal, Option<u32>, Vec<Round>)> = Vec::new();
        let mut seen = BTreeSet::new();
        for label in store.labels().conversation_labels(None, LABELS).await? {
            let signal = serde_json::from_value(serde_json::Value::from(label.signal));
            let (Ok(signal), true) = (signal, seen.insert(label.conversation_id.clone())) else {
                continue;
            };
            let rounds = store
                .conversations()
                .rounds_after(&label.conversation_id, 0, i64::from(u32::MAX))
                .await?;
            let rounds = rounds.into_iter().map(|row| serde_json::from_value(row.body));
            let rounds = rounds.collect::<Result<Vec<Round>, _>>()?;
            let stop = label.stop_round.and_then(|round| u32::try_from(round).ok());
            found.push((label.conversation_id, signal, stop, rounds));
        }
        Ok(found)
    }
}

impl ProgressOperations<'_> {
    /// Stores or removes the label of an agent's run.
    pub async fn label_run(self, request: LabelAgentRunRequest) -> Result<AgentRunLabels, EngineError> {
        let store = self.engine.store().await?;
        let run = store.agent_runs().get(&request.id).await?;
        let run = run.ok_or_else(|| not_found("agent run", &request.id))?;
        if let Some(step) = request.loop_step.filter(|step| i64::from(*step) > run.steps) {
            return Err(EngineError::Invalid {
                message: format!("cannot label step {step}: the run has {} steps", run.steps),
                hint: "name a step of the run, or none".into(),
            });
        }
        let annotator = request.annotator.trim();
        match request.solved {
            None => {
                store
                    .labels()
                    .remove_agent_run_label(&request.id, annotator)
                    .await?;
            }
            Some(solved) => {
                let row = AgentRunLabelRow {
                    run_id: request.id.clone(),
                    annotator: annotator.to_owned(),
                    solved,
                    loop_step: request.loop_step.map(i64::from),
                    created_at: now_micros(),
                };
                store.labels().put_agent_run_label(&row).await?;
            }
        }
        self.run_labels(&request.id).await
    }

    /// Returns the labels of an agent's run.
    pub async fn run_labels(self, id: &str) -> Result<AgentRunLabels, EngineError> {
        let store = self.engine.store().await?;
        let rows = store.labels().agent_run_labels(Some(id), LABELS).await?;
        let label = |row: AgentRunLabelRow| AgentRunLabel {
            run_id: row.run_id,
            annotator: row.annotator,
            solved: row.solved,
            loop_step: row.loop_step,
            created_at: crate::time(row.created_at),
        };
        Ok(AgentRunLabels {
            labels: rows.into_iter().map(label).collect(),
            labelled: store.labels().agent_run_label_count().await?,
        })
    }

    /// Stored runs with a label, as logs with an outcome. The latest label of a run counts.
    pub(crate) async fn labelled_trajectories(self) -> Result<Vec<Trajectory>, EngineError> {
        let store = self.engine.store().await?;
        let mut found: Vec<Trajectory> = Vec::new();
        let mut seen = BTreeSet::new();
        for label in store.labels().agent_run_labels(None, LABELS).await? {
            if !seen.insert(label.run_id.clone()) {
                continue;
            }
            let mut feed = Feed::new();
            for message in store.agent_runs().messages(&label.run_id).await? {
                feed.push(&message);
            }
            let mut trajectory = feed.finish();
            trajectory.id = Some(label.run_id);
            trajectory.outcome = Some(RunOutcome {
                solved: Some(label.solved),
                loop_noticed_at: label.loop_step.and_then(|step| usize::try_from(step).ok()),
                ..trajectory.outcome.unwrap_or_default()
            });
            found.push(trajectory);
        }
        Ok(found)
    }
}

fn not_found(what: &str, id: &str) -> EngineError {
    EngineError::NotFound {
        what: format!("{what} `{id}`"),
        hint: "see the list for known ids".into(),
    }
}
