//! Transitions of an expansion. Everything is checked before the state changes.

use serde_json::{Value, json};

use super::{
    Context, Event, Exemption, Expansion, ExpansionError, Justification, Observation, Phase, Proposal, verify,
};

impl Expansion {
    /// Applies the result of a step and returns the event for the ledger; a rejected result changes nothing.
    pub fn observe(
        &mut self,
        observation: Observation,
        context: &Context<'_>,
    ) -> Result<Event, ExpansionError> {
        // Work on a copy: an error must not leave a partial change.
        let mut next = self.clone();
        let event = next.step(observation, context)?;
        *self = next;
        Ok(event)
    }

    fn step(&mut self, observation: Observation, context: &Context<'_>) -> Result<Event, ExpansionError> {
        match (self.phase, observation) {
            (Phase::Research, Observation::Found(findings)) => {
                self.findings = Some(findings.clone());
                Ok(self.event("researched", &json!({"findings": findings})))
            }
            (Phase::Research | Phase::AwaitingApproval, Observation::Proposed { proposal, old, new }) => {
                check_version("current", &self.from_version, &old.version())?;
                if proposal.expansion_id != self.expansion_id {
                    return Err(ExpansionError::Version {
                        what: "expansion",
                        expected: self.expansion_id.clone(),
                        found: proposal.expansion_id.clone(),
                    });
                }
                proposal.check(&old, &new)?;
                let event = self.event(
                    "proposed",
                    &json!({"proposal_id": proposal.proposal_id, "proposal_hash": proposal.hash(),
                           "author": proposal.author, "to_version": proposal.diff.to}),
                );
                self.proposal = Some(*proposal);
                self.phase = Phase::AwaitingApproval;
                Ok(event)
            }
            // A second approval is accepted if the first expired before anything was changed.
            (Phase::AwaitingApproval | Phase::Archiving, Observation::Approved(approval)) => {
                verify(
                    &approval,
                    self.proposal()?,
                    context.keys,
                    context.spent,
                    context.now,
                )?;
                let event = self.event(
                    "approved",
                    &json!({"approval_id": approval.id(), "approval": approval}),
                );
                self.approval = Some(approval);
                self.phase = Phase::Archiving;
                Ok(event)
            }
            (Phase::Research | Phase::AwaitingApproval | Phase::Archiving, Observation::Rejected(ending)) => {
                check_ending(&ending)?;
                let event = self.event("rejected", &json!({"by": ending.by, "why": ending.why}));
                self.ended = Some(ending);
                self.phase = Phase::Rejected;
                Ok(event)
            }
            (Phase::Archiving, Observation::Archived(version)) => {
                // Last check before the harness is changed: the approval must still be valid for this
                // harness.
                if let Some(approval) = &self.approval {
                    // This expansion may already have recorded the approval as used.
                    let mut spent = context.spent.clone();
                    spent.remove(&approval.id());
                    verify(approval, self.proposal()?, context.keys, &spent, context.now)?;
                }
                check_version("archived", &self.from_version, &version)?;
                Ok(self.advance(
                    Phase::ApplyingThresholds,
                    "archived",
                    &json!({"version": version}),
                ))
            }
            (Phase::ApplyingThresholds, Observation::ThresholdsApplied) => {
                Ok(self.advance(Phase::AddingBenchmarks, "thresholds_applied", &Value::Null))
            }
            (Phase::AddingBenchmarks, Observation::BenchmarksAdded) => {
                Ok(self.advance(Phase::AddingEdgeCases, "benchmarks_added", &Value::Null))
            }
            (Phase::AddingEdgeCases, Observation::EdgeCasesAdded) => {
                let next = if self.proposal()?.new_cases().next().is_some() {
                    Phase::Enabling
                } else {
                    Phase::Verifying
                };
                Ok(self.advance(next, "edge_cases_added", &Value::Null))
            }
            (Phase::Enabling, Observation::Enabled(outcome)) => self.enabled(outcome),
            (Phase::Verifying, Observation::BaselineVerified { passes, detail }) => {
                if passes {
                    return Ok(self.advance(
                        Phase::Committing,
                        "baseline_verified",
                        &json!({"detail": detail}),
                    ));
                }
                Ok(self.roll_back(&format!("the system no longer passes at baseline: {detail}")))
            }
            (Phase::Committing, Observation::Committed(version)) => {
                check_version("committed", &self.proposal()?.diff.to, &version)?;
                self.applied_at = Some(context.now);
                Ok(self.advance(Phase::Logging, "committed", &json!({"version": version})))
            }
            (Phase::Logging, Observation::Logged) => Ok(self.advance(Phase::Done, "done", &Value::Null)),
            (phase, Observation::RollbackRequested(ending)) if phase.is_applying() => {
                check_ending(&ending)?;
                let event = self.event("rollback_requested", &json!({"by": ending.by, "why": ending.why}));
                self.ended = Some(ending);
                self.phase = Phase::RollingBack;
                Ok(event)
            }
            (Phase::RollingBack, Observation::Restored(version)) => self.restored(version, context),
            (phase, observation) => Err(ExpansionError::Unexpected {
                phase,
                got: observation.name(),
            }),
        }
    }

    fn enabled(&mut self, outcome: super::CaseOutcome) -> Result<Event, ExpansionError> {
        let proposal = self.proposal()?;
        let case_name = |case: &super::CaseRef| format!("{}/{}", case.suite, case.case_id);
        let (all, expected) = (
            proposal.new_cases().count(),
            proposal.new_cases().nth(self.outcomes.len()),
        );
        if expected != Some(&outcome.case) {
            return Err(ExpansionError::Order {
                expected: expected.map_or_else(|| "none".to_owned(), case_name),
                found: case_name(&outcome.case),
            });
        }
        let event = self.event(
            "enabled",
            &json!({"case": outcome.case, "passed": outcome.passed}),
        );
        self.outcomes.push(outcome);
        // Roll back as soon as more than half of the new cases have failed, whatever the rest would do.
        if 2 * self.failed() > all {
            let failed = self.failed();
            return Ok(self.roll_back(&format!(
                "{failed} of {all} new cases fail immediately; the expansion is too aggressive and needs calibration"
            )));
        }
        if self.outcomes.len() == all {
            self.phase = Phase::Verifying;
        }
        Ok(event)
    }

    fn restored(&mut self, version: String, context: &Context<'_>) -> Result<Event, ExpansionError> {
        check_version("restored", &self.from_version, &version)?;
        let Some(ending) = self.ended.clone() else {
            return Err(ExpansionError::Anonymous);
        };
        let exemption = Exemption {
            by: ending.by,
            why: ending.why,
            from_version: self.proposal()?.diff.to.clone(),
            to_version: version,
            at: context.now,
        };
        let event = self.event(
            "restored",
            &json!({"exemption": exemption, "flag": "FLAG_FOR_REVIEW"}),
        );
        self.exemption = Some(exemption);
        self.phase = Phase::RolledBack;
        Ok(event)
    }

    fn roll_back(&mut self, why: &str) -> Event {
        self.ended = Some(Justification {
            by: "satiety".to_owned(),
            why: why.to_owned(),
        });
        self.advance(
            Phase::RollingBack,
            "rollback",
            &json!({"why": why, "outcomes": self.outcomes}),
        )
    }

    fn advance(&mut self, phase: Phase, kind: &str, detail: &Value) -> Event {
        self.phase = phase;
        self.event(kind, detail)
    }

    fn event(&self, kind: &str, detail: &Value) -> Event {
        Event {
            kind: kind.to_owned(),
            body: json!({"expansion_id": self.expansion_id, "detail": detail}),
        }
    }

    fn proposal(&self) -> Result<&Proposal, ExpansionError> {
        self.proposal.as_ref().ok_or(ExpansionError::Unexpected {
            phase: self.phase,
            got: "step without a proposal",
        })
    }
}

impl Phase {
    /// Whether the harness is being changed; only then may the archived version be restored.
    pub fn is_applying(self) -> bool {
        matches!(
            self,
            Self::ApplyingThresholds
                | Self::AddingBenchmarks
                | Self::AddingEdgeCases
                | Self::Enabling
                | Self::Verifying
                | Self::Committing
        )
    }
}

impl Observation {
    fn name(&self) -> &'static str {
        match self {
            Self::Found(_) => "finding",
            Self::Proposed { .. } => "proposal",
            Self::Approved(_) => "approval",
            Self::Rejected(_) => "rejection",
            Self::Archived(_) => "archived version",
            Self::ThresholdsApplied => "applied thresholds",
            Self::BenchmarksAdded => "added benchmarks",
            Self::EdgeCasesAdded => "added cases",
            Self::Enabled(_) => "enabled case",
            Self::BaselineVerified { .. } => "baseline result",
            Self::Committed(_) => "committed version",
            Self::Logged => "log entry",
            Self::RollbackRequested(_) => "rollback request",
            Self::Restored(_) => "restored version",
        }
    }
}

fn check_ending(ending: &Justification) -> Result<(), ExpansionError> {
    if ending.by.trim().is_empty() || ending.why.trim().is_empty() {
        return Err(ExpansionError::Anonymous);
    }
    Ok(())
}

fn check_version(what: &'static str, expected: &str, found: &str) -> Result<(), ExpansionError> {
    if expected == found {
        return Ok(());
    }
    Err(ExpansionError::Version {
        what,
        expected: expected.to_owned(),
        found: found.to_owned(),
    })
}
