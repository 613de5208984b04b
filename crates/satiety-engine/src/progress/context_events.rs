//! Events that changed the context of an agent during its run: compactions that its log or its hooks report, and evictions
//! proposed for a context of the same name.

use satiety::eviction::EvictionProposal;
use satiety::trajectory::Step;

use super::StoredRun;
use crate::EngineError;
use crate::agent_hooks::{CompactionRecord, Host, stored_compactions};
use crate::eviction::RECENT_PROPOSALS;
use crate::handles::ProgressOperations;

/// Change of an agent's context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextEvent {
    /// Step (from 1) before which it happened; one more than the number of steps for a change after the last one.
    pub step: usize,
    pub kind: ContextChange,
    /// What was changed, in words.
    pub detail: String,
}

/// Kind of change of a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContextChange {
    /// The host replaced earlier turns by a summary.
    Compaction,
    /// Items were proposed for eviction; scope and id of the proposal.
    Eviction { scope_id: String, proposal_id: String },
}

impl ProgressOperations<'_> {
    /// Returns the changes of the context of a run in order of their steps.
    pub async fn context_events(self, run: &StoredRun) -> Result<Vec<ContextEvent>, EngineError> {
        let store = self.engine.store().await?;
        let id = &run.conversation_id;
        let mut events = logged(&run.actions);
        // Hooks store a session as `host:id`; runs are reported under either name.
        let names = Host::ALL.iter().map(|host| format!("{}:{id}", host.name()));
        for name in std::iter::once(id.clone()).chain(names) {
            if let Some(row) = store.hook_sessions().get(&name).await? {
                events.extend(stored_compactions(&row).iter().map(hooked));
            }
        }
        let proposals = store.eviction().latest_proposals(Some(id), RECENT_PROPOSALS);
        for row in proposals.await? {
            // A proposal of a later version may not be readable; the timeline is shown without it.
            if let Ok(proposal) = serde_json::from_str::<EvictionProposal>(&row.body) {
                events.push(proposed(&proposal, &run.actions));
            }
        }
        events.sort_by_key(|event| event.step);
        // A log and a hook may report the same compaction; the hook says more.
        events.dedup_by(|later, earlier| {
            let same = later.step == earlier.step
                && later.kind == ContextChange::Compaction
                && earlier.kind == ContextChange::Compaction;
            if same && later.detail.len() > earlier.detail.len() {
                std::mem::swap(&mut later.detail, &mut earlier.detail);
            }
            same
        });
        for event in &mut events {
            event.step = event.step.clamp(1, run.actions.len() + 1);
        }
        Ok(events)
    }
}

/// Compactions that the log of the agent contains.
fn logged(steps: &[Step]) -> Vec<ContextEvent> {
    let compacted = (1..).zip(steps).filter(|(_, step)| step.compacted);
    compacted
        .map(|(step, _)| ContextEvent {
            step,
            kind: ContextChange::Compaction,
            detail: String::new(),
        })
        .collect()
}

/// A compaction that a hook recorded.
fn hooked(record: &CompactionRecord) -> ContextEvent {
    let mut detail = format!("{}, about {} tokens of files", record.trigger, record.tokens);
    if !record.dropped.is_empty() {
        let dropped: Vec<&str> = record.dropped.iter().take(5).map(String::as_str).collect();
        detail = format!("{detail}; dropped {}", dropped.join(", "));
        if record.dropped.len() > dropped.len() {
            detail = format!("{detail} and {} more", record.dropped.len() - dropped.len());
        }
    }
    ContextEvent {
        step: record.steps + 1,
        kind: ContextChange::Compaction,
        detail,
    }
}

/// A proposal to evict, before the first step that began after it; by its turn if the steps have no times.
fn proposed(proposal: &EvictionProposal, steps: &[Step]) -> ContextEvent {
    let later = steps
        .iter()
        .position(|step| step.time.is_some_and(|time| time > proposal.proposed_at));
    let has_times = steps.iter().any(|step| step.time.is_some());
    let step = match later {
        Some(index) => index + 1,
        None if has_times => steps.len() + 1,
        None => usize::try_from(proposal.turn_number).unwrap_or(usize::MAX).max(1),
    };
    ContextEvent {
        step,
        detail: format!(
            "{} proposed, {} tokens to free {}",
            match proposal.candidates.len() {
                1 => "1 item".to_owned(),
                items => format!("{items} items"),
            },
            proposal.candidate_tokens,
            proposal.need_tokens
        ),
        kind: ContextChange::Eviction {
            scope_id: proposal.scope_id.clone(),
            proposal_id: proposal.proposal_id.clone(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compactions_of_logs_and_hooks_are_placed_before_a_step() {
        let steps = vec![
            Step::default(),
            Step {
                compacted: true,
                ..Step::default()
            },
        ];
        let events = logged(&steps);
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].step, 2);
        let record = CompactionRecord {
            at: jiff::Timestamp::UNIX_EPOCH,
            trigger: "auto".into(),
            steps: 7,
            tokens: 1200,
            kept: Vec::new(),
            dropped: (1..=7).map(|number| format!("file{number}.rs")).collect(),
        };
        let event = hooked(&record);
        assert_eq!(event.step, 8);
        assert!(event.detail.ends_with("file5.rs and 2 more"), "{}", event.detail);
    }
}
