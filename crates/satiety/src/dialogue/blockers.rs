//! Detection of blockers by phrases and, with vectors, by similarity to prototype sentences.
//! Handles negation ("no blockers remain"), resolution, and work on missing things ("add missing tests").

use std::sync::Arc;

use super::lexicon::{self, Phrases, RoundWords};
use super::profile::{ActionRules, BlockerRules};
use super::vectors::{RoundVectors, cosine};
use super::wire::Round;

/// A text that mentions a blocker.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Blocker {
    pub(super) text: String,
    /// The matching phrase or prototype.
    pub(super) because: String,
    /// Cosine similarity to the prototype; `None` for a phrase match.
    pub(super) similarity: Option<f64>,
}

/// Blockers found in a round.
#[derive(Debug, Clone, Default)]
pub(super) struct BlockerState {
    /// Blockers that affect the decision.
    pub(super) blockers: Vec<Blocker>,
    /// Texts similar to a prototype without a blocking phrase.
    pub(super) evasions: Vec<Blocker>,
    /// Whether a decision of the round hands the matter over.
    pub(super) escalates: bool,
}

#[derive(Debug, Clone)]
pub(super) struct BlockerScan {
    phrases: Phrases,
    claim_phrases: Phrases,
    leading_phrases: Phrases,
    waiting_phrases: Phrases,
    escalations: Arc<[String]>,
    attributes: Phrases,
    negations: Phrases,
    negative_phrases: Phrases,
    resolutions: Phrases,
    work_verbs: Phrases,
    prototypes: Arc<[(String, Vec<f32>)]>,
    warns: f64,
    blocks: f64,
}

/// Number of words before a phrase that are searched for a negation.
const NEGATION_WINDOW: usize = 3;
/// Number of words after a phrase that are searched for a resolution.
const RESOLUTION_WINDOW: usize = 4;

impl BlockerScan {
    pub(super) fn new(rules: &BlockerRules, actions: &ActionRules) -> Self {
        Self {
            phrases: Phrases::new(&rules.phrases),
            claim_phrases: Phrases::new(&rules.claim_phrases),
            leading_phrases: Phrases::new(&rules.leading_phrases),
            waiting_phrases: Phrases::new(&rules.waiting_phrases),
            escalations: rules.escalations.clone().into(),
            attributes: Phrases::new(&rules.attributes),
            negations: Phrases::new(&rules.negations),
            negative_phrases: Phrases::new(&rules.negative_phrases),
            resolutions: Phrases::new(&rules.resolutions),
            work_verbs: Phrases::new(&actions.verbs),
            prototypes: Arc::default(),
            warns: rules.prototype_warns,
            blocks: rules.prototype_blocks,
        }
    }

    pub(super) fn set_prototypes(&mut self, prototypes: Vec<(String, Vec<f32>)>) {
        self.prototypes = prototypes.into();
    }

    pub(super) fn scan(
        &self,
        round: &Round,
        words: &RoundWords<'_>,
        vectors: Option<&RoundVectors>,
    ) -> BlockerState {
        let mut state = BlockerState::default();
        let outputs = &round.outputs;
        let lists = [
            (
                &outputs.open_questions,
                &words.questions,
                vectors.map(|vectors| &vectors.questions),
            ),
            (
                &outputs.next_actions,
                &words.actions,
                vectors.map(|vectors| &vectors.actions),
            ),
        ];
        for (texts, words, vectors) in lists {
            for (position, (text, words)) in texts.iter().zip(words).enumerate() {
                if let Some(because) = self.blocking_phrase(text, words) {
                    state.blockers.push(Blocker {
                        text: text.clone(),
                        because,
                        similarity: None,
                    });
                } else if let Some(vectors) = vectors {
                    self.match_prototypes(text, &vectors[position], &mut state);
                }
            }
        }
        for (claim, words) in outputs.claims.iter().zip(&words.claims) {
            let because = self
                .find_active(&self.claim_phrases, words)
                .or_else(|| first_phrase(&self.leading_phrases, words));
            if let Some(because) = because {
                state.blockers.push(Blocker {
                    text: claim.text.clone(),
                    because,
                    similarity: None,
                });
            }
        }
        for decision in &outputs.decisions {
            let folded = lexicon::folded(decision);
            state.escalates |= self.is_escalation(&folded);
            if let Some(because) = self.opening_phrase(&lexicon::words(&folded)) {
                state.blockers.push(Blocker {
                    text: decision.clone(),
                    because,
                    similarity: None,
                });
            }
        }
        state
    }

    /// Whether a decision begins by handing the matter over, such as "Escalate to legal".
    fn is_escalation(&self, folded: &str) -> bool {
        self.escalations.iter().any(|phrase| {
            folded
                .strip_prefix(phrase.as_str())
                .is_some_and(|rest| phrase.ends_with(':') || !rest.starts_with(char::is_alphanumeric))
        })
    }

    fn opening_phrase(&self, words: &[&str]) -> Option<String> {
        [&self.leading_phrases, &self.waiting_phrases]
            .into_iter()
            .find_map(|phrases| first_phrase(phrases, words))
    }

    fn blocking_phrase(&self, text: &str, words: &[&str]) -> Option<String> {
        let found = self
            .find_active(&self.phrases, words)
            .or_else(|| self.opening_phrase(words));
        found.or_else(|| {
            let mut occurrences = self.attributes.occurrences(words);
            occurrences
                .find(|(phrase, at)| {
                    !self.is_cancelled(words, phrase, *at) && !self.is_worked_on(text, words, *at)
                })
                .map(|(phrase, _)| phrase.join(" "))
        })
    }

    fn find_active(&self, phrases: &Phrases, words: &[&str]) -> Option<String> {
        phrases
            .occurrences(words)
            .find(|(phrase, at)| !self.is_cancelled(words, phrase, *at))
            .map(|(phrase, _)| phrase.join(" "))
    }

    fn is_cancelled(&self, words: &[&str], phrase: &[String], at: usize) -> bool {
        let end = at + phrase.len();
        let negated = !self.negative_phrases.contains(phrase)
            && self
                .negations
                .found_in(&words[at.saturating_sub(NEGATION_WINDOW)..at])
                .is_some();
        let resolved = self
            .resolutions
            .found_in(&words[end..words.len().min(end + RESOLUTION_WINDOW)])
            .is_some();
        negated || resolved
    }

    /// Whether the action's verb works on the attribute: true for "add missing tests", false for "the key is
    /// missing".
    fn is_worked_on(&self, text: &str, words: &[&str], at: usize) -> bool {
        const FUNCTION_WORDS: [&str; 10] = [
            "from", "for", "in", "on", "at", "and", "but", "so", "because", "to",
        ];
        let describes = words
            .get(at + 1)
            .is_some_and(|next| !FUNCTION_WORDS.contains(next))
            && !text.to_lowercase().contains(&format!("{}:", words[at]));
        describes && self.work_verbs.found_in(&words[..at]).is_some()
    }

    fn match_prototypes(&self, text: &str, vector: &[f32], state: &mut BlockerState) {
        let nearest = self
            .prototypes
            .iter()
            .map(|(prototype, other)| (cosine(vector, other), prototype))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((similarity, prototype)) = nearest.filter(|(similarity, _)| *similarity >= self.warns)
        else {
            return;
        };
        let blocker = Blocker {
            text: text.to_owned(),
            because: prototype.clone(),
            similarity: Some(similarity),
        };
        if similarity >= self.blocks {
            state.blockers.push(blocker.clone());
        }
        state.evasions.push(blocker);
    }
}

/// The phrase that `words` begins with.
fn first_phrase(phrases: &Phrases, words: &[&str]) -> Option<String> {
    let (phrase, _) = phrases.occurrences(words).find(|(_, at)| *at == 0)?;
    Some(phrase.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::Profile;
    use crate::dialogue::lexicon::RoundTexts;
    use crate::dialogue::wire::Outputs;
    use crate::text::stem::Vocabulary;

    fn found(scan: &BlockerScan, round: &Round, vectors: Option<&RoundVectors>) -> BlockerState {
        scan.scan(
            round,
            &RoundTexts::of(round).words(&mut Vocabulary::default()),
            vectors,
        )
    }

    fn blocks(profile: &str, question: &str) -> bool {
        let profile = Profile::built_in(profile).unwrap();
        let scan = BlockerScan::new(&profile.blockers, &profile.actions);
        let outputs = Outputs {
            open_questions: vec![question.to_owned()],
            ..Outputs::default()
        };
        !found(&scan, &Round::new(1, outputs), None).blockers.is_empty()
    }

    #[test]
    fn every_phrase_of_the_seed_blocks_in_both_profiles() {
        for text in [
            "Blocked: waiting for keys",
            "There is one blocker left",
            "Still waiting on the vendor",
            "The release depends on legal",
            "We need access to the sandbox",
            "We need permission from security",
            "We can't proceed like this",
            "The audit is a prerequisite",
            "The signing key is missing",
            "Missing approval from finance",
            "Deploy: credentials missing",
        ] {
            for profile in Profile::built_in_names() {
                assert!(blocks(profile, text), "{profile}: {text}");
            }
        }
    }

    #[test]
    fn negated_resolved_and_worked_on_phrases_do_not_block() {
        for text in [
            "No blockers remain",
            "The team was unblocked",
            "Add missing tests",
            "Update the docs with the missing flags",
            "Dismissing the old alert",
            "We are not blocked",
            "Are there any blockers?",
            "The blocker was removed on Monday",
            "Blocked thread pool is no longer blocked",
        ] {
            for profile in Profile::built_in_names() {
                if text.starts_with("Blocked thread") {
                    assert!(blocks(profile, text), "the first of two mentions blocks: {text}");
                } else {
                    assert!(!blocks(profile, text), "{profile}: {text}");
                }
            }
        }
        assert!(!blocks("default", "What do we do if blocked by the proxy?"));
    }

    #[test]
    fn waiting_for_data_blocks() {
        for text in [
            "Wait for data from the load test",
            "We have insufficient data to choose a vendor",
            "Need more data before we can decide",
            "Blocked on the security review",
            "Wait until the contract is signed",
        ] {
            assert!(blocks("default", text), "{text}");
        }
        assert!(!blocks("default", "Do not wait for data from the load test"));
        let profile = Profile::default();
        let scan = BlockerScan::new(&profile.blockers, &profile.actions);
        let state = |claim: &str, decision: &str| {
            let outputs = Outputs {
                claims: vec![claim.into()],
                decisions: vec![decision.to_owned()],
                ..Outputs::default()
            };
            let state = found(&scan, &Round::new(1, outputs), None);
            (state.blockers.len(), state.escalates)
        };
        assert_eq!(state("There is insufficient data to choose", "None"), (1, false));
        assert_eq!(
            state("The model overfits on insufficient data", "None"),
            (0, false)
        );
        assert_eq!(
            state("Wait until the page is visible before loading it", "None"),
            (0, false)
        );
        assert_eq!(state("The cache is cold", "Wait for the audit"), (1, false));
        assert_eq!(
            state("The cache is cold", "Escalate: legal has to choose"),
            (0, true)
        );
        assert_eq!(state("The cache is cold", "Escalate to legal"), (0, true));
        assert_eq!(
            state("The cache is cold", "Escalate alerts after five minutes"),
            (0, false)
        );
    }

    #[test]
    fn a_claim_blocks_only_if_it_is_about_the_speakers() {
        let profile = Profile::default();
        let scan = BlockerScan::new(&profile.blockers, &profile.actions);
        let blocker_count = |claim: &str| {
            let outputs = Outputs {
                claims: vec![claim.into()],
                ..Outputs::default()
            };
            found(&scan, &Round::new(1, outputs), None).blockers.len()
        };
        assert_eq!(blocker_count("We are blocked until the contract is signed"), 1);
        assert_eq!(blocker_count("A blocked thread waits on the lock"), 0);
        assert_eq!(blocker_count("The parser depends on two crates"), 0);
    }

    #[test]
    fn similarity_to_a_prototype_is_reported_and_blocks_above_a_higher_threshold() {
        let profile = Profile::default();
        let mut scan = BlockerScan::new(&profile.blockers, &profile.actions);
        scan.set_prototypes(vec![("held up".to_owned(), vec![1.0, 0.0])]);
        let outputs = Outputs {
            next_actions: vec!["auth comes later".to_owned()],
            ..Outputs::default()
        };
        let round = Round::new(1, outputs);
        for (cosine, blockers, evasions) in [(0.45, 0, 0), (0.55, 0, 1), (0.6, 1, 1)] {
            let vector = vec![cosine, (1.0_f32 - cosine * cosine).sqrt()];
            let vectors = RoundVectors::new("m", &round, vec![vector]).unwrap();
            let state = found(&scan, &round, Some(&vectors));
            assert_eq!(
                (state.blockers.len(), state.evasions.len()),
                (blockers, evasions),
                "{cosine}"
            );
        }
    }
}
