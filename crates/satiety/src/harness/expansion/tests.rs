use proptest::prelude::*;

use super::*;
use crate::bench::expected::{BenchmarkExpected, Mode};
use crate::bench::suite::{BenchmarkCase, BenchmarkSuite};
use crate::harness::approval::Statement;
use crate::harness::approval::tests::{at, key, ring, sign};
use crate::harness::cycles::Action;
use crate::harness::manifest::CaseEntry;
use crate::harness::manifest::tests::manifest;
use crate::harness::proposal::{Author, ExpansionProposals};

/// A stricter harness: one threshold, `edge` cases for an existing suite, `fresh` cases of a new one.
fn harder(old: &Manifest, edge: usize, fresh: usize) -> (Manifest, ExpansionProposals) {
    let mut new = old.clone();
    new.thresholds.get_mut("capability/pass").unwrap().value = 0.75;
    for (suite_id, count) in [("capability", edge), ("adversarial", fresh)] {
        let suite = BenchmarkSuite::new(suite_id);
        for index in 0..count {
            let id = format!("{suite_id}-{index}");
            let case = BenchmarkCase::new(&id, &id, BenchmarkExpected::with_value(Mode::Exact, "x"));
            let entry = CaseEntry::of(&suite, &case, &std::collections::BTreeMap::new());
            new.suites.entry(suite_id.into()).or_default().insert(id, entry);
        }
    }
    let content = ExpansionProposals {
        threshold_increases: vec![ThresholdIncrease {
            benchmark: "capability".into(),
            metric: Some("pass".into()),
            current: 0.7,
            proposed: 0.75,
            rationale: "always above .85".into(),
        }],
        ..ExpansionProposals::default()
    };
    (new, content)
}

struct World {
    expansion: Expansion,
    old: Manifest,
    new: Manifest,
    spent: BTreeSet<String>,
    events: Vec<Event>,
}

impl World {
    fn new(edge: usize, fresh: usize) -> Self {
        let old = manifest(2);
        let (new, content) = harder(&old, edge, fresh);
        let trigger = Consistency {
            is_consistent: true,
            action: Action::TriggerExpansionResearch,
            reason: Some("10 consecutive HIGH".into()),
            urgency: Urgency::High,
        };
        let mut world = Self {
            expansion: Expansion::triggered("exp-1", old.version(), &trigger, 0.86, at(0)),
            old,
            new,
            spent: BTreeSet::new(),
            events: Vec::new(),
        };
        let proposal = world.proposal(content);
        world.see(Observation::Found(json!({"ceiling": ["c0"]}))).unwrap();
        world.see(world.proposed(proposal)).unwrap();
        world
    }

    fn proposal(&self, content: ExpansionProposals) -> Proposal {
        Proposal::new(
            ("prop-1", "exp-1"),
            Author::Rules,
            at(0),
            content,
            &self.old,
            &self.new,
        )
        .unwrap()
    }

    fn proposed(&self, proposal: Proposal) -> Observation {
        Observation::Proposed {
            proposal: Box::new(proposal),
            old: Box::new(self.old.clone()),
            new: Box::new(self.new.clone()),
        }
    }

    fn see(&mut self, observation: Observation) -> Result<(), ExpansionError> {
        self.see_at(observation, at(2))
    }

    fn see_at(&mut self, observation: Observation, now: Timestamp) -> Result<(), ExpansionError> {
        let keys = ring();
        let context = Context {
            keys: &keys,
            spent: &self.spent,
            now,
        };
        // Store and reload at every step, as after an interruption.
        let text = serde_json::to_string(&self.expansion).unwrap();
        self.expansion = serde_json::from_str(&text).unwrap();
        let before = self.expansion.clone();
        match self.expansion.observe(observation, &context) {
            Ok(event) => {
                if event.kind == "approved" {
                    self.spent
                        .extend(self.expansion.approval.iter().map(Approval::id));
                }
                self.events.push(event);
            }
            Err(error) => {
                assert_eq!(self.expansion, before, "a rejected observation changes nothing");
                return Err(error);
            }
        }
        Ok(())
    }

    fn approval(&self) -> Approval {
        sign(
            Statement::about(self.expansion.proposal.as_ref().unwrap(), "Ada", at(1), at(25)),
            &key(1),
        )
    }

    /// Returns the report of a faithful executor for the next step; `passes` decides the results of new
    /// cases.
    fn faithful(&self, passes: &mut dyn FnMut() -> bool) -> Option<Observation> {
        Some(match self.expansion.next() {
            Step::Research | Step::Finished(_) => return None,
            Step::AwaitApproval(_) => Observation::Approved(self.approval()),
            Step::Archive { version } => Observation::Archived(version.to_owned()),
            Step::ApplyThresholds(_) => Observation::ThresholdsApplied,
            Step::AddBenchmarks(_) => Observation::BenchmarksAdded,
            Step::AddEdgeCases(_) => Observation::EdgeCasesAdded,
            Step::Enable(case) => Observation::Enabled(CaseOutcome {
                case: case.clone(),
                passed: passes(),
            }),
            Step::VerifyBaseline => Observation::BaselineVerified {
                passes: true,
                detail: "3 of 3".into(),
            },
            Step::Commit { version } => Observation::Committed(version.to_owned()),
            Step::Log => Observation::Logged,
            Step::Restore { version, .. } => Observation::Restored(version.to_owned()),
        })
    }

    fn run(&mut self, passes: &mut dyn FnMut() -> bool) {
        while let Some(observation) = self.faithful(passes) {
            self.see(observation).unwrap();
        }
    }
}

#[test]
fn the_specifications_eight_steps_in_order() {
    let mut world = World::new(1, 1);
    world.run(&mut || true);
    assert_eq!(world.expansion.phase, Phase::Done);
    assert_eq!(world.expansion.applied_at, Some(at(2)));
    let kinds: Vec<&str> = world.events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(
        kinds,
        [
            "researched",
            "proposed",
            "approved",
            "archived",
            "thresholds_applied",
            "benchmarks_added",
            "edge_cases_added",
            "enabled",
            "enabled",
            "baseline_verified",
            "committed",
            "done"
        ]
    );
    // Cases of new suites come first, one at a time.
    assert_eq!(world.expansion.outcomes[0].case.suite, "adversarial");
    let record = world.expansion.record().unwrap();
    assert_eq!(record.key, "eval-harness/saturation/expansions/exp-1");
    assert_eq!(record.value["human_approved"], true);
    assert_eq!(record.value["research_spawned"]["status"], "completed");
    assert_eq!(record.value["trigger_reason"], "10 consecutive HIGH");
    assert_eq!(record.tags["x-urgency"], "HIGH");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// More than half of the new cases failing rolls back; half or less does not, in any order.
    #[test]
    fn the_rollback_rule(results in prop::collection::vec(any::<bool>(), 1..9), edge in 0_usize..9) {
        let edge = edge.min(results.len());
        let mut world = World::new(edge, results.len() - edge);
        let mut queue = results.iter().copied();
        world.run(&mut || queue.next().unwrap());
        let failed = results.iter().filter(|passed| !**passed).count();
        let rolled_back = 2 * failed > results.len();
        prop_assert_eq!(world.expansion.phase, if rolled_back { Phase::RolledBack } else { Phase::Done });
        if rolled_back {
            let exemption = world.expansion.exemption.clone().unwrap();
            prop_assert_eq!(exemption.to_version, world.old.version());
            prop_assert!(!exemption.by.is_empty() && exemption.why.contains("fail immediately"));
        }
    }

    /// Observations in any order: nothing is applied without an approval, and only the proposed version is
    /// committed.
    #[test]
    fn no_order_of_reports_bypasses_approval(order in prop::collection::vec(0..12, 0..40), signed in any::<bool>()) {
        let mut world = World::new(1, 0);
        let case = world.expansion.proposal.as_ref().unwrap().edge_cases[0].clone();
        for index in order {
            let approval = if signed { world.approval() } else { sign(world.approval().statement, &key(9)) };
            let observation = match index {
                0 => Observation::Approved(approval),
                1 => Observation::Archived(world.old.version()),
                2 => Observation::ThresholdsApplied,
                3 => Observation::BenchmarksAdded,
                4 => Observation::EdgeCasesAdded,
                5 => Observation::Enabled(CaseOutcome { case: case.clone(), passed: true }),
                6 => Observation::BaselineVerified { passes: true, detail: String::new() },
                7 => Observation::Committed(world.new.version()),
                8 => Observation::Committed("other".into()),
                9 => Observation::Logged,
                10 => Observation::Restored("other".into()),
                _ => Observation::Archived("other".into()),
            };
            let _ = world.see(observation);
        }
        if !signed {
            prop_assert_eq!(world.expansion.phase, Phase::AwaitingApproval);
        }
        prop_assert_eq!(world.expansion.approval.is_some(), world.expansion.phase != Phase::AwaitingApproval);
    }
}

#[test]
fn invalid_observations_are_rejected() {
    let mut world = World::new(2, 0);
    // A proposal that weakens cannot be created; one whose record was modified is rejected.
    let mut weaker = world.old.clone();
    weaker.alpha = 0.5;
    let made = Proposal::new(
        ("p", "exp-1"),
        Author::Rules,
        at(0),
        ExpansionProposals::default(),
        &world.old,
        &weaker,
    );
    assert!(matches!(made, Err(ProposalError::Weaker(_))));
    let none = Proposal::new(
        ("p", "exp-1"),
        Author::Rules,
        at(0),
        ExpansionProposals::default(),
        &world.old,
        &world.old,
    );
    assert_eq!(none, Err(ProposalError::Nothing));
    let mut forged = world.expansion.proposal.clone().unwrap();
    forged.diff.changes.clear();
    assert_eq!(
        world.see(world.proposed(forged)),
        Err(ProposalError::Forged.into())
    );
    let mut words = world.expansion.proposal.clone().unwrap();
    words.content.threshold_increases[0].proposed = 0.71;
    assert!(matches!(
        world.see(world.proposed(words)),
        Err(ExpansionError::Proposal(ProposalError::Disagrees { .. }))
    ));

    // The harness was changed by hand in the meantime: the archive does not match the start of the proposal.
    let approval = world.approval();
    world.see(Observation::Approved(approval.clone())).unwrap();
    assert!(matches!(
        world.see(Observation::Archived("edited".into())),
        Err(ExpansionError::Version { .. })
    ));
    // The approval expired before anything was changed; a new one is accepted.
    let archived = Observation::Archived(world.old.version());
    assert!(matches!(
        world.see_at(archived.clone(), at(30)),
        Err(ExpansionError::Approval(ApprovalError::Expired(_)))
    ));
    assert_eq!(
        world.see(Observation::Approved(approval)),
        Err(ApprovalError::Spent.into())
    );
    let proposal = world.expansion.proposal.clone().unwrap();
    let second = sign(Statement::about(&proposal, "Ada", at(2), at(40)), &key(1));
    world.see(Observation::Approved(second)).unwrap();
    world.see_at(archived, at(30)).unwrap();

    // While applying, a rejection is not possible, but a rollback by a named person with a reason is.
    let ending = Justification {
        by: "Ada".into(),
        why: "wrong day".into(),
    };
    assert!(matches!(
        world.see(Observation::Rejected(ending.clone())),
        Err(ExpansionError::Unexpected { .. })
    ));
    let anonymous = Justification {
        by: " ".into(),
        why: "x".into(),
    };
    assert_eq!(
        world.see(Observation::RollbackRequested(anonymous)),
        Err(ExpansionError::Anonymous)
    );
    for _ in 0..3 {
        let next = world.faithful(&mut || true).unwrap();
        world.see(next).unwrap();
    }
    let wrong = CaseOutcome {
        case: CaseRef {
            suite: "capability".into(),
            case_id: "capability-1".into(),
        },
        passed: true,
    };
    assert!(matches!(
        world.see(Observation::Enabled(wrong)),
        Err(ExpansionError::Order { .. })
    ));
    world.see(Observation::RollbackRequested(ending)).unwrap();
    assert!(matches!(
        world.see(Observation::Restored("older".into())),
        Err(ExpansionError::Version { .. })
    ));
    world.see(Observation::Restored(world.old.version())).unwrap();
    assert_eq!(world.expansion.phase, Phase::RolledBack);
    assert_eq!(world.expansion.exemption.as_ref().unwrap().by, "Ada");
    assert!(
        world
            .events
            .last()
            .unwrap()
            .body
            .to_string()
            .contains("FLAG_FOR_REVIEW")
    );
}

#[test]
fn a_failing_baseline_rolls_back_and_done_is_final() {
    let mut world = World::new(0, 0);
    while world.expansion.phase != Phase::Verifying {
        let next = world.faithful(&mut || true).unwrap();
        world.see(next).unwrap();
    }
    let mut failing = World {
        events: vec![],
        spent: BTreeSet::new(),
        expansion: world.expansion.clone(),
        old: world.old.clone(),
        new: world.new.clone(),
    };
    failing
        .see(Observation::BaselineVerified {
            passes: false,
            detail: "c1 fails".into(),
        })
        .unwrap();
    failing.run(&mut || true);
    assert_eq!(failing.expansion.phase, Phase::RolledBack);

    world.run(&mut || true);
    assert!(world.expansion.is_over());
    let late = Justification {
        by: "Ada".into(),
        why: "changed my mind".into(),
    };
    // After the commit the ratchet applies: no rollback is possible.
    assert!(matches!(
        world.see(Observation::RollbackRequested(late)),
        Err(ExpansionError::Unexpected { .. })
    ));
}

#[test]
fn a_person_may_reject() {
    let mut world = World::new(1, 0);
    world
        .see(Observation::Rejected(Justification {
            by: "Ada".into(),
            why: "too hard".into(),
        }))
        .unwrap();
    assert_eq!(world.expansion.next(), Step::Finished(Phase::Rejected));
    assert_eq!(world.expansion.record().unwrap().value["human_approved"], false);
}
